"""A table that an object shares with nobody: to change the one that it was given, or gave, does not change the object."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

COPIES_LAZILY = int(pd.__version__.partition(".")[0]) >= 3
"""Whether pandas copies the cells of a shallow copy only when one of the two tables is changed."""


def owns[C: type](field: str) -> Callable[[C], C]:
    """Return a decorator of a dataclass: its objects keep a copy of the DataFrame in a field, and give copies of that.

    Copies take some 10 microseconds, since they share memory until one of them is changed; pandas before 3 copies every cell.
    """

    def decorate(of: C) -> C:
        setattr(of, field, _Field(field))
        return of

    return decorate


class _Field:
    """The attribute of a class that stands for the field of each of its objects."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type | None = None) -> pd.DataFrame | _Field:
        return self if instance is None else copied(vars(instance)[self._name])

    def __set__(self, instance: object, frame: pd.DataFrame) -> None:
        vars(instance)[self._name] = copied(frame)


def copied(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a copy of a table; whatever else was given stays as it is, for the dataclass to refuse."""
    return frame.copy(deep=not COPIES_LAZILY) if isinstance(frame, pd.DataFrame) else frame
