"""Curves of tinycpt: fits of some schedules forecast the others; estimation of an unknown pre-training.

    python benchmarks/dynamics.py        # prints the tables kept in benchmarks/results/dynamics.md

Every adaptation schedule is held out in turn (all adaptations under it), and every pre-training with all adaptations from it. The
law of eq. 4 of Wang et al. 2025 and its variants of eqs. 9 and 10 are fitted to the rest, source and target apart. Pre-training is
used from step 400 on (four times its warm-up). A measured loss counts once: pre-trainings under constant and wsd share most of
theirs, and adaptations begin with their parent's, so that losses in the fit would be scored as held out. Scores on every held-out
loss: error of the posterior mean, R2, and the share of losses in the 90% interval of the next run by the law taken for exact
(`run`), with a stated discrepancy of 1% and 2%, and as reported (`extrapolated`, which has the distance of the fitted runs from the
law), with widths and CRPS.

Chosen on which rows: that the distance is of the products of neighbouring residuals, with these curves and those of `schedules.md`
in view; no number.

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
from bayeslaw.evaluation.scores import crps
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.areas import OPEN, trace

HERE = Path(__file__).parents[1]
CURVES = HERE / "data" / "tinycpt" / "curves.csv"
DOMAINS = ("source", "target")
SCHEDULES = ("constant", "kept", "wsd", "rewarmed-cosine")
PRETRAININGS = ("constant", "cosine", "wsd")
LAWS = ("cpt-dynamics", "cpt-dynamics-lr-weighted", "cpt-dynamics-power")
NOISES = ("normal", "normal-drift")  # normal is the noise by default
SIMULATED = 5
AREAS = ("S1_pt", "S1_cpt", "S2_pt", "S2_cpt")
BEGIN = 400  # steps of pre-training left out


def rows(curves: Curves, domain: str) -> pd.DataFrame:
    """Losses of one domain without replay, without the first steps of pre-training and without repeated ones."""
    frame = curves.runs(domain).frame
    frame = frame[(frame["phase"] == "pretrain") | (frame["r"] == 0)]
    frame = frame[(frame["S1"] > 0) & ~((frame["phase"] == "pretrain") & (frame["step"] < BEGIN))]
    return frame.sort_values("phase", ascending=False, kind="stable").drop_duplicates([*AREAS, "loss"])


def splits(frame: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """Names of the held-out parts with their rows."""
    for name in SCHEDULES:
        yield f"adaptations under {name}", (frame["phase"] == "adapt") & (frame["schedule"] == name)
    for name in PRETRAININGS:
        yield f"pre-training under {name} and after", frame["run"].str.startswith(name) | (frame["run"] == f"pretrain-{name}")


def score(fit: Fit, test: pd.DataFrame) -> dict[str, Any]:
    """Errors and coverage of forecasts on held-out losses."""
    predicted = bayeslaw.forecast(fit, test, force=True)
    table, loss = predicted.summary(), test["loss"].to_numpy()
    wider = bayeslaw.forecast(fit, test, discrepancy="none", force=True).summary().filter(like="discrepancy")
    wider = wider.join(bayeslaw.forecast(fit, test, discrepancy="2%", force=True).summary().filter(like="discrepancy2%"))
    mean = predicted.draws["latent"].values.mean(axis=0)
    ends = {
        "run": _ends(table, ["run"] * len(table)), "1%": _ends(wider, ["discrepancy1%"] * len(table)),
        "2%": _ends(wider, ["discrepancy2%"] * len(table)), "reported": _ends(table, predicted.headlines),
    }  # fmt: skip
    held = {name: f"{((low <= loss) & (loss <= high)).mean():.0%}" for name, (low, high) in ends.items()}
    width = {name: round(float((high - low).mean()), 3) for name, (low, high) in ends.items()}
    r2 = 1 - ((loss - mean) ** 2).sum() / ((loss - loss.mean()) ** 2).sum()
    low, high = np.quantile(predicted.predictive, [0.25, 0.75], axis=0)
    return {
        "losses": len(test), "error": f"{np.abs(mean / loss - 1).mean():.2%}", "R2": round(float(r2), 3),
        "in run eti90": held["run"], "width (nats)": width["run"], "CRPS": f"{_crps(predicted.draws['run'].values, loss):.2%}",
        "with 1%": held["1%"], "with 2%": held["2%"],
        "as reported": held["reported"], "in 50%": f"{((low <= loss) & (loss <= high)).mean():.0%}",
        "width then": width["reported"], "CRPS then": f"{_crps(predicted.predictive, loss):.2%}",
        "checks": "passed" if fit.passed else fit.failures,
    }  # fmt: skip


def _ends(table: pd.DataFrame, spreads: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Ends of 90% intervals, each row's by its spread."""
    low, high = (np.array([table[f"{spread}_eti90_{end}"].iloc[i] for i, spread in enumerate(spreads)]) for end in ("lb", "ub"))
    return low, high


