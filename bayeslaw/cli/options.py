"""Arguments and options that several commands have, each declared once, and functions that read their texts."""

from __future__ import annotations

import re
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, BadParameter, Option

from bayeslaw.core.errors import BayeslawError

if TYPE_CHECKING:
    from bayeslaw.data.table import Runs
    from bayeslaw.forecasting.stack import Stack
    from bayeslaw.laws.law import Law
    from bayeslaw.posterior.fit import Fit

NAME_AND_VALUE = re.compile(r"\s*\w*\s*=")
NEXT_NAME = re.compile(r",(?=\s*\w+\s*=)")  # the comma before it


def amount(text: str) -> float:
    """Return the number that an option writes, such as 1e10 or 10B, or refuse it by the text that was given."""
    from bayeslaw.core.text import number

    try:
        return number(text)
    except ValueError:
        raise BadParameter(f"{text!r} is not a number, such as 2.5, 1e10 or 10B") from None


# --- files ----------------------------------------------------------------------------------------------------------

FitPath = Annotated[Path, Argument(help="A fit or a stack, written by `bayeslaw fit` or `bayeslaw compare`.")]
RunsPath = Annotated[Path, Argument(help="A table of losses (.csv, .tsv, .parquet or .jsonl) with one evaluation in each row.")]
Where = Annotated[
    str | None,
    Option(
        help="Use only the rows that meet this condition, such as \"ptpp <= 31 and domain == 'target'\"; `last` is the last row of "
        "each run."
    ),
]
MeasuredWhere = Annotated[
    str | None, Option("--where", help="Use only the rows of --measured that meet this condition, such as \"domain == 'target'\".")
]
Duplicates = Annotated[
    Literal["refuse", "drop", "keep"],
    Option(help="What to do with rows that repeat others exactly, in run, settings and loss: refuse, drop or keep."),
]
Columns = Annotated[
    list[str] | None,
    Option(
        "--column",
        help="Our name for a column of the table, and its unit: N=model_size_M:M, D=tokens_seen:B, loss=val/ppl:perplexity. Units "
        "are K, M, B, T, % or a factor such as 1e6. Repeatable.",
    ),
]
TableFile = Annotated[Path | None, Option("-o", "--output", help="Write the table to this file (.csv) instead of printing it.")]
NewTable = Annotated[Path, Option("-o", "--output", help="The file to write the table to (.csv).")]
NewFit = Annotated[Path, Option("-o", "--output", help="The file to write the fit to (.nc).")]
Picture = Annotated[Path | None, Option("--plot", help="Write a picture to this file (.png, .pdf or .svg).")]
PictureWidth = Annotated[
    float | None,
    Option("--width", help="Width of the picture in inches, such as 3.3 for a column of a paper; letters keep their size."),
]
Csv = Annotated[bool, Option("--csv", help="Print comma-separated values in full precision.")]

# --- fits and forecasts ---------------------------------------------------------------------------------------------

