"""The noise of outcomes on the scale on which it adds up, of losses the logarithm.

It has point noise, known errors, and effects shared by the points of a run or by the runs of a checkpoint:

    log loss_i = log L(x_i) + w_checkpoint + u_run + s_run + e_i

    u ~ Normal(0, sigma_run),   w ~ Normal(0, sigma_checkpoint),   s ~ Exponential with mean run_excess, or none,
    e_i ~ Normal or Student-t(dof), of scale sqrt(sigma_point^2 + se_i^2),   se_i = loss_se_i / loss_i where it is known

Along a whole curve the run effect changes. With noise normal-drift, u_run is a stationary Ornstein-Uhlenbeck (OU) process along the
run's clock (`ou`), with standard deviation sigma_run at any moment; as its correlation length grows it becomes the ordinary effect.

With normal point noise all effects are integrated out in closed form. The points of run j, given a shift w of all of them, have

    log p_j(w) = log p_j(0) + b_j w - a_j w^2 / 2,   a = W / (1 + sigma_run^2 W),   b = S / (1 + sigma_run^2 W),

where W and S are sums over its points of precisions and of precisions times residuals. The runs of a checkpoint add up their a and
b, and the integral over w, normal or exponential, is that of the exponential of a parabola. With Student-t noise the run effects
are parameters, in units of sigma_run. OU run effects are integrated out by a Kalman filter.

Shares of counted items have noise of their own: run effects shift the logit of the expected share, and the items are answered
with a share that varies around it (`counts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
from scipy.special import expit, logit

from bayeslaw.core.arrays import Array, Index, sums_by
from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.core.streams import NoiseLevel
from bayeslaw.data.observations import Observations, moments_of_runs
from bayeslaw.data.table import Runs
from bayeslaw.laws.law import Law
from bayeslaw.laws.outcome import Kind, Outcome
from bayeslaw.laws.prior import ARGUMENTS, Prior
from bayeslaw.noise import counts, marginal, ou
from bayeslaw.noise.walk import Walk

Shifted = Callable[[Array], Array]
PRIORS = {
    # Evaluation and optimisation noise of single points: 0.03% to 10% of the loss with 95% probability.
    "sigma_point": Prior("LogNormal", {"mu": math.log(0.005), "sigma": 1.5}),
    # Seed and data order: the smallest models of tinycpt show 0.3 to 0.5%; the prior allows 0.6% with 95% probability. Its tail is
    # light on purpose: a wrong law must not pass its misfit between runs off as run effects.
    "sigma_run": Prior("HalfNormal", {"sigma": 0.003}),
    # The effect of a pre-training on all runs branched from it: the prior of a run effect, for the same reasons.
    "sigma_checkpoint": Prior("HalfNormal", {"sigma": 0.003}),
    # The average loss by which a run is worse for not being tuned as well as the best: up to 2% with 95% probability.
    "run_excess": Prior("HalfNormal", {"sigma": 0.01}),
    # Degrees of freedom above 2, from heavy tails to nearly normal (after Juarez and Steel 2010). At 2 and below the variance
    # is infinite, and the tail alone would determine the interval of a forecast.
    "dof": Prior("Gamma", {"alpha": 2.0, "beta": 0.1}),
    # The OU correlation length, in typical runs' lengths: from 2% of a run to 50 runs with 95% probability. An effect that does not
    # change along runs, as `normal` has, is its limit.
    "drift": Prior("LogNormal", {"mu": 0.0, "sigma": 2.0}),
    # The error of a law an e-fold away from where it was pinned: 0.05% to 5% with 95% probability. `make ladders` prints what is
    # learnt on public ladders; losses that a law has computed have none.
    "discrepancy": Prior("LogNormal", {"mu": math.log(0.005), "sigma": 1.2}),
}
MEANING = {
    "sigma_point": ("relative noise of one logged loss", r"\sigma_\mathrm{point}"),
    "sigma_run": ("relative noise shared by the points of a run", r"\sigma_\mathrm{run}"),
    "sigma_checkpoint": ("relative noise shared by the runs of a checkpoint", r"\sigma_\mathrm{ckpt}"),
    "run_excess": ("mean relative excess of a run that is not tuned best", r"s_\mathrm{run}"),
    "dof": ("degrees of freedom of the point noise", r"\nu_\mathrm{noise}"),
    "drift": ("correlation length of the run effect, as a share of a typical run", r"\ell_\mathrm{run}"),
    "discrepancy": ("relative error of the law an e-fold away", r"s_\mathrm{law}"),
}
# Where noise is not relative to the outcome: by the logit of a share, and of shares of counted items.
OF_KIND: Mapping[str, Mapping[str, Prior]] = {
    # Noise of one evaluation, in logits: .005 to .5 with 95% probability. At a share of one half, .1 is 2.5 percentage points.
    "bounded": {
        "sigma_point": Prior("LogNormal", {"mu": math.log(0.05), "sigma": 1.2}),
        "sigma_run": Prior("HalfNormal", {"sigma": 0.1}),
        "sigma_checkpoint": Prior("HalfNormal", {"sigma": 0.1}),
        "run_excess": Prior("HalfNormal", {"sigma": 0.1}),
    },
    # The spread of the share with which items are answered, beyond that of counting, relative to sqrt(p (1 - p)).
    "count": {
        "sigma_point": Prior("LogNormal", {"mu": math.log(0.03), "sigma": 1.0}),
        "sigma_run": Prior("HalfNormal", {"sigma": 0.1}),
    },
}
MEANING_OF_KIND: Mapping[str, Mapping[str, str]] = {
    "real": {"sigma_point": "noise of one logged {}", "sigma_run": "noise shared by the points of a run"},
    "bounded": {"sigma_point": "noise of one logged {}, in logits", "sigma_run": "noise shared by the points of a run, in logits"},
    "count": {
        "sigma_point": "spread of {} beyond that of counting, relative to sqrt(p (1 - p))",
        "sigma_run": "effect of a run on its {}, in logits",
    },
}
LEAST = {"dof": 2.0}
"""Lower bounds other than 0. The prior and the logarithmic coordinate of such a parameter are on its distance from the bound."""
SHARED = ("sigma_checkpoint", "run_excess", "discrepancy")
"""Parameters on the scale of the noise besides those of `MEANING_OF_KIND`."""
GROUPED = ("sigma_point", "sigma_run")
"""Parameters of which every group has its own where noise differs by a column."""
DRIFT = "normal-drift"
OFTEN = 8
"""Moments at which half of the runs, and as many runs at least, are logged where 'auto' is the noise of a card: with fewer, fits
fail checks or are sampled twice (docs/decisions/noise.md)."""
AVERAGED = 64  # draws over which correlations of an OU run effect are averaged
COUNTED = ("beta-binomial", "beta-binomial-no-run")
CHOICES = ("auto", "normal", DRIFT, "normal-checkpoint", "skew", "student", "normal-no-run", "student-no-run")


def resolved[Choice](choice: Choice, law: Law, runs: Runs, bins: float | None = None) -> Choice | str:
    """Return the noise that the law's card names in place of 'auto', if the runs are logged often enough; else the choice itself.

    Parameters
    ----------
    choice
        One of `CHOICES`, or a noise by itself.
    law, runs : Law and Runs
    bins : float, optional
        Width of the bins of points, which that noise can't have.
    """
    if choice != "auto" or not law.noise or bins is not None:
        return choice
    often = moments_of_runs(runs.frame, law) >= OFTEN
    return law.noise if often.sum() >= max(OFTEN, often.size / 2) else choice


def meaning(name: str, outcome: Outcome) -> str:
    """Return what a noise parameter is, in words, by the outcome of the law."""
    if outcome.run_shifts and kind(name) == "sigma_run":
        return f"effect of a run on its {outcome.run_shifts}"
    text = MEANING_OF_KIND.get(outcome.kind, {}).get(kind(name), MEANING[kind(name)][0]).format(outcome.name)
    if outcome.is_loss or kind(name) in MEANING_OF_KIND.get(outcome.kind, {}):
        return text
    text = text if outcome.relative else text.replace("relative ", "")
    return text.replace("loss", outcome.name) + (", in logits" if outcome.kind == "bounded" and kind(name) in SHARED else "")


def kind(name: str) -> str:
    """The name of a noise parameter without its group: `sigma_run` for `sigma_run[pile]`."""
    return name.partition("[")[0]


@dataclass(frozen=True)
class Noise:
    """The noise that a fit assumes.

    Attributes
    ----------
    student : bool
        Point noise is Student-t instead of normal.
    run_effect, checkpoint_effect : bool
        Points of one run, and runs of one checkpoint, share an effect.
    skew : bool
        Each run also has a one-sided (exponential) effect, as undertuned runs do.
    groups : tuple of str
        Groups of runs with noise of their own; empty where there is one noise for all.
    drift : bool
        The run effect is an OU process along the run.
    walk : Walk, optional
        With it, the law has an error that is learnt (`noise.walk`); point noise is normal.
    kind, scale, shifts : str, float, str
        Kind and scale of the outcome (`laws.outcome.Outcome`), on which the priors depend; and the covariate that run effects are
        added to, if they are not added on the scale of the noise.
    priors : dict of str to Prior
        Priors stated in place of those of `PRIORS`, by `kind`: one holds for all groups.
    """

    student: bool
    run_effect: bool
    checkpoint_effect: bool = False
    skew: bool = False
    groups: tuple[str, ...] = ()
    drift: bool = False
    walk: Walk | None = None
    kind: Kind = "positive"
    scale: float = 1.0
    shifts: str = ""
    priors: Mapping[str, Prior] = field(default_factory=dict, repr=False)

    @classmethod
    def choose(cls, choice: str | Callable[..., Any], observed: Observations) -> Noise:
        """Resolve one of `CHOICES`, or a function, for the runs of a table; see `bayeslaw.fit`.

        Groups are those of the observations.
        """
        if callable(choice):
            from bayeslaw.noise.custom import PointNoise

            return PointNoise.of(choice, observed)
        kind, scale = observed.outcome.kind, observed.outcome.scale
        known = ("auto", *COUNTED) if kind == "count" else CHOICES
        if choice not in known:
            of = f" of shares of counted {observed.outcome.items}" if kind == "count" else ""
            raise BayeslawError(f"No noise {choice!r}{of}; choose one of {', '.join(known)}.", code="unknown-noise")
        shared = observed.runs < observed.response.size
        if kind == "count":
            run_effect = shared and not choice.endswith("no-run")
            shifts = observed.outcome.run_shifts if run_effect else ""
            return cls(False, run_effect, groups=observed.group_names, kind=kind, shifts=shifts)
        if choice == "normal-checkpoint" and not observed.branched:
            raise BayeslawError(
                "Noise normal-checkpoint needs runs that share a checkpoint, and no two of these do. Name each run's "
                "checkpoint in a column `checkpoint`, or choose noise normal.",
                code="no-shared-checkpoint",
            )
        if choice == DRIFT and not observed.clock.size:
            raise BayeslawError(
                "Noise normal-drift needs observations with a clock: Observations.of(…, clock='step').", code="no-clock"
            )
        student = choice.startswith("student") or (choice == "auto" and not shared)
        run_effect = (shared and not choice.endswith("no-run")) or choice == DRIFT
        checkpoint = choice == "normal-checkpoint"
        return cls(student, run_effect, checkpoint, choice == "skew", observed.group_names, choice == DRIFT, None, kind, scale)

    @property
    def compressible(self) -> bool:
        """Whether a run's points at one setting may be replaced by their number, mean and scatter."""
        return not (self.student or self.drift or self.walk or self.counts)

    @property
    def counts(self) -> bool:
        """Whether outcomes are shares of counted items."""
        return self.kind == "count"

    def prior(self, name: str) -> Prior:
        """The prior of a parameter: of its distance from `least`."""
        if kind(name) in self.priors:
            return self.priors[kind(name)]
        of = OF_KIND.get(self.kind, {}).get(kind(name), PRIORS[kind(name)])
        if self.scale == 1.0 or kind(name) in ("dof", "drift"):
            return of
        args = dict(of.args) | ({"mu": of.args["mu"] + math.log(self.scale)} if of.dist == "LogNormal" else {})
        return replace(of, args=args | ({"sigma": of.args["sigma"] * self.scale} if of.dist == "HalfNormal" else {}))

    def least(self, name: str) -> float:
        """The lower bound of a parameter, on the distance from which its prior is."""
        return LEAST.get(name, 0.0)

    def free(self, name: str) -> str:
        """What the PyMC model calls the free variable of a parameter, which has the distance from another bound than 0."""
        return f"{name}_above_{least:g}" if (least := self.least(name)) else name

    def with_priors(self, priors: Mapping[str, Prior]) -> Noise:
        """Return the same noise with other priors of its parameters, by `kind`; that of `dof` is of its excess over 2."""
        known = dict.fromkeys(kind(name) for name in self.parameters)
        for name, prior in priors.items():
            if name not in known:
                problem = f"{name} is no parameter of {self.text}; its parameters are {', '.join(known)}.{nearest(name, known)}"
                raise BayeslawError(problem, code="unknown-parameter")
            support = self.prior(name).support
            if prior.on or prior.support != support:
                fitting = " or ".join(dist for dist, (of, _) in ARGUMENTS.items() if of == support)
                problem = f"The prior of {name} is a {fitting} of the parameter itself, not {prior}."
                raise BayeslawError(problem, code="wrong-support")
        return replace(self, priors={**self.priors, **priors})

    def choice(self, observed: Observations) -> str:
        """The one of `CHOICES`, other than 'auto', from which `choose` makes this noise for the runs of a table.

        Where no rows share runs, it is the choice with a run effect, which longer runs that join the table will need.
        """
        if self.drift:
            return DRIFT
        if self.counts:
            return COUNTED[observed.runs < observed.response.size and not self.run_effect]
        name = "normal-checkpoint" if self.checkpoint_effect else "skew" if self.skew else "student" if self.student else "normal"
        return f"{name}-no-run" if observed.runs < observed.response.size and not self.run_effect else name

    def _names(self, name: str) -> tuple[str, ...]:
        grouped = ("sigma_point",) if self.counts else GROUPED
        return tuple(f"{name}[{group}]" for group in self.groups) if self.groups and name in grouped else (name,)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of its parameters in the order of `PRIORS`; those of `GROUPED` once for each group."""
        has = {"sigma_run": self.run_effect, "sigma_checkpoint": self.checkpoint_effect, "run_excess": self.skew}
        has |= {"dof": self.student, "drift": self.drift, "discrepancy": self.walk is not None}
        return tuple(n for name in PRIORS if has.get(name, True) for n in self._names(name))

    @property
    def table(self) -> dict[str, Any]:
        """What a fit's file says of it."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("walk", "priors")}
        stated = {"priors": {name: prior.table for name, prior in self.priors.items()}} if self.priors else {}
        return plain | {"groups": list(self.groups)} | stated

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Noise:
        """Return the noise of which `table` is what a file says."""
        priors = {name: Prior.from_card(stated) for name, stated in table.get("priors", {}).items()}
        return cls(**{**table, "groups": tuple(table["groups"]), "priors": {}}).with_priors(priors)

    @property
    def explicit_effects(self) -> bool:
        """Whether run effects are parameters (Student-t noise, counts) or integrated out (normal)."""
        return (self.student or self.counts) and self.run_effect

    @property
    def text(self) -> str:
        """The noise in words, for messages and reports."""
        kind = "beta-binomial" if self.counts else "Student-t" if self.student else "normal"
        text = f"{kind} {'noise' if self.counts else 'point noise'} {'with' if self.run_effect else 'without'} a run effect"
        text += " that changes along the run" if self.drift else ""
        text += ", one shared by the runs of a checkpoint" if self.checkpoint_effect else ""
        text += ", and a one-sided run effect" if self.skew else ""
        return text + (f", for each of {len(self.groups)} groups ({', '.join(self.groups)})" if self.groups else "")

    def groups_of(self, observed: Observations) -> Index:
        """Codes of the runs' groups, int array (R,); all 0 where there is one noise for all."""
        return observed.group if self.groups else np.zeros(observed.runs, dtype=np.int64)

    def row_groups(self, observed: Observations) -> Index:
        """Codes of the rows' groups, int array (n,), by which their point noise differs."""
        return observed.group_of_row if self.groups else np.zeros(observed.run.size, dtype=np.int64)

    def scales(self, draws: Mapping[str, Any], name: str) -> Array:
        """Draws of a parameter for every group, array (G, …); zeros where this noise has no such parameter."""
        names = self._names(name)
        if names[0] not in self.parameters:
            return np.zeros((len(names), *np.shape(draws[self.parameters[0]])))
        return np.stack([np.asarray(draws[n], dtype=np.float64) for n in names])

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
        """Draw the noise of new runs.

        Every row, run and checkpoint has random numbers of its own, so the noise of a row does not depend on the other rows.
        Rows with a run or checkpoint below 0 have no effect of a new one: theirs has been learnt (`sample_effects`).

        Parameters
        ----------
        draws : mapping
            Noise parameters, arrays (S,).
        run, row, checkpoint, group : int arrays (n,)
            Codes of the rows' runs, numbers of the rows, and codes of checkpoints (each run has its own unless given) and groups.
        entropy : tuple of int
            Seeds.
        time, known : arrays (n,), optional
            The rows' clock (`Observations.time_of`), for an OU run effect, and known standard errors of the rows' log losses.

        Returns
        -------
        array (n, S)
            Additions on the scale of the noise. Those of shares of counted items are effects only; `count` has the rest.
        """
        sigma, tau = self.scales(draws, "sigma_point"), self.scales(draws, "sigma_run")
        size, noise, drawn = sigma.shape[1], np.empty((row.size, sigma.shape[1])), dict[tuple[NoiseLevel, int], Array]()
        checkpoint = run if checkpoint is None else checkpoint

        def effect(level: NoiseLevel, code: int, scale: Array, one_sided: bool = False) -> Array:
            if (level, code) not in drawn:
                rng = np.random.default_rng((*entropy, level, code))
                drawn[level, code] = scale * (rng.standard_exponential(size) if one_sided else rng.standard_normal(size))
            return drawn[level, code]

        for i, r in enumerate(row.tolist()):
            g = 0 if group is None else int(group[i])
            rng = np.random.default_rng((*entropy, NoiseLevel.POINT, r))
            if self.counts:
                noise[i] = effect(NoiseLevel.RUN, int(run[i]), tau[0]) if self.run_effect and run[i] >= 0 else 0.0
                continue
            scale = sigma[g] if known is None else np.hypot(sigma[g], known[i])
            noise[i] = scale * (rng.standard_t(draws["dof"]) if self.student else rng.standard_normal(size))
            if self.run_effect and not self.drift and run[i] >= 0:
                noise[i] += effect(NoiseLevel.RUN, int(run[i]), tau[g])
            if self.checkpoint_effect and checkpoint[i] >= 0:
                noise[i] += effect(NoiseLevel.CHECKPOINT, int(checkpoint[i]), draws["sigma_checkpoint"])
            if self.skew and run[i] >= 0:
                noise[i] += effect(NoiseLevel.EXCESS, int(run[i]), draws["run_excess"], one_sided=True)
        if self.drift:
            paths = ou.Paths(draws["drift"])
            for code in np.unique(run[run >= 0]).tolist():
                own = np.flatnonzero(run == code)
                moments = np.zeros(own.size) if time is None else time[own]
                g = 0 if group is None else int(group[own[0]])
                noise[own] += tau[g] * paths.at(moments, (*entropy, NoiseLevel.PATH, code))
        return noise

    def count(
        self, expected: Array, items: Array, draws: Mapping[str, Array], row: Index, entropy: tuple[int, ...], group: Index
    ) -> Array:
        """Draw shares of counted items, array (n, S), given the expected shares (n, S).

        Parameters
        ----------
        expected, items : arrays (n, S) and (n,)
        draws, row, entropy, group
            As for `sample`.
        """
        spread = self.scales(draws, "sigma_point")
        shares = np.empty_like(expected)
        for i, r in enumerate(row.tolist()):
            rng = np.random.default_rng((*entropy, NoiseLevel.COUNT, r))
            shares[i] = counts.sample(expected[i], float(items[i]), spread[int(group[i])], rng)
        return shares

    def variances(self, draws: Mapping[str, Any]) -> tuple[Array, Array]:
        """Variances of point noise and of run effects for every group, means over the draws: arrays (G,).

        For Student-t noise the first is the inverse of a point's Fisher information on its location, sigma^2 (dof + 3)/(dof + 1).
        It is less than the variance, since a likelihood discounts outliers.
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
        """Correlations (…, k, k) of a run's effect at clocks (…, k), mean over some draws; ones unless it is an OU run effect."""
        if not self.drift:
            return np.ones((*np.shape(time), np.shape(time)[-1]))
        length, weight = np.asarray(draws["drift"]), (self.scales(draws, "sigma_run") ** 2).mean(axis=0)
        averaged = np.arange(0, length.size, max(1, length.size // AVERAGED))
        distance = np.abs(time[..., :, None] - time[..., None, :])
        total: Array = np.zeros_like(distance)
        for i in averaged.tolist():
            total += weight[i] * np.exp(-distance / length[i])
        return total / weight[averaged].sum()

    def sample_effects(
        self,
        residual: Array,
        observed: Observations,
        draws: Mapping[str, Any],
        rng: np.random.Generator,
        *,
        multiple: Array | float = 1.0,
    ) -> tuple[Array, Array]:
        """Draw the effects of checkpoints (C, S), and those of runs with their checkpoint's (R, S), given the runs' losses.

        It is for normal noise without an OU run effect.

        Parameters
        ----------
        residual : array (S, n)
            Log loss minus the law's.
        observed : Observations
            Observations of whole checkpoints, or their effects are known from some runs only.
        draws : mapping
            Noise parameters, arrays (S,).
        rng : Generator
        multiple : array (n,), optional
            By which the variances of the points are multiplied (`walk.Walk.multiple`).
        """
        variance, tau = self._spread(observed, draws, multiple)
        _, a, b = marginal.parabolas(residual, observed.run, variance, tau)
        of_checkpoint = np.zeros((len(observed.checkpoint_names), len(residual)))
        if self.checkpoint_effect:
            omega = np.asarray(draws["sigma_checkpoint"])[:, None] ** 2
            shrunk = 1 + omega * sums_by(a, observed.checkpoint)
            of_checkpoint = (
                omega * sums_by(b, observed.checkpoint) / shrunk + np.sqrt(omega / shrunk) * rng.standard_normal(shrunk.shape)
            ).T
        shift = of_checkpoint[observed.checkpoint].T
        if self.skew:
            from scipy.stats import truncnorm

            sd = 1 / np.sqrt(a)
            middle = sd**2 * (b - 1 / np.asarray(draws["run_excess"])[:, None])
            shift = shift + truncnorm.rvs(-middle / sd, np.inf, middle, sd, random_state=rng)
        left = tau**2 / (1 + tau**2 * sums_by(1 / variance, observed.run))
        mean = left * sums_by((residual - shift[:, observed.run]) / variance, observed.run)
        return of_checkpoint, (shift + mean + np.sqrt(left) * rng.standard_normal(left.shape)).T

    def sample_path(
        self, residual: Array, observed: Observations, draws: Mapping[str, Any], time: Array, rng: np.random.Generator
    ) -> Array:
        """Draw the OU effect of one run at moments (m,), array (m, S), given its losses; as `sample_effects`."""
        point, variance = (self.scales(draws, name)[self.groups_of(observed)[0]] ** 2 for name in GROUPED)
        known = observed.known
        return ou.sample_effect(residual, point, known, observed.time, variance, np.asarray(draws["drift"]), time, rng)

    def log_likelihood(
        self, residual: Array, observed: Observations, draws: Mapping[str, Any], *, given: Literal["others", "earlier"] = "others",
        shifted: Shifted | None = None,
    ) -> Array:  # fmt: skip
        """Log density of each run, array (S, R), given the parameters and, where runs share a checkpoint's effect, other runs.

        Parameters
        ----------
        residual, observed, draws
            As for `sample_effects`.
        given : {'others', 'earlier'}
            Condition on all other runs of the checkpoint, as leaving one run out by importance weights needs, or on those that
            come before it, so that the columns add up to the log likelihood.
        shifted : callable
            Needed where run effects are added to a covariate: the expected shares (S, n) given such additions (S, n).
        """
        if self.counts:
            expected, spread = self._counted(residual, observed, draws)
            tau = self.scales(draws, "sigma_run")[self.groups_of(observed)].T if self.run_effect else None
            return counts.of_runs(
                observed.response, expected, observed.items, spread, observed.run, tau, shifted if self.shifts else None
            )
        if self.student:
            variance, tau = self._spread(observed, draws)
            return marginal.student(residual, observed.run, variance, np.asarray(draws["dof"]), tau if self.run_effect else None)
        if self.drift:
            return np.stack([self._filter(residual, observed, draws, j) for j in range(observed.runs)], axis=1)
        logp, a, b = marginal.parabolas(residual, observed.run, *self._spread(observed, draws))
        if self.checkpoint_effect:
            omega = np.asarray(draws["sigma_checkpoint"])[:, None] ** 2
            other_a, other_b = (_of_others(v, observed.checkpoint, given) for v in (a, b))
            logp += marginal.normal_shift((other_a + a, other_b + b), omega) - marginal.normal_shift((other_a, other_b), omega)
        if self.skew:
            logp += marginal.exponential_shift((a, b), np.asarray(draws["run_excess"])[:, None])
        return logp

    def row_log_likelihood(
        self, residual: Array, observed: Observations, draws: Mapping[str, Any], *, shifted: Shifted | None = None
    ) -> Array:
        """Log density of each row, array (S, n), given the parameters and all other rows, as leaving single rows out needs.

        Normal effects of runs and checkpoints are known from the other rows; Student-t ones are parameters.

        Parameters
        ----------
        residual, observed
            As for `sample_effects`.
        draws : mapping
            Noise parameters, arrays (S,), and, if they are parameters, `run_effect` (S, R) in units of sigma_run.
        shifted : callable
            As for `log_likelihood`.
        """
        if self.drift or self.skew:
            problem = f"Noise {self.choice(observed)} has densities of whole runs only; leave runs out, not rows."
            raise BayeslawError(problem, code="densities-of-runs")
        if self.counts:
            expected, point = self._counted(residual, observed, draws)
            if self.run_effect:
                shift = self.scales(draws, "sigma_run")[self.groups_of(observed)].T * np.asarray(draws["run_effect"])
                effect = shift[:, observed.run]
                expected = shifted(effect) if self.shifts and shifted else expit(logit(expected) + effect)
            return counts.log_probability(observed.response, expected, observed.items, point)
        variance, tau = self._spread(observed, draws)
        if self.student:
            from scipy import stats

            shift = (tau * np.asarray(draws["run_effect"]))[:, observed.run] if self.run_effect else np.zeros(1)
            of_rows = stats.t.logpdf(residual, np.asarray(draws["dof"])[:, None], shift, np.sqrt(variance))
            return np.asarray(of_rows, dtype=np.float64)
        # With precision matrix Q, a row given the others is normal with mean residual - (Q residual)/Q_ii and variance 1/Q_ii.
        # The effects add matrices of rank one, so Q is known in closed form (Sherman and Morrison).
        precision, of_run = 1 / variance, observed.run
        weight, sums = sums_by(precision, of_run), sums_by(precision * residual, of_run)
        shrunk = 1 / (1 + tau**2 * weight)
        q = precision - (tau**2 * shrunk)[:, of_run] * precision**2
        scaled = precision * (residual - (tau**2 * shrunk * sums)[:, of_run])
        if self.checkpoint_effect:
            checkpoint = observed.checkpoint[of_run]
            omega = np.asarray(draws["sigma_checkpoint"])[:, None] ** 2
            gain = omega / (1 + omega * sums_by(weight * shrunk, observed.checkpoint))
            column = precision * shrunk[:, of_run]
            q = q - gain[:, checkpoint] * column**2
            scaled = scaled - (gain * sums_by(sums * shrunk, observed.checkpoint))[:, checkpoint] * column
        return np.asarray(0.5 * (np.log(q) - math.log(2 * math.pi) - scaled**2 / q))

    def _filter(self, residual: Array, observed: Observations, draws: Mapping[str, Any], run: int) -> Array:
        """Log density (S,) of the points of a run with an OU effect."""
        rows = slice(observed.starts[run], observed.starts[run + 1])
        point, variance = (self.scales(draws, name)[self.groups_of(observed)[run]] ** 2 for name in GROUPED)
        known = observed.known[rows]
        return ou.kalman_filter(residual[:, rows], point, known, observed.time[rows], variance, np.asarray(draws["drift"]))

    def _counted(self, residual: Array, observed: Observations, draws: Mapping[str, Any]) -> tuple[Array, Array]:
        """Expected shares and their spreads (S, n)."""
        spread = self.scales(draws, "sigma_point")[self.row_groups(observed)].T
        return observed.response - residual, spread

    def _spread(self, observed: Observations, draws: Mapping[str, Any], multiple: Array | float = 1.0) -> tuple[Array, Array]:
        """The rows' variances (S, n), and the scale of each run's effect (S, R)."""
        point, run = (self.scales(draws, name)[self.groups_of(observed)].T for name in GROUPED)
        return (point[:, observed.run] ** 2 + observed.known) * multiple, run


def _of_others(values: Array, checkpoint: Index, given: Literal["others", "earlier"]) -> Array:
    """Sums (S, R) over the other runs of each run's checkpoint, or over those before it; checkpoints (R,) ascend."""
    if given == "others":
        return np.asarray(sums_by(values, checkpoint)[:, checkpoint] - values)
    before = np.cumsum(values, axis=1) - values
    return np.asarray(before - before[:, np.searchsorted(checkpoint, checkpoint)])
