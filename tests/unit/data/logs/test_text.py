"""Imports of text tables: wide ones, mapping files, faults, and the meaning of columns and cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeslaw.core.errors import TableError
from bayeslaw.data.logs.api import import_runs
from bayeslaw.data.logs.cells import numbers
from bayeslaw.data.logs.log import Log, domain_of, meanings
from bayeslaw.data.logs.mapping import mapping
from tests.errors import fails, faults
from tests.logs import cells, noted, written

# --- wide tables and others ---------------------------------------------------------------------------------------------------


def test_a_wide_table_has_one_column_for_each_run(tmp_path: Path) -> None:
    imported = import_runs(written(tmp_path, "Iteration,Run A,run b,gone\n100,3.0,,\n200,2.9,3.1,\n"))
    assert cells(imported, "run", "step", "loss") == [["Run A", 100, 3.0], ["Run A", 200, 2.9], ["run b", 200, 3.1]]
    assert noted(imported, "1 column", "(gone)")


@pytest.mark.slow
def test_columns_that_may_be_runs_or_domains_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "step,web_loss,code_loss\n100,3.0,2.0\n")
    with fails("runs-or-domains", "'web_loss', 'code_loss'", "(kind wide)", "(kind table)", "kind="):
        import_runs(path)
    assert cells(import_runs(path, kind="table"), "run", "domain", "loss") == [["log", "web", 3.0], ["log", "code", 2.0]]
    assert cells(import_runs(path, kind="wide"), "run", "loss") == [["web_loss", 3.0], ["code_loss", 2.0]]


def test_runs_whose_names_differ_by_case_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,eval_loss\nRun-A,1,3.0\nrun-a,2,2.9\n")
    with faults(("names-differ-by-case", 2, "run")) as listed:
        import_runs(path)
    assert "'Run-A' and 'run-a'" in listed[0].problem
    imported = import_runs(path, map={"rename": {"Run-A": "run-a"}})
    assert cells(imported, "run", "step") == [["run-a", 1], ["run-a", 2]]


MAP = """
delimiter = "|"
[columns]
run = "Experiment"
N = { column = "Size", unit = "M" }
r = { column = "Old data", unit = "%" }
D = { column = "Seen", unit = "B" }
[losses]
web = "xent (web)"
[constants]
ptpp = 20
[runs.x]
seed = 1
"""


def test_a_mapping_file_gives_meanings_and_units(tmp_path: Path) -> None:
    path = written(tmp_path, "Experiment|Size|Old data|Seen|xent (web)|note\nx|410|25|1.5|2.75|hm\ny|70|0|3|3.5|\n", "table.txt")
    map_ = written(tmp_path, MAP, "map.toml")
    imported = import_runs(path, map=map_)
    assert cells(imported, "run", "N", "r", "D", "domain", "loss", "ptpp") == [
        ["x", 4.1e8, 0.25, 1.5e9, "web", 2.75, 20], ["y", 7e7, 0, 3e9, "web", 3.5, 20],
    ]  # fmt: skip
    assert noted(imported, "1 column", "('note')")
    assert noted(imported, "N = Size x 1e+06")


@pytest.mark.parametrize(
    ("given_", "code", "value"),
    [
        ({"colums": {}}, "unknown-name", "'columns'"),
        ({"from": "tensorbord"}, "unknown-kind", "'tensorboard'"),
        ({"columns": {"N": {"column": "x", "unit": "mol"}}}, "unknown-unit", "'mol'"),
        ({"columns": {"loss": {"column": "x", "unit": "M"}}}, "unknown-unit", "'M'"),
        ({"loss_unit": "bpb", "columns": {"loss": {"column": "x", "unit": "ppl"}}}, "two-units", "perplexity"),
        ({"columns": {"N": 3}}, "not-a-column", "3"),
        ({"columns": {"N": "x", "D": "x"}}, "two-meanings", "'x'"),
        ({"constants": {"N": "many"}}, "not-a-number", "'many'"),
        ({"constants": {"r": "25%"}}, "not-a-number", "Write 0.25 for 25%."),
        ({"runs": {"a": {"learning": 3}}}, "unknown-name", "'learning'"),
        ({"decimal": ",", "thousands": ","}, "equal-marks", "','"),
        ({"columns": {"loss": "a"}, "losses": {"web": "b"}}, "ambiguous-losses", ""),
        ({"rename": {"a": ""}}, "not-a-name", "'a'"),
        ({"delimiter": "||"}, "not-one-character", "'||'"),
        ({"delimiter": '"'}, "unusable-delimiter", ""),
        ({"delimiter": "\n"}, "unusable-delimiter", ""),
    ],
)
def test_a_faulty_mapping_is_refused(given_: dict[str, Any], code: str, value: str) -> None:
    with fails(code, value):
        mapping(given_)


@pytest.mark.parametrize(
    ("text", "code", "rows"),
    [
        ("run,step,eval_loss\na,1,3.0\na,,2.9\n", "missing-step", [2]),
        ("run,step,eval_loss\na,1,3.0\na,NaN,2.9\n", "missing-step", [2]),
        ("run,step,eval_loss\na,1,3.0\na,inf,2.9\n", "not-a-whole-number", [2]),
        ("run,step,eval_loss,lr\na,1,3.0,inf\n", "negative-or-not-finite", [1]),
        ("run,step,eval_loss\na,1,3.0\n,2,2.9\n", "missing-run", [2]),
        ("run,step,eval_loss\na,1,3.0\na,2.5,2.9\n", "not-a-whole-number", [2]),
        ("run,step,eval_loss\na,1,x\n", "not-a-number", [1]),
        ("run,step,eval_loss\na,1,20.1\na,2,19\n", "loss-too-large", [1, 2]),
        ("run,step,eval_loss,lr\na,1,3,-1e-4\n", "negative-or-not-finite", [1]),
        ("run,step,eval_loss,replay\na,1,3,25\n", "out-of-support", [1]),
        ("run,step,eval_loss,N\na,1,3,0\n", "not-positive", [1]),
        ("run,step,eval_loss\na,1,3.0,9\na,2\n", "row-of-another-length", [1, 2]),
        ('run,step,eval_loss\na,1,"2,931"\n', "ambiguous-number", [1]),
        ("run,step,eval_loss\na,1,410M\n", "not-a-number", [1]),
        ("run,step,eval_loss,tokens\na,1,3.0,1e6\na,2,2.9,1e6\n", "tokens-do-not-grow", [2]),
    ],
)
def test_an_impossible_value_is_refused_by_row(tmp_path: Path, text: str, code: str, rows: list[int]) -> None:
    with pytest.raises(TableError) as caught:
        import_runs(written(tmp_path, text))
    assert [(f.code, f.row) for f in caught.value.faults] == [(code, row) for row in rows]


def test_losses_of_untrained_models_are_left_out_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,eval_loss\na,0,16.1\na,100,4.5\nb,0,10.9\nb,100,4.4\n")
    imported = import_runs(path)
    assert cells(imported, "run", "step", "loss") == [["a", 100, 4.5], ["b", 0, 10.9], ["b", 100, 4.4]]
    assert noted(imported, "1 loss of untrained models", "15 nats")
    with faults(("loss-too-large", 1, "loss"), ("loss-too-large", 2, "loss")) as listed:  # a perplexity
        import_runs(written(tmp_path, "run,step,eval_loss\na,0,60000\na,100,90\n"))
    assert "--where" not in listed[0].suggestion  # which logs are not read with


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        ("", "no-header", "log.csv"),
        ("step,eval_loss\n", "no-rows", "log.csv"),
        ("a,b\n1,2\n", "no-loss", "there are a, b"),
        ("run,step,eval/loss,eval/web_loss\na,1,3,3\n", "ambiguous-losses", "eval/web_loss"),
        ("run,step,eval_loss,val_loss\na,1,3,3\n", "ambiguous-losses", "'eval_loss' and 'val_loss'"),
        ("run,step,eval_loss,lr,learning_rate\na,1,3,1,1\n", "two-columns-of-one-meaning", "'lr' and 'learning_rate'"),
        ("run,step,lr\na,1,1e-4\n", "no-loss", "--column loss="),
        ("run,step,train/loss\na,1,3\n", "no-loss", "--loss train/loss"),
        ("run,step,eval_loss\na,1,\n", "no-loss", ""),
    ],
)
def test_a_table_without_clear_losses_is_refused(tmp_path: Path, text: str, code: str, named: str) -> None:
    with fails(code, named):
        import_runs(written(tmp_path, text))


def test_a_table_of_last_losses_needs_no_runs_or_steps(tmp_path: Path) -> None:
    imported = import_runs(written(tmp_path, "N,D,loss\n1e8,1e9,3.0\n1e8,2e9,2.9\n"))
    assert cells(imported, "run", "D") == [["log:1", 1e9], ["log:2", 2e9]]


@pytest.mark.slow
def test_values_given_for_all_runs_must_agree_with_the_log(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,eval_loss,N\na,1,3.0,1e8\na,2,2.9,\n")
    assert cells(import_runs(path, N=1e8), "N") == [[1e8], [1e8]]
    with fails("contradicting-values", "1e+08", "2e+08"):
        import_runs(path, N=2e8)
    with fails("unknown-name", "'seeds'"):
        import_runs(path, seeds=3)
    with fails("unknown-run", "'b'"):
        import_runs(path, map={"runs": {"b": {"N": 1e8}}})
    with fails("missing-column", "'evl_loss'", "'eval_loss'"):
        import_runs(path, losses=["evl_loss"])


# --- names and cells --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "domain"),
    [
        ("eval/loss", ""), ("Val_Loss", ""), ("validation loss", ""), ("eval/pile_loss", "pile"), ("eval_Pile-CC_loss", "Pile-CC"),
        ("val_loss/code", "code"), ("web/eval_loss", "web"), ("train/loss", None), ("train_loss", None), ("loss", None),
        ("eval/runtime", None), ("eval/accuracy", None), ("eval/z_loss", None), ("pile_loss", None),
        ("eval/lm/c4_en-validation/CE loss", "lm/c4_en-validation"), ("eval/pile/CrossEntropyLoss", "pile"),
        ("train/CE loss", None),
        ("metrics/eval/LanguageCrossEntropy", ""), ("metrics/eval/Code/LanguageCrossEntropy", "Code"), ("Loss/val", ""),
        ("metrics/train/LanguageCrossEntropy", None), ("eval/paloma/c4_en/loss", "paloma/c4_en"), ("validation_metrics/loss", ""),
        ("lm loss validation", ""), ("lm-loss-validation/lm loss validation", ""), ("lm loss validation vs samples", None),
        ("validation/lm_loss", ""), ("metrics.val_loss", ""), ("summary.eval/web_loss", "web"),
        ("Loss/train", None), ("final_val_loss", ""), ("best_val_loss", None), ("lm loss", None), ("val_ppl", None),
    ],
)  # fmt: skip
def test_the_domain_of_a_column_of_losses(column: str, domain: str | None) -> None:
    assert domain_of(column) == domain


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "losses", "other"),
    [
        (["train/ce_loss", "train/z_loss"], {}, ["train/ce_loss", "train/z_loss"]),
        (["lm_loss", "router_z_loss", "load_balancing_loss"], {"lm_loss": "lm"}, ["router_z_loss", "load_balancing_loss"]),
        (["train_loss", "val_loss_step", "val_loss_epoch"], {}, ["val_loss_step", "val_loss_epoch"]),
        (["best_val_loss", "final_val_loss"], {"final_val_loss": None}, ["best_val_loss"]),
        (["val_loss", "best_val_loss", "final_val_loss"], {"val_loss": None}, ["best_val_loss"]),
        (["val_loss_web", "val_loss_web_std"], {"val_loss_web": "web"}, ["val_loss_web_std"]),
        (["eval/web_loss", "router_z_loss", "train/web_loss"], {"eval/web_loss": "web"}, []),
        (["eval/loss", "eval/web_se_loss", "eval/a-train_loss"], {"eval/loss": None}, ["eval/web_se_loss", "eval/a-train_loss"]),
        (["val_loss/first-steps", "val_loss/trains"], {"val_loss/first-steps": "first-steps", "val_loss/trains": "trains"}, []),
    ],
)  # fmt: skip
def test_columns_that_are_no_losses_of_a_domain(
    tmp_path: Path, columns: list[str], losses: dict[str, str | None], other: list[str]
) -> None:
    meaning = meanings(Log("x", "table", pd.DataFrame(columns=["step", *columns])))
    assert (dict(meaning.losses), list(meaning.other_losses)) == (losses, other)
    path = written(tmp_path, f"run,step,{','.join(columns)}\na,1,{','.join('3' for _ in columns)}\n")
    if other and losses:
        assert noted(import_runs(path), ", ".join(other), "--loss")
    for column in other:
        assert cells(import_runs(path, losses=[column]), "loss") == [[3.0]]


def test_of_two_columns_of_one_meaning_the_one_counts_that_was_logged_or_holds_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,config.lr,lr,model_size,num_params,val_loss\na,1,3e-4,1e-4,tiny,801152,3\n")
    assert cells(import_runs(path), "lr", "N") == [[1e-4, 801152]]
    path = written(tmp_path, "Name,State,run_name,val_loss\nsunny-sky-1,finished,a,3\n")
    with fails("two-columns-of-one-meaning", "--column run=Name or --column run=run_name"):
        import_runs(path)
    assert cells(import_runs(path, columns={"run": "run_name"}), "run") == [["a"]]


def test_runs_that_did_not_finish_are_noted_where_columns_are_named_too(tmp_path: Path) -> None:
    path = written(tmp_path, "Name,State,size,val_loss\na,finished,1.5,3\nb,crashed,1.5,4\n")
    imported = import_runs(path, columns={"N": "size:B"})
    assert cells(imported, "run", "N", "loss") == [["a", 1.5e9, 3], ["b", 1.5e9, 4]]
    assert noted(imported, "1 run did", "b (crashed)")
    path = written(tmp_path, "Name,State,N,D,val_loss\na,running,1e8,1e9,3\na,running,1e8,2e9,2.9\nb,running,1e8,1e9,4\n")
    assert noted(import_runs(path), "2 runs did not finish; their last losses are used: a (running), b (running)")


def test_runs_of_which_no_row_is_left_are_named(tmp_path: Path) -> None:
    table = "Name,State,lr,val_loss\na,finished,,3\nb,running,,\nc,failed,,nan\nd,running,1e-3,\n"
    imported = import_runs(written(tmp_path, table), nan="drop")
    assert cells(imported, "run", "loss") == [["a", 3]]
    for note, run in (("1 entry without a loss", "b"), ("1 step without an evaluation", "d"), ("1 loss not finite", "c")):
        assert noted(imported, note, f"nothing is left of 1 run: {run}")


def test_names_of_olmo_composer_levanter_and_mlflow(tmp_path: Path) -> None:
    columns = {
        "throughput/total tokens": "D", "time/token": "D", "n_tokens_seen": "D", "optim/LR (group 0)": "lr", "parameter_count": "N",
        "lr-DecoupledAdamW/group0": "lr", "params.n_params": "N", "optim/learning_rate": "lr",
    }  # fmt: skip
    for column, ours in columns.items():
        imported = import_runs(written(tmp_path, f"run,_step,eval/loss,{column}\na,1,3,2e6\n"))
        assert cells(imported, ours) == [[2e6]], column


def test_steps_are_those_that_losses_are_logged_by(tmp_path: Path) -> None:
    path = written(tmp_path, "iter,iterations,_step,val_loss,lr\n100,,1,3.2,\n100,,2,,1e-4\n200,,3,3.1,\n,200,4,,\n")
    imported = import_runs(path)
    assert cells(imported, "step", "loss", "lr") == [[100, 3.2, 1e-4], [200, 3.1, None]]
    assert noted(imported, "step = iter")


def test_a_table_of_training_losses_alone_is_no_table_of_runs(tmp_path: Path) -> None:
    path = written(tmp_path, "epoch,step,train_loss_step,train_perplexity_step\n0,49,9.4,12591.2\n0,99,9.0,8412.7\n")
    with fails("no-loss", "--loss train_loss_step"):
        import_runs(path)


def test_columns_that_are_no_losses_are_no_runs_either(tmp_path: Path) -> None:
    with fails("no-loss", "val_loss_epoch"):
        import_runs(written(tmp_path, "step,val_loss_step,val_loss_epoch\n1,3,3\n"))


def test_the_trainers_steps_come_before_the_loggers() -> None:
    meaning = meanings(Log("x", "table", pd.DataFrame(columns=["_step", "train/global_step", "eval/loss"])))
    assert (meaning.step, meaning.by_logger) == ("train/global_step", False)


@settings(max_examples=25)
@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15))
def test_a_number_with_separators_is_the_number(value: float) -> None:
    cells_ = pd.Series([f"{value:,.3f}", "12,345.5", f"{value!r}"], dtype=object)
    values, wrong, separated = numbers(cells_, "loss")
    assert not wrong
    assert values.tolist() == [float(f"{value:.3f}"), 12345.5, value]
    assert separated >= 1


def test_empty_cells_are_missing_and_others_may_be_infinite() -> None:
    values, wrong, _ = numbers(pd.Series([None, "", " NA ", "nan", "-Infinity", "1e999", float("nan")], dtype=object), "loss")
    assert not wrong
    np.testing.assert_array_equal(values, [np.nan] * 3 + [np.inf] * 4)


@pytest.mark.parametrize("ours", ["lr", "r", "D", "step"])
def test_nan_in_anything_but_a_loss_is_missing(ours: str) -> None:
    given_ = pd.Series(["nan", "NaN", float("nan"), np.float64("nan"), "inf", float("inf"), "1"], dtype=object)
    values, wrong, _ = numbers(given_, ours)
    assert not wrong
    np.testing.assert_array_equal(values, [np.nan] * 4 + [np.inf] * 2 + [1])


@pytest.mark.slow
def test_losses_may_be_in_other_units(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,eval/loss,bytes_per_token\na,1,20.5,4.0\nb,1,30.25,3.5\n")
    imported = import_runs(path, loss_unit="ppl")
    assert imported.runs.unit == "nats/token"
    assert any("perplexities" in note for note in imported.notes)
    assert imported.runs.frame["bytes_per_token"].tolist() == [4.0, 3.5]
    assert imported.runs.frame["loss"].tolist() == pytest.approx(np.log([20.5, 30.25]))
    assert import_runs(path, map={"loss_unit": "perplexity"}).runs.frame["loss"].tolist() == pytest.approx(np.log([20.5, 30.25]))
    with pytest.raises(ValueError, match="'ppx'"):
        import_runs(path, loss_unit="ppx")
    with fails("loss-too-large"):
        import_runs(path)


def test_the_unit_of_a_column_is_not_that_of_the_column_that_replaces_it(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,bpb,val_ce\na,1,0.9,3.1\na,2,0.8,2.9\n")
    of_bpb = {"columns": {"loss": {"column": "bpb", "unit": "bpb"}}}
    assert import_runs(path, map=of_bpb).runs.unit == "bits/byte"
    for chosen in (import_runs(path, map=of_bpb, losses="val_ce"), import_runs(path, map=of_bpb, columns={"loss": "val_ce"})):
        assert chosen.runs.frame["loss"].tolist() == [3.1, 2.9]
        assert chosen.runs.unit == "nats/token"
    in_bits = import_runs(path, map=of_bpb, columns={"loss": "val_ce:bits/token"})
    assert in_bits.runs.unit == "bits/token"
    assert import_runs(path, map={"loss_unit": "bits/token"}, losses="val_ce").runs.unit == "bits/token"


@pytest.mark.slow
def test_faults_of_several_kinds_are_listed_at_once(tmp_path: Path) -> None:
    """Each kind was told after the one before had been corrected."""
    rows = ("a,1,1e8,,3.1", "a,2,1e8,,abc", "b,1,-5,20,3.2", "b,2,-5,20,nan", "c,1,1e8,,inf", "d,1,1e8,,-3")
    path = written(tmp_path, "\n".join(["run,step,N,ptpp,val_loss", *rows, ""]))
    diverged = (("diverged", row, "loss") for row in (4, 5))
    of_row_3 = (("not-positive", 3, "N"), ("contradicting-values", 3, "ptpp"))
    with faults(("not-a-number", 2, "val_loss"), *of_row_3, *diverged, ("loss-not-positive", 6, "loss")):
        import_runs(path, ptpp=30)


def test_a_unit_that_the_log_contradicts_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,eval/loss,unit\na,1,1.0,ppl\na,2,1.1,\nb,1,0.9,Perplexity\nb,2,1.0,bits/byte\n")
    with faults(("contradicting-units", 4, "unit")) as listed:
        import_runs(path, loss_unit="ppl")
    assert "bits/byte" in listed[0].problem
    with faults(*[("contradicting-units", row, "unit") for row in (1, 3)]):
        import_runs(path, map={"loss_unit": "bits/byte"})
    agreeing = written(tmp_path, "run,step,eval/loss,unit\na,1,1.5,ppl\na,2,1.2,\n")
    assert import_runs(agreeing, loss_unit="perplexity").runs.frame["loss"].tolist() == pytest.approx(np.log([1.5, 1.2]))


def test_one_mark_of_numbers_implies_the_other(tmp_path: Path) -> None:
    path = written(tmp_path, "run;step;eval_loss\na;1.000;3,125\n")
    for marks in ({"thousands": "."}, {"decimal": ","}):
        assert cells(import_runs(path, map=marks), "step", "loss") == [[1000, 3.125]]


@pytest.mark.slow
def test_one_column_or_domain_needs_no_list(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,xent,eval/web_loss,eval/code_loss\na,1,3.5,3.0,2.0\n")
    assert cells(import_runs(path, losses="xent"), "loss") == [[3.5]]
    assert cells(import_runs(path, domains="web"), "loss") == [[3.0]]


def test_amounts_in_cells_have_the_marks_of_the_mapping(tmp_path: Path) -> None:
    """In 1.300M the point may stand for a thousand or for a decimal."""
    text = 'run,step,val_loss,params\na,1,"3,1",%s\n'
    marks = {"decimal": ",", "thousands": "."}
    for cell, n in (("1.300M", 1.3e9), ('"1,3M"', 1.3e6), ("410M", 410e6), ('"1,3 B"', 1.3e9)):
        assert cells(import_runs(written(tmp_path, text % cell), map=marks), "N") == [[n]]
    plain = "run,step,val_loss,params_m\na,1,3.1,410M\nb,1,3.0,410\n"
    assert cells(import_runs(written(tmp_path, plain)), "N") == [[410e6], [410e6]]
    with fails("not-a-number", "decimal comma"):
        import_runs(written(tmp_path, 'run,step,val_loss,params\na,1,3.1,"1,3M"\n'))
    for cell, mark in (("1.300.000", "."), ("1 300 000", " "), ("1'300'000", "'"), ("1.300.000,5", ".")):
        with fails("not-a-number", f'thousands = "{mark}"'):
            import_runs(written(tmp_path, f'run,step,val_loss,params\na,1,3.1,"{cell}"\n'))


def test_steps_have_the_unit_that_is_given(tmp_path: Path) -> None:
    path = written(tmp_path, "step_k,val_loss\n0.5,3.1\n2,3.0\n")
    for mapped in ({"columns": {"step": "step_k:K"}}, {"map": {"columns": {"step": {"column": "step_k", "unit": 1000}}}}):
        imported = import_runs(path, tokens_per_step=1e6, **mapped)
        assert cells(imported, "step", "D") == [[500, 5e8], [2000, 2e9]]
        assert noted(imported, "step = step_k x 1000")


@pytest.mark.parametrize(
    ("name", "text"),
    [("Step", '"Step","a - eval/loss"\n"1,000","3.0"\n"2,000","2.9"\n'), ("step", "step,val_loss\n1000,3.0\n2000,2.9\n")],
)
def test_a_column_called_step_may_count_tokens(name: str, text: str, tmp_path: Path) -> None:
    """As an axis that a user chose for a chart, and that its export still calls Step."""
    imported = import_runs(written(tmp_path, text), columns={"D": f"{name}:M"})
    assert cells(imported, "D", "loss") == [[1e9, 3.0], [2e9, 2.9]]
    assert "step" not in imported.runs.frame


def test_a_share_with_a_percent_sign_has_its_unit(tmp_path: Path) -> None:
    text = "Lauf;Replay;Token;val_loss\na;12,5 %;1000000;3,1\nb;0 %;1000000;3,0\n"
    columns = {"run": "Lauf", "r": {"column": "Replay", "unit": "%"}, "D": "Token"}
    given = {"delimiter": ";", "decimal": ",", "columns": columns}
    assert cells(import_runs(written(tmp_path, text), map=given), "r") == [[0.125], [0]]


def test_a_chart_over_tokens(tmp_path: Path) -> None:
    head = "tokens_seen,big - _step,big - eval/loss,big - eval/loss__MIN,big - eval/loss__MAX\n"
    path = written(tmp_path, head + "1000,10,3.5,3.5,3.5\n2000,20,3.25,3.25,3.25\n")
    assert cells(import_runs(path), "run", "step", "D", "loss") == [["big", 10, 1000, 3.5], ["big", 20, 2000, 3.25]]
    path = written(tmp_path, "tokens_seen,big - eval/loss\n1000,3.5\n2000,3.25\n", "b.csv")
    assert cells(import_runs(path), "run", "D", "loss") == [["big", 1000, 3.5], ["big", 2000, 3.25]]


def test_objects_in_cells_are_columns(tmp_path: Path) -> None:
    rows = [({"eval/loss": 3.5, "_wandb": {"runtime": 3}}, {"n_params": 1e7, "betas": [0.9, 0.95]}, "a")]
    rows.append(({"eval/loss": float("nan")}, {"n_params": 4e7, "note": "nan, or {x}"}, "b"))
    path = tmp_path / "project.csv"
    pd.DataFrame(rows, columns=["summary", "config", "name"]).to_csv(path)
    with faults(("diverged", 2, "loss")):
        import_runs(path)
    assert cells(import_runs(path, nan="drop"), "run", "N", "loss") == [["a", 1e7, 3.5]]
    # a text in braces that is none stays a text
    assert cells(import_runs(written(tmp_path, 'run,note,val_loss\na,"{x: 1",3.5\nb,"{1, 2}",3.0\n')), "run", "loss") == [
        ["a", 3.5], ["b", 3.0],
    ]  # fmt: skip


def test_a_history_in_parquet(tmp_path: Path) -> None:
    path = tmp_path / "0000.parquet"
    nan = float("nan")
    history = {"_step": [0, 1, 2], "_timestamp": [1.0, 2.0, 3.0], "train/global_step": [10, 10, 20], "eval/loss": [nan, 3.5, 3.25]}
    pd.DataFrame(history | {"train/learning_rate": [0.5, nan, nan]}).to_parquet(path)
    assert cells(import_runs(path), "run", "step", "loss", "lr") == [["0000", 10, 3.5, 0.5], ["0000", 20, 3.25, None]]
    path.write_bytes(b"PAR1" + bytes(20))
    with fails("unreadable-table", "0000.parquet can't be read as Parquet"):
        import_runs(path)
    pd.DataFrame({"eval/loss": []}).to_parquet(path)
    with fails("no-rows"):
        import_runs(path)


def test_tokens_per_step_without_steps_are_noted(tmp_path: Path) -> None:
    imported = import_runs(written(tmp_path, "run,val_loss,params.tokens_per_step\na,3.5,64\nb,3.0,64\n"))
    assert noted(imported, "no tokens", "steps are not")


def test_a_table_of_runs_has_the_learning_rate_that_was_set(tmp_path: Path) -> None:
    text = "Name,State,config.lr,train/learning_rate,val/loss\na,finished,0.5,0,3.5\nb,finished,0.25,0,3.0\n"
    assert cells(import_runs(written(tmp_path, text)), "lr") == [[0.5], [0.25]]
    text = "run,step,config.lr,train/learning_rate,val/loss\na,1,0.5,0.25,3.5\na,2,0.5,0.125,3.0\n"
    assert cells(import_runs(written(tmp_path, text, "b.csv")), "lr") == [[0.25], [0.125]]


def test_metrics_of_runs_that_tensorboard_exports_one_by_one(tmp_path: Path) -> None:
    files = {"big-tag-eval_loss": (3.5, 3.25), "small-tag-eval_loss (1)": (4.0, 3.75), "small-tag-lr": (0.5, 0.25)}
    for name, values in files.items():
        text = "Wall time,Step,Value\n" + "".join(f"1700000000.5,{100 * i},{v}\n" for i, v in enumerate(values, 1))
        written(tmp_path, text, f"run-{name}.csv")
    imported = import_runs(sorted(tmp_path.glob("*.csv")))
    assert cells(imported, "run", "step", "loss", "lr") == [
        ["big", 100, 3.5, None], ["big", 200, 3.25, None], ["small", 100, 4.0, 0.5], ["small", 200, 3.75, 0.25],
    ]  # fmt: skip
    with fails("no-loss", "train_loss has losses of training batches"):
        import_runs(written(tmp_path, text, "run-big-tag-train_loss.csv"))
    path = written(tmp_path, text, "scalars.csv")
    with fails("no-loss", "run-RUN-tag-METRIC.csv", "--loss Value"):
        import_runs(path)
    assert cells(import_runs(path, losses="Value"), "run", "loss") == [["scalars", 0.5], ["scalars", 0.25]]


@pytest.mark.parametrize("head", ["run,tag,step,value", "run_id,key,step,value"])
def test_a_table_with_a_metric_in_each_row(tmp_path: Path, head: str) -> None:
    text = f"{head}\na,eval/loss,100,3.5\na,train/loss,100,3.0\na,tokens_seen,100,6400\nb,eval/loss,100,3.25\n"
    imported = import_runs(written(tmp_path, text))
    assert cells(imported, "run", "step", "loss", "D") == [["a", 100, 3.5, 6400], ["b", 100, 3.25, None]]
    assert noted(imported, "other metrics", "train/loss")
    assert cells(import_runs(written(tmp_path, text), losses="train/loss"), "run", "loss") == [["a", 3.0]]
    with fails("no-loss", "train/loss has losses of training batches"):
        import_runs(written(tmp_path, f"{head}\na,train/loss,100,3.0\n"))
    # a value beside losses is a value
    assert cells(import_runs(written(tmp_path, "run,tag,value,val_loss\na,x,3,3.5\n")), "run", "loss") == [["a", 3.5]]


@pytest.mark.parametrize("contents", [b"PK\x03\x04 sheet", b"PK\x03\x04\x00\xff\xfe", b"\xd0\xcf\x11\xe0\xa1\xb1"])
def test_a_workbook_is_to_be_saved_as_csv(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "runs.xlsx"
    path.write_bytes(contents)
    with fails("workbook", "runs.xlsx is a workbook", "Save the sheet as CSV", "pandas.read_excel"):
        import_runs(path)
    text = written(tmp_path, "run\tstep\teval_loss\na\t100\t3.5\n", "text.xls")  # as some programs call tables of text
    assert cells(import_runs(text), "loss") == [[3.5]]
