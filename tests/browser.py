"""A browser for tests of pages: an installed Chromium, driven by Playwright. Nothing is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
READY = "body[data-ready=yes]"
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: tools/browser.py installs Debian's")


@contextmanager
def running() -> Iterator[Browser]:
    """A browser without a window; root has no sandbox to start it in."""
    flags = ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=flags)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, path: Path, fragment: str = "", *, drawn: bool = False, **context: Any) -> Iterator[Page]:
    """A page in a context of its own, which fails where the page has an error, asks for anything but itself, or runs a text.

    Parameters
    ----------
    browser, path, fragment
        The address of the page ends in the fragment.
    drawn : bool
        Wait until all pictures are drawn.
    **context
        Of Playwright: viewport, color_scheme.
    """
    made = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
    with loaded(made.new_page(), path, fragment, drawn=drawn) as page:
        yield page
        made.close()


@contextmanager
def loaded(page: Page, path: Path, fragment: str = "", *, drawn: bool = False) -> Iterator[Page]:
    """A file in an open page, with the checks of `opened`.

    Parameters
    ----------
    page, path, fragment, drawn
        As in `opened`; another file than that of the page.
    """
    problems = list[str]()

    def asked(dialog: Dialog) -> None:
        problems.append(dialog.message)
        dialog.dismiss()

    listeners: dict[Any, Callable[[Any], Any]] = {
        "pageerror": lambda error: problems.append(str(error)),
        "console": lambda message: problems.append(message.text) if message.type in ("error", "warning") else None,
        "dialog": asked,
        "request": lambda request: problems.append(request.url) if not request.url.startswith(path.as_uri()) else None,
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    page.goto(path.as_uri() + fragment)
    if drawn:
        page.wait_for_selector(READY)
    yield page
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    assert problems == []
