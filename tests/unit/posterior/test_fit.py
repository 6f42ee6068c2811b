"""A fit on disk: read back to the last bit, and refused in words where it is damaged, foreign or tampered with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.inference.fit import fit
from bayeslaw.inference.refit import rows_of
from bayeslaw.laws.card import load_law
from bayeslaw.laws.prior import Prior
from bayeslaw.posterior.fit import Fit
from tests import oracles
from tests.fixed import line, loaded_fit


@pytest.fixture
def path(small_fit: Fit, tmp_path: Path) -> Path:
    """The small fit, written."""
    small_fit.save(tmp_path / "fit.nc")
    return tmp_path / "fit.nc"


def refusal(path: Path) -> str:
    with pytest.raises(FitError) as caught:
        loaded_fit(path)
    return str(caught.value)


def assert_same(one: Fit, other: Fit) -> None:
    assert one.law == other.law
    assert one.law.sha256 == other.law.sha256
    assert one.noise == other.noise
    assert {k: one.info[k] for k in one.info if k != "checks"} == {k: other.info[k] for k in other.info if k != "checks"}
    for group in ("posterior", "sample_stats", "observed_data", "constant_data"):
        xr.testing.assert_identical(one.tree[group].to_dataset(), other.tree[group].to_dataset())
    for name, values in one.draws.items():
        assert values.tobytes() == other.draws[name].tobytes()
    assert one.observed.log_loss.tobytes() == other.observed.log_loss.tobytes()
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


def test_groups_of_runs_survive_whatever_the_order_of_their_checkpoints(tmp_path: Path) -> None:
    """Runs are stored checkpoint by checkpoint, and groups are numbered as the table names them: X, Y, Z."""
    runs = {"run": list("abcd"), "checkpoint": ["k", "l", "k", "l"], "lab": ["X", "Y", "Z", "X"]}
    table = pd.DataFrame({name: np.repeat(values, 3) for name, values in runs.items()} | {"x": np.tile([-1.0, 0.0, 1.0], 4)})
    options: dict[str, Any] = {"noise": "normal", "noise_by": "lab", "draws": 20, "tune": 60, "chains": 2, "progress": False}
    made = fit(line(), table.assign(loss=np.exp(1 + 0.1 * table["x"])), **options)
    assert made.observed.group.tolist() == [0, 2, 1, 0]
    made.save(tmp_path / "fit.nc")
    loaded = loaded_fit(tmp_path / "fit.nc")
    assert loaded.observed.group.tolist() == [0, 2, 1, 0]
    np.testing.assert_array_equal(loaded.log_likelihood(), made.log_likelihood())
    assert rows_of(loaded).frame.groupby("run")["lab"].first().to_dict() == dict(zip(runs["run"], runs["lab"], strict=True))


def test_arviz_reads_the_file(path: Path) -> None:
    import arviz as az

    tree = az.from_netcdf(path)
    assert set(tree.children) == {"posterior", "sample_stats", "observed_data", "constant_data"}
    assert az.summary(tree, var_names=["E"]).shape[0] == 1


def test_priors_and_base_rows_survive(tmp_path: Path) -> None:
    """A law with other priors, one more prior by text, one on a term's value, Student-t effects, and base checkpoints."""
    law = load_law("chinchilla").with_priors({"E": Prior.parse("Normal(1.5, 0.25)")})
    table = oracles.table(law, runs=4)
    base = table.head(2).assign(D=0.0, when=pd.Timestamp("2026-01-01"), config=pd.Series([{"lr": 1}, None], dtype=object))
    priors: dict[str, Prior | str] = {
        "alpha": "Beta(2, 4)",
        "B": Prior.from_card({"dist": "HalfNormal", "sigma": 1, "on": "B/D**beta"}),
    }
    made = fit(law, pd.concat([table, base]), priors=priors, noise="student", draws=20, tune=50, chains=1, progress=False)
    made.save(tmp_path / "fit.nc")
    loaded = loaded_fit(tmp_path / "fit.nc")
    assert str(loaded.law.parameters["E"].prior) == "Normal(1.5, 0.25)"
    assert str(loaded.law.parameters["alpha"].prior) == "Beta(2, 4)"
    assert str(loaded.law.parameters["B"].prior) == "HalfNormal(1) on B/D**beta"
    assert loaded.law.sha256 == made.law.sha256
    assert loaded.observed.base["loss"].tolist() == base["loss"].tolist()
    assert loaded.tree["posterior"]["run_effect"].shape == (1, 20, 4)
    np.testing.assert_array_equal(loaded.log_likelihood(), made.log_likelihood())


def test_log_likelihood_is_that_of_whole_runs(small_fit: Fit) -> None:
    from scipy import stats

    values = small_fit.log_likelihood()
    assert values.dims == ("chain", "draw", "run")
    assert values.shape == (2, 200, 8)
    observed, draws = small_fit.observed, {k: v[1, 7] for k, v in small_fit.by_chain.items()}
    mine = observed.run == 3
    mean = np.log(oracles.chinchilla(draws, {k: v[mine] for k, v in observed.covariates.items()}))
    covariance = draws["sigma_point"] ** 2 * np.eye(mine.sum()) + draws["sigma_run"] ** 2
    expected = stats.multivariate_normal(mean, covariance).logpdf(observed.log_loss[mine])
    assert float(values[1, 7, 3]) == pytest.approx(expected, rel=1e-9)
    assert values["run"].values[3] == observed.run_names[3]


# --- damage ---------------------------------------------------------------------------------------------------------


