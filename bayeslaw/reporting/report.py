"""A report on fits: its contents as plain values, its pictures, and the page, JSON and LaTeX files made from these."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayeslaw.core.errors import BayeslawError, FitError, nearest, whole_number
from bayeslaw.core.files import as_path, check_target, make_folder, names_of, write_bytes, write_text
from bayeslaw.core.html import table
from bayeslaw.core.intervals import check_probability
from bayeslaw.core.text import counted, listed, once, short_lines
from bayeslaw.data.table import Runs, Table, read_runs
from bayeslaw.evaluation.reach import independent_runs
from bayeslaw.evaluation.scores import held_rows, transforms
from bayeslaw.forecasting.discrepancy import read_choice
from bayeslaw.forecasting.forecast import Forecast, forecast, forecast_selections
from bayeslaw.forecasting.grid import Settings, read_settings
from bayeslaw.forecasting.results import result_column
from bayeslaw.forecasting.stack import Posterior, Stack, by_label, errors_in_words, fits_of
from bayeslaw.plots.decisions import plot_confidence, plot_picks, width_column
from bayeslaw.plots.fit import plot_comparison, plot_coverage, plot_transforms
from bayeslaw.plots.forecast import forecast_axis, plot_forecast, text_names
from bayeslaw.plots.style import HEIGHT, WIDTH
from bayeslaw.posterior.fit import Fit
from bayeslaw.reporting.facts import INTERVAL, Facts, fit_facts, left_out, outcomes_of, score_facts, scores_table
from bayeslaw.reporting.figures import Picture, fit_pictures
from bayeslaw.reporting.methods import methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ABOVE = " The table above has the numbers."


@dataclass(frozen=True)
class Report:
    """The contents and pictures of a report.

    The facts are plain values of types that JSON has: the page and the LaTeX files have no number that is not in them.
    """

    facts: Facts
    pictures: Mapping[str, Picture]

    def __repr__(self) -> str:
        return short_lines(f"<{self.facts['title']}: {counted(len(self.pictures), 'picture')}; `save` writes it as .html or .json>")

    @property
    def json(self) -> str:
        """The facts as JSON."""
        return json.dumps(self.facts, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @property
    def html(self) -> str:
        """The page: one file that loads no other."""
        from bayeslaw.reporting.html import page

        return page(json.loads(self.json), {name: picture.bytes("svg") for name, picture in self.pictures.items()})

    @property
    def latex(self) -> dict[str, bytes]:
        """Files for a paper by name: tables and methods as .tex, pictures as .pdf, and report.tex, which shows them all."""
        from bayeslaw.reporting.latex import files

        return files(json.loads(self.json)) | {f"{name}.pdf": picture.bytes("pdf") for name, picture in self.pictures.items()}

    def save(self, path: str | Path) -> None:
        """Write the page (.html) or its numbers (.json); a killed write leaves an older file whole.

        Raises
        ------
        BayeslawError
            If the path has another ending, or can't be written.
        """
        path = as_path(path, "A report")
        check_target(path, "A report", ".html", ".json")
        write_text(path, self.html if path.suffix.lower() == ".html" else self.json)

    def save_latex(self, folder: str | Path) -> list[Path]:
        """Write the files for a paper into a folder, which is made where there is none, and return their paths.

        Raises
        ------
        BayeslawError
            If the folder can't be made or written into, or has a file of such a name that no report wrote ('would-overwrite').
        """
        from bayeslaw.reporting.latex import is_own

        folder, files = as_path(folder, "A folder"), self.latex
        others = [name for name in files if (folder / name).is_file() and not is_own((folder / name).read_bytes())]
        if others:
            what = f"files {listed(others, 3)}" if len(others) > 1 else f"a file {others[0]}"
            problem = f"The folder {folder.name} has {what} that bayeslaw did not write, and does not replace"
            way = "name another folder (--latex, in Python save_latex(folder)), or move what is there"
            raise BayeslawError(f"{problem}: {way}.", code="would-overwrite")
        make_folder(folder)
        for name, data in files.items():
            write_bytes(folder / name, data)
        return [folder / name for name in files]


def report(
    fits: Mapping[str, Posterior] | Posterior,
    *,
    files: Mapping[str, str] | None = None,
    at: Settings | None = None,
    measured: Table | None = None,
    stacks: Mapping[str, Stack] | None = None,
    scores: Mapping[str, pd.DataFrame] | None = None,
    picks: pd.DataFrame | None = None,
    frontier: pd.DataFrame | None = None,
    ci_prob: float = 0.9,
    discrepancy: float | str | None = None,
    seed: int = 0,
    force: bool = False,
    in_sample: bool = False,
    command: str = "",
) -> Report:
    """Report fits, forecasts and decisions without fitting again.

    Parameters
    ----------
    fits, files : mapping of label to Fit or Stack, to str
        Or one fit or stack, called by its name. Every member of a stack is reported; forecasts are those of the stack. `files`
        names the file that a fit came from.
    at, measured : Runs, DataFrame or path, optional
        Settings to forecast, also as values for `bayeslaw.grid`, and losses that the fits have not seen; forecasts of these are
        scored.
    stacks, scores : mapping of name to Stack, to DataFrame
        Results of `bayeslaw compare`.
    picks, frontier : DataFrame, optional
        Tables that `bayeslaw anchors -o` and `bayeslaw plan -o` write.
    ci_prob, discrepancy, seed
        As in `forecast`: probability of the equal-tailed intervals, errors that you state for the laws, seed of new runs' noise.
    force : bool
        Show intervals and forecasts of fits whose checks failed, marked, instead of withholding them.
    in_sample : bool
        Score rows of `measured` that a fit has seen too, marked, instead of leaving them out.
    command : str
        The command that makes the report, for its last section.

    Raises
    ------
    BayeslawError
        If an argument can't be used. A fit whose checks failed is reported without intervals, unless forced.

    Examples
    --------
    >>> report = bayeslaw.report({"chinchilla": bayeslaw.load_fit("fit.nc")})
    >>> report.facts["fits"][0]["law"]["name"]
    'chinchilla'
    >>> sorted(report.pictures)[:2]
    ['fit1-data', 'fit1-pairs']
    """
    check_probability(ci_prob)
    fits = by_label(fits)
    if not fits:
        raise BayeslawError("Give at least one fit to report on.", code="no-fit")
    files = {str(label): file for label, file in (files or {}).items()}
    if unknown := [label for label in files if label not in fits]:
        message = f"files names the file of {unknown[0]!r}, and there is no such fit.{nearest(unknown[0], fits)}"
        raise BayeslawError(message, code="unknown-fit")
    seed = whole_number("seed", seed, 0)
    read_choice(discrepancy)
    members = _members(fits)
    singles = {label: fit for label, (_, fit) in members.items()}
    at = None if at is None else read_settings([*singles.values()], at)
    measured = None if measured is None else read_runs(measured)
    options: dict[str, Any] = {"discrepancy": discrepancy, "seed": seed, "force": force}
    by_domain = {fit.law.one_domain: label for label, fit in singles.items() if fit.law.one_domain}
    if measured is not None and len(by_domain) > 1:
        domains = " and ".join(f"{label} describes losses of the {domain}" for domain, label in by_domain.items())
        raise BayeslawError(f"{domains}: report each by itself with the losses measured there.", code="measured-on-one-domain")
    interval = f"{ci_prob * 100:g}% {INTERVAL}"
    pictures: dict[str, Picture] = {}
    facts: Facts = {
        "title": "Report on " + ", ".join(singles), "bayeslaw": version("bayeslaw"), "command": command, "seed": seed,
        "ci_prob": ci_prob, "interval": interval, "discrepancy": None if discrepancy is None else str(discrepancy),
        "forced": force, "fits": [],
    }  # fmt: skip
    learnt = {id(fits_of(p)[name]): text for p in fits.values() for name, text in errors_in_words(p, ci_prob).items()}
    for number, (label, (given, fit)) in enumerate(members.items(), 1):
        shown = fit.passed or force
        stack = None if isinstance(fits[given], Fit) else given
        section = fit_facts(fit, label, files.get(given), stack, ci_prob, shown, learnt[id(fit)])
        section["methods"] = methods(section, interval, at is not None)
        own, note = fit_pictures(fit, label, number, ci_prob, force) if shown else ({}, "")
        facts["fits"].append(section | {"pictures": list(own), "note": note})
        pictures |= own
    facts["forecasts"], drawn = _forecasts(fits, at, measured, ci_prob, options)
    pictures |= drawn
    facts["comparison"], drawn = _comparison(
        fits, singles, measured, stacks or {}, scores or {}, options | {"in_sample": in_sample}
    )
    pictures |= drawn
    decisions, drawn = _decisions(picks, frontier)
    facts, pictures = facts | decisions, pictures | drawn
    facts["figures"] = {name: {"caption": picture.caption, "alt": picture.alt} for name, picture in pictures.items()}
    return Report(facts, pictures)


def _decisions(picks: pd.DataFrame | None, frontier: pd.DataFrame | None) -> tuple[Facts, dict[str, Picture]]:
    """Return the runs to buy and the plan, and their pictures; None where they were not given."""
    facts: Facts = {"anchors": None, "plan": None}
    pictures: dict[str, Picture] = {}
    if picks is not None:
        facts["anchors"] = {"table": table("Runs to buy, in order", picks), "pictures": ["anchors"], "width": width_column(picks)}
        caption = "Predicted width of the equal-tailed interval at the targets after each purchase, against the cost so far."
        pictures["anchors"] = Picture(caption, caption + ABOVE, (WIDTH, HEIGHT), lambda f: plot_picks(picks, f.subplots()))
    if frontier is not None:
        facts["plan"] = {"table": table("Tokens and replay for each confidence", frontier), "pictures": ["plan"]}
        caption = "Adaptation tokens, with the replay share, that the constraints need at each confidence."
        pictures["plan"] = Picture(caption, caption + ABOVE, (WIDTH, HEIGHT), lambda f: plot_confidence(frontier, f.subplots()))
    return facts, pictures


def _members(fits: Mapping[str, Posterior]) -> dict[str, tuple[str, Fit]]:
    """Return the single fits and the members of stacks by label, each with the label under which it or its stack was given.

    Single fits keep the labels that the user gave; a member of a stack with the label of another is called after its stack too.
    """
    singles = {label for label, posterior in fits.items() if isinstance(posterior, Fit)}
    labelled: dict[str, tuple[str, Fit]] = {}
    for label, posterior in fits.items():
        if isinstance(posterior, Fit):
            labelled[label] = (label, posterior)
            continue
        for name, fit in posterior.members.items():
            labelled[f"{name} ({label})" if name in singles or name in labelled else name] = (label, fit)
    return labelled


# --- forecasts -------------------------------------------------------------------------------------------------------


def _forecasts(
    fits: Mapping[str, Posterior], at: Runs | None, measured: Runs | None, ci_prob: float, options: Mapping[str, Any]
) -> tuple[list[Facts], dict[str, Picture]]:
    facts, pictures = list[Facts](), dict[str, Picture]()
    if at is None:
        return facts, pictures
    for number, (label, posterior) in enumerate(fits.items(), 1):
        try:
            result = forecast(posterior, at, **options)
            frame = result.summary(ci_prob)
        except FitError as error:
            facts.append({"label": label, "withheld": str(error), "checks": [], "table": None, "pictures": []})
            continue
        name, x = f"forecast{number}", forecast_axis(result)
        if result.settings[x].unique().size > 1:
            pictures[name] = _fan(result, label, x, _points(result, x, measured), ci_prob)
        # The page says in words how far settings are outside the runs; JSON has the distances too.
        # Intervals with a discrepancy that nobody stated are in JSON alone too.
        away = ("outside_",) if result.discrepancy is not None else ("outside_", "discrepancy")
        results = ["model"] if result.forced else ["model", "checks"]
        hidden = [c for c in map(str, frame) if c.startswith(away)] + [result_column(result.settings, name) for name in results]
        facts.append({
            "label": label, "checks": [str(c) for c in result.checks if not c.passed],
            "table": table(f"Forecasts by {label}{_unit(result)}", frame, hidden), "withheld": "",
            "pictures": [name] if name in pictures else [],
        })  # fmt: skip
    return facts, pictures


def _unit(result: Forecast) -> str:
    """Return what a forecast is of and its unit, for a caption; of losses the unit says it."""
    return f", {result.unit if result.outcome.is_loss else result.outcome.labelled(result.unit)}"


def _points(result: Forecast, x: str, measured: Runs | None) -> Runs | None:
    """Return the measured outcomes where they have the columns by which the curves of a forecast differ."""
    if measured is None:
        return None
    columns = [x, *(str(c) for c in result.outside if c != x), *text_names(result), result.outcome.name]
    return None if any(c not in measured.frame for c in columns) else measured


def _fan(result: Forecast, label: str, x: str, points: Runs | None, ci_prob: float) -> Picture:
    caption = f"Forecasts by {label}: median and {ci_prob * 100:g}% {INTERVAL} ({result.spread})"
    outcome = result.outcome
    hollow = f"; hollow: measured {outcome.plural}" if points is not None else ""
    return Picture(
        f"{caption}; hatched: outside the runs; small points: fitted {outcome.plural}{hollow}.",
        f"{outcome.heading} against {x} at the given settings, with intervals. The table of forecasts has the numbers.",
        (WIDTH, HEIGHT), lambda f: plot_forecast(result, f.subplots(), ci_prob=ci_prob, measured=points, x=x),
    )  # fmt: skip


# --- comparison ------------------------------------------------------------------------------------------------------


def _comparison(
    fits: Mapping[str, Posterior],
    singles: Mapping[str, Fit],
    measured: Runs | None,
    stacks: Mapping[str, Stack],
    scores: Mapping[str, pd.DataFrame],
    options: Mapping[str, Any],
) -> tuple[Facts, dict[str, Picture]]:
    """Return the comparison by left-out runs, scores on measured losses, and the given results of `bayeslaw compare`."""
    pictures: dict[str, Picture] = {}
    weights, notes = left_out(singles, bool(options["force"]))
    tables: list[Facts] = []
    if len(weights):
        tables.append(table("Fits by leaving out one run after the other", weights.reset_index()))
        caption = "How much worse than the best each fit predicts left-out runs, with one standard error, and stacking weights."
        size = (WIDTH, 1.2 + 0.4 * len(weights))
        pictures["comparison"] = Picture(caption, caption + ABOVE, size, lambda f: plot_comparison(weights, f.subplots()))
    if measured is not None:
        scored = score_facts(fits, measured, **options)
        notes += scored["notes"]
        tables += [scored["table"]] if scored["table"] else []
        if scored["table"] and (transformed := measured_transforms(fits, measured, scored["table"]["columns"], options)):
            pits, runs = transformed
            mark = " (IN-SAMPLE)" if "IN-SAMPLE" in scored["table"]["caption"] else ""
            outcome = next(iter(singles.values())).law.outcome
            shown = f"coverage of equal-tailed intervals, and the rank of each {outcome.name} in its forecast."
            caption = f"Calibration on the measured {outcomes_of(singles.values())}{mark}: {shown}"

            def draw(figure: Figure) -> None:
                above, below = figure.subplots(2, 1)
                plot_coverage(pits, above, runs=runs, outcome=outcome)
                plot_transforms(pits, below, outcome=outcome)

            pictures["calibration"] = Picture(caption, caption + " The scores above have the coverages.", (WIDTH, 2 * HEIGHT), draw)
    tables += [table(f"Weights in {name}", stack.table.reset_index()) for name, stack in stacks.items()]
    tables += [scores_table(f"Scores in {name}", frame) for name, frame in scores.items()]
    return {"tables": tables, "notes": once(notes), "pictures": list(pictures)}, pictures


def measured_transforms(
    fits: Mapping[str, Posterior], measured: Runs, scored: Sequence[str], options: Mapping[str, Any]
) -> tuple[dict[str, Any], int] | None:
    """Return the probability integral transforms of the measured outcomes under every scored fit, and as how many runs they count.

    These are the fewest `independent_runs` of a fit, each of which is scored on rows that it has not seen.

    Parameters
    ----------
    fits, measured, scored, options
        Fits by label, the outcomes, the labels of the fits that have scores, and discrepancy, seed and `in_sample` of the scores.
    """
    by_label, runs = {}, list[int]()
    sd, learned = read_choice(options["discrepancy"])
    for label, posterior in fits.items():
        if label not in scored:
            continue
        held = held_rows([fit for fit, _ in posterior.selections], measured, bool(options.get("in_sample"))).runs
        try:
            result = forecast_selections(posterior.name, posterior.selections, held, sd, int(options["seed"]), learned=learned)
        except FitError:  # the notes of the scores name it
            continue
        by_label[label if posterior.passed else f"{label} (FAILED)"] = transforms(
            held.frame[result.outcome.name].to_numpy(dtype="float64"), result.predictive
        )
        runs.append(independent_runs(held.frame) if "run" in held.frame else len(held))
    return (by_label, min(runs)) if by_label else None


def labels_of(paths: Sequence[Path], posteriors: Sequence[Posterior]) -> list[str]:
    """Return labels of fits: the names of their laws, with the names of the files where laws are the same."""
    names = [posterior.name if isinstance(posterior, Fit) else "stack" for posterior in posteriors]
    named = [n if names.count(n) == 1 else f"{n} ({file})" for n, file in zip(names, names_of(paths), strict=True)]
    return [n if named.count(n) == 1 else f"{n} {i}" for i, n in enumerate(named, 1)]
