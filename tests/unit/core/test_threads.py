"""Limits of the process while several threads of Python are at work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import cloudpickle
import scipy.linalg  # noqa: F401  # its library of linear algebra is to be there before it is limited
from threadpoolctl import threadpool_info, threadpool_limits

from bayeslaw.core.executors import run_payload
from bayeslaw.core.threads import one_blas_thread


def threads_of_blas() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_a_thread_that_is_done_leaves_the_limit_to_another_in_its_block() -> None:
    """The number of BLAS threads is that of the process; with several, the last digits of sums change, and with them draws."""
    first_is_in, second_is_in, first_is_out = Event(), Event(), Event()

    def first() -> None:
        with one_blas_thread():
            first_is_in.set()
            assert second_is_in.wait(10)
        first_is_out.set()

    def second() -> set[int]:
        assert first_is_in.wait(10)
        with one_blas_thread():
            second_is_in.set()
            assert first_is_out.wait(10)
            return threads_of_blas()

    with threadpool_limits(2, "blas"):
        before = threads_of_blas()
        with ThreadPoolExecutor(2) as pool:
            done, seen = pool.submit(first), pool.submit(second)
        done.result()
        assert seen.result() == {1}
        assert threads_of_blas() == before


def test_an_item_in_a_worker_has_one_thread_until_its_end() -> None:
    """Workers of Dask may be threads of one process: an item that ended took the limit from the others."""
    with threadpool_limits(2, "blas"):
        before = threads_of_blas()
        with one_blas_thread():
            run_payload(cloudpickle.dumps((abs, -1)))
            assert threads_of_blas() == {1}
        assert threads_of_blas() == before
