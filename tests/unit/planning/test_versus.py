"""Two recipes compared: every number against brute force in NumPy on fixed draws, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bayeslaw.core.errors import FitError
from bayeslaw.inference.point import PointFit
from bayeslaw.planning import Versus, versus
from bayeslaw.planning.recipe_paths import REACH, ComputePath, recipe
from bayeslaw.plots import plot_versus
from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.errors import fails
from tests.fixed import fixed_fit, line_fit, stand_in_fit
from tests.legends import labels, note
from tests.oracles import Array
from tests.posteriors import law_named, learning, posterior, scattered, source_fit
from tests.values import present

LAW = law_named("chinchilla")
TYPICAL = oracles.typical(LAW)
OTHER = TYPICAL | {"A": 1.3 * TYPICAL["A"], "E": 0.97 * TYPICAL["E"]}  # worse when small, better when large
SIZE = 200


def pair(**options: Any) -> tuple[Fit, Fit]:
    a = posterior(LAW, scattered(TYPICAL, SIZE, 1, 0.004), seed=1, **options)
    return a, posterior(LAW, scattered(OTHER, SIZE, 2, 0.004), seed=2, frame=oracles.table(LAW, runs=6))


@pytest.fixture(scope="module")
def fits() -> tuple[Fit, Fit]:
    return pair()


@pytest.fixture(scope="module")
def along(fits: tuple[Fit, Fit]) -> Versus:
    return versus(*fits, compute="1e17:1e24:8", names=("web", "code"))


def least(fit: Fit, compute: Array) -> Array:
    """Losses (S, n) at the N of least loss, where alpha A / N^alpha = beta B / D^beta (Hoffmann et al. 2022, eq. 4)."""
    e, a, alpha, b, beta = (fit.draws[k][:, None] for k in ("E", "A", "alpha", "B", "beta"))
    n = ((alpha * a / (beta * b)) * (compute / 6) ** beta) ** (1 / (alpha + beta))
    n = np.clip(n, 1e4, 1e13)
    return np.asarray(e + a / n**alpha + b / (compute / 6 / n) ** beta)


def needed(target: Array, other: Fit, compute: float) -> Array:
    """How many times the compute the other fit needs for losses (S,), by a dense grid of its own losses."""
    times = np.geomspace(1 / REACH, REACH, 1501)
    losses = least(other, compute * times)
    enough = losses <= target[:, None]
    return np.where(enough.any(axis=1), times[enough.argmax(axis=1)], np.inf)


def test_differences_regret_and_probability_are_those_of_the_draws(fits: tuple[Fit, Fit], along: Versus) -> None:
    a, b = (least(fit, along.compute) for fit in fits)
    n = np.geomspace(1e5, 1e13, 2001)[:, None, None]
    each = oracles.LAWS["chinchilla"]({k: fits[0].draws[k][:5, None] for k in LAW.parameters}, {"N": n, "D": along.compute / 6 / n})
    np.testing.assert_allclose(a[:5], each.min(axis=0), rtol=1e-5)
    np.testing.assert_allclose(along.losses, [a, b], rtol=1e-5)
    table = along.summary(0.8)
    np.testing.assert_allclose(table["difference_median"], np.median(b - a, axis=0), atol=2e-5)
    np.testing.assert_allclose(table["relative_eti80_lb"], np.quantile(b / a - 1, 0.1, axis=0), atol=2e-5)
    np.testing.assert_allclose(table["B_better"], (b < a).mean(axis=0), atol=1 / SIZE)
    np.testing.assert_allclose(table["regret_A"], np.maximum(a - b, 0).mean(axis=0), atol=2e-5)
    np.testing.assert_allclose(table["regret_B"], np.maximum(b - a, 0).mean(axis=0), atol=2e-5)
    assert table["B_better"].iloc[0] < 0.1
    assert table["B_better"].iloc[-1] > 0.9


@pytest.mark.slow
def test_multipliers_are_those_of_a_dense_grid(fits: tuple[Fit, Fit], along: Versus) -> None:
    """Both directions, and the compute that the better one would have saved."""
    for i in (0, 4, 7):
        c = float(along.compute[i])
        forward, back = needed(along.losses[0, :, i], fits[1], c), needed(along.losses[1, :, i], fits[0], c)
        np.testing.assert_allclose(along.multiplier[:, i], forward, rtol=0.012)  # the grid has steps of .9%
        np.testing.assert_allclose(along.inverse[:, i], back, rtol=0.012)
        np.testing.assert_allclose(along.wasted[:, i], [np.maximum(1 - m, 0).mean() for m in (forward, back)], atol=0.01)


def test_crossings_are_those_of_a_dense_grid(fits: tuple[Fit, Fit], along: Versus) -> None:
    x = np.geomspace(1e17, 1e24, 1601)
    gap = least(fits[1], x) - least(fits[0], x)
    changes = (gap[:, 1:] < 0) != (gap[:, :-1] < 0)
    expected = np.where(changes.any(axis=1), x[changes.argmax(axis=1)], np.nan)
    assert (np.isnan(along.crossing) == np.isnan(expected)).mean() > 0.98
    both = ~np.isnan(along.crossing) & ~np.isnan(expected)
    assert both.sum() > SIZE / 2
    np.testing.assert_allclose(along.crossing[both], expected[both], rtol=0.03)
    row = along.crossings_table().iloc[0]
    assert row[["crosses", "A_throughout", "B_throughout"]].sum() == pytest.approx(1)
    assert row["compute_median"] == pytest.approx(np.nanmedian(along.crossing))
    assert any("cross between" in line for line in along.lines())


def test_runs_that_do_not_decide_are_said_where_neither_is_probable(along: Versus) -> None:
    open_ = (along.b_better > 0.1) & (along.b_better < 0.9)
    said = [line for line in along.lines() if line.startswith("The runs do not decide")]
    assert open_.any() == bool(said)
    assert f"({open_.sum()} of 8 settings)" in said[0]
    sure = versus(posterior(LAW, scattered(TYPICAL, 8, 1, 1e-6)), posterior(LAW, scattered(OTHER, 8, 2, 1e-6)), compute=1e24)
    assert not [line for line in sure.lines() if line.startswith("The runs")]


def test_where_a_recipe_is_better_and_where_neither_is(along: Versus) -> None:
    """Neighbours in compute are one range, in whatever order they were asked for."""
    shares = np.array([0.5, 0.95, 0.95, 0.05, 0.5, 0.5, 0.95, 0.5])
    difference = np.where(np.arange(SIZE)[:, None] < shares * SIZE, -1.0, 1.0)
    settings = along.settings.assign(compute=np.geomspace(1e18, 1e25, 8))
    made = replace(along, settings=settings, noisy=np.stack([np.zeros_like(difference), difference]))
    expected = [
        "A is better with a probability of 90% or more at 1e21 FLOPs (1 of 8 settings).",
        "B is better with a probability of 90% or more at 1e19 to 1e20 and 1e24 FLOPs (3 of 8 settings).",
        "The runs do not decide which is better at 1e18, 1e22 to 1e23 and 1e25 FLOPs: neither has a probability of 90% there "
        "(4 of 8 settings). Larger runs would tell more.",
    ]
    assert made.lines()[-3:] == expected
    turned = replace(made, settings=settings[::-1], noisy=made.noisy[..., ::-1])
    assert turned.lines()[-3:] == expected


@pytest.mark.slow
def test_at_settings_compute_grows_at_their_tokens_per_parameter(fits: tuple[Fit, Fit]) -> None:
    result = versus(*fits, {"N": "1e9,2e9", "D": "2e10"})
    assert result.settings[["N", "D"]].to_numpy().tolist() == [[1e9, 2e10], [2e9, 2e10]]
    for i, (n, d) in enumerate(((1e9, 2e10), (2e9, 2e10))):
        times = np.geomspace(1 / REACH, REACH, 4001)
        x = {"N": n * np.sqrt(times)[None], "D": d * np.sqrt(times)[None]}
        a, b = (oracles.LAWS["chinchilla"]({k: f.draws[k][:, None] for k in LAW.parameters}, x) for f in fits)
        np.testing.assert_allclose(result.losses[:, :, i], [a[:, 2000], b[:, 2000]], rtol=1e-12)
        expected = times[(b <= a[:, 2000:2001]).argmax(axis=1)]
        np.testing.assert_allclose(result.multiplier[:, i], expected, rtol=0.005)
    assert result.crossing.size == 0
    fixed = versus(*fits, compute=6 * 1e9 * 2e10, tokens_per_parameter=20)
    np.testing.assert_allclose(fixed.losses[:, :, 0], result.losses[:, :, 0], rtol=1e-12)
    np.testing.assert_allclose(fixed.multiplier[:, 0], result.multiplier[:, 0], rtol=1e-3)


def test_a_loss_that_is_never_reached_is_counted(fits: tuple[Fit, Fit]) -> None:
    hopeless = posterior(LAW, scattered(TYPICAL | {"E": 2 * TYPICAL["E"]}, SIZE, 2, 0.001), frame=oracles.table(LAW, runs=6))
    result = versus(fits[0], hopeless, compute=1e22)
    assert result.summary()["never"].item() == 1
    assert result.summary()["multiplier_median"].item() == np.inf
    assert result.summary()["multiplier_ci90_lb"].item() == np.inf
    assert "over 1,000 times A's compute" in result.lines()[1]
    assert (result.inverse == 0).all()
    assert result.wasted[1] == pytest.approx(1)
    assert any("counts as 0" in note for note in result.notes)


def test_a_share_of_few_draws_is_not_called_none_of_them(fits: tuple[Fit, Fit], along: Versus) -> None:
    """One draw of 2,001 in which B never reaches A's loss stood as 0.0% of the draws."""
    result = versus(*fits, compute=1e22)
    rare = replace(result, multiplier=np.append(np.full(2000, 2.0), np.inf)[:, None])
    assert "never within 1,000 times in fewer than 0.1% of the draws" in rare.lines()[1]
    assert "never within" not in replace(result, multiplier=np.full((2001, 1), 2.0)).lines()[1]
    size = along.crossing.size
    one = replace(along, crossing=np.where(np.arange(size) == 0, 1e20, np.nan), crossings=np.eye(1, size, dtype=np.int64)[0])
    rest = next(line for line in one.lines() if line.startswith("They cross"))
    assert rest.startswith("They cross between 1e17 and 1e24 FLOPs in 0.5% of the draws,")
    assert "0.0%" not in rest


