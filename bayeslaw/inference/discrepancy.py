"""Learn how wrong a law is beside its runs: a second posterior, in which the law has an error (`noise.walk`).

The posterior of the law alone answers what its parameters are, and where the loss lies inside the runs. Outside the runs, forecasts
come from the second.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, StoppedError
from bayeslaw.core.streams import Stream
from bayeslaw.data.observations import Observations
from bayeslaw.engine.density import Density
from bayeslaw.inference.sample import SamplerSettings, sample_soundly
from bayeslaw.laws.law import Law
from bayeslaw.noise.custom import PointNoise
from bayeslaw.noise.noise import Noise, kind
from bayeslaw.noise.walk import CONTINUED, Walk, coefficients
from bayeslaw.posterior.diagnostics import diagnostics

MOST_ROWS = 5_000  # a gradient takes time in proportion to the rows: a fit to so many takes 30 s of a core
ACCEPT = 0.975  # larger steps diverge where the error is large, since the posterior of the law is then as wide as its priors
# Share of divergent transitions that is no reason to sample again with smaller steps, which takes several times as long: coverage,
# widths and errors on public ladders are the same without it (`make ladders`).
DIVERGENT = 0.01
R_HAT = 1.1  # above it, draws of the law with an error are not used: its chains lie in different places
STOPPED = "sampling was interrupted"
OF_FILES = ("coefficients", "loadings", "squares", "multiple", "component", "knot")
"""What `WithDiscrepancy.dataset` has beside the draws of parameters."""
# Outliers are found by a Student-t likelihood with so many degrees of freedom, at the law's median and a typical discrepancy.
DOF, TYPICAL, ROUNDS = 4.0, 0.005, 30


def require_names(law: Law) -> None:
    """Refuse a law with a parameter that is called like the numbers of a learnt error in files of fits, or their axes."""
    if taken := sorted({*OF_FILES} & {*law.parameters}):
        raise BayeslawError(
            f"Fits keep numbers of a law's learnt error under the name {taken[0]!r}, as a parameter of {law.name} is called: "
            "rename it in the card, or learn no error by --discrepancy none (in Python discrepancy='none').",
            code="name-used-twice",
        )


def why_not(law: Law, observed: Observations, noise: Noise) -> str:
    """Return why no discrepancy is learnt for a fit, in words that follow 'because'; empty if one is.

    Parameters
    ----------
    law, observed, noise
        Of the fit.
    """
    if CONTINUED & {*law.covariates}:
        return "errors of laws of continual pre-training jump from checkpoint to checkpoint"
    if isinstance(noise, PointNoise) or noise.drift or noise.skew:
        return f"its noise is {noise.text}"
    if not observed.outcome.unbounded:
        of = f"{observed.outcome.name} is of kind {observed.outcome.kind}"
        return f"errors of laws are learnt for outcomes of kinds positive and real, and {of}"
    if law.levels:
        return f"parameters vary by {' and '.join(law.levels)}"
    if observed.response.size > MOST_ROWS:
        return f"the table has more than {MOST_ROWS:,} rows"
    if Walk.of(law, observed.covariates) is None:
        return "its runs don't differ in size, tokens or stage"
    return ""


@dataclass(frozen=True, eq=False)
class WithDiscrepancy:
    """Draws (chains, draws) of the parameters of law, noise and discrepancy, in the model in which the law has an error.

    `coefficients` (chains, draws, k) are of the combinations in `walk.loadings`, times the discrepancy's scale.
    """

    walk: Walk
    draws: dict[str, Array]
    coefficients: Array

    @property
    def dataset(self) -> xr.Dataset:
        """What a fit's file keeps."""
        values: dict[str, Any] = {name: (("chain", "draw"), v) for name, v in self.draws.items()}
        values |= {
            "coefficients": (("chain", "draw", "component"), self.coefficients),
            "loadings": (("knot", "component"), self.walk.loadings),
        }
        if (self.walk.multiple != 1).any():
            values["multiple"] = ("row", self.walk.multiple)
        return xr.Dataset(values | {"squares": ("component", self.walk.squares)})


