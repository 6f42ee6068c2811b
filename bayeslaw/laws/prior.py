"""Priors as cards and the command line state them: the name of a distribution and its numbers."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, nearest, shortened
from bayeslaw.core.text import exact
from bayeslaw.laws.formula import Expression, is_finite

if TYPE_CHECKING:
    from scipy.stats._distn_infrastructure import rv_frozen

Support = Literal["real", "positive", "unit", "bounded"]

ARGUMENTS: dict[str, tuple[Support, tuple[str, ...]]] = {
    "LogNormal": ("positive", ("mu", "sigma")),
    "HalfNormal": ("positive", ("sigma",)),
    "Gamma": ("positive", ("alpha", "beta")),
    "Normal": ("real", ("mu", "sigma")),
    "StudentT": ("real", ("nu", "mu", "sigma")),
    "Beta": ("unit", ("alpha", "beta")),
    "Uniform": ("bounded", ("lower", "upper")),
    "TruncatedNormal": ("bounded", ("mu", "sigma", "lower", "upper")),
}
ANY_SIGN = {"mu", "lower", "upper"}
_FARTHEST = 8.0  # standard deviations from mu of the nearer bound: beyond them draws and quantiles lose their digits
_SHAPES = {("Gamma", "alpha"), ("StudentT", "nu"), ("Beta", "alpha"), ("Beta", "beta")}
# Beyond these numbers draws are 0 or infinite in floating point, and a sampler can't start from them.
_LARGEST, _LEAST_SHAPE, _LARGEST_LOG = 1e100, 0.05, 700.0
_BELOW = 0.15865525393145707  # share of a normal distribution more than a standard deviation below its mean


@lru_cache(maxsize=1024)  # SciPy writes the documentation of a distribution's methods anew for each: a millisecond
def _scipy(dist: str, *a: float) -> rv_frozen:
    from scipy import stats

    match dist:
        case "LogNormal":
            return stats.lognorm(s=a[1], scale=math.exp(a[0]))
        case "HalfNormal":
            return stats.halfnorm(scale=a[0])
        case "Gamma":
            return stats.gamma(a[0], scale=1 / a[1])
        case "Uniform":
            return stats.uniform(a[0], a[1] - a[0])
        case "TruncatedNormal":
            return stats.truncnorm((a[2] - a[0]) / a[1], (a[3] - a[0]) / a[1], a[0], a[1])
    return {"Normal": stats.norm, "StudentT": stats.t, "Beta": stats.beta}[dist](*a)


@dataclass(frozen=True)
class Prior:
    """A prior distribution, named and parametrised as in PyMC.

    Parameters
    ----------
    dist, args : str, mapping of str to float
        One of LogNormal, HalfNormal, Gamma, Normal, StudentT, Beta, Uniform, TruncatedNormal, and its numbers.
    on : Expression or its text, optional
        States the prior of an expression in place of the parameter: it is proportional to the parameter and evaluated at the
        reference point of the runs. ``A/N**alpha`` is the loss in nats that the term contributes there.

    Examples
    --------
    >>> prior = bayeslaw.Prior("LogNormal", {"mu": 0.5, "sigma": 0.3})
    >>> prior == bayeslaw.Prior.parse("LogNormal(0.5, 0.3)")
    True
    """

    dist: str
    args: Mapping[str, float]
    on: Expression | None = None

    if TYPE_CHECKING:  # `on` may be given as text, and is an expression then

        def __init__(self, dist: str, args: Mapping[str, float], on: Expression | str | None = None) -> None: ...

    def __post_init__(self) -> None:
        if self.dist not in [*ARGUMENTS]:  # a list, which may be given, is no key
            known = f"{', '.join(ARGUMENTS)}.{nearest(self.dist, ARGUMENTS)}"
            raise BayeslawError(f"There is no prior distribution {self.dist!r}; known are {known}", code="unknown-distribution")
        expected = ARGUMENTS[self.dist][1]
        if not isinstance(self.args, Mapping):
            example = ", ".join(f"'{name}': 0.5" for name in expected)
            problem = f"The numbers of {self.dist} are a mapping, such as {{{example}}}, not {shortened(repr(self.args))}"
            raise BayeslawError(f"{problem}; Prior.parse('{self.dist}(…)') reads a text.", code="wrong-prior-arguments")
        if set(self.args) != set(expected):
            missing = [name for name in expected if name not in self.args]
            problems = [f"{', '.join(missing)} is missing"] if missing else []
            problems += [f"{name} is none of them" for name in self.args if name not in expected]
            problem = f"{self.dist} takes {' and '.join(expected)}; {' and '.join(problems)}."
            raise BayeslawError(problem, code="wrong-prior-arguments")
        in_order = ((name, self.args[name]) for name in expected)  # in which its text gives them without their names
        object.__setattr__(self, "args", {k: v.item() if isinstance(v, np.generic) else v for k, v in in_order})
        for name, value in self.args.items():
            if not is_finite(value) or (name not in ANY_SIGN and value <= 0):
                wanted = "a finite number" if name in ANY_SIGN else "a positive number"
                shown = shortened(repr(value))
                raise BayeslawError(f"{name} = {shown} of {self.dist} is not {wanted}.", code="invalid-prior-number")
            least = _LEAST_SHAPE if (self.dist, name) in _SHAPES else 0 if name in ANY_SIGN else 1 / _LARGEST
            if not least <= abs(value) <= _LARGEST:
                wanted = f"±{_LARGEST:g}" if name in ANY_SIGN else f"{least:g} to {_LARGEST:g}"
                raise BayeslawError(f"{name} = {value:g} of {self.dist} is outside {wanted}.", code="prior-out-of-range")
        if self.dist == "LogNormal" and abs(self.args["mu"]) + 10 * self.args["sigma"] > _LARGEST_LOG:
            message = (
                f"{self} leaves the range of numbers: its median is exp({self.args['mu']:g}), since mu is that of the logarithm."
            )
            raise BayeslawError(message, code="prior-out-of-range")
        if self.support == "bounded":
            self._check_bounds()
        on: object = self.on
        if on is not None and not isinstance(on, Expression):  # its text, or nothing that can be read
            object.__setattr__(self, "on", Expression.parse(on))

    def __hash__(self) -> int:
        return hash((self.dist, frozenset(self.args.items()), self.on))

    def _check_bounds(self) -> None:
        low, high = self.bounds
        if not low < high:
            raise BayeslawError(f"{self}: lower = {low:g} is not below upper = {high:g}.", code="invalid-prior-number")
        mu, sigma = self.args.get("mu", low), self.args.get("sigma", high - low)
        if not mu - _FARTHEST * sigma < high or not mu + _FARTHEST * sigma > low:
            message = f"{self}: its bounds lie more than {_FARTHEST:g} sigma from mu, where the normal distribution has no mass."
            raise BayeslawError(message, code="prior-out-of-range")

    @property
    def support(self) -> Support:
        """The values that it allows: 'real', 'positive', 'unit' (0 to 1) or 'bounded' (between `bounds`)."""
        return ARGUMENTS[self.dist][0]

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value that it allows."""
        if self.support == "bounded":
            return self.args["lower"], self.args["upper"]
        return {"real": (-math.inf, math.inf), "positive": (0.0, math.inf), "unit": (0.0, 1.0)}[self.support]

    def unconstrained(self, values: Any) -> Any:
        """Return values of the support on the real line, as samplers have them: log, logit between the bounds, or themselves."""
        if self.support == "real":
            return values
        if self.support == "positive":
            return np.log(values)
        low, high = self.bounds
        return np.log(values - low) - np.log(high - values)

    @property
    def median_and_scale(self) -> tuple[float, float]:
        """Median and scale of the values on the real line: mean and standard deviation where they are normal."""
        low, median, high = self.unconstrained(self.scipy.ppf([_BELOW, 0.5, 1 - _BELOW]))
        return float(median), float(high - low) / 2

    @property
    def scipy(self) -> rv_frozen:
        """The same distribution in SciPy, for draws, densities and quantiles."""
        return _scipy(self.dist, *self.args.values())

    def pymc(self, name: str) -> Any:
        """Return the same distribution as a random variable of the PyMC model in context."""
        import pymc as pm

        return getattr(pm, self.dist)(name, **self.args)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draw `size` values."""
        return np.asarray(self.scipy.rvs(size=size, random_state=rng), dtype=np.float64)

    def __str__(self) -> str:
        return self._text("{:g}".format)

    @property
    def unrounded(self) -> str:
        """Its text, with as many digits as tell its numbers from all others."""
        return self._text(exact)

    def _text(self, number: Callable[[Any], str]) -> str:
        text = f"{self.dist}({', '.join(map(number, self.args.values()))})"
        return f"{text} on {self.on.text}" if self.on else text

    @property
    def table(self) -> dict[str, Any]:
        """The inline table of a card that `from_card` reads."""
        return {"dist": self.dist, **self.args} | ({"on": self.on.text} if self.on else {})

    @classmethod
    def from_card(cls, table: Mapping[str, Any]) -> Prior:
        """Read the inline table of a card: dist, the numbers, and optionally `on`."""
        if "dist" not in table:
            message = 'a prior needs `dist`, for example { dist = "LogNormal", mu = 0.5, sigma = 0.3 }.'
            raise BayeslawError(message, code="no-distribution")
        on = Expression.parse(table["on"]) if "on" in table else None
        return cls(str(table["dist"]), {k: v for k, v in table.items() if k not in ("dist", "on")}, on)

    @classmethod
    def parse(cls, text: str) -> Prior:
        """Read ``LogNormal(0.5, 0.3)`` or ``LogNormal(mu=0.5, sigma=0.3)``, a prior of the parameter itself, without `on`."""
        problem = BayeslawError(f"{shortened(repr(text))} is not a prior; write it like LogNormal(0.5, 0.3).", code="not-a-prior")
        if not isinstance(text, str):
            raise problem
        try:
            call = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, RecursionError, MemoryError, ValueError):
            raise problem from None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise problem
        names = ARGUMENTS.get(call.func.id, ("real", ()))[1]
        try:
            args = dict(zip(names, [_literal(a) for a in call.args], strict=False))
            named = {str(k.arg): _literal(k.value) for k in call.keywords}
        except (ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError):
            raise problem from None
        if call.func.id in ARGUMENTS and len(call.args) > len(names):
            expected = f"{len(names)} numbers ({', '.join(names)})"
            raise BayeslawError(f"{call.func.id} takes {expected}: {text!r} has {len(call.args)}.", code="wrong-prior-arguments")
        keywords = [str(k.arg) for k in call.keywords]
        if twice := sorted({name for name in keywords if name in args or keywords.count(name) > 1}):
            raise BayeslawError(f"{text!r} gives {', '.join(twice)} twice.", code="wrong-prior-arguments")
        return cls(call.func.id, args | named)


def _literal(node: ast.expr) -> float:
    """Return a number as it is written; True and '1' are refused."""
    value = ast.literal_eval(node)
    if type(value) not in (int, float):
        raise ValueError
    return float(value)


def read_priors(given: Mapping[str, Prior | str]) -> dict[str, Prior]:
    """Return priors by the parameters that they are of, of which some may be texts; an error names the parameter."""
    priors = dict[str, Prior]()
    for name, prior in given.items():
        try:
            priors[name] = prior if isinstance(prior, Prior) else Prior.parse(prior)
        except BayeslawError as error:
            raise BayeslawError(f"The prior of {name}: {error}", code=error.code) from None
    return priors
