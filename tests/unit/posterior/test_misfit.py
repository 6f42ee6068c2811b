"""Checks of a model against its runs: sound tables raise few concerns, and each fault raises its own."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import row_ranges
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import read_runs
from bayeslaw.inference.fit import recipes_of_runs
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import with_by, with_levels
from bayeslaw.laws.prior import Prior
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.diagnostics import Check
from bayeslaw.posterior.identifiability import ALARM
from bayeslaw.posterior.misfit import TAIL, conflict_check, explained_check, known_errors_check, misfit_check, model_checks
from tests import outcomes, twins
from tests.oracles import Array
from tests.values import present

LAW = load_law("chinchilla")
TRUTH = twins.TRUTHS["chinchilla"]
CALM = {"sigma_point": twins.POINT, "sigma_run": twins.RUN, "dof": 8.0, "drift": 0.1}


@cache
def settings() -> pd.DataFrame:
    return twins.settings(LAW)


def twin(seed: int = 1) -> pd.DataFrame:
    """240 rows of 24 runs of chinchilla with its own noise."""
    return twins.simulate(LAW, TRUTH, settings(), seed)


def judged(
    table: pd.DataFrame, noise: str = "normal", *, law: Law = LAW, others: tuple[str, ...] = (), **values: float
) -> dict[str, Check]:
    """The checks of a table with a posterior at the truth, by name."""
    runs = read_runs(table)
    observed = Observations.of(law, runs, clock="D" if noise == "normal-drift" else "")
    chosen = Noise.choose(noise, observed)
    draws = {k: np.full((1, 2), v) for k, v in (TRUTH | {k: CALM[k] for k in chosen.parameters} | values).items()}
    more = {name: runs.frame.loc[observed.rows, name].to_numpy(dtype=np.float64) for name in others}
    recipes = recipes_of_runs(law, observed, runs.frame)
    checks = model_checks(law, observed, chosen, draws, more, recipes, observed.covariates["D"])
    return {check.name: check for check in checks}


@pytest.mark.slow
def test_sound_tables_raise_few_concerns() -> None:
    """Of 150 tables with their own law and noise at most 4% raise any concern; each check has a share of 1% a covariate or less."""
    raised = [[c.name for c in judged(twin(seed)).values() if not c.passed] for seed in range(150)]
    assert sum(map(bool, raised)) <= 6, raised


def test_a_mean_residual_that_rounds_to_zero_has_no_sign() -> None:
    observed, off = Observations.of(LAW, read_runs(twin())), np.repeat([0.03, 0.02, -0.0002, -0.02, -0.03], 48)
    noise = Noise.choose("normal-no-run", observed)
    check = present(misfit_check(off + 1e-5 * np.sin(np.arange(240)), observed, noise, {"D": np.arange(240.0)}, 5))
    assert "D: +3.0%, +2.0%, 0.0%, -2.0%, -3.0%" in check.text


def test_runs_of_two_recipes_are_a_concern_where_they_lie_off_the_law_by_different_amounts() -> None:
    """Runs of two optimizers 6% apart, fitted as one, were called sound."""
    table = twin()
    number = pd.factorize(table["run"])[0]
    table["optimizer"] = np.where(number % 2 == 0, "adamw", "muon")
    assert judged(table)["recipes"].passed
    table["loss"] *= np.where(table["optimizer"] == "muon", 0.97, 1.03)
    check = judged(table, sigma_run=0.03)["recipes"]
    assert not check.passed
    assert "differ by optimizer: adamw +2.9%" in check.text
    assert "muon -3." in check.text
    assert "(--by E=optimizer, by={'E': 'optimizer'})" in check.advice
    spaced = judged(table.rename(columns={"optimizer": "the optimizer"}), sigma_run=0.03)["recipes"]
    assert "(--by 'E=the optimizer', by={'E': 'the optimizer'})" in spaced.advice
    by_row = table.assign(optimizer=np.where(np.arange(len(table)) % 2 == 0, "adamw", "muon"))  # changes along the runs
    of_few = table.assign(optimizer=np.where(number < 2, "adamw", "muon"))
    one_each = table.assign(optimizer=[f"seed {n}" for n in number])
    assert not [other for other in (by_row, of_few, one_each) if "recipes" in judged(other)]


def test_runs_of_six_corpora_fitted_as_one_are_a_concern_and_names_of_sizes_are_no_corpora() -> None:
    table = twin()
    number = pd.factorize(table["run"])[0]
    table["corpus"] = np.array(["web", "code", "math", "books", "news", "wiki"])[number % 6]
    assert judged(table)["recipes"].passed
    table["loss"] *= np.exp(0.02 * (number % 6))
    assert "differ by corpus" in judged(table, sigma_run=0.03)["recipes"].text
    sizes = twin().assign(model=lambda t: t["N"].map("{:g} parameters".format))
    assert 2 < sizes["model"].nunique() <= 8
    assert "recipes" not in judged(sizes.assign(loss=lambda t: t["loss"] * t["N"] ** 0.01))


@pytest.mark.parametrize("pooled", [True, False])
def test_a_parameter_that_varies_by_another_column_is_not_advised_to_vary_by_the_recipe(pooled: bool) -> None:
    """A parameter has one column, and the value of one domain is no parameter that `by` knows."""
    law = with_levels(with_by(LAW, {"E": "domain"}), {"domain": ("web", "code")}, pooled=pooled)
    number = pd.factorize(twin()["run"])[0]
    table = twin().assign(optimizer=np.where(number % 2 == 0, "adamw", "muon"), domain=np.where(number % 4 < 2, "web", "code"))
    table["loss"] *= np.where(table["optimizer"] == "muon", 0.97, 1.03)
    check = judged(table, law=law, sigma_run=0.03, E_web=TRUTH["E"], E_code=TRUTH["E"], E_spread=0.1)["recipes"]
    assert not check.passed
    assert "(--by A=optimizer, by={'A': 'optimizer'})" in check.advice


def test_the_law_and_not_the_run_is_to_blame_where_a_few_runs_lie_apart() -> None:
    """A run effect of 1.5% is no outlier under the noise that has it."""
    table = twins.simulate(LAW, TRUTH, settings(), 3, sigma_run=0.015)
    assert judged(table, sigma_run=0.015)["outliers"].passed


@pytest.mark.parametrize("noise", ["normal", "student"])
def test_a_diverged_row_is_named(noise: str) -> None:
    """9.74 among 2.75: also where it has inflated the noise to 8%, or made a tail so heavy that one in 200 lies out there."""
    table = twin()
    table.loc[17, "loss"] = 9.74
    check = (judged(table, noise, sigma_point=0.08) if noise == "normal" else judged(table, noise, dof=2.4))["outliers"]
    assert not check.passed
    assert check.table["row"].tolist() == [18]  # rows count from 1
    assert f"row 18 ({table['run'][17]}): 9.74, +" in check.text
    assert "leave out" in check.advice


def test_a_row_of_a_table_that_names_no_runs_is_named_once() -> None:
    table = twin().drop(columns="run")
    table.loc[17, "loss"] = 9.74
    assert "noise off: row 18: 9.74, +" in judged(table, "student", dof=2.4)["outliers"].text


@pytest.mark.parametrize("dof", [2.1, 2.6, 5.0, 30.0])
def test_a_gross_error_is_named_however_heavy_the_tails_that_it_made(dof: float) -> None:
    table = twin()
    table.loc[17, "loss"] = 1.8 * table["loss"][17]
    check = judged(table, "student", dof=dof, sigma_point=0.015)["outliers"]
    assert check.table["row"].tolist() == [18]


def test_a_diverged_run_is_named() -> None:
    table = twin()
    own = table["run"] == table["run"][17]
    table.loc[own, "loss"] = 9.74
    check = judged(table, sigma_point=0.2, sigma_run=0.02)["outliers"]
    assert set(check.table["run"]) == {table["run"][17]}
    assert len(check.table) == own.sum()
    assert check.text.endswith("and 7 more")


@pytest.mark.parametrize(("shifts", "effect"), [("", 0.2), ("loss", 0.1)])
@pytest.mark.parametrize("sds", [4.0, 7.0])
def test_effects_of_runs_on_counted_items_are_in_logits_or_in_a_covariate(shifts: str, effect: float, sds: float) -> None:
    """An effect of .2 logits moves a share of one half by .05 and one of .03 by .006, an effect of .1 nats by what the law says."""
    law = load_law("task-sigmoid")
    law = replace(law, outcome=replace(law.outcome, run_shifts=shifts))
    table = pd.DataFrame(
        {"run": [f"run {i // 2}" for i in range(40)], "loss": np.linspace(2.0, 4.0, 40), "chance": 0.0, "items": 2000}
    )
    truth = {name: np.array([float(p.prior.scipy.median())]) for name, p in law.parameters.items()}
    share = law.predict(truth, {c: table[c].to_numpy() for c in law.covariates})[0]
    slope = np.gradient(share, table["loss"]) if shifts else share * (1 - share)
    sd = np.sqrt((effect * slope) ** 2 + share * (1 - share) * (0.03**2 + 1 / 2000))
    row = int(np.argmin(share))
    seen = share + 0.67 * sd * np.tile([-1.0, 1.0], 20)  # as far off as half of all rows are
    seen[row] = share[row] + sds * sd[row]
    observed = Observations.of(law, read_runs(table.assign(**{law.outcome.name: seen})))
    noise = Noise.choose("beta-binomial", observed)
    draws = {k: np.full((1, 2), float(v[0])) for k, v in truth.items()} | {k: np.full((1, 2), effect) for k in noise.parameters}
    draws["sigma_point"] = np.full((1, 2), 0.03)
    checks = {c.name: c for c in model_checks(law, observed, noise, draws, {}, {}, observed.covariates["loss"])}
    assert checks["outliers"].passed == (sds < 5), checks["outliers"].text


def test_losses_that_do_not_follow_their_settings_are_named() -> None:
    sound, shuffled = twin(), twin()
    shuffled["loss"] = np.random.default_rng(0).permutation(shuffled["loss"])
    check = judged(shuffled, sigma_point=0.2, sigma_run=0.1)["explained"]
    assert not check.passed
    assert "explains 0% of the variance of the losses" in check.text
    assert "sorted, shifted or joined" in check.advice
    passed = judged(sound)["explained"]
    assert passed.passed
    log, mean = np.log(sound["loss"]), np.log(twins.without_noise(LAW, TRUTH, sound))
    assert passed.table["share"].item() == pytest.approx(1 - ((log - mean) ** 2).sum() / ((log - log.mean()) ** 2).sum())
    assert "explains over 99.9% of the variance" in passed.text  # and not 100%, as no law does
    noisy = sound.assign(loss=sound["loss"] * np.exp(0.02 * np.random.default_rng(0).standard_normal(len(sound))))
    checked = judged(noisy)["explained"]
    assert f"explains {checked.table['share'].item():.1%} of the variance" in checked.text
    sound.loc[17, "loss"] = 9.74  # an outlier is named as such
    assert judged(sound, sigma_point=0.08)["explained"].passed


@pytest.mark.parametrize(("stated", "passed"), [(1.0, True), (0.1, True), (2.0, False), (20.0, False)])
def test_stated_errors_that_are_larger_than_the_scatter_are_named(stated: float, passed: bool) -> None:
    """Rows with errors of their own of .4%, of which a multiple is stated."""
    table = twins.simulate(LAW, TRUTH, settings(), 4, sigma_run=1e-6)
    check = judged(table.assign(loss_se=stated * twins.POINT * table["loss"]), sigma_run=1e-6)["known_errors"]
    assert check.passed == passed
    if not passed:
        assert f"and loss_se states errors of {stated * twins.POINT:.2%}" in check.text
        assert "that rows do not share" in check.advice


def measured(kind: str, values: Array) -> Observations:
    """Rows of an outcome of a kind; of counts with 200 items each."""
    law = LAW if kind == "loss" else outcomes.law(kind)
    table = outcomes.table("count" if kind == "loss" else kind).assign(**{law.outcome.name: values})
    return Observations.of(law, read_runs(table))


def test_small_noise_that_hides_what_settings_do_is_no_fault() -> None:
    """Losses of runs that differ little, or have large stated errors, have a right law that explains none of their variance."""
    small, large = (measured("loss", 3 * np.exp(sd * np.tile([-1.0, 1.0], 12))) for sd in (0.015, 0.1))
    for seen, passed in ((small, True), (large, False), (replace(large, se=np.full(24, 0.1)), True)):
        check = present(explained_check(seen.response - np.log(3), seen, []))
        assert check.table["share"].item() == pytest.approx(0, abs=0.02)
        assert check.passed is passed


def test_accuracies_are_not_checked() -> None:
    """Those near chance, or of few items, scatter much by a right law."""
    seen = measured("count", 0.27 + 0.25 * np.tile([-1.0, 1.0], 12))
    assert explained_check(seen.response - 0.27, seen, []) is None


def test_losses_that_are_all_equal_are_not_explained() -> None:
    seen = measured("loss", np.full(24, 3.0))
    check = present(explained_check(seen.response - np.log(3), seen, []))
    assert not check.passed
    assert check.text == "all losses are 3"
    assert "misfit" not in judged(twin().assign(loss=3.0))  # whose trend is how nearly the law is constant


def test_a_very_small_misfit_is_no_discrepancy_of_0_percent() -> None:
    exact = settings().assign(loss=twins.without_noise(LAW, TRUTH, settings()))
    off = np.exp(2e-4 * (exact["N"] > exact["N"].median()))
    assert "--discrepancy 0.02%, discrepancy='0.02%'" in judged(exact.assign(loss=exact["loss"] * off))["misfit"].advice


@pytest.mark.parametrize(
    ("kind", "middle", "error", "shown"), [("bounded", 60.0, 8.0, "8"), ("real", 3.0, 2.0, "2"), ("loss", 3.0, 0.3, "10.00%")]
)
def test_stated_errors_are_shown_in_the_unit_of_the_outcome(kind: str, middle: float, error: float, shown: str) -> None:
    """The scale of the noise is the logit for bounded outcomes; a person has stated points."""
    seen = measured(kind, middle + error / 100 * np.tile([-1.0, 1.0], 12))
    stated = replace(seen, se=error * seen.outcome.slope(seen.outcomes))
    check = present(known_errors_check(seen.response - seen.response.mean(), stated, 2))
    assert not check.passed
    part = f"{error / 100 * np.sqrt(24 / 22) / (middle if kind == 'loss' else 1):{'.2%' if kind == 'loss' else '.2g'}}"
    assert check.text == f"rows scatter around the law by {part}, and {seen.outcome.error} states errors of {shown}"


def test_tables_without_stated_errors_have_no_check_of_them() -> None:
    assert "known_errors" not in judged(twin())


def test_outliers_that_are_perplexities_are_named_as_such() -> None:
    table = twin()
    whole = table.index[table["run"] == table["run"].to_numpy()[int(table["loss"].argmin())]]
    perplexities = table.assign(loss=table["loss"].where(~table.index.isin(whole), np.exp(table["loss"])))
    assert f"{row_ranges(whole + 1)} may be perplexities" in judged(perplexities, sigma_point=0.02)["outliers"].advice
    perplexities.loc[whole, "loss"] = 4.9
    assert "perplexities" not in judged(perplexities)["outliers"].advice
    table.loc[whole[-1], "loss"] = np.exp(table.loc[whole[-1], "loss"])  # a run that diverges, by chance to such a loss
    check = judged(table, sigma_point=0.02)["outliers"]
    assert not check.passed
    assert "perplexities" not in check.advice


def test_small_errors_of_smooth_curves_are_no_outliers() -> None:
    """1% off the law is many standard deviations of a curve's noise, but no fault of the row."""
    table = twin()
    table["loss"] *= np.where(np.arange(len(table)) == 17, 1.015, 1.0)
    assert judged(table, sigma_point=0.0005, sigma_run=0.0005)["outliers"].passed


