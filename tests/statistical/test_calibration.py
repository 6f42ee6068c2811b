"""The calibration harness, benchmarks/calibrate.py: designs, truths, ranks, tests, the store; and a small calibration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import calibrate as harness
import numpy as np
import pandas as pd
import pytest
import truths
import uniformity
from scipy.stats import binom, kstest, norm

import bayeslaw
from bayeslaw.data.table import Runs
from bayeslaw.data.validate import check
from bayeslaw.laws.card import parse_card
from bayeslaw.laws.law import Law
from bayeslaw.noise.noise import CHOICES, COUNTED, PRIORS
from bayeslaw.posterior.diagnostics import Check
from tests.errors import fails
from tests.twins import without_noise


def test_designs_suit_every_law_and_targets_are_unseen(law: Law) -> None:
    frame, targets = truths.settings(law)
    assert check(Runs(frame.assign(**{law.outcome.name: truths.placeholder(law, len(frame))})), law) == []
    assert truths.truth(law, 0).values
    assert check(Runs(targets), law, purpose="forecast") == []
    if "run" in frame and "D" not in law.covariates:  # whole curves
        assert frame["run"].value_counts().min() >= 8
        assert not set(frame["run"]) & set(targets["run"])
        assert targets["run"].is_unique
        return
    if law.shares:
        fitted = {tuple(row) for row in frame[list(law.shares)].to_numpy()}
        assert [tuple(row) in fitted for row in targets[list(law.shares)].to_numpy()] == [False, False, True]
        assert "N" not in law.covariates or targets["N"][0] > frame["N"].max()
        return
    if {"items", "loss"} & set(law.covariates):  # models, of which the best are not fitted
        best = {"loss": "min", "N": "max", "S1": "max"}
        of, end = next((name, end) for name, end in best.items() if name in law.covariates)
        assert frame[of].agg(end) != pd.concat([frame, targets])[of].agg(end) == targets[of][0]
        return
    assert targets["N"][0] > frame["N"].max()
    assert targets["D"][0] > frame["D"].max()
    assert targets["N"][1] in set(frame["N"])
    if "ptpp" in law.covariates:
        assert targets["ptpp"][0] == targets["ptpp"][1] == 279
        assert set(frame["ptpp"]) == {15, 31}
    if "run" in frame:
        assert frame["run"].value_counts().min() == (1 if law.covariates["D"].support[0] == 0 else 8)
        assert not set(frame["run"]) & set(targets["run"])
        assert targets["run"].is_unique


@pytest.mark.parametrize("case", [name for name, (_, options) in harness.CASES.items() if options])
def test_cases_have_truths_of_the_noise_and_of_every_pooled_value(case: str) -> None:
    name, options = harness.CASES[case]
    law = bayeslaw.load_law(name)
    frame, targets = truths.settings(law, options)
    drawn = truths.truth(law, 5, options)
    assert drawn.values == truths.truth(law, 5, options).values
    assert drawn.values != truths.truth(law, 6, options).values
    assert set(law.parameters) <= set(drawn.values)
    for parameter, column in options.get("by", {}).items():
        plain = [re.sub(r"\W", "_", level) for level in frame[column].unique()]
        members = {f"{parameter}_{p}" if plain.count(p) == 1 else f"{parameter}_{p}_{i + 1}" for i, p in enumerate(plain)}
        assert members | {f"{parameter}_spread"} <= set(drawn.values)
    own = {"normal-drift": "drift", "normal-checkpoint": "sigma_checkpoint", "skew": "run_excess", "student": "dof"}
    assert own.get(options.get("noise", ""), "sigma_point") in drawn.values or "noise_by" in options
    if "noise_by" in options:
        assert {f"sigma_run[{level}]" for level in frame[options["noise_by"]].unique()} <= set(drawn.values)
    assert not set(frame["run"]) & set(targets["run"])  # forecasts are those of new runs
    assert not set(frame.get("checkpoint", ())) & set(targets.get("checkpoint", ()))


def test_every_card_and_every_choice_of_noise_is_a_case() -> None:
    plain = {name for name, options in harness.CASES.values() if not options}
    assert plain == set(bayeslaw.law_names())
    assert {options.get("noise", "auto") for _, options in harness.CASES.values()} == {*CHOICES, *COUNTED}
    assert any("by" in options for _, options in harness.CASES.values())


def test_a_truth_of_a_checkpoint_moves_all_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sigma_point", "sigma_run"):
        monkeypatch.setitem(PRIORS, name, bayeslaw.Prior.parse("HalfNormal(1e-6)"))
    law, within, between = bayeslaw.load_law("chinchilla"), list[float](), list[float]()
    for number in range(30):
        drawn = truths.truth(law, number, {"noise": "normal-checkpoint"})
        frame = drawn.runs.frame
        expected = without_noise(law, drawn.values, frame)
        effects = (np.log(frame["loss"] / expected) / drawn.values["sigma_checkpoint"]).groupby(frame["checkpoint"])
        within.extend(effects.std())
        between.extend(effects.mean())
    assert kstest(between, "norm").pvalue > 1e-3
    assert np.median(within) < 0.01


def test_a_covariate_without_a_design_is_refused() -> None:
    card = bayeslaw.load_law("chinchilla").card.replace(
        "\n[parameters.E]", '\ndropout = { unit = "1", support = [0, 1] }\n[parameters.E]'
    )
    law = parse_card(card.replace("B/D**beta", "B*(1 + dropout)/D**beta"), "card")
    with pytest.raises(bayeslaw.BayeslawError, match=r"covariate dropout\b"):
        truths.settings(law)


def test_truths_are_drawn_from_the_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any table is refused: a refusal keeps ranks exact but changes the prior."""
    monkeypatch.setattr(truths, "check", lambda runs, law: [])
    law = bayeslaw.load_law("chinchilla")
    drawn = [truths.truth(law, i) for i in range(150)]
    assert set(drawn[0].values) == {*law.parameters, "sigma_point", "dof"}
    at = law.reference(drawn[0].runs.frame)
    levels = {"A": lambda v: v["A"] / at["N"] ** v["alpha"], "dof": lambda v: v["dof"] - 2}
    for name in drawn[0].values:
        prior = law.parameters[name].prior if name in law.parameters else PRIORS[name]
        if prior.on is None or name in levels:
            values = [levels.get(name, lambda v, name=name: v[name])(t.values) for t in drawn]
            assert kstest(values, prior.scipy.cdf).pvalue > 1e-3, name


