"""Draw from the posterior by NUTS in the coordinates of a ridge map."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import FitError, StoppedError
from bayeslaw.core.executors import available_cores
from bayeslaw.core.progress import console_for
from bayeslaw.core.streams import Stream
from bayeslaw.core.threads import one_blas_thread
from bayeslaw.engine.centring import centred, needs_centring, needs_matching, tied_where_equal
from bayeslaw.engine.compiled import callbacks
from bayeslaw.engine.density import Density
from bayeslaw.engine.matching import matched, rematched, replaced_if_far
from bayeslaw.engine.transport import RidgeMap, exactly_fitted, find_ridge_map
from bayeslaw.noise.noise import kind
from bayeslaw.posterior.diagnostics import ESS, Check, diagnostics, failures, sampler_checks

PILOT = 30  # percent of the tuning draws that tune the first run, which makes four times as many draws at few gradients each
PILOT_ACCEPT = 0.9
# Of hundreds of coordinates: a first run of fewer and shorter draws, as the map before it is matched to the density, and larger
# steps after it, since smaller ones take time and leave the draws no less correlated.
MANY_PILOT, MANY_PILOT_ACCEPT, MANY_PILOT_DEPTH = 20, 0.8, 4  # the last: times that a path is doubled at most
MANY_GAP = 8  # by which the gap between acceptance rate and 1 is multiplied there
SLOW = 0.8  # effective share of the first run's draws below which every second draw is kept
# A posterior counts as nearly normal up to so many gradients a draw in the first run: there NUTS turns after three doublings.
SHORT = 8.0
LEAST_NOISE = 3e-7  # relative; losses in single precision are rounded to 1e-7
MORE = 4  # by which tuning is multiplied where sampling failed, and the gap between acceptance rate and 1 divided if steps diverged
LONGER = 3  # by which draws are multiplied there, of which every third is kept, if the chains mixed too slowly
LONG = 60_000  # gradients a draw, times rows, above which sampling is not repeated, since that would take many minutes
WORTHWHILE = 4 * ESS  # draws of all chains below which sampling is not repeated: so few are a trial
# Coordinates above which no ridge path is sought: each step along one takes as many gradients, for every candidate.
MOST_WITH_RIDGE = 40
SECOND, THIRD = "second", "third"
DIVERGENCES = "divergences"  # name of the check
NOTHING = "Sampling was stopped before the first draws after tuning, so there is nothing to keep."
Report = Callable[[Any], None]
Chain = tuple[Array, dict[str, Array]]
"""Draws of z (draws, k) of one chain after tuning, and the sampler's statistics (draws,) by name."""
STATS = {"diverging": bool, "n_steps": np.int64, "energy": np.float64, "step_size_bar": np.float64}


@dataclass(frozen=True, eq=False)
class Sample:
    """Posterior draws, arrays (chains, draws), of runs' explicit effects (chains, draws, runs), and how they were sampled.

    `stats` are the sampler's statistics of the draws kept, `energy` (chains, all draws) is that of all draws, since E-BFMI compares
    successive ones. `ridge` is the coordinate along which a curved ridge was straightened, if any, `interrupted` says whether
    Ctrl-C ended sampling early, and `target_accept` is the rate that steps were tuned to.
    """

    draws: dict[str, Array]
    stats: xr.Dataset
    energy: Array
    ridge: str | None
    interrupted: bool
    target_accept: float | None = None


class Acceptance(NamedTuple):
    """Rates of acceptance that the steps of the kept run are tuned to.

    The first run takes larger steps than either. Where none of them diverged and paths were short, the posterior is nearly normal
    in the map's coordinates: larger steps don't diverge there, and paths take half as many gradients.

    Attributes
    ----------
    smooth, rough : float
        The rate for such a posterior, and for every other.
    """

    smooth: float = 0.95
    rough: float = 0.9875

    @classmethod
    def of(cls, asked: float | None) -> Acceptance:
        """The rates by default, or the one asked for."""
        return cls() if asked is None else cls(asked, asked)

    def at_most(self, rate: float) -> Acceptance:
        """The same where they are not higher than a rate."""
        return Acceptance(min(self.smooth, rate), min(self.rough, rate))

    def nearer_to_one(self, factor: float) -> Acceptance:
        """Rates whose gap to 1 is divided by a factor."""
        return Acceptance(*(1 - (1 - rate) / factor for rate in self))


