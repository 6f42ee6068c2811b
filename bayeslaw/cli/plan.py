"""Commands of decisions: plan, allocate, transfer, tuning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.text import counted

if TYPE_CHECKING:
    from bayeslaw.design.anchors import Anchors
    from bayeslaw.planning.allocation import Allocation
    from bayeslaw.planning.life import WholeLife
    from bayeslaw.planning.menu import PlanMenu
    from bayeslaw.planning.plan import Plan

MOST_ROWS = 10  # of undertuned runs that a terminal shows
LEVEL = "COLUMN=VALUE, such as domain=web"


def plan(
    source: Annotated[list[str] | None, Option(help="A fit of source losses, as S.nc or NAME=S.nc. Repeatable.")] = None,
    target: Annotated[Path | None, Option(help="A fit of target losses; a fit of both domains may be given twice.")] = None,
    set_: options.Set = None,
    on: Annotated[str | None, Option(help="The losses that are constrained: latent (the law's) or run (the next run's).")] = None,
    confidence: Annotated[float, Option(help="Probability with which all constraints hold together.")] = 0.9,
    max_forgetting: Annotated[
        list[str] | None, Option(help="Largest rise of the source loss: 2% of its base loss, 0.05 in its unit, or NAME=2%.")
    ] = None,
    max_loss: Annotated[float | None, Option(help="Largest target loss, in the unit of its fit.")] = None,
    max_tokens: Annotated[float | None, Option(parser=options.amount, metavar="NUMBER", help="Budget of tokens.")] = None,
    max_flops: Annotated[
        float | None,
        Option(parser=options.amount, metavar="NUMBER", help="Budget of FLOPs: 6 N D, and 2 N for each served token."),
    ] = None,
    max_hours: options.MaxHours = None,
    max_cost: Annotated[
        float | None, Option(parser=options.amount, metavar="NUMBER", help="Budget of money; needs --price.")
    ] = None,
    minimise: Annotated[
        str | None,
        Option(help="The quantity to minimise: tokens (the default), flops, hours, cost, replay, target-loss or source-loss."),
    ] = None,
    served: options.Served = None,
    sizes: Annotated[
        str | None,
        Option(
            help="Sizes of the checkpoints to choose from, such as 1e9,3e9,7e9, in place of --set N. Other settings and "
            "--base-loss have one value for all sizes, or a list with one for each."
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        Option(
            help="A price: flop=2e-18, hour=1.5, served-flop, served-hour, new-token=1e-7 or replayed-token=0; a number, an "
            "interval or a prior as for --served. Repeatable."
        ),
    ] = None,
    device: options.Device = None,
    stages: options.Stages = None,
    replay: Annotated[str | None, Option(help="Replay shares to consider: 0.1:0.6, 0.1,0.25,0.5 or 0.25.")] = None,
    atpp: Annotated[str | None, Option(help="Adaptation tokens per parameter to consider: 1:20, 5,10,20 or 8.")] = None,
    tokens: Annotated[str | None, Option(help="Adaptation tokens to consider, in place of --atpp.")] = None,
    base_loss: Annotated[
        list[str] | None, Option(help="The source's loss before adaptation: measured, law, 2.87, 2.87+-0.01 or NAME=….")
    ] = None,
    source_set: Annotated[
        list[str] | None, Option(help="The source's domain, if a fit has several: domain=web or domain=web,code.")
    ] = None,
    target_set: Annotated[list[str] | None, Option(help="The target's domain, if a fit has several: domain=code.")] = None,
    level: Annotated[list[float] | None, Option(help="A confidence for which the frontier has a row. Repeatable.")] = None,
    candidates: Annotated[
        Path | None, Option(help="A table of runs that could be bought to learn more; see `bayeslaw anchors`.")
    ] = None,
    budget: options.BudgetOfRuns = None,
    discrepancy: options.Discrepancy = None,
    output: options.TableFile = None,
    plot: options.Picture = None,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Choose tokens and replay of an adaptation so that all constraints hold together with a stated probability."""
    from bayeslaw.planning.confidence import LEVELS

    twice = "--source gives {name} twice; give the fits different names: web=S1.nc, code=S2.nc."
    named = options.named_files(source or [], twice, alone="source")
    options.check_outputs("A plan's frontier", output, plot, [*named.values(), target, candidates])
    options.check_candidates(candidates, budget)
    settings = options.pairs_of("--set", set_, "NAME=VALUE, such as N=8.1e9")
    prices = options.pairs_of("--price", price, "NAME=MONEY, such as flop=2e-18")
    files: dict[Path, Any] = {}

    def read(path: Path) -> Any:
        """Read each file once, by whichever path it is given."""
        key = next((known for known in files if known.resolve() == path.resolve()), path)
        if key not in files:
            files[key] = bayeslaw.load_fit(path)
        return files[key]

    if source and target is None:
        options.check_used("--target", target_set=target_set)
    if target is not None and not source:
        options.check_used("--source", source_set=source_set, base_loss=base_loss)
    target_levels = options.pairs_of("--target-set", target_set, LEVEL)
    sources, levels = _by_domain({name: read(path) for name, path in named.items()}, source_set)
    target_fit = read(target) if target is not None else None
    given: dict[str, Any] = {
        "on": on, "confidence": confidence, "max_forgetting": _by_source("--max-forgetting", max_forgetting), "max_loss": max_loss,
        "max_tokens": max_tokens, "max_flops": max_flops, "max_hours": max_hours, "max_cost": max_cost, "served": served or 0.0,
        "prices": prices, "device": options.pairs_of("--device", device, "NAME=VALUE, such as peak=312e12"), "stages": stages,
        "replay": replay, "atpp": atpp, "tokens": tokens, "source_levels": levels or None, "target_levels": target_levels or None,
        "levels": level or LEVELS, "discrepancy": discrepancy, "seed": seed, "force": force,
    }  # fmt: skip
    if sizes is not None:
        if candidates is not None:
            raise BayeslawError(
                "--candidates are for one checkpoint: give it by --set N, not by --sizes.", code="menu-with-candidates"
            )
        models, bases = _menu_of(sizes, settings, base_loss)
        menu = bayeslaw.planning.plan_menu(sources or None, target_fit, models, minimise=minimise, base_loss=bases, **given)
        answer = _menu_answer(menu, output, plot)
    else:
        bases = _by_source("--base-loss", base_loss)
        planned = bayeslaw.plan(sources or None, target_fit, settings, minimise=minimise or "tokens", base_loss=bases, **given)
        bought = None
        if candidates is not None and budget is not None:
            bought = planned.anchors(candidates, budget=budget, stages=stages, seed=seed, force=force)
        answer = _plan_answer(planned, bought, output, plot)
    answer.warn_of(files)
    return answer


