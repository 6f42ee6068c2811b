"""The loss of one domain along the tokens and the replay of an adaptation, draw by draw.

A posterior gives draws of a law's parameters; with all covariates but D and r fixed, each draw is a curve of the loss. The noise of
the next run and errors of the law shift the log of that curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayeslaw.core.arrays import Array, Index
from bayeslaw.data.base_loss import BASE_LOSS
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.inference.point import PointFit
from bayeslaw.planning.arguments import at_settings
from bayeslaw.planning.search import behind
from bayeslaw.posterior.discrepancy import ErrorsOver
from bayeslaw.posterior.draws import JoinedDraws, LawDraws, check_values


@dataclass(frozen=True, eq=False)
class DomainLoss:
    """Log loss of one domain under the plan, draw by draw.

    `shift` (S,) is added to log losses, `shift_base` to the log of the base loss: effects and noise of the next run, and
    errors of the law, stated or learnt; zeros for the law's expected loss. `errors` are those of laws that err along D.
    """

    name: str  # 'source', 'target', or as the user calls the domain
    posterior: Posterior | PointFit
    settings: Mapping[str, Any]  # covariates other than D and r, and the values of columns by which parameters are pooled
    member_draws: tuple[LawDraws, ...]  # of each law of the posterior; a stack has several
    shift: Array
    shift_base: Array
    errors: tuple[ErrorsOver | None, ...]  # of each law, None if it has none or the same at all D
    shared: str = ""  # how the effects of the next run and of the base checkpoint are related, as the end of a sentence
    extrapolated: bool = False  # whether losses have an error that the law has outside its runs

    @property
    def size(self) -> int:
        """Number of draws."""
        return self.shift.size

    @property
    def unit(self) -> str:
        """The unit of its losses."""
        return self.posterior.unit

    @property
    def why_no_base(self) -> str:
        """Why the law can't give the base checkpoint's loss, such as "is infinite at D = 0"; empty where it can."""
        for law in (member.law for member in self.member_draws):
            if "D" not in law.covariates or law.covariates["D"].support[0] > 0:
                return "is infinite at D = 0"
            if "r" in law.covariates and "r" not in law.idle_at_base:
                return "depends on r at D = 0, where nothing is replayed"
        return ""

    def values(self, draws: Index, x: Array, r: float | Array, axes: int) -> Array:
        """Log losses, as a `bayeslaw.planning.search.Quantity`."""
        return self._log_losses(draws, np.exp(x), r, axes)

    def at_base(self, draws: Index) -> Array:
        """Log losses (s,) of the base checkpoint by a law that can give them (`why_no_base`): the replay share does not matter."""
        logs = self._log_losses(draws, np.zeros(draws.size), 0.5, 0)
        return logs - self.shift[draws] + self.shift_base[draws]

    def starting_at(self, base: Array) -> DomainLoss:
        """The same loss if laws that have the base loss (S,) as a covariate start at it, draw by draw; others don't see it."""
        started = (
            replace(member, drawn={BASE_LOSS: base[here]}) if BASE_LOSS in member.law.covariates else member
            for member, here, _ in JoinedDraws(self.member_draws).parts()
        )
        return replace(self, member_draws=tuple(started))

    def by_laws_alone(self) -> DomainLoss:
        """The same loss by the laws taken for exact, without effects and noise of the next run: draws pair with the posterior's."""
        draws, zero = [fit.draws_of(chosen) for fit, chosen in self.posterior.selections], np.zeros(self.size)
        alone = tuple(replace(law, draws=own) for law, own in zip(self.member_draws, draws, strict=True))
        return replace(self, member_draws=alone, shift=zero, shift_base=zero, errors=(None,) * len(alone))

    def _log_losses(self, draws: Index, tokens: ArrayLike, r: ArrayLike, axes: int) -> Array:
        loss = JoinedDraws(self.member_draws).outcome({"D": tokens, "r": r}, draws, axes)
        advice = "Keep the plan away from there (limits of ATPP and replay)."
        check_values(loss, self.member_draws[0].law, {"D": tokens, "r": r}, advice, name=f"{self.posterior.name} ({self.name})")
        logs = np.log(loss) + behind(self.shift[draws], axes)
        with np.errstate(divide="ignore"):
            x = np.log(np.asarray(tokens, dtype=np.float64))
        for (_, here, own), error in zip(JoinedDraws(self.member_draws).parts(draws), self.errors, strict=True):
            if error is not None:
                added = error.at(np.asarray(own), x, shared=axes > 0)
                logs[here] += added[:, None] if axes > 1 else added
        return np.asarray(logs)


def domain_loss(
    name: str, posterior: Posterior | PointFit, settings: Mapping[str, Any], levels: Mapping[str, str], corners: pd.DataFrame
) -> DomainLoss:
    """The loss of a domain by the law alone, its settings checked at the corners of where the plan may lie.

    Parameters
    ----------
    name, posterior
        As in `DomainLoss`.
    settings, levels : mapping
        Covariates of the plan and values of columns by which parameters are pooled; names that the law does not have are ignored.
    corners : DataFrame
        Columns D and r.
    """
    member_draws, used = [], dict[str, Any]()
    for fit, chosen in posterior.selections:
        law = fit.law
        used |= {k: settings[k] for k in law.measured if k in settings}
        used |= {c: levels[c] for c in (*law.levels, fit.observed.group_column) if c in levels}
        draws = fit.draws_of(chosen)
        member_draws.append(at_settings(f"{law.name} ({name})", law, draws, corners.assign(**used), ("D", "r")))
    zero = np.zeros(JoinedDraws(member_draws).size)
    return DomainLoss(name, posterior, used, tuple(member_draws), zero, zero, (None,) * len(member_draws))
