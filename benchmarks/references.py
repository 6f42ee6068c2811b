"""Reference posteriors: long runs of independently written models, stored as summaries for the tests.

    python benchmarks/references.py                # makes missing runs and writes tests/references/*.json
    python benchmarks/references.py form3          # one of chinchilla, form3 and cpt-joint

Nothing here uses a card, the graph or `bayeslaw.engine.coordinates`: `benchmarks/peers/reference_models.py` writes laws, priors and
likelihood in JAX with its own coordinates. The sampler is NumPyro's NUTS with a dense metric at a target acceptance of .99. A run
consists of blocks with their own chains, starts and tuning, so that blocks check each other and a stopped run can be continued
(benchmarks/.references). It ends when, over all blocks, R-hat is at most 1.01, bulk and tail ESS are at least 10,000 for every
parameter, and at most one draw of 10,000 diverges.

Summaries are of logs, of the logit of lam, and of gamma and zeta themselves, which may be negative.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import sys
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from peers import chinchilla_table
from sampling import TRUTHS, settings, simulate

import bayeslaw
from bayeslaw.core.files import write_text
from bayeslaw.data.observations import Observations
from bayeslaw.posterior.diagnostics import diagnostics

sys.path.insert(0, str(Path(__file__).parent / "peers"))

HERE = Path(__file__).parent
STORE, KEPT = HERE / ".references", HERE.parent / "tests" / "references"
LAWS = {"chinchilla": "chinchilla", "form3": "ptpp-gate-floor", "cpt-joint": "cpt-joint"}
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
R_HAT, ESS, DIVERGENT = 1.01, 10_000, 1e-4
MOST_BLOCKS = 40
SETTINGS: dict[str, Any] = {"chains": 8, "tune": 1000, "draws": 2500, "target_accept": 0.99, "dense_mass": True}
Draws = dict[str, NDArray[np.float64]]


def twin(name: str) -> tuple[bayeslaw.Law, pd.DataFrame]:
    """The law of a problem and its simulated table of 240 rows, the same on every machine."""
    law = bayeslaw.load_law(LAWS[name])
    return law, chinchilla_table(law, 0) if name == "chinchilla" else simulate(law, TRUTHS[law.name], settings(law), 0)


def problem(name: str) -> tuple[dict[str, Any], dict[str, float]]:
    """Rows, sorted by run, and the reference point of a data set."""
    law, frame = twin(name)
    o = Observations.of(law, bayeslaw.read_runs(frame))
    return {**o.covariates, "log_loss": o.response, "run": o.run}, o.at


def block(name: str, number: int) -> Draws:
    """Draws (chains, draws) of one block, with `diverging`, `num_steps` and `seconds`."""
    import jax
    import numpyro
    from numpyro.infer import MCMC, NUTS
    from reference_models import MODELS

    numpyro.enable_x64()
    rows, at = problem(name)
    model = MODELS[name](rows, at)
    start = time.perf_counter()
    rng = np.random.default_rng([number, list(LAWS).index(name)])
    starts = np.array([model.start(rng) for _ in range(SETTINGS["chains"])])
    sampler = MCMC(
        NUTS(potential_fn=model.potential, dense_mass=SETTINGS["dense_mass"], target_accept_prob=SETTINGS["target_accept"]),
        num_warmup=SETTINGS["tune"],
        num_samples=SETTINGS["draws"],
        num_chains=SETTINGS["chains"],
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.key(number), init_params=jax.numpy.asarray(starts), extra_fields=("diverging", "num_steps"))
    coordinates = sampler.get_samples(group_by_chain=True)
    draws = {k: np.asarray(v) for k, v in jax.vmap(jax.vmap(model.parameters))(coordinates).items()}
    extra = {k: np.asarray(v) for k, v in sampler.get_extra_fields(group_by_chain=True).items()}
    draws = {k: v for k, v in draws.items() if k not in model.inner}
    return draws | extra | {"seconds": np.array(time.perf_counter() - start)}


def stored(name: str) -> list[Draws]:
    """Blocks stored so far with these settings."""
    blocks = []
    for path in sorted(STORE.glob(f"{name}-{settings_key()}-*.npz")):
        with np.load(path) as arrays:
            blocks.append({k: arrays[k] for k in arrays.files})
    return blocks


def settings_key() -> str:
    """Digest of the models and the settings, so that blocks of others are not mixed in."""
    text = json.dumps(SETTINGS) + (HERE / "peers" / "reference_models.py").read_text()
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def extend(name: str) -> None:
    """Make one more block and store it, under a temporary name first."""
    STORE.mkdir(exist_ok=True)
    path = STORE / f"{name}-{settings_key()}-{len(stored(name)):03d}.npz"
    temporary = path.with_name(f".{path.name}.{os.getpid()}.npz")
    arrays: dict[str, Any] = block(name, len(stored(name)))
    np.savez(temporary, **arrays)
    temporary.replace(path)


def joined(blocks: list[Draws]) -> tuple[Draws, int]:
    """Parameters of all blocks, arrays (all chains, draws), and the number of divergences."""
    keys = [k for k in blocks[0] if k not in ("diverging", "num_steps", "seconds")]
    return {k: np.concatenate([b[k] for b in blocks]) for k in keys}, sum(int(b["diverging"].sum()) for b in blocks)


def faults(draws: Draws, divergent: int) -> list[str]:
    """Criteria of a reference that a run does not meet yet."""
    table, size = diagnostics(draws), next(iter(draws.values())).size
    unmet = [] if table["r_hat"].max() <= R_HAT else [f"R-hat {table['r_hat'].max():.4f}"]
    for kind in ("ess_bulk", "ess_tail"):
        if table[kind].min() < ESS:
            unmet.append(f"{kind} {table[kind].min():.0f} ({table[kind].idxmin()})")
    return unmet + ([f"{divergent} divergences of {size}"] if divergent > DIVERGENT * size else [])


def summary(draws: Draws) -> dict[str, Any]:
    """Means, sds and quantiles with their Monte Carlo errors, and correlations, of parameters in the order of their names."""
    names = sorted(draws)
    table = diagnostics(draws)
    parameters = {}
    for name in names:
        v = draws[name]
        numbers: dict[str, Any] = {"mean": v.mean(), "mean_error": az.mcse(v, method="mean")}
        numbers |= {"sd": v.std(ddof=1), "sd_error": az.mcse(v, method="sd")}
        for q in QUANTILES:
            numbers |= {f"q{100 * q:g}": np.quantile(v, q), f"q{100 * q:g}_error": az.mcse(v, method="quantile", prob=q)}
        numbers |= {"ess": table.loc[name, ["ess_bulk", "ess_tail"]].min(), "r_hat": table.loc[name, "r_hat"]}
        parameters[name] = {k: float(f"{float(x):.{3 if 'error' in k else 6}g}") for k, x in numbers.items()}
    matrix = np.atleast_2d(np.corrcoef(np.stack([draws[name].ravel() for name in names]))).tolist()
    correlations = {name: [round(c, 4) for c in matrix[i][:i]] for i, name in enumerate(names)}
    return {"parameters": parameters, "correlations": correlations}


def data_marks(name: str) -> dict[str, float]:
    """Sums by which another machine can check that it makes the same table."""
    log_loss = problem(name)[0]["log_loss"]
    marks = {"mean_log_loss": log_loss.mean(), "sd_log_loss": log_loss.std()}
    return {"rows": log_loss.size} | {k: round(float(v), 10) for k, v in marks.items()}


def write(name: str, blocks: list[Draws]) -> None:
    """Write the summary of a finished run, one line per parameter, under a temporary name first."""
    draws, divergent = joined(blocks)
    packages = ("numpyro", "jax", "arviz", "numpy")
    head = {
        "problem": name,
        "law": LAWS[name],
        "command": f"python benchmarks/references.py {name}",
        "date": str(date.today()),
        "versions": {p: version(p) for p in packages} | {"python": platform.python_version()},
        "settings": SETTINGS,
        "seeds": f"0 to {len(blocks) - 1}, one a block",
        "draws": next(iter(draws.values())).size,
        "divergent": divergent,
        "scale": "logs; the logit of lam; gamma of cpt-joint and zeta as they are",
        "data": data_marks(name),
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    entries = summary(draws)
    for key, last in (("parameters", ","), ("correlations", "")):
        inner = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in entries[key].items())
        lines.append(f"  {json.dumps(key)}: {{\n{inner}\n  }}{last}")
    write_text(KEPT / f"{name}.json", "{\n" + "\n".join(lines) + "\n}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Make reference posteriors.")
    parser.add_argument("problems", nargs="*", default=list(LAWS), metavar="problem", help=", ".join(LAWS))
    for name in parser.parse_args().problems:
        while not (blocks := stored(name)) or (missing := faults(*joined(blocks))):
            if len(blocks) >= MOST_BLOCKS:
                raise SystemExit(f"{name}: after {len(blocks)} blocks still {', '.join(missing)}")
            print(f"{name}: {len(blocks)} blocks; {', '.join(missing) if blocks else 'begins'}", flush=True)
            extend(name)
        seconds = sum(float(b["seconds"]) for b in blocks)
        steps = np.mean([b["num_steps"].mean() for b in blocks])
        write(name, blocks)
        print(f"{name}: written after {len(blocks)} blocks, {seconds:.0f} s, {steps:.0f} gradients per draw", flush=True)


if __name__ == "__main__":
    main()
