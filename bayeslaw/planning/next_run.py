"""What the next run and its base checkpoint would log beyond the laws' expected losses.

Forgetting is their difference, so it matters how their effects are related. With checkpoint effects both have the effect of
the planned checkpoint, learnt if it is in the fit. Without, the effect of a base checkpoint and those of the runs adapted from it
are correlated as those in the fit are; where the planned checkpoint's own base was fitted, the run's effect is drawn given it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, Index, sums_by
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.streams import Stream
from bayeslaw.forecasting.base_losses import MODEL_TOLERANCE
from bayeslaw.forecasting.discrepancy import StatedDiscrepancy
from bayeslaw.forecasting.stack import with_error
from bayeslaw.inference.point import PointFit
from bayeslaw.noise.walk import directions
from bayeslaw.planning.domain_loss import DomainLoss
from bayeslaw.posterior.discrepancy import ErrorsOver
from bayeslaw.posterior.draws import LawDraws
from bayeslaw.posterior.effects import LearntEffects
from bayeslaw.posterior.fit import Fit

AVERAGED = 200  # draws by which the correlation is measured
LEAST = 3  # checkpoints from which a correlation is measured


def with_next_run(
    losses: Sequence[DomainLoss], seed: int, discrepancy: float | None, *, run: bool, learned: bool = False
) -> list[DomainLoss]:
    """The losses with effects and noise of the next run, and with errors of the laws, stated or learnt.

    Losses of one posterior share the run effect, as they are losses of one model; those of different posteriors don't.

    Parameters
    ----------
    losses, seed, discrepancy
        As in `plan`.
    run : bool
        Whether the effects and noise of the next run are added.
    learned : bool
        Whether losses outside the runs have the error of the law that the fit has learnt, or that laws have on other ladders. A
        law whose error was learnt has it inside the runs too, since it was fitted together with its error.
    """
    order = list(dict.fromkeys(id(loss.posterior) for loss in losses))
    shifted = []
    for number, loss in enumerate(losses):
        place, shared = order.index(id(loss.posterior)), dict[str, None]()
        assert not isinstance(loss.posterior, PointFit)  # which plans refuse
        shifts, errors, erring, selections = list[Array](), list[ErrorsOver | None](), False, loss.posterior.selections
        members = list[LawDraws]()
        for i, ((fit, chosen), member) in enumerate(zip(selections, loss.member_draws, strict=True)):
            # A fit of a stack may be selected in several parts, whose draws have noise of their own.
            own, shift = (int(fit.info["seed"]), seed, Stream.PLANNED, place + i * len(order)), np.zeros((2, member.size))
            away = with_error(fit, selections) if learned else None
            used = fit if away is None else away  # an error belongs to the draws of the law with which it was learnt
            if run:
                added, text = _next_run(used, chosen, loss.settings, own, number)
                shift += added
                shared[text] = None
            if discrepancy:
                shift += discrepancy * _discrepancy(member, (*own, number))
            members.append(replace(member, draws=used.draws_of(chosen)))
            fixed, along = (0.0, None) if away is None else _learnt_error(away, chosen, member, (*own, number))
            erring |= along is not None or bool(np.any(fixed))
            errors.append(along)
            shifts.append(shift + fixed)
        both = np.concatenate(shifts, axis=1)
        loss = replace(loss, member_draws=tuple(members), shift=both[0], shift_base=both[1], errors=tuple(errors))
        shifted.append(replace(loss, shared="".join(shared), extrapolated=erring))
    return shifted


def _next_run(fit: Fit, chosen: Index, settings: Mapping[str, Any], entropy: tuple[int, ...], number: int) -> tuple[Array, str]:
    """Effects and noise (2, S) of the planned run and of its base checkpoint, and how these are related.

    `number` is that of the domain, whose points have noise of their own.
    """
    noise, frame, draws = fit.noise, pd.DataFrame(dict(settings), index=[0]), fit.draws_of(chosen)
    group, rows = np.repeat(fit.observed.groups_of(frame), 2), np.array([2, 3]) + 2 * number
    learnt = LearntEffects.of(fit, frame, np.zeros(1), chosen, entropy)
    known, none = int(learnt.checkpoint[0]), np.full(2, -1)
    checkpoint = np.full(2, 0 if known < 0 else -1)
    points = noise.sample(draws, none, rows, entropy, checkpoint=checkpoint, group=group)
    effects = noise.sample(draws, np.array([0, 1]), rows, entropy, checkpoint=checkpoint, group=group) - points
    points = points + learnt.at(np.zeros(1, np.int64))
    base, correlation = _base_run(fit, settings), _correlation(fit)
    mean = draws["run_excess"] if noise.skew else 0.0
    of_run, of_base = effects - mean
    if base is not None and noise.run_effect and not noise.drift and (known >= 0 or not noise.checkpoint_effect):
        of_base = learnt.of_run(base) - learnt.of_checkpoint(known) - mean
        of_run = correlation * of_base + math.sqrt(1 - correlation**2) * of_run
    else:
        of_base = correlation * of_run + math.sqrt(1 - correlation**2) * of_base
    text = f"; its effect and the run's are correlated by {correlation:.2f}, as in the fitted runs" if correlation else ""
    if noise.checkpoint_effect:
        text = f"; it shares {'the learnt effect of its checkpoint' if known >= 0 else 'a checkpoint effect'} with the run"
    return points + mean + np.stack([of_run, of_base]), text


def _base_run(fit: Fit, settings: Mapping[str, Any]) -> int | None:
    """The fitted run of the planned model's base checkpoint (D = 0), if there is exactly one."""
    columns = fit.observed.covariates
    if "D" not in columns:
        return None
    same = columns["D"] == 0
    for name in columns.keys() - {"D", "r"}:
        if name in settings:
            same &= np.isclose(columns[name], float(settings[name]), rtol=MODEL_TOLERANCE, atol=0.0)
    runs = np.unique(fit.observed.run[same])
    return int(runs[0]) if runs.size == 1 else None


