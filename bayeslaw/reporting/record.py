"""The page of a record of registered forecasts: what is open, and how well what was settled held."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from bayeslaw.core.html import table
from bayeslaw.core.text import counted
from bayeslaw.evaluation.on_record import Calibration, Record
from bayeslaw.evaluation.reach import independent_runs
from bayeslaw.plots.backtest import plot_record
from bayeslaw.plots.fit import plot_coverage, plot_transforms
from bayeslaw.plots.style import HEIGHT, WIDTH
from bayeslaw.reporting.facts import Facts
from bayeslaw.reporting.figures import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HIDDEN = ("outcome", "sha256")  # columns of predictions that JSON has, and digests below the table


def page_of(record: Record) -> str:
    """Return the page of a record: one HTML file that loads nothing from the network and runs no scripts.

    Parameters
    ----------
    record : Record
        As `bayeslaw.evaluation.record` returns it.

    Examples
    --------
    >>> from bayeslaw.reporting.record import page_of
    >>> written = bayeslaw.evaluation.register(bayeslaw.load_fit("fit.nc"), {"N": 1e9, "D": 2e10}).save("p.json")
    >>> "<h1>Record of registered forecasts</h1>" in page_of(bayeslaw.evaluation.record("."))
    True
    """
    from bayeslaw.reporting.html import page

    pictures = {
        f"record{number}-{name}": picture
        for number, calibration in enumerate(record.calibrations, 1)
        for name, picture in _pictures(calibration).items()
    }
    facts = json.loads(json.dumps(_facts(record, pictures), allow_nan=False))
    images = {name: picture.bytes("svg") for name, picture in pictures.items()}
    return page(facts, images, "record.html", "`bayeslaw record FOLDER --json`")


def _facts(record: Record, pictures: dict[str, Picture]) -> Facts:
    """Return what the page says, as plain values."""
    predictions = record.predictions
    empty = [c for c in ("who", "why") if not predictions[c].astype(bool).any()]
    usual = [c for c, value in (("checks", "passed"), ("signed", "no")) if (predictions[c] == value).all()]
    shown = predictions.rename(columns={"inside90": "inside 90%"})
    sections: list[Any] = [
        {
            "heading": f"{c.outcome.heading}{f' ({c.unit})' if c.unit else ''}",
            "table": table("Settled forecasts by their distance beyond the fitted runs", c.shown),
            "error": "mean relative error" if c.outcome.relative else f"mean error in the unit of the {c.outcome.name}",
            "pictures": [name for name in pictures if name.startswith(f"record{number}-")],
        }
        for number, c in enumerate(record.calibrations, 1)
    ]
    return {
        "title": "Record of registered forecasts", "folder": record.folder, "text": record.text, "faults": list(record.faults),
        "count": len(predictions), "open": int((predictions["status"] == "open").sum()), "bayeslaw": version("bayeslaw"),
        "predictions": table("Predictions, the oldest first", shown, [*HIDDEN, *empty, *usual]), "sections": sections,
        "digests": [{"file": file, "sha256": digest} for file, digest in predictions[["file", "sha256"]].to_numpy().tolist()],
        "figures": {name: {"caption": picture.caption, "alt": picture.alt} for name, picture in pictures.items()},
    }  # fmt: skip


def _pictures(calibration: Calibration) -> dict[str, Picture]:
    """Return the pictures of one kind of outcome."""
    outcome, runs = calibration.outcome, calibration.rows["run"].nunique()
    plural, of = outcome.plural, f"{counted(len(calibration.rows), 'settled forecast')} of {counted(runs, 'run')}"

    def calibrated(figure: Figure) -> None:
        above, below = figure.subplots(2, 1)
        plot_coverage(calibration.transforms, above, runs=independent_runs(calibration.rows), outcome=outcome)
        plot_transforms(calibration.transforms, below, outcome=outcome)

    return {
        "reach": Picture(
            f"Share of {plural} inside the 50, 80 and 90% intervals by the distance beyond the fitted runs, {of}.",
            f"Coverage of intervals against how far beyond the runs the forecasts were of {plural}. The table has the numbers.",
            (WIDTH, HEIGHT), lambda figure: plot_record(calibration, figure.subplots()),
        ),
        "calibration": Picture(
            f"Coverage of equal-tailed intervals of every probability, and the rank of each {outcome.name} in its forecast (PIT): "
            f"level if the intervals are right. {of[:1].upper()}{of[1:]}.",
            f"Above, coverage against the intervals' probability; below, a histogram of ranks of {plural}. The table has both.",
            (WIDTH, 2 * HEIGHT), calibrated,
        ),
    }  # fmt: skip
