"""The file of a fit: read back bit by bit, and refused where it is damaged, foreign or changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayeslaw
from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.forecasting.stack import Stack
from bayeslaw.inference.refit import rows_of
from bayeslaw.laws.card import load_law
from bayeslaw.laws.prior import Prior
from bayeslaw.posterior.fit import Fit
from bayeslaw.posterior.structure import read_groups
from tests import oracles
from tests.errors import fails
from tests.fixed import edit, line, loaded_fit, stand_in_fit


@pytest.fixture
def path(files: Path, tmp_path: Path) -> Path:
    """The file of the small fit."""
    return Path(shutil.copy(files / "failed.nc", tmp_path / "fit.nc"))


def refused(path: Path, code: str, *named: object) -> None:
    with fails(code, *named, kind=FitError):
        loaded_fit(path)


def assert_same(one: Fit, other: Fit) -> None:
    assert one.law == other.law
    assert one.law.sha256 == other.law.sha256
    assert one.noise == other.noise
    assert {k: one.info[k] for k in one.info if k != "checks"} == {k: other.info[k] for k in other.info if k != "checks"}
    for group in ("posterior", "sample_stats", "observed_data", "constant_data"):
        xr.testing.assert_identical(one.tree[group].to_dataset(), other.tree[group].to_dataset())
    for name, values in one.draws.items():
        assert values.tobytes() == other.draws[name].tobytes()
    assert one.observed.response.tobytes() == other.observed.response.tobytes()
    assert one.observed.run_names == other.observed.run_names
    np.testing.assert_array_equal(one.observed.starts, other.observed.starts)
    assert one.observed.at == other.observed.at
    assert [str(c) for c in one.checks] == [str(c) for c in other.checks]
    pd.testing.assert_frame_equal(one.summary(), other.summary())


def test_a_fit_is_read_as_it_was_written(small_fit: Fit, path: Path) -> None:
    loaded = loaded_fit(path)
    assert_same(small_fit, loaded)
    loaded.save(path)
    assert_same(small_fit, loaded_fit(path))
    assert sorted(p.name for p in path.parent.iterdir()) == ["fit.nc"]


def test_settings_given_as_numpys_numbers_are_read_again(path: Path) -> None:
    small: dict[str, Any] = {"draws": np.int64(20), "tune": np.int64(50), "chains": np.int32(1), "progress": False}
    fit = bayeslaw.fit(line(), pd.DataFrame({"x": [0.0, 1.0, 2.0], "loss": [2.0, 2.1, 2.2]}), seed=np.int64(3), **small)  # type: ignore[arg-type]
    fit.save(path)
    assert loaded_fit(path).info["settings"]["draws"] == 20


def test_groups_of_runs_survive_whatever_the_order_of_their_checkpoints(tmp_path: Path) -> None:
    """Runs are stored checkpoint by checkpoint, and groups are numbered as the table names them: X, Y, Z."""
    runs = {"run": list("abcd"), "checkpoint": ["k", "l", "k", "l"], "lab": ["X", "Y", "Z", "X"]}
    table = pd.DataFrame({name: np.repeat(values, 3) for name, values in runs.items()} | {"x": np.tile([-1.0, 0.0, 1.0], 4)})
    fitted = stand_in_fit(line(), table.assign(loss=np.exp(1 + 0.1 * table["x"])), noise="normal", noise_by="lab", draws=20)
    assert fitted.observed.group.tolist() == [0, 2, 1, 0]
    fitted.save(tmp_path / "fit.nc")
    loaded = loaded_fit(tmp_path / "fit.nc")
    assert loaded.observed.group.tolist() == [0, 2, 1, 0]
    np.testing.assert_array_equal(loaded.log_likelihood(), fitted.log_likelihood())
    assert rows_of(loaded).frame.groupby("run")["lab"].first().to_dict() == dict(zip(runs["run"], runs["lab"], strict=True))


def test_arviz_reads_the_file(path: Path) -> None:
    import arviz as az

    tree = az.from_netcdf(path)
    assert set(tree.children) == {"posterior", "sample_stats", "observed_data", "constant_data", "extrapolation"}
    assert az.summary(tree, var_names=["E"]).shape[0] == 1


def test_priors_and_base_rows_survive(tmp_path: Path) -> None:
    """Another prior of a law, and others given to a fit, one on a term's value and one of the noise; and base checkpoints."""
    law = load_law("chinchilla").with_priors({"E": Prior.parse("Normal(1.5, 0.25)")})
    table = oracles.table(law, runs=4)
    base = table.head(2).assign(D=0.0, when=pd.Timestamp("2026-01-01"), config=pd.Series([{"lr": 1}, None], dtype=object))
    priors: dict[str, Prior | str] = {
        "alpha": "Beta(2, 4)",
        "B": Prior.from_card({"dist": "HalfNormal", "sigma": 1, "on": "B/D**beta"}),
        "dof": "Gamma(4, 0.5)",
    }
    fitted = stand_in_fit(law, pd.concat([table, base]), priors=priors, noise="student", draws=20, chains=1)
    fitted.save(tmp_path / "fit.nc")
    loaded = loaded_fit(tmp_path / "fit.nc")
    assert str(loaded.law.parameters["E"].prior) == "Normal(1.5, 0.25)"
    assert str(loaded.law.parameters["alpha"].prior) == "Beta(2, 4)"
    assert str(loaded.law.parameters["B"].prior) == "HalfNormal(1) on B/D**beta"
    assert loaded.law.sha256 == fitted.law.sha256
    assert loaded.noise.priors == {"dof": Prior.parse("Gamma(4, 0.5)")}
    assert loaded.observed.base["loss"].tolist() == base["loss"].tolist()
    assert loaded.tree["posterior"]["run_effect"].shape == (1, 20, 4)
    np.testing.assert_array_equal(loaded.log_likelihood(), fitted.log_likelihood())


