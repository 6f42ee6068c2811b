"""Names in a card: which it may use, that each is given once, and that all are used where they can be."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bayeslaw.core.errors import nearest
from bayeslaw.laws.faults import Faults
from bayeslaw.laws.formula import FUNCTIONS, Expression
from bayeslaw.laws.law import Covariate, LocatedError, Parameter
from bayeslaw.laws.outcome import Outcome

RESERVED = frozenset(
    {
        "run", "run_code", "run_effect", "step", "domain", "unit", "chain", "draw", "row", "group",
        "checkpoint", "sigma_point", "sigma_run", "sigma_checkpoint", "run_excess", "drift", "dof", "discrepancy", *FUNCTIONS,
    }
)  # fmt: skip
"""Names that a card can't use: those of functions, of parameters of the noise, and of columns of tables and stored draws."""
OF_RESULTS = frozenset(
    {
        "as", "checks", "compared", "continues", "crps", "cut", "error", "error_percent", "error_sd", "flops", "group", "headline",
        "inside", "inside_eti90", "law", "loo_pit", "loss_se", "median", "model", "near", "p_adjusted", "p_curve", "p_level",
        "pareto_k", "pit", "predicted", "predicted_median", "reach", "rows", "sds", "seed", "spread", "unit", "weight",
    }
)  # fmt: skip
"""Columns of tables of results, which have the outcome in a column of its name: no outcome can be called so."""


def check_names(
    formula: Mapping[str, Expression],
    let: Mapping[str, Expression],
    covariates: Mapping[str, Covariate],
    parameters: Mapping[str, Parameter],
    outcome: Outcome,
    faults: Faults,
    shares: Sequence[str],
) -> None:
    """Check that every name is allowed, is given once, is known where it is used, and is used.

    Parameters
    ----------
    formula : mapping
        The formula by its key in the card.
    let, covariates, parameters, outcome
        Of the card.
    faults
        To which those of names are added.
    shares
        Of the card's mixture: the reference's need not be used.
    """
    add = faults.found.append
    reserved = RESERVED | {outcome.name, outcome.error, outcome.observed}
    groups: Sequence[tuple[str, Mapping[str, Any]]] = (("let", let), ("covariates", covariates), ("parameters", parameters))
    seen: dict[str, str] = {}
    for section, name in [(section, name) for section, group in groups for name in group]:
        if (read := unicodedata.normalize("NFKC", name)) != name and read.isidentifier():
            message = f"{name!r} ({_points(name)}) is read as {read!r} ({_points(read)}) in formulas: write that, or another name."
            add(LocatedError(message, section, name, code="invalid-name"))
        elif not name.isidentifier() or name.startswith("_") or name in reserved:
            message = f"{name!r} can't be a name: use letters, digits and _, and none of {', '.join(sorted(reserved))}."
            add(LocatedError(message, section, name, code="invalid-name"))
        if name in seen:
            message = f"{name!r} stands both under [{seen[name]}] and under [{section}]."
            add(LocatedError(message, section, name, code="name-used-twice"))
        seen[name] = section
    for name in (n for n, p in parameters.items() if p.prior.on):
        if (level := f"{name}_level") in seen:
            message = f"{level!r} is what the value of {name}'s `on` is called: use another name."
            add(LocatedError(message, seen[level], level, code="name-used-twice"))
    invalid = any(fault.code == "invalid-name" for fault in faults.found)  # and then a formula can't name it
    faults.found += [] if invalid else unknown_names(formula, let, seen)
    if invalid or any(fault.code == "unknown-name" for fault in faults.found):
        return  # a misspelt name would be called unused too
    used = frozenset[str]().union(*(e.names for e in (*formula.values(), *let.values())))
    faults.of(_check_outcome, outcome, covariates, used)
    faults.of(_check_shares, covariates)
    for name, section in seen.items():
        context = section == "covariates" and covariates[name].context
        if name not in used and not context and name not in shares:
            add(LocatedError(f"{name!r} is not used by the formula.", section, name, code="unused-name"))
        if name in used and context:
            message = f"{name!r} is context, and the formula uses it: leave `context` out."
            add(LocatedError(message, section, name, code="context-in-formula"))


def _points(name: str) -> str:
    """The code points of a name, which tell letters apart that look alike."""
    return " ".join(f"U+{ord(letter):04X}" for letter in name)


def unknown_names(formula: Mapping[str, Expression], let: Mapping[str, Expression], known: Collection[str]) -> list[LocatedError]:
    """Return faults of names in the formula and in [let] that are neither covariates, nor parameters, nor expressions.

    Parameters
    ----------
    formula, let : mapping of str to Expression
    known : collection of str
        Names of covariates, parameters and expressions.
    """
    names = {*known}
    return [
        LocatedError(
            f"unknown name {name!r} in {key!r}; known are {', '.join(known) or 'none'}.{nearest(name, known)}",
            section, key, code="unknown-name",
        )
        for section, expressions in (("", formula), ("let", let))
        for key, expression in expressions.items()
        for name in sorted(expression.names - names)
    ]  # fmt: skip


def _check_shares(covariates: Mapping[str, Covariate]) -> None:
    """Check that what a covariate is a share of is another one in whose logarithm distances are counted."""
    for name, share in covariates.items():
        of = share.share_of
        if of and (of == name or of not in covariates or covariates[of].share_of):
            message = f"{name} is a share of {of!r}, which is no other covariate of the card.{nearest(of, covariates)}"
            raise LocatedError(message, "covariates", name, code="unknown-name")
        if of and not (share.logarithmic and covariates[of].logarithmic):
            message = f"{name} and {of} are multiplied to the size of a run: distances in both must be in e-folds (`log = true`)."
            raise LocatedError(message, "covariates", name, code="share-without-logarithm")


def _check_outcome(outcome: Outcome, covariates: Mapping[str, Covariate], used: frozenset[str]) -> None:
    """Check that the outcome's number of items and chance are covariates, the first of them not in the formula."""
    for key, name in (("items", outcome.items), ("chance", outcome.chance), ("run_shifts", outcome.run_shifts)):
        if isinstance(name, str) and name and name not in covariates:
            message = f"`{key}` names {name!r}, which is no covariate of the card.{nearest(name, covariates)}"
            raise LocatedError(message, "outcome", key, code="unknown-name")
    if outcome.run_shifts and outcome.run_shifts not in used:
        message = f"`run_shifts` names {outcome.run_shifts!r}, which the formula does not use."
        raise LocatedError(message, "outcome", "run_shifts", code="unused-name")
    if outcome.items and (outcome.items in used or not covariates[outcome.items].context):
        message = f"{outcome.items!r} says how exactly the outcome is measured, not what it is: make it `context = true`."
        raise LocatedError(message, "covariates", outcome.items, code="items-in-formula")


def same_members(by_key: Mapping[str, Mapping[str, Parameter]]) -> list[LocatedError]:
    """Return faults of parameters over shares whose value for a share has the name of another parameter."""
    first, faults = dict[str, str](), list[LocatedError]()
    for key, name in ((key, name) for key, members in by_key.items() for name in members):
        if (other := first.setdefault(name, key)) != key:
            message = (
                f"{name!r} is both of the parameter {other} and of {key}, of which one is over the shares: rename one of them."
            )
            faults.append(LocatedError(message, f"parameters.{key}", code="name-used-twice"))
    return faults
