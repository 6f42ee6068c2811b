"""Exponents of model size and data that public ladders show, for the priors of laws of continual pre-training.

    BAYESLAW_SHARED_DATA=… python benchmarks/exponents.py        # prints the report kept in benchmarks/results/exponents.md

Three forms of pre-training are fitted to all rows of every ladder, with priors of the exponents so wide that they do not decide.
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

FORMS = {
    "Chinchilla": "E + x",
    "plateau, power 3/2": "E + U/(1 + x**(-1.5))**(1/1.5)",
    "plateau, power 1": "E + U*x/(1 + x)",
}
CARD = """
name = "wide"
title = "A form of pre-training with wide priors of its exponents"
source = "benchmarks/exponents.py"
loss = "{loss}"
huber_delta = 0.02
[let]
x = "A/N**alpha + B/D**beta"
[covariates]
N = {{ unit = "parameters", support = [1e3, 1e13] }}
D = {{ unit = "tokens", support = [1, 1e15] }}
[parameters.E]
meaning = "irreducible loss"
unit = "nats/token"
prior = {{ dist = "LogNormal", mu = 0.1, sigma = 0.5 }}
[parameters.A]
meaning = "scale of the model-size term"
unit = "parameters^alpha"
prior = {{ dist = "LogNormal", mu = -0.9, sigma = 1.5, on = "A/N**alpha" }}
[parameters.alpha]
meaning = "model-size exponent"
prior = {{ dist = "LogNormal", mu = -0.8, sigma = 0.8 }}
[parameters.B]
meaning = "scale of the data term"
unit = "tokens^beta"
prior = {{ dist = "LogNormal", mu = -0.7, sigma = 1.5, on = "B/D**beta" }}
[parameters.beta]
meaning = "data exponent"
prior = {{ dist = "LogNormal", mu = -0.8, sigma = 0.8 }}
"""
PLATEAU = """
[parameters.U]
meaning = "plateau"
unit = "nats/token"
prior = { dist = "LogNormal", mu = 1.15, sigma = 0.65 }
"""
EXPONENTS = ("alpha", "beta")


def work(task: tuple[str, str, pd.DataFrame]) -> list[dict[str, Any]]:
    """Means and sds of the log exponents of a ladder, by every form."""
    source, name, table = task
    rows = []
    for form, loss in FORMS.items():
        law = parse_card(CARD.format(loss=loss) + PLATEAU * ("U" in loss))
        fit = bayeslaw.fit(law, table[["N", "D", "loss"]], discrepancy="none", progress=False, cores=1)
        logs = {p: np.log(fit.draws[p]) for p in EXPONENTS}
        row = {"source": source, "ladder": name, "form": form, "rows": len(table), "passed": fit.passed}
        rows.append(row | {p: v.mean() for p, v in logs.items()} | {f"{p} sd": v.std() for p, v in logs.items()})
    return rows


def main() -> None:
    with ProcessPoolExecutor(2) as pool:
        rows = pd.DataFrame([row for part in pool.map(work, tables()) for row in part])
    ladders = rows.groupby("source")["ladder"].nunique()
    columns: dict[str, Any] = {
        f"{p}, {form}": rows[rows["form"] == form].groupby("source")[p].mean() for form in FORMS for p in EXPONENTS
    }
    print(f"# Exponents that public ladders show\n\n{banner('exponents')}\n")
    forms = ", ".join(f"`{loss}` ({form})" for form, loss in FORMS.items())
    print(f"With `x = A/N^alpha + B/D^beta` the loss is {forms}. Prior of both exponents: LogNormal(-0.8, 0.8),")
    print("that is 0.09 to 2.2 with 95% probability. Posterior means of the log exponents, in the mean over a source's ladders.")
    print(f"Fits whose checks failed: {(~rows['passed']).sum()} of {len(rows)}.\n")
    body = [
        {"source": str(source), "ladders": str(n)} | {name: f"{means[source]:.2f}" for name, means in columns.items()}
        for source, n in ladders.items()
    ]
    over = {name: f"{means.mean():.2f}, {means.std():.2f}" for name, means in columns.items()}
    print(markdown_table([*body, {"source": "mean, sd over sources", "ladders": str(ladders.sum())} | over]))
    print("\nThe last row is about what the priors of `alpha` and `beta` in `plateau-source` and `plateau-target` have,")
    print("for their forms of the plateau (powers 3/2 and 1), and that of `alpha` in the `transfer-` laws (Chinchilla).")


if __name__ == "__main__":
    main()
