"""Forecasts on record: settled scores are those of `score`, a changed byte is refused, and a record shows what a backtest shows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import jsonschema
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import bayeslaw
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.evaluation.backtest import Backtest, Beyond, backtest, forecasts_beyond
from bayeslaw.evaluation.on_record import OPEN, PART, SETTLED, Calibration, expected, record
from bayeslaw.evaluation.prediction import FORMAT, KIND, OF_ROWS, TOP, Prediction, read_prediction, register
from bayeslaw.evaluation.prediction_schema import FILE, prediction_schema
from bayeslaw.evaluation.scores import COVERED
from bayeslaw.evaluation.sealed import seal
from bayeslaw.evaluation.settlement import settle
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.stack import Stack
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.laws.outcome import LOSS
from bayeslaw.posterior.fit import Fit
from tests import oracles, outcomes
from tests.errors import fails, faults
from tests.fixed import line_fit, measured, stand_in_fit, typical_fit, without_sampling

CHINCHILLA = load_law("chinchilla")
HELD = oracles.table(CHINCHILLA, seed=8, runs=4)


@cache
def chinchilla() -> Fit:
    return typical_fit("chinchilla")


@cache
def small_line() -> Fit:
    return line_fit(size=1200)


def stack() -> Stack:
    return Stack({"one": chinchilla(), "other": typical_fit("chinchilla", runs=9)}, {"one": 0.6, "other": 0.4})


def new_line(se: float = 0.0) -> pd.DataFrame:
    """Losses of twelve new runs, by default without a column of their errors."""
    table = measured(small_line(), se, 12)
    return table if se else table.drop(columns="loss_se")


def of_outcome(kind: str) -> tuple[Fit, pd.DataFrame]:
    table = outcomes.table(kind)
    return outcomes.outcome_fit(kind), table.assign(D=1.5 * table["D"])


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A small registered forecast of twelve losses."""
    register(small_line(), new_line(), who="someone", why="a test").save(tmp_path / "p.json")
    return tmp_path / "p.json"


# --- settled scores are those of score -------------------------------------------------------------------------------