Priors = Annotated[
    list[str] | None,
    Option("--prior", help='Use this prior of a parameter of law or noise instead of its own: "E=LogNormal(0.5,0.2)". Repeatable.'),
]
Shares = Annotated[
    str | None, Option(help="The columns with the shares of your mixture, for a law of a mixture: web,code,books, or 'weight_*'.")
]
Reference = Annotated[str | None, Option(help="The share whose parameters are 0, in a law of a mixture.")]
NoiseName = Annotated[
    str,
    Option(
        "--noise",
        help="auto, normal, normal-drift, normal-checkpoint, skew, student, normal-no-run or student-no-run; for shares of counted "
        "items, beta-binomial or beta-binomial-no-run.",
    ),
]
Pooled = Annotated[list[str] | None, Option(help="A parameter that is pooled over a column, such as E=domain. Repeatable.")]
NoiseBy = Annotated[str | None, Option(help="A column: runs with the same value in it share noise parameters.")]
Bins = Annotated[float | None, Option(help="Put long curves into bins of this width, in e-folds of D (factors of 2.7).")]
Draws = Annotated[int, Option(help="Number of draws that each chain keeps.")]
Tune = Annotated[int, Option(help="Number of tuning draws of each chain.")]
Chains = Annotated[int, Option(help="Number of chains.")]
TargetAccept = Annotated[
    float | None,
    Option(help="Acceptance rate that step sizes are tuned to, from 0.5 to below 1: closer to 1, such as 0.998, for divergences."),
]
Seed = Annotated[int, Option(help="The seed of the random numbers: the same seed gives the same results.")]
Executor = Annotated[
    str, Option(help="Where the work runs: in-process, processes, processes:4 or the address of a Dask scheduler.")
]
Ci = Annotated[float, Option("--ci", help="Probability of the equal-tailed intervals.")]
Discrepancy = Annotated[
    str | None,
    Option(
        help="Error of the law outside the runs: learned (the default) is what the fit learnt, none assumes an exact law, and "
        "1% or 0.01 is a relative size that you state."
    ),
]
Learning = Annotated[
    Literal["learned", "none"],
    Option(
        "--discrepancy",
        help="learned: also learn the error of the law, which forecasts outside the runs include; none: assume an exact law.",
    ),
]
LearntErrors = Annotated[
    Literal["learned", "none"],
    Option("--discrepancy", help="Whether losses beyond the runs include the learnt errors of the laws, or laws count as exact."),
]
As = Annotated[
    Literal["known", "new-run", "new-checkpoint"],
    Option(
        "--as",
        help="How to forecast rows of fitted runs and checkpoints: known uses their learnt effects; the others treat them as new.",
    ),
]
AsNew = Annotated[
    Literal["known", "new-run", "new-checkpoint", "new-group"],
    Option(
        "--as",
        help="How to forecast rows of fitted runs and checkpoints: known uses their learnt effects; the others treat them as new. "
        "new-group also allows values that no fitted row has, in a column by which parameters differ.",
    ),
]
Mean = Annotated[
    str | None,
    Option("--mean", help="Average over the values of this column, such as task; errors that its rows share remain."),
]
InSample = Annotated[bool, Option("--in-sample", help="Also score rows that the fit has seen; the scores are marked as in-sample.")]
Force = Annotated[bool, Option("--force", help="Continue although checks failed, and mark the results.")]
All = Annotated[bool, Option("--all", help="Print all scores and all runs, not only the most important.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Show no progress.")]

# --- settings and decisions -----------------------------------------------------------------------------------------

SettingsFile = Annotated[Path | None, Option(help="A table of settings to forecast.")]
Ranges = Annotated[
    list[str] | None, Option("--set", help="Values of a covariate: N=8.1B, r=0.1,0.25 or D=1e9:2e11:20. Repeatable.")
]
Set = Annotated[list[str] | None, Option("--set", help="The value of a covariate of the laws, such as N=8.1e9. Repeatable.")]
Served = Annotated[
    str | None,
    Option(help="Tokens that the model will serve: 2e12, the interval 1e12:4e12:90%, or a prior such as LogNormal(28,0.5)."),
]
Device = Annotated[
    list[str] | None,
    Option(
        help="The device, which turns FLOPs into hours: peak=312e12 (FLOP/s) and utilisation=0.5; served-peak and "
        "served-utilisation if serving differs. Numbers, intervals or priors as for --served. Repeatable."
    ),
]
MaxHours = Annotated[
    float | None, Option(parser=amount, metavar="NUMBER", help="Budget of device hours, serving included; needs --device.")
]
BudgetOfRuns = Annotated[
    float | None,
    Option(parser=amount, metavar="NUMBER", help="What the bought runs may cost together, in the unit of their costs (FLOPs)."),
]
Stages = Annotated[str | None, Option(help="Stages with frozen parameters, as shares TOKENS:TRAINABLE, such as 0.4:0.034,0.6:0.5.")]

# --- training dynamics ----------------------------------------------------------------------------------------------

