"""Learning-rate schedules written as texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import TableError
from bayeslaw.data import parse_schedule
from bayeslaw.data.schedule_text import assumptions
from bayeslaw.schedules.schedule import Schedule, constant, cosine, inverse_sqrt, joined, linear, multistep, wsd
from tests.errors import fails


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("constant:steps=10,peak=1e-3", constant(10, 1e-3)),
        ("constant: steps=1e1, peak=1e-3, warmup=2, start=5e-4", constant(10, 1e-3, warmup=2, start=5e-4)),
        ("linear:steps=10,peak=1e-3,final=.2", linear(10, 1e-3, final=0.2)),
        ("cosine:steps=10,peak=1e-3,final=0", cosine(10, 1e-3, final=0)),
        ("wsd:steps=24,peak=3e-4,decay=0.25,final=0.1,warmup=2", wsd(24, 3e-4, decay=0.25, final=0.1, warmup=2)),
        ("wsd:steps=24,peak=3e-4,shape=sqrt", wsd(24, 3e-4, shape="sqrt")),
        ("multistep:steps=10,peak=1e-3,at=0.5/0.8,factor=.1", multistep(10, 1e-3, at=(0.5, 0.8), factor=0.1)),
        ("inverse_sqrt:steps=10,peak=1e-3,warmup=3", inverse_sqrt(10, 1e-3, warmup=3)),
        ("constant:steps=1e+1,peak=1e-3 + linear:steps=5,peak=1e-3", joined(constant(10, 1e-3), linear(5, 1e-3))),
    ],
)
def test_texts_are_read_as_schedules(text: str, expected: Schedule) -> None:
    schedule = parse_schedule(text)
    np.testing.assert_array_equal(schedule.rates, expected.rates)
    assert schedule.name == expected.name


@pytest.mark.parametrize(
    ("code", "text", "value"),
    [
        ("unknown-schedule", "wsb:steps=10,peak=1e-3", "'wsd'"),
        ("unknown-schedule", "constant:steps=10,peak=1e-3+foo:steps=3", "'foo'"),
        ("schedule-without-arguments", "wsd", "'wsd'"),
        ("unknown-argument", "wsd:steps=10,peek=1e-3", "'peak'"),
        ("missing-argument", "wsd:steps=10", "peak"),
        ("missing-argument", "inverse_sqrt:steps=10,peak=1e-3", "warmup"),
        ("argument-twice", "wsd:steps=10,steps=12,peak=1e-3", "12"),
        ("not-key-value", "wsd:steps=10,peak", "'peak'"),
        ("not-a-number", "wsd:steps=ten,peak=1e-3", "ten"),
        ("not-a-number", "wsd:steps=10,peak=nan", "nan"),
        ("not-a-number", "multistep:steps=10,peak=1e-3,at=0.5/x", "x"),
        ("not-a-number", "wsd:steps=10,peak=1e-3,decay=20%", "write 0.2 for 20%"),
        ("not-a-whole-number", "wsd:steps=-3,peak=1e-3", "from 0 to"),
        ("not-a-whole-number", "wsd:steps=10.5,peak=1e-3", "10.5"),
        ("not-a-whole-number", "wsd:steps=1e12,peak=1e-3", "100,000,000"),
        ("out-of-range", "wsd:steps=10,peak=3", "3"),
        ("no-such-file", "logged:nowhere.csv", "nowhere.csv"),
    ],
)
def test_texts_that_cannot_be_read_are_refused(code: str, text: str, value: str) -> None:
    with fails(code, value):
        parse_schedule(text)


def test_a_text_names_a_file_of_logged_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"run": ["a", "a", "a", "b"], "global_step": [0, 2, 4, 1], "learning_rate": [np.nan, 0.2, 0.1, 0.3]})
    table.to_csv("two.csv", index=False)
    np.testing.assert_allclose(parse_schedule("logged:two.csv,run=a,warmup=2").rates, [0.1, 0.2, 0.15, 0.1])
    np.testing.assert_allclose(parse_schedule("logged:two.csv,run=b + constant:steps=2,peak=0.1").rates, [0.3, 0.1, 0.1])
    (note,) = assumptions("logged:two.csv,run=a + logged:two.csv,run=b")  # that of a begins at step 2
    assert note.startswith("logged:two.csv,run=a: rates before step 2 are assumed")
    assert not assumptions("logged:two.csv,run=a,warmup=2 + constant:steps=2,peak=0.1")
    with fails("several-runs", "logged:two.csv,run=a"):
        parse_schedule("logged:two.csv")
    with fails("unknown-run", "'c'"):
        parse_schedule("logged:two.csv,run=c")
    table.assign(global_step=[0, 2, 2, 1], learning_rate=pd.Series([3, "x", np.nan, 0.3], dtype=object)).to_csv(
        "bad.csv", index=False
    )
    with pytest.raises(TableError) as caught:
        parse_schedule("logged:bad.csv,run=a")
    assert {(f.row, f.column) for f in caught.value.faults} == {(1, "lr"), (2, "lr"), (3, "lr"), (3, "step")}
