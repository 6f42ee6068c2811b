"""The JSON schema of cards, by which editors complete and check them; `card.schema.json` beside this module is its text.

It is made from the keys that the reader of cards accepts, so the two agree. The reader checks more, such as names in formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayeslaw.laws.card import CORNER_ERROR, DOMAINS, MOST_NODES, NOISES, OF_COVARIATES, OF_OUTCOMES, OF_PARAMETERS, TOP
from bayeslaw.laws.law import SPREAD
from bayeslaw.laws.mixture import MOST_SHARES, OF_MIXTURES, SHARES
from bayeslaw.laws.outcome import KINDS
from bayeslaw.laws.prior import ANY_SIGN, ARGUMENTS
from bayeslaw.laws.references import bibliography

VERSION = "1.3"
"""Of the format of cards. The second number counts keys that were added, the first changes that older cards don't survive."""
FILE = Path(__file__).with_name("card.schema.json")

_TEXT = {"type": "string", "minLength": 1}
_FORMULA = "NumPy notation, such as E + A/N**alpha; functions such as exp, log, sqrt, minimum and select."
_COVARIATE: dict[str, dict[str, Any]] = {
    "unit": {"type": "string", "description": "Unit in words, such as parameters or training tokens."},
    "support": {
        "type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2,
        "description": "Smallest and largest possible value; a table with values outside is refused.",
    },
    "at_least": {
        "type": "integer", "minimum": 1, "default": 1, "description": "How many different values the runs must have for a fit.",
    },
    "context": {
        "type": "boolean", "default": False,
        "description": "The loss does not depend on it: priors may, and forecasts outside its range are labelled.",
    },
    "log": {"type": "boolean", "default": False, "description": "Distances in it are counted in e-folds, whatever the support."},
    "share_of": _TEXT | {
        "description": "The covariate of which a token uses this share, such as N: runs are as large as the product of both.",
    },
    "nodes": {
        "type": "integer", "minimum": 2, "maximum": MOST_NODES,
        "description": "It is a series of so many columns, which formulas name within total(...).",
    },
}  # fmt: skip
_OUTCOME: dict[str, dict[str, Any]] = {
    "name": _TEXT | {"description": "Its column in tables, such as accuracy."},
    "unit": {"type": "string", "description": "Unit in words, for labels."},
    "kind": {
        "enum": list(KINDS),
        "description": "Which values it has: positive, any, between bounds, or shares of counted items such as questions.",
    },
    "bounds": {
        "type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2,
        "description": "Of kind bounded: values lie strictly between these.",
    },
    "scale": {
        "type": "number", "exclusiveMinimum": 0, "default": 1,
        "description": "Of kind real: a typical size of its changes, in whose units the noise has its priors.",
    },
    "chance": {"type": ["number", "string"], "description": "What guessing scores: a number, or the covariate that has it."},
    "items": _TEXT | {"description": "Of kind count: the covariate with the number of items, which is context."},
    "run_shifts": _TEXT | {"description": "Of kind count: the covariate that effects of runs are added to, in place of the logit."},
}  # fmt: skip
_MIXTURE: dict[str, dict[str, Any]] = {
    "shares": {
        "type": "array", "items": _TEXT, "minItems": 2, "maxItems": MOST_SHARES, "uniqueItems": True,
        "description": "Columns that sum to one: formulas write dot(t, shares), or shares within total(...).",
    },
    "reference": _TEXT | {"description": "The share for which parameters over the shares are 0."},
}  # fmt: skip
_PARAMETER: dict[str, dict[str, Any]] = {
    "meaning": _TEXT | {"description": "What it is, in words."},
    "unit": {"type": "string", "description": "Unit, such as nats/token; empty for a pure number."},
    "latex": {"type": "string", "minLength": 1, "maxLength": 80, "description": "Symbol in LaTeX, such as \\beta_{\\mathrm{eff}}."},
    "by": _TEXT | {"description": "Column by which it differs: its values share a normal distribution unless `pooled` is false."},
    "spread": {
        "type": "number",
        "exclusiveMinimum": 0,
        "default": SPREAD,
        "description": "Where it differs by a column: sd of the half-normal prior of the spread of its logarithm, logit or value.",
    },
    "pooled": {
        "type": "boolean",
        "default": True,
        "description": "Where it differs by a column: whether its values share a normal distribution; else each has the prior.",
    },
    "over": {"const": SHARES, "description": "It has a value for each share of the mixture."},
}


