"""Commands of decisions: plan, allocate, transfer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.core.errors import BayeslawError

MOST_ROWS = 10  # of undertuned runs that a terminal shows
LEVEL = "COLUMN=VALUE, such as domain=web"


def plan(
    source: Annotated[list[str] | None, Option(help="A fit of source losses, as S.nc or NAME=S.nc. Repeatable.")] = None,
    target: Annotated[Path | None, Option(help="A fit of target losses; a fit of both domains may be given twice.")] = None,
    set_: options.Set = None,
    on: Annotated[str | None, Option(help="The losses that are constrained: latent (the law's) or run (the next run's).")] = None,
    confidence: Annotated[float, Option(help="Probability with which all constraints hold together.")] = 0.9,
    max_forgetting: Annotated[
        list[str] | None, Option(help="Largest rise of the source loss: 2% of its base, 0.05, or NAME=2%.")
    ] = None,
    max_loss: Annotated[float | None, Option(help="Largest target loss, in the unit of its fit.")] = None,
    max_tokens: Annotated[float | None, Option(help="Budget of tokens.")] = None,
    max_flops: Annotated[float | None, Option(help="Budget of FLOPs, 6 N D.")] = None,
    max_cost: Annotated[float | None, Option(help="Budget of money; needs --price.")] = None,
    minimise: Annotated[str, Option(help="What is minimised: tokens, flops, cost, replay, target-loss or source-loss.")] = "tokens",
    price: Annotated[list[str] | None, Option(help="A price: flop=2e-18, new-token=1e-7 or replayed-token=0. Repeatable.")] = None,
    stages: options.Stages = None,
    replay: Annotated[str | None, Option(help="Replay shares to consider: 0.1:0.6, 0.1,0.25,0.5 or 0.25.")] = None,
    atpp: Annotated[str | None, Option(help="Adaptation tokens per parameter to consider: 1:20, 5,10,20 or 8.")] = None,
    tokens: Annotated[str | None, Option(help="Adaptation tokens to consider, in place of --atpp.")] = None,
    base_loss: Annotated[
        list[str] | None, Option(help="The source's base loss: measured, law, 2.87, 2.87+-0.01 or NAME=….")
    ] = None,
    source_set: Annotated[
        list[str] | None, Option(help="The source's domain, if a fit has several: domain=web or domain=web,code.")
    ] = None,
    target_set: Annotated[list[str] | None, Option(help="The target's domain, if a fit has several: domain=code.")] = None,
    level: Annotated[list[float] | None, Option(help="A confidence for which the frontier has a row. Repeatable.")] = None,
    candidates: Annotated[Path | None, Option(help="Runs that could be bought to learn more; see `bayeslaw anchors`.")] = None,
    budget: Annotated[float | None, Option(help="What these runs may cost, in the unit of their costs (FLOPs).")] = None,
    discrepancy: options.Discrepancy = None,
    output: options.TableFile = None,
    plot: options.Picture = None,
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Choose tokens and replay of an adaptation so that constraints hold together with a stated probability."""
    from bayeslaw.planning.plan import LEVELS

    named = [Path(text.partition("=")[2] or text) for text in source or []]
    options.check_outputs("A plan's frontier", output, plot, [*named, target, candidates])
    if (candidates is None) != (budget is None):
        raise BayeslawError(
            "--candidates and --budget go together: which runs, and for how much.", code="candidates-without-budget"
        )
    settings = options.pairs_of("--set", set_, "NAME=VALUE, such as N=8.1e9")
    priced = options.pairs_of("--price", price, "NAME=MONEY, such as flop=2e-18")
    prices = {name: options.number_of("--price ", value) for name, value in priced.items()}
    files: dict[Path, Any] = {}

    def read(path: str | Path) -> Any:
        key = Path(path).resolve()
        return files.setdefault(key, files.get(key) or bayeslaw.load_fit(path))

    target_levels = options.pairs_of("--target-set", target_set, LEVEL)
    sources, levels = _sources(source or [], source_set, read)
    planned = bayeslaw.plan(
        sources or None, read(target) if target is not None else None, settings, on=on, confidence=confidence,  # type: ignore[arg-type]
        max_forgetting=_by_source("--max-forgetting", max_forgetting), max_loss=max_loss, max_tokens=max_tokens,
        max_flops=max_flops, max_cost=max_cost, minimise=minimise, prices=prices, stages=stages, replay=replay, atpp=atpp,
        tokens=tokens, base_loss=_by_source("--base-loss", base_loss), source_levels=levels or None,
        target_levels=target_levels or None, levels=level or LEVELS,
        discrepancy=discrepancy, seed=seed, force=force,
    )  # fmt: skip
    bought = None
    if candidates is not None and budget is not None:
        bought = planned.anchors(candidates, budget=budget, stages=stages, force=force)
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


