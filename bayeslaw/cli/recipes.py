"""Commands of `bayeslaw dynamics` that ask a fit: forecast, best, turning, watch, combine, outside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayeslaw.cli.io import a_number, check_files, figure_first, pairs_of, put, save_or_show, show_table
from bayeslaw.core.errors import BayeslawError

if TYPE_CHECKING:
    import pandas as pd

    from bayeslaw.dynamics.recipe import Recipe

PAIRS = "NAME=VALUE"
SPEC = (
    "constant, linear, cosine, wsd, multistep, inverse_sqrt: cosine:steps=10000,peak=2e-4,final=0.1,warmup=100; or logged:FILE.csv"
)
Adapt = Annotated[str, typer.Option(help=f"Schedule of the adaptation. {SPEC}")]
Pretrain = Annotated[str | None, typer.Option(help="Schedule of the pre-training before it.")]
CurvesFile = Annotated[Path | None, typer.Option(help="Logged curves, of which --from names where the adaptation begins.")]
From = Annotated[str | None, typer.Option("--from", help="RUN or RUN@STEP of the curves.")]
Open = Annotated[bool, typer.Option("--open", help="The pre-training is unknown: an open model.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Another covariate of the laws, such as r=0.25; repeat for each.")]
Memory = Annotated[float, typer.Option(help="lambda of the annealing area, as in `dynamics areas`.")]
Ci = Annotated[float, typer.Option("--ci", help="Probability of the equal-tailed intervals.")]
Csv = Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the table (.csv); else it is printed.")]
Picture = Annotated[Path | None, typer.Option("--plot", help="Where to write a picture (.png, .pdf or .svg).")]
Force = Annotated[bool, typer.Option("--force", help="Go on in spite of failed checks; what comes out is marked.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same numbers.")]
Source = Annotated[Path, typer.Option(help="A fit of the source domain's losses.")]
Target = Annotated[Path | None, typer.Option(help="A fit of the target domain's losses.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `bayeslaw dynamics`."""
    for command in (forecast, best, turning, watch, combine, outside):
        app.command()(command)


