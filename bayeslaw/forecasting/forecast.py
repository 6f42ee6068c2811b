"""Forecasts of the loss, or of another outcome, at new settings, with four spreads.

- `latent`: the law's expected outcome, uncertain only through its parameters.
- `run`: what the next run would log: the latent loss times the effects of its checkpoint and run, times point noise. Noise of
  other outcomes than positive ones is added on a scale of their own (`laws.outcome`), and they stay within their bounds.
  Effects of the fit's own checkpoints and runs are as learnt from their losses (`posterior.effects`), others are drawn anew.
- `extrapolated`: the same by the posterior in which the law has an error that is learnt (`noise.walk`), times that error. It is
  the one to report outside the runs, where the others take the law for exact.
- `discrepancy`: the run's loss times a smooth error of the law whose relative size the user states (`forecasting.discrepancy`).

Known errors of losses in the table (`loss_se`) are added to the point noise when forecasts are compared with these losses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayeslaw.core import html
from bayeslaw.core.arrays import Array, Index
from bayeslaw.core.errors import BayeslawError, Fault, TableError, whole_number
from bayeslaw.core.intervals import interval_names, tails
from bayeslaw.core.progress import console_for
from bayeslaw.core.streams import Stream
from bayeslaw.core.text import counted, short_lines
from bayeslaw.core.threads import one_blas_thread
from bayeslaw.data.table import Runs
from bayeslaw.data.tokenizers import check_loss_unit
from bayeslaw.data.validate import LEAST_TOKENS, base_rows, check
from bayeslaw.forecasting.average import Averages, average, averaged
from bayeslaw.forecasting.base_losses import base_loss_check, with_known_base_losses
from bayeslaw.forecasting.discrepancy import STATED, read_choice, spread_name
from bayeslaw.forecasting.facts import of_several_values, with_facts
from bayeslaw.forecasting.grid import Settings, read_settings
from bayeslaw.forecasting.member_draws import MemberDraws
from bayeslaw.forecasting.outside import beyond_together, outside, outside_together
from bayeslaw.forecasting.results import earlier_results, result_column
from bayeslaw.forecasting.stack import DIFFER, Posterior, with_error
from bayeslaw.laws.outcome import Outcome
from bayeslaw.noise.walk import directions, product_name
from bayeslaw.posterior.diagnostics import (
    Check,
    Reach,
    checks_label,
    distrusted,
    extrapolation,
    failed_text,
    failures,
    model_label,
)
from bayeslaw.posterior.effects import WORDS, Reading
from bayeslaw.posterior.fit import Fit, require_fits
from bayeslaw.posterior.new_groups import new_groups_check, new_pairs_check, with_new_groups
from bayeslaw.posterior.run_distance import RunDistance

OF_MODELS = ("seed", "checkpoint")  # columns by which models of the same settings differ
MOST_DRAWS = 250_000_000  # most numbers that draws may hold: 2 GB
BLOCK = 64  # rows computed at once: fewer repeat the work on the discrepancy's waves, more leave a core's cache


@dataclass(frozen=True, eq=False)
class Forecast:
    """Posterior forecasts of the loss at settings, computed a block of rows at a time on demand.

    Attributes
    ----------
    law : str
        Name of the law, or of the stack of laws.
    members : tuple of MemberDraws
        One for each fit that contributes draws.
    outside : DataFrame
        For each covariate, how far the setting lies outside the runs: in e-folds where it spans decades, else in its unit.
    rows : array (n,) of the rows' numbers in the table of settings
    discrepancy : float or None
        Stated relative standard deviation of the law's error.
    measured : Runs or None
        The table, where it has losses with known errors (`loss_se`).
    beyond : tuple of MemberDraws
        For each of `members` the draws with learnt errors of its law, or the member itself where none are learnt; empty if no law
        has any, or where a discrepancy was stated or refused ('none').
    is_outside : bool array (n,)
        Whether settings lie outside the runs of a fit, in a covariate or in several together, or in their schedule: those of new
        runs, by laws of training dynamics whose runs show how far they lie from the law (`posterior.run_distance`).
    again : callable
        Makes this forecast at other settings, given as Runs: by the same draws, with the same choices.

    Examples
    --------
    >>> forecast = bayeslaw.load_fit("fit.nc").forecast(pd.DataFrame({"N": [1e9], "D": [2e10]}))
    >>> dict(forecast.draws.sizes)["row"], forecast.forced
    (1, False)
    """

    law: str
    failed: bool
    members: tuple[MemberDraws, ...]
    settings: pd.DataFrame
    outside: pd.DataFrame
    rows: NDArray[Any]
    discrepancy: float | None
    measured: Runs | None
    beyond: tuple[MemberDraws, ...]
    is_outside: NDArray[np.bool_]
    again: Callable[[Runs], Forecast]

    def __repr__(self) -> str:
        return short_lines(f"<Forecast by {self.law} at {counted(self.rows.size, 'setting')}: {self.size:,} draws>")

    def _repr_html_(self) -> str:
        """Show the first settings with the interval to report in a notebook, and checks of the forecast that say something."""
        table = self._summary(0.9, min(html.ROWS, self.rows.size))
        headlines = self.headlines[: len(table)]
        rows = list(zip(headlines, table.to_dict("records"), strict=True))
        shown = table[list(self.settings)].assign(median=[row.get(f"{head}_median", row["latent_median"]) for head, row in rows])
        for end in interval_names("eti", 0.9):
            shown[end] = [row[f"{head}_{end}"] for head, row in rows]
        shown = shown.assign(interval_of=headlines, extrapolation=self.extrapolation[: len(table)])
        concerns = [str(check) for check in self.checks if not (check.passed or check.required)]
        sampling = f"FAILED (forced): do not trust these intervals. {failed_text(self.checks)}" if self.forced else "passed"
        about = f"at {counted(self.rows.size, 'setting')}, {self.outcome.in_unit(self.unit)}"
        verdicts = html.verdicts(sampling, self.model_label)
        return html.fragment(f"Forecast by {self.law}", about, verdicts, html.grid(shown, self.rows.size), html.notes(concerns))

    @property
    def outcome(self) -> Outcome:
        """What is forecast: a loss, or what the law predicts in place of it."""
        return self.members[0].fit.law.outcome

    @property
    def unit(self) -> str:
        """Unit of the outcome: of losses nats/token, unless the fit is to losses in another unit."""
        return self.members[0].fit.unit

    @property
    def size(self) -> int:
        """Number of draws."""
        return sum(member.size for member in self.members)

    @property
    def error(self) -> str:
        """What error of the law the spread `extrapolated` has, in words; empty if there is none."""
        distances = [f"{m.distance.size:.1%}" for m in self.beyond if m.distance is not None]
        of_runs = f"for new runs the distance of the fitted runs from the law ({', '.join(distances)})" if distances else ""
        return " and ".join(filter(None, [self._error_beyond, of_runs]))

    @property
    def _error_beyond(self) -> str:
        """As `error`, beyond the range of the runs."""
        walks = [member.errors.walk for member in self.beyond if member.errors is not None]
        usual = "the error that laws have beyond the runs of other ladders"
        known = {
            "the law's error as learnt from these runs and from other ladders": any(not walk.exact for walk in walks),
            usual: any(walk.exact and not walk.shares for walk in walks),
            f"{usual}, less {DIFFER}": any(walk.shares for walk in walks),
        }
        return " or ".join(text for text, applies in known.items() if applies)

    @property
    def of_schedules(self) -> bool:
        """Whether rows of new runs count as outside the runs, since these may have another schedule (`posterior.run_distance`)."""
        return any(member.distance is not None for member in self.beyond)

    @property
    def with_errors(self) -> Forecast:
        """The forecast in which every setting has the errors of laws that fits have learnt, inside the runs as outside."""
        if not self.beyond:
            return self
        return replace(self, members=self.beyond, beyond=(), again=lambda runs: self.again(runs).with_errors)

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """Checks of the latent loss under each law: R-hat, effective sample sizes, sensitivity to the law's priors; whether base
        losses contradict those of the runs; how far outside the runs the settings lie, and whether fitted rows have their groups.

        With more than 24 settings, 24 are checked (8 for sensitivity to priors): the extremes of each covariate, and others
        spread between them.
        """
        of_draws = list[Check]()
        for member in (*self.members, *(m for m in self.beyond if m.errors is not None and not m.errors.walk.exact)):
            law = member.fit.law.name
            name = f"{law} with a learnt error: " if member.errors is not None else f"{law}: " if len(self.members) > 1 else ""
            of_draws += [replace(check, text=name + check.text) for check in member.checks()]
        of_groups = [check for m in self.members for check in (new_groups_check(m.fit), new_pairs_check(m.fit, m.covariates))]
        groups = {check.text: check for check in of_groups if check is not None}
        fits = {id(m.fit): m for m in self.members if not m.fit.levels}.values()  # levels, such as domains, have bases of their own
        bases = {check.text: check for m in fits if (check := base_loss_check(m.fit.observed, m.covariates)) is not None}
        return (*of_draws, *groups.values(), *bases.values(), *self._bounded_check(), self._extrapolation[1])

    def _bounded_check(self) -> list[Check]:
        """Return a concern where outcomes between bounds are forecast outside the runs, by a law that counts as exact there."""
        facts = [column for column in self.outside if column in self.outcome.facts]
        away = int((self.outside.drop(columns=facts) > 0).any(axis=1).sum())
        if self.outcome.unbounded or self.discrepancy is not None or self.beyond or not away:
            return []
        text = (
            f"{away:,} of {len(self.outside):,} settings lie outside the runs, where the law of the {self.outcome.plural} is taken "
            "for exact: intervals are too narrow if it errs"
        )
        advice = f"Hold out your largest models, and count how many of their {self.outcome.plural} lie in such intervals"
        return [Check("exact_law", False, text, "model", pd.DataFrame({"outside": [away]}), advice)]

    @cached_property
    def _extrapolation(self) -> tuple[list[str], Check]:
        reach: dict[str, Reach] = {}
        for fit in (member.fit for member in reversed(self.members)):
            reach |= Reach.by_axis(fit.law, fit.observed)
        several = len({member.fit.law.name for member in self.members}) > 1
        included = self._error_beyond or (DIFFER if several else "") if self.discrepancy is None else "the stated discrepancy"
        of_corners = self._corners(reach)
        along = (*directions(self.members[0].fit.law), *map(str, of_corners)) if self._error_beyond else None
        where = pd.concat([self.outside, of_corners], axis=1)
        return extrapolation(where, {name: reach[name] for name in map(str, where)}, included, along)

    def _corners(self, reach: dict[str, Reach]) -> pd.DataFrame:
        """Return how far settings inside the runs in each covariate lie outside in several together, and add the runs' reach.

        A size of its own, such as N x active, counts though a covariate lies outside too.
        """
        distances, boxed = dict[str, Array](), (self.outside == 0).all(axis=1).to_numpy()
        for member in self.members:
            law = member.fit.law
            sizes = {product_name(law.factors(axis)) for axis in directions(law)}
            for name, (distance, of_runs) in outside_together(member.fit, member.covariates).items():
                if (distance := np.where(boxed | (name in sizes), distance, 0.0)).any():
                    distances[name] = np.maximum(distance, distances.get(name, 0.0))
                    reach[name] = of_runs
        return pd.DataFrame(distances, index=self.outside.index)

    @property
    def extrapolation(self) -> list[str]:
        """How far each setting lies outside the runs, in words, as the column of `summary` has it."""
        return self._extrapolation[0]

    def mean(self, over: str) -> Averages:
        """Return averages over the values of a column, such as accuracies over tasks, by the spread to report.

        Parameters
        ----------
        over : str
            The column. Rows that agree in all other columns, but for `Outcome.facts`, are averaged draw by draw: errors which they
            share, of the law's parameters or of one `run`, do not average out. Without a column `run` they count as one run,
            unless they differ by a covariate of the law, or by `seed` or `checkpoint`: tasks are of one model, sizes are not.

        Examples
        --------
        >>> fit = bayeslaw.load_fit("accuracy.nc")
        >>> settings = pd.DataFrame({"loss": 2.5, "chance": 0.25, "items": [100, 1000], "task": ["a", "b"]})
        >>> fit.forecast(settings).mean("task").summary()["rows"].item()
        2
        """
        unmeasured = replace(self, measured=None)  # the errors of measured outcomes are not those of the next run
        return average(self.settings, unmeasured.averaged_over(over).predictive, over, self.outcome.facts)

    def averaged_over(self, over: str) -> Forecast:
        """Return the forecast whose draws `mean` averages: without a column `run`, rows of one average are points of one run.

        If one of these rows lies outside the runs, all are forecast as it is: draws of `run` and `extrapolated` are of two
        posteriors, and don't belong together.
        """
        code = averaged(self.settings, over, self.outcome.facts)[1]
        apart = over in OF_MODELS or any(over in member.fit.law.covariates for member in self.members)
        outside = np.bincount(code, self.is_outside) > 0
        return replace(self if apart else self.with_runs(code), is_outside=outside[code])

    def with_runs(self, code: Index) -> Forecast:
        """Return the forecast with rows of one code (n,) as points of one new run, where the settings name no run."""
        unnamed = self.settings["run"].isna().to_numpy() if "run" in self.settings else np.ones(code.size, dtype=bool)
        first = np.unique(code, return_index=True)[1][code]

        def shared(member: MemberDraws) -> MemberDraws:
            run, checkpoint = (np.where(unnamed, of[first], of) for of in (member.run, member.checkpoint))
            return replace(member, run=run, checkpoint=checkpoint)

        return replace(self, members=tuple(map(shared, self.members)), beyond=tuple(map(shared, self.beyond)))

    @property
    def forced(self) -> bool:
        """Whether it overrides failed checks, of a fit or of the forecast itself."""
        return self.failed or bool(failures(self.checks))

    @property
    def model_label(self) -> str:
        """'no concerns', 'concerns' or 'not assessed': the verdict on the models of its fits and at its settings."""
        return model_label([check for member in self.members for check in member.fit.checks] + list(self.checks))

    @property
    def spread(self) -> str:
        """The spread to report and to compare with measured losses: that of `headlines`, or both, as 'run or extrapolated'."""
        return " or ".join(sorted(set(self.headlines), reverse=True))

    @property
    def headlines(self) -> list[str]:
        """The spread to report for each row: 'discrepancy1%' where 1% was stated, 'extrapolated' where `is_outside`, else 'run'."""
        if self.discrepancy is not None:
            return [spread_name(self.discrepancy, self.outcome)] * self.rows.size
        return ["extrapolated" if away else "run" for away in self.is_outside & bool(self.beyond)]

    @property
    def spreads(self) -> tuple[str, ...]:
        """Names of the spreads of `draws`."""
        return ("latent", "run", *(["extrapolated"] if self.beyond else []), *([] if self.discrepancy is None else ["discrepancy"]))

    @property
    def readings(self) -> list[str]:
        """As what each row is forecast: 'new run', 'known checkpoint' or 'known run'; of a stack, by the law that knows most."""
        return [max(words, key=WORDS.index) for words in zip(*(member.learnt.words for member in self.members), strict=True)]

    @cached_property
    def draws(self) -> xr.Dataset:
        """Draws of the loss (sample, row) in `unit`: variables `latent`, `run`, and `extrapolated` or `discrepancy`.

        The coordinate `row` has the numbers of the settings in their table, counted from 1. The rows of `summary` are in the same
        order and have pandas' usual index from 0: combine the two by place (``.values``), not by index.

        Sums and differences of rows, draw by draw of one spread, have the errors that rows share. Forecasts in two calls with one
        seed share random numbers, by which the noise of new runs cancels in their differences: give all settings in one call. By
        two fits, give the second another `seed` before you subtract their draws, or compare them by `bayeslaw.planning.versus`.

        They are at most 250 million numbers; `summary` has no such limit.
        """
        sds = () if self.discrepancy is None else (self.discrepancy,)
        spreads = self.spreads
        if len(spreads) * self.size * self.rows.size > MOST_DRAWS:
            raise BayeslawError(
                f"{self.size:,} draws at {self.rows.size:,} settings are more than memory should hold at once (at most "
                f"{MOST_DRAWS // len(spreads) // self.size:,} settings). Ask for the summary, or forecast the settings in parts.",
                code="too-many-draws",
            )
        whole = np.empty((len(spreads), self.rows.size, self.size))

        def keep(block: slice, losses: Array) -> None:
            whole[:, block] = losses

        self._blocks(keep, sds)
        data = {spread: (("sample", "row"), np.ascontiguousarray(whole[i].T)) for i, spread in enumerate(spreads)}
        attributes = {"units": self.unit} | ({"discrepancy": self.discrepancy} if sds else {})
        return xr.Dataset(data, coords={"row": self.rows}, attrs=attributes)

    def expected(self, block: slice | Index) -> Array:
        """Return draws (rows, S) of the law's loss in a block of settings, with its discrepancy but without noise."""
        rows = np.arange(self.rows.size)[block]
        there = self.is_outside[rows] & bool(self.beyond)
        loss = np.empty((rows.size, self.size))
        if (inside := rows[~there]).size:
            loss[~there] = np.concatenate([m.expected(inside, self.discrepancy or 0.0) for m in self.members], axis=-1)
        if (outside := rows[there]).size:
            loss[there] = np.concatenate([m.latent(outside) for m in self.beyond], axis=-1)
        return loss

    @cached_property
    def known(self) -> Array:
        """Known errors (n,) of the responses in the table: `loss_se` over the loss, 0 where there is none."""
        if self.measured is None:
            return np.zeros(self.rows.size)
        faults = check(self.measured, self.members[0].fit.law, purpose="score")
        outcome = self.outcome
        if faults := [fault for fault in faults if fault.column in (outcome.name, outcome.error, "unit")]:
            raise TableError(faults, self.measured.name)
        values, error = (self.measured.frame[c].to_numpy(dtype=np.float64) for c in (outcome.name, outcome.error))
        return np.asarray(error * outcome.slope(values))

    @cached_property
    def predictive(self) -> Array:
        """Draws (S, n) of the spreads to compare with the losses in the table (`headlines`), with the known errors of these."""
        members, beyond = (tuple(replace(member, known=self.known) for member in some) for some in (self.members, self.beyond))
        draws = (replace(self, members=members, beyond=beyond) if self.known.any() else self).draws
        if self.discrepancy is not None:
            return np.asarray(draws["discrepancy"].values)
        inside = np.asarray(draws["run"].values)
        return np.where(self.is_outside, draws["extrapolated"].values, inside) if self.beyond else inside

    def summary(self, ci_prob: float = 0.9, *, progress: bool = False) -> pd.DataFrame:
        """Return a table with one row per setting; memory use does not grow with the number of settings.

        Measured losses of the settings are left out: `bayeslaw.score` compares them with their forecasts.

        Its columns are the settings; latent_median, run_median and extrapolated_median with the ends of equal-tailed intervals of
        probability `ci_prob`, `<spread>_eti<prob>_lb` and `_ub`, in `unit`; without a learnt discrepancy, the interval of the
        next run with the stated one, `discrepancy<sd>%_eti<prob>_lb` and `_ub`, or with .5% and 1% where none was stated;
        `headline`, the spread to report: 'extrapolated' outside the runs, and for new runs by laws of training dynamics, which may
        have another schedule; else 'run', or the stated one;
        `as`, which is 'new run', 'known checkpoint' or 'known run' by the effects that were learnt; `outside_<covariate>`;
        `extrapolation`, which is 'inside', 'outside: …' or 'FAR outside: …' with covariates and distances, of N x D where only
        their product, compute, exceeds that of every run, and of D / N where no run has had so many or so few tokens per parameter;
        `checks`, which is 'passed' or 'FAILED (forced)' for the sampling; and `model`, which is 'no concerns', 'concerns' or
        'not assessed' for the fits and this forecast. Settings keep a column of such a name, and the forecast's is then called
        `forecast_model`, say. With `progress` a bar on standard error shows how far it is.
        """
        return self._summary(ci_prob, self.rows.size, progress)

    def _summary(self, ci_prob: float, count: int, progress: bool = False) -> pd.DataFrame:
        """Return the first rows of the summary."""
        middle_and_ends = tails(ci_prob)
        usual = STATED if self.outcome.relative else ()
        sds = () if self.beyond else usual if self.discrepancy is None else (self.discrepancy,)
        names = ("latent", "run", *(["extrapolated"] if self.beyond else []))
        quantiles = np.empty((len(names) + len(sds), 3, count))

        def keep(block: slice, losses: Array) -> None:
            quantiles[:, :, block] = np.moveaxis(np.quantile(losses, middle_and_ends, axis=-1), 0, 1)

        self._blocks(keep, sds, progress, count)
        table = self.settings.head(count).copy()
        ends = interval_names("eti", ci_prob)
        for spread, (median, low, high) in zip((*names, *(spread_name(sd, self.outcome) for sd in sds)), quantiles, strict=True):
            if spread in names:
                table[f"{spread}_median"] = median
            table[f"{spread}_{ends[0]}"], table[f"{spread}_{ends[1]}"] = low, high
        results: dict[str, Any] = {"headline": self.headlines[:count], "as": self.readings[:count]}
        results |= {f"outside_{covariate}": self.outside[covariate].to_numpy()[:count] for covariate in self.outside}
        results |= {"extrapolation": self.extrapolation[:count], "checks": checks_label(self.forced), "model": self.model_label}
        return table.assign(**{result_column(self.settings, name): result for name, result in results.items()})

    def _blocks(
        self, use: Callable[[slice, Array], None], sds: Sequence[float], progress: bool = False, count: int | None = None
    ) -> None:
        """Call a function with the draws (spread, rows, draws) of every block of the first rows; several threads compute blocks."""
        from rich.progress import track

        def block(at: int) -> None:
            rows = slice(at, min(at + BLOCK, end))
            plain = np.concatenate([member.losses(rows, sds) for member in self.members], axis=-1)
            if self.beyond:
                extrapolated = [member.noisy(member.latent(rows), rows) for member in self.beyond]
                plain = np.concatenate([plain[:2], np.concatenate(extrapolated, axis=-1)[None], plain[2:]])
            use(rows, plain)

        end, console = self.rows.size if count is None else count, console_for(progress)
        shown: dict[str, Any] = {"console": console, "disable": console is None, "transient": True}
        with one_blas_thread(), ThreadPoolExecutor() as pool:
            try:
                for result in track([pool.submit(block, at) for at in range(0, end, BLOCK)], "forecast", **shown):
                    result.result()
            finally:  # Ctrl-C does not wait for the blocks that have not begun
                pool.shutdown(cancel_futures=True)


