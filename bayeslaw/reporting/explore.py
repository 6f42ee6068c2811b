"""The explorer: one page in which a person moves the settings of fits and sees outcomes, plans and allocations.

The page holds some hundred draws of each fit and the laws as functions in JavaScript (`laws.javascript`). Its `latent` and `run`
are those of `forecast_selections` by the same draws, of a new run of a new checkpoint. Its `extrapolated` has at each setting the
distribution of the forecast's, with other random numbers: the error of a law (`noise.walk`) at a setting x is, in draw s,

    c(x) b_s + m(x) t_s + z_s sqrt(u_s^2 A(x) + e_s^2 B(x)),

where c(x) are the features of the combinations learnt from the runs, b_s their coefficients, m(x) the mean error in units of t_s
(`Walk.mean`), u_s and e_s the sizes of the error inside and of what is added beyond, and A(x), B(x) sums of squared features. The
page draws one z_s where a forecast draws hundreds.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, whole_number
from bayeslaw.core.files import as_path, check_target, write_text
from bayeslaw.core.html import table
from bayeslaw.core.intervals import interval_names, quantiles
from bayeslaw.core.streams import Stream
from bayeslaw.core.text import listed, short_lines
from bayeslaw.data.base_loss import BASE_LOSS
from bayeslaw.forecasting.forecast import member_entropy
from bayeslaw.forecasting.outside import ends_of_runs, rounding_of
from bayeslaw.forecasting.stack import Posterior, by_label, errors_in_words, fits_of, paired, with_error
from bayeslaw.laws.javascript import FUNCTIONS, law_function
from bayeslaw.laws.law import Covariate, Law
from bayeslaw.laws.outcome import LOSS
from bayeslaw.noise.walk import INTERACTION, ROUGHNESS, ROW_NOISE, directions, least, log_product, logarithms, powers
from bayeslaw.planning.stages import sparse_notes
from bayeslaw.posterior.diagnostics import distrusted
from bayeslaw.posterior.fit import Fit
from bayeslaw.posterior.parameters import describe_parameter, in_unit_of_losses, parameter_unit
from bayeslaw.posterior.run_distance import RunDistance

DRAWS = 400
FEWEST, MOST = 50, 2_000  # draws of each fit
MOST_FITS = 3
SCRIPTS = ("explore-numbers.js", "explore-pictures.js", "explore.js")  # parts of one script, in this order
ROWS = 400  # most fitted rows of a fit that the page shows
NUMBERS = 12_000  # most numbers of these rows
BELOW, ABOVE = 3.0, 100.0  # by which factors sliders of logarithmic covariates go beyond the runs


@dataclass(frozen=True)
class Explorer:
    """The page of some fits: what its script computes with (`data`), what its text says (`facts`) and the laws in JavaScript.

    Examples
    --------
    >>> page = bayeslaw.explore({"small models": bayeslaw.load_fit("fit.nc")})
    >>> page.save("page.html")
    >>> [slider["name"] for slider in page.data["sliders"]]
    ['N', 'D']
    """

    data: Mapping[str, Any]
    facts: Mapping[str, Any]
    laws: tuple[str, ...]

    def __repr__(self) -> str:
        names = listed([fit["label"] for fit in self.facts["fits"]])
        return short_lines(f"<Explorer of {names}: {self.data['draws']:,} draws of each fit; `save` writes the page>")

    @property
    def html(self) -> str:
        """The page: one file that loads no other, sends nothing, and evaluates no text as code."""
        from bayeslaw.reporting.html import environment, text_of

        templates, style = environment(), text_of("explore.css")
        laws = f"{FUNCTIONS}\nconst LAWS = [{', '.join(self.laws)}];\n"
        script = "\n".join(['"use strict";\n(() => {', laws, *map(text_of, SCRIPTS), "})();\n"])
        hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
        return templates.get_template("explore.html").render(
            facts=self.facts, data=self.data, style=style, script=script, hashes=hashes
        )

    def save(self, path: str | Path) -> None:
        """Write the page; a killed write leaves an older file intact."""
        path = as_path(path, "A page")
        check_target(path, "A page")
        write_text(path, self.html)


def explore(
    fits: Mapping[str, Posterior] | Posterior, *, draws: int = DRAWS, seed: int = 0, force: bool = False, command: str = ""
) -> Explorer:
    """Make a page in which a person moves the settings of fits: outcomes with their bands, plans, and allocations of compute.

    Parameters
    ----------
    fits : mapping of label to Fit or Stack
        One to three, or one by itself. Settings that several have in common are moved together.
    draws : int
        How many draws of each are in the page, evenly spaced among all; at most as many as every fit has.
    seed : int
        Seed of the noise of new runs, as in `forecast`.
    force : bool
        Make the page although checks of a fit failed, and say so in it.
    command : str
        The command that makes the page, for its last section.

    Returns
    -------
    Explorer
        Its `save` writes the page, `html` is its text.

    Raises
    ------
    FitError
        If checks of a fit failed.
    BayeslawError
        If an argument can't be used.

    Examples
    --------
    >>> page = bayeslaw.explore({"chinchilla": bayeslaw.load_fit("fit.nc")}, draws=100)
    >>> page.html.startswith("<!DOCTYPE html>"), page.data["draws"]
    (True, 100)
    """
    fits = by_label(fits)
    if not 1 <= len(fits) <= MOST_FITS:
        raise BayeslawError(f"A page explores one to {MOST_FITS} fits; {len(fits)} were given.", code="number-of-fits")
    seed = whole_number("seed", seed, 0)
    draws = whole_number("draws", draws, FEWEST)
    if draws > MOST:
        raise BayeslawError(f"A page holds at most {MOST:,} draws of a fit, not {draws:,}.", code="too-many-draws")
    for label, fit in fits.items():
        if not fit.passed and not force:
            raise distrusted(f"Sampling of {label}", fit.checks)
    posteriors = dict(zip(fits, paired(fits.values()), strict=True))
    size = min(draws, *(p.size for p in posteriors.values()))
    laws: dict[str, int] = {}
    parts = [_posterior(p, label, size, seed, laws, place) for place, (label, p) in enumerate(posteriors.items())]
    members = [fit for p in posteriors.values() for fit in fits_of(p).values()]
    data = {
        "draws": size,
        "sliders": _sliders(members),
        "columns": _columns(members),
        "mixtures": list(dict.fromkeys(fit.law.shares for fit in members if fit.law.shares)),
        "fits": parts,
    }
    based = [label for label, p in posteriors.items() if any(BASE_LOSS in fit.law.covariates for fit in fits_of(p).values())]
    facts = {
        "title": f"Explorer of {', '.join(fits)}", "bayeslaw": version("bayeslaw"), "command": command, "seed": seed,
        "draws": size, "fits": [_facts(p, label) for label, p in posteriors.items()],
        "of_compute": sparse_notes([fit.law for fit in members]), "base_loss": based,
        "erring": any(member["beyond"] for part in parts for member in part["members"]),
    }  # fmt: skip
    return Explorer(data, facts, tuple(laws))


def numbers(values: ArrayLike) -> str:
    """Return numbers as base64 of little-endian 64-bit floats, so that the page has every digit."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode()


