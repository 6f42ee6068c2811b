"""The heads of the tables in benchmarks/results, and which of the tables are older than what they measure.

    python benchmarks/tables.py        # or make stale

`tables.toml` names the paths that each table measures. A table is older if the last change of these paths is not in the history of
the commit in its head (tables made before heads had one carry the commit that stored them). Where we have looked at such a change
and the numbers still hold, `through` names the last change looked at, and `because` says why. Changes that moved no number of any
table are in [same], one by one or as FIRST..LAST.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
import tomllib
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("BAYESLAW_SHARED_DATA", ROOT / "../shared/data"))  # public losses that are not kept here
COMMIT = re.compile(r"\bcommit ([0-9a-f]{7,40})\b")
PACKAGES = ("bayeslaw", "nutpie", "numba", "pymc")


def git(root: Path, *arguments: str) -> str | None:
    """What git prints about a checkout, or None where it fails."""
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)  # noqa: S607
    return done.stdout.strip() if done.returncode == 0 else None


def banner(name: str, packages: tuple[str, ...] = PACKAGES) -> str:
    """The head of a table: the command with its arguments, commit, date, machine and versions."""
    command = shlex.join(["python", f"benchmarks/{name}.py", *sys.argv[1:]])
    commit = git(ROOT, "rev-parse", "--short", "HEAD") or "unknown"
    changes = " + changes" if git(ROOT, "status", "--porcelain", "--untracked-files=no") else ""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"
    return f"`{command}`, commit {commit}{changes}, {date.today()}, {machine}, {', '.join(f'{p} {version(p)}' for p in packages)}"


def markdown_table(rows: list[dict[str, Any]]) -> str:
    """Rows of texts as a Markdown table."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([str(v) for v in row.values()] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def percent(value: float, digits: int = 0) -> str:
    """A share as a text in percent."""
    return f"{100 * value:.{digits}f}%"


class Older(NamedTuple):
    """A table that is older than what it measures: its name, its commit, the last change, and why it still holds, if it does."""

    table: str
    commit: str
    change: str
    because: str = ""


def older(root: Path = ROOT) -> list[Older]:
    """The tables that are older than what they measure, and those of which nobody can tell."""
    found = []
    with (root / "benchmarks" / "tables.toml").open("rb") as file:
        about = tomllib.load(file)
    same = [commit for key in about.pop("same", {}) for commit in _commits(root, key)]
    for path in sorted((root / "benchmarks" / "results").glob("*.md")):
        entry, head = about.get(path.stem, {}), COMMIT.search(path.read_text())
        commit = head[1] if head else ""
        changes = (git(root, "log", "--no-merges", "--format=%h %as %s", "--", *entry.get("measures", ())) or "").splitlines()
        change = next((line for line in changes if not line.startswith(tuple(same))), "") if entry else ""
        if not commit or not change:
            found.append(Older(path.stem, commit or "no commit", change or "nothing known of what it measures"))
        elif not _contains(root, commit, last := change.split()[0]):
            because = entry.get("because", "") if _contains(root, entry.get("through", ""), last) else ""
            found.append(Older(path.stem, commit, change, because))
    return found


def _commits(root: Path, key: str) -> list[str]:
    """The commits that a key of [same] names: one, or with FIRST..LAST all after the first up to the last."""
    return (git(root, "log", "--format=%h", key) or "").splitlines() if ".." in key else [key]


def _contains(root: Path, commit: str, change: str) -> bool:
    """Whether a change is in the history of a commit; not if this checkout does not have it."""
    return bool(commit) and git(root, "merge-base", "--is-ancestor", change, commit) is not None


def main() -> None:
    tables = older()
    for title, shown in (
        ("Tables older than the last change of what they measure", [t for t in tables if not t.because]),
        ("Older tables that still hold", [t for t in tables if t.because]),
    ):
        print(f"{title}: {len(shown) or 'none'}")
        for t in shown:
            print(f"  {t.table}.md, made at {t.commit}; last change {t.change}" + (f"\n    {t.because}" if t.because else ""))


if __name__ == "__main__":
    main()
