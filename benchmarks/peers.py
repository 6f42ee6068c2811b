"""bayeslaw compared with hand-written models: whole processes, the same rows, priors and likelihood.

    python benchmarks/peers.py               # runs every peer and prints the report kept in benchmarks/results/peers.md
    python benchmarks/peers.py pymc stan     # runs these and prints the report with the stored results of the others
    python benchmarks/peers.py dynamics      # runs every peer on this problem, and so on
    python benchmarks/peers.py stored        # prints the report from stored results

Environments are made on first use in benchmarks/.peers, where results are stored too; PyStan needs a python3.11.

Every peer draws 4 chains of 1,000 + 1,000 at its sampler's defaults on two cores; bayeslaw as `bayeslaw.fit` does (500 + 1,000).
The direct models of the dynamics law would take hours for that: they have two chains and as many draws as take some minutes
(column `draws`), so their tuning is short and their ESS/s is that of these draws. `build` is the commit of bayeslaw.
Cold: a whole process with empty compile caches; if compilation does not depend on the number of draws, a short process whose
sampling time is replaced by that of the warm one. Warm: a whole process after it. `compile` is the time for tracing, loading or
building in the warm process. `sampling` excludes imports and compilation; bayeslaw's is a second `fit` in one process, with
whitening and checks. ESS is that of the worst parameter of law and noise, and the smaller of bulk and tail where it is divided by
time. Others' cores: how many of the machine's cores other processes used during the warm run; compare times only where this is
similar.

A ratio in brackets is no speed: the peer's chains had not converged (R-hat above {limit:g}), so its ESS is not the number of draws
that it is worth, and nobody knows how long the peer would have needed. Targets count converged peers only. The target
acceptance of bayeslaw was chosen on tables of Form 3; every peer runs at its defaults.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pandas as pd
from processes import STORE, interpreter, process
from sampling import table as form3_table
from tables import ROOT, banner, git, markdown_table

import bayeslaw
from bayeslaw.data.observations import Observations
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.diagnostics import R_HAT, diagnostics
from bayeslaw.schedules.areas import Point, trace
from bayeslaw.schedules.schedule import Schedule, constant, cosine, linear, wsd

PROBLEMS = {"form3": "ptpp-gate-floor", "chinchilla": "chinchilla", "dynamics": "cpt-dynamics"}


class Peer(NamedTuple):
    """A script of benchmarks/peers with its environment (none: this one), its options, and the options of its cold run."""

    title: str
    script: str
    environment: str = ""
    options: Mapping[str, Any] = MappingProxyType({})
    short: Mapping[str, Any] = MappingProxyType({})


FEW, ONE = {"tune": 20, "draws": 20}, {"starts": 1, "bootstraps": 1}
PEERS = {
    "bayeslaw": Peer("bayeslaw", "ours"),
    "pymc": Peer("PyMC direct, PyMC's NUTS", "pymc_direct", "pymc", {"sampler": "pymc"}, FEW),
    "pymc-nutpie": Peer("PyMC direct, nutpie", "pymc_direct", "pymc", short=FEW),
    "pymc-expert": Peer("PyMC expert, nutpie", "pymc_expert", "pymc", short=FEW),
    # JAX compiles for a given number of draws, so the cold run of NumPyro is a whole one.
    "numpyro": Peer("NumPyro direct", "numpyro_direct", "numpyro"),
    "numpyro-expert": Peer("NumPyro expert", "numpyro_expert", "numpyro"),
    "numpyro-dense": Peer("NumPyro expert, dense metric", "numpyro_expert", "numpyro", {"dense": True}),
    "stan": Peer("Stan direct", "stan_direct", "stan", short=FEW),
    "stan-expert": Peer("Stan expert", "stan_expert", "stan", short=FEW),
    "huber": Peer("Huber, 500 starts, 1,000 bootstraps", "huber", "numpyro", short=ONE),
}
DIRECT, EXPERT = ("pymc", "pymc-nutpie", "stan"), ("pymc-expert", "numpyro-expert", "numpyro-dense", "stan-expert")
SHORTER: Mapping[str, Mapping[str, Mapping[str, Any]]] = {  # problems that only some peers run on, and their numbers of draws
    "dynamics": {"bayeslaw": {}} | {name: {"chains": 2, "tune": 250, "draws": 250} for name in DIRECT}
}
TARGETS = (  # targets for bayeslaw's worst ESS/s over the best of some peers: problem, peers, process, least ratio
    ("form3", "PyMC and Stan direct", DIRECT, "sampling", 300),
    ("form3", "experts", EXPERT, "sampling", 10),
    ("form3", "PyMC and Stan direct", DIRECT, "whole, warm", 50),
    ("form3", "experts", EXPERT, "whole, warm", 3),
    ("form3", "PyMC and Stan direct", DIRECT, "whole, cold", 50),
    ("form3", "experts", EXPERT, "whole, cold", 3),
    ("chinchilla", "PyMC and Stan direct", DIRECT, "sampling", 5),
    ("chinchilla", "PyMC and Stan direct", DIRECT, "whole, warm", 5),
    ("dynamics", "PyMC and Stan direct", DIRECT, "sampling", 5),
)
# Between the values of Wang et al. 2025 for the source; the shift is half complete after 60 steps at the peak rate.
DYNAMICS = {"L0": 3.0, "A": 0.5, "alpha": 0.5, "C1": 0.28, "C2": 0.26, "B": 0.26, "E": 100.0, "beta": 0.3}
CURVES, POINTS = 15, 5_000


def chinchilla_table(law: bayeslaw.Law, seed: int) -> pd.DataFrame:
    """240 rows, each a run: 12 N x 20 D/N around Chinchilla's, parameters of Besiroglu et al. 2024, 0.3% noise per point."""
    source = law.published["Besiroglu et al. 2024, bootstrap median and 95% interval"]
    grid = [{"N": n, "D": a * n} for n in np.geomspace(44e6, 16e9, 12) for a in np.geomspace(2, 200, 20)]
    frame = pd.DataFrame(grid)
    truth = {name: np.array([source[name]]) for name in law.parameters}
    expected = law.predict(truth, {c: frame[c].to_numpy() for c in law.covariates})[0]
    return frame.assign(loss=expected * np.exp(0.003 * np.random.default_rng(seed).standard_normal(len(frame))))


