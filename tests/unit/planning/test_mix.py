"""The best mixture: against closed forms and brute force, limits, regret, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import bayeslaw
from bayeslaw.core.errors import BayeslawError
from bayeslaw.laws.card import load_law
from bayeslaw.laws.pooling import levels_of, with_by, with_levels
from bayeslaw.planning.mix import mix
from bayeslaw.planning.mix_search import Domain, Search, within
from bayeslaw.plots.mix import plot_mix
from bayeslaw.posterior.draws import LawDraws
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.commands import Command
from tests.errors import fails
from tests.fixed import fixed_fit
from tests.posteriors import law_named, posterior, scattered
from tests.values import present

SHARES = ("web", "code", "books")
WEB = {"c": 2.0, "k": 0.5, "t_web": -2.0, "t_code": 0.5, "t_books": -0.5}
CODE = {"c": 1.0, "k": 0.4, "t_web": 0.5, "t_code": -3.0, "t_books": 0.8}
OPEN = dict.fromkeys(SHARES, (0.0, 1.0))


def fit(values: dict[str, float], scatter: float = 0.02, seed: int = 1, size: int = 400) -> Fit:
    rng = np.random.default_rng(seed)
    draws = {k: v + scatter * abs(v) * rng.standard_normal(size) for k, v in values.items()}
    return posterior("data-mixing", draws, seed=seed)


@pytest.fixture(scope="module")
def fits() -> dict[str, Fit]:
    return {"web": fit(WEB, seed=1), "code": fit(CODE, seed=2)}


def grid(step: int = 100) -> np.ndarray:
    """All mixtures of three shares in steps of 1/step."""
    a, b = np.meshgrid(np.arange(step + 1), np.arange(step + 1))
    kept = a + b <= step
    return np.stack([a[kept], b[kept], step - a[kept] - b[kept]], axis=1) / step


def losses(fit: Fit, mixtures: np.ndarray, draws: Any = slice(None)) -> np.ndarray:
    """Losses (s, m) of some draws by the oracle."""
    p = {k: v[draws, None] for k, v in fit.draws.items() if k in fit.law.parameters}
    return np.asarray(oracles.data_mixing(p, dict(zip(SHARES, mixtures.T, strict=True))))


@pytest.mark.slow
@pytest.mark.parametrize("weights", [{"web": 0.5, "code": 0.5}, {"web": 3.0, "code": 1.0}])
def test_the_best_mixture_is_that_of_a_fine_grid(fits: dict[str, Fit], weights: dict[str, float]) -> None:
    found = mix(fits, weights, bounds=OPEN)
    points, share = grid(), weights["web"] / sum(weights.values())
    mean = (share * losses(fits["web"], points) + (1 - share) * losses(fits["code"], points)).mean(axis=0)
    best = points[mean.argmin()]
    np.testing.assert_allclose([present(found.best)[s] for s in SHARES], best, atol=0.015)
    row = found.table.set_index("mixture").loc["recommended"]
    assert mean.min() - 2e-4 <= row["loss_mean"] <= mean.min() + 1e-5
    assert sum(present(found.best).values()) == pytest.approx(1.0, abs=1e-9)


def test_fitted_mixtures_that_are_too_many_to_compare_are_counted(fits: dict[str, Fit], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mix(fits)
    monkeypatch.setattr("bayeslaw.planning.mix.MOST_MIXTURES", 2)
    some = mix(fits)
    fitted = [sum(name.startswith("fitted") for name in found.table["mixture"]) for found in (whole, some)]
    assert fitted[0] > fitted[1] == 2
    assert some.notes[-1].startswith(f"of {fitted[0]} fitted mixtures")
    assert not any("are compared" in note for note in whole.notes)


@pytest.mark.slow
def test_losses_of_the_next_run_have_the_noise_of_their_group() -> None:
    """A group that differs in noise alone is named among the settings."""
    law = law_named("data-mixing")
    table = oracles.table(law)
    table = table.assign(lab=np.where(table["run"] == table["run"].iloc[0], "quiet", "loud"))
    draws = {k: np.full(400, v) for k, v in WEB.items()}
    scales = {"sigma_point[quiet]": 1e-6, "sigma_point[loud]": 0.05, "sigma_run[quiet]": 1e-6, "sigma_run[loud]": 1e-6}
    draws |= {name: np.full(400, scale) for name, scale in scales.items()}
    both = fixed_fit(law, table, draws, noise="normal", noise_by="lab")
    sds = [float(np.log(mix(both, at={"lab": lab}, on="run").draws["recommended"]).std()) for lab in ("quiet", "loud")]
    assert sds == pytest.approx([1.4e-6, 0.05], rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("shares", [5, 20])
def test_the_best_mixture_of_many_shares_is_found(shares: int) -> None:
    """The weighted loss is convex: it lies above its tangents, which bound by how much a better mixture could lower it."""
    rng, size = np.random.default_rng(shares), 200
    names = [f"s{i}" for i in range(shares)]
    law, t = load_law("data-mixing", shares=names), rng.normal(0, 1.5, (8, shares)) - 1.5 * np.eye(shares)[:8].sum(axis=0)
    values = t[:, None] + 0.15 * rng.standard_normal((8, size, shares))
    domains = [
        Domain(f"d{i}", (LawDraws(law, {"c": np.full(size, 1.5), "k": np.full(size, 0.6)} | dict(zip(
            (f"t_{name}" for name in names), values[i].T, strict=True))),), np.ones(size), "nats/token")
        for i in range(8)
    ]  # fmt: skip
    search, every = Search(domains, np.full(8, 1 / 8), {}, 0.9, None, tuple(names), 0), np.arange(size)

    def excess(x: np.ndarray, draws: np.ndarray) -> float:
        slope = np.einsum("dsk,ds->k", values[:, draws], 0.6 * np.exp(values[:, draws] @ x)) / (8 * draws.size)
        return float(slope @ x - slope.min())

    box, even = (np.zeros(shares), np.ones(shares)), np.full((1, shares), 1 / shares)
    best, _ = search.least(box, even, every, every)
    assert excess(best, every) < 1e-4 < 0.01 < excess(even[0], every)
    own, _ = search.each(box, np.vstack([even, best]), every[:5])
    assert max(excess(x, every[i : i + 1]) for i, x in enumerate(own)) < 1e-3


@pytest.mark.slow
def test_one_domain_wants_the_share_that_helps_it_most(fits: dict[str, Fit]) -> None:
    """c + k exp(t.r) with negative t is least at the corner of the least t: within bounds, at the corner of the bounds."""
    corner = present(mix(fits["web"], bounds=OPEN).best)
    assert corner["web"] == pytest.approx(1.0, abs=2e-3)
    bounded = mix(fits["web"], bounds={"web": (0.1, 0.4), "code": (0.2, 0.9), "books": (0.0, 0.3)}).best
    assert bounded == pytest.approx({"web": 0.4, "code": 0.3, "books": 0.3}, abs=2e-3) or bounded == pytest.approx(
        {"web": 0.4, "code": 0.2, "books": 0.4}, abs=2e-3
    )


@pytest.mark.slow
def test_limits_hold_with_the_confidence_asked_for(fits: dict[str, Fit]) -> None:
    free = mix(fits, {"web": 1.0}, bounds=OPEN)
    limit = 1.12
    bound = mix(fits, {"web": 1.0}, limits={"code": limit}, confidence=0.9, bounds=OPEN)
    x = np.array([[present(bound.best)[s] for s in SHARES]])
    held = (losses(fits["code"], x) <= limit).mean()
    assert held >= 0.9
    row = bound.table.set_index("mixture").loc["recommended"]
    assert row["limits_prob"] == pytest.approx(held)
    points = grid()
    feasible = (losses(fits["code"], points) <= limit).mean(axis=0) >= 0.9
    brute = losses(fits["web"], points).mean(axis=0)[feasible].min()
    assert row["loss_mean"] <= brute + 1e-3
    assert row["loss_mean"] > free.table.set_index("mixture").loc["recommended", "loss_mean"]
    surer = mix(fits, {"web": 1.0}, limits={"code": limit}, confidence=0.99, bounds=OPEN)
    assert present(surer.best)["code"] > present(bound.best)["code"]


@pytest.mark.slow
def test_limits_hold_for_all_draws_and_not_only_for_those_of_a_quicker_search() -> None:
    """On the limit a mixture that is feasible by some draws is not by all of them."""
    many = {"web": fit(WEB, seed=1, size=4000), "code": fit(CODE, seed=2, size=4000)}
    found = mix(many, {"web": 1.0}, limits={"code": 1.12}, bounds=OPEN)
    assert found.best is not None
    shares = dict(zip(found.table["mixture"], found.table["limits_prob"], strict=True))
    assert 0.9 <= shares["recommended"] < 0.92


@pytest.mark.slow
def test_limits_that_no_mixture_meets_say_what_is_attainable(fits: dict[str, Fit]) -> None:
    found = mix(fits, limits={"code": 0.5}, bounds=OPEN)
    assert found.best is None
    assert "no mixture" in found.lines()[1]
    assert sum(found.attainable.values()) == pytest.approx(1.0)
    assert found.table["mixture"].iloc[0] == "attainable"
    assert found.table["best_prob"].isna().all()  # of the mixtures that meet the limits there is none
    assert "recommended" not in {*found.table["mixture"], *found.losses["mixture"], *found.draws}


@pytest.mark.slow
def test_a_probability_just_below_the_confidence_is_too_low(fits: dict[str, Fit]) -> None:
    limit = float(np.median(losses(fits["code"], grid()).min(axis=1)))  # half of the draws meet it at best
    reached = float(mix(fits, limits={"code": limit}, confidence=0.99, bounds=OPEN).table["limits_prob"].iloc[0])
    most = (losses(fits["code"], grid()) <= limit).mean(axis=0).max()
    assert most <= reached <= most + 0.01
    for above, met in ((-0.01, True), (0.0, True), (0.005, False)):
        found = mix(fits, limits={"code": limit}, confidence=reached + above, bounds=OPEN)
        assert (found.best is not None) == found.table["feasible"].iloc[0] == met
    assert found.losses.loc[found.losses["domain"] == "web", ["limit", "limit_prob"]].isna().all(axis=None)


@pytest.mark.slow
def test_the_best_of_compared_mixtures_is_counted_among_those_that_meet_the_limits(fits: dict[str, Fit]) -> None:
    among = pd.DataFrame({"web": [0.9, 0.6, 0.5], "code": [0.1, 0.4, 0.5], "books": 0.0})
    chance = (losses(fits["code"], among.to_numpy()) <= 1.2).mean(axis=0)
    assert chance[0] < 0.9 < chance[1]
    found = mix(fits, {"web": 1.0}, limits={"code": 1.2}, among=among)
    table = found.table.set_index("web")
    assert present(found.best)["web"] == pytest.approx(0.6)  # of the two the one with the lower loss of the web
    web = losses(fits["web"], among.to_numpy())[:, 1:]
    assert table["best_prob"].to_dict() == pytest.approx(
        {0.9: 0.0, 0.6: (web[:, 0] < web[:, 1]).mean(), 0.5: (web[:, 0] > web[:, 1]).mean()}
    )


@pytest.mark.slow
def test_regret_under_limits_is_over_the_best_mixture_that_meets_them_in_each_draw(fits: dict[str, Fit]) -> None:
    """Or over the best of all in a draw in which none meets them."""
    limit = float(np.quantile(losses(fits["code"], grid()).min(axis=1), 0.8))
    found = mix(fits, {"web": 1.0}, limits={"code": limit}, confidence=0.5, bounds=OPEN)
    points, some = grid(300), found.optima.index.to_numpy()
    web, met = losses(fits["web"], points, some), losses(fits["code"], points, some) <= limit
    assert 0.1 < (~met.any(axis=1)).mean() < 0.5
    least = np.where(met | ~met.any(axis=1, keepdims=True), web, np.inf).min(axis=1)
    best = np.array([[present(found.best)[s] for s in SHARES]])
    row = found.table.set_index("mixture").loc["recommended"]
    on_grid = (losses(fits["web"], best, some)[:, 0] - least).mean()
    assert on_grid <= row["regret"] <= on_grid + 2e-3  # a draw's best mixture lies between points of the grid


@pytest.mark.slow
def test_todays_regret_and_gain(fits: dict[str, Fit]) -> None:
    today = {"web": 0.8, "code": 0.2}
    found = mix(fits, today=today, bounds=OPEN)
    x = np.array([[0.8, 0.2, 0.0], [found.attainable[s] for s in SHARES]])
    total = 0.5 * losses(fits["web"], x) + 0.5 * losses(fits["code"], x)
    lower = total[:, 0] - total[:, 1]
    assert present(found.gain)["mean"] == pytest.approx(lower.mean(), rel=1e-9)
    assert present(found.gain)["prob"] == pytest.approx((lower > 0).mean())
    row = found.table.set_index("mixture").loc["today"]
    points = grid()
    every = 0.5 * losses(fits["web"], points) + 0.5 * losses(fits["code"], points)
    some = found.optima.index.to_numpy()
    by_grid = (total[some, 0] - every[some].min(axis=1)).mean()
    assert row["regret"] == pytest.approx(by_grid, abs=5e-4)
    assert 0 <= found.table["regret"].min() < 2e-3
    assert found.table["best_prob"].sum() == pytest.approx(1.0)


def test_among_given_mixtures_the_best_is_theirs(fits: dict[str, Fit]) -> None:
    among = pd.DataFrame({"web": [0.2, 0.5, 0.9, 0.3], "code": [0.2, 0.5, 0.05, 0.6], "books": [0.6, 0.0, 0.05, 0.1]})
    found = mix(fits, among=among)
    total = 0.5 * losses(fits["web"], among.to_numpy()) + 0.5 * losses(fits["code"], among.to_numpy())
    best = int(total.mean(axis=0).argmin())
    assert [found.attainable[s] for s in SHARES] == pytest.approx(among.iloc[best].tolist())
    assert len(found.table) == 4
    row = found.table.set_index("mixture").loc["recommended"]
    assert row["best_prob"] == pytest.approx((total.argmin(axis=1) == best).mean())
    rows, today = pd.concat([among.iloc[[3]], among.iloc[[3]], among]), dict(zip(SHARES, among.iloc[best], strict=True))
    repeated = mix(fits, among=rows, today=today)
    assert f"that of row {best + 3}, of 4 different ones given" in " ".join(repeated.notes)
    some = found.optima.index.to_numpy()
    assert row["regret"] == pytest.approx((total[some, best] - total[some].min(axis=1)).mean())


def test_a_mixture_of_today_outside_the_fitted_ones_is_told(fits: dict[str, Fit]) -> None:
    among = pd.DataFrame({"web": [0.3, 0.5], "code": [0.3, 0.3], "books": [0.4, 0.2]})
    notes = mix(fits, today={"web": 1.0}, among=among).notes
    assert any("today's mixture lies outside the fitted ones (web" in note for note in notes)
    inside = mix(fits, today={"web": 0.4, "code": 0.3, "books": 0.3}, among=among).notes
    assert not any("today's mixture" in note for note in inside)


@pytest.mark.slow
def test_a_tail_minds_the_worst_draws() -> None:
    """The best by the mean of the worst tenth of draws is that of a fine grid; the best by the mean of all is worse there."""
    draws = {k: np.full(400, v) for k, v in CODE.items()}
    draws["t_web"] = draws["t_web"] + np.random.default_rng(2).standard_normal(400)  # how web text harms code is uncertain
    uncertain, points = {"web": fit(WEB), "code": posterior("data-mixing", draws, seed=2)}, grid()
    found = mix(uncertain, tail=0.1, bounds=OPEN)
    every = (losses(uncertain["web"], points) + losses(uncertain["code"], points)) / 2
    worst = np.sort(every, axis=0)[-40:].mean(axis=0)
    np.testing.assert_allclose([present(found.best)[s] for s in SHARES], points[worst.argmin()], atol=0.015)
    assert worst.min() - 2e-4 <= np.sort(found.draws["recommended"])[-40:].mean() <= worst.min() + 1e-5
    assert worst[every.mean(axis=0).argmin()] > worst.min() + 0.02


@pytest.mark.slow
def test_the_search_stays_within_the_fitted_mixtures_and_says_so(fits: dict[str, Fit]) -> None:
    found = mix(fits["web"])
    seen = fits["web"].observed.covariates
    assert all(seen[s].min() - 1e-9 <= present(found.best)[s] <= seen[s].max() + 1e-9 for s in SHARES)
    assert any("web" in note and "largest that was fitted" in note for note in found.notes)
    assert any("outside the fitted mixtures" in note for note in mix(fits["web"], bounds=OPEN).notes)


@pytest.mark.slow
def test_one_fit_of_several_domains_has_a_domain_for_each(rng: np.random.Generator) -> None:
    frame = oracles.table(law_named("data-mixing")).assign(domain="web")
    table = pd.concat([frame, frame.assign(domain="code", run=frame["run"] + " code")], ignore_index=True)
    values = {"c_web": 2.0, "c_code": 1.0, "c": 1.4, "c_spread": 0.5, **{k: WEB[k] for k in WEB if k != "c"}}
    draws = {k: v + 0.01 * rng.standard_normal(400) for k, v in values.items()} | {"sigma_point": np.full(400, 0.003)}
    both = fixed_fit(law_named("data-mixing"), table, draws | {"sigma_run": np.full(400, 0.002)}, by={"c": "domain"})
    found = mix(both, {"code": 1.0}, bounds=OPEN)
    assert found.losses["domain"].tolist() == ["code"]
    x = np.array([[found.attainable[s] for s in SHARES]])
    p = {k: v[:, None] for k, v in draws.items()} | {"c": draws["c_code"][:, None]}
    expected = np.median(oracles.data_mixing(p, dict(zip(SHARES, x.T, strict=True))))
    assert found.losses["loss_median"].iloc[0] == pytest.approx(float(expected), rel=1e-9)


def test_fitted_mixtures_are_named_by_their_rows(fits: dict[str, Fit]) -> None:
    """Whoever looks up 'fitted 5' in the table must find that mixture, whatever the bounds leave out."""
    frame = oracles.table(law_named("data-mixing")).drop(index=[0, 3])
    other = posterior("data-mixing", {k: np.full(400, v) for k, v in CODE.items()}, frame=frame.iloc[::-1].reset_index(drop=True))
    found = mix({"web": fits["web"], "code": other})
    seen, rows = fits["web"].observed, found.table[found.table["mixture"].str.startswith("fitted")]
    number_of = {int(row): at for at, row in enumerate(seen.rows)}
    assert len(rows) > 3
    for label, *shares in rows[["mixture", *SHARES]].itertuples(index=False):
        at = number_of[int(label.removeprefix("fitted "))]
        np.testing.assert_allclose(shares, [seen.covariates[s][at] for s in SHARES], atol=1e-6)


def test_a_recommended_mixture_that_was_fitted_is_not_compared_with_itself() -> None:
    """Its fitted row, rounded to six digits, would be the better one in some draws, and take their share of the probability."""
    law = law_named("data-mixing")
    frame = oracles.table(law)[["run", "loss"]].head(6)
    shares = np.array([[0.8000004, 0.0999998, 0.0999998], *[[0.5, 0.1 + x, 0.4 - x] for x in (0, 0.05, 0.1, 0.2, 0.3)]])
    draws = {k: v + 0.3 * np.random.default_rng(1).standard_normal(400) for k, v in WEB.items() if k.startswith("t_")}
    draws |= {"c": np.full(400, 2.0), "k": np.full(400, 0.5)}
    found = mix(posterior("data-mixing", draws, frame=frame.assign(**dict(zip(SHARES, shares.T, strict=True)))))
    assert found.best == pytest.approx({"web": 0.8, "code": 0.1, "books": 0.1}, abs=1e-4)
    assert found.table["mixture"].tolist()[0] == "recommended"
    assert "fitted 1" not in found.table["mixture"].tolist()
    assert found.table["best_prob"].iloc[0] == 1.0
    assert "the recommended mixture is that of row 1, which was fitted" in found.notes


@pytest.mark.slow
def test_fitted_mixtures_outside_the_bounds_are_not_compared(fits: dict[str, Fit]) -> None:
    fixed = {"web": (0.3, 0.3), "code": (0.3, 0.3), "books": (0.4, 0.4)}
    only = mix(fits["web"], bounds=fixed)
    assert only.table["mixture"].tolist() == ["recommended"]
    assert only.table["best_prob"].tolist() == [1.0]


def test_the_next_run_has_one_effect_in_all_domains_of_a_fit() -> None:
    """As a forecast of one run has; the noise of points is each domain's own."""
    mixtures, rows = np.random.default_rng(1).dirichlet([1, 1, 1], 24), []
    for domain, start in (("web", 2.5), ("code", 1.2)):
        rows += [
            {"run": f"run {i}", "domain": domain, "loss": start} | dict(zip(SHARES, x, strict=True)) for i, x in enumerate(mixtures)
        ]
    by = {"c": "domain"}
    law = with_by(law_named("data-mixing"), by)
    law = with_levels(law, levels_of(law, pd.DataFrame(rows)))
    typical = WEB | {"c": 1.5, "c_spread": 0.5, "c_web": 2.0, "c_code": 1.0}
    draws = {name: np.full(4000, typical.get(name, 0.5)) for name in law.parameters}
    fitted = posterior("data-mixing", draws, frame=pd.DataFrame(rows), by=by, sigma=(0.002, 0.006))
    x = {"web": 0.4, "code": 0.4, "books": 0.2}
    among: dict[str, Any] = {"among": pd.DataFrame([x]), "on": "run", "force": True}
    weighted = mix(fitted, {"web": 1.0, "code": 1.0}, **among).draws["recommended"]
    one_run = fitted.forecast(pd.DataFrame([{"run": "next", "domain": d, **x} for d in ("web", "code")]), force=True).draws["run"]
    # Each is a standard deviation of 4,000 draws, known to 1 / sqrt(2 * 4000); four times that of their difference.
    assert weighted.std() == pytest.approx(float(one_run.mean("row").std()), rel=4 / np.sqrt(4000))