def _crps(draws: np.ndarray, loss: np.ndarray) -> float:
    """Mean CRPS of draws (S, n), over the losses."""
    return float(np.mean(crps(loss, draws) / loss))


def held_out(curves: Curves, law: str, noise: str, domains: Iterable[str] = DOMAINS, **priors: str) -> list[dict[str, Any]]:
    """All splits under one law."""
    results = list[dict[str, Any]]()
    for domain in domains:
        frame = rows(curves, domain)
        for name, out in splits(frame):
            fit = bayeslaw.fit(law, frame[~out], noise=noise, priors=priors, seed=0)
            results.append({"held out": name, "domain": domain, **score(fit, frame[out])})
            print(law, results[-1], file=sys.stderr, flush=True)
    return results


def means(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over splits of what is a share of losses."""
    shown = ("error", "in run eti90", "with 2%", "as reported", "in 50%", "CRPS", "CRPS then")
    digits = {name: 2 if name.startswith("CRPS") else 1 if name == "error" else 0 for name in shown}
    return {name: f"{np.mean([float(r[name].rstrip('%')) for r in results]):.{digits[name]}f}%" for name in shown}


def exact(curves: Curves) -> list[dict[str, Any]]:
    """Losses simulated by the law itself, with the noise of a draw: forecasts of the adaptations under one schedule."""
    results = list[dict[str, Any]]()
    for domain in DOMAINS:
        frame = rows(curves, domain).reset_index(drop=True)
        truth = bayeslaw.fit(LAWS[0], frame, noise=NOISES[0], seed=0)
        shares: dict[str, list[float]] = {name: [] for name in ("run", "reported", "wider")}
        for number in range(SIMULATED):
            rng = np.random.default_rng([7, number])
            draw = {name: values[[rng.integers(truth.size)]] for name, values in truth.draws.items()}
            loss = truth.law.predict(draw, {name: frame[name].to_numpy() for name in truth.law.covariates})[0]
            code, names = pd.factorize(frame["run"])
            effect = draw["sigma_run"] * rng.standard_normal(len(names))
            simulated = frame.assign(loss=loss * np.exp(effect[code] + draw["sigma_point"] * rng.standard_normal(len(frame))))
            out = (simulated["phase"] == "adapt") & (simulated["schedule"] == "wsd")
            fit = bayeslaw.fit(LAWS[0], simulated[~out], noise=NOISES[0], seed=number)
            predicted = bayeslaw.forecast(fit, simulated[out], force=True)
            test, table = simulated.loc[out, "loss"].to_numpy(), predicted.summary()
            (low, high), (least, most) = _ends(table, ["run"] * len(test)), _ends(table, predicted.headlines)
            shares["run"].append(((low <= test) & (test <= high)).mean())
            shares["reported"].append(((least <= test) & (test <= most)).mean())
            shares["wider"].append(float(((most - least) / (high - low)).mean()))
        held = {name: float(np.mean(values)) for name, values in shares.items()}
        results.append({
            "domain": domain, "truths": SIMULATED, "in run eti90": f"{held['run']:.0%}", "as reported": f"{held['reported']:.0%}",
            "times as wide as run": round(held["wider"], 2),
        })  # fmt: skip
        print(results[-1], file=sys.stderr, flush=True)
    return results


def wider(curves: Curves) -> list[dict[str, Any]]:
    """Means over the splits of the scores on the source's losses, by prior sd of the run effect."""
    rows = list[dict[str, Any]]()
    for sd in (0.003, 0.01, 0.03):
        table = pd.DataFrame(held_out(curves, LAWS[0], "normal-drift", ("source",), sigma_run=f"HalfNormal({sd:g})"))
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
    by_law = {(law, noise): held_out(curves, law, noise) for law in LAWS for noise in NOISES}
    print("## In the mean of the splits\n")
    print(markdown_table([
        {"law": law, "noise": noise, "domain": domain, **means([r for r in results if r["domain"] == domain])}
        for (law, noise), results in by_law.items() for domain in DOMAINS
    ]) + "\n")  # fmt: skip
    for (law, noise), results in by_law.items():
        print(f"## {law}, noise {noise}\n")
        print(markdown_table(results) + "\n")
    print("## Where the law is exact\n")
    print(f"Losses of all runs simulated with draws of {LAWS[0]}, noise included; forecasts of the adaptations under wsd.\n")
    print(markdown_table(exact(curves)) + "\n")
    print("## An unknown pre-training\n")
    print(markdown_table(unknown(curves)) + "\n")
    print(f"## A wider prior of the run effect\n\n{LAWS[0]}, losses on the source, means over the seven splits.\n")
    print(markdown_table(wider(curves)))


if __name__ == "__main__":
    main()