def dynamics_table(law: bayeslaw.Law, seed: int) -> pd.DataFrame:
    """5,000 points of 3 pre-trainings and 4 adaptations of each, in equal numbers; 0.1% noise per run and 0.2% per point."""
    steps, later, peak = 40_000, 10_000, 2e-4
    before = [shape(steps, peak, warmup=500) for shape in (constant, cosine, wsd)]
    after = [constant(later, 1e-4), cosine(later, 3e-4, warmup=200), linear(later, 2e-4), wsd(later, 1.5e-4, warmup=100)]
    parts: list[pd.DataFrame] = []

    def add(schedule: Schedule, start: Point | None = None) -> Point:
        number = len(range(len(parts), POINTS, CURVES))  # 333 or 334
        at = np.linspace(0, len(schedule), number + 1).round().astype(np.int64)[1:]
        table, end = trace(schedule, at, start, phase="adapt" if start else "pretrain")
        parts.append(table.assign(run=str(len(parts))))
        return end

    for first in before:
        end = add(first)
        for second in after:
            add(second, end)
    frame, rng = pd.concat(parts, ignore_index=True), np.random.default_rng(seed)
    truth = {name: np.array([value]) for name, value in DYNAMICS.items()}
    expected = law.predict(truth, {c: frame[c].to_numpy() for c in law.covariates})[0]
    run_effect = 0.001 * rng.standard_normal(CURVES)[frame["run"].astype(int)]
    return frame.assign(loss=expected * np.exp(run_effect + 0.002 * rng.standard_normal(len(frame))))


