"""Convert losses between units: nats or bits per token, byte or character, and perplexity.

Tokenizers cut the same text into different numbers of tokens, so losses per token of two tokenizers can't be compared. A loss per
byte is the loss per token times tokens per byte, and means the same for any tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array, common_shape, holds_numbers, numbers, one_number
from bayeslaw.core.errors import BayeslawError, Fault, TableError, nearest

NATS = "nats/token"
PERPLEXITY = "perplexity"
UNITS = (NATS, "bits/token", "nats/byte", "bits/byte", "nats/character", "bits/character", PERPLEXITY)
_SHORT = {
    "nats": NATS, "nat/token": NATS, "bits": "bits/token", "bpb": "bits/byte", "bpc": "bits/character", "bit/byte": "bits/byte",
    "nats/char": "nats/character", "bits/char": "bits/character", "ppl": PERPLEXITY,
}  # fmt: skip
Ratios = ArrayLike | None
CONVERT = "`bayeslaw convert` (in Python bayeslaw.core.units.convert_table)"  # what errors advise
RATIOS = {"byte": "bytes_per_token", "character": "characters_per_token"}


def unit(text: str) -> str:
    """Return the name in `UNITS` of a unit: 'bits/byte' for 'bpb'. An unknown unit is refused."""
    name = str(text).strip().lower()
    name = _SHORT.get(name, name)
    if name not in UNITS:
        known = nearest(name, (*UNITS, *_SHORT))
        raise BayeslawError(f"There is no unit {text!r} of losses; there are {', '.join(UNITS)}.{known}", code="unknown-unit")
    return name


def in_nats(of: str) -> float:
    """Return how many nats the unit's nat or bit is: 1 or log 2."""
    return float(np.log(2)) if of.startswith("bits/") else 1.0


def per(of: str) -> str:
    """Return what a unit divides by: token, byte or character."""
    return "token" if of == PERPLEXITY else of.partition("/")[2]


def convert(
    loss: ArrayLike, to: str, *, frm: str = NATS, bytes_per_token: Ratios = None, characters_per_token: Ratios = None
) -> Array:
    """Return losses in another unit.

    Parameters
    ----------
    to, frm : str
        Two of `UNITS`.
    bytes_per_token, characters_per_token : array or number, optional
        Bytes (UTF-8) or characters of the validation text over its tokens, by the tokenizer of the losses; needed where one of
        the units is per byte or character. A ratio that is not positive is refused.
    """
    to, frm = unit(to), unit(frm)
    numbers("loss", loss, "2.5")
    values = np.asarray(loss, dtype=np.float64)
    if to == frm:
        return values.copy()
    given = {"byte": bytes_per_token, "character": characters_per_token}
    if frm == PERPLEXITY:
        if not (values[np.isfinite(values)] >= 1).all():
            raise BayeslawError("A perplexity is 1 or more.", code="perplexity-below-1")
        nats = np.log(values)
    else:
        nats = values * in_nats(frm)
    if per(frm) != per(to):
        ratios = {what: np.asarray(_ratio(what, given)) for what in (per(frm), per(to))}
        common_shape({"loss": values} | {RATIOS[what]: ratio for what, ratio in ratios.items() if what in RATIOS})
        nats = nats * ratios[per(frm)] / ratios[per(to)]
    return np.exp(nats) if to == PERPLEXITY else np.asarray(nats / in_nats(to))


def _ratio(what: str, given: dict[str, Ratios]) -> Array | float:
    """Return how many bytes or characters there are per token."""
    if what == "token":
        return 1.0
    value = given[what]
    if value is None:
        needed = f"give {RATIOS[what]}, those of the validation text over its tokens."
        raise BayeslawError(f"Losses per {what} and per token differ by {what}s per token: {needed}", code="missing-ratio")
    numbers(RATIOS[what], value, "4.2")
    ratio = np.asarray(value, dtype=np.float64)
    if not (np.isfinite(ratio) & (ratio > 0)).all():
        raise BayeslawError(f"{RATIOS[what]} must be positive and finite everywhere.", code="not-positive")
    return ratio