def learn_discrepancy(
    law: Law, observed: Observations, noise: Noise, plain: Mapping[str, Array], settings: SamplerSettings
) -> WithDiscrepancy | str:
    """Sample the posterior of a law with an error, or return why it could not be sampled.

    Parameters
    ----------
    law, observed, noise
        Of a fit for which `why_not` has no reason.
    plain : mapping of parameter to array (chains, draws)
        The posterior without an error of the law.
    settings : SamplerSettings
        Those of the first posterior.
    """
    walk = Walk.of(law, observed.covariates)
    assert walk is not None
    if noise.student:
        information = (DOF + 1) / (DOF + 3)  # of a point of Student-t noise, in that of a normal one of its scale
        multiple = _multiples(walk, law, observed, noise, plain) / information
        walk = replace(walk, multiple=multiple, information=information)
    normal = replace(noise, student=False, walk=walk)
    seed = int(np.random.SeedSequence([settings.seed, Stream.SECOND_POSTERIOR]).generate_state(1)[0])
    settings = replace(settings, seed=seed, acceptance=settings.acceptance.at_most(ACCEPT))
    try:
        result, _ = sample_soundly(Density.of(law, observed, normal), settings, divergent=DIVERGENT)
    except StoppedError:
        return STOPPED
    if result.interrupted or result.draws["discrepancy"].shape != next(iter(plain.values())).shape:
        return STOPPED
    scalars = {name: values for name, values in result.draws.items() if values.ndim == 2}
    if (r_hat := float(diagnostics(scalars, ["r_hat"])["r_hat"].max())) > R_HAT:
        return f"the chains that sampled a law with an error disagree (R-hat {r_hat:.2f})"
    shape = result.draws["discrepancy"].shape
    flat = {name: values.reshape(-1) for name, values in result.draws.items()}
    residual = law.outcome.residual(observed.response, law.predict(flat, observed.covariates))
    # Most fits have one seed. Errors that are learnt from other losses are independent, and draws of two fits are paired.
    of_losses = zlib.crc32(np.round(observed.response, 9).tobytes())
    rng = np.random.default_rng([seed, Stream.SECOND_POSTERIOR, of_losses])
    drawn = coefficients(normal, observed, np.asarray(residual), flat, rng)
    # New runs have the noise of the posterior without an error, whose scale and degrees of freedom belong together.
    of_noise = [name for name in plain if kind(name) in ("sigma_point", "dof")] if noise.student else []
    draws = result.draws | {name: plain[name] for name in of_noise}
    return WithDiscrepancy(walk, draws, drawn.reshape(*shape, -1))


def _multiples(walk: Walk, law: Law, observed: Observations, noise: Noise, plain: Mapping[str, Array]) -> Array:
    """By which to multiply the variances of rows (n,), so that outliers count less: the weights of a Student-t likelihood.

    The error of the law is smoothed and the noise's scale found by expectation and maximisation, at the law's median losses.
    """
    flat = {name: values.reshape(-1) for name, values in plain.items()}
    error = law.outcome.residual(observed.response, np.median(law.predict(flat, observed.covariates), axis=0))
    features = walk.components(observed.covariates) * TYPICAL * law.outcome.scale
    known = observed.known
    variance, multiple = float(np.median(noise.scales(flat, "sigma_point"))) ** 2, np.ones(error.size)
    for _ in range(ROUNDS):
        own = (variance + known) * multiple
        covariance = np.linalg.inv(np.eye(features.shape[1]) + (features.T / own) @ features)
        smooth = features @ (covariance @ (features.T @ (error / own)))
        squares = (error - smooth) ** 2 + ((features @ covariance) * features).sum(axis=1)
        total = variance + known
        multiple = (DOF + squares / total) / (DOF + 1)
        part = variance / total  # of each error that is the noise's own, not the known one's
        variance = float(np.mean(part**2 * squares / multiple + part * known))
    return np.asarray(multiple)
