"""Read and check cards, laws as TOML files; errors name the line of the fault."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from bayeslaw.core.errors import BayeslawError, CardError, kind_of, nearest, shortened
from bayeslaw.core.files import TABLE_ENDINGS, own_path
from bayeslaw.core.toml import parse_toml
from bayeslaw.laws.faults import Faults, all_faults
from bayeslaw.laws.formula import Expression, column_of, default_symbol, names_behind, symbol_fault
from bayeslaw.laws.law import SPREAD, Covariate, Law, LocatedError, Parameter, faults_of_on
from bayeslaw.laws.mixture import Mixture, read_mixture, with_shares
from bayeslaw.laws.names import OF_RESULTS, RESERVED, check_names, same_members, unknown_names
from bayeslaw.laws.outcome import BOUNDS, KINDS, LOSS, Outcome
from bayeslaw.laws.prior import Prior
from bayeslaw.laws.references import Reference, read_references

MOST_NODES = 100
# The keys of a card, of a covariate and of a parameter, in the order in which a card is written; `laws.schema` describes each.
TOP = (
    "name", "title", "domain", "source", "references", "loss", "formula", "noise", "huber_delta", "corner_error", "note", "outcome",
    "let", "mixture", "covariates", "parameters", "tuning", "published",
)  # fmt: skip
TABLES = ("outcome", "let", "covariates", "parameters", "tuning", "published")
DOMAINS = ("source", "target")  # of adaptations
NOISES = ("normal-drift",)  # that a card may name
CORNER_ERROR = 10  # times the learnt error at most, up or down
NEEDED = {"covariates": "N", "parameters": "E"}
"""Tables of a card, and those that a law can't be without, each with a usual name in it."""
OF_COVARIATES = ("unit", "support", "at_least", "context", "log", "share_of", "nodes")
OF_OUTCOMES = ("name", "unit", "kind", "bounds", "scale", "chance", "items", "run_shifts")
OF_PARAMETERS = ("meaning", "unit", "latex", "prior", "by", "spread", "pooled", "over")