def unit_of(frame: pd.DataFrame, name: str = "the table") -> str:
    """Return the unit of a table's losses by its column `unit`; nats/token without the column. Several units are refused.

    Rows without a loss, such as those of a curve that have a learning rate alone, need no unit.
    """
    if "unit" not in frame:
        return NATS
    texts = frame["unit"].map(lambda text: text.strip() if isinstance(text, str) else "")
    if (named := texts[texts != ""]).empty:
        return NATS
    of = unit(named.iloc[0])
    needed = frame["loss"].notna() if "loss" in frame else True
    faults = []
    for row, text in texts[(texts != "") | needed].drop_duplicates().items():
        if not text or unit(text) != of:
            problem = (
                f"its losses are in {text}, those before in {of}" if text else f"unit is missing, and other losses are in {of}"
            )
            suggestion = f"split the table by unit and convert all to one with {CONVERT}"
            if text and {unit(text), of} == {NATS, PERPLEXITY}:
                rows = f"df['unit'] == {text if of == NATS else next(filter(None, texts))!r}"
                suggestion = f"in pandas: df.loc[{rows}, 'loss'] = np.log(df['loss']), then df['unit'] = '{NATS}'"
            faults.append(Fault(int(str(row)), "unit", text, problem, suggestion, "mixed-units" if text else "missing-unit"))
    if faults:
        raise TableError(faults, name)
    return of


def check_unit(of: str, frame: pd.DataFrame, name: str, what: str = "fit is to losses", column: str = "loss") -> None:
    """Refuse losses in another unit than those that were fitted.

    Parameters
    ----------
    of, frame, name, what : str, DataFrame, str, str
        The unit of the fit, the table, and what the error calls the table and the losses in `of`.
    column : str
        The column of losses; tables without it are not refused.
    """
    if column in frame and (other := unit_of(frame, name)) != of:
        message = f"{name} has losses in {other}, and the {what} in {of}: convert them with {CONVERT}."
        raise BayeslawError(message, code="another-unit")