@dataclass(frozen=True)
class SamplerSettings:
    """How a density is sampled: arguments of `bayeslaw.fit`, with the rates of acceptance.

    Attributes
    ----------
    thin : int
        One draw in so many is kept; `draws` is how many are kept.
    """

    draws: int
    tune: int
    chains: int
    seed: int
    acceptance: Acceptance
    progress: bool = False
    cores: int | None = None
    thin: int = 1


class SamplerRun(NamedTuple):
    """Settings of one run of all chains; results do not depend on `cores`, and a draw takes at most 2**maxdepth gradients."""

    draws: int
    tune: int
    chains: int
    cores: int
    seed: int
    target_accept: float
    maxdepth: int = 10


def sample_soundly(density: Density, settings: SamplerSettings, *, divergent: float = 0.0) -> tuple[Sample, list[Check]]:
    """Sample a density, and again if checks of the sampling failed, with more tuning.

    The second time steps are smaller if some of the first diverged, and chains longer and thinned if any other check failed. If
    nothing but divergent steps is left to fix then, it is sampled a third time with smaller steps still, and other random
    numbers: the same ones lead to the same map, which may be poor.

    Parameters
    ----------
    density, settings
        As in `sample`.
    divergent : float
        Share of divergent transitions that is no reason to sample again, though it may fail its check.

    Returns
    -------
    Sample, list of Check
        The last sample, with its checks and a note if it is not the first, or if another would have taken too long. The table
        of the note `repeated` has how the last one was sampled and what failed before it.
    """
    drawn, again = sample(density, settings), replace(settings, tune=MORE * settings.tune)
    checks, notes = _checks(drawn), list[Check]()
    for attempt in (SECOND, THIRD):
        few = float(drawn.stats["diverging"].mean()) <= divergent
        failed = [check.name for check in failures(checks) if check.name != DIVERGENCES or not few]
        if drawn.interrupted or not failed or settings.chains == 1 or settings.chains * settings.draws < WORTHWHILE:
            break
        if attempt == THIRD:
            if failed != [DIVERGENCES]:
                break
            again = replace(again, seed=int(np.random.SeedSequence([settings.seed, Stream.THIRD_SAMPLE]).generate_state(1)[0]))
        if float(drawn.stats["n_steps"].mean()) * density.observed.response.size > LONG:
            text = f"not sampled a {attempt} time, as failed samples are, since paths are long and it would take many minutes"
            notes.append(Check("not_repeated", False, text, "note", pd.DataFrame()))
            break
        if DIVERGENCES in failed:
            again = replace(again, acceptance=again.acceptance.nearer_to_one(MORE))
        if failed != [DIVERGENCES]:
            again = replace(again, thin=LONGER)
        repeated = sample(density, again)
        if repeated.interrupted:
            drawn = replace(drawn, interrupted=True)
            break
        names = ", ".join(failed)
        text = f"sampled a {attempt} time, with {MORE} times as many tuning draws as the first, since the one before failed {names}"
        how = {"sample": attempt, "failed": names, "tune": again.tune, "thin": again.thin}
        how |= {"target_accept": repeated.target_accept, "target_accept_before": drawn.target_accept}
        notes = [Check("repeated", False, text, "note", pd.DataFrame([how]))]
        drawn, checks = repeated, _checks(repeated)
    return drawn, [*checks, *notes]


def _checks(drawn: Sample) -> list[Check]:
    return sampler_checks({name: values for name, values in drawn.draws.items() if values.ndim == 2}, drawn.stats, drawn.energy)


