"""Values of which a test knows that they are there."""

from __future__ import annotations


def present[T](value: T | None) -> T:
    """The value, which a type allows to be None and a test does not."""
    assert value is not None
    return value