def test_log_likelihood_is_that_of_whole_runs(small_fit: Fit) -> None:
    from scipy import stats

    values = small_fit.log_likelihood()
    assert values.dims == ("chain", "draw", "run")
    assert values.shape == (2, 200, 8)
    observed, draws = small_fit.observed, {k: v[1, 7] for k, v in small_fit.by_chain.items()}
    mine = observed.run == 3
    mean = np.log(oracles.chinchilla(draws, {k: v[mine] for k, v in observed.covariates.items()}))
    covariance = draws["sigma_point"] ** 2 * np.eye(mine.sum()) + draws["sigma_run"] ** 2
    expected = stats.multivariate_normal(mean, covariance).logpdf(observed.response[mine])
    assert float(values[1, 7, 3]) == pytest.approx(expected, rel=1e-9)
    assert values["run"].values[3] == observed.run_names[3]


# --- damage ---------------------------------------------------------------------------------------------------------


def test_a_missing_file(tmp_path: Path) -> None:
    refused(tmp_path / "none.nc", "missing-file", tmp_path / "none.nc")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.999])
def test_a_truncated_file(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    refused(path, "unreadable-file", "fit.nc")


def test_random_bytes_and_text_are_no_fit(path: Path, rng: np.random.Generator) -> None:
    for content in (rng.bytes(5000), b"N,D,loss\n1,2,3\n"):
        path.write_bytes(content)
        refused(path, "unreadable-file", "fit.nc")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # h5netcdf closing a file it couldn't open
def test_flipped_bytes_are_noticed_or_harmless(small_fit: Fit, path: Path, rng: np.random.Generator) -> None:
    """With 64 bytes overwritten anywhere, reading ends in a FitError or gives the same draws, law and data."""
    content = path.read_bytes()
    refusals = 0
    for start in rng.integers(0, len(content) - 64, 25):
        path.write_bytes(content[:start] + rng.bytes(64) + content[start + 64 :])
        try:
            loaded = loaded_fit(path)
        except FitError:
            refusals += 1
        else:
            assert loaded.law.sha256 == small_fit.law.sha256
            assert all(np.array_equal(v, loaded.draws[k]) for k, v in small_fit.draws.items())
            assert loaded.observed.response.tobytes() == small_fit.observed.response.tobytes()
    assert refusals >= 8


def test_a_foreign_netcdf_file(tmp_path: Path) -> None:
    path = tmp_path / "other.nc"
    xr.Dataset({"x": ("t", [1.0, 2.0])}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(FitError) as caught:
        loaded_fit(path)
    assert str(caught.value) == (
        "other.nc is not a bayeslaw fit of format 3 (found none); write one with `bayeslaw fit … -o FIT.nc`."
    )
    xr.Dataset({"x": ("t", [1.0, 2.0])}, attrs={"title": "weather"}).to_netcdf(path, engine="h5netcdf")
    refused(path, "unreadable-file", "other.nc")


@pytest.mark.parametrize(
    ("attributes", "code", "named"),
    [
        ({"bayeslaw_format": "2"}, "other-format", "found 2"),
        ({"noise": "{"}, "unreadable-file", "JSONDecodeError"),
        ({"priors": "3"}, "damaged-file", "AttributeError"),
        ({"seed": "99"}, "changed-settings", "settings"),
    ],
)
def test_a_changed_attribute(path: Path, attributes: dict[str, str], code: str, named: str) -> None:
    edit(path, **attributes)
    refused(path, code, "fit.nc", named)


def test_a_changed_card(small_fit: Fit, path: Path) -> None:
    edit(path, card=small_fit.law.card.replace("N**alpha", "N**(2*alpha)"))
    refused(path, "changed-law", small_fit.law.sha256[:12])
    edit(path, card=small_fit.law.card.replace("A/N**alpha +", "A/N**alfa +"))
    with pytest.raises(FitError, match="alfa"):
        loaded_fit(path)


def test_changed_priors(small_fit: Fit, path: Path) -> None:
    edit(path, priors=json.dumps(dict(small_fit.info["priors"]) | {"E": {"dist": "Normal", "mu": 1.7, "sigma": 1e-3}}))
    refused(path, "changed-law")


@pytest.mark.parametrize(
    ("place", "code"),
    [("observed_data/log_loss", "changed-data"), ("constant_data/N", "changed-data"), ("posterior/E", "changed-draws")],
)
def test_changed_numbers(path: Path, place: str, code: str) -> None:
    with h5py.File(path, "r+") as file:
        values = file[place][...]
        values.flat[0] *= 1.01
        file[place][...] = values
    refused(path, code)


def test_a_missing_variable(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file["posterior/E"]
    refused(path, "changed-draws")


# --- writing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_killed_write_leaves_the_old_file_intact(
    small_fit: Fit, path: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    write = Path.write_bytes

    def half(target: Path, content: bytes) -> None:
        write(target, content[: len(content) // 2])
        raise error

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(BayeslawError if isinstance(error, OSError) else type(error)):
        small_fit.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["fit.nc"]


def test_a_missing_folder_and_a_folder_in_the_way(small_fit: Fit, tmp_path: Path) -> None:
    with fails("no-folder", "fit.nc", tmp_path / "none"):
        small_fit.save(tmp_path / "none" / "fit.nc")
    (tmp_path / "fit.nc").mkdir()
    with fails("is-a-folder", "fit.nc"):
        small_fit.save(tmp_path / "fit.nc")
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]


def test_files_are_read_as_xarray_reads_them(files: Path, tmp_path: Path) -> None:
    """Fits, and a stack, whose groups are nested: the same values, order, types and attributes."""
    fits = {name: loaded_fit(files / "fit.nc") for name in ("a", "b")}
    Stack(fits, dict.fromkeys(fits, 0.5)).save(tmp_path / "stack.nc")
    for path in (files / "fit.nc", files / "failed.nc", tmp_path / "stack.nc"):
        with xr.open_datatree(path, engine="h5netcdf") as stored:
            expected, read = stored.load(), read_groups(path)
        assert read.identical(expected)
        assert list(read.groups) == list(expected.groups)
        for name in read.groups:
            own, theirs = read[name].to_dataset(), expected[name].to_dataset()
            assert [(n, v.dtype) for n, v in own.variables.items()] == [(n, v.dtype) for n, v in theirs.variables.items()]
            assert [(n, type(v)) for n, v in own.attrs.items()] == [(n, type(v)) for n, v in theirs.attrs.items()]