def sample(density: Density, settings: SamplerSettings) -> Sample:
    """Sample a density with NUTS, starting from normal draws of its ridge map.

    The draws of a first run at a low acceptance rate refine the map, or replace it where it is far from the density; 40% of the
    tuning is left for the run that is kept. Where the effective sample size of a parameter of the law is small in the first
    run, the second makes twice as many draws and keeps every second. NUTS turns where it has gone from one side to the other.
    Squares, and a parameter that is small in the middle of a ridge and large at both ends, such as a gate, therefore have an
    effective size below half the draws even for a perfect normal. Pooled values of counted items are counted in powers of their
    spread (`centring`). Where they and run effects are many, the map is matched to the density's gradients before the first run,
    and to its draws after it; of some hundred coordinates one always mixes slowly, so every second draw is kept there too.

    Parameters
    ----------
    density, settings : Density, SamplerSettings

    Raises
    ------
    StoppedError
        If Ctrl-C stops it before the first draws after tuning.
    """
    if exactly_fitted(density):
        _check_values(density)
    with one_blas_thread():  # its matrices are tiny
        many, pooled = needs_matching(density), needs_centring(density)
        density, ridge_map = _mapped(density, settings.seed, many=many, pooled=pooled)
        _check_noise(density, density.draws(ridge_map.x(np.zeros((1, density.size)))))
    pilot_seed, main_seed = (int(s) for s in np.random.SeedSequence(settings.seed).generate_state(2))
    chains, thin, acceptance = settings.chains, settings.thin, settings.acceptance
    tuned, cores = (MANY_PILOT if many else PILOT) * settings.tune // 100, min(chains, settings.cores or available_cores())
    first = SamplerRun(4 * tuned, tuned, chains, cores, pilot_seed, PILOT_ACCEPT)
    if many:
        first = first._replace(draws=2 * tuned, target_accept=MANY_PILOT_ACCEPT, maxdepth=MANY_PILOT_DEPTH)
    with _progress(settings.progress) as task:
        z, of_steps, interrupted = run_chains(density, ridge_map, first, task("learning", (first.draws + first.tune) * chains))
        if interrupted:
            raise StoppedError(NOTHING)
        flat = z.reshape(-1, density.size)
        with one_blas_thread():
            if many:
                every, target = 2 * thin, max(1 - MANY_GAP * (1 - acceptance.rough), MANY_PILOT_ACCEPT)
                ridge_map, flat = rematched(density, ridge_map, flat)
            else:
                of_first = _draws_at(density, ridge_map, z)
                every = 2 * thin if is_slow({name: of_first[name] for name in density.law.parameters}) else thin
                nearly_normal = not of_steps["diverging"].any() and float(of_steps["n_steps"].mean()) <= SHORT
                target = acceptance.smooth if nearly_normal else acceptance.rough
                if not nearly_normal and (pooled or not density.law.levels):  # draws of a short run say little of a funnel
                    ridge_map, flat = replaced_if_far(density, ridge_map, flat)
            ridge_map = ridge_map.refined(flat, len(density.names))
        second = SamplerRun(every * settings.draws, settings.tune - 2 * tuned, chains, cores, main_seed, target)
        z, stats, interrupted = run_chains(density, ridge_map, second, task("sampling", (second.draws + second.tune) * chains))
    energy = stats["energy"].values
    if every > 1:
        z, stats = thinned(z, stats, every)
    ridge = None if ridge_map.ridge is None else density.names[ridge_map.ridge]
    return Sample(_draws_at(density, ridge_map, z), stats, energy, ridge, interrupted, target)


def _mapped(density: Density, seed: int, *, many: bool, pooled: bool) -> tuple[Density, RidgeMap]:
    """Return the density in the coordinates in which it is sampled, and the map to these before the first run.

    `many` and `pooled` are what `needs_matching` and `needs_centring` say of the density.
    """
    if pooled:
        density, ridge_map = centred(density)
        return density, matched(density, ridge_map, seed) if many else ridge_map
    density = tied_where_equal(density)
    return density, find_ridge_map(density, ridge_candidates(density))


