"""Laws at draws of their parameters, of one fit or of several, and checks of their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import FitError
from bayeslaw.core.text import settings_text
from bayeslaw.laws.law import Law


@dataclass(frozen=True, eq=False)
class LawDraws:
    """Draws (S,) of a law's parameters, at which it is evaluated.

    Parameters of the noise among `draws` are ignored. `constants` are covariates that are the same in every evaluation, and
    `drawn` those that are not known exactly, with a value (S,) in each draw.
    """

    law: Law
    draws: Mapping[str, Array]
    constants: Mapping[str, float] = field(default_factory=dict)
    drawn: Mapping[str, Array] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of draws S."""
        return next(iter(self.draws.values())).size

    def of(self, draws: Index | slice) -> LawDraws:
        """Return some of the draws (s,)."""
        some, drawn = ({name: v[draws] for name, v in values.items()} for values in (self.draws, self.drawn))
        return replace(self, draws=some, drawn=drawn)

    def scope(self, covariates: Mapping[str, ArrayLike], draws: Index | slice = slice(None), axes: int = 0) -> dict[str, Any]:
        """Return the values of all names in the law's formula, as in `outcome`: parameters, covariates and `let` expressions.

        Names that differ by a column have the values of the covariates' levels.
        """
        own = (slice(None), *[None] * axes)
        scope: dict[str, Any] = {name: self.draws[name][draws][own] for name in self.law.parameters}
        scope |= self.constants
        scope |= {name: values[draws][own] for name, values in self.drawn.items()}
        scope |= {k: np.asarray(v, dtype=np.float64) for k, v in covariates.items() if k in self.law.covariates}
        with np.errstate(all="ignore"):
            return self.law.with_let(self.law.at_rows(scope))

    def outcome(self, covariates: Mapping[str, ArrayLike], draws: Index | slice = slice(None), axes: int = 0) -> Array:
        """Return expected outcomes in the unit of the fit, which may be infinite or no number: `check_values` refuses those.

        Parameters
        ----------
        covariates : mapping of covariate to array
            Names that the law does not have are ignored.
        draws : int array (s,) or slice
            The draws to take, by default all.
        axes : int
            How many axes follow that of the draws. Parameters (s, 1, …, 1) with so many ones broadcast against covariates: with
            `axes=0`, covariates (n, 1) give outcomes (n, s); with `axes=1`, covariates (n,) give outcomes (s, n).
        """
        with np.errstate(all="ignore"):
            values = np.asarray(self.law.formula.evaluate(self.scope(covariates, draws, axes)), dtype=np.float64)
        size = next(iter(self.draws.values()))[draws].size
        return np.broadcast_to(values, np.broadcast_shapes((size, *[1] * axes), *map(np.shape, covariates.values())))


@dataclass(frozen=True, eq=False)
class JoinedDraws:
    """Draws (S,) of several laws, such as those of a stack: all of the first law's, then all of the second's."""

    members: Sequence[LawDraws]

    @property
    def size(self) -> int:
        """Number of draws S."""
        return sum(member.size for member in self.members)

    def parts(self, draws: Index | None = None) -> Iterator[tuple[LawDraws, Index | slice, Index | slice]]:
        """Yield each law, the places of its draws among `draws` (s,), by default all, and their numbers within the law."""
        start = 0
        for member in self.members:
            if draws is None:
                yield member, slice(start, start + member.size), slice(None)
            else:
                here = np.flatnonzero((draws >= start) & (draws < start + member.size))
                yield member, here, draws[here] - start
            start += member.size

    def outcomes(
        self, covariates: Mapping[str, ArrayLike], draws: Index | None = None, axes: int = 0
    ) -> Iterator[tuple[LawDraws, Index | slice, dict[str, Array], Array]]:
        """Yield each law, the places of its draws, the covariates at these, and its outcomes there.

        Parameters
        ----------
        covariates, draws, axes
            As in `LawDraws.outcome`. Covariates with more axes than `axes` have values of each draw's own along the first.
        """
        values = {name: np.asarray(v, dtype=np.float64) for name, v in covariates.items()}
        for member, here, own in self.parts(draws):
            at = {name: v[here] if v.ndim > axes else v for name, v in values.items()}
            yield member, here, at, member.outcome(at, own, axes)

    def outcome(self, covariates: Mapping[str, ArrayLike], draws: Index | None = None, axes: int = 0) -> Array:
        """Return the outcomes of all laws at some draws as one array; arguments are those of `outcomes`."""
        parts = [(here, values) for _, here, _, values in self.outcomes(covariates, draws, axes)]
        if len(parts) == 1:
            return parts[0][1]
        joined = np.empty((self.size if draws is None else draws.size, *parts[0][1].shape[1:]))
        for here, values in parts:
            joined[here] = values
        return joined


def check_values(
    values: Array,
    law: Law,
    settings: Mapping[str, ArrayLike],
    advice: str = "",
    parameters: Mapping[str, Array] | None = None,
    name: str = "",
) -> None:
    """Refuse values of a law that its outcome can't have, with their number and the first setting where one is found.

    Parameters
    ----------
    values : array
    law : Law
    settings : mapping of name to array
        Where it was evaluated, in shapes that broadcast to that of `values`.
    advice : str
        What to do about it.
    parameters : mapping of name to array (S,), optional
        The draws along the last axis of `values`: the error names the parameter that is farthest from its median there.
    name : str
        Name of the posterior that they come from, if that is not the law's.
    """
    good, outcome = law.outcome.possible(values), law.outcome
    if good.all():
        return
    first = np.unravel_index(int(np.argmin(good)), good.shape)
    shown = {k: np.broadcast_to(np.asarray(v), good.shape)[first] for k, v in settings.items()}
    where = settings_text(shown, 4)
    if parameters:
        where += f" by a draw with {_unusual(parameters, int(first[-1]))}"
    kind = "finite positive loss" if outcome.is_loss else f"{outcome.name} that is {outcome.words}"
    raise FitError(
        f"{name or law.name} has no {kind} for {(~good).sum():,} of {good.size:,} draws and settings, for example at {where}."
        f"{' ' if advice else ''}{advice}",
        code="no-finite-loss" if outcome.is_loss else "impossible-outcome",
    )


def _unusual(parameters: Mapping[str, Array], draw: int) -> str:
    """Return the parameter that is farthest from its median in a draw, counted in mean distances, with both values."""
    far = {k: abs(v[draw] - np.median(v)) / max(np.abs(v - np.median(v)).mean(), 1e-300) for k, v in parameters.items()}
    name = max(far, key=far.__getitem__)
    return f"{name} = {parameters[name][draw]:.4g}, whose median is {np.median(parameters[name]):.4g}"