@pytest.mark.parametrize("name", ["N", "D", "ptpp"])
def test_misfit_is_named_by_its_covariate(name: str) -> None:
    """An error of .5% that follows one covariate, of the law or only of the table."""
    table = twin().assign(ptpp=np.where(settings()["N"] > 0, settings().index // 10 % 2 * 16 + 15, 0))
    error = np.log(table[name]) - np.log(table[name]).mean()
    table["loss"] *= np.exp(0.005 * error / error.abs().max() * (1 if name != "D" else 2))
    check = judged(table, others=("ptpp",))["misfit"]
    assert not check.passed
    assert check.table["p"].astype(float)[name] < ALARM
    assert f"{name}: " in check.text


@pytest.mark.parametrize(("sizes", "seen"), [(2, "N"), (3, "N, D"), (12, "N, D")])
def test_misfit_says_where_rows_are_too_few_to_see_it(sizes: int, seen: str) -> None:
    """A law of five parameters leaves ten runs too few degrees of freedom; they passed whatever their residuals."""
    n, d = (v.ravel() for v in np.meshgrid(1e8 * 2.0 ** np.arange(sizes), 2e9 * 4.7 ** np.arange(5)))
    loss = LAW.predict({k: np.array([v]) for k, v in TRUTH.items() if k in LAW.parameters}, {"N": n, "D": d})[0]
    off = np.array([-0.045, 0.029, 0.048, 0.003, -0.036])[np.unique(d, return_inverse=True)[1]]
    check = judged(pd.DataFrame({"run": np.arange(n.size).astype(str), "N": n, "D": d, "loss": loss * np.exp(off)}))["misfit"]
    p = check.table["p"].astype(float)
    assert [name for name in ("N", "D") if not np.isnan(p[name])] == seen.split(", ")
    assert check.passed is (sizes == 2)
    if sizes == 2:
        assert check.text == "residuals show no trend along N; rows are too few to see a trend of residuals along D, N x D, D / N"


def test_misfit_sees_levels_of_few_runs_that_go_with_their_size() -> None:
    """Eight curves follow the law in shape, and their levels fall with N: so few means are no analysis of variance."""
    n, d = (v.ravel() for v in np.meshgrid(1e8 * 2.0 ** np.arange(8), 2e9 * 1.5 ** np.arange(12), indexing="ij"))
    runs = pd.DataFrame({"run": [f"{size:g}" for size in n], "N": n, "D": d})
    loss = LAW.predict({k: np.array([v]) for k, v in TRUTH.items() if k in LAW.parameters}, {"N": n, "D": d})[0]
    loss = loss * np.exp(0.001 * np.random.default_rng(0).standard_normal(n.size))
    level = np.linspace(0.2, -0.2, 8)[pd.factorize(n)[0]]
    assert judged(runs.assign(loss=loss))["misfit"].passed
    check = judged(runs.assign(loss=loss * np.exp(level)))["misfit"]
    assert not check.passed
    assert "N: +" in check.text


@pytest.mark.slow
def test_misfit_counts_runs_and_not_rows() -> None:
    """Run effects alone are no misfit, however many rows repeat them."""
    found = [judged(twins.simulate(LAW, TRUTH, settings(), seed, sigma_run=0.02))["misfit"].passed for seed in range(60)]
    assert np.mean(found) > 0.93


def curved(seed: int, sd: float, length: float) -> pd.DataFrame:
    """24 curves of 40 points in which neighbouring points err together, with a run effect."""
    rng, parts = np.random.default_rng(seed), []
    for run, (size, _) in enumerate((n, i) for n in (241e6, 517e6, 1.4e9, 8.1e9) for i in range(6)):
        steps, error = np.exp(-40 / 39 / (40 * length)), [sd * rng.standard_normal()]
        for shock in rng.standard_normal(39):
            error.append(steps * error[-1] + sd * np.sqrt(1 - steps**2) * shock)
        d = np.linspace(1, 20, 40) * size
        loss = twins.without_noise(LAW, TRUTH, {"N": np.full(40, size), "D": d})
        noise = np.array(error) + twins.POINT * rng.standard_normal(40) + twins.RUN * rng.standard_normal()
        parts.append(pd.DataFrame({"N": size, "D": d, "loss": loss * np.exp(noise), "run": f"run {run}"}))
    return pd.concat(parts, ignore_index=True)


def test_points_that_err_together_are_found_in_spite_of_a_run_effect() -> None:
    check = judged(curved(1, 0.004, 0.2))["autocorrelation"]
    assert not check.passed
    assert check.table["correlation"][0] > 0.3
    assert "times too narrow" in check.text
    assert "normal-drift" in check.advice
    assert "--where last" in check.advice  # many runs from scratch
    few = judged(curved(1, 0.004, 0.2).query("run in ['run 0', 'run 1']"))["autocorrelation"]
    assert "last" not in few.advice


@pytest.mark.slow
def test_independent_points_of_long_runs_pass() -> None:
    """Residuals less their run's mean correlate by -1/k, which is added back: no table in 60 fails, and the mean is 0."""
    checks = [judged(curved(seed, 0.0, 0.2))["autocorrelation"] for seed in range(60)]
    assert all(check.passed for check in checks)
    assert abs(np.mean([check.table["correlation"][0] for check in checks])) < 0.01


@pytest.mark.slow
def test_innovations_of_drift_are_independent() -> None:
    """Under the noise that has the drift neighbours don't correlate beyond it; under one of another length they do."""
    table = curved(2, 0.004, 0.2)
    own = {"sigma_run": np.hypot(0.004, twins.RUN), "sigma_point": twins.POINT}
    right = judged(table, "normal-drift", drift=0.25, **own)["autocorrelation"]
    wrong = judged(table, "normal-drift", drift=0.01, **own)["autocorrelation"]
    assert right.passed, right.text
    assert not wrong.passed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "length", "passed"),
    [(0.026, 0.586, False), (0.019, 1.87, False), (0.009, 0.052, True), (0.01, 0.089, True), (0.026, 0.1, True)],
    ids=["25M annealing", "25M multi-power", "100M", "400M", "short"],
)
def test_drift_that_takes_over_from_the_law(share: float, length: float, passed: bool) -> None:
    """Shares and lengths of public curves: where drift multiplies the error of forecasts by four, and where it does little harm."""
    table = curved(1, 0.0, 0.2)
    law = np.log(twins.without_noise(LAW, TRUTH, table))
    decline = float(np.median([np.ptp(law[rows]) for rows in np.split(np.arange(len(table)), 24)]))
    sigma = share * decline / np.sqrt(2 * (1 - np.exp(-1 / length)))
    check = judged(table, "normal-drift", sigma_run=sigma, drift=length)["drift"]
    assert check.table["share"][0] == pytest.approx(share, rel=1e-6)
    assert check.passed is passed, check.text
    compared = replace(LAW, noise="normal-drift")
    assert "drift" not in judged(table, "normal-drift", law=compared, sigma_run=sigma, drift=length)


