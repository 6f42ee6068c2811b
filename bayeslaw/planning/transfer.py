"""The worth of a pre-trained start: tokens and FLOPs that training from scratch would need for the same loss.

    effectively transferred data = D_scratch - D_cpt,   saved = (C_scratch - C_cpt) / C_scratch     at equal loss and N

(Zheng et al. 2024, sec. 4.3; after Hernandez et al. 2021), for every posterior draw. Losses of both starts have the errors of their
laws: the same one where a law serves both, and independent ones of two fits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, as_mapping, whole_number
from bayeslaw.core.intervals import columns
from bayeslaw.core.text import counted
from bayeslaw.forecasting.grid import grid
from bayeslaw.forecasting.stack import Posterior, Stack, check_pairing, paired, require_losses, with_errors
from bayeslaw.inference.point import PointFit
from bayeslaw.planning.arguments import check_choice, check_passed, check_sizes, outside_note, read_once, setting
from bayeslaw.planning.recipe_paths import drawn_errors
from bayeslaw.planning.search import narrowed
from bayeslaw.planning.stages import SCRATCH, stage_names, stages
from bayeslaw.posterior.diagnostics import checks_label
from bayeslaw.posterior.discrepancy import DrawnErrors
from bayeslaw.posterior.draws import JoinedDraws, LawDraws
from bayeslaw.posterior.fit import Fit

LEAST, MOST, POINTS = 1.0, 1e30, 70  # tokens of training from scratch that are searched


@dataclass(frozen=True, eq=False)
class Transfer:
    """Transferred data and savings, draw by draw.

    Attributes
    ----------
    settings : DataFrame
        N and D of the continual pre-training, one row each.
    loss, scratch : arrays (S, n)
        Its loss; and the tokens from scratch for the same loss, inf where training from scratch never reaches it.
    failed : bool
        Whether checks of a fit failed.
    extrapolated : bool
        Whether losses have errors of laws.
    notes : tuple of str
        Where settings, or tokens from scratch, lie far outside the runs.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> result = bayeslaw.transfer(fit, {"N": 1e9, "D": 1e10}, continued=fit, discrepancy="none")
    >>> bool(np.allclose(result.saved, 0.0, atol=1e-6))
    True
    """

    settings: pd.DataFrame
    loss: Array
    scratch: Array
    failed: bool = False
    extrapolated: bool = False
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Transfer at {counted(len(self.settings), 'setting')}: {counted(len(self.loss), 'draw')}>"

    @property
    def transferred(self) -> Array:
        """Effectively transferred data, tokens (S, n)."""
        return np.asarray(self.scratch - self.settings["D"].to_numpy())

    @property
    def saved(self) -> Array:
        """Share of the FLOPs from scratch that is saved, (S, n); negative where the pre-trained start costs more."""
        return np.asarray(1 - self.settings["D"].to_numpy() / self.scratch)

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """The settings with medians and equal-tailed intervals of loss, scratch_D, transferred (tokens), saved (share of FLOPs)."""
        table = self.settings
        shown = {"loss": self.loss, "scratch_D": self.scratch, "transferred": self.transferred, "saved": self.saved}
        for name, draws in shown.items():
            table = table.assign(**columns(draws, ci_prob, name, method="nearest"))
        return table.assign(never=np.isinf(self.scratch).mean(axis=0), checks=checks_label(self.failed))


def transfer(
    fit: Posterior | PointFit,
    settings: Mapping[str, Any],
    *,
    continued: Posterior | PointFit | None = None,
    stage: str | None = None,
    discrepancy: Literal["learned", "none"] = "learned",
    seed: int = 0,
    force: bool = False,
) -> Transfer:
    """Compute effectively transferred data and FLOPs saved at equal loss.

    Losses have the laws' learnt errors (`Fit.extrapolation`). A law that serves both stages errs alike in both at the same N and D;
    the errors of two fits are independent.

    Parameters
    ----------
    fit : Fit, Stack or PointFit
        A law that serves both stages; or, with `continued`, that of training from scratch.
    settings : mapping
        N and D of the continual pre-training and what else the laws need; texts such as '1e8:4e10:30' as in `bayeslaw.grid`.
    continued : Fit, Stack or PointFit, optional
        The fit of continual pre-training, where it is another; draws of the two go together by their numbers.
    stage : str, optional
        The 0/1 covariate of continual pre-training; needed only where there are several.
    discrepancy : {'learned', 'none'}
        'none' takes the laws for exact.
    seed : int
        Seed of the errors.
    force : bool
        Whether to go on in spite of failed checks; rows are then marked.

    Raises
    ------
    BayeslawError
        If the fit serves one stage only and there is no other, draws are unpaired, or a setting can't be used.
    FitError
        If checks of a fit failed, unless forced.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> bayeslaw.transfer(fit, {"N": 1e9, "D": "1e9:1e11:3"}, continued=fit).scratch.shape[1]
    3
    """
    settings = as_mapping(settings)
    check_choice("discrepancy", discrepancy, "unknown-discrepancy")
    seed = whole_number("seed", seed, 0)
    fits = [fit] if continued is None else [fit, continued]
    require_losses(fits, "a comparison of starts at equal loss")
    for posterior in fits:
        check_passed(posterior, force)
    if continued is not None:
        fit, continued = paired(read_once(fits))
    others = {k: v for k, v in settings.items() if k not in ("N", "D", "atpp")}
    table = _table(fit, {k: v for k, v in settings.items() if k not in others})
    before, after = _starts(fit, continued, others, stage, discrepancy == "learned", seed)
    for start, given in ((before, ["N"]), (after, ["N", "D"])):
        check_sizes(table[given], [law.law for law in start.laws])
    size, other = (JoinedDraws(start.laws).size for start in (before, after))
    unpaired = f"The draws of the two fits are unpaired: {size:,} and {other:,}. Fit both with the same number of draws."
    check_pairing((size, other), unpaired)
    loss, scratch = np.empty((2, size, len(table)))
    for i, (n, d) in enumerate(zip(table["N"], table["D"], strict=True)):
        loss[:, i] = after.losses(n, d)
        for (law, here, _), error in zip(JoinedDraws(before.laws).parts(), before.errors, strict=True):
            scratch[here, i] = _tokens_from_scratch(law, error, n, loss[here, i])
    if not np.isfinite(loss).all():
        raise BayeslawError(
            "The loss of continual pre-training is not finite for some draws at these settings; give others.", code="no-finite-loss"
        )
    failed = not all(f.passed for f in fits)
    n, d = table["N"].to_numpy(), table["D"].to_numpy()
    ptpp = setting("ptpp", others["ptpp"]) if "ptpp" in others else math.nan
    notes = _far(continued or fit, {"N": n, "D": d, "ptpp": ptpp}, "D")
    notes += _far(fit, {"N": n, "D": np.median(scratch, axis=0)}, "the number of tokens from scratch")
    if extrapolated := any(error is not None for start in (before, after) for error in start.errors):
        errors = "independent ones" if continued is not None and continued is not fit else "the same one"
        notes.append(
            f"losses have the errors of the laws, {errors} of both starts "
            "(--discrepancy none, discrepancy='none' takes the laws for exact)"
        )
    return Transfer(table, loss, scratch, failed, extrapolated, tuple(dict.fromkeys(notes)))


def _starts(
    fit: Posterior | PointFit,
    continued: Posterior | PointFit | None,
    settings: Mapping[str, Any],
    stage: str | None,
    learned: bool,
    seed: int,
) -> tuple[_Start, _Start]:
    """Return training from scratch and continual pre-training, by one fit of both or by a fit of each."""
    start = partial(_Start.of, learned=learned, seed=seed)
    if continued is not None:
        if unknown := [name for name in settings if name not in _known(fit, settings) | _known(continued, settings)]:
            problem = f"Neither fit has a covariate {unknown[0]!r}: give N, D and covariates of their laws."
            raise BayeslawError(problem, code="unknown-setting")
        before = start(fit, _known(fit, settings), SCRATCH, side=0)
        own, continues = _known(continued, settings), _continual(continued, settings, stage)
        return before, start(continued, own, continues, side=0 if continued is fit else 1)
    names = stage_names(fit.law) if not isinstance(fit, Stack) else []
    if (stage or "") not in ["", *names] or not names or (stage is None and len(names) > 1):
        shown = f"stages {', '.join(names)}" if names else "one stage"
        raise BayeslawError(
            f"The law of this fit has {shown}: give a fit of a law that serves both training from scratch and continual "
            "pre-training, the fit of the other stage beside it, or the stage's name (--stage, stage=).",
            code="one-stage-only",
        )
    if (continues := stage or names[0]) in settings:
        problem = f"{continues} tells the two stages apart, and both are compared: leave it out of the settings."
        raise BayeslawError(problem, code="contradicting-stage")
    return start(fit, settings, SCRATCH, side=0), start(fit, settings, continues, side=0)


@dataclass(frozen=True, eq=False)
class _Start:
    """The losses of one start as functions of N and D, by the laws that give draws and their errors."""

    laws: list[LawDraws]
    errors: list[DrawnErrors | None]

    @classmethod
    def of(
        cls, posterior: Posterior | PointFit, settings: Mapping[str, Any], stage: str | None, *, side: int, learned: bool, seed: int
    ) -> _Start:
        """Return the start in a stage; sides with the same number have the same random numbers."""
        fits = with_errors(posterior.selections) if learned and not isinstance(posterior, PointFit) else posterior.selections
        errors = [
            drawn_errors(fit, chosen, seed, number, side) if isinstance(fit, Fit) else None
            for number, (fit, chosen) in enumerate(fits)
        ]
        return cls(stages(fits, settings, stage), errors)

    def losses(self, n: float, d: float) -> Array:
        """Return the losses (S,) at N and D."""
        factors = [
            np.ones(law.size) if error is None else np.exp(error.at({**law.constants, "N": n, "D": d})[0])
            for law, error in zip(self.laws, self.errors, strict=True)
        ]
        return np.asarray(JoinedDraws(self.laws).outcome({"N": n, "D": d}) * np.concatenate(factors))


def _far(posterior: Posterior | PointFit, at: Mapping[str, Any], tokens: str) -> list[str]:
    """Return notes of values that lie outside the runs of a fit; `tokens` is what D is called."""
    notes = list[str]()
    for fit, _ in posterior.selections:
        for name in (name for name in at if name in fit.observed.covariates):
            what = tokens if name == "D" else name
            notes += outside_note(what, at[name], fit.observed.covariates[name], f"the runs of {fit.law.name}")
    return notes


def _known(fit: Posterior | PointFit, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the settings that the laws of a fit have, of two fits that may need different ones."""
    return {k: v for k, v in settings.items() if k in fit.measured or k in fit.levels}


