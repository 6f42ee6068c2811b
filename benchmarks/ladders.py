"""How well intervals hold on real ladders, beyond the runs that were fitted; and the learnt size of the errors of laws.

    BAYESLAW_SHARED_DATA=… python benchmarks/ladders.py        # prints the report kept in benchmarks/results/ladders.md

`chinchilla` is fitted to the lower part of every ladder and forecasts the rest, with three splits: the upper third of the rows by
compute, those above a tenth of the largest compute, and the largest size. A backtest inside the lower part, which holds its own
upper third back, says whether a user would have seen the law err. What is learnt across ladders is learnt from the other sources
each time a source is scored: the size of a law's error where no run shows it (`noise.walk.BEYOND`), and its mean at more N x D than
any run has, within the runs' sizes and tokens (the card's `corner_error`). Fits are kept in benchmarks/.ladders, so that a run that
was stopped resumes.
"""

from __future__ import annotations

import hashlib
import math
import sys
import zlib
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp
from stored import digest
from tables import ROOT, SHARED, banner, markdown_table, percent

import bayeslaw
from bayeslaw.evaluation.scores import crps
from bayeslaw.forecasting.member_draws import MemberDraws
from bayeslaw.noise import walk as walks

KEPT = ROOT / "benchmarks/.ladders"
LAW = "chinchilla"
SPLITS = ("third", "tenfold", "largest")
NOT_LOSSES_OF_LANGUAGE = "val_de-en_100"  # an over-training set of translations
FEWEST = 8  # fitted rows
ROWS = 60  # held-out rows of a split by which the size is learnt
SIZES = np.exp(np.linspace(-9.0, -1.5, 61))
MEANS, SPREADS = np.linspace(-8.0, -2.5, 56), np.linspace(0.05, 2.5, 50)  # of log sizes over the sources
USUAL, USUAL_SD = 0.01, 1.0  # prior of the mean: .14 to 7% an e-fold with 95% probability
SPREAD = 0.5  # scale of the half-normal prior of the spread, which is below 1 with 95% probability
CORNERS, CORNER_SPREADS = np.linspace(-3.0, 3.0, 61), np.linspace(0.001, 0.02, 20)  # of errors in corners over the sources
CORNER_SD, CORNER_SPREAD = 2.0, 0.005  # of the normal prior of their mean and the half-normal one of their spread
CONSTANT = (0.0, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.025, 0.03)
RESAMPLES = 50
PROBABILITIES = (0.5, 0.8, 0.9)
LOW = 0.7  # sources with a smaller share of their losses in 90% intervals are counted
RIGHT = 2_000  # truths drawn from the forecast of a split
WIDER = 1.25  # times the width of `run`
SOUND = 0.8  # share of losses in the 90% intervals of a backtest inside the fitted rows that shows no misfit
NAMES = {
    "run": "law taken for exact (`run`)",
    "extrapolated": "learnt (`extrapolated`)",
    "without": "learnt, without a mean in corners",
    "package": "`extrapolated`, by the package's numbers",
    "constant": "best constant stated discrepancy",
    "bootstrap": "point fit, bootstrap",
    "linear": "point fit, linearised",
}


HEAD = """`{law}` fitted to the lower part of {ladders} ladders from {sources} sources ({splits} splits), scored on the rest:
means over the rows of a set, the sets of a source, the sources. Chosen on which rows:

- The size of a law's error beyond the runs is learnt from the other sources each time, with the uncertainty of its mean and
  spread over sources. Learnt from all it is `BEYOND = ({whole[0]:.2f}, {whole[1]:.2f})`. The priors of both (mean: {usual:.0%} an
  e-fold within a factor of {factor:.1f}, spread: half-normal, {spread:g}) were chosen with tables of other sizes in view.
- The mean error of the law at an e-fold more N x D than any run has, within the runs' N and D, is learnt from the other sources
  too, as a multiple of `discrepancy` (of 1% where that is larger). Learnt from all it is {corner:.2f}. That laws have such a mean,
  and that it grows with `discrepancy`, was seen on these ladders.
- The package has ({package[0]:.2f}, {package[1]:.2f}) and {stated:.2f}, learnt from all these sources: its rows are not held out.
- The constant stated discrepancy is chosen by its CRPS on the other sources too.
- The form of the walk, its roughness, the weight of its interaction and the prior of its scale were chosen on these same sources,
  by the density of the fitted rows and the error beyond.
- Fits whose sampling failed: {failed} of {splits}.
"""

