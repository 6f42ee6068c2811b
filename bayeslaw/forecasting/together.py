"""Fits of several laws to the same runs, as one stack with stated weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.table import Table, read_runs
from bayeslaw.forecasting.stack import Stack, read_weights, require_one_outcome
from bayeslaw.inference.fit import fit
from bayeslaw.laws.card import DOMAINS, load_laws
from bayeslaw.laws.law import Law
from bayeslaw.posterior.fit import Fit


def fit_stack(
    laws: Sequence[Law | str | Path],
    runs: Table,
    *,
    weights: Sequence[float] | None = None,
    **options: Any,
) -> Stack:
    """Fit several laws to the same runs, and put them into one stack.

    Laws that fit the same runs about as well may differ where nobody has measured. Their stack has an interval as wide as they
    differ, and its median errs less than most of them. `compare` learns weights from held-out runs; where these are too few, or
    lie in other directions than the forecasts, equal weights are safer.

    Parameters
    ----------
    laws : sequence of Law, name or path of a card
        Two or more, each once. Every law is fitted to the rows that it describes: base checkpoints (D = 0) are kept out where a
        law is not for them.
    runs : Runs, DataFrame or path
    weights : sequence of float, optional
        Positive, and 1 in all. Equal unless given.
    **options
        As in `fit`, for every law.

    Returns
    -------
    Stack

    Examples
    --------
    >>> stack = bayeslaw.fit_stack(["chinchilla", "overtraining"], "runs.csv", progress=False)
    >>> dict(stack.weights)
    {'chinchilla': 0.5, 'overtraining': 0.5}
    """
    loaded = laws_of_stack(laws)
    names = [law.name for law in loaded]
    given = np.ones(len(names)) / len(names) if weights is None else read_weights(weights)
    if given.size != len(names):
        raise BayeslawError(f"There are {given.size} weights for {len(names)} laws ({', '.join(names)}).", code="missing-weights")
    runs = read_runs(runs)
    members = dict[str, Fit]()
    for law in loaded:
        members[law.name] = fit(law, runs, **options)
        if members[law.name].info["interrupted"]:  # Ctrl-C ends all fits, and a stack has none that was cut short
            raise KeyboardInterrupt
    return Stack(members, dict(zip(names, given.tolist(), strict=True)))


def laws_of_stack(laws: Sequence[Law | str | Path]) -> list[Law]:
    """Return the laws of a stack, or refuse those that cannot be in one: fewer than two, one twice, other outcomes or domains."""
    loaded = load_laws(laws)
    require_one_outcome(loaded)
    names = [law.name for law in loaded]
    if len(names) < 2 or len({*names}) < len(names):
        problem = f"A stack is fitted of two or more laws, each named once; these are {', '.join(names) or 'none'}."
        raise BayeslawError(problem, code="laws-of-a-stack")
    by_domain = {domain: ", ".join(law.name for law in loaded if law.domain == domain) for domain in DOMAINS}
    if all(by_domain.values()):
        shown = ", and ".join(f"{laws_of} those of the {domain}" for domain, laws_of in by_domain.items())
        raise BayeslawError(
            f"The laws of a stack describe the same losses: {shown}. Fit each by itself.", code="laws-of-two-domains"
        )
    return loaded
