"""Losses from tables of any form: wide ones, mapping files, what is refused, and what columns and cells mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayeslaw.core.errors import BayeslawError, TableError
from bayeslaw.core.units import convert_table
from bayeslaw.data.columns import resolve
from bayeslaw.data.logs.api import import_runs
from bayeslaw.data.logs.cells import Marks, numbers
from bayeslaw.data.logs.log import domain_of, meanings
from bayeslaw.data.logs.mapping import mapping
from tests.logs import cells, noted, written

# --- wide tables and others ---------------------------------------------------------------------------------------------------


def test_one_column_for_each_run(tmp_path: Path) -> None:
    made = import_runs(written(tmp_path, "Iteration,Run A,run b,gone\n100,3.0,,\n200,2.9,3.1,\n"))
    assert cells(made, "run", "step", "loss") == [["Run A", 100, 3.0], ["Run A", 200, 2.9], ["run b", 200, 3.1]]
    assert noted(made, "1 column without a loss left out (gone)")


def test_what_may_be_runs_or_domains_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "step,web_loss,code_loss\n100,3.0,2.0\n")
    # by their names these are losses of domains, where nothing else is a loss; a table says so only if told
    with pytest.raises(BayeslawError, match=r"may be runs \(--from wide\) or losses of several domains \(--from table\)"):
        import_runs(path)
    assert cells(import_runs(path, kind="table"), "run", "domain", "loss") == [["log", "web", 3.0], ["log", "code", 2.0]]
    assert cells(import_runs(path, kind="wide"), "run", "loss") == [["web_loss", 3.0], ["code_loss", 2.0]]


def test_runs_whose_names_differ_by_case(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,eval_loss\nRun-A,1,3.0\nrun-a,2,2.9\n")
    with pytest.raises(TableError, match="runs 'Run-A' and 'run-a' differ by case or blanks alone") as refused:
        import_runs(path)
    assert [f.row for f in refused.value.faults] == [2]
    made = import_runs(path, map={"rename": {"Run-A": "run-a"}})
    assert cells(made, "run", "step") == [["run-a", 1], ["run-a", 2]]


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


def test_a_mapping_file(tmp_path: Path) -> None:
    path = written(tmp_path, "Experiment|Size|Old data|Seen|xent (web)|note\nx|410|25|1.5|2.75|hm\ny|70|0|3|3.5|\n", "table.txt")
    map_ = written(tmp_path, MAP, "map.toml")
    made = import_runs(path, map=map_)
    assert cells(made, "run", "N", "r", "D", "domain", "loss", "ptpp") == [
        ["x", 4.1e8, 0.25, 1.5e9, "web", 2.75, 20], ["y", 7e7, 0, 3e9, "web", 3.5, 20],
    ]  # fmt: skip
    assert noted(made, "1 column not taken ('note')")
    assert noted(made, "N = Size x 1e+06")


@pytest.mark.parametrize(
    ("given_", "fragment"),
    [
        ({"colums": {}}, "'colums' is not understood; there are from, columns"),
        ({"from": "tensorbord"}, "from is 'tensorbord'.*Did you mean 'tensorboard'"),
        ({"columns": {"N": {"column": "x", "unit": "m"}}}, "unit 'm' is not among 1, k, M, B, T, %"),
        ({"columns": {"N": 3}}, "not 3"),
        ({"columns": {"N": "x", "D": "x"}}, "column 'x' is given two meanings"),
        ({"constants": {"N": "many"}}, "N is a number such as 410e6, not 'many'"),
        ({"runs": {"a": {"learning": 3}}}, "'learning' is not understood"),
        ({"decimal": ",", "thousands": ","}, "decimal and thousands are both ','"),
        ({"columns": {"loss": "a"}, "losses": {"web": "b"}}, "either as loss under"),
        ({"rename": {"a": ""}}, "gives no name"),
        ({"delimiter": "||"}, "delimiter is one character"),
        ({"delimiter": '"'}, "delimiter '\"' can't part cells: it is a sign such as"),
        ({"delimiter": "\n"}, r"delimiter '\\n' can't part cells"),
        ({"delimiter": " "}, "delimiter ' ' can't part cells"),
    ],
)
def test_mapping_files_that_are_refused(given_: dict[str, Any], fragment: str) -> None:
    with pytest.raises(BayeslawError, match=fragment):
        mapping(given_)


@pytest.mark.parametrize(
    ("text", "fragment", "rows"),
    [
        ("run,step,eval_loss\na,1,3.0\na,,2.9\n", "step is missing", [2]),
        ("run,step,eval_loss\na,1,3.0\na,NaN,2.9\n", "step is missing", [2]),
        ("run,step,eval_loss\na,1,3.0\na,inf,2.9\n", "step inf is not one", [2]),
        ("run,step,eval_loss,lr\na,1,3.0,inf\n", "lr inf is negative or not finite", [1]),
        ("run,step,eval_loss\na,1,3.0\n,2,2.9\n", "run is missing", [2]),
        ("run,step,eval_loss\na,1,3.0\na,2.5,2.9\n", "step 2.5 is not one", [2]),
        ("run,step,eval_loss\na,1,x\n", "'x' is not a number", [1]),
        ("run,step,eval_loss\na,1,20.1\na,2,19\n", "is it a perplexity", [1, 2]),
        ("run,step,eval_loss,lr\na,1,3,-1e-4\n", "lr -0.0001 is negative", [1]),
        ("run,step,eval_loss,replay\na,1,3,25\n", "is it a percentage", [1]),
        ("run,step,eval_loss,N\na,1,3,0\n", "N 0 is not positive", [1]),
        ("run,step,eval_loss\na,1,3.0,9\na,2\n", "the row has", [1, 2]),
        ('run,step,eval_loss\na,1,"2,931"\n', "may be 2.931 or 2931", [1]),
        ("run,step,eval_loss\na,1,410M\n", "write it out", [1]),
        ("run,step,eval_loss,tokens\na,1,3.0,1e6\na,2,2.9,1e6\n", "are these the tokens of a step", [2]),
    ],
)
def test_rows_that_are_refused(tmp_path: Path, text: str, fragment: str, rows: list[int]) -> None:
    with pytest.raises(TableError, match=fragment) as refused:
        import_runs(written(tmp_path, text))
    assert [f.row for f in refused.value.faults] == rows


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("", "has no header|is empty"),
        ("step,eval_loss\n", "a header and no rows"),
        ("a,b\n1,2\n", "no column is a validation loss by its name"),
        ("run,step,eval/loss,eval/web_loss\na,1,3,3\n", "losses of no named domain"),
        ("run,step,eval_loss,val_loss\na,1,3,3\n", "both hold losses"),
        ("run,step,eval_loss,lr,learning_rate\na,1,3,1,1\n", "'lr' and 'learning_rate' both mean lr"),
        ("run,step,lr\na,1,1e-4\n", "losses of training batches are not taken"),
        ("run,step,eval_loss\na,1,\n", "no row has a loss|entries"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, text: str, fragment: str) -> None:
    with pytest.raises(BayeslawError, match=fragment):
        import_runs(written(tmp_path, text))


def test_a_table_of_last_losses_without_runs_or_steps(tmp_path: Path) -> None:
    made = import_runs(written(tmp_path, "N,D,loss\n1e8,1e9,3.0\n1e8,2e9,2.9\n"))
    assert cells(made, "run", "D") == [["log:1", 1e9], ["log:2", 2e9]]
    assert noted(made, "every row is taken for a run")


def test_values_said_twice(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,eval_loss,N\na,1,3.0,1e8\na,2,2.9,\n")
    assert cells(import_runs(path, N=1e8), "N") == [[1e8], [1e8]]
    with pytest.raises(TableError, match=r"N is 1e[+]08 in the log and 2e[+]08 was said"):
        import_runs(path, N=2e8)
    with pytest.raises(BayeslawError, match="'seeds' is not understood"):
        import_runs(path, seeds=3)
    with pytest.raises(BayeslawError, match="tells of run 'b', and there is none"):
        import_runs(path, map={"runs": {"b": {"N": 1e8}}})
    with pytest.raises(BayeslawError, match=r"No log has a column 'evl_loss'. Did you mean 'eval_loss'"):
        import_runs(path, losses=["evl_loss"])


# --- names and cells --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "domain"),
    [
        ("eval/loss", ""), ("Val_Loss", ""), ("validation loss", ""), ("eval/pile_loss", "pile"), ("eval_Pile-CC_loss", "Pile-CC"),
        ("val_loss/code", "code"), ("web/eval_loss", "web"), ("train/loss", None), ("train_loss", None), ("loss", None),
        ("eval/runtime", None), ("eval/accuracy", None), ("eval/z_loss", None), ("pile_loss", None),
    ],
)  # fmt: skip
def test_columns_of_losses(column: str, domain: str | None) -> None:
    assert domain_of(column) == domain


@pytest.mark.parametrize(
    ("columns", "losses", "other"),
    [
        (["train/ce_loss", "train/z_loss"], {}, ["train/ce_loss", "train/z_loss"]),
        (["lm_loss", "router_z_loss", "load_balancing_loss"], {"lm_loss": "lm"}, ["router_z_loss", "load_balancing_loss"]),
        (["train_loss", "val_loss_step", "val_loss_epoch"], {}, ["val_loss_step", "val_loss_epoch"]),
        (["val_loss_web", "val_loss_web_std"], {"val_loss_web": "web"}, ["val_loss_web_std"]),
        (["eval/web_loss", "router_z_loss", "train/web_loss"], {"eval/web_loss": "web"}, []),
        (["eval/loss", "eval/web_se_loss", "eval/a-train_loss"], {"eval/loss": None}, ["eval/web_se_loss", "eval/a-train_loss"]),
        (["val_loss/first-steps", "val_loss/trains"], {"val_loss/first-steps": "first-steps", "val_loss/trains": "trains"}, []),
    ],
)  # fmt: skip
def test_columns_that_are_no_losses_of_a_domain(
    tmp_path: Path, columns: list[str], losses: dict[str, str | None], other: list[str]
) -> None:
    made = meanings(["step", *columns], "x")
    assert (dict(made.losses), list(made.other_losses)) == (losses, other)
    path = written(tmp_path, f"run,step,{','.join(columns)}\na,1,{','.join('3' for _ in columns)}\n")
    if other and losses:
        assert noted(import_runs(path), f"no validation losses, and not taken: {', '.join(other)} (--loss takes what you name)")
    for column in other:
        assert cells(import_runs(path, losses=[column]), "loss") == [[3.0]]


def test_columns_that_are_no_losses_are_no_runs_either(tmp_path: Path) -> None:
    with pytest.raises(BayeslawError, match=r"no column is a validation loss by its name .*'val_loss_epoch'"):
        import_runs(written(tmp_path, "step,val_loss_step,val_loss_epoch\n1,3,3\n"))


def test_columns_of_covariates() -> None:
    assert resolve("train/learning_rate", "logs") == ("lr", 1.0)
    assert resolve("config.params_b", "logs") == ("N", 1e9)
    assert [resolve(c, "logs") for c in ("epoch", "ETA", "batch", "checkpoint", "phase", "n", "p")] == [None] * 7
    assert [resolve(c, "logs") for c in ("N", "config.D", "r", "tokens_per_step")] == [
        ("N", 1.0), ("D", 1.0), ("r", 1.0), ("batch", 1.0),
    ]  # fmt: skip
    made = meanings(["_step", "train/global_step", "eval/loss"], "x")
    assert (made.step, made.by_logger) == ("train/global_step", False)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15))
def test_a_number_with_separators_is_the_number(value: float) -> None:
    cells_ = pd.Series([f"{value:,.3f}", "12,345.5", f"{value!r}"], dtype=object)
    made, faults, separated = numbers(cells_, "loss", Marks())
    assert not faults
    assert made.tolist() == [float(f"{value:.3f}"), 12345.5, value]
    assert separated >= 1


def test_cells_that_hold_nothing_or_no_finite_number() -> None:
    made, faults, _ = numbers(
        pd.Series([None, "", " NA ", "nan", "-Infinity", "1e999", float("nan")], dtype=object), "loss", Marks()
    )
    assert not faults
    np.testing.assert_array_equal(made, [np.nan] * 3 + [np.inf] * 4)


@pytest.mark.parametrize("ours", ["lr", "r", "D", "step"])
def test_nan_in_anything_but_a_loss_is_missing(ours: str) -> None:
    given_ = pd.Series(["nan", "NaN", float("nan"), np.float64("nan"), "inf", float("inf"), "1"], dtype=object)
    made, faults, _ = numbers(given_, ours, Marks())
    assert not faults
    np.testing.assert_array_equal(made, [np.nan] * 4 + [np.inf] * 2 + [1])


def test_losses_in_other_units(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,eval/loss,bytes_per_token\na,1,20.5,4.0\nb,1,30.25,3.5\n")
    made = import_runs(path, loss_unit="ppl")
    assert made.runs.unit == "perplexity"
    assert made.runs.frame["bytes_per_token"].tolist() == [4.0, 3.5]
    assert convert_table(made.runs.frame, "nats/token")["loss"].tolist() == pytest.approx(np.log([20.5, 30.25]))
    assert import_runs(path, map={"loss_unit": "perplexity"}).runs.unit == "perplexity"
    with pytest.raises(BayeslawError, match="There is no unit 'ppx'"):
        import_runs(path, loss_unit="ppx")
    with pytest.raises(TableError, match="is it a perplexity"):
        import_runs(path)


def test_a_unit_that_the_log_contradicts(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,eval/loss,unit\na,1,1.0,ppl\na,2,1.1,\nb,1,0.9,Perplexity\nb,2,1.0,bits/byte\n")
    with pytest.raises(TableError, match="the log says that the loss is in bits/byte, and perplexity was said") as refused:
        import_runs(path, loss_unit="ppl")
    assert [(f.row, f.column) for f in refused.value.faults] == [(4, "unit")]
    with pytest.raises(TableError, match="in ppl, and bits/byte was said") as refused:
        import_runs(path, map={"loss_unit": "bits/byte"})
    assert [f.row for f in refused.value.faults] == [1, 3]
    agreeing = written(tmp_path, "run,step,eval/loss,unit\na,1,1.5,ppl\na,2,1.2,\n")
    assert import_runs(agreeing, loss_unit="perplexity").runs.unit == "perplexity"


def test_a_separator_of_thousands_alone(tmp_path: Path) -> None:
    path = written(tmp_path, "run;step;eval_loss\na;1.000;3,125\n")
    for marks in ({"thousands": "."}, {"decimal": ","}):
        assert cells(import_runs(path, map=marks), "step", "loss") == [[1000, 3.125]]


def test_one_column_or_domain_without_a_list(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,xent,eval/web_loss,eval/code_loss\na,1,3.5,3.0,2.0\n")
    assert cells(import_runs(path, losses="xent"), "loss") == [[3.5]]
    assert cells(import_runs(path, domains="web"), "loss") == [[3.0]]
