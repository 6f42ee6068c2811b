"""What the columns of logs mean: steps, losses and their domains, and the covariates under their many names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.units import RATIOS
from bayeslaw.data import curves as curvechecks
from bayeslaw.data import table as runs

# Columns that count steps, the trainer's own before those of the logger.
STEPS = (
    "step", "steps", "global_step", "train/global_step", "trainer/global_step", "train/step", "iteration", "iterations",
    "iter", "update", "num_updates",
)  # fmt: skip
LOGGER_STEPS = ("_step",)  # the logger's own
TIMES = re.compile(r"^(relative_time.*|wall_time|_?runtime|_?timestamp|time|created)$")
SPREADS = re.compile(r"__(min|max|std|stddev|stderr)$", re.IGNORECASE)

# Other names of covariates that training programs log, lower case, and what brings them to our units.
LOGGED: dict[str, dict[str, float]] = {
    "D": {
        "train/tokens": 1, "tokens_seen": 1, "train/tokens_seen": 1, "total_tokens": 1, "consumed_tokens": 1,
        "num_input_tokens_seen": 1, "train/num_input_tokens_seen": 1, "throughput/total_tokens": 1,
    },
    "N": {"model/num_parameters": 1, "total_params": 1, "num_params_m": 1e6},
    "run": {"name": 1},
    "lr": {"optim/lr": 1, "optimizer/lr": 1, "train/learning_rate": 1, "lr-adamw": 1, "lr-adamw/pg1": 1, "lr/group0": 1},
}  # fmt: skip
_PREFIX = re.compile(r"^(config|hparams|hyperparameters)[./]")

_SPLIT = r"(?:eval(?:uation)?|val(?:id(?:ation)?)?|test|dev)"
_PLAIN = re.compile(rf"^{_SPLIT}[/_.-]?(?:loss|nll|cross_entropy|ce_loss|lm_loss)$")
_DOMAINS = (
    re.compile(rf"^{_SPLIT}[/_.-](?P<domain>.+?)[/_.-](?:ce_|lm_)?loss$"),  # eval/pile_loss, eval_pile_loss, val/pile/loss
    re.compile(rf"^{_SPLIT}[/_.-]?loss[/_.-](?P<domain>.+)$"),  # val_loss/pile, eval/loss/pile
    re.compile(rf"^(?P<domain>.+?)[/_.-]{_SPLIT}[/_.-]?loss$"),  # pile/eval_loss, pile_val_loss
)
_BARE = re.compile(r"^(?P<domain>.+?)[/_.-]loss$")
_NO_DOMAIN = re.compile(r"^(train(ing)?|z|aux|auxiliary|moe|kl|reward|policy|value|total|avg|mean|best|min|final|last)$")

# Parts of a name that tell of no validation loss, but of training batches; a part of the objective, a spread, a mean of several.
_TRAINING = {"train", "training"}
_LAST = {"z", "aux", "balancing", "std", "stderr", "se", "step", "epoch"}


def key(column: str) -> str:
    """A column's name as names are compared: lower case, without blanks around it."""
    return re.sub(r"\s+", "_", column.strip().lower())


def _covariates() -> dict[str, tuple[str, float]]:
    found: dict[str, tuple[str, float]] = {}
    for table in (runs.ALIASES, curvechecks.ALIASES, LOGGED):
        for ours, names in table.items():
            if ours not in ("loss", "step"):
                found |= {name: (ours, float(factor)) for name, factor in names.items()} | {ours.lower(): (ours, 1.0)}
    return found | {name: (name, 1.0) for name in (*TEXT, "loss_se", "flops", "seed", *RATIOS.values())}


# Names that mean something here and something else in many logs: time left, a batch's number, the file last written, train or eval.
ELSEWHERE = ("eta", "batch", "checkpoint", "phase")
TEXT = ("run", "domain", "checkpoint", "unit", *curvechecks.TEXT)
COVARIATES = _covariates()


@dataclass(frozen=True)
class Meanings:
    """What the columns of one log mean.

    Attributes
    ----------
    step : str or None
        The column that counts steps.
    by_logger : bool
        Steps are the logger's own count, which need not be the trainer's.
    losses : mapping
        Column of losses to its domain; None where it names none.
    covariates : mapping
        Column to our name and the factor that brings it to our unit.
    other : tuple of str
        Columns that mean nothing here.
    other_losses : tuple of str
        Those among them that would be losses of a domain but for a part of their names.
    """

    step: str | None = None
    by_logger: bool = False
    losses: Mapping[str, str | None] = field(default_factory=dict)
    covariates: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    other: tuple[str, ...] = ()
    other_losses: tuple[str, ...] = ()


def domain_of(column: str) -> str | None:
    """The domain that a column of evaluation losses names, '' if it is one of no named domain, None if it is none."""
    name = key(column)
    if _PLAIN.match(name):
        return ""
    for pattern in _DOMAINS:
        if (found := pattern.match(name)) and _is_domain(found["domain"]):
            start, end = found.span("domain")
            return column.strip()[start:end] if len(column.strip()) == len(name) else found["domain"]
    return None


def _is_domain(name: str) -> bool:
    return not _NO_DOMAIN.match(name) and not _parts_tell(name)


def _parts_tell(name: str) -> bool:
    parts = re.split(r"[/_.-]", name.lower())
    return not _TRAINING.isdisjoint(parts) or parts[-1] in _LAST


