"""A log as it stands in a file, and what its columns mean: steps, losses with their domains, and covariates."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.text import counted, listed
from bayeslaw.data.columns import LOGS, TEXT, is_setting, key, our_name, resolve
from bayeslaw.data.starter import option

STEPS = ("step", *LOGS["step"])  # the trainer's own count
LOGGER_STEPS = ("_step",)  # the logger's count
TIMES = re.compile(r"^(relative_time.*|wall_time|_?runtime|_?timestamp|time|created)$")
SPREADS = re.compile(r"__(min|max|std|stddev|stderr)$", re.IGNORECASE)

BY_KIND = "--from (of watch --kind, kind=)"  # what chooses the kind of a log

SPLIT = r"(?:eval(?:uation)?|val(?:id(?:ation)?)?|test|dev)"
_ENTROPY = r"(?:(?:language_?)?cross_?entropy)"
_LOSS = rf"(?:(?:ce_|lm_|{_ENTROPY}_?)?loss|{_ENTROPY})"
_PLAIN = re.compile(  # eval_loss, final_val_loss, validation_metrics/loss; Loss/val, lm loss validation
    rf"^(?:(?:final|last)[/_.-])?{SPLIT}(?:_metrics)?[/_.-]?(?:{_LOSS}|nll)$|^(?:lm-loss-validation/)?(?:lm_)?loss[/_.-]{SPLIT}$"
)
_DOMAINS = (
    re.compile(rf"^{SPLIT}[/_.-](?P<domain>.+?)[/_.-]{_LOSS}$"),  # eval/pile_loss, eval_pile_loss, val/pile/CE loss
    re.compile(rf"^{SPLIT}[/_.-]?loss[/_.-](?P<domain>.+)$"),  # val_loss/pile, eval/loss/pile
    re.compile(rf"^(?P<domain>.+?)[/_.-]{SPLIT}[/_.-]?loss$"),  # pile/eval_loss, pile_val_loss
)
_METRICS = re.compile(r"^(?:metrics?|summary)[/.]")  # before the names of metrics, in exports
_LAST_ONE = re.compile(r"^(?:(?:metrics?|summary)[/.])?(?:final|last)[/_.-]")
_LEAST = re.compile(rf"^(?:best|min|lowest)[/_.-]{SPLIT}[/_.-]?loss$")
_BARE = re.compile(r"^(?P<domain>.+?)[/_.-]loss$")
_NO_DOMAIN = re.compile(r"^(train(ing)?|z|aux|auxiliary|moe|kl|reward|policy|value|total|avg|mean|best|min|final|last)$")
# Parts of a name that show that it is no validation loss: one of training batches; a part of the objective, a spread, a mean.
_TRAINING = {"train", "training"}
_LAST = {"z", "aux", "balancing", "std", "stderr", "se", "step", "epoch"}


@dataclass(frozen=True, eq=False)
class Log:
    """The entries of one file.

    Attributes
    ----------
    kind : str
        One of `bayeslaw.data.logs.mapping.KINDS`.
    frame : DataFrame
        Cells as read, one row an entry, in the order in which they were logged; None is an empty cell, and so is nan in a column of
        floats. The index is the entry's number in the file, from 1.
    run : str
        Name of its run if no column names any.
    step, losses : str and mapping, or None
        The column of steps, and those of losses with their domains, where the kind of file fixes them.
    bare_loss, last_values : bool
        Whether a column `loss` is a validation loss; whether rows hold the last values of runs.
    settings, folder : mapping, and path or None
        What the run was started with, as columns such as `hparams.lr`; the folder of the run, where it isn't that of the file.
    unread : mapping
        The last number of each scalar that was not read, by its tag.
    """

    name: str
    kind: str
    frame: pd.DataFrame
    run: str = ""
    step: str | None = None
    losses: Mapping[str, str | None] | None = None
    bare_loss: bool = True
    last_values: bool = False
    notes: tuple[str, ...] = field(default=())
    settings: Mapping[str, object] = field(default_factory=dict)
    folder: Path | None = None
    unread: Mapping[str, float] = field(default_factory=dict)


def with_settings(log: Log, settings: Mapping[str, object], named: Collection[str]) -> Log:
    """Return a log whose entries all have those settings of its run, as columns, that we know by their names.

    Tokens are what the run was planned for, so they are those of an evaluation only where the run has a single step.

    Parameters
    ----------
    log, settings : Log and mapping
    named : collection of str
        Columns whose meaning the user gives: these settings are used whatever their names.
    """
    several = log.step is not None and log.frame[log.step].unique().size > 1
    never = {"", *TEXT["logs"], *(("D", "atpp", "flops") if several else ())}
    known = {c for c in settings if c in named or our_name(c, "logs") not in never}
    frame = log.frame.assign(
        **{c: pd.Series([settings[c]] * len(log.frame), log.frame.index, object) for c in settings if c in known}
    )
    left = [c for c in settings if c not in known]
    notes = [f"{log.name}: {counted(len(left), 'setting')} of the run not used ({listed(left, 4)})"] if left else []
    return replace(log, frame=frame, notes=(*log.notes, *notes))


@dataclass(frozen=True)
class Meanings:
    """What the columns of one log mean.

    Attributes
    ----------
    step, step_factor : str or None, float
        The column of steps, and what its unit is in steps, such as 1,000.
    by_logger : bool
        Whether steps are the logger's own count, which need not be the trainer's.
    losses, covariates : mapping
        Column of losses to its domain, None where it names none; other column to our name and the factor to our unit.
    other, other_losses : tuple of str
        Columns that are not used, and those among them that would be losses of a domain but for a part of their names.
    """

    step: str | None
    step_factor: float
    by_logger: bool
    losses: Mapping[str, str | None]
    covariates: Mapping[str, tuple[str, float]]
    other: tuple[str, ...]
    other_losses: tuple[str, ...]


def meanings(
    log: Log, given: Mapping[str, tuple[str, float]] | None = None, *, words: Collection[str] = (), step: str | None = None
) -> Meanings:
    """Find what each column of a log means; two columns of one meaning, or several possible losses, are refused.

    Parameters
    ----------
    log : Log
        Where it has `losses`, these override the names of columns.
    given : mapping, optional
        Column to our name and factor, from the user: they override the names of columns too.
    words : collection of str
        Columns that hold no number, such as a `model_size` of tiny: another column of the same meaning is the one.
    step : str, optional
        The column of steps, if it is not that of the log, or the first by its name.
    """
    columns, given, losses = [str(c) for c in log.frame if c != "_time"], given or {}, log.losses
    covariates: dict[str, tuple[str, float]] = {}
    for column in columns:
        if meaning := given.get(column) or (None if is_step(column) else resolve(column, "logs")):
            covariates[column] = meaning
    named = next((c for c, (ours, _) in given.items() if ours == "step" and c in columns), None)
    others = (step, log.step, step_column([c for c in columns if c not in given]))  # those given are what the user says
    step = named or next((c for c in others if c and c not in given), None)
    covariates.pop(step or "", None)
    _remove_duplicates(covariates, given, words, log)
    taken = {*covariates, step}
    free = [c for c in columns if c not in taken and not SPREADS.search(c)]
    chosen = dict(losses) if losses else _losses(free, log)
    used, bare = {*taken, *chosen}, log.bare_loss and all(domain_of(c) is None for c in chosen)
    return Meanings(
        step,
        given[named][1] if named else 1.0,
        step is not None and step not in given and key(step) in LOGGER_STEPS,
        chosen,
        covariates,
        tuple(c for c in columns if c not in used),
        () if losses else tuple(c for c in free if c not in used and is_other_loss(c, bare)),
    )


def _remove_duplicates(
    covariates: dict[str, tuple[str, float]], given: Mapping[str, tuple[str, float]], words: Collection[str], log: Log
) -> None:
    """Of two columns of one meaning keep the one that the user named, holds numbers, or was logged; refuse others.

    Of last values a learning rate that was logged is the one at the end of the schedule, so there a setting counts.
    """
    by_meaning: dict[str, str] = {}
    for column, (ours, _) in list(covariates.items()):
        other = by_meaning.setdefault(ours, column)
        if other == column:
            continue
        end = log.last_values and ours == "lr"
        ranks = {c: (c in given, c not in words, is_setting(c) == end) for c in (other, column)}  # lr was logged, config.lr was not
        if ranks[other] == ranks[column]:
            choices = " or ".join(option(ours, c) for c in (other, column))
            message = (
                f"{log.name}: columns {other!r} and {column!r} both mean {ours}. Choose one: {choices} (columns={{{ours!r}: …}})."
            )
            raise BayeslawError(message, code="two-columns-of-one-meaning")
        by_meaning[ours] = max(ranks, key=lambda c: ranks[c])
        covariates.pop(min(ranks, key=lambda c: ranks[c]))


def _losses(columns: list[str], log: Log) -> dict[str, str | None]:
    """Return the columns of validation losses and their domains."""
    named = {c: d for c in columns if (d := domain_of(c)) is not None}
    domains = {c: d for c, d in named.items() if d}
    plain = [c for c, d in named.items() if not d]
    plain = [c for c in plain if not _LAST_ONE.match(key(c))] or plain  # a summary repeats the last loss
    if domains and plain:
        raise BayeslawError(
            f"{log.name} has losses of no named domain ({plain[0]}) and of named ones ({', '.join(domains)}): "
            f"choose by --loss {plain[0]!r} (losses={plain[0]!r}), or name each that you want.",
            code="ambiguous-losses",
        )
    if not named and log.bare_loss:
        plain = [c for c in columns if key(c) == "loss"]
        bare = {
            c: m["domain"] for c in columns if (m := _BARE.match(key(c))) and _is_domain(m["domain"]) and not _LEAST.match(key(c))
        }
        domains = {} if plain else dict(bare)
    pairs = [plain, *([c for c, other in domains.items() if other.lower() == d.lower()] for d in domains.values())]
    for pair in pairs:
        if len(pair) > 1:
            of = f" of {domains[pair[0]]}" if domains else ""
            message = (
                f"{log.name}: columns {pair[0]!r} and {pair[1]!r} both hold losses{of}. Choose by --loss COLUMN (losses='COLUMN')."
            )
            raise BayeslawError(message, code="ambiguous-losses")
    return dict.fromkeys(plain) or dict(domains)


def domain_of(column: str) -> str | None:
    """Return the domain of a column of evaluation losses: '' if it names none, None if the column holds no such losses."""
    whole = key(column)
    name = _METRICS.sub("", whole)
    if _PLAIN.match(name):
        return ""
    for pattern in _DOMAINS:
        if (match := pattern.match(name)) and _is_domain(match["domain"]):
            start, end = (at + len(whole) - len(name) for at in match.span("domain"))
            return column.strip()[start:end] if len(column.strip()) == len(whole) else match["domain"]
    return None


def is_other_loss(column: str, bare: bool = True) -> bool:
    """Whether a column has the name of a domain's loss but for a part that shows that it is none, such as val_loss_web_std.

    With `bare`, names without a split, such as router_z_loss, are also considered.
    """
    if _LEAST.match(_METRICS.sub("", key(column))):
        return True
    domains = [m["domain"] for pattern in (*_DOMAINS, *([_BARE] if bare else [])) if (m := pattern.match(key(column)))]
    return domain_of(column) is None and any(not _NO_DOMAIN.match(d) and _has_other_part(d) for d in domains)


def _is_domain(name: str) -> bool:
    return not _NO_DOMAIN.match(name) and not _has_other_part(name)


def _has_other_part(name: str) -> bool:
    parts = re.split(r"[/_.-]", name.lower())
    return not _TRAINING.isdisjoint(parts) or parts[-1] in _LAST


def is_step(column: str) -> bool:
    """Whether a column counts steps, by its name."""
    return key(column) in (*STEPS, *LOGGER_STEPS)


def is_metric(column: str) -> bool:
    """Whether a column is a loss, a step or a covariate, by its name."""
    return is_step(column) or domain_of(column) is not None or resolve(column, "logs") is not None or key(column) == "loss"


def step_columns(columns: Iterable[str]) -> list[str]:
    """Return the columns that count steps; the trainer's own come before the logger's."""
    by_key = {key(c): c for c in reversed(list(columns))}
    return [by_key[name] for name in (*STEPS, *LOGGER_STEPS) if name in by_key]


def step_column(columns: Iterable[str]) -> str | None:
    """Return the column that counts steps, the first of several."""
    return next(iter(step_columns(columns)), None)
