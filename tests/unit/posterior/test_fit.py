"""A fit as its users hold it: what they do with its arrays does not change it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bayeslaw.posterior.fit import Fit
from tests.fixed import line_fit, loaded_fit


def _still_whole(fit: Fit, folder: Path) -> bool:
    fit.save(folder / "fit.nc")
    return bool(loaded_fit(folder / "fit.nc").info["draws_sha256"] == fit.info["draws_sha256"])


def test_draws_are_read_and_not_changed(tmp_path: Path) -> None:
    fit = line_fit()
    for draws in (fit.draws, fit.by_chain, fit.draws_of(slice(0, 10))):
        with pytest.raises(ValueError, match="read-only"):
            draws["a"].sort()
        with pytest.raises(ValueError, match="read-only"):
            draws["a"] *= 1e3
    with pytest.raises(ValueError, match="read-only"):
        fit.tree["posterior"].to_dataset()["a"].values[:] = 0.0
    with pytest.raises(ValueError, match="read-only"):
        fit.tree["observed_data"].to_dataset()[fit.outcome.observed].values[:] = 0.0
    assert (np.diff(np.sort(fit.draws["a"])) >= 0).all()  # as for an empirical distribution
    assert _still_whole(fit, tmp_path)


def test_a_tree_for_arviz_may_be_changed(tmp_path: Path) -> None:
    fit = line_fit()
    before, data = fit.draws["a"].copy(), fit.observed.response.copy()
    tree = fit.to_datatree(["posterior", "sample_stats", "observed_data", "constant_data"])
    tree["posterior"]["a"] /= 1e3
    tree["posterior"].to_dataset()["b"].values.sort()
    tree["observed_data"][fit.outcome.observed] += 1.0
    tree["constant_data"].to_dataset()["x"].values[:] = 0.0
    np.testing.assert_array_equal(fit.draws["a"], before)
    np.testing.assert_array_equal(fit.observed.response, data)
    assert fit.observed.covariates["x"].any()
    assert _still_whole(fit, tmp_path)


def test_a_tree_for_arviz_numbers_its_chains_and_draws() -> None:
    tree = line_fit().to_datatree()
    for name in ("posterior", "sample_stats", "log_likelihood", "log_prior", "prior", "posterior_predictive"):
        for dim in ("chain", "draw"):
            np.testing.assert_array_equal(tree[name].coords[dim], np.arange(tree[name].sizes[dim]))
    assert {*tree["observed_data"].coords} == {"row"}