RIGHTLY = """## By how much would shares vary if the intervals were right?

The mean over sources, `extrapolated`, and in brackets the range in which it would lie with 95% probability if the intervals were
right: truths are drawn from each forecast, with one error of the law for all rows. Sets of a source count as independent, though
some share their runs, so that the ranges are rather too narrow.
"""

BACKTESTS = """## Does a backtest inside the runs tell?

The law was also fitted to the lower two thirds of the fitted rows, taken for exact, and forecast the others of them. Splits are
grouped by how many of these losses its 90% intervals held. Shares are of the held-out losses beyond all fitted rows, in 90%
intervals: of `run`, of `run` made {wider:g} times as wide, and `extrapolated`.
"""

SOURCES = """## Every source, `extrapolated`

`discrepancy` is the law's error an e-fold from the largest runs, as learnt from these (median); what is added beyond the runs
was learnt without the source.
"""


@dataclass(frozen=True)
class Ladder:
    """A ladder with one of its splits."""

    source: str
    name: str
    split: str
    fitted: pd.DataFrame
    held: pd.DataFrame

    @property
    def key(self) -> str:
        """The name of the kept fit: of the code and the fitted rows."""
        about = f"{code()} {self.source} {self.name} {self.split} {self.fitted.to_csv(index=False)}"
        return hashlib.sha256(about.encode()).hexdigest()[:16]

    @property
    def seed(self) -> int:
        """A seed of the ladder and split alone, so that random numbers are the same by any code."""
        return zlib.crc32(f"{self.source} {self.name} {self.split}".encode())


@cache
def code() -> str:
    """What the kept fits depend on."""
    later = {"cli", "design", "dynamics", "evaluation", "forecasting", "planning", "plots", "reporting"}
    return digest(ROOT / f"models/{LAW}.toml", without=later)


def tables() -> Iterable[tuple[str, str, pd.DataFrame]]:
    """Source, name and rows of every ladder."""
    for (source, name), rows in pd.read_csv(SHARED / "ladders.csv").groupby(["source", "set"]):
        yield str(source), str(name), rows
    yield "chinchilla", "", pd.read_csv(SHARED / "chinchilla.csv")
    over = pd.read_csv(SHARED / "overtraining.csv").drop(columns="run")
    for (train, held), rows in over[over["val_set"] != NOT_LOSSES_OF_LANGUAGE].groupby(["train_set", "val_set"]):
        yield "overtraining", f"{train}, {held}", rows


@cache
def stated_corner() -> float:
    """The mean error in corners of the card."""
    return bayeslaw.load_law(LAW).corner_error


def runs_of(source: str, table: pd.DataFrame) -> pd.DataFrame:
    """Rows of a ladder with run, N, D and loss; a row without a run is one."""
    rows = table[["N", "D", "loss"]].astype(float).reset_index(drop=True)
    named = table["run"].reset_index(drop=True) if "run" in table and source != "slimpajama" else pd.Series(np.nan, rows.index)
    rows.insert(0, "run", [f"run {i}" if pd.isna(v) else str(v) for i, v in named.items()])
    return rows


