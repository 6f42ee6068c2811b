"""Forecasts of running runs: their logs are replayed, and every forecast of the final loss is compared with the one logged.

    BAYESLAW_SHARED_DATA=… python benchmarks/watching.py      # prints the report kept in benchmarks/results/watching.md

A law is fitted to some runs. Another run is replayed row by row: from a third of its steps on the final loss is forecast from the
rows so far, at each logged row or, of runs with more, at `ASKED` evenly spaced ones. The interval is the 90% one of the loss that
will be logged last. Where the run's rows change the fit too much for its draws to be weighted, the law is fitted again to all
rows so far before the forecast (`refit`); the same without refits is shown beside it.

- `100M`: public curves of a 100M model (Luo et al. 2025). The law is fitted to cosine_24000, constant_24000 and wsdcon_9, and the
  six others are watched. Law, noise and refits were tried on wsdcon_9 with a fit to the other two of the three, never on these six.
- `tinycpt`: every adaptation without replay is watched by a fit to all other runs, losses on the target and on the source.
- `simulated`: runs drawn from the fit to the three curves, to count false alarms of "left its band".

Times are of one update of a forecast without a refit, with others at work on the machine.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tables import banner, markdown_table

import bayeslaw
from bayeslaw.data.curves import read_curves
from bayeslaw.dynamics.follow import Follower
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.schedule import Schedule, logged

SEEN = ("cosine_24000", "constant_24000", "wsdcon_9")
WARMUP, BEGIN = 2_160, 400
ASKED = 24
SIMULATED = 200
HERE = Path(__file__).parents[1]
SHARED = Path(os.environ.get("BAYESLAW_SHARED_DATA", HERE.parent / "shared" / "data"))


def replay(fit: Fit, whole: pd.DataFrame, run: str, schedule: Schedule, *, refit: bool, **options: Any) -> dict[str, Any]:
    """Replay a run of a table of curves, and return the scores of the forecasts of its final loss."""
    reading, domain = options.pop("reading", {}), options.pop("domain", None)
    column = options.pop("column", "loss")
    own = whole[(whole["run"] == run) & whole[column].notna()]
    final, steps = float(own[column].iloc[-1]), own["step"].to_numpy()
    ask = steps[(steps >= len(schedule) / 3) & (steps < len(schedule))]
    ask = ask[np.unique(np.linspace(0, ask.size - 1, min(ask.size, ASKED)).round().astype(int))]
    follower = Follower(fit, run, schedule, domain=domain, refit="wait" if refit else "never", force=True)
    inside, reliable, left = list[bool](), list[bool](), None
    widths, errors, times = list[float](), list[float](), list[float]()
    for step in ask:
        curves = read_curves(whole[(whole["run"] != run) | (whole["step"] <= step)], **reading)
        refits, start = follower.refits, time.perf_counter()
        watched = follower.update(curves)
        if follower.refits == refits and inside:  # the first has the checks too
            times.append(time.perf_counter() - start)
        low, high = np.quantile(watched.final, [0.05, 0.95])
        inside.append(bool(low <= final <= high))
        widths.append(high - low)
        errors.append(abs(float(np.median(watched.final)) - final))
        reliable.append(watched.reliable)
        left = watched.left
    row = {
        "run": run, "asked": len(inside), "inside": np.mean(inside), "error": np.mean(errors), "width": np.mean(widths),
        "reliable": np.mean(reliable), "refits": follower.refits, "left": left or "", "median s": np.median(times),
        "max s": np.max(times),
    }  # fmt: skip
    print(row, file=sys.stderr, flush=True)
    return row


def schedules() -> Iterator[tuple[Fit, pd.DataFrame, str, Schedule, dict[str, Any]]]:
    """The six unseen curves of the 100M model."""
    table = pd.read_csv(SHARED / "lr_schedules_100m.csv").rename(columns={"schedule": "run"})
    fit = fit_100m(table)
    for run in [r for r in table["run"].unique() if r not in SEEN]:
        own = table[table["run"] == run]
        yield (
            fit,
            own,
            run,
            logged(own["step"].to_numpy(np.int64), own["lr"], warmup=WARMUP, name=run),
            {"reading": {"warmup": WARMUP}},
        )


def fit_100m(table: pd.DataFrame) -> Fit:
    """The fit to the three curves."""
    seen = read_curves(table[table["run"].isin(SEEN)], warmup=WARMUP)
    return bayeslaw.fit("annealing", seen.runs(), noise="normal-drift", progress=False)


def tinycpt(domain: str) -> Iterator[tuple[Fit, pd.DataFrame, str, Schedule, dict[str, Any]]]:
    """Every adaptation without replay, by fits without it."""
    table = pd.read_csv(HERE / "data" / "tinycpt" / "curves.csv")
    table = table[(table["phase"] == "pretrain") | (table["r"] == 0)]
    curves = read_curves(table)
    frame = curves.runs(domain).frame
    frame = frame[(frame["S1"] > 0) & ~((frame["phase"] == "pretrain") & (frame["step"] < BEGIN))]
    for run in frame.loc[frame["phase"] == "adapt", "run"].unique():
        fit = bayeslaw.fit("cpt-dynamics", frame[frame["run"] != run], noise="normal-drift", progress=False)
        yield fit, table, run, curves.schedule(run), {"domain": domain, "column": f"{domain}_loss"}


def simulated() -> dict[str, Any]:
    """Runs drawn from the fit to the three curves, under the schedule of the first, each watched by the same fit."""
    table = pd.read_csv(SHARED / "lr_schedules_100m.csv").rename(columns={"schedule": "run"})
    fit, own = fit_100m(table), table[table["run"] == SEEN[0]].iloc[::2]
    steps = own["step"].to_numpy(np.int64)
    schedule = logged(steps, own["lr"], warmup=WARMUP, name=SEEN[0])
    curves = read_curves(own.assign(run="simulated"), warmup=WARMUP)
    latent = bayeslaw.forecast(fit, curves.runs().frame.drop(columns="loss"), force=True).draws["run"].to_numpy()
    draws = np.random.default_rng(0).choice(len(latent), SIMULATED, replace=False)
    inside, alarms, unreliable = [], 0, 0
    for draw in draws:
        run = own.assign(run="simulated", loss=latent[draw])
        for share in (1 / 3, 2 / 3, 1.0):
            so_far = run.iloc[: min(round(share * len(run)), len(run) - 1)]
            watched = bayeslaw.dynamics.watch(fit, read_curves(so_far, warmup=WARMUP), "simulated", schedule, check=False)
            if share < 1:
                low, high = np.quantile(watched.final, [0.05, 0.95])
                inside.append(low <= latent[draw, -1] <= high)
                unreliable += not watched.reliable
        alarms += watched.left is not None
        if len(inside) % 40 == 0:
            print(len(inside), np.mean(inside), alarms, unreliable, file=sys.stderr, flush=True)
    return {
        "runs": SIMULATED, "asked": len(inside), "inside eti90": f"{np.mean(inside):.1%}",
        "left their band": f"{alarms / SIMULATED:.1%}",
        "weights unreliable": f"{unreliable / len(inside):.1%}", "losses in a run": len(run),
    }  # fmt: skip


def shown(rows: list[dict[str, Any]]) -> str:
    """A table of replays, and their means."""
    table = pd.DataFrame(rows)
    asked = table["asked"]
    means = {c: np.average(table[c], weights=asked) for c in ("inside", "error", "width", "reliable")}
    table.loc[len(table)] = {
        "run": "all", "asked": asked.sum(), **means, "refits": table["refits"].sum(), "left": f"{(table['left'] != '').sum()} runs",
        "median s": table["median s"].median(), "max s": table["max s"].max(),
    }  # fmt: skip
    forms = {
        "inside": "{:.0%}",
        "error": "{:.4f}",
        "width": "{:.4f}",
        "reliable": "{:.0%}",
        "median s": "{:.2f}",
        "max s": "{:.2f}",
    }
    for column, form in forms.items():
        table[column] = table[column].map(form.format)
    names = {"inside": "inside eti90", "left": "left its band by", "reliable": "weights reliable"}
    return markdown_table([{str(k): v for k, v in row.items()} for row in table.rename(columns=names).to_dict("records")])


def main() -> None:
    print("# Forecasts of running runs\n\n" + banner("watching") + "\n")
    assert __doc__ is not None
    print(__doc__.split("\n\n", 2)[2].strip() + "\n")
    cases_by_title = {"100M": schedules} | {f"tinycpt, {domain}": partial(tinycpt, domain) for domain in ("target", "source")}
    print("## Simulated runs, without refits\n")
    print(markdown_table([simulated()]) + "\n", flush=True)
    for title, cases in cases_by_title.items():
        rows: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
        for fit, table, run, schedule, options in cases():
            for refit in rows:
                rows[refit].append(replay(fit, table, run, schedule, refit=refit, **options))
        for refit, of in rows.items():
            print(f"## {title}, {'with' if refit else 'without'} refits\n\n{shown(of)}\n", flush=True)


if __name__ == "__main__":
    main()
