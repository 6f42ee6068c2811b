"""What the process of every peer does alike: read the problem, time itself, hand draws to the benchmark.

Needs NumPy alone, since every peer runs in an environment of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Task(NamedTuple):
    """What a peer is asked for.

    Attributes
    ----------
    problem : str
        'form3', 'chinchilla' or 'dynamics'.
    rows : dict of str to array (n,)
        Covariates, `log_loss` and the run codes `run`, rows sorted by run.
    at : dict of str to float
        The settings at which priors on terms are stated.
    options : dict
        Chains, tune, draws, seed.
    """

    problem: str
    rows: dict[str, Any]
    at: dict[str, float]
    options: dict[str, Any]
    out: Path
    import_seconds: float


def task() -> Task:
    """The task of this process; called when everything is imported, so that the imports are timed."""
    imported = time.time() - float(os.environ["PEER_STARTED"])
    options = json.loads(sys.argv[1])
    with np.load(options["data"]) as stored:
        arrays = {name: stored[name] for name in stored.files}
    at = {name[3:]: float(arrays.pop(name)) for name in list(arrays) if name.startswith("at_")}
    return Task(options["problem"], arrays, at, options, Path(options["out"]), imported)


def report(
    of: Task,
    draws: dict[str, Any],
    *,
    compile_seconds: float,
    sampling_seconds: float,
    log_density: Any = None,
    steps: Any = None,
    tuning_steps: Any = None,
    diverging: Any = 0,
) -> None:
    """Store draws (chains, draws) and log densities, and print the rest as JSON.

    `steps` and `tuning_steps` are leapfrog steps, arrays (chains, draws), where the sampler tells them.
    """
    kept: dict[str, Any] = {name: np.asarray(value, dtype=np.float64) for name, value in draws.items()}
    if log_density is not None:
        kept["log_density"] = np.asarray(log_density, dtype=np.float64)
    np.savez(of.out, **kept)
    facts = {
        "import_seconds": of.import_seconds,
        "compile_seconds": compile_seconds,
        "sampling_seconds": sampling_seconds,
        "gradients": None if steps is None else int(np.sum(steps)),
        "tuning_gradients": None if tuning_steps is None else int(np.sum(tuning_steps)),
        "divergences": int(np.sum(diverging)),
    }
    print(json.dumps(facts))
