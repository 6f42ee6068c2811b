"""TOML from strangers: every way in which a text can fail to be TOML is one error of ours."""

from __future__ import annotations

import tomllib
from typing import Any

from bayeslaw.core.errors import BayeslawError

MOST_BITS = 10_000  # of a whole number: Python can't write larger ones into an error


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Return the contents of a TOML text.

    Parameters
    ----------
    text, origin : str
        The text, and what errors call it.

    Raises
    ------
    BayeslawError
        If it is not TOML, is nested too deeply, or has a number of thousands of digits.
    """
    try:
        contents = tomllib.loads(text)
        _check_sizes(contents)
    except tomllib.TOMLDecodeError as error:
        raise BayeslawError(f"{origin} is not a TOML file: {error}.", code="not-toml") from None
    except (ValueError, OverflowError):  # of int(), whose text speaks of Python's settings
        raise BayeslawError(f"{origin}: a number in it is too large.", code="huge-number") from None
    except RecursionError:
        raise BayeslawError(f"{origin} is not a TOML file: it is nested too deeply.", code="nested-too-deeply") from None
    return contents


def _check_sizes(contents: dict[str, Any]) -> None:
    waiting: list[Any] = [contents]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (dict, list)):
            waiting.extend(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, int) and value.bit_length() > MOST_BITS:
            raise OverflowError