LOG_KINDS = (
    "wandb, tensorboard, mlflow, trainer, jsonl, text, wide or table"  # as `data.logs.mapping.KINDS`, which is slow to import
)
SCHEDULES = (
    "constant, linear, cosine, wsd, multistep or inverse_sqrt, such as cosine:steps=10000,peak=2e-4,final=0.1,warmup=100; "
    "or logged:FILE.csv"
)
RunColumn = Annotated[str, Option("--run", help="The column that names the runs.")]
LossColumns = Annotated[list[str] | None, Option("--losses", help="A column of losses, such as source_loss. Repeatable.")]
Memory = Annotated[float | None, Option(help="The factor lambda of the annealing area S2; by default that of the fit's areas.")]
Adapt = Annotated[str, Option(help=f"Schedule of the adaptation: {SCHEDULES}.")]
Pretrain = Annotated[str | None, Option(help="Schedule of the pre-training before the adaptation.")]
Warmup = Annotated[
    list[str] | None, Option(help="Steps of warm-up before the logs of curves begin: 2160, or RUN=2160; repeatable.")
]
CurvesFile = Annotated[Path | None, Option(help="Logged curves; --from names the run from which the adaptation begins.")]
From = Annotated[str | None, Option("--from", help="The run of --curves from which the adaptation begins: RUN or RUN@STEP.")]
Open = Annotated[bool, Option("--open", help="The schedule of the pre-training is unknown, as for an open model.")]


@dataclass(frozen=True)
class Beginning:
    """Options that say where an adaptation begins; a command has all of them by a parameter of this type (`answer.answering`)."""

    pretrain: Pretrain = None
    curves: CurvesFile = None
    warmup: Warmup = None
    from_: From = None
    open_: Open = False
    memory: Memory = None

    @property
    def stated(self) -> bool:
        """Whether an adaptation is asked for: any of the options that name its beginning is given."""
        return self.pretrain is not None or self.curves is not None or self.from_ is not None or self.open_


Steps = Annotated[str | None, Option(help="Steps to forecast, such as 100,1000,10000; by default 20 evenly spaced steps.")]
Source = Annotated[Path, Option(help="A fit of the source domain's losses.")]
Target = Annotated[Path, Option(help="A fit of the target domain's losses.")]


def pairs_of(option: str, texts: list[str] | None, form: str = "NAME=VALUE") -> dict[str, str]:
    """Return the names and values of an option that is given once for each name.

    Parameters
    ----------
    option, texts, form
        The name of the option, what was given, and the form that it must have, for the error.
    """
    pairs: dict[str, str] = {}
    for text in texts or []:
        name, value = (part.strip() for part in text.partition("=")[::2])
        if not name or not value:
            raise BayeslawError(f"{option} {text!r} is not of the form {form}.", code="not-a-pair")
        if name in pairs:
            raise BayeslawError(f"{option} gives {name} twice: {pairs[name]!r} and {value!r}.", code="given-twice")
        pairs[name] = value
    return pairs


def named_files(texts: Sequence[str], twice: str, alone: str = "") -> dict[str, Path]:
    """Return files by their names, as web=web.nc gives one.

    Parameters
    ----------
    texts : sequence of str
    twice : str
        The error for two files of one name, which stands in it as {name}.
    alone : str
        The name of a file that is given by itself and without one; otherwise a file without a name is called by its stem.
    """
    files: dict[str, Path] = {}
    for text in texts:
        name, sign, path = text.partition("=")
        if not sign:
            name, path = (alone if alone and len(texts) == 1 else Path(text).stem), text
        if name in files:
            raise BayeslawError(twice.format(name=name), code="given-twice")
        files[name] = Path(path)
    return files


def columns_of(texts: list[str] | None) -> dict[str, str]:
    """Return the columns that `--column` names, by our names."""
    return pairs_of("--column", texts, "NAME=COLUMN or NAME=COLUMN:UNIT, such as N=model_size_M:M")


