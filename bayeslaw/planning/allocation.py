"""How to spend compute: the parameters and tokens of least loss, and what the loss is there beyond the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core import html
from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, as_mapping, whole_number
from bayeslaw.core.flops import FLOPS
from bayeslaw.core.intervals import columns, interval_names, tails
from bayeslaw.core.streams import Stream
from bayeslaw.core.text import counted, listed, settings_text, short_lines
from bayeslaw.forecasting.outside import size_and_tokens_outside, sizes_and_tokens
from bayeslaw.forecasting.stack import Posterior, laws_of, require_losses, with_error
from bayeslaw.inference.point import PointFit
from bayeslaw.planning.arguments import check_choice, check_passed, logged, outside_note, read_values, setting
from bayeslaw.planning.optimum import POWERS, ComputeOptima, corner_note, optimum
from bayeslaw.planning.stages import check_size_is_free, stage_notes, stages
from bayeslaw.posterior.diagnostics import checks_label
from bayeslaw.posterior.discrepancy import DrawnErrors
from bayeslaw.posterior.draws import LawDraws
from bayeslaw.posterior.fit import Fit

WITH_ERROR = (
    "some compute, or its best N, D or D / N, lies outside the runs, so losses include the law's error (extrapolated), and the "
    "best N and D are those of the law fitted with it. Compute inside the runs has narrower intervals if asked for by itself"
)
HALF = (
    "half of the draws are of the law with its learnt error, since the best N moves far by errors that losses hardly show "
    "(--discrepancy none, discrepancy='none' takes the law for exact)"
)

type Selections = list[tuple[Fit | PointFit, Index]]  # fits and numbers of their draws


@dataclass(frozen=True, eq=False)
class Allocation:
    """Parameters and tokens of least loss, draw by draw.

    Attributes
    ----------
    compute : array (n,)
        FLOPs.
    N, D, loss : arrays (S, n)
    corner : bool array (S, n)
        Whether the optimum is at a limit of N or D.
    exponents : dict of str to array (S,)
        Coefficients k and exponents of N_opt = k C^a, D_opt = k C^b, by the names that `powers` has: of the closed form, else over
        the range of compute asked for; nan in draws that have none, and in all where a law of a stack has none, as at a single
        compute.
    method : str
        'closed form' or 'numeric', or both where laws of a stack differ.
    notes : tuple of str
    name, stage : str
        Names of the law and of the stage.
    stages : tuple of LawDraws
        The laws as functions of N and D, for contours and curves.
    errors : tuple of DrawnErrors or None
        The error of each of these laws in each of its draws, None where it has none.
    failed : bool
        Whether checks of the fit failed.
    extrapolated : bool
        Whether the losses have errors of laws that were learnt.
    runs : array (m, 2)
        N and D of the fitted rows, without base checkpoints.
    unit : str
        Unit of the losses.
    settings : dict of str
        Covariates other than N and D, and values of columns by which parameters differ, that it is for.

    Examples
    --------
    >>> bayeslaw.allocate(bayeslaw.load_fit("fit.nc"), "1e19:1e21:3").powers().index.tolist()
    ['N_coefficient', 'N_exponent', 'D_coefficient', 'D_exponent']
    """

    compute: Array
    N: Array
    D: Array
    loss: Array
    corner: NDArray[np.bool_]
    exponents: Mapping[str, Array]
    method: str
    notes: tuple[str, ...]
    name: str
    stage: str
    stages: tuple[LawDraws, ...]
    errors: tuple[DrawnErrors | None, ...]
    failed: bool
    extrapolated: bool
    runs: Array
    unit: str
    settings: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The stage, or else the law, with the settings: what pictures call it."""
        return ", ".join(filter(None, [self.stage or self.name, settings_text(self.settings)]))

    def __repr__(self) -> str:
        what = f"{counted(self.compute.size, 'budget')} by {self.name}"
        return short_lines(f"<Allocation of {what}: {counted(len(self.loss), 'draw')}>")

    def _repr_html_(self) -> str:
        """Show the best sizes and tokens, and their power laws, in a notebook."""
        failed = html.alarm("Sampling FAILED (forced): do not trust these intervals.") if self.failed else ""
        table = self.summary().drop(columns=["checks"] + ["corner"] * (not self.corner.any()))
        powers = self.powers().reset_index().drop(columns="checks")
        return html.fragment(
            f"Allocation by {self.name}", f"least loss ({self.unit}) at C = 6 N D", failed, html.grid(table),
            html.grid(powers, caption="Power laws of compute"), html.notes(self.notes),
        )  # fmt: skip

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """One row per compute: settings, medians and intervals of N, D, tokens_per_parameter and loss, the share in a corner."""
        table = pd.DataFrame({"compute": self.compute, **self.settings})
        shown = {"N": self.N, "D": self.D, "tokens_per_parameter": self.D / self.N, "loss": self.loss}
        for name, draws in shown.items():
            table = table.assign(**columns(draws, ci_prob, name))
        return table.assign(corner=self.corner.mean(axis=0), checks=checks_label(self.failed))

    def powers(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Coefficients and exponents of the power laws N_opt = k C^a and D_opt = k C^b: medians, intervals and `checks`."""
        names = ("median", *interval_names("eti", ci_prob))
        known = {name: v[np.isfinite(v)] for name, v in self.exponents.items()}  # a single compute shows no power
        ends = {name: np.quantile(v, tails(ci_prob)) if v.size else np.full(3, np.nan) for name, v in known.items()}
        rows = {name: dict(zip(names, values, strict=True)) for name, values in ends.items()}
        return pd.DataFrame(rows).T.rename_axis("quantity").assign(checks=checks_label(self.failed))


def allocate(
    fit: Posterior | PointFit,
    compute: str | float | Sequence[float],
    stage: str | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    discrepancy: Literal["learned", "none"] = "learned",
    seed: int = 0,
    force: bool = False,
) -> Allocation:
    """Find the parameters and tokens of least loss at C = 6 N D.

    Half of the draws take the law for exact, and half are of the posterior in which it has an error (`Fit.extrapolation`). If
    compute exceeds that of the runs, or the best N, D or tokens per parameter lie outside theirs, all draws are of that one.
    Losses have the error; the optimum of a draw is that of its law.

    Parameters
    ----------
    fit : Fit, Stack or PointFit
    compute : number, sequence or text
        FLOPs; '1e19:1e24:30' for 30 values evenly in the logarithm.
    stage : str, optional
        Stage of a law that serves two stages: the 0/1 covariate that is 1, or 'scratch'.
    settings : mapping, optional
        Covariates other than N and D.
    discrepancy : {'learned', 'none'}
        'none' takes the law for exact.
    seed : int
        Seed of the errors.
    force : bool
        Whether to go on in spite of failed checks; rows are then marked.

    Raises
    ------
    BayeslawError
        If compute, stage or settings can't be used, or leave no N and D in the supports of the law, or the law starts at the
        base loss of one checkpoint.
    FitError
        If checks of the fit failed, unless forced.

    Examples
    --------
    >>> allocation = bayeslaw.allocate(bayeslaw.load_fit("fit.nc"), "1e19:1e21:3")
    >>> allocation.method, allocation.N.shape[1]
    ('closed form', 3)
    """
    require_losses([fit], "an allocation of compute")
    check_size_is_free(laws_of([fit]), "An allocation of compute")
    check_passed(fit, force)
    check_choice("discrepancy", discrepancy, "unknown-discrepancy")
    seed = whole_number("seed", seed, 0)
    flops, settings = read_values(compute), as_mapping(settings, "{'ptpp': 279}")
    fits: Selections = [*fit.selections]
    laws, optima = _optima(fits, settings, stage, flops)
    extrapolated, of_error = False, list[str]()
    if discrepancy == "learned" and (erring := _erring(fits, optima, flops)) is not None:
        fits, extrapolated = erring
        laws, optima = _optima(fits, settings, stage, flops)
        of_error.append(WITH_ERROR if extrapolated else HALF)
    n, d, loss, corner = (np.concatenate([getattr(o, k) for o in optima]) for k in ("N", "D", "loss", "corner"))
    errors = [_drawn(*own, (seed, number)) for number, own in enumerate(fits)]
    loss = loss * np.exp(np.concatenate([_at_optimum(*part) for part in zip(errors, laws, optima, strict=True)]))
    if not np.isfinite(loss).all():
        raise BayeslawError(
            f"{fit.name} has no finite loss at the optimum of some draws; ask for other values.", code="no-finite-loss"
        )
    exponents, of_powers = _power_laws(laws, optima)
    of_place = [corner_note(share)] if (share := float(corner.mean())) > 0 else []
    for covariate, values in (("N", n), ("D", d)):
        of_place += outside_note(f"the best {covariate}", np.median(values, axis=0), logged(fits, covariate))
    of_stage = stage_notes([law.law for law in laws], stage, settings)
    notes = [*(note for o in optima for note in o.notes), *of_powers, *of_stage, *of_place, *of_error]
    measured = {name for law in laws for name in law.law.measured}
    rows = np.unique(np.concatenate([sizes_and_tokens(own) for own, _ in fits]), axis=0)
    return Allocation(
        compute=flops, N=n, D=d, loss=loss, corner=corner, exponents=exponents,
        method=" and ".join(dict.fromkeys(o.method for o in optima)), notes=tuple(dict.fromkeys(notes)), name=fit.name,
        stage=stage or "", stages=tuple(laws), errors=tuple(errors), failed=not fit.passed, extrapolated=extrapolated, runs=rows,
        unit=fit.unit, settings={name: setting(name, v) if name in measured else v for name, v in settings.items()},
    )  # fmt: skip


def _optima(
    fits: Selections, settings: Mapping[str, Any], stage: str | None, flops: Array
) -> tuple[list[LawDraws], list[ComputeOptima]]:
    """Return the laws of these draws, and their optima."""
    laws = stages(fits, settings, stage)
    return laws, [optimum(law, flops) for law in laws]


def _power_laws(laws: Sequence[LawDraws], optima: Sequence[ComputeOptima]) -> tuple[dict[str, Array], list[str]]:
    """The power laws of compute in each draw; nan with a note if only some laws of a stack have them: they would not be its own."""
    exponents = {k: np.concatenate([o.exponents[k] for o in optima]) for k in POWERS}
    has_powers = [np.isfinite(o.exponents["N_exponent"]).any() for o in optima]
    if all(has_powers) or not any(has_powers):
        return exponents, []
    lacking = listed([*dict.fromkeys(law.law.name for law, has in zip(laws, has_powers, strict=True) if not has)])
    note = f"the stack has no power laws of compute, since {lacking} has none here: give a range of compute"
    return {k: np.full_like(v, np.nan) for k, v in exponents.items()}, [note]


def _erring(fits: Selections, optima: Sequence[ComputeOptima], flops: Array) -> tuple[Selections, bool] | None:
    """The fits and their draws, with errors of the laws that have learnt one, and whether any leaves its runs; None without.

    All draws of a law have its error if compute, its best N and D, or their ratio leave the runs, and half of them inside. There
    the best N of the law taken for exact is nearer to the measured one on some public ladders, and that of the law with an error
    on others; half of each is better than either (benchmarks/results/best_sizes.md).
    """
    n = np.median(np.concatenate([o.N for o in optima]), axis=0)
    best = np.column_stack([n, flops / FLOPS / n])  # a median D need not be at the compute of the median N
    chosen: Selections = []
    whole, beyond = [(fit, draws) for fit, draws in fits if isinstance(fit, Fit)], False
    for fit, draws in fits:
        away = with_error(fit, whole) if isinstance(fit, Fit) and {"N", "D"} <= {*fit.observed.covariates} else None
        if away is None:
            chosen.append((fit, draws))
        elif size_and_tokens_outside(sizes_and_tokens(fit), best).any():
            beyond = True
            chosen.append((away, draws))
        elif isinstance(fit, Fit) and not fit.info["discrepancy"]["learned"]:  # its errors begin beyond the runs
            chosen.append((fit, draws))
        else:
            chosen += [(fit, draws[::2]), (away, draws[1::2])]
    return (chosen, beyond) if beyond or len(chosen) > len(fits) else None


def _drawn(fit: Fit | PointFit, chosen: Index, entropy: tuple[int, ...]) -> DrawnErrors | None:
    """The error of a fit's law in each of some draws; None where it has none."""
    learnt = fit.discrepancy if isinstance(fit, Fit) else None
    return None if learnt is None else learnt.drawn(chosen, (*entropy, Stream.ERROR))


def _at_optimum(errors: DrawnErrors | None, law: LawDraws, optimum: ComputeOptima) -> Array:
    """The law's errors (S, n) at the optimum of each draw; 0 where it has none."""
    if errors is None:
        return np.zeros_like(optimum.N)
    columns = [{**law.constants, "N": n, "D": d} for n, d in zip(optimum.N.T, optimum.D.T, strict=True)]
    return np.stack([errors.along(at) for at in columns], axis=1)
