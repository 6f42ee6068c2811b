"""Cards: a law as one TOML file, read and checked; every fault is named with its line."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bayeslaw.core.errors import BayeslawError, CardError, nearest, shortened
from bayeslaw.laws.formula import FUNCTIONS, Expression, FormulaError, column_of, default_symbol
from bayeslaw.laws.law import Covariate, Law, LocatedError, Parameter, check_on
from bayeslaw.laws.prior import Prior

RESERVED = frozenset(
    {
        "loss",
        "log_loss",
        "run",
        "run_code",
        "run_effect",
        "step",
        "domain",
        "chain",
        "draw",
        "row",
        "sigma_point",
        "sigma_run",
        "sigma_checkpoint",
        "run_excess",
        "drift",
        "dof",
        "checkpoint",
        "group",
        "loss_se",
        *FUNCTIONS,
    }
)
MOST_NODES = 100
_TOP = {"name", "title", "source", "loss", "let", "covariates", "parameters", "published", "note", "huber_delta"}


def card_folder() -> Path:
    """The folder of the cards that come with bayeslaw: inside the wheel, or beside the package in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "models"
    return inside if inside.is_dir() else package.parent / "models"


def law_names() -> list[str]:
    """Names of the laws that come with bayeslaw."""
    return sorted(p.stem for p in card_folder().glob("*.toml"))


def load_law(name: str | Path) -> Law:
    """Load a law that comes with bayeslaw by its name, or any card by its path.

    Raises
    ------
    CardError
        If there is no such law or its card is faulty; the text gives the line and the nearest known name.
    """
    path = Path(name)
    if path.suffix != ".toml" and not path.is_file():
        if str(name) not in law_names():
            known = ", ".join(law_names())
            raise CardError(
                f"No law {str(name)!r}. Known are {known}; a card of your own goes by its path.{nearest(str(name), law_names())}"
            )
        path = card_folder() / f"{name}.toml"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CardError(f"The card {path} can't be read: {error}.") from None
    return parse_card(text, str(path))


def parse_card(text: str, origin: str = "card") -> Law:
    """Build a law from the text of a card; `origin` names it in errors."""
    try:
        card = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CardError(f"{origin} is not a TOML file: {error}.") from None
    except ValueError:  # of int(), whose text speaks of Python's settings
        raise CardError(f"{origin}: a number in it is too large.") from None
    except RecursionError:
        raise CardError(f"{origin} is not a TOML file: it is nested too deeply.") from None
    try:
        _check_sizes(card)
        return _build(card, text)
    except LocatedError as error:
        line = _line(text, error.section, error.key)
        raise CardError(f"{origin}, line {line}: {error}" if line else f"{origin}: {error}") from None
    except OverflowError:
        raise CardError(f"{origin}: a number in it is too large.") from None
    except RecursionError:
        raise CardError(f"{origin}: its [let] or its tables are nested too deeply.") from None


def _check_sizes(card: Mapping[str, Any]) -> None:
    """Refuse whole numbers of so many digits that Python won't write them, not even into an error."""
    waiting: list[Any] = [card]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (dict, list)):
            waiting.extend(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, int) and value.bit_length() > 10_000:
            raise OverflowError


