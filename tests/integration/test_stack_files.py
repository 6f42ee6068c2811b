"""The file of a stack: read back to the same forecasts, and refused where it is damaged or changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import pandas as pd
import pytest

from bayeslaw.core.errors import FitError
from bayeslaw.forecasting.forecast import forecast
from bayeslaw.forecasting.stack import Stack, load_fit
from bayeslaw.posterior.fit import Fit
from tests.errors import fails
from tests.fixed import edit

AT = pd.DataFrame({"N": [1e8, 1e9, 1e10], "D": [1e9, 1e10, 1e11], "r": [0.1, 0.3, 0.5], "ptpp": [15.0, 31.0, 279.0]})


@pytest.fixture(scope="module")
def written(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    stack.save(path := tmp_path_factory.mktemp("stack") / "stack.nc")
    return path


@pytest.fixture
def path(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(written, tmp_path))


def test_a_stack_is_read_as_it_was_written(stack: Stack, path: Path) -> None:
    read = load_fit(path)
    assert isinstance(read, Stack)
    assert read.weights == stack.weights
    expected = forecast(stack, AT, seed=3)
    assert [member.errors is not None for member in expected.beyond] == [True, True]
    assert forecast(read, AT, seed=3).draws.identical(expected.draws)
    assert "extrapolated" in expected.draws
    read.save(path)
    assert forecast(load_fit(path), AT, seed=3).draws.identical(forecast(stack, AT, seed=3).draws)
    assert sorted(p.name for p in path.parent.iterdir()) == ["stack.nc"]


def test_a_fit_is_loaded_as_a_fit(sound_fit: Fit, tmp_path: Path) -> None:
    sound_fit.save(tmp_path / "fit.nc")
    read = load_fit(tmp_path / "fit.nc")
    assert isinstance(read, Fit)
    pd.testing.assert_frame_equal(read.summary(), sound_fit.summary())
    at = AT[["N", "D"]]
    pd.testing.assert_frame_equal(forecast(read, at).summary(), forecast(sound_fit, at).summary())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"bayeslaw_stack": 2}, "other-format"),
        ({"weights": json.dumps({"second": 0.8, "first": 0.3})}, "damaged-file"),
        ({"weights": json.dumps({"second": 0.7, "first": 0.2, "third": 0.1})}, "damaged-file"),
        ({"weights": "half"}, "damaged-file"),
        ({"weights": "[0.7, 0.3]"}, "damaged-file"),
    ],
)
def test_changed_weights_are_refused(path: Path, change: dict[str, object], code: str) -> None:
    edit(path, **change)
    with fails(code, "stack.nc", kind=FitError):
        load_fit(path)


def test_a_changed_fit_in_a_stack_is_refused(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["fit1/posterior/E"][0, 0] *= 1.01
    with fails("changed-draws", "stack.nc", kind=FitError):
        load_fit(path)


def test_a_truncated_stack_and_a_missing_file(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20_000])
    with fails("unreadable-file", "stack.nc", kind=FitError):
        load_fit(path)
    with fails("missing-file", "none.nc", kind=FitError):
        load_fit(path.with_name("none.nc"))
