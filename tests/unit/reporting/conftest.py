"""Reports of unit tests have pictures that are not drawn; tests/integration/test_report.py draws them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bayeslaw.reporting.figures import Picture


@pytest.fixture(autouse=True, scope="package")
def pictures_are_not_drawn() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Picture, "bytes", lambda _, kind: b"<svg/>" if kind == "svg" else b"%PDF << /Creator (bayeslaw) >>")
        yield
