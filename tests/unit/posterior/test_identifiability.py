"""Checks of the data: parameters that too few values leave unidentifiable, and residuals correlated within runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import stats

from bayeslaw.forecasting.grid import grid
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.identifiability import (
    ALARM,
    FEW,
    WEAK,
    WIDTH,
    checkpoint_correlation_check,
    correlation_check,
    independence_check,
    intra_class_correlation,
    lack_check,
    residuals,
    unidentifiable,
)
from tests import oracles
from tests.curves import curves
from tests.oracles import Array
from tests.values import present

# --- parameters that the runs can't identify ------------------------------------------------------------------------


def lacks(law: Law, table: pd.DataFrame) -> dict[str, str]:
    """For each covariate with too few values, the parameters that are not identifiable."""
    check = lack_check(law, oracles.observed(law, table), oracles.typical(law))
    named = check.table[(check.table["values"] == 1) | (check.table["parameters"] != "")]
    assert (check.required, check.passed) == (False, named.empty)
    return {str(name): str(row["parameters"]) for name, row in named.iterrows()}


MANY_VALUES = {
    "L_source": [2.5, 2.6, 2.8, 3.1],
    "L_target": [1.8, 2.1, 2.5, 3.0],
    "N": [1e7, 1e8, 1e9, 3e9],
    "U": [5e7, 2e8, 1e9, 5e9],
    "D": [1e8, 4e8, 1e9, 3e9, 1e10],
    "r": [0.1, 0.25, 0.5, 0.8],
    "ptpp": [15.0, 31.0, 62.0, 279.0],
    "cpt": [0.0, 1.0],
    "P": [1.0, 2.0, 4.0, 8.0],
    "base_loss": [1.5, 2.0, 2.6, 3.3],
    "loss": [1.8, 2.3, 2.8, 3.5],
    "chance": [0.2, 0.25, 0.5],
    "items": [500.0, 1000.0],
    "S1": [-1.5, -0.5, 0.5, 1.5],
    "S2": [-1.0, 0.0, 1.0],
    "S3": [-1.0, 0.0, 1.0],
    "lr": [2e-4, 5e-4, 1e-3, 3e-3],
    "batch": [6e4, 2e5, 5e5, 2e6],
    "bits_w": [3.0, 4.0, 6.0, 16.0],
    "bits_a": [3.0, 4.0, 6.0, 16.0],
    "bits_kv": [3.0, 4.0, 6.0, 16.0],
    "G": [1.0, 2.0, 8.0, 32.0],
    "active": [0.02, 0.1, 0.3, 1.0],
    "Nv": [2e6, 1e7, 5e7, 4e8],
}
MIXTURES = 8


def values(law: Law, **few: list[float]) -> pd.DataFrame:
    """Rows at all combinations of the given values of some covariates and many of the others."""
    if "lr_peak" in law.covariates:
        return curves(8, 12, changes=bool(law.series))[[*law.covariates]].drop_duplicates().assign(loss=2.5)
    outcome = {law.outcome.name: 2.5 if law.outcome.kind == "positive" else 0.5}
    rows = {name: few.get(name, MANY_VALUES[name]) for name in law.covariates if name not in law.shares}
    if law.shares:
        mixtures = pd.DataFrame(np.random.default_rng(0).dirichlet(np.ones(len(law.shares)), MIXTURES), columns=law.shares)
        for name, given in rows.items():
            mixtures = mixtures.merge(pd.DataFrame({name: given}), how="cross")
        return mixtures.assign(**outcome)
    return grid(law, rows).assign(**outcome)


def test_enough_values_identify_every_parameter_of_every_card(law: Law) -> None:
    assert lacks(law, values(law)) == {}


@pytest.mark.parametrize(
    ("name", "few", "expected"),
    [
        # E and A/N^alpha are one number where N has one value, two numbers for three parameters where it has two
        ("chinchilla", {"N": [1e9]}, {"N": "E, A, alpha"}),
        ("chinchilla", {"N": [1e9, 2e9]}, {"N": "E, A, alpha"}),
        ("chinchilla", {"N": [1e9, 2e9, 4e9]}, {}),
        ("chinchilla", {"D": [1e9]}, {"D": "E, B, beta"}),
        # one replay share: the barrier C/r^gamma is part of E, and r^nu of B
        ("d-cpt", {"r": [0.25]}, {"r": "E, B, nu, C, gamma"}),
        # two stages: the gate is seen as two exponents (beta, lam, zeta), the floor as one contrast (E, F, eta)
        ("ptpp-gate", {"ptpp": [15, 31]}, {"ptpp": "beta, lam, zeta"}),
        ("ptpp-floor", {"ptpp": [15, 31]}, {"ptpp": "E, F, eta"}),
        ("ptpp-gate-floor", {"ptpp": [15, 31, 62]}, {}),
        # parameters that need more values of two covariates are not named twice
        ("ptpp-floor", {"ptpp": [15, 31], "N": [1e9]}, {"N": "A, alpha", "ptpp": "F, eta"}),
    ],
)  # fmt: skip
def test_parameters_that_few_values_leave_unidentifiable_are_named(
    name: str, few: dict[str, list[float]], expected: dict[str, str]
) -> None:
    law = load_law(name)
    assert lacks(law, values(law, **few)) == expected


def test_the_text_names_covariates_values_and_parameters() -> None:
    law = load_law("ptpp-floor")
    table = values(law, ptpp=[15, 31], N=[1e9])
    check = lack_check(law, oracles.observed(law, table), oracles.typical(law))
    assert str(check) == (
        "concern: N has one value (1e+09): A, alpha can't be learnt, and forecasts at other values rest on priors alone; "
        "ptpp has 2 values (15, 31): F, eta are not identifiable, and forecasts at other values depend on priors; "
        "E is not identifiable either. Add runs at other values."
    )
    mixture = load_law("bimix")
    check = lack_check(mixture, oracles.observed(mixture, values(mixture, D=[1e8, 4e8])), oracles.typical(mixture))
    assert check.text.startswith("D has 2 values (1e+08, 4e+08): beta is not identifiable, and")
    check = lack_check(law, oracles.observed(law, values(law)), oracles.typical(law))
    assert str(check) == "passed: the runs have enough values of N, D, r, ptpp to identify all parameters"


def test_a_rare_value_counts_in_a_large_table() -> None:
    """Of 20,000 settings a sample is used, always with one of each value of a covariate with few values."""
    law = load_law("chinchilla")
    table = pd.DataFrame({"N": np.repeat([1e9, 2e9], [19_999, 1]), "D": np.geomspace(1e8, 1e12, 20_000), "loss": 2.5})
    assert lacks(law, table) == {"N": "E, A, alpha"}
    table.loc[7, "N"] = 4e9
    assert FEW == 3
    assert lacks(law, table) == {}


def test_null_directions_are_those_of_derivatives_by_hand() -> None:
    """Against the rank of the derivatives by hand: dL/dE = 1, dL/dA = N^-alpha, dL/dalpha = -A log N N^-alpha."""
    law = load_law("chinchilla")
    at = oracles.typical(law)
    for n in ([1e9], [1e9, 2e9], [1e9, 2e9, 4e9]):
        grid = {k: v.ravel() for k, v in zip(("N", "D"), np.meshgrid(n, np.geomspace(1e8, 1e11, 6)), strict=True)}
        power = grid["N"] ** -at["alpha"]
        by_hand = np.stack([np.ones_like(power), power, -at["A"] * np.log(grid["N"]) * power], axis=1)
        rank = int(np.linalg.matrix_rank(by_hand / np.linalg.norm(by_hand, axis=0), tol=1e-8))
        assert (unidentifiable(law, at, grid) == {"E", "A", "alpha"}) == (rank < 3)


# --- correlated residuals -------------------------------------------------------------------------------------------

type Codes = NDArray[np.int64]

RUNS, POINTS = 24, 10


def simulated(rng: np.random.Generator, effect: float, heavy: bool = False) -> tuple[Array, Codes]:
    """Residuals of a least-squares fit of five smooth columns with run effects of this sd, and the runs' codes."""
    run = np.repeat(np.arange(RUNS), POINTS)
    point = rng.standard_t(3, run.size) if heavy else rng.standard_normal(run.size)
    y = point + effect * rng.standard_normal(RUNS)[run]
    size, tokens = (run % 4).astype(float), np.tile(np.linspace(0, 1, POINTS), RUNS) + 0.1 * run
    columns = np.stack([np.ones(run.size), size, size**2, tokens, tokens**2], axis=1)
    return y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0], run


