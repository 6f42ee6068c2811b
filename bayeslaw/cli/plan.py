"""Commands of decisions: plan, allocate, transfer. `cli` registers them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bayeslaw.cli.io import a_number, check_files, pairs_of, picture_first, put, save_or_show, show_table
from bayeslaw.core.errors import BayeslawError

Probability = Annotated[float, typer.Option("--ci", help="Probability of the equal-tailed intervals.")]
Force = Annotated[bool, typer.Option("--force", help="Go on in spite of failed checks; what comes out is marked.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="A covariate of the laws, such as N=8.1e9; repeat for each.")]
Csv = Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the table (.csv); else it is printed.")]
Picture = Annotated[Path | None, typer.Option("--plot", help="Where to write a picture (.png, .pdf or .svg).")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (plan, allocate, transfer):
        app.command()(command)


def plan(
    source: Annotated[list[str] | None, typer.Option(help="A fit of source losses, S.nc or NAME=S.nc; repeat for several.")] = None,
    target: Annotated[Path | None, typer.Option(help="A fit of target losses; may be the same file, of both domains.")] = None,
    set_: Set = None,
    on: Annotated[
        str | None, typer.Option(help="What is promised: latent (the laws' losses) or run (those the next run logs).")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Probability with which all promises hold together.")] = 0.9,
    max_forgetting: Annotated[
        list[str] | None, typer.Option(help="Largest rise of the source loss: 2% of its base, 0.05 in its unit, or NAME=2%.")
    ] = None,
    max_loss: Annotated[float | None, typer.Option(help="Largest target loss, in its fit's unit.")] = None,
    max_tokens: Annotated[float | None, typer.Option(help="Budget of tokens.")] = None,
    max_flops: Annotated[float | None, typer.Option(help="Budget of FLOPs, 6 N D.")] = None,
    max_cost: Annotated[float | None, typer.Option(help="Budget of money; needs --price.")] = None,
    minimise: Annotated[str, typer.Option(help="tokens, flops, cost, replay, target-loss or source-loss.")] = "tokens",
    price: Annotated[
        list[str] | None, typer.Option(help="Money: flop=2e-18, new-token=1e-7, replayed-token=0; repeat for each.")
    ] = None,
    stages: Annotated[
        str | None, typer.Option(help="Stages with frozen parts, TOKENS:TRAINABLE,…: 0.4:0.034,0.6:0.5; counts FLOPs by them.")
    ] = None,
    replay: Annotated[str | None, typer.Option(help="Replay shares to look at: 0.1:0.6, 0.1,0.25,0.5 or 0.25.")] = None,
    atpp: Annotated[str | None, typer.Option(help="Adaptation tokens per parameter to look at: 1:20, 5,10,20 or 8.")] = None,
    tokens: Annotated[str | None, typer.Option(help="Adaptation tokens to look at, in place of --atpp.")] = None,
    base_loss: Annotated[
        list[str] | None, typer.Option(help="The source's loss before adaptation: measured, law, 2.87, 2.87+-0.01 or NAME=….")
    ] = None,
    source_set: Annotated[
        list[str] | None, typer.Option(help="Which domain of a fit of several is the source: domain=web, or domain=web,code.")
    ] = None,
    target_set: Annotated[list[str] | None, typer.Option(help="Which domain of a fit of several is the target.")] = None,
    level: Annotated[list[float] | None, typer.Option(help="A confidence of the frontier; repeat.")] = None,
    candidates: Annotated[
        Path | None, typer.Option(help="Runs that could be bought: which of them would make the promises surer? See `anchors`.")
    ] = None,
    budget: Annotated[float | None, typer.Option(help="For these, in the unit of their costs (FLOPs unless told).")] = None,
    discrepancy: Annotated[str | None, typer.Option(help="Relative sd, such as 1%, that you state for the laws' errors.")] = None,
    output: Csv = None,
    plot: Picture = None,
    seed: Annotated[int, typer.Option(help="Of the noise of the next run and of errors of base losses.")] = 0,
    force: Force = False,
) -> None:
    """Choose tokens and replay of an adaptation so that promises hold together with a stated probability."""
    from bayeslaw.core.text import plain, with_intervals
    from bayeslaw.forecasting.discrepancy import relative
    from bayeslaw.forecasting.stack import load_fit
    from bayeslaw.planning.plan import LEVELS
    from bayeslaw.planning.plan import plan as make_plan
    from bayeslaw.plots.decisions import plot_plan
    from bayeslaw.plots.style import save_panels

    named = [Path(text.partition("=")[2] or text) for text in source or []]
    check_files("A plan's frontier", output, plot, [*named, target, candidates], of="the frontier")
    if (candidates is None) != (budget is None):
        raise BayeslawError("--candidates and --budget go together: which runs, and for how much.")
    settings = pairs_of("--set", set_ or [], "NAME=VALUE, such as N=8.1e9")
    priced = pairs_of("--price", price or [], "NAME=MONEY, such as flop=2e-18")
    prices = {name: a_number("--price ", value) for name, value in priced.items()}
    files: dict[str, Any] = {}

    def read(path: str | Path) -> Any:
        key = str(Path(path).resolve())
        return files.setdefault(key, files.get(key) or load_fit(path))

    aim = _levels("--target-set", target_set)
    sources, levels = _sources(source or [], source_set, read)
    made = make_plan(
        sources or None, read(target) if target is not None else None, settings, on=on, confidence=confidence,  # type: ignore[arg-type]
        max_forgetting=_named(max_forgetting, "--max-forgetting"), max_loss=max_loss, max_tokens=max_tokens, max_flops=max_flops,
        max_cost=max_cost, minimise=minimise, prices=prices, stages=stages, replay=replay, atpp=atpp,
        tokens=tokens, base_loss=_named(base_loss, "--base-loss"), source_levels=levels or None, target_levels=aim or None,
        levels=level or LEVELS, discrepancy=None if discrepancy is None else relative(discrepancy), seed=seed, force=force,
    )  # fmt: skip
    bought = None
    if candidates is not None and budget is not None:
        bought = made.anchors(candidates, budget=budget, stages=stages, force=force)
    panels = [lambda ax, of=of: plot_plan(made, ax, of=of) for of in made.landscapes]
    with picture_first(plot, lambda path: save_panels(path, panels)):
        for line in made.lines():
            typer.echo(line)
        typer.echo("")
        save_or_show("frontier", made.frontier, output, "frontier")
        if len(made.losses):
            show_table("losses", made.losses, "\n" + plain(with_intervals(made.losses)))
        put("best", made.best)
        put("notes", list(made.notes))
        for note in made.notes:
            typer.echo(f"note: {note}")
        if bought is not None:
            typer.echo("\nruns that would make the promises surer")
            show_table("picks", bought.picks)
            typer.echo(f"\n{bought.text}")


def _sources(given: list[str], sets: list[str] | None, read: Any) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Source fits by name; a fit of which several domains are sources stands under each of them."""
    chosen = _levels("--source-set", sets)
    several = {k: v.split(",") for k, v in chosen.items() if "," in v}
    if len(several) > 1 or (several and len(given) > 1):
        raise BayeslawError("--source-set names several domains of one column and one fit only.")
    sources: dict[str, Any] = {}
    for text in given:
        name, sign, path = text.partition("=")
        if not sign:
            name, path = ("source" if len(given) == 1 else Path(text).stem), text
        if name in sources:
            raise BayeslawError(f"--source gives {name} twice; name them apart: web=S1.nc, code=S2.nc.")
        sources[name] = read(path)
    if several:
        column, values = next(iter(several.items()))
        only = next(iter(sources.values()), None)
        if only is None:
            raise BayeslawError("--source-set goes with --source.")
        return dict.fromkeys(values, only), {value: chosen | {column: value} for value in values}
    return sources, (dict.fromkeys(sources, chosen) if chosen else {})


