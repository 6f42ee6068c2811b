"""Posterior draws that are kept for a session of tests: the same density with the same settings is sampled once.

Pages and notebooks follow one another's commands, so that several fit the same law to the same table. What they print and write is
made each time; only the sampler's draws are kept, in files that workers share, those of executors included. Tests of the sampler
itself never use them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import cloudpickle
import numpy as np
import xarray as xr

from bayeslaw.engine.density import Density
from bayeslaw.inference.sample import Sample, SamplerSettings

WITHOUT_EFFECT = {"progress", "cores"}


def key(density: Density, settings: SamplerSettings) -> str:
    """A digest of all that draws depend on: the density as it is computed, its data, how draws are made of it, and the settings."""
    program, observed = density.program, density.observed
    numbers = dict(program.numbers) | {k: v for k, v in vars(settings).items() if k not in WITHOUT_EFFECT}
    arrays = {f"array {k}": v for k, v in program.arrays.items()} | {f"covariate {k}": v for k, v in observed.covariates.items()}
    arrays |= {"response": observed.response, "run": observed.run}
    found = hashlib.sha256(repr((program.key, density.names, density.law.sha256, sorted(numbers.items()))).encode())
    for name, values in sorted(arrays.items()):
        values = np.ascontiguousarray(values)
        found.update(f"{name} {values.dtype} {values.shape}".encode() + values.tobytes())
    return found.hexdigest()


def write(made: Sample, path: Path) -> None:
    """Write a sample under a temporary name, which is then changed: another worker never reads half of it."""
    arrays = {f"draws {k}": v for k, v in made.draws.items()} | {f"stats {k}": v.values for k, v in made.stats.items()}
    own = path.with_suffix(f".{np.random.default_rng().integers(2**62)}.npz")
    np.savez(own, energy=made.energy, ridge=json.dumps(made.ridge), **arrays)
    own.rename(path)


def read(path: Path) -> Sample:
    with np.load(path) as kept:
        arrays = {name: kept[name] for name in kept.files}
    draws, stats = (
        {name.removeprefix(f"{group} "): v for name, v in arrays.items() if name.startswith(f"{group} ")}
        for group in ("draws", "stats")
    )
    chains, count = next(iter(draws.values())).shape[:2]
    coords = {"chain": np.arange(chains), "draw": np.arange(count)}
    variables = {name: (("chain", "draw"), values) for name, values in stats.items()}
    return Sample(draws, xr.Dataset(variables, coords=coords), arrays["energy"], json.loads(str(arrays["ridge"])), False)


@contextmanager
def keeping(folder: Path, workers: bool = False) -> Iterator[None]:
    """Sample a density in this block only if no draws of it are kept in a folder; `workers`: in processes of executors too."""
    module, executors = import_module("bayeslaw.inference.sample"), import_module("bayeslaw.core.executors")
    sample: Callable[..., Sample] = module.sample

    def kept_or_sampled(density: Density, settings: SamplerSettings) -> Sample:
        path = folder / f"{key(density, settings)}.npz"
        if path.exists():
            return read(path)
        made = sample(density, settings)
        if not made.interrupted:
            write(made, path)
        return made

    folder.mkdir(parents=True, exist_ok=True)
    work = partial(working, folder, executors.run_payload) if workers else executors.run_payload
    with patch.object(module, "sample", kept_or_sampled), patch.object(executors, "run_payload", work):
        yield


def working(folder: Path, work: Callable[[bytes], bytes], payload: bytes) -> bytes:
    """Do the work of a worker process on one item with kept draws."""
    with keeping(folder):
        return work(payload)


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # worker processes may not find this module
