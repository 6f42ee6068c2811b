"""A report on fits: what it says as plain values, its pictures, and from these the page, the JSON and the LaTeX files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, FitError, whole_number
from bayeslaw.core.intervals import check_probability
from bayeslaw.data.table import Runs
from bayeslaw.evaluation.scores import held_rows, transforms
from bayeslaw.forecasting.discrepancy import read_discrepancy
from bayeslaw.forecasting.forecast import Forecast, forecast, forecast_selections
from bayeslaw.forecasting.stack import Posterior, Stack
from bayeslaw.plots.decisions import plot_confidence
from bayeslaw.plots.design import plot_picks, width_column
from bayeslaw.plots.fit import (
    plot_comparison,
    plot_coverage,
    plot_transforms,
)
from bayeslaw.plots.forecast import forecast_axis, plot_forecast, text_columns, text_names
from bayeslaw.posterior.fit import Fit
from bayeslaw.reporting.facts import (
    INTERVAL,
    Facts,
    fit_facts,
    forecast_facts,
    left_out,
    score_facts,
    scores_table,
    stack_facts,
    table,
)
from bayeslaw.reporting.figures import Picture, fit_pictures
from bayeslaw.reporting.methods import methods

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Report:
    """What a report says and shows.

    Attributes
    ----------
    facts : dict
        Plain values, as JSON knows them: the page and the LaTeX files have no number that is not in here.
    pictures : mapping of name to Picture
    """

    facts: Facts
    pictures: Mapping[str, Picture]

    @property
    def json(self) -> str:
        """The facts as JSON."""
        return json.dumps(self.facts, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @property
    def html(self) -> str:
        """The page: one file that asks for nothing else."""
        from bayeslaw.reporting.html import page

        return page(json.loads(self.json), {name: one.bytes("svg") for name, one in self.pictures.items()})

    @property
    def latex(self) -> dict[str, bytes]:
        """Files for a paper by name: tables and methods as .tex, pictures as .pdf, and report.tex, which shows them all."""
        from bayeslaw.reporting.latex import files

        return files(json.loads(self.json)) | {f"{name}.pdf": one.bytes("pdf") for name, one in self.pictures.items()}


def report(
    fits: Mapping[str, Posterior],
    *,
    files: Mapping[str, str] | None = None,
    at: Runs | None = None,
    measured: Runs | None = None,
    stacks: Mapping[str, Stack] | None = None,
    scores: Mapping[str, pd.DataFrame] | None = None,
    picks: pd.DataFrame | None = None,
    frontier: pd.DataFrame | None = None,
    ci_prob: float = 0.9,
    discrepancy: float | str | None = None,
    seed: int = 0,
    force: bool = False,
    command: str = "",
) -> Report:
    """Gather a report on fits; nothing is fitted again.

    Parameters
    ----------
    fits : mapping of label to Fit or Stack
        Of a stack every fit is reported, and its forecasts are those of the stack.
    files : mapping of label to str, optional
        The files they came from; what is not in it came from none.
    at : Runs, optional
        Settings to forecast.
    measured : Runs, optional
        Losses that the fits have not seen: forecasts of them are scored.
    stacks, scores : mapping of name to Stack, to DataFrame
        What `bayeslaw compare` wrote.
    picks, frontier : DataFrame, optional
        What `bayeslaw anchors -o` and `bayeslaw plan -o` wrote.
    ci_prob : float
        Probability of the equal-tailed intervals.
    discrepancy : float or text, optional
        Relative sd that you state for the laws' errors, for forecasts and scores.
    seed : int
        Of the noise of new runs.
    force : bool
        Show intervals and forecasts of fits whose checks failed, marked, instead of withholding them.
    command : str
        What is said to have made the report.

    Raises
    ------
    BayeslawError
        If something given can't be used. A fit whose checks failed is reported, without intervals unless forced.
    """
    check_probability(ci_prob)
    if not fits:
        raise BayeslawError("Give at least one fit to report on.")
    whole_number("seed", seed, 0)
    sd = None if discrepancy is None else read_discrepancy(discrepancy)
    options: dict[str, Any] = {"discrepancy": sd, "seed": seed, "force": force}
    found = _singles(fits)
    singles = {label: fit for label, (_, fit) in found.items()}
    interval = f"{ci_prob * 100:g}% {INTERVAL}"
    pictures: dict[str, Picture] = {}
    facts: Facts = {
        "title": "Report on " + ", ".join(singles), "bayeslaw": version("bayeslaw"), "command": command, "seed": seed,
        "ci_prob": ci_prob, "interval": interval, "discrepancy": None if discrepancy is None else str(discrepancy),
        "forced": force, "fits": [],
    }  # fmt: skip
    for number, (label, (given, fit)) in enumerate(found.items(), 1):
        shown = fit.passed or force
        stack = None if isinstance(fits[given], Fit) else given
        one = fit_facts(fit, label, (files or {}).get(given), stack, ci_prob, shown)
        one["methods"] = methods(one, interval, at is not None)
        own, note = fit_pictures(fit, label, number, ci_prob, force) if shown else ({}, "")
        facts["fits"].append(one | {"pictures": list(own), "note": note})
        pictures |= own
    facts["forecasts"], drawn = _forecasts(fits, at, measured, ci_prob, options)
    pictures |= drawn
    facts["comparison"], drawn = _comparison(fits, singles, measured, stacks or {}, scores or {}, options)
    pictures |= drawn
    facts["anchors"], facts["plan"] = None, None
    if picks is not None:
        facts["anchors"] = {"table": table("Runs to buy, in order", picks), "pictures": ["anchors"], "width": width_column(picks)}
        said = "Predicted width of the interval at the targets after each purchase, against what is spent by then."
        pictures["anchors"] = Picture(
            said, said + " The table above has the numbers.", (6.4, 3.8), lambda f: plot_picks(picks, f.subplots())
        )
    if frontier is not None:
        facts["plan"] = {"table": table("What each confidence costs", frontier), "pictures": ["plan"]}
        said = "Adaptation tokens, with the replay share, that the promises need at each confidence."
        pictures["plan"] = Picture(
            said, said + " The table above has the numbers.", (6.4, 3.8), lambda f: plot_confidence(frontier, f.subplots())
        )
    facts["figures"] = {name: {"caption": one.caption, "alt": one.alt} for name, one in pictures.items()}
    return Report(facts, pictures)


def _singles(fits: Mapping[str, Posterior]) -> dict[str, tuple[str, Fit]]:
    """The fits of single laws, those of stacks under their names there, each with the label that it or its stack was given by."""
    found: dict[str, tuple[str, Fit]] = {}
    for label, posterior in fits.items():
        members = {label: posterior} if isinstance(posterior, Fit) else posterior.members
        for name, fit in members.items():
            found[name if name not in found else f"{name} ({label})"] = (label, fit)
    return found


# --- forecasts -------------------------------------------------------------------------------------------------------


def _forecasts(
    fits: Mapping[str, Posterior], at: Runs | None, measured: Runs | None, ci_prob: float, options: Mapping[str, Any]
) -> tuple[list[Facts], dict[str, Picture]]:
    facts, pictures = list[Facts](), dict[str, Picture]()
    for number, (label, posterior) in enumerate(fits.items() if at is not None else (), 1):
        assert at is not None
        try:
            made = forecast(posterior, at, **options)
            one = forecast_facts(made, label, ci_prob)
        except FitError as error:
            facts.append({"label": label, "withheld": str(error), "checks": [], "table": None, "pictures": []})
            continue
        name, x = f"forecast{number}", forecast_axis(made)
        if made.settings[x].unique().size > 1:
            pictures[name] = _fan(made, label, x, posterior.covariates[x].unit, _points(made, x, measured), ci_prob)
        facts.append(one | {"withheld": "", "pictures": [name] if name in pictures else []})
    return facts, pictures


def _points(made: Forecast, x: str, measured: Runs | None) -> pd.DataFrame | None:
    """Held-out losses at the settings of a forecast, whatever their place along `x`."""
    if measured is None:
        return None
    frame, others, names = measured.frame, [str(c) for c in made.outside if c != x], list(text_names(made))
    if any(c not in frame for c in (x, *others, *names, "loss")):
        return None
    settings = made.settings.assign(**text_columns(made, made.settings))[[*others, *names]].drop_duplicates()
    wanted = settings[others].to_numpy(dtype=np.float64)
    same = np.isclose(frame[others].to_numpy(dtype=np.float64)[:, None], wanted[None]).all(axis=2)
    for name, texts in text_columns(made, frame).items():
        same &= texts.to_numpy()[:, None] == settings[name].to_numpy()
    return frame[same.any(axis=1)] if same.any() else None


def _fan(made: Forecast, label: str, x: str, unit: str, points: pd.DataFrame | None, ci_prob: float) -> Picture:
    said = f"Forecasts by {label}: latent median and {ci_prob * 100:g}% {INTERVAL} ({made.spread})"
    return Picture(
        f"{said}; hatched: outside the runs{'; points: measured losses' if points is not None else ''}.",
        f"Loss against {x} at the settings asked for, with intervals. The table of forecasts has the numbers.",
        (7.2, 4.6), lambda f: plot_forecast(made, f.subplots(), ci_prob=ci_prob, measured=points, x=x, unit=unit),
    )  # fmt: skip


# --- comparison ------------------------------------------------------------------------------------------------------


def _comparison(
    fits: Mapping[str, Posterior],
    singles: Mapping[str, Fit],
    measured: Runs | None,
    stacks: Mapping[str, Stack],
    scores: Mapping[str, pd.DataFrame],
    options: Mapping[str, Any],
) -> tuple[Facts, dict[str, Picture]]:
    """Left-out runs of the fits given, their scores on measured losses, and what `bayeslaw compare` wrote."""
    pictures: dict[str, Picture] = {}
    weights, notes = left_out(singles, bool(options["force"]))
    tables: list[Facts] = []
    if len(weights):
        tables.append(table("Fits by leaving out one run after the other", weights.reset_index()))
        said = "By how much each fit foretells left-out runs worse than the best, with one standard error, and stacking weights."
        pictures["comparison"] = Picture(
            said,
            said + " The table above has the numbers.",
            (7.2, 1.2 + 0.4 * len(weights)),
            lambda f: plot_comparison(weights, f.subplots()),
        )
    if measured is not None:
        one = score_facts(fits, measured, **options)
        notes += one["notes"]
        tables += [one["table"]] if one["table"] else []
        if one["table"] and (found := _transforms(fits, measured, one["table"]["columns"], options)):
            pits, runs = found
            said = (
                "Calibration on the measured losses: coverage of equal-tailed intervals, and where in its forecast each loss fell."
            )

            def draw(figure: Figure) -> None:
                left, right = figure.subplots(1, 2)
                plot_coverage(pits, left, runs=runs)
                plot_transforms(pits, right)

            pictures["calibration"] = Picture(said, said + " The scores above have coverages as numbers.", (7.2, 3.7), draw)
    tables += [stack_facts(stack) | {"caption": f"Weights in {name}"} for name, stack in stacks.items()]
    tables += [scores_table(f"Scores in {name}", frame) for name, frame in scores.items()]
    return {"tables": tables, "notes": notes, "pictures": list(pictures)}, pictures


def _transforms(
    fits: Mapping[str, Posterior], measured: Runs, scored: Sequence[str], options: Mapping[str, Any]
) -> tuple[dict[str, Any], int] | None:
    """Probability integral transforms of the measured losses under every fit that forecasts, and the number of runs."""
    found, runs = {}, 0
    for label, posterior in fits.items():
        if label not in scored:
            continue
        held = held_rows([fit.law for fit, _ in posterior.selections], measured)
        try:
            made = forecast_selections(posterior.name, posterior.selections, held, options["discrepancy"], int(options["seed"]))
        except FitError:  # named among the scores
            continue
        found[label if posterior.passed else f"{label} (FAILED)"] = transforms(
            held.frame["loss"].to_numpy(dtype="float64"), made.predictive
        )
        runs = held.frame["run"].nunique() if "run" in held.frame else len(held)
    return (found, runs) if found else None


def labels_of(paths: Sequence[Path], posteriors: Sequence[Posterior]) -> list[str]:
    """What to call fits: their laws' names where these differ, else with the files' names."""
    names = [posterior.name if isinstance(posterior, Fit) else "stack" for posterior in posteriors]
    named = [n if names.count(n) == 1 else f"{n} ({p.stem})" for n, p in zip(names, paths, strict=True)]
    return [n if named.count(n) == 1 else f"{n} {i}" for i, n in enumerate(named, 1)]
