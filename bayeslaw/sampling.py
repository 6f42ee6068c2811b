"""Draws from the posterior by NUTS in whitened coordinates."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bayeslaw.density import Density
from bayeslaw.errors import StoppedError
from bayeslaw.executors import available_cores
from bayeslaw.kernels import callbacks, described
from bayeslaw.whitening import Whitening, whiten

STATS = {"diverging": bool, "n_steps": np.int64, "energy": np.float64, "step_size_bar": np.float64}


@dataclass(frozen=True)
class Sample:
    """Draws and how they were made.

    Attributes
    ----------
    draws : dict of str to array (chains, draws)
        Parameters of law and noise; explicit run effects are (chains, draws, runs).
    stats : Dataset
        Sampler statistics over chain and draw.
    spine : str or None
        Coordinate along which a bent ridge was straightened.
    interrupted : bool
        Whether Ctrl-C ended sampling early.
    """

    draws: dict[str, NDArray[np.float64]]
    stats: xr.Dataset
    spine: str | None
    interrupted: bool


def sample(
    density: Density,
    *,
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    target_accept: float,
    progress: bool,
    cores: int | None = None,
) -> Sample:
    """Sample a density with nutpie's NUTS, starting from its whitening map's own normal draws; `cores` changes no number."""
    import nutpie

    law = density.law
    shapes = [i for i, n in enumerate(density.names) if n in law.parameters and n not in law.amplitudes and n != law.floor]
    with threadpool_limits(1, "blas"):  # its matrices are tiny
        whitening = whiten(density, shapes)
    model = _model(density, whitening)
    with _progress(progress, chains * (draws + tune)) as report:
        sampler = nutpie.sample(
            model,
            draws=draws,
            tune=tune,
            chains=chains,
            cores=min(chains, cores or available_cores()),
            seed=seed,
            target_accept=target_accept,
            save_warmup=False,
            progress_bar=False,
            progress_callback=report,
            blocking=False,
        )
        interrupted = False
        try:
            trace = _wait(sampler)
        except KeyboardInterrupt:
            interrupted = True
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of ArviZ, where chains have fewer draws than there are chains
                trace = sampler.abort()
    return _collect(trace, density, whitening, interrupted)


def _wait(sampler: Any) -> Any:
    """Wait for the chains a little at a time and return their trace.

    In one long wait inside nutpie Ctrl-C was seen to be missed: the chains call nothing of Python's, so nothing there wakes it.
    """
    while True:
        try:
            return sampler.wait(timeout=0.1)
        except TimeoutError:
            continue


def _model(density: Density, whitening: Whitening) -> Any:
    """The whitened density as nutpie takes a compiled model: C functions and the addresses of their arrays."""
    from nutpie.compile_pymc import CompiledPyMCModel

    k, state = density.size, density.state()
    parts = (whitening.centre, whitening.scale, whitening.order, whitening.knots, whitening.pieces)
    arrays = tuple(np.ascontiguousarray(part) for part in parts)
    logp, store = callbacks()

    def start(chain_seed: int) -> NDArray[np.float64]:
        return 0.5 * np.random.default_rng(chain_seed).standard_normal(k)

    return CompiledPyMCModel(
        dims={},
        compiled_logp_func=logp,
        compiled_expand_func=store,
        initial_point_func=start,
        shared_data={"state": state, "arrays": arrays},  # kept alive as long as the model
        shared_var_keys={},
        user_data=described(state, arrays),
        n_expanded=k,
        shape_info=(["z"], None, [(k,)]),
        logp_func=None,
        expand_func=None,
        _n_dim=k,
        _shapes={"z": (k,)},
        _coords={},
    )


def _collect(trace: Any, density: Density, whitening: Whitening, interrupted: bool) -> Sample:
    """Turn draws of z into parameters; of chains cut short by Ctrl-C, keep the most draws of equal length."""
    nothing = StoppedError("Sampling was stopped before the first draws after tuning: nothing to keep.")
    if "posterior" not in trace or "z" not in trace["posterior"] or trace["posterior"]["z"].size == 0:
        raise nothing
    z = np.asarray(trace["posterior"]["z"].values)
    whole = np.isfinite(z).all(axis=-1)
    lengths = np.where(whole.all(axis=1), z.shape[1], whole.argmin(axis=1))
    usable = np.unique(lengths[lengths >= min(10, z.shape[1])])
    if not usable.size:
        raise nothing
    cut = max(usable, key=lambda length: length * np.sum(lengths >= length))
    kept = lengths >= cut
    z = z[kept, :cut]
    chains, count, k = z.shape
    flat = density.draws(whitening.x(np.ascontiguousarray(z.reshape(-1, k))))
    stats = trace["sample_stats"]
    kept_stats = {
        name: (("chain", "draw"), np.asarray(stats[name].values)[kept, :count].astype(kind))
        for name, kind in STATS.items()
        if name in stats
    }
    return Sample(
        {name: values.reshape(chains, count, *values.shape[1:]) for name, values in flat.items()},
        xr.Dataset(kept_stats, coords={"chain": np.arange(chains), "draw": np.arange(count)}),
        None if whitening.spine is None else density.names[whitening.spine],
        interrupted,
    )


def _progress(wanted: bool, total: int) -> AbstractContextManager[Callable[[Any], None] | None]:
    """A progress bar over the draws of all chains, on standard error."""
    if not wanted:
        return nullcontext(None)
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    class Bar(Progress):
        def __enter__(self) -> Any:
            super().__enter__()
            task = self.add_task("sampling", total=total, divergences=0)

            def report(chains: Any) -> None:
                try:
                    done = sum(c.finished_draws for c in chains)
                    self.update(task, completed=done, divergences=sum(c.divergences for c in chains))
                except Exception as error:  # runs on the sampler's thread, which must go on
                    logging.getLogger(__name__).debug("progress: %s", error)

            return report

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f} draws"))
    return Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