def test_where_the_supports_end_the_search_is_said(fits: tuple[Fit, Fit]) -> None:
    """Near the end of N and D that laws describe, compute can't grow a thousand times."""
    far, near = (versus(*fits, compute=compute, discrepancy="none") for compute in (1e28, 1e22))
    assert np.isinf(far.multiplier).any() or np.isinf(far.inverse).any()
    assert any("supports of its laws end" in note for note in far.notes)
    assert not any("supports of its laws end" in note for note in near.notes)


def test_the_least_compute_counts_where_losses_rise_again() -> None:
    x = np.linspace(-8, 8, 161)
    found = ComputePath(x, np.ones(161), np.exp(np.stack([np.abs(x) / 10 + 1, 2 - x / 10])))
    times = found.needed(np.array([0.0]), np.exp(np.array([[1.3], [1.95]])))
    np.testing.assert_allclose(times[:, 0], [-3.0, 0.5], atol=1e-9)


# --- errors of laws, noise of runs, levels ----------------------------------------------------------------------------


@pytest.mark.slow
def test_errors_of_the_laws_widen_differences_beyond_the_runs(fits: tuple[Fit, Fit]) -> None:
    a, b = map(learning, fits)
    results = {s: versus(a, b, compute=[1e20, 1e24], shared_error=s, seed=3) for s in (0.0, 1.0)}
    exact = versus(a, b, compute=[1e20, 1e24], discrepancy="none")
    assert (results[0.0].spread, exact.spread) == ("extrapolated", "latent")
    widths = {s: np.log(r.losses[1] / r.losses[0]).std(axis=0)[-1] for s, r in results.items()}
    assert widths[0.0] > 2 * np.log(exact.losses[1] / exact.losses[0]).std(axis=0)[-1]
    assert widths[1.0] < 0.7 * widths[0.0]
    assert any("independent, which makes the widest" in note for note in results[0.0].notes)
    unlearnt = results[0.0]  # as where parameters vary by a column
    assert "with the errors that laws have on other ladders (extrapolated)" in unlearnt.lines()[0]
    first, second = unlearnt.recipes
    error = present(first.errors[0])
    learnt = replace(first, errors=(replace(error, walk=replace(error.walk, exact=False)),))
    assert "with the laws' errors as learnt (extrapolated)" in replace(unlearnt, recipes=(learnt, second)).lines()[0]