def _continual(fit: Posterior | PointFit, settings: Mapping[str, Any], stage: str | None) -> str | None:
    """The stage of continual pre-training in its own fit: as named, or the only one of its laws; None where settings tell it."""
    names = list(dict.fromkeys(name for member, _ in fit.selections for name in stage_names(member.law)))
    chosen = any(name in settings for name in names)
    if stage == SCRATCH or (stage is None and len(names) > 1 and not chosen):
        shown = f"has stages {', '.join(names)}" if names else "has one stage"
        problem = f"{fit.name} {shown}: give the one of continual pre-training (--stage, stage=), which is not {SCRATCH!r}."
        raise BayeslawError(problem, code="unknown-stage")
    return names[0] if stage is None and names and not chosen else stage


def _table(fit: Posterior | PointFit, sizes: Mapping[str, Any]) -> pd.DataFrame:
    """N and D, one row each; other covariates have any value here."""
    if "N" not in sizes or len(sizes) < 2:
        raise BayeslawError("Give N and D of the continual pre-training, such as N=2e9 and D=1e8:4e10:30.", code="missing-setting")
    rest = {c: values[0] for c, values in fit.levels.items()}
    fill = {c: 0.5 * sum(v.support) for c, v in fit.measured.items() if c not in ("N", "D")}
    table = grid(fit.law if isinstance(fit, PointFit) else fit, {**sizes, **fill, **rest})[["N", "D"]]
    if not ((table["N"] > 0) & (table["D"] > 0)).all():
        raise BayeslawError("N and D must be positive.", code="setting-not-positive")
    return table


def _tokens_from_scratch(law: LawDraws, error: DrawnErrors | None, n: float, loss: Array) -> Array:
    """The fewest tokens from scratch with which each draw's loss is at most `loss` (S,); inf where there are none."""
    ends = math.log(LEAST), math.log(MOST)
    x, size, every = np.linspace(*ends, POINTS), np.array([n]), np.arange(loss.size)
    along = None if error is None else error.over("D", {**law.constants, "N": n}, ends)

    def margin(draws: Index, log_d: Array) -> Array:
        whole = law.outcome({"N": size, "D": np.exp(log_d)}, draws)
        return loss[draws] - (whole if along is None else whole * np.exp(along.at(draws, log_d, shared=False)))

    curves = law.outcome({"N": size, "D": np.exp(x)}, axes=1)
    if along is not None:
        curves = curves * np.exp(along.at(every, x, shared=True))
    enough = curves <= loss[:, None]  # not where a curve is no number
    first = enough.argmax(axis=1)
    tokens = np.where(enough.any(axis=1), x[first], np.inf)
    between = np.flatnonzero(enough.any(axis=1) & (first > 0))
    tokens[between] = narrowed(lambda i, places: margin(between[i], places), x[first[between]], x[first[between] - 1])
    return np.exp(tokens)