@pytest.mark.slow
@pytest.mark.parametrize("heavy", [False, True], ids=["normal", "t3"])
def test_false_alarms_are_as_many_as_stated_or_fewer(heavy: bool, rng: np.random.Generator) -> None:
    """600 tables of independent points: alarms at most at their stated rate, by a 99.9% binomial bound."""
    p = np.array([intra_class_correlation(*simulated(rng, 0.0, heavy), 5)[1] for _ in range(600)])
    for rate in (ALARM, 0.05):
        assert (p < rate).sum() <= stats.binom.ppf(0.999, p.size, rate)
    assert (p < 0.2).mean() > 0.05  # and it is a test: chance reaches it


@pytest.mark.parametrize("heavy", [False, True], ids=["normal", "t3"])
def test_run_effects_as_large_as_point_noise_are_found(heavy: bool, rng: np.random.Generator) -> None:
    checks = [correlation_check(*simulated(rng, 1.0, heavy), 5, "of one run", "") for _ in range(60)]
    assert np.mean([check is not None and not check.passed for check in checks]) > 0.95


def test_the_statistic_is_that_of_scipy_on_normal_scores(rng: np.random.Generator) -> None:
    """Unequal groups; with nothing fitted p is f_oneway's."""
    group = rng.integers(0, 5, 60)
    residual = rng.standard_normal(60) + 0.4 * group
    scores = stats.norm.ppf((stats.rankdata(residual) - 0.375) / 60.25)
    expected = stats.f_oneway(*(scores[group == g] for g in range(5)))
    _, p, _ = intra_class_correlation(residual, group, 0)
    assert p == pytest.approx(expected.pvalue, rel=1e-9)


