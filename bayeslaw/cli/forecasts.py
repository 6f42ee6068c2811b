"""Commands that forecast losses and measure how well laws forecast: forecast, score, compare."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.core.errors import BayeslawError

if TYPE_CHECKING:
    import pandas as pd

    from bayeslaw.data.table import Runs
    from bayeslaw.evaluation.comparison import Comparison
    from bayeslaw.forecasting.forecast import Forecast
    from bayeslaw.forecasting.stack import Posterior
    from bayeslaw.laws.outcome import Outcome
    from bayeslaw.posterior.diagnostics import Check


def forecast(
    fit: options.FitPath,
    at: options.SettingsFile = None,
    set_: options.Ranges = None,
    column: options.Columns = None,
    mean: options.Mean = None,
    output: options.TableFile = None,
    plot: options.Picture = None,
    width: options.PictureWidth = None,
    measured: Annotated[
        Path | None, Option(help="Losses measured after the fit, drawn in the picture; rows that the fit has seen are left out.")
    ] = None,
    where: options.MeasuredWhere = None,
    x: Annotated[
        str | None,
        Option("--x", help="Horizontal axis of the picture: a covariate, or compute (6 N D) where settings have N and D."),
    ] = None,
    ci: options.Ci = 0.9,
    discrepancy: options.Discrepancy = None,
    as_: options.AsNew = "known",
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Forecast the loss at settings: first the interval to report, then the distance outside the runs."""
    from bayeslaw.core.text import counted, plain
    from bayeslaw.posterior.diagnostics import failures

    options.check_outputs("A forecast", output, plot, [fit, at, measured], width=width)
    options.check_settings(at, set_)
    if measured is not None and plot is None:
        raise BayeslawError(
            "--measured draws losses into the picture of --plot FILE.png: give that too, or score them by `bayeslaw score`.",
            code="measured-without-plot",
        )
    if x is not None and plot is None:
        raise BayeslawError("--x is the axis of a picture: give --plot FILE.png too.", code="axis-without-plot")
    loaded, answer = bayeslaw.load_fit(fit), Answer()
    of_settings, of_measured = options.columns_of_each(column, at, measured)
    runs = options.measured_runs(measured, of_measured, where)
    points = None if runs is None else _unseen(loaded, runs, answer)
    settings = settings_of(loaded, at, set_, of_settings)
    if at is not None:
        answer.read(settings)
    note_earlier_results(answer, settings)
    result = bayeslaw.forecast(loaded, settings, discrepancy=discrepancy, as_=as_, seed=seed, force=force)
    table, checks = result.summary(ci, progress=True), (*loaded.checks, *result.checks)

    draw = partial(bayeslaw.plots.plot_forecast, result, ci_prob=ci, measured=points, x=x)
    answer.save_picture(plot, draw, width=width)
    if mean is None:
        answer.save_table("forecast", table, output, counted(len(table), "setting"), plain(_shown(result, table)))
    else:
        averages = result.mean(mean).summary(ci)
        answer.save_table("averages", averages, output, f"{counted(len(averages), 'average')} over {mean}", joined=True)
    answer.say(*_reported(result), *_two_fits(result.headlines, table, ci))
    later = result.readings.count("known run")
    if later and not any(member.fit.noise.drift for member in result.members):
        answer.say(
            f"note: {counted(later, 'later row')} of fitted runs: effects of runs stay as learnt; with normal-drift they change"
        )
    answer.say(*(str(check) for check in (*failures(loaded.checks), *result.checks) if not check.passed))
    answer.judge(checks)
    if loaded.concerns:
        answer.say(f"`bayeslaw show {shlex.quote(str(fit))}` says more of the concerns about the fit.")
    return answer