def test_one_run_says_nothing_on_runs() -> None:
    table = twin()
    one = judged(table[table["run"] == table["run"][0]])["runs"]
    assert not one.passed
    assert one.text.startswith(f"all rows are of one run ({table['run'][0]})")
    assert judged(table)["runs"].passed


def test_posteriors_far_out_in_their_priors_are_named() -> None:
    """eta 4 prior standard deviations below its prior, and a scale of noise 5 above; tails are SciPy's."""
    law = load_law("transfer-target")
    prior = law.parameters["eta"].prior
    eta = float(np.exp(prior.args["mu"] - 4 * prior.args["sigma"]))
    middle = {k: float(p.prior.scipy.median()) for k, p in law.parameters.items()}
    noise = Noise(student=False, run_effect=True, checkpoint_effect=True)
    scales = {"sigma_point": 0.005, "sigma_run": 0.03, "sigma_checkpoint": 0.015}
    at = {"N": 1e9, "D": 1e10, "r": 0.25, "ptpp": 30.0}

    def spread(values: dict[str, float]) -> dict[str, Array]:
        return {k: np.full((2, 5), v) for k, v in values.items()}

    ones = law.units_at({k: np.ones(1) for k in middle}, at)
    draws = spread({k: v / float(np.ravel(ones.get(k, 1.0))[0]) for k, v in middle.items()} | {"eta": eta} | scales)
    check = conflict_check(law.with_priors({k: law.parameters[k].prior for k in middle}), noise, draws, at)
    table = check.table
    assert table["prior_sds"]["eta"] == pytest.approx(-4)
    assert table["prior_sds"]["sigma_checkpoint"] == pytest.approx(5)
    assert "sigma_run" not in table.index  # `run_effect` judges it
    assert {"eta", "sigma_checkpoint"} <= {*table.index[table["prior_tail"] < TAIL]}
    assert "sigma_checkpoint (+5.0 prior sd), eta (-4.0 prior sd)" in check.text
    assert Prior.parse("HalfNormal(0.003)").scipy.sf(0.015) == pytest.approx(table["prior_tail"]["sigma_checkpoint"])