def _line(text: str, section: str, key: str) -> int | None:
    """Line (from 1) of a key in a section of a TOML text, or of the section itself; None where it isn't written there."""
    current, found = "", None
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[([^\[\]]+)\]\s*(#.*)?$", line):
            current = header.group(1).replace('"', "").strip()
            if current in (section, f"{section}.{key}"):
                found = found or number
        elif current == section and re.match(rf'\s*"?{re.escape(key)}"?\s*=', line) and key:
            return number
    return found


def _text(card: Mapping[str, Any], key: str, section: str = "") -> str:
    value = card.get(key)
    if not isinstance(value, str) or not value.strip():
        raise LocatedError(f"`{key}` must be a non-empty text, not {shortened(repr(value))}.", section, key)
    return _line_of(value, section, key)


def _optional_text(card: Mapping[str, Any], key: str, section: str = "", default: str = "") -> str:
    value = card.get(key, default)
    if not isinstance(value, str):
        raise LocatedError(f"`{key}` must be a text, not {shortened(repr(value))}.", section, key)
    return _line_of(value, section, key)


def _line_of(text: str, section: str, key: str) -> str:
    """A text on one line; what a terminal would obey rather than show is refused."""
    line = " ".join(text.split())
    if not line.isprintable():
        raise LocatedError(f"`{key}` holds characters that can't be shown: {shortened(repr(line))}.", section, key)
    return line


def _build(card: Mapping[str, Any], text: str) -> Law:
    for key in card:
        if key not in _TOP:
            raise LocatedError(f"a card has no {key!r}; it has {', '.join(sorted(_TOP))}.{nearest(key, _TOP)}", "", key)
    for section in ("let", "covariates", "parameters", "published"):
        if not isinstance(card.get(section, {}), dict):
            raise LocatedError(f"`{section}` must be a table.", "", section)
    for section, what in (("covariates", "N"), ("parameters", "E")):
        if not card.get(section):
            raise LocatedError(f"a law needs at least one of [{section}], such as {what}.", "", section)
    given = {k: _covariate(k, v) for k, v in card.get("covariates", {}).items()}
    series = {k: _number_of_nodes(k, v["nodes"]) for k, v in card["covariates"].items() if "nodes" in v}
    parameters = {k: _parameter(k, v) for k, v in card.get("parameters", {}).items()}
    let = {k: _expression(v, "let", k) for k, v in card.get("let", {}).items()}
    loss = _expression(_text(card, "loss"), "", "loss")
    _check_names(loss, let, given, parameters)
    _check_totals(loss, let, series)
    made = [of for k, one in given.items() for of in (_nodes(one, series[k]) if k in series else [one])]
    covariates = {c.name: c for c in made}
    if twice := [c.name for c in made if c.series and (c.name in {*given, *let, *parameters})]:
        raise LocatedError(f"{twice[0]!r} is a column of a series: use another name.", "", twice[0])
    delta = card.get("huber_delta", 1e-3)
    if type(delta) not in (int, float) or not 0 < delta < math.inf:
        raise LocatedError(f"`huber_delta` must be a positive number, not {delta!r}.", "", "huber_delta")
    law = Law(
        name=_text(card, "name"),
        title=_text(card, "title"),
        source=_text(card, "source"),
        loss=loss,
        let=_ordered(let),
        covariates=covariates,
        parameters=parameters,
        published=_published(card.get("published", {})),
        note=_optional_text(card, "note"),
        huber_delta=float(delta),
        card=text,
    )
    check_on(law)
    return law


def _expression(text: Any, section: str, key: str) -> Expression:
    try:
        return Expression.parse(text)
    except FormulaError as error:
        raise LocatedError(str(error), section, key) from None


def _covariate(name: str, table: Any) -> Covariate:
    if not isinstance(table, dict):
        raise LocatedError(f"covariate {name} must be a table with unit and support.", "covariates", name)
    if unknown := set(table) - {"unit", "support", "at_least", "context", "log", "nodes"}:
        known = "unit, support, at_least, context, log, nodes"
        raise LocatedError(f"covariate {name} has no {', '.join(sorted(unknown))}; it has {known}.", "covariates", name)
    support = table.get("support", [])
    numbers = isinstance(support, list) and len(support) == 2 and all(type(v) in (int, float) for v in support)
    if not numbers or not -math.inf < support[0] < support[1] < math.inf:
        raise LocatedError(
            f"the support of {name} must be [smallest, largest], not {shortened(repr(support))}.", "covariates", name
        )
    at_least = table.get("at_least", 1)
    if type(at_least) is not int or at_least < 1:
        raise LocatedError(f"at_least of {name} must be a whole number from 1, not {at_least!r}.", "covariates", name)
    unit = table.get("unit")
    if not isinstance(unit, str):
        raise LocatedError(f"the unit of {name} must be a text, not {unit!r}.", "covariates", name)
    flags = {flag: table.get(flag, False) for flag in ("context", "log")}
    for flag, value in flags.items():
        if not isinstance(value, bool):
            raise LocatedError(f"{flag} of {name} must be true or false, not {value!r}.", "covariates", name)
    if flags["log"] and support[0] < 0:
        raise LocatedError(f"{name} may be negative: distances in it can't be counted in e-folds.", "covariates", name)
    return Covariate(name, unit, (float(support[0]), float(support[1])), at_least, **flags)


def _number_of_nodes(name: str, number: Any) -> int:
    if type(number) is not int or not 2 <= number <= MOST_NODES:
        raise LocatedError(f"nodes of {name} must be a whole number from 2 to {MOST_NODES}, not {number!r}.", "covariates", name)
    return number


def _nodes(covariate: Covariate, number: int) -> list[Covariate]:
    """The columns of a series."""
    return [replace(covariate, name=column_of(covariate.name, k), series=covariate.name) for k in range(1, number + 1)]


def _check_totals(loss: Expression, let: Mapping[str, Expression], series: Mapping[str, int]) -> None:
    """Series stand within total(...) and nowhere else; those that are summed together have equally many nodes."""
    for section, key, expression in [("", "loss", loss), *(("let", k, e) for k, e in let.items())]:
        if loose := sorted(expression.outside_totals & series.keys()):
            raise LocatedError(f"{loose[0]!r} is a series of nodes: it can only stand within total(...).", section, key)
    if len(set(series.values())) > 1:
        shown = ", ".join(f"{name} {number}" for name, number in series.items())
        raise LocatedError(f"series must have equally many nodes ({shown}).", "covariates", next(iter(series)))
    for section, key, expression in [("", "loss", loss), *(("let", k, e) for k, e in let.items())]:
        for within in expression.totals:
            if not within.names & series.keys():
                raise LocatedError(f"total({within.text}) names no series: give one of its covariates `nodes`.", section, key)


def _parameter(name: str, table: Any) -> Parameter:
    section = f"parameters.{name}"
    if not isinstance(table, dict):
        raise LocatedError(f"parameter {name} must be a table with meaning and prior.", "parameters", name)
    if unknown := set(table) - {"meaning", "unit", "latex", "prior", "by"}:
        raise LocatedError(
            f"parameter {name} has no {', '.join(sorted(unknown))}; it has meaning, unit, latex, prior, by.", section, min(unknown)
        )
    if not isinstance(by := table.get("by", ""), str) or ("by" in table and not by.strip()):
        raise LocatedError(f"`by` of {name} must name a column, not {by!r}.", section, "by")
    if not isinstance(table.get("prior"), dict):
        raise LocatedError(
            f'parameter {name} has no prior; give one such as {{ dist = "LogNormal", mu = 0, sigma = 1 }}.', "parameters", name
        )
    try:
        prior = Prior.from_card(table["prior"])
    except BayeslawError as error:
        raise LocatedError(f"the prior of {name}: {error}", section, "prior") from None
    latex = _optional_text(table, "latex", section, default_symbol(name))
    return Parameter(name, _text(table, "meaning", section), _optional_text(table, "unit", section), latex, prior, by)


def _published(tables: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    for name, table in tables.items():
        if not isinstance(table, dict) or not all(type(v) in (int, float) for v in table.values()):
            raise LocatedError(f"[published.{name!r}] must be a table of numbers.", f"published.{name}", "")
    return {name: {k: float(v) for k, v in table.items()} for name, table in tables.items()}


def _check_names(
    loss: Expression, let: Mapping[str, Expression], covariates: Mapping[str, Covariate], parameters: Mapping[str, Parameter]
) -> None:
    groups: Sequence[tuple[str, Mapping[str, Any]]] = (("let", let), ("covariates", covariates), ("parameters", parameters))
    seen: dict[str, str] = {}
    for section, group in groups:
        for name in group:
            if not name.isidentifier() or name.startswith("_") or name in RESERVED:
                raise LocatedError(
                    f"{name!r} can't be a name: use letters, digits and _, and none of {', '.join(sorted(RESERVED))}.",
                    section,
                    name,
                )
            if name in seen:
                raise LocatedError(f"{name!r} stands both under [{seen[name]}] and under [{section}].", section, name)
            seen[name] = section
    for name in (n for n, p in parameters.items() if p.prior.on):
        if (level := f"{name}_level") in seen:
            raise LocatedError(f"{level!r} is what the value of {name}'s `on` is called: use another name.", seen[level], level)
    for section, key, expression in [("", "loss", loss), *(("let", k, e) for k, e in let.items())]:
        for name in sorted(expression.names):
            if name not in seen:
                known = ", ".join(seen) or "none"
                raise LocatedError(f"unknown name {name!r} in {key!r}; known are {known}.{nearest(name, seen)}", section, key)
    used = loss.names.union(*(e.names for e in let.values()))
    for section, group in groups:
        for name in group:
            context = section == "covariates" and covariates[name].context
            if name not in used and not context:
                raise LocatedError(f"{name!r} is not used by the formula.", section, name)
            if name in used and context:
                raise LocatedError(f"{name!r} is context, and the formula uses it: leave `context` out.", section, name)


def _ordered(let: Mapping[str, Expression]) -> dict[str, Expression]:
    """Sort let-expressions so that each uses only earlier ones."""
    done: dict[str, Expression] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise LocatedError(f"[let] goes in a circle: {' -> '.join((*path[path.index(name) :], name))}.", "let", name)
        for used in sorted(let[name].names & let.keys()):
            visit(used, (*path, name))
        done[name] = let[name]

    for name in let:
        visit(name, ())
    return done
