"""Schedules written as text, such as ``wsd:steps=24000,peak=3e-4,decay=0.2,final=0.1,warmup=2160``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, kind_of, nearest
from bayeslaw.core.files import own_path
from bayeslaw.data.curve_checks import logged_rates
from bayeslaw.data.table import read_table
from bayeslaw.schedules.schedule import MOST_STEPS, Schedule, constant, cosine, inverse_sqrt, joined, linear, logged, multistep, wsd

SHAPES: dict[str, Callable[..., Schedule]] = {
    "constant": constant, "linear": linear, "cosine": cosine, "wsd": wsd, "multistep": multistep, "inverse_sqrt": inverse_sqrt,
}  # fmt: skip
EXAMPLES = "wsd:steps=24000,peak=3e-4,decay=0.2,final=0.1,warmup=2160 or logged:curve.csv"
WHOLE, TEXTS, LISTS = ("steps", "warmup"), ("shape",), ("at",)
LOGGED = ("warmup", "run")  # arguments of logged schedules


def parse_schedule(text: str) -> Schedule:
    """Read a schedule from a text.

    Parameters
    ----------
    text : str
        ``NAME:KEY=VALUE,…`` with the arguments of `bayeslaw.schedules`' constant, linear, cosine, wsd, multistep (``at=0.8/0.9``)
        or inverse_sqrt; or ``logged:FILE.csv`` with columns step and lr (then ``,warmup=…`` for a warm-up before the first logged
        step, and ``,run=…`` where the file has several runs). Parts joined by ``+`` follow each other. A re-warm-up is the warm-up
        of an adaptation: from ``start``, or from 0. The error of a text that can't be read lists the names and arguments.

    Examples
    --------
    >>> schedule = bayeslaw.data.parse_schedule("constant:steps=10,peak=1e-3,warmup=2 + linear:steps=5,peak=1e-3")
    >>> len(schedule)
    15
    """
    phases = [_part(part) for part in phases_of(text)]
    return phases[0] if len(phases) == 1 else joined(*phases)


def logged_files(text: str) -> list[Path]:
    """Return the files that a schedule's text names."""
    parts = [part.partition(":") for part in phases_of(text)]
    return [own_path(rest.split(",")[0].strip()) for name, _, rest in parts if name.strip() == "logged" and rest.strip()]


def assumptions(text: str) -> list[str]:
    """Return a note for each logged schedule of a text whose log begins late: what rates are assumed before."""
    notes = []
    for part in phases_of(text):
        name, _, rest = part.partition(":")
        path, *others = rest.split(",")
        if name.strip() == "logged" and "warmup" not in (given := _pairs(name, others, LOGGED)):
            first = int(_rated(own_path(path.strip()), given)["step"].min())
            assumed = f"{part}: rates before step {first} are assumed to equal that step's; if they rose from 0, add warmup=STEPS"
            notes += [assumed] if first > 1 else []
    return notes


def phases_of(text: str) -> list[str]:
    """Return the texts of the phases that a text joins by ``+``, of which numbers such as 1e+4 and names of files have some too."""
    if not isinstance(text, str):
        raise BayeslawError(f"A schedule is a text such as {EXAMPLES}, not {kind_of(text)}.", code="not-a-text")
    return [part.strip() for part in re.split(r"\+(?=\s*\w+\s*:)", text)]


def _part(text: str) -> Schedule:
    name, sign, rest = (piece.strip() for piece in text.partition(":"))
    known = (*SHAPES, "logged")
    if name not in known:
        message = f"There is no schedule {name!r}; there are {', '.join(known)}.{nearest(name, known)}"
        raise BayeslawError(message, code="unknown-schedule")
    if not sign or not rest:
        raise BayeslawError(f"Schedule {text!r} has no arguments; write {EXAMPLES}.", code="schedule-without-arguments")
    if name == "logged":
        path, *others = rest.split(",")
        return _logged(own_path(path.strip()), _pairs(name, others, LOGGED))
    shape = SHAPES[name]
    arguments = inspect.signature(shape).parameters
    given = {key: _value(name, key, value) for key, value in _pairs(name, rest.split(","), tuple(arguments)).items()}
    if missing := [key for key, a in arguments.items() if a.default is a.empty and key not in given]:
        message = f"Schedule {name} needs {' and '.join(missing)}: it takes {', '.join(arguments)}."
        raise BayeslawError(message, code="missing-argument")
    return shape(**given)


def _pairs(name: str, texts: list[str], known: tuple[str, ...]) -> dict[str, str]:
    """Read the KEY=VALUE texts of a schedule; each key must be known and given once."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, sign, value = (piece.strip() for piece in text.partition("="))
        if not (key and sign and value):
            message = f"{text.strip()!r} of schedule {name} is not of the form KEY=VALUE; write {EXAMPLES}."
            raise BayeslawError(message, code="not-key-value")
        if key not in known:
            message = f"Schedule {name} takes no {key!r}; it takes {', '.join(known)}.{nearest(key, known)}"
            raise BayeslawError(message, code="unknown-argument")
        if key in pairs:
            raise BayeslawError(f"Schedule {name} gives {key} twice: {pairs[key]} and {value}.", code="argument-twice")
        pairs[key] = value
    return pairs


def _value(name: str, key: str, text: str) -> Any:
    if key in TEXTS:
        return text
    if key in LISTS:
        return [_number(name, key, part) for part in text.split("/")]
    number = _number(name, key, text)
    if key not in WHOLE:
        return number
    if number != round(number) or not 0 <= number <= MOST_STEPS:
        message = f"{key}={text} of schedule {name} must be a whole number of steps from 0 to {MOST_STEPS:,}."
        raise BayeslawError(message, code="not-a-whole-number")
    return int(number)


def _number(name: str, key: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        form = "numbers such as 0.8/0.9" if key in LISTS else "a number"
        share = ": write 0.2 for 20%" if text.endswith("%") else ""
        raise BayeslawError(f"{key}={text} of schedule {name} is not {form}{share}.", code="not-a-number")
    return number


def _logged(path: Path, given: dict[str, str]) -> Schedule:
    rated = _rated(path, given)
    warmup = _value("logged", "warmup", given["warmup"]) if "warmup" in given else 0
    return logged(rated["step"], rated["lr"], warmup=warmup, name=given.get("run", path.stem))


def _rated(path: Path, given: dict[str, str]) -> pd.DataFrame:
    """Read the rates of a file with columns step and lr, of one run."""
    table = read_table(path, "curves")
    frame = table.frame if "run" in table.frame else table.frame.assign(run="run")
    runs = [str(name) for name in frame["run"].dropna().unique()]
    if "run" in given:
        if given["run"] not in runs:
            raise BayeslawError(f"{table.name} has no run {given['run']!r}.{nearest(given['run'], runs)}", code="unknown-run")
        frame = frame[frame["run"] == given["run"]]
    elif len(runs) > 1:
        message = f"{table.name} has {len(runs)} runs: choose one, such as logged:{path},run={runs[0]}."
        raise BayeslawError(message, code="several-runs")
    return logged_rates(replace(table, frame=frame))
