"""A million logged points of Form 3: the cost of a gradient compared with the bare formula, and a fit of binned curves.

    python benchmarks/bigdata.py         # prints the report kept in benchmarks/results/bigdata.md

Points: 100 runs of 10,000 points each (curves), and 1,000 runs whose points all have different settings (scattered). A gradient
is the log density with all its derivatives. The bare formula computes expected log losses without derivatives: in NumPy on whole
arrays, and fused, one compiled loop over the rows with C's functions; all on one core.
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numba import njit
from numpy.typing import NDArray
from sampling import TRUTHS, simulate
from tables import banner, markdown_table

import bayeslaw
from bayeslaw.data.observations import Observations
from bayeslaw.engine.density import Density
from bayeslaw.laws.law import Law
from bayeslaw.noise.noise import Noise

POINTS = 1_000_000
FORM_3 = TRUTHS["ptpp-gate-floor"]
WIDTH = 0.02


def curves(law: Law) -> pd.DataFrame:
    """4 N x 5 r x 5 PTPP, 10,000 evenly spaced points each."""
    steps = np.arange(1, POINTS // 100 + 1) * (100 / POINTS)
    parts = [
        pd.DataFrame({"N": n, "D": 20 * n * steps, "r": r, "ptpp": p, "run": f"{n:g}-{r}-{p}"})
        for n in (241e6, 517e6, 1.4e9, 8.1e9)
        for r in (0.05, 0.1, 0.2, 0.3, 0.5)
        for p in (15.0, 22.0, 31.0, 44.0, 62.0)
    ]
    return simulate(law, FORM_3, pd.concat(parts, ignore_index=True), 0)


def scattered(law: Law) -> pd.DataFrame:
    """Settings drawn uniformly in logarithms (r: uniformly)."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"N": np.exp(rng.uniform(19, 23, POINTS)), "D": np.exp(rng.uniform(20, 26, POINTS))})
    frame = frame.assign(r=rng.uniform(0.05, 0.5, POINTS), ptpp=np.exp(rng.uniform(2.7, 5, POINTS)))
    return simulate(law, FORM_3, frame.assign(run=np.sort(rng.integers(0, 1000, POINTS))), 0)


def observations(law: Law, frame: pd.DataFrame) -> Observations:
    """The rows as a law uses them. Here N and PTPP of a run may differ from row to row, which tables may not."""
    stable = frame.assign(**{c: frame.groupby("run")[c].transform("first") for c in ("N", "ptpp")})
    observed = Observations.of(law, bayeslaw.read_runs(stable))
    rows = frame.iloc[observed.rows - 1]
    return replace(observed, covariates={c: rows[c].to_numpy() for c in law.covariates})


@njit
def fused(N: Any, D: Any, r: Any, ptpp: Any, p: Any, out: Any) -> None:
    """Form 3, row by row in one loop."""
    E, A, alpha, B, beta, nu, C, gamma, F, eta, lam, zeta = p
    for i in range(N.size):
        share, power = min(max(r[i], 1e-9), 1 - 1e-9), ptpp[i] ** zeta
        exponent = max(beta * (1 - lam * power / (1 + power)), 1e-6)
        terms = A / N[i] ** alpha + B * share**nu / D[i] ** exponent + C / (share + 1e-5) ** gamma + F / ptpp[i] ** eta
        out[i] = math.log(E + terms)


def best(call: Callable[[], Any]) -> float:
    """Least seconds of nine calls after a first one."""
    call()
    seconds = []
    for _ in range(9):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def peak() -> float:
    """Peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def row(kind: str, law: Law, observed: Observations) -> dict[str, str]:
    start = time.perf_counter()
    density = Density.of(law, observed, Noise(student=False, run_effect=True))
    built = time.perf_counter() - start
    logp, x = density.function(), density.start()
    gradient = best(lambda: logp(x))
    scope: dict[str, Any] = FORM_3 | observed.covariates
    numpy = best(lambda: np.log(law.evaluate(scope)))
    out: NDArray[np.float64] = np.empty(POINTS)
    columns = [observed.covariates[c] for c in ("N", "D", "r", "ptpp")]
    parameters = np.array([FORM_3[k] for k in ("E", "A", "alpha", "B", "beta", "nu", "C", "gamma", "F", "eta", "lam", "zeta")])
    alone = best(lambda: fused(*columns, parameters, out))
    np.testing.assert_allclose(out, np.log(law.evaluate(scope)), rtol=1e-10)
    times = {"one gradient": gradient, "formula, NumPy": numpy, "formula, fused": alone}
    row = {"points": kind, "density built, s": f"{built:.1f}"} | {f"{k}, ms": f"{1e3 * v:.0f}" for k, v in times.items()}
    return row | {"over NumPy": f"{gradient / numpy:.2f}", "over fused": f"{gradient / alone:.2f}", "peak MiB": f"{peak():.0f}"}


def binned(law: Law, frame: pd.DataFrame) -> str:
    """Fit the curves in bins and describe the fit."""
    start = time.perf_counter()
    runs = bayeslaw.read_runs(frame)
    read = time.perf_counter() - start
    fit = bayeslaw.fit(law, runs, bins=WIDTH, progress=False)
    seconds = time.perf_counter() - start - read
    check = next(c for c in fit.checks if c.name == "bins")
    inside = sum(np.quantile(fit.draws[k], 0.025) <= v <= np.quantile(fit.draws[k], 0.975) for k, v in FORM_3.items())
    return (
        f"`bayeslaw.fit(..., bins={WIDTH})` on the curves: {seconds:.0f} s, and {read:.0f} s to read and check the table; peak "
        f"{peak():.0f} MiB. {check.text}. Checks {'passed' if fit.passed else 'FAILED'}; {inside} of {len(FORM_3)} true values in "
        "95% intervals."
    )


def main() -> None:
    law = bayeslaw.load_law("ptpp-gate-floor")
    tables = {"curves": curves(law), "scattered": scattered(law)}
    rows = [row(kind, law, observations(law, frame)) for kind, frame in tables.items()]
    about = (__doc__ or "").split("\n\n", 2)[2]
    print(f"# A million logged points\n\n{banner('bigdata')}\n\n{about}\n{markdown_table(rows)}\n", flush=True)
    print(binned(law, tables["curves"]))


if __name__ == "__main__":
    main()
