"""Names of the package in its own texts, such as `bayeslaw.plots.plot_pair`, can be used as they are written."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import bayeslaw

ROOT = Path(bayeslaw.__file__).parent
NAME = re.compile(r"\bbayeslaw((?:\.[A-Za-z_]\w*)+)")


def exists(name: str) -> bool:
    """Whether a name such as bayeslaw.plots.plot_pair is a module, or leads to an object of one."""
    thing: object = bayeslaw
    parts = name.split(".")
    for i, part in enumerate(parts[1:], 2):
        if not hasattr(thing, part):
            try:
                importlib.import_module(".".join(parts[:i]))
            except ImportError:
                return False
        thing = getattr(thing, part)
    return True


def test_texts_name_what_there_is() -> None:
    """An error advised `bayeslaw.plots.plot_fit`, and a docstring `bayeslaw.versus`: neither exists."""
    assert exists("bayeslaw.core.files")
    assert exists("bayeslaw.plots.plot_pair")
    assert not exists("bayeslaw.plots.plot_fit")
    files = [file for ending in ("py", "pyi", "toml") for file in sorted(ROOT.rglob(f"*.{ending}"))]
    named = {(match[0], file.relative_to(ROOT)) for file in files for match in NAME.finditer(file.read_text(encoding="utf-8"))}
    wrong = [f"{file}: {name}" for name, file in sorted(named) if not exists(name)]
    assert not wrong, "\n".join(wrong)
