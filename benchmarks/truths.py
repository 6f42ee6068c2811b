"""A truth from a law's prior, its simulated runs, the fit to them, and the rank of the truth in the fit.

Laws of the learning dynamics get eight trainings in two phases and the ends of three others; a law of two domains' losses gets such
losses along four runs. A law of N and D that is fitted with a noise of choice or with pooled parameters gets curves of 18 runs on
three corpora, with checkpoints. A law of accuracies gets 30 models, each evaluated once; with a noise of choice, 15 models at four
checkpoints each; with a parameter by task, 15 models that all answer five tasks, and with two of them 40 tasks. The first target is
a better model than these.
A law of a mixture gets curves of 12 mixtures at three sizes; the first target is another mixture at a larger size.

For the rest, the runs follow from a law's covariates. A law of adaptation (r, ptpp or cpt among them) gets curves, eight points of
one run at one setting, and base checkpoints if it is finite at D = 0; any other law gets the last losses of single runs, 9 sizes x
9 tokens per parameter. The first target is a new run at the largest size and, if the law has stages, at PTPP 279, both unseen.

The truth is drawn from exactly the prior of the fit: `Law.sample_prior` at the reference point of the runs, and the priors of the
noise. Sometimes such a truth makes a loss that tables refuse (none, or above 15 nats). Such a table is refused and a new truth is
drawn. Calibration stays exact because the refusal depends on the losses alone: given accepted losses, the truth is distributed as
the posterior. Truths are never selected by their parameters. (Accepted truths alone no longer have the distribution of the prior,
only the pairs of truth and table have the right joint distribution; the report counts refused tables.)
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import bayeslaw
from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.observations import Nesting, Observations, clock_column
from bayeslaw.data.table import Runs
from bayeslaw.data.validate import check, complete
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import levels_of, with_by, with_levels
from bayeslaw.noise import noise as noises
from bayeslaw.noise.noise import DRIFT, Noise
from bayeslaw.posterior.fit import Fit

sys.path.insert(0, str(Path(__file__).parents[1]))  # trainings are those of the tests
from tests.curves import curves as trainings

MODEL = ("noise", "noise_by", "by")  # options of a fit that a truth depends on
RANKED = 100  # draws among which a truth is ranked
MOST_REFUSED = 200
ADAPTATION = {"r", "ptpp", "cpt"}
LEVELS: dict[str, tuple[float, ...]] = {"r": (0.1, 0.25, 0.5), "ptpp": (15.0, 31.0), "cpt": (0.0, 1.0), "P": (1.0, 2.0, 4.0)}
LEVELS |= {"lr": (3e-4, 1e-3, 3e-3), "batch": (6.4e4, 2.6e5, 1e6), "G": (1.0, 4.0, 16.0), "active": (0.05, 0.25, 1.0)}
LEVELS |= {"bits_w": (3.0, 5.0, 16.0), "bits_a": (4.0, 16.0), "bits_kv": (3.0, 16.0), "Nv": (6e6, 5e7, 4e8)}
UNSEEN = {"r": 0.25, "ptpp": 279.0, "cpt": 1.0, "P": 8.0}
UNSEEN |= {"lr": 5e-4, "batch": 5e5, "G": 32.0, "active": 0.1, "bits_w": 8.0, "bits_a": 8.0, "bits_kv": 8.0, "Nv": 1e8}
SEEN = {"r": 0.25, "ptpp": 31.0, "cpt": 1.0, "P": 2.0}
SEEN |= {name: LEVELS[name][1] for name in UNSEEN if name not in SEEN}
EPOCHS = (1.0, 4.0, 16.0)  # of the unique tokens, for laws that have them
CORPORA = ("web", "code", "books")
NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Item:
    """A truth to be drawn and fitted: the law, its number, and arguments of `bayeslaw.fit` that differ from its defaults."""

    law: Law
    number: int
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Truth:
    """Parameters of law and noise, runs simulated under them, targets with their losses, and the number of refused tables."""

    values: dict[str, float]
    runs: Runs
    targets: pd.DataFrame
    refused: int


def model(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a fit that a truth depends on, as far as they are given."""
    return {k: options[k] for k in MODEL if options.get(k)}


