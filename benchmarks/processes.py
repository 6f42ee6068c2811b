"""Whole processes in environments of their own, made on first use; their time and memory are measured from outside."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCRIPTS, STORE = HERE / "peers", HERE / ".peers"


def interpreter(environment: str) -> str:
    """The interpreter of an environment, made on first use from benchmarks/peers/<environment>.txt, whose first line names it."""
    if not environment:
        return sys.executable
    wanted, folder = SCRIPTS / f"{environment}.txt", STORE / environment
    kept, python = folder / wanted.name, folder / "bin" / "python"
    if not kept.exists() or kept.read_text() != wanted.read_text():
        name = wanted.read_text().split()[1].rstrip(":")
        if not (base := shutil.which(name)):
            raise SystemExit(f"{environment} needs {name}, which is not installed")
        subprocess.run([base, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", wanted], check=True)
        shutil.copy(wanted, kept)
    return str(python)


def caches(folder: Path) -> dict[str, str]:
    """Environment variables that put every compile cache into a folder."""
    return {
        "PYTENSOR_FLAGS": f"base_compiledir={folder / 'pytensor'}",
        "NUMBA_CACHE_DIR": str(folder / "numba"),
        "JAX_COMPILATION_CACHE_DIR": str(folder / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "XDG_CACHE_HOME": str(folder / "xdg"),  # PyStan's builds
    }


def memory(session: int) -> float:
    """Memory in MiB of the processes of a session, shared pages counted once; 0 if the system does not report it."""
    total = 0.0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int((process / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                total += float((process / "smaps_rollup").read_text().split("Pss:")[1].split()[0]) / 1024
        except (OSError, IndexError):
            continue  # ended meanwhile
    return total


def processor_seconds() -> float:
    """Processor seconds of ended children and their children; unlike wall time they hardly depend on other load."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def busy_seconds() -> float:
    """Processor seconds that all processes of the machine have used since it started; nan if the system does not report it."""
    try:
        user, nice, system, *_ = (float(v) for v in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    except OSError:
        return float("nan")
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def process(script: str, environment: str, options: dict[str, Any], cache: Path) -> dict[str, Any]:
    """Run a script of benchmarks/peers.

    Returns its JSON report, its wall and processor seconds, its peak memory (MiB), and how many cores others used meanwhile.
    """
    python = interpreter(environment)
    variables = os.environ | caches(cache) | {"PYTHONPATH": str(HERE.parent), "PEER_STARTED": str(time.time())}
    start, peak, before, busy = time.perf_counter(), 0.0, processor_seconds(), busy_seconds()
    child = subprocess.Popen(
        [python, SCRIPTS / f"{script}.py", json.dumps(options)],
        env=variables,
        cwd=cache,  # PyStan leaves a folder where it runs
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.5):
            peak = max(peak, memory(child.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, error = child.communicate()
    wall = time.perf_counter() - start
    done.set()
    watcher.join()
    if child.returncode:
        raise SystemExit(f"{script} failed:\n{error[-3000:]}")
    used = processor_seconds() - before
    measured = {"wall": wall, "processor": used, "peak": peak, "others": max(0.0, busy_seconds() - busy - used) / wall}
    return {**json.loads(out.splitlines()[-1]), **measured}