def _menu_of(sizes: str, settings: dict[str, str], base_loss: list[str] | None) -> tuple[list[dict[str, str]], list[Any]]:
    """Return the settings of each checkpoint of a menu, and its base losses: lists have a value for each."""
    if "N" in settings:
        raise BayeslawError("--sizes and --set N exclude each other: give the sizes of the menu.", code="sizes-and-size")
    each = sizes.split(",")

    def values(name: str, text: str) -> list[str]:
        parts = text.split(",")
        if len(parts) not in (1, len(each)):
            message = f"{name} has {len(parts)} values for {len(each)} sizes; give one, or one for each."
            raise BayeslawError(message, code="values-of-menu")
        return parts * (len(each) if len(parts) == 1 else 1)

    own = {"N": each} | {name: values(name, text) for name, text in settings.items()}
    models = [dict(zip(own, row, strict=True)) for row in zip(*own.values(), strict=True)]
    bases: list[list[str]] = [[] for _ in each]
    for text in base_loss or []:
        name, sign, rest = text.rpartition("=")
        for texts, value in zip(bases, values("--base-loss", rest), strict=True):
            texts.append(name + sign + value)
    return models, [_by_source("--base-loss", texts) for texts in bases]


def _plan_answer(planned: Plan, bought: Anchors | None, output: Path | None, plot: Path | None) -> Answer:
    """Return the answer about the plan of one checkpoint, and about runs to buy if these were asked for."""
    answer = Answer()
    panels = [lambda ax, of=of: bayeslaw.plots.plot_plan(planned, ax, of=of) for of in planned.landscapes]
    answer.save_picture(plot, *panels)
    answer.say(*planned.lines(), "")
    answer.save_table("frontier", planned.frontier, output, "frontier")
    if len(planned.losses):
        answer.say("")
        answer.show("losses", planned.losses, joined=True)
    answer.results["best"] = planned.best
    answer.note(planned.notes)
    if bought is not None:
        answer.say("", "runs that would make the constraints surer")
        answer.show("picks", bought.picks)
        answer.say("", bought.text)
    return answer