def _sources(given: list[str], sets: list[str] | None, read: Any) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Return source fits by name, and the domain of each; a fit of several source domains stands under each of them."""
    chosen = options.pairs_of("--source-set", sets, LEVEL)
    several = {k: v.split(",") for k, v in chosen.items() if "," in v}
    if len(several) > 1 or (several and len(given) > 1):
        raise BayeslawError("--source-set names several domains of one column and one fit only.", code="too-many-domains")
    sources: dict[str, Any] = {}
    for text in given:
        name, sign, path = text.partition("=")
        if not sign:
            name, path = ("source" if len(given) == 1 else Path(text).stem), text
        if name in sources:
            raise BayeslawError(
                f"--source gives {name} twice; give the fits different names: web=S1.nc, code=S2.nc.", code="given-twice"
            )
        sources[name] = read(path)
    if several:
        column, values = next(iter(several.items()))
        only = next(iter(sources.values()), None)
        if only is None:
            raise BayeslawError("--source-set needs a fit given by --source.", code="no-source")
        return dict.fromkeys(values, only), {value: chosen | {column: value} for value in values}
    return sources, (dict.fromkeys(sources, chosen) if chosen else {})


def _by_source(option: str, texts: list[str] | None) -> Any:
    """Return one value for all sources, or a value by the name of each source."""
    if texts and len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    return options.pairs_of(option, texts) or None


def allocate(
    fit: Annotated[Path, Argument(help="A fit or a stack of a law of N and D.")],
    compute: Annotated[str, Option(help="FLOPs, C = 6 N D: 1e21, or 1e19:1e24:30 for 30 values.")],
    stage: Annotated[str | None, Option(help="The stage, if the law describes two: its 0/1 covariate, or scratch.")] = None,
    set_: options.Set = None,
    discrepancy: Annotated[
        Literal["learned", "none"], Option(help="Losses beyond the runs with the law's error as learnt, or none.")
    ] = "learned",
    ci: options.Ci = 0.9,
    output: options.TableFile = None,
    plot: options.Picture = None,
    force: options.Force = False,
) -> Answer:
    """Find the parameters and tokens of least loss for compute, with their loss and tokens per parameter."""
    options.check_outputs("An allocation", output, plot, [fit])
    settings = options.pairs_of("--set", set_, "NAME=VALUE, such as r=0.25")
    allocation = bayeslaw.allocate(bayeslaw.load_fit(fit), compute, stage, settings=settings, discrepancy=discrepancy, force=force)
    answer = Answer()
    table, powers = allocation.summary(ci), allocation.powers(ci)
    panels = [lambda ax: bayeslaw.plots.plot_isoflops(allocation, ax, ci_prob=ci)]
    if len(table) > 1:
        panels.insert(0, lambda ax: bayeslaw.plots.plot_frontier([allocation], ax, ci_prob=ci))
    answer.save_picture(plot, *panels)
    answer.save_table("allocation", table, output, f"{len(table)} values of compute", joined=True)
    answer.say("", f"power laws of compute, {allocation.method}")
    answer.show("powers", powers, joined=True)
    answer.note(allocation.notes)
    return answer


def transfer(
    fit: Annotated[Path, Argument(help="A fit of a law of training from scratch, or of continual pre-training too.")],
    continued: Annotated[Path | None, Argument(help="The fit of continual pre-training, if the first fit lacks it.")] = None,
    set_: options.Ranges = None,
    stage: Annotated[str | None, Option(help="The 0/1 covariate of continual pre-training, if the law has several.")] = None,
    ci: options.Ci = 0.9,
    output: options.TableFile = None,
    plot: options.Picture = None,
    force: options.Force = False,
) -> Answer:
    """Compare continual pre-training with training from scratch: effectively transferred data, and FLOPs saved at equal loss."""
    options.check_outputs("A transfer table", output, plot, [fit, continued])
    settings = options.pairs_of("--set", set_, "NAME=VALUES, such as N=2e9 or D=1e8:4e10:30")
    other = bayeslaw.load_fit(continued) if continued is not None else None
    saved, answer = bayeslaw.transfer(bayeslaw.load_fit(fit), settings, continued=other, stage=stage, force=force), Answer()
    table = saved.summary(ci)
    panels = [lambda ax, of=of: bayeslaw.plots.plot_savings(saved, ax, of=of, ci_prob=ci) for of in ("saved", "transferred")]
    answer.save_picture(plot, *panels)
    answer.save_table("transfer", table, output, f"{len(table)} settings", joined=True)
    return answer


def tuning(
    fit: Annotated[Path, Argument(help="A fit or a stack of a law with tuned covariates, such as lr-batch.")],
    set_: options.Ranges = None,
    runs: Annotated[Path | None, Option(help="Runs with the tuned covariates: what each loses by its tuning.")] = None,
    column: options.Columns = None,
    where: options.Where = None,
    corrected: Annotated[
        Path | None, Option(help="CSV file for the runs with losses as they would be at the optimum, for `bayeslaw fit`.")
    ] = None,
    ci: options.Ci = 0.9,
    output: options.TableFile = None,
    plot: options.Picture = None,
    force: options.Force = False,
) -> Answer:
    """Find the best learning rate and batch size at settings, with bands, and by how much runs are undertuned."""
    options.check_outputs("A table of best values", output, plot, [fit, runs])
    options.check_outputs("A table of corrected runs", corrected, None, [fit, runs])
    if corrected is not None and runs is None:
        raise BayeslawError("--corrected needs the runs to correct: --runs RUNS.csv.", code="no-runs")
    if plot is not None and not set_:
        raise BayeslawError(
            "--plot shows the cost around the best values at a setting: give --set N=…, --set D=….", code="nothing-to-draw"
        )
    settings = options.pairs_of("--set", set_, "NAME=VALUES, such as N=2e9 or D=1e10:1e12:5")
    table = bayeslaw.read_runs(runs, where, columns=options.columns_of(column)) if runs is not None else None
    tuned, answer = bayeslaw.tuning(bayeslaw.load_fit(fit), settings, table, force=force), Answer()
    answer.save_picture(plot, *(lambda ax, of=of: bayeslaw.plots.plot_tuning(tuned, ax, of=of, ci_prob=ci) for of in tuned.optimum))
    if len(tuned.settings):
        best = tuned.summary(ci)
        answer.save_table("best", best, output, f"{len(best)} settings", joined=True)
    if tuned.runs is not None:
        rows = tuned.undertuned(ci).sort_values("undertuned_median", ascending=False)
        answer.say("", f"undertuned by, of {len(rows)} rows those that lose most")
        answer.show("undertuned", rows.head(MOST_ROWS), joined=True)
        if corrected is not None:
            answer.save_table("corrected", tuned.corrected(), corrected, f"{len(rows)} rows at the optimum")
    answer.note(tuned.notes)
    return answer