# --- draws ------------------------------------------------------------------------------------------------------------


def thinned(selections: Sequence[tuple[Fit, Index]], size: int) -> list[tuple[Fit, Index]]:
    """Return `size` evenly spaced draws of selections of several fits' draws, in their order."""
    ends = np.cumsum([chosen.size for _, chosen in selections])
    places = ((np.arange(size) + 0.5) * ends[-1] / size).astype(np.int64)
    kept = [
        (fit, chosen[places[(places >= end - chosen.size) & (places < end)] - (end - chosen.size)])
        for (fit, chosen), end in zip(selections, ends.tolist(), strict=True)
    ]
    return [(fit, chosen) for fit, chosen in kept if chosen.size]


def _posterior(posterior: Posterior, label: str, size: int, seed: int, laws: dict[str, int], place: int) -> dict[str, Any]:
    """Return what the script computes with, of one fit or stack; `laws` has the functions of laws and gets those of this one.

    Fits mostly have one seed. Those behind the first have random numbers of their own, since the page counts in how many draws the
    next runs of all keep their limits.
    """
    selections, members = thinned(posterior.selections, size), []
    for number, (fit, chosen) in enumerate(selections):
        entropy = (*member_entropy(fit, seed, number, len(selections)), *([Stream.EXPLORED_FIT + place] if place else []))
        members.append(_member(fit, chosen, entropy, laws) | {"beyond": None})
        away = with_error(fit, selections)
        if away is not None:
            error = _error(away, chosen, (*entropy, Stream.EXPLORED_ERROR))
            members[-1]["beyond"] = _member(away, chosen, entropy, laws) | {"error": error}
    outcome, unit = posterior.outcome, posterior.unit
    low, high = outcome.bounds
    return {
        "label": label, "members": members, "rows": _rows(next(iter(fits_of(posterior).values()))), "isLoss": outcome.is_loss,
        "outcome": outcome.name, "plural": outcome.plural, "unit": unit, "kind": outcome.kind,
        "low": low if math.isfinite(low) else None, "high": high if math.isfinite(high) else None,
    }  # fmt: skip


