"""Files of fits made on purpose: what they lead to elsewhere, repeat or hide is refused before it is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

import bayeslaw
from bayeslaw.laws.card import parse_card
from bayeslaw.posterior.fit import Fit, values_of
from bayeslaw.posterior.storage import contents_digest, data_digest, write_tree
from tests.errors import fails
from tests.fixed import LINE

Change = Callable[[h5py.File, Path], None]


def links_to_a_file(file: h5py.File, other: Path) -> None:
    del file["posterior/E"]
    file["posterior/E"] = h5py.ExternalLink(str(other), "posterior/A")


def links_within(file: h5py.File, _: Path) -> None:
    del file["posterior/E"]
    file["posterior/E"] = h5py.SoftLink("/posterior/A")


def virtual(file: h5py.File, other: Path) -> None:
    shape = file["posterior/E"].shape
    del file["posterior/E"]
    layout = h5py.VirtualLayout(shape, dtype="f8")
    layout[...] = h5py.VirtualSource(str(other), "posterior/A", shape)
    file["posterior"].create_virtual_dataset("E", layout)


def external_storage(file: h5py.File, other: Path) -> None:
    shape = file["posterior/E"].shape
    del file["posterior/E"]
    file["posterior"].create_dataset("E", shape, "f8", external=[(str(other), 0, h5py.h5f.UNLIMITED)])


def cycle(file: h5py.File, _: Path) -> None:
    file["posterior/posterior"] = file["posterior"]


def repeated(file: h5py.File, _: Path) -> None:
    for i in range(1_500):
        file[f"posterior/again{i}"] = file["posterior/E"]


def deep(file: h5py.File, _: Path) -> None:
    group = file["posterior"]
    for _level in range(3_000):
        group = group.create_group("g")


def unknown_group(file: h5py.File, _: Path) -> None:
    file.create_group("prior_predictive")


def scaled(file: h5py.File, _: Path) -> None:
    file["posterior/E"].attrs["scale_factor"] = 2.0


def enormous(file: h5py.File, _: Path) -> None:
    file["posterior"].create_dataset("more", (4, 10**9), "f8", chunks=(1, 1024))


STRUCTURES: dict[str, tuple[Change, str]] = {
    "a link to another file": (links_to_a_file, "link-in-file"),
    "a link within the file": (links_within, "link-in-file"),
    "a virtual array": (virtual, "values-elsewhere"),
    "an array stored in another file": (external_storage, "values-elsewhere"),
    "a group within itself": (cycle, "repeated-object"),
    "an array many times": (repeated, "repeated-object"),
    "groups in groups": (deep, "unknown-group-in-file"),
    "an unknown group": (unknown_group, "unknown-group-in-file"),
    "a factor of an array": (scaled, "unknown-attribute"),
    "an array larger than memory": (enormous, "oversized-arrays"),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_structure_that_no_fit_has_is_refused(name: str, small_fit: Fit, tmp_path: Path) -> None:
    change, code = STRUCTURES[name]
    small_fit.save(tmp_path / "fit.nc")
    small_fit.save(tmp_path / "other.nc")
    sealed = (tmp_path / "fit.nc").read_bytes()
    (tmp_path / "fit.nc").write_bytes(sealed[:-40])  # without the mark and the checksum
    with h5py.File(tmp_path / "fit.nc", "r+") as file:
        change(file, tmp_path / "other.nc")
    with fails(code):
        bayeslaw.load_fit(tmp_path / "fit.nc")


def test_let_expressions_are_ordered_in_linear_time() -> None:
    """Each of 60 uses the one before it twice; ordering them once took twice as long for each."""
    lets = "\n".join(f'x{i} = "x{i - 1} + x{i - 1}"' for i in range(60, 0, -1))
    card = LINE.replace("exp(a + b*x + c*x*x)", "a + b*x + c*x60/2**60")
    law = parse_card(card.replace("[covariates]", f'[let]\n{lets}\nx0 = "x"\n[covariates]'))
    assert list(law.let) == [f"x{i}" for i in range(61)]


@pytest.mark.parametrize("values", [[np.nan], [np.inf]])
def test_losses_that_no_table_gives_are_refused_even_with_right_digests(
    values: list[float], small_fit: Fit, tmp_path: Path
) -> None:
    tree = small_fit.tree.copy(deep=True)
    name = str(next(iter(tree["observed_data"].data_vars)))
    values_of(tree, "observed_data", name)[0] = values[0]
    tree.attrs["data_sha256"] = data_digest(tree)
    tree.attrs["contents_sha256"] = contents_digest(tree)
    write_tree(tree, tmp_path / "fit.nc")
    with fails("damaged-data"):
        bayeslaw.load_fit(tmp_path / "fit.nc")
