"""Sensitivity of the transfer laws' forecasts to priors, and neighbouring laws that were tried.

    python benchmarks/sensitivity.py         # prints the tables kept in benchmarks/results/sensitivity.md

Posteriors on the measured losses of data/tinycpt, fitted and scored as in forecasts.py: mean relative error of settled rows and
the share of them in the equal-tailed 90% interval of the next run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from forecasts import DATA, OURS, scored, seed_0, splits
from tables import banner, markdown_table

import bayeslaw
from bayeslaw.data.table import Runs
from bayeslaw.laws.card import parse_card
from bayeslaw.laws.law import Law

SIZES = [13_824.0, 24_576.0, 57_600.0, 110_592.0, 196_608.0]
CASES = [("runs.csv", "stages"), ("runs.csv", "sizes"), ("runs-docs.csv", "stages")]

# One law for both domains: the gap G may be negative, and replay counts as pre-training with weight s.
ONE_LAW = (
    "E + A/N**alpha + F/(N**delta*(ptpp + s*r*D/N)**eta*(1 + new/tau)**kappa)"
    " - G*(1 - r)**c*(1 - (1 + new/h)**(-q)) + J*minimum(D, 1)"
)


def with_parameters(card: str, name: str, extra: dict[str, str]) -> Law:
    """A card's text under another name with additional parameters."""
    sections = [f'[parameters.{k}]\nmeaning = "{k}"\nunit = ""\nprior = {{ {prior} }}\n' for k, prior in extra.items()]
    return parse_card(card.replace('name   = "transfer-', f'name   = "{name}-') + "\n" + "\n".join(sections), name)


def free_replay() -> Law:
    """transfer-source with a free weight of replayed tokens; s = 1 is the card."""
    card = bayeslaw.load_law("transfer-source").card.replace("ptpp + r*D/N", "ptpp + s*r*D/N")
    return with_parameters(card, "free-replay", {"s": 'dist = "Beta", alpha = 1, beta = 1'})


def one_law() -> Law:
    """transfer-target with a gap of either sign, a weight of replayed tokens and a jump; its other priors are the card's."""
    law = bayeslaw.load_law("transfer-target")
    more = {"s": 'dist = "Beta", alpha = 1, beta = 1', "J": 'dist = "LogNormal", mu = -3.0, sigma = 1.0'}
    return with_parameters(law.card.replace(law.formula.text, ONE_LAW), "one-law", more).with_priors({"G": "Normal(0, 1.5)"})


def outcome(law: Law | str, seen: Runs, held: Runs, priors: dict[str, str]) -> dict[str, Any]:
    fit = bayeslaw.fit(law, seen, progress=False, priors=priors)
    found = scored(fit, held.frame)
    return {"error": f"{found['settled error']:.1%}", "in 90%": f"{found['settled cover_eti90']:.0%}", "fit": fit}


def over_cases(law_of: Any, domains: tuple[str, ...] = ("target", "source"), show: tuple[str, ...] = (), **priors: str) -> str:
    """Scores of a law, with other priors, for each table, domain and split, with medians of the named parameters."""
    rows = []
    for domain in domains:
        for table, key in CASES:
            runs = seed_0(table, domain)
            split = splits(SIZES)[key]
            cells = outcome(law_of(domain), runs.where(split.seen), runs.where(split.held), priors)
            fit = cells.pop("fit")
            medians = {name: f"{np.median(fit.draws[name]):.2f}" for name in show}
            rows.append({"table": table, "domain": domain, "held out": split.title} | cells | medians)
    return markdown_table(rows)


def all_stages() -> str:
    """Fits to all stages at r .05 to .5: eta, and forecasts at the held-out replay shares."""
    rows = []
    for domain, law in OURS.items():
        runs = seed_0("runs.csv", domain)
        fit = bayeslaw.fit(law, runs, progress=False)
        low, eta, high = np.quantile(fit.draws["eta"], [0.05, 0.5, 0.95])
        row = {"law": law, "eta, median": f"{eta:.2f}", "eta_eti90": f"{low:.2f} to {high:.2f}"}
        for r in (0, 1):
            held = bayeslaw.read_runs(DATA / "runs.csv", f"domain == '{domain}' and seed == 0 and D > 0 and r == {r}")
            row[f"error at r = {r}"] = f"{bayeslaw.score(fit, held, discrepancy='none', force=True)['mae_rel'].iloc[0]:.1%}"
        rows.append(row)
    return markdown_table(rows)


def main() -> None:
    print("# Sensitivity of the forecasts\n\n" + banner("sensitivity") + "\n")
    print("## The prior of eta: sd .35 instead of .2\n")
    print(over_cases(OURS.get, show=("eta",), eta="LogNormal(-1.1, 0.35)") + "\n", flush=True)
    for sd in (0.005, 0.01):
        print(f"## The prior of the run effect: HalfNormal({sd}) instead of HalfNormal(0.003)\n")
        print(over_cases(OURS.get, show=("sigma_run",), sigma_run=f"HalfNormal({sd})") + "\n", flush=True)
    print("## A free weight of replayed tokens (s = 1: that of a pre-training token)\n")
    print(over_cases(lambda _: free_replay(), ("source",), ("s",)) + "\n", flush=True)
    print(f"## One law for both domains\n\nloss = {ONE_LAW}, new = (1 - r)*D\n")
    print(over_cases(lambda _: one_law(), show=("s",)) + "\n", flush=True)
    print("## Fitted to all five stages, r .05 to .5\n")
    print(all_stages())


if __name__ == "__main__":
    main()
