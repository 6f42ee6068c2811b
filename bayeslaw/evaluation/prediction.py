"""Forecasts on record: a forecast is written down before the runs are made, in a file that is scored later without the fit.

The file is plain JSON, described by `prediction.schema.json` beside this module. It has every number that scores need, the draws of
the spread to report included, so that `settle` gives the scores that `score` gives; and its last line tells whether a byte was
changed (`evaluation.sealed`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.files import as_path, write_bytes
from bayeslaw.core.flops import FLOPS
from bayeslaw.core.html import plain_value
from bayeslaw.core.intervals import columns
from bayeslaw.core.text import counted, short_lines
from bayeslaw.data.table import Runs
from bayeslaw.data.validate import base_rows
from bayeslaw.evaluation.direction import DIRECTIONS, direction
from bayeslaw.evaluation.sealed import LAST, Unsealed, begins_as, read_key, seal, unseal
from bayeslaw.forecasting.forecast import Forecast, forecast
from bayeslaw.forecasting.grid import Settings, read_settings
from bayeslaw.forecasting.member_draws import MemberDraws
from bayeslaw.forecasting.stack import Posterior, Stack, fits_of
from bayeslaw.laws.outcome import KINDS, Outcome
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.diagnostics import checks_label, failures
from bayeslaw.posterior.effects import KNOWN_RUN, Reading
from bayeslaw.posterior.fit import Fit, require_fits
from bayeslaw.posterior.parameters import in_unit_of_losses

KIND, FORMAT = "bayeslaw_prediction", "1.2"
"""The key that predictions have, and their format. The second number counts keys that were added, the first other changes."""
TOP = (
    KIND, "bayeslaw", "date", "who", "why", "law", "fits", "outcome", "unit", "units", "seed", "as", "discrepancy", "checks",
    "failures", "model", "match", "base", "reach_by", "probabilities", "noise", "rows",
)  # fmt: skip
OF_ROWS = ("row", "settings", "spread", "as", "reach", "extrapolation", "outside", "seen", "quantiles", "draws")
PROBABILITIES = (0.001, 0.005, *(round(0.01 * i, 2) for i in range(1, 100)), 0.995, 0.999)
MOST_NUMBERS = 5_000_000  # draws in one file, some 100 MB
MOST_TEXT = 10_000  # characters of a note
RESULT_ENDING = ".settled.json"  # how names of results end, beside their predictions


@dataclass(frozen=True)
class Prediction:
    """A registered forecast.

    Attributes
    ----------
    content : mapping
        What the file has, as plain values; `prediction_schema()` describes it.
    name : str
        Name of its file; '' before it is written.
    sha256 : str
        Digest of the file before its last line.
    signed, verified : bool
        Whether it is signed, and whether the signature was verified with a key.

    Examples
    --------
    >>> prediction = bayeslaw.evaluation.register(bayeslaw.load_fit("fit.nc"), {"N": 1e9, "D": "1e10,2e10"}, why="the next run")
    >>> prediction
    <Prediction by chinchilla of 2 losses, registered ...>
    >>> prediction.summary()["spread"].tolist()
    ['run', 'run']
    """

    content: Mapping[str, Any]
    name: str = ""
    sha256: str = ""
    signed: bool = False
    verified: bool = False

    def __repr__(self) -> str:
        outcomes = counted(len(self.rows), self.outcome.name)
        return short_lines(f"<Prediction by {self.content['law']} of {outcomes}, registered {self.content['date']}>")

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Its rows, each a setting with its forecast."""
        return list(self.content["rows"])

    @cached_property
    def outcome(self) -> Outcome:
        """What is forecast."""
        given = dict(self.content["outcome"])
        low, high = given.pop("bounds")
        bounds = (-math.inf if low is None else float(low), math.inf if high is None else float(high))
        return Outcome(**given, bounds=bounds)

    @cached_property
    def settings(self) -> pd.DataFrame:
        """The settings (n rows)."""
        return pd.DataFrame([row["settings"] for row in self.rows])

    @cached_property
    def draws(self) -> Array:
        """Draws (S, n) of the spread to report of each row."""
        return np.array([row["draws"] for row in self.rows], dtype=np.float64).T

    @cached_property
    def reach(self) -> Array:
        """How many e-folds beyond the fitted runs each row (n,) lies; negative among them."""
        return np.array([-math.inf if row["reach"] is None else row["reach"] for row in self.rows], dtype=np.float64)

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Return the settings with the median and equal-tailed interval to report, the spread that these are of, and the reach."""
        spread, where = ([row[key] for row in self.rows] for key in ("spread", "extrapolation"))
        return self.settings.assign(spread=spread, **columns(self.draws, ci_prob), reach=self.reach, extrapolation=where)

    def save(self, path: str | Path, key: str | Path | None = None) -> Prediction:
        """Write the prediction, and return it with the name and the digest of its file. A file that exists is never replaced.

        Parameters
        ----------
        path : str or Path
            Path of the file to write (.json).
        key : str or Path, optional
            A file with a key of at least 16 bytes; the prediction is signed by HMAC-SHA256 with it.
        """
        path, secret = as_path(path, "A prediction"), read_key(key)
        check_new(path)
        data, digest = seal(self.content, secret)
        try:
            write_bytes(path, data, new=True)
        except FileExistsError:  # another process has registered a forecast there meanwhile
            raise _registered(path) from None
        return replace(self, name=path.name, sha256=digest, signed=secret is not None, verified=secret is not None)


def register(
    fit: Posterior,
    at: Settings,
    *,
    discrepancy: float | str | None = None,
    as_: Reading | Literal["new-group"] = "known",
    seed: int = 0,
    force: bool = False,
    by: str | None = None,
    who: str = "",
    why: str = "",
) -> Prediction:
    """Write down a forecast, to be scored when its runs are measured.

    Parameters
    ----------
    fit, at, discrepancy, as_, seed, force
        As those of `bayeslaw.forecast`. Measured outcomes in the table are not looked at.
    by : {'compute', 'N', 'D', 'ptpp', 'step'}, optional
        The direction in which the reach is counted, e-folds beyond the fitted runs, as `bayeslaw.backtest` counts it; compute is
        6 N D. By default the first of these that the laws have, or the covariate of the largest distance.
    who, why : str
        Who registers it, and what it is for.

    Raises
    ------
    BayeslawError
        As `bayeslaw.forecast`; 'too-many-draws' where the file would have more than 5,000,000, 'missing-column' where the laws
        or the settings don't have the direction.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> prediction = bayeslaw.evaluation.register(fit, {"N": 1e9, "D": 2e10}, who="me").save("prediction.json")
    >>> len(prediction.sha256), prediction.content["reach_by"]
    (64, 'compute')
    """
    require_fits(fit)
    for name, text in (("who", who), ("why", why)):
        if not isinstance(text, str):
            raise BayeslawError(f"{name} is a text, not {text!r}.", code="not-a-text")
        if len(text) > MOST_TEXT:
            raise BayeslawError(f"{name} has {len(text):,} characters, and may have {MOST_TEXT:,}.", code="too-long")
    outcome, runs = fit.outcome, read_settings([fit], at)
    frame = runs.frame.drop(columns=[c for c in (outcome.name, outcome.error) if c in runs.frame])
    predicted = forecast(fit, replace(runs, frame=frame), discrepancy=discrepancy, as_=as_, seed=seed, force=force)
    if (count := predicted.size * predicted.rows.size) > MOST_NUMBERS:
        raise BayeslawError(
            f"{predicted.size:,} draws at {predicted.rows.size:,} settings are {count:,} numbers, and a file may have "
            f"{MOST_NUMBERS:,}: register fewer settings, or write several files.",
            code="too-many-draws",
        )
    fits = tuple(member.fit for member in predicted.members)
    by, reach = _reach(fits, predicted, frame, by)
    content: dict[str, Any] = {
        KIND: FORMAT, "bayeslaw": version("bayeslaw"), "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "who": who, "why": why, "law": predicted.law, "fits": _facts(fit), "outcome": _outcome(outcome), "unit": predicted.unit,
        "units": {c.name: in_unit_of_losses(f, c.unit) for f in reversed(fits) for c in f.measured.values()},
        "seed": int(seed), "as": as_,
        "discrepancy": None if discrepancy is None else str(discrepancy), "checks": checks_label(predicted.forced),
        "failures": [str(check) for check in (*failures(fit.checks), *failures(predicted.checks))], "model": predicted.model_label,
        "match": _matching(fits, predicted),
        "base": any(_infinite_at_base(f) for f in fits), "reach_by": by, "probabilities": list(PROBABILITIES),
        "noise": _noise(predicted), "rows": _rows(predicted, reach),
    }  # fmt: skip
    return Prediction({key: content[key] for key in TOP})


def read_prediction(path: str | Path, key: str | Path | None = None) -> Prediction:
    """Read a registered forecast.

    Parameters
    ----------
    path : str or Path
    key : str or Path, optional
        A file with the key by which it must be signed.

    Raises
    ------
    BayeslawError
        'changed-file' if a byte of it was changed, 'not-a-prediction' if it is something else, 'newer-format' if a later version
        wrote it, 'not-signed' or 'wrong-signature' with a key.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> written = bayeslaw.evaluation.register(fit, {"N": 1e9, "D": 2e10}).save("next.json")
    >>> bayeslaw.evaluation.read_prediction("next.json").sha256 == written.sha256
    True
    """
    path = as_path(path, "A prediction")
    return _checked(path.name, unseal(path, KIND, "prediction", read_key(key)))


def check_new(path: Path) -> None:
    """Refuse a name for a prediction that is of an existing file, or by which `record` would not find it."""
    if path.suffix != ".json":
        raise BayeslawError(f"A prediction is written to a file ending in .json, not {path.name}.", code="wrong-ending")
    if path.name.endswith(RESULT_ENDING):
        raise BayeslawError(f"{path.name} would be the name of a result: choose one without .settled.", code="wrong-ending")
    if path.exists():
        raise _registered(path)


def check_no_prediction(path: Path) -> None:
    """Refuse a path at which there is a prediction, for a result that would replace it."""
    try:
        with path.open("rb") as file:
            begin = file.read(LAST)
    except OSError:
        return
    if begins_as(begin, KIND):
        raise _registered(path)


def _registered(path: Path) -> BayeslawError:
    problem = f"{path} exists, and a registered forecast is never replaced: choose another name."
    return BayeslawError(problem, code="already-registered")


# --- reading ---------------------------------------------------------------------------------------------------------


def check_format(name: str, unsealed: Unsealed, kind: str, known: str) -> None:
    """Refuse a file of a format that this version does not know.

    Parameters
    ----------
    name, unsealed : str, Unsealed
        The file's name, for the message, and what is in it.
    kind, known : str
        The key of the format in the contents, and the format of this version, such as "1.0".
    """
    given = str(unsealed.content[kind])
    if given.partition(".")[0] != known.partition(".")[0]:
        raise BayeslawError(f"{name} has format {given}, and this version reads {known}: update bayeslaw.", code="newer-format")


def _checked(name: str, unsealed: Unsealed) -> Prediction:
    """Return the prediction of a file, or refuse contents that could not be scored."""
    check_format(name, unsealed, KIND, FORMAT)
    try:
        prediction = Prediction(unsealed.content, name, unsealed.sha256, unsealed.signed, unsealed.verified)
        rows, outcome = prediction.rows, prediction.outcome
        size, keys = prediction.draws.shape, {frozenset(row["settings"]) for row in rows}
        sound = (
            {*TOP} <= {*unsealed.content} and all({*OF_ROWS} <= {*row} for row in rows) and len(keys) == 1 and len(size) == 2
            and size[0] > 1 and bool(np.isfinite(prediction.draws).all()) and outcome.kind in KINDS and outcome.name != ""
            and {*prediction.content["match"]} <= {*prediction.settings} and not bool(np.isnan(prediction.reach).any())
            and bool({*prediction.content["match"]} - {*outcome.facts})  # which measured rows may leave out
            and all(isinstance(row["spread"], str) for row in rows)
            and all(isinstance(fit, Mapping) for fit in prediction.content["fits"])
            and bool(((prediction.draws >= outcome.bounds[0]) & (prediction.draws <= outcome.bounds[1])).all())
            and all(isinstance(value, float | int) for row in rows for value in row["seen"])
            and datetime.fromisoformat(prediction.content["date"]).tzinfo is not None
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        sound = False
    if not sound:
        raise BayeslawError(
            f"{name} is whole, but what it holds is no forecast that could be scored; its keys are described by "
            "`bayeslaw register --schema` (in Python bayeslaw.evaluation.prediction_schema.prediction_schema()).",
            code="not-a-prediction",
        )
    return prediction


# --- what is written -------------------------------------------------------------------------------------------------


def _facts(fit: Posterior) -> list[dict[str, Any]]:
    """Return what each fit was made from and its digests."""
    return [
        {
            "name": name, "weight": fit.weights[name] if isinstance(fit, Stack) else 1.0, "law": f.law.name, "noise": f.noise.text,
            "rows": int(f.observed.response.size), "runs": int(f.observed.runs), "data": str(f.info["data"]),
            "seed": int(f.info["seed"]), "law_sha256": f.law.sha256, "data_sha256": f.info["data_sha256"],
            "draws_sha256": f.info["draws_sha256"], "versions": {str(k): str(v) for k, v in f.info["versions"].items()},
            "token_length": f.token_length, "domain": str(f.info.get("domain", "")),
        }
        for name, f in fits_of(fit).items()
    ]  # fmt: skip


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return asdict(outcome) | {"bounds": [end if math.isfinite(end) else None for end in outcome.bounds]}


def _matching(fits: Sequence[Fit], predicted: Forecast) -> list[str]:
    """Return the columns by which measured rows are recognised: those on which the forecasts depend.

    Where fits have learnt effects of checkpoints, the column that names these is one of them if it tells two new runs apart; later
    rows of fitted runs are recognised by their run.
    """
    wanted = {
        c for f in fits for c in (*f.law.covariates, *f.law.levels, *([f.observed.group_column] * bool(f.observed.group_names)))
    }
    settings = predicted.settings
    columns, of_checkpoint = [str(c) for c in settings if c in wanted], "checkpoint" if "checkpoint" in settings else "seed"
    if of_checkpoint not in settings or not any(f.noise.checkpoint_effect for f in fits):
        return columns
    new_runs, both = settings[[reading != KNOWN_RUN for reading in predicted.readings]], [*columns, of_checkpoint]
    return both if len(new_runs[both].drop_duplicates()) > len(new_runs[columns].drop_duplicates()) else columns


def _infinite_at_base(fit: Fit) -> bool:
    """Return whether rows at D = 0 are base checkpoints that the law can't describe."""
    return bool(base_rows(pd.DataFrame({"D": [0.0]}), fit.law).all())