@pytest.mark.slow
def test_settings_inside_the_runs_of_both_have_no_errors_but_in_multipliers() -> None:
    """As in forecasts, whose headline there has no error; where only one recipe has such runs, both have errors."""
    table = oracles.table(LAW, runs=12)
    a, b = (
        stand_in_fit("chinchilla", table.assign(loss=table["loss"] * of), draws=500, seed=seed) for seed, of in ((1, 1), (2, 0.99))
    )
    n, d = (float(a.observed.covariates[c][a.observed.covariates["N"].argmax()]) for c in ("N", "D"))
    at = pd.DataFrame({"N": [n, 100 * n], "D": [d, 100 * d]})
    assert a.forecast(at, force=True).summary()["headline"].tolist() == ["run", "extrapolated"]
    for on in ("latent", "run"):
        learned, exact = (versus(a, b, at, on=on, discrepancy=given, seed=3) for given in ("learned", "none"))
        np.testing.assert_allclose(learned.difference[:, 0], exact.difference[:, 0])
        assert learned.difference[:, 1].std() > exact.difference[:, 1].std()
        assert learned.summary()["spread"].tolist() == [on, "extrapolated"]
        widths = [np.log(np.ptp(np.quantile(result.multiplier[:, 0], [0.25, 0.75]))) for result in (learned, exact)]
        assert widths[0] > widths[1]
        assert "in multipliers, and in losses outside the runs" in learned.lines()[0]
        assert exact.summary()["spread"].tolist() == [on, on]
    few = stand_in_fit("chinchilla", table[table["N"] < n], draws=500, seed=2)
    assert versus(a, few, at.head(1)).summary()["spread"].tolist() == ["extrapolated"]
    assert versus(a, b, compute=6 * n * d).summary()["spread"].tolist() == ["extrapolated"]


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0.0, 0.6, 1.0])
def test_the_shared_error_is_the_correlation_of_the_laws_errors(shared: float) -> None:
    draws = scattered(TYPICAL, 8000, 1)
    fit = learning(posterior(LAW, draws))
    a, b = (recipe("r", fit, {}, learned=True, seed=2, side=side, shared=shared) for side in (0, 1))
    at = np.array([1e12]), np.array([1e13])
    exact = recipe("r", fit, {}, learned=False, seed=2, side=0)
    errors = [np.log(r.losses(*at) / exact.losses(*at))[:, 0] for r in (a, b)]
    assert np.corrcoef(errors)[0, 1] == pytest.approx(shared, abs=0.08)  # their tails are heavy: scales are log-normal
    assert errors[1].std() == pytest.approx(errors[0].std(), rel=0.08)


