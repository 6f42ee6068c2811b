"""Faults of the machine: a parent that is killed, full disks, folders that go away, standard output that nobody reads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import items

IDLE = """
import os, time
from bayeslaw.core.executors import executor
from tests.items import slow_pid

if __name__ == "__main__":
    run = executor("processes:2")
    for outcome in run.map(slow_pid, range(8)):
        print(outcome.value, flush=True)
    time.sleep(60)
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("script", "lines"), [(items.SLEEPING, 2), (IDLE, 8)], ids=["at work", "idle"])
def test_workers_of_a_killed_parent_end_within_five_seconds(script: str, lines: int, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    command, pipe = [sys.executable, str(tmp_path / "script.py"), "processes:2"], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout
        pids = {int(process.stdout.readline()) for _ in range(lines)}
        os.kill(process.pid, signal.SIGKILL)
    until = time.monotonic() + 5
    while any(map(is_running, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert [pid for pid in pids if is_running(pid)] == []
