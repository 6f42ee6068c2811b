"""Laws: a card in TOML says what the loss is, in which covariates, with which priors."""

from __future__ import annotations

import ast
import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayeslaw.errors import BayeslawError, CardError, nearest
from bayeslaw.formula import FUNCTIONS, NUMPY, Expression, FormulaError, default_symbol
from bayeslaw.priors import Prior

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
        "dof",
        *FUNCTIONS,
    }
)
_TOP = {"name", "title", "source", "loss", "let", "covariates", "parameters", "published", "note", "huber_delta"}


@dataclass(frozen=True)
class Covariate:
    """A quantity the loss depends on.

    Attributes
    ----------
    unit : str
    support : (float, float)
        Smallest and largest value that is not surely a mistake; both ends belong to it.
    at_least : int
        How many different values the runs must have for the law to be fitted.
    """

    name: str
    unit: str
    support: tuple[float, float]
    at_least: int = 1

    @property
    def logarithmic(self) -> bool:
        """Whether distances in it are counted in e-folds: it spans more than three decades."""
        low, high = self.support
        return low >= 0 and high > 1e3 * max(low, 1.0)


@dataclass(frozen=True)
class Parameter:
    """A quantity to be inferred: what it means, how it is written, what is believed of it beforehand."""

    name: str
    meaning: str
    unit: str
    latex: str
    prior: Prior


