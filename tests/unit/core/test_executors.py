"""The texts that name executors."""

from __future__ import annotations

import sys

import pytest

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.executors import executor
from tests.errors import fails


@pytest.mark.parametrize(
    "text", ["", "process", "processes:", "processes:0", "processes:two", "in-process:2", "dask:", "http://a", "tcp:1", "://"]
)
def test_other_texts_name_none(text: str) -> None:
    with fails("unknown-executor", repr(text)):
        executor(text)


def test_the_error_names_the_texts_that_are_known() -> None:
    with pytest.raises(BayeslawError) as caught:
        executor("dask")
    assert str(caught.value) == (
        "'dask' is not an executor; write in-process, processes, processes:4 or the address of a Dask scheduler "
        "such as tcp://10.0.0.1:8786."
    )


def test_the_error_without_dask_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with fails("no-dask", "tcp://10.0.0.1:8786", "bayeslaw[dask]"):
        executor("tcp://10.0.0.1:8786")