def test_next_runs_scatter_around_the_laws(fits: tuple[Fit, Fit]) -> None:
    latent, run = (versus(*fits, {"N": 1e9, "D": 2e10}, on=on, seed=4) for on in ("latent", "run"))
    np.testing.assert_array_equal(latent.losses, run.losses)
    added = np.log(run.noisy / run.losses)
    assert added.std(axis=1) == pytest.approx(np.full((2, 1), np.hypot(0.003, 0.002)), rel=0.2)
    assert abs(np.corrcoef(added[:, :, 0])[0, 1]) < 0.2
    np.testing.assert_array_equal(latent.multiplier, run.multiplier)


@pytest.mark.slow
def test_levels_of_one_fit_have_joint_draws() -> None:
    table = oracles.table(LAW, runs=8)
    table = pd.concat([table.assign(recipe=r, run=table.get("run", pd.Series(range(len(table)))).astype(str) + r) for r in "ab"])
    rng = np.random.default_rng(0)
    shared = {k: v * np.exp(0.05 * rng.standard_normal(400)) for k, v in TYPICAL.items()}
    draws = shared | {"E_spread": np.full(400, 0.1), "E_a": shared["E"], "E_b": shared["E"] - 0.02}
    draws |= {"sigma_point": np.full(400, 0.003), "sigma_run": np.full(400, 0.002)}
    fit = fixed_fit(LAW, table.reset_index(drop=True), draws, noise="normal", by={"E": "recipe"})
    result = versus(fit, compute=[1e20, 1e21], levels=("a", "b"))
    assert result.names == ("a", "b")
    np.testing.assert_allclose(result.losses[1] - result.losses[0], -0.02, atol=1e-9)
    assert result.losses[0].std() > 0.02
    assert result.summary()["difference_eti90_lb"].to_numpy() == pytest.approx(-0.02)
    same = versus(fit, compute=[1e20, 1e21], settings_a={"recipe": "a"}, settings_b={"recipe": "b"})
    np.testing.assert_array_equal(same.losses, result.losses)
    for options, code, named in (
        ({}, "nothing-to-compare", "recipe: a, b"),
        ({"levels": ("a", "c")}, "unknown-level", "'c'"),
        ({"levels": ("a", "a")}, "not-two-levels", "a, a"),
        ({"settings_a": {"recipe": "x"}, "settings_b": {"recipe": "b"}}, "unknown-level", "'x'"),
    ):
        with fails(code, named):
            versus(fit, compute=1e20, **options)


