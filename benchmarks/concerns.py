"""How often sound models raise concerns: truths drawn from the priors of law and noise, fitted by the same law and noise.

    python benchmarks/concerns.py [--truths 100] [--laws chinchilla …]   # prints the report kept in benchmarks/results/concerns.md

Tables are those of `truths`. Every fit counts, whether or not its sampling passed: the checks look at residuals and medians.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import Any

import truths
from tables import banner, markdown_table

import bayeslaw
from bayeslaw.core.errors import BayeslawError
from bayeslaw.posterior.diagnostics import concerns

DRAWS: dict[str, Any] = {"draws": 400, "tune": 300, "chains": 2}
CASES = (
    ("chinchilla", "auto"), ("chinchilla", "normal"), ("kaplan", "auto"), ("d-cpt", "auto"), ("ptpp-floor", "auto"),
    ("transfer-target", "auto"), ("transfer-target", "normal-checkpoint"), ("annealing", "normal"),
    ("from-base-source", "auto"),
)  # fmt: skip


def counted(law: str, noise: str, numbers: range) -> dict[str, Any]:
    """The share of truths with each concern, in percent."""
    found, fits = Counter[str](), 0
    for number in numbers:
        try:
            drawn = truths.truth(bayeslaw.load_law(law), number, {"noise": noise})
            fit = bayeslaw.fit(law, drawn.runs, noise=noise, seed=number, progress=False, cores=1, **DRAWS)
        except BayeslawError as error:  # the column `truths` counts fits
            print(law, noise, number, error, sep=" | ", file=sys.stderr, flush=True)
            continue
        fits += 1
        found.update({check.name for check in concerns(fit.checks)})
        found["any"] += bool(concerns(fit.checks))
        print(law, noise, number, *(str(check) for check in concerns(fit.checks)), sep=" | ", file=sys.stderr, flush=True)
    return {"law": law, "noise": noise, "truths": fits} | {name: f"{100 * n / max(fits, 1):.0f}" for name, n in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--truths", type=int, default=100)
    parser.add_argument("--laws", nargs="*")
    given = parser.parse_args()
    rows = [counted(law, noise, range(given.truths)) for law, noise in CASES if not given.laws or law in given.laws]
    names = sorted({name for row in rows for name in row} - {"law", "noise", "truths", "any"})
    print("# Concerns about sound models\n\n" + banner("concerns") + "\n")
    print(
        "Percent of truths, drawn from the priors of law and noise, whose fit raises each concern. `values` names parameters that"
    )
    print("the design of two stages can't identify: it is no false alarm. Only the runs of from-base-source drift.\n")
    print(markdown_table([{k: row.get(k, "0") for k in ("law", "noise", "truths", *names, "any")} for row in rows]))


if __name__ == "__main__":
    main()
