"""Build wheel and sdist, install the wheel into an empty environment, and use it there from a folder outside the checkout.

Prints what it measures and ends with an error where something the README says does not hold. `make wheel` runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
IMPORT_SECONDS, HELP_SECONDS = 2.0, 1.0  # on a machine with nothing else to do
BUSY = 5  # by which a busy machine may make them longer
IN_WHEEL = (
    "bayeslaw/py.typed",
    "bayeslaw/data/tinycpt-runs.csv",
    "bayeslaw/data/tinycpt-curves.csv",
    "bayeslaw/models/chinchilla.toml",
    "bayeslaw/reporting/templates/explore.js",
)
IN_SDIST = (
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "benchmarks/tables.py",
    "data/tinycpt/runs.csv",
    "models/chinchilla.toml",
    "pyproject.toml",
    "tests/integration/test_package.py",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=HERE / "dist", help="folder for wheel and sdist")
    dist = parser.parse_args().dist
    for older in dist.glob("bayeslaw-*"):
        older.unlink()
    run(sys.executable, "-m", "build", "--quiet", "--outdir", dist, HERE)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    look(wheel, sdist)
    with tempfile.TemporaryDirectory() as folder:
        use(wheel, Path(folder))


def look(wheel: Path, sdist: Path) -> None:
    """Check that wheel and sdist contain what they must."""
    with zipfile.ZipFile(wheel) as packed:
        inside = set(packed.namelist())
    cards = {f"bayeslaw/models/{card.name}" for card in (HERE / "models").glob("*.toml")}
    modules = {str(module.relative_to(HERE)) for module in (HERE / "bayeslaw").rglob("*.py*") if module.suffix in (".py", ".pyi")}
    demand(not (missing := (cards | modules | set(IN_WHEEL)) - inside), f"{wheel.name} lacks {', '.join(sorted(missing))}")
    with tarfile.open(sdist) as packed_source:
        names = {name.partition("/")[2] for name in packed_source.getnames()}
    demand(not (missing := set(IN_SDIST) - names), f"{sdist.name} lacks {', '.join(sorted(missing))}")
    print(f"{wheel.name}: {len(cards)} cards, {len(modules)} modules, {wheel.stat().st_size / 1e6:.1f} MB")
    print(f"{sdist.name}: {len(names)} files, {sdist.stat().st_size / 1e6:.1f} MB")


def use(wheel: Path, folder: Path) -> None:
    """Use the wheel in an environment of its own: imports, help, a fit and a forecast."""
    python = folder / "env" / "bin" / "python"
    script = python.with_name("bayeslaw")
    run(sys.executable, "-m", "venv", folder / "env")
    start = time.perf_counter()
    # Modules are compiled when they are first imported, as all of those installed would take as long again.
    pip = (python, "-m", "pip", "install", "--no-compile", "--quiet", "--disable-pip-version-check")
    run(*pip, "-c", HERE / "constraints.txt", wheel)
    print(f"installed with its dependencies in {time.perf_counter() - start:.0f} s")
    work = folder / "work"
    work.mkdir()
    where = run(python, "-c", "import bayeslaw; print(bayeslaw.__file__)", cwd=work).strip()
    demand(Path(where).is_relative_to(folder), f"bayeslaw was imported from {where}, not from the wheel")
    limit("import bayeslaw", IMPORT_SECONDS, python, "-c", "import bayeslaw", cwd=work)
    limit("bayeslaw --help", HELP_SECONDS, script, "--help", cwd=work)
    laws = json.loads(run(script, "laws", "--json", cwd=work))["results"]["laws"]
    demand(len(laws) == len(list((HERE / "models").glob("*.toml"))), f"{len(laws)} laws are listed")
    run(script, "demo", "--tables", "-o", "tables", cwd=work)
    demand({path.name for path in (work / "tables").iterdir()} == {"target.csv", "source.csv", "curves.csv"}, "tables are missing")
    start = time.perf_counter()
    print(run(script, "fit", "transfer-target", "tables/target.csv", "--where", "ptpp <= 31", "-o", "T.nc", "-q", cwd=work))
    print(f"bayeslaw fit, first compilation included: {time.perf_counter() - start:.0f} s")
    at = (word for text in ("N=196608", "ptpp=279", "r=0.25", "D=2e5:4e6:6") for word in ("--set", text))
    run(script, "forecast", "T.nc", *at, "--plot", "forecast.png", cwd=work)
    demand((work / "forecast.png").stat().st_size > 10_000, "the forecast has no picture")
    verdict = json.loads(run(script, "show", "T.nc", "--json", cwd=work))["results"]["sampling"]
    demand(verdict == "passed", f"the sampling of the fit: {verdict}")
    run(python, "-m", "pip", "check", "--disable-pip-version-check", cwd=work)


def limit(what: str, seconds: float, *command: object, cwd: Path) -> None:
    """Time a command that has run once before; the best of three must keep the limit, `BUSY` times as long."""
    run(*command, cwd=cwd)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        run(*command, cwd=cwd)
        times.append(time.perf_counter() - start)
    load = os.getloadavg()[0]
    print(f"{what}: {min(times):.2f} to {max(times):.2f} s of 3 (load {load:.1f}); wanted {seconds:g}")
    demand(min(times) <= BUSY * seconds, f"{what} takes {min(times):.2f} s")


def run(*command: object, cwd: Path = HERE) -> str:
    """Run a command without the checkout on Python's path, and with bytecode kept, and hand back what it printed."""
    unset = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=kept, text=True, stdout=subprocess.PIPE, check=False)
    demand(done.returncode == 0, f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}")
    return done.stdout


def demand(kept: bool, otherwise: str) -> None:
    if not kept:
        raise SystemExit(f"make wheel: {otherwise}")


if __name__ == "__main__":
    main()