def is_other_loss(column: str, bare: bool = True) -> bool:
    """Whether a column has the name of a domain's loss but for a part of it that tells of something else, val_loss_web_std.

    `bare` says whether names that tell of no evaluation are of losses: router_z_loss.
    """
    matches = [pattern.match(key(column)) for pattern in (*_DOMAINS, *([_BARE] if bare else []))]
    found = [m["domain"] for m in matches if m]
    return domain_of(column) is None and any(not _NO_DOMAIN.match(d) and _parts_tell(d) for d in found)


def covariate_of(column: str) -> tuple[str, float] | None:
    """Our name of a covariate's column, and the factor that brings it to our unit.

    Letters such as N are taken as they are written, and names that mean something else in many logs not at all.
    """
    names = [key(column), _PREFIX.sub("", key(column))]
    found = next((COVARIATES[name] for name in names if name in COVARIATES), None)
    if found is None or names[-1] in ELSEWHERE or (len(names[-1]) == 1 and column.strip()[-1] != found[0]):
        return None
    return found


def is_step(column: str) -> bool:
    return key(column) in (*STEPS, *LOGGER_STEPS)


def is_metric(column: str) -> bool:
    """Whether a column, by its name alone, is one that an import takes: a loss, a step or a covariate."""
    return is_step(column) or domain_of(column) is not None or covariate_of(column) is not None or key(column) == "loss"


def step_column(columns: Iterable[str]) -> str | None:
    """The column that counts steps; of several the trainer's own before the logger's."""
    by_key = {key(c): c for c in reversed(list(columns))}
    return next((by_key[name] for name in (*STEPS, *LOGGER_STEPS) if name in by_key), None)


def meanings(
    columns: Iterable[str],
    name: str,
    *,
    step: str | None = None,
    given: Mapping[str, tuple[str, float]] | None = None,
    losses: Mapping[str, str | None] | None = None,
    bare_loss: bool = True,
) -> Meanings:
    """Say what each column of a log means.

    Parameters
    ----------
    columns : iterable of str
    name : str
        Of the log, for errors.
    step : str, optional
        The column that counts steps, as the kind of log tells.
    given : mapping, optional
        Column to our name and factor, as a person says; it comes before what names tell.
    losses : mapping, optional
        Column to domain, as a person says: no other column is a loss then.
    bare_loss : bool
        Whether a column `loss` is a validation loss; False for logs where it is the loss of training batches.

    Raises
    ------
    BayeslawError
        If two columns mean the same, or it can't be told which column is the loss.
    """
    columns, given = list(columns), given or {}
    found: dict[str, tuple[str, float]] = {}
    for column in columns:
        if meant := given.get(column) or (None if is_step(column) else covariate_of(column)):
            found[column] = meant
    step = next((c for c, (ours, _) in given.items() if ours == "step" and c in columns), None) or step or step_column(columns)
    found.pop(step or "", None)
    _twice(found, given, name)
    taken = {*found, step}
    free = [c for c in columns if c not in taken and not SPREADS.search(c)]
    chosen = dict(losses) if losses else _losses(free, name, bare_loss)
    used = {*taken, *chosen}
    return Meanings(
        step,
        step is not None and step not in given and key(step) in LOGGER_STEPS,
        chosen,
        found,
        tuple(c for c in columns if c not in used),
        () if losses else tuple(c for c in free if c not in used and is_other_loss(c, bare_loss and not any(map(_named, chosen)))),
    )


def _twice(found: dict[str, tuple[str, float]], given: Mapping[str, tuple[str, float]], name: str) -> None:
    """Refuse two columns of one meaning, unless a person has said which."""
    by_meaning: dict[str, str] = {}
    for column, (ours, _) in list(found.items()):
        other = by_meaning.setdefault(ours, column)
        if other == column:
            continue
        if (other in given) != (column in given):
            found.pop(column if other in given else other)
            by_meaning[ours] = other if other in given else column
        else:
            raise BayeslawError(
                f"{name}: columns {other!r} and {column!r} both mean {ours}. Say which in a mapping file: "
                f'[columns] {ours} = "{other}".'
            )


def _named(column: str) -> bool:
    return domain_of(column) is not None


def _losses(columns: list[str], name: str, bare_loss: bool) -> dict[str, str | None]:
    """The columns of validation losses and their domains."""
    named = {c: d for c in columns if (d := domain_of(c)) is not None}
    domains = {c: d for c, d in named.items() if d}
    plain = [c for c, d in named.items() if not d]
    if domains and plain:
        raise BayeslawError(
            f"{name} has losses of no named domain ({plain[0]}) and of named ones ({', '.join(domains)}): "
            f"say which to take by --loss {plain[0]!r}, or --loss COLUMN for each that you want."
        )
    if not named and bare_loss:
        plain = [c for c in columns if key(c) == "loss"]
        bare = {c: m["domain"] for c in columns if (m := _BARE.match(key(c))) and _is_domain(m["domain"])}
        domains = {} if plain else dict(bare)
    if len(plain) > 1:
        raise BayeslawError(f"{name}: columns {plain[0]!r} and {plain[1]!r} both hold losses. Say which by --loss COLUMN.")
    twice = [d for d in domains.values() if [*map(str.lower, domains.values())].count(d.lower()) > 1]
    if twice:
        both = [c for c, d in domains.items() if d.lower() == twice[0].lower()]
        raise BayeslawError(
            f"{name}: columns {both[0]!r} and {both[1]!r} both hold losses of {twice[0]}. Say which by --loss COLUMN."
        )
    return dict.fromkeys(plain) or dict(domains)
