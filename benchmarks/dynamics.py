"""Curves of tinycpt: fits of some schedules forecast the others; estimation of an unknown pre-training.

    python benchmarks/dynamics.py        # prints the tables kept in benchmarks/results/dynamics.md

Every adaptation schedule is held out in turn (all adaptations under it), and every pre-training with all adaptations from it. The
law of eq. 4 of Wang et al. 2025 and its variants of eqs. 9 and 10 are fitted to the rest, source and target apart, with noise
`normal-drift`. Pre-training is used from step 400 on (four times its warm-up). Scores on every held-out loss: error of the
posterior mean, R2, and the share of losses in the 90% interval of the next run, without and with a stated discrepancy of 1% and 2%.

Unknown pre-training: `cpt-dynamics-open` is fitted to adaptations from one checkpoint without their S1_pt (its last rate is taken
to be 0, as Wang et al. do). The table shows whether the 90% interval of S1_pt contains the true one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tables import banner, markdown_table

import bayeslaw
from bayeslaw.data.curves import Curves, read_curves
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.areas import OPEN, trace

HERE = Path(__file__).parents[1]
CURVES = HERE / "data" / "tinycpt" / "curves.csv"
DOMAINS = ("source", "target")
SCHEDULES = ("constant", "kept", "wsd", "rewarmed-cosine")
PRETRAININGS = ("constant", "cosine", "wsd")
LAWS = ("cpt-dynamics", "cpt-dynamics-lr-weighted", "cpt-dynamics-power")
BEGIN = 400  # steps of pre-training left out


def rows(curves: Curves, domain: str) -> pd.DataFrame:
    """Losses of one domain without replay and without the first steps of pre-training."""
    frame = curves.runs(domain).frame
    frame = frame[(frame["phase"] == "pretrain") | (frame["r"] == 0)]
    return frame[(frame["S1"] > 0) & ~((frame["phase"] == "pretrain") & (frame["step"] < BEGIN))]


def splits(frame: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """Names of the held-out parts with their rows."""
    for name in SCHEDULES:
        yield f"adaptations under {name}", (frame["phase"] == "adapt") & (frame["schedule"] == name)
    for name in PRETRAININGS:
        yield f"pre-training under {name} and after", frame["run"].str.startswith(name) | (frame["run"] == f"pretrain-{name}")


def score(fit: Fit, test: pd.DataFrame) -> dict[str, Any]:
    """Errors and coverage of forecasts on held-out losses."""
    predicted = bayeslaw.forecast(fit, test, discrepancy="none", force=True)
    table, loss = predicted.summary(), test["loss"].to_numpy()
    wider = bayeslaw.forecast(fit, test, discrepancy="2%", force=True).summary()
    table = table.join(wider.filter(like="discrepancy2%"))
    mean = predicted.expected(slice(None)).mean(axis=1)
    held = {
        spread: ((loss >= table[f"{spread}_eti90_lb"]) & (loss <= table[f"{spread}_eti90_ub"])).mean()
        for spread in ("run", "discrepancy1%", "discrepancy2%")
    }
    width = (table["run_eti90_ub"] - table["run_eti90_lb"]).mean()
    r2 = 1 - ((loss - mean) ** 2).sum() / ((loss - loss.mean()) ** 2).sum()
    return {
        "losses": len(test), "error": f"{np.abs(mean / loss - 1).mean():.2%}", "R2": round(float(r2), 3),
        "in run eti90": f"{held['run']:.0%}", "with 1%": f"{held['discrepancy1%']:.0%}", "with 2%": f"{held['discrepancy2%']:.0%}",
        "width (nats)": round(float(width), 3),
        "checks": "passed" if fit.passed else fit.failures,
    }  # fmt: skip


def held_out(curves: Curves, law: str, domains: Iterable[str] = DOMAINS, **priors: str) -> list[dict[str, Any]]:
    """All splits under one law."""
    results = list[dict[str, Any]]()
    for domain in domains:
        frame = rows(curves, domain)
        for name, out in splits(frame):
            fit = bayeslaw.fit(law, frame[~out], noise="normal-drift", priors=priors, seed=0)
            results.append({"held out": name, "domain": domain, **score(fit, frame[out])})
            print(law, results[-1], file=sys.stderr, flush=True)
    return results


def wider(curves: Curves) -> list[dict[str, Any]]:
    """Means over the splits of the scores on the source's losses, by prior sd of the run effect."""
    rows = list[dict[str, Any]]()
    for sd in (0.003, 0.01, 0.03):
        table = pd.DataFrame(held_out(curves, LAWS[0], ("source",), sigma_run=f"HalfNormal({sd:g})"))
        error, held = (table[c].str.rstrip("%").astype(float).mean() for c in ("error", "in run eti90"))
        rows.append({"prior of sigma_run": f"HalfNormal({sd:g})", "error": f"{error:.1f}%", "in run eti90": f"{held:.0f}%"})
    return rows


def unknown(curves: Curves) -> list[dict[str, Any]]:
    """Forward areas of pre-trainings as estimated by fits without them."""
    results = list[dict[str, Any]]()
    for name in PRETRAININGS:
        for domain in DOMAINS:
            frame = rows(curves, domain)
            frame = frame[(frame["phase"] == "adapt") & (frame["parent"] == f"pretrain-{name}")]
            frame = frame[frame["parent_step"] == frame["parent_step"].max()]
            fit = bayeslaw.fit("cpt-dynamics-open", as_open(curves, frame), noise="normal-drift", seed=0)
            draws, truth = fit.draws["S1_pt"], float(frame["S1_pt"].iloc[0])
            low, high = np.quantile(draws, [0.05, 0.95])
            results.append({
                "pre-training": name, "domain": domain, "S1_pt": round(truth, 2), "median": round(float(np.median(draws)), 2),
                "eti90": f"{low:.2f} to {high:.2f}", "holds": "yes" if low <= truth <= high else "NO",
                "checks": "passed" if fit.passed else fit.failures,
            })  # fmt: skip
            print(results[-1], file=sys.stderr, flush=True)
    return results


def as_open(curves: Curves, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows without their pre-training, as those of a model with an unknown one."""
    parts = []
    for run, group in frame.groupby("run", sort=False):
        steps = group["step"].to_numpy(dtype=np.int64)
        table, _ = trace(curves.schedule(str(run)), steps, OPEN, phase="adapt")
        named = table[["S1_cpt", "S2_cpt", "lr_peak"]].set_index(group.index)
        parts.append(group[["run", "step", "loss"]].join(named))
    return pd.concat(parts)


def main() -> None:
    curves = read_curves(CURVES)
    print("# Losses at any step: tinycpt's curves\n\n" + banner("dynamics") + "\n")
    assert __doc__ is not None
    print(__doc__.split("\n\n", 2)[2].strip() + "\n")
    for law in LAWS:
        print(f"## {law}\n")
        print(markdown_table(held_out(curves, law)) + "\n")
    print("## An unknown pre-training\n")
    print(markdown_table(unknown(curves)) + "\n")
    print(f"## A wider prior of the run effect\n\n{LAWS[0]}, losses on the source, means over the seven splits.\n")
    print(markdown_table(wider(curves)))


if __name__ == "__main__":
    main()
