"""Two recipes (data, architecture, schedule) against each other: which is better, by how much, and from which compute on.

For every pair of draws of the two recipes' losses L_A and L_B

    difference      L_B - L_A, at a setting, or at a compute C that each spends in its own way
    B is better     L_B < L_A
    multiplier      m with L_B(m C) = L_A(C): how many times A's compute B needs for A's loss
    regret of A     E max(L_A - L_B, 0), what choosing A costs where B is better; and E max(1 - m, 0), the share of its compute that
                    B would have saved at its loss
    crossing        the compute at which the sign of the difference changes first

A recipe spends compute at its N and D of least loss by each draw, or at a fixed number of tokens per parameter; a recipe at a given
setting goes on at that setting's tokens per parameter. Two fits have independent posteriors, whose draws are paired by number. Two
levels of one fit have joint draws, so that what both share of the parameters cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.core import html
from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, as_mapping, whole_number
from bayeslaw.core.flops import FLOPS
from bayeslaw.core.intervals import columns, interval_names, open_quantiles, quantiles
from bayeslaw.core.text import compact, counted, percent, short_lines
from bayeslaw.data.table import Table
from bayeslaw.design.anchors import Anchors, anchors
from bayeslaw.forecasting.grid import Settings
from bayeslaw.forecasting.stack import Posterior, laws_of
from bayeslaw.planning.arguments import MOST, check_choice, check_sizes, read_values
from bayeslaw.planning.recipe_paths import REACH, ComputePath, Recipe, check_shared, path, points, recipe
from bayeslaw.planning.stages import check_size_is_free
from bayeslaw.planning.versus_arguments import names_of, own_settings, pair, read_ratio, rows_of
from bayeslaw.planning.versus_notes import Followed, notes_of
from bayeslaw.posterior.diagnostics import checks_label

SURE = 0.9  # probability from which a recipe is said to be better; between it and its complement the runs do not decide
FAR = 0.01  # e-folds of compute beyond the largest run from which a setting counts as outside


@dataclass(frozen=True, eq=False)
class Versus:
    """Two recipes compared, draw by draw.

    Attributes
    ----------
    names : tuple of str
        Names of recipes A and B.
    settings : DataFrame
        One row for each comparison: `compute` and, along it, the median N of each recipe, else N, D and other covariates.
    losses : array (2, S, n)
        Losses of A and B, without noise of runs, by the laws with their errors; where `inside`, by the laws taken for exact.
    noisy : array (2, S, n)
        Losses that the next runs would log; those of `losses` unless asked for.
    multiplier, inverse : arrays (S, n)
        How many times A's compute B needs for A's loss, and how many times B's compute A needs for B's. inf where 1,000 times is
        not enough, 0 where a thousandth is. By the laws with their errors, so that where `inside` draws are not those of `losses`.
    crossing : array (S,)
        FLOPs at which the better recipe changes first, nan where it does not in the range; empty unless compute was asked for.
    crossings : int array (S,)
        How often it changes.
    beyond : array (2, n)
        How far the compute lies beyond the largest run of each recipe, in e-folds; 0 inside.
    inside : bool array (n,)
        Whether a setting lies inside the runs of both, so that its losses have no errors of the laws, as in a forecast there.
    allocation : str
        In words, how compute is spent.
    recipes, posteriors : tuples of Recipe and of Fit or Stack
    on, spread, unit : str
        'latent' or 'run'; 'latent' or 'extrapolated' with the laws' errors; the unit of the losses.
    shared_error : float
    notes : tuple of str
    failed : bool
        Whether checks of a fit failed.

    Examples
    --------
    >>> fit, other = bayeslaw.load_fit("fit.nc"), bayeslaw.load_fit("fit.nc")
    >>> result = bayeslaw.planning.versus(fit, other, compute="1e19:1e21:3")
    >>> bool(result.summary()["B_better"].between(0.3, 0.7).all())
    True
    """

    names: tuple[str, str]
    settings: pd.DataFrame
    losses: Array
    noisy: Array
    multiplier: Array
    inverse: Array
    crossing: Array
    crossings: NDArray[np.int64]
    beyond: Array
    inside: NDArray[np.bool_]
    allocation: str
    recipes: tuple[Recipe, Recipe]
    posteriors: tuple[Posterior, Posterior]
    on: str
    spread: str
    unit: str
    shared_error: float
    notes: tuple[str, ...]
    failed: bool

    def __repr__(self) -> str:
        return short_lines(f"<Versus: {self.names[0]} (A) and {self.names[1]} (B) at {counted(len(self.settings), 'setting')}>")

    def _repr_html_(self) -> str:
        """Show the comparison in a notebook."""
        head, *lines = self.lines()
        table = html.grid(self.summary().head(html.ROWS), len(self.settings))
        return html.fragment("Two recipes", head, *map(html.paragraph, lines), table, html.notes(self.notes))

    @property
    def compute(self) -> Array:
        """FLOPs (n,)."""
        return np.asarray(self.settings["compute"].to_numpy(dtype=np.float64))

    @property
    def difference(self) -> Array:
        """Loss of B minus that of A (S, n)."""
        return np.asarray(self.noisy[1] - self.noisy[0])

    @property
    def b_better(self) -> Array:
        """Probability (n,) that B's loss is the lower one."""
        return np.asarray((self.difference < 0).mean(axis=0))

    @property
    def regret(self) -> Array:
        """Expected regret (2, n) of choosing A and of choosing B, in the unit of the losses, without noise of runs."""
        difference = self.losses[1] - self.losses[0]
        return np.stack([np.maximum(-difference, 0).mean(axis=0), np.maximum(difference, 0).mean(axis=0)])

    @property
    def wasted(self) -> Array:
        """Expected shares (2, n) of the compute that the other recipe would have saved at the same loss, of choosing A and B."""
        return np.stack([np.maximum(1 - times, 0).mean(axis=0) for times in (self.multiplier, self.inverse)])

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Return a table with a row for each comparison.

        Its columns are the settings; median and equal-tailed interval of `difference` (B minus A) and `relative` (to A's loss);
        median and interval of `multiplier` (`multiplier_ci90_lb`: equal-tailed where both ends are finite and above 0, and else
        one-sided, so that it holds the same probability); `B_better`, a probability; `never`, the share of draws in which B does
        not reach A's loss with 1,000 times the compute (their multiplier is inf and counts in the quantiles); `regret_A` and
        `regret_B`, of choosing either, and `wasted_A` and `wasted_B`, shares of compute; `spread`, which losses are compared:
        'latent' or 'run', or 'extrapolated' with the laws' errors; `outside`, how far the compute lies beyond the largest runs;
        `checks`.
        """
        a, b = self.noisy
        table = self.settings.assign(**columns(b - a, ci_prob, "difference"), **columns(b / a - 1, ci_prob, "relative"))
        table = table.assign(B_better=self.b_better, **self.multipliers(ci_prob))
        table = table.assign(never=np.isinf(self.multiplier).mean(axis=0))
        table = table.assign(regret_A=self.regret[0], regret_B=self.regret[1], wasted_A=self.wasted[0], wasted_B=self.wasted[1])
        table = table.assign(spread=np.where((self.spread == "extrapolated") & ~self.inside, "extrapolated", self.on))
        return table.assign(outside=[_outside(*far) for far in self.beyond.T], checks=checks_label(self.failed))

    def multipliers(self, ci_prob: float) -> dict[str, Array]:
        """Return median and interval of the multiplier as columns, arrays (n,)."""
        names = ("multiplier_median", *(f"multiplier_{end}" for end in interval_names("ci", ci_prob)))
        return dict(zip(names, open_quantiles(self.multiplier, ci_prob), strict=True))

    def crossings_table(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Return one row on where the two cross: shares of draws, and median and interval of the compute where they do.

        `crosses`, `A_throughout` and `B_throughout` add up to 1; `several` is the share with more than one change; the quantiles of
        `compute` are those of the first change, among draws with one. Empty unless compute was asked for.
        """
        if not self.crossing.size:
            return pd.DataFrame()
        never = np.isnan(self.crossing)
        b_first = self.losses[1, :, int(self.compute.argmin())] < self.losses[0, :, int(self.compute.argmin())]
        row = {
            "crosses": float((~never).mean()),
            "A_throughout": float((never & ~b_first).mean()),
            "B_throughout": float((never & b_first).mean()),
            "several": float((self.crossings > 1).mean()),
        }
        ends = quantiles(self.crossing[~never], ci_prob) if not never.all() else np.full(3, np.nan)
        names = ("compute_median", *(f"compute_{end}" for end in interval_names("eti", ci_prob)))
        return pd.DataFrame([row | dict(zip(names, map(float, ends), strict=True))])

    def lines(self, ci_prob: float = 0.9) -> list[str]:
        """Return the result in sentences."""
        a, b = self.names
        losses = "the losses that the next runs log" if self.on == "run" else "the laws' expected losses"
        walks = [error.walk for recipe in self.recipes for error in recipe.errors if error is not None]
        learnt = any(not walk.exact for walk in walks)
        whose = "the laws' errors as learnt" if learnt else "the errors that laws have on other ladders"
        error = f", with {whose} (extrapolated)" if walks else ""
        error += " in multipliers, and in losses outside the runs" if error and self.inside.any() else ""
        failed = "; CHECKS FAILED" if self.failed else ""
        lines = [f"A is {a} and B is {b}, {self.allocation}; by {losses}{error}{failed}."]
        lines += [self._sentence(row, ci_prob) for row in ([0, -1] if len(self.settings) > 1 else [0])]
        if self.crossing.size:
            lines.append(self._crossing_sentence(ci_prob))
        of = f"of {len(self.settings)} settings"
        open_ = np.ones(len(self.settings), dtype=bool)
        for name, probability in (("A", 1 - self.b_better), ("B", self.b_better)):
            open_ &= ~(sure := probability >= SURE)
            if sure.any() and not sure.all():
                lines.append(
                    f"{name} is better with a probability of {SURE:.0%} or more at {self._where(sure)} FLOPs ({sure.sum()} {of})."
                )
        if open_.any():
            lines.append(
                f"The runs do not decide which is better at {self._where(open_)} FLOPs: neither has a probability of {SURE:.0%} "
                f"there ({open_.sum()} {of}). Larger runs would tell more."
            )
        return lines

    def _where(self, chosen: NDArray[np.bool_]) -> str:
        """Return the compute of some settings as text: neighbours in compute are a range."""
        order = np.argsort(self.compute, kind="stable")
        ranges = np.flatnonzero(np.diff(chosen[order], prepend=False, append=False)).reshape(-1, 2)
        ends = [[compact(float(self.compute[order[i]]), 3) for i in (start, stop - 1)] for start, stop in ranges]
        *first, last = (low if low == high else f"{low} to {high}" for low, high in ends)
        return f"{', '.join(first)} and {last}" if first else last

    def _sentence(self, row: int, ci_prob: float) -> str:
        """Say what is best at one row."""
        p, regret, interval = float(self.b_better[row]), self.regret[:, row], f"{100 * ci_prob:g}% equal-tailed interval"
        better, share = ("B", p) if p >= 0.5 else ("A", 1 - p)
        of = [compact(float(v), 3) for v in quantiles(self.difference[:, row], ci_prob)]
        middle, low, high = open_quantiles(self.multiplier[:, [row]], ci_prob)[:, 0].tolist()
        never = float(np.isinf(self.multiplier[:, row]).mean())
        text = (
            f"At {compact(float(self.compute[row]), 3)} FLOPs {better} is better with probability {share:.3f}: B's loss minus A's "
            f"is {of[0]} {self.unit} ({interval} {of[1]} to {of[2]}), and B needs {_times(middle)} times A's compute for A's loss "
            f"({_span(low, high, ci_prob)}"
        )
        text += f"; never within {REACH:,.0f} times in {percent(never)} of the draws)" if never else ")"
        chosen = "A" if regret[0] <= regret[1] else "B"
        least, most = (float(f(regret)) for f in (min, max))
        text += f". Choosing {chosen} has the smaller expected regret: {compact(least, 2)} against {compact(most, 2)} {self.unit}."
        return text

    def _crossing_sentence(self, ci_prob: float) -> str:
        """Say where the two cross."""
        row = self.crossings_table(ci_prob).iloc[0]
        low, high = compact(float(self.compute.min()), 3), compact(float(self.compute.max()), 3)
        whole = {name: percent(share) if (share := row[f"{name}_throughout"]) else "none" for name in "AB"}
        rest = f"in {whole['A']} A is better throughout, in {whole['B']} B"
        if not row["crosses"]:
            return f"They cross in no draw between {low} and {high} FLOPs: {rest}."
        middle, start, end = (compact(float(row[k]), 3) for k in row.index[-3:])
        first, more = ("first ", f", in {percent(row['several'])} more than once") if row["several"] else ("", "")
        return (
            f"They cross between {low} and {high} FLOPs in {percent(row['crosses'])} of the draws{more}, {first}at {middle} FLOPs "
            f"({100 * ci_prob:g}% equal-tailed interval {start} to {end}); {rest}."
        )

    def anchors(self, candidates: Table, *, budget: float, row: int = -1, **options: Any) -> dict[str, Anchors]:
        """Return the runs of each recipe that would lower the variance of the difference at a row most.

        Parameters
        ----------
        candidates : as in `bayeslaw.anchors`
            Runs that could be bought with either recipe; of one fit with levels, they name their level and are one choice.
        budget, **options
            As in `bayeslaw.anchors`; the budget is spent on one recipe.
        row : int
            Row of the table. The difference is that of the laws alone, without their errors, of which no run of this size tells.

        Returns
        -------
        dict of name to Anchors
        """
        if not -len(self.settings) <= row < len(self.settings):
            raise BayeslawError(f"There is no row {row}: the table has {counted(len(self.settings), 'row')}.", code="no-such-row")
        at, losses = self.settings.iloc[row], list[Array]()
        for side, (name, fit, known) in enumerate(zip("AB", self.posteriors, (r.settings for r in self.recipes), strict=True)):
            others = {c: float(at[c]) for c in fit.measured if c in at and c not in ("N", "D", *known)}
            n = np.array([at["N"] if "N" in at else at[f"{name}_N"]], dtype=np.float64)
            plain = recipe(self.names[side], fit, {**others, **known}, learned=False, seed=0, side=side)
            losses.append(plain.losses(n, at["compute"] / FLOPS / n)[:, 0])
        goal = {"difference": losses[1] - losses[0]}
        joint = self.posteriors[0] is self.posteriors[1]
        names = (
            {f"{self.names[0]} and {self.names[1]}": self.posteriors[0]}
            if joint
            else dict(zip(self.names, self.posteriors, strict=True))
        )
        return {name: anchors(fit, candidates, goal, budget=budget, **options) for name, fit in names.items()}


def versus(
    a: Posterior,
    b: Posterior | None = None,
    at: Settings | None = None,
    *,
    compute: str | float | Sequence[float] | None = None,
    tokens_per_parameter: float | None = None,
    levels: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    settings_a: Mapping[str, Any] | None = None,
    settings_b: Mapping[str, Any] | None = None,
    names: Sequence[str] | None = None,
    on: Literal["latent", "run"] = "latent",
    shared_error: float = 0.0,
    discrepancy: Literal["learned", "none"] = "learned",
    seed: int = 0,
    force: bool = False,
) -> Versus:
    """Compare two recipes at settings or along compute.

    Parameters
    ----------
    a, b : Fit or Stack
        Fits of each recipe's own runs; or one fit, whose levels or settings are compared.
    at : DataFrame, Runs, path or mapping, optional
        Settings with N and D at which both are trained; a mapping as in `bayeslaw.grid`. Or else:
    compute : number, sequence or text, optional
        FLOPs, '1e19:1e24:30' for 30 values, that each recipe spends at its N and D of least loss or, with
    tokens_per_parameter : float, optional
        at this D / N.
    levels : sequence of two str, optional
        Values, of a column by which parameters of the fit differ, that are recipes A and B.
    settings, settings_a, settings_b : mapping, optional
        Covariates other than N and D, and values of columns by which parameters or noise differ: of both recipes, of A, of B.
    names : sequence of two str, optional
        Names of the recipes, for the texts.
    on : {'latent', 'run'}
        Whether `difference` and the probability are of the laws' expected losses, or of those that one next run of each logs.
        Multiplier, regret and crossing are always of expected losses.
    shared_error : float
        The correlation, 0 to 1, of what the two laws err beyond their runs. With 0 the intervals of the difference are widest.
    discrepancy : {'learned', 'none'}
        By default, losses have the laws' errors, except at settings inside the runs of both. Multipliers have them everywhere,
        since a small error of a loss is worth much compute. 'none' takes the laws for exact.
    seed : int
        Seed of the laws' errors and of the noise.
    force : bool
        Whether to go on in spite of failed checks; rows are then marked.

    Raises
    ------
    BayeslawError
        If the two can't be compared (other units, unpaired draws), or settings can't be used.
    FitError
        If checks of a fit failed, unless forced.

    Examples
    --------
    >>> fit, other = bayeslaw.load_fit("fit.nc"), bayeslaw.load_fit("fit.nc")
    >>> result = bayeslaw.planning.versus(fit, other, {"N": 1e9, "D": "1e10,1e11"}, names=("web", "code"))
    >>> result.difference.shape[1], result.crossing.size
    (2, 0)
    """
    _check_choices(on, shared_error, discrepancy, seed)
    if (at is None) == (compute is None):
        raise BayeslawError(
            "Give either settings (--at or --set N=… --set D=…, at=) or compute (--compute, compute=).", code="nothing-asked"
        )
    ratio = read_ratio(tokens_per_parameter, alone=at is None)
    first, second = pair(a, b, force)
    own = own_settings(first, second, b is None, levels, *map(as_mapping, (settings, settings_a, settings_b)))
    names = names_of(names, levels, first, second)
    frame = None if at is None else rows_of(at, first, *own)
    if frame is None:
        check_size_is_free(laws_of((first, second)), "A comparison along compute")
        flops = read_values(0.0 if compute is None else compute)
        groups = [_Group(np.arange(flops.size), {}, ratio)]
    else:
        check_sizes(frame[["N", "D"]], laws_of((first, second)))
        flops, groups = FLOPS * (frame["N"] * frame["D"]).to_numpy(dtype=np.float64), _groups(frame)
    if flops.size > MOST:
        raise BayeslawError(f"These are {flops.size:,} settings; give at most {MOST:,}.", code="too-many-settings")

    recipes_of = partial(_recipes, names, (first, second), own, groups, seed)
    pairs = recipes_of(shared_error, discrepancy == "learned")
    compared = [_compared(pairs[g.key], flops[g.rows], g.tokens_per_parameter) for g in groups]
    followed: list[Followed] = [(of_group.paths, flops[g.rows]) for g, of_group in zip(groups, compared, strict=True)]
    losses, times = (_by_row(groups, parts) for parts in ([c.losses for c in compared], [c.times for c in compared]))
    # What is asked of recipes from here on, such as the noise of their runs, is the same at the settings of all groups.
    recipes, paths = pairs[groups[-1].key], compared[-1].paths
    noise = _noise(recipes, flops.size, seed) if on == "run" else np.zeros_like(losses)
    inside = np.zeros(flops.size, dtype=bool)
    if frame is not None and discrepancy == "learned":
        exact = recipes_of(0.0, False)
        inside, of_exact = _inside(frame, groups, exact)
        losses = np.where(inside, of_exact, losses)
        if on == "run" and inside.any():
            noise = np.where(inside, _noise(exact[groups[-1].key], flops.size, seed), noise)
    table = pd.DataFrame({"compute": flops})
    if frame is None:
        table = table.assign(**{f"{name}_N": along.n[along.at(np.log(flops))] for name, along in zip("AB", paths, strict=True)})
        crossing, crossings = _crossing(paths, flops)
    else:
        table, crossing, crossings = frame.reset_index(drop=True).assign(compute=flops), np.empty(0), np.empty(0, np.int64)
    return Versus(
        names=names, settings=table, losses=losses, noisy=losses * np.exp(noise), multiplier=times[0], inverse=times[1],
        crossing=crossing, crossings=crossings,
        beyond=np.maximum(np.log(flops)[None] - np.log([[r.largest] for r in recipes]), 0.0), inside=inside,
        allocation=_allocation(frame, ratio), recipes=recipes, posteriors=(first, second), on=on,
        spread="extrapolated" if any(e is not None for r in recipes for e in r.errors) else "latent", unit=first.unit,
        shared_error=shared_error, notes=notes_of((first, second), [*pairs.values()], followed, table, times, shared_error),
        failed=not (first.passed and second.passed),
    )  # fmt: skip


def _check_choices(on: str, shared_error: float, discrepancy: str, seed: int) -> None:
    whole_number("seed", seed, 0)
    if not (isinstance(shared_error, Real) and 0 <= shared_error <= 1):
        raise BayeslawError(f"A shared error is a correlation from 0 to 1; {shared_error!r} is not.", code="bad-shared-error")
    check_choice("discrepancy", discrepancy, "unknown-discrepancy")
    check_choice("on", on, "unknown-spread")


class _Group(NamedTuple):
    """Rows whose recipes follow one path: other covariates than N and D, and the tokens per parameter; None for the best."""

    rows: NDArray[np.int64]
    settings: dict[str, float]
    tokens_per_parameter: float | None

    @property
    def key(self) -> str:
        """The same for groups of the same settings."""
        return repr(self.settings)


def _groups(frame: pd.DataFrame) -> list[_Group]:
    """Return the groups of rows with the same tokens per parameter and other covariates."""
    others = [str(c) for c in frame if c not in ("N", "D")]
    ratio = (frame["D"] / frame["N"]).to_numpy()
    keys = frame[others].assign(_=[f"{value:.12g}" for value in ratio]).reset_index(drop=True)
    groups = keys.groupby([*others, "_"], sort=False).indices.values()
    return [_Group(np.asarray(rows), {c: float(frame[c].iloc[rows[0]]) for c in others}, float(ratio[rows[0]])) for rows in groups]


def _recipes(
    names: tuple[str, str],
    fits: tuple[Posterior, Posterior],
    own: tuple[Mapping[str, Any], Mapping[str, Any]],
    groups: Sequence[_Group],
    seed: int,
    shared: float,
    learned: bool,
) -> dict[str, tuple[Recipe, Recipe]]:
    """Return both recipes at their settings and those of each group of rows, by the group's key."""
    pairs = dict[str, tuple[Recipe, Recipe]]()
    for key, extra in {group.key: group.settings for group in groups}.items():
        a, b = (
            recipe(
                name, fit, {**{k: v for k, v in extra.items() if k in fit.measured}, **mine}, learned=learned, seed=seed,
                side=side, shared=shared,
            )
            for side, (name, fit, mine) in enumerate(zip(names, fits, own, strict=True))
        )  # fmt: skip
        check_shared(a, b, shared)
        pairs[key] = (a, b)
    return pairs


def _by_row(groups: Sequence[_Group], parts: Sequence[Array]) -> Array:
    """Return arrays of groups (2, S, rows of the group) as one array (2, S, n) in the order of all rows."""
    order = np.argsort(np.concatenate([group.rows for group in groups]))
    return np.take(np.concatenate(parts, axis=2), order, axis=2)


def _inside(
    frame: pd.DataFrame, groups: Sequence[_Group], exact: Mapping[str, tuple[Recipe, Recipe]]
) -> tuple[NDArray[np.bool_], Array]:
    """Return which settings (n,) lie inside the runs of both recipes, and losses (2, S, n) there; nan elsewhere.

    Parameters
    ----------
    frame, groups
        Settings, and the rows that share a path.
    exact : mapping of group's key to pair of Recipe
        Recipes whose laws are taken for exact.
    """
    inside, losses = np.zeros(len(frame), dtype=bool), list[Array]()
    for group in groups:
        pair, n, d = exact[group.key], *(frame[c].to_numpy()[group.rows] for c in ("N", "D"))
        inside[group.rows] = within = np.all([r.inside(n, d) for r in pair], axis=0)
        of_group = np.full((2, pair[0].size, n.size), np.nan)
        of_group[:, :, within] = [r.losses(n[within], d[within]) for r in pair]
        losses.append(of_group)
    return inside, _by_row(groups, losses)


class _Compared(NamedTuple):
    """Two recipes at compute (n,)."""

    paths: tuple[ComputePath, ComputePath]
    losses: Array  # (2, S, n)
    times: Array  # (2, S, n): by how much A's compute must be multiplied for B to have A's loss, and the other way round


def _compared(recipes: tuple[Recipe, Recipe], flops: Array, tokens_per_parameter: float | None) -> _Compared:
    log_c = np.log(flops)
    a, b = (path(r, points(log_c), tokens_per_parameter) for r in recipes)
    for own, r in zip((a, b), recipes, strict=True):
        if outside := [f"{c:.3g}" for c, x in zip(flops, log_c, strict=True) if not own.log_c[0] <= x <= own.log_c[-1]]:
            raise BayeslawError(f"{outside[0]} FLOPs leave no N and D in the supports of {r.name}.", code="compute-out-of-support")
    of_a, of_b = (own.loss[:, own.at(log_c)] for own in (a, b))
    times = np.stack([b.needed(log_c, of_a), a.needed(log_c, of_b)])
    return _Compared((a, b), np.stack([of_a, of_b]), np.exp(times))


def _noise(recipes: tuple[Recipe, Recipe], rows: int, seed: int) -> Array:
    """Return the noise (2, S, rows) that the log losses of the next runs of both have."""
    return np.stack([r.noise(rows, seed, side) for side, r in enumerate(recipes)])


def _allocation(frame: pd.DataFrame | None, tokens_per_parameter: float | None) -> str:
    """Say how compute is spent."""
    if frame is not None:
        return "both at the settings given; where compute grows, it grows at their tokens per parameter"
    if tokens_per_parameter is not None:
        return f"each at {tokens_per_parameter:g} tokens per parameter"
    return "each with its N and D of least loss"


def _crossing(paths: tuple[ComputePath, ComputePath], flops: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return the FLOPs (S,) at which the better one changes first, nan where it does not, and how often it does."""
    if flops.size < 2 or flops.max() == flops.min():
        return np.empty(0), np.empty(0, np.int64)
    low, high = math.log(flops.min()), math.log(flops.max())
    x = paths[0].log_c[(paths[0].log_c >= low) & (paths[0].log_c <= high)]
    gap = np.log(paths[1].loss[:, paths[1].at(x)]) - np.log(paths[0].loss[:, paths[0].at(x)])
    changes = np.signbit(gap[:, 1:]) != np.signbit(gap[:, :-1])
    first, rows = changes.argmax(axis=1), np.arange(len(gap))
    before, after = gap[rows, first], gap[rows, first + 1]
    with np.errstate(all="ignore"):
        place = x[first] + before / (before - after) * (x[first + 1] - x[first])
    return np.exp(np.where(changes.any(axis=1), place, np.nan)), changes.sum(axis=1)


def _outside(a: float, b: float) -> str:
    """Say how far compute lies beyond the largest runs of A and B, in e-folds."""
    far = [f"{name} by {value:.1f} e-folds" for name, value in (("A", a), ("B", b)) if value > FAR]
    return f"beyond {' and '.join(far)}" if far else "inside the runs' compute"


def _span(low: float, high: float, ci_prob: float) -> str:
    """The interval of a multiplier in words; one with an open end is one-sided."""
    percent = f"{100 * ci_prob:g}%"
    if low > 0 and not math.isinf(high):
        return f"{percent} equal-tailed interval {_times(low)} to {_times(high)}"
    if math.isinf(high) and low > 0:
        return f"at least {_times(low)} with {percent}"
    return "no bound" if math.isinf(high) else f"at most {_times(high)} with {percent}"


def _times(value: float) -> str:
    """Return a multiplier as text."""
    return f"over {REACH:,.0f}" if math.isinf(value) else f"under 1/{REACH:,.0f}" if value == 0 else compact(value, 3)
