"""The command that forecasts by two fits, one after the other: chain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.cli.forecasts import note_earlier_results

if TYPE_CHECKING:
    import pandas as pd

    from bayeslaw.core.arrays import Array
    from bayeslaw.forecasting.chain import Chain
    from bayeslaw.forecasting.stack import Posterior


def chain(
    first: Annotated[Path, Argument(help="A fit of the quantity on which the second fit depends, such as the loss from N and D.")],
    second: Annotated[Path, Argument(help="A fit of the outcome, such as the accuracy from the loss.")],
    at: Annotated[Path | None, Option(help="A table of settings; measured outcomes in it are compared with the forecast.")] = None,
    set_: options.Ranges = None,
    column: options.Columns = None,
    mean: options.Mean = None,
    output: options.TableFile = None,
    plot: options.Picture = None,
    ci: options.Ci = 0.9,
    discrepancy: options.Discrepancy = None,
    as_: options.AsNew = "known",
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Forecast an outcome from the forecast of another fit, such as an accuracy from a loss, with the uncertainty of both."""
    from bayeslaw.core.text import counted, plain
    from bayeslaw.plots.chain import chain_panels

    options.check_outputs("A forecast", output, plot, [first, second, at])
    options.check_settings(at, set_)
    (of_settings,) = options.columns_of_each(column, at)
    first_fit, second_fit, answer = bayeslaw.load_fit(first), bayeslaw.load_fit(second), Answer()
    values = options.pairs_of("--set", set_, "NAME=VALUES, such as N=8.1e9 or D=1e9:2e11:20")
    settings = values if at is None else bayeslaw.read_runs(at, columns=of_settings)
    if not isinstance(settings, dict):
        answer.read(settings)
        note_earlier_results(answer, settings)
    result = bayeslaw.chain(first_fit, second_fit, settings, discrepancy=discrepancy, as_=as_, seed=seed, force=force)
    logged = None if isinstance(settings, dict) else settings.frame
    if plot is not None:
        answer.save_picture(plot, *chain_panels(result, ci_prob=ci, mean=mean, measured=logged))
    outcome = second_fit.outcome.name
    measured = None if logged is None or outcome not in logged else logged[outcome].to_numpy(dtype="float64")
    draws = result.predictive
    if mean is None:
        table = result.summary(ci)
        answer.save_table("forecast", table, output, counted(len(table), "setting"), plain(_shown(result, table, outcome)))
    else:
        averages = result.mean(mean)
        table, draws = averages.summary(ci), averages.draws
        if measured is not None:
            measured = averages.measured(measured)
            if lacking := sum(value != value for value in measured):
                answer.say(f"{lacking} of {len(measured)} averages have rows without a measured {outcome}", "")
        answer.save_table("averages", table, output, f"{counted(len(table), 'average')} over {mean}", joined=True)
    if measured is not None:
        _add_scores(answer, measured, draws, second_fit)
    answer.say(
        f"`run` carries the forecast of {result.link} by {first_fit.name}, noise and errors of its law included, through "
        f"{second_fit.name}."
    )
    answer.say(*(str(check) for check in result.checks if not check.passed))
    answer.judge([*first_fit.checks, *second_fit.checks, *result.checks])
    return answer


def _shown(result: Chain, table: pd.DataFrame, outcome: str) -> pd.DataFrame:
    """Return the columns to print: the settings without a measured outcome, both medians, their intervals, and how far outside."""
    from bayeslaw.core.text import with_intervals
    from bayeslaw.forecasting.results import result_column

    joined, settings = with_intervals(table), [*with_intervals(result.settings)]
    intervals = [c for c in map(str, joined) if c not in settings and c.rpartition("_")[2].startswith("eti") and "latent" not in c]
    columns = [*settings, f"{result.link}_median", "run_median", *intervals]
    return joined[[c for c in columns if c != outcome] + [result_column(result.settings, "extrapolation")]]


def _add_scores(answer: Answer, values: Array, draws: Array, fit: Posterior) -> None:
    """Say how the forecasts lie to measured outcomes."""
    import numpy as np
    import pandas as pd

    from bayeslaw.evaluation.scores import draw_scores, headlines, point_scores

    known = np.isfinite(values)
    if not known.any():
        return
    values, draws = values[known], draws[:, known]
    scores = point_scores(values, np.median(draws, axis=0), fit.outcome) | draw_scores(values, draws, fit.outcome)
    table = pd.DataFrame([{"rows": values.size} | scores])
    answer.results["scores"] = table
    answer.say("", f"measured {fit.outcome.plural} in the table, against these forecasts:")
    answer.say(*(f"  {name:<9} {text}" for name, text in headlines(table, fit.unit, fit.outcome).items()), "")
