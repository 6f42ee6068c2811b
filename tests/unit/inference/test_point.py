"""Point fits: recovered truths, the objective against an oracle, and resampling in the bootstrap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bayeslaw.core.errors import FitError, TableError
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import read_runs
from bayeslaw.engine.huber import HuberLoss
from bayeslaw.inference import point as point_module
from bayeslaw.inference.point import PointFit, point_fit
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.laws.pooling import with_by
from tests import oracles
from tests.cards import POSITIVE, card
from tests.errors import fails
from tests.oracles import LAWS, Array


def oracle(law: str, parameters: dict[str, float], table: pd.DataFrame, delta: float) -> float:
    """Sum of Huber losses of the log residuals."""
    settings = {c: table[c].to_numpy() for c in load_law(law).covariates}
    residual = np.log(LAWS[law](parameters, settings) / table["loss"].to_numpy())
    return float(sum(0.5 * e**2 if abs(e) <= delta else delta * (abs(e) - 0.5 * delta) for e in residual))


def noisy(seed: int = 0, sigma_run: float = 0.004) -> pd.DataFrame:
    return oracles.table(load_law("chinchilla"), seed=seed, runs=8, sigma_run=sigma_run)


@pytest.fixture(scope="module")
def pointed() -> PointFit:
    return point_fit("chinchilla", noisy(), starts=10)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "starts"), [("chinchilla", 10), ("ptpp-floor", 6)])
def test_noiseless_parameters_are_recovered(name: str, starts: int) -> None:
    law = load_law(name)
    table = oracles.table(law, runs=12, sigma_point=0, sigma_run=0)
    fit = point_fit(law, table, starts=starts)
    assert dict(fit.parameters) == pytest.approx(oracles.typical(law), rel=1e-4)
    assert fit.objective < 1e-10


@pytest.mark.slow
def test_a_share_may_exceed_1_in_a_point_fit() -> None:
    """The published fits require positive parameters only: lambda of a gate lies on (0, 1) in a posterior, not here."""
    law, truth = load_law("ptpp-gate"), oracles.typical(load_law("ptpp-gate")) | {"lam": 1.05, "B": 3.0}
    table = oracles.table(law, runs=12)
    table["loss"] = oracles.ptpp_gate(truth, {c: table[c].to_numpy() for c in law.covariates})
    fit = point_fit(law, table, starts=10)
    assert fit.parameters["lam"] == pytest.approx(1.05, rel=1e-3)
    assert law.parameters["lam"].prior.support == "unit"


def test_every_parameter_stays_positive() -> None:
    """Losses that rise with N and D pull the exponents below 0; the fit keeps them above."""
    law = load_law("chinchilla")
    table = noisy().assign(loss=lambda t: 0.5 + 0.1 * np.log(t["N"] * t["D"]) / np.log(10))
    fit = point_fit(law, table, starts=5)
    assert min(fit.parameters.values()) >= 0
    assert np.isfinite(list(fit.parameters.values())).all()


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-3, 0.02, 10.0])
def test_the_objective_is_the_sum_of_huber_losses_and_at_its_minimum(delta: float) -> None:
    table = noisy()
    fit = point_fit("chinchilla", table, starts=5, delta=delta)
    here = dict(fit.parameters)
    assert fit.delta == delta
    assert fit.objective == pytest.approx(oracle("chinchilla", here, table, delta), rel=1e-9)
    for name, value in here.items():
        for factor in (0.99, 0.999, 1.001, 1.01):
            assert oracle("chinchilla", here | {name: value * factor}, table, delta) > fit.objective


@pytest.mark.slow
def test_delta_is_the_cards_unless_given(pointed: PointFit) -> None:
    assert pointed.delta == load_law("chinchilla").huber_delta == 1e-3
    law = load_law("ptpp-floor")
    assert point_fit(law, oracles.table(law), starts=1).delta == law.huber_delta == 0.02
    assert point_fit("chinchilla", noisy(), starts=1, delta=0.5).delta == 0.5


def test_predictions_are_the_laws(pointed: PointFit) -> None:
    settings = {"N": np.array([1e8, 1e10]), "D": np.array([1e9, 1e12])}
    np.testing.assert_allclose(pointed.predict(settings), oracles.chinchilla(pointed.parameters, settings), rtol=1e-12)
    assert {name: values.tolist() for name, values in pointed.draws.items()} == {k: [v] for k, v in pointed.parameters.items()}
    row = pd.DataFrame({**settings, "name": "a"}).iloc[1]  # it was said to lack N and D
    np.testing.assert_array_equal(pointed.predict(row), pointed.predict(settings)[1:])
    for n in (0.0, -1e9):
        with fails("no-finite-loss", f"N = {n:.4g}"):
            pointed.predict({"N": np.array([1e9, n]), "D": 1e10})


@pytest.mark.slow
def test_a_column_by_which_parameters_differ_is_a_setting() -> None:
    table = pd.concat([noisy(i).assign(domain=i, run=f"of {i}, " + noisy(i)["run"]) for i in (1, 2)], ignore_index=True)
    fit = point_fit(with_by(load_law("chinchilla"), {"E": "domain"}), table, starts=2)
    settings = {"N": np.array([1e8, 1e10]), "D": 1e11}
    for domain in (1, 2):
        values = {**fit.parameters, "E": fit.parameters[f"E_{domain}"]}
        wanted = oracles.chinchilla(values, {"N": settings["N"], "D": np.full(2, 1e11)})
        np.testing.assert_allclose(fit.predict({**settings, "domain": domain}), wanted)
        np.testing.assert_allclose(fit.predict(pd.DataFrame({**settings, "domain": [float(domain)] * 2})), wanted)
    with fails("unknown-level", "domain '3' is not among 1, 2"):
        fit.predict({**settings, "domain": 3})
    with fails("missing-column", "N, D, domain; domain is missing"):
        fit.predict(settings)


def test_starts_are_listed_best_first(pointed: PointFit) -> None:
    reached = pointed.starts["objective"].to_numpy()
    assert reached.size == 10
    assert (np.diff(reached) >= 0).all()
    assert pointed.objective <= reached[0] * (1 + 1e-12)


@pytest.mark.slow
def test_an_outlier_moves_a_large_delta_more_than_a_small_one() -> None:
    table, truth = noisy(sigma_run=0), oracles.typical(load_law("chinchilla"))
    table["loss"] *= np.where(table.index == 7, 1.5, 1.0)
    settings = {c: table[c].to_numpy() for c in ("N", "D")}
    expected = LAWS["chinchilla"](truth, settings)
    off = [np.abs(point_fit("chinchilla", table, starts=5, delta=d).predict(settings) / expected - 1).mean() for d in (1e-3, 10.0)]
    assert off[0] < 0.5 * off[1]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_fit_and_bootstrap(pointed: PointFit) -> None:
    repeated = point_fit("chinchilla", noisy(), starts=10)
    assert dict(repeated.parameters) == dict(pointed.parameters)
    pd.testing.assert_frame_equal(repeated.starts, pointed.starts, check_exact=True)
    other = point_fit("chinchilla", noisy(), starts=10, seed=1)
    assert not np.isin(other.starts["objective"], pointed.starts["objective"]).all()
    assert dict(other.parameters) == pytest.approx(dict(pointed.parameters), rel=1e-3)  # the same minimum
    first, same, different = (pointed.bootstrap(3, seed=seed) for seed in (4, 4, 5))
    assert all(np.array_equal(first[name], same[name]) for name in first)
    assert not np.array_equal(first["E"], different["E"])


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Array]:
    """The weights of rows that refits are given from now on."""
    weights_of, original = list[Array](), HuberLoss.objective

    def watched(self: HuberLoss, delta: float, weights: Array) -> Any:
        weights_of.append(weights)
        return original(self, delta, weights)

    monkeypatch.setattr(HuberLoss, "objective", watched)
    return weights_of


@pytest.mark.slow
def test_runs_are_resampled_whole(pointed: PointFit, seen: list[Array]) -> None:
    """The weights of rows that a refit is given: equal within runs, or by row; as many rows as there are."""
    resamples = pointed.bootstrap(4, by="run")
    assert {name: values.shape for name, values in resamples.items()} == dict.fromkeys(pointed.parameters, (4,))
    code = pointed.observed.run
    for weights in seen:
        assert all(len(set(weights[code == j])) == 1 for j in range(pointed.observed.runs))
        assert weights.sum() == code.size
    seen.clear()
    pointed.bootstrap(4, by="row")
    assert all(weights.sum() == code.size for weights in seen)
    assert any(len(set(weights[code == 0])) > 1 for weights in seen)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["run", "row"])
def test_every_resample_has_all_values_by_which_parameters_vary(by: str, seen: list[Array]) -> None:
    """A floor of a domain of which no run was drawn would be that of the random start, whatever the floors of the others."""
    runs = [noisy(seed).assign(domain=domain) for seed, domain in enumerate(("web", "code", "books"))]
    table = pd.concat([t[t["run"].isin(t["run"].unique()[:2])].assign(run=t["domain"] + t["run"]) for t in runs], ignore_index=True)
    fit = point_fit(with_by(load_law("chinchilla"), {"E": "domain"}), table, starts=2)
    seen.clear()
    fit.bootstrap(20, by=by)
    domain = np.array([name.partition("run")[0] for name in fit.observed.run_names])[fit.observed.run]
    for weights in seen:
        rows = {name: (weights[domain == name].sum(), (domain == name).sum()) for name in ("web", "code", "books")}
        assert all(drawn == had for drawn, had in rows.values()), rows
    assert len(seen) == 20
    assert len({weights.tobytes() for weights in seen}) > 10


def test_base_rows_are_left_out(pointed: PointFit) -> None:
    table = noisy()
    fit = point_fit("chinchilla", pd.concat([table, table.head(2).assign(D=0.0, loss=9.0)]), starts=10)
    assert dict(fit.parameters) == dict(pointed.parameters)
    assert len(fit.observed.base) == 2


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        ({"delta": 0.0}, "bad-delta", "not 0"),
        ({"delta": float("nan")}, "bad-delta", "nan"),
        ({"delta": float("inf")}, "bad-delta", "inf"),
        ({"starts": 0}, "not-a-whole-number", "starts"),
        ({"seed": -1}, "not-a-whole-number", "seed"),
    ],
)
def test_unusable_options_are_refused(options: dict[str, float], code: str, named: str) -> None:
    with fails(code, named):
        point_fit("chinchilla", noisy(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        ({"by": "point"}, "unknown-resampling", "point"),
        ({"size": 0}, "not-a-whole-number", "size"),
        ({"seed": -1}, "not-a-whole-number", "seed"),
    ],
)
def test_unusable_options_of_the_bootstrap_are_refused(
    pointed: PointFit, options: dict[str, object], code: str, named: str
) -> None:
    with fails(code, named):
        pointed.bootstrap(**options)  # type: ignore[arg-type]


def test_a_bootstrap_that_would_repeat_the_fit_is_refused() -> None:
    """Intervals of its resamples would have no width."""
    table = noisy()
    first = table["run"] == table["run"].iloc[0]
    with fails("nothing-to-resample", "several runs, and there is one:", "by 'row'"):
        point_fit("chinchilla", table[first], starts=1).bootstrap(2)
    apart = point_fit(with_by(load_law("chinchilla"), {"E": "domain"}), table.assign(domain=table["run"]), starts=1)
    with fails("nothing-to-resample", "each is the only one of its domain", "by 'row'"):
        apart.bootstrap(2)
    assert apart.bootstrap(1, by="row")["alpha"].shape == (1,)


@pytest.mark.slow
def test_a_fit_that_reaches_no_finite_loss_is_refused() -> None:
    """log(k) has a value for 2% of the starts of k only."""
    card = load_law("chinchilla").card.replace("E + A", "E + 0*log(k) + A")
    card += '\n[parameters.k]\nmeaning = "k"\nprior = { dist = "Normal", mu = -2, sigma = 1 }\n'
    with fails("no-finite-loss", kind=FitError):
        point_fit(parse_card(card), noisy(), starts=2)


@pytest.mark.slow
def test_progress_goes_to_standard_error(pointed: PointFit, capsys: pytest.CaptureFixture[str]) -> None:
    fit = point_fit("chinchilla", noisy(), starts=10, progress=True)
    assert dict(fit.parameters) == dict(pointed.parameters)
    shown = fit.bootstrap(3, progress=True)
    assert all(np.array_equal(shown[name], values) for name, values in fit.bootstrap(3).items())
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_blas_has_one_thread_while_descending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for each other over tiny systems made point fits 40 times slower on a busy computer."""

    def threads() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    seen: list[set[int]] = []
    descend = point_module.descend

    def watched(loss: Any, start: Array) -> tuple[float, Array]:
        seen.append(threads())
        return descend(loss, start)

    monkeypatch.setattr(point_module, "descend", watched)
    with threadpool_limits(2, "blas"):
        before = threads()
        point_fit("chinchilla", noisy(), starts=2).bootstrap(2)
        assert threads() == before
    assert seen == [{1}] * (2 + 1 + 2 * 3)


