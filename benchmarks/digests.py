"""Digests of five fits and of decisions made from them, which show whether a change of the code changed a number.

    python benchmarks/digests.py [FILE.json]        # prints one line per quantity; takes a minute
    python benchmarks/digests.py FILE.json --check  # compares with the digests in FILE.json and fails if one differs

A digest is that of the bytes of the numbers, so digests are comparable only on one machine with one set of versions. Public losses
are read from the folder named by BAYESLAW_SHARED_DATA (by default ../shared/data).
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tables import ROOT, SHARED

import bayeslaw

TARGET = "domain == 'target' and seed == 0 and r > 0 and r < 1 and ptpp <= 31"
SOURCE = TARGET.replace("target", "source")


def of_array(values: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, dtype=np.float64).tobytes()).hexdigest()[:16]


def of_table(table: pd.DataFrame) -> str:
    """The digest of a table's numbers, to the last bit; text columns are left out because wording may change."""
    return of_array(table.select_dtypes("number").to_numpy(dtype=np.float64))


def two_curves() -> pd.DataFrame:
    """Simulated losses from scratch and after pre-training, which `cpt-joint` fits together."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        [(n, d, c) for n in (1e7, 1e8, 1e9) for d in np.geomspace(1e8, 1e11, 8) for c in (0, 1)], columns=["N", "D", "cpt"]
    )
    data = np.where(frame["cpt"] == 1, 600 / (frame["D"] ** 0.2 * frame["N"] ** 0.08), 900 / frame["D"] ** 0.3)
    loss = (1.7 + 400 / frame["N"] ** 0.34 + data) * np.exp(0.004 * rng.standard_normal(len(frame)))
    return frame.assign(loss=loss, run=[f"{n:g}-{c}" for n, c in zip(frame["N"], frame["cpt"], strict=True)])


def digests() -> dict[str, str]:
    """All digests by name of the quantity."""
    digests_by_name: dict[str, str] = {}
    tiny = ROOT / "data/tinycpt/runs.csv"
    chinchilla = pd.read_csv(SHARED / "chinchilla.csv").query("excluded_by_epoch == 0")[["N", "D", "loss"]]
    curves = pd.read_csv(SHARED / "lr_schedules_100m.csv")
    curves = curves[curves["schedule"].isin(["cosine_24000", "constant_24000", "wsdcon_9"])].rename(columns={"schedule": "run"})
    areas = bayeslaw.data.read_curves(curves[["run", "step", "lr", "loss"]], warmup=2160).frame
    seen = bayeslaw.read_runs(tiny).where(TARGET)
    of_source = bayeslaw.read_runs(tiny).where(SOURCE)
    tables: dict[str, tuple[Any, dict[str, Any]]] = {
        "chinchilla": (chinchilla, {}),
        "ptpp-gate-floor": (seen, {}),
        "transfer-target": (seen, {}),
        "cpt-joint": (two_curves(), {}),
        "annealing": (areas[areas["step"] % 8 == 0], {"noise": "normal-drift"}),
    }
    fits: dict[str, Any] = {}
    for law, (runs, options) in tables.items():
        fit = fits[law] = bayeslaw.fit(law, runs, seed=1, draws=500, tune=500, progress=False, **options)
        digests_by_name[f"{law}: draws"] = str(fit.info["draws_sha256"])[:16]
        frame = runs if isinstance(runs, pd.DataFrame) else runs.frame
        places = bayeslaw.read_runs(frame[[*fit.law.covariates]].drop_duplicates().head(40), strict=False)
        forecast = bayeslaw.forecast(fit, places, seed=2, force=True)
        digests_by_name[f"{law}: forecast"] = of_array([forecast.draws[spread].values for spread in ("latent", "run")])
    source = bayeslaw.fit("transfer-source", of_source, seed=1, draws=500, tune=500, progress=False)
    plan = bayeslaw.plan(
        source, fits["transfer-target"], {"N": 110592, "ptpp": 31}, on="latent", max_forgetting="8%", max_loss=1.8,
        base_loss="law", force=True,
    )  # fmt: skip
    digests_by_name["plan"] = of_table(plan.frontier)
    sizes = [13824.0, 57600.0, 110592.0]
    candidates = pd.DataFrame(
        [(n, 31.0, r, k * n) for n in sizes for r in (0.1, 0.25) for k in (2.0, 5.0)], columns=["N", "ptpp", "r", "D"]
    )
    candidates["run"] = [f"{n:g}-{r:g}" for n, r in zip(candidates["N"], candidates["r"], strict=True)]
    wanted = pd.DataFrame({"N": [110592.0], "ptpp": [279.0], "r": [0.25], "D": [2e6]})
    bought = bayeslaw.anchors(fits["transfer-target"], candidates, wanted, budget=2e13, seed=3, force=True)
    digests_by_name["anchors"] = of_table(bought.picks)
    compared = bayeslaw.compare(
        chinchilla, ["chinchilla", "kaplan"], loo=True, seed=4, options={"draws": 300, "tune": 300}, progress=False
    )
    digests_by_name["compare"] = of_table(compared.weights)
    return digests_by_name


def main(arguments: list[str]) -> int:
    now = digests()
    for name, digest in now.items():
        print(f"{name:28} {digest}")
    if "--check" in arguments:
        expected = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        different = [name for name in expected if expected[name] != now.get(name)]
        print(f"different: {', '.join(different)}" if different else f"all {len(expected)} digests are equal")
        return 1 if different or set(expected) != set(now) else 0
    if arguments:
        Path(arguments[0]).write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
