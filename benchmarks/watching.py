"""Forecasts of running runs: their logs are replayed, and every forecast of the final loss is compared with the one logged.

    BAYESLAW_SHARED_DATA=… python benchmarks/watching.py      # prints the report kept in benchmarks/results/watching.md

A law is fitted to some runs of a training. Another run is replayed row by row: from a third of its steps on the final loss is
forecast from the rows so far, at each logged row or, of runs with more, at `ASKED` evenly spaced ones. The interval is the 90%
one of the loss that will be logged last. Where the run's rows change the fit too much for its draws to be weighted, the law is
fitted again to all rows so far before the forecast (`refit`); the same without refits is shown beside it.

- `100M`: public curves of a 100M model (Luo et al. 2025). The law is fitted to cosine_24000, constant_24000 and wsdcon_9, and the
  six others are watched.
- `tinycpt`: every adaptation without replay is watched by a fit to all other runs, losses on the target and on the source.
- `trainer`: longer runs of two tiny models by fits to short ones (`data/trainer`).
- `simulated`: runs drawn from the fit to the three curves, to count false alarms of "left its band" and to see how wide intervals
  are where the law holds.

Chosen on which rows: the memory of the annealing areas by left-out runs among those fitted. What laws err by (`change_errors`) is
learnt, for each training, from the others, by the errors of forecasts that take the law for exact, a run counting once: medians of
log-normal distributions of two shares, between 1 and 100% and flat beforehand, with a spread of `SPREAD` (stated).
That laws err by such shares, `SPREAD` and the flat prior were chosen on all of these trainings (medians of the largest
likelihood, tried first, held 64% on `prose` and as much elsewhere); a training that had no part in anything is in
`watching_trainer.md`.

Times are of one update of a forecast without a refit, with others at work on the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm
from tables import SHARED, banner, markdown_table
from watched import WARMUP, Case, Training, replay, schedules, state, trainings

import bayeslaw
from bayeslaw.data.curves import read_curves
from bayeslaw.dynamics import change_errors, monitor
from bayeslaw.dynamics.change_errors import ChangeErrors

ASKED, LEARNT_AT = 24, 8
SIMULATED = 200
SPREAD = 0.7
SHARES = np.exp(np.linspace(np.log(0.002), np.log(5.0), 80))
MEDIANS = SHARES[(SHARES > 0.01) & (SHARES < 1)]
EXACT = ChangeErrors(1e-12, SPREAD, 1e-12, SPREAD)


def likelihood(states: pd.DataFrame) -> NDArray[np.float64]:
    """Log likelihood of `SHARES` (of the rate's changes, of the course), a run counting once."""
    weight = 1 / states.groupby("run")["run"].transform("size").to_numpy()
    error, sd, rate, course = (states[c].to_numpy() for c in ("error", "sd", "rate", "course"))
    variance = sd**2 + (SHARES[:, None, None] * rate) ** 2 + (SHARES[None, :, None] * course) ** 2
    return np.asarray((-0.5 * weight * (np.log(variance) + error**2 / variance)).sum(axis=-1))


def learn(likelihoods: Sequence[NDArray[np.float64]]) -> ChangeErrors:
    """Posterior means of the logarithms of the medians, which are flat between the ends of `MEDIANS` beforehand.

    Each training's own shares are integrated out. The largest likelihood would be at an end where few trainings tell of a share.
    """
    prior = norm.pdf(np.log(SHARES), np.log(MEDIANS)[:, None], SPREAD)
    prior /= prior.sum(axis=1, keepdims=True)
    total = np.zeros((MEDIANS.size, MEDIANS.size))
    for values in likelihoods:
        total += np.log(prior @ np.exp(values - values.max()) @ prior.T)
    weight = np.exp(total - total.max())
    means = [np.exp((weight.sum(axis=1 - axis) * np.log(MEDIANS)).sum() / weight.sum()) for axis in (0, 1)]
    return ChangeErrors(float(f"{means[0]:.2g}"), SPREAD, float(f"{means[1]:.2g}"), SPREAD)


def states_of(cases: Sequence[Case]) -> pd.DataFrame:
    """States of the forecasts of all cases, as if laws were exact."""
    before, change_errors.LEARNT = change_errors.LEARNT, EXACT
    try:
        return pd.DataFrame([{"run": case.run, **state(case, step)} for case in cases for step in case.asked(LEARNT_AT)])
    finally:
        change_errors.LEARNT = before


def scores(cases: Sequence[Case], errors: ChangeErrors) -> dict[bool, list[dict[str, Any]]]:
    """Scores of all cases with what laws err by, with and without refits."""
    before, change_errors.LEARNT = change_errors.LEARNT, errors
    try:
        return {refit: [replay(case, ASKED, refit=refit) for case in cases] for refit in (True, False)}
    finally:
        change_errors.LEARNT = before


def simulated() -> dict[str, Any]:
    """Runs drawn from the fit to the three curves, under the schedule of the first, each watched by the same fit."""
    case = next(schedules())
    table = pd.read_csv(SHARED / "lr_schedules_100m.csv").rename(columns={"schedule": "run"})
    own = table[table["run"] == "cosine_24000"].iloc[::2]
    schedule = bayeslaw.schedules.logged(own["step"].to_numpy(np.int64), own["lr"], warmup=WARMUP, name="cosine_24000")
    curves = read_curves(own.assign(run="simulated"), **case.reading)
    latent = bayeslaw.forecast(case.fit, curves.runs().frame.drop(columns="loss"), force=True).draws["run"].to_numpy()
    draws = np.random.default_rng(0).choice(len(latent), SIMULATED, replace=False)
    inside: dict[monitor.Discrepancy, list[bool]] = {"learned": [], "none": []}
    alarms, unreliable = 0, 0
    for draw in draws:
        run = own.assign(run="simulated", loss=latent[draw])
        for share in (1 / 3, 2 / 3, 1.0):
            so_far = read_curves(run.iloc[: min(round(share * len(run)), len(run) - 1)], **case.reading)
            kinds: tuple[monitor.Discrepancy, ...] = ("learned", "none") if share < 1 else ("learned",)
            for kind in kinds:
                watched = monitor.watch(case.fit, so_far, "simulated", schedule, check=False, discrepancy=kind)
                if share < 1:
                    low, high = np.quantile(watched.final, [0.05, 0.95])
                    inside[kind].append(bool(low <= latent[draw, -1] <= high))
                    unreliable += (not watched.reliable) and kind == "learned"
        alarms += watched.left is not None
    asked = len(inside["learned"])
    return {
        "runs": SIMULATED, "asked": asked, "inside eti90": f"{np.mean(inside['learned']):.1%}",
        "inside, law taken for exact": f"{np.mean(inside['none']):.1%}", "left their band": f"{alarms / SIMULATED:.1%}",
        "weights unreliable": f"{unreliable / asked:.1%}", "losses in a run": len(run),
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


def learnt_table(of: Sequence[Training], cases: dict[str, list[Case]]) -> dict[str, ChangeErrors]:
    """What is learnt without each training, and from all; prints the table of it."""
    own = {training.name: likelihood(states_of(cases[training.name])) for training in of}
    learnt, rows = dict[str, ChangeErrors](), []
    for training in of:
        others = [other.name for other in of if other.group != training.group]
        learnt[training.name] = learn([own[name] for name in others])
        rate, course = np.unravel_index(int(own[training.name].argmax()), own[training.name].shape)
        rows.append({
            "training": training.name, "memory": ", ".join(sorted({f"{c.reading['memory']:g}" for c in cases[training.name]})),
            "its own shares: rate, course": f"{SHARES[rate]:.2f}, {SHARES[course]:.3f}",
            "medians without it": f"{learnt[training.name].rate:g}, {learnt[training.name].course:g}",
        })  # fmt: skip
    whole, shipped = learn(list(own.values())), change_errors.LEARNT
    rows.append({
        "training": "all", "memory": "", "its own shares: rate, course": "",
        "medians without it": f"{whole.rate:g}, {whole.course:g} (the package has {shipped.rate:g}, {shipped.course:g})",
    })  # fmt: skip
    print("## What laws err by: shares of the changes of log loss that they forecast\n\n" + markdown_table(rows) + "\n", flush=True)
    return learnt


def main() -> None:
    print("# Forecasts of running runs\n\n" + banner("watching") + "\n")
    assert __doc__ is not None
    print(__doc__.split("\n\n", 2)[2].strip() + "\n")
    of = trainings()
    cases = {training.name: list(training.cases()) for training in of}
    print("cases are fitted", file=sys.stderr, flush=True)
    learnt = learnt_table(of, cases)
    print("## Simulated runs, without refits\n\n" + markdown_table([simulated()]) + "\n", flush=True)
    for training in of:
        for refit, rows in scores(cases[training.name], learnt[training.name]).items():
            print(f"## {training.name}, {'with' if refit else 'without'} refits\n\n{shown(rows)}\n", flush=True)


if __name__ == "__main__":
    main()