@pytest.mark.slow
def test_runs_of_a_recipe_are_those_of_its_level() -> None:
    """One fit of both recipes says no more of the larger sizes of one of them than its own runs do."""
    table = oracles.table(LAW, runs=8)
    small = table[table["N"] < table["N"].max()]
    both = pd.concat([rows.assign(recipe=r, run=rows["run"] + r) for r, rows in (("a", table), ("b", small))], ignore_index=True)
    draws = scattered(TYPICAL | {"E_spread": 0.1, "E_a": TYPICAL["E"], "E_b": TYPICAL["E"]}, SIZE, 1, 0.004)
    draws |= {"sigma_point": np.full(SIZE, 0.003), "sigma_run": np.full(SIZE, 0.002)}
    fit = fixed_fit(LAW, both, draws, noise="normal", by={"E": "recipe"})
    fit = replace(fit, info={**fit.info, "discrepancy": {"asked": "learned", "learned": False, "reason": "…"}})
    largest = table.assign(C=table["N"] * table["D"]).nlargest(1, "C").iloc[0]
    result = versus(fit, at={"N": largest["N"], "D": largest["D"]}, levels=("a", "b"))
    smaller = small.assign(C=small["N"] * small["D"]).nlargest(1, "C").iloc[0]
    np.testing.assert_allclose(result.beyond[:, 0], [0.0, np.log(largest["C"] / smaller["C"])], atol=1e-9)
    assert not result.inside.any()
    assert versus(fit, at={"N": smaller["N"], "D": smaller["D"]}, levels=("a", "b")).inside.all()


def test_a_setting_is_given_once() -> None:
    source = source_fit(SIZE)
    at = pd.DataFrame({"N": [1e9], "D": [2e10], "ptpp": [100.0], "r": [0.1]})
    with fails("given-twice", "r is given twice"):
        versus(source, posterior("ptpp-floor", source.draws, seed=2), at, settings={"r": 0.4})


