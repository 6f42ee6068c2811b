"""Asserting errors by their code and the values they name, not by their wording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bayeslaw.core.errors import BayeslawError, Fault, TableError


def codes_of(error: BaseException | None) -> set[str]:
    """The code of an error and those of its faults."""
    return {getattr(error, "code", ""), *(fault.code for fault in getattr(error, "faults", []))}


@contextmanager
def fails(code: str, *named: object, kind: type[BayeslawError] = BayeslawError) -> Iterator[None]:
    """The block raises an error of this kind, it or one of its faults has this code, and the message names these values."""
    with pytest.raises(kind) as caught:
        yield
    assert code in codes_of(caught.value), caught.value
    for value in named:
        assert str(value) in str(caught.value)


@contextmanager
def faults(*expected: tuple[str, int | None, str]) -> Iterator[list[Fault]]:
    """The block raises a TableError with exactly these faults (code, row, column), in any order, and puts them into the list."""
    found: list[Fault] = []
    with pytest.raises(TableError) as caught:
        yield found
    found += caught.value.faults
    assert sorted((f.code, f.row or 0, f.column) for f in found) == sorted((c, r or 0, n) for c, r, n in expected)