def card_folder() -> Path:
    """Return the folder of the cards that come with bayeslaw: inside the wheel, or beside the package in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "models"
    return inside if inside.is_dir() else package.parent / "models"


def law_names() -> list[str]:
    """Return the names of the laws that come with bayeslaw.

    Examples
    --------
    >>> "chinchilla" in bayeslaw.law_names()
    True
    """
    return sorted(p.stem for p in card_folder().glob("*.toml"))


def laws_with(covariates: Collection[str], domain: str) -> list[str]:
    """Return the names of the laws of bayeslaw for losses of a domain that have these covariates and no others.

    Parameters
    ----------
    covariates, domain : collection of str, str
    """
    texts = {name: (card_folder() / f"{name}.toml").read_text(encoding="utf-8") for name in law_names()}
    cards = {name: parse_toml(text, name) for name, text in texts.items()}
    return [n for n, card in cards.items() if card.get("domain") == domain and {*card.get("covariates", ())} == {*covariates}]


def load_law(name: Law | str | Path, *, shares: Sequence[str] | str | None = None, reference: str | None = None) -> Law:
    """Load a law that comes with bayeslaw by its name, or your own card by its path; a faulty card raises CardError.

    Parameters
    ----------
    name : str, path or Law
        A law is returned as it is; its shares and their reference were chosen when it was loaded.
    shares : sequence of str, or text with commas, optional
        The columns that are the shares of your mixture, in place of those in the card's section [mixture].
    reference : str, optional
        The share whose coefficients are 0, or '' for none, in place of the card's.

    Examples
    --------
    >>> bayeslaw.load_law("chinchilla")
    <Law chinchilla: loss = E + A/N**alpha + B/D**beta>
    >>> bayeslaw.load_law("data-mixing", shares=["wiki", "code"])
    <Law data-mixing: loss = c + k*exp(t_wiki*wiki + t_code*code)>
    """
    if isinstance(name, Law):
        if shares is not None or reference is not None:
            raise BayeslawError("Shares are given when a law is loaded: load_law(name, shares=…).", code="law-with-shares")
        return name
    if isinstance(name, (list, tuple)) and len(name) > 1:
        raise CardError(_several([str(law) for law in name]), code="several-laws")
    if not isinstance(name, (str, Path)):
        given = kind_of(name)
        advice = "have two arguments changed places?"
        if isinstance(getattr(name, "law", None), Law):  # a fit, which is above this package
            advice = "give the law that it is a fit of (fit.law); comparisons and backtests fit laws themselves."
        problem = f"A law is named by its name or the path of its card, not by {given}: {advice}"
        raise CardError(problem, code="not-a-law")
    path = own_path(name)
    if path.suffix.lower() in TABLE_ENDINGS:
        problem = f"{path.name} is a table, and a law is named by its name or its card (.toml): have two arguments changed places?"
        raise CardError(problem, code="table-for-a-law")
    if path.suffix.lower() == ".nc":
        problem = (
            f"{path.name} is the file of a fit, which bayeslaw.load_fit reads; a law is named by its name or its card (.toml)."
        )
        raise CardError(problem, code="fit-for-a-law")
    of_ours = isinstance(name, str) and name in law_names()  # whatever files there are in the working folder
    if path.suffix != ".toml" and (of_ours or not path.is_file()):
        if str(name) not in law_names():
            if {*(parts := str(name).split(","))} <= {*law_names()}:
                raise CardError(_several(parts), code="several-laws")
            known = f"Known are {', '.join(law_names())}; give the path of your own card."
            raise CardError(f"There is no law {str(name)!r}.{nearest(str(name), law_names())} {known}", code="unknown-law")
        path = card_folder() / f"{name}.toml"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # not UTF-8, or no path at all
        raise CardError(f"The card {path} can't be read: {error}.", code="unreadable-card") from None
    if shares is not None or reference is not None:
        parse_card(text, str(path))
        text = with_shares(text, shares, reference, str(name))
    return parse_card(text, str(path))


def _several(names: Sequence[str]) -> str:
    return (
        f"One law is taken here, not {len(names)} ({', '.join(names)}). With commas the commands fit, compare, backtest and check "
        "take several; in Python give fit_stack, compare or backtest a list."
    )


def load_laws(laws: Iterable[Law | str | Path] | Law | str | Path) -> list[Law]:
    """Return several laws, or the only one; a table in their place, whose columns would be taken for names, is refused."""
    if isinstance(laws, Iterable) and not isinstance(laws, (str, pd.DataFrame)):
        return [load_law(law) for law in laws]
    return [load_law(laws)]


def parse_card(text: str, origin: str = "card") -> Law:
    """Build a law from the text of a card; `origin` is what errors call it."""
    try:
        card = parse_toml(text, origin)
    except BayeslawError as error:
        raise CardError(str(error), code=error.code) from None
    try:
        faults = Faults()
        law = _build(card, text, faults)
        if law is not None and not faults.found:
            return law
    except OverflowError:
        raise CardError(f"{origin}: a number in it is too large.", code="huge-number") from None
    except RecursionError:
        raise CardError(f"{origin}: its [let] or its tables are nested too deeply.", code="nested-too-deeply") from None
    raise all_faults(faults.found, text, origin)


def require_card(law: Law) -> None:
    """Refuse a law that was changed in Python but for its priors and levels: files of fits and refits have that of its card."""
    card = parse_card(law.card, f"the card of {law.name}") if law.card else law
    for part in ("formula", "let", "measured", "outcome", "shares", "domain", "corner_error"):
        if getattr(card, part) != getattr(law, part):
            what = {"measured": "covariates", "let": "[let]", "corner_error": "`corner_error`"}.get(part, part)
            problem = f"The {what} of {law.name} {'are' if what[-1] == 's' else 'is'} not as in its card, which files of fits have"
            raise CardError(f"{problem}: change the card, and load it by its path.", code="not-its-card")


def _text(card: Mapping[str, Any], key: str, section: str = "", default: str | None = None) -> str:
    """Return a text on one line, needed unless there is a default; control characters, which a terminal obeys, are refused."""
    value = card.get(key, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        wanted = "a non-empty text" if default is None else "a text"
        raise LocatedError(f"`{key}` must be {wanted}, not {shortened(repr(value))}.", section, key, code="not-a-text")
    line = " ".join(value.split())
    if not line.isprintable():
        text = shortened(repr(line))
        raise LocatedError(f"`{key}` holds characters that can't be shown: {text}.", section, key, code="control-characters")
    return line


def _lines(card: Mapping[str, Any], key: str) -> str:
    """Return a text as `_text` does, with its line breaks, since comments end there."""
    _text(card, key)
    return re.sub(r"[^\S\r\n]+", " ", card[key])


def _unknown_keys(card: Mapping[str, Any]) -> list[LocatedError]:
    known = {key: f"{', '.join(sorted(TOP))}.{nearest(key, TOP)}" for key in card if key not in TOP}
    return [LocatedError(f"a card has no {key!r}; it has {text}", "", key, code="unknown-key") for key, text in known.items()]


def _wrong_sections(card: Mapping[str, Any]) -> list[LocatedError]:
    """Return faults of sections that are no tables, or empty where a law needs something: no other check can be made then."""
    faults = []
    for section in TABLES:
        if not isinstance(card.get(section, {}), dict):
            faults.append(LocatedError(f"`{section}` must be a table.", "", section, code="not-a-table"))
        elif section in NEEDED and not card.get(section) and not (section == "covariates" and "mixture" in card):
            message = f"a law needs at least one of [{section}], such as {NEEDED[section]}."
            faults.append(LocatedError(message, "", section, code="empty-section"))
    return faults


def _build(card: Mapping[str, Any], text: str, faults: Faults) -> Law | None:
    """Return the law, or None where the card has faults, which are collected."""
    faults.found += _unknown_keys(card)
    if wrong := _wrong_sections(card):
        faults.found += wrong
        return None
    if (mixture := faults.of(read_mixture, card)) is None:
        return None
    of_covariates = card.get("covariates", {})
    nodes = {k: v["nodes"] for k, v in of_covariates.items() if isinstance(v, dict) and "nodes" in v}
    series = faults.each(_nodes, nodes)
    given = faults.each(_covariate, of_covariates)
    by_key = faults.each(lambda k, v: _parameters(k, v, mixture), card["parameters"])
    parameters = {name: parameter for of_key in by_key.values() for name, parameter in of_key.items()}
    faults.found += same_members(by_key)
    let = faults.each(lambda k, v: mixture.expression(v, "let", k), card.get("let", {}))
    outcome, key = faults.of(_outcome, card), "formula" if "outcome" in card else "loss"
    formula = faults.of(lambda: mixture.expression(_lines(card, key), "", key)) if outcome is not None else None
    facts = _facts(card, outcome, faults)
    # A table of covariates, parameters or expressions of which some have a fault can't say which names are in use.
    whole = [len(part) == len(card.get(k, {})) for part, k in ((given, "covariates"), (by_key, "parameters"), (let, "let"))]
    if outcome is None or formula is None or not all((*whole, len(series) == len(nodes))):
        known = {**card.get("let", {}), **of_covariates, **mixture.covariates, **card["parameters"], **parameters}
        if all(map(str.isidentifier, known)) and not (card["parameters"].keys() - by_key.keys()) & {*mixture.over}:
            faults.found += unknown_names({} if formula is None else {key: formula}, let, known)
        return None
    before, given = len(faults.found), given | mixture.covariates
    check_names({key: formula}, let, given, parameters, outcome, faults, mixture.shares)
    faults.of(_check_totals, {key: formula}, let, series)
    covariates = faults.of(_with_nodes, given, series, {*let, *parameters}) or given
    ordered = faults.of(_ordered, let)
    if ordered is not None and len(faults.found) == before:
        faults.of(_check_tuning, facts["tuning"], ordered, given)
    if faults.found or ordered is None:
        return None
    law = Law(
        formula=formula, let=ordered, covariates=covariates, parameters=parameters, outcome=outcome, shares=mixture.shares,
        card=text, **facts,
    )  # fmt: skip
    faults.found += faults_of_on(law)
    return law


def _facts(card: Mapping[str, Any], outcome: Outcome | None, faults: Faults) -> dict[str, Any]:
    """Return what a card states beside its formula, as arguments of `Law`; what has a fault is left out."""
    facts: dict[str, Any] = {
        "tuning": faults.each(_tuned, card.get("tuning", {})),
        "published": faults.each(_published, card.get("published", {})),
        "references": faults.of(_references, card.get("references", [])),
        "huber_delta": faults.of(_delta, card.get("huber_delta", 1e-3)),
        "corner_error": faults.of(_corner_error, card.get("corner_error", 0.0), card.get("covariates", {}), outcome),
    }
    misspelt = bool({*card} - {*TOP})  # the misspelt key may be the one that is missing
    facts |= {k: faults.of(_text, card, k) for k in ("name", "title", "source") if k in card or not misspelt}
    facts["note"] = faults.of(_text, card, "note", default="")
    facts["domain"] = faults.of(_domain, card["domain"]) if "domain" in card else ""
    facts["noise"] = faults.of(_noise, card["noise"], outcome) if "noise" in card else ""
    return {name: value for name, value in facts.items() if value is not None}


def _nodes(name: str, number: Any) -> int:
    if type(number) is not int or not 2 <= number <= MOST_NODES:
        message = f"nodes of {name} must be a whole number from 2 to {MOST_NODES}, not {number!r}."
        raise LocatedError(message, "covariates", name, code="not-a-whole-number")
    return number


def _with_nodes(given: Mapping[str, Covariate], series: Mapping[str, int], others: Collection[str]) -> dict[str, Covariate]:
    """Return the covariates with each series written out as its columns."""
    covariates: dict[str, Covariate] = {}
    for k, c in given.items():
        columns = {column_of(k, node): k for node in range(1, series[k] + 1)} if k in series else {k: ""}
        if twice := [name for name, of in columns.items() if of and name in {*given, *others}]:
            raise LocatedError(f"{twice[0]!r} is a column of a series: use another name.", "", twice[0], code="name-used-twice")
        covariates |= {name: replace(c, name=name, series=of) for name, of in columns.items()}
    return covariates


def _published(name: str, table: Any) -> dict[str, float]:
    if not all(key.isprintable() for key in (name, *(table if isinstance(table, dict) else ()))):
        message = f"[published.{name!r}] holds characters that can't be shown."
        raise LocatedError(message, "", "published", code="control-characters")
    if not isinstance(table, dict) or not all(type(v) in (int, float) for v in table.values()):
        raise LocatedError(f"[published.{name!r}] must be a table of numbers.", f"published.{name}", code="not-numbers")
    return {k: float(v) for k, v in table.items()}


def _references(given: object) -> tuple[Reference, ...]:
    try:
        return read_references(given)
    except BayeslawError as error:
        raise LocatedError(str(error), "", "references", code=error.code) from None


def _domain(domain: Any) -> str:
    if domain not in DOMAINS:
        message = f"`domain` must be {' or '.join(DOMAINS)}, whose losses a law of adaptations describes, not {domain!r}."
        raise LocatedError(message, "", "domain", code="unknown-domain")
    return str(domain)


def _noise(noise: Any, outcome: Outcome | None) -> str:
    if noise not in NOISES:
        message = f"`noise` is that of runs that are logged often, {' or '.join(NOISES)}, not {noise!r}; leave it out otherwise."
        raise LocatedError(message, "", "noise", code="unknown-noise")
    if outcome is not None and outcome.kind == "count":
        message = f"`noise` is that of losses, and {outcome.name} is a share of counted {outcome.items}: leave it out."
        raise LocatedError(message, "", "noise", code="unknown-noise")
    return str(noise)


def _delta(delta: Any) -> float:
    if not _is_positive(delta):
        raise LocatedError(f"`huber_delta` must be a positive number, not {delta!r}.", "", "huber_delta", code="not-positive")
    return float(delta)


def _corner_error(mean: Any, covariates: Mapping[str, Any], outcome: Outcome | None) -> float:
    if isinstance(mean, bool) or not isinstance(mean, (int, float)) or not abs(mean) <= CORNER_ERROR:
        message = f"`corner_error` must be a number from -{CORNER_ERROR:g} to {CORNER_ERROR:g}, not {mean!r}."
        raise LocatedError(message, "", "corner_error", code="not-in-range")
    of_losses = outcome is None or outcome.relative
    if mean and not (of_losses and {"N", "D"} <= {*covariates} and "ptpp" not in covariates):
        message = "`corner_error` is of laws of losses by N and D, without ptpp, and this is none: leave it out."
        raise LocatedError(message, "", "corner_error", code="not-of-sizes-and-tokens")
    return float(mean)


def _tuned(name: str, optimum: Any) -> str:
    if not isinstance(optimum, str):
        message = f"[tuning] says by which expression of [let] a covariate is best: {name} = {shortened(repr(optimum))} names none."
        raise LocatedError(message, "tuning", name, code="not-a-text")
    return optimum


def _check_tuning(tuning: Mapping[str, str], let: Mapping[str, Expression], covariates: Mapping[str, Covariate]) -> None:
    """Check that tuned covariates are in the formula, and that their optima are expressions of [let] that use none of them."""
    used = names_behind(let)
    for name, optimum in tuning.items():
        if name not in covariates or covariates[name].context:
            message = f"{name!r} is no covariate of the formula, so it has no optimum.{nearest(name, covariates)}"
            raise LocatedError(message, "tuning", name, code="unknown-name")
        if optimum not in let:
            message = f"the optimum of {name}, {optimum!r}, is no expression of [let].{nearest(optimum, let)}"
            raise LocatedError(message, "tuning", name, code="unknown-name")
        if tuned := sorted(used[optimum] & tuning.keys()):
            message = f"the optimum of {name}, {optimum!r}, depends on {tuned[0]}, which is tuned itself."
            raise LocatedError(message, "tuning", name, code="tuned-by-tuned")


def _parameters(name: str, table: Any, mixture: Mixture) -> dict[str, Parameter]:
    """Return the parameter of a section, or those for the shares of a mixture."""
    parameter, over = _parameter(name, table), name in mixture.over
    members = mixture.members(parameter) if over else {name: parameter}
    if (on := table["prior"].get("on")) is None:
        return members
    of = {
        key: mixture.expression(on, f"parameters.{name}", "prior", key.removeprefix(f"{name}_") if over else "") for key in members
    }
    return {key: replace(p, prior=replace(p.prior, on=of[key])) for key, p in members.items()}


def _covariate(name: str, table: Any) -> Covariate:
    def fault(message: str, code: str) -> LocatedError:
        return LocatedError(message, "covariates", name, code=code)

    if not isinstance(table, dict):
        raise fault(f"covariate {name} must be a table with unit and support.", "not-a-table")
    if unknown := sorted(set(table) - {*OF_COVARIATES}):
        raise fault(f"covariate {name} has no {', '.join(unknown)}; it has {', '.join(OF_COVARIATES)}.", "unknown-key")
    support = table.get("support", [])
    if not _is_pair(support) or not -math.inf < support[0] < support[1] < math.inf:
        raise fault(f"the support of {name} must be [smallest, largest], not {shortened(repr(support))}.", "invalid-support")
    at_least = table.get("at_least", 1)
    if type(at_least) is not int or at_least < 1:
        raise fault(f"at_least of {name} must be a whole number from 1, not {at_least!r}.", "not-a-whole-number")
    unit = table.get("unit")
    if not isinstance(unit, str):
        raise fault(f"the unit of {name} must be a text, not {unit!r}.", "not-a-text")
    if not unit.isprintable():
        raise fault(f"the unit of {name} holds characters that can't be shown: {shortened(repr(unit))}.", "control-characters")
    flags = {flag: table.get(flag, False) for flag in ("context", "log")}
    for flag, value in flags.items():
        if not isinstance(value, bool):
            raise fault(f"{flag} of {name} must be true or false, not {value!r}.", "not-a-boolean")
    if flags["log"] and support[0] < 0:
        raise fault(f"{name} may be negative: distances in it can't be counted in e-folds.", "negative-logarithm")
    share_of = table.get("share_of", "")
    if not isinstance(share_of, str):
        raise fault(f"share_of of {name} must be the name of a covariate, not {share_of!r}.", "not-a-text")
    return Covariate(name, unit, (float(support[0]), float(support[1])), at_least, **flags, share_of=share_of)


def _is_positive(value: object) -> bool:
    """Whether a value of a card is a positive, finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def _is_pair(value: object) -> bool:
    """Whether a value of a card is a list of two numbers."""
    return isinstance(value, list) and len(value) == 2 and all(type(v) in (int, float) for v in value)


