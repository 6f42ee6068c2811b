"""Losses per token of several tokenizers, which can't be compared: found where a table says how long its tokens are."""

from __future__ import annotations

from collections.abc import Container

import pandas as pd

from bayeslaw.core.arrays import holds_numbers
from bayeslaw.core.errors import BayeslawError, Fault, row_ranges
from bayeslaw.core.units import RATIOS, check_unit, per, unit_of
from bayeslaw.data.base_loss import BASE_LOSS
from bayeslaw.laws.law import Law

LOSS, REFERENCE = "loss", "--reference"
RATIO_TOLERANCE = 0.01  # relative difference up to which two ratios are one that was measured on other texts


def tokenizer_faults(frame: pd.DataFrame, law: Law) -> list[Fault]:
    """Find losses per token of tokenizers whose tokens have different lengths, as columns such as `bytes_per_token` say.

    Rows of several domains, and of values of a column by which parameters vary, need not have tokens of one length: each domain
    has its own text, and each value its own level of the loss.
    """
    if not (column := _column(frame, law.covariates) if _of_losses(law) else ""):
        return []
    apart = [c for c in dict.fromkeys(("domain", *law.levels, *(p.by for p in law.parameters.values()))) if c in frame]
    ratios = frame[column].dropna()
    groups = [rows for _, rows in ratios.groupby([frame.loc[ratios.index, c] for c in apart], dropna=False)] if apart else [ratios]
    for rows in groups:
        if (off := rows[abs(rows / rows.iloc[0] - 1) > RATIO_TOLERANCE]).size:
            same = off.index[abs(off / off.iloc[0] - 1) <= RATIO_TOLERANCE]
            of = f"{row_ranges(same)} ha{'s' if len(same) == 1 else 've'} {off.iloc[0]:g} {column.replace('_', ' ')}"
            problem = f"{column} differs: {of} and row {rows.index[0]} has {rows.iloc[0]:g}"
            why = (
                "losses per token of different tokenizers can't be compared; bring them to one by "
                f"{_conversion(column, unit_of(frame), 'BYTES')}, or let parameters vary by the column that tells the tokenizers "
                "apart, such as --by E=tokenizer (by={'E': 'tokenizer'})"
            )
            return [Fault(int(off.index[0]), column, f"{off.iloc[0]:g}", problem, why, "several-tokenizers")]
    return []


def token_length(frame: pd.DataFrame, law: Law) -> dict[str, float]:
    """Return the one length of the tokens of a table, such as ``{"bytes_per_token": 4.2}``, empty where it isn't known."""
    return length_of_losses(frame, law.covariates) if _of_losses(law) else {}


def length_of_losses(frame: pd.DataFrame, covariates: Container[str]) -> dict[str, float]:
    """Return the `token_length` of a table of losses whose law has some covariates."""
    column = _column(frame, covariates)
    ratios = frame[column].dropna() if column else pd.Series(dtype=float)
    if ratios.empty or ratios.max() / ratios.min() - 1 > RATIO_TOLERANCE:
        return {}
    return {column: float(ratios.iloc[0])}


def loss_unit(frame: pd.DataFrame, law: Law) -> str:
    """Return the unit of the losses on which another outcome depends, such as an accuracy, '' for other laws.

    It is that of the table where that has one, otherwise that of the law.
    """
    if law.outcome.is_loss or LOSS not in law.measured:
        return ""
    return unit_of(frame) if "unit" in frame else law.measured[LOSS].unit


def check_loss_unit(fitted: str, frame: pd.DataFrame, law: Law, name: str) -> None:
    """Refuse settings whose losses, or base losses, are in another unit than those on which the fitted outcomes depend.

    Parameters
    ----------
    fitted : str
        The unit of these losses in the fitted table; '' for none.
    frame, law, name : DataFrame, Law, str
        As for `check_tokenizer`.
    """
    if fitted and "unit" in frame:
        for column in {LOSS, BASE_LOSS} & law.measured.keys():
            check_unit(fitted, frame, name, "fit takes them", column)


def differ(length: dict[str, float], other: dict[str, float], unit: str) -> tuple[str, str] | None:
    """Say how two lengths of tokens, as `token_length` returns them, differ, and what brings losses in a unit to the first.

    None where they agree or one isn't known.

    Parameters
    ----------
    length, other : dict
    unit : str
        Unit of the losses.
    """
    for column in {*length} & {*other}:
        if abs(length[column] / other[column] - 1) > RATIO_TOLERANCE:
            words = f"{other[column]:g} and {length[column]:g} {column.replace('_', ' ')}"
            return words, _conversion(column, unit, f"{length[column]:g}")
    return None


def check_tokenizer(fitted: dict[str, float], frame: pd.DataFrame, law: Law, name: str) -> None:
    """Refuse losses per token of another tokenizer than that of the losses that were fitted.

    Parameters
    ----------
    fitted : dict
        The `token_length` of the fitted table.
    frame, law, name : DataFrame, Law, str
        The other table, the law of the fit, and what the error calls the table.
    """
    check_length(fitted, token_length(frame, law), frame, name)


def check_length(fitted: dict[str, float], length: dict[str, float], frame: pd.DataFrame, name: str) -> None:
    """Refuse a table whose tokens have another length than those of the losses that were fitted.

    Parameters
    ----------
    fitted, length : dict
        The `token_length` of the fitted table, and that of the other.
    frame, name : DataFrame, str
        The other table, and what the error calls it.
    """
    if other := differ(fitted, length, unit_of(frame)):
        words, way = other
        problem = f"{name} has losses per token of another tokenizer than the fit ({words})"
        todo = (
            f"bring its losses to that of the fit by {way}" if REFERENCE in way else f"convert both tables by {way}, and fit again"
        )
        raise BayeslawError(f"{problem}: {todo}.", code="other-tokenizer")


def _conversion(column: str, unit: str, reference: str) -> str:
    """Return the command that makes losses comparable: a reference tokenizer is one whose bytes are known, not its characters."""
    to = f"{unit} {REFERENCE} {reference}" if column == RATIOS["byte"] else "nats/character"
    return f"`bayeslaw convert --to {to}` (in Python bayeslaw.core.units.convert_table)"


def _of_losses(law: Law) -> bool:
    """Whether a law is of losses, or of what depends on them."""
    return law.outcome.is_loss or LOSS in law.measured


def _column(frame: pd.DataFrame, covariates: Container[str]) -> str:
    """Return the column that says how long the tokens of losses per token are, '' where there is none or it makes no difference."""
    if LOSS not in frame or per(unit_of(frame)) != "token":
        return ""
    numbers = (c for c in RATIOS.values() if c in frame and c not in covariates and holds_numbers(frame[c]))
    return next((c for c in numbers if frame[c].notna().any() and (frame[c].dropna() > 0).all()), "")
