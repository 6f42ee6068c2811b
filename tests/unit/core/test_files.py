"""Paths as users write them."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayeslaw
from bayeslaw.core.errors import kind_of
from bayeslaw.core.files import check_target, files_below, make_folder, names_of, own_path, write_text, write_whole
from tests.errors import fails
from tests.fixed import LINE, line_fit


def fail(error: Exception, *_: object) -> None:
    raise error


def test_the_home_folder_may_be_written_as_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    pd.DataFrame({"N": [1e8, 1e9], "loss": [3.0, 2.5]}).to_csv(tmp_path / "runs.csv", index=False)
    (tmp_path / "line.toml").write_text(LINE)
    for path in ("~/runs.csv", Path("~/runs.csv")):
        runs = bayeslaw.read_runs(path)
        assert (runs.name, len(runs)) == ("runs.csv", 2)
    line_fit().save("~/fit.nc")
    assert (tmp_path / "fit.nc").is_file()
    assert bayeslaw.load_fit("~/fit.nc").name == bayeslaw.load_law("~/line.toml").name == "line"
    assert own_path("~nobody-is-called-so/runs.csv") == Path("~nobody-is-called-so/runs.csv")


@pytest.mark.parametrize("address", ["https://example.com/a.csv", Path("https://example.com/a.csv"), "s3://bucket/a.csv"])
def test_an_address_is_to_be_downloaded_first(address: Any) -> None:
    for read in (bayeslaw.read_runs, bayeslaw.load_fit, bayeslaw.import_runs, line_fit().save):
        with fails("an-address", "a.csv' is an address", "download it first"):
            read(address)


@pytest.mark.parametrize(
    ("given", "kind"),
    [(3, "an int"), ("x", "a str"), (np.zeros(1), "an ndarray"), (pd.DataFrame(), "a DataFrame"), (None, "a NoneType")],
)
def test_types_have_their_article(given: object, kind: str) -> None:
    assert kind_of(given) == kind
    with fails("not-a-path", f"not by {kind_of(3)}."):
        bayeslaw.load_fit(3)  # type: ignore[arg-type]


def test_read_only_files_are_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "kept.csv"
    kept.write_text("old")
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as of a user who may write to the folder alone
    with fails("not-writable", "kept.csv", "read-only"):
        check_target(kept, "A table")
    with fails("not-writable", "kept.csv", "read-only"):
        write_text(kept, "new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (folder := tmp_path / "results").mkdir()
    link = tmp_path / "latest.csv"
    link.symlink_to(folder / "first.csv")
    write_text(link, "new")
    assert link.is_symlink()
    assert (folder / "first.csv").read_text() == "new"


def test_files_of_one_name_have_that_of_their_folder_too() -> None:
    paths = [Path("web/fit.nc"), Path("runs/../code/fit.nc"), Path("x/other.nc")]
    assert names_of(paths) == ["web/fit", "code/fit", "other"]


def test_threads_and_computers_may_write_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of two computers may have one id, as those of threads have: one renamed the file that the other was writing."""
    monkeypatch.setattr("os.getpid", lambda: 1)

    def write(temporary: Path) -> None:
        temporary.write_text("outer")
        write_text(tmp_path / "out.csv", "inner")

    write_whole(tmp_path / "out.csv", write)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["outer"]


def test_a_name_may_be_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / f"{'é' * 120}.csv"
    write_text(path, "text")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["text"]


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "of the group.csv"
    path.write_text("old")
    path.chmod(0o664)
    write_text(path, "new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o664)


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_replaces_none_that_was_written_meanwhile(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not links:
        monkeypatch.setattr("os.link", partial(fail, OSError(95, "Operation not supported")))
    path = tmp_path / "out.json"
    write_whole(path, lambda temporary: temporary.write_text("first"), new=True)
    with pytest.raises(FileExistsError):
        write_whole(path, lambda temporary: temporary.write_text("second"), new=True)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["first"]


def test_bytes_of_a_name_that_are_no_text_are_shown_as_such(tmp_path: Path) -> None:
    """Where a table was named on a computer of another encoding, its fit was made and could not be kept."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/donn\xe9es.csv"))
    pd.DataFrame({"N": [1e8, 1e9], "loss": [3.0, 2.5]}).to_csv(path, index=False)
    assert bayeslaw.read_runs(path).name == "donn�es.csv"
    log = path.with_suffix(".jsonl")
    log.write_text("".join(f'{{"step": {step}, "val_loss": {3 - step / 1e4}}}\n' for step in (100, 200, 300)))
    frame = bayeslaw.import_runs(log).runs.frame
    assert {*frame["run"]} == {"donn�es"}
    write_text(tmp_path / "page.html", f"of {path.name}")
    assert (tmp_path / "page.html").read_text() == "of donn?es.csv"


def test_a_folder_in_whose_place_a_file_stands_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with fails("no-folder", "a file has that name"):
        make_folder(tmp_path / "taken")


def test_folders_that_links_lead_to_are_looked_into_once(tmp_path: Path) -> None:
    """A folder of links to runs, as one makes for TensorBoard, had no event files."""
    run, compared = tmp_path / "runs" / "big", tmp_path / "compared"
    for folder in (run, compared):
        folder.mkdir(parents=True)
    (run / "events").write_text("")
    (run / "above").symlink_to("..")
    (tmp_path / "runs" / "a-latest").symlink_to("big")
    (compared / "first").symlink_to(run)
    assert files_below(tmp_path / "runs") == [run / "events"]
    assert files_below(compared) == [compared / "first" / "events"]
    assert files_below(tmp_path / "none") == []
