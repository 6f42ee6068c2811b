"""Lines that a training program prints: `step 500: train loss 3.1, val loss 3.2`, and others that name a step and quantities.

Some programs print a block: a line with the step, such as `[step=500/9000,epoch=1]`, and below it one quantity a line, indented.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.text import counted, listed
from bayeslaw.data.columns import key, resolve
from bayeslaw.data.logs.log import Log, domain_of
from bayeslaw.data.logs.text import DELIMITERS

_NAME = r"(?:[a-z][\w/.()-]*[ ]+){0,2}[a-z][\w/.()-]*"
# A decimal comma is a part of its number, so that 3,21 is refused, or read as a mapping file says, and not taken for 3.
_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+,\d+|\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?(?:nan|inf)"
_STEP = re.compile(  # step 500, iteration 200/ 1000, step:125/5100, s:250
    r"(?<![\w/.-])(?P<word>global[_ ]step|steps?|iteration|iter|update|s(?=:))\s*[:=]?\s*"
    r"(?P<step>\d{1,3}(?:,\d{3})+|\d+)(?:\.0+)?(?![\w.])"
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
_LOSS = re.compile(r"^(?:lm[ _])?loss(?: value)?$", re.IGNORECASE)
# Of blocks: the line with the step, [step=500/9000,epoch=1], [batch=500/9000] or [epoch=2][batch=50/900], where batches are those
# of an epoch; one quantity, indented; the head of an evaluation.
_HEAD = re.compile(r"(?:\[epoch=(?P<epoch>\d+)\])?\[(?P<word>step|batch)=(?P<step>\d+)(?:/(?P<of>\d+)|/[^,\]]*)?[,\]]")
_QUANTITY = re.compile(rf"^\s+(?:(?:Train|Eval) )?(?P<name>[^\s=:][^=:]*)[=:]\s*(?P<value>{_NUMBER})\s*$", re.IGNORECASE)
_OF_EVALUATION = re.compile(r"\bevals?\b|\bevaluation\b", re.IGNORECASE)
_EVALUATING = re.compile(r"\[eval=")  # [eval=lm,step=5/20] counts the batches of an evaluation
_BAR = re.compile(r"\d%\||=\s*\d")  # in a line that is no header of a table
_SPLITS = {"train": ("train", "training"), "val": ("val", "valid", "validation", "eval")}
_SHORT = {"tel": "val loss", "trl": "train loss"}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
Entry = tuple[dict[str, str], dict[str, str]]  # the steps of a line by their word, and its quantities by their names
_ORDER = ("step", "steps", "global_step", "iteration", "iter", "update", "s", "batch")


def is_printed(text: str) -> bool:
    """Whether a text has lines that name losses beside their numbers, and is no table."""
    lines = [line for line in _lines(text) if line.strip()]
    if (
        lines
        and not lines[0].startswith("{")
        and not _entry(lines[0])
        and not _BAR.search(lines[0])
        and any(_rows_alike(lines[:20], mark) for mark in DELIMITERS)
    ):
        return False
    return any(True for _, steps, pairs in _entries(lines) if steps or any(map(_is_validation, pairs)))


def _rows_alike(lines: list[str], mark: str) -> bool:
    """Whether all lines have as many cells, two at least."""
    try:
        counts = {len(row) for row in csv.reader(lines, delimiter=mark)}
    except csv.Error:  # a cell that is longer than any
        return False
    return len(counts) == 1 and 1 not in counts


def read_printed(text: str, name: str, run: str, eval_interval: float | None) -> Log:
    """Read the lines that name a step and a loss or another quantity that we know.

    Parameters
    ----------
    text, name, run : str
        What the program printed, the file's name in messages, and that of its run.
    eval_interval : float, optional
        Steps between evaluations, by which those are placed that name no step.
    """
    rows, without = dict[int, Entry](), dict[int, dict[str, str]]()
    for number, steps, pairs in _entries(_lines(text)):
        if steps:
            rows[number] = steps, pairs
        elif any(map(_is_validation, pairs)):
            without[number] = pairs
    notes = list[str]()
    by_interval = bool(without) and not any(any(map(_is_validation, pairs)) for _, pairs in rows.values())
    word = _count(list(rows.values()), list(without) if by_interval else [], eval_interval, name)
    kept = {number: {word: steps[word]} | pairs for number, (steps, pairs) in rows.items() if word in steps}
    if by_interval and eval_interval is not None:
        kept = _placed(kept, without, word, eval_interval, name)
        notes.append(f"{name}: evaluations name no step; each is of the next multiple of {eval_interval:g} steps ({word})")
    else:
        notes.append(f"{name}: the lines that name a step ({word}) and a loss or rate are read")
        if eval_interval is not None:
            notes.append(f"{name}: eval_interval is not used, since evaluations name their steps")
    notes += _of_other_counts(list(rows.values()), word, name)
    if repeats := _without_carried(list(kept.values())):
        notes.append(
            f"{name}: {counted(repeats, 'line')} that repeat the validation loss of the line before left out: such programs go on "
            "printing the last one, so a loss is of an evaluation at or shortly before the step that it is read at"
        )
    if without and not by_interval:
        notes.append(f"{name}: {counted(len(without), 'validation loss')} in lines without a step left out")
    columns = list(dict.fromkeys(c for row in kept.values() for c in row))
    frame = pd.DataFrame({c: pd.Series([row.get(c) for row in kept.values()], dtype=object) for c in columns})
    frame.index = pd.Index(list(kept), name="row")
    return Log(name, "text", frame, run, step=word, bare_loss=False, notes=tuple(notes))


def _of_other_counts(entries: list[Entry], word: str, name: str) -> list[str]:
    """Note lines that are left out since they count something else, and what is counted beside the steps."""
    notes, left = list[str](), [steps for steps, _ in entries if word not in steps]
    if left:
        words = listed(sorted({other for steps in left for other in steps}))
        notes.append(f"{name}: {counted(len(left), 'line')} with another count ({words}) left out, which may be no step")
    two = ((steps, other) for steps, _ in entries for other in steps if word in steps and steps[other] != steps[word])
    if differs := next(two, None):
        both = f"{word} {differs[0][word]} is {differs[1]} {differs[0][differs[1]]}"
        notes.append(f"{name}: {both}; steps are the first, so tokens_per_step is of one {word}")
    return notes


def _count(entries: list[Entry], without: list[int], interval: float | None, name: str) -> str:
    """Return the word of the count that evaluations are logged by; `without` are lines of validation losses if none has a step."""
    evaluations = [steps for steps, pairs in entries if any(map(_is_validation, pairs))]
    if without and (interval is None or not entries):
        state = (
            "Give the steps between evaluations, --set eval_interval=500 (eval_interval=500), or import" if entries else "Import"
        )
        raise BayeslawError(
            f"{name}: its validation losses stand in lines that name no step (such as line {without[0]}), so which step they are "
            f"of is not known. {state} a log in which each does, such as the log file, table or trainer_state.json that the "
            "program writes.",
            code="losses-without-steps",
        )
    counts = Counter(word for steps in evaluations or [steps for steps, _ in entries] for word in steps)
    if not counts:
        message = f"{name} has no line with a step and a loss, such as 'step 500: train loss 3.1, val loss 3.2'."
        raise BayeslawError(message, code="no-rows")
    return min(counts, key=lambda word: (-counts[word], _ORDER.index(word)))


def _placed(
    kept: dict[int, dict[str, str]], without: dict[int, dict[str, str]], word: str, interval: float, name: str
) -> dict[int, dict[str, str]]:
    """Add evaluations at the multiple of the interval that is next to the step printed before them.

    A program prints its evaluation after the step's own line, or some steps before that, when it prints steps together.
    """
    if interval < 1 or interval % 1:
        raise BayeslawError(f"eval_interval is {interval:g}; it must be a whole number of steps from 1.", code="not-a-whole-number")
    steps, before = dict[int, str](), 0
    for number in sorted({*kept, *without}):
        if number in kept:
            before = int(kept[number][word].replace(",", ""))
            continue
        at = math.ceil(before / interval) * int(interval)
        if number > max(kept) and 4 * (at - before) > interval:
            at = before  # the evaluation at the end of training
        if 4 * (at - before) > interval:
            raise BayeslawError(
                f"{name}: the evaluation in line {number} is printed after {word} {before}, and the next multiple of eval_interval "
                f"({interval:g}) is {at}: give the interval at which the run was evaluated.",
                code="not-the-interval",
            )
        steps[number] = str(at)
    return dict(sorted({**kept, **{number: {word: steps[number]} | pairs for number, pairs in without.items()}}.items()))


def _without_carried(rows: list[dict[str, str]]) -> int:
    """Remove validation losses that lines of training repeat from the line before, and return how many.

    So do progress bars of PyTorch Lightning, until the next evaluation; lines before the first one have none. In a log in which
    only evaluations name validation losses, other lines lie between two of them.
    """
    carried, names = list[tuple[dict[str, str], str]](), dict.fromkeys(c for row in rows for c in row)
    of_validation = [c for c in names if _is_validation(c)]
    for training in (c for c in names if "loss" in key(c) and c not in of_validation):
        lines = [row for row in rows if training in row]
        for column in of_validation:
            if not all(column in row for row in lines):
                carried += [(row, column) for last, row in pairwise(lines) if row.get(column, "") == last.get(column)]
    for row, column in carried:
        row.pop(column, None)
    return len({id(row) for row, _ in carried})


def _lines(text: str) -> list[str]:
    """Return the lines of a text, each state of a progress bar as one, without colours."""
    return re.split(r"\r\n|\r|\n", _COLOURS.sub("", text))


def _entries(lines: list[str]) -> Iterator[tuple[int, dict[str, str], dict[str, str]]]:
    """Yield lines by their numbers with their steps and quantities, if they have a quantity that we know; a block is one line."""
    at, steps, pairs, prefix = 0, dict[str, str](), dict[str, str](), ""
    for number, line in enumerate([*lines, ""], 1):
        if (quantity := _QUANTITY.match(line)) and not _steps(line) and at:
            name = quantity["name"].strip()
            pairs.setdefault(name if "eval" in key(name) else prefix + name, quantity["value"])
            continue
        if any(map(_is_known, pairs)):
            yield at, steps, pairs
        entry, head = _entry(line), _HEAD.search(line)
        at, prefix = number, "eval/" if not head and _OF_EVALUATION.search(line) else ""
        steps, pairs = entry or (_head(head), {}) if head else entry or ({}, _pairs(line))


def _entry(line: str) -> Entry | None:
    """Return the steps of a line by their word and its quantities; None if it lacks one of these."""
    if match := _BY_STEP.match(line.strip()):
        return {"step": match["step"]}, {f"{match['name']} loss": match["value"]}
    if not (steps := _steps(line)):
        return None
    return (steps, pairs) if any(map(_is_known, pairs := _pairs(line))) else None


def _head(match: re.Match[str]) -> dict[str, str]:
    before = (int(match["epoch"]) - 1) * int(match["of"]) if match["epoch"] and match["of"] else 0
    return {match["word"]: str(before + int(match["step"]))}


def _steps(line: str) -> dict[str, str]:
    if _EVALUATING.search(line):
        return {}
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
    return _of_splits(pairs)


def _of_splits(pairs: dict[str, str]) -> dict[str, str]:
    """Return quantities with the losses of a line such as `step 250: train 0.91, val 1.62`, which names the two splits alone."""
    splits = {name: split for name in pairs for split, words in _SPLITS.items() if name.lower() in words}
    if sorted(splits.values()) != sorted(_SPLITS):
        return pairs
    return {f"{splits[name]} loss" if name in splits else name: value for name, value in pairs.items()}


@lru_cache(1000)
def _is_known(name: str) -> bool:
    """Whether a quantity is a loss of any kind or a covariate, by its name."""
    return "loss" in key(name) or _is_validation(name) or resolve(name, "logs") is not None


@lru_cache(1000)
def _is_validation(name: str) -> bool:
    return domain_of(name) is not None or bool(_OF_VALIDATION.search(name) and re.search("bpb|perplexity|ppl", key(name)))