def _menu_answer(menu: PlanMenu, output: Path | None, plot: Path | None) -> Answer:
    """Return the answer about a menu of checkpoints."""
    answer = Answer()
    answer.save_picture(plot, lambda ax: bayeslaw.plots.plot_menu(menu, ax))
    answer.say(*menu.lines(), "")
    answer.save_table("menu", menu.table, output, counted(len(menu.table), "checkpoint"))
    answer.results["best"] = None if menu.best is None else menu.best.best
    answer.note(menu.notes)
    return answer


def _by_domain(sources: dict[str, Any], sets: list[str] | None) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Return source fits by name, and the domain of each; a fit of several source domains stands under each of them."""
    chosen = options.pairs_of("--source-set", sets, LEVEL)
    several = {k: v.split(",") for k, v in chosen.items() if "," in v}
    if len(several) > 1 or (several and len(sources) > 1):
        raise BayeslawError("--source-set names several domains of one column and one fit only.", code="too-many-domains")
    if several:
        ((column, values),) = several.items()
        return {value: fit for value in values for fit in sources.values()}, {value: chosen | {column: value} for value in values}
    return sources, (dict.fromkeys(sources, chosen) if chosen else {})


def _by_source(option: str, texts: list[str] | None) -> Any:
    """Return one value for all sources, or a value by the name of each source."""
    if texts and len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    return options.pairs_of(option, texts) or None


def allocate(
    fit: Annotated[Path, Argument(help="A fit or a stack of a law of N and D.")],
    compute: Annotated[
        str | None,
        Option(help="FLOPs of training, or of the whole life with options such as --served: 1e21, or 1e19:1e24:30 for 30 values."),
    ] = None,
    stage: Annotated[str | None, Option(help="The stage, if the law describes two: its 0/1 covariate, or scratch.")] = None,
    set_: options.Set = None,
    served: options.Served = None,
    hours: Annotated[str | None, Option(help="Device hours of the whole life, in place of --compute; needs --device.")] = None,
    cost: Annotated[str | None, Option(help="Money for the whole life, in place of --compute; needs --price.")] = None,
    max_loss: Annotated[
        str | None, Option(help="A target loss, in place of a budget: the whole-life cost of reaching it is minimised.")
    ] = None,
    minimise: Annotated[
        str | None, Option(help="With --max-loss, the cost to minimise: flops, hours or cost (the default with prices).")
    ] = None,
    sizes: Annotated[
        str | None, Option(help="Sizes to choose from: a menu (list), 1e9,3e9,7e9, or a range to search, 1e9:7e10.")
    ] = None,
    confidence: Annotated[
        float | None, Option(help="Probability with which the loss and the budget are kept over the whole life; 0.9 by default.")
    ] = None,
    level: Annotated[list[float] | None, Option(help="A confidence for which the frontier has rows. Repeatable.")] = None,
    price: Annotated[
        list[str] | None,
        Option(help="A price: flop=2e-18, hour=1.5, served-flop or served-hour; numbers, intervals or priors. Repeatable."),
    ] = None,
    device: options.Device = None,
    on: Annotated[
        Literal["latent", "run"],
        Option(help="Over a whole life: the law's losses (latent), or those that the next run will log (run)."),
    ] = "latent",
    discrepancy: options.LearntErrors = "learned",
    ci: options.Ci = 0.9,
    output: options.TableFile = None,
    plot: options.Picture = None,
    width: options.PictureWidth = None,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Find the parameters and tokens with the least loss for compute; with --served, --max-loss or --sizes, over the whole life."""
    from bayeslaw.planning.confidence import LEVELS

    options.check_outputs("An allocation", output, plot, [fit], width=width)
    settings = options.pairs_of("--set", set_, "NAME=VALUE, such as r=0.25")
    of_life = (served, hours, cost, max_loss, minimise, sizes, confidence, level, price, device)
    whole_life = on == "run" or any(option is not None for option in of_life)
    if compute is None and not whole_life:
        raise BayeslawError("Give compute (--compute 1e21), or a target loss (--max-loss 2.1).", code="one-limit-needed")
    loaded = bayeslaw.load_fit(fit)
    if whole_life:
        life = bayeslaw.planning.whole_life(
            loaded, served=served or 0.0, compute=compute, hours=hours, cost=cost, max_loss=max_loss,
            minimise=minimise, sizes=sizes, confidence=0.9 if confidence is None else confidence, levels=level or LEVELS,
            prices=options.pairs_of("--price", price, "NAME=MONEY, such as hour=1.5"),
            device=options.pairs_of("--device", device, "NAME=VALUE, such as peak=312e12"), stage=stage, settings=settings, on=on,
            discrepancy=discrepancy, seed=seed, force=force,
        )  # fmt: skip
        answer = _life_answer(life, ci, output, plot, width)
    else:
        assert compute is not None  # which was refused above
        allocation = bayeslaw.allocate(loaded, compute, stage, settings=settings, discrepancy=discrepancy, seed=seed, force=force)
        answer = _allocation_answer(allocation, ci, output, plot, width)
    answer.warn_of({fit: loaded})
    return answer