TABLES = {"form3": form3_table, "chinchilla": chinchilla_table, "dynamics": dynamics_table}


def observations(problem: str) -> Observations:
    law = bayeslaw.load_law(PROBLEMS[problem])
    frame = TABLES[problem](law, 0)
    return Observations.of(law, bayeslaw.read_runs(frame))


def write_rows(problem: str, folder: Path) -> Path:
    """Write the rows as every peer reads them."""
    o = observations(problem)
    path = folder / f"{problem}.npz"
    at = {f"at_{name}": np.float64(value) for name, value in o.at.items()}
    arrays: dict[str, Any] = {**o.covariates, "log_loss": o.response, "run": o.run, **at}
    np.savez(path, **arrays)
    return path


def of_peers(problem: str) -> Mapping[str, Mapping[str, Any]]:
    """The peers of a problem, each with its number of draws if that is not the usual one."""
    return SHORTER.get(problem, {name: {} for name in PEERS})


def build() -> str:
    """The commit that is measured."""
    return git(ROOT, "describe", "--always", "--dirty") or "unknown"


def measure(name: str, problem: str) -> None:
    """Run a peer cold and warm and store the results."""
    peer, out = PEERS[name], STORE / "results" / f"{problem}-{name}"
    interpreter(peer.environment)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        options: dict[str, Any] = {"problem": problem, "data": str(write_rows(problem, folder)), "out": f"{out}.npz"}
        options |= {"tune": 1000, "draws": 1000, "chains": 4, "seed": 1, **peer.options, **of_peers(problem)[name]}

        def run(**changes: Any) -> dict[str, Any]:
            return process(peer.script, peer.environment, {**options, **changes}, folder)

        cold, warm = run(seed=2, **peer.short), run()
        if peer.short:
            cold["wall"] += warm["sampling_seconds"] - cold["sampling_seconds"]
        if name == "bayeslaw":  # within a process that has fitted before
            warm["sampling_seconds"] = run(fits=2)["sampling_seconds"]
            warm["compile_seconds"] = warm["wall"] - warm["import_seconds"] - warm["sampling_seconds"]
    about = {"date": str(date.today()), "build": build(), "tune": 500 if name == "bayeslaw" else options["tune"]}
    Path(f"{out}.json").write_text(json.dumps({"cold": cold, "warm": warm, **about}, indent=1))
    print(f"{problem}: {name} done", file=sys.stderr, flush=True)


def stored(problem: str, name: str) -> dict[str, Any] | None:
    """The stored results of a peer with its draws (chains, draws); None if it has not run."""
    path = STORE / "results" / f"{problem}-{name}.json"
    if not path.exists():
        return None
    with np.load(path.with_suffix(".npz")) as arrays:
        return {**json.loads(path.read_text()), "draws": {key: arrays[key] for key in arrays.files}}


def worst(run: dict[str, Any], names: list[str]) -> dict[str, float]:
    """Worst diagnostics over the parameters of law and noise."""
    table = diagnostics({name: run["draws"][name] for name in names})
    return {"bulk": table["ess_bulk"].min(), "tail": table["ess_tail"].min(), "r_hat": table["r_hat"].max()}