def settings(law: Law, options: Mapping[str, Any] = NONE) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows without losses: those that a law is fitted to, and those that it then forecasts.

    Coverage is counted at the first target; the second is at a seen size, the third within the runs.
    """
    if model(options) and set(law.covariates) == {"N", "D"}:
        return _curves()
    if "lr_peak" in law.covariates:
        clock = ["step"] if options.get("noise") == DRIFT else []
        trained = trainings(11, 12, changes=bool(law.series))[[*law.covariates, *clock, "run"]]
        new = trained["run"].isin(["run 8", "run 9", "run 10"])
        return trained[~new], trained[new].groupby("run", sort=False).tail(1).reset_index(drop=True)
    if set(law.covariates) == {"L_source", "L_target"}:
        return _losses_of_two()
    if {"items", "loss"} & set(law.covariates):
        return _tasks(law, options)
    if law.shares:
        return _mixtures(law)
    others = [name for name in law.covariates if name not in ("N", "D", "base_loss")]
    if "base_loss" in law.covariates and "ptpp" not in others:
        others.append("ptpp")  # the base loss depends on it, if the law does not
    if unknown := [name for name in others if name not in LEVELS and "token" not in law.covariates[name].unit]:
        raise BayeslawError(f"There is no design for the covariate {unknown[0]} of {law.name}; add its levels to LEVELS.")
    curves = bool(ADAPTATION & set(others))
    combinations: list[dict[str, float]] = [{}]
    for name in others:
        combinations = [c | {name: v} for c in combinations for v in LEVELS.get(name, EPOCHS)]
    each = 9 if len(combinations) < 4 else 4  # sizes, and budgets of tokens: fewer where each has many combinations
    sizes = (241e6, 517e6, 1.4e9, 2.8e9) if curves else tuple(np.geomspace(7e7, 3e9, each))
    budgets = np.geomspace(0.5, 20, 8) if curves else np.geomspace(5, 100, each if "D" in law.covariates else 1)
    rows = [{"N": n, "D": a * n, **_tokens(c, a * n)} for n in sizes for c in combinations for a in budgets]
    frame = pd.DataFrame(rows)
    if curves:
        frame["run"] = ["-".join(f"{row[c]:g}" for c in ("N", *others)) for _, row in frame.iterrows()]
        if law.covariates["D"].support[0] == 0:
            bases = frame.drop_duplicates(["N", *[c for c in others if c != "r"]]).assign(D=0.0)
            frame = pd.concat([frame, bases.assign(run="base-" + bases["run"])], ignore_index=True)
    largest = 8.1e9 if curves else 3e10
    places = [(largest, UNSEEN, 8.0), (sizes[-2], UNSEEN, 8.0), (sizes[-2], SEEN, 2.0)]
    wanted = []
    for n, levels, epochs in places:
        wanted.append({"N": n, "D": 20 * n, **_tokens({c: levels.get(c, epochs) for c in others}, 20 * n)})
    targets = pd.DataFrame(wanted)
    if curves:
        targets["run"] = [f"new {i}" for i in range(len(targets))]
    if "base_loss" in law.covariates:
        frame, targets = (table.assign(base_loss=_base_loss(table)) for table in (frame, targets))
    return frame, targets


def _mixtures(law: Law) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Curves of 12 mixtures, at three sizes if the law has N, of five points each if it has D, else of the last loss alone."""
    shares = np.random.default_rng(0).dirichlet(np.ones(len(law.shares)), 15)
    sizes = (7e7, 4e8, 2e9) if "N" in law.covariates else (4e8,)
    budgets = np.geomspace(5, 100, 5) if "D" in law.covariates else np.array([20.0])

    def row(mixture: int, n: float, atpp: float, name: str) -> dict[str, Any]:
        return {"N": n, "D": atpp * n, **dict(zip(law.shares, shares[mixture], strict=True)), "run": name}

    rows = [row(i, n, a, f"{n:.3g} {i}") for n in sizes for i in range(12) for a in budgets]
    targets = [row(12, 10 * sizes[-1], 20.0, "new 0"), row(13, sizes[-1], 20.0, "new 1"), row(0, sizes[-1], 20.0, "new 2")]
    columns = [*law.covariates, *(["run"] if "D" in law.covariates else [])]
    return pd.DataFrame(rows)[columns], pd.DataFrame(targets)[columns]


def _base_loss(table: pd.DataFrame) -> pd.Series:
    """Losses of base checkpoints that fall with size and stage."""
    return 1.5 + 90 / table["N"] ** 0.23 + 3 / table["ptpp"] ** 0.4


def _curves() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Curves of a law of N and D: six sizes, each with three runs of five points from one checkpoint, one run for each corpus."""
    rows = [
        {"N": n, "D": a * n, "run": f"{n:.3g} {corpus}", "checkpoint": f"{n:.3g}", "corpus": corpus}
        for n in np.geomspace(7e7, 3e9, 6)
        for corpus in CORPORA
        for a in np.geomspace(5, 100, 5)
    ]
    frame = pd.DataFrame(rows)
    seen = sorted(frame["N"].unique())[-2]
    places = [(3e10, 20.0), (seen, 200.0), (seen, 20.0)]
    targets = pd.DataFrame([{"N": n, "D": a * n, "corpus": CORPORA[0]} for n, a in places])
    names = [f"new {i}" for i in range(len(targets))]
    return frame, targets.assign(run=names, checkpoint=names)


def _losses_of_two() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Losses of two domains along adaptations: one rises and the other falls, by a different amount in each run."""
    along, parts = np.linspace(0, 1, 8), []
    for i, strength in enumerate((0.3, 0.6, 0.9, 1.2)):
        parts.append(
            pd.DataFrame({"L_source": 2.6 + 0.3 * strength * along, "L_target": 2.8 - strength * along, "run": f"run {i}"})
        )
    frame = pd.concat(parts, ignore_index=True)
    targets = pd.DataFrame({"L_source": [3.1, 2.8, 2.7], "L_target": [1.2, 2.2, 2.5], "run": ["new 0", "new 1", "new 2"]})
    return frame, targets