def _outcome(card: Mapping[str, Any]) -> Outcome:
    """Return what the card's law predicts: a loss, unless it has a section [outcome]."""
    if "outcome" not in card:
        if "formula" in card:
            message = "a law of another outcome than losses needs a section [outcome], with name and kind."
            raise LocatedError(message, "", "formula", code="formula-and-outcome")
        return LOSS
    if "loss" in card:
        message = "with [outcome], the expected outcome is called `formula`."
        raise LocatedError(message, "", "loss", code="formula-and-outcome")
    table = card["outcome"]

    def fault(message: str, key: str, code: str) -> LocatedError:
        return LocatedError(message, "outcome", key, code=code)

    if unknown := sorted(set(table) - {*OF_OUTCOMES}):
        known = f"{', '.join(OF_OUTCOMES)}.{nearest(unknown[0], OF_OUTCOMES)}"
        raise fault(f"an outcome has no {unknown[0]!r}; it has {known}", unknown[0], "unknown-key")
    name, kind = _text(table, "name", "outcome"), table.get("kind")
    if reason := _not_an_outcome(name):
        raise fault(f"{name!r} can't be the name of an outcome: {reason}.", "name", "invalid-name")
    if kind not in KINDS:
        raise fault(f"the kind of an outcome is one of {', '.join(KINDS)}, not {shortened(repr(kind))}.", "kind", "unknown-kind")
    bounds = table.get("bounds", list(BOUNDS.get(kind, ())))
    if ("bounds" in table) != (kind == "bounded"):
        raise fault("outcomes of kind bounded have `bounds`, such as [0, 1], and others have none.", "bounds", "invalid-bounds")
    if not _is_pair(bounds) or not bounds[0] < bounds[1] or (kind == "bounded" and not all(map(math.isfinite, bounds))):
        raise fault(f"bounds must be [lowest, highest], not {shortened(repr(bounds))}.", "bounds", "invalid-bounds")
    scale, chance, items = table.get("scale", 1.0), table.get("chance"), table.get("items", "")
    if not _is_positive(scale) or ("scale" in table and kind != "real"):
        raise fault("`scale`, of outcomes of kind real, is a positive number: a typical size.", "scale", "not-positive")
    if (
        chance is not None
        and not isinstance(chance, str)
        and (type(chance) not in (int, float) or not bounds[0] <= chance <= bounds[1])
    ):
        message = f"`chance` is a number between the bounds or the name of a covariate, not {shortened(repr(chance))}."
        raise fault(message, "chance", "invalid-chance")
    if not isinstance(items, str) or bool(items) != (kind == "count"):
        message = "an outcome of kind count, and no other, has `items`: the covariate with the number of items of each row."
        raise fault(message, "items", "invalid-items")
    shifts = table.get("run_shifts", "")
    if not isinstance(shifts, str) or (shifts and kind != "count"):
        message = "`run_shifts`, of outcomes of kind count, names the covariate that effects of runs are added to."
        raise fault(message, "run_shifts", "invalid-run-shifts")
    unit = _text(table, "unit", "outcome", "")
    return Outcome(name, unit, kind, (float(bounds[0]), float(bounds[1])), float(scale), chance, items, shifts)


