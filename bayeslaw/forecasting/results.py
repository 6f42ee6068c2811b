"""Columns that tables of forecasts have beside those of their settings, and settings without those of an earlier forecast."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable

import pandas as pd

VERDICTS = ("headline", "as", "extrapolation", "checks", "model")
_ENDS = r"_(median|eti[\d.e-]+_[lu]b)"
_SPREADS = re.compile(rf"(latent|run|extrapolated|discrepancy[\d.e-]+%?){_ENDS}")
_BESIDE = re.compile(rf"outside_.+|.+{_ENDS}")  # also of what the first fit of a chain forecasts


def result_column(settings: Collection[Hashable], name: str) -> str:
    """Return the name of a result in a table with the columns of settings, which keep their own `model`, say.

    Examples
    --------
    >>> result_column(["N", "D"], "model"), result_column(["N", "D", "model"], "model")
    ('model', 'forecast_model')
    """
    return f"forecast_{name}" if name in settings else name


def earlier_results(frame: pd.DataFrame) -> list[str]:
    """Return the columns of settings that are results of an earlier forecast, whose table was given as settings."""
    columns = [str(c) for c in frame]
    if not {"latent_median", "extrapolation", "checks"} <= {*columns}:  # not a whole table: `model` and others are the user's
        return [c for c in columns if _SPREADS.fullmatch(c)]
    kept = {c for c in columns if f"forecast_{c}" in columns}
    verdicts = {result_column(kept, name) for name in VERDICTS}
    return [c for c in columns if c in verdicts or _BESIDE.fullmatch(c)]