REPEATS = 8  # times that these are repeated under other names
TASKS = pd.DataFrame({"task": [*"abcde"], "chance": [0.25, 0.25, 0.5, 0.2, 0.0], "items": [250.0, 500.0, 1000.0, 1500.0, 3000.0]})


def _tasks(law: Law, options: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Models that answer tasks, by their losses, sizes or capabilities, from the worst to the best; targets are other models."""
    models, checkpoints = (15, 4 if options.get("noise") else 1) if model(options) else (30, 1)
    code, tasks = np.repeat(np.arange(models), checkpoints), TASKS if options.get("by") else TASKS.iloc[[2]]
    if len(options.get("by") or {}) > 1:
        tasks = pd.concat([TASKS.assign(task=TASKS["task"] + f" {i}") for i in range(REPEATS)], ignore_index=True)
    at = code / (models - 1) + np.tile(np.arange(checkpoints) - checkpoints + 1, models) * 0.04
    frame = _models(np.append(at, [1.15, 0.5, 0.8])).assign(run=[*(f"model {i}" for i in code), "new 0", "new 1", "new 2"])
    known = frame.iloc[:-3].merge(tasks, how="cross")
    columns = [*law.covariates, *set((options.get("by") or {}).values()), *(["run"] if model(options) else [])]
    return known[columns], frame.iloc[-3:].merge(tasks.iloc[:1], how="cross")[columns]


def _models(at: NDArray[np.float64]) -> pd.DataFrame:
    """Models from weak (0) to strong (1); their other capabilities, and tokens by size, differ without a trend."""
    size, turn = 1e8 * 100**at, np.arange(at.size)
    others = {"S2": np.sin(2.3 * turn), "S3": np.cos(3.7 * turn)}
    return pd.DataFrame(
        {"N": size, "D": size * np.array([10.0, 30.0, 100.0])[turn % 3], "loss": 3.8 - 1.8 * at, "S1": 4 * at - 2, **others}
    )


def _tokens(levels: Mapping[str, float], d: float) -> dict[str, float]:
    """Levels of covariates; epochs are converted to unique tokens."""
    return {name: value if name in LEVELS else d / value for name, value in levels.items()}


def with_noise(
    expected: NDArray[np.float64],
    observed: Observations,
    rows: pd.DataFrame,
    law: Law,
    options: Mapping[str, Any],
    rng: np.random.Generator,
) -> tuple[dict[str, float], NDArray[np.float64]]:
    """A truth of the noise that a fit of these observations assumes, and outcomes (n,) of the table's rows that have it.

    Parameters
    ----------
    expected : array (n,)
        The law's values.
    observed, rows, law, options, rng
        The rows that are fitted, those of the table, the law with its levels, and arguments of the fit.
    """
    chosen = Noise.choose(options["noise"], observed)
    values = {k: noises.LEAST.get(k, 0.0) + float(chosen.prior(k).sample(1, rng)[0]) for k in chosen.parameters}
    draws = {k: np.array([v]) for k, v in values.items()}
    nested, entropy = Nesting.of(rows, law), (int(rng.integers(2**62)),)
    group, time = observed.groups_of(rows), observed.time_of(rows) if observed.clock_column else None
    numbers = np.arange(len(rows))
    added = chosen.sample(draws, nested.run, numbers, entropy, checkpoint=nested.checkpoint, group=group, time=time)[:, 0]
    with np.errstate(all="ignore"):
        outcomes = law.outcome.from_scale(law.outcome.to_scale(expected) + added)
    if chosen.counts and np.isfinite(outcomes).all():
        items = rows[law.outcome.items].to_numpy(dtype=np.float64)
        outcomes = chosen.count(outcomes[:, None], items, draws, numbers, entropy, group)[:, 0]
    return values, np.asarray(outcomes, dtype=np.float64)


def truth(law: Law, number: int, options: Mapping[str, Any] = NONE) -> Truth:
    """The truth of a number, the same whenever and wherever it is drawn."""
    key = law.name + (json.dumps(model(options), sort_keys=True) if model(options) else "")
    rng = np.random.default_rng([zlib.crc32(key.encode()), number])
    frame, targets = settings(law, options)
    law = with_by(law, options.get("by") or {})
    law = with_levels(law, levels_of(law, frame))
    rows = pd.concat([frame, targets], ignore_index=True)
    name = law.outcome.name
    without = Runs(frame.assign(**{name: placeholder(law, len(frame))}), law.name)
    options = {**options, "noise": noises.resolved(options.get("noise", "auto"), law, without)}
    clock = clock_column(frame, law) if options["noise"] == DRIFT else ""
    observed = Observations.of(law, without, options.get("noise_by"), clock)
    covariates = {c: complete(rows, law)[c].to_numpy(dtype=np.float64) for c in law.covariates}
    for refused in range(MOST_REFUSED):
        draws = law.sample_prior(1, observed.at, rng)
        with np.errstate(all="ignore"):
            expected = law.predict(draws, covariates)[0]
        noise, outcomes = with_noise(expected, observed, rows, law, options, rng)
        runs = Runs(frame.assign(**{name: outcomes[: len(frame)]}), f"truth {number} of {law.name}")
        if not check(runs, law):
            values = {k: float(v[0]) for k, v in draws.items()} | noise
            return Truth(values, runs, targets.assign(**{name: outcomes[len(frame) :]}), refused)
    raise BayeslawError(
        f"{law.name}: {MOST_REFUSED} tables in a row had losses that tables refuse; check the priors.", code="no-acceptable-truth"
    )


def placeholder(law: Law, size: int) -> NDArray[np.float64]:
    """Outcomes of a table whose settings alone matter; rows that repeat others exactly would be refused."""
    middle = 0.5 if np.isfinite(law.outcome.bounds[1]) else 1.0
    return np.linspace(middle, middle + 1e-6 * size, size)


def fitted(law: Law, runs: Runs, options: Mapping[str, Any], seed: int) -> tuple[Fit, list[str]]:
    """A fit as a user would make it, and the checks that the first attempt failed.

    If a required check fails, the law is fitted once more with four times the draws, twice the tuning and a target acceptance of
    .99. That second fit counts, whether or not its checks pass.
    """
    chosen: dict[str, Any] = {"draws": 1000, "tune": 500, "discrepancy": "none"} | dict(options)
    fit = bayeslaw.fit(law, runs, seed=seed, progress=False, cores=1, **chosen)
    if not (failed := failing(fit)):
        return fit, []
    longer = chosen | {"draws": 4 * chosen["draws"], "tune": 2 * chosen["tune"], "target_accept": 0.99}
    return bayeslaw.fit(law, runs, seed=seed + 1_000_000, progress=False, cores=1, **longer), failed


def failing(fit: Fit) -> list[str]:
    """Names of the required checks that failed."""
    return [c.name for c in fit.checks if c.required and not c.passed]


def rank(draws: NDArray[np.float64], value: float) -> int:
    """Number of `RANKED` draws, evenly spaced within the chains (chains, draws), that lie below a value: 0 to `RANKED`."""
    chains, length = draws.shape
    step = chains * length // RANKED
    return int((draws[:, step - 1 :: step][:, : RANKED // chains] < value).sum())


def work(item: Item) -> dict[str, Any]:
    """Draw a truth, fit its runs and rank the truth: a record of plain numbers.

    Returns
    -------
    dict
        `ranks` by parameter among `RANKED` draws; `pit` of each target under the spread `run`; `width` of its 90% interval over
        its median; checks `failed_first` and `failed` at last; `refused` tables; `seconds` of this process; or `error`, why there
        is no fit, or `no_forecast`, why there is no forecast.
    """
    begun = time.process_time()
    record: dict[str, Any] = {"number": item.number}
    try:
        drawn = truth(item.law, item.number, item.options)
        record["refused"] = drawn.refused
        fit, record["failed_first"] = fitted(item.law, drawn.runs, item.options, item.number)
    except BayeslawError as error:
        return record | {"error": str(error), "seconds": round(time.process_time() - begun, 2)}
    record["failed"] = failing(fit)
    record["ranks"] = {name: rank(draws, drawn.values[name]) for name, draws in fit.by_chain.items()}
    try:
        name = item.law.outcome.name
        draws = fit.forecast(drawn.targets.drop(columns=name), seed=1, force=True).draws["run"].to_numpy()
        target, rng = drawn.targets[name].to_numpy(), np.random.default_rng(item.number)
        below = (draws < target).sum(axis=0) + rng.binomial((draws == target).sum(axis=0), 0.5)  # shares of few items are equal
        low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=0)
        record["pit"] = [round(float(p), 6) for p in (below + 0.5) / (draws.shape[0] + 1)]
        record["width"] = [float(f"{w:.4g}") for w in (high - low) / middle]
    except BayeslawError as error:
        record["no_forecast"] = str(error)
    return record | {"seconds": round(time.process_time() - begun, 2)}
