"""The command line: one command for each step, errors in words, exit status 2 on bad input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bayeslaw.errors import BayeslawError

app = typer.Typer(
    help="Scaling laws as Bayesian models: from a table of logged losses to a forecast with honest intervals.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

LawName = Annotated[str, typer.Argument(help="A law that comes with bayeslaw (see `bayeslaw laws`) or the path of a card.")]
RunsPath = Annotated[Path, typer.Argument(help="Logged losses: .csv, .tsv, .parquet or .jsonl, one evaluation a row.")]
FitPath = Annotated[Path, typer.Argument(help="A fit written by `bayeslaw fit`.")]
Where = Annotated[str | None, typer.Option(help="Use only rows that meet a condition, e.g. \"ptpp <= 31 and domain == 'target'\".")]
Probability = Annotated[float, typer.Option("--ci", help="Probability of the equal-tailed intervals.")]
Force = Annotated[bool, typer.Option("--force", help="Go on in spite of failed checks; every row is marked.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]


@app.command()
def laws(name: Annotated[str | None, typer.Argument(help="Show one law: formula, parameters, priors, source.")] = None) -> None:
    """List the laws, one line each, or show one whole."""
    from bayeslaw.cards import law_names, load_law

    if name is None:
        width = max(map(len, law_names()))
        for known in law_names():
            typer.echo(f"{known:<{width}}  {load_law(known).title}")
        return
    law = load_law(name)
    typer.echo(f"{law.name}: {law.title}\nsource: {law.source}\n\nloss = {law.loss.text}")
    for key, expression in law.let.items():
        typer.echo(f"  {key} = {expression.text}")
    typer.echo("\ncovariates")
    for covariate in law.covariates.values():
        low, high = covariate.support
        typer.echo(f"  {covariate.name:<10} {covariate.unit}, {low:g} to {high:g}")
    typer.echo("\nparameters")
    for parameter in law.parameters.values():
        unit = f" ({parameter.unit})" if parameter.unit else ""
        typer.echo(f"  {parameter.name:<10} {parameter.meaning}{unit}\n  {'':<10} prior {parameter.prior}")
    for title, numbers in law.published.items():
        typer.echo(f"\npublished: {title}\n  " + ", ".join(f"{k} {v:g}" for k, v in numbers.items()))
    if law.note:
        typer.echo(f"\nnote: {law.note}")


@app.command()
def check(runs: RunsPath, law: Annotated[str, typer.Option(help="The law to check the table for.")], where: Where = None) -> None:
    """List every fault of a table, with row, column, value and likely mend."""
    from bayeslaw.cards import load_law
    from bayeslaw.runs import base_rows, mixed_domains, read_runs
    from bayeslaw.runs import check as check_runs

    card, table = load_law(law), read_runs(runs, where, strict=False)
    for conversion in table.conversions:
        typer.echo(f"read: {conversion}")
    faults = check_runs(table, card)
    for fault in faults:
        typer.echo(str(fault))
    if faults:
        raise BayeslawError(f"{runs.name} has {len(faults)} fault{'s' * (len(faults) != 1)} for {card.name}.")
    base = int(base_rows(table.frame, card).sum())
    aside = f"; {base} base-checkpoint rows (D = 0) are kept out of the fit" if base else ""
    typer.echo(f"{runs.name}: {len(table)} rows are sound for {card.name}{aside}.")
    if mixed := mixed_domains(table.frame, card):
        typer.echo(f"To fit it: {mixed}.")


@app.command()
def fit(
    law: LawName,
    runs: RunsPath,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the fit (.nc).")],
    where: Where = None,
    prior: Annotated[list[str] | None, typer.Option(help='Another prior, e.g. "E=LogNormal(0.5,0.2)"; may be repeated.')] = None,
    noise: Annotated[str, typer.Option(help="auto, normal, student, normal-no-run or student-no-run.")] = "auto",
    draws: Annotated[int, typer.Option(help="Draws kept for each chain.")] = 1000,
    tune: Annotated[int, typer.Option(help="Tuning draws for each chain.")] = 500,
    chains: Annotated[int, typer.Option(help="Number of chains.")] = 4,
    seed: Annotated[int, typer.Option(help="The same seed gives the same draws.")] = 0,
    bins: Annotated[float | None, typer.Option(help="Width, in e-folds, of bins for the points of long curves.")] = None,
    sampler: Annotated[str, typer.Option(help="nutpie, or numpyro for large tables on a GPU.")] = "nutpie",
    quiet: Quiet = False,
) -> None:
    """Fit a law to logged losses by NUTS and write the posterior to one NetCDF file."""
    from bayeslaw.fitting import fit as make_fit
    from bayeslaw.runs import read_runs
    from bayeslaw.tables import check_target

    check_target(output, "A fit", ".nc")
    priors = _pairs("--prior", prior or [], "NAME=LogNormal(0.5,0.2)")
    table = read_runs(runs, where)
    settings: dict[str, Any] = {"noise": noise, "priors": priors, "draws": draws, "tune": tune, "chains": chains, "seed": seed}
    made = make_fit(law, table, sampler=sampler, bins=bins, progress=not quiet, **settings)
    made.save(output)
    if made.info["interrupted"]:
        kept = made.tree["posterior"].sizes
        typer.echo(f"Stopped by Ctrl-C: kept {kept['draw']} draws of each of {kept['chain']} chains.")
    base = len(made.observed.base)
    aside = f", {base} base-checkpoint rows (D = 0) kept out" if base else ""
    typer.echo(
        f"{made.law.name} fitted to {made.observed.log_loss.size} rows of {made.observed.runs} runs{aside}; {made.noise.text}."
    )
    for one in made.checks:
        typer.echo(f"  {one}")
    typer.echo(f"written to {output}")


@app.command()
def show(
    fit: FitPath,
    ci: Probability = 0.9,
    latex: Annotated[bool, typer.Option("--latex", help="A LaTeX table.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values, full precision.")] = False,
) -> None:
    """Show parameters with credible intervals, the checks, and what the data did not inform."""
    from bayeslaw.fitting import load_fit
    from bayeslaw.tables import parameters_latex, plain

    loaded = load_fit(fit)
    table = loaded.summary(ci)
    if csv:
        typer.echo(table.to_csv(), nl=False)
        return
    if latex:
        typer.echo(parameters_latex(loaded, ci))
        return
    size = f"{loaded.observed.log_loss.size} rows of {loaded.observed.runs} runs"
    typer.echo(f"{loaded.law.name}: {loaded.law.title}\nfitted to {loaded.info['data']}, {size}; {loaded.noise.text}\n")
    typer.echo(plain(table))
    typer.echo("")
    for one in loaded.checks:
        typer.echo(str(one))
    typer.echo("verdict: " + ("passed" if loaded.passed else "FAILED: its intervals are not to be trusted"))


@app.command()
def forecast(
    fit: FitPath,
    at: Annotated[Path | None, typer.Option(help="A table of settings.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="N=8.1e9, r=0.1,0.25 or D=1e9:2e11:20; repeat for each.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write the forecast (.csv); else it is printed.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Where to write a picture (.png, .pdf or .svg).")] = None,
    ci: Probability = 0.9,
    seed: Annotated[int, typer.Option(help="Of the noise of new runs.")] = 0,
    force: Force = False,
) -> None:
    """Forecast the loss at settings, with latent and run intervals and the distance outside the data."""
    from bayeslaw.fitting import check_probability, load_fit
    from bayeslaw.forecasts import forecast as make_forecast
    from bayeslaw.forecasts import grid
    from bayeslaw.plots import PICTURES, forecast_axis, plot_forecast, save_figure
    from bayeslaw.runs import read_runs
    from bayeslaw.tables import check_target, plain, write_text

    check_probability(ci)
    if output is not None:
        check_target(output, "A forecast", ".csv")
        if at is not None and output.resolve() == at.resolve():
            raise BayeslawError(f"{output.name} is the table of settings: write the forecast to another file.")
    if plot is not None:
        check_target(plot, "A picture", *PICTURES)
    if (at is None) == (not set_):
        raise BayeslawError("Give the settings either by --at GRID.csv or by --set NAME=VALUES for each covariate.")
    loaded = load_fit(fit)
    if at is not None:
        settings = read_runs(at)
    else:
        pairs = _pairs("--set", set_ or [], "NAME=VALUES, such as N=8.1e9 or D=1e9:2e11:20")
        settings = read_runs(grid(loaded.law, pairs))
    made = make_forecast(loaded, settings, seed=seed, force=force)
    table = made.summary(ci)
    if output is None:
        typer.echo(plain(table))
    else:
        write_text(output, table.to_csv(index=False))
        typer.echo(f"{len(table)} settings written to {output}")
    if plot is not None:
        unit = loaded.law.covariates[forecast_axis(made)].unit
        save_figure(plot, lambda ax: plot_forecast(made, ax, ci_prob=ci, unit=unit))
        typer.echo(f"picture written to {plot}")


def _pairs(option: str, texts: list[str], form: str) -> dict[str, str]:
    """Read NAME=VALUE texts of an option; a name given twice is refused."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, value = (part.strip() for part in text.partition("=")[::2])
        if not name or not value:
            raise BayeslawError(f"{option} {text!r} is not of the form {form}.")
        if name in pairs:
            raise BayeslawError(f"{option} gives {name} twice: {pairs[name]!r} and {value!r}.")
        pairs[name] = value
    return pairs


@app.command()
def score(
    fit: FitPath,
    runs: RunsPath,
    where: Where = None,
    csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values, full precision.")] = False,
    force: Force = False,
) -> None:
    """Score a fit's forecasts on held-out rows: errors, calibration, coverage, width, CRPS, log score, PIT."""
    from bayeslaw.fitting import load_fit
    from bayeslaw.runs import read_runs
    from bayeslaw.scores import score as make_scores
    from bayeslaw.tables import plain

    table = make_scores(load_fit(fit), read_runs(runs, where), force=force)
    typer.echo(table.to_csv(index=False) if csv else plain(table.T.set_axis(["value"], axis=1)), nl=not csv)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the picture and tables.")] = Path("demo-output"),
    quiet: Quiet = False,
) -> None:
    """Fit the PTPP-aware laws to measured losses and forecast a pre-training budget they have not seen."""
    from bayeslaw.demo import run

    run(output, progress=not quiet)


def main() -> None:
    """Run the command line; what can't be used is named on standard error, with exit status 2 and no traceback."""
    try:
        app(prog_name="bayeslaw")
    except BayeslawError as error:
        typer.echo(f"Error: {error}", err=True)
        sys.exit(2)