@pytest.mark.slow
def test_losses_of_a_law_of_size_and_tokens_are_at_the_setting() -> None:
    law = law_named("mixture-scaling")
    fitted = posterior(law, scattered(oracles.typical(law), 400, 1))
    at = {"N": 5e8, "D": 5e9}
    found = mix(fitted, at=at, bounds=OPEN, on="run", seed=3)
    again = mix(fitted, at=at, bounds=OPEN, on="run", seed=3)
    pd.testing.assert_frame_equal(found.table, again.table)
    latent = mix(fitted, at=at, bounds=OPEN, seed=3)
    x = {s: np.array([latent.attainable[s]]) for s in SHARES} | {k: np.array([v]) for k, v in at.items()}
    p = {k: v[:, None] for k, v in fitted.draws.items() if k in law.parameters}
    np.testing.assert_allclose(latent.draws["recommended"], oracles.mixture_scaling(p, x)[:, 0], rtol=1e-9)
    noise = np.log(found.draws["recommended"] / latent.draws["recommended"])
    assert noise.std() == pytest.approx(np.hypot(0.003, 0.002), rel=0.2)  # of a new run; 400 draws
    with fails("missing-setting", "D"):
        mix(fitted, at={"N": 5e8})


def test_the_nearest_mixture_within_bounds(rng: np.random.Generator) -> None:
    """Against a search over a fine grid of the distance."""
    low, high = np.array([0.1, 0.0, 0.2]), np.array([0.5, 0.6, 0.9])
    points = rng.normal(0.3, 0.5, (20, 3))
    found = within(points, low, high)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)
    assert (found >= low - 1e-12).all()
    assert (found <= high + 1e-12).all()
    allowed = grid(200)
    allowed = allowed[((allowed >= low) & (allowed <= high)).all(axis=1)]
    nearest = ((points[:, None] - allowed[None]) ** 2).sum(axis=2).min(axis=1)
    assert (((points - found) ** 2).sum(axis=1) <= nearest + 1e-9).all()


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        ({"weights": {"wbe": 1}}, "unknown-domain", ("wbe", "web")),
        ({"weights": {"web": -1}}, "negative-weight", ("web", "-1")),
        ({"weights": {"web": 0}}, "no-weight", ()),
        ({"weights": [0.5, 0.5]}, "not-a-mapping", ("[0.5, 0.5]",)),
        ({"at": pd.DataFrame({"N": [1e9]})}, "not-a-mapping", ("Settings", "DataFrame")),
        ({"limits": [1.2]}, "not-a-mapping", ("Limits", "[1.2]")),
        ({"bounds": [0.1, 0.5]}, "not-a-mapping", ("Bounds", "[0.1, 0.5]")),
        ({"today": [0.2, 0.3, 0.5]}, "not-a-mapping", ("Today's", "[0.2, 0.3, 0.5]")),
        ({"among": pd.DataFrame({"web": ["much"], "code": 0.5, "books": 0.5})}, "shares-sum", ("nan, 0.5, 0.5",)),
        ({"limits": {"boks": 2}}, "unknown-domain", ("boks",)),
        ({"limits": {"code": 0}}, "limit-not-positive", ("code",)),
        ({"today": {"web": 0.5, "code": 0.4}}, "shares-sum", ("0.9",)),
        ({"today": {"web": 80, "code": 20}}, "shares-in-percent", ("100",)),
        ({"today": {"wbe": 1.0}}, "unknown-share", ("wbe", "web")),
        ({"bounds": {"web": (0.5, 0.2)}}, "invalid-bounds", ("web",)),
        ({"bounds": {"web": (0.9, 1.0), "code": (0.9, 1.0)}}, "empty-bounds", ()),
        ({"bounds": {"web": 0.5}}, "invalid-bounds", ("0.5",)),
        ({"bounds": {"x": (0.0, 1.0)}}, "unknown-share", ("x",)),
        ({"at": {"N": 1e9}}, "unknown-setting", ("N",)),
        ({"on": "both"}, "unknown-choice", ("both",)),
        ({"confidence": 1.5}, "not-a-probability", ("1.5",)),
        ({"confidence": 90}, "not-a-probability", ("90", "write 0.9")),
        ({"confidence": "90%"}, "not-a-probability", ("90%",)),
        ({"tail": 0.0}, "not-a-probability", ("0.0",)),
        ({"among": pd.DataFrame({"web": [0.5], "code": [0.5]})}, "missing-column", ("books",)),
        ({"among": pd.DataFrame({"web": [0.5], "code": [0.5], "books": [0.5]})}, "shares-sum", ("1.5",)),
    ],
)
def test_what_is_refused(fits: dict[str, Fit], options: dict[str, Any], code: str, named: tuple[str, ...]) -> None:
    with fails(code, *named):
        mix(fits, options.pop("weights", None), **options)