def test_correlation_and_widening_of_known_size(rng: np.random.Generator) -> None:
    """Run effects as large as point noise: points of a run correlate by 1/2, the variance of ten's mean is 5.5 times as large."""
    run: Codes = np.repeat(np.arange(4000), 10)
    correlation, p, widening = intra_class_correlation(rng.standard_normal(4000)[run] + rng.standard_normal(run.size), run, 0)
    assert correlation == pytest.approx(0.5, abs=0.02)
    assert widening == pytest.approx(np.sqrt(5.5), abs=0.05)
    assert p < 1e-100


def test_verdicts_on_residuals(rng: np.random.Generator) -> None:
    residual, run = simulated(rng, 3.0)
    check = present(correlation_check(residual, run, 5, "of one run", "fit noise with a run effect"))
    assert (check.name, check.passed, check.required) == ("independence", False, False)
    assert str(check).startswith("concern: residuals of points of one run correlate by 0.")
    assert "times too narrow. Either they share a run effect (fit noise with a run effect) or the law has an error" in str(check)
    residual, run = simulated(np.random.default_rng(1), 0.0)
    fine = present(correlation_check(residual, run, 5, "of one run", ""))
    assert fine.passed
    many: Codes = np.repeat(np.arange(20_000), 2)  # significant but too small to matter
    residual = 0.3 * rng.standard_normal(20_000)[many] + rng.standard_normal(many.size)
    slight = present(correlation_check(residual, many, 5, "of one run", ""))
    assert slight.passed


def test_a_check_that_passes_just_above_its_limit_reassures_nobody() -> None:
    """Independent residuals of twelve runs, two of a checkpoint: a p below .05 is weak evidence."""
    rng, group, texts = np.random.default_rng(0), np.arange(12, dtype=np.int64) // 2, dict[str, list[float]]()
    for _ in range(300):
        check = correlation_check(rng.standard_normal(12), group, 2, "of one checkpoint", "normal-checkpoint")
        p, widening = (float(present(check).table[name].iloc[0]) for name in ("p", "widening"))
        if p >= ALARM and widening >= WIDTH:
            texts.setdefault("weak" if "weak evidence either way" in present(check).text else "fine", []).append(p)
    assert max(texts["weak"]) < WEAK <= min(texts["fine"])


