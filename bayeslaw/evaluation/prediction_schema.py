"""The JSON schema of registered forecasts; `prediction.schema.json` beside this module is its text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bayeslaw.evaluation.prediction import FORMAT, KIND, OF_ROWS, TOP
from bayeslaw.laws.outcome import KINDS

FILE = Path(__file__).with_name("prediction.schema.json")

_TEXT, _NUMBERS = {"type": "string"}, {"type": "array", "items": {"type": "number"}}
_DIGEST = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_NAMED = {"type": "object", "additionalProperties": {"type": "string"}}
_FIT: dict[str, dict[str, Any]] = {
    "name": _TEXT | {"description": "Its name in the stack, or that of the law."},
    "weight": {"type": "number", "description": "Its share of the draws."},
    "law": _TEXT | {"description": "Name of its law."},
    "noise": _TEXT | {"description": "Its noise in words."},
    "rows": {"type": "integer", "description": "Rows that it was fitted to."},
    "runs": {"type": "integer", "description": "Runs that these are of."},
    "data": _TEXT | {"description": "Name of their table."},
    "seed": {"type": "integer", "description": "Of the sampling."},
    "law_sha256": _DIGEST | {"description": "Of the card with its priors."},
    "data_sha256": _DIGEST | {"description": "Of the fitted values."},
    "draws_sha256": _DIGEST | {"description": "Of the posterior draws."},
    "versions": _NAMED | {"description": "Of the packages by which it was made."},
    "token_length": {
        "type": "object",
        "additionalProperties": {"type": "number"},
        "description": "Bytes or characters of a token of its losses, by the column that says so; empty where none does.",
    },
    "domain": _TEXT
    | {"description": "Validation domain of its losses by the column domain; empty where it names none or several."},
}
_OUTCOME: dict[str, dict[str, Any]] = {
    "name": _TEXT | {"description": "Its column in tables."},
    "unit": _TEXT | {"description": "Unit in words; that of losses is `unit` of the prediction."},
    "kind": {"enum": list(KINDS), "description": "Which values it has."},
    "bounds": {
        "type": "array", "items": {"type": ["number", "null"]}, "minItems": 2, "maxItems": 2,
        "description": "Between which they lie; null where there is no bound.",
    },
    "scale": {"type": "number", "description": "Typical size of its changes, for outcomes of any sign."},
    "chance": {"type": ["number", "string", "null"], "description": "What guessing scores, or the column that has it."},
    "items": _TEXT | {"description": "The column with the number of items of which it is a share; '' for none."},
    "run_shifts": _TEXT | {"description": "The covariate that effects of runs are added to; '' for none."},
}  # fmt: skip
_ROW: dict[str, dict[str, Any]] = {
    "row": {"type": "integer", "minimum": 1, "description": "Its number, from 1."},
    "settings": {"type": "object", "description": "The setting: columns with their values."},
    "spread": _TEXT | {"description": "What the draws are of: run, extrapolated outside the runs, or a stated discrepancy."},
    "as": _TEXT | {"description": "As what it is forecast: new run, known checkpoint or known run."},
    "reach": {"type": ["number", "null"], "description": "E-folds beyond the fitted runs, negative among them; null at 0."},
    "extrapolation": _TEXT | {"description": "How far outside the fitted runs it lies, in words."},
    "outside": {"type": "object", "additionalProperties": {"type": "number"}, "description": "The same by covariate."},
    "seen": _NUMBERS | {"description": "Outcomes that the fits had at this setting: such rows are not held out."},
    "quantiles": {
        "type": "object", "additionalProperties": _NUMBERS,
        "description": "For each spread its quantiles at `probabilities`.",
    },
    "draws": _NUMBERS | {"description": "Draws of `spread`; with all their digits, so that scores are exact."},
}  # fmt: skip
_MEMBER: dict[str, dict[str, Any]] = {
    "seeds": {"type": "array", "items": {"type": "integer"}, "description": "Of the random numbers of rows."},
    "groups": {"type": "array", "items": {"type": "integer"}, "description": "The group of noise of each row, from 0."},
    "scale": {"type": "array", "items": _NUMBERS, "description": "Draws of the scale of the point noise of each group."},
    "dof": {"type": ["array", "null"], "items": {"type": "number"}, "description": "Draws of its degrees of freedom, or null."},
}  # fmt: skip
_KEYS: dict[str, dict[str, Any]] = {
    KIND: {"type": "string", "pattern": r"^1\.", "description": "The format."},
    "bayeslaw": _TEXT | {"description": "Version that wrote it."},
    "date": {"type": "string", "format": "date-time", "description": "When it was registered, in UTC."},
    "who": _TEXT | {"description": "Who registered it."},
    "why": _TEXT | {"description": "What it is for."},
    "law": _TEXT | {"description": "The law or stack that forecasts."},
    "fits": {"type": "array", "minItems": 1, "description": "What it was made from, with digests."},
    "outcome": {"description": "What is forecast."},
    "unit": _TEXT | {"description": "Unit of the outcome, the draws and the quantiles."},
    "units": _NAMED | {"description": "Units of the settings' columns."},
    "seed": {"type": "integer", "description": "Of the noise of new runs."},
    "as": _TEXT | {"description": "As what rows of fitted runs were to be forecast: known, new-run, new-checkpoint or new-group."},
    "discrepancy": {"type": ["string", "null"], "description": "Error of the law that was stated, or null."},
    "checks": {"enum": ["passed", "FAILED (forced)"], "description": "Whether the checks of the sampling passed."},
    "failures": {"type": "array", "items": _TEXT, "description": "Checks that failed."},
    "model": _TEXT | {"description": "Verdict on the model: no concerns, concerns or not assessed."},
    "match": {"type": "array", "items": _TEXT, "description": "Columns by which measured rows are recognised."},
    "base": {"type": "boolean", "description": "Whether rows at D = 0 are base checkpoints, which are left out."},
    "reach_by": _TEXT | {"description": "The direction of `reach`; '' for the covariate of the largest distance."},
    "probabilities": _NUMBERS | {"description": "Those of `quantiles`."},
    "noise": {
        "type": ["object", "null"],
        "description": "Point noise, for measurements with known errors: for `run` and `extrapolated` that of each fit, in order.",
    },
    "rows": {"type": "array", "minItems": 1, "description": "The forecasts."},
}  # fmt: skip


def prediction_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 7) of registered forecasts.

    Examples
    --------
    >>> from bayeslaw.evaluation.prediction_schema import prediction_schema
    >>> prediction_schema()["required"][-2:]
    ['rows', 'sha256']
    """
    members = {"type": "array", "items": _object(_MEMBER)}
    keys = {key: _KEYS[key] for key in TOP}
    in_1_0 = [key for key in _FIT if key not in ("token_length", "domain")]
    keys["fits"] = keys["fits"] | {"items": _object(_FIT) | {"required": in_1_0}}
    keys["outcome"] = keys["outcome"] | _object(_OUTCOME)
    keys["noise"] = keys["noise"] | {"properties": {"run": members, "extrapolated": members}, "additionalProperties": False}
    keys["rows"] = keys["rows"] | {"items": _object({key: _ROW[key] for key in OF_ROWS})}
    keys["hmac_sha256"] = _DIGEST | {"description": "HMAC-SHA256 of all bytes before its line, by a key kept elsewhere."}
    keys["sha256"] = _DIGEST | {"description": "SHA-256 of all bytes before its line: `head -n -2 FILE | sha256sum`."}
    body = _object(keys)
    body["required"] = [key for key in keys if key != "hmac_sha256"]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#", "$id": f"urn:bayeslaw:prediction:{FORMAT}",
        "title": f"A registered forecast of bayeslaw (format {FORMAT})", **body,
    }  # fmt: skip


def _object(keys: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(keys), "required": list(keys), "additionalProperties": False}
