"""The record of registered forecasts in a folder: which are open, and how well those that were settled held.

PREDICTION.json is a prediction, and PREDICTION.settled.json beside it what `settle` wrote. Scores are computed anew from the draws
in the first and the outcomes in the second, so that no stored score is taken on trust.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import binom

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.files import as_path
from bayeslaw.core.text import counted, short_lines
from bayeslaw.evaluation.prediction import RESULT_ENDING, Prediction, read_prediction
from bayeslaw.evaluation.reach import by_reach, independent_runs, inside, scores_of, transforms_by_reach
from bayeslaw.evaluation.scores import COVERED
from bayeslaw.evaluation.settlement import read_settled
from bayeslaw.laws.outcome import Outcome

OPEN, PART, SETTLED = "open", "partly settled", "settled"
BAND = 0.9  # least probability of the range in which the coverage of right intervals lies: shares of a few runs are few
LEGEND = """\
e_folds         how far beyond the fitted runs; one e-fold is 2.7 times as much
forecasts       forecasts that were settled; runs and predictions: how many different ones they are of
50%, 80%, 90%   share of outcomes inside these intervals, and in brackets where it lies with probability 0.9 if intervals are right
error, bias     mean error of the medians, relative to the outcome or in its unit; and the same with its sign
crps            error of the whole predictive distribution, in the unit of the outcome; smaller is better"""


@dataclass(frozen=True, eq=False)
class Calibration:
    """All settled forecasts of one kind of outcome.

    Attributes
    ----------
    outcome, unit : Outcome, str
    rows : DataFrame
        One row for each settled forecast, with the columns of `Backtest.rows`; `cut` is the file of its prediction, and `row` names
        its settings.
    by : str
        The direction in which reach is counted, or '' where predictions differ in it.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> written = bayeslaw.evaluation.register(fit, "new.csv").save("one.json")
    >>> bayeslaw.evaluation.settle("one.json", "new.csv").save("one.settled.json")
    >>> (calibration,) = bayeslaw.evaluation.record(".").calibrations
    >>> bool(calibration.table["forecasts"].iloc[-1] == len(calibration.rows))
    True
    """

    outcome: Outcome
    unit: str
    rows: pd.DataFrame
    by: str = ""

    @property
    def table(self) -> pd.DataFrame:
        """Scores by reach, as `Backtest.reach` has them, and beside each coverage where it lies if intervals are right.

        Columns: those of `Backtest.reach`, `predictions` in place of cuts, and expected50_lb … expected90_ub: the range that holds
        the coverage of right intervals with probability `BAND` or more, as a share of `independent_runs`.
        """
        table = []
        for name, rows in by_reach(self.rows).items():
            scores = {"e_folds": name} | scores_of(rows, self.outcome)
            for prob in COVERED:
                low, high = expected(prob, independent_runs(rows))
                scores |= {f"expected{100 * prob:g}_lb": low, f"expected{100 * prob:g}_ub": high}
            table.append(scores)
        return pd.DataFrame(table).rename(columns={"cuts": "predictions"})

    @property
    def shown(self) -> pd.DataFrame:
        """The table as a person reads it: each coverage in percent with its range in one cell, and errors in words."""
        table = self.table
        relative = self.outcome.relative
        error, bias = (table[name] for name in (("mae_rel", "bias_rel") if relative else ("mae", "bias")))
        columns = {name: table[name] for name in ("e_folds", "forecasts", "runs", "predictions")}
        for prob in COVERED:
            percent = f"{100 * prob:g}"
            cells = zip(*(table[c] for c in (f"cover_eti{percent}", f"expected{percent}_lb", f"expected{percent}_ub")), strict=True)
            columns[f"{percent}%"] = pd.Series([f"{100 * s:.0f}% ({100 * low:.0f}–{100 * high:.0f}%)" for s, low, high in cells])
        columns["error"] = error.map(self.outcome.in_words)
        columns["bias"] = bias.map(lambda value: f"{100 * value:+.2g}%" if relative else f"{value:+.2g}")
        return pd.DataFrame(columns | {"crps": table["crps"]})

    @property
    def transforms(self) -> dict[str, Array]:
        """Probability integral transforms of the outcomes by reach, as `bayeslaw.plots.plot_coverage` draws them."""
        return transforms_by_reach(self.rows)


@dataclass(frozen=True, eq=False)
class Record:
    """All registered forecasts in a folder.

    Attributes
    ----------
    folder : str
    predictions : DataFrame
        One row for each prediction, the oldest first: file, registered (its date), law, outcome, forecasts, settled (how many of
        them), status ('open', 'partly settled' or 'settled'), reach (the largest), inside90 (how many outcomes their 90% intervals
        held), crps, checks, signed, who, why and sha256.
    calibrations : tuple of Calibration
        One for each kind of outcome of which forecasts were settled.
    faults : tuple of str
        Files that do not count, each with the reason: changed predictions and results, copies, results without a prediction.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> written = bayeslaw.evaluation.register(fit, {"N": 1e9, "D": 2e10}).save("two.json")
    >>> record = bayeslaw.evaluation.record(".")
    >>> record.predictions.set_index("file").loc["two.json", "status"]
    'open'
    """

    folder: str
    predictions: pd.DataFrame
    calibrations: tuple[Calibration, ...]
    faults: tuple[str, ...]

    def __repr__(self) -> str:
        return short_lines(f"<Record of {counted(len(self.predictions), 'prediction')} in {self.folder}: {self.text}>")

    @property
    def text(self) -> str:
        """How many forecasts are settled, and how many of their outcomes lay in the 90% intervals."""
        asked, done = int(self.predictions["forecasts"].sum()), int(self.predictions["settled"].sum())
        text = f"{done} of {counted(asked, 'forecast')} settled"
        if not done:
            return text
        held = sum(int(inside(c.rows, 0.9, c.outcome).sum()) for c in self.calibrations)
        return f"{text}, {held} of {done} inside their 90% intervals ({100 * held / done:.3g}%; right intervals hold 90%)"


def expected(prob: float, runs: int) -> tuple[float, float]:
    """Return the range that holds the share of outcomes inside right intervals of this probability, with `BAND` or more.

    A few runs have a few possible shares, so the range mostly holds more: with six runs and intervals of 90%, 98%.

    Parameters
    ----------
    prob, runs : float, int
        The number of independent runs, whose shares have a binomial distribution.
    """
    low, high = binom.ppf([(1 - BAND) / 2, (1 + BAND) / 2], runs, prob) / runs
    return float(low), float(high)


def record(folder: str | Path, *, key: str | Path | None = None) -> Record:
    """Read all registered forecasts of a folder, and what was measured since.

    Parameters
    ----------
    folder : str or Path
        PREDICTION.json and, where it was settled, PREDICTION.settled.json; folders in it are not looked at.
    key : str or Path, optional
        The key by which predictions and results must be signed; others are among the faults.

    Raises
    ------
    BayeslawError
        'no-folder' if there is none, 'no-predictions' if it has no file ending in .json.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> written = bayeslaw.evaluation.register(fit, {"N": 1e9, "D": 3e10}).save("three.json")
    >>> bayeslaw.evaluation.record(".").faults
    ()
    """
    place = as_path(folder, "A folder")
    if not place.is_dir():
        raise BayeslawError(f"There is no folder {place} with registered forecasts.", code="no-folder")
    files = sorted(path for path in place.glob("*.json") if path.is_file() and not path.name.startswith("."))
    if not files:
        example = shlex.quote(str(place / "NAME.json"))
        raise BayeslawError(
            f"{place} has no registered forecasts: `bayeslaw register FIT.nc --at … -o {example}` writes one "
            "(in Python bayeslaw.evaluation.register(…).save(…)).",
            code="no-predictions",
        )
    table, settled, faults, known = list[dict[str, Any]](), list[tuple[Prediction, pd.DataFrame]](), list[str](), dict[str, str]()
    results = {path.name: path for path in files if path.name.endswith(RESULT_ENDING)}
    for path in [path for path in files if path.name not in results]:
        result = results.pop(f"{path.stem}{RESULT_ENDING}", None)
        neither = f" Nor does {result.name}." if result else ""
        try:
            prediction = read_prediction(path, key)
        except BayeslawError as error:
            faults.append(f"{path.name} does not count. {error}{neither}")
            continue
        if prediction.sha256 in known:
            faults.append(f"{path.name} does not count: it is a copy of {known[prediction.sha256]}.{neither}")
            continue
        known[prediction.sha256], rows = path.name, pd.DataFrame()
        if result is not None:
            try:
                rows = _named(prediction, read_settled(prediction, result, key))
                settled.append((prediction, rows))
            except BayeslawError as error:
                faults.append(f"{path.name} counts as open: its result can't be used. {error}")
        table.append(_line(prediction, rows))
    faults += [f"{name} is a result without its prediction {name.removesuffix(RESULT_ENDING)}.json." for name in results]
    predictions = pd.DataFrame(table, columns=list(COLUMNS)).sort_values(["registered", "file"], ignore_index=True)
    return Record(str(folder), predictions, _calibrations(settled), tuple(faults))


COLUMNS = (
    "file", "registered", "law", "outcome", "forecasts", "settled", "status", "reach", "inside90", "crps", "checks", "signed",
    "who", "why", "sha256",
)  # fmt: skip


def _line(prediction: Prediction, rows: pd.DataFrame) -> dict[str, Any]:
    content, size, outcome = prediction.content, len(prediction.rows), prediction.outcome
    held = int(inside(rows, 0.9, outcome).sum()) if len(rows) else None
    return {
        "file": prediction.name, "registered": content["date"], "law": content["law"], "outcome": outcome.name, "forecasts": size,
        "settled": len(rows), "status": SETTLED if len(rows) == size else PART if len(rows) else OPEN,
        "reach": float(prediction.reach.max()), "inside90": held, "crps": float(rows["crps"].mean()) if len(rows) else None,
        "checks": content["checks"], "signed": "verified" if prediction.verified else "not verified" if prediction.signed else "no",
        "who": content["who"], "why": content["why"], "sha256": prediction.sha256,
    }  # fmt: skip


def _named(prediction: Prediction, rows: pd.DataFrame) -> pd.DataFrame:
    """Return settled rows under names that rows of other predictions share if they are of the same setting, or the same run."""
    place = rows["row"].to_numpy() - 1
    settings = [{name: prediction.rows[i]["settings"][name] for name in prediction.content["match"]} for i in place]
    texts = [json.dumps(setting, sort_keys=True) for setting in settings]
    runs = rows["run"].to_numpy(dtype=object)
    names = [f"{text}, run {run}" if run else text for text, run in zip(texts, runs, strict=True)]
    return rows.assign(cut=prediction.name, row=names, run=[run or text for text, run in zip(texts, runs, strict=True)])


def _calibrations(settled: Sequence[tuple[Prediction, pd.DataFrame]]) -> tuple[Calibration, ...]:
    """Put the settled forecasts of each kind of outcome together."""
    groups: dict[Any, list[tuple[Prediction, pd.DataFrame]]] = {}
    for prediction, rows in settled:
        groups.setdefault((prediction.outcome.quantity, prediction.content["unit"]), []).append((prediction, rows))
    calibrations = []
    for (_, unit), members in groups.items():
        directions = {prediction.content["reach_by"] for prediction, _ in members}
        rows = pd.concat([rows for _, rows in members], ignore_index=True)
        calibrations.append(Calibration(members[0][0].outcome, unit, rows, directions.pop() if len(directions) == 1 else ""))
    return tuple(calibrations)
