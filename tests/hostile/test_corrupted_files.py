"""Tables, cards and fit files corrupted by hypothesis: they are refused with a message, or read as a second reader reads them."""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import operator
import re
import shutil
import tomllib
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.data.validate import check
from bayeslaw.laws.card import card_folder, load_law, parse_card
from bayeslaw.laws.law import Law
from bayeslaw.posterior.fit import Fit
from tests.fixed import loaded_fit

CARD = (card_folder() / "chinchilla.toml").read_text(encoding="utf-8")


def refused_or[T](make: Callable[[], T], start: str) -> T | None:
    """The result, or None where it is refused with a message of a readable length that begins like this."""
    refusal = ""
    try:
        return make()
    except BayeslawError as error:
        refusal = str(error)
    assert refusal.startswith(start)
    assert 10 < len(refusal) < 5_000
    return None


def flipped(content: bytes, share: float, bit: int) -> bytes:
    i = int(share * len(content))
    return content[:i] + bytes([content[i] ^ (1 << bit)]) + content[i + 1 :] if content else content


# --- corrupted tables ----------------------------------------------------------------------------------

Rows = list[list[str]]
HEADER = ["N", "D", "loss", "run"]
UNITS = {"params_b": ("N", 1e9), "tokens_m": ("D", 1e6), "val_loss": ("loss", 1.0)}
SUPPORT = {"N": (1e4, 1e13), "D": (1e2, 1e15), "loss": (0.0, 15.0)}
CELLS = st.one_of(
    st.sampled_from(
        ["", "nan", "NA", "inf", "-inf", "-1", "0", "-0.0", "1e400", "1e-400", "1,000", "3,5", "50%", "1_000", "0x10", "True",
         "1e8", "3.5", " 3.5 ", "３", '"', '""', "'", "a\nb", "a\rb", "\0", "\ufeff", "=2+2", "x" * 5000, "1" * 400, "a", "b"]
    ),
    st.floats().map(repr),
    st.integers().map(str),
    st.text(max_size=8),
)  # fmt: skip


