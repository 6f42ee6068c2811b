"""Which fits learn an error of their law, and which outliers count less."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr

import bayeslaw
from bayeslaw.core.streams import Stream
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import read_runs
from bayeslaw.inference import discrepancy
from bayeslaw.inference.discrepancy import learn_discrepancy, why_not
from bayeslaw.inference.sample import Acceptance, Sample, SamplerSettings
from bayeslaw.laws.card import load_law
from bayeslaw.laws.outcome import LOSS
from bayeslaw.noise.noise import Noise
from bayeslaw.noise.walk import Walk
from bayeslaw.posterior.effects import LearntEffects
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.fixed import stand_in_fit
from tests.values import present

LAW = load_law("chinchilla")
SEEN = oracles.observations(LAW)
TABLE = oracles.table(LAW)


def test_the_reason_why_none_is_learnt() -> None:
    normal = Noise.choose("normal", SEEN)
    assert why_not(LAW, SEEN, normal) == ""
    assert why_not(LAW, SEEN, Noise.choose("student", SEEN)) == ""
    skew = Noise.choose("skew", SEEN)
    assert why_not(LAW, SEEN, skew) == f"its noise is {skew.text}"
    with patch.object(discrepancy, "MOST_ROWS", SEEN.response.size - 1):
        assert why_not(LAW, SEEN, normal) == f"the table has more than {SEEN.response.size - 1} rows"
    same = Observations.of(LAW, read_runs(TABLE.assign(N=1e8, D=1e9)))
    assert why_not(LAW, same, normal) == "its runs don't differ in size, tokens or stage"


def test_an_error_whose_chains_disagree_is_not_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (4, 1000)
    apart = np.random.default_rng(1).standard_normal(shape) + 3 * np.arange(4)[:, None]
    made = Sample({"E": apart, "discrepancy": np.full(shape, 0.01)}, xr.Dataset(), apart, None, interrupted=False)
    monkeypatch.setattr(discrepancy, "sample_soundly", lambda *_, **__: (made, []))
    settings = SamplerSettings(draws=1000, tune=500, chains=4, seed=1, acceptance=Acceptance())
    reason = learn_discrepancy(LAW, SEEN, Noise.choose("normal", SEEN), {"E": np.ones(shape)}, settings)
    assert isinstance(reason, str)
    assert reason.startswith("the chains that sampled a law with an error disagree (R-hat ")


def test_errors_learnt_from_other_losses_are_independent_though_seeds_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws of two fits are paired by their numbers: with the same random numbers, the errors would cancel in differences."""
    noise, typical = (
        Noise.choose("normal", SEEN),
        oracles.typical(LAW) | {"sigma_point": 0.01, "sigma_run": 0.01, "discrepancy": 0.01},
    )

    def learnt(observed: Observations, number: int) -> Any:
        rng = np.random.default_rng(number)  # of the sampler's own, which are independent
        draws = {name: value * np.exp(0.01 * rng.standard_normal((4, 250))) for name, value in typical.items()}
        made = Sample(draws, xr.Dataset(), rng.standard_normal((4, 250)), None, interrupted=False)
        monkeypatch.setattr(discrepancy, "sample_soundly", lambda *_, **__: (made, []))
        with_it = learn_discrepancy(LAW, observed, noise, draws, SamplerSettings(250, 500, 4, 0, Acceptance()))
        assert not isinstance(with_it, str)
        return with_it.coefficients.reshape(1000, -1)

    other = Observations.of(LAW, read_runs(TABLE.assign(loss=TABLE["loss"] * 1.001)))
    first, again, second = learnt(SEEN, 1), learnt(SEEN, 1), learnt(other, 2)
    np.testing.assert_array_equal(first, again)
    scaled = [(c - c.mean(axis=0)) / c.std(axis=0) for c in (first, second)]
    assert np.abs((scaled[0] * scaled[1]).mean(axis=0)).max() < 4 / np.sqrt(1000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "reason"),
    [({"discrepancy": "none"}, "it was left out"), ({"by": {"E": "domain"}}, "parameters vary by domain"), ({}, "")],
)
def test_a_fit_says_whether_an_error_was_learnt(options: dict[str, Any], reason: str) -> None:
    table = TABLE.assign(domain=np.where(np.arange(len(TABLE)) % 2, "web", "code"))
    made = stand_in_fit(LAW, table if "by" in options else TABLE, draws=50, **options)
    assert made.info["discrepancy"] == {"asked": options.get("discrepancy", "learned"), "learned": not reason, "reason": reason}
    assert (made.extrapolation is None) == ("discrepancy" in options)
    if made.extrapolation is not None:
        assert present(made.extrapolation.discrepancy).walk.exact == bool(reason)
    assert (reason in made.learnt()) if reason else ("the law errs by 0.5% an e-fold" in made.learnt())