def settings_of(fit: Posterior, at: Path | None, set_: list[str] | None, columns: dict[str, str]) -> Runs:
    """Return the settings of a table, or those that `--set` names; `check_settings` has seen that one of them is given."""
    values = options.pairs_of("--set", set_, "NAME=VALUES, such as N=8.1e9 or D=1e9:2e11:20")
    if at is None:
        return replace(bayeslaw.read_runs(bayeslaw.grid(fit, values), columns=columns), name="the settings of --set")
    return bayeslaw.read_runs(at, columns=columns)


def note_earlier_results(answer: Answer, settings: Runs) -> None:
    """Say which columns of settings are left out, as results of an earlier forecast."""
    from bayeslaw.core.text import listed
    from bayeslaw.forecasting.results import earlier_results

    if columns := earlier_results(settings.frame):
        answer.say(f"note: columns of {settings.name} are results of an earlier forecast, and left out: {listed(columns, 3)}")


def _unseen(fit: Posterior, runs: Runs, answer: Answer) -> pd.DataFrame:
    """Return the measured outcomes of a table that a fit has not seen, and say how many it has."""
    from bayeslaw.core.text import counted
    from bayeslaw.evaluation.scores import held_rows

    try:
        held = held_rows([member for member, _ in fit.selections], runs)
    except BayeslawError as error:
        if error.code != "nothing-held-out":
            raise
        problem = f"All rows of {runs.name} are in the fit: give --measured losses that it has not seen, or leave it out"
        raise BayeslawError(f"{problem}; the picture shows fitted losses too.", code=error.code) from None
    answer.say(*(f"note: {note}" for note in held.notes))
    kinds = ((held.seen, "row", "in the fit"), (held.base, "base checkpoint", "(D = 0)"))
    for number, kind, which in kinds:
        if number:
            answer.say(
                f"note: {counted(number, kind)} of {runs.name} {which} {'is' if number == 1 else 'are'} not drawn as measured"
            )
    return held.runs.frame


def _shown(result: Forecast, table: pd.DataFrame) -> pd.DataFrame:
    """Return the columns to print: the settings, the spread to report with its interval, another, and how far outside they lie.

    `extrapolation` says in words how far; what is the same in all rows is in the lines below, or usual. Intervals with a
    discrepancy that nobody stated are in the file and in JSON alone.
    """
    from bayeslaw.core.text import with_intervals
    from bayeslaw.forecasting.results import result_column

    settings, joined = [*with_intervals(result.settings)], with_intervals(table)
    last = [*(["as"] if set(result.readings) != {"new run"} else []), "extrapolation", *(["checks"] if result.forced else [])]
    last = [result_column(result.settings, name) for name in last]
    if not result.beyond:
        spreads = [c for c in map(str, joined) if c not in settings and c.rpartition("_")[2].startswith("eti")]
        stated = [c for c in spreads if c.startswith("discrepancy")]
        others = [c for c in spreads if c not in stated]
        middle = "run_median" if result.discrepancy is None else "latent_median"  # a stated error has the median of the law
        return joined[[*settings, middle, *(stated if result.discrepancy is not None else []), *reversed(others), *last]]
    (eti,) = {str(c).rpartition("_")[2] for c in joined if str(c).startswith("latent_eti")}
    chosen = {name: [joined[f"{spread}_{name}"][i] for i, spread in enumerate(result.headlines)] for name in ("median", eti)}
    other = f"{'run' if 'extrapolated' in result.headlines else 'latent'}_{eti}"
    return joined[[*settings, result_column(result.settings, "headline")]].assign(**chosen, **joined[[other, *last]])


def _reported(result: Forecast) -> list[str]:
    """Say which spread to report; nothing where none was learnt, since all rows are then of one spread."""
    if not result.beyond:
        return []
    spreads, why = set(result.headlines), f"which has {result.error}"
    outside = "Rows outside the runs" + (", and those of new runs, whose schedules may be others" if result.of_schedules else "")
    if len(spreads) > 1:
        return [f"{outside}: report `extrapolated`, {why}; others: `run`."]
    if "extrapolated" not in spreads:
        return ["All rows lie inside the runs: report `run`."]
    return [f"{outside if result.of_schedules else 'All rows lie outside the runs'}: report `extrapolated`, {why}."]


