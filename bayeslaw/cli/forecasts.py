"""Commands that forecast losses and measure how well laws forecast: forecast, score, compare."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.core.errors import BayeslawError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from bayeslaw.forecasting.forecast import Forecast


def forecast(
    fit: options.FitPath,
    at: Annotated[Path | None, Option(help="A table of settings to forecast.")] = None,
    set_: options.Ranges = None,
    column: options.Columns = None,
    output: options.TableFile = None,
    plot: options.Picture = None,
    ci: options.Ci = 0.9,
    discrepancy: options.Discrepancy = None,
    as_: options.As = "known",
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Forecast the loss at settings, with the interval to report first and the distance outside the data."""
    from bayeslaw.core.text import plain
    from bayeslaw.plots.forecast import forecast_axis
    from bayeslaw.posterior.diagnostics import failures

    options.check_outputs("A forecast", output, plot, [fit, at])
    if (at is None) == (not set_):
        raise BayeslawError(
            "Give the settings either by --at GRID.csv or by --set NAME=VALUES for each covariate.", code="settings-not-clear"
        )
    loaded, answer = bayeslaw.load_fit(fit), Answer()
    values = options.pairs_of("--set", set_, "NAME=VALUES, such as N=8.1e9 or D=1e9:2e11:20")
    settings = bayeslaw.read_runs(bayeslaw.grid(loaded, values) if at is None else at, columns=options.columns_of(column))
    result = bayeslaw.forecast(loaded, settings, discrepancy=discrepancy, as_=as_, seed=seed, force=force)
    table, checks = result.summary(ci, progress=True), (*loaded.checks, *result.checks)

    def draw(ax: Axes) -> None:
        bayeslaw.plots.plot_forecast(result, ax, ci_prob=ci, unit=loaded.covariates[forecast_axis(result)].unit)

    answer.save_picture(plot, draw)
    answer.save_table("forecast", table, output, f"{len(table)} settings", plain(_shown(result, table)))
    answer.say(*_reported(result))
    later = result.readings.count("known run")
    if later and not any(member.fit.noise.drift for member in result.members):
        answer.say(f"note: {later} rows continue fitted runs with the runs' learnt effects, which noise normal-drift lets change")
    answer.say(*(str(check) for check in (*failures(loaded.checks), *result.checks) if not check.passed))
    answer.judge(checks)
    if loaded.concerns:
        answer.say(f"`bayeslaw show {fit}` says more of the concerns about the fit.")
    return answer


def _shown(result: Forecast, table: pd.DataFrame) -> pd.DataFrame:
    """Return the columns to print: the settings, the spread to report with its interval, another, and how far outside they lie.

    `extrapolation` says in words how far; what is the same in all rows is in the lines below, or usual.
    """
    from bayeslaw.core.text import with_intervals

    last = [*(["as"] if set(result.readings) != {"new run"} else []), "extrapolation", *(["checks"] if result.forced else [])]
    joined = with_intervals(table)
    if not result.beyond:
        spreads = [c for c in joined if c == "latent_median" or str(c).rpartition("_")[2].startswith("eti")]
        return joined[[*result.settings, *spreads, *last]]
    (eti,) = {str(c).rpartition("_")[2] for c in joined if str(c).startswith("latent_eti")}
    headline, rows = joined["headline"], range(len(joined))
    chosen = {name: [joined[f"{headline[i]}_{name}"][i] for i in rows] for name in ("median", eti)}
    other = f"{'run' if 'extrapolated' in set(headline) else 'latent'}_{eti}"
    return joined[[*result.settings, "headline"]].assign(**chosen, **joined[[other, *last]])


def _reported(result: Forecast) -> list[str]:
    """Say which spread to report; nothing where none was learnt, since all rows are then of one spread."""
    if not result.beyond:
        return []
    spreads, why = set(result.headlines), f"which has {result.error}"
    if len(spreads) > 1:
        return [f"Rows outside the runs: report `extrapolated`, {why}; inside: `run`."]
    outside = "extrapolated" in spreads
    return [
        f"All rows lie outside the runs: report `extrapolated`, {why}."
        if outside
        else "All rows lie inside the runs: report `run`."
    ]