def card_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 7) of cards.

    Examples
    --------
    >>> from bayeslaw.laws.schema import card_schema
    >>> card_schema()["required"]
    ['name', 'title', 'source', 'parameters']
    """
    parameter = {key: _prior() if key == "prior" else _PARAMETER[key] for key in OF_PARAMETERS}
    numbers = {"type": "object", "additionalProperties": {"type": "number"}}
    keys: dict[str, dict[str, Any]] = {
        "name": _TEXT | {"description": "Name of the law: for a card in the folder of laws, that of its file."},
        "title": _TEXT | {"description": "What the law says, in a line."},
        "domain": {"enum": [*DOMAINS], "description": "Of a law of adaptations: the domain whose losses it describes."},
        "source": _TEXT | {"description": "Where it comes from: authors, year, title, equation."},
        "references": {
            "type": "array", "uniqueItems": True,
            "items": {"anyOf": [{"enum": list(bibliography())}, {"type": "string", "pattern": "@"}]},
            "description": "The source for `bayeslaw cite`: keys of references that bayeslaw has, or whole BibTeX entries.",
        },
        "loss": _TEXT | {"description": f"Expected loss in nats per token, by the names of this card. {_FORMULA}"},
        "formula": _TEXT | {"description": f"Expected outcome, where there is an [outcome], in place of `loss`. {_FORMULA}"},
        "outcome": _object({key: _OUTCOME[key] for key in OF_OUTCOMES}, "name", "kind")
        | {"description": "What the law predicts, if that is not a loss."},
        "noise": {
            "enum": [*NOISES],
            "description": "Noise of fits in place of the usual one where half of the runs, eight at least, have eight moments.",
        },
        "huber_delta": {
            "type": "number", "exclusiveMinimum": 0, "default": 1e-3,
            "description": "Residual in log loss at which the Huber loss of point fits turns linear.",
        },
        "corner_error": {
            "type": "number", "minimum": -CORNER_ERROR, "maximum": CORNER_ERROR, "default": 0,
            "description": "Mean error of the log loss at an e-fold more N x D than any run has, within the runs' N and D, as a "
            "multiple of the discrepancy that is learnt.",
        },
        "note": {"type": "string", "description": "What a user should know: when it holds, and when not."},
        "mixture": _object({key: _MIXTURE[key] for key in OF_MIXTURES}, "shares")
        | {"description": "Covariates that are the shares of one mixture."},
        "let": _table(_TEXT | {"description": _FORMULA}, "Named parts of the formula."),
        "covariates": _table(
            _object({key: _COVARIATE[key] for key in OF_COVARIATES}, "unit", "support"), "Quantities that the loss depends on."
        ),
        "parameters": _table(_object(parameter, "meaning", "prior"), "Quantities to be inferred, with their priors.", 1),
        "tuning": _table(
            _TEXT | {"description": "The expression of [let] that is its best value."},
            "Covariates that have an optimum, such as lr = \"lr_opt\", for `bayeslaw tuning`.",
        ),
        "published": {
            "type": "object", "additionalProperties": numbers, "description": "Numbers of the source, for comparison only.",
        },
    }  # fmt: skip
    body = _object({key: keys[key] for key in TOP}, "name", "title", "source", "parameters")
    body["oneOf"] = [{"required": ["loss"]}, {"required": ["formula", "outcome"]}]
    body["anyOf"] = [{"required": ["covariates"], "properties": {"covariates": {"minProperties": 1}}}, {"required": ["mixture"]}]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#", "$id": f"urn:bayeslaw:card:{VERSION}",
        "title": f"A card of bayeslaw: a scaling law with its priors (format {VERSION})", **body,
    }  # fmt: skip


def _object(keys: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict(keys), "required": list(required), "additionalProperties": False}


def _table(of: Mapping[str, Any], description: str, least: int = 0) -> dict[str, Any]:
    """Return the schema of a table whose keys are names of one's own."""
    return {"type": "object", "description": description, "minProperties": least, "additionalProperties": dict(of)}


def _prior() -> dict[str, Any]:
    """Return the schema of a prior: one form for each distribution."""
    on = _TEXT | {"description": "State the prior for this expression, at the geometric middle of the runs: A/N**alpha."}
    forms = []
    for dist, (support, arguments) in ARGUMENTS.items():
        numbers = {a: {"type": "number"} if a in ANY_SIGN else {"type": "number", "exclusiveMinimum": 0} for a in arguments}
        dist_key = {"const": dist, "description": f"{dist}({', '.join(arguments)}), of {support} values."}
        forms.append(_object({"dist": dist_key, **numbers, "on": on}, "dist", *arguments))
    return {"description": "Prior distribution, parametrised as in PyMC.", "oneOf": forms}