def measured_runs(path: Path | None, columns: dict[str, str], where: str | None) -> Runs | None:
    """Return the rows of the table of `--measured` that meet a condition, None if no table is given."""
    from bayeslaw.data.table import read_runs

    if path is not None:
        return read_runs(path, where, columns=columns)
    if where is not None:
        raise BayeslawError("--where chooses rows of --measured: give that table too.", code="where-without-table")
    return None


def columns_of_each(texts: list[str] | None, *paths: Path | None) -> list[dict[str, str]]:
    """Return the columns that `--column` names in each of several tables; those of a table that isn't given are none."""
    from bayeslaw.data.table import columns_of_each

    given = [path for path in paths if path is not None]
    if texts and not given:
        raise BayeslawError("--column names columns of a table, and none is given.", code="column-without-table")
    each = iter(columns_of_each(given, columns_of(texts)))
    return [{} if path is None else next(each) for path in paths]


def laws_named(text: str) -> list[str]:
    """Return the names or paths of laws that are separated by commas; a path may have commas itself."""
    return [text] if Path(text).is_file() else [name.strip() for name in text.split(",")]


def laws_and_table(
    texts: Sequence[str], read: Callable[[], Runs], shares: str | None, reference: str | None = None
) -> tuple[list[Law], Runs]:
    """Return the laws named in some texts, and the table.

    Laws come first, so that a table in the place of a law is an error that says so, unless shares are those columns of the table
    that match a pattern, such as 'weight_*'.
    """
    from bayeslaw.laws.card import load_law

    pattern = shares is not None and "*" in shares
    table = read() if pattern else None
    if shares is not None and table is not None:
        shares = ",".join(_matching(shares, [str(column) for column in table.frame]))
    names = [name for text in texts for name in laws_named(text)]
    laws = [load_law(name, shares=shares, reference=reference) for name in names]
    return laws, read() if table is None else table


def _matching(shares: str, columns: Sequence[str]) -> Iterator[str]:
    """Yield the columns that the parts of a text name, of which some are patterns."""
    from bayeslaw.data.columns import columns_there

    for part in shares.split(","):
        matching = [name for name in columns if fnmatchcase(name, part.strip())] if "*" in part else [part.strip()]
        if not matching:
            raise BayeslawError(
                f"No column matches --shares {part.strip()}; there are {columns_there(columns)}.", code="unknown-column"
            )
        yield from matching


def number_of(before: str, text: str) -> float:
    """Return a number; `before` is what stands before it in the command."""
    from bayeslaw.core.text import number

    try:
        return number(text)
    except ValueError:
        raise BayeslawError(f"{before}{text!r} is not a number.", code="not-a-number") from None


def check_settings(at: Path | None, set_: list[str] | None) -> None:
    """Refuse settings that are given in two ways or in none, and values of covariates in the place of a table."""
    if at is not None and NAME_AND_VALUE.match(str(at)) and not at.is_file():
        values = " ".join(f"--set {part.strip()}" for part in NEXT_NAME.split(str(at)))
        raise BayeslawError(f"--at is the name of a table here; values are given by --set: {values}.", code="values-for-a-table")
    if (at is None) == (not set_):
        raise BayeslawError(
            "Give the settings either by --at GRID.csv or by --set NAME=VALUES for each covariate.", code="settings-not-clear"
        )


def check_candidates(candidates: Path | None, budget: float | None) -> None:
    """Refuse runs that could be bought without a budget, and a budget without them."""
    if (candidates is None) != (budget is None):
        raise BayeslawError(
            "--candidates and --budget go together: which runs, and for how much.", code="candidates-without-budget"
        )


def check_used(together_with: str, **given: object) -> None:
    """Refuse options that do nothing, since another one that they need is not given.

    Parameters
    ----------
    together_with : str
        The options that they need, such as '--curves FILE --from RUN'.
    **given
        What was given for each option, by its name without dashes at the beginning; what is false was not given.
    """
    if unused := [f"--{name.rstrip('_').replace('_', '-')}" for name, value in given.items() if value]:
        verb = "does" if len(unused) == 1 else "do"
        raise BayeslawError(f"{' and '.join(unused)} {verb} nothing here without {together_with}.", code="option-without-use")