def _two_fits(headlines: Sequence[str], table: pd.DataFrame, ci_prob: float) -> list[str]:
    """Say why the median to report lies outside the interval of `run`, where it does at some rows."""
    from bayeslaw.core.intervals import interval_names
    from bayeslaw.core.text import counted

    if "extrapolated" not in headlines:
        return []
    low, high = (table[f"run_{end}"] for end in interval_names("eti", ci_prob))
    reported = table.loc[[name == "extrapolated" for name in headlines], "extrapolated_median"]
    apart = int((~reported.between(low[reported.index], high[reported.index])).sum())
    if not apart:
        return []
    return [
        f"note: at {apart:,} of {counted(len(table), 'setting')} the median lies outside the interval of `run`. The two are of two "
        "fits: that of `run` takes the law for exact, and in that of `extrapolated` runs count less the farther they are from the "
        "largest."
    ]


def score(
    fit: options.FitPath,
    runs: options.RunsPath,
    column: options.Columns = None,
    where: options.Where = None,
    duplicates: options.Duplicates = "refuse",
    mean: options.Mean = None,
    csv: options.Csv = False,
    all_: options.All = False,
    discrepancy: options.Discrepancy = None,
    as_: options.AsNew = "known",
    in_sample: options.InSample = False,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Score the forecasts of a fit on held-out rows: each run, then error, bias, coverage, width and CRPS."""
    from bayeslaw.core.text import counted
    from bayeslaw.evaluation.scores import sample_note, scored
    from bayeslaw.posterior.diagnostics import concerns

    loaded = bayeslaw.load_fit(fit)
    held = bayeslaw.read_runs(runs, where, columns=options.columns_of(column), duplicates=duplicates)
    result = scored(loaded, held, discrepancy=discrepancy, as_=as_, seed=seed, in_sample=in_sample, force=force, mean=mean)
    outcome = loaded.outcome
    table, answer = result.table, Answer()
    answer.read(held)
    answer.note([note for note in (*result.notes, sample_note(table, held.name)) if note])
    if csv:
        answer.csv = table.to_csv(index=False)
        return answer
    add_runs(answer, result.runs, outcome, None if all_ else MOST_RUNS)
    answer.say("")
    if not all_:
        (row,) = table.to_dict("records")
        of = f"{counted(row['rows'], outcome.name)} of {counted(len(result.runs), 'run')} of {held.name}, {row['sample']}"
        answer.say(f"{of}, forecast by {row['law']} {conditions(row, (*loaded.checks, *result.checks))}")
    add_scores(answer, table, outcome, loaded.unit, all_=all_)
    answer.say(*(str(check) for check in concerns(result.checks)))
    if loaded.concerns:
        answer.say(f"`bayeslaw show {shlex.quote(str(fit))}` says more of the concerns about the fit.")
    return answer


def conditions(row: Mapping[Hashable, Any], checks: Sequence[Check] = ()) -> str:
    """Say by which spread and checks a row of scores is, which concerns these raise, and how many rows are not scored."""
    from bayeslaw.core.text import counted
    from bayeslaw.posterior.diagnostics import model_verdict

    left = row["base_rows_left_out"]
    model = model_verdict(checks) if checks and row["model"] == "concerns" else row["model"]
    verdicts = f"({row['spread']}; checks {row['checks']}, model {model})"
    return verdicts + (f"; {counted(left, 'row')} at D = 0 left out" if left else "")


def add_scores(answer: Answer, table: pd.DataFrame, outcome: Outcome, unit: str, *, all_: bool) -> None:
    """Add a table of scores of one row, and to the text all of them or the most important."""
    from bayeslaw.core.text import plain
    from bayeslaw.evaluation.scores import headlines, legend

    if all_:
        answer.show("scores", table, plain(table.T.set_axis(["value"], axis=1)))
        answer.say("", legend([*table], outcome))
    else:
        answer.results["scores"] = table
        answer.say(*(f"  {name:<9} {text}" for name, text in headlines(table, unit, outcome).items()))
        answer.say("--all has the other scores.")


MOST_RUNS = 12  # runs whose forecasts are printed: those with the largest errors


def add_runs(answer: Answer, runs: pd.DataFrame, outcome: Outcome, most: int | None) -> None:
    """Add the table of runs, the worst first, and how many of them are not printed."""
    from bayeslaw.core.text import plain, significant, with_intervals

    shown = with_intervals(runs if most is None else runs.head(most))
    single = bool((runs["rows"] == 1).all())
    inside = [
        ("yes" if count else "no") if single else f"{count} of {size}"
        for count, size in zip(shown["inside"], shown["rows"], strict=True)
    ]
    order = ["run", *([] if single else ["rows"]), outcome.name, "predicted", "eti90", "inside", "error"]
    text = plain(
        shown.assign(inside=inside, error=[f"{100 * e:+.2f}%" if outcome.relative else f"{e:+.2g}" for e in shown["error"]])[order]
    )
    last = "" if single else f"; {outcome.name}, predicted and eti90 are of each run's last row, inside and error of all its rows"
    answer.say(f"forecasts run by run, the largest error first{last}")
    answer.show("runs", runs, text)
    if len(runs) > len(shown):
        left = runs.iloc[len(shown) :]
        within, error = int((left["inside"] == left["rows"]).sum()), float(left["error"].abs().max())
        most_off = f"{100 * error:.2f}%" if outcome.relative else significant(error, 2)
        whole = "inside" if single else f"with all {outcome.plural} inside"
        answer.say(f"and {len(left)} more runs with errors of at most {most_off}, {within} of them {whole} (--all prints them)")


def compare(
    runs: options.RunsPath,
    law: Annotated[list[str], Option(help="A law to compare. Repeatable, or several separated by commas.")],
    holdout: Annotated[str | None, Option(help='Hold out the rows that meet this condition, such as "ptpp > 31".')] = None,
    by: Annotated[str | None, Option(help="Hold out the rows of each value of this column in turn.")] = None,
    loo: Annotated[bool, Option("--loo", help="Leave out one run after the other (the default).")] = False,
    at: Annotated[
        str | None,
        Option(help="Compare for these settings, a table or N=VALUES,D=VALUES, by forecasts beyond cuts in their direction."),
    ] = None,
    cuts: Annotated[int | None, Option(help="Number of cuts for --at, by default 5; fewer where there are fewer values.")] = None,
    column: options.Columns = None,
    where: options.Where = None,
    duplicates: options.Duplicates = "refuse",
    shares: options.Shares = None,
    noise: Annotated[list[str] | None, Option(help="A noise to fit every law with, as for `bayeslaw fit`. Repeatable.")] = None,
    noise_by: options.NoiseBy = None,
    pool: options.Pooled = None,
    output: Annotated[Path | None, Option("-o", "--output", help="Write the stack of the fits to this file (.nc).")] = None,
    plot: options.Picture = None,
    executor: options.Executor = "in-process",
    bootstrap: Annotated[int, Option(help="Number of resamples of whole runs, for the intervals of point fits.")] = 0,
    draws: options.Draws = 1000,
    tune: options.Tune = 500,
    chains: options.Chains = 4,
    starts: Annotated[int, Option(help="Number of starting points of each point fit.")] = 100,
    seed: options.Seed = 0,
    csv: options.Csv = False,
    all_: options.All = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> Answer:
    """Compare laws and noises on runs to which they were not fitted: their scores, and weights for a stack of them."""
    options.check_outputs("A stack", output, plot, ending=".nc")
    given = None if at is None else _settings(at)
    of_runs, of_settings = options.columns_of_each(column, runs, given if isinstance(given, Path) else None)
    read = partial(bayeslaw.read_runs, runs, where, columns=of_runs, duplicates=duplicates)
    laws, table = options.laws_and_table(law, read, shares)
    settings = bayeslaw.read_runs(given, columns=of_settings) if isinstance(given, Path) else given
    comparison = bayeslaw.compare(
        table, laws, noise=noise or ["auto"], holdout=holdout, by=by, loo=loo, at=settings,
        cuts=cuts, bootstrap=bootstrap, starts=starts, seed=seed, executor=executor, force=force, progress=not quiet,
        options={
            "draws": draws, "tune": tune, "chains": chains, "noise_by": noise_by,
            "by": options.pairs_of("--pool", pool, "PARAMETER=COLUMN, such as E=domain"),
        },
    )  # fmt: skip
    answer = Answer()
    answer.read(table)
    if output is not None:
        options.save_draws(comparison.stack, output)
        answer.last.append(f"{comparison.stack.name} written to {output}")
    try:
        answer.save_picture(
            plot,
            lambda ax: bayeslaw.plots.plot_comparison(comparison, ax),
            *(lambda ax, of=of: bayeslaw.plots.plot_scores(comparison, ax, of=of) for of in ("crps", "cover_eti90")),
            height=1.0 + 0.35 * (len(comparison.weights) + 1),
        )
    except BayeslawError as error:  # many fits took their time, and are answered for all the same
        answer.error = error
    if csv:
        answer.csv = comparison.scores.to_csv(index=False)
        answer.note(comparison.notes)
    else:
        _add_comparison(answer, comparison, all_=all_)
        if holdout is None and by is None and at is None:
            answer.say("Leaving out single runs judges laws between the runs: to choose one for forecasts beyond them, give --at.")
    return answer


def _add_comparison(answer: Answer, comparison: Comparison, *, all_: bool) -> None:
    """Add the scores of laws for each part that was held out, the weights of their stack, and notes."""
    from bayeslaw.evaluation.scores import ABSOLUTE, HEADLINES, legend

    outcome = comparison.stack.outcome
    first = HEADLINES if outcome.relative else ABSOLUTE
    parts = comparison.scores.groupby("held_out", sort=False)
    texts = [f"held out: {part}\n{_scores(scores, None if all_ else first)}\n" for part, scores in parts]
    answer.show("scores", comparison.scores, "\n".join(texts))
    answer.say(legend([*comparison.scores] if all_ else first, outcome), *([] if all_ else ["--all prints the other scores."]), "")
    if comparison.by:
        answer.say(f"{'relative ' * outcome.relative}CRPS of forecasts beyond cuts along {comparison.by}, and weights")
    else:
        answer.say("log predictive density of left-out runs, and stacking weights")
    answer.show("weights", comparison.weights.reset_index(drop=True))
    answer.say("")
    answer.note(comparison.notes)


def _scores(scores: pd.DataFrame, some: Sequence[str] | None) -> str:
    """Return the text of some scores with a line for each fit, or of all scores with a line for each of these."""
    from bayeslaw.core.text import plain

    names = ["law", "noise", "fit"]
    if some is None:
        fits = [" ".join(filter(None, row)) for row in zip(*(scores[name] for name in names), strict=True)]
        return plain(scores.drop(columns=["held_out", *names]).T.set_axis(fits, axis=1))
    varied = [name for name in names if name != "noise" or scores[name].nunique() > 2]  # point fits have no noise
    return plain(scores.reindex(columns=[*varied, "rows", *some, "spread", "checks", "model"]).reset_index(drop=True))


def _settings(text: str) -> Path | dict[str, str]:
    """Return the path of a table of settings, or the values of covariates in a text such as 'N=8.1e9,D=1e11,1e12'."""
    if not options.NAME_AND_VALUE.match(text):
        return Path(text)
    return options.pairs_of("--at", options.NEXT_NAME.split(text), "NAME=VALUES, such as N=8.1e9 or D=1e9:2e11:20")