def forecast(
    fit: Posterior,
    at: Settings,
    *,
    discrepancy: float | str | None = None,
    as_: Reading | Literal["new-group"] = "known",
    seed: int = 0,
    force: bool = False,
) -> Forecast:
    """Forecast the loss at settings.

    Parameters
    ----------
    fit : Fit or Stack
        The draws of a stack come from each of its laws in proportion to the law's weight.
    at : DataFrame, Runs, path, or mapping
        Settings, one row each, with the law's covariates, or a mapping of which `bayeslaw.grid` makes all combinations. Rows of
        one `run` share its run effect. A row with the `run` and N of a fitted run is a later row of it; one with the `checkpoint`
        of fitted runs (or their N and ptpp) is a new run of it. The results in a table of an earlier forecast are left out, and so
        are measured losses and their errors: `bayeslaw.score` compares these with their forecasts.
    discrepancy : float or text, optional
        By default, 'learned', the spread `extrapolated` has the error of the law that the fit has learnt, and is the one to report
        outside the runs; 'none' leaves it out. Or a relative standard deviation that you state for the law's error at settings
        like these, .01 or '1%': draws then have the spread `discrepancy`, in which each has an error that is a smooth function of
        the settings.
    as_ : {'known', 'new-run', 'new-checkpoint', 'new-group'}
        Rows of fitted runs and checkpoints have the effects learnt from these; with 'new-run' those of fitted runs are forecast as
        other runs of their checkpoint, and with 'new-checkpoint' all rows as new runs of new checkpoints. With 'new-group' rows
        may besides have values, of a column by which parameters differ, that no fitted row has (`posterior.new_groups`).
    seed : int
        Seed of the noise of new runs and of new groups; the same seed gives the same draws.
    force : bool
        Forecast although checks failed, and mark every row.

    Raises
    ------
    FitError
        If a required check of the fit or of the forecast itself failed, or if the loss is not finite at a setting; the latter
        may be raised only by `draws` or `summary`.
    TableError
        If a setting lacks a covariate or lies outside its support.

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> table = bayeslaw.forecast(fit, {"N": 1e9, "D": "1e9,1e10"}).summary()
    >>> table["extrapolation"].size, bool((table["run_eti90_lb"] < table["latent_median"]).all())
    (2, True)
    """
    require_fits(fit)
    seed = whole_number("seed", seed, 0)
    sd, learned = read_choice(discrepancy)
    if not fit.passed and not force:
        raise distrusted(f"Sampling of {fit.name}", fit.checks)
    runs = read_settings([fit], at)
    selections: Sequence[tuple[Fit, Index]] = fit.selections
    for member, _ in selections:  # before known base losses are added, which are in the unit of the fit
        unit = member.unit if member.law.outcome.is_loss else member.info.get("loss_unit", "")
        check_loss_unit(unit, runs.frame, member.law, runs.name)
    runs = replace(runs, frame=with_known_base_losses(fit.name, [member.observed for member, _ in selections], runs.frame))
    for member, _ in selections:
        runs = with_facts(member, runs)
    selections, reading = seen_as(as_, selections, runs.frame, seed)
    result = forecast_selections(fit.name, selections, runs, sd, seed, reading, failed=not fit.passed, learned=learned)
    if not force and failures(result.checks):
        raise distrusted("Sampling at the settings of this forecast", result.checks)
    return result