def test_levels_that_are_numbers_have_the_noise_of_their_groups() -> None:
    """The levels 1 and 2 are called so, and their groups of noise 1.0 and 2.0."""
    table = oracles.table(LAW)
    table = table.assign(lab=np.where(table["run"] == table["run"].iloc[0], 1.0, 2.0))
    values = scattered(TYPICAL | {"E_spread": 0.3, "E_1": TYPICAL["E"], "E_2": TYPICAL["E"]}, SIZE, 1, 1e-6)
    scales = {f"sigma_{of}[{lab}]": np.full(SIZE, size) for of in ("point", "run") for lab, size in (("1.0", 1e-6), ("2.0", 0.05))}
    fit = fixed_fit(LAW, table, values | scales, noise="normal", noise_by="lab", by={"E": "lab"})
    result = versus(fit, compute=1e20, levels=["1", "2"], on="run", discrepancy="none")
    assert np.log(result.noisy / result.losses).std(axis=(1, 2)) == pytest.approx([1.4e-6, 0.0707], rel=0.2)


def test_a_fit_that_was_read_twice_is_one_fit(fits: tuple[Fit, Fit]) -> None:
    result = versus(fits[0], replace(fits[0]), compute=[1e22])
    assert any("both recipes are of one fit" in note for note in result.notes)
    np.testing.assert_array_equal(result.losses[0], result.losses[1])


@pytest.mark.slow
def test_the_seed_determines_everything(fits: tuple[Fit, Fit]) -> None:
    a, b = map(learning, fits)
    results = [versus(a, b, compute=[1e22, 1e24], on="run", shared_error=0.5, seed=seed).summary() for seed in (5, 5, 6)]
    pd.testing.assert_frame_equal(results[0], results[1])
    assert not results[0].equals(results[2])


# --- what is refused or flagged ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        ({}, "nothing-asked", "--compute"),
        ({"compute": 1e20, "at": {"N": 1e9, "D": 1e10}}, "nothing-asked", "--compute"),
        ({"compute": -1}, "unreadable-compute", "-1"),
        ({"compute": 1e20, "shared_error": 1.5}, "bad-shared-error", "1.5"),
        ({"compute": 1e20, "tokens_per_parameter": -3.0}, "bad-ratio", "-3"),
        ({"compute": 1e20, "discrepancy": "1%"}, "unknown-discrepancy", "'1%'"),
        ({"compute": 1e20, "on": "lat"}, "unknown-spread", "'lat'"),
        ({"compute": 1e20, "names": ("a", "a")}, "not-two-names", "a, a"),
        ({"compute": 1e20, "settings": {"r": 0.1}}, "unknown-setting", "'r'"),
        ({"compute": 1e20, "settings_a": {"N": 1e9}}, "unknown-setting", "N"),
        ({"compute": 1.0}, "compute-out-of-support", "chinchilla"),
        ({"at": {"N": 1.4, "D": 1e10}}, "out-of-support", "N = 1.4 lies outside what chinchilla describes"),
        ({"at": pd.DataFrame({"N": [1e9]})}, "missing-covariate", "no D"),
        ({"at": pd.DataFrame({"D": [1e9]})}, "missing-covariate", "no N"),
        ({"at": pd.DataFrame({"N": [1e9, np.nan], "D": [1e10, 1e10]})}, "setting-not-positive", "Row 2"),
        ({"at": pd.DataFrame({"N": [1e9, 1e9], "D": [1e10, 0.0]})}, "setting-not-positive", "Row 2"),
    ],
)
def test_what_can_not_be_asked_is_refused(fits: tuple[Fit, Fit], options: dict[str, Any], code: str, named: str) -> None:
    with fails(code, named):
        versus(*fits, **options)