def test_faulty_tables_are_refused() -> None:
    with pytest.raises(TableError, match="loss -1 is not positive"):
        point_fit("chinchilla", noisy().assign(loss=-1.0))


def test_a_point_fit_says_in_a_line_what_it_is() -> None:
    text = repr(point_fit("chinchilla", oracles.table(load_law("chinchilla"), runs=4), starts=2))
    assert text.startswith("<PointFit of chinchilla to 20 losses: alpha = 0.")
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.slow
def test_shares_of_counted_items_are_fitted_as_shares() -> None:
    """A measured share may be 0 or 1, so it is compared with the expected share and not with its logit."""
    loss = np.linspace(2.0, 4.4, 40)
    share = 0.25 + 0.65 / (1 + np.exp(-3 * (2.9 - loss)))
    table = pd.DataFrame({"loss": loss, "accuracy": share, "items": 500.0, "chance": 0.25, "run": [f"r{i}" for i in range(40)]})
    fit = point_fit("task-sigmoid", table, starts=10)
    assert dict(fit.parameters) == pytest.approx({"L0": 2.9, "k": 3.0, "top": 0.9}, rel=1e-3)


def test_covariates_may_have_any_name() -> None:
    """A constant covariate called delta had the value of the Huber loss's, and one called settings took the place of a count."""
    supports = dict.fromkeys(("N", "delta", "settings"), (0.0, 1e12))
    text = card("E + A*delta*settings/N**alpha", supports, E=POSITIVE, A=POSITIVE, alpha=POSITIVE)
    table = pd.DataFrame({"N": [1e3, 1e4, 1e5, 1e6], "delta": 3.0, "settings": 5.0, "loss": [4.0, 3.1, 2.6, 2.3]})
    observed = Observations.of(parse_card(text), read_runs(table))
    huber = HuberLoss.of(parse_card(text), observed)
    x, weights = huber.start(np.random.default_rng(0)), np.array([1.0, 2.0, 0.0, 1.0])
    p = {name: float(values[0]) for name, values in huber.parameters(x[None]).items()}
    off = np.abs(np.log((p["E"] + p["A"] * 15 / table["N"] ** p["alpha"]) / table["loss"]))
    assert huber.objective(0.1, weights)(x)[0] == pytest.approx(
        float(weights @ np.where(off <= 0.1, off**2 / 2, 0.1 * (off - 0.05)))
    )