def forecast(
    fit: Annotated[Path, typer.Argument(help="A fit or stack of laws of the dynamics.")],
    adapt: Annotated[
        str | None, typer.Option(help=f"Schedule of the adaptation; without it of the pre-training alone. {SPEC}")
    ] = None,
    pretrain: Pretrain = None,
    curves: CurvesFile = None,
    from_: From = None,
    open_: Open = False,
    steps: Annotated[str | None, typer.Option(help="Steps to forecast, 100,1000,10000; else the last and 20 on the way.")] = None,
    set_: Set = None,
    memory: Memory = 0.999,
    output: Csv = None,
    plot: Picture = None,
    ci: Ci = 0.9,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Forecast the loss along another schedule."""
    from bayeslaw.data.table import Runs
    from bayeslaw.forecasting.forecast import forecast as make_forecast
    from bayeslaw.forecasting.stack import load_fit
    from bayeslaw.plots.training import plot_transfer
    from bayeslaw.schedules.changes import wanted

    check_files("A table", output, plot, [fit, curves, *rates(pretrain, adapt)])
    if adapt is None and (pretrain is None or curves is not None or from_ is not None or open_):
        raise BayeslawError(
            "Without --adapt it is the pre-training that is forecast: give its --pretrain SCHEDULE, without --curves, --from and "
            "--open."
        )
    if adapt is None and plot is not None:
        raise BayeslawError("A picture of transfer curves needs an adaptation (--adapt).")
    posterior = load_fit(fit)
    if adapt is None:
        recipe = made_recipe(None, pretrain, "constant:steps=1,peak=1e-9", None, open_, set_, memory)
        at = chosen_steps(steps, length(str(pretrain)))
        table = recipe.pretraining(at, wanted(posterior.measured))
    else:
        recipe = made_recipe(curves, pretrain, adapt, from_, open_, set_, memory)
        at = chosen_steps(steps, len(recipe.schedule))
        table = recipe.rows(at)
    made = make_forecast(posterior, Runs(table, "the recipe"), seed=seed, force=force)
    found = made.summary(ci)
    with figure_first(plot, lambda ax: plot_transfer(recipe, posterior, ax, ci_prob=ci)):
        show(found, output)


def best(
    source: Source,
    target: Annotated[Path, typer.Option(help="A fit of the target domain's losses.")],
    adapt: Adapt,
    search: Annotated[
        list[str],
        typer.Option(help="What is chosen, and its range: peak=1e-4:2e-3, steps=…, potential=0:1, r=0:0.5; repeat for each."),
    ],
    weight: Annotated[
        list[float] | None, typer.Option(help="Weight of the source loss, the target has the rest; repeat for a curve.")
    ] = None,
    cvar: Annotated[
        float | None, typer.Option(help="Minimise the mean over this share of worst draws instead of the mean.")
    ] = None,
    pretrain: Pretrain = None,
    curves: CurvesFile = None,
    from_: From = None,
    open_: Open = False,
    set_: Set = None,
    memory: Memory = 0.999,
    output: Csv = None,
    plot: Picture = None,
    ci: Ci = 0.9,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Choose peak rate, steps, loss potential or replay for the least weighted change of two losses."""
    import pandas as pd

    from bayeslaw.dynamics.optimise import balance_curve
    from bayeslaw.forecasting.stack import load_fit
    from bayeslaw.plots.training import plot_optimum

    check_files("A table", output, plot, [source, target, curves, *rates(pretrain, adapt)])
    ranges = {name: a_range(name, text) for name, text in pairs_of("--search", search, PAIRS).items()}
    recipe = made_recipe(curves, pretrain, adapt, from_, open_, set_, memory)
    given = weight or [0.5]
    if plot is not None and (len(given) < 2 or len(ranges) > 1):
        raise BayeslawError("A picture shows one choice over several weights: give one --search and --weight more than once.")
    found = balance_curve(load_fit(source), load_fit(target), recipe, ranges, weights=given, tail=cvar, seed=seed, force=force)
    tables = [one.summary(ci).reset_index().assign(weight=one.objective.weight) for one in found]
    with figure_first(plot, lambda ax: plot_optimum(found, next(iter(ranges)), ax, ci_prob=ci)):
        for one in found:
            typer.echo(one.text + "\n")
        show(pd.concat(tables, ignore_index=True), output)


def turning(
    source: Source,
    adapt: Adapt,
    target: Target = None,
    weight: Annotated[float, typer.Option(help="Weight of the source loss; the target has the rest.")] = 1.0,
    longest: Annotated[int, typer.Option(help="Longest adaptation looked at, steps.")] = 1_000_000,
    pretrain: Pretrain = None,
    curves: CurvesFile = None,
    from_: From = None,
    open_: Open = False,
    set_: Set = None,
    memory: Memory = 0.999,
    output: Csv = None,
    plot: Picture = None,
    ci: Ci = 0.9,
    force: Force = False,
) -> None:
    """How long until an adaptation has won back what it first loses, and whether it ever does."""
    from bayeslaw.core.text import plain
    from bayeslaw.dynamics.turning_points import turning_point as make_turning
    from bayeslaw.forecasting.stack import load_fit
    from bayeslaw.plots.training import plot_turning_point

    check_files("A table", output, plot, [source, target, curves, *rates(pretrain, adapt)])
    recipe = made_recipe(curves, pretrain, adapt, from_, open_, set_, memory)
    other = None if target is None else load_fit(target)
    made = make_turning(load_fit(source), recipe, target=other, weight=weight, longest=longest, force=force)
    table = made.summary(ci)
    with figure_first(plot, lambda ax: plot_turning_point(made, ax, ci_prob=ci)):
        typer.echo(made.text + "\n")
        show_table("turning", table, plain(table) + "\n")
        if output is not None:
            show(made.curve(ci), output)


def watch(
    fit: Annotated[Path, typer.Argument(help="A fit to curves of which the run's, so far, is one (noise normal-drift).")],
    curves: Annotated[Path, typer.Option(help="The curves that were fitted.")],
    run: Annotated[str, typer.Option(help="The run under way.")],
    schedule: Annotated[str, typer.Option(help=f"Rates of its whole phase, those it has had and those planned. {SPEC}")],
    domain: Annotated[str | None, typer.Option(help="Whose losses the fit is of, if the curves have several.")] = None,
    target: Annotated[float | None, typer.Option(help="Loss to be reached, in the unit of the fit.")] = None,
    warmup: Annotated[int, typer.Option(help="Steps of warm-up before the first logged step of new runs.")] = 0,
    memory: Memory = 0.999,
    output: Csv = None,
    plot: Picture = None,
    ci: Ci = 0.9,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Go or no-go: where a run under way will end, whether it reaches a target, what more steps would gain."""
    from bayeslaw.data.curves import read_curves
    from bayeslaw.data.schedule_text import parse_schedule
    from bayeslaw.dynamics.monitor import watch as make_watch
    from bayeslaw.forecasting.stack import load_fit
    from bayeslaw.inference.refit import require_single_fit
    from bayeslaw.plots.training import plot_watch

    check_files("A table", output, plot, [fit, curves, *rates(schedule)])
    whole = read_curves(curves, memory=memory, warmup=warmup)
    one = require_single_fit(load_fit(fit), "A run under way")
    made = make_watch(one, whole, run, parse_schedule(schedule), domain=domain, target=target, seed=seed, force=force)
    said, table = made.summary(ci), made.table(ci)
    with figure_first(plot, lambda ax: plot_watch(made, ax, logged=whole.logged(run, domain), ci_prob=ci)):
        typer.echo(said)
        put("table", table)
        if output is not None:
            show(table, output)


def combine(
    table: Annotated[Path, typer.Argument(help="Losses with a column domain.")],
    of: Annotated[str, typer.Option(help="The domain to be described.")],
    source: Annotated[str, typer.Option(help="The pre-training's domain.")],
    target: Annotated[str, typer.Option(help="The adaptation's domain.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the table (.csv) for `bayeslaw fit combination`.")],
    where: Annotated[str | None, typer.Option(help="Keep only rows that meet a condition.")] = None,
) -> None:
    """Put losses of a third domain beside those of the two that are to describe it."""
    from bayeslaw.data.table import read_runs
    from bayeslaw.dynamics.mixtures import combine as make_table

    check_files("A table", output, None, [table])
    made = make_table(read_runs(table, where), of, source, target)
    for said in made.conversions:
        typer.echo(said)
    show(made.frame, output)


def outside(
    fit: Annotated[Path, typer.Argument(help="A fit of the law `combination` to the third domain's losses.")],
    source: Source,
    target: Annotated[Path, typer.Option(help="A fit of the target domain's losses.")],
    adapt: Adapt,
    pretrain: Pretrain = None,
    curves: CurvesFile = None,
    from_: From = None,
    open_: Open = False,
    steps: Annotated[str | None, typer.Option(help="Steps to forecast, 100,1000,10000; else the last and 20 on the way.")] = None,
    set_: Set = None,
    memory: Memory = 0.999,
    output: Csv = None,
    ci: Ci = 0.9,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Forecast the loss of a third domain along an adaptation, as a combination of two."""
    from bayeslaw.data.table import Runs
    from bayeslaw.dynamics.mixtures import combination_draws, combination_table
    from bayeslaw.forecasting.forecast import forecast as make_forecast
    from bayeslaw.forecasting.stack import load_fit
    from bayeslaw.inference.refit import require_single_fit

    check_files("A table", output, None, [fit, source, target, curves, *rates(pretrain, adapt)])
    recipe = made_recipe(curves, pretrain, adapt, from_, open_, set_, memory)
    table = recipe.rows(chosen_steps(steps, len(recipe.schedule)))
    weights, both = require_single_fit(load_fit(fit), "A combination"), (load_fit(source), load_fit(target))
    draws = combination_draws(weights, *both, table, seed=seed, force=force)
    # Unforced, failed checks of a fit or of a forecast have ended it.
    at = Runs(table, "the recipe")
    failed = force and (not weights.passed or any(make_forecast(p, at, seed=seed, force=True).forced for p in both))
    show(combination_table(draws, table, ci, failed=failed), output)


def made_recipe(
    curves: Path | None, pretrain: str | None, adapt: str, from_: str | None, open_: bool, set_: list[str] | None, memory: float
) -> Recipe:
    """The recipe that the options of a command describe."""
    from bayeslaw.data.curves import read_curves
    from bayeslaw.dynamics.recipe import Recipe
    from bayeslaw.schedules.areas import OPEN

    given = [name for name, is_ in (("--pretrain", pretrain is not None), ("--from", from_ is not None), ("--open", open_)) if is_]
    if len(given) != 1:
        raise BayeslawError(
            f"Say once where the adaptation begins: --pretrain SCHEDULE, --curves FILE --from RUN[@STEP], or --open; given are "
            f"{', '.join(given) or 'none'}."
        )
    settings = {name: a_number(f"{name}=", text) for name, text in pairs_of("--set", set_ or [], PAIRS).items()}
    if pretrain is not None:
        return Recipe(pretrain, adapt, settings, memory=memory)
    if open_:
        return Recipe(OPEN, adapt, settings, memory=memory)
    if curves is None:
        raise BayeslawError("--from names a run of logged curves: give them with --curves FILE.")
    run, at, step = str(from_).rpartition("@")
    whole = read_curves(curves, memory=memory)
    name, number = (run, step) if at and step.isdigit() else (str(from_), "")
    return Recipe(whole.at(name, int(number) if number else None), adapt, settings, memory=memory, power=whole.power)


def rates(*texts: str | None) -> list[Path]:
    """Files of logged rates that schedules name."""
    from bayeslaw.data.schedule_text import logged_files

    return [path for text in texts if text is not None for path in logged_files(text)]


def length(text: str) -> int:
    from bayeslaw.data.schedule_text import parse_schedule

    return len(parse_schedule(text))


def chosen_steps(text: str | None, last: int) -> Any:
    """Steps as people write them, 100,1000; 20 on the way and the last unless told."""
    import numpy as np

    if text is None:
        return np.unique(np.linspace(0, last, 21).round().astype(np.int64))[1:]
    try:
        steps = [int(part) for part in text.split(",")]
    except ValueError:
        raise BayeslawError(f"--steps {text!r}: give whole numbers, such as 100,1000,10000.") from None
    return np.unique(np.array(steps, dtype=np.int64))


def a_range(name: str, text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    if not colon:
        raise BayeslawError(f"{name}={text!r} is not a range; give its ends, such as {name}=1e-4:1e-3, or --set {name}={text}.")
    return a_number(f"{name}=", low), a_number(f"{name}=", high)


def show(table: pd.DataFrame, output: Path | None) -> None:
    """Print a table, or write it."""
    save_or_show("table", table, output, f"{len(table)} rows")