def _draws_at(density: Density, ridge_map: RidgeMap, z: Array) -> dict[str, Array]:
    """Return the parameters (chains, draws), and explicit run effects (chains, draws, runs), at draws z (chains, draws, k)."""
    flat = density.draws(ridge_map.x(np.ascontiguousarray(z.reshape(-1, density.size))))
    return {name: values.reshape(*z.shape[:2], *values.shape[1:]) for name, values in flat.items()}


def ridge_candidates(density: Density) -> list[int]:
    """Return the coordinates along which a ridge path is sought.

    They are the law's shape parameters and, where an error of the law is learnt, that error's scale: as it goes to 0, the posterior
    of every other parameter narrows, like a funnel. So it does with the spread of pooled values that may all be one, which is the
    only candidate where there are more coordinates than `MOST_WITH_RIDGE`.
    """
    spreads = [density.names.index(density.law.pools[name][1]) for name in density.coordinates.tied]
    if len(density.names) > MOST_WITH_RIDGE:
        return spreads
    scale = [density.names.index("discrepancy")] if "discrepancy" in density.names else []
    return list(dict.fromkeys([*range(len(density.law.shapes)), *scale, *spreads]))


def _check_values(density: Density) -> None:
    """Refuse a parameter that has a value for each row: the law goes through all of them."""
    rows = density.observed.response.size
    if each := [column for column, values in density.law.levels.items() if len(values) >= rows]:
        raise FitError(
            f"{each[0]} has a value for each of the {rows} rows, so that a parameter that varies by it follows them exactly, and "
            "nothing tells their noise. Vary it by a column whose values have several rows.",
            code="value-for-each-row",
        )


def _check_noise(density: Density, centre: dict[str, Array]) -> None:
    """Refuse losses that the law describes to the last digits: no chain moves along so narrow a posterior."""
    noise = [float(values.ravel()[0]) for name, values in centre.items() if kind(name) == "sigma_point"]
    if not noise or max(noise) >= LEAST_NOISE or exactly_fitted(density):  # through few rows the law goes whatever they are
        return
    _check_values(density)
    outcome, name = density.law.outcome, density.law.name
    how = ", relatively" if outcome.relative else " on the scale of its noise"
    problem = f"The {outcome.plural} lie within {max(noise):.0e} of {name}{how}: they were computed, not measured"
    raise FitError(f"{problem}. Add the noise of measured {outcome.plural}, some 1e-3.", code="losses-without-noise")


def is_slow(draws: dict[str, Array]) -> bool:
    """Whether the bulk ESS of a parameter is below the share SLOW of its draws (chains, draws)."""
    return not bool(diagnostics(draws, ["ess_bulk"])["ess_bulk"].min() >= SLOW * next(iter(draws.values())).size)


def thinned(z: Array, stats: xr.Dataset, every: int) -> tuple[Array, xr.Dataset]:
    """Keep one of `every` draws; it adds the gradients of the draws before it and is divergent if any of them is.

    Parameters
    ----------
    z : array (chains, draws, k)
    stats : Dataset
        The sampler's statistics of these draws.
    every : int
    """
    chains, count, kept = z.shape[0], z.shape[1] // every, {}
    for name, variable in stats.items():
        groups = variable.values[:, : every * count].reshape(chains, count, every)
        last = {"n_steps": groups.sum(axis=-1), "diverging": groups.any(axis=-1)}.get(str(name), groups[..., -1])
        kept[name] = (("chain", "draw"), last)
    return z[:, every - 1 : every * count : every], xr.Dataset(kept, coords={"chain": stats["chain"], "draw": np.arange(count)})


def run_chains(
    density: Density, ridge_map: RidgeMap, settings: SamplerRun, report: Report | None
) -> tuple[Array, xr.Dataset, bool]:
    """Sample one run with nutpie: draws of z (chains, draws, k), statistics, and whether Ctrl-C ended it.

    Parameters
    ----------
    density, ridge_map, settings
    report : callable, optional
        Called with the progress of the chains.
    """
    import nutpie

    sampler = nutpie.sample(
        nutpie_model(density, ridge_map, settings.cores),
        **settings._asdict(),
        save_warmup=False,
        progress_bar=False,
        progress_callback=report,
        return_raw_trace=True,  # its conversion to a tree takes longer than some runs
        blocking=False,
    )
    try:
        return *complete_draws(chains_of(wait_for_chains(sampler)), settings.draws), False
    except KeyboardInterrupt:
        return *complete_draws(chains_of(sampler.abort()), settings.draws), True


