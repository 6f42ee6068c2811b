"""Files of fits that someone changed and gave right digests again: refused, or read as a fit that every command can use."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

from bayeslaw.posterior.fit import Fit
from bayeslaw.posterior.storage import MARK, contents_digest, data_digest, draws_digest
from bayeslaw.posterior.structure import read_groups
from tests.commands import Command, Done, rejected
from tests.fixed import line_fit
from tests.oracles import Array

SHOWN = 10.0  # seconds


def reseal(path: Path) -> None:
    """Make all digests of a file anew, as someone can who knows how; a file without what they are made of stays as it is."""
    try:
        tree = read_groups(path)
        tree.attrs |= {"data_sha256": data_digest(tree), "draws_sha256": draws_digest(tree)}
        tree.attrs["contents_sha256"] = contents_digest(tree)
        with h5py.File(path, "r+") as file:
            for name in ("data_sha256", "draws_sha256", "contents_sha256"):
                file.attrs[name] = tree.attrs[name]
    except Exception:  # what a flipped byte does to HDF5
        return


def opened(path: Path, command: Command, *, forecast: bool = True) -> None:
    """Commands end with words, within seconds, by status 0 or 2."""
    done = Done(0, "", "")
    for words in (("show", path, "--force"), ("forecast", path, "--set", "x=1", "--force"))[: 1 + forecast]:
        if done.status:
            return
        began = time.monotonic()
        done = command(*words)
        assert done.status in (0, 2), done
        assert "Traceback" not in done.err
        assert done.status == 0 or done.err.startswith("Error: ")
        assert time.monotonic() - began < SHOWN


@pytest.fixture(scope="module")
def unsealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a fit without its last checksum, as another program leaves it."""
    path = tmp_path_factory.mktemp("unsealed") / "fit.nc"
    line_fit(size=400).save(path)
    content = path.read_bytes()
    assert content[-40:] == MARK + hashlib.sha256(content[:-40]).digest()
    path.write_bytes(content[:-40])
    return path


@pytest.mark.filterwarnings("ignore")  # of NumPy, on numbers that no sampler makes; of h5netcdf, closing what it could not open
@pytest.mark.parametrize("seed", range(24))
def test_random_flips_with_right_digests_are_refused_or_used(seed: int, unsealed: Path, command: Command, tmp_path: Path) -> None:
    rng, path = np.random.default_rng(seed), tmp_path / "fit.nc"
    content = bytearray(unsealed.read_bytes())
    for place in rng.integers(0, len(content), 1 + seed % 4):
        content[place] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)
    reseal(path)
    opened(path, command)


ATTRIBUTES: dict[str, list[Any]] = {
    "checks": [None, [], {}, [1], [{"name": "informed"}], [{"name": 1, "passed": "false", "text": 3, "required": 1, "table": []}]],
    "noise": [None, [], "normal", {}, {"groups": None}, {"groups": ["a", "b"]}, {"student": "yes", "groups": []}],
    "at": [None, [], {"x": "one"}, {"y": 1.0}, {"x": None}],
    "levels": [None, [], {"x": 3}, {"domain": ["a"]}],
    "by": [None, {"a": 3}, {"z": "domain"}, []],
    "priors": [None, {}, {"a": {}}, {"a": {"dist": "Normal"}}, {"z": {"dist": "Normal", "mu": 0, "sigma": 1}}],
    "settings": [None, 3, {}],
    "versions": [None, 3, []],
    "seed": [None, "one", -1, [], 1e300],
    "base": [None, 3, {"x": 3}],
    "clock": [None, [], {"column": "step", "span": 1.0}, {"column": 3, "span": "one"}, {"column": "", "span": None}],
    "unit": [None, 3, "bananas"],
    "noise_by": [3, "lab", []],
    "interrupted": [None, "yes", []],
    "conversions": [None, 3, [1]],
    "sources": [
        None,
        [],
        [1],
        [{"name": 3, "rows": 12}],
        [{"name": "old.csv"}],
        [{"name": "old.csv", "rows": 12, "columns": {"N": 3}}],
    ],
    "discrepancy": [None, 3, [], {"reason": 3}, {"asked": ["learned"]}],
    "bayeslaw_format": [None, 1, 99, "2", []],
}
USED_BY_FORECASTS = ("noise", "at", "levels", "by", "seed", "clock", "noise_by", "unit", "discrepancy")
CASES = [(name, value) for name, values in ATTRIBUTES.items() for value in values]


def with_attribute(name: str, value: object, unsealed: Path, folder: Path) -> Path:
    """A file of a fit with another value of an attribute, and digests that fit it."""
    path = folder / "fit.nc"
    shutil.copy(unsealed, path)
    with h5py.File(path, "r+") as file:
        file.attrs[name] = json.dumps(value)
    reseal(path)
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "value"), CASES, ids=[f"{name} {json.dumps(value)[:30]}" for name, value in CASES])
def test_odd_attributes_with_right_digests_are_refused_or_used(
    name: str, value: object, unsealed: Path, command: Command, tmp_path: Path
) -> None:
    path = with_attribute(name, value, unsealed, tmp_path)
    opened(path, command, forecast=name in USED_BY_FORECASTS)


