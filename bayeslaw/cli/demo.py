"""The demonstration: PTPP-aware laws on measured losses of small transformers, forecast to budgets they have not seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import typer

from bayeslaw.cli.answer import Answer
from bayeslaw.cli.options import make_folder
from bayeslaw.core.files import write_text
from bayeslaw.core.text import plain
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.evaluation.scores import score
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.grid import grid
from bayeslaw.inference.fit import fit
from bayeslaw.inference.point import point_fit
from bayeslaw.laws.card import load_law
from bayeslaw.plots.forecast import plot_forecast
from bayeslaw.plots.style import failure, save_figure
from bayeslaw.posterior.fit import Fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LAWS = ("transfer-target", "ptpp-gate-floor", "ptpp-gate", "ptpp-floor", "d-cpt")
SEEN, UNSEEN = "ptpp <= 31", "ptpp > 31"
ONE_SEED = "seed == 0 and (D == 0 or (r > 0 and r < 1))"
# Every published form is infinite at D = 0 and describes the settled part of a run: they are fitted to that part, which is the
# better for them, and all laws are scored on it. A law that is finite at D = 0 is fitted to whole runs.
SETTLED = 2.0
STARTS = 20
COLUMNS = ["law", "fit", "checks", "model", "mae_rel", "rmse_log", "slope", "cover_eti50", "cover_eti90", "width_eti90", "crps"]


def table_path(name: str = "runs") -> Path:
    """The measured losses, `runs` or `curves`: inside the wheel, or in the checkout."""
    package = Path(__file__).parents[1]
    inside = package / "data" / f"tinycpt-{name}.csv"
    return inside if inside.is_file() else package.parent / "data" / "tinycpt" / f"{name}.csv"


def write_tables(output: Path) -> dict[str, Path]:
    """Write the losses of one seed on each domain, and whole training curves of both, as target.csv, source.csv and curves.csv."""
    make_folder(output)
    frame = pd.read_csv(table_path()).query(ONE_SEED)
    files = {name: output / f"{name}.csv" for name in ("target", "source", "curves")}
    for name in ("target", "source"):
        columns = ["run", "checkpoint", "N", "ptpp", "r", "step", "D", "loss"]
        write_text(files[name], frame.loc[frame["domain"] == name, columns].to_csv(index=False))
    write_text(files["curves"], table_path("curves").read_text(encoding="utf-8"))
    return files


def run(output: Path, *, quick: bool = False, progress: bool = True) -> Answer:
    """Fit, forecast and score on the target domain, and write table, picture and fits into a folder.

    Parameters
    ----------
    output, quick, progress
        The folder, whether to fit only the first law, and whether to show progress on standard error.
    """
    make_folder(output)
    whole = read_runs(table_path(), f"domain == 'target' and {ONE_SEED}")
    settled = Runs(whole.frame[whole.frame["D"] >= SETTLED * whole.frame["N"]], "tinycpt")
    unseen, answer = settled.where(UNSEEN), Answer()
    budgets = [", ".join(f"{v:g}" for v in sorted(runs.frame["ptpp"].unique())) for runs in (settled.where(SEEN), unseen)]
    answer.say(
        f"tinycpt, target domain, from {SETTLED:g} adaptation tokens per parameter on: fitted at PTPP "
        f"{budgets[0]}, {len(unseen)} losses at PTPP {budgets[1]} forecast.",
        "",
    )
    scores, fits = [], {}
    for name in LAWS[:1] if quick else LAWS:
        seen = (whole if load_law(name).covariates["D"].support[0] == 0 else settled).where(SEEN)
        if progress:
            typer.echo(f"fitting {name} to {len(seen)} rows …", err=True)
        fits[name] = fit(name, seen, progress=progress)
        fits[name].save(output / f"{name}.nc")
        sampling, model = fits[name].verdicts
        answer.say(f"{name} fitted to {len(seen)} rows", f"  Sampling: {sampling}", f"  Model: {model}")
        scores.append(score(fits[name], unseen, force=True))
        scores.append(score(point_fit(name, seen, starts=STARTS, progress=progress), unseen))
    answer.say("", "Concerns, each for the first law that has it:", *(f"  {text}" for text in _concerns(fits)))
    table = pd.concat(scores, ignore_index=True)
    write_text(output / "scores.csv", table.to_csv(index=False))
    answer.say("", "forecasts of unseen PTPP against the measured losses (errors relative, width and CRPS in nats):", "")
    answer.show("scores", table, plain(table[COLUMNS]))
    posteriors = table[table["fit"] == "posterior"].sort_values("crps").set_index("law")
    best = str(posteriors.index[0])
    answer.say("", *_conclusions(posteriors))
    _picture(fits[best], settled, output / "forecast.png")
    answer.say(
        f"Best by CRPS: {best}. Picture: {output / 'forecast.png'}; table: {output / 'scores.csv'}; fits beside them.",
        f"Look closer with: bayeslaw show {output / (best + '.nc')}",
    )
    return answer


def _concerns(fits: Mapping[str, Fit]) -> list[str]:
    """Return every concern once, as the first law that has it states it."""
    found: dict[str, str] = {}
    for name, made in fits.items():
        for check in made.concerns:
            found.setdefault(check.name, f"{check.name}, {name}: {str(check).removeprefix('concern: ')}")
    return list(found.values())


def _conclusions(scores: pd.DataFrame) -> list[str]:
    """Return what the verdicts and the scores, by law and best first, say together."""
    covered = ", ".join(f"{law} {share:.0%}" for law, share in scores["cover_eti90"].items())
    return [
        "Passed sampling means that the draws are those of the posterior, not that the law is right: 90% intervals hold, of the",
        f"losses that were not fitted, {covered}.",
        "Concerns name what may be wrong with a law. They don't rank laws: held-out losses, as here, or `bayeslaw compare` do.",
    ]


def _picture(fit: Fit, runs: Runs, path: Path) -> None:
    """Forecast fans over adaptation tokens at the largest PTPP, one for each model size that was run there, at one replay share."""
    frame = runs.frame
    ptpp, r = frame["ptpp"].max(), sorted(frame["r"].unique())[len(frame["r"].unique()) // 2]
    there = frame[(frame["ptpp"] == ptpp) & (frame["r"] == r)]
    law = load_law(fit.law.name)
    curves = []
    for size, run in there.groupby("N"):
        settings = {"N": size, "D": f"{run['D'].min()}:{run['D'].max()}:40", "r": r, "ptpp": ptpp}
        curves.append(grid(law, {k: v for k, v in settings.items() if k in law.covariates}))
    fan = forecast(fit, pd.concat(curves, ignore_index=True), force=True)

    def draw(ax: Axes) -> None:
        plot_forecast(fan, ax, measured=there, x="D", unit="adaptation tokens")
        ax.set_title(
            f"{fit.law.name} fitted to PTPP ≤ 31, forecast at PTPP {ptpp:g}, r = {r:g}:\n"
            "median and 90% equal-tailed interval of the next run" + failure(fan.forced),
            fontsize=9,
        )

    save_figure(path, draw)
