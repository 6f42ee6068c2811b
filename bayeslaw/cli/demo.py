"""The demonstration: PTPP-aware laws on measured losses of small transformers, forecast to budgets they have not seen."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import typer

from bayeslaw.cli.answer import Answer
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.files import make_folder, write_own, write_text
from bayeslaw.core.text import once, plain
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.evaluation.scores import score
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.grid import grid
from bayeslaw.forecasting.stack import load_fit
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
SETTLED, SETTLED_NAME = 2.0, "tinycpt"
STARTS = 20


def table_path(name: str = "runs") -> Path:
    """The measured losses, `runs` or `curves`: inside the wheel, or in the checkout."""
    package = Path(__file__).parents[1]
    inside = package / "data" / f"tinycpt-{name}.csv"
    return inside if inside.is_file() else package.parent / "data" / "tinycpt" / f"{name}.csv"


def write_tables(output: Path) -> dict[str, Path]:
    """Write the losses of one seed on each domain, and whole training curves of both, as target.csv, source.csv and curves.csv.

    Files of these names with other contents may be the user's own tables, and are refused.
    """
    make_folder(output)
    frame = pd.read_csv(table_path()).query(ONE_SEED)
    columns = ["run", "checkpoint", "N", "ptpp", "r", "step", "D", "loss"]
    texts = {name: frame.loc[frame["domain"] == name, columns].to_csv(index=False) for name in ("target", "source")}
    texts["curves"] = table_path("curves").read_text(encoding="utf-8")
    files = {name: output / f"{name}.csv" for name in texts}
    write_own({path: texts[name] for name, path in files.items()}, "the demonstration's table")
    return files


def run(output: Path, *, progress: bool = True) -> Answer:
    """Fit, forecast and score on the target domain, and write table, picture and fits into a folder.

    Parameters
    ----------
    output, progress
        The folder, and whether to show progress on standard error.
    """
    make_folder(output)
    _refuse_others(output)
    whole = read_runs(table_path(), f"domain == 'target' and {ONE_SEED}")
    settled = Runs(whole.frame[whole.frame["D"] >= SETTLED * whole.frame["N"]], SETTLED_NAME)
    unseen, answer = settled.where(UNSEEN), Answer()
    short, long = (_listed(f"{v:g}" for v in sorted(r.frame["ptpp"].unique())) for r in (settled.where(SEEN), unseen))
    answer.say(
        "Small transformers were pre-trained on one text and then trained on another.",
        f"Laws are fitted to runs with short pre-trainings: {short} tokens per parameter.",
        f"They forecast {len(unseen)} losses after longer ones, {long}, not seen by the fits.",
        "",
    )
    scores, fits = [], {}
    for name in LAWS:
        seen = (whole if load_law(name).covariates["D"].support[0] == 0 else settled).where(SEEN)
        if progress:
            typer.echo(f"fitting {name} to {len(seen)} rows …", err=True)
        fits[name] = fit(name, seen, progress=progress)
        fits[name].save(output / f"{name}.nc")
        scores.append(score(fits[name], unseen, force=True))
        scores.append(score(point_fit(name, seen, starts=STARTS, progress=progress), unseen))
    table = pd.concat(scores, ignore_index=True)
    write_text(output / "scores.csv", table.to_csv(index=False))
    answer.say("Forecasts against measured losses, best first; width and CRPS in nats per token:", "")
    posteriors = table[table["fit"] == "posterior"].sort_values("crps").set_index("law")
    points = table[table["fit"] == "point"].set_index("law")
    answer.show("scores", table, plain(_shown(posteriors, points)))
    best = str(posteriors.index[0])
    _picture(fits[best], settled, output / "forecast.png")
    answer.say(
        "",
        *once(f"{name}: sampling {fitted.verdicts[0]}" for name, fitted in fits.items()),
        "Passed sampling means that the draws are those of the posterior, not that the",
        "law is right. Concerns name what may be wrong with a law inside its runs; they",
        "do not rank laws. Losses that were held out, as here, do.",
        f"Concerns about {best}: {', '.join(check.name for check in fits[best].concerns) or 'none'}.",
        f"Explained by: bayeslaw show {shlex.quote(str(output / (best + '.nc')))}",
        f"Written to {output}: forecast.png (a picture of {best}), scores.csv, fits.",
        "",
        _conclusion(posteriors, short, long),
    )
    return answer


def _refuse_others(output: Path) -> None:
    """Refuse a folder with files of the demonstration's names that it has not written: they may be the user's own."""
    there = [path for name in (*(f"{law}.nc" for law in LAWS), "scores.csv", "forecast.png") if (path := output / name).exists()]
    if there and not _is_own(output / f"{LAWS[0]}.nc"):
        message = f"{there[0]} exists, and is not the demonstration's: choose another folder (-o, output=) or move it."
        raise BayeslawError(message, code="would-overwrite")


def _is_own(path: Path) -> bool:
    """Whether a file is a fit that the demonstration has made."""
    try:
        sources = [source for fitted, _ in load_fit(path).selections for source in fitted.sources]
    except BayeslawError:
        return False
    return all(source.name in (table_path().name, SETTLED_NAME) and SEEN in source.where for source in sources)


def _shown(posteriors: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Return the scores to print, by law: of its posterior, and the error of its point fit."""
    return pd.DataFrame(
        {
            "error": [f"{error:.1%}" for error in posteriors["mae_rel"]],
            "in 90% interval": [_inside(row) for _, row in posteriors.iterrows()],
            "width": posteriors["width_eti90"],
            "CRPS": posteriors["crps"],
            "error of point fit": [f"{error:.1%}" for error in points.loc[posteriors.index, "mae_rel"]],
        },
        index=posteriors.index,
    )


def _listed(texts: Iterable[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def _inside(row: pd.Series) -> str:
    return f"{round(row['cover_eti90'] * row['rows'])} of {row['rows']} ({row['cover_eti90']:.0%})"


def _conclusion(scores: pd.DataFrame, short: str, long: str) -> str:
    """Return one sentence on the best law, and on the worst if there are several, from the scores by law, best first."""
    best, worst = scores.iloc[0], scores.iloc[-1]
    share = best["cover_eti90"]
    # Half of the distance to 100%: a coverage of 90% intervals that is farther off is worth a word.
    judged = "wider than need be" if share > 0.95 else "too narrow" if share < 0.85 else "about right"
    others = f"; {worst.name} missed by {worst['mae_rel']:.1%} and held {_inside(worst)}" if len(scores) > 1 else ""
    return (
        f"Conclusion: fitted to pre-trainings of {short} tokens per parameter, {best.name} forecast the losses after {long} "
        f"tokens per parameter with a mean error of {best['mae_rel']:.1%}, and its 90% intervals held {_inside(best)}: "
        f"they are {judged} here{others}."
    )


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
        plot_forecast(fan, ax, measured=there, x="D")
        ax.set_title(
            f"{fit.law.name} fitted to PTPP ≤ 31, forecast at PTPP {ptpp:g}, r = {r:g}:\n"
            "median and 90% equal-tailed interval of the next run" + failure(fan.forced),
            fontsize=9,
        )

    save_figure(path, draw)
