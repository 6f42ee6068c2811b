"""The texts that name executors."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.executors import available_cores, executor
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


@pytest.mark.parametrize("given", [4, None, ThreadPoolExecutor])
def test_what_is_no_text_is_named_by_its_type(given: Any) -> None:
    with fails("unknown-executor", "'processes:4', not by a"):
        executor(given)


def test_a_cluster_of_dask_is_named_by_its_address() -> None:
    with fails("unknown-executor", "not by a SimpleNamespace; of a cluster of Dask give its scheduler_address."):
        executor(SimpleNamespace(scheduler_address="tcp://10.0.0.1:8786"))  # type: ignore[arg-type]


def test_the_error_without_dask_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with fails("no-dask", "tcp://10.0.0.1:8786", "bayeslaw[dask]"):
        executor("tcp://10.0.0.1:8786")


def test_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loky also counts the limit of a container, whose affinity has all cores of the machine; this variable is another limit."""
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    assert available_cores() == 1