def seen_as(
    as_: Reading | Literal["new-group"], selections: Sequence[tuple[Fit, Index]], frame: pd.DataFrame, seed: int
) -> tuple[Sequence[tuple[Fit, Index]], Reading]:
    """Return selections of draws, with the groups that the fits have not seen where these are asked for, and the reading.

    Parameters
    ----------
    as_, selections, frame, seed
        What names in the settings `frame` mean, as users say it; fits with the draws that are selected; the seed of new groups.
    """
    if as_ != "new-group":
        return selections, as_
    return tuple((with_new_groups(fit, frame, seed), chosen) for fit, chosen in selections), "new-checkpoint"


def forecast_selections(
    name: str,
    selections: Sequence[tuple[Fit, Index]],
    runs: Runs,
    sd: float | None = None,
    seed: int = 0,
    reading: Reading = "known",
    *,
    left_out: str = "",
    failed: bool = False,
    learned: bool = False,
) -> Forecast:
    """Return the forecast by selected draws of some fits, whether or not their checks passed.

    Parameters
    ----------
    name : str
        Name of the law or the stack.
    selections : sequence of (Fit, int array)
        Fits, and the indices of the draws to take from each.
    runs : Runs
    sd : float, optional
        Stated discrepancy.
    seed : int
    reading : as `as_` of `forecast`
    left_out : str
        A fitted run that counts as unseen.
    failed : bool
        Whether checks of a fit failed.
    learned : bool
        Whether the forecast has the errors of laws that fits have learnt.
    """
    if faults := list(dict.fromkeys(fault for member, _ in selections for fault in _faults(runs, member))):
        raise TableError(faults, runs.name)
    members, beyond, distances = list[MemberDraws](), list[MemberDraws](), dict[str, Array]()
    is_outside = np.zeros(len(runs.frame), dtype=bool)
    for number, (fit, chosen) in enumerate(selections):
        entropy = member_entropy(fit, seed, number, len(selections))
        members.append(MemberDraws.of(fit, chosen, runs, entropy, reading, left_out))
        erring, of_runs = (with_error(fit, selections), RunDistance.of(fit)) if learned else (None, None)
        away = members[-1] if erring is None else MemberDraws.of(erring, chosen, runs, entropy, reading, left_out)
        beyond.append(replace(away, distance=of_runs))
        if of_runs is not None:
            is_outside |= away.run >= 0  # no fitted run need have had its schedule
        is_outside |= np.any([*beyond_together(fit, members[-1].covariates).values()], axis=0)
        for covariate, distance in outside(fit, members[-1].covariates).items():
            distances[str(covariate)] = np.maximum(distance.to_numpy(), distances.get(str(covariate), 0.0))
    outcome = members[0].fit.law.outcome
    apart = {outcome.name, outcome.error, *earlier_results(runs.frame)}
    settings = runs.frame[[c for c in runs.frame if c not in apart]].reset_index(drop=True)
    rows = runs.frame.index.to_numpy()
    measured = runs if {outcome.name, outcome.error} <= {*runs.frame} else None
    away_by = pd.DataFrame(distances)
    some = tuple(beyond) if any(m.errors is not None or m.distance is not None for m in beyond) else ()
    is_outside |= (away_by > 0).any(axis=1).to_numpy()
    again = partial(
        forecast_selections, name, selections, sd=sd, seed=seed, reading=reading, left_out=left_out, failed=failed, learned=learned
    )
    return Forecast(
        law=name, failed=failed, members=tuple(members), settings=settings, outside=away_by, rows=rows, discrepancy=sd,
        measured=measured, beyond=some, is_outside=is_outside, again=again,
    )  # fmt: skip


