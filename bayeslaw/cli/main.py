"""The command line: one command for each step, errors in words, exit status 2 on bad input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayeslaw.cli import data as cli_data
from bayeslaw.cli import dynamics as cli_dynamics
from bayeslaw.cli import laws as cli_laws
from bayeslaw.cli import logs as cli_import
from bayeslaw.cli import plan as cli_plan
from bayeslaw.cli.anchors import anchors
from bayeslaw.cli.io import check_files, figure_first, pairs_of, put, put_checks, save_or_show, show_table, with_json
from bayeslaw.cli.laws import RunsPath, Where
from bayeslaw.cli.report import report
from bayeslaw.core.errors import BayeslawError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayeslaw.posterior.fit import Fit

app = typer.Typer(
    help="Scaling laws as Bayesian models: from a table of logged losses to a forecast with honest intervals.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

LawName = Annotated[str, typer.Argument(help="A law that comes with bayeslaw (see `bayeslaw laws`) or the path of a card.")]
FitPath = Annotated[Path, typer.Argument(help="A fit written by `bayeslaw fit` or a stack written by `bayeslaw compare`.")]
Probability = Annotated[float, typer.Option("--ci", help="Probability of the equal-tailed intervals.")]
Force = Annotated[bool, typer.Option("--force", help="Go on in spite of failed checks; every row is marked.")]
Discrepancy = Annotated[
    str | None, typer.Option(help="Relative sd, such as 1% or 0.01, that you state for the law's error outside the runs.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]


cli_laws.register(app)


@app.command()
def fit(
    law: LawName,
    runs: RunsPath,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the fit (.nc).")],
    where: Where = None,
    prior: Annotated[list[str] | None, typer.Option(help='Another prior, e.g. "E=LogNormal(0.5,0.2)"; may be repeated.')] = None,
    noise: Annotated[
        str,
        typer.Option(help="auto, normal, normal-drift, normal-checkpoint, skew, student, normal-no-run or student-no-run."),
    ] = "auto",
    noise_by: Annotated[str | None, typer.Option(help="Column whose values are groups of runs with noise of their own.")] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="A parameter that varies by a column, partially pooled: E=domain; may be repeated.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws kept for each chain.")] = 1000,
    tune: Annotated[int, typer.Option(help="Tuning draws for each chain.")] = 500,
    chains: Annotated[int, typer.Option(help="Number of chains.")] = 4,
    seed: Annotated[int, typer.Option(help="The same seed gives the same draws.")] = 0,
    bins: Annotated[float | None, typer.Option(help="Width, in e-folds, of bins for the points of long curves.")] = None,
    quiet: Quiet = False,
) -> None:
    """Fit a law to logged losses by NUTS and write the posterior to one NetCDF file."""
    from bayeslaw.core.files import check_target
    from bayeslaw.data.table import read_runs
    from bayeslaw.inference.fit import fit as make_fit

    check_target(output, "A fit", ".nc")
    priors = pairs_of("--prior", prior or [], "NAME=LogNormal(0.5,0.2)")
    varying = pairs_of("--by", by or [], "PARAMETER=COLUMN, such as E=domain")
    table = read_runs(runs, where)
    settings: dict[str, Any] = {"priors": priors, "draws": draws, "tune": tune, "chains": chains, "seed": seed, "bins": bins}
    made = make_fit(law, table, noise=noise, noise_by=noise_by, by=varying, progress=not quiet, **settings)
    made.save(output)
    _tell(made)
    typer.echo(f"written to {output}")


def _tell(made: Fit, err: bool = False) -> None:
    """Say what was fitted, what each check found, and the verdict."""
    from bayeslaw.core.units import NATS

    if made.info["interrupted"]:
        kept = made.tree["posterior"].sizes
        typer.echo(f"Stopped by Ctrl-C: kept {kept['draw']} draws of each of {kept['chain']} chains.", err=err)
    base = len(made.observed.base)
    aside = f", {base} base-checkpoint rows (D = 0) kept out" if base else ""
    typer.echo(
        f"{made.law.name} fitted to {made.observed.log_loss.size} rows of {made.observed.runs} runs{aside}; {made.noise.text}.",
        err=err,
    )
    if made.observed.unit != NATS:
        typer.echo(f"  losses and forecasts are in {made.observed.unit}; the cards' priors are stated for {NATS}", err=err)
    put("law", made.law.name)
    put("rows", int(made.observed.log_loss.size))
    put("runs", int(made.observed.runs))
    put_checks(made.checks, made.passed)
    for one in made.checks:
        typer.echo(f"  {one}", err=err)
    typer.echo(f"verdict: {'passed' if made.passed else 'FAILED: its intervals are not to be trusted'}", err=err)


@app.command()
def show(
    fit: FitPath,
    ci: Probability = 0.9,
    latex: Annotated[bool, typer.Option("--latex", help="A LaTeX table.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values, full precision.")] = False,
    sensitivity: Annotated[bool, typer.Option("--sensitivity", help="How much the posterior owes to its priors.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Show intervals in spite of failed checks; every row is marked.")] = False,
) -> None:
    """Show parameters with credible intervals, the checks, and what the data did not inform."""
    from bayeslaw.core.intervals import interval_names
    from bayeslaw.core.text import plain
    from bayeslaw.forecasting.stack import Stack, load_fit
    from bayeslaw.posterior.sensitivity import SENSITIVE
    from bayeslaw.reporting.latex import parameters_latex

    loaded = load_fit(fit)
    if isinstance(loaded, Stack) and (latex or sensitivity):
        raise BayeslawError(f"{fit.name} is a stack of fits; --latex and --sensitivity are for one.")
    table = loaded.summary(ci)
    withheld = not loaded.passed and not force
    if (csv or latex) and withheld:
        raise BayeslawError(
            f"The fit's checks failed ({loaded.failures}): its intervals can't be trusted. "
            "Sample longer, or --force them and have every row marked."
        )
    if csv:
        typer.echo(table.to_csv(), nl=False)
        return
    if isinstance(loaded, Stack):
        typer.echo(f"{loaded.name}\n")
        show_table("fits", loaded.table, plain(loaded.table) + "\n")
    elif latex:
        typer.echo(parameters_latex(loaded, ci))
        return
    else:
        size = f"{loaded.observed.log_loss.size} rows of {loaded.observed.runs} runs"
        typer.echo(f"{loaded.name}: {loaded.law.title}\nfitted to {loaded.info['data']}, {size}; {loaded.noise.text}\n")
    show_table("parameters", table.drop(columns=list(interval_names("eti", ci))) if withheld else table)
    typer.echo("")
    put_checks(loaded.checks, loaded.passed)
    for one in loaded.checks:
        typer.echo(str(one))
    if sensitivity and not isinstance(loaded, Stack):
        typer.echo(f"\nsensitivity to a doubling of the weight of priors (law, noise) or likelihood, of note from {SENSITIVE} on\n")
        sensitivities = loaded.sensitivity()
        show_table("sensitivity", sensitivities, plain(sensitivities) + "\n")
    failed = "FAILED: its intervals are not to be trusted" + (" and not shown without --force" if withheld else "")
    typer.echo("verdict: " + ("passed" if loaded.passed else failed))


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
    discrepancy: Discrepancy = None,
    seed: Annotated[int, typer.Option(help="Of the noise of new runs.")] = 0,
    force: Force = False,
) -> None:
    """Forecast the loss at settings, with latent, run and discrepancy intervals and the distance outside the data."""
    from bayeslaw.core.intervals import check_probability
    from bayeslaw.data.table import read_runs
    from bayeslaw.forecasting.discrepancy import relative
    from bayeslaw.forecasting.forecast import forecast as make_forecast
    from bayeslaw.forecasting.grid import grid
    from bayeslaw.forecasting.stack import load_fit
    from bayeslaw.plots.forecast import forecast_axis, plot_forecast

    check_probability(ci)
    if discrepancy is not None:
        relative(discrepancy)
    check_files("A forecast", output, plot, [fit, at], of="the forecast")
    if (at is None) == (not set_):
        raise BayeslawError("Give the settings either by --at GRID.csv or by --set NAME=VALUES for each covariate.")
    loaded = load_fit(fit)
    if at is not None:
        settings = read_runs(at)
    else:
        pairs = pairs_of("--set", set_ or [], "NAME=VALUES, such as N=8.1e9 or D=1e9:2e11:20")
        settings = read_runs(grid(loaded, pairs))
    made = make_forecast(loaded, settings, discrepancy=discrepancy, seed=seed, force=force)
    table = made.summary(ci)

    def draw(ax: Axes) -> None:
        plot_forecast(made, ax, ci_prob=ci, unit=loaded.covariates[forecast_axis(made)].unit)

    with figure_first(plot, draw):
        save_or_show("forecast", table, output, f"{len(table)} settings", joined=True)
        put_checks((*loaded.checks, *made.checks), not made.forced)
        for one in (*loaded.checks, *made.checks):
            if not one.passed and (one.required or one.name == "extrapolation"):
                typer.echo(str(one))


@app.command()
def score(
    fit: FitPath,
    runs: RunsPath,
    where: Where = None,
    csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values, full precision.")] = False,
    discrepancy: Discrepancy = None,
    force: Force = False,
) -> None:
    """Score a fit's forecasts on held-out rows: errors, calibration, coverage, width, CRPS, log score, PIT."""
    from bayeslaw.core.text import plain
    from bayeslaw.data.table import read_runs
    from bayeslaw.evaluation.scores import score as make_scores
    from bayeslaw.forecasting.stack import load_fit

    table = make_scores(load_fit(fit), read_runs(runs, where), discrepancy=discrepancy, force=force)
    if csv:
        typer.echo(table.to_csv(index=False), nl=False)
    else:
        show_table("scores", table, plain(table.T.set_axis(["value"], axis=1)))