CASES: Mapping[str, Any] = {
    "losses": lambda: (small_line(), new_line(), {}),
    "known errors": lambda: (small_line(), new_line(0.01), {}),
    "Student-t noise and known errors": lambda: (line_fit(size=1200, noise="student"), new_line(0.01), {}),
    "one-sided effects and known errors": lambda: (line_fit(size=1200, noise="skew"), new_line(0.01), {}),
    "known runs, a law of size and tokens": lambda: (chinchilla(), HELD, {}),
    "new checkpoints": lambda: (chinchilla(), HELD, {"as_": "new-checkpoint", "seed": 5}),
    "a stated discrepancy": lambda: (chinchilla(), HELD, {"discrepancy": "1%"}),
    "a stack": lambda: (stack(), HELD, {}),
    "a stack and known errors": lambda: (stack(), HELD.assign(loss_se=0.01), {}),
    **{kind: (lambda kind=kind: (*of_outcome(kind), {})) for kind in outcomes.NAMES},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.slow
def test_settled_scores_are_those_of_score(case: str, tmp_path: Path) -> None:
    fit, table, options = CASES[case]()
    register(fit, table, **options).save(tmp_path / "p.json")
    result, expected_ = settle(tmp_path / "p.json", table), bayeslaw.score(fit, table, **options)
    assert list(result.table) == list(expected_)
    for name in expected_:
        given, wanted = result.table[name].item(), expected_[name].item()
        assert given == (pytest.approx(wanted, rel=1e-12, abs=1e-12) if isinstance(wanted, float) else wanted), name


@pytest.mark.slow
def test_an_error_of_the_law_outside_the_runs_is_registered_and_scored(tmp_path: Path) -> None:
    fit = stand_in_fit("chinchilla", oracles.table(CHINCHILLA, runs=8), draws=200)
    far = HELD.assign(D=30 * HELD["D"])
    prediction = register(fit, far, force=True).save(tmp_path / "p.json")
    assert {row["spread"] for row in prediction.rows} == {"run", "extrapolated"}
    assert {*prediction.rows[0]["quantiles"]} == {"latent", "run", "extrapolated"}
    for table in (far, far.assign(loss_se=0.02)):
        wanted = bayeslaw.score(fit, table, force=True)
        given = settle(tmp_path / "p.json", table).table
        numbers = wanted.select_dtypes("number").columns
        np.testing.assert_allclose(given[numbers], wanted[numbers], rtol=1e-12, atol=1e-12)
        assert given[["spread", "checks"]].equals(wanted[["spread", "checks"]])


@pytest.mark.slow
def test_averages_are_settled_as_score_averages() -> None:
    fit = outcomes.outcome_fit("bounded")
    table = outcomes.table("bounded").assign(D=lambda t: 1.5 * t["D"], task=["a", "b"] * 12)
    table["N"], table["D"] = table["N"].iloc[0], np.repeat(table["D"].unique()[:1], 24)
    table = table.iloc[:2].drop(columns="run")
    given, wanted = settle(register(fit, table), table, mean="task").table, bayeslaw.score(fit, table, mean="task")
    assert given["rows"].item() == 1
    np.testing.assert_allclose(given["crps"], wanted["crps"], rtol=1e-12)


@pytest.mark.slow
def test_rows_that_the_fit_had_are_left_out_as_score_leaves_them_out() -> None:
    seen = oracles.table(CHINCHILLA, runs=8)
    both = pd.concat([HELD, seen], ignore_index=True)
    result, wanted = settle(register(chinchilla(), both), both).table, bayeslaw.score(chinchilla(), both)
    counts = ["rows", "seen_rows_left_out", "base_rows_left_out", "sample"]
    assert result[counts].equals(wanted[counts])
    np.testing.assert_allclose(result["crps"], wanted["crps"], rtol=1e-12)
    rounded = both.assign(loss=both["loss"].round(4))  # of runs that the fit had, in a table with fewer decimals
    again = settle(register(chinchilla(), both), rounded).table
    assert again[counts].equals(bayeslaw.score(chinchilla(), rounded)[counts])
    assert again["seen_rows_left_out"].item() == len(seen)
    prediction = register(chinchilla(), seen)
    with fails("nothing-held-out", f"made with all {len(seen)} rows.", "in_sample=True"):
        settle(prediction, seen)
    assert settle(prediction, seen, in_sample=True).table["sample"].item() == f"in-sample ({len(seen)} of {len(seen)} rows)"


@pytest.mark.slow
def test_base_checkpoints_are_left_out_and_counted() -> None:
    base = HELD.head(2).assign(D=0, loss=3.0)
    result = settle(register(chinchilla(), HELD), pd.concat([HELD, base], ignore_index=True))
    assert result.table[["rows", "base_rows_left_out"]].to_numpy().tolist() == [[len(HELD), 2]]


# --- the file --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_file_says_what_was_forecast(written: Path) -> None:
    content, fit = json.loads(written.read_text(encoding="utf-8")), small_line()
    assert list(content) == [*TOP, "sha256"]
    predicted = forecast(fit, new_line().drop(columns="loss"))
    np.testing.assert_array_equal(np.array([row["draws"] for row in content["rows"]]).T, predicted.predictive)
    for spread in ("latent", "run"):
        quantiles = np.quantile(predicted.draws[spread], content["probabilities"], axis=0)
        np.testing.assert_array_equal(np.array([row["quantiles"][spread] for row in content["rows"]]).T, quantiles)
    (of,) = content["fits"]
    assert (of["data_sha256"], of["law_sha256"]) == (fit.info["data_sha256"], fit.law.sha256)
    assert (content["who"], content["why"], content["checks"]) == ("someone", "a test", "passed")
    assert content["date"].endswith("Z")
    assert [row["settings"]["x"] for row in content["rows"]] == new_line()["x"].tolist()


@pytest.mark.slow
def test_the_schema_describes_it(written: Path, tmp_path: Path) -> None:
    schema = prediction_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    assert FILE.read_text(encoding="utf-8") == json.dumps(schema, indent=2) + "\n"
    assert schema["$id"] == f"urn:bayeslaw:prediction:{FORMAT}"
    assert list(schema["properties"]["rows"]["items"]["properties"]) == list(OF_ROWS)
    (tmp_path / "key").write_bytes(bytes(range(32)))
    register(outcomes.outcome_fit("count"), of_outcome("count")[1]).save(tmp_path / "q.json", tmp_path / "key")
    register(stack(), HELD).save(tmp_path / "r.json")
    for path in (written, tmp_path / "q.json", tmp_path / "r.json"):
        errors = jsonschema.Draft7Validator(schema).iter_errors(json.loads(path.read_text(encoding="utf-8")))
        assert [error.message for error in errors] == []
    content = json.loads(written.read_text(encoding="utf-8"))
    del content["rows"][0]["draws"]
    assert not jsonschema.Draft7Validator(schema).is_valid(content)


def test_the_digest_is_that_of_the_bytes_before_it(written: Path) -> None:
    lines = written.read_bytes().splitlines(keepends=True)
    assert read_prediction(written).sha256 == hashlib.sha256(b"".join(lines[:-2])).hexdigest()


@pytest.mark.slow
def test_every_changed_byte_is_refused(written: Path, rng: np.random.Generator) -> None:
    data = written.read_bytes()
    ends = [*range(60), *range(len(data) - 100, len(data))]
    for at in [*ends, *rng.integers(0, len(data), 200).tolist()]:
        changed = bytearray(data)
        changed[at] ^= 1 << int(rng.integers(0, 8))
        written.write_bytes(changed)
        with fails("changed-file", written.name):
            read_prediction(written)
    for other in (data[:-1], data + b"\n", data[: len(data) // 2], data.replace(b"\n", b"\r\n"), b"\n" + data):
        written.write_bytes(other)
        with fails("changed-file"):
            settle(written, new_line())


@pytest.mark.slow
def test_a_signature_holds_against_a_digest_written_anew(tmp_path: Path) -> None:
    key, other = tmp_path / "key", tmp_path / "other"
    key.write_bytes(bytes(range(32)))
    other.write_bytes(bytes(32))
    signed = register(small_line(), new_line()).save(tmp_path / "s.json", key)
    assert (signed.signed, read_prediction(tmp_path / "s.json").verified) == (True, False)
    assert read_prediction(tmp_path / "s.json", key).verified
    with fails("wrong-signature"):
        read_prediction(tmp_path / "s.json", other)
    register(small_line(), new_line()).save(tmp_path / "u.json")
    with fails("not-signed"):
        read_prediction(tmp_path / "u.json", key)
    data, _ = seal({**signed.content, "who": "another"}, bytes(32))  # by someone who has not the key
    (tmp_path / "s.json").write_bytes(data)
    with fails("wrong-signature"):
        read_prediction(tmp_path / "s.json", key)
    (tmp_path / "short").write_bytes(b"secret")
    with fails("short-key", "6 bytes"):
        register(small_line(), new_line()).save(tmp_path / "v.json", tmp_path / "short")
    assert not (tmp_path / "v.json").exists()


def test_a_prediction_is_never_replaced(written: Path) -> None:
    before = written.read_bytes()
    with fails("already-registered", written.name):
        register(small_line(), new_line()).save(written)
    assert written.read_bytes() == before
    assert [path.name for path in written.parent.iterdir()] == [written.name]


def test_a_prediction_that_another_process_writes_meanwhile_is_not_replaced(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two jobs look whether there is a file before either has written it."""
    before, prediction = written.read_bytes(), register(small_line(), new_line())
    monkeypatch.setattr("bayeslaw.evaluation.prediction.check_new", lambda path: None)
    with fails("already-registered", written.name):
        prediction.save(written)
    assert written.read_bytes() == before


def test_numbers_of_numpy_are_written_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    register(small_line(), new_line(), seed=cast("int", np.int64(3))).save(path)
    assert read_prediction(path).content["seed"] == 3
    settle(path, new_line(), tolerance=cast("float", np.float32(0.01))).save(tmp_path / "p.settled.json")
    assert record(tmp_path).predictions["status"].tolist() == [SETTLED]


def test_one_forecast_is_not_forecasts() -> None:
    """Nor are its settings several where the runs decide them."""
    fit = small_line()
    assert repr(register(fit, new_line().head(1))).startswith("<Prediction by line of 1 loss, registered ")
    (check,) = (check for check in fit.forecast(new_line().head(1)).checks if check.name == "priors")
    assert " at 1 setting" in check.text
    assert "settings" not in check.text


def test_a_result_does_not_replace_a_prediction(written: Path) -> None:
    before, result = written.read_bytes(), settle(written, new_line())
    with fails("already-registered", written.name):
        result.save(written)
    assert written.read_bytes() == before
    for _ in range(2):  # an earlier result is replaced
        result.save(written.with_name("p.settled.json"))
    assert record(written.parent).predictions["status"].tolist() == [SETTLED]


@pytest.mark.parametrize("name", ["one.txt", "one", "one.settled.json"])
def test_a_prediction_has_a_name_by_which_a_record_finds_it(name: str, tmp_path: Path) -> None:
    with fails("wrong-ending", name):
        register(small_line(), new_line()).save(tmp_path / name)
    assert not (tmp_path / name).exists()


HOSTILE: Mapping[str, Any] = {
    "no rows": {"rows": []},
    "a row that is none": {"rows": [1]},
    "draws of unequal numbers": lambda c: {"rows": [{**c["rows"][0], "draws": [1.0, 2.0]}, *c["rows"][1:]]},
    "draws that are texts": lambda c: {"rows": [{**row, "draws": ["a", "b"]} for row in c["rows"]]},
    "impossible draws": lambda c: {"rows": [{**row, "draws": [-1.0, 2.0]} for row in c["rows"]]},
    "one draw": lambda c: {"rows": [{**row, "draws": [2.0]} for row in c["rows"]]},
    "another kind of outcome": lambda c: {"outcome": {**c["outcome"], "kind": "odd"}},
    "an outcome without bounds": lambda c: {"outcome": {k: v for k, v in c["outcome"].items() if k != "bounds"}},
    "a column that settings lack": {"match": ["x", "y"]},
    "no column by which rows are recognised": {"match": []},
    "a fit that is none": {"fits": [1]},
    "a spread without a name": lambda c: {"rows": [{**row, "spread": 3} for row in c["rows"]]},
    "no date": {"date": "yesterday"},
    "outcomes that are texts": lambda c: {"rows": [{**row, "seen": ["a"]} for row in c["rows"]]},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_whole_files_with_strange_contents_are_refused(name: str, written: Path) -> None:
    content = dict(read_prediction(written).content)
    change = HOSTILE[name]
    written.write_bytes(seal(content | (change(content) if callable(change) else change))[0])
    with fails("not-a-prediction", written.name):
        read_prediction(written)


@pytest.mark.slow
def test_noise_of_other_draws_is_refused(written: Path) -> None:
    content = dict(read_prediction(written).content)
    (member,) = content["noise"]["run"]
    for noise in ({}, {"run": []}, "none", *({"run": [member | {key: [[1.0, 2.0]]}]} for key in ("scale", "groups", "seeds"))):
        written.write_bytes(seal(content | {"noise": noise})[0])
        with fails("not-a-prediction", "row 1"):
            settle(written, new_line(0.01))


def test_other_files_are_refused(written: Path, tmp_path: Path) -> None:
    for text in ("", "{}", "[1, 2]", '{"loss": NaN}', "x,loss\n1,2\n"):
        (tmp_path / "other.json").write_text(text, encoding="utf-8")
        with fails("not-a-prediction", "other.json"):
            read_prediction(tmp_path / "other.json")
    (tmp_path / "other.json").write_bytes(seal({"something": 1})[0])
    with fails("not-a-prediction"):
        read_prediction(tmp_path / "other.json")
    (tmp_path / "other.json").write_bytes(seal({KIND: "2.0"})[0])
    with fails("newer-format", "2.0"):
        read_prediction(tmp_path / "other.json")
    with fails("no-such-file"):
        read_prediction(tmp_path / "none.json")


@pytest.mark.slow
def test_texts_are_those_given(tmp_path: Path) -> None:
    who = 'Zoë "\\udc00" \n\t</script>'
    register(small_line(), new_line(), who=who).save(tmp_path / "p.json")
    assert read_prediction(tmp_path / "p.json").content["who"] == who
    data = (tmp_path / "p.json").read_bytes().splitlines(keepends=True)
    half = b"".join(data[:-2]).replace(b"Zo\xc3\xab", b"\\udc00")
    tail = f'"sha256": "{hashlib.sha256(half).hexdigest()}"\n}}\n'.encode()
    (tmp_path / "q.json").write_bytes(half + tail)
    with fails("not-a-prediction"):
        read_prediction(tmp_path / "q.json")


@pytest.mark.slow
def test_too_many_draws_and_long_notes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with fails("too-long", "why"):
        register(small_line(), new_line(), why="x" * 10_001)
    monkeypatch.setattr("bayeslaw.evaluation.prediction.MOST_NUMBERS", 1000)
    with fails("too-many-draws", "14,400"):
        register(small_line(), new_line())


# --- reach -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_reach_is_counted_as_a_backtest_counts_it() -> None:
    fit, seen = chinchilla(), oracles.table(CHINCHILLA, runs=8)
    far = HELD.assign(D=30 * HELD["D"])
    compute = register(fit, far)
    product = np.log(far["N"] * far["D"]) - np.log((seen["N"] * seen["D"]).max())
    np.testing.assert_allclose(compute.reach, product, rtol=1e-12)
    assert compute.content["reach_by"] == "compute"
    tokens = register(fit, far, by="D")
    np.testing.assert_allclose(tokens.reach, np.log(far["D"]) - np.log(seen["D"].max()), rtol=1e-12)
    with fails("unknown-direction"):
        register(fit, far, by="size")
    with fails("missing-column"):
        register(fit, far.assign(ptpp=10.0), by="ptpp")
    other = register(small_line(), pd.DataFrame({"x": [0.0, 3.0]}))  # a law without any of the directions
    assert other.content["reach_by"] == ""
    np.testing.assert_allclose(other.reach, [0, 2])


# --- rows that were measured -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_rows_are_recognised_in_any_order_and_in_parts() -> None:
    prediction, table = register(small_line(), new_line()), new_line()
    whole = settle(prediction, table).rows.set_index("row")
    mixed = settle(prediction, table.sample(frac=1.0, random_state=1)).rows.set_index("row").sort_index()
    pd.testing.assert_frame_equal(whole, mixed)
    some = settle(prediction, table.iloc[[7, 2]].assign(run=["renamed", "too"])).rows
    assert some["row"].tolist() == [8, 3]
    np.testing.assert_allclose(some["crps"], whole.loc[[8, 3], "crps"], rtol=1e-12)


def test_a_key_verifies_a_file(tmp_path: Path) -> None:
    """A prediction that was read before is not verified by it."""
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    prediction = register(small_line(), new_line()).save(tmp_path / "p.json")
    with fails("not-signed"):
        settle(tmp_path / "p.json", new_line(), key=key)
    with fails("key-without-file", "read_prediction"):
        settle(prediction, new_line(), key=key)


@pytest.mark.slow
def test_a_difference_may_be_allowed() -> None:
    prediction, off = register(chinchilla(), HELD), HELD.assign(D=HELD["D"] * 1.004)
    with faults(*(("no-such-setting", row, "D") for row in range(1, len(HELD) + 1))) as found:
        settle(prediction, off)
    assert f"{HELD['D'].iloc[0]:.6g}" in found[0].suggestion
    assert settle(prediction, off, tolerance=0.005).table["rows"].item() == len(HELD)
    for wrong in (-0.1, 0.5, float("nan"), "0.5%"):
        with fails("wrong-tolerance"):
            settle(prediction, HELD, tolerance=cast("float", wrong))


def test_rows_far_from_all_forecasts_are_left_out_and_those_near_an_open_one_are_refused() -> None:
    """A table of all runs, with those that were not forecast, was refused."""
    prediction = register(chinchilla(), pd.DataFrame({"N": [1e9, 4e9], "D": 2e10}))
    runs = pd.DataFrame({"N": [1e9, 1.05e9, 2e9, 4e9], "D": 2e10, "loss": [2.6, 2.6, 2.5, 2.4]})
    settled = settle(prediction, runs)
    assert (settled.rows["row"].tolist(), settled.measured["other_rows_left_out"]) == ([1, 2], 2)
    with faults(("no-such-setting", 1, "N")):
        settle(prediction, runs.iloc[1:])


def test_a_tolerance_takes_no_forecast_from_the_row_that_has_its_setting() -> None:
    """1.015e9 lies within 5% of both registered sizes: it settles the one that no other row has, whichever row comes first."""
    prediction = register(chinchilla(), pd.DataFrame({"N": [1e9, 1.04e9], "D": 2e10}))
    measured_ = pd.DataFrame({"N": [1.015e9, 1e9], "D": 2e10, "loss": [2.5, 2.6]})
    for table in (measured_, measured_.iloc[::-1].reset_index(drop=True)):
        rows = settle(prediction, table, tolerance=0.05).rows
        assert dict(zip(rows["row"], rows["loss"], strict=True)) == {1: 2.6, 2: 2.5}
    alone = register(chinchilla(), pd.DataFrame({"N": [1e9], "D": 2e10}))
    with faults(("settled-twice", 1, "N")) as left:  # the second row settles it
        settle(alone, measured_, tolerance=0.05)
    assert "settled by another row" in left[0].problem


@pytest.mark.slow
def test_a_forecast_is_settled_once() -> None:
    prediction, table = register(small_line(), new_line()), new_line()
    with faults(("settled-twice", 13, "x")):
        settle(prediction, pd.concat([table, table.head(1).assign(run="again")], ignore_index=True))
    twins = pd.DataFrame({"x": [0.5, 0.5], "run": ["a", "b"]})
    of_twins = register(small_line(), twins)
    result = settle(of_twins, twins.assign(loss=[2.9, 2.8]).iloc[::-1])
    assert result.rows["row"].tolist() == [2, 1]
    assert settle(of_twins, pd.DataFrame({"x": [0.5, 0.5], "loss": [2.9, 2.8]})).rows["row"].tolist() == [1, 2]


def test_the_forecast_of_a_run_of_one_checkpoint_is_not_settled_by_a_run_of_another() -> None:
    fit = line_fit(size=1200, noise="normal-checkpoint")
    at = pd.DataFrame({"x": 0.5, "checkpoint": ["k0", "k1"]})
    prediction, table = register(fit, at), at.assign(loss=[2.8, 2.9])
    for rows in (settle(prediction, some).rows for some in (table, table.iloc[::-1].reset_index(drop=True))):
        assert dict(zip(rows["row"], rows["loss"], strict=True)) == {1: 2.8, 2: 2.9}
    with faults(("missing-column", None, "checkpoint")):
        settle(prediction, table.drop(columns="checkpoint"))
    alone = register(fit, at.head(1))  # which no column has to tell from another
    assert len(settle(alone, table.head(1).drop(columns="checkpoint")).rows) == 1
    later = register(fit, pd.DataFrame({"x": 0.5, "run": ["r0", "r2"], "checkpoint": ["k0", "k1"]}))
    measured_ = pd.DataFrame({"x": 0.5, "run": ["r2", "r0"], "loss": [2.9, 2.8]})
    assert settle(later, measured_).rows["row"].tolist() == [2, 1]


@pytest.mark.slow
def test_the_forecast_of_a_fitted_run_is_not_settled_by_another() -> None:
    later = pd.DataFrame({"x": [0.5], "run": ["r0"], "checkpoint": ["k0"]})
    prediction = register(small_line(), later)
    assert prediction.rows[0]["as"] == "known run"
    assert len(settle(prediction, later.assign(loss=2.9)).rows) == 1
    with faults(("another-run", 1, "run")) as found:
        settle(prediction, later.assign(loss=2.9, run="r9"))
    assert "r0" in found[0].problem


@pytest.mark.slow
def test_outcomes_that_can_not_be_are_refused() -> None:
    prediction, table = register(small_line(), new_line()), new_line()
    with fails("another-unit", "bits/byte", "nats/token", "convert_table"):
        settle(prediction, table.assign(unit="bits/byte"))
    fit = small_line()
    own = register(replace(fit, info={**fit.info, "token_length": {"bytes_per_token": 3.1}}), table)
    assert len(settle(own, table.assign(bytes_per_token=3.1)).rows) == len(table)
    with fails("other-tokenizer", "4.6 and 3.1 bytes per token", "convert"):
        settle(own, table.assign(bytes_per_token=4.6))
    english = register(replace(fit, info={**fit.info, "domain": "en"}), table)
    for given in (table, table.assign(domain="en")):
        assert len(settle(english, given).rows) == len(table)
    assert len(settle(prediction, table.assign(domain="de")).rows) == len(table)  # whose domain is not known
    with fails("other-domain", "are of domain de", "domain == 'en'"):
        settle(english, table.assign(domain=["en", *["de"] * (len(table) - 1)]))
    with faults(("missing-column", None, "x"), ("missing-column", None, "loss")):
        settle(prediction, table[["run"]])
    with faults(("loss-not-positive", 2, "loss")):
        settle(prediction, table.assign(loss=table["loss"].where(table.index != 1, -1.0)))
    with fails("column-without-numbers"):
        settle(prediction, table.assign(x="a"))
    fit, shares = of_outcome("count")
    with faults(("percent", 1, "accuracy")):
        settle(register(fit, shares), shares.assign(accuracy=[50.0, *shares["accuracy"][1:]]))


@pytest.mark.slow
def test_facts_that_a_table_leaves_out_are_those_registered() -> None:
    fit, table = of_outcome("count")
    prediction = register(fit, table)
    pd.testing.assert_frame_equal(settle(prediction, table.drop(columns="items")).table, settle(prediction, table).table)


def test_a_base_loss_that_tells_no_forecasts_apart_may_be_left_out() -> None:
    fit = typical_fit("from-base-source")
    table = oracles.table(fit.law, runs=2).assign(N=3e7, run="new", loss=2.0).head(4)
    prediction, without = register(fit, table), table.drop(columns="base_loss")
    pd.testing.assert_frame_equal(settle(prediction, without).table, settle(prediction, table).table)
    twice = pd.concat([table, table.assign(base_loss=table["base_loss"] + 0.2)], ignore_index=True)
    with fails("missing-column", "base_loss"):
        settle(register(fit, twice), without)


# --- the record ------------------------------------------------------------------------------------------------------


CARD = """
name = "two-term"
title = "A power law of tokens"
source = "a test"
loss = "E + B/D**beta"
[covariates]
D = { unit = "tokens", support = [1, 1e15] }
[parameters.E]
meaning = "level"
prior = { dist = "LogNormal", mu = 0.6, sigma = 0.1 }
[parameters.B]
meaning = "scale"
prior = { dist = "LogNormal", mu = 6.0, sigma = 0.5 }
[parameters.beta]
meaning = "exponent"
prior = { dist = "LogNormal", mu = -1.1, sigma = 0.2 }
"""


@cache
def backtested() -> tuple[Backtest, list[tuple[Prediction, Runs]]]:
    """A backtest with 10 cuts, and what its fits forecast beyond each, registered, with the rows that were scored there."""
    rng, size = np.random.default_rng(5), 40
    tokens = np.geomspace(1e8, 3e11, size)
    loss = (1.5 + 90 / tokens**0.28) * np.exp(0.006 * rng.standard_normal(size))
    runs = read_runs(pd.DataFrame({"D": tokens, "loss": loss, "run": [f"run {i}" for i in range(size)]}))
    parts = list[tuple[Prediction, Runs]]()

    def registering(fit: Fit, **given: Any) -> Beyond:
        done = forecasts_beyond(fit, **given)
        beyond = Runs(runs.frame.loc[done.rows["row"]], "beyond")
        parts.append((register(fit, beyond, discrepancy="none", seed=1, force=True, by="D"), beyond))
        return done

    with without_sampling(), patch("bayeslaw.evaluation.backtest.forecasts_beyond", registering):
        result = backtest(
            runs, parse_card(CARD), by="D", cuts=10, seed=1, noise="normal-no-run", discrepancy="none", force=True, progress=False,
            options={"draws": 100, "chains": 2},
        )  # fmt: skip
    return result, parts


@pytest.mark.slow
def test_a_record_of_backtests_shows_what_the_backtest_shows(tmp_path: Path) -> None:
    result, parts = backtested()
    assert len(parts) >= 10
    assert 0.2 < result.reach["cover_eti50"].iloc[-1] < result.reach["cover_eti90"].iloc[-1] < 1
    for number, (prediction, beyond) in enumerate(parts):
        prediction.save(tmp_path / f"cut{number:02}.json")
        settle(tmp_path / f"cut{number:02}.json", beyond).save(tmp_path / f"cut{number:02}.settled.json")
    found = record(tmp_path)
    assert found.faults == ()
    assert found.predictions["status"].tolist() == [SETTLED] * len(parts)
    (calibration,) = found.calibrations
    table = calibration.table.rename(columns={"predictions": "cuts"})
    assert table["e_folds"].tolist() == result.reach["e_folds"].tolist()
    for name in result.reach.select_dtypes("number"):
        np.testing.assert_allclose(table[name], result.reach[name], rtol=1e-12, err_msg=name)
    held = int((result.rows["loss"].between(result.rows["eti90_lb"], result.rows["eti90_ub"])).sum())
    assert f"{held} of {len(result.rows)} inside" in found.text


def test_the_range_of_right_intervals_is_binomial() -> None:
    low, high = expected(0.9, 30)
    assert binom.cdf(round(30 * low) - 1, 30, 0.9) < 0.05 <= binom.cdf(round(30 * low), 30, 0.9)
    assert binom.cdf(round(30 * high) - 1, 30, 0.9) < 0.95 <= binom.cdf(round(30 * high), 30, 0.9)


@pytest.mark.parametrize("sizes", [[5] * 8, [20, 20, 20, 1, 1, 1, 1, 1], [91] + 9 * [1], [10, 8, 6, 4, 2, 1]])
def test_the_range_of_right_intervals_holds_with_runs_of_any_numbers_of_rows(sizes: list[int]) -> None:
    """If the rows of a run lie all inside their intervals or all outside, of all ways in which runs may do so."""
    run, count = np.repeat(np.arange(len(sizes)), sizes), np.array(sizes)
    cells = {f"eti{100 * prob:g}_{end}": side for prob in COVERED for end, side in (("lb", 0.0), ("ub", 2.0))}
    rows = pd.DataFrame({"run": run, "row": np.arange(run.size), "reach": 0.7, "loss": 1.0, "median": 1.0, "crps": 0.1, **cells})
    table = Calibration(LOSS, "nats/token", rows.assign(cut="p.json", checks="passed")).table.iloc[-1]
    ways = np.array(list(product((0, 1), repeat=len(sizes))))
    share = ways @ count / count.sum()
    for prob in COVERED:
        low, high = (table[f"expected{100 * prob:g}_{end}"] for end in ("lb", "ub"))
        chance = prob ** ways.sum(axis=1) * (1 - prob) ** (1 - ways).sum(axis=1)
        assert chance[(share >= low - 1e-9) & (share <= high + 1e-9)].sum() >= 0.9


@pytest.mark.slow
def test_open_partly_settled_and_settled(written: Path) -> None:
    table = new_line()
    assert record(written.parent).predictions["status"].tolist() == [OPEN]
    settle(written, table.head(5)).save(written.with_name("p.settled.json"))
    found = record(written.parent)
    assert found.predictions[["status", "settled", "forecasts"]].to_numpy().tolist() == [[PART, 5, 12]]
    assert found.text.startswith("5 of 12 forecasts settled")
    settle(written, table).save(written.with_name("p.settled.json"))
    found = record(written.parent)
    assert found.predictions["status"].tolist() == [SETTLED]
    result = settle(written, table)
    assert found.predictions["crps"].item() == pytest.approx(result.table["crps"].item(), rel=1e-12)
    assert found.calibrations[0].table["cover_eti90"].iloc[-1] == result.table["cover_eti90"].item()


@pytest.mark.slow
def test_known_errors_are_in_the_record_too(written: Path) -> None:
    settle(written, new_line(0.02)).save(written.with_name("p.settled.json"))
    wanted = bayeslaw.score(small_line(), new_line(0.02))
    assert record(written.parent).predictions["crps"].item() == pytest.approx(wanted["crps"].item(), rel=1e-12)


@pytest.mark.slow
def test_what_does_not_count_is_named(written: Path) -> None:
    folder, table = written.parent, new_line()
    good = written.read_bytes()
    (folder / "copy.json").write_bytes(good)
    (folder / "damaged.json").write_bytes(good.replace(b'"someone"', b'"Someone"'))
    (folder / "notes.json").write_text("{}", encoding="utf-8")
    settle(written, table).save(folder / "lost.settled.json")
    settle(written, table).save(folder / "q.settled.json")
    register(small_line(), new_line(), seed=3).save(folder / "q.json")
    settle(folder / "q.json", table).save(folder / "r.settled.json")
    register(small_line(), new_line(), seed=4).save(folder / "r.json")
    result = (folder / "r.settled.json").read_bytes()
    (folder / "r.settled.json").write_bytes(result.replace(b'"tolerance"', b'"Tolerance"'))
    found = record(folder)
    for name, words in {
        "damaged.json": "was changed", "notes.json": "no prediction", "lost.settled.json": "without its prediction",
        "q.settled.json": "another prediction", "r.settled.json": "was changed", "p.json": "is a copy of copy.json",
    }.items():  # fmt: skip
        assert sum(name in fault and words in fault for fault in found.faults) == 1, (name, found.faults)
    assert len(found.faults) == 6
    assert sorted(found.predictions["status"]) == [OPEN, OPEN, OPEN]


def test_the_result_of_a_copy_is_named(written: Path) -> None:
    (written.parent / "copy.json").write_bytes(written.read_bytes())
    settle(written, new_line()).save(written.with_name("p.settled.json"))
    (fault,) = record(written.parent).faults
    assert fault == "p.json does not count: it is a copy of copy.json. Nor does p.settled.json."


@pytest.mark.slow
def test_results_with_strange_contents_are_not_used(written: Path) -> None:
    settle(written, new_line()).save(written.with_name("p.settled.json"))
    path = written.with_name("p.settled.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["sha256"]
    rows = content["rows"]
    for change in ([], [{**rows[0], "row": 99}], [{**rows[0], "loss": -1.0}], [rows[0], rows[0]], [{**rows[0], "loss": None}], "x"):
        path.write_bytes(seal(content | {"rows": change})[0])
        found = record(written.parent)
        assert found.predictions["status"].tolist() == [OPEN]
        assert len(found.faults) == 1
    for name, value in (("crps", 0.0), ("pit", 0.5), ("median", 9.0)):  # scores in the file are not taken on trust
        path.write_bytes(seal(content | {"rows": [{**row, name: value} for row in rows]})[0])
        (calibration,) = record(written.parent).calibrations
        assert calibration.rows[name].tolist() == settle(written, new_line()).rows[name].tolist()


def test_folders_without_predictions(tmp_path: Path) -> None:
    with fails("no-predictions", "bayeslaw register"):
        record(tmp_path)
    with fails("no-folder"):
        record(tmp_path / "none")


@pytest.mark.slow
def test_outcomes_of_several_kinds_are_apart(tmp_path: Path) -> None:
    for name, (fit, table) in {"losses": (small_line(), new_line()), "shares": of_outcome("count")}.items():
        register(fit, table).save(tmp_path / f"{name}.json")
        settle(tmp_path / f"{name}.json", table).save(tmp_path / f"{name}.settled.json")
    found = record(tmp_path)
    assert [c.outcome.name for c in found.calibrations] == ["loss", "accuracy"]
    assert [c.shown["error"].str.endswith("%").all() for c in found.calibrations] == [True, False]
    assert found.calibrations[0].table["e_folds"].tolist()[-1] == "all"