@pytest.mark.slow
def test_what_can_not_be_compared_is_refused(fits: tuple[Fit, Fit]) -> None:
    a = fits[0]
    bits = posterior(LAW, scattered(TYPICAL, SIZE, 1), frame=oracles.table(LAW).assign(unit="bits/byte"))
    lengths = ({"bytes_per_token": 3.1}, {"bytes_per_token": 4.6})
    first, second = (replace(fit, info={**fit.info, "token_length": own}) for fit, own in zip(fits, lengths, strict=True))
    with fails("different-tokenizers", "4.6 and 3.1 bytes per token"):
        versus(first, second, compute=1e21)
    with fails("different-units", "bits/byte", "nats/token"):
        versus(a, bits, compute=1e20)
    with fails("unpaired-draws", "100"):
        versus(a, posterior(LAW, scattered(TYPICAL, 100, 1)), compute=1e20)
    with fails("law-without-covariate", "line"):
        versus(line_fit(), line_fit(), compute=1e20)
    with fails("nothing-to-compare", "second fit"):
        versus(a, compute=1e20)
    few = posterior(LAW, scattered(OTHER, SIZE, 2), frame=oracles.table(LAW).query("N > N.median()"))
    with fails("shared-error-of-different-runs", "shared error"):
        versus(learning(a), learning(few), compute=1e24, shared_error=0.5)
    assert isinstance(versus(learning(a), learning(few), compute=1e24), Versus)


@pytest.mark.slow
def test_other_outcomes_and_point_fits_are_refused(fits: tuple[Fit, Fit]) -> None:
    law = law_named("task-exp")  # its outcome is an error rate
    other = posterior(law, scattered(oracles.typical(law), SIZE, 1))
    with fails("not-a-loss", law.name):
        versus(fits[0], other, compute=1e20)
    point: Any = object.__new__(PointFit)
    object.__setattr__(point, "law", LAW)
    with fails("point-fit", "chinchilla"):
        versus(fits[0], point, compute=1e20)


@pytest.mark.slow
def test_failed_checks_are_refused_unless_forced_and_marked() -> None:
    failed = (Check("r_hat", False, "largest R-hat 1.4", "sampling", pd.DataFrame()),)
    a, b = pair(checks=failed)
    with pytest.raises(FitError, match="R-hat"):
        versus(a, b, compute=1e20)
    forced = versus(a, b, compute=1e20, force=True)
    assert forced.summary()["checks"].tolist() == ["FAILED (forced)"]
    assert "CHECKS FAILED" in forced.lines()[0]
    assert "CHECKS FAILED" in plot_versus(forced, Figure().subplots()).get_title()


def test_tables_and_reach_are_named(along: Versus, fits: tuple[Fit, Fit]) -> None:
    assert any("same validation set and tokenizer" in note for note in along.notes)
    table = along.summary()
    assert table["outside"].iloc[0] == "inside the runs' compute"
    assert table["outside"].iloc[-1].startswith("beyond A by ")
    for name, fit in zip("AB", fits, strict=True):  # the column is of compute, and best sizes leave the runs too
        far = np.log(table[f"{name}_N"].max() / fit.observed.covariates["N"].max())
        assert any(f"the best N of {name} lies up to {far:.1f} e-folds outside" in note for note in along.notes)
    again = replace(fits[0], info={**fits[0].info, "draws_sha256": "other draws"})
    assert any("same rows" in note for note in versus(fits[0], again, compute=1e20).notes)
    exact = versus(fits[0], again, compute=1e20, shared_error=0.5, discrepancy="none")
    assert any("shared error of 0.5 counts for nothing" in note for note in exact.notes)


@pytest.mark.slow
def test_the_runs_that_would_tell_most_lower_the_variance_of_the_difference() -> None:
    """One parameter of A is uncertain, and nothing of B: a run of A that shows it is bought, and B's runs tell nothing."""
    size, rng = 800, np.random.default_rng(3)
    a = posterior(LAW, scattered(TYPICAL, size, 1, 1e-5) | {"E": TYPICAL["E"] + 0.02 * rng.standard_normal(size)})
    b = posterior(LAW, scattered(OTHER, size, 2, 1e-5), seed=2, frame=oracles.table(LAW, runs=6))
    pool = pd.DataFrame({"run": ["small", "large"], "N": [1e8, 3e9], "D": [2e9, 6e10]})
    chosen = versus(learning(a), learning(b), compute=1e24, names=("web", "code")).anchors(pool, budget=2e21)
    assert list(chosen) == ["web", "code"]
    left = {name: of.width(of.bought) / of.width([]) for name, of in chosen.items()}
    assert left["web"] < 0.3
    assert left["code"] > 0.9


