"""Statistics of the records of `truths.work`: uniformity of ranks, coverage of intervals, and numbers of failed checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, kstest
from truths import RANKED

LEVELS = (0.5, 0.8, 0.9, 0.95)
BAND, SMALLEST_P = 0.99, 0.01
Record = Mapping[str, Any]


def positions(records: Sequence[Record]) -> dict[str, NDArray[np.float64]]:
    """For each parameter the ranks as numbers between 0 and 1, jittered within their step: uniform if the ranks are.

    A truth without a fit has the lowest rank for every parameter.
    """
    names: Sequence[str] = next((list(r["ranks"]) for r in records if "ranks" in r), ())
    found = {}
    for i, name in enumerate(names):
        ranks = np.array([r["ranks"][name] if "ranks" in r else 0 for r in records])
        found[name] = (ranks + np.random.default_rng(i).uniform(size=ranks.size)) / (RANKED + 1)
    return found


def uniformity(values: NDArray[np.float64]) -> float:
    """p of ArviZ's test of uniformity (`pot_c`: pointwise order statistics, put together by Cauchy's combination).

    The test is made for small p: those above .1 are only approximate, those below .01 are accurate (measured for 40 and 100 ranks).
    """
    import arviz_stats.base as base

    array_stats: Any = vars(base)["array_stats"]  # not in its type hints
    return float(array_stats.uniformity_test(values, method="pot_c")[0])


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p values with Holm's step-down adjustment, which controls the family-wise error rate."""
    adjusted, largest = {}, 0.0
    for i, name in enumerate(sorted(p, key=lambda k: p[k])):
        largest = max(largest, min(1.0, (len(p) - i) * p[name]))
        adjusted[name] = largest
    return adjusted


def covered(pit: NDArray[np.float64], level: float) -> int:
    """Number of truths in the equal-tailed interval of a probability."""
    return int((np.abs(pit - 0.5) <= level / 2).sum())


def band(count: int, level: float) -> tuple[int, int]:
    """Binomial band, of probability `BAND`, of the number of `count` independent intervals that cover."""
    low, high = binom.interval(BAND, count, level)
    return int(low), int(high)


def binom_within(count: int, level: float) -> float:
    """Probability that the number of right intervals that cover lies in its band."""
    low, high = band(count, level)
    return float(binom.cdf(high, count, level) - binom.cdf(low - 1, count, level))


def outside(count: int, hits: Mapping[float, int]) -> list[str]:
    """Where the numbers of intervals that cover leave their bands: 'over at 50%', 'under at 95%'."""
    found = []
    for level, n in hits.items():
        low, high = band(count, level)
        if not low <= n <= high:
            found.append(f"{'under' if n < low else 'over'} at {100 * level:g}%")
    return found


def pits(records: Sequence[Record], target: int) -> NDArray[np.float64]:
    """PIT of one target; 0, which no interval covers, for a truth without a fit or a forecast."""
    return np.array([r["pit"][target] if "pit" in r else 0.0 for r in records])


def summary(name: str, records: Sequence[Record]) -> dict[str, Any]:
    """One case's numbers: truths, refused tables, checks, the least uniform parameter, coverage of the first target."""
    adjusted = holm({k: uniformity(v) for k, v in positions(records).items()})
    worst, pit = min(adjusted, key=lambda k: adjusted[k]), pits(records, 0)
    hits = {level: covered(pit, level) for level in LEVELS}
    return {
        "case": name,
        "truths": pit.size,
        "no_fit": sum("error" in r for r in records),
        "no_forecast": sum("no_forecast" in r for r in records),
        "refused": sum(r.get("refused", 0) for r in records),
        "failed_first": Counter(c for r in records for c in r.get("failed_first", ())),
        "refits": sum(bool(r.get("failed_first")) for r in records),
        "failed": Counter(c for r in records for c in r.get("failed", ())),
        "still": sum(bool(r.get("failed")) for r in records),
        "worst": worst,
        "p": adjusted[worst],
        "uniform": adjusted[worst] > SMALLEST_P,
        "pit": pit,
        "hits": hits,
        "outside": outside(pit.size, hits),
        "width": float(np.median([abs(r["width"][0]) for r in records if "width" in r])),
        "seconds": float(np.mean([r["seconds"] for r in records])),
    }


def _named(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.most_common()) or "none"


def checks_table(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Numbers of truths, refits and failed checks."""
    return [
        {
            "case": r["case"],
            "truths": r["truths"],
            "no fit": r["no_fit"],
            "no forecast": r["no_forecast"],
            "refused tables": r["refused"],
            "fitted again": r["refits"],
            "checks failed at first": _named(r["failed_first"]),
            "failing in the end": r["still"],
            "checks failed in the end": _named(r["failed"]),
            "core s a fit": f"{r['seconds']:.1f}",
        }
        for r in rows
    ]


def ranks_table(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Uniformity of ranks."""
    return [
        {
            "case": r["case"],
            "truths": r["truths"],
            "least uniform": r["worst"],
            "p, Holm": f"{r['p']:.3f}",
            f"p > {SMALLEST_P:g}": "yes" if r["uniform"] else "NO",
        }
        for r in rows
    ]


def coverage_table(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Coverage of the first target in percent, with its binomial band, of each case and of all truths, which are independent."""
    table = [_coverage(r["case"], r["pit"]) | {"median 90% width": f"{100 * r['width']:.1f}%"} for r in rows]
    return [*table, _coverage("all", np.concatenate([r["pit"] for r in rows])) | {"median 90% width": ""}]


def _coverage(name: str, pit: NDArray[np.float64]) -> dict[str, Any]:
    row, hits = {"case": name, "truths": pit.size}, {level: covered(pit, level) for level in LEVELS}
    for level, n in hits.items():
        low, high = (100 * v / pit.size for v in band(pit.size, level))
        row[f"in {100 * level:g}%"] = f"{100 * n / pit.size:.0f} ({low:.0f} to {high:.0f})"
    return row | {
        "outside the bands": ", ".join(outside(pit.size, hits)) or "no",
        "PIT, KS p": f"{kstest(pit, 'uniform').pvalue:.3f}",
    }


def others_table(records: Mapping[str, Sequence[Record]]) -> list[dict[str, Any]]:
    """Coverage of the second and third target; they share truths with the first, so no band is given."""
    table = []
    for name, found in records.items():
        row: dict[str, Any] = {"case": name}
        for target, title in ((1, "seen size"), (2, "within the runs")):
            pit = pits(found, target)
            row |= {f"{title}, in {100 * v:g}%": f"{100 * covered(pit, v) / pit.size:.0f}" for v in (0.5, 0.9)}
        table.append(row)
    return table