def _member(fit: Fit, chosen: Index, entropy: tuple[int, ...], laws: dict[str, int]) -> dict[str, Any]:
    """Return the draws of one law with the noise of a new run, for each group of noise there is."""
    law, values, distance = fit.law, fit.draws_of(chosen), RunDistance.of(fit)
    first, noise = np.zeros(1, dtype=np.int64), list[Array]()
    for group in range(max(1, len(fit.observed.group_names)) if law.outcome.kind != "count" else 0):
        time = np.zeros(1) if fit.observed.clock_column else None
        drawn = fit.noise.sample(values, first, first, entropy, checkpoint=first, group=np.array([group]), time=time)
        added = 0.0 if distance is None else distance.drawn(first, chosen.size, entropy)
        noise.append((drawn + added)[0])
    return {
        "law": laws.setdefault(law_function(law), len(laws)), "size": int(chosen.size), "covariates": list(law.covariates),
        "indicators": {name: list(of) for name, of in law.indicators.items()},
        "draws": numbers([values[name] for name in law.parameters]), "noise": [numbers(draws) for draws in noise],
        "groups": {"column": fit.observed.group_column, "names": list(fit.observed.group_names)}, "reach": _reach(fit),
        "compute": law.outcome.is_loss and {"N", "D"} <= law.covariates.keys() and BASE_LOSS not in law.covariates,
        "supports": {name: list(law.covariates[name].support) for name in ("N", "D") if name in law.covariates},
    }  # fmt: skip


def _reach(fit: Fit) -> dict[str, Any]:
    """Return what `outside` and `beyond_together` of forecasts know of the runs."""
    law, axes = fit.law, []
    for name, covariate in law.axes.items():
        low, high = ends_of_runs(law, name, fit.observed.covariates[name])
        axes.append({
            "name": name, "log": covariate.logarithmic, "context": covariate.context, "rounding": rounding_of(covariate),
            "low": low if math.isfinite(low) else None, "high": high,
        })  # fmt: skip
    together = []
    for name, of in powers(law).items():
        reached = log_product(law, of, fit.observed.covariates)
        together.append({
            "name": name,
            "powers": [{"name": a, "power": power, "least": least(law, a)} for a, power in of.items()],
            "low": float(reached.min()) if min(of.values()) < 0 else None, "high": float(reached.max()),
        })  # fmt: skip
    return {"axes": axes, "together": together}


def _error(fit: Fit, chosen: Index, entropy: tuple[int, ...]) -> dict[str, Any]:
    """Return what the error of a law is computed from; see the head of this module."""
    assert fit.discrepancy is not None
    walk, rng, size = fit.discrepancy.walk, np.random.default_rng(entropy), chosen.size
    extra = walk.sizes_beyond(size, rng)
    scale = np.zeros(size) if walk.exact else fit.discrepancy.scale[chosen]
    tables = [axis.table for axis in walk.axes]
    weights = walk.weights if walk.exact else np.ones(walk.inside.size)
    own = np.split(weights[: sum(places.size - 1 for places, _ in tables)], np.cumsum([p.size - 1 for p, _ in tables])[:-1])
    axes = [
        {
            "factors": [{"name": a, "least": least(walk.law, a)} for a in walk.law.factors(name)], "largest": float(largest),
            "places": numbers(places), "values": numbers(values), "inside": axis.inside.size, "weight": float(weight[0]),
            "width": float(largest - smallest),
        }
        for name, largest, smallest, axis, (places, values), weight in zip(
            directions(walk.law), walk.largest, walk.smallest, walk.axes, tables, own, strict=True
        )
    ]  # fmt: skip
    of_corners = weights[weights.size - len(walk.corners) :].tolist() if walk.exact else [0.0] * len(walk.corners)
    learnt = not walk.exact
    return {
        "exact": walk.exact, "axes": axes, "interaction": INTERACTION,
        "pairs": [list(pair) for pair in combinations(range(len(tables)), 2)], "roughness": ROUGHNESS,
        "corners": [
            {"signs": corner.signs.tolist(), "most": corner.most, "weight": size, "mean": corner.mean}
            for corner, size in zip(walk.corners, of_corners, strict=True)
        ],
        "count": walk.loadings.shape[1] if learnt else 0, "loadings": numbers(walk.loadings.T if learnt else []),
        "shrunk": numbers(1 / (1 + walk.squares / ROW_NOISE) if learnt else []),
        "coefficients": numbers(fit.discrepancy.coefficients[chosen].T if learnt else []),
        "whole": numbers(np.hypot(scale, extra)), "extra": numbers(extra), "normal": numbers(rng.standard_normal(size)),
        "sizes": numbers(walk.mean_sizes(scale, entropy)),
    }  # fmt: skip