@pytest.mark.parametrize("group", [np.zeros(20, dtype=int), np.arange(20), np.arange(20) // 2 % 8])
def test_no_check_where_there_is_nothing_to_compare(group: Codes, rng: np.random.Generator) -> None:
    """One group, groups of one, and no more values than groups and parameters."""
    assert correlation_check(rng.standard_normal(20), group.astype(np.int64), 12, "", "") is None


def test_residuals_are_log_losses_less_the_laws_posterior_mean(rng: np.random.Generator) -> None:
    law = load_law("chinchilla")
    observed = oracles.observations(law)
    draws = {k: v * np.exp(0.05 * rng.standard_normal((2, 30))) for k, v in oracles.typical(law).items()}
    columns = {k: v.reshape(-1, 1) for k, v in draws.items()}
    expected = observed.response - np.log(oracles.chinchilla(columns, observed.covariates)).mean(axis=0)
    np.testing.assert_allclose(residuals(law, observed, draws), expected, rtol=1e-10)


@pytest.mark.parametrize("named", [True, False], ids=["runs named", "runs not named"])
def test_run_effects_are_found_in_a_table(named: bool) -> None:
    """Named runs are groups; in a table without runs, rows that share all but D are."""
    law, checks = load_law("d-cpt"), {}
    for effect in (0.0, 0.03):
        table = oracles.table(law, runs=16, checkpoints=6, sigma_run=effect)
        observed = oracles.observed(law, table if named else table.drop(columns="run"))
        draws = {k: np.full((2, 30), v) for k, v in oracles.typical(law).items()}
        check = present(independence_check(law, observed, draws))
        checks[effect] = check
    assert (checks[0.0].passed, checks[0.03].passed) == (True, False)
    assert ("of one run" if named else "at one N, r") in checks[0.03].text


def test_curves_of_several_runs_of_one_size_are_told_apart_by_rising_tokens(rng: np.random.Generator) -> None:
    """Effects of four runs of each size cancel in the mean of the size; without the order of rows, nothing tells them apart."""
    law, truth = load_law("chinchilla"), oracles.typical(load_law("chinchilla"))
    draws = {k: np.full((2, 30), v) for k, v in truth.items()}
    size, run = np.repeat([1e8, 3e8, 1e9], 48), np.repeat(np.arange(12), 12)
    tokens = size * np.tile(np.geomspace(1, 20, 12), 12) * (1 + 0.01 * run)
    expected, effect = oracles.chinchilla(truth, {"N": size, "D": tokens}), np.tile([1, -1, 1, -1], 3)[run]
    point = 0.001 * rng.standard_normal(run.size)

    def check(effect_size: float, order: NDArray[np.int64]) -> Check:
        table = pd.DataFrame({"N": size, "D": tokens, "loss": expected * np.exp(effect_size * effect + point)}).iloc[order]
        return present(independence_check(law, oracles.observed(law, table.reset_index(drop=True)), draws))

    curve_by_curve = np.arange(run.size)
    assert check(0.0, curve_by_curve).passed
    found = check(0.005, curve_by_curve)
    assert not found.passed
    assert found.text.startswith("residuals of points at one N whose D rises from row to row correlate by")
    for order in (rng.permutation(run.size), curve_by_curve[::-1]):
        other = check(0.005, order)
        assert other.passed
        assert other.text.startswith("residuals of points at one N correlate by")


def test_named_runs_of_one_row_each_are_not_grouped() -> None:
    law = load_law("chinchilla")
    table = oracles.table(law, runs=8).assign(run=[f"final {i}" for i in range(40)])
    observed = oracles.observed(law, table)
    draws = {k: np.full((1, 4), v) for k, v in oracles.typical(law).items()}
    assert independence_check(law, observed, draws) is None
    renamed = replace(observed, run_names=tuple(f"row {row}" for row in observed.rows))
    assert independence_check(law, renamed, draws) is not None


def test_correlated_runs_of_one_checkpoint_are_found(rng: np.random.Generator) -> None:
    law = load_law("d-cpt")
    draws = {k: np.full((2, 30), v) for k, v in oracles.typical(law).items()}
    table = oracles.table(law, runs=40, checkpoints=4).assign(checkpoint=np.repeat(np.arange(40) % 8, 4))
    checks = {}
    for name, sd in {"own": 0.0, "shared": 0.02}.items():
        together = table.assign(loss=table["loss"] * np.exp(sd * rng.standard_normal(8)[table["checkpoint"]]))
        checks[name] = checkpoint_correlation_check(law, oracles.observed(law, together), draws)
    own, shared = present(checks["own"]), present(checks["shared"])
    assert (own.name, own.passed, own.required) == ("intra_class_correlation", True, False)
    assert not shared.passed
    assert "share a checkpoint effect (noise normal-checkpoint)" in shared.text
    assert checkpoint_correlation_check(law, oracles.observed(law, table.drop(columns="checkpoint")), draws) is None
