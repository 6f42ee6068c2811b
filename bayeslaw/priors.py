"""Priors as a card or a command line states them: a distribution's name and its numbers."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayeslaw.errors import BayeslawError, nearest
from bayeslaw.formula import Expression

if TYPE_CHECKING:
    from scipy.stats._distn_infrastructure import rv_frozen

Support = Literal["real", "positive", "unit"]

_ARGUMENTS: dict[str, tuple[Support, tuple[str, ...]]] = {
    "LogNormal": ("positive", ("mu", "sigma")),
    "HalfNormal": ("positive", ("sigma",)),
    "Gamma": ("positive", ("alpha", "beta")),
    "Normal": ("real", ("mu", "sigma")),
    "StudentT": ("real", ("nu", "mu", "sigma")),
    "Beta": ("unit", ("alpha", "beta")),
}
_ANY_SIGN = {"mu"}


@dataclass(frozen=True)
class Prior:
    """A prior distribution, named and parametrised as in PyMC.

    Parameters
    ----------
    dist : str
        One of LogNormal, HalfNormal, Gamma, Normal, StudentT, Beta.
    args : mapping of str to float
    on : Expression, optional
        What the distribution is on, where that is not the parameter itself: an expression proportional to the parameter,
        taken at the runs' reference point, such as ``A/N**alpha``: the loss that the term contributes there, in nats.
    """

    dist: str
    args: Mapping[str, float]
    on: Expression | None = None

    def __post_init__(self) -> None:
        if self.dist not in _ARGUMENTS:
            known = ", ".join(_ARGUMENTS)
            raise BayeslawError(f"No prior distribution {self.dist!r}; known are {known}.{nearest(self.dist, _ARGUMENTS)}")
        expected = _ARGUMENTS[self.dist][1]
        if set(self.args) != set(expected):
            given = ", ".join(self.args) or "nothing"
            raise BayeslawError(f"{self.dist} takes {', '.join(expected)}, not {given}.")
        for name, value in self.args.items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
            if not number or (name not in _ANY_SIGN and value <= 0):
                wanted = "a finite number" if name in _ANY_SIGN else "a positive number"
                raise BayeslawError(f"{name} = {value!r} of {self.dist} is not {wanted}.")

    @property
    def support(self) -> Support:
        """Where the parameter lies: 'real', 'positive' or 'unit' (0 to 1)."""
        return _ARGUMENTS[self.dist][0]

    @property
    def scipy(self) -> rv_frozen:
        """The same distribution in SciPy, for draws, densities and quantiles."""
        from scipy import stats

        a = self.args
        match self.dist:
            case "LogNormal":
                return stats.lognorm(s=a["sigma"], scale=math.exp(a["mu"]))
            case "HalfNormal":
                return stats.halfnorm(scale=a["sigma"])
            case "Gamma":
                return stats.gamma(a["alpha"], scale=1 / a["beta"])
            case "Normal":
                return stats.norm(a["mu"], a["sigma"])
            case "StudentT":
                return stats.t(a["nu"], a["mu"], a["sigma"])
            case _:
                return stats.beta(a["alpha"], a["beta"])

    def pymc(self, name: str) -> Any:
        """The same distribution as a random variable of the PyMC model in context."""
        import pymc as pm

        return getattr(pm, self.dist)(name, **self.args)

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw `size` values."""
        return np.asarray(self.scipy.rvs(size=size, random_state=rng), dtype=np.float64)

    def __str__(self) -> str:
        text = f"{self.dist}({', '.join(f'{v:g}' for v in self.args.values())})"
        return f"{text} on {self.on.text}" if self.on else text

    @property
    def table(self) -> dict[str, Any]:
        """The inline table of a card that `from_card` reads."""
        return {"dist": self.dist, **self.args} | ({"on": self.on.text} if self.on else {})

    @classmethod
    def from_card(cls, table: Mapping[str, Any]) -> Prior:
        """Read the inline table of a card: dist, the numbers, and optionally `on`."""
        if "dist" not in table:
            raise BayeslawError('a prior needs `dist`, for example { dist = "LogNormal", mu = 0.5, sigma = 0.3 }.')
        on = Expression.parse(table["on"]) if "on" in table else None
        return cls(str(table["dist"]), {k: v for k, v in table.items() if k not in ("dist", "on")}, on)

    @classmethod
    def parse(cls, text: str) -> Prior:
        """Read ``LogNormal(0.5, 0.3)`` or ``LogNormal(mu=0.5, sigma=0.3)``.

        The prior is then on the parameter itself, whatever the card's was on.
        """
        problem = BayeslawError(f"{text!r} is not a prior; write it like LogNormal(0.5, 0.3).")
        try:
            call = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, RecursionError, MemoryError, ValueError):
            raise problem from None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise problem
        names = _ARGUMENTS.get(call.func.id, ("real", ()))[1]
        try:
            args = dict(zip(names, [float(ast.literal_eval(a)) for a in call.args], strict=False))
            args |= {str(k.arg): float(ast.literal_eval(k.value)) for k in call.keywords}
        except (ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError):
            raise problem from None
        if call.func.id in _ARGUMENTS and len(call.args) > len(names):
            raise BayeslawError(f"{call.func.id} takes {len(names)} numbers ({', '.join(names)}): {text!r} has {len(call.args)}.")
        return cls(call.func.id, args)