@pytest.mark.parametrize("name", ["clock", "sources", "unit"])
def test_a_file_without_an_attribute_is_refused(name: str, unsealed: Path, command: Command, tmp_path: Path) -> None:
    path = tmp_path / "fit.nc"
    shutil.copy(unsealed, path)
    with h5py.File(path, "r+") as file:
        del file.attrs[name]
    reseal(path)
    rejected(command("show", path), "damaged-file")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory", 1.0), ("power", "high"), ("reference_batch", float("inf")), ("token_length", 4.2), ("loss_unit", 1.0),
        ("token_length", {"bytes_per_token": "long"}), ("token_length", {"bytes_per_token": 0.0}),
    ],
)  # fmt: skip
def test_what_forecasts_and_scores_would_trip_over_is_refused(
    name: str, value: object, unsealed: Path, command: Command, tmp_path: Path
) -> None:
    path = with_attribute(name, value, unsealed, tmp_path)
    rejected(command("show", path), "damaged-settings")


def test_deep_attributes_are_refused(unsealed: Path, command: Command, tmp_path: Path) -> None:
    path = tmp_path / "fit.nc"
    shutil.copy(unsealed, path)
    with h5py.File(path, "r+") as file:
        file.attrs["settings"] = "[" * 50_000
    reseal(path)
    rejected(command("show", path), "unreadable-file")


# --- the posterior in which the law has an error ----------------------------------------------------------------------

CHANGES: dict[str, tuple[str, Callable[[Array], Array], str]] = {
    "a draw is not a number": ("coefficients", lambda v: np.where(v == v.max(), np.nan, v), "infinite-draws"),
    "a parameter is infinite": ("E", lambda v: v / 0, "infinite-draws"),
    "numbers are texts": ("squares", lambda v: v.astype("S8"), "infinite-draws"),
    "fewer draws": ("discrepancy", lambda v: v[:, :-1], "damaged-extrapolation"),
    "fewer combinations": ("loadings", lambda v: v[:, :-1], "damaged-extrapolation"),
    "other knots": ("loadings", lambda v: v[:-1], "damaged-extrapolation"),
    "an error of no size": ("discrepancy", lambda v: v * 0, "damaged-extrapolation"),
    "combinations of other rows": ("loadings", lambda v: v[::-1], "damaged-extrapolation"),
    "combinations that are no directions": ("loadings", lambda v: 2 * v, "damaged-extrapolation"),
    "other rows": ("squares", lambda v: 2 * v, "damaged-extrapolation"),
}


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory, sound_fit: Fit) -> Path:
    """The file of a fit with a learnt discrepancy, without its last checksum."""
    path = tmp_path_factory.mktemp("learnt") / "fit.nc"
    sound_fit.save(path)
    path.write_bytes(path.read_bytes()[:-40])
    return path


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("change", CHANGES)
def test_changed_learnt_errors_are_refused(change: str, learnt: Path, command: Command, tmp_path: Path) -> None:
    name, changed, code = CHANGES[change]
    path = tmp_path / "fit.nc"
    with xr.open_datatree(learnt, engine="h5netcdf") as stored:
        tree = stored.load()
    group = tree["extrapolation"].to_dataset()
    values = changed(group[name].values)
    of_its_own = [f"{name}_{dim}" for dim in group[name].dims]  # of another length than that of other variables
    tree["extrapolation"] = xr.DataTree(group.drop_vars(name).assign({name: (of_its_own, values)}))
    path.write_bytes(bytes(tree.to_netcdf(engine="h5netcdf")))
    reseal(path)
    refusal = command("show", path)
    rejected(refusal, code)
    assert name in refusal.err or "discrepancy" in refusal.err


def test_a_group_that_lacks_a_variable_is_refused(learnt: Path, command: Command, tmp_path: Path) -> None:
    path = tmp_path / "fit.nc"
    shutil.copy(learnt, path)
    with h5py.File(path, "r+") as file:
        del file["extrapolation/coefficients"]
    reseal(path)
    rejected(command("show", path), "damaged-file")


def test_learnt_errors_of_a_law_that_learns_none_are_refused(command: Command, tmp_path: Path) -> None:
    """Of a shape that would fit a law with no place to learn an error at."""
    fit, path = line_fit(size=1200), tmp_path / "fit.nc"
    draws = {name: (("chain", "draw"), values) for name, values in fit.by_chain.items()}
    draws |= {"discrepancy": (("chain", "draw"), np.ones((4, 300)))}
    extrapolation = xr.Dataset({
        **draws, "coefficients": (("chain", "draw", "k"), np.ones((4, 300, 1))), "squares": ("k", np.ones(1)),
        "loadings": (("knot", "k"), np.ones((0, 1))),
    })  # fmt: skip
    tree = fit.tree.copy()
    tree["extrapolation"] = xr.DataTree(extrapolation)
    path.write_bytes(bytes(tree.to_netcdf(engine="h5netcdf")))
    reseal(path)
    rejected(command("show", path), "damaged-extrapolation")