def test_the_number_of_an_error_is_stated_with_the_forecast() -> None:
    with fails("unknown-discrepancy", "learned or none", "'1%'"):
        bayeslaw.fit(LAW, TABLE, discrepancy="1%")  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_refit_learns_an_error_if_the_fit_did(sound_fit: Fit) -> None:
    from bayeslaw.inference.refit import refit_task, rows_of

    assert refit_task(sound_fit, rows_of(sound_fit)).options["discrepancy"] == "learned"
    without = stand_in_fit(LAW, TABLE, draws=50, discrepancy="none")
    assert refit_task(without, rows_of(without)).options["discrepancy"] == "none"


@pytest.mark.slow
def test_outliers_count_less() -> None:
    """With Student-t noise, the variance of a row that lies far off is multiplied, and that of others hardly."""
    wild = TABLE.assign(loss=TABLE["loss"] * np.where(np.arange(len(TABLE)) == 4, 1.2, 1.0))
    made = stand_in_fit(LAW, wild, draws=50, noise="student-no-run")
    walk = present(Walk.of(LAW, made.observed.covariates))
    multiples = discrepancy._multiples(walk, LAW, made.observed, made.noise, made.by_chain)
    row = int(np.argmax(made.observed.response - np.log(oracles.chinchilla(oracles.typical(LAW), made.observed.covariates))))
    assert multiples[row] > 20
    assert np.median(multiples) < 2


@pytest.mark.slow
def test_what_outliers_count_is_kept_with_a_fit(tmp_path: Path) -> None:
    """The effect of a known run is drawn by the variances that the posterior was sampled with."""
    wild = TABLE.assign(loss=TABLE["loss"] * np.where(np.arange(len(TABLE)) == 4, 1.2, 1.0))
    stand_in_fit(LAW, wild, draws=50, noise="student").save(tmp_path / "fit.nc")
    made = bayeslaw.load_fit(tmp_path / "fit.nc")
    assert isinstance(made, Fit)
    away = present(made.extrapolation)
    multiple = present(away.discrepancy).walk.multiple
    code = int(made.observed.run[np.argmax(multiple)])
    effects = LearntEffects.of(away, wild[wild["run"] == made.observed.run_names[code]], np.zeros(5), np.arange(40), (1, 2))
    rows = away.observed.select(np.array([code]))
    draws = {name: values[:40] for name, values in away.draws.items()}
    seeds = (1, 2, Stream.LEARNT_EFFECT, int(made.observed.checkpoint[code]))
    _, (expected,) = away.noise.sample_effects(
        away.residual_of(rows, np.arange(40)),
        rows,
        draws,
        np.random.default_rng(seeds),
        multiple=multiple[made.observed.run == code],
    )
    assert multiple.max() > 20
    np.testing.assert_allclose(effects.of_run(code), expected)


def test_known_errors_are_no_part_of_the_scale_that_outliers_are_measured_by(rng: np.random.Generator) -> None:
    """Where all noise is known, rows six of its standard deviations off get the weights of a Student-t likelihood of that scale."""
    error, se = 0.01 * rng.standard_normal(200), np.full(200, 0.01)
    error[:3] = 0.06
    law: Any = SimpleNamespace(predict=lambda *_: np.ones((5, 200)), outcome=LOSS)
    noise: Any = SimpleNamespace(scales=lambda *_: np.full((1, 5), 0.001))
    walk: Any = SimpleNamespace(components=lambda _: np.zeros((200, 1)))
    rows: Any = SimpleNamespace(response=error, covariates={}, known=se**2)
    multiples = discrepancy._multiples(walk, law, rows, noise, {"E": np.ones((1, 5))})
    np.testing.assert_allclose(multiples, (4 + (error / se) ** 2) / 5, rtol=0.05)