def convert_table(
    frame: pd.DataFrame,
    to: str,
    *,
    bytes_per_token: float | str | None = None,
    characters_per_token: float | str | None = None,
    reference: float | None = None,
    name: str = "the table",
) -> pd.DataFrame:
    """Return a table of runs with its losses, their standard errors and base losses in another unit; its column `unit` names it.

    Parameters
    ----------
    frame : DataFrame
        With `loss`, optionally `loss_se` and `base_loss`, and `unit` where the losses are not in nats/token.
    bytes_per_token, characters_per_token : float or str, optional
        One ratio for all rows, or the column that has each row's. Columns of these names are used unless given.
    reference : float, optional
        Bytes per token of a reference tokenizer: losses are given per its tokens, whatever each row's tokenizer. Laws with priors
        in nats/token need it for tables with several tokenizers.
    name : str
        What errors call the table.
    """
    if not isinstance(frame, pd.DataFrame):
        raise BayeslawError(f"Losses are converted in a DataFrame, not in the type {type(frame).__name__}.", code="not-a-table")
    if "loss" not in frame:
        raise BayeslawError(f"{name} has no column loss to convert.", code="no-loss")
    index = frame.index
    if index.name != "row":  # rows are counted from 1 in errors, as `read_runs` counts them
        frame = frame.set_axis(pd.RangeIndex(1, len(frame) + 1, name="row"))
    for column in (c for c in ("loss", "loss_se", "base_loss") if c in frame):
        try:
            frame = frame.assign(**{column: frame[column].to_numpy(dtype=np.float64)})
        except (TypeError, ValueError):
            raise BayeslawError(f"{name}: column {column!r} has cells that are no numbers.", code="not-numbers") from None
    frm, to = unit_of(frame, name), unit(to)
    given = {"bytes_per_token": bytes_per_token, "characters_per_token": characters_per_token}
    needed = {RATIOS[what] for what in (per(frm), per(to)) if what in RATIOS and per(frm) != per(to)}
    if reference is not None:
        one_number("reference", reference, "4.2")
        if per(to) != "token" or not reference > 0:
            message = f"A reference is the bytes per token of a tokenizer, for losses per token; not {reference:g} for {to}."
            raise BayeslawError(message, code="wrong-reference")
        needed |= {"bytes_per_token"}
    ratios = {column: _column(frame, column, value, name) for column, value in given.items() if column in needed}
    loss = frame["loss"].to_numpy()
    steps: list[tuple[str, str, Mapping[str, Array | None]]] = [(frm, to, ratios)]
    if reference is not None:  # first to nats per byte by each row's own ratio, then per token of the reference
        of_reference: dict[str, Array | None] = {"bytes_per_token": np.full(len(frame), float(reference))}
        steps = [(frm, "nats/byte", ratios), ("nats/byte", to, of_reference)]
        own, characters = ratios["bytes_per_token"], _column(frame, "characters_per_token", characters_per_token, name)
        if characters is not None:
            if own is None:
                problem = (
                    "has characters_per_token of each row's own tokenizer, and no bytes_per_token to bring them to the reference"
                )
                raise BayeslawError(f"{name} {problem}: give these, or drop the column.", code="missing-ratio")
            of_reference |= {"characters_per_token": characters * reference / own}
        ratios = ratios | of_reference
    slope = np.ones(len(frame))
    base = frame["base_loss"].to_numpy() if "base_loss" in frame else None
    for before, after, by in steps:
        new = convert(loss, after, frm=before, **by)
        slope = slope * _slope(loss, new, before, after, by)
        loss, base = new, None if base is None else convert(base, after, frm=before, **by)
    table = frame.assign(loss=loss, unit=to, **{column: values for column, values in ratios.items() if values is not None})
    table = (table if base is None else table.assign(base_loss=base)).set_axis(index)
    return table.assign(loss_se=frame["loss_se"].to_numpy() * slope) if "loss_se" in frame else table


def _slope(loss: Array, new: Array, before: str, after: str, by: Mapping[str, Array | None]) -> Array:
    """Return the derivative of the loss in the new unit by the loss in the old one."""
    linear = convert(np.ones_like(loss), after.replace(PERPLEXITY, NATS), frm=before.replace(PERPLEXITY, NATS), **by)
    return np.asarray(linear * (new if after == PERPLEXITY else 1.0) / (loss if before == PERPLEXITY else 1.0))


def _column(frame: pd.DataFrame, column: str, value: float | str | None, name: str) -> Array | None:
    """Return the ratio of each row, or None where there is none."""
    if value is None and column not in frame:
        return None
    value = column if value is None else value
    if isinstance(value, str) and value in frame:
        cells = frame[value]
        if not holds_numbers(cells):
            raise BayeslawError(f"{name}: column {value!r} holds no numbers.", code="not-numbers")
        values = cells.to_numpy(dtype=np.float64)
        if (bad := np.flatnonzero(~(np.isfinite(values) & (values > 0)))).size:
            shown = [(int(row), f"{cells[row]:g}") for row in frame.index[bad]]
            faults = [Fault(r, value, v, f"{value} {v} is not positive", f"give {column}", "not-positive") for r, v in shown]
            raise TableError(faults, name)
        return values
    try:
        values = np.full(len(frame), float(value))
    except (ValueError, TypeError):
        message = f"{column} is a number or a column of {name}; {value!r} is neither.{nearest(str(value), map(str, frame))}"
        raise BayeslawError(message, code="unknown-column") from None
    if column in frame and not np.array_equal(pd.to_numeric(frame[column], errors="coerce"), values):
        message = f"{name} has a column {column} with other values than {value}: leave {value} out, or drop the column."
        raise BayeslawError(message, code="another-ratio")
    return values