def ladders() -> list[Ladder]:
    """All ladders with all splits of enough rows."""
    found = []
    for source, name, table in tables():
        rows = runs_of(source, table)
        compute = 6 * rows["N"] * rows["D"]
        lower = {
            "third": compute <= compute.quantile(2 / 3, interpolation="lower"),
            "tenfold": compute <= compute.max() / 10,
            "largest": rows["N"] < rows["N"].max(),
        }
        for split, low in lower.items():
            if low.sum() >= FEWEST and (~low).any():
                found.append(Ladder(source, name, split, rows[low], rows[~low]))
    return found


def fitted(ladder: Ladder) -> bayeslaw.Fit:
    """The fit of a ladder's lower rows, from the disk where it is there."""
    path = KEPT / f"{ladder.key}.nc"
    if not path.exists():
        KEPT.mkdir(exist_ok=True)
        bayeslaw.fit(LAW, ladder.fitted, progress=False, cores=1).save(path)
    fit = bayeslaw.load_fit(path)
    assert isinstance(fit, bayeslaw.Fit)
    return fit


def held_inside(ladder: Ladder) -> float:
    """Share of the upper third of a ladder's fitted rows in 90% intervals of the law fitted to the others; nan with too few."""
    compute = ladder.fitted["N"] * ladder.fitted["D"]
    low = compute <= compute.quantile(2 / 3, interpolation="lower")
    if low.sum() < FEWEST or low.all():
        return math.nan
    fit = bayeslaw.fit(LAW, ladder.fitted[low], progress=False, cores=1, discrepancy="none")
    return float(bayeslaw.score(fit, ladder.fitted[~low], force=True)["cover_eti90"].item())


def members(ladder: Ladder, beyond: tuple[float, float], corner: float) -> tuple[MemberDraws, MemberDraws]:
    """Draws at the held-out rows, by the law taken for exact and with its learnt error, of mean `corner` in corners."""
    fit, runs = fitted(ladder), bayeslaw.read_runs(ladder.held.drop(columns="loss"))
    plain = MemberDraws.of(fit, fit.selections[0][1], runs, (0, 0))
    away = fit.extrapolation
    assert away is not None
    assert away.discrepancy is not None
    walk = replace(with_corner(away.discrepancy.walk, corner), beyond=beyond)
    away = replace(away, discrepancy=replace(away.discrepancy, walk=walk))
    return plain, MemberDraws.of(away, fit.selections[0][1], runs, (0, 0))


def with_corner(walk: walks.Walk, mean: float) -> walks.Walk:
    """A walk with this mean error at an e-fold more N x D, in units of the learnt discrepancy."""
    return replace(walk, corners=tuple(replace(corner, mean=mean * bool(corner.mean)) for corner in walk.corners))


def corner_evidence(ladder: Ladder) -> Any:
    """Mean log density of held-out losses, array (means, spreads), if errors in corners have these over the sources.

    The means are in units of the learnt discrepancy, the sds are relative.
    """
    _, away = members(ladder, (math.log(USUAL), USUAL_SD), 0.0)
    draws = np.log(away.noisy(away.latent(slice(None)), slice(None)))
    low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=1)
    own = fitted(ladder).extrapolation
    assert own is not None
    assert own.discrepancy is not None
    way = with_corner(own.discrepancy.walk, 1.0).mean(away.covariates)
    size = float(np.median(np.minimum(own.discrepancy.scale, walks.MOST)))
    variance = ((high - low) / (2 * NormalDist().inv_cdf(0.95))) ** 2 + (CORNER_SPREADS[:, None] * way) ** 2
    residual = np.log(ladder.held["loss"].to_numpy()) - middle - CORNERS[:, None, None] * size * way
    return -0.5 * (np.log(variance) + residual**2 / variance).mean(axis=2)


def learnt_corner(known: dict[str, Any], without: str = "") -> float:
    """The mean error in corners, by the known sources with the evidence of one loss each, its spread over them integrated."""
    log = -0.5 * (CORNERS[:, None] / CORNER_SD) ** 2 - 0.5 * (CORNER_SPREADS / CORNER_SPREAD) ** 2
    log = log + sum(of_source for source, of_source in known.items() if source != without)
    weight = np.exp(log - log.max())
    return float((weight * CORNERS[:, None]).sum() / weight.sum())