def _allocation_answer(allocation: Allocation, ci: float, output: Path | None, plot: Path | None, width: float | None) -> Answer:
    """Return the answer about the least loss for compute.

    Parameters
    ----------
    allocation : Allocation
    ci, output, plot, width
        Options of the command.
    """
    answer = Answer()
    table, powers = allocation.summary(ci), allocation.powers(ci)
    panels = [lambda ax: bayeslaw.plots.plot_isoflops(allocation, ax, ci_prob=ci)]
    if len(table) > 1:
        panels.insert(0, lambda ax: bayeslaw.plots.plot_frontier([allocation], ax, ci_prob=ci))
    answer.save_picture(plot, *panels, width=width)
    answer.save_table("allocation", table, output, f"{counted(len(table), 'value')} of compute", joined=True)
    answer.say("", f"power laws of compute, {allocation.method}")
    answer.show("powers", powers, joined=True)
    answer.note(allocation.notes)
    return answer


def _life_answer(life: WholeLife, ci: float, output: Path | None, plot: Path | None, width: float | None) -> Answer:
    """Return the answer about whole-life costs.

    Parameters
    ----------
    life : WholeLife
    ci, output, plot, width
        Options of the command.
    """
    answer = Answer()
    answer.save_picture(plot, lambda ax: bayeslaw.plots.plot_whole_life(life, ax, ci_prob=ci), width=width)
    for number in range(life.given.size):
        answer.say(*life.lines(number), "")
    answer.save_table("frontier", life.frontier, output, "frontier")
    if len(life.menu):
        answer.say("", "sizes of the menu")
        answer.show("menu", life.menu, joined=True)
    answer.say("", "the best of each draw by itself")
    answer.show("allocation", life.summary(ci), joined=True)
    answer.results |= {"best": life.best, "deterministic": life.deterministic, "training_only": life.training_only}
    answer.note(life.notes)
    return answer