def log_density_spread(law: bayeslaw.Law, observed: Observations, draws: dict[str, Any]) -> float:
    """Range of the difference of a peer's log density and `bayeslaw.pymc_model`'s over 40 draws: rounding, if the models agree."""
    model = bayeslaw.pymc_model(law, observed)
    logp = model.compile_logp()
    size = draws["log_density"].size
    flat = {k: np.asarray(v).reshape(-1)[:: max(1, size // 40)] for k, v in draws.items()}
    values = {k: flat[k] for k in law.parameters}
    flat |= {f"{name}_level": level for name, level in law.stated_at(values, observed.at).items()}
    if "dof" in flat:
        flat["dof_above_2"] = flat["dof"] - 2
    constrained = {rv.name: flat[rv.name] for rv in model.free_RVs}
    unconstrained = {
        model.rvs_to_values[rv].name: np.log(v) - np.log1p(-v) if rv.name == "lam" else v if rv.name == "zeta" else np.log(v)
        for rv, v in zip(model.free_RVs, constrained.values(), strict=True)
    }
    ours = [float(logp({k: v[i] for k, v in unconstrained.items()})) for i in range(len(flat["log_density"]))]
    return float(np.ptp(flat["log_density"] - np.array(ours)))


def furthest(run: dict[str, Any], ours: dict[str, Any], names: list[str], real: list[str]) -> tuple[str, float]:
    """The parameter whose posterior mean (of its log if positive) differs most from bayeslaw's, in Monte Carlo errors."""
    off = {}
    for name in names:
        pair = [of["draws"][name] if name in real else np.log(of["draws"][name]) for of in (run, ours)]
        errors = [float(az.mcse(values, method="mean")) for values in pair]
        off[name] = (pair[0].mean() - pair[1].mean()) / np.hypot(errors[0], errors[1])
    name = max(off, key=lambda k: abs(off[k]))
    return name, float(off[name])


def speeds(run: dict[str, Any], diagnostics: dict[str, float]) -> dict[str, float]:
    """The worst ESS per second of sampling, of the warm process and of the cold one."""
    seconds = {"sampling": run["warm"]["sampling_seconds"], "whole, warm": run["warm"]["wall"], "whole, cold": run["cold"]["wall"]}
    return {name: min(diagnostics["bulk"], diagnostics["tail"]) / value for name, value in seconds.items()}


def cost(run: dict[str, Any], diagnostics: dict[str, float] | None) -> dict[str, str]:
    """The cost of a peer and, if it has a posterior, its diagnostics."""
    cold, warm = run["cold"], run["warm"]
    row = {"wall cold, s": f"{cold['wall']:.1f}", "wall warm, s": f"{warm['wall']:.1f}"}
    row |= {f"{k}, s": f"{warm[f'{k}_seconds']:.1f}" for k in ("import", "compile", "sampling")}
    row |= {"processor warm, s": f"{warm['processor']:.1f}" if "processor" in warm else ""}
    row |= {"peak MiB": f"{warm['peak']:.0f}", "others' cores": f"{warm['others']:.1f}" if "others" in warm else ""}
    if diagnostics is None:
        return row | {"gradients": f"{warm['gradients']:,} in all"}
    (chains, draws), tuning, per = run["draws"]["E"].shape, warm["tuning_gradients"], speeds(run, diagnostics)
    count = chains * draws
    return row | {
        "draws": f"{chains} x ({run['tune']:,} + {draws:,})" if "tune" in run else "",
        "gradients": f"{warm['gradients'] / count:.0f} a draw" + ("" if tuning is None else f", {tuning / count:.0f} tuning"),
        "bulk ESS": f"{diagnostics['bulk']:.0f}",
        "tail ESS": f"{diagnostics['tail']:.0f}",
        "ESS/s sampling": f"{per['sampling']:.3g}",
        "ESS/s warm": f"{per['whole, warm']:.3g}",
        "R-hat": f"{diagnostics['r_hat']:.3f}",
        "divergent": str(warm["divergences"]),
    }


def report(problem: str) -> tuple[str, dict[str, dict[str, float]]]:
    """Two tables of a problem (the cost of each peer, and bayeslaw's comparison with each), and ratios by converged peer."""
    law, observed = bayeslaw.load_law(PROBLEMS[problem]), observations(problem)
    runs = {name: run for name in PEERS if (run := stored(problem, name))}
    if not runs:
        return "Nothing was run.", {}
    names = [*law.parameters, *Noise.choose("auto", observed).parameters]
    real = [name for name in law.parameters if law.parameters[name].prior.support == "real"]
    found = {name: worst(run, names) for name, run in runs.items() if name != "huber"}
    costs = [{"": PEERS[name].title} | cost(run, found.get(name)) for name, run in runs.items()]
    costs = [{key: value for key, value in row.items() if key != "draws" or problem in SHORTER} for row in costs]
    keys = list(dict.fromkeys(key for row in costs for key in row))
    tables, ratios, compared = [markdown_table([{key: row.get(key, "") for key in keys} for row in costs])], {}, []
    for name in [name for name in found if "bayeslaw" in found and name != "bayeslaw"]:
        theirs, ours = speeds(runs[name], found[name]), speeds(runs["bayeslaw"], found["bayeslaw"])
        ratio, converged = {key: ours[key] / theirs[key] for key in ours}, found[name]["r_hat"] <= R_HAT
        if converged:
            ratios[name] = ratio
        explicit = problem != "chinchilla" and name not in EXPERT
        spread = "run effects explicit" if explicit else f"{log_density_spread(law, observed, runs[name]['draws']):.1e}"
        parameter, off = furthest(runs[name], runs["bayeslaw"], names, real)
        row = {"bayeslaw over": PEERS[name].title, **{key: f"{v:.3g}" if converged else f"({v:.3g})" for key, v in ratio.items()}}
        row["R-hat"] = f"{found[name]['r_hat']:.3f}"
        compared.append(row | {"log density differs by": spread, "furthest mean": f"{parameter}, {off:+.1f} s.e."})
    if missing := [PEERS[name].title for name in of_peers(problem) if name not in runs]:
        tables.append(f"Not run: {', '.join(missing)}.")
    return "\n\n".join([*tables, *([markdown_table(compared)] if compared else [])]), ratios


def builds(problem: str) -> str:
    """The build of bayeslaw and the dates of the results of a problem."""
    runs = {name: run for name in of_peers(problem) if (run := stored(problem, name))}
    days = ", ".join(sorted({run["date"] for run in runs.values()}))
    return f"Measured {days}; bayeslaw of build {runs.get('bayeslaw', {}).get('build', 'not kept')}."


def verdicts(ratios: dict[str, dict[str, dict[str, float]]]) -> str:
    """Each target with the measured ratio to the best of its peers."""
    rows = []
    for problem, which, peers, of, least in TARGETS:
        known = [ratios[problem][name][of] for name in peers if name in ratios[problem]]
        verdict = "no peer converged" if not known else "yes" if min(known) >= least else "no"
        if verdict == "yes" and len(known) < len(peers):
            verdict = f"so far, {len(peers) - len(known)} not run or not converged"
        row = {"problem": problem, "over the best of": which, "ESS/s of": of, "target": str(least)}
        rows.append(row | {"measured": f"{min(known):.3g}" if known else "", "reached": verdict})
    return markdown_table(rows)


def main() -> None:
    given = set(sys.argv[1:])
    if unknown := given - {*PEERS, *PROBLEMS, "stored"}:
        raise SystemExit(f"no peer or problem {', '.join(sorted(unknown))}; there are {', '.join([*PEERS, *PROBLEMS])}")
    (STORE / "results").mkdir(parents=True, exist_ok=True)
    for problem in [] if "stored" in given else [p for p in PROBLEMS if p in given] or PROBLEMS:
        for name in [n for n in PEERS if n in given] or PEERS:
            if name in of_peers(problem):
                measure(name, problem)
    about = (__doc__ or "").split("\n\n", 3)[3].format(limit=R_HAT)
    print(f"# bayeslaw compared with hand-written models\n\n{banner('peers')}\n\n{about}")
    ratios = {}
    for problem, law in PROBLEMS.items():
        text, ratios[problem] = report(problem)
        print(f"## {law}, {len(observations(problem).response)} rows\n\n{builds(problem)}\n\n{text}\n", flush=True)
    print(f"## Targets\n\n{verdicts(ratios)}")


if __name__ == "__main__":
    main()
