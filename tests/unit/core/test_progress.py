"""Progress bars are for people: a terminal or a notebook shows them, and a file gets nothing."""

from __future__ import annotations

import pytest
from rich.console import Console

from bayeslaw.core.executors import Result, _with_progress
from bayeslaw.core.progress import console_for


@pytest.mark.parametrize(("seen", "by"), [(True, "is_terminal"), (True, "is_jupyter"), (False, "")])
def test_a_bar_has_a_console_where_somebody_sees_it(seen: bool, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Console, "is_terminal", property(lambda _: by == "is_terminal"))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: by == "is_jupyter")
    monkeypatch.setattr("bayeslaw.core.progress.find_spec", lambda name: name)
    assert (console_for(wanted=True) is not None) == seen
    assert console_for(wanted=False) is None


def test_a_notebook_without_widgets_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It got ten warnings a fit that ipywidgets is to be installed."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("bayeslaw.core.progress.find_spec", lambda name: None)
    assert console_for(wanted=True) is None


def test_standard_error_that_is_a_file_gets_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """It got a blank line for each bar."""
    results = [Result(i, i) for i in range(3)]
    assert [*_with_progress(results, 3, "fit")] == results
    assert capfd.readouterr().err == ""