def _not_an_outcome(name: str) -> str:
    """Say why an outcome can't have a name; '' if it can."""
    if name == LOSS.name:
        return "laws of losses have no [outcome]"
    if name in RESERVED:
        return "a column or function has that name"
    if name in OF_RESULTS:
        return "results have a column of that name"
    return "" if name.isidentifier() and not name.startswith("_") else "use letters, digits and _"


def _check_totals(formula: Mapping[str, Expression], let: Mapping[str, Expression], series: Mapping[str, int]) -> None:
    """Check that series stand within total(...) only, that each total has one, and that all have equally many nodes."""
    for section, key, expression in [*(("", k, e) for k, e in formula.items()), *(("let", k, e) for k, e in let.items())]:
        if outside := sorted(expression.outside_totals & series.keys()):
            message = f"{outside[0]!r} is a series of nodes: it can only stand within total(...)."
            raise LocatedError(message, section, key, code="series-outside-total")
        if empty := [argument.text for argument in expression.totals if not argument.names & series.keys()]:
            message = f"total({empty[0]}) names no series: give one of its covariates `nodes`."
            raise LocatedError(message, section, key, code="total-without-series")
    if len(set(series.values())) > 1:
        shown = ", ".join(f"{name} {number}" for name, number in series.items())
        raise LocatedError(f"series must have equally many nodes ({shown}).", "covariates", min(series), code="unequal-series")