def _levels(option: str, given: list[str] | None) -> dict[str, str]:

    return pairs_of(option, given or [], "COLUMN=VALUE, such as domain=web")


def _named(given: list[str] | None, option: str) -> Any:
    """A value for all sources, or NAME=VALUE for each."""

    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    return pairs_of(option, given, "NAME=VALUE")


def allocate(
    fit: Annotated[Path, typer.Argument(help="A fit or a stack of a law of N and D.")],
    compute: Annotated[str, typer.Option(help="FLOPs, C = 6 N D: 1e21, or 1e19:1e24:30 for 30 values.")],
    stage: Annotated[str | None, typer.Option(help="Of a law that serves two: its 0/1 covariate, or scratch.")] = None,
    set_: Set = None,
    ci: Probability = 0.9,
    output: Csv = None,
    plot: Picture = None,
    force: Force = False,
) -> None:
    """Parameters and tokens of least loss for compute, with loss and tokens per parameter."""
    from bayeslaw.core.text import plain, with_intervals
    from bayeslaw.forecasting.stack import load_fit
    from bayeslaw.planning.allocation import allocate as make_allocation
    from bayeslaw.plots.decisions import plot_frontier
    from bayeslaw.plots.style import save_panels

    check_files("An allocation", output, plot, [fit])
    settings = pairs_of("--set", set_ or [], "NAME=VALUE, such as r=0.25")
    made = make_allocation(load_fit(fit), compute, stage, settings=settings, force=force)
    table, powers = made.summary(ci), made.powers(ci)
    with picture_first(plot, lambda path: save_panels(path, [lambda ax: plot_frontier([made], ax, ci_prob=ci)])):
        save_or_show("allocation", table, output, f"{len(table)} values of compute", joined=True)
        typer.echo(f"\npower laws of compute, {made.method}")
        show_table("powers", powers, plain(with_intervals(powers)))
        put("notes", list(made.notes))
        for note in made.notes:
            typer.echo(f"note: {note}")


def transfer(
    fit: Annotated[
        Path, typer.Argument(help="A fit of a law that serves scratch and continual pre-training, or of scratch alone.")
    ],
    continued: Annotated[Path | None, typer.Argument(help="The fit of continual pre-training, where it is another.")] = None,
    set_: Set = None,
    stage: Annotated[str | None, typer.Option(help="The 0/1 covariate of continual pre-training, where there are several.")] = None,
    ci: Probability = 0.9,
    output: Csv = None,
    plot: Picture = None,
    force: Force = False,
) -> None:
    """Effectively transferred data, and FLOPs saved at equal loss, of continual pre-training against training from scratch."""
    from bayeslaw.forecasting.stack import load_fit
    from bayeslaw.planning.transfer import transfer as make_transfer
    from bayeslaw.plots.decisions import plot_savings
    from bayeslaw.plots.style import save_panels

    check_files("A transfer table", output, plot, [fit, continued])
    settings = pairs_of("--set", set_ or [], "NAME=VALUES, such as N=2e9 or D=1e8:4e10:30")
    other = load_fit(continued) if continued is not None else None
    made = make_transfer(load_fit(fit), settings, continued=other, stage=stage, force=force)
    table = made.summary(ci)
    panels = [lambda ax, of=of: plot_savings(made, ax, of=of, ci_prob=ci) for of in ("saved", "transferred")]
    with picture_first(plot, lambda path: save_panels(path, panels)):
        save_or_show("transfer", table, output, f"{len(table)} settings", joined=True)
