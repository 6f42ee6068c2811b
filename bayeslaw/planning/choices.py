"""The answer to a plan's question: tokens and replay at every level, and how often they keep their promises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.table import Runs
from bayeslaw.planning.base_loss import Base
from bayeslaw.planning.problem import Question
from bayeslaw.planning.sweep import Array, Index
from bayeslaw.posterior.diagnostics import passed_over

if TYPE_CHECKING:
    from bayeslaw.design.anchors import Anchors

BLOCK = 50  # neighbouring draws that are searched, or held out, together


@dataclass(frozen=True)
class Choice:
    """Tokens and replay, and how often they keep the promises.

    Attributes
    ----------
    tokens, replay, atpp, flops, cost : float
        nan where there is no N or no price.
    confidence : float
        Promised; nan where none was.
    searched : float
        Share of the searched draws that keep every promise.
    held_out, error : float
        Probability of keeping every promise by the held-out draws, and its Monte Carlo error.
    alone : dict of str to float
        Probability of keeping each promise, whatever becomes of the others.
    value : float
        What was to be least, where that is a loss (in its fit's unit) or forgetting (relative).
    """

    tokens: float
    replay: float
    atpp: float
    flops: float
    cost: float
    confidence: float
    searched: float
    held_out: float
    error: float
    alone: Mapping[str, float]
    value: float = math.nan

    @property
    def binding(self) -> str:
        """The promise that is broken most often."""
        return min(self.alone, key=lambda name: self.alone[name]) if self.alone else ""


@dataclass(frozen=True)
class Plan:
    """The answer to a plan's question.

    Attributes
    ----------
    best : Choice or None
        At the confidence asked for; None where no tokens and replay reach it.
    attainable : Choice or None
        Where most draws keep every promise, where the confidence asked for is not reached.
    frontier : DataFrame
        One row per level: confidence, plan ('feasible' or 'infeasible'), tokens, atpp, r, flops, cost, value, searched, held_out,
        held_out_se, binding, and `checks`, 'passed' or 'FAILED (forced)'.
    deterministic : Choice or None
        The plan that knows no uncertainty, and how often it keeps the promises.
    deterministic_by : str
        What that goes by: 'median losses' or 'point fits'.
    losses : DataFrame
        Losses and forgetting at `best` (else at `attainable`): median, eti90_lo, eti90_hi, checks.
    margins : dict of str to array (S,)
        There, in each draw, by how much (relative) each loss stays under its limit by the laws alone: without the noise of the
        next run and without a stated discrepancy. What `anchors` aims at: which runs would make the promises surer.
    promises : tuple of str
    notes : tuple of str
        What was found and what to beware of.
    base : dict of str to Base
    several : float
        Share of the draws in which promises hold on more than one interval of tokens at the replay of the plan.
    question : Question
        What was asked, read and checked.
    draws, held : int arrays
        Which draws were searched and held out.
    confidence : float
    on : {'latent', 'run'}
    forced : bool
        Whether it was made in spite of failed checks.
    """

    best: Choice | None
    attainable: Choice | None
    frontier: pd.DataFrame
    deterministic: Choice | None
    deterministic_by: str
    losses: pd.DataFrame
    margins: Mapping[str, Array]
    promises: tuple[str, ...]
    notes: tuple[str, ...]
    base: Mapping[str, Base]
    several: float
    question: Question
    draws: Index
    held: Index
    confidence: float
    on: str
    forced: bool = False

    def __repr__(self) -> str:
        return f"<Plan for {'; '.join(self.lines()[:2])}>"

    @property
    def shown(self) -> Choice | None:
        """The plan, or where most draws keep every promise."""
        return self.best or self.attainable

    @property
    def landscapes(self) -> tuple[str, ...]:
        """What its pictures can show under the probability: 'forgetting', 'target-loss'."""
        return (*(["forgetting"] if self.question.bases else []), *(["target-loss"] if self.question.target is not None else []))

    def lines(self) -> list[str]:
        """The answer in words."""
        spread = "the laws' expected losses" if self.on == "latent" else "the losses that the next run logs"
        model = ", ".join(f"{k} = {v:g}" for k, v in self.question.settings.items())
        head = f"{model + ': ' if model else ''}{'; '.join(self.promises) or 'nothing else promised'}; on {spread}"
        lines = [head + passed_over(self.forced)]
        if self.best is not None:
            one = self.best
            kept = f"promised {one.confidence:g}, kept in {one.held_out:.3f} ± {one.error:.3f} of the held-out draws"
            lines.append(f"plan: {_described(one, self.question)}; {kept}")
        else:
            lines.append(f"infeasible at confidence {self.confidence:g}")
            if self.attainable is not None:
                one = self.attainable
                lines.append(f"most that can be promised: {one.held_out:.3f} ± {one.error:.3f} at {_described(one)}")
        if self.deterministic is not None:
            one = self.deterministic
            kept = f"keeps the promises with probability {one.held_out:.3f} ± {one.error:.3f}"
            lines.append(f"without uncertainty (by {self.deterministic_by}): {_described(one, self.question)}; {kept}")
        else:
            lines.append(f"without uncertainty (by {self.deterministic_by}): infeasible")
        return lines

    def anchors(self, candidates: Runs | pd.DataFrame | str | Path, *, budget: float, **options: Any) -> Anchors:
        """The runs to buy that lower the variance of the promises' margins most; see `bayeslaw.anchors`.

        Parameters
        ----------
        candidates : Runs, DataFrame or path
            Runs that could be bought; each logs a loss of every domain.
        budget : float
        **options
            Other arguments of `bayeslaw.anchors`.

        Raises
        ------
        BayeslawError
            If there is no place at which margins could be worked out: no draw keeps every promise anywhere.
        """
        from bayeslaw.design.anchors import anchors

        if not self.margins:
            raise BayeslawError("No draw keeps every promise anywhere, so there are no margins that runs could tell. Promise less.")
        posteriors: list[Any] = []
        for side in self.question.sides:
            if not any(side.posterior is p for p in posteriors):
                posteriors.append(side.posterior)
        return anchors(posteriors, candidates, dict(self.margins), budget=budget, **options)

    def probability(self, tokens: Array, replay: Array) -> Array:
        """Probability of keeping every promise, array (replay, tokens), by all draws."""
        every = np.sort(np.concatenate([self.draws, self.held]))
        return np.asarray(self.question.search.counts(every, np.log(tokens), replay) / every.size)


def _described(one: Choice, question: Question | None = None) -> str:
    """A choice in a line."""
    parts = [f"ATPP {one.atpp:.4g}"] if math.isfinite(one.atpp) else []
    parts += [f"{one.tokens:.4g} tokens", f"replay {one.replay:.1%}"]
    parts += [f"{one.flops:.3g} FLOPs"] if math.isfinite(one.flops) else []
    parts += [f"cost {one.cost:.4g}"] if math.isfinite(one.cost) else []
    if question is not None and math.isfinite(one.value):
        aimed = question.target if question.minimise == "target-loss" else None
        parts.append(f"target loss {one.value:.4g} {aimed.unit}" if aimed else f"source loss {one.value:+.2%} of its base")
    return ", ".join(parts)


def split(size: int) -> tuple[Index, Index]:
    """Draws to be searched and to be held out: blocks of neighbours in turn, so that both have draws of every chain."""
    draws = np.arange(size)
    first = (draws // BLOCK) % 2 == 0
    return draws[first], draws[~first]


def held_out(kept: NDArray[np.bool_]) -> tuple[float, float]:
    """A probability from held-out draws, and its Monte Carlo error: by the spread of blocks or, if larger, of independent draws."""
    share = float(kept.mean())
    smooth = (kept.sum() + 1) / (kept.size + 2)
    error = math.sqrt(smooth * (1 - smooth) / kept.size)
    blocks = [block.mean() for block in np.array_split(kept, max(2, kept.size // BLOCK))]
    return share, max(error, float(np.std(blocks, ddof=1)) / math.sqrt(len(blocks)))
