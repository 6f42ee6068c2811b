"""Effects of a fit's own runs and checkpoints, drawn given their losses, at the rows of a table that belong to them.

A run of a fitted checkpoint has that checkpoint's effect, and later rows of a fitted run have that run's. Forecasts and scores
use what the fit has learnt of these; only runs and checkpoints that nobody has measured get effects from their distribution.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.streams import Stream
from bayeslaw.data.observations import Observations, clock_of
from bayeslaw.posterior.fit import Fit, values_of

Reading = Literal["known", "new-run", "new-checkpoint"]
"""As what rows are forecast: with all that was learnt, as new runs of known checkpoints, or as new runs of new ones."""
NEW_RUN, KNOWN_CHECKPOINT, KNOWN_RUN = WORDS = ("new run", "known checkpoint", "known run")
"""What a row is, by what has been learnt of it, least first."""


def check_reading(reading: object) -> None:
    """Refuse what is no `Reading`."""
    if reading not in get_args(Reading):
        raise BayeslawError(f"Rows are forecast as {', '.join(get_args(Reading))}, not as {reading!r}.", code="unknown-reading")


@dataclass(frozen=True, eq=False)
class LearntEffects:
    """Effects at the rows of a table of settings, by some draws of a fit.

    Attributes
    ----------
    run, checkpoint : int arrays (n,)
        Codes of the fitted run of each row, and of its fitted checkpoint; -1 where it has none, or where the noise has no effect
        of it. Rows of a fitted run have no checkpoint here: the run's effect contains it.
    time : array (n,)
        The rows' clock, for an OU run effect.
    chosen : int array (S,) of the draws
    left_out : str
        A run that counts as unseen: its rows are those of a new run, and its checkpoint is known from the other runs.
    """

    fit: Fit
    run: Index
    checkpoint: Index
    time: Array
    chosen: Index
    entropy: tuple[int, ...]
    left_out: str = ""
    _known: dict[tuple[str, int], Array] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls,
        fit: Fit,
        frame: pd.DataFrame,
        time: Array,
        chosen: Index,
        entropy: tuple[int, ...],
        reading: Reading = "known",
        left_out: str = "",
    ) -> LearntEffects:
        """The effects at the rows of a table that belong to fitted runs and checkpoints, as far as `reading` uses them."""
        check_reading(reading)
        observed, noise = fit.observed, fit.noise
        run, checkpoint = observed.find(frame, fit.law)
        left = np.array(observed.run_names) == left_out
        if reading != "known" or not (noise.run_effect or noise.checkpoint_effect or noise.skew):
            run = np.full_like(run, -1)
        run = np.where(left[run], -1, run)  # a code of -1 stays -1, whatever it picks here and below
        alone = np.bincount(observed.checkpoint, ~left, len(observed.checkpoint_names)) == 0
        if reading == "new-checkpoint" or not noise.checkpoint_effect:
            checkpoint = np.full_like(checkpoint, -1)
        checkpoint = np.where(~alone[checkpoint] & (run < 0), checkpoint, -1)
        if noise.drift and (run >= 0).any():
            time = clock_of(frame, observed.clock_column) / observed.span
        return cls(fit, run, checkpoint, time, chosen, entropy, left_out)

    @property
    def words(self) -> list[str]:
        """What each row is: 'new run', 'known checkpoint' or 'known run'."""
        known = zip(self.run >= 0, self.checkpoint >= 0, strict=True)
        return [KNOWN_RUN if run else KNOWN_CHECKPOINT if checkpoint else NEW_RUN for run, checkpoint in known]

    def at(self, rows: Index) -> Array:
        """Additions to log loss (k, S) at the rows with these numbers; 0 where nothing has been learnt."""
        effects = np.zeros((rows.size, self.chosen.size))
        for i, row in enumerate(rows.tolist()):
            run, checkpoint = int(self.run[row]), int(self.checkpoint[row])
            if run >= 0 and self.fit.noise.drift:
                effects[i] = self._path(run)[np.flatnonzero(self.run == run).searchsorted(row)]
            elif run >= 0:
                effects[i] = self.of_run(run)
            elif checkpoint >= 0:
                effects[i] = self.of_checkpoint(checkpoint)
        return effects

    def of_checkpoint(self, code: int) -> Array:
        """The effect of the checkpoint with this code, array (S,); 0 by a noise without such effects."""
        return np.zeros(self.chosen.size) if not self.fit.noise.checkpoint_effect else self._of("checkpoint", code)

    def of_run(self, code: int) -> Array:
        """The effect of the run with this code, its checkpoint's included, array (S,); not for an OU run effect."""
        return self._of("run", code)

    def _of(self, kind: str, code: int) -> Array:
        """The effect of a run, with its checkpoint's, or of a checkpoint, array (S,)."""
        observed, noise = self.fit.observed, self.fit.noise
        if (kind, code) in self._known:
            return self._known[kind, code]
        if noise.explicit_effects and "run_effect" in self.fit.tree["posterior"]:  # of a law with a learnt error they are not drawn
            self._known[kind, code] = values_of(self.fit.tree, "posterior", "run_effect")[..., code].reshape(-1)[self.chosen]
        else:
            of = code if kind == "checkpoint" else int(observed.checkpoint[code])
            runs = np.flatnonzero((observed.checkpoint == of) & (np.array(observed.run_names) != self.left_out))
            of_checkpoint, of_run = noise.sample_effects(
                *self._data(runs), np.random.default_rng((*self.entropy, Stream.LEARNT_EFFECT, of)), multiple=self._multiple(runs)
            )
            self._known[("checkpoint", of)] = of_checkpoint[0]
            self._known.update((("run", run), effect) for run, effect in zip(runs.tolist(), of_run, strict=True))
        return self._known[kind, code]

    def _path(self, code: int) -> Array:
        """The OU effect of a run at the rows of the table that belong to it, array (k, S)."""
        if ("path", code) not in self._known:
            rng = np.random.default_rng((*self.entropy, Stream.LEARNT_EFFECT, code))
            data = self._data(np.array([code]))
            self._known["path", code] = self.fit.noise.sample_path(*data, self.time[self.run == code], rng)
        return self._known["path", code]

    def _multiple(self, runs: Index) -> Array | float:
        """By which variances of the rows of some runs were multiplied where the law's error was learnt, array (n,)."""
        learnt = self.fit.discrepancy
        return 1.0 if learnt is None else learnt.walk.multiple[np.isin(self.fit.observed.run, runs)]

    def _data(self, runs: Index) -> tuple[Array, Observations, dict[str, Array]]:
        """Residuals (S, n) of some runs, their rows, and the draws."""
        observed = self.fit.observed.select(runs)
        return self.fit.residual_of(observed, self.chosen), observed, self.fit.draws_of(self.chosen)