def _parameter(name: str, table: Any) -> Parameter:
    """Return the parameter of a section, whose prior has no `on` yet."""
    section = f"parameters.{name}"
    if not isinstance(table, dict):
        message = f"parameter {name} must be a table with meaning and prior."
        raise LocatedError(message, "parameters", name, code="not-a-table")
    if unknown := sorted(set(table) - {*OF_PARAMETERS}):
        message = f"parameter {name} has no {', '.join(unknown)}; it has {', '.join(OF_PARAMETERS)}."
        raise LocatedError(message, section, unknown[0], code="unknown-key")
    if not isinstance(by := table.get("by", ""), str) or ("by" in table and not (by.strip() and by.isprintable())):
        raise LocatedError(f"`by` of {name} must name a column, not {by!r}.", section, "by", code="not-a-text")
    if not isinstance(table.get("prior"), dict):
        message = f'parameter {name} has no prior; give one such as {{ dist = "LogNormal", mu = 0, sigma = 1 }}.'
        raise LocatedError(message, "parameters", name, code="missing-prior")
    try:
        prior = Prior.from_card({k: v for k, v in table["prior"].items() if k != "on"})
    except BayeslawError as error:
        raise LocatedError(f"the prior of {name}: {error}", section, "prior", code=error.code) from None
    latex = _text(table, "latex", section, default_symbol(name))
    if "latex" in table and (reason := symbol_fault(latex)):
        message = f"`latex` of {name} must be a symbol such as \\beta_{{\\mathrm{{eff}}}}: {reason}."
        raise LocatedError(message, section, "latex", code="not-a-symbol")
    spread = table.get("spread", SPREAD)
    if not _is_positive(spread):
        message = f"`spread` of {name} must be a positive number, not {shortened(repr(spread))}."
        raise LocatedError(message, section, "spread", code="not-positive")
    if not isinstance(pooled := table.get("pooled", True), bool):
        raise LocatedError(f"`pooled` of {name} must be true or false, not {pooled!r}.", section, "pooled", code="not-a-bool")
    if not pooled and "on" in table["prior"]:
        message = f"{name} has a prior `on` an expression, which differs between values only if they are pooled: leave one out."
        raise LocatedError(message, section, "pooled", code="on-and-not-pooled")
    of_unit = _text(table, "unit", section, "")
    return Parameter(name, _text(table, "meaning", section), of_unit, latex, prior, by, float(spread), pooled)


def _ordered(let: Mapping[str, Expression]) -> dict[str, Expression]:
    """Sort let-expressions so that each uses only earlier ones."""
    done: dict[str, Expression] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in done:
            return
        if name in path:
            cycle = " -> ".join((*path[path.index(name) :], name))
            raise LocatedError(f"[let] expressions depend on each other: {cycle}.", "let", name, code="cycle")
        for used in sorted(let[name].names & let.keys()):
            visit(used, (*path, name))
        done[name] = let[name]

    for name in let:
        visit(name, ())
    return done
