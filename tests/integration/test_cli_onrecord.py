"""The commands register, settle and record: what they write and print, and what they refuse before they write anything."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pytest

import bayeslaw
from bayeslaw.reporting.figures import Picture
from tests.commands import Command, rejected, snapshot, unchanged
from tests.pages import Page


@pytest.fixture
def held(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "held.csv")


def test_register_settle_and_record(command: Command, folder: Path, held: pd.DataFrame) -> None:
    held.drop(columns="loss").to_csv("planned.csv", index=False)
    before = {*snapshot(folder)}
    done = command("register", "fit.nc", "--at", "planned.csv", "-o", "p.json", "--who", "me")
    assert (done.status, done.err) == (0, "")
    assert {*snapshot(folder)} - before == {"p.json"}
    digest = bayeslaw.evaluation.read_prediction("p.json").sha256
    assert f"SHA-256 {digest}" in done.out
    settled = command("settle", "p.json", "held.csv", "-o", "p.settled.json", "--csv")
    scored = command("score", "fit.nc", "held.csv", "--csv")
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(settled.out)), pd.read_csv(io.StringIO(scored.out)), rtol=1e-12)
    shown = command("settle", "p.json", "held.csv")
    assert "coverage" in shown.out
    held.head(1).to_csv("one.csv", index=False)
    assert "1 loss of one.csv" in command("settle", "p.json", "one.csv").out
    found = command("record", ".", "-o", "page.html")
    assert (found.status, found.out.splitlines()[-1]) == (0, "page written to page.html")
    assert f"{len(held)} of {len(held)} forecasts settled" in found.out
    page = Page.of(Path("page.html").read_text(encoding="utf-8"))
    assert page.all("script") == page.all("link") == []
    assert {src["src"].partition(",")[0] for src in page.all("img")} == {"data:image/svg+xml;base64"}
    assert not list(folder.glob(".*"))


def test_settings_as_forecast_takes_them(command: Command, folder: Path) -> None:
    made = json.loads(command("register", "fit.nc", "--set", "N=1e9", "--set", "D=1e10,2e10", "-o", "p.json", "--json").out)
    assert [row["D"] for row in made["results"]["prediction"]] == [1e10, 2e10]
    assert made["results"]["sha256"] == bayeslaw.evaluation.read_prediction("p.json").sha256
    forecast = json.loads(command("forecast", "fit.nc", "--set", "N=1e9", "--set", "D=1e10,2e10", "--json").out)
    for given, row in zip(made["results"]["prediction"], forecast["results"]["forecast"], strict=True):
        assert given["median"] == row[f"{row['headline']}_median"]


def test_the_schema_is_printed(command: Command) -> None:
    done = command("register", "--schema")
    assert json.loads(done.out)["$id"].startswith("urn:bayeslaw:prediction:")


@pytest.mark.usefixtures("held")
def test_signed_files(command: Command, folder: Path) -> None:
    Path("key").write_bytes(bytes(range(32)))
    assert "(signed)" in command("register", "fit.nc", "--at", "held.csv", "-o", "p.json", "--key", "key").out
    assert "--key verifies" in command("settle", "p.json", "held.csv").out
    assert command("settle", "p.json", "held.csv", "--key", "key", "-o", "p.settled.json").status == 0
    assert "verified" in command("record", ".", "--key", "key").out
    Path("other").write_bytes(bytes(32))
    rejected(command("settle", "p.json", "held.csv", "--key", "other"), "wrong-signature")


def test_what_is_refused_leaves_no_file(command: Command, folder: Path, held: pd.DataFrame) -> None:
    command("register", "fit.nc", "--at", "held.csv", "-o", "p.json")
    held.assign(unit="bits/byte").to_csv("bits.csv", index=False)
    held.assign(D=2 * held["D"]).to_csv("far.csv", index=False)
    data = Path("p.json").read_bytes()
    Path("changed.json").write_bytes(data.replace(b'"seed": 0', b'"seed": 1', 1))
    with unchanged(folder):
        rejected(command("register", "fit.nc", "--at", "held.csv", "-o", "p.json"), "already-registered", "p.json")
        rejected(command("register", "fit.nc", "--at", "held.csv", "-o", "q.csv"), "wrong-ending", ".json")
        rejected(command("register", "fit.nc", "--at", "held.csv", "-o", "q.settled.json"), "wrong-ending")
        rejected(command("register", "fit.nc", "-o", "q.json"), "settings-not-clear")
        rejected(command("register", "failed.nc", "--at", "held.csv", "-o", "q.json"), "failed-checks")
        rejected(command("register", "fit.nc"), "nothing-to-do")
        rejected(command("register", "fit.nc", "--at", "held.csv", "-o", "q.json", "--why", "\udcff"), "not-text")
        rejected(command("settle", "changed.json", "held.csv", "-o", "r.json"), "changed-file", "changed.json")
        rejected(command("settle", "p.json", "bits.csv", "-o", "r.json"), "another-unit", "bits/byte")
        rejected(command("settle", "p.json", "far.csv", "-o", "r.json"), "no-such-setting")
        rejected(command("settle", "p.json", "held.csv", "-o", "p.json"), "output-is-input")
        rejected(command("settle", "p.json", "held.csv", "--tolerance", "much"), "not-a-number")
        rejected(command("settle", "fit.nc", "held.csv"), "not-a-prediction", "fit.nc")
        rejected(command("record", "nowhere"), "no-folder")
        rejected(command("record", ".", "-o", "page.json"), "wrong-ending")
    assert "changed.json does not count" in command("record", ".").out


def test_a_failed_fit_is_registered_by_force_and_marked(command: Command, folder: Path) -> None:
    assert command("register", "failed.nc", "--at", "held.csv", "-o", "p.json", "--force").status == 0
    content = bayeslaw.evaluation.read_prediction("p.json").content
    assert content["checks"] == "FAILED (forced)"
    assert content["failures"]
    assert "FAILED" in command("record", ".").out


def test_a_write_that_fails_leaves_nothing(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(folder)

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    rejected(command("register", "fit.nc", "--at", "held.csv", "-o", "p.json"), "not-writable")
    assert snapshot(folder) == before


def test_hostile_texts_stay_texts_on_the_page(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Picture, "bytes", lambda _, kind: b"<svg/>")
    hostile = "<script>alert(1)</script>"
    assert command("register", "fit.nc", "--at", "held.csv", "-o", "p.json", "--who", hostile, "--why", "a\nb").status == 0
    command("settle", "p.json", "held.csv", "-o", "p.settled.json")
    Path("<b>.json").write_text("{}", encoding="utf-8")
    assert command("record", ".", "-o", "page.html").status == 0
    page = Page.of(Path("page.html").read_text(encoding="utf-8"))
    assert (page.all("script"), page.all("b")) == ([], [])
    assert any(hostile in text for text in page.text)
    (policy,) = (m["content"] for m in page.all("meta") if m.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