def test_laws_without_a_mixture_and_other_shares_are_refused(fits: dict[str, Fit]) -> None:
    law = law_named("chinchilla")
    with fails("law-without-mixture", "chinchilla"):
        mix(posterior(law, scattered(oracles.typical(law), 40, 1)))
    with pytest.raises(BayeslawError):
        mix({})
    with fails("unpaired-draws", "400", "800"):
        mix({"web": fits["web"], "code": fit(CODE, size=800)})


@pytest.mark.slow
def test_the_answer_of_the_command(command: Command, tmp_path: Any) -> None:
    fits = {"web": WEB, "code": CODE}
    for number, (name, values) in enumerate(fits.items()):
        rng, law = np.random.default_rng(number), law_named("data-mixing")
        draws = {k: v + 0.02 * rng.standard_normal(400) for k, v in values.items()}
        draws |= {"sigma_point": np.full(400, 0.003), "sigma_run": np.full(400, 0.002)}
        fixed_fit(law, oracles.table(law), draws).save(tmp_path / f"{name}.nc")
    files = [str(tmp_path / f"{name}.nc") for name in fits]
    options = ("--weights", "web=.5,code=.5", "--today", "web=.8,code=.2", "--limit", "code<=1.3", "--bounds", "books=0:0.5")
    done = command("mix", *files, *options, "--plot", str(tmp_path / "mix.png"))
    assert done.status == 0, done.err
    assert "recommended" in done.out
    assert "today" in done.out
    assert (tmp_path / "mix.png").stat().st_size > 1000
    alone = command("mix", files[0], "--weights", "web=1")
    assert alone.status == 0, alone.err  # the domain is called as the file is
    assert "such as --limit code<=1.8" in command("mix", *files, "--limit", "code<=5%").err
    assert command("mix", files[0], "--limit", "code=1").status == 2
    assert command("mix", files[0], "--bounds", "web=a:b").status == 2


