"""Point noise of one's own: a function that gives the log density of each point's error."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from bayeslaw.core.arrays import Array, Index, sums_by
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.streams import NoiseLevel
from bayeslaw.data.observations import Observations
from bayeslaw.laws.prior import Prior, read_priors
from bayeslaw.noise.noise import Noise, Shifted

# Errors at which the density is tabulated to draw from it, of losses relative, of other outcomes in their scale: 2.5% apart, from a
# millionth of the loss to twenty times it.
SIZES = np.geomspace(1e-6, 3.0, 600)
GRID = np.concatenate([-SIZES[::-1], [0.0], SIZES])
ENDS, CENTRE = 0.01, 0.5  # shares of the noise above which it reaches beyond the grid, or lies between its smallest sizes
AXES = ("chain", "draw")  # of the draws of parameters
ONE_AT_A_TIME = threading.Lock()  # threads of a forecast share a compiled function, which keeps values between its steps


@dataclass(frozen=True)
class PointNoise(Noise):
    """Independent noise of points with a log density given by a function; `of` makes it.

    Attributes
    ----------
    density : callable
        Takes the errors (log loss minus the law's) as a PyTensor vector, the parameters by name and, if it has an argument
        `known`, the known variances of the points; returns the log density of each point.
    priors : dict of str to Prior
        Priors of its parameters: the defaults of the function's arguments.
    """

    density: Callable[..., Any] = field(default=lambda error: -0.5 * error**2, compare=False)
    priors: Mapping[str, Prior] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, density: Callable[..., Any], observed: Observations) -> PointNoise:
        """The noise of a function whose arguments after the errors have priors as defaults: `share="Beta(1, 9)"`."""
        _check_outcome(observed)
        name = getattr(density, "__name__", "The noise")
        try:
            arguments = [*inspect.signature(density).parameters.values()][1:]
        except ValueError:  # of some functions in C, such as max
            arguments = []
        priors = read_priors({a.name: a.default for a in arguments if isinstance(a.default, str)})
        strange = [a.name for a in arguments if a.name not in (*priors, "known")]
        if taken := [axis for axis in AXES if axis in priors]:
            problem = f"{name} has an argument {taken[0]!r}, as an axis of the draws is called: give it another name."
            raise BayeslawError(problem, code="name-used-twice")
        if strange or not priors:
            problem = f"{name} has no prior for {strange[0]!r}" if strange else f"{name} has no parameters"
            raise BayeslawError(
                f'{problem}: give each argument after the errors a prior as its default, such as sigma="LogNormal(-5, 1)".',
                code="noise-without-prior",
            )
        if observed.se.size and "known" not in inspect.signature(density).parameters:
            raise _without_known_errors()
        noise = cls(student=False, run_effect=False, density=density, priors=priors, scale=observed.outcome.scale)
        _check_density(name, noise)
        return noise

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.priors)

    @property
    def text(self) -> str:
        return f"point noise {getattr(self.density, '__name__', 'of a function')} without a run effect"

    @property
    def compressible(self) -> bool:
        return False

    def prior(self, name: str) -> Prior:
        return self.priors[name]

    def least(self, name: str) -> float:
        return 0.0  # the function's arguments are its own, whatever they are called

    def choice(self, observed: Observations) -> Any:
        return self.density

    def of_points(self, error: Any, known: Any, parameters: Mapping[str, Any]) -> Any:
        """Log density of each point, for PyTensor variables; `known` are the points' known variances, or None."""
        takes = "known" in inspect.signature(self.density).parameters
        return self.density(error, **parameters, **({"known": 0.0 if known is None else known} if takes else {}))

    @cached_property
    def _compiled(self) -> Callable[..., Array]:
        """The function of the density for arrays of one shape: errors, known variances and parameters."""
        import pytensor.tensor as pt
        from pytensor.compile.maker import function
        from pytensor.compile.mode import Mode

        error, known, *parameters = (pt.dmatrix(name) for name in ("error", "known", *self.priors))
        logp = self.of_points(error, known, dict(zip(self.priors, parameters, strict=True)))
        mode = Mode(linker="py", optimizer="None")
        compiled: Any = function([error, known, *parameters], logp, mode=mode, on_unused_input="ignore", allow_input_downcast=True)
        return compiled  # type: ignore[no-any-return]

    def _log_density(self, error: Array, known: Array | float, draws: Mapping[str, Any]) -> Array:
        """Log density (S, n) of errors (S, n) or (1, n) for each draw of the parameters."""
        if np.any(known) and "known" not in inspect.signature(self.density).parameters:
            raise _without_known_errors()
        columns = [np.asarray(draws[name], dtype=np.float64)[:, None] for name in self.priors]
        wide = [np.broadcast_to(v, (columns[0].size, error.shape[1])) for v in (error, np.atleast_2d(known), *columns)]
        with ONE_AT_A_TIME:
            return np.asarray(self._compiled(*wide))

    @property
    def _grid(self) -> Array:
        """The errors (G,) at which the density is tabulated."""
        return np.asarray(GRID * self.scale)

    def _distribution(self, draws: Mapping[str, Any], known: float = 0.0) -> tuple[Array, Array]:
        """Probabilities (S, G - 1) of the intervals of the grid, and their cumulative sums (S, G)."""
        density = np.exp(self._log_density(self._grid[None], known, draws))
        mass = 0.5 * (density[:, 1:] + density[:, :-1]) * np.diff(self._grid)
        mass /= mass.sum(axis=1, keepdims=True)
        middle = SIZES.size  # of the intervals, whose two middle ones touch 0
        ends, centre = mass[:, [0, -1]].sum(axis=1).mean(), mass[:, middle - 1 : middle + 1].sum(axis=1).mean()
        if ends > ENDS or centre > CENTRE:
            off, (least, *_, most) = "larger" if ends > ENDS else "smaller", SIZES * self.scale
            raise BayeslawError(
                f"{self.text} can't be drawn from: many of its errors are {off} than the sizes at which its density is tabulated, "
                f"{least:.3g} to {most:.3g}. Give the outcome of the card another scale, or the density other units.",
                code="noise-off-its-grid",
            )
        return mass, np.concatenate([np.zeros((len(mass), 1)), np.cumsum(mass, axis=1)], axis=1)

    def sample(
        self,
        draws: Mapping[str, Array],
        run: Index,
        row: Index,
        entropy: tuple[int, ...],
        *,
        checkpoint: Index | None = None,
        group: Index | None = None,
        time: Array | None = None,
        known: Array | None = None,
    ) -> Array:
        """Draw the noise of rows; as `Noise.sample`. The distribution is tabulated to about a thousandth of its spread."""
        size = len(draws[self.parameters[0]])
        share, noise = np.empty((row.size, size)), np.empty((row.size, size))
        for i, r in enumerate(row.tolist()):
            share[i] = np.random.default_rng((*entropy, NoiseLevel.POINT, r)).uniform(size=size)
        errors = np.zeros(row.size) if known is None else np.asarray(known)
        for error in np.unique(errors):
            below, at = self._distribution(draws, float(error) ** 2)[1], errors == error
            for each in range(size):
                noise[at, each] = np.interp(share[at, each], below[each], self._grid)
        return noise

    def variances(self, draws: Mapping[str, Any]) -> tuple[Array, Array]:
        """Variance of points, mean over the draws, and none of runs: arrays (1,)."""
        middle, mass = 0.5 * (self._grid[1:] + self._grid[:-1]), self._distribution(draws)[0]
        return np.array([(mass @ middle**2 - (mass @ middle) ** 2).mean()]), np.zeros(1)

    def log_likelihood(
        self, residual: Array, observed: Observations, draws: Mapping[str, Any], *, given: Literal["others", "earlier"] = "others",
        shifted: Shifted | None = None,
    ) -> Array:  # fmt: skip
        """Log density of each run, array (S, R); as `Noise.log_likelihood`."""
        return sums_by(self.row_log_likelihood(residual, observed, draws), observed.run)

    def row_log_likelihood(
        self, residual: Array, observed: Observations, draws: Mapping[str, Any], *, shifted: Shifted | None = None
    ) -> Array:
        """Log density of each row, array (S, n); as `Noise.row_log_likelihood`."""
        return self._log_density(residual, observed.known, draws)


def _without_known_errors() -> BayeslawError:
    return BayeslawError(
        "The rows have known errors (a column such as loss_se), and the noise takes none: fit with a function that has an argument "
        "`known`, the points' known variances of the log loss, or of another outcome's responses; or leave that column out.",
        code="noise-without-known-errors",
    )


def _check_outcome(observed: Observations) -> None:
    """Refuse rows whose noise no function can describe: counts, and groups with noise of their own."""
    outcome = observed.outcome
    if outcome.kind == "count":
        problem = f"Shares of counted {outcome.items} have the noise of counting, and a function has only errors"
        raise BayeslawError(f"{problem}: choose beta-binomial or beta-binomial-no-run.", code="noise-of-counts")
    if observed.group_names:
        problem = f"A noise given by a function is the same for all rows, and groups by {observed.group_column} have their own"
        raise BayeslawError(f"{problem}: leave noise_by out, or choose a noise by its name.", code="noise-by-of-a-function")


def _check_density(name: str, noise: PointNoise) -> None:
    """Refuse a function that does not return the log density of each point, whatever the others are."""
    errors = GRID[None, ::100] * noise.scale
    middle = {parameter: np.atleast_1d(prior.scipy.median()) for parameter, prior in noise.priors.items()}
    problem = ""
    try:
        with np.errstate(all="ignore"):  # the largest errors may have no density at all
            whole, some = (noise._log_density(e, 0.0, middle) for e in (errors, errors[:, ::2]))
    except Exception as error:  # the function is the user's: it may raise anything
        problem = f"{type(error).__name__}: {error}"
    else:
        if whole.shape != errors.shape:
            problem = f"for {errors.size} points it has the shape {whole.shape}"
        elif not np.allclose(whole[:, ::2], some, rtol=1e-9, equal_nan=True):
            problem = "that of a point depends on the other points"
    if problem:
        raise BayeslawError(
            f"{name} does not return the log density of each point ({problem}). Write it with PyTensor's functions, without a sum "
            "over points.",
            code="noise-without-density",
        )
