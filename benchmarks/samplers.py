"""Form 3 sampled by nutpie under several metrics and maps of one density, to show which of them brings the speed.

    python benchmarks/samplers.py       # prints the report kept in benchmarks/results/samplers.md

Maps, from none to the one of `bayeslaw.fit`:
- logs: the model's own variables, terms by their level at the reference point (`bayeslaw.pymc_model`, compiled by nutpie);
- coordinates: those of `bayeslaw.engine.coordinates`;
- affine: these whitened by mode and curvature;
- ridge: these whitened along the curved ridge;
- refined: the ridge map with each coordinate curved further after a first run, as `bayeslaw.fit` samples.

Metrics of nutpie: diagonal (its default), low rank, and a normalizing flow learnt during tuning, which needs a model in JAX: that
of `benchmarks/peers/pymc_expert.py`, the same density in logs. 4 chains of 1,000 + 1,000 draws on two cores; the flow has 200 + 50
because it takes minutes. Seconds are those of sampling, without compilation and without finding the map. ESS is the worst
parameter's. A fit keeps every second draw of such a law (`sampling.SLOW`), so it takes twice the gradients per draw listed here.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import nutpie
from numpy.typing import NDArray
from peers import observations, write_rows
from processes import process
from tables import banner, markdown_table

import bayeslaw
from bayeslaw.data.observations import Observations
from bayeslaw.engine.density import Density
from bayeslaw.engine.transport import RidgeMap, curvature, find_mode, find_ridge_map, root_of_inverse
from bayeslaw.inference.sample import PILOT, PILOT_ACCEPT, Acceptance, SamplerRun, nutpie_model, run_chains
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.diagnostics import diagnostics

LAW = "ptpp-gate-floor"
TUNE = PILOT * 500 // 100  # of the first run of a fit
SETTINGS: dict[str, Any] = {"tune": 1000, "draws": 1000, "chains": 4, "seed": 1}
ACCEPT = Acceptance().rough
FLOW: dict[str, Any] = SETTINGS | {"tune": 200, "draws": 50}


def affine(centre: NDArray[np.float64], scale: NDArray[np.float64]) -> RidgeMap:
    none = np.empty(0)
    return RidgeMap(centre, scale, none.astype(np.int64), none, np.empty((4, 0, 0)))


def maps(density: Density) -> dict[str, RidgeMap]:
    """The maps from the sampler's variables to the coordinates of a density."""
    logp = density.function()
    mode = find_mode(logp, density.start())
    ridge = find_ridge_map(density, range(len(density.law.shapes)))
    z, _, _ = run_chains(density, ridge, SamplerRun(4 * TUNE, TUNE, chains=4, cores=2, seed=0, target_accept=PILOT_ACCEPT), None)
    return {
        "coordinates": affine(density.start(), np.eye(density.size)),
        "affine": affine(mode, root_of_inverse(curvature(logp, mode))),
        "ridge": ridge,
        "refined": ridge.refined(z.reshape(-1, density.size), len(density.names)),
    }


def row(title: str, draws: dict[str, Any], seconds: float, steps: int, divergent: int) -> dict[str, str]:
    """One line of the report."""
    table = diagnostics({name: draws[name] for name in (*bayeslaw.load_law(LAW).parameters, "sigma_point", "sigma_run")})
    bulk, tail = table["ess_bulk"].min(), table["ess_tail"].min()
    print(title, "done", file=sys.stderr, flush=True)
    return {
        "map, metric, target_accept": title,
        "sampling, s": f"{seconds:.1f}",
        "gradients per draw": f"{steps / draws['E'].size:.0f}",
        "bulk ESS": f"{bulk:.0f}",
        "tail ESS": f"{tail:.0f}",
        "ESS/s": f"{min(bulk, tail) / seconds:.3g}",
        "R-hat": f"{table['r_hat'].max():.3f}",
        "divergent": str(divergent),
    }


def nutpie_rows(title: str, model: Any, read: Any) -> Iterator[dict[str, str]]:
    """One model under both metrics and two acceptance targets; `read` converts a trace to draws (chains, draws)."""
    for metric in ("diag", "low_rank"):
        for target in (0.8, ACCEPT):
            start = time.perf_counter()
            tree = nutpie.sample(
                model, **SETTINGS, cores=2, target_accept=target, adaptation=metric, save_warmup=False, progress_bar=False
            )
            seconds, stats = time.perf_counter() - start, tree["sample_stats"]
            steps, divergent = int(stats["n_steps"].sum()), int(stats["diverging"].sum())
            yield row(f"{title}, {metric}, {target}", read(tree), seconds, steps, divergent)


def mapped_rows(observed: Observations) -> Iterator[dict[str, str]]:
    """bayeslaw's density under its own maps."""
    density = Density.of(bayeslaw.load_law(LAW), observed, Noise.choose("auto", observed))
    for title, ridge_map in maps(density).items():

        def read(tree: Any, ridge_map: RidgeMap = ridge_map) -> dict[str, Any]:
            z = np.ascontiguousarray(tree["posterior"]["z"].values)
            flat = density.draws(ridge_map.x(z.reshape(-1, density.size)))
            return {name: values.reshape(z.shape[:2]) for name, values in flat.items()}

        yield from nutpie_rows(title, nutpie_model(density, ridge_map, 2), read)


def flow_row() -> dict[str, str]:
    """nutpie's flow, in the process and the environment of the peers."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = {"data": str(write_rows("form3", folder)), "out": str(folder / "flow.npz")}
        report = process("pymc_flow", "pymc", FLOW | files | {"problem": "form3"}, folder)
        with np.load(folder / "flow.npz") as arrays:
            draws = {name: arrays[name] for name in arrays.files}
    return row("logs, flow, 0.8", draws, report["sampling_seconds"], report["gradients"], report["divergences"])


def rows() -> Iterator[dict[str, str]]:
    """The lines of the report, one after the other."""
    observed = observations("form3")
    model = nutpie.compile_pymc_model(bayeslaw.pymc_model(bayeslaw.load_law(LAW), observed))
    yield from nutpie_rows("logs", model, lambda tree: {k: v.values for k, v in tree["posterior"].data_vars.items() if v.ndim == 2})
    yield from mapped_rows(observed)
    yield flow_row()


def main() -> None:
    about = (__doc__ or "").split("\n\n", 2)[2]
    print(f"# Form 3, 240 rows, under nutpie's metrics\n\n{banner('samplers')}\n\n{about}")
    for i, line in enumerate(rows()):
        print("\n".join(markdown_table([line]).splitlines()[2 if i else 0 :]), flush=True)


if __name__ == "__main__":
    main()