def transfer(
    fit: Annotated[
        Path, Argument(help="A fit of a law of training from scratch, or of one that describes continual pre-training as well.")
    ],
    continued: Annotated[
        Path | None, Argument(help="A fit of continual pre-training, if the first fit does not describe it.")
    ] = None,
    set_: options.Ranges = None,
    stage: Annotated[str | None, Option(help="The 0/1 covariate of continual pre-training, if the law has several.")] = None,
    discrepancy: options.LearntErrors = "learned",
    ci: options.Ci = 0.9,
    output: options.TableFile = None,
    plot: options.Picture = None,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Compare continual pre-training with training from scratch: effectively transferred data, and FLOPs saved at equal loss."""
    options.check_outputs("A transfer table", output, plot, [fit, continued])
    settings = options.pairs_of("--set", set_, "NAME=VALUES, such as N=2e9 or D=1e8:4e10:30")
    fits = {path: bayeslaw.load_fit(path) for path in (fit, continued) if path is not None}
    saved = bayeslaw.transfer(
        fits[fit],
        settings,
        continued=fits[continued] if continued is not None else None,
        stage=stage,
        discrepancy=discrepancy,
        seed=seed,
        force=force,
    )
    answer, table = Answer(), saved.summary(ci)
    panels = [lambda ax, of=of: bayeslaw.plots.plot_savings(saved, ax, of=of, ci_prob=ci) for of in ("saved", "transferred")]
    answer.save_picture(plot, *panels)
    answer.save_table("transfer", table, output, counted(len(table), "setting"), joined=True)
    answer.note(saved.notes)
    answer.warn_of(fits)
    return answer


def tuning(
    fit: Annotated[Path, Argument(help="A fit or a stack of a law with tuned covariates, such as lr-batch.")],
    set_: options.Ranges = None,
    runs: Annotated[
        Path | None, Option(help="A table of runs with the tuned covariates: the answer says what each loses by its tuning.")
    ] = None,
    column: options.Columns = None,
    where: options.Where = None,
    corrected: Annotated[
        Path | None,
        Option(help="Write the runs with their losses as they would be at the optimum to this file (.csv), for `bayeslaw fit`."),
    ] = None,
    ci: options.Ci = 0.9,
    output: options.TableFile = None,
    plot: options.Picture = None,
    discrepancy: options.LearntErrors = "learned",
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Find the best learning rate and batch size at settings, with bands, and how much undertuned runs lose."""
    options.check_outputs("A table of best values", output, plot, [fit, runs])
    options.check_outputs("A table of corrected runs", corrected, None, [fit, runs])
    options.check_once([path for path in (output, corrected) if path is not None])
    if corrected is not None and runs is None:
        raise BayeslawError("--corrected needs the runs to correct: --runs RUNS.csv.", code="no-runs")
    if not set_:
        options.check_used("the settings whose best values are asked for: --set N=…, --set D=…", output=output)
    if plot is not None and not set_:
        raise BayeslawError(
            "--plot shows the cost around the best values at a setting: give --set N=…, --set D=….", code="nothing-to-draw"
        )
    settings = options.pairs_of("--set", set_, "NAME=VALUES, such as N=2e9 or D=1e10:1e12:5")
    if runs is None and (where is not None or column):
        raise BayeslawError("--where and --column are about the table of --runs: give that too.", code="no-runs")
    table = bayeslaw.read_runs(runs, where, columns=options.columns_of(column)) if runs is not None else None
    loaded = bayeslaw.load_fit(fit)
    tuned = bayeslaw.tuning(loaded, settings, table, discrepancy=discrepancy, seed=seed, force=force)
    answer = Answer()
    answer.save_picture(plot, *(lambda ax, of=of: bayeslaw.plots.plot_tuning(tuned, ax, of=of, ci_prob=ci) for of in tuned.optimum))
    if len(tuned.settings):
        best = tuned.summary(ci)
        answer.save_table("best", best, output, counted(len(best), "setting"), joined=True)
    if tuned.runs is not None:
        rows = tuned.undertuned(ci).reset_index().sort_values("undertuned_median", ascending=False, ignore_index=True)
        answer.say("", f"undertuned by, of {len(rows)} rows those that lose most")
        answer.show("undertuned", rows.head(MOST_ROWS), joined=True)
        if corrected is not None:
            answer.save_table("corrected", tuned.corrected(), corrected, f"{len(rows)} rows at the optimum")
    drawn = (
        [f"the picture is of the first of {len(tuned.settings)} settings"] if plot is not None and len(tuned.settings) > 1 else []
    )
    answer.note([*tuned.notes, *drawn])
    answer.warn_of({fit: loaded})
    return answer
