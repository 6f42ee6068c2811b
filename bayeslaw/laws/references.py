"""References of laws as BibTeX entries: those that come with bayeslaw, and those that a card of one's own states."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bayeslaw.core.errors import BayeslawError, nearest, shortened
from bayeslaw.laws.formula import GREEK

_HEAD = re.compile(r"@\s*([A-Za-z]+)\s*\{\s*([\w:.+/-]+)\s*,", re.ASCII)
_FIELD = re.compile(r"\s*([A-Za-z][\w-]*)\s*=\s*", re.ASCII)
_COMMAND = re.compile(r"\\([A-Za-z]+|.)|\^\^", re.DOTALL)
# What names and titles need; a .bib file ends in LaTeX, where other commands could read or write files.
_COMMANDS = frozenset("bcdHkrtuvijoOlL'`^\"~=.&%$#_{}- /,@") | {
    "ss", "ae", "AE", "oe", "OE", "aa", "AA", "url", "emph", "leq", "geq", "times", "pm", "dots", "to", *filter(None, GREEK),
}  # fmt: skip


@dataclass(frozen=True)
class Reference:
    """A BibTeX entry.

    Attributes
    ----------
    kind, key : str
        Such as article and hoffmann2022.
    fields : mapping of name to text
        As BibTeX has them, without the outer braces.
    """

    kind: str
    key: str
    fields: Mapping[str, str]

    @property
    def bibtex(self) -> str:
        """The entry as text."""
        width = max(map(len, self.fields))
        lines = [f"  {name:<{width}} = {{{value}}}" for name, value in self.fields.items()]
        return f"@{self.kind}{{{self.key},\n" + ",\n".join(lines) + "\n}"


def read_bibtex(text: str) -> dict[str, Reference]:
    """Read BibTeX entries by key; what stands between entries is a comment.

    Raises
    ------
    BayeslawError
        With code 'not-bibtex', where an entry can't be read; `@string` and `#` are not understood.

    Examples
    --------
    >>> from bayeslaw.laws.references import read_bibtex
    >>> read_bibtex('@misc{a, title = {On {PyMC}}, year = 2026}')["a"].fields
    {'title': 'On {PyMC}', 'year': '2026'}
    """
    entries, at = dict[str, Reference](), text.find("@")
    while at >= 0:
        entry, end = _entry(text, at)
        if entry.key in entries:
            raise _fault(f"{entry.key} is given twice", text[at:])
        entries[entry.key] = entry
        at = text.find("@", end)
    return entries


def _entry(text: str, start: int) -> tuple[Reference, int]:
    """Return the entry that starts at an index, and the index behind its end."""
    if not (head := _HEAD.match(text, start)):
        raise _fault("an entry begins like @article{key2026,", text[start:])
    fields, at = dict[str, str](), head.end()
    while match := _FIELD.match(text, at):
        value, at = _value(text, match.end())
        name = match[1].lower() if match[1].lower() != "archiveprefix" else "archivePrefix"
        if name in fields:
            raise _fault(f"{name} is given twice", text[start:])
        fields[name] = value
        if not (comma := re.compile(r"\s*,").match(text, at)):
            break
        at = comma.end()
    if not (end := re.compile(r"\s*\}").match(text, at)):
        raise _fault("a field is like title = {A title}, with a comma between fields and } at the end", text[at:] or text[start:])
    if "title" not in fields:
        raise _fault("an entry needs a title", text[start:])
    return Reference(head[1].lower(), head[2], fields), end.end()


def _value(text: str, start: int) -> tuple[str, int]:
    """Return the value of a field without its braces or quotes, and the index behind it."""
    if number := re.compile(r"\d+").match(text, start):
        return number[0], number.end()
    opened = text[start : start + 1]
    if opened not in ("{", '"'):
        raise _fault("a value is in braces or quotes, or is a number", text[start:])
    depth = 0
    for at in range(start + (opened == '"'), len(text)):
        if opened == '"' and depth == 0 and text[at] == '"':
            return _checked(text[start + 1 : at]), at + 1
        depth += (text[at] == "{") - (text[at] == "}")
        if opened == "{" and depth == 0:
            return _checked(text[start + 1 : at]), at + 1
        if depth < 0:
            break
    raise _fault("braces or quotes are not closed", text[start:])


def _checked(value: str) -> str:
    """Return a value on one line; commands of LaTeX beyond accents, and characters that can't be shown, are refused."""
    line = " ".join(value.split())
    if not line or not line.isprintable():
        raise _fault("a value is a text that can be shown", value)
    for command in _COMMAND.finditer(line):
        if command[1] not in _COMMANDS and not (command[1] or "").startswith("text"):
            raise _fault(f"{command[0]} is not allowed, only accents, \\url and \\emph", line)
    return line


def _fault(problem: str, text: str) -> BayeslawError:
    return BayeslawError(f"This is not a BibTeX entry, since {problem}: {shortened(repr(text[:60]))}.", code="not-bibtex")


@cache
def bibliography() -> Mapping[str, Reference]:
    """Return the entries that come with bayeslaw, by key."""
    return read_bibtex(Path(__file__).with_name("references.bib").read_text(encoding="utf-8"))


def read_references(given: object) -> tuple[Reference, ...]:
    """Return the references of a card: a list of keys of `bibliography` and of whole entries."""
    if not isinstance(given, Sequence) or isinstance(given, str) or not all(isinstance(text, str) for text in given):
        problem = f"`references` is a list of keys or BibTeX entries, not {shortened(repr(given))}."
        raise BayeslawError(problem, code="not-a-list-of-texts")
    known, references = bibliography(), dict[str, Reference]()
    for text in given:
        if "@" not in text and text not in known:
            advice = f"known keys are {', '.join(known)}; or write a whole BibTeX entry.{nearest(text, known)}"
            raise BayeslawError(f"There is no reference {shortened(repr(text))}; {advice}", code="unknown-reference")
        for reference in read_bibtex(text).values() if "@" in text else [known[text]]:
            if references.setdefault(reference.key, reference) != reference:
                raise BayeslawError(f"Two references have the key {reference.key!r}.", code="given-twice")
    return tuple(references.values())
