"""Units of losses: per token, byte or character, in nats or bits, and perplexity; what one is in another.

Tokenizers cut the same text into different numbers of tokens, so nats/token of two of them can't be compared. A loss per byte is
the loss per token times tokens per byte, and means the same for any tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, Fault, TableError, nearest

NATS = "nats/token"
PERPLEXITY = "perplexity"
UNITS = (NATS, "bits/token", "nats/byte", "bits/byte", "nats/character", "bits/character", PERPLEXITY)
_SHORT = {
    "nats": NATS, "nat/token": NATS, "bits": "bits/token", "bpb": "bits/byte", "bpc": "bits/character", "bit/byte": "bits/byte",
    "nats/char": "nats/character", "bits/char": "bits/character", "ppl": PERPLEXITY,
}  # fmt: skip
RATIOS = {"byte": "bytes_per_token", "character": "characters_per_token"}


def unit(text: str) -> str:
    """A unit as it is called here, 'bpb' for example is 'bits/byte'.

    Raises
    ------
    BayeslawError
        If it is none of `UNITS`.
    """
    name = str(text).strip().lower()
    name = _SHORT.get(name, name)
    if name not in UNITS:
        raise BayeslawError(f"There is no unit {text!r} of losses; there are {', '.join(UNITS)}.{nearest(name, (*UNITS, *_SHORT))}")
    return name


def in_nats(of: str) -> float:
    """What one of a unit is in nats, whatever it is per."""
    return float(np.log(2)) if of.startswith("bits/") else 1.0


def per(of: str) -> str:
    """What a unit is per: token, byte or character."""
    return "token" if of == PERPLEXITY else of.partition("/")[2]


def convert(
    loss: ArrayLike,
    to: str,
    *,
    frm: str = NATS,
    bytes_per_token: ArrayLike | None = None,
    characters_per_token: ArrayLike | None = None,
) -> Array:
    """Losses in another unit.

    Parameters
    ----------
    loss : array
    to, frm : str
        Two of `UNITS`.
    bytes_per_token, characters_per_token : array or number, optional
        Bytes (UTF-8) or characters of the validation text over its tokens, by the tokenizer of the losses; needed from or to
        such a unit.

    Raises
    ------
    BayeslawError
        If a ratio is missing or not positive.
    """
    to, frm = unit(to), unit(frm)
    values = np.asarray(loss, dtype=np.float64)
    if to == frm:
        return values.copy()
    given = {"byte": bytes_per_token, "character": characters_per_token}
    if frm == PERPLEXITY:
        if not (values[np.isfinite(values)] >= 1).all():
            raise BayeslawError("A perplexity is 1 or more.")
        nats = np.log(values)
    else:
        nats = values * in_nats(frm)
    if per(frm) != per(to):
        nats = nats * _ratio(per(frm), given) / _ratio(per(to), given)
    return np.exp(nats) if to == PERPLEXITY else np.asarray(nats / in_nats(to))


def _ratio(what: str, given: dict[str, ArrayLike | None]) -> Array | float:
    """How many of something there are per token."""
    if what == "token":
        return 1.0
    value = given[what]
    if value is None:
        raise BayeslawError(
            f"Losses per {what} and per token differ by {what}s per token: give {RATIOS[what]}, those of the validation text over "
            "its tokens."
        )
    ratio = np.asarray(value, dtype=np.float64)
    if not (np.isfinite(ratio) & (ratio > 0)).all():
        raise BayeslawError(f"{RATIOS[what]} must be positive and finite everywhere.")
    return ratio


def unit_of(frame: pd.DataFrame, name: str = "the table") -> str:
    """The unit of a table's losses, by its column `unit`; nats/token without one.

    Raises
    ------
    TableError
        With the first row of another unit, and rows without one.
    """
    if "unit" not in frame or not len(frame):
        return NATS
    texts = frame["unit"]
    first = next((t for t in texts if isinstance(t, str)), NATS)
    of = unit(first)
    faults = list(_other_units(texts, of))
    if faults:
        raise TableError(faults, name)
    return of


def _other_units(texts: pd.Series, of: str) -> Iterable[Fault]:
    suggestion = "bring all to one by `bayeslaw convert`, from a table for each unit"
    told = set[str]()
    for row, text in texts.items():
        shown = str(text).strip() if isinstance(text, str) else ""
        if (shown and unit(shown) == of) or shown in told:
            continue
        told.add(shown)
        problem = f"its losses are in {shown}, those before in {of}" if shown else f"unit is missing, and other losses are in {of}"
        yield Fault(int(str(row)), "unit", shown, problem, suggestion)


def agree(of: str, frame: pd.DataFrame, name: str) -> None:
    """Refuse losses that are in another unit than those that were fitted."""
    if "loss" in frame and (other := unit_of(frame, name)) != of:
        raise BayeslawError(
            f"{name} has losses in {other}, and the fit is to losses in {of}: `bayeslaw convert` brings them to it."
        )


def converted(
    frame: pd.DataFrame,
    to: str,
    *,
    bytes_per_token: float | str | None = None,
    characters_per_token: float | str | None = None,
    reference: float | None = None,
    name: str = "the table",
) -> pd.DataFrame:
    """A table of runs with its losses in another unit, which its column `unit` names.

    Parameters
    ----------
    frame : DataFrame
        With `loss`, optionally `loss_se`, and `unit` where the losses are not in nats/token.
    to : str
    bytes_per_token, characters_per_token : float or str, optional
        One ratio for all rows, or the column that has each row's. Columns of these names are used unless given.
    reference : float, optional
        Bytes per token of one tokenizer whose tokens losses per token are to be counted in, whatever each row's own: what laws
        with priors in nats/token want of tables with several tokenizers.

    Raises
    ------
    BayeslawError, TableError
        If there is no loss, no ratio, or one that is missing in a row or not positive.
    """
    if "loss" not in frame:
        raise BayeslawError(f"{name} has no column loss to convert.")
    frm, to = unit_of(frame, name), unit(to)
    given = {"bytes_per_token": bytes_per_token, "characters_per_token": characters_per_token}
    needed = {RATIOS[what] for what in (per(frm), per(to)) if what in RATIOS and per(frm) != per(to)}
    if reference is not None:
        if per(to) != "token" or not (np.isfinite(reference) and reference > 0):
            raise BayeslawError(
                f"A reference is the bytes per token of a tokenizer, for losses per token; not {reference:g} for {to}."
            )
        needed |= {"bytes_per_token"}
    ratios = {column: _column(frame, column, value, name) for column, value in given.items() if column in needed}
    loss = frame["loss"].to_numpy(dtype=np.float64)
    steps: list[tuple[str, str, Mapping[str, Array | None]]] = [(frm, to, ratios)]
    if reference is not None:  # per byte by each row's own tokens, then per token of the one
        one: dict[str, Array | None] = {"bytes_per_token": np.full(len(frame), float(reference))}
        steps = [(frm, "nats/byte", ratios), ("nats/byte", to, one)]
        own, characters = ratios["bytes_per_token"], _column(frame, "characters_per_token", characters_per_token, name)
        if own is not None and characters is not None:  # of the reference's tokens, as its bytes are
            one |= {"characters_per_token": characters * reference / own}
        ratios = ratios | one
    made, slope = loss, np.ones(len(frame))
    for before, after, by in steps:
        new = convert(made, after, frm=before, **by)
        slope = slope * _slope(made, new, before, after, by)
        made = new
    out = frame.assign(loss=made, unit=to, **{column: values for column, values in ratios.items() if values is not None})
    return out.assign(loss_se=frame["loss_se"].to_numpy(dtype=np.float64) * slope) if "loss_se" in frame else out


def _slope(loss: Array, made: Array, before: str, after: str, by: Mapping[str, Array | None]) -> Array:
    """By how much a loss in one unit changes with the same loss in another."""
    linear = convert(np.ones_like(loss), after.replace(PERPLEXITY, NATS), frm=before.replace(PERPLEXITY, NATS), **by)
    return np.asarray(linear * (made if after == PERPLEXITY else 1.0) / (loss if before == PERPLEXITY else 1.0))


def _column(frame: pd.DataFrame, column: str, value: float | str | None, name: str) -> Array | None:
    """A ratio for each row."""
    if value is None:
        value = column if column in frame else None
    if value is None:
        return None
    if isinstance(value, str) and value in frame:
        cells = frame[value]
        if cells.dtype.kind not in "fiu":
            raise BayeslawError(f"{name}: column {value!r} holds no numbers.")
        values = cells.to_numpy(dtype=np.float64)
        if (bad := np.flatnonzero(~(np.isfinite(values) & (values > 0)))).size:
            rows = frame.index[bad]
            told = [(int(row), f"{cells[row]:g}") for row in rows]
            raise TableError((Fault(r, value, v, f"{value} {v} is not positive", f"give {column}") for r, v in told), name)
        return values
    try:
        return np.full(len(frame), float(value))
    except ValueError:
        raise BayeslawError(
            f"{column} is a number or a column of {name}; {value!r} is neither.{nearest(str(value), map(str, frame))}"
        ) from None