def evidence(ladder: Ladder) -> Any:
    """Mean log density of some held-out losses, array (means, spreads), if log sizes have these means and sds over the sources."""
    _, away = members(ladder, walks.BEYOND, 0.0)
    fit, learnt_error = away.fit, away.fit.discrepancy
    assert learnt_error is not None
    rows = np.random.default_rng(0).permutation(len(ladder.held))[:ROWS]
    at = {name: column[rows] for name, column in away.covariates.items()}
    some = slice(None, None, 8)
    prior, conditional = sds(learnt_error.walk, at)
    centre = np.log(fit.law.predict(fit.draws, at)[some]) + learnt_error.learnt(at)[some]
    noise = fit.draws["sigma_point"][some] ** 2 * (1.4 if fit.noise.student else 1.0)
    noise = noise + (fit.draws["sigma_run"][some] ** 2 if fit.noise.run_effect else 0.0)
    squares = (np.log(ladder.held["loss"].to_numpy()[rows]) - centre) ** 2
    known = noise[:, None] + learnt_error.scale[some][:, None] ** 2 * prior**2
    of_size = np.empty((SIZES.size, len(rows)))
    for i, size in enumerate(SIZES):
        v = known + (size * conditional) ** 2
        of_size[i] = logsumexp(-0.5 * (np.log(2 * math.pi * v) + squares / v), axis=0) - math.log(len(v))
    shares = np.exp(-0.5 * ((np.log(SIZES) - MEANS[:, None, None]) / SPREADS[:, None]) ** 2)
    shares /= shares.sum(axis=2, keepdims=True)
    largest = of_size.max(axis=0)
    return (np.log(shares @ np.exp(of_size - largest)) + largest).mean(axis=2)


def sds(walk: walks.Walk, covariates: dict[str, Any]) -> tuple[Any, Any]:
    """Sds (n,) at settings of a walk of scale 1: of the combinations not learnt from the runs, and of all given the runs.

    The first is multiplied by `discrepancy`, the second by the size beyond the runs.
    """
    features, components = walk.features(covariates), walk.components(covariates)
    prior = np.maximum((features**2).sum(axis=1) - (components**2).sum(axis=1), 0.0)
    return np.sqrt(prior), np.sqrt(prior + (components**2 / (1 + walk.squares / walks.ROW_NOISE)).sum(axis=1))


def of_sources(every: list[Ladder], evidence: Iterable[Any]) -> dict[str, Any]:
    """The evidence of each source: the mean over its ladders and splits, so that it counts as that of one loss."""
    parts: dict[str, list[Any]] = {}
    for i, (ladder, of_ladder) in enumerate(zip(every, evidence, strict=True)):
        parts.setdefault(ladder.source, []).append(of_ladder)
        print(f"\r{i + 1} of {len(every)} fits", end="", file=sys.stderr)
    return {source: np.mean(of, axis=0) for source, of in parts.items()}


def learnt(known: dict[str, Any], without: str = "") -> tuple[float, float]:
    """Mean and sd of the log size beyond the runs of a new source, each known source with the evidence of one loss.

    They carry the uncertainty of the mean and the spread over sources, whose posterior is integrated on a grid.
    """
    log = -0.5 * ((MEANS[:, None] - math.log(USUAL)) / USUAL_SD) ** 2 - 0.5 * (SPREADS / SPREAD) ** 2
    log = log + sum(of_source for source, of_source in known.items() if source != without)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    mean = float((weight * MEANS[:, None]).sum())
    return mean, math.sqrt(float((weight * ((MEANS[:, None] - mean) ** 2 + SPREADS**2)).sum()))