def score(
    fit: options.FitPath,
    runs: options.RunsPath,
    column: options.Columns = None,
    where: options.Where = None,
    csv: options.Csv = False,
    discrepancy: options.Discrepancy = None,
    as_: options.As = "known",
    in_sample: options.InSample = False,
    force: options.Force = False,
) -> Answer:
    """Score a fit's forecasts on held-out rows: errors, calibration, coverage, width, CRPS, log score, PIT."""
    from bayeslaw.core.text import plain
    from bayeslaw.evaluation.scores import LEGEND, sample_note

    held = bayeslaw.read_runs(runs, where, columns=options.columns_of(column))
    table = bayeslaw.score(bayeslaw.load_fit(fit), held, discrepancy=discrepancy, as_=as_, in_sample=in_sample, force=force)
    answer = Answer()
    if note := sample_note(table, held.name):
        answer.note([note])
    if csv:
        answer.csv = table.to_csv(index=False)
    else:
        answer.show("scores", table, plain(table.T.set_axis(["value"], axis=1)))
        answer.say("", LEGEND)
    return answer


def compare(
    runs: options.RunsPath,
    law: Annotated[list[str], Option(help="A law to compare. Repeatable.")],
    holdout: Annotated[str | None, Option(help='Hold out the rows that meet this condition, such as "ptpp > 31".')] = None,
    by: Annotated[str | None, Option(help="Hold out the rows of each value of this column in turn.")] = None,
    loo: Annotated[bool, Option("--loo", help="Leave out one run after the other, which is the default.")] = False,
    at: Annotated[
        str | None,
        Option(help="Choose for these settings, a table or N=VALUES,D=VALUES: by forecasts beyond cuts in their direction."),
    ] = None,
    column: options.Columns = None,
    where: options.Where = None,
    duplicates: options.Duplicates = "refuse",
    noise: Annotated[list[str] | None, Option(help="A noise to fit every law with, as for `bayeslaw fit`. Repeatable.")] = None,
    output: Annotated[Path | None, Option("-o", "--output", help="Write the stack of the fits to this file (.nc).")] = None,
    executor: options.Executor = "in-process",
    bootstrap: Annotated[int, Option(help="Number of resamples of whole runs, for the intervals of point fits.")] = 0,
    draws: options.Draws = 1000,
    tune: options.Tune = 500,
    chains: options.Chains = 4,
    starts: Annotated[int, Option(help="Number of starting points of each point fit.")] = 100,
    seed: options.Seed = 0,
    csv: options.Csv = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> Answer:
    """Compare laws and noises on runs they were not fitted to: every score, and the weights of a stack that forecasts."""
    from bayeslaw.core.text import plain
    from bayeslaw.evaluation.scores import LEGEND

    options.check_outputs("A stack", output, ending=".nc")
    table = bayeslaw.read_runs(runs, where, columns=options.columns_of(column), duplicates=duplicates)
    comparison = bayeslaw.compare(
        table, law, noise=noise or ["auto"], holdout=holdout, by=by, loo=loo, at=None if at is None else _settings(at),
        bootstrap=bootstrap, starts=starts, seed=seed, executor=executor, force=force, progress=not quiet,
        options={"draws": draws, "tune": tune, "chains": chains},
    )  # fmt: skip
    answer = Answer()
    if csv:
        answer.csv = comparison.scores.to_csv(index=False)
    else:
        texts = []
        for part, scores in comparison.scores.groupby("held_out", sort=False):
            names = [" ".join(filter(None, row)) for row in zip(scores["law"], scores["noise"], scores["fit"], strict=True)]
            turned = scores.drop(columns=["held_out", "law", "noise", "fit"]).T.set_axis(names, axis=1)
            texts.append(f"held out: {part}\n{plain(turned)}\n")
        answer.show("scores", comparison.scores, "\n".join(texts))
        answer.say(LEGEND, "")
        if comparison.by:
            answer.say(f"relative CRPS of forecasts beyond cuts along {comparison.by}, and weights")
        else:
            answer.say("log predictive density of left-out runs, and stacking weights")
        answer.show("weights", comparison.weights.reset_index(drop=True))
        answer.say("")
        answer.note(comparison.notes)
        if holdout is None and by is None and at is None:
            answer.say("Leaving out single runs judges laws between the runs: to choose one for forecasts beyond them, give --at.")
    if output is not None:
        options.save_draws(comparison.stack, output)
        answer.say(f"{comparison.stack.name} written to {output}")
    return answer


def _settings(text: str) -> Path | dict[str, str]:
    """Return the path of a table of settings, or the values of covariates in a text such as 'N=8.1e9,D=1e11,1e12'."""
    if not re.match(r"\s*\w*\s*=", text):
        return Path(text)
    return options.pairs_of("--at", re.split(r",(?=\s*\w+\s*=)", text), "NAME=VALUES, such as N=8.1e9 or D=1e9:2e11:20")
