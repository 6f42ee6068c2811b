"""Mixtures in cards: covariates that are shares of one whole and sum to one, and formulas that sum over them.

A card lists its shares, and parameters that have a value for each share:

    [mixture]
    shares = ["web", "code", "books"]

    [parameters.t]
    over = "shares"

Formulas write `dot(t, shares)` for t_web*web + t_code*code + t_books*books, and `total(...)` for any other sum over the shares,
in which `shares` stands for one of them and t for its value. These are written out when the card is read, so that all else sees
an ordinary formula with the covariates web, code, books and the parameters t_web, t_code, t_books.

Shares sum to one. Adding a number to all values of t in c + k*exp(dot(t, shares)) therefore does the same as a factor of k, and
only their priors tell the two apart. A `reference` takes the other way: the value of t for that share is 0.
"""

from __future__ import annotations

import ast
import copy
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bayeslaw.core.errors import CardError, nearest, shortened
from bayeslaw.core.toml import parse_toml
from bayeslaw.laws.formula import Expression, FormulaError, default_symbol, on_one_line
from bayeslaw.laws.law import Covariate, LocatedError, Parameter

SHARES = "shares"
OF_MIXTURES = ("shares", "reference")
MOST_SHARES = 40
FOR_FORMULAS = "write dot({name}, shares), or {name} within total(...)"


@dataclass(frozen=True)
class Mixture:
    """The shares of a card, and the names of the parameters that have a value for each.

    Attributes
    ----------
    shares : tuple of str
        Empty for a card without a mixture.
    reference : str
        The share whose values are 0, or empty.
    over : frozenset of str
    """

    shares: tuple[str, ...] = ()
    reference: str = ""
    over: frozenset[str] = field(default_factory=frozenset)

    def expression(self, text: Any, section: str, key: str, share: str = "") -> Expression:
        """Return a formula of the card, its sums over shares written out; outside them names stand for those of `share`, if given.

        Parameters
        ----------
        text : str
        section, key : str
            Where it stands in the card, for errors.
        share : str
        """
        try:
            if not self.shares or not isinstance(text, str) or not {SHARES, *self.over} & {*re.findall(r"\w+", text)}:
                return Expression.parse(text)
            expression = Expression.parse(self._written_out(on_one_line(text), share))
        except FormulaError as error:
            raise LocatedError(str(error), section, key, code=error.code) from None
        if left := sorted(expression.names & {SHARES, *self.over}):
            how = FOR_FORMULAS.format(name=left[0]) if left[0] != SHARES else "write dot(t, shares), or shares within total(...)"
            message = f"{left[0]!r} has a value for each share: {how}."
            raise LocatedError(message, section, key, code="share-outside-total")
        return expression

    def _written_out(self, text: str, share: str) -> str:
        try:
            tree = ast.parse(text, mode="eval").body
            tree = _Expansion(self).visit(_OfShare(self, share).visit(tree) if share else tree)
            return re.sub(r" (\*\*?|/) ", r"\1", ast.unparse(tree))  # as cards are written; formulas hold no texts
        except FormulaError:
            raise
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return text  # whose fault `Expression.parse` names

    def members(self, parameter: Parameter) -> dict[str, Parameter]:
        """Return the parameters for the shares, but for the reference, of one that is over the shares."""
        own, symbol = {}, parameter.latex if "_" not in parameter.latex else f"{{{parameter.latex}}}"
        for share in (s for s in self.shares if s != self.reference):
            name = f"{parameter.name}_{share}"
            latex = rf"{symbol}_{{{default_symbol(share)}}}"
            own[name] = replace(parameter, name=name, meaning=f"{parameter.meaning}: {share}", latex=latex, over=parameter.name)
        return own

    @property
    def covariates(self) -> dict[str, Covariate]:
        """The shares as covariates."""
        return {name: Covariate(name, "share of the mixture", (0.0, 1.0)) for name in self.shares}


def read_mixture(card: Mapping[str, Any]) -> Mixture:
    """Return the mixture of a card, empty where it has none; a faulty one raises LocatedError."""
    parameters, covariates = card.get("parameters", {}), card.get("covariates", {})
    over = frozenset(k for k, v in parameters.items() if isinstance(v, dict) and "over" in v)
    if "mixture" not in card:
        if over:
            name = min(over)
            raise LocatedError(
                f"`over` of {name} needs a section [mixture] with shares.", f"parameters.{name}", "over", code="no-mixture"
            )
        return Mixture()
    table = card["mixture"]

    def fault(message: str, key: str, code: str) -> LocatedError:
        return LocatedError(message, "mixture", key, code=code)

    if not isinstance(table, dict) or "shares" not in table:
        raise fault('a mixture needs `shares`, such as ["web", "code"].', "", "no-shares")
    if unknown := sorted(set(table) - {*OF_MIXTURES}):
        known = f"{', '.join(OF_MIXTURES)}.{nearest(unknown[0], OF_MIXTURES)}"
        raise fault(f"a mixture has no {unknown[0]!r}; it has {known}", unknown[0], "unknown-key")
    try:
        shares = checked_shares(table["shares"])
        reference = checked_reference(table.get("reference", ""), shares)
    except CardError as error:
        raise fault(str(error), "reference" if error.code == "unknown-share" else "shares", error.code) from None
    for name in over:
        if (value := parameters[name]["over"]) != SHARES:
            message = f'`over` of {name} is "{SHARES}", not {shortened(repr(value))}.'
            raise LocatedError(message, f"parameters.{name}", "over", code="unknown-over")
    if clash := sorted({*shares, SHARES, "dot"} & {*parameters, *covariates, *card.get("let", {})}):
        raise fault(
            f"{clash[0]!r} belongs to the mixture and stands elsewhere in the card too: rename it.", "shares", "name-used-twice"
        )
    return Mixture(shares, reference, over)