def test_runs_are_chosen_for_a_row_of_the_table(along: Versus) -> None:
    with fails("no-such-row", len(along.settings)):
        along.anchors(pd.DataFrame({"run": ["a"], "N": [1e9], "D": [2e10]}), budget=1e21, row=len(along.settings))


def test_a_comparison_at_one_compute_has_bars_in_place_of_bands(fits: tuple[Fit, Fit]) -> None:
    ax = plot_versus(versus(*fits, compute=3e23), Figure().subplots())
    assert {"90% band, one-sided where open", "50% band, one-sided where open"} <= {str(line.get_label()) for line in ax.lines}
    assert np.ptp(np.log(ax.get_xlim())) > 1
    assert "beyond runs of A or B" in note(ax)


def test_two_comparisons_on_one_axes_can_be_told_apart(along: Versus) -> None:
    ax = plot_versus(along, Figure().subplots())
    assert "median" in labels(ax)
    plot_versus(along, ax, label="with more data")
    assert {"code (B) against web (A), median", "with more data, median"} <= {*labels(ax)}
    assert len({str(line.get_color()) for line in ax.lines if str(line.get_label()).endswith("median")}) == 2
    assert labels(ax).count("as much as A") == 1
    with fails("other-axes", "probability"):
        plot_versus(along, ax, of="probability")


@pytest.mark.parametrize("of", ["probability", "multiplier"])
def test_pictures_have_what_the_table_has(along: Versus, of: Any) -> None:
    ax = plot_versus(along, Figure().subplots(), of=of)
    line = ax.lines[0]
    column = {"probability": "B_better", "multiplier": "multiplier_median"}[of]
    np.testing.assert_allclose(
        np.asarray(line.get_ydata(), dtype=np.float64), along.summary()[column].clip(1 / REACH if of == "multiplier" else 0, REACH)
    )
    assert "code" in ax.get_title()
    assert ax.get_legend() is not None
    with fails("unknown-option", "'probabilty'"):
        plot_versus(along, Figure().subplots(), of="probabilty")  # type: ignore[arg-type]


def test_settings_outside_the_runs_and_losses_that_rise_with_compute_are_said() -> None:
    law = law_named("transfer-source")
    fit = posterior(law, scattered(oracles.typical(law) | {"S": 3.0}, 40, 1, 0.004), seed=1)
    stages = fit.observed.covariates["ptpp"]
    notes = " ".join(
        versus(fit, None, {"N": 1e9, "D": 1e9, "ptpp": 10 * stages.max()}, settings_a={"r": 0.1}, settings_b={"r": 0.2}).notes
    )
    assert f"ptpp by {np.log(10):.2g} e-folds" in notes
    inside = versus(fit, None, {"N": 1e9, "D": 1e9, "ptpp": stages.max()}, settings_a={"r": 0.1}, settings_b={"r": 0.2})
    assert not any("outside" in note for note in inside.notes)
    assert any("losses rise with compute" in note for note in inside.notes)


def test_the_share_of_rising_losses_is_of_all_settings_in_any_order() -> None:
    law = law_named("transfer-source")
    fit = posterior(law, scattered(oracles.typical(law) | {"S": 3.0}, 40, 1, 0.004), seed=1)
    rows = pd.DataFrame({"N": 1e9, "D": [1e9, 1e13], "ptpp": fit.observed.covariates["ptpp"].max()})
    pairs = [versus(fit, None, at, settings_a={"r": 0.5}, settings_b={"r": 0.999}) for at in (rows, rows[::-1])]
    said = [next((note for note in pair.notes if "losses rise" in note), "") for pair in pairs]
    alone = [versus(fit, None, rows[i : i + 1], settings_a={"r": 0.5}, settings_b={"r": 0.999}).notes for i in (0, 1)]
    assert alone[0] != alone[1]
    assert said[0] == said[1] != ""
