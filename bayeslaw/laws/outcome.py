"""What a law predicts: a loss, or another outcome such as an accuracy, with the scale on which its noise adds up.

kind       values                            scale of the noise
positive   above 0, such as a loss           logarithm
real       any, such as a difference         the outcome itself
bounded    strictly between two bounds       logit of the position between the bounds
count      shares of counted items, 0 to 1   logit of the expected share; the items are then answered one by one
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from bayeslaw.core.text import plural, significant
from bayeslaw.core.units import NATS
from bayeslaw.laws.formula import NUMPY

Kind = Literal["positive", "real", "bounded", "count"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BOUNDS = {"positive": (0.0, math.inf), "real": (-math.inf, math.inf), "count": (0.0, 1.0)}
WORDS = {
    "positive": "finite positive",
    "real": "finite",
    "bounded": "strictly between its bounds",
    "count": "strictly between 0 and 1",
}


@dataclass(frozen=True)
class Outcome:
    """The quantity that a law predicts.

    Attributes
    ----------
    name : str
        Its column in tables.
    unit : str
        Its unit in words; that of losses is `Observations.unit`, since tables have them in several.
    kind : {'positive', 'real', 'bounded', 'count'}
        Which values it has, and on which scale its noise adds up.
    bounds : (float, float)
        Values lie between them.
    scale : float
        For a real outcome, a typical size of its changes: priors of the noise are in its units.
    chance : float, str or None
        What guessing scores: a number, or the covariate that has it.
    items : str
        For counts, the covariate that says of how many items the outcome is a share.
    run_shifts : str
        For counts, the covariate that the effect of a run is added to, such as the loss; by default effects add to the logit.

    Examples
    --------
    >>> from bayeslaw.laws.outcome import Outcome
    >>> accuracy = Outcome("accuracy", "", "bounded", (0.0, 1.0))
    >>> accuracy.from_scale(accuracy.to_scale(0.25)).item()
    0.25
    """

    name: str = "loss"
    unit: str = NATS
    kind: Kind = "positive"
    bounds: tuple[float, float] = (0.0, math.inf)
    scale: float = 1.0
    chance: float | str | None = None
    items: str = ""
    run_shifts: str = ""

    @property
    def is_loss(self) -> bool:
        """Whether it is a loss, whose unit a table may choose."""
        return self.name == "loss"

    @property
    def quantity(self) -> tuple[str, str, Kind, tuple[float, float]]:
        """Its name, unit, kind and bounds: outcomes that have the same are one, whatever their cards say of chance or scale."""
        return self.name, self.unit, self.kind, self.bounds

    @property
    def symbol(self) -> str:
        """What formulas in mathematical notation call it."""
        return "L" if self.is_loss else self.name

    @property
    def error(self) -> str:
        """The column of known standard errors."""
        return f"{self.name}_se"

    @property
    def plural(self) -> str:
        """Its name where there are several: losses, accuracies."""
        return plural(self.name)

    @property
    def heading(self) -> str:
        """Its name at the beginning of a sentence."""
        return self.name[:1].upper() + self.name[1:]

    def renamed(self, text: str) -> str:
        """Return a text about losses with the outcome's name in place of theirs."""
        return re.sub("losses|loss", lambda word: self.plural if word[0] == "losses" else self.name, text)

    def in_unit(self, unit: str) -> str:
        """Its plural with a unit: 'losses in nats/token', or 'accuracies' where there is none."""
        return f"{self.plural} in {unit}" if unit else self.plural

    def labelled(self, unit: str) -> str:
        """Its name with a unit, as a picture's axis has it: 'loss (nats/token)'."""
        return self.of_unit(self.name, unit)

    def deviation(self, values: Any, centre: Any) -> Any:
        """Return how far values lie above others: of positive outcomes in percent of these, of others in the outcome's unit."""
        return 100 * (values / centre - 1) if self.relative else values - centre

    def in_words(self, error: float) -> str:
        """Return a mean error in words to two figures: of positive outcomes the relative one in percent, else the error itself."""
        return f"{significant(100 * error, 2)}%" if self.relative else significant(error, 2)

    def of_deviation(self, what: str, unit: str) -> str:
        """Return a name of a deviation with its unit, the outcome's or percent: 'loss minus the median (%)'."""
        return self.of_unit(what, "%" if self.relative else unit)

    @staticmethod
    def of_unit(what: str, unit: str) -> str:
        """Return a text with a unit in brackets, where there is one."""
        return f"{what} ({unit})" if unit else what

    @property
    def observed(self) -> str:
        """What models call the measured outcome on the scale of the noise."""
        return {"positive": "log_", "real": "measured_", "bounded": "logit_", "count": "measured_"}[self.kind] + self.name

    @property
    def facts(self) -> tuple[str, ...]:
        """Covariates that say what was asked of a model and not how it was made: numbers of items, and chance."""
        return (*([self.items] if self.items else []), *([self.chance] if isinstance(self.chance, str) else []))

    @property
    def relative(self) -> bool:
        """Whether errors are reported relative to the outcome, in percent."""
        return self.kind == "positive"

    @property
    def unbounded(self) -> bool:
        """Whether every number on the scale of the noise is an outcome, so that an error of a law may be of any size there."""
        return self.kind in ("positive", "real")

    def to_scale(self, values: Any, functions: Mapping[str, Callable[..., Any]] = NUMPY) -> Any:
        """Return values on the scale of the noise, in NumPy or for values of a graph; nan or infinite outside the bounds."""
        log = functions["log"]
        match self.kind:
            case "positive":
                return log(values)
            case "real":
                return values * 1.0
            case _:
                low, high = self.bounds
                return log(values - low) - log(high - values)

    def from_scale(self, values: Any) -> Any:
        """Return outcomes from values on the scale of the noise, as NumPy arrays; they lie within the bounds."""
        from scipy.special import expit

        match self.kind:
            case "positive":
                return np.exp(values)
            case "real":
                return np.asarray(values, dtype=np.float64)
            case _:
                low, high = self.bounds
                return np.clip(low + (high - low) * expit(values), low, high)

    def slope(self, values: Any) -> Any:
        """Return the derivative of `to_scale` at values."""
        match self.kind:
            case "positive":
                return 1 / np.asarray(values)
            case "real":
                return np.ones_like(np.asarray(values, dtype=np.float64))
            case _:
                low, high = self.bounds
                return (high - low) / ((values - low) * (high - values))

    def residual(self, response: Any, expected: Any) -> Any:
        """Return measured responses (`Observations.response`) minus a law's values on their scale."""
        return response - (expected if self.kind == "count" else self.to_scale(expected))

    def response(self, values: Any) -> Any:
        """Return measured outcomes on the scale of the noise; shares of counted items, which may be 0 or 1, stay as they are."""
        return values if self.kind == "count" else self.to_scale(values)

    def from_response(self, values: Any) -> Any:
        """Return measured outcomes from their responses."""
        return values if self.kind == "count" else self.from_scale(values)

    def possible(self, values: Any) -> Any:
        """Return where a law's values are possible expectations of the outcome, an array of bool."""
        low, high = self.bounds
        return np.isfinite(values) & (values > low) & (values < high)

    @property
    def described(self) -> str:
        """Its unit, values and chance in words, such as 'share of questions, 0 to 1: shares of items; chance: 0.25'."""
        low, high = self.bounds
        span = {"positive": "above 0", "real": "any number"}.get(self.kind, f"{low:g} to {high:g}")
        text = ", ".join(filter(None, [self.unit, span])) + (f": shares of {self.items}" if self.items else "")
        chance = self.chance if isinstance(self.chance, str) or self.chance is None else f"{self.chance:g}"
        return text if chance is None else f"{text}; chance: {chance}"

    @property
    def words(self) -> str:
        """Which values are possible, in words."""
        if self.kind == "bounded":
            return f"strictly between {self.bounds[0]:g} and {self.bounds[1]:g}"
        return WORDS[self.kind]


LOSS = Outcome()
