"""Row filters: the conditions that are understood and those that are refused."""

from __future__ import annotations

import contextlib
import warnings

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.query import where

TABLE = pd.DataFrame(
    {"N": [1e6, 2e6, 3e6, 4e6], "ptpp": [15, 31, 31, 279], "domain": ["source", "target", None, "target"], "x": [-1.5, 0, None, 2]},
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
}
HELP = "write column names, numbers, 'texts', == != < <= > >= in, and or not, for example: ptpp <= 31 and domain == 'target'."
INCOMPARABLE = f"compares things that can't be compared; {HELP}"
BAD = {
    "len(N) == 4": f"'len(N)' is not allowed in 'len(N) == 4'; {HELP}",
    "__import__('os').system('true') == 0": "is not allowed in",
    "f(N)": f"'f(N)' in 'f(N)' is not a comparison; {HELP}",
    "N.size == 4": f"'N.size' is not allowed in 'N.size == 4'; {HELP}",
    "N[0] == 1": f"'N[0]' is not allowed in 'N[0] == 1'; {HELP}",
    "N + 1 == 2": f"'N + 1' is not allowed in 'N + 1 == 2'; {HELP}",
    "-N == 1": f"'-N' is not allowed in '-N == 1'; {HELP}",
    "N == None": f"'None' is not allowed in 'N == None'; {HELP}",
    "N == 1j": f"'1j' is not allowed in 'N == 1j'; {HELP}",
    "domain == b'a'": f"\"b'a'\" is not allowed in \"domain == b'a'\"; {HELP}",
    "domain == f'{N}'": "is not allowed in",
    "N": f"'N' in 'N' is not a comparison; {HELP}",
    "N == 1 if N else 2": f"is not a comparison; {HELP}",
    "(lambda: N)() == 1": "is not allowed in",
    "domain is 'source'": f"\"domain is 'source'\" {INCOMPARABLE}",
    "domain < 3": f"'domain < 3' {INCOMPARABLE}",
    "N == [1e6]": f"'N == [1e6]' {INCOMPARABLE}",
    "[1] in N": f"'[1] in N' {INCOMPARABLE}",
    "N in ptpp": f"'N in ptpp' {INCOMPARABLE}",
    "'target' in domain": f"\"'target' in domain\" {INCOMPARABLE}",
    "N in [ptpp, 3]": f"'N in [ptpp, 3]' {INCOMPARABLE}",
    "N in [[1e6]]": f"'N in [[1e6]]' {INCOMPARABLE}",
    f"N > 1{'0' * 400}": INCOMPARABLE,
    "": f"'' is not a condition; {HELP}",
    "N ==": f"'N ==' is not a condition; {HELP}",
    "N = 1": f"'N = 1' is not a condition; {HELP}",
    "N == 1;": f"'N == 1;' is not a condition; {HELP}",
    "\0": f"'\\x00' is not a condition; {HELP}",
    "not " * 50_000 + "N == 1": f"is not a condition; {HELP}",
    "n == 1": "No column 'n' for 'n == 1'; there are N, ptpp, domain, x. Did you mean 'N'?",
    "domian == 'target'": "No column 'domian' for \"domian == 'target'\"; there are N, ptpp, domain, x. Did you mean 'domain'?",
    "ptpp == 30": "No row meets 'ptpp == 30'; the table has 4 rows. ptpp is one of 15, 31, 279.",
    "domain == 'Target'": "No row meets \"domain == 'Target'\"; the table has 4 rows. domain is one of source, target.",
    "N == 'a'": "No row meets \"N == 'a'\"; the table has 4 rows. N is one of 1000000.0, 2000000.0,",
    "1 == 2": "No row meets '1 == 2'; the table has 4 rows.",
}


@pytest.mark.parametrize("text", GOOD)
def test_conditions(text: str) -> None:
    assert where(TABLE, text).index.tolist() == GOOD[text]


@pytest.mark.parametrize("text", BAD, ids=lambda t: ascii(t)[1:30])
def test_refuses(text: str) -> None:
    with pytest.raises(BayeslawError) as caught:
        where(TABLE, text)
    assert BAD[text] in str(caught.value)


def test_many_values_are_not_all_shown() -> None:
    table = pd.DataFrame({"step": range(20)})
    with pytest.raises(BayeslawError) as caught:
        where(table, "step > 30")
    assert str(caught.value) == "No row meets 'step > 30'; the table has 20 rows. step is one of 0, 1, 2, 3, 4, 5, …."


def test_the_table_stays_as_it_was() -> None:
    before = TABLE.copy()
    kept = where(TABLE, "N > 1e6")
    kept["N"] = 0.0
    pd.testing.assert_frame_equal(TABLE, before)


_PIECES = st.sampled_from(
    ["N", "ptpp", "domain", "x", "y", "==", "!=", "<", ">=", "in", "not", "and", "or", "is", "(", ")", "[", "]", ",", "'a'", "31",
     "1e6", "-", "+", "None", "True", "f", ".", ":", "lambda", "if", "else", "*", "\\", "\ud800"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=30), st.lists(_PIECES, max_size=12).map(" ".join)))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    with contextlib.suppress(BayeslawError), warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of Python's parser, such as "is" with a literal
        assert 0 < len(where(TABLE, text)) <= len(TABLE)