def _reach(fits: Sequence[Fit], predicted: Forecast, frame: pd.DataFrame, by: str | None) -> tuple[str, Array]:
    """Return the direction, and how many e-folds beyond the fitted rows each setting (n,) lies in it."""
    if by is None:
        by = next((d for d in DIRECTIONS if {*_columns(d)} <= {*frame} and all({*_columns(d)} <= {*f.law.axes} for f in fits)), "")
    if not by:
        return "", predicted.outside.max(axis=1).to_numpy(dtype=np.float64)
    value = direction(Runs(frame.drop(columns="flops", errors="ignore"), "the settings"), by).to_numpy(dtype=np.float64)
    if lacking := [name for f in fits for name in _columns(by) if name not in f.observed.covariates]:
        raise BayeslawError(f"The fit knows no {lacking[0]}: the reach can't be counted along {by}.", code="missing-column")
    seen = [np.prod([f.observed.covariates[name] for name in _columns(by)], axis=0).max() for f in fits]
    reached = float(max(seen)) * (FLOPS if by == "compute" else 1)
    with np.errstate(divide="ignore"):
        return by, np.log(value) - math.log(reached)


def _columns(by: str) -> tuple[str, ...]:
    return ("N", "D") if by == "compute" else (by,)


def _noise(predicted: Forecast) -> dict[str, list[dict[str, Any]]] | None:
    """Return what widens draws by a known error of a measurement: the point noise of each member; None where nothing can.

    Draws of a row have point noise, scale times a standard normal or Student-t number. With a known error the scale is larger, and
    the number the same: it is drawn again from the seeds.
    """
    members = {"run": predicted.members} | ({"extrapolated": predicted.beyond} if predicted.beyond else {})
    every = [member for some in members.values() for member in some]
    if any(not isinstance(m.fit.noise, Noise) or m.fit.noise.counts for m in every):
        return None
    return {spread: [_point_noise(member) for member in some] for spread, some in members.items()}