def member_entropy(fit: Fit, seed: int, number: int, count: int) -> tuple[int, ...]:
    """Return the seeds of a forecast by a fit.

    Parameters
    ----------
    fit, seed
    number, count : int
        Which of how many fits of a stack it is: 0 of 1 by itself.
    """
    return (int(fit.info["seed"]), seed, *((Stream.MEMBER + number,) if count > 1 else ()))


def _faults(runs: Runs, fit: Fit) -> list[Fault]:
    """Return the faults of settings for the law of a fit, whose own D may count so few examples as tokens can't be."""
    law, fitted = fit.law, fit.observed.covariates
    few = "D" in fitted and ((fitted["D"] > 0) & (fitted["D"] < LEAST_TOKENS)).any()
    at_base = ("D", "0", f"D = 0 is the base checkpoint, which {law.name} does not describe", "ask for D > 0", "infinite-at-base")
    at_checkpoints = runs.frame.index[base_rows(runs.frame, law)]
    faults = [fault for fault in check(runs, law, purpose="forecast") if fault.code != "tokens-too-few" or not few]
    if any(fault.code == "unknown-level" for fault in faults):  # numbers of items and chance come from the fit with a known task
        faults = [fault for fault in faults if fault.code != "missing-column" or fault.column not in law.outcome.facts]
    return [_with_advice(fault, fit) for fault in faults] + [Fault(int(row), *at_base) for row in at_checkpoints]


def _with_advice(fault: Fault, fit: Fit) -> Fault:
    """Return a fault that says how a value is forecast that no fitted row has, of a column by which parameters differ.

    A missing fact of a task, such as its chance, in which the fitted rows differ is to be given.
    """
    if fault.code == "missing-column" and (several := of_several_values(fit, fault.column)):
        give = f"give the settings the one to forecast, as {fault.column}"
        return replace(fault, suggestion=f"the fitted rows leave it open, since {several}: {give}")
    if fault.code != "unknown-level":
        return fault
    if (column := fit.observed.group_column) == fault.column:
        way = f"the fit's noise differs by {column} too, and a fit without that (--noise-by, noise_by=) forecasts"
    else:
        way = "`bayeslaw forecast`, `score` and `chain` forecast"
    new = f"{way} it as a new one with --as new-group (as_='new-group')"
    return replace(fault, suggestion=f"{fault.suggestion}; {new}")