def scores(loss: Any, draws: Any) -> dict[str, float]:
    """Means over rows: error and bias of the median, coverage, width of the 90% interval and CRPS, all relative to the loss."""
    low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=0)
    row = {"error": np.mean(np.abs(middle / loss - 1)), "bias": np.mean(middle / loss - 1)}
    for prob in PROBABILITIES:
        ends = np.quantile(draws, [(1 - prob) / 2, (1 + prob) / 2], axis=0)
        row[f"{prob:.0%}"] = np.mean((loss >= ends[0]) & (loss <= ends[1]))
    return {k: float(v) for k, v in row.items()} | {
        "width": float(np.mean((high - low) / loss)), "crps": float(np.mean(crps(loss, draws) / loss))
    }  # fmt: skip


def if_right(draws: Any, seed: int) -> Any:
    """Shares of losses in 50, 80 and 90% intervals if they were right, array (RIGHT, 3): of draws (S, rows), each once the truth.

    A draw has one error of the law in all its rows, so that many rows of few runs count as little as they should.
    """
    truths = np.random.default_rng(seed).choice(draws, RIGHT)
    shares = []
    for prob in PROBABILITIES:
        low, high = np.quantile(draws, [(1 - prob) / 2, (1 + prob) / 2], axis=0)
        shares.append(((truths >= low) & (truths <= high)).mean(axis=1))
    return np.stack(shares, axis=1)


def linearised(point: Any, held: pd.DataFrame, size: int = 2000) -> tuple[Any, float]:
    """Draws of the log loss from the covariance of a least-squares fit at its minimum, and the sd of its residuals."""
    names, best = list(point.parameters), np.log([point.parameters[n] for n in point.parameters])

    def log_loss(x: Any, at: Any) -> Any:
        return np.log(point.law.predict({n: np.array([math.exp(v)]) for n, v in zip(names, x, strict=True)}, at)[0])

    def slopes(at: Any) -> Any:
        steps = 1e-4 * np.eye(best.size)
        return np.stack([(log_loss(best + h, at) - log_loss(best - h, at)) / 2e-4 for h in steps], axis=1)

    seen, asked = point.observed.covariates, {n: held[n].to_numpy() for n in ("N", "D")}
    residual = point.observed.response - log_loss(best, seen)
    sigma = math.sqrt(float(residual @ residual) / max(1, residual.size - best.size))
    half = np.linalg.pinv(slopes(seen)) * sigma
    normal = np.random.default_rng(0).standard_normal((size, half.shape[1]))
    return log_loss(best, asked) + normal @ (slopes(asked) @ half).T, sigma


def of_points(ladder: Ladder) -> dict[str, Any]:
    """Draws at the held-out rows by the point fit, from its bootstrap and linearised, with noise of the residuals' size."""
    point = bayeslaw.point_fit(LAW, ladder.fitted, starts=30)
    at, rng = {n: ladder.held[n].to_numpy() for n in ("N", "D")}, np.random.default_rng(0)
    linear, sigma = linearised(point, ladder.held)
    resampled = np.repeat(np.log(point.law.predict(point.bootstrap(RESAMPLES), at)), 20, axis=0)
    noisy = {"linear": linear, "bootstrap": resampled}
    return {name: np.exp(draws + sigma * rng.standard_normal(draws.shape)) for name, draws in noisy.items()}