def test_a_missing_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.nc") == f"There is no file {tmp_path / 'none.nc'}."


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert refusal(path).startswith("fit.nc can't be read as a fit: it is damaged or no NetCDF file (")


def test_random_bytes(path: Path, rng: np.random.Generator) -> None:
    path.write_bytes(rng.bytes(5000))
    assert refusal(path).startswith("fit.nc can't be read as a fit: it is damaged or no NetCDF file (")


def test_a_text_file(path: Path) -> None:
    path.write_text("N,D,loss\n1,2,3\n", encoding="utf-8")
    assert refusal(path).startswith("fit.nc can't be read as a fit: it is damaged or no NetCDF file (")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # h5netcdf closing a file it couldn't open
def test_flipped_bytes_are_noticed_or_harmless(small_fit: Fit, path: Path, rng: np.random.Generator) -> None:
    """Wherever 64 bytes in a row are spoilt, reading ends in a FitError or gives the same draws, law and data."""
    content = path.read_bytes()
    refused = 0
    for start in rng.integers(0, len(content) - 64, 40):
        path.write_bytes(content[:start] + rng.bytes(64) + content[start + 64 :])
        try:
            loaded = loaded_fit(path)
        except FitError:
            refused += 1
        else:
            assert loaded.law.sha256 == small_fit.law.sha256
            assert all(np.array_equal(v, loaded.draws[k]) for k, v in small_fit.draws.items())
            assert loaded.observed.log_loss.tobytes() == small_fit.observed.log_loss.tobytes()
    assert refused >= 10


def test_a_foreign_netcdf_file(tmp_path: Path) -> None:
    path = tmp_path / "other.nc"
    xr.Dataset({"x": ("t", [1.0, 2.0])}).to_netcdf(path, engine="h5netcdf")
    assert refusal(path) == "other.nc is not a bayeslaw fit of format 2 (found none); write one with `bayeslaw fit … -o FIT.nc`."
    xr.Dataset({"x": ("t", [1.0, 2.0])}, attrs={"title": "weather"}).to_netcdf(path, engine="h5netcdf")
    assert refusal(path).startswith("other.nc can't be read as a fit: ")


def edit(path: Path, **attributes: Any) -> None:
    with h5py.File(path, "r+") as file:
        for name, value in attributes.items():
            file.attrs[name] = value


def test_a_file_of_another_format(path: Path) -> None:
    edit(path, bayeslaw_format="3")
    assert refusal(path).startswith("fit.nc is not a bayeslaw fit of format 2 (found 3);")


def test_a_tampered_card(small_fit: Fit, path: Path) -> None:
    edit(path, card=small_fit.law.card.replace("N**alpha", "N**(2*alpha)"))
    text = refusal(path)
    assert text.startswith("fit.nc can't be used: its law changed since it was written (SHA-256 ")
    assert f"instead of {small_fit.law.sha256[:12]}…)." in text


def test_a_broken_card(small_fit: Fit, path: Path) -> None:
    edit(path, card=small_fit.law.card.replace("A/N**alpha +", "A/N**alfa +"))
    assert refusal(path).startswith("fit.nc can't be used: the card in fit.nc, line 4: unknown name 'alfa' in 'loss'")


def test_tampered_priors(small_fit: Fit, path: Path) -> None:
    edit(path, priors=json.dumps(dict(small_fit.info["priors"]) | {"E": {"dist": "Normal", "mu": 1.7, "sigma": 1e-3}}))
    assert refusal(path).startswith("fit.nc can't be used: its law changed since it was written")


@pytest.mark.parametrize(
    ("place", "what"), [("observed_data/log_loss", "data"), ("constant_data/N", "data"), ("posterior/E", "draws")]
)
def test_tampered_numbers(path: Path, place: str, what: str) -> None:
    with h5py.File(path, "r+") as file:
        values = file[place][...]
        values.flat[0] *= 1.01
        file[place][...] = values
    assert refusal(path).startswith(f"fit.nc can't be used: its {what} changed since it was written (SHA-256 ")


def test_a_missing_part(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file["posterior/E"]
    assert refusal(path).startswith("fit.nc ")


def test_an_attribute_that_is_no_json(path: Path) -> None:
    edit(path, noise="{")
    assert refusal(path) == "fit.nc can't be read as a fit: it is damaged or no NetCDF file (JSONDecodeError)."


def test_an_attribute_of_another_kind(path: Path) -> None:
    edit(path, priors="3")
    assert refusal(path).startswith("fit.nc is damaged: AttributeError ")


# --- writing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_killed_write_leaves_the_old_file_whole(
    small_fit: Fit, path: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def half(_: xr.DataTree, target: Path, **__: Any) -> None:
        Path(target).write_bytes(before[: len(before) // 2])
        raise error

    monkeypatch.setattr(xr.DataTree, "to_netcdf", half)
    expected, text = (BayeslawError, "No space left on device") if isinstance(error, OSError) else (type(error), "")
    with pytest.raises(expected) as caught:
        small_fit.save(path)
    assert text in str(caught.value)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["fit.nc"]


def test_a_missing_folder(small_fit: Fit, tmp_path: Path) -> None:
    with pytest.raises(BayeslawError, match=r"There is no folder .*none to write fit\.nc into\."):
        small_fit.save(tmp_path / "none" / "fit.nc")


def test_a_folder_in_the_way(small_fit: Fit, tmp_path: Path) -> None:
    (tmp_path / "fit.nc").mkdir()
    with pytest.raises(BayeslawError, match=r"fit\.nc can't be written: "):
        small_fit.save(tmp_path / "fit.nc")
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]
