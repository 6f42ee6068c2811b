"""Lines that a training program prints: `step 500: train loss 3.1, val loss 3.2`, and others that name a step and quantities."""

from __future__ import annotations

import csv
import re
from collections import Counter
from functools import lru_cache

import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.text import counted, listed
from bayeslaw.data.columns import key, resolve
from bayeslaw.data.logs.log import Log, domain_of
from bayeslaw.data.logs.text import DELIMITERS

_NAME = r"(?:[a-z][\w/.()-]*[ ]+){0,2}[a-z][\w/.()-]*"
_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?(?:nan|inf)"
_STEP = re.compile(  # step 500, iteration 200/ 1000, step:125/5100, s:250
    r"(?<![\w/.-])(?P<word>global[_ ]step|steps?|iteration|iter|update|s(?=:))\s*[:=]?\s*(?P<step>\d{1,3}(?:,\d{3})+|\d+)(?![\w.])"
    r"(?:\s*/\s*[\d,]+)?",
    re.IGNORECASE,
)
_PAIR = re.compile(  # val loss 3.2, lr: 3e-4, tokens_seen=1.2B; 12ms and 3.4GB have units and are none
    rf"(?P<name>{_NAME})(?:'?\s*[:=]\s*|\s+)(?P<value>(?:{_NUMBER})(?:[ ]?[kMBT])?)(?![\w.%/])",
    re.IGNORECASE,
)
_BY_STEP = re.compile(rf"^(?P<step>\d+) (?P<name>train|val) (?P<value>{_NUMBER})$")  # 250 val 5.9
_OF_VALIDATION = re.compile(r"(?<![a-z/._-])(?:validat(?:ion|e)|eval(?:uation)?|val)(?![a-z/.-])", re.IGNORECASE)
_OF_TEST = re.compile(r"\bon test set\b", re.IGNORECASE)
_LOSS = re.compile(r"^(?:lm )?loss(?: value)?$", re.IGNORECASE)
_SHORT = {"tel": "val loss", "trl": "train loss"}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
Entry = tuple[dict[str, str], dict[str, str]]  # the steps of a line by their word, and its quantities by their names
_ORDER = ("step", "steps", "global_step", "iteration", "iter", "update", "s")


def is_printed(text: str) -> bool:
    """Whether a text has lines that name losses beside their numbers, and is no table."""
    lines = [line for line in _lines(text) if line.strip()]
    if (
        lines
        and not lines[0].startswith("{")
        and not _entry(lines[0])
        and any(_rows_alike(lines[:20], mark) for mark in DELIMITERS)
    ):
        return False
    return any(_entry(line) or any(map(_is_validation, _pairs(line))) for line in lines)


def _rows_alike(lines: list[str], mark: str) -> bool:
    """Whether all lines have as many cells, two at least."""
    try:
        counts = {len(row) for row in csv.reader(lines, delimiter=mark)}
    except csv.Error:  # a cell that is longer than any
        return False
    return len(counts) == 1 and 1 not in counts


def read_printed(text: str, name: str, run: str) -> Log:
    """Read the lines that name a step and a loss or another quantity that we know.

    Parameters
    ----------
    text, name, run : str
        What the program printed, the file's name in messages, and that of its run.
    """
    rows, without = dict[int, Entry](), list[int]()
    for number, line in enumerate(_lines(text), 1):
        if entry := _entry(line):
            rows[number] = entry
        elif not _steps(line) and any(map(_is_validation, _pairs(line))):
            without.append(number)
    word = _count(list(rows.values()), without, name)
    kept = {number: {word: steps[word]} | pairs for number, (steps, pairs) in rows.items() if word in steps}
    notes = [f"{name}: the lines that name a step ({word}) and a loss or rate are read"]
    if others := {w for steps, _ in rows.values() if word not in steps for w in steps}:
        left = counted(len(rows) - len(kept), "line")
        notes.append(f"{name}: {left} with another count ({listed(sorted(others))}) left out, which may be no step")
    if without:
        notes.append(f"{name}: {counted(len(without), 'validation loss')} in lines without a step left out")
    columns = list(dict.fromkeys(c for row in kept.values() for c in row))
    frame = pd.DataFrame({c: pd.Series([row.get(c) for row in kept.values()], dtype=object) for c in columns})
    frame.index = pd.Index(list(kept), name="row")
    return Log(name, "text", frame, run, step=word, bare_loss=False, notes=tuple(notes))


def _count(entries: list[Entry], without: list[int], name: str) -> str:
    """Return the word of the count that evaluations are logged by; `without` are lines of validation losses without a step."""
    evaluations = [steps for steps, pairs in entries if any(map(_is_validation, pairs))]
    if without and not evaluations:
        raise BayeslawError(
            f"{name}: its validation losses stand in lines that name no step (such as line {without[0]}), so which step they are "
            "of is not known. Import a log in which each does, such as the log file, table or trainer_state.json that the program "
            "writes.",
            code="losses-without-steps",
        )
    counts = Counter(word for steps in evaluations or [steps for steps, _ in entries] for word in steps)
    if not counts:
        message = f"{name} has no line with a step and a loss, such as 'step 500: train loss 3.1, val loss 3.2'."
        raise BayeslawError(message, code="no-rows")
    return min(counts, key=lambda word: (-counts[word], _ORDER.index(word)))


def _lines(text: str) -> list[str]:
    """Return the lines of a text, each state of a progress bar as one, without colours."""
    return re.split(r"\r\n|\r|\n", _COLOURS.sub("", text))


def _entry(line: str) -> Entry | None:
    """Return the steps of a line by their word and its quantities; None if it lacks one of these."""
    if match := _BY_STEP.match(line.strip()):
        return {"step": match["step"]}, {f"{match['name']} loss": match["value"]}
    if not (steps := _steps(line)):
        return None
    return (steps, pairs) if any(map(_is_known, pairs := _pairs(line))) else None


def _steps(line: str) -> dict[str, str]:
    return {key(match["word"]): match["step"] for match in reversed([*_STEP.finditer(line)])}


def _pairs(line: str) -> dict[str, str]:
    """Return the quantities of a line; a loss without a split is of validation if the line begins with that word."""
    first = _STEP.search(line)
    begins = line[: first.start()] if first else ""
    split = "test " if _OF_TEST.search(line) else "val " if _OF_VALIDATION.search(begins) else ""
    pairs = dict[str, str]()
    for match in _PAIR.finditer(_STEP.sub(lambda m: "|" * len(m[0]), line)):
        name = _SHORT.get(match["name"].lower(), re.sub(r"\s+", " ", match["name"]))
        pairs.setdefault(f"{split}loss" if split and _LOSS.match(name) else name, match["value"])
    return pairs


@lru_cache(1000)
def _is_known(name: str) -> bool:
    """Whether a quantity is a loss of any kind or a covariate, by its name."""
    return "loss" in key(name) or _is_validation(name) or resolve(name, "logs") is not None


@lru_cache(1000)
def _is_validation(name: str) -> bool:
    return domain_of(name) is not None or bool(_OF_VALIDATION.search(name) and re.search("bpb|perplexity|ppl", key(name)))