def checked_shares(shares: Any) -> tuple[str, ...]:
    """Return the names of shares: from 2 to `MOST_SHARES` different ones that formulas can use."""
    given = [shares] if isinstance(shares, str) else shares
    if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise CardError(f"Shares are names such as web, code, books, not {shortened(repr(shares))}.", code="not-names")
    names = tuple(name.strip() for text in given for name in text.split(","))
    if not 2 <= len(names) <= MOST_SHARES:
        raise CardError(
            f"A mixture has 2 to {MOST_SHARES} shares, not {len(names)} ({', '.join(names[:3])}).", code="number-of-shares"
        )
    for name in names:
        if not name.isidentifier() or name.startswith("_") or name == SHARES:
            other = re.sub(r"\W+", "_", name).strip("_")
            other = other if other[:1].isalpha() and other != SHARES else f"share_{other}"
            message = (
                f"{name!r} can't be the name of a share: use letters, digits and _; rename the column, or call the share {other} "
                f'and read it by `--column "{other}={name}"` (in Python columns={{{other!r}: {name!r}}}).'
            )
            raise CardError(message, code="invalid-name")
    if twice := [name for name in names if names.count(name) > 1]:
        raise CardError(f"The share {twice[0]!r} is given twice.", code="name-used-twice")
    return names


def checked_reference(reference: Any, shares: Sequence[str]) -> str:
    """Return the share whose coefficients are 0, or '' for none; any other name is refused."""
    if not isinstance(reference, str) or (reference and reference not in shares):
        message = f"`reference` is one of the shares {', '.join(shares)}, not {shortened(repr(reference))}."
        raise CardError(message, code="unknown-share")
    return reference


def with_shares(text: str, shares: Sequence[str] | str | None, reference: str | None, name: str) -> str:
    """Return the text of a card with other shares, or another reference, in its section [mixture].

    Parameters
    ----------
    text : str
    shares, reference : as in `bayeslaw.load_law`
    name : str
        Name of the card, for errors.
    """
    card = parse_toml(text, name)
    if "mixture" not in card:
        message = f"{name} has no mixture, so it takes no shares and no reference; data-mixing, for one, does."
        raise CardError(message, code="law-without-mixture")
    old = read_mixture(card)
    names = old.shares if shares is None else checked_shares(shares)
    kept = old.reference if old.reference in names else ""
    chosen = kept if reference is None else checked_reference(reference, names)
    lines = [
        "[mixture]",
        f"shares = [{', '.join(f'"{name}"' for name in names)}]",
        *([f'reference = "{chosen}"'] if chosen else []),
    ]
    new = re.sub(r"(?ms)^[ \t]*\[mixture\].*?(?=^[ \t]*\[[A-Za-z_]|\Z)", "\n".join(lines) + "\n\n", text, count=1)
    if parse_toml(new, name) != card | {"mixture": {"shares": list(names)} | ({"reference": chosen} if chosen else {})}:
        message = f"The section [mixture] of {name} can't be replaced: write the shares into the card."
        raise CardError(message, code="mixture-not-replaceable")
    return new


class _OfShare(ast.NodeTransformer):
    """Put one share, and the parameters' values for it, in place of their names."""

    def __init__(self, mixture: Mixture, share: str) -> None:
        self.mixture, self.share = mixture, share

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == SHARES:
            return ast.Name(self.share, ast.Load())
        if node.id not in self.mixture.over:
            return node
        return ast.Constant(0) if self.share == self.mixture.reference else ast.Name(f"{node.id}_{self.share}", ast.Load())


class _Expansion(ast.NodeTransformer):
    """Write sums over shares out."""

    def __init__(self, mixture: Mixture) -> None:
        self.mixture = mixture

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        names = {inner.id for argument in node.args for inner in ast.walk(argument) if isinstance(inner, ast.Name)}
        if name == "dot":
            if len(node.args) != 2 or node.keywords:
                raise FormulaError(f"dot takes 2 arguments: {ast.unparse(node)!r} has others.", code="wrong-arguments")
            return self._sum(ast.BinOp(node.args[0], ast.Mult(), node.args[1]), names)
        if name == "total" and len(node.args) == 1 and names & {SHARES, *self.mixture.over}:
            return self._sum(node.args[0], names)
        return self.generic_visit(node)

    def _sum(self, argument: ast.expr, names: set[str]) -> ast.expr:
        if not names & {SHARES, *self.mixture.over}:
            text = ast.unparse(argument)
            raise FormulaError(
                f"a sum over the shares needs shares, or a parameter over them: {text!r} has none.", code="total-without-shares"
            )
        if any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in ("dot", "total") for n in ast.walk(argument)
        ):
            raise FormulaError(f"{ast.unparse(argument)!r} has a total within a total.", code="nested-total")
        terms: list[ast.expr] = [_OfShare(self.mixture, share).visit(copy.deepcopy(argument)) for share in self.mixture.shares]
        # A product with the reference's 0 is left out, so that formulas stay short.
        kept = [term for term in terms if not _is_zero_product(term)] or [ast.Constant(0)]
        return functools.reduce(lambda a, b: ast.BinOp(a, ast.Add(), b), kept)


def _is_zero_product(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _is_zero_product(node.left) or _is_zero_product(node.right)
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 0