def test_a_truth_is_determined_by_its_number_and_explains_its_losses() -> None:
    law = bayeslaw.load_law("transfer-target")
    first, same, other = truths.truth(law, 3), truths.truth(law, 3), truths.truth(law, 4)
    assert first.values == same.values != other.values
    assert first.runs.frame.equals(same.runs.frame)
    frame = first.runs.frame
    expected = without_noise(law, first.values, frame)
    residual = np.log(frame["loss"] / expected)
    assert 0.8 < residual.groupby(frame["run"]).std().pow(2).mean() ** 0.5 / first.values["sigma_point"] < 1.2


def test_refused_tables_are_counted_and_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal depends on the table only, never on the parameters."""
    law, asked = bayeslaw.load_law("chinchilla"), []
    first = truths.truth(law, 0)

    def refuse_two(runs: Runs, law: Law) -> list[str]:
        asked.append(runs)
        return ["too high"] if len(asked) <= 2 else []

    monkeypatch.setattr(truths, "check", refuse_two)
    third = truths.truth(law, 0)
    assert asked[0].frame.equals(first.runs.frame)
    assert (first.refused, third.refused) == (0, 2)
    assert third.values["E"] != first.values["E"]
    monkeypatch.undo()
    with fails("no-acceptable-truth", "chinchilla"):
        truths.truth(law.with_priors({"E": bayeslaw.Prior.parse("LogNormal(4, 0.1)")}), 0)


def test_rank_counts_evenly_spaced_draws() -> None:
    draws = np.arange(4000.0).reshape(4, 1000)
    assert truths.rank(draws, -1.0) == 0
    assert truths.rank(draws, 5000.0) == truths.RANKED
    assert truths.rank(draws, 2000.0) == 50
    assert truths.rank(draws[:, :203], 1e9) == truths.RANKED


class FitStub:
    """The part of a fit that decides about a second attempt."""

    def __init__(self, good: bool, options: dict[str, Any]) -> None:
        self.options = options
        self.checks = [Check("r_hat", good, "", "sampling", None), Check("informed", False, "", "model", None)]  # type: ignore[arg-type]


@pytest.mark.parametrize("good", [True, False])
def test_a_fit_that_fails_its_checks_is_repeated_with_more_draws(monkeypatch: pytest.MonkeyPatch, good: bool) -> None:
    attempts: list[FitStub] = []

    def fit(law: Law, runs: Runs, **options: Any) -> FitStub:
        attempts.append(FitStub(good and not options["seed"] >= 1_000_000, options))
        return attempts[-1]

    monkeypatch.setattr(bayeslaw, "fit", fit)
    law = bayeslaw.load_law("chinchilla")
    result, failed = truths.fitted(law, Runs(truths.settings(law)[0]), {"draws": 200}, 7)
    assert result is attempts[-1]  # type: ignore[comparison-overlap]
    if good:
        assert (len(attempts), failed) == (1, [])
        return
    assert failed == ["r_hat"] == truths.failing(attempts[-1])  # type: ignore[arg-type]  # the second counts though it fails too
    first, second = (m.options for m in attempts)
    assert (first["draws"], first["tune"], second["draws"], second["tune"]) == (200, 500, 800, 1000)
    assert second["target_accept"] == 0.99 > first.get("target_accept", 0)


def toy(width: float, shift: float, count: int = 200) -> list[dict[str, Any]]:
    """Records of a conjugate normal model whose posterior is too wide by a factor and shifted by so many sds."""
    rng = np.random.default_rng(2)
    truth = rng.standard_normal(count)
    middle = (truth + rng.standard_normal(count)) / 2
    sd = np.sqrt(0.5)
    draws = (middle + shift * sd)[:, None] + width * sd * rng.standard_normal((count, truths.RANKED))
    ranks = (draws < truth[:, None]).sum(axis=1)
    pit = norm.cdf((truth - middle - shift * sd) / (width * sd))
    keys = {"refused": 0, "failed_first": [], "failed": [], "seconds": 1.0}
    return [keys | {"number": i, "ranks": {"x": int(ranks[i])}, "pit": [pit[i]] * 3, "width": [width] * 3} for i in range(count)]


def test_right_posteriors_pass_and_wrong_ones_fail() -> None:
    right = uniformity.summary("toy", toy(1.0, 0.0))
    assert right["uniform"]
    assert right["outside"] == []
    for wrong in (toy(0.6, 0.0), toy(1.7, 0.0), toy(1.0, 0.5)):
        row = uniformity.summary("toy", wrong)
        assert row["p"] < 1e-3
        assert not row["uniform"]
    assert "under at 50%" in uniformity.summary("toy", toy(0.6, 0.0))["outside"]
    assert "over at 50%" in uniformity.summary("toy", toy(1.7, 0.0))["outside"]


def test_the_test_of_uniformity_keeps_its_size() -> None:
    rng = np.random.default_rng(0)
    p = [uniformity.uniformity(v) for v in rng.uniform(size=(2000, 100))]
    for level in (0.01, 0.002):
        assert np.mean(np.array(p) < level) <= binom.ppf(0.999, len(p), level) / len(p)


def test_holm_against_a_worked_example() -> None:
    assert uniformity.holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06}
    )


def test_the_report_counts_every_truth() -> None:
    records = toy(1.0, 0.0, 100)
    for r in records[:30]:
        del r["pit"], r["width"]
        r["no_forecast"] = "not finite"
    records[40] |= {"failed_first": ["divergences", "r_hat"], "failed": ["divergences"]}
    records.append({"number": 100, "refused": 3, "error": "no mode", "seconds": 0.1})
    row = uniformity.summary("toy", records)
    assert (row["truths"], row["no_fit"], row["no_forecast"], row["refused"]) == (101, 1, 30, 3)
    assert (row["refits"], row["still"]) == (1, 1)
    assert row["hits"][0.95] <= 70
    assert row["outside"][-1] == "under at 95%"
    text = harness.report({"toy": records, "none": [records[-1]]})
    assert "Without a fit: none (1 truths without a fit)." in text
    assert "No fit of truth 100 of toy: no mode" in text
    assert "divergences 1, r_hat 1" in text
    assert "toy (under at 50%, " in text


def test_truths_without_a_fit_count_against_ranks_and_coverage() -> None:
    records = toy(1.0, 0.0, 100)
    assert uniformity.summary("toy", records)["uniform"]
    lost = [{"number": r["number"], "refused": 0, "error": "no mode", "seconds": 0.1} for r in records[:15]]
    row = uniformity.summary("toy", [*records[15:], *lost])
    assert row["p"] < 1e-3
    assert row["hits"][0.95] <= 85
    assert uniformity.positions([*records[15:], *lost])["x"].size == 100


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """`work` replaced by a function that counts its calls and fails at truth 2 the first time."""
    calls: list[int] = []

    def work(item: truths.Item) -> dict[str, Any]:
        calls.append(item.number)
        if item.number == 2 and calls.count(2) == 1:
            raise MemoryError
        return {"number": item.number, "calls": len(calls)}

    monkeypatch.setattr(harness, "work", work)
    return calls


def test_a_stopped_calibration_goes_on(tmp_path: Path, counted: list[int]) -> None:
    def records(count: int, **options: Any) -> list[dict[str, Any]]:
        return harness.calibrate({"chinchilla": count}, folder=tmp_path, where="in-process", options=options)["chinchilla"]

    with pytest.raises(bayeslaw.BayeslawError, match=r"\b1 fits"):
        records(4)
    assert counted == [0, 1, 2, 3]
    assert [r["number"] for r in records(4)] == [0, 1, 2, 3]
    assert counted == [0, 1, 2, 3, 2]
    (path,) = tmp_path.glob("chinchilla-*.jsonl")
    path.write_text(path.read_text()[:-5])  # killed while writing
    assert [r["number"] for r in records(5)] == [0, 1, 2, 3, 4]
    assert counted[5:] == [2, 4]
    assert all(line.startswith("{") and line.endswith("}") for line in path.read_text().splitlines())


def test_records_of_other_settings_are_not_mixed_in(tmp_path: Path, counted: list[int]) -> None:
    law = bayeslaw.load_law("chinchilla")
    for options in ({}, {"draws": 500}):
        harness.calibrate({"chinchilla": 2}, folder=tmp_path, where="in-process", options=options)
    assert counted == [0, 1, 0, 1]
    other = law.with_priors({"E": bayeslaw.Prior.parse("LogNormal(0.5, 0.3)")})
    assert len({harness.digest(law, {}), harness.digest(law, {"draws": 500}), harness.digest(other, {})}) == 3


def check_truths(case: str, count: int, folder: Path) -> None:
    """So many truths of a law are ranked, and its intervals cover them, as they are where posteriors are right."""
    options = {"draws": 500, "tune": 300}
    records = harness.calibrate({case: count}, folder=folder, where="in-process", options=options)[case]
    row = uniformity.summary(case, records)
    assert (row["truths"], row["no_fit"], row["no_forecast"]) == (count, 0, 0)
    assert row["still"] <= 2
    assert row["p"] > 1e-3
    for target in range(3):
        pit = uniformity.pits(records, target)
        assert kstest(pit, "uniform").pvalue > 1e-3
        for level in uniformity.LEVELS:
            low, high = binom.interval(0.999, count, level)
            assert low <= uniformity.covered(pit, level) <= high


@pytest.mark.statistical
def test_twenty_truths_of_chinchilla_are_ranked_and_covered_as_expected(tmp_path: Path) -> None:
    check_truths("chinchilla", 20, tmp_path)


@pytest.mark.statistical
def test_truths_of_counted_items_are_ranked_and_covered_as_expected(tmp_path: Path) -> None:
    """Fourteen truths without run effects; `benchmarks/results/calibration-counts.md` has a hundred with them.

    The fifteenth has accuracies at chance and takes as long as thirty others.
    """
    check_truths("task-sigmoid", 14, tmp_path)


def test_a_truth_of_counted_items_explains_its_shares() -> None:
    """Shares are whole numbers of items over them, and vary around the law as sampling and the drawn spreads say."""
    law, z = bayeslaw.load_law("task-sigmoid"), list[float]()
    for number in range(40):
        drawn = truths.truth(law, number)
        frame, v = drawn.runs.frame, drawn.values
        p = without_noise(law, v, frame)
        counted = frame["accuracy"] * frame["items"]
        np.testing.assert_allclose(counted, counted.round(), atol=1e-9)
        variance = p * (1 - p) * (1 / frame["items"] + (1 - 1 / frame["items"]) / (1 + v["sigma_point"] ** -2))
        z.extend(((frame["accuracy"] - p) / np.sqrt(variance))[p < 0.99])
    assert abs(np.mean(z)) < 4 / np.sqrt(len(z))
    assert 0.9 < np.std(z) < 1.1