def test_an_option_of_pairs_may_be_given_once_for_each_name(command: Command, tmp_path: Path) -> None:
    """Of several, the last alone counted."""
    rng, law = np.random.default_rng(0), law_named("data-mixing")
    draws = {k: v + 0.02 * rng.standard_normal(400) for k, v in WEB.items()}
    draws |= {"sigma_point": np.full(400, 0.003), "sigma_run": np.full(400, 0.002)}
    fixed_fit(law, oracles.table(law), draws).save(tmp_path / "web.nc")
    apart = command(
        "mix", str(tmp_path / "web.nc"), "--bounds", "code=0.5", "--bounds", "books=0.4:0.6", "--limit", "web<=9,code<=9"
    )
    assert "There is no domain 'code' to limit" in apart.err
    impossible = command("mix", str(tmp_path / "web.nc"), "--bounds", "code=0.7", "--bounds", "books=0.4:0.6")
    assert "No mixture lies within the bounds" in impossible.err


@pytest.mark.slow
def test_what_notebooks_and_pictures_show(fits: dict[str, Fit]) -> None:
    found = mix(fits, today={"web": 0.5, "code": 0.5}, limits={"code": 1.5})
    assert "Mixture" in found._repr_html_()
    assert "recommended" in found._repr_html_()
    assert repr(found).startswith("<Mix")
    ax = plot_mix(found, Figure().subplots())
    assert [t.get_text() for t in ax.get_yticklabels()] == list(SHARES)
    assert bayeslaw.planning.Mix is type(found)
