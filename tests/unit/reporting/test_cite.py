"""What is to be cited: every part of a fit, each entry once, as BibTeX."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

import bayeslaw
from bayeslaw.core.errors import CardError
from bayeslaw.forecasting.stack import Stack
from bayeslaw.laws.card import parse_card
from bayeslaw.laws.references import read_bibtex
from bayeslaw.posterior.fit import Fit
from tests.commands import Command, rejected
from tests.errors import fails
from tests.fixed import LINE, line_fit

ALWAYS = ["hoffman2014", "seyboldt2026", "nutpie", "abrilpla2023", "martin2026", "bayeslaw"]


def keys(bibtex: str) -> list[str]:
    """Keys of entries, found without our own reader: an entry begins a line, fields follow, and } ends it on a line of its own."""
    entries = re.findall(r"^@([a-z]+)\{([^,\s]+),\n((?:  [A-Za-z]+ *= \{.*\},?\n)+)\}$", bibtex, flags=re.MULTILINE)
    for _, _, body in entries:
        lines = body.splitlines()
        assert [line.endswith("},") for line in lines] == [True] * (len(lines) - 1) + [False]
        for line in lines:
            depth = 0
            for character in line:
                depth += (character == "{") - (character == "}")
                assert depth >= 0
            assert depth == 0
    outside = re.sub(r"^@.*?^\}$", "", bibtex, flags=re.MULTILINE | re.DOTALL)
    assert all(line.startswith("% ") for line in outside.splitlines() if line.strip())
    assert "@" not in outside
    assert len(entries) == len(re.findall("^@", bibtex, flags=re.MULTILINE))
    return [key for _, key, _ in entries]


def test_a_law_is_cited_with_what_fits_it() -> None:
    assert keys(bayeslaw.cite("annealing")) == ["tissue2024", "wang2025", *ALWAYS]
    assert keys(bayeslaw.cite("kaplan", "kaplan", bayeslaw.load_law("chinchilla"))) == ["kaplan2020", "hoffmann2022", *ALWAYS]


def test_versions_are_those_of_the_fit(sound_fit: Fit) -> None:
    fit = replace(sound_fit, info={**sound_fit.info, "versions": {"bayeslaw": "0.0.1", "nutpie": "0.2", "pymc": "6.0"}})
    entries = read_bibtex(bayeslaw.cite(fit))
    assert entries["bayeslaw"].fields["note"] == f"version 0.0.1; law chinchilla; {fit.noise.text}"
    assert [entries[k].fields.get("note") for k in ("nutpie", "abrilpla2023", "martin2026")] == ["version 0.2", "version 6.0", None]
    assert read_bibtex(bayeslaw.cite("kaplan"))["nutpie"].fields["note"] == f"version {version('nutpie')}"
    newer = replace(sound_fit, info={**sound_fit.info, "versions": {"bayeslaw": "0.0.1", "nutpie": "0.3", "pymc": "6.0"}})
    both = read_bibtex(bayeslaw.cite(fit, newer))
    assert [both[k].fields["note"] for k in ("nutpie", "abrilpla2023")] == ["version 0.2 and 0.3", "version 6.0"]


def test_several_fits_are_given_one_after_another() -> None:
    with fails("not-a-fit", "cite(first, second), not as a list"):
        bayeslaw.cite([line_fit(), line_fit()])  # type: ignore[arg-type]


def test_the_noise_is_cited_where_it_rests_on_a_source() -> None:
    assert keys(bayeslaw.cite(line_fit(noise="normal"))) == ["law-line", *ALWAYS]
    assert keys(bayeslaw.cite(line_fit(noise="student"))) == ["law-line", "juarez2010", *ALWAYS]
    assert keys(bayeslaw.cite(line_fit(noise="normal-drift"))) == ["law-line", "uhlenbeck1930", *ALWAYS]


def test_a_stack_cites_every_law_once(sound_fit: Fit, ptpp_fit: Fit) -> None:
    stack = Stack({"a": sound_fit, "b": ptpp_fit, "c": ptpp_fit}, {"a": 0.5, "b": 0.25, "c": 0.25})
    assert keys(bayeslaw.cite(stack)) == ["hoffmann2022", "goffinet2025", *ALWAYS]


def test_a_card_within_an_older_fit_has_no_references_but_its_law_has(sound_fit: Fit) -> None:
    older = replace(sound_fit, law=replace(sound_fit.law, references=()))
    assert keys(bayeslaw.cite(older)) == ["hoffmann2022", *ALWAYS]
    other = replace(sound_fit, law=replace(sound_fit.law, references=(), source="my own chinchilla"))
    assert keys(bayeslaw.cite(other)) == ["law-chinchilla", *ALWAYS]


def test_texts_of_a_card_can_not_break_the_entries() -> None:
    text = json.dumps("}, @misc{x, title = {\\input{y}} % & $ <script>")
    law = parse_card(LINE.replace('"a test"', text).replace('"line"', text, 1))
    (own, *_) = read_bibtex(bayeslaw.cite(law)).values()
    assert "\\input" not in own.fields["note"]
    assert len(keys(bayeslaw.cite(law))) == 1 + len(ALWAYS)


def test_references_with_the_same_key_must_agree() -> None:
    laws = [
        parse_card(LINE.replace("\nloss ", f'\nreferences = ["@misc{{a, title = {{{title}}}}}"]\nloss ', 1))
        for title in ("One", "Two")
    ]
    assert keys(bayeslaw.cite(laws[0], laws[0])) == ["a", *ALWAYS]
    with fails("given-twice", "'a'"):
        bayeslaw.cite(*laws)


def test_what_can_not_be_cited_is_refused() -> None:
    with fails("nothing-to-cite"):
        bayeslaw.cite()
    with fails("unknown-law", "chinchila", kind=CardError):
        bayeslaw.cite("chinchila")


def test_the_package_is_cited_as_its_citation_file_says() -> None:
    text = (Path(bayeslaw.__file__).parents[1] / "CITATION.cff").read_text(encoding="utf-8")
    file = dict(re.findall(r'^[ -]*(title|name|version): "?(.*?)"?$', text, flags=re.MULTILINE))
    own = read_bibtex(bayeslaw.cite("kaplan"))["bayeslaw"].fields
    assert own["title"].replace("{", "").replace("}", "") == file["title"]
    assert own["author"] == f"{{{file['name']}}}"
    assert own["note"].startswith(f"version {file['version']};")


@pytest.mark.slow
def test_the_command_prints_or_writes_them(command: Command, folder: Path) -> None:
    done = command("cite", "fit.nc")
    assert done.status == 0
    assert done.out == bayeslaw.cite(bayeslaw.load_fit("fit.nc"))
    assert keys(done.out) == ["hoffmann2022", *ALWAYS]
    assert command("cite", "fit.nc", "card.toml", "d-cpt", "-o", "refs.bib").status == 0
    assert keys((folder / "refs.bib").read_text(encoding="utf-8")) == ["hoffmann2022", "que2024", "goffinet2025", *ALWAYS]
    assert json.loads(command("cite", "kaplan", "--json").out)["results"]["bibtex"] == bayeslaw.cite("kaplan")
    rejected(command("cite", "fit.nc", "-o", "refs.txt"), "wrong-ending")
    rejected(command("cite", "none.nc"), "missing-file")
    rejected(command("cite", "text.nc"), "unreadable-file")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["failed.nc", "fit.nc"])
def test_a_fit_whose_checks_failed_can_be_cited(command: Command, folder: Path, name: str) -> None:
    assert command("cite", name).status == 0


def test_a_narrow_terminal_breaks_no_entry(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert command("cite", "chinchilla").out == bayeslaw.cite("chinchilla")
    assert json.loads(command("laws", "--schema").out)["$id"].startswith("urn:bayeslaw:card")