def _correlation(fit: Fit) -> float:
    """The correlation of the effects of a base checkpoint and of a run adapted from it, as measured among the fitted runs.

    It is 1 where base rows are the first rows of the runs themselves. Where too few base checkpoints were fitted, it is that of two
    runs of a checkpoint. Where too few of those were, or effects are small beside the noise of points, it is unknown, and 0 makes
    the widest intervals. A checkpoint effect is what makes runs correlated, so with one it is 0.
    """
    observed, noise = fit.observed, fit.noise
    at_base = observed.covariates.get("D", np.ones(observed.run.size)) == 0
    base = np.bincount(observed.run, at_base, observed.runs) > 0
    if not noise.run_effect or noise.checkpoint_effect:
        return 0.0
    if base.any() and np.isin(observed.run[at_base], observed.run[~at_base]).all():
        return 1.0
    if noise.drift or not observed.branched:
        return 0.0
    first, second = np.nonzero(np.triu(observed.checkpoint[:, None] == observed.checkpoint, 1))
    mixed = base[first] != base[second]
    for pairs in (mixed, ~base[first] & ~base[second]):
        if np.unique(observed.checkpoint[first[pairs]]).size >= LEAST:
            errors, own = _mean_errors(fit)
            a, b = (errors[of[pairs]] for of in (first, second))
            # Points have noise of their own, so that mean errors of two runs vary together only as the runs' effects do.
            variances = np.array([(e**2).mean(0) - own[of[pairs]].mean() for e, of in ((a, first), (b, second))])
            known = (variances > 0).all(axis=0)  # effects as small as the noise of means are not told from none
            scale = np.sqrt(np.where(known, np.prod(variances, axis=0), 1.0))
            return float(np.clip(np.median(np.where(known, (a * b).mean(0) / scale, 0.0)), 0.0, 1.0))
    return 0.0


def _mean_errors(fit: Fit) -> tuple[Array, Array]:
    """Draws of the runs' mean log losses less the law's (R, s), and their variances by the noise of points (R,)."""
    observed, draws = fit.observed, fit.draws_of(slice(None, None, max(1, fit.size // AVERAGED)))
    residual = observed.response - np.log(fit.law.predict(draws, observed.covariates))
    count = np.diff(observed.starts)
    means = sums_by(residual, observed.run) / count
    known = np.bincount(observed.run, observed.known) / count
    own = (fit.noise.variances(draws)[0][fit.noise.groups_of(observed)] + known) / count
    return (means.T - draws["run_excess"] if fit.noise.skew else means.T), own


def _learnt_error(fit: Fit, chosen: Index, member: LawDraws, entropy: tuple[int, ...]) -> tuple[Array | float, ErrorsOver | None]:
    """The error of a law fitted with one: (S,) at the plan, or along the tokens, where it changes with them."""
    assert fit.discrepancy is not None
    drawn = fit.discrepancy.drawn(chosen, (*entropy, Stream.NEXT_RUN_ERROR))
    if "D" in directions(fit.law):
        return 0.0, drawn.over("D", member.constants)
    return np.asarray(drawn.at(member.constants)[0]), None


def _discrepancy(member: LawDraws, entropy: tuple[int, ...]) -> Array:
    """The law's error (S,) of relative sd 1 at the plan."""
    if "D" in directions(member.law):
        raise BayeslawError(
            f"A discrepancy of {member.law.name} would change with the tokens planned; a plan can use one only if it is the same "
            "along the adaptation, as that of laws with ptpp is.",
            code="discrepancy-along-tokens",
        )
    return StatedDiscrepancy(member.law, member.size, entropy).at({**member.constants, "D": 1.0})
