"""Noise of log loss: point noise, normal or Student-t, and an effect shared by the points of a run.

    log loss_i = log L(x_i) + u_run(i) + e_i,   u ~ Normal(0, sigma_run),   e ~ Normal or Student-t(dof) (0, sigma_point)

With normal point noise the run effects are integrated out in closed form: the k residuals of a run are jointly normal
with covariance sigma_point^2 I + sigma_run^2 11'. With Student-t noise they are parameters, in units of sigma_run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslaw.errors import BayeslawError
from bayeslaw.priors import Prior

PRIORS = {
    # Evaluation and optimisation noise of single points: 0.03% to 10% of the loss with 95% probability.
    "sigma_point": Prior("LogNormal", {"mu": math.log(0.005), "sigma": 1.5}),
    # Luck of a run (seed, data order): measured 0.3 to 0.5% at the smallest models of tinycpt; up to 0.6% here with 95%
    # probability. The tail is light on purpose: a wrong law must not pass what it misses between runs off as luck.
    "sigma_run": Prior("HalfNormal", {"sigma": 0.003}),
    # Degrees of freedom above 2, from heavy tails to nearly normal (after Juarez and Steel 2010). At 2 and below the variance
    # is infinite: a forecast's interval would be set by the tail alone.
    "dof": Prior("Gamma", {"alpha": 2.0, "beta": 0.1}),
}
MEANING = {
    "sigma_point": ("relative noise of one logged loss", r"\sigma_\mathrm{point}"),
    "sigma_run": ("relative noise shared by the points of a run", r"\sigma_\mathrm{run}"),
    "dof": ("degrees of freedom of the point noise", r"\nu_\mathrm{noise}"),
}
LEAST = {"dof": 2.0}
"""Where a noise parameter begins, if not at 0: its prior and its logarithmic coordinate are on what lies above."""
CHOICES = ("auto", "normal", "student", "normal-no-run", "student-no-run")


@dataclass(frozen=True)
class Noise:
    """Which noise a fit assumes.

    Attributes
    ----------
    student : bool
        Student-t point noise instead of normal.
    run_effect : bool
        Points of one run share an effect.
    """

    student: bool
    run_effect: bool

    @classmethod
    def choose(cls, choice: str, run: NDArray[np.int64]) -> Noise:
        """Resolve one of `CHOICES`.

        'auto' is normal noise with a run effect where rows share runs and Student-t noise where they don't; 'normal' and
        'student' have a run effect where rows share runs, the `-no-run` choices never.
        """
        if choice not in CHOICES:
            raise BayeslawError(f"No noise {choice!r}; choose one of {', '.join(CHOICES)}.")
        shared = bool(run.size) and int(run.max()) + 1 < run.size
        student = choice.startswith("student") or (choice == "auto" and not shared)
        return cls(student, shared and not choice.endswith("no-run"))

    @property
    def parameters(self) -> tuple[str, ...]:
        return ("sigma_point", *(("sigma_run",) if self.run_effect else ()), *(("dof",) if self.student else ()))

    @property
    def explicit_effects(self) -> bool:
        """Whether run effects are parameters (Student-t) or integrated out (normal)."""
        return self.student and self.run_effect

    @property
    def text(self) -> str:
        return f"{'Student-t' if self.student else 'normal'} point noise {'with' if self.run_effect else 'without'} a run effect"

    def sample(
        self,
        draws: Mapping[str, NDArray[np.float64]],
        run: NDArray[np.int64],
        row: NDArray[np.int64],
        entropy: tuple[int, ...],
    ) -> NDArray[np.float64]:
        """Noise of new runs.

        Every row and every run has random numbers of its own: the noise of a row does not depend on which others are asked for.

        Parameters
        ----------
        draws : mapping
            Noise parameters, arrays (S,).
        run, row : int arrays (n,)
            Codes of the rows' runs and numbers of the rows.
        entropy : tuple of int
            Seeds.

        Returns
        -------
        array (n, S)
            Additions to log loss.
        """
        sigma = draws["sigma_point"]
        noise = np.empty((row.size, sigma.size))
        luck: dict[int, NDArray[np.float64]] = {}
        for i, (r, code) in enumerate(zip(row.tolist(), run.tolist(), strict=True)):
            rng = np.random.default_rng((*entropy, 0, r))
            noise[i] = sigma * (rng.standard_t(draws["dof"]) if self.student else rng.standard_normal(sigma.size))
            if self.run_effect:
                if code not in luck:
                    luck[code] = draws["sigma_run"] * np.random.default_rng((*entropy, 1, code)).standard_normal(sigma.size)
                noise[i] += luck[code]
        return noise

    def log_likelihood(
        self, residual: NDArray[np.float64], run: NDArray[np.int64], draws: Mapping[str, Any]
    ) -> NDArray[np.float64]:
        """Log density of whole runs.

        Parameters
        ----------
        residual : array (S, n)
            Log loss minus the law's and, for Student-t noise, minus the run's effect.
        run : int array (n,)
            Codes 0 … R-1.
        draws : mapping
            Noise parameters, arrays (S,).

        Returns
        -------
        array (S, R)
            Log density of each run (of each row, where rows share no runs).
        """
        runs = int(run.max()) + 1
        member = np.zeros((run.size, runs))
        member[np.arange(run.size), run] = 1.0
        sigma = np.asarray(draws["sigma_point"])[:, None]
        if self.student:
            from scipy.stats import t

            rows: NDArray[np.float64] = t.logpdf(residual, np.asarray(draws["dof"])[:, None], 0, sigma)
            return rows @ member
        count = member.sum(axis=0)
        tau2 = np.asarray(draws["sigma_run"])[:, None] ** 2 if self.run_effect else np.zeros_like(sigma)
        spread = sigma**2 + count * tau2
        squares = (residual**2) @ member / sigma**2 - tau2 * (residual @ member) ** 2 / (sigma**2 * spread)
        logp: NDArray[np.float64] = -0.5 * (
            squares + (count - 1) * np.log(sigma**2) + np.log(spread) + count * math.log(2 * math.pi)
        )
        return logp