def check_once(paths: Sequence[Path]) -> None:
    """Refuse files of which one is given twice."""
    whole = [path.resolve() for path in paths]
    if twice := [path for i, path in enumerate(paths) if whole[i] in whole[:i]]:
        raise BayeslawError(f"{twice[0]} is given twice: give each file once.", code="given-twice")


TABLES_OF_RUNS = ("A table of runs", "A table of corrected runs")  # which may be made anew
# Names of columns that commands write and runs don't have.
OF_LOSSES = re.compile("(?i)(^|[_./ -])loss(es)?([_./ -]|$)")  # such as web_loss and loss_code
WRITTEN = re.compile("_(median|mean|sd|prob|lb|ub)$|^(checks|headline|extrapolation|spread)$")


def check_outputs(
    content: str,
    output: Path | None,
    plot: Path | None = None,
    inputs: Iterable[Path | None] = (),
    ending: str = ".csv",
    width: float | None = None,
) -> None:
    """Refuse output files that can't be written or that are inputs of the command, before any work is done.

    Parameters
    ----------
    content, output, ending
        What is written to `output`, such as 'A forecast', and the ending that this file must have.
    plot, inputs
        The file with the picture, and the files that the command reads.
    width : float, optional
        The width of the picture, which needs its file.
    """
    from bayeslaw.core.files import check_target
    from bayeslaw.plots.style import PICTURES

    if output is not None:
        check_target(output, content, ending)
        what = content[0].lower() + content[1:]
        if output.resolve() in [path.resolve() for path in inputs if path is not None]:
            raise BayeslawError(f"{output.name} is an input of this command: write {what} to another file.", code="output-is-input")
        if ending == ".csv" and content not in TABLES_OF_RUNS and _holds_runs(output):
            problem = f"{output.name} is a table of measured losses, which {what} would replace"
            raise BayeslawError(f"{problem}: write to another file, or remove that one.", code="output-holds-runs")
    if plot is not None:
        check_target(plot, "A picture", *PICTURES)
    elif width is not None:
        raise BayeslawError("--width is that of a picture: give --plot FILE.png too.", code="width-without-plot")


def _holds_runs(path: Path) -> bool:
    """Whether a file is a table of measured losses, and not one that a command has written."""
    from bayeslaw.data.columns import our_name

    if not path.is_file():
        return False
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        names = [name.strip().strip('"') for name in re.split("[,;\t]", file.readline())]
    measured = any(our_name(name) == "loss" or OF_LOSSES.search(name) for name in names)
    return measured and not any(WRITTEN.search(name) for name in names)


def save_draws(posterior: Fit | Stack, output: Path) -> None:
    """Write a fit or a stack; where its file can't be written any more, keep the draws in the folder for temporary files.

    A fit that Ctrl-C cut short is not written, so that it takes no other's place.
    """
    if any(fit.info["interrupted"] for fit, _ in posterior.selections):
        raise KeyboardInterrupt
    try:
        posterior.save(output)
    except BayeslawError as error:
        if error.code not in ("not-writable", "no-folder"):
            raise
        folder = Path(tempfile.gettempdir())
        kept = folder / f"bayeslaw-{uuid.uuid4().hex[:12]}.nc"
        try:
            posterior.save(kept)
        except BayeslawError:
            problem = f"{error} Its draws are lost: they could not be written into {folder} either."
            raise BayeslawError(problem, code="draws-lost") from None
        raise BayeslawError(f"{error} Its draws are kept in {kept}: move that file.", code="kept-elsewhere") from None


def warmups(texts: list[str] | None) -> int | dict[str, int]:
    """Return the steps of warm-up: one number for all runs, or RUN=STEPS for each."""
    if not texts:
        return 0
    if len(texts) == 1 and "=" not in texts[0]:
        return _steps(texts[0])
    return {name: _steps(value) for name, value in pairs_of("--warmup", texts, "RUN=STEPS, or give one number").items()}


def _steps(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BayeslawError(f"--warmup {text!r} is not a number of steps.", code="not-a-number") from None