@st.composite
def corrupted_rows(draw: st.DrawFn) -> Rows:
    """A sound table of six rows of three runs with up to four corruptions."""
    rows = [HEADER.copy()]
    rows += [[f"{n:g}", f"{d:g}", f"{3 - k / 10}", f"run {k // 2}"] for k, (n, d) in enumerate([(1e8, 1e9), (1e8, 2e9)] * 3)]

    def place(least: int = 0) -> tuple[int, int]:
        row = draw(st.integers(least, len(rows) - 1))
        return row, draw(st.integers(0, max(len(rows[row]) - 1, 0)))

    for what in draw(
        st.lists(
            st.sampled_from(["cell", "cell", "cell", "name", "unit", "swap", "double", "drop", "repeat", "short", "column"]),
            max_size=4,
        )
    ):
        i, j = place(1 if what in ("cell", "repeat", "short") else 0)
        if what == "cell" and rows[i]:
            rows[i][j] = draw(CELLS)
        elif what == "name":
            rows[0] = [draw(CELLS) if k == j else name for k, name in enumerate(rows[0])]
        elif what == "unit":
            other = draw(st.sampled_from(sorted(UNITS)))
            rows[0] = [other if name == UNITS[other][0] else name for name in rows[0]]
        elif what == "swap":
            rows[0][0], rows[0][j % len(rows[0])] = rows[0][j % len(rows[0])], rows[0][0]
        elif what == "double":
            rows = [[*row, row[j] if j < len(row) else ""] for row in rows]
        elif what == "drop" and len(rows) > 1:
            del rows[i]
        elif what == "repeat":
            rows.append(rows[i].copy())
        elif what == "short":
            rows[i] = rows[i][:j]
        elif what == "column":
            cell = draw(CELLS)
            rows[1:] = [[cell if k == j else old for k, old in enumerate(row)] for row in rows[1:]]
        if not rows[0]:
            rows[0] = [""]
    return rows


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A corrupted table as bytes: quoting, line ends, encoding, and sometimes its end missing."""
    text = io.StringIO()
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL if draw(st.booleans()) else csv.QUOTE_MINIMAL).writerows(
        draw(corrupted_rows())
    )
    whole = text.getvalue() if draw(st.integers(0, 4)) else text.getvalue().replace('"', "")
    encoding = draw(st.sampled_from(["utf-8"] * 6 + ["utf-8-sig", "utf-16", "latin-1"]))
    content = whole.encode(encoding, errors="replace")
    return content if draw(st.integers(0, 4)) else content[: draw(st.integers(0, len(content)))]


def plainly(content: bytes) -> tuple[dict[str, list[float]], list[str]]:
    """Columns N, D and loss and the runs' names, read with nothing but csv and float."""
    header, *rows = [r for r in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), skipinitialspace=True) if r]
    names = [name.strip() for name in header]
    ours = [UNITS.get(name.lower(), (next((k for k in SUPPORT if k.lower() == name.lower()), name), 1.0)) for name in names]
    columns = {k: [float(row[i]) * factor for row in rows] for i, (k, factor) in enumerate(ours) if k in SUPPORT}
    where = next((i for i, name in enumerate(names) if name.lower() in ("run", "run_id", "run_name")), None)
    return columns, [row[where].strip() if where is not None and where < len(row) else "" for row in rows]


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(files())
def test_any_table_is_refused_or_read_as_plain_csv_reads_it(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "corrupted.csv"
    path.write_bytes(content)
    runs = accepted(path)
    if runs is None:
        return
    columns, names = plainly(content)
    assert len(runs) == len(names)
    for name, (low, high) in SUPPORT.items():
        values = runs.frame[name].to_numpy(dtype=np.float64)
        np.testing.assert_allclose(values, columns[name], rtol=1e-15)
        assert ((values >= low) & (values <= high) | (name == "D") & (values == 0)).all()
    if "run" in runs.frame:
        sizes: dict[str, set[float]] = {}
        for ours, theirs, size in zip(runs.frame["run"], names, columns["N"], strict=True):
            assert (ours or "") == ("" if theirs.lower() in ("nan", "na", "null", "none") else theirs)
            if ours:
                sizes.setdefault(ours, set()).add(size)
        assert all(len(values) == 1 for values in sizes.values())


def accepted(path: Path) -> Runs | None:
    """The table, if it is sound for chinchilla."""
    runs = refused_or(lambda: read_runs(path), "")
    if runs is None:
        return None
    faults = check(runs, load_law("chinchilla"))
    assert all(f.problem and f.column for f in faults)
    return None if faults else runs


# --- corrupted cards -----------------------------------------------------------------------------------

ALLOWED = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant, ast.operator, ast.unaryop, ast.expr_context, ast.Expression)
ARITHMETIC: dict[type[ast.operator], Callable[[float, float], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip
HOSTILE = [
    "__import__('os').system('touch hacked')", "E.__class__", "E[0]", "(lambda: E)()", "[E for E in N]", "9**9**9", "-" * 70 + "E",
    "exp(" * 70 + "E" + ")" * 70, "sin(E)", "E if N else D", "E := 1", "f'{E}'", "1e999", "Ｅ + 1", "Е", "log(0)", "E/0", "0", "E",
    "select(E, N, D)", "minimum(E)", "exp(E, N)", "x" * 3000, "E +", "E\n+ N", "", " ", "#", "E # x", "maximum(E, N)/D", "N",
    "sqrt(E) + log1p(E) - expm1(-E) + tanh(E)*sigmoid(E)", "E**-alpha", "(E)", "E + A + B + alpha + beta + N + D", "eval('E')",
]  # fmt: skip
VALUES = [
    "nan", "inf", "-inf", "-1", "0", "1e400", "true", '""', '"x"', "[]", "{}", "[1]", "[1, 2]", "[2, 1]", "1979-05-27",
    "0x1" + "0" * 4000,
    '{ dist = "Normal", mu = 0, sigma = 1 }', '{ dist = "Normal" }', '{ dist = "Norm", mu = 0, sigma = 1 }', "1",
    "0.5", '"A/N**alpha"', '{ dist = "LogNormal", mu = 0, sigma = 1, on = "E" }', '{ unit = "x", support = [0, 1] }',
    '"\\u001b"', '"\\u0000"', "'''\n'''",
]  # fmt: skip
LINES = CARD.splitlines()


@st.composite
def corrupted_cards(draw: st.DrawFn) -> str:
    lines = LINES.copy()
    for what in draw(st.lists(st.sampled_from(["formula", "value", "delete", "repeat", "let", "letters"]), min_size=1, max_size=3)):
        i = draw(st.integers(0, len(lines) - 1)) if lines else 0
        if what == "formula":
            lines = [f"loss = {json.dumps(draw(st.sampled_from(HOSTILE)))}" if line.startswith("loss") else line for line in lines]
        elif what == "value":
            with_values = [k for k, line in enumerate(lines) if "=" in line and not line.startswith("#")]
            if with_values:
                k = draw(st.sampled_from(with_values))
                pattern = draw(st.sampled_from([r"=.*$", r"(?<=[a-z] = )[^,}\]]+"]))
                value = draw(st.sampled_from(VALUES))
                lines[k] = re.sub(pattern, ("= " if pattern[0] == "=" else "") + value.replace("\\", r"\\"), lines[k], count=1)
        elif what == "delete" and lines:
            del lines[i]
        elif what == "repeat" and lines:
            lines.insert(i, lines[draw(st.integers(0, len(lines) - 1))])
        elif what == "let":
            formulas = [json.dumps(draw(st.sampled_from(["x", "y", *HOSTILE]))) for _ in range(2)]
            lines = ['loss = "E + A/N**alpha + B/D**beta + x + y"' if line.startswith("loss") else line for line in lines]
            lines += ["[let]", f"x = {formulas[0]}", f"y = {formulas[1]}"]
        elif what == "letters" and lines:
            k = draw(st.integers(0, len(lines[i])))
            lines[i] = lines[i][:k] + draw(st.text(max_size=3)) + lines[i][k + draw(st.integers(0, 2)) :]
    return "\n".join(lines)


@settings(max_examples=200)
@given(corrupted_cards())
def test_any_card_is_refused_or_means_what_its_formula_says(text: str) -> None:
    law = refused_or(lambda: parse_card(text), "card")
    if law is None:
        return
    rng = np.random.default_rng(0)
    values = {k: float(rng.uniform(0.2, 0.9)) for k in law.parameters} | {k: float(rng.uniform(2, 9)) for k in law.covariates}
    expected = by_python(tomllib.loads(text), values)
    found = law.predict({k: [values[k]] for k in law.parameters}, {k: [values[k]] for k in law.covariates})
    assert law.latex().startswith("L = ")
    if expected is not None:
        np.testing.assert_allclose(found, [[expected]], rtol=1e-12)
    assert_priors_can_be_drawn(law)


def assert_priors_can_be_drawn(law: Law) -> None:
    for parameter in law.parameters.values():
        draws = parameter.prior.sample(20, np.random.default_rng(1))
        assert np.isfinite(draws).all()
        low, high = {"real": (-math.inf, math.inf), "positive": (0, math.inf), "unit": (0, 1)}[parameter.prior.support]
        assert ((draws > low) & (draws < high)).all()


def by_python(given: dict[str, Any], values: dict[str, float]) -> float | None:
    """The loss of a card by Python's own arithmetic, [let] put in by name; None where that has no real value."""
    functions: dict[str, Callable[..., float]] = {
        "exp": math.exp, "expm1": math.expm1, "log": math.log, "log1p": math.log1p, "sqrt": math.sqrt, "tanh": math.tanh,
        "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "minimum": min, "maximum": max, "select": lambda c, a, b: a if c > 0.5 else b,
    }  # fmt: skip

    def value(node: ast.AST) -> float:
        assert isinstance(node, ALLOWED), ast.dump(node)
        match node:
            case ast.Constant(value=int() | float() as number):
                return float(number)
            case ast.Name(id=name):
                return values[name] if name in values else value(tree(given["let"][name]))
            case ast.UnaryOp(op=op, operand=operand):
                return -value(operand) if isinstance(op, ast.USub) else value(operand)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = value(left), value(right)
                return float(ARITHMETIC[type(op)](a, b))
            case ast.Call(func=ast.Name(id=name), args=args):
                return float(functions[name](*map(value, args)))
        raise AssertionError(ast.dump(node))

    def tree(text: str) -> ast.AST:
        return ast.parse(" ".join(text.split()), mode="eval").body

    try:
        result = value(tree(given["loss"]))
    except (ArithmeticError, ValueError, TypeError):  # no real value: a complex one can't be compared or added up
        return None
    return result if isinstance(result, float) and math.isfinite(result) else None


# --- corrupted fit files -------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def written(small_fit: Fit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written") / "fit.nc"
    small_fit.save(path)
    return path


def contents(fit: Fit) -> dict[str, Any]:
    """Everything in a fit that results depend on."""
    arrays = {f"{g}/{v}": np.asarray(fit.tree[g][v].values) for g in fit.tree.children for v in map(str, fit.tree[g].variables)}
    info = {k: v for k, v in fit.info.items() if k != "checks"}
    return {
        "arrays": {k: v.tolist() for k, v in arrays.items()},
        "info": json.dumps(info, sort_keys=True, default=str),
        "checks": [str(check) for check in fit.checks],
        "law": fit.law.sha256,
        "noise": fit.noise,
    }


def same_or_refused(path: Path, small_fit: Fit) -> bool:
    """Whether reading is refused; otherwise the fit read must be the fit written."""
    loaded = refused_or(lambda: loaded_fit(path), "corrupted.nc ")
    if loaded is None:
        return True
    assert contents(loaded) == contents(small_fit)
    return False


Edit = Callable[[bytes], bytes]
PLACE = st.floats(0, 1, exclude_max=True)
EDITS: st.SearchStrategy[Edit] = st.one_of(
    st.builds(lambda p: lambda b: b[: int(p * len(b))], PLACE),
    st.builds(lambda p, bit: lambda b: flipped(b, p, bit), PLACE, st.integers(0, 7)),
    st.builds(
        lambda p, new: lambda b: b[: int(p * len(b))] + new + b[int(p * len(b)) :], PLACE, st.binary(min_size=1, max_size=64)
    ),
    st.builds(lambda p, n: lambda b: b[: int(p * len(b))] + b[int(p * len(b)) + n :], PLACE, st.integers(1, 4096)),
    st.builds(lambda p, n: lambda b: b[: int(p * len(b))] + bytes(n) + b[int(p * len(b)) + n :], PLACE, st.integers(1, 4096)),
)


# h5netcdf closing a file that it couldn't open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EDITS, min_size=1, max_size=3))
def test_any_damage_to_a_fit_is_noticed_or_harmless(small_fit: Fit, written: Path, edits: list[Edit]) -> None:
    path = written.with_name("corrupted.nc")
    path.write_bytes(reduce(lambda content, edit: edit(content), edits, written.read_bytes()))
    same_or_refused(path, small_fit)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_edit_of_a_fit_is_noticed(small_fit: Fit, written: Path, data: st.DataObject) -> None:
    """An attribute or a number put in place of another one, as a program that reads NetCDF could do."""
    path = written.with_name("corrupted.nc")
    shutil.copy(written, path)
    with h5py.File(path, "r+") as file:
        if data.draw(st.booleans()):
            name = data.draw(st.sampled_from(sorted(map(str, small_fit.tree.attrs))))
            texts = st.one_of(st.sampled_from(["{}", "[]", "null", "true", "0", '"x"', "", "NaN"]), st.text("abc ä", max_size=9))
            new = data.draw(texts)
            assume(new != file.attrs[name])
            file.attrs[name] = new
        else:
            places = [f"{g}/{v}" for g in file for v, item in file[g].items() if item.dtype in (np.float64, np.int64)]
            place = data.draw(st.sampled_from(sorted(places)))
            values = file[place][...]
            i = data.draw(st.integers(0, values.size - 1))
            some = st.sampled_from([math.nan, math.inf, 0.0, -1.0]) if values.dtype.kind == "f" else st.integers(1000, 2000)
            number = data.draw(some)
            assume(number != values.flat[i])
            values.flat[i] = number
            file[place][...] = values
    assert same_or_refused(path, small_fit)