@dataclass(frozen=True)
class Law:
    """A scaling law: formula, covariates, parameters with priors, and the source's own numbers.

    Attributes
    ----------
    loss : Expression
        Expected loss in nats/token.
    let : dict of str to Expression
        Named parts of the formula, in an order in which each uses only earlier ones.
    published : dict of str to dict of str to float
        Numbers of the source, for comparison only.
    huber_delta : float
        Where the Huber loss of the source's own point fit turns from square to linear, in log loss.
    card : str
        The card's text.
    """

    name: str
    title: str
    source: str
    loss: Expression
    let: Mapping[str, Expression]
    covariates: Mapping[str, Covariate]
    parameters: Mapping[str, Parameter]
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    note: str = ""
    huber_delta: float = 1e-3
    card: str = ""

    @property
    def sha256(self) -> str:
        """Digest of the card's text and of the priors in use."""
        priors = "\n".join(f"{name}~{p.prior}" for name, p in self.parameters.items())
        return hashlib.sha256((self.card + priors).encode()).hexdigest()

    def evaluate(self, values: Mapping[str, Any], functions: Mapping[str, Any] = NUMPY) -> Any:
        """Expected loss from parameters and covariates in one mapping, in NumPy or any other array library."""
        return self.loss.evaluate(self.with_let(values, functions), functions)

    def with_let(self, values: Mapping[str, Any], functions: Mapping[str, Any] = NUMPY) -> dict[str, Any]:
        """The same mapping with the let-expressions added."""
        scope = dict(values)
        for name, expression in self.let.items():
            scope[name] = expression.evaluate(scope, functions)
        return scope

    def predict(self, draws: Mapping[str, ArrayLike], covariates: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
        """Expected loss for every draw and setting.

        Parameters
        ----------
        draws : mapping of parameter to array (S,)
        covariates : mapping of covariate to array (n,)

        Returns
        -------
        array (S, n)
            Loss in nats/token.
        """
        values: dict[str, Any] = {k: np.asarray(draws[k], dtype=np.float64)[:, None] for k in self.parameters}
        values |= {k: np.asarray(covariates[k], dtype=np.float64)[None, :] for k in self.covariates}
        with np.errstate(all="ignore"):
            loss = self.evaluate(values)
        shape = (np.size(next(iter(draws.values()))), np.size(next(iter(covariates.values()))))
        return np.broadcast_to(np.asarray(loss, dtype=np.float64), shape)

    def reference(self, table: pd.DataFrame) -> dict[str, float]:
        """Reference point of a table: geometric mean of what spans decades, mean of the rest; rows with D = 0 left out."""
        point = {}
        for name, covariate in self.covariates.items():
            values = table[name].to_numpy(dtype=np.float64)
            if covariate.logarithmic:
                positive = values[values > 0]
                point[name] = float(np.exp(np.mean(np.log(positive)))) if positive.size else 1.0
            else:
                point[name] = float(np.nanmean(values))
        return point

    def term_units(
        self, values: Mapping[str, Any], at: Mapping[str, float], functions: Mapping[str, Any] = NUMPY
    ) -> dict[str, Any]:
        """For each prior with `on`: that expression at the point `at`, per unit of its parameter."""
        units = {}
        for name, parameter in self.parameters.items():
            if parameter.prior.on is not None:
                scope = self.with_let({**values, **at, **{name: 1.0}}, functions)
                units[name] = parameter.prior.on.evaluate(scope, functions)
        return units

    def sample_prior(self, size: int, at: Mapping[str, float], rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
        """Prior draws of every parameter, arrays (size,), for runs whose reference point is `at`."""
        draws = {name: p.prior.sample(size, rng) for name, p in self.parameters.items()}
        ones = {k: (np.ones(size) if self.parameters[k].prior.on else v) for k, v in draws.items()}
        units = self.term_units(ones, at)
        return {name: values / units[name] if name in units else values for name, values in draws.items()}

    def with_priors(self, priors: Mapping[str, Prior]) -> Law:
        """The same law with other priors."""
        for name in priors:
            if name not in self.parameters:
                known = ", ".join(self.parameters)
                raise CardError(
                    f"{name} is not a parameter of {self.name}. Parameters are {known}.{nearest(name, self.parameters)}"
                )
        changed = {k: replace(p, prior=priors.get(k, p.prior)) for k, p in self.parameters.items()}
        law = replace(self, parameters=changed)
        _check_on(law)
        return law

    @cached_property
    def amplitudes(self) -> dict[str, Expression]:
        """Positive parameters that an additive term is proportional to, with that term: A -> A/N**alpha. Not a bare E."""
        rng, found = np.random.default_rng(0), dict[str, Expression]()
        values: dict[str, Any] = {k: np.exp(rng.uniform(-1, 0, 4)) for k in self.parameters}
        values |= {k: c.support[0] + np.exp(rng.uniform(-2, 0, 4)) for k, c in self.covariates.items()}
        positive = [n for n, p in self.parameters.items() if p.prior.support == "positive"]
        for sign, term in self.loss.terms:
            for name in sorted(positive, key=lambda n: self.parameters[n].prior.on is None):
                if term.text != name and name not in found and self._proportional(term, name, values):
                    found[name] = term if sign > 0 else Expression(f"-({term.text})", ast.UnaryOp(ast.USub(), term.tree))
                    break
        return found

    def _proportional(self, term: Expression, name: str, values: Mapping[str, Any]) -> bool:
        with np.errstate(all="ignore"):
            one, three = (term.evaluate(self.with_let({**values, name: np.full(4, v)})) for v in (1.0, 3.0))
        return bool(np.all(np.isfinite(one)) and np.all(one != 0) and np.allclose(three, 3 * one, rtol=1e-9))

    @cached_property
    def floor(self) -> str | None:
        """The parameter that is an additive term by itself (E), if there is one."""
        return next((t.text for sign, t in self.loss.terms if sign > 0 and t.text in self.parameters), None)

    @cached_property
    def symbols(self) -> dict[str, str]:
        """LaTeX symbol of every name."""
        names = [*self.covariates, *self.let]
        return {n: default_symbol(n) for n in names} | {n: p.latex for n, p in self.parameters.items()}

    def latex(self) -> str:
        """The formula in LaTeX, let-expressions after 'where'."""
        text = "L = " + self.loss.latex(self.symbols)
        parts = [f"{self.symbols[n]} = {e.latex(self.symbols)}" for n, e in self.let.items()]
        return text + (r" \quad\text{where}\quad " + r",\quad ".join(parts) if parts else "")


# --- reading cards --------------------------------------------------------------------------------------------------


def card_folder() -> Path:
    """The folder of the cards that come with bayeslaw: inside the wheel, or beside the package in a checkout."""
    inside = Path(__file__).parent / "models"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "models"


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
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CardError(f"The card {path} can't be read: {error}.") from None
    return parse_card(text, str(path))


def parse_card(text: str, origin: str = "card") -> Law:
    """Build a law from the text of a card; `origin` names it in errors."""
    try:
        card = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CardError(f"{origin} is not a TOML file: {error}.") from None
    try:
        return _build(card, text)
    except _LocatedError as error:
        line = _line(text, error.section, error.key)
        raise CardError(f"{origin}, line {line}: {error}" if line else f"{origin}: {error}") from None
    except OverflowError:
        raise CardError(f"{origin}: a number in it is too large.") from None


class _LocatedError(BayeslawError):
    """A fault of a card, with the section and key where it lies."""

    def __init__(self, message: str, section: str = "", key: str = "") -> None:
        super().__init__(message)
        self.section, self.key = section, key


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
        raise _LocatedError(f"`{key}` must be a non-empty text, not {value!r}.", section, key)
    return " ".join(value.split())


def _build(card: Mapping[str, Any], text: str) -> Law:
    for key in card:
        if key not in _TOP:
            raise _LocatedError(f"a card has no {key!r}; it has {', '.join(sorted(_TOP))}.{nearest(key, _TOP)}", "", key)
    for section in ("let", "covariates", "parameters", "published"):
        if not isinstance(card.get(section, {}), dict):
            raise _LocatedError(f"`{section}` must be a table.", "", section)
    covariates = {k: _covariate(k, v) for k, v in card.get("covariates", {}).items()}
    parameters = {k: _parameter(k, v) for k, v in card.get("parameters", {}).items()}
    let = {k: _expression(v, "let", k) for k, v in card.get("let", {}).items()}
    loss = _expression(_text(card, "loss"), "", "loss")
    _check_names(loss, let, covariates, parameters)
    delta = card.get("huber_delta", 1e-3)
    if type(delta) not in (int, float) or not delta > 0:
        raise _LocatedError(f"`huber_delta` must be a positive number, not {delta!r}.", "", "huber_delta")
    law = Law(
        name=_text(card, "name"),
        title=_text(card, "title"),
        source=_text(card, "source"),
        loss=loss,
        let=_ordered(let),
        covariates=covariates,
        parameters=parameters,
        published=_published(card.get("published", {})),
        note=" ".join(str(card.get("note", "")).split()),
        huber_delta=float(delta),
        card=text,
    )
    _check_on(law)
    return law


def _expression(text: Any, section: str, key: str) -> Expression:
    try:
        return Expression.parse(text)
    except FormulaError as error:
        raise _LocatedError(str(error), section, key) from None


def _covariate(name: str, table: Any) -> Covariate:
    if not isinstance(table, dict):
        raise _LocatedError(f"covariate {name} must be a table with unit and support.", "covariates", name)
    if unknown := set(table) - {"unit", "support", "at_least"}:
        raise _LocatedError(
            f"covariate {name} has no {', '.join(sorted(unknown))}; it has unit, support, at_least.", "covariates", name
        )
    support = table.get("support", [])
    numbers = isinstance(support, list) and len(support) == 2 and all(type(v) in (int, float) for v in support)
    if not numbers or not support[0] < support[1]:
        raise _LocatedError(f"the support of {name} must be [smallest, largest], not {support!r}.", "covariates", name)
    at_least = table.get("at_least", 1)
    if type(at_least) is not int or at_least < 1:
        raise _LocatedError(f"at_least of {name} must be a whole number from 1, not {at_least!r}.", "covariates", name)
    unit = table.get("unit")
    if not isinstance(unit, str):
        raise _LocatedError(f"the unit of {name} must be a text, not {unit!r}.", "covariates", name)
    return Covariate(name, unit, (float(support[0]), float(support[1])), at_least)


def _parameter(name: str, table: Any) -> Parameter:
    section = f"parameters.{name}"
    if not isinstance(table, dict):
        raise _LocatedError(f"parameter {name} must be a table with meaning and prior.", "parameters", name)
    if unknown := set(table) - {"meaning", "unit", "latex", "prior"}:
        raise _LocatedError(
            f"parameter {name} has no {', '.join(sorted(unknown))}; it has meaning, unit, latex, prior.", section, min(unknown)
        )
    if not isinstance(table.get("prior"), dict):
        raise _LocatedError(
            f'parameter {name} has no prior; give one such as {{ dist = "LogNormal", mu = 0, sigma = 1 }}.', "parameters", name
        )
    try:
        prior = Prior.from_card(table["prior"])
    except BayeslawError as error:
        raise _LocatedError(f"the prior of {name}: {error}", section, "prior") from None
    latex = str(table.get("latex", default_symbol(name)))
    return Parameter(name, _text(table, "meaning", section), str(table.get("unit", "")), latex, prior)


def _published(tables: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    for name, table in tables.items():
        if not isinstance(table, dict) or not all(type(v) in (int, float) for v in table.values()):
            raise _LocatedError(f"[published.{name!r}] must be a table of numbers.", f"published.{name}", "")
    return {name: {k: float(v) for k, v in table.items()} for name, table in tables.items()}


def _check_names(
    loss: Expression, let: Mapping[str, Expression], covariates: Mapping[str, Covariate], parameters: Mapping[str, Parameter]
) -> None:
    groups: Sequence[tuple[str, Mapping[str, Any]]] = (("let", let), ("covariates", covariates), ("parameters", parameters))
    seen: dict[str, str] = {}
    for section, group in groups:
        for name in group:
            if not name.isidentifier() or name.startswith("_") or name in RESERVED:
                raise _LocatedError(
                    f"{name!r} can't be a name: use letters, digits and _, and none of {', '.join(sorted(RESERVED))}.",
                    section,
                    name,
                )
            if name in seen:
                raise _LocatedError(f"{name!r} stands both under [{seen[name]}] and under [{section}].", section, name)
            seen[name] = section
    for section, key, expression in [("", "loss", loss), *(("let", k, e) for k, e in let.items())]:
        for name in sorted(expression.names):
            if name not in seen:
                known = ", ".join(seen) or "none"
                raise _LocatedError(f"unknown name {name!r} in {key!r}; known are {known}.{nearest(name, seen)}", section, key)
    used = loss.names.union(*(e.names for e in let.values()))
    for section, group in groups:
        for name in group:
            if name not in used:
                raise _LocatedError(f"{name!r} is not used by the formula.", section, name)


def _ordered(let: Mapping[str, Expression]) -> dict[str, Expression]:
    """Sort let-expressions so that each uses only earlier ones."""
    done: dict[str, Expression] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise _LocatedError(f"[let] goes in a circle: {' -> '.join((*path[path.index(name) :], name))}.", "let", name)
        for used in sorted(let[name].names & let.keys()):
            visit(used, (*path, name))
        done[name] = let[name]

    for name in let:
        visit(name, ())
    return done


def _check_on(law: Law) -> None:
    """Each `on` must name things of the card, be proportional to its parameter, and not need a parameter that itself has one."""
    known = {*law.covariates, *law.parameters, *law.let}
    relative = {n for n, p in law.parameters.items() if p.prior.on}
    for name in relative:
        on = law.parameters[name].prior.on
        assert on is not None
        section = f"parameters.{name}"
        if unknown := sorted(on.names - known):
            raise _LocatedError(f"unknown name {unknown[0]!r} in `on` of {name}.{nearest(unknown[0], known)}", section, "prior")
        if others := sorted((on.names & relative) - {name}):
            raise _LocatedError(
                f"`on` of {name} uses {others[0]}, whose own prior has an `on`; only one of them can.", section, "prior"
            )
        at = {k: float(np.sqrt(max(c.support[0], 1e-3) * c.support[1])) for k, c in law.covariates.items()}
        rng = np.random.default_rng(0)
        draws = {k: (np.ones(1) if k in relative else p.prior.sample(1, rng)) for k, p in law.parameters.items()}
        one, three = (on.evaluate(law.with_let({**draws, **at, name: np.array([v])})) for v in (1.0, 3.0))
        if not np.allclose(three, 3 * one, rtol=1e-9) or not np.all(one > 0):
            raise _LocatedError(
                f"`on` of {name} must be positive and proportional to {name}; {on.text!r} is not.", section, "prior"
            )