@app.command()
def compare(
    runs: RunsPath,
    law: Annotated[list[str], typer.Option(help="A law to compare; repeat for each.")],
    holdout: Annotated[str | None, typer.Option(help='Hold out the rows that meet a condition, e.g. "ptpp > 31".')] = None,
    by: Annotated[str | None, typer.Option(help="Hold out the rows of each value of a column in turn.")] = None,
    loo: Annotated[bool, typer.Option("--loo", help="Leave out one run after the other, which is the default.")] = False,
    where: Where = None,
    noise: Annotated[list[str] | None, typer.Option(help="A noise to fit every law with, as for `bayeslaw fit`; repeat.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the stack of the fits (.nc).")] = None,
    executor: Annotated[str, typer.Option(help="in-process, processes, processes:4 or a Dask scheduler's address.")] = "in-process",
    bootstrap: Annotated[int, typer.Option(help="Resamples of whole runs for the point fits' intervals.")] = 0,
    draws: Annotated[int, typer.Option(help="Draws kept for each chain.")] = 1000,
    tune: Annotated[int, typer.Option(help="Tuning draws for each chain.")] = 500,
    chains: Annotated[int, typer.Option(help="Number of chains.")] = 4,
    starts: Annotated[int, typer.Option(help="Starts of each point fit.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    csv: Annotated[bool, typer.Option("--csv", help="The scores as comma-separated values, full precision.")] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Compare laws and noises on runs they were not fitted to: every score, and the weights of a stack that forecasts."""
    from bayeslaw.core.files import check_target
    from bayeslaw.core.text import plain
    from bayeslaw.data.table import read_runs
    from bayeslaw.evaluation.compare import compare as make_comparison

    if output is not None:
        check_target(output, "A stack", ".nc")
    made = make_comparison(
        read_runs(runs, where), law, noise=noise or ["auto"], holdout=holdout, by=by, loo=loo, bootstrap=bootstrap, starts=starts,
        seed=seed, options={"draws": draws, "tune": tune, "chains": chains}, executor=executor, force=force, progress=not quiet,
    )  # fmt: skip
    if csv:
        typer.echo(made.scores.to_csv(index=False), nl=False)
    else:
        put("scores", made.scores)
        for part, scores in made.scores.groupby("held_out", sort=False):
            typer.echo(f"held out: {part}")
            names = [" ".join(filter(None, row)) for row in zip(scores["law"], scores["noise"], scores["fit"], strict=True)]
            typer.echo(plain(scores.drop(columns=["held_out", "law", "noise", "fit"]).T.set_axis(names, axis=1)) + "\n")
        typer.echo("log predictive density of left-out runs, and stacking weights")
        weights = made.weights.reset_index(drop=True)
        show_table("weights", weights, plain(weights) + "\n")
        put("notes", list(made.notes))
        for note in made.notes:
            typer.echo(f"note: {note}")
    if output is not None:
        made.stack.save(output)
        typer.echo(f"{made.stack.name} written to {output}", err=csv)


app.command()(anchors)
app.command()(report)


@app.command()
def update(
    fit: Annotated[Path, typer.Argument(help="A fit written by `bayeslaw fit` or `bayeslaw update`.")],
    runs: Annotated[Path, typer.Argument(help="Losses of the runs that came back, a table like the fit's own.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the new fit (.nc).")],
    where: Where = None,
    targets: Annotated[
        Path | None, typer.Option(help="Settings, one row each, whose intervals are shown before and after.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same draws; the fit's unless given.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="How the runs came, as comma-separated values, full precision.")] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Fit again with the runs that came back, and say whether they came as the fit had foretold."""
    from bayeslaw.core.files import check_target
    from bayeslaw.core.text import plain, with_intervals
    from bayeslaw.data.table import read_runs
    from bayeslaw.design.update import update as make_update
    from bayeslaw.forecasting.stack import load_fit

    check_target(output, "A fit", ".nc")
    if output.resolve() == fit.resolve():
        raise BayeslawError(f"{output.name} is the fit to start from: write the new one to another file.")
    new, asked = read_runs(runs, where), None if targets is None else read_runs(targets)
    made = make_update(load_fit(fit), new, targets=asked, seed=seed, force=force, progress=not quiet)
    made.fit.save(output)
    if csv:
        typer.echo(made.surprise.to_csv(index=False), nl=False)
    else:
        shown = made.surprise.drop(columns=["compared", "continues", "predicted_median", "inside_eti90"])
        show_table("surprise", made.surprise, plain(with_intervals(shown)) + "\n")
    typer.echo(f"surprise: {made.text}\n", err=csv)
    if made.widths is not None and csv:
        typer.echo(plain(with_intervals(made.widths)) + "\n", err=True)
    elif made.widths is not None:
        show_table("widths", made.widths, plain(with_intervals(made.widths)) + "\n")
    _tell(made.fit, err=csv)
    typer.echo(f"written to {output}", err=csv)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the picture and tables.")] = Path("demo-output"),
    quick: Annotated[bool, typer.Option("--quick", help="Only the first law.")] = False,
    tables: Annotated[bool, typer.Option("--tables", help="Only write the measured losses there, to try things on.")] = False,
    quiet: Quiet = False,
) -> None:
    """Fit the PTPP-aware laws to measured losses and forecast a pre-training budget they have not seen."""
    from bayeslaw.cli.demo import run, write_tables

    if tables:
        for path in write_tables(output).values():
            typer.echo(f"written to {path}")
        return
    put("scores", run(output, quick=quick, progress=not quiet))


cli_plan.register(app)
cli_dynamics.register(app)
cli_import.register(app)
cli_data.register(app)
with_json(app)  # after every command is there


def main() -> None:
    """Run the command line; what can't be used is named on standard error, with exit status 2 and no traceback."""
    try:
        app(prog_name="bayeslaw")
    except BayeslawError as error:
        typer.echo(f"Error: {error}", err=True)
        sys.exit(2)
