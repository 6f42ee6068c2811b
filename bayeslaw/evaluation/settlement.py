"""Registered forecasts against what was measured: `settle` scores them without the fit, by the code of `score`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array, holds_numbers
from bayeslaw.core.errors import BayeslawError, Fault, TableError, row_ranges
from bayeslaw.core.files import as_path, write_bytes
from bayeslaw.core.html import plain_value
from bayeslaw.core.streams import NoiseLevel
from bayeslaw.core.text import exact, label_text, listed, short_lines
from bayeslaw.core.units import check_unit
from bayeslaw.data.base_loss import BASE_LOSS
from bayeslaw.data.columns import columns_there
from bayeslaw.data.measured import check_loss, check_outcome
from bayeslaw.data.observations import ROW_TOLERANCE, rounding, run_codes, same_scale
from bayeslaw.data.table import Runs, Table, data_sha256, read_runs
from bayeslaw.data.tokenizers import check_length, length_of_losses
from bayeslaw.evaluation.prediction import Prediction, check_format, check_no_prediction, read_prediction
from bayeslaw.evaluation.scores import counts_of, forecast_cells, nothing_held_out, scored_draws
from bayeslaw.evaluation.sealed import read_key, seal, unseal
from bayeslaw.posterior.effects import KNOWN_RUN

KIND, FORMAT = "bayeslaw_settled", "1.0"
MOST_TOLERANCE = 0.1  # and the distance from a forecast within which a row may be meant for it


@dataclass(frozen=True, eq=False)
class Settled:
    """A registered forecast with what was measured.

    Attributes
    ----------
    prediction : Prediction
    table : DataFrame
        Scores in one row, as `bayeslaw.score` returns them.
    runs : DataFrame
        Forecasts run by run, as `bayeslaw.evaluation.scores.scored` returns them.
    rows : DataFrame
        One row for each measured outcome, with the columns of `Backtest.rows`: the number of its registered row, run, reach, as,
        spread, the outcome and its known error, median, the ends of 50, 80 and 90% intervals, crps, pit, checks and model.
    measured : Mapping
        Where the outcomes are from: the table, its digest, and how many rows of it were left out.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> written = bayeslaw.evaluation.register(fit, bayeslaw.read_runs("new.csv")).save("new.json")
    >>> settled = bayeslaw.evaluation.settle("new.json", "new.csv")
    >>> difference = settled.table["crps"] - bayeslaw.score(fit, "new.csv")["crps"]
    >>> bool(abs(difference.item()) < 1e-12)
    True
    """

    prediction: Prediction
    table: pd.DataFrame
    runs: pd.DataFrame
    rows: pd.DataFrame
    measured: Mapping[str, Any]

    def __repr__(self) -> str:
        return short_lines(
            f"<{len(self.rows)} of {len(self.prediction.rows)} forecasts by {self.prediction.content['law']} settled>"
        )

    def save(self, path: str | Path, key: str | Path | None = None) -> None:
        """Write the result as JSON whose last line tells whether a byte was changed.

        Parameters
        ----------
        path : str or Path
            `record` looks for PREDICTION.settled.json beside PREDICTION.json. An earlier result is replaced, a prediction never.
        key : str or Path, optional
            A file with a key that signs it.

        Raises
        ------
        BayeslawError
            'already-registered' if there is a prediction at this path.
        """
        path = as_path(path, "A score")
        check_no_prediction(path)
        outcome = self.prediction.outcome
        kept = [c for c in self.rows if c not in ("checks", "model")]
        rows = [{str(k): plain_value(v) for k, v in row.items()} for row in self.rows[kept].to_dict("records")]
        content = {
            KIND: FORMAT, "bayeslaw": version("bayeslaw"), "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "prediction": self.prediction.name, "prediction_sha256": self.prediction.sha256, "outcome": outcome.name,
            "unit": self.prediction.content["unit"], **self.measured,
            "scores": {str(k): plain_value(v) for k, v in self.table.to_dict("records")[0].items()}, "rows": rows,
        }  # fmt: skip
        write_bytes(path, seal(content, read_key(key))[0])


def settle(
    prediction: Prediction | str | Path,
    runs: Table,
    *,
    tolerance: float = ROW_TOLERANCE,
    in_sample: bool = False,
    mean: str | None = None,
    key: str | Path | None = None,
) -> Settled:
    """Score a registered forecast on measured outcomes, without the fit that made it.

    Each measured row settles the registered row that has its settings; with several such rows the one of its run, or the next. If
    a tolerance allows several, the nearest pairs of rows belong together.
    Where all registered rows are measured, in their order, the scores are those of `bayeslaw.score` to rounding. Where some are, or
    where the fits had some, `score` would draw other random numbers for the noise, and differs by their Monte Carlo error.

    Parameters
    ----------
    prediction : Prediction or path
    runs : Runs, DataFrame or path
        Measured rows. Base checkpoints (D = 0) that the laws can't describe, rows that the fits had, and rows farther than .1 from
        all registered ones are left out and counted.
    tolerance : float
        Largest relative difference, at most .1, between a measured number of a setting and a registered one.
    in_sample : bool
        Score rows that the fits had too.
    mean : str, optional
        Score averages over the values of this column; see `Forecast.mean`. Where rows of one average lie inside the runs and others
        outside, their recorded draws are of two posteriors, and the average has another spread than `bayeslaw.score` gives it.
    key : path, optional
        The key by which the file must be signed, where its path is given.

    Raises
    ------
    TableError
        With faults 'no-such-setting' for rows that lie near a registered row which no other row settles, and for all where none
        settles any, 'settled-twice', those of `score` for outcomes that can't be, and 'missing-column'.
    BayeslawError
        As `read_prediction`; 'other-domain' for losses on another validation domain, 'another-unit' for losses in another unit,
        'other-tokenizer' for those per token of another tokenizer, 'nothing-held-out' if the fits had every row.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> prediction = bayeslaw.evaluation.register(fit, "new.csv")
    >>> bayeslaw.evaluation.settle(prediction, "new.csv").rows["eti90_lb"].size == len(prediction.rows)
    True
    """
    if not (isinstance(tolerance, Real) and 0 <= tolerance <= MOST_TOLERANCE):
        problem = f"The tolerance is a relative difference of 0 to {MOST_TOLERANCE:g}, not {tolerance!r}."
        raise BayeslawError(problem, code="wrong-tolerance")
    if isinstance(prediction, Prediction) and key is not None:
        raise BayeslawError(
            "A key verifies a file: give settle the path of the prediction with it, or read that by read_prediction(path, key).",
            code="key-without-file",
        )
    asked = prediction if isinstance(prediction, Prediction) else read_prediction(prediction, key)
    runs = read_runs(runs)
    _check_domain(asked, runs)
    outcome = asked.outcome
    if outcome.is_loss:
        check_unit(asked.content["unit"], runs.frame, runs.name, "registered losses are")
        for fit in asked.content["fits"]:  # files of format 1.0 say nothing of their tokenizer
            check_length(fit.get("token_length", {}), length_of_losses(runs.frame, asked.settings), runs.frame, runs.name)
    frame, base = _described(asked, runs)
    place = _places(asked, runs.name, frame, tolerance)
    others = int((place < 0).sum())
    frame, place = frame[place >= 0], place[place >= 0]
    known = [c for c in _known(asked) if c in asked.settings and c not in frame]
    frame = frame.assign(**{c: asked.settings[c].to_numpy()[place] for c in known})
    seen = _seen(asked, frame, place)
    if seen.all() and not in_sample:
        raise nothing_held_out(runs.name, len(frame), base > 0, outcome)
    if not in_sample:
        frame, place = frame[~seen], place[~seen]
    counts = counts_of(len(frame), base, int(seen.sum()), in_sample)
    error = frame[outcome.error].to_numpy(dtype=np.float64) if outcome.error in frame else np.zeros(len(frame))
    loss = frame[outcome.name].to_numpy(dtype=np.float64)
    draws, rows = widened(asked, place, loss, error), asked.rows
    spreads = sorted({rows[i]["spread"] for i in place}, reverse=True)
    head = {
        "law": asked.content["law"], "fit": "posterior", "spread": " or ".join(spreads),
        **counts, "checks": asked.content["checks"], "model": asked.content["model"],
    }  # fmt: skip
    scores = scored_draws(frame, draws, head, outcome, frame.drop(columns=[outcome.name, outcome.error], errors="ignore"), mean)
    code, names = run_codes(frame)
    named = [str(names[i]) if "run" in frame and pd.notna(frame["run"].iloc[j]) else "" for j, i in enumerate(code)]
    digest = data_sha256(frame, [*asked.content["match"], outcome.name])
    left_out = {name: counts[name] for name in ("base_rows_left_out", "seen_rows_left_out", "sample")}
    measured = {"runs": runs.name, "runs_sha256": digest, "tolerance": float(tolerance), **left_out, "other_rows_left_out": others}
    return Settled(asked, scores.table, scores.runs, settled_rows(asked, place, loss, error, named, draws), measured)


def settled_rows(
    prediction: Prediction, place: NDArray[np.int64], loss: Array, error: Array, runs: list[str], draws: Array
) -> pd.DataFrame:
    """Return the forecasts of measured outcomes beside these, as in `Settled.rows`.

    Parameters
    ----------
    prediction : Prediction
    place : int array (n,)
        The registered row of each outcome, counted from 0.
    loss, error : arrays (n,)
        Outcomes and their known errors.
    runs : list of str
        Names of their runs, '' where they have none.
    draws : array (S, n)
        Those of `widened`.
    """
    rows, outcome = [prediction.rows[i] for i in place], prediction.outcome
    cells: dict[str, Any] = {"row": place + 1, "run": np.array(runs, dtype=object), "reach": prediction.reach[place]}
    cells |= {key: [row[key] for row in rows] for key in ("as", "spread")} | {outcome.name: loss, outcome.error: error}
    cells |= forecast_cells(loss, draws)
    return pd.DataFrame(cells).assign(checks=prediction.content["checks"], model=prediction.content["model"])


def read_settled(prediction: Prediction, path: Path, key: str | Path | None) -> pd.DataFrame:
    """Return `Settled.rows` of a file that `Settled.save` wrote, computed anew from the outcomes in it and the registered draws.

    Parameters
    ----------
    prediction, path : Prediction, Path
        What was registered, and the file of its result.
    key : str or Path, optional
        A file with the key by which the result must be signed.

    Raises
    ------
    BayeslawError
        'changed-file' if a byte of the file was changed, 'not-a-result' if it is something else, 'another-prediction' if it is of
        another prediction; with a key as `read_prediction`.
    """
    unsealed = unseal(path, KIND, "result", read_key(key))
    check_format(path.name, unsealed, KIND, FORMAT)
    if unsealed.content.get("prediction_sha256") != prediction.sha256:
        raise BayeslawError(
            f"{path.name} is the result of another prediction than {prediction.name}: settle this one.", code="another-prediction"
        )
    outcome = prediction.outcome
    try:
        rows = unsealed.content["rows"]
        place = np.array([row["row"] for row in rows], dtype=np.int64) - 1
        loss, error = (np.array([row[c] for row in rows], dtype=np.float64) for c in (outcome.name, outcome.error))
        low, high = outcome.bounds
        runs = [str(row["run"] or "") for row in rows]
        sound = (
            len(rows) > 0 and len({*place.tolist()}) == len(rows) and bool(((place >= 0) & (place < len(prediction.rows))).all())
            and bool((np.isfinite(loss) & (loss >= low) & (loss <= high) & np.isfinite(error) & (error >= 0)).all())
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError):
        sound = False
    if not sound:
        raise BayeslawError(f"{path.name} is whole, but holds no outcomes that could be scored.", code="not-a-result")
    return settled_rows(prediction, place, loss, error, runs, widened(prediction, place, loss, error))


def widened(prediction: Prediction, place: NDArray[np.int64], loss: Array, error: Array) -> Array:
    """Return the draws (S, n) of registered rows, with known errors of the measurements added to their point noise.

    Parameters
    ----------
    prediction, place, loss, error
        As for `settled_rows`.
    """
    draws, outcome, noise = prediction.draws[:, place], prediction.outcome, prediction.content["noise"]
    if not error.any():
        return draws
    if noise is None:
        raise BayeslawError(
            "The noise of the registered fits can't take known errors without the fits: score by `bayeslaw score`, or leave out "
            f"the column {outcome.error}.",
            code="known-errors",
        )
    known = error * outcome.slope(loss)
    for j, row in enumerate(place.tolist()):
        spread = prediction.rows[row]["spread"]
        try:
            members = noise["extrapolated" if spread == "extrapolated" else "run"]
            added = np.concatenate([_added(member, row, float(known[j])) for member in members])
            draws[:, j] = outcome.from_scale(outcome.to_scale(draws[:, j]) + added)
        except (KeyError, TypeError, ValueError, IndexError):  # of a file that another program wrote
            raise BayeslawError(
                f"The key `noise` of the prediction does not go with the draws of its row {row + 1}: `bayeslaw register --schema` "
                "(in Python bayeslaw.evaluation.prediction_schema.prediction_schema()) describes it.",
                code="not-a-prediction",
            ) from None
    return draws


def _added(member: Mapping[str, Any], row: int, known: float) -> Array:
    """Return what a known error adds to the noise (S,) of a row: the scale grows, the random number is the one it had."""
    scale = np.array(member["scale"][member["groups"][row]])
    rng = np.random.default_rng((*member["seeds"], NoiseLevel.POINT, row))  # as `Noise.sample` has it
    number = rng.standard_normal(scale.size) if member["dof"] is None else rng.standard_t(np.array(member["dof"]))
    return np.asarray((np.hypot(scale, known) - scale) * number)


# --- which row is which ----------------------------------------------------------------------------------------------


def _known(asked: Prediction) -> tuple[str, ...]:
    """Columns that measured rows may leave out: facts of tasks, and base losses, if these tell no two forecasts apart."""
    without = [c for c in asked.content["match"] if c != BASE_LOSS]
    apart = len(asked.settings[without].drop_duplicates()) < len(asked.settings[list(asked.content["match"])].drop_duplicates())
    alone = {*without} <= {*asked.outcome.facts}  # a row is recognised by something
    return asked.outcome.facts if apart or alone else (*asked.outcome.facts, BASE_LOSS)


def _check_domain(asked: Prediction, runs: Runs) -> None:
    """Refuse outcomes on another validation domain than that of the fits, where both are named."""
    measured = list(map(label_text, runs.frame["domain"].dropna().unique())) if "domain" in runs.frame else []
    for fitted in dict.fromkeys(fit.get("domain", "") for fit in asked.content["fits"]):  # older files don't name it
        if fitted and (others := [domain for domain in measured if domain != fitted]):
            problem = f"its {asked.outcome.plural} are of domain {listed(others)} and the registered forecasts of {fitted}"
            way = f"""choose with --where "domain == '{fitted}'" or runs.where(…), or leave the column out if they are the same"""
            raise BayeslawError(f"{runs.name}: {problem}; {way}.", code="other-domain")


def _described(asked: Prediction, runs: Runs) -> tuple[pd.DataFrame, int]:
    """Return the measured rows that the laws describe, and how many base checkpoints there are besides; faults are refused."""
    frame, outcome = runs.frame, asked.outcome
    known = _known(asked)
    needed = [outcome.name, *(c for c in asked.content["match"] if c not in known)]
    missing = [c for c in needed if c not in frame]
    wanted = f"the registered settings have {', '.join(asked.content['match'])}; there are {columns_there(frame)}"
    faults = [Fault(None, c, "", f"column {c} is missing", wanted, "missing-column") for c in missing]
    numbers = [c for c in asked.content["match"] if c in frame and holds_numbers(asked.settings[c])]
    for c in [c for c in (outcome.name, *numbers) if c in frame and not holds_numbers(frame[c])]:
        faults.append(Fault(None, c, "", f"column {c} holds no numbers", "give numbers", "column-without-numbers"))
    if not faults:
        faults += check_loss(frame) if outcome.is_loss else check_outcome(frame, outcome)
    unread = [f for f in runs.unread if f.row in frame.index and f.column in (*needed, outcome.error)]
    if faults := [*unread, *(f for f in faults if (f.row, f.column) not in {(u.row, u.column) for u in unread})]:
        raise TableError(faults, runs.name)
    base = frame["D"] == 0 if asked.content["base"] and "D" in frame else pd.Series(False, index=frame.index)
    if base.all():
        raise BayeslawError(f"{runs.name} has no row that a registered forecast is of.", code="nothing-to-settle")
    return frame[~base], int(base.sum())


def _places(asked: Prediction, name: str, frame: pd.DataFrame, tolerance: float) -> NDArray[np.int64]:
    """Return the registered row (n,) that each measured row settles, counted from 0, and -1 for rows of which none was registered.

    A row is refused that may be meant for a forecast: that of another row, or one that lies near it and that no row settles. So are
    all rows where none settles a forecast.
    """
    distance = _distances(asked, frame)
    near, free = np.all([d <= tolerance for d in distance.values()], axis=0), np.ones(len(asked.rows), dtype=bool)
    known = np.array([row["as"] == KNOWN_RUN for row in asked.rows])
    ours, theirs = (
        table["run"] if "run" in table else pd.Series(None, table.index, dtype=object) for table in (asked.settings, frame)
    )
    same_run = theirs.astype(str).to_numpy()[:, None] == ours.astype(str).to_numpy()[None]
    same_run &= theirs.notna().to_numpy()[:, None] & ours.notna().to_numpy()[None]
    total = np.asarray(sum(distance.values()))
    place = np.full(len(frame), -1)
    for allowed in (near & same_run, near & ~known):
        pairs = np.argwhere(allowed)
        for i, j in pairs[np.argsort(total[allowed], kind="stable")]:  # the nearest pair first, whichever row comes first
            if place[i] < 0 and free[j]:
                place[i], free[j] = j, False
    of_open = np.all([d <= MOST_TOLERANCE for d in distance.values()], axis=0) & free
    meant = (place < 0) & ((near | of_open).any(axis=1) | (place < 0).all())
    if meant.any():
        raise TableError([_fault(asked, frame, int(i), distance, near) for i in np.flatnonzero(meant)], name)
    return place


def _distances(asked: Prediction, frame: pd.DataFrame) -> dict[str, Array]:
    """Return how far measured rows lie from registered ones in each column, arrays (n, m); of texts 0 or infinite."""
    distance = {}
    for column in [c for c in asked.content["match"] if c in frame]:
        ours, theirs = asked.settings[column], frame[column]
        if holds_numbers(ours):
            a, b = theirs.to_numpy(dtype=np.float64)[:, None], ours.to_numpy(dtype=np.float64)[None]
            with np.errstate(invalid="ignore", divide="ignore"):
                off = np.abs(a - b) / np.maximum(np.maximum(np.abs(a), np.abs(b)), 1e-300)
            off = np.where(np.isnan(a) & np.isnan(b), 0.0, np.nan_to_num(off, nan=np.inf))
        else:
            texts = [series.map(exact, na_action="ignore").fillna("").astype(str).to_numpy() for series in (theirs, ours)]
            off = np.where(texts[0][:, None] == texts[1][None], 0.0, np.inf)
        distance[column] = off
    return distance


def _fault(asked: Prediction, frame: pd.DataFrame, i: int, distance: Mapping[str, Array], near: NDArray[np.bool_]) -> Fault:
    """Say why a measured row settles nothing."""
    row, columns = int(frame.index[i]), [*distance]
    given = ", ".join(f"{c} = {_shown(frame[c].iloc[i])}" for c in columns)
    if near[i].any():
        numbers = row_ranges(np.flatnonzero(near[i]) + 1)
        known = [asked.rows[j] for j in np.flatnonzero(near[i]) if asked.rows[j]["as"] == KNOWN_RUN]
        if known and "run" in asked.settings:
            problem = f"{given} is registered for the fitted run {known[0]['settings']['run']!r} only ({numbers})"
            way = "name that run in a column `run`, or leave the row out (--where, runs.where)"
            return Fault(row, "run", "", problem, way, "another-run")
        problem = f"{given} was registered as {numbers} and is settled by another row"
        return Fault(
            row, columns[0], "", problem, "a forecast is settled by one measurement: leave the others out", "settled-twice"
        )
    off = np.array([distance[c][i] for c in columns])
    j = int(np.argmin(np.minimum(off, 1e3).sum(axis=0)))
    worst = columns[int(np.argmax(off[:, j]))]
    nearest = ", ".join(f"{c} = {_shown(asked.settings[c].iloc[j])}" for c in columns)
    return Fault(
        row, worst, _shown(frame[worst].iloc[i]), f"no forecast was registered for {given}",
        f"the nearest is {nearest}; name columns and units by --column (columns=), allow a difference by --tolerance (tolerance=), "
        "or leave the row out (--where, runs.where)",
        "no-such-setting",
    )  # fmt: skip


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, (int, float, np.number)) else str(value)


def _seen(asked: Prediction, frame: pd.DataFrame, place: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the measured rows that the fits had: `register` wrote down what these know at the registered settings.

    As by `Observations.has`, an outcome of a run that the fits had is the same if it is theirs, rounded.
    """
    outcome = frame[asked.outcome.name].to_numpy(dtype=np.float64)
    rows = [asked.rows[i] for i in place]
    most = rounding(np.array([value for row in rows for value in row["seen"]]), outcome)
    seen = [
        (np.abs(same_scale(row["seen"]) - same_scale(value)) < ROW_TOLERANCE)
        | ((row["as"] == KNOWN_RUN) & (np.abs(np.array(row["seen"]) - value) <= most))
        for row, value in zip(rows, outcome.tolist(), strict=True)
    ]
    return np.array([bool(same.any()) for same in seen], dtype=bool)
