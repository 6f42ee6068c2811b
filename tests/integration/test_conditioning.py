"""Measured losses of tinycpt: what a fit has learnt of a checkpoint is used where that checkpoint is asked for.

`benchmarks/conditioning.py` prints the numbers behind the limits here.
"""

from __future__ import annotations

import conditioning
import numpy as np

import bayeslaw
from tests.posteriors import best_of


def test_an_unseen_replay_share_of_fitted_checkpoints() -> None:
    seen, held = conditioning.left_out_share(0.25)
    fit = bayeslaw.fit("transfer-target", seen, noise="normal-checkpoint", draws=500, progress=False)
    known, new = (bayeslaw.score(fit, held, as_=reading).iloc[0] for reading in ("known", "new-checkpoint"))
    assert known["mae_rel"] <= 0.01
    assert 0.85 <= known["cover_eti90"] <= 0.99
    assert known["crps"] < 0.5 * new["crps"]


def test_a_plan_is_kept_as_often_as_it_says_where_base_and_run_err_alike() -> None:
    """Errors of base and run that are drawn apart make the plan longer than it has to be."""
    limit, fits = 0.1, conditioning.both()
    plan, longer = (
        conditioning.planned(each, limit) for each in (fits, {domain: conditioning.apart(fit) for domain, fit in fits.items()})
    )
    standard_error = np.sqrt(0.9 * 0.1 / plan.held_out.size)
    assert abs(conditioning.kept(plan, limit) - best_of(plan).held_out) <= 4 * standard_error
    assert conditioning.kept(longer, limit) > best_of(longer).held_out + 4 * standard_error
    assert best_of(longer).tokens > 1.5 * best_of(plan).tokens
