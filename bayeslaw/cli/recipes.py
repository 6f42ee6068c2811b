"""Commands of `bayeslaw dynamics` that ask fits: forecast, best, turning, combine, outside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.core.errors import BayeslawError

if TYPE_CHECKING:
    import pandas as pd

    from bayeslaw.data.curves import Curves
    from bayeslaw.dynamics.recipe import Recipe
    from bayeslaw.forecasting.stack import Posterior
    from bayeslaw.schedules.areas import Point


POINTS = 160  # of a picture
UNUSED = "constant:steps=1,peak=1e-9"  # an adaptation, where only the pre-training is forecast


def forecast(
    fit: Annotated[Path, Argument(help="A fit or stack of laws of training dynamics.")],
    adapt: Annotated[str | None, Option(help=f"Schedule; without it the pre-training is forecast. {options.SCHEDULES}.")] = None,
    *,
    begin: options.Beginning,
    column: options.Columns = None,
    steps: options.Steps = None,
    set_: options.Set = None,
    output: options.TableFile = None,
    plot: options.Picture = None,
    ci: options.Ci = 0.9,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Forecast the loss along another schedule."""
    from bayeslaw.core.arrays import evenly
    from bayeslaw.schedules.changes import number_of_nodes

    options.check_outputs("A forecast", output, plot, [fit, begin.curves, *rate_files(begin.pretrain, adapt)])
    if adapt is None and (begin.pretrain is None or begin.curves is not None or begin.from_ is not None or begin.open_):
        raise BayeslawError(
            "Without --adapt the pre-training is forecast: give its schedule by --pretrain SCHEDULE, without --curves, --from and "
            "--open.",
            code="pre-training-not-clear",
        )
    posterior, answer = bayeslaw.load_fit(fit), Answer()
    recipe, notes = recipe_of([posterior], begin, UNUSED if adapt is None else adapt, column, set_)
    if adapt is None:
        last = len(bayeslaw.data.parse_schedule(str(begin.pretrain)))
        chosen = _chosen_steps(steps, last)
        if chosen.min() < 1:
            problem = f"--steps {steps}: no law describes a pre-training before its first step, so give steps from 1 to {last:,}."
            raise BayeslawError(problem, code="out-of-range")
        table = recipe.pretraining(chosen, number_of_nodes(posterior.measured))
    else:
        table = recipe.rows(_chosen_steps(steps, len(recipe.schedule)))
    answer.note(notes)
    result = bayeslaw.forecast(posterior, bayeslaw.Runs(table, "the recipe"), seed=seed, force=force)
    summary = result.summary(ci)
    if adapt is None and plot is not None:
        drawn = evenly(last, POINTS) + 1
        drawn = drawn[drawn.size // 20 :]  # losses of the first steps would hide what comes after
        settings = bayeslaw.Runs(recipe.pretraining(drawn, number_of_nodes(posterior.measured)), "the recipe")
        course = bayeslaw.forecast(posterior, settings, seed=seed, force=force)
        answer.save_picture(plot, lambda ax: bayeslaw.plots.plot_course(course, ax, ci_prob=ci))
    else:
        answer.save_picture(plot, lambda ax: bayeslaw.plots.plot_transfer(recipe, posterior, ax, ci_prob=ci))
    _add_table(answer, summary, output)
    answer.say(*(str(check) for check in result.checks if not check.passed))
    return answer


def best(
    source: options.Source,
    target: options.Target,
    adapt: options.Adapt,
    search: Annotated[
        list[str], Option(help="A quantity to search and its range: peak=1e-4:2e-3, steps=…, potential=0:1 or r=0:0.5. Repeatable.")
    ],
    weight: Annotated[
        list[float] | None, Option(help="Weight of the source loss; the target loss has the rest. Repeatable.")
    ] = None,
    cvar: Annotated[float | None, Option(help="Minimise the mean over this share of the worst draws, not of all.")] = None,
    *,
    begin: options.Beginning,
    column: options.Columns = None,
    set_: options.Set = None,
    output: options.TableFile = None,
    plot: options.Picture = None,
    ci: options.Ci = 0.9,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Choose peak rate, steps, loss potential or replay for the least weighted change of two losses."""
    import pandas as pd

    from bayeslaw.dynamics.optimise import balance_curve

    options.check_outputs("A table of recipes", output, plot, [source, target, begin.curves, *rate_files(begin.pretrain, adapt)])
    ranges = {name: _range(name, text) for name, text in options.pairs_of("--search", search).items()}
    both = bayeslaw.load_fit(source), bayeslaw.load_fit(target)
    recipe, notes = recipe_of(both, begin, adapt, column, set_)
    answer = Answer()
    answer.note(notes)
    weights = weight or [0.5]
    if plot is not None and (len(weights) < 2 or len(ranges) > 1):
        raise BayeslawError(
            "A picture shows one quantity over several weights: give one --search, and --weight more than once.",
            code="nothing-to-draw",
        )
    optima = balance_curve(*both, recipe, ranges, weights=weights, tail=cvar, seed=seed, force=force)
    tables = [optimum.summary(ci).reset_index().assign(weight=optimum.objective.weight) for optimum in optima]
    answer.save_picture(plot, lambda ax: bayeslaw.plots.plot_optimum(optima, next(iter(ranges)), ax, ci_prob=ci))
    for optimum in optima:
        answer.say(optimum.text, "")
    _add_table(answer, pd.concat(tables, ignore_index=True), output)
    return answer


def turning(
    source: options.Source,
    adapt: options.Adapt,
    target: Annotated[Path | None, Option(help="A fit of the target domain's losses.")] = None,
    weight: Annotated[float, Option(help="Weight of the source loss; the target loss has the rest.")] = 1.0,
    longest: Annotated[int, Option(help="The longest adaptation that is considered, in steps.")] = 1_000_000,
    *,
    begin: options.Beginning,
    column: options.Columns = None,
    set_: options.Set = None,
    output: options.TableFile = None,
    plot: options.Picture = None,
    ci: options.Ci = 0.9,
    force: options.Force = False,
) -> Answer:
    """Show when an adaptation has recovered the loss that it first gives up, and whether it ever does."""
    options.check_outputs("A curve of losses", output, plot, [source, target, begin.curves, *rate_files(begin.pretrain, adapt)])
    fits, answer = [bayeslaw.load_fit(path) for path in (source, target) if path is not None], Answer()
    recipe, notes = recipe_of(fits, begin, adapt, column, set_)
    answer.note(notes)
    other = fits[1] if len(fits) > 1 else None
    points = bayeslaw.dynamics.turning_point(fits[0], recipe, target=other, weight=weight, longest=longest, force=force)
    answer.save_picture(plot, lambda ax: bayeslaw.plots.plot_turning_point(points, ax, ci_prob=ci))
    answer.say(points.text, "")
    answer.show("turning", points.summary(ci))
    answer.say("")
    if output is not None:
        _add_table(answer, points.curve(ci), output)
    return answer


def combine(
    table: Annotated[Path, Argument(help="Losses with a column domain.")],
    of: Annotated[str, Option(help="The third domain, whose loss is described by the other two.")],
    source: Annotated[str, Option(help="The pre-training's domain.")],
    target: Annotated[str, Option(help="The adaptation's domain.")],
    output: options.NewTable,
    column: options.Columns = None,
    where: options.Where = None,
) -> Answer:
    """Make the table for `bayeslaw fit combination`: the losses of a third domain beside those of two that describe it."""
    options.check_outputs("A table of runs", output, inputs=[table])
    runs, answer = bayeslaw.read_runs(table, where, columns=options.columns_of(column)), Answer()
    combined = bayeslaw.dynamics.combine(runs, of, source, target)
    answer.say(*map(str, combined.conversions))
    _add_table(answer, combined.frame, output)
    return answer


def outside(
    fit: Annotated[Path, Argument(help="A fit of the law `combination` to the third domain's losses.")],
    source: options.Source,
    target: options.Target,
    adapt: options.Adapt,
    *,
    begin: options.Beginning,
    column: options.Columns = None,
    steps: options.Steps = None,
    set_: options.Set = None,
    output: options.TableFile = None,
    ci: options.Ci = 0.9,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Forecast the loss of a third domain along an adaptation, as a combination of the losses of the two others."""
    from bayeslaw.dynamics.mixtures import combination_table
    from bayeslaw.posterior.fit import require_single_fit

    options.check_outputs("A forecast", output, inputs=[fit, source, target, begin.curves, *rate_files(begin.pretrain, adapt)])
    both = bayeslaw.load_fit(source), bayeslaw.load_fit(target)
    recipe, notes = recipe_of(both, begin, adapt, column, set_)
    answer = Answer()
    answer.note(notes)
    table = recipe.rows(_chosen_steps(steps, len(recipe.schedule)))
    weights = require_single_fit(bayeslaw.load_fit(fit), "A combination")
    draws = bayeslaw.dynamics.combination_draws(weights, *both, table, seed=seed, force=force)
    # Without --force, failed checks of a fit or of a forecast have already raised an error.
    at = bayeslaw.Runs(table, "the recipe")
    failed = force and (not weights.passed or any(bayeslaw.forecast(p, at, seed=seed, force=True).forced for p in both))
    _add_table(answer, combination_table(draws, table, ci, failed=failed), output)
    return answer


def _add_table(answer: Answer, table: pd.DataFrame, output: Path | None) -> None:
    answer.save_table("table", table, output, f"{len(table)} rows")


def recipe_of(
    fits: Sequence[Posterior],
    begin: options.Beginning,
    adapt: str,
    column: list[str] | None = None,
    set_: list[str] | None = None,
) -> tuple[Recipe, list[str]]:
    """Return the recipe that the options of a command describe, with areas as those of the fits, and notes of what these assume."""
    from bayeslaw.data.schedule_text import assumptions
    from bayeslaw.dynamics.memory import memory_of, power_of, reference_batch_of
    from bayeslaw.dynamics.recipe import Recipe, require_recipe
    from bayeslaw.schedules.changes import number_of_nodes

    memory, power, reference = memory_of(fits, begin.memory), power_of(fits), reference_batch_of(fits)
    ways = {"--pretrain": begin.pretrain is not None, "--from": begin.from_ is not None, "--open": begin.open_}
    given = [name for name, is_given in ways.items() if is_given]
    if len(given) != 1:
        raise BayeslawError(
            "Exactly one of --pretrain SCHEDULE, --curves FILE --from RUN[@STEP] and --open must say where the adaptation begins; "
            f"given are {', '.join(given) or 'none'}.",
            code="pre-training-not-clear",
        )
    settings = {name: options.number_of(f"{name}=", text) for name, text in options.pairs_of("--set", set_).items()}
    if adapt != UNUSED and any(number_of_nodes(fit.measured) for fit in fits):
        raise BayeslawError(
            "A law of single changes of the rate, such as multi-power, describes no adaptation: give --pretrain without --adapt, "
            "or fit a law of adaptations, such as cpt-dynamics.",
            code="no-adaptation-area",
        )
    notes = [note for text in (begin.pretrain, adapt) if text is not None for note in assumptions(text)]
    if reference:
        steps = f"areas count tokens, and a step of the schedules has {reference:,.0f}"
        notes.append(f"{steps}; in Python Recipe(weight=) states another batch of the adaptation")
    if begin.warmup and begin.curves is None:
        raise BayeslawError(
            "--warmup is that of the logs of --curves; a schedule has its own, such as constant:steps=1000,peak=1e-3,warmup=100.",
            code="option-without-use",
        )
    if begin.from_ is None:
        options.check_used("--curves FILE --from RUN[@STEP]", curves=begin.curves, column=column)
        start: Point | str = bayeslaw.schedules.OPEN if begin.pretrain is None else begin.pretrain
    elif begin.curves is None:
        raise BayeslawError("--from names a run of logged curves: give them by --curves FILE.", code="no-curves")
    else:
        curves = bayeslaw.data.read_curves(
            begin.curves, memory=memory, power=power, warmup=options.warmups(begin.warmup), per="token" if reference else "step",
            tokens_per_step=reference or None, columns=options.columns_of(column),
        )  # fmt: skip
        start, of_runs = _point_of(curves, begin.from_)
        notes += of_runs
    recipe = Recipe(start, adapt, settings, memory=memory, power=power)
    require_recipe(recipe, fits)
    return recipe, notes


def _point_of(curves: Curves, text: str) -> tuple[Point, list[str]]:
    """Return the state of a logged run, RUN or RUN@STEP, and the notes on this run and those that it goes on from."""
    run, at, step = text.rpartition("@")
    name, number = (run, step) if at and step.isdigit() else (text, "")
    ancestors = [name]
    while (parent := curves.curve(ancestors[-1]).parent) is not None:
        ancestors.append(parent)
    notes = [note for note in curves.notes if note.partition(":")[0] in ancestors]
    return curves.at(name, int(number) if number else None), notes


def rate_files(*texts: str | None) -> list[Path]:
    """Return the files of logged learning rates that schedules name."""
    from bayeslaw.data.schedule_text import logged_files

    return [path for text in texts if text is not None for path in logged_files(text)]


def _chosen_steps(text: str | None, last: int) -> Any:
    """Return the steps of a text such as 100,1000; by default 20 evenly spaced steps, the last among them."""
    import numpy as np

    from bayeslaw.core.arrays import evenly

    if text is None:
        return evenly(last + 1, 21)[1:]
    try:
        steps = [int(part) for part in text.split(",")]
    except ValueError:
        raise BayeslawError(f"--steps {text!r}: give whole numbers, such as 100,1000,10000.", code="not-a-number") from None
    return np.unique(np.array(steps, dtype=np.int64))


def _range(name: str, text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    if not colon:
        raise BayeslawError(
            f"{name}={text!r} is not a range; give its ends, such as {name}=1e-4:1e-3, or --set {name}={text}.", code="not-a-range"
        )
    return options.number_of(f"{name}=", low), options.number_of(f"{name}=", high)
