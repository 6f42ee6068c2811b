"""Messages of the library are read in Python too: one that names an option of a command names the argument as well."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import bayeslaw
from bayeslaw.data.logs.mapping import CONSTANTS, READING

ROOT = Path(bayeslaw.__file__).parent
OPTION = re.compile(r"--[a-z][a-z-]*( [^\s()`;,]+)?")
COMMAND = re.compile(r"`bayeslaw [^`]+`")  # alone, it says by what a page was made
ARGUMENT = re.compile(r"[a-z_]+=|[a-z]\(|\bin Python\b|\bruns\.where\b")
NAMED = re.compile(r"--[a-z][a-z-]*[^,()]*, (?:of [^,()]*, )?([a-z_]+)=(?!=)")
PACKAGES = ("", ".core", ".data", ".schedules", ".inference", ".evaluation", ".design", ".planning", ".dynamics", ".plots")


def texts(file: Path) -> Iterator[str]:
    """The texts of a module other than docstrings, with X for each value in them."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    skipped |= {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node) if part is not node
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)


def for_commands_alone(text: str) -> bool:
    """Whether a text names an option and no argument; single words of commands are no messages."""
    if not OPTION.search(text) or OPTION.fullmatch(text) or COMMAND.fullmatch(text):
        return False
    return not ARGUMENT.search(OPTION.sub("", text))


def test_messages_that_name_options_name_arguments_too() -> None:
    assert for_commands_alone("fit with more (--draws 2000)")
    assert not for_commands_alone("fit with more (--draws 2000, draws=2000)")
    modules = [file for file in sorted(ROOT.rglob("*.py")) if file.relative_to(ROOT).parts[0] != "cli"]
    wrong = [f"{file.relative_to(ROOT)}: {text}" for file in modules for text in texts(file) if for_commands_alone(text)]
    assert not wrong, "\n".join(wrong)


def arguments() -> set[str]:
    """The names of all arguments of public functions, of their classes' methods, and of values of runs in logs."""
    values = [
        getattr(package, name) for package in map(import_module, (f"bayeslaw{p}" for p in PACKAGES)) for name in package.__all__
    ]
    functions = [value for value in values if callable(value)]
    functions += [
        method for value in values if inspect.isclass(value) for _, method in inspect.getmembers(value, inspect.isfunction)
    ]
    return {name for function in functions for name in _parameters(function)} | {*CONSTANTS, *READING}


def _parameters(function: object) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)  # type: ignore[arg-type]
    except ValueError:  # of classes without a signature, such as protocols
        return []


def test_arguments_that_messages_name_beside_options_are_there() -> None:
    """A message advised to leave out `nested=`, which no function has."""
    assert NAMED.findall("give more (--draws 2000, draws=2000), or a fit (--source, source=)") == ["draws", "source"]
    known, named = arguments(), list[tuple[str, str]]()
    for file in (file for file in sorted(ROOT.rglob("*.py")) if file.relative_to(ROOT).parts[0] != "cli"):
        named += [(name, text) for text in texts(file) for name in NAMED.findall(text)]
    assert len(named) > 50
    wrong = [f"{name}=: {text}" for name, text in named if name not in known]
    assert not wrong, "\n".join(wrong)