def scored(job: tuple[Ladder, tuple[float, float], float]) -> list[dict[str, Any]]:
    """Scores of every kind of interval on one split of a ladder."""
    ladder, beyond, corner = job
    loss, whole = ladder.held["loss"].to_numpy(), slice(None)
    plain, away = members(ladder, beyond, corner)
    (_, packaged), (_, without) = members(ladder, walks.BEYOND, stated_corner()), members(ladder, beyond, 0.0)
    exact = plain.noisy(plain.latent(whole), whole).T
    error = plain.discrepancy.at(plain.covariates).T
    middle = np.median(exact, axis=0)
    every = {
        "run": exact,
        "wider": middle * (exact / middle) ** WIDER,
        "extrapolated": away.noisy(away.latent(whole), whole).T,
        "without": without.noisy(without.latent(whole), whole).T,
        "package": packaged.noisy(packaged.latent(whole), whole).T,
    } | of_points(ladder)
    every |= {f"constant {sd:g}": exact * np.exp(sd * error) for sd in CONSTANT}
    assert away.fit.discrepancy is not None
    where = {
        "source": ladder.source, "set": ladder.name, "split": ladder.split, "fitted": len(ladder.fitted), "held": len(loss),
        "passed": plain.fit.passed, "discrepancy": float(np.median(away.fit.discrepancy.scale)),
        "inside": held_inside(ladder),
    }  # fmt: skip
    right = {"extrapolated": if_right(every["extrapolated"], ladder.seed)}
    return [where | {"kind": kind, "right": right.get(kind)} | scores(loss, draws) for kind, draws in every.items()]


def constant_of_others(rows: pd.DataFrame) -> pd.DataFrame:
    """For every source the constant discrepancy with the least CRPS on the other sources, in all its rows."""
    constants = rows[rows["kind"].str.startswith("constant")]
    by_source = means(constants)["crps"].groupby(["kind", "source"]).mean().unstack()  # noqa: PD010 - of a series
    found = []
    for source in by_source:
        best = by_source.drop(columns=source).mean(axis=1).idxmin()
        found.append(
            constants[(constants["kind"] == best) & (constants["source"] == source)].assign(kind="constant", stated=str(best))
        )
    return pd.concat(found)


