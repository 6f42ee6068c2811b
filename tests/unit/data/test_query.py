"""Conditions on rows: which rows are kept, and which texts are refused."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.columns import did_you_mean
from bayeslaw.data.query import where
from bayeslaw.data.table import read_runs
from bayeslaw.data.validate import check
from tests.errors import fails

TABLE = pd.DataFrame(
    {"N": [1e6, 2e6, 3e6, 4e6], "ptpp": [15, 31, 31, 279], "domain": ["source", "target", None, "target"], "x": [-1.5, 0, None, 2],
     "final": ["True", "false", "TRUE", None], "flag": [True, False, False, False]},
    index=[1, 2, 3, 4],
)  # fmt: skip
GOOD = {
    "ptpp <= 31": [1, 2, 3],
    "31 >= ptpp": [1, 2, 3],
    "ptpp == 31 and domain == 'target'": [2],
    'domain == "target" or N < 2e6': [1, 2, 4],
    "not ptpp == 31": [1, 4],
    "not (ptpp == 31 or domain == 'source')": [4],
    "ptpp != 31": [1, 4],
    "15 < ptpp < 279": [2, 3],
    "1e6 <= N <= 2e6 and ptpp > 15": [2],
    "ptpp in [15, 279]": [1, 4],
    "ptpp in (15, 279) and N in (4e6, 5e6)": [4],
    "ptpp in 15": [1],
    "ptpp not in [15, 279]": [2, 3],
    "domain in ['source', 'other']": [1],
    "domain not in ['source', 'other']": [2, 3, 4],
    "domain != 'target'": [1, 3],
    "x == -1.5": [1],
    "x < -1": [1],
    "x <= 0 or x >= 2": [1, 2, 4],
    "ptpp < N": [1, 2, 3, 4],
    "3 in [3, 4]": [1, 2, 3, 4],
    "'a' == 'a'": [1, 2, 3, 4],
    "  N == 1e6  ": [1],
    "N / ptpp >= 9e4": [3],
    "N - 1e6 * 2 == 0 or N + ptpp == 1000015": [1, 2],
    "-N < -3e6": [4],
    "-x == 1.5": [1],
    "1 / x > 0": [2, 4],
    "params == 1e6": [1],
    "params_m == 2": [2],
    "params_b * 1000 >= 3": [3, 4],
    "val_domain == 'source'": [1],
    "final": [1, 3],
    "not final and ptpp < 100": [2],
    "final == True": [1, 3],
    "final != False and N > 1e6": [3, 4],
    "flag == False": [2, 3, 4],
    "0 == flag": [2, 3, 4],
}
BAD = {
    "len(N) == 4": "not-allowed",
    "__import__('os').system('true') == 0": "not-allowed",
    "N.size == 4": "not-allowed",
    "N[0] == 1": "not-allowed",
    "N + 1 == 2": "no-row-meets",
    "-N == 1": "no-row-meets",
    "N ** 2 == 1": "not-allowed",
    "N % 2 == 1": "not-allowed",
    "domain + 'x' == 'sourcex'": "not-comparable",
    "N * True == 1e6": "not-comparable",
    "N != '1e6'": "not-comparable",
    "N not in ('1e6', 2e6)": "not-comparable",
    "domain != N": "not-comparable",
    "flag != 'True'": "not-comparable",
    "N + [1] == 1": "not-comparable",
    "1 / 0 == N": "not-comparable",
    f"N * 1{'0' * 400} > 1": "not-comparable",
    f"1 / 1{'0' * 400} > N": "no-row-meets",
    "+".join(["N"] * 50_000) + " > 1": "not-a-condition",
    "domain": "not-a-comparison",
    "true": "not-a-comparison",
    "not false and N > 0": "not-a-comparison",
    "N == None": "not-allowed",
    "N == 1j": "not-allowed",
    "domain == b'a'": "not-allowed",
    "domain == f'{N}'": "not-allowed",
    "(lambda: N)() == 1": "not-allowed",
    "f(N)": "not-a-comparison",
    "N": "not-a-comparison",
    "N == 1 if N else 2": "not-a-comparison",
    "domain is 'source'": "not-comparable",
    "domain < 3": "not-comparable",
    "N == [1e6]": "not-comparable",
    "[1] in N": "not-comparable",
    "N in ptpp": "not-comparable",
    "'target' in domain": "not-comparable",
    "N in [ptpp, 3]": "not-comparable",
    "N in [[1e6]]": "not-comparable",
    f"N > 1{'0' * 400}": "not-comparable",
    "": "empty-condition",
    "N ==": "not-a-condition",
    "N = 1": "not-a-condition",
    "N > 1.2.3B": "not-a-condition",
    "N == 1;": "not-a-condition",
    "\0": "not-a-condition",
    "not " * 50_000 + "N == 1": "not-a-condition",
    "n == 1": "unknown-column",
    "domian == 'target'": "unknown-column",
    "ptpp == 30": "no-row-meets",
    "domain == 'Target'": "no-row-meets",
    "N == 'a'": "not-comparable",
    "1 == 2": "no-row-meets",
}


@pytest.mark.parametrize("text", GOOD)
def test_a_condition_keeps_the_rows_that_meet_it(text: str) -> None:
    assert where(TABLE, text).index.tolist() == GOOD[text]


def test_columns_are_named_in_any_normal_form() -> None:
    composed, decomposed, micro, mu = "gr\u00f6\u00dfe", "gro\u0308\u00dfe", "\u00b5P", "\u03bcP"
    table = pd.DataFrame({decomposed: [1, 2, 3], micro: [3, 2, 1], "domain": ["a", "b", "c"]})
    for text in (f"{composed} > 2", f"{decomposed} > 2", f"{micro} < 2 and domain == 'c'", f"{mu} < 2"):
        assert where(table, text).index.tolist() == [2]
    both = table.assign(**{mu: [1, 2, 3]})
    assert [where(both, f"{name} == 1").index.tolist() for name in (micro, mu)] == [[2], [0]]


@pytest.mark.parametrize("text", BAD, ids=lambda t: ascii(t)[1:30])
def test_a_bad_condition_is_refused(text: str) -> None:
    with fails(BAD[text], repr(text) if text else "empty"):
        where(TABLE, text)


def test_messages_of_conditions() -> None:
    with pytest.raises(BayeslawError) as caught:
        where(TABLE, "domian == 'target'")
    known = "there are N, ptpp, domain, x, final, flag. Did you mean 'domain'?"
    assert str(caught.value) == f"No column 'domian' for \"domian == 'target'\"; {known}"
    with fails("unknown-column", "'target' is a text in the column domain: write it in quotes, as in domain == 'target'."):
        where(TABLE, "domain == target")
    with fails("not-a-condition", "'N > 1.2B' is not a condition; write 1.2e+09 for 1.2B."):
        where(TABLE, "N > 1.2B")
    with pytest.raises(BayeslawError) as caught:
        where(pd.DataFrame({"step": range(20)}), "step > 30")
    assert str(caught.value) == "No row meets 'step > 30'; the table has 20 rows. step is one of 0, 1, 2, 3, 4, 5, …."


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("(N > 5e6) & (D > 1e9)", "write 'and' for &, for example: N >= 1e8 and D < 1e10."),
        ("N > 5e6 & D > 1e9", "write 'and' for &, for example"),
        ("~(N > 5e6) | D > 1e9", "write 'or' for |, 'not' for ~, for example"),
        ("N = 5e6", "write == for =."),
        ("run == run-01", "write 'run-01' in quotes."),
        ("run == gpt-14M", "write 'gpt-14M' in quotes."),
        ("run == gpt-small", "Write 'gpt-small' in quotes."),
        ("run == 'a&b' and lr.notnull()", "write column names, numbers, 'texts'"),
    ],
)
def test_what_pandas_and_shells_write_gets_the_word_of_conditions(text: str, way: str) -> None:
    table = pd.DataFrame({"N": 1e7, "D": [1e9, 2e9, 3e9], "lr": 1e-3, "run": ["run-01", "gpt-14M", "gpt-small"]})
    with pytest.raises(BayeslawError) as caught:
        where(table, text)
    assert way in str(caught.value)


def test_a_mask_is_no_condition_and_is_not_written_out() -> None:
    runs = read_runs(pd.DataFrame({"N": [1e7, 2e7], "loss": [3.0, 2.9]}))
    with fails("not-a-text", "not a Series: bayeslaw.read_runs(runs.frame[mask]) reads the rows of a mask."):
        runs.where(runs.frame["N"] > 1e7)  # type: ignore[arg-type]
    assert len(read_runs(runs.frame[runs.frame["N"] > 1e7])) == 1


def test_a_condition_leaves_the_table_unchanged() -> None:
    before = TABLE.copy()
    kept = where(TABLE, "N > 1e6")
    kept["N"] = 0.0
    pd.testing.assert_frame_equal(TABLE, before)


_PIECES = st.sampled_from(
    ["N", "ptpp", "domain", "x", "y", "==", "!=", "<", ">=", "in", "not", "and", "or", "is", "(", ")", "[", "]", ",", "'a'", "31",
     "1e6", "-", "+", "None", "True", "f", ".", ":", "lambda", "if", "else", "*", "\\", "\ud800"]
)  # fmt: skip


@settings(max_examples=40)
@given(st.one_of(st.text(max_size=30), st.lists(_PIECES, max_size=12).map(" ".join)))
def test_any_text_is_a_condition_or_is_refused(text: str) -> None:
    with contextlib.suppress(BayeslawError), warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of Python's parser, such as "is" with a literal
        assert 0 < len(where(TABLE, text)) <= len(TABLE)


@pytest.mark.parametrize(
    ("name", "columns", "suggested"),
    [
        ("N", ["run", "loss", "D"], None),
        ("ptpp", ["run", "step", "loss"], None),
        ("ptpp", ["step", "pttp"], "pttp"),
        ("N", ["run", "number_params"], "number_params"),
        ("val_loss", ["eval_share", "loss"], "loss"),
        ("train_loss", ["loss", "training_losses"], "training_losses"),
        ("domian", ["run", "domain"], "domain"),
        ("batch", ["lr", "global_batch_size"], "global_batch_size"),
        ("batch", ["obs", "bs"], "bs"),
    ],
)
def test_a_suggestion_is_no_column_of_another_meaning(name: str, columns: list[str], suggested: str | None) -> None:
    assert did_you_mean(name, columns) == (f" Did you mean {suggested!r}?" if suggested else "")


def test_runs_named_by_numbers_are_compared_with_numbers() -> None:
    """Names are texts, also of runs that pandas counts in floats beside an empty cell."""
    runs = read_runs(pd.DataFrame({"run": [1.0, np.nan, 2.0, 3.0], "N": 1e7, "D": 1e8, "loss": [3.0, 2.9, 2.8, 2.7]}))
    assert runs.frame["run"].tolist() == ["1", None, "2", "3"]
    assert read_runs(runs.frame.assign(run=np.array([1, 2, 2.5, 3], dtype=np.float32))).frame["run"].tolist() == [
        "1",
        "2",
        "2.5",
        "3",
    ]
    chosen = {
        "run != 3": [1, 2, 3],
        "run == 3": [4],
        "run in [2, 3]": [3, 4],
        "not run == '3'": [1, 2, 3],
        "run not in [3]": [1, 2, 3],
    }
    for text, rows in chosen.items():
        assert runs.where(text).frame.index.tolist() == rows
    tagged = runs.frame.assign(tags=pd.Series([["a"], ["b"], ["a"], ["a"]], index=runs.frame.index))
    with fails("no-row-meets", "tags is one of"):
        where(tagged, "tags == 'a'")


def test_letters_of_one_or_two_characters_are_the_same() -> None:
    """A condition in the letters of a terminal found no row of a table whose names a file system has taken apart."""
    runs = read_runs(pd.DataFrame({"N": 1e8, "loss": 3.0, "domain": ["u\u0308ber", "\u00fcber", "ber"]}))
    for text, rows in {
        "domain == '\u00fcber'": [1, 2],
        "domain != 'u\u0308ber'": [3],
        "domain in ['\u00fcber', 'ber']": [1, 2, 3],
    }.items():
        assert runs.where(text).frame.index.tolist() == rows, text


def test_columns_that_stay_as_given_are_compared_with_texts_and_with_numbers() -> None:
    table = pd.DataFrame(
        {
            "N": 1e8, "loss": 3.0, "version": ["1.1", "1.2", "1.10"], "id": [9007199254740993, 9007199254740992, 7],
            "code": ["007", "7", "8"], "flag": [True, False, True], "layers": [3_000_000_000, 2, 2],
            "width": [4_000_000_000, 2, 2], "label": ["a1", "2", "3"],
        }
    )  # fmt: skip
    runs = read_runs(table)
    for text, rows in {
        "version == '1.10'": [3], "version == 1.1": [1, 3], "version > 1.1": [2], "version in ['1.1', '1.2']": [1, 2],
        "version in [1.1, 1.2]": [1, 2, 3], "id == 9007199254740993": [1], "id > 7": [1, 2], "code == '007'": [1],
        "code <= 7": [1, 2], "flag": [1, 3], "not flag": [2], "flag == True": [1, 3], "flag == 1": [1, 3],
        "flag + 0 > 0.5": [1, 3], "flag in [0, 2]": [2], "layers * width > 1e19": [1], "version * 2 > 2.3": [2],
        "label == 2": [2], "label == 'a1'": [1],
    }.items():  # fmt: skip
        assert runs.where(text).frame.index.tolist() == rows, text
    with fails("not-comparable", "label"):
        runs.where("label > 2")
    with fails("not-comparable", "without quotes"):
        runs.where("id == '7'")


def test_a_number_is_never_a_column() -> None:
    wide = TABLE.copy()
    wide["1e9"], wide["3e6"] = [0.0, 9e9, 0.0, 9e9], 0.0
    assert list(where(wide, "N < 1e9").index) == [1, 2, 3, 4]
    assert list(where(wide, "N >= 3e6").index) == [3, 4]


def test_a_condition_on_record_is_one_line_and_chooses_the_same_rows() -> None:
    table = pd.DataFrame({"N": [1e8, 2e8], "loss": [3.0, 2.9], "run": ["a  b", "a b"]})
    runs = read_runs(table)
    chosen = runs.where(" (run == 'a  b'\n  and N > 0) ")
    assert chosen.sources[0].where == "(run == 'a  b' and N > 0)"
    assert runs.where(chosen.sources[0].where).frame.equals(chosen.frame)


CURVES = pd.DataFrame(
    {"run": ["a", "a", "a", "b", "b", None, None, None], "D": [1e9, 3e9, 2e9, 1e9, 2e9, 1e9, 2e9, 3e9],
     "loss": [3.0, 2.8, 2.9, 3.1, None, 3.2, 3.3, None]}
)  # fmt: skip


def test_last_is_the_last_row_of_each_run_that_has_a_loss() -> None:
    """Rows come in any order, and a row without a run is a run of its own."""
    runs = read_runs(CURVES)
    assert [*runs.where("last").frame.index] == [2, 4, 6, 7]
    assert [*runs.where("not last").frame.index] == [1, 3, 5, 8]
    assert [*runs.where("last and loss < 3").frame.index] == [2]
    by_step = read_runs(CURVES.rename(columns={"D": "step"}))
    assert [*by_step.where("last").frame.index] == [2, 4, 6, 7]


def test_a_run_without_tokens_is_not_left_out_as_none_of_its_rows_is_last() -> None:
    runs = read_runs(pd.DataFrame({"run": ["a", "a", "b"], "D": [1e9, 2e9, None], "N": 1e8, "loss": [3.0, 2.9, 2.8]}))
    chosen = runs.where("last")
    assert [*chosen.frame.index] == [2, 3]
    assert [(fault.row, fault.code) for fault in check(chosen, "chinchilla") if fault.row] == [(3, "missing-value")]


def test_last_is_that_of_the_table_as_it_was_read() -> None:
    """So that conditions one after the other choose the same rows as the one condition on record."""
    runs = read_runs(CURVES)
    chained = runs.where("D < 3e9").where("last")
    (source,) = chained.sources
    assert [*chained.frame.index] == [*runs.where(source.where).frame.index] == [4, 6, 7]


def test_each_domain_of_a_run_has_a_last_row() -> None:
    domains = pd.DataFrame({"run": "a", "domain": ["x", "x", "y", "y"], "D": [1e9, 2e9, 1e9, 1.5e9], "loss": [3.0, 2.9, 4.0, 3.9]})
    assert [*read_runs(domains).where("last").frame.index] == [2, 4]


def test_a_column_called_last_is_that_column() -> None:
    named = CURVES.assign(last=[True] + 7 * [False])
    assert [*read_runs(named).where("last").frame.index] == [1]


@pytest.mark.parametrize("missing", ["run", "D"])
def test_last_is_refused_where_it_can_not_be_told(missing: str) -> None:
    with fails("unknown-column", "the last row of each run, and the table has no column run, or neither D nor step"):
        read_runs(CURVES.drop(columns=missing)).where("last")
