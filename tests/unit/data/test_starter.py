"""Columns that a user names, guesses at those of an unknown table, and errors that lead with the cause."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import Fault, TableError
from bayeslaw.data.columns import did_you_mean, named
from bayeslaw.data.curves import read_curves
from bayeslaw.data.logs.api import import_runs
from bayeslaw.data.starter import advice, guesses
from bayeslaw.data.table import columns_of_each, read_runs
from bayeslaw.data.validate import check
from bayeslaw.laws.card import load_law
from tests.errors import fails, faults

ODD = pd.DataFrame(
    {
        "Name": ["a", "b", "c", "d"],
        "config.model.n_params_M": [14.2, 14.2, 124.4, 354.8],
        "summary.train_tokens_B": [0.3, 0.9, 0.3, 2.6],
        "val/perplexity": [144.25, 83.5, 62.25, 22.75],
        "train/loss": [4.9, 4.4, 4.1, 3.1],
        "Is Cosine": ["true", "False", None, "TRUE"],
    }
)
COLUMNS = {"N": "config.model.n_params_M:M", "D": "summary.train_tokens_B:B", "loss": "val/perplexity:perplexity", "run": "Name"}


# --- columns that a user names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "text", "expected"),
    [
        ("N", "size", ("size", 1.0, "")),
        ("N", "size:M", ("size", 1e6, "")),
        ("N", " size :m ", ("size", 1e6, "")),
        ("D", "size:1e9", ("size", 1e9, "")),
        ("D", "size:0.5B", ("size", 5e8, "")),
        ("r", "size:%", ("size", 0.01, "")),
        ("N", "a:M", ("a:M", 1.0, "")),
        ("loss", "ppl:ppl", ("ppl", 1.0, "perplexity")),
        ("loss", "ppl:bpb", ("ppl", 1.0, "bits/byte")),
    ],
)
def test_a_column_may_have_a_unit(ours: str, text: str, expected: tuple[str, float, str]) -> None:
    assert named(ours, text, ["size ", "a:M", "ppl"] if "size" not in text else ["size", "a:M"]) == expected


@pytest.mark.parametrize(
    ("ours", "text", "code", "value"),
    [
        ("N", "sizes:M", "missing-column", "'size'"),
        ("N", "size:Q", "unknown-unit", "'Q'"),
        ("N", "size:0", "unknown-unit", "'0'"),
        ("N", "size:bits/byte", "unknown-unit", "1e6"),
        ("loss", "size:M", "unknown-unit", "perplexity"),
        ("run", "size:M", "unknown-unit", "names"),
    ],
)
def test_a_column_that_is_not_there_or_a_unit_that_is_none_is_refused(ours: str, text: str, code: str, value: str) -> None:
    with fails(code, value):
        named(ours, text, ["size", "loss"])


def test_names_that_changed_places_are_turned_round() -> None:
    with fails("missing-column", "loss=val/perplexity", "{'loss': 'val/perplexity'}"):
        read_runs(ODD, columns={"val/perplexity": "loss"})
    with fails("missing-column", "Did you mean 'Name'?"):
        read_runs(ODD, columns={"run": "Names"})


def test_named_columns_are_renamed_scaled_and_reported() -> None:
    runs = read_runs(ODD, columns=COLUMNS)
    assert runs.frame["N"].tolist() == [14.2e6, 14.2e6, 124.4e6, 354.8e6]
    assert runs.frame["loss"].tolist() == pytest.approx(np.log(ODD["val/perplexity"]))
    assert runs.unit == "nats/token"
    assert runs.conversions == (
        "run = Name", "N = config.model.n_params_M x 1e+06", "D = summary.train_tokens_B x 1e+09",
        "loss = log(val/perplexity), in nats/token",
    )  # fmt: skip
    assert read_runs(ODD, columns={"loss": "train/loss:bits/byte"}).unit == "bits/byte"


def test_the_named_column_comes_before_those_known_by_their_names() -> None:
    table = pd.DataFrame({"N": [1, 2], "params": [3.0, 4.0], "size": [5.0, 6.0]})
    runs = read_runs(table.drop(columns="params"), columns={"params": "size:M"})
    assert runs.frame["N"].tolist() == [5e6, 6e6]
    assert runs.conversions == ("column N is left out, since another is N", "N = size x 1e+06")
    runs = read_runs(table.drop(columns="N"), columns={"N": "size"})
    assert runs.frame["params"].tolist() == [3.0, 4.0]
    with fails("two-columns-of-one-meaning", "--column N=params"):
        read_runs(table)
    with fails("two-columns-of-one-meaning", "--column N=N"):
        read_runs(table.rename(columns={"params": "n"}))


def test_contradicting_columns_are_refused() -> None:
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 0.5], "unit": ["nats/token"] * 2})
    with fails("two-meanings", "'a'"):
        read_runs(table, columns={"N": "a", "D": "a"})
    with fails("two-meanings", "N"):
        read_runs(table, columns={"N": "a", "params": "b"})
    with fails("two-units", "perplexity"):
        read_runs(table, columns={"loss": "a:ppl"})
    with faults(("perplexity-below-1", 2, "b")):
        read_runs(table.drop(columns="unit"), columns={"loss": "b:ppl"})


def test_a_table_of_several_may_lack_a_named_column(tmp_path: Path) -> None:
    ODD.to_csv(tmp_path / "odd.csv", index=False)
    at = pd.DataFrame({"N": [1e9], "summary.train_tokens_B": [20.0]})
    assert columns_of_each([tmp_path / "odd.csv", at], COLUMNS) == [COLUMNS, {"D": COLUMNS["D"]}]
    assert columns_of_each([tmp_path / "none.csv"], {}) == [{}]
    with fails("missing-column", "'sizes'"):
        columns_of_each([tmp_path / "odd.csv", at], {"N": "sizes:M"})


@pytest.mark.slow
def test_import_reads_named_columns_and_writes_perplexities_as_losses(tmp_path: Path) -> None:
    pd.concat([ODD, ODD.tail(1)]).to_csv(tmp_path / "odd.csv", index=False)
    named_ = {ours: text for ours, text in COLUMNS.items() if ours != "run"}
    runs = import_runs(tmp_path / "odd.csv", columns=named_).runs
    expected = read_runs(ODD, columns=COLUMNS).frame
    pd.testing.assert_frame_equal(runs.frame[["run", "N", "D", "loss"]], expected[["run", "N", "D", "loss"]], check_dtype=False)
    mapped = import_runs(tmp_path / "odd.csv", map={"columns": {"N": "train/loss"}}, columns=named_).runs
    assert mapped.frame["N"].max() == 354.8e6  # the option comes before the mapping
    with fails("missing-column", "'config.model.n_params'"):
        import_runs(tmp_path / "odd.csv", columns={"N": "config.model.n_params:M"})


def test_curves_have_named_columns_too() -> None:
    curves = pd.DataFrame({"id": ["a"] * 3, "t": [1, 2, 3], "rate_u": [1.0, 2.0, 3.0], "loss": [3.0, 2.9, 2.8]})
    read = read_curves(curves, columns={"run": "id", "step": "t", "lr": "rate_u:1e-6"}).runs().frame
    plain = curves.assign(rate_u=curves["rate_u"] * 1e-6).rename(columns={"id": "run", "t": "step", "rate_u": "lr"})
    pd.testing.assert_frame_equal(read, read_curves(plain).runs().frame)


# --- conditions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("config.model.n_params_M < 100", [1, 2]),
        ("config.model.n_params_M == 124.4", [3]),
        ("N == 124.4e6", [3]),
        ("val/perplexity < 83 and summary.train_tokens_B <= 0.3", [3]),
        ("loss < 4", [4]),
        ("train/loss > 4.2", [1, 2]),
        ("Name in ['a', 'd'] and Name != 'val/perplexity'", [1, 4]),
        ("run == 'c'", [3]),
        ("Is Cosine", [1, 4]),
        ("not Is Cosine", [2, 3]),
        ("Is Cosine == true", [1, 4]),
        ("Is Cosine == False", [2]),
    ],
)
def test_conditions_name_columns_as_the_file_does(condition: str, rows: list[int]) -> None:
    runs = read_runs(ODD, condition, columns=COLUMNS)
    assert runs.frame.index.tolist() == rows
    assert runs.sources[0].where == condition
    assert list(runs.frame) == ["run", "N", "D", "loss", "train/loss", "Is Cosine", "unit"]


def test_a_column_of_true_and_false_in_memory() -> None:
    table = pd.DataFrame({"loss": [3.0, 2.0], "done": [True, False]})
    assert [len(read_runs(table, text)) for text in ("done", "not done", "done == True", "done == true")] == [1, 1, 1, 1]


# --- guesses -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "ours", "guess"),
    [
        ({"Model Size (M)": [124, 410]}, "N", "Model Size (M):M"),
        ({"nParams": [124, 410]}, "N", "nParams:M"),
        ({"N_M": [70, 6900]}, "N", "N_M:M"),
        ({"N (billions)": [0.07, 6.9]}, "N", "N (billions):B"),
        ({"D_B": [1, 20], "": [1, 2]}, "D", "D_B:B"),
        ({"n_m": [70, 6900], "N_pct": [1, 2], "N_layers": [8, 9], "D_N_M": [1, 2]}, "N", None),
        ({"nParams": [0.4, 6.9]}, "N", "nParams:B"),
        ({"nParams": [1e8, 4e8]}, "N", "nParams"),
        ({"config.model_size": ["70M", "1.5B"]}, "N", "config.model_size"),
        ({"params_M": ["70M", "160m", None]}, "N", "params_M"),
        ({"model_size": ["small", "medium", "1.5B"]}, "N", None),
        ({"params_file": ["a.npz", "b.npz"]}, "N", None),
        ({"tokens_per_param": [20, 40]}, "N", None),
        ({"trained.tokens.billions": [2, 4]}, "D", "trained.tokens.billions:B"),
        ({"batch_tokens_seq": [2, 4], "tokens/seen": [2e9, 4e9]}, "D", "tokens/seen"),
        ({"train_nll": [3.0], "web_nll": [3.0], "heldout.nll": [3.0]}, "loss", "heldout.nll"),
        ({"train_nll": [3.0], "loss_se": [0.1]}, "loss", None),
        ({"eval.bpb": [0.9]}, "loss", "eval.bpb:bits/byte"),
        ({"eval/bits_per_byte": [0.9]}, "loss", "eval/bits_per_byte:bits/byte"),
        ({"BitsPerByte": [0.9]}, "loss", "BitsPerByte:bits/byte"),
        ({"val.bits per char": [0.9]}, "loss", "val.bits per char:bits/character"),
        ({"train/bits_per_byte": [0.9], "bits_per_bytecode": [1.0]}, "loss", None),
        ({"mix.replay": [10, 25]}, "r", "mix.replay:%"),
        ({"pretraining_tokens_per_param": [20, 40]}, "ptpp", "pretraining_tokens_per_param"),
        ({"Experiment": ["x", "y"]}, "run", "Experiment"),
        ({"run_step": [1, 2], "run": ["a", "b"]}, "N", None),
        ({"learning_rate_min": [1e-5], "learning_rate": [1e-3]}, "lr", "learning_rate"),
        ({"batch_size": [512], "batch_tokens": [2**20]}, "batch", "batch_tokens"),
        ({"batch_size": [512]}, "batch", None),
    ],
)
def test_columns_are_guessed_by_words_and_numbers(columns: dict[str, list[Any]], ours: str, guess: str | None) -> None:
    assert guesses(pd.DataFrame(columns), [ours]).get(ours) == guess


def test_the_starter_works_as_printed() -> None:
    (line,) = [line for line in advice(ODD, ["loss", "N", "D"]).splitlines() if "--column" in line]
    texts = [word for word in shlex.split(line) if word != "--column"]
    assert dict(text.split("=") for text in texts) == COLUMNS
    (python,) = [line for line in advice(ODD, ["loss", "N", "D"]).splitlines() if "in Python" in line]
    assert ast.literal_eval(python.partition("columns=")[2].removesuffix(")")) == COLUMNS
    assert "import_runs(…, columns=" in advice(ODD, ["loss"], "import_runs")
    assert check(read_runs(ODD, columns=COLUMNS), load_law("chinchilla")) == []


def test_of_several_losses_the_user_chooses() -> None:
    """The first of them is as likely a loss of code as of the validation set."""
    table = pd.DataFrame({"N": [1e8, 2e8], "seen_tokens": [1e9, 2e9], "c4_loss": 3.1, "code ppl": 2.4, "train_loss": 3.0})
    (first, rest, *_) = advice(table, ["loss", "D"]).splitlines()
    assert first.startswith("c4_loss, code ppl:perplexity may each be the loss by their names")
    assert first.endswith("--column loss=c4_loss (in Python read_runs(…, columns={'loss': 'c4_loss'})).")
    assert rest.startswith("By their names")
    assert "loss=" not in "".join(advice(table, ["loss", "D"]).splitlines()[1:])
    assert advice(table, ["loss"]) == first
    assert "may each be" not in advice(table.drop(columns="c4_loss"), ["loss"])
    assert "may each be" not in advice(table, ["D"])
    assert "may each be" not in advice(table.assign(val_nll=2.9), ["loss"])  # of a validation set, by its name


@pytest.mark.parametrize(
    ("column", "way"),
    [
        ("tpp", "add --column atpp=tpp (in Python read_runs(…, columns={'atpp': 'tpp'})): D is then tpp x N"),
        ("Tokens per Param", "add --column 'atpp=Tokens per Param'"),
        ("total_FLOPs", "in pandas df['D'] = df['total_FLOPs'] / (6 * df['N'])"),
        (
            "global_step",
            "`bayeslaw import --set tokens_per_step=524288`, with yours (in Python import_runs(…, tokens_per_step=524288))",
        ),
    ],
)
def test_columns_that_give_tokens_are_told_how(column: str, way: str) -> None:
    table = pd.DataFrame({"N": [1e8, 2e8], "loss": [3.1, 3.0], column: [20.0, 40.0]})
    assert way in advice(table, ["D"])
    assert way in advice(table.rename(columns={"N": "n_par", "loss": "val_nll"}), ["loss", "D"])
    assert way not in advice(table.assign(seen_tokens=1e9), ["D"])
    assert way not in advice(table, ["N"])
    assert way not in advice(table.assign(**{column: "many"}), ["D"])
    for other in ("flops_per_second", "pretrain_tpp", "tokens_per_second", "step_time"):
        assert "D" not in advice(table.drop(columns=column).assign(**{other: 1.0}), ["D"]).partition("})).")[2]


@pytest.mark.parametrize("column", ["C", "train_compute"])
def test_compute_gives_tokens_if_it_is_large_enough_for_flops(column: str) -> None:
    table = pd.DataFrame({"N": [1e8, 2e8], "loss": [3.1, 3.0], column: [1e18, 4e18]})
    assert f"If {column} has 6 N D of the whole run" in advice(table, ["D"])
    assert "6 N D" not in advice(table.assign(**{column: [1.0, 4.0]}), ["D"])  # a class, or PF-days
    assert "6 N D" not in advice(table.rename(columns={column: "compute_per_second"}), ["D"])


def test_tokens_per_parameter_of_a_run_give_its_tokens() -> None:
    table = pd.DataFrame({"N": [1e8, 2e8], "loss": [3.1, 3.0], "tpp": [20.0, 40.0]})
    assert read_runs(table, columns={"atpp": "tpp"}).frame["D"].tolist() == [2e9, 8e9]


def test_an_unknown_table_is_one_message_that_ends_with_a_starter() -> None:
    listed = check(read_runs(ODD), load_law("chinchilla"))
    assert [(f.code, f.column) for f in listed] == [("missing-column", c) for c in ("loss", "N", "D")]
    lines = str(TableError(listed, "odd.csv")).splitlines()
    assert lines[0].startswith("odd.csv: columns loss, N, D are missing: ")
    assert lines[1].startswith("  --column loss=val/perplexity:perplexity --column N=")
    assert lines[2].startswith("  in Python: read_runs(…, columns={'loss': 'val/perplexity:perplexity', 'N': ")
    assert len(lines) == 3


def test_missing_losses_may_stand_in_another_column() -> None:
    table = pd.DataFrame({"N": 1e8, "D": [1e9, 2e9, 3e9, 4e9], "val/loss": [3.3, np.nan, 3.0, np.nan]})
    (first, *_) = check(read_runs(table.assign(**{"val/ppl": [np.nan, 22.2, np.nan, 18.1]})), load_law("chinchilla"))
    assert (first.code, first.row) == ("missing-loss", 2)
    assert "val/ppl has perplexities in 2 of these 2 rows" in first.suggestion
    assert "df['val/loss'] = df['val/loss'].fillna(np.log(df['val/ppl']))" in first.suggestion
    another = {"val/loss_code": [2.2, 2.1, 2.0, 1.9]}  # differs where both have numbers: losses of another text
    for other in ({"train/loss": 3.1}, {"val/ppl": np.nan}, {}, another):
        (first, *_) = check(read_runs(table.assign(**other)), load_law("chinchilla"))
        assert first.suggestion.startswith("remove the row")


def test_a_column_of_the_pre_trainings_length_is_proposed() -> None:
    table = pd.DataFrame({"N": [1e8, 1e8], "D": [1e9, 2e9], "r": 0.1, "config.ptpp": [20, 60], "loss": [2.1, 2.0]})
    (fault,) = [fault for fault in check(read_runs(table), load_law("plateau-target")) if fault.code == "missing-column"]
    assert "--column ptpp=config.ptpp" in fault.suggestion


def test_runs_of_one_checkpoint_need_no_ptpp() -> None:
    table = pd.DataFrame({"N": 7e9, "D": [1e9, 2e9], "replay_pct": [5, 20], "loss": [2.1, 2.0]})
    for law, advised in (("plateau-target", "replay-target"), ("transfer-source", "replay-source")):
        (fault,) = [fault for fault in check(read_runs(table), load_law(law)) if fault.code == "missing-column"]
        assert f"fit {advised}, which needs no ptpp" in fault.suggestion
    one_mixture = table.assign(replay_pct=5)
    base = pd.DataFrame({"N": 7e9, "D": [0.0], "replay_pct": [np.nan], "loss": [2.3]})  # its empty share is not another one
    one_mixture = pd.concat([base, one_mixture], ignore_index=True)
    for domain, advised in (("target", "fine-tuning"), ("source", "forgetting")):
        replay = load_law(f"replay-{domain}")
        (fault,) = [f for f in check(read_runs(one_mixture), load_law(f"plateau-{domain}")) if f.code == "missing-column"]
        assert f"fit {advised}, which needs no ptpp" in fault.suggestion
        (fault,) = check(read_runs(one_mixture.drop(columns="replay_pct")), replay)
        assert f"fit {advised}, which needs no r" in fault.suggestion
        (fault,) = check(read_runs(one_mixture), replay)
        assert fault.suggestion == f"log runs at another value, or fit {advised}, a law of one checkpoint"
    tokens = table.rename(columns={"N": "size_m"}).assign(pretrain_tokens=1e10)
    suggestion = next(f.suggestion for f in check(read_runs(tokens), load_law("plateau-target")) if f.column == "ptpp")
    assert "ptpp is pretrain_tokens / N" in suggestion
    assert "Nothing looks like" not in suggestion
    (fault, *_) = check(read_runs(table.rename(columns={"replay_pct": "share"})), load_law("plateau-target"))
    assert "needs no ptpp" not in fault.suggestion


def test_a_prefix_of_settings_and_losses_are_no_sizes_or_tokens() -> None:
    table = pd.DataFrame({"params.learning_rate": [1e-3], "params.train_tokens": [2e9], "test-tokens/avg_loss": [3.2]})
    assert guesses(table, ["N", "D"]) == {"D": "params.train_tokens"}
    assert "Did you mean" not in advice(pd.DataFrame({"train_loss": [3.0]}), ["D"])
    assert "Did you mean" not in advice(pd.DataFrame({"train_loss": [3.0]}), ["loss"])
    assert "Did you mean 'lossy'?" in advice(pd.DataFrame({"lossy": [3.0]}), ["loss"])


def test_a_log_of_the_trainer_is_no_table() -> None:
    state = pd.DataFrame({"global_step": [10], "log_history": [[{"step": 5, "eval_loss": 3.0}]]})
    assert "import_runs" in advice(state, ["loss", "N", "D"])


def test_import_of_unknown_losses_ends_with_a_starter(tmp_path: Path) -> None:
    ODD.to_csv(tmp_path / "odd.csv", index=False)
    with fails("no-loss", "--column loss=val/perplexity:perplexity", "--column N=config.model.n_params_M:M"):
        import_runs(tmp_path / "odd.csv")
    notes = import_runs(tmp_path / "odd.csv", columns={"loss": "val/perplexity:ppl"}).notes
    assert [note.rpartition(" add ")[2] for note in notes if " add " in note] == [
        "--column N=config.model.n_params_M:M",
        "--column D=summary.train_tokens_B:B",
    ]


# --- errors ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("N", ["run"]),
        ("ptpp", ["step"]),
        ("loss", ["loss_se"]),
        ("lr", ["r"]),
        ("step", ["seed"]),
        ("D", ["id"]),
        ("r", ["lr"]),
    ],
)
def test_no_suggestion_points_to_a_column_of_another_meaning(name: str, columns: list[str]) -> None:
    assert did_you_mean(name, columns) == ""
    assert not guesses(pd.DataFrame({column: [1.0] for column in columns}), [name])
    assert "Did you mean" not in advice(pd.DataFrame({column: [1.0] for column in columns}), [name])


def test_an_error_has_five_lines_at_most_and_groups_faults_of_one_cause() -> None:
    table = pd.DataFrame({"N": [124.0, 410.0] * 200, "D": [2e9, 4e9] * 200, "loss": 3.0, "run": range(400)})
    text = str(TableError(check(read_runs(table), load_law("chinchilla")), "runs.csv"))
    assert text.splitlines()[0].startswith("runs.csv: N 124 is outside")
    assert text.splitlines()[0].endswith("and 399 like it: rows 2–400")
    many = [Fault(row, f"column{column}", "x", "a problem", code="bad") for column in range(9) for row in (1, 2, 3)]
    assert len(str(TableError(many)).splitlines()) == 5
    assert str(TableError(many)).splitlines()[1].endswith("and 2 like it: rows 2–3")


def test_names_that_logs_know_are_proposed_and_charts_are_to_be_imported() -> None:
    table = pd.DataFrame({"config.N": ["1.3B", "125M"], "config.params_m": [1300.0, 125.0], "big": 1.0})
    assert guesses(table[["config.N", "big"]], ["N"]) == {"N": "config.N"}
    assert guesses(table[["big", "config.params_m"]], ["N"]) == {"N": "config.params_m:M"}
    chart = pd.DataFrame({"Step": [1, 2], "big - eval/loss": [3.0, 2.9], "small - eval/loss": [3.5, 3.4]})
    assert "chart of Weights & Biases" in advice(chart, ["loss", "N", "D"])
    assert "bayeslaw import" in advice(chart, ["loss", "N", "D"])


def test_a_unit_that_numbers_alone_suggest_must_leave_enough_tokens() -> None:
    """Sizes of 9 to 330 thousand parameters look like millions, unless the table's tokens say otherwise."""
    small = pd.DataFrame({"model_params": [9216.0, 36864.0, 331776.0], "adapt_tokens": [2e4, 4e5, 6e6]})
    assert guesses(small, ["N", "D"]) == {"N": "model_params", "D": "adapt_tokens"}
    usual = pd.DataFrame({"n_params": [70.0, 160.0, 410.0], "tokens": [1e9, 3e9, 5e9]})
    assert guesses(usual, ["N", "D"]) == {"N": "n_params:M", "D": "tokens"}
    assert guesses(small.rename(columns={"model_params": "params_M"}), ["N", "D"])["N"] == "params_M:M"


def test_a_column_of_standard_errors_is_proposed_with_others() -> None:
    """No law needs it, but without it the errors of losses count as noise of runs."""
    table = pd.DataFrame(
        {"params_M": [1.0], "seen_tokens_B": [2.0], "val/loss": [3.0], "val/loss_stderr": [0.01], "val/ppl_std": [1.0]}
    )
    assert "--column loss_se=val/loss_stderr" in advice(table, ["D"])
    assert "loss_se" not in advice(table.assign(loss_se=0.01), ["D"])
    perplexities = table.drop(columns="val/loss").assign(ppl=20.0)
    assert "loss_se" not in advice(perplexities, ["loss", "D"])  # an error of a loss is none of a perplexity