def wait_for_chains(sampler: Any) -> Any:
    """Wait for the chains, a little at a time so that Python handles Ctrl-C in between, and return their trace."""
    while True:
        try:
            return sampler.wait(timeout=0.1)
        except TimeoutError:
            continue


def nutpie_model(density: Density, ridge_map: RidgeMap, threads: int) -> Any:
    """The mapped density as a compiled model for nutpie: C functions and addresses of arrays.

    Parameters
    ----------
    density, ridge_map
    threads : int
        Number of chains at a time.
    """
    from nutpie.compile_pymc import CompiledPyMCModel

    k, function = density.size, density.function(ridge_map.arrays, threads)
    logp, store = callbacks()

    def start(chain_seed: int) -> Array:
        return 0.5 * np.random.default_rng(chain_seed).standard_normal(k)

    return CompiledPyMCModel(
        dims={},
        compiled_logp_func=logp,
        compiled_expand_func=store,
        initial_point_func=start,
        shared_data={"density": function},  # kept alive as long as the model
        shared_var_keys={},
        user_data=function.description,
        n_expanded=k,
        shape_info=(["z"], None, [(k,)]),
        logp_func=None,
        expand_func=None,
        _n_dim=k,
        _shapes={"z": (k,)},
        _coords={},
    )


def chains_of(trace: Any) -> list[Chain]:
    """Return the draws of each chain of a raw nutpie trace after tuning, with their statistics."""
    import pyarrow

    chains = []
    for draws, stats in zip(*trace.get_arrow_trace(), strict=True):
        tuned = int(np.sum(stats.column("tuning").to_numpy()))
        z = pyarrow.array(draws.column("z")).flatten().to_numpy()
        z = z.reshape(draws.num_rows, z.size // max(draws.num_rows, 1))[tuned:]
        chains.append((z, {name: stats.column(name).to_numpy()[tuned:].astype(dtype) for name, dtype in STATS.items()}))
    return chains


def complete_draws(chains: Sequence[Chain], asked: int) -> tuple[Array, xr.Dataset]:
    """Draws of z (chains, draws, k) and statistics; of chains cut short, the equal length and chains that give the most.

    Chains with fewer than ten draws are not kept, unless fewer than ten were asked for, and then those with fewer than these.

    Raises
    ------
    StoppedError
        If no chain has so many.
    """
    lengths = np.array([len(z) for z, _ in chains])
    usable = np.unique(lengths[lengths >= min(10, asked)])
    if not usable.size:
        raise StoppedError(NOTHING)
    cut = max(usable, key=lambda length: length * np.sum(lengths >= length))
    kept = [chain for chain, length in zip(chains, lengths, strict=True) if length >= cut]
    stats = {name: (("chain", "draw"), np.stack([own[name][:cut] for _, own in kept])) for name in kept[0][1]}
    return np.stack([z[:cut] for z, _ in kept]), xr.Dataset(stats, coords={"chain": np.arange(len(kept)), "draw": np.arange(cut)})


@contextmanager
def _progress(wanted: bool) -> Iterator[Callable[[str, int], Report | None]]:
    """A progress bar on standard error: a function that begins a run of `total` draws and returns nutpie's callback for it."""
    if (console := console_for(wanted)) is None:
        yield lambda description, total: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f} draws"))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:

        def begin(description: str, total: int) -> Report:
            for done in bar.task_ids:
                bar.update(done, visible=False)
            task = bar.add_task(description, total=total)

            def report(chains: Any) -> None:
                try:
                    bar.update(task, completed=sum(c.finished_draws for c in chains))
                except Exception as error:  # runs on the sampler's thread, which must go on
                    logging.getLogger(__name__).debug("progress: %s", error)

            return report

        yield begin