# --- settings ---------------------------------------------------------------------------------------------------------


def _sliders(fits: Sequence[Fit]) -> list[dict[str, Any]]:
    """Return the covariates that a person moves, with the ranges of sliders and of the runs."""
    sliders: dict[str, dict[str, Any]] = {}
    for fit in fits:
        used = fit.law.formula.names.union(*(e.names for e in fit.law.let.values()), _columns_of(fit.law))
        shown = {name: c for name, c in fit.law.measured.items() if name in used or name in fit.law.axes}
        start = _start(fit)
        for name, covariate in shown.items():
            seen = fit.observed.covariates[name]
            seen = seen[np.isfinite(seen)]
            more = {"start": start[name], "idle": name not in used, "series": covariate.series}
            more |= {"asked": name in fit.law.outcome.facts, "unit": in_unit_of_losses(fit, covariate.unit)}
            slider = _slider(covariate, seen) | more
            if name in sliders:
                known = sliders[name]
                slider |= {"start": known["start"], "idle": known["idle"] and slider["idle"]}
                slider |= {k: min(slider[k], known[k]) for k in ("low", "seenLow")}
                slider |= {k: max(slider[k], known[k]) for k in ("high", "seenHigh")}
                slider["support"] = [max(slider["support"][0], known["support"][0]), min(slider["support"][1], known["support"][1])]
                units = [*known["unit"].split("; "), slider["unit"]]  # D counts the tokens of a training, or of an adaptation
                slider["unit"] = "; ".join(dict.fromkeys(units))
                slider["log"], slider["binary"] = slider["log"] and known["log"], slider["binary"] and known["binary"]
            sliders[name] = slider
    return list(sliders.values())


def _columns_of(law: Law) -> set[str]:
    """Return the columns of the series of a law."""
    return {column for columns in law.series.values() for column in columns}


def _start(fit: Fit) -> dict[str, float]:
    """Return the setting of the largest run, in the product of what spans decades: its last row, with facts of the first levels.

    Of models that are known by their loss the largest is that of the least.
    """
    seen, along = fit.observed.covariates, directions(fit.law)
    grows = [-1.0 if name == LOSS.name else 1.0 for name in along]
    size = logarithms(fit.law, seen) @ np.array(grows) if along else np.zeros(fit.observed.response.size)
    row = int(np.flatnonzero(size == size.max())[-1])
    start = {name: float(seen[name][row]) for name in fit.law.measured}
    for column, levels in fit.law.levels.items():  # with which the page begins
        start |= _level_facts(fit, column).get(levels[0], {})
    return start


def _level_facts(fit: Fit, column: str) -> dict[str, dict[str, float]]:
    """Return the facts of an outcome, such as chance, that are the same in all rows of a value of a column, by this value."""
    codes = fit.law.level_codes(column, fit.observed.covariates)
    seen = pd.DataFrame({name: fit.observed.covariates[name] for name in fit.law.outcome.facts}, index=range(codes.size))
    of_level = seen.groupby(codes)
    one_value = of_level.first().where(of_level.min() == of_level.max())
    levels = [fit.law.levels[column][code] for code in one_value.index.to_list()]
    return {level: {str(name): float(v) for name, v in one_value.iloc[i].dropna().items()} for i, level in enumerate(levels)}


