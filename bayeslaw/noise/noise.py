"""Noise of log loss: point noise, known errors, and luck shared by the points of a run and by the runs of a checkpoint.

    log loss_i = log L(x_i) + w_checkpoint + u_run + s_run + e_i

    u ~ Normal(0, sigma_run),   w ~ Normal(0, sigma_checkpoint),   s ~ Exponential with mean slack, or none,
    e_i ~ Normal or Student-t(dof), of scale sqrt(sigma_point^2 + se_i^2),   se_i = loss_se_i / loss_i where it is known

Along a whole curve a run's luck does not stay the same: with drift u_run is a stationary Ornstein-Uhlenbeck process along the run's
clock (`drift`), of sd sigma_run at any moment; as its correlation length grows it becomes the ordinary run effect.

With normal point noise all effects are integrated out in closed form. The points of run j, given a shift w of all of them, have

    log p_j(w) = log p_j(0) + b_j w - a_j w^2 / 2,   a = W / (1 + sigma_run^2 W),   b = S / (1 + sigma_run^2 W),

W and S being sums over its points of precisions and of precisions times residuals; the runs of a checkpoint add up their a and b,
and the integral over w, normal or exponential, is that of a parabola's exponential. With Student-t noise run effects are
parameters, in units of sigma_run. Drifting effects are integrated out by a Kalman filter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.data.observations import Observations
from bayeslaw.laws.prior import Prior
from bayeslaw.noise import marginal as integrals
from bayeslaw.noise import ou as drifts

PRIORS = {
    # Evaluation and optimisation noise of single points: 0.03% to 10% of the loss with 95% probability.
    "sigma_point": Prior("LogNormal", {"mu": math.log(0.005), "sigma": 1.5}),
    # Luck of a run (seed, data order): measured 0.3 to 0.5% at the smallest models of tinycpt; up to 0.6% here with 95%
    # probability. The tail is light on purpose: a wrong law must not pass what it misses between runs off as luck.
    "sigma_run": Prior("HalfNormal", {"sigma": 0.003}),
    # Luck of a pre-training, shared by all runs branched from it: as that of a run, for the same reasons.
    "sigma_checkpoint": Prior("HalfNormal", {"sigma": 0.003}),
    # What a run loses on average by not being tuned as well as the best: up to 2% with 95% probability.
    "run_excess": Prior("HalfNormal", {"sigma": 0.01}),
    # Degrees of freedom above 2, from heavy tails to nearly normal (after Juarez and Steel 2010). At 2 and below the variance
    # is infinite: a forecast's interval would be set by the tail alone.
    "dof": Prior("Gamma", {"alpha": 2.0, "beta": 0.1}),
    # How far along a run its luck is remembered, in typical runs' lengths: from 0.5% to nearly twice a run with 95% probability.
    "drift": Prior("LogNormal", {"mu": math.log(0.1), "sigma": 1.5}),
}
MEANING = {
    "sigma_point": ("relative noise of one logged loss", r"\sigma_\mathrm{point}"),
    "sigma_run": ("relative noise shared by the points of a run", r"\sigma_\mathrm{run}"),
    "sigma_checkpoint": ("relative noise shared by the runs of a checkpoint", r"\sigma_\mathrm{ckpt}"),
    "run_excess": ("mean relative excess of a run that is not tuned best", r"s_\mathrm{run}"),
    "dof": ("degrees of freedom of the point noise", r"\nu_\mathrm{noise}"),
    "drift": ("share of a typical run over which its luck is forgotten", r"\ell_\mathrm{run}"),
}
LEAST = {"dof": 2.0}
"""Where a noise parameter begins, if not at 0: its prior and its logarithmic coordinate are on what lies above."""
GROUPED = ("sigma_point", "sigma_run")
"""Parameters of which every group has its own where noise differs by a column."""
DRIFT = "normal-drift"
CHOICES = ("auto", "normal", DRIFT, "normal-checkpoint", "skew", "student", "normal-no-run", "student-no-run")


def kind(name: str) -> str:
    """What a parameter of the noise is, whichever group it is of: `sigma_run[pile]` is a `sigma_run`."""
    return name.partition("[")[0]


def prior(name: str) -> Prior:
    """Prior of a parameter of the noise."""
    return PRIORS[kind(name)]


@dataclass(frozen=True)
class Noise:
    """Which noise a fit assumes.

    Attributes
    ----------
    student : bool
        Student-t point noise instead of normal.
    run_effect : bool
        Points of one run share an effect.
    checkpoint_effect : bool
        Runs of one checkpoint share an effect.
    skew : bool
        Runs err upward besides: by an exponential excess each, as undertuned ones do.
    groups : tuple of str
        Groups of runs with noise of their own; empty where there is one noise for all.
    drift : bool
        The effect that points of a run share changes along it.
    """

    student: bool
    run_effect: bool
    checkpoint_effect: bool = False
    skew: bool = False
    groups: tuple[str, ...] = ()
    drift: bool = False

    @classmethod
    def choose(cls, choice: str, observed: Observations) -> Noise:
        """Resolve one of `CHOICES` for the runs of a table.

        'auto' is normal noise with a run effect where rows share runs and Student-t noise where they don't; 'normal', 'skew' and
        'student' have a run effect where rows share runs, the `-no-run` choices never. 'normal-checkpoint' adds an effect shared
        by the runs of a checkpoint, 'normal-drift' lets a run's effect change along it. Groups are those of the observations.
        """
        if choice not in CHOICES:
            raise BayeslawError(f"No noise {choice!r}; choose one of {', '.join(CHOICES)}.")
        shared = observed.runs < observed.log_loss.size
        if choice == "normal-checkpoint" and not observed.branched:
            raise BayeslawError(
                "No two of these runs share a checkpoint, so noise normal-checkpoint has nothing to go by. Name each run's "
                "checkpoint in a column `checkpoint`, or choose noise normal."
            )
        if choice == DRIFT and not observed.clock.size:
            raise BayeslawError("Noise normal-drift takes observations with a clock: Observations.of(…, clock='step').")
        student = choice.startswith("student") or (choice == "auto" and not shared)
        run_effect = (shared and not choice.endswith("no-run")) or choice == DRIFT
        return cls(student, run_effect, choice == "normal-checkpoint", choice == "skew", observed.group_names, choice == DRIFT)

    def choice(self, observed: Observations) -> str:
        """The one of `CHOICES` that `choose` made this noise from for the runs of a table, 'auto' apart.

        Where no rows of it share runs, that is the choice with a run effect, which longer runs that join them will need.
        """
        if self.drift:
            return DRIFT
        name = "normal-checkpoint" if self.checkpoint_effect else "skew" if self.skew else "student" if self.student else "normal"
        return f"{name}-no-run" if observed.runs < observed.log_loss.size and not self.run_effect else name

    def _named(self, name: str) -> tuple[str, ...]:
        return tuple(f"{name}[{group}]" for group in self.groups) if self.groups and name in GROUPED else (name,)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of its parameters in the order of `PRIORS`; those of `GROUPED` for each group."""
        has = {
            "sigma_run": self.run_effect,
            "sigma_checkpoint": self.checkpoint_effect,
            "run_excess": self.skew,
            "dof": self.student,
        }
        has["drift"] = self.drift
        return tuple(n for name in PRIORS if has.get(name, True) for n in self._named(name))

    @property
    def explicit_effects(self) -> bool:
        """Whether run effects are parameters (Student-t) or integrated out (normal)."""
        return self.student and self.run_effect

    @property
    def text(self) -> str:
        text = f"{'Student-t' if self.student else 'normal'} point noise {'with' if self.run_effect else 'without'} a run effect"
        text += " that drifts along the run" if self.drift else ""
        text += ", one shared by the runs of a checkpoint" if self.checkpoint_effect else ""
        text += ", runs erring upward besides" if self.skew else ""
        return text + (f", for each of {len(self.groups)} groups ({', '.join(self.groups)})" if self.groups else "")

    def groups_of(self, observed: Observations) -> NDArray[np.int64]:
        """Codes of the runs' groups, int array (R,); all 0 where there is one noise for all."""
        return observed.group if self.groups else np.zeros(observed.runs, dtype=np.int64)

    def families_of(self, observed: Observations) -> NDArray[np.int64]:
        """With which run each checkpoint of a common luck begins, and the number of runs; without one each run is its own."""
        return observed.families if self.checkpoint_effect else np.arange(observed.runs + 1, dtype=np.int64)

    def scales(self, draws: Mapping[str, Any], name: str) -> Array:
        """Draws of a parameter for every group, array (G, …); zeros where this noise has no such parameter."""
        names = self._named(name)
        if names[0] not in self.parameters:
            return np.zeros((len(names), *np.shape(draws[self.parameters[0]])))
        return np.stack([np.asarray(draws[n], dtype=np.float64) for n in names])

    def sample(
        self,
        draws: Mapping[str, Array],
        run: NDArray[np.int64],
        row: NDArray[np.int64],
        entropy: tuple[int, ...],
        *,
        checkpoint: NDArray[np.int64] | None = None,
        group: NDArray[np.int64] | None = None,
        time: Array | None = None,
        known: Array | None = None,
    ) -> Array:
        """Noise of new runs.

        Every row, run and checkpoint has random numbers of its own: the noise of a row does not depend on which others are asked
        for.

        Parameters
        ----------
        draws : mapping
            Noise parameters, arrays (S,).
        run, row : int arrays (n,)
            Codes of the rows' runs and numbers of the rows.
        entropy : tuple of int
            Seeds.
        checkpoint, group : int arrays (n,), optional
            Codes of the rows' checkpoints (every run one of its own unless given) and groups (the first).
        time : array (n,), optional
            The rows' clock (`Observations.time_of`), where the noise drifts; all at one moment unless given.
        known : array (n,), optional
            Known standard errors of the rows' log losses; nil unless given.

        Returns
        -------
        array (n, S)
            Additions to log loss.
        """
        sigma, tau = self.scales(draws, "sigma_point"), self.scales(draws, "sigma_run")
        size, noise, drawn = sigma.shape[1], np.empty((row.size, sigma.shape[1])), dict[tuple[int, int], Array]()
        checkpoint = run if checkpoint is None else checkpoint

        def luck(level: int, code: int, scale: Array, skewed: bool = False) -> Array:
            if (level, code) not in drawn:
                rng = np.random.default_rng((*entropy, level, code))
                drawn[level, code] = scale * (rng.standard_exponential(size) if skewed else rng.standard_normal(size))
            return drawn[level, code]

        for i, r in enumerate(row.tolist()):
            g = 0 if group is None else int(group[i])
            rng = np.random.default_rng((*entropy, 0, r))
            scale = sigma[g] if known is None else np.hypot(sigma[g], known[i])
            noise[i] = scale * (rng.standard_t(draws["dof"]) if self.student else rng.standard_normal(size))
            if self.run_effect and not self.drift:
                noise[i] += luck(1, int(run[i]), tau[g])
            if self.checkpoint_effect:
                noise[i] += luck(2, int(checkpoint[i]), draws["sigma_checkpoint"])
            if self.skew:
                noise[i] += luck(3, int(run[i]), draws["run_excess"], skewed=True)
        if self.drift:
            paths = drifts.Paths(draws["drift"])
            for code in np.unique(run).tolist():
                own = np.flatnonzero(run == code)
                moments = np.zeros(own.size) if time is None else time[own]
                g = 0 if group is None else int(group[own[0]])
                noise[own] += tau[g] * paths.at(moments, (*entropy, 4, code))
        return noise

    def variances(self, draws: Mapping[str, Any]) -> tuple[Array, Array]:
        """What new losses tell, as variances of point noise and of a run's luck for every group: means over the draws, arrays (G,).

        For Student-t noise the inverse of what a point informs of its location, sigma^2 (dof + 3)/(dof + 1), which is less than
        its variance: a likelihood discounts the outliers.
        """
        point = self.scales(draws, "sigma_point") ** 2
        if self.student:
            dof = np.asarray(draws["dof"])
            point = point * (dof + 3) / (dof + 1)
        run = self.scales(draws, "sigma_run") ** 2
        if self.skew:
            run = run + np.asarray(draws["run_excess"]) ** 2
        return point.mean(axis=1), run.mean(axis=1)

    def effect_correlation(self, draws: Mapping[str, Any], time: Array) -> Array:
        """Correlations (…, k, k) of a run's luck between rows with clocks (…, k), a mean over draws; ones without drift."""
        if not self.drift:
            return np.ones((*np.shape(time), np.shape(time)[-1]))
        weight = (self.scales(draws, "sigma_run") ** 2).mean(axis=0)
        return drifts.correlation(time, np.asarray(draws["drift"]), weight)

    def sample_later_effects(
        self,
        residual: Array,
        observed: Observations,
        draws: Mapping[str, Any],
        run: str,
        clock: Array,
        rng: np.random.Generator,
    ) -> Array:
        """Draws (S, m) of the luck of a run that goes on, at later clocks, given what it has logged; without point noise.

        Parameters
        ----------
        residual : array (S, n)
            Log loss minus the law's, of the runs fitted.
        observed : Observations
        draws : mapping
            Noise parameters, arrays (S,).
        run : str
            Name of the run.
        clock : array (m,)
            In the unit of the observations' clock, not before the run's last row; of no matter where the noise does not drift.
        rng : Generator

        Raises
        ------
        BayeslawError
            If there is no such run, a clock lies before its last row, or the noise is not 'normal', 'normal-no-run' or
            'normal-drift'.
        """
        mean, left = self.luck(residual, observed, draws, run)
        steps, luck, length = np.zeros(np.size(clock)), left, np.full(mean.size, np.inf)
        if self.drift:
            code = observed.run_names.index(run)
            last = float(observed.clock[observed.starts[code + 1] - 1])
            steps, length = (np.asarray(clock, dtype=np.float64) - last) / observed.span, np.asarray(draws["drift"])
            luck = self.scales(draws, "sigma_run")[self.groups_of(observed)[code]] ** 2
            if not (np.isfinite(steps) & (steps >= 0)).all():
                raise BayeslawError(f"Run {run!r} was last logged at {observed.clock_column} = {last:g}; ask for later values.")
        return drifts.later(mean, left, luck, steps, length, rng)

    def luck(self, residual: Array, observed: Observations, draws: Mapping[str, Any], run: str) -> tuple[Array, Array]:
        """Mean and variance, arrays (S,), of a run's luck at its last row, given all its rows; arguments as for `continued`."""
        if self.student or self.checkpoint_effect or self.skew:
            raise BayeslawError(f"What a run's luck will be can be told with normal noise only; this is {self.text}.")
        if run not in observed.run_names:
            raise BayeslawError(f"The fit has no run {run!r}.{nearest(run, observed.run_names)}")
        return self._filtered(residual, observed, draws, observed.run_names.index(run))[1:]

    def _filtered(self, residual: Array, observed: Observations, draws: Mapping[str, Any], run: int) -> tuple[Array, Array, Array]:
        """Log density of a run's points, and mean and variance of its luck at the last, arrays (S,)."""
        rows = slice(observed.starts[run], observed.starts[run + 1])
        point, luck = (self.scales(draws, name)[self.groups_of(observed)[run]] ** 2 for name in GROUPED)
        of_run = residual[:, rows]
        known = observed.se[rows] ** 2 if observed.se.size else np.zeros(of_run.shape[1])
        if self.drift:
            return drifts.filtered(of_run, point, known, observed.time[rows], luck, np.asarray(draws["drift"]))
        return drifts.filtered(of_run, point, known, np.zeros(of_run.shape[1]), luck, np.full(len(of_run), np.inf))

    def sample_checkpoint_effects(
        self, residual: Array, observed: Observations, draws: Mapping[str, Any], names: Sequence[str], rng: np.random.Generator
    ) -> Array:
        """Draws of the luck of checkpoints, array (C, S): of those that have runs what these say, of others the prior.

        Parameters
        ----------
        residual, observed, draws, rng
            As for `continued`.
        names : sequence of str
            The checkpoints (C).
        """
        _, a, b = integrals.parabolas(residual, *self._spread(observed, draws))
        omega = np.asarray(draws["sigma_checkpoint"]) ** 2 if self.checkpoint_effect else np.zeros(len(residual))
        luck = np.empty((len(names), omega.size))
        for i, name in enumerate(names):
            runs = [r for r, code in enumerate(observed.checkpoint) if observed.checkpoint_names[code] == name]
            shrunk = 1 + omega * a[:, runs].sum(axis=1)
            luck[i] = omega * b[:, runs].sum(axis=1) / shrunk + np.sqrt(omega / shrunk) * rng.standard_normal(omega.size)
        return luck

    def log_likelihood(
        self, residual: Array, observed: Observations, draws: Mapping[str, Any], *, given: Literal["others", "earlier"] = "others"
    ) -> Array:
        """Log density of each run, given the parameters and, where runs share a checkpoint's luck, other runs.

        Parameters
        ----------
        residual : array (S, n)
            Log loss minus the law's.
        observed : Observations
        draws : mapping
            Noise parameters, arrays (S,).
        given : {'others', 'earlier'}
            Given all the other runs of its checkpoint, as leaving one run out by importance weights needs; or given those that
            stand before it, so that the columns add up to the log likelihood.

        Returns
        -------
        array (S, R)
        """
        if self.student:
            member, variance, tau = self._spread(observed, draws)
            return integrals.student(residual, member, variance, np.asarray(draws["dof"]), tau if self.run_effect else None)
        if self.drift:
            return np.stack([self._filtered(residual, observed, draws, j)[0] for j in range(observed.runs)], axis=1)
        logp, a, b = integrals.parabolas(residual, *self._spread(observed, draws))
        if self.checkpoint_effect:
            kin = (observed.checkpoint[:, None] == observed.checkpoint[None, :]) & ~np.eye(observed.runs, dtype=bool)
            kin = kin if given == "others" else np.triu(kin)
            omega = np.asarray(draws["sigma_checkpoint"])[:, None] ** 2
            other_a, other_b = a @ kin, b @ kin
            logp += integrals.shared(other_a + a, other_b + b, omega) - integrals.shared(other_a, other_b, omega)
        if self.skew:
            logp += integrals.upward(a, b, np.asarray(draws["run_excess"])[:, None])
        return logp

    def _spread(self, observed: Observations, draws: Mapping[str, Any]) -> tuple[Array, Array, Array]:
        """Which run each row is of (n, R), the rows' variances (S, n), and the scale of each run's luck (S, R)."""
        member = np.zeros((observed.run.size, observed.runs))
        member[np.arange(observed.run.size), observed.run] = 1.0
        point, run = (self.scales(draws, name)[self.groups_of(observed)].T for name in GROUPED)
        return member, point[:, observed.run] ** 2 + (observed.se**2 if observed.se.size else 0.0), run