def _point_noise(member: MemberDraws) -> dict[str, Any]:
    noise = member.fit.noise
    scale = noise.scales(member.values, "sigma_point")
    return {
        "seeds": [int(part) for part in member.entropy], "groups": member.group.tolist(), "scale": scale.tolist(),
        "dof": np.asarray(member.values["dof"]).tolist() if noise.student else None,
    }  # fmt: skip


def _rows(predicted: Forecast, reach: Array) -> list[dict[str, Any]]:
    draws, predictive = predicted.draws, predicted.predictive
    levels = {name: np.quantile(draws[name].values, PROBABILITIES, axis=0) for name in predicted.spreads}
    frame = predicted.settings.set_axis(predicted.rows, axis=0)
    seen = [member.fit.observed.outcomes_at(member.fit.law, frame) for member in predicted.members]
    outside = [{str(k): float(v) for k, v in row.items()} for row in predicted.outside.to_dict("records")]
    spreads, where, readings = predicted.headlines, predicted.extrapolation, predicted.readings
    settings = [{str(k): plain_value(v) for k, v in row.items()} for row in predicted.settings.to_dict("records")]
    return [
        {
            "row": i + 1, "settings": settings[i], "spread": spreads[i], "as": readings[i],
            "reach": float(reach[i]) if math.isfinite(reach[i]) else None, "extrapolation": where[i], "outside": outside[i],
            "seen": sorted({value for of_fit in seen for value in of_fit[i]}),
            "quantiles": {name: values[:, i].tolist() for name, values in levels.items()}, "draws": predictive[:, i].tolist(),
        }
        for i in range(predicted.rows.size)
    ]  # fmt: skip