def _slider(covariate: Covariate, seen: Array) -> dict[str, Any]:
    """Return the range of one slider: the runs and some of what lies beyond, within the covariate's support."""
    least, most = covariate.support
    low, high = float(seen.min()), float(seen.max())
    logarithmic = covariate.logarithmic and bool((seen > 0).any()) and most > 0
    if logarithmic:
        ends = [max(least, float(seen[seen > 0].min()) / BELOW), min(most, high * ABOVE)]
    else:
        margin = (high - low) / 2 or max(abs(high) / 2, 0.5)
        whole = most - least <= 1 or (math.isfinite(most - least) and most - least <= 3 * (high - low))
        ends = [least, most] if whole else [max(least, low - margin), min(most, high + margin)]
    return {
        "name": covariate.name, "unit": covariate.unit, "log": logarithmic, "support": [least, most],
        "low": ends[0], "high": ends[1], "seenLow": low, "seenHigh": high, "zero": logarithmic and low <= 0,
        "binary": (least, most) == (0.0, 1.0) and bool(np.isin(seen, (0.0, 1.0)).all()) and covariate.at_least == 2,
    }  # fmt: skip


def _columns(fits: Sequence[Fit]) -> list[dict[str, Any]]:
    """Return the columns by which parameters or noise differ, with their values, and the facts of an outcome that go with each."""
    columns: dict[str, dict[str, Any]] = {}
    for fit in fits:
        named = dict(fit.law.levels)
        if fit.observed.group_names and fit.law.outcome.kind != "count":
            named.setdefault(fit.observed.group_column, fit.observed.group_names)
        for column, values in named.items():
            known = columns.setdefault(column, {"name": column, "values": [], "facts": {}})
            known["values"] += [value for value in values if value not in known["values"]]
            if column in fit.law.levels:
                known["facts"] = _level_facts(fit, column) | known["facts"]
    return list(columns.values())


def _rows(fit: Fit) -> dict[str, Any]:
    """Return the fitted rows that pictures show as points, evenly chosen where there are many."""
    law, observed = fit.law, fit.observed
    total, names = observed.response.size, list(law.measured)
    kept = np.unique(np.linspace(0, total - 1, max(2, min(total, ROWS, NUMBERS // len(names)))).astype(np.int64))
    codes = {column: law.level_codes(column, observed.covariates)[kept].tolist() for column in law.levels}
    return {
        "total": int(total), "names": names, "values": numbers([observed.covariates[name][kept] for name in names]),
        "outcomes": numbers(observed.outcomes[kept]), "run": [observed.run_names[code] for code in observed.run[kept]],
        "levels": {column: [law.levels[column][code] for code in of_rows] for column, of_rows in codes.items()},
    }  # fmt: skip


# --- texts ------------------------------------------------------------------------------------------------------------


def _facts(posterior: Posterior, label: str) -> dict[str, Any]:
    """Return what the page says of a fit or stack in words and tables."""
    members = fits_of(posterior)
    learnt = errors_in_words(posterior)
    return {
        "label": label, "passed": posterior.passed, "verdicts": posterior.verdicts, "failures": posterior.failures,
        "stack": posterior.name if len(members) > 1 else "",
        "members": [
            {
                "name": name, "title": fit.law.title, "source": fit.law.source, "note": fit.law.note, "mathml": fit.law.mathml,
                "noise": fit.noise.text, "origin": fit.origin, "rows": int(fit.observed.response.size), "runs": fit.observed.runs,
                "outcomes": fit.law.outcome.plural, "parameters": table(f"Parameters of {name}", _parameters(fit)),
                "learnt": learnt[name] if fit.passed else "",
            }
            for name, fit in members.items()
        ],
    }  # fmt: skip


def _parameters(fit: Fit) -> pd.DataFrame:
    """Return the parameters with their intervals by all draws of the fit."""
    rows = []
    for name, draws in fit.draws.items():
        row: dict[str, Any] = {"parameter": name, "median": float(np.median(draws))}
        for prob in (0.5, 0.9):
            row |= dict(zip(interval_names("eti", prob), map(float, quantiles(draws, prob)[1:]), strict=True))
        rows.append(row | {"unit": parameter_unit(fit, name), "meaning": describe_parameter(fit, name)[0]})
    return pd.DataFrame(rows)
