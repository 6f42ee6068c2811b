"""Exponents of model size and data that public ladders show, for the priors of laws of continual pre-training.

    BAYESLAW_SHARED_DATA=… python benchmarks/exponents.py        # prints the report kept in benchmarks/results/exponents.md

Four forms of pre-training are fitted to all rows of every ladder, with priors of the exponents so wide that they do not decide.
None of the ladders has continual pre-training, and none is a sweep on which laws of it are scored.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
from ladders import tables
from tables import banner, markdown_table

import bayeslaw
from bayeslaw.laws.card import parse_card
from bayeslaw.laws.formula import Expression
from bayeslaw.laws.law import Law

FORMS = {
    "Chinchilla": "E + A/N**alpha + B/D**beta",
    "plateau, power 3/2": "E + U/(1 + (A/N**alpha + B/D**beta)**(-1.5))**(1/1.5)",
    "plateau, power 1": "E + U/(1 + 1/(A/N**alpha + B/D**beta))",
    "transfer": "E + A/N**alpha + F/(N**delta*(D/N)**eta)",
}
CARD = """
name = "wide"
title = "A form of pre-training with wide priors of its exponents"
source = "benchmarks/exponents.py"
loss = "{loss}"
huber_delta = 0.02
[covariates]
N = {{ unit = "parameters", support = [1e3, 1e13] }}
D = {{ unit = "tokens", support = [1, 1e15] }}
"""
PARAMETER = """
[parameters.{name}]
meaning = "{name} of the card plateau-source, plateau-target or transfer-source"
prior = {{ dist = "LogNormal", {prior} }}
"""
EXPONENTS = ("alpha", "beta", "delta", "eta")
PRIORS = {
    "E": "mu = 0.1, sigma = 0.5",
    "U": "mu = 1.15, sigma = 0.65",
    "A": 'mu = -0.9, sigma = 1.5, on = "A/N**alpha"',
    "B": 'mu = -0.7, sigma = 1.5, on = "B/D**beta"',
    "F": 'mu = -1.5, sigma = 1.5, on = "F/(N**delta*(D/N)**eta)"',
} | dict.fromkeys(EXPONENTS, "mu = -0.8, sigma = 0.8")


def law(loss: str) -> Law:
    """The law of a form."""
    used = [name for name in PRIORS if name in Expression.parse(loss).names]
    return parse_card(CARD.format(loss=loss) + "".join(PARAMETER.format(name=name, prior=PRIORS[name]) for name in used))


def work(task: tuple[str, str, pd.DataFrame]) -> list[dict[str, Any]]:
    """Means of the log exponents of a ladder, by every form."""
    source, name, table = task
    rows = []
    for form, loss in FORMS.items():
        fit = bayeslaw.fit(law(loss), table[["N", "D", "loss"]], discrepancy="none", progress=False, cores=1)
        means = {f"{p}, {form}": float(np.log(fit.draws[p]).mean()) for p in EXPONENTS if p in fit.draws}
        rows.append({"source": source, "ladder": name, "passed": fit.passed} | means)
    return rows


def main() -> None:
    with ProcessPoolExecutor(2) as pool:
        rows = pd.DataFrame([row for part in pool.map(work, tables()) for row in part])
    columns = [str(name) for name in rows if ", " in str(name)]
    means: Any
    means, ladders = rows.groupby("source")[columns].mean(), rows.groupby("source")["ladder"].nunique()
    print(f"# Exponents that public ladders show\n\n{banner('exponents')}\n")
    print("Forms: " + ", ".join(f"`{loss}` ({form})" for form, loss in FORMS.items()) + ".")
    print("Prior of every exponent: LogNormal(-0.8, 0.8), that is 0.09 to 2.2 with 95% probability.")
    print("Posterior means of the log exponents, in the mean over a source's ladders. Fits whose checks failed:")
    print(f"{(~rows['passed']).sum()} of {len(rows)}.\n")
    body: list[dict[str, Any]] = [
        {"source": str(source), "ladders": str(n)} | {name: f"{means.loc[source, name]:.2f}" for name in columns}
        for source, n in ladders.items()
    ]
    over = {name: f"{means[name].mean():.2f}, {means[name].std():.2f}" for name in columns}
    print(markdown_table([*body, {"source": "mean, sd over sources", "ladders": str(ladders.sum())} | over]))
    print("\nThe last row is about what the priors of `alpha` and `beta` in `plateau-source` and `plateau-target` have,")
    print("for their forms of the plateau (powers 3/2 and 1), and that of `alpha` in the `transfer-` laws (Chinchilla).")
    print("Those of `delta` and `eta` in the `transfer-` laws are smaller: see docs/decisions/laws.md.")


if __name__ == "__main__":
    main()