def means(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over the sets of every kind, split and source."""
    return rows.groupby(["kind", "split", "source"])[["error", "bias", "50%", "80%", "90%", "width", "crps", "discrepancy"]].mean()


def ranges_if_right(rows: pd.DataFrame) -> str:
    """The measured means over sources and the ranges in which right intervals' means would lie, with 95% probability, by split."""
    some, body = rows[rows["kind"] == "extrapolated"], []
    for split in SPLITS:
        of_split = some[some["split"] == split]
        by_source = [np.mean(list(part["right"]), axis=0) for _, part in of_split.groupby("source")]
        low, high = np.quantile(np.mean(by_source, axis=0), [0.025, 0.975], axis=0)
        measured = of_split.groupby("source")[["50%", "80%", "90%"]].mean().mean()
        cells = {
            f"in {name}": f"{percent(value, 0)} ({percent(a, 0)} to {percent(b, 0)})"
            for (name, value), a, b in zip(measured.items(), low, high, strict=True)
        }
        under = (np.array(by_source)[:, :, 2] < LOW).sum(axis=0)
        few = (of_split.groupby("source")["90%"].mean() < LOW).sum()
        cells["sources of which 90% hold under 70% (if right: mean; 95% quantile)"] = (
            f"{few} ({under.mean():.1f}; {np.quantile(under, 0.95):.0f})"
        )
        body.append({"split": split, "losses": str(of_split["held"].sum())} | cells)
    return markdown_table(body)


def by_backtest(rows: pd.DataFrame) -> str:
    """How often intervals hold beyond the runs, by whether a backtest inside them showed misfit."""
    groups = {f"at least {percent(SOUND, 0)}": rows[rows["inside"] >= SOUND], "fewer": rows[rows["inside"] < SOUND]}
    body = []
    for words, some in groups.items():
        named = {"run": "run", f"{WIDER:g} x run": "wider", "extrapolated": "extrapolated"}
        of: dict[str, Any] = {name: means(some).loc[kind].groupby("source").mean().mean() for name, kind in named.items()}
        body.append({
            "held by the backtest": words, "splits": str(len(some[["source", "set", "split"]].drop_duplicates())),
            "sources": str(some["source"].nunique()),
            **{f"in {name}": percent(mean["90%"], 0) for name, mean in of.items()},
            "width of run": percent(of["run"]["width"], 1), "of extrapolated": percent(of["extrapolated"]["width"], 1),
            "error of run": percent(of["run"]["error"], 2), "of extrapolated's median": percent(of["extrapolated"]["error"], 2),
        })  # fmt: skip
    return markdown_table(body)


def report(rows: pd.DataFrame, beyond: dict[str, tuple[float, float]], corner: dict[str, float]) -> str:
    """The tables as text."""
    scored_by, lines = means(rows), list[str]()
    for split in (*SPLITS, "all"):
        body = []
        for kind, words in NAMES.items():
            own: Any = scored_by.loc[kind].groupby("source").mean() if split == "all" else scored_by.loc[(kind, split)]
            mean = own.mean()
            body.append({
                "intervals": words, "error": percent(mean["error"], 2), "bias": percent(mean["bias"], 2),
                **{f"in {p}": percent(mean[p], 0) for p in ("50%", "80%", "90%")},
                "sources under 70%": str((own["90%"] < LOW).sum()), "width of 90%": percent(mean["width"], 1),
                "CRPS / loss": percent(mean["crps"], 2),
            })  # fmt: skip
        lines += [f"## {'Mean of the splits' if split == 'all' else f'Split: {split}'}\n", markdown_table(body), ""]
    table: Any = scored_by.loc["extrapolated"].reset_index().sort_values(["source", "split"])
    counts: Any = rows[rows["kind"] == "extrapolated"].groupby(["source", "split"])["held"].sum()
    body = [{
        "source": row["source"], "split": row["split"], "losses": str(counts[row["source"], row["split"]]),
        "in 50%": percent(row["50%"], 0), "in 90%": percent(row["90%"], 0), "error": percent(row["error"], 2),
        "bias": percent(row["bias"], 2), "width of 90%": percent(row["width"], 1), "discrepancy": percent(row["discrepancy"], 2),
        "beyond, learnt without it": f"{percent(math.exp(beyond[row['source']][0]), 2)}, sd of log {beyond[row['source']][1]:.2f}",
        "in corners, learnt without it": f"{corner[row['source']]:.2f}",
    } for row in table.to_dict("records")]  # fmt: skip
    lines += [RIGHTLY, ranges_if_right(rows), ""]
    return "\n".join([*lines, BACKTESTS.format(wider=WIDER), by_backtest(rows), "", SOURCES, markdown_table(body)])


def main() -> None:
    every = ladders()
    with ProcessPoolExecutor(2) as pool:
        known, of_corners = (of_sources(every, pool.map(of, every)) for of in (evidence, corner_evidence))
        beyond = {source: learnt(known, source) for source in known}
        corner = {source: learnt_corner(of_corners, source) for source in known}
        jobs = [(ladder, beyond[ladder.source], corner[ladder.source]) for ladder in every]
        rows = pd.DataFrame([row for part in pool.map(scored, jobs) for row in part])
    whole = learnt(known)
    stated = constant_of_others(rows)
    rows = pd.concat([rows[~rows["kind"].str.startswith("constant ")], stated])
    failed = rows[(rows["kind"] == "run") & ~rows["passed"]]
    print(f"# Intervals on real ladders\n\n{banner('ladders')}\n")
    count, package = len(rows[["source", "set"]].drop_duplicates()), walks.BEYOND
    print(
        HEAD.format(
            law=LAW,
            ladders=count,
            sources=len(known),
            splits=len(every),
            failed=len(failed),
            whole=whole,
            package=package,
            corner=learnt_corner(of_corners),
            stated=stated_corner(),
            usual=USUAL,
            factor=math.exp(USUAL_SD),
            spread=SPREAD,
        )
    )
    print(report(rows, beyond, corner))
    rows.drop(columns="right").to_csv(KEPT / "rows.csv", index=False)


if __name__ == "__main__":
    main()
