"""References of cards: BibTeX that is read, written and refused."""

from __future__ import annotations

import json
import re

import pytest

from bayeslaw.core.errors import CardError
from bayeslaw.laws.card import law_names, load_law, parse_card
from bayeslaw.laws.law import Law
from bayeslaw.laws.references import bibliography, read_bibtex, read_references
from tests.errors import fails
from tests.fixed import LINE

ENTRY = """Some words before.
@Article{smith2026,
  author = {Smith, A. and M{\\"u}ller, B.},
  title = "On {Scaling}
           Laws",
  year = 2026, Pages = {1--2},
}
"""


def test_an_entry_is_read_in_any_layout() -> None:
    (entry,) = read_bibtex(ENTRY).values()
    assert (entry.kind, entry.key) == ("article", "smith2026")
    expected = {"author": 'Smith, A. and M{\\"u}ller, B.', "title": "On {Scaling} Laws", "year": "2026", "pages": "1--2"}
    assert entry.fields == expected


def test_what_is_written_is_read_again() -> None:
    entries = {**bibliography(), **read_bibtex(ENTRY)}
    assert read_bibtex("\n\n".join(entry.bibtex for entry in entries.values())) == entries


@pytest.mark.parametrize(
    "text",
    [
        "@article{smith2026}",
        "@article{two words, title = {A}}",
        "@article{a, title = {A}",
        "@article{a, title = {A}}}@",
        "@article{a, title = {A{}}",
        '@article{a, title = "A}',
        "@article{a, title = A}",
        "@article{a, title = {A} year = 2026}",
        "@article{a, title = {A}, title = {B}}",
        "@article{a, title = {}}",
        "@article{a, year = 2026}",
        "@string{x = {y}}",
        "@article{a, title = {\\input{/etc/passwd}}}",
        "@article{a, title = {^^5cinput{x}}}",
        "@article{a, title = {\x1b[2J}}",
        "@misc{a, title = {A}} @misc{a, title = {B}}",
    ],
)
def test_what_is_no_entry_is_refused(text: str) -> None:
    with fails("not-bibtex"):
        read_bibtex(text)


def test_a_card_names_references_or_brings_its_own() -> None:
    written = json.dumps(["kaplan2020", ENTRY])
    law = parse_card(LINE.replace('source = "a test"', f'source = "a test"\nreferences = {written}'))
    assert [r.key for r in law.references] == ["kaplan2020", "smith2026"]
    assert law.references[0] is bibliography()["kaplan2020"]


@pytest.mark.parametrize(
    ("given", "code", "values"),
    [
        (["kaplan202"], "unknown-reference", ["kaplan202", "kaplan2020"]),
        ("kaplan2020", "not-a-list-of-texts", ["kaplan2020"]),
        ([1], "not-a-list-of-texts", ["1"]),
        (["@misc{a, year = 1}"], "not-bibtex", ["title"]),
        (["kaplan2020", "@misc{kaplan2020, title = {Another}}"], "given-twice", ["kaplan2020"]),
    ],
)
def test_faults_of_references_name_their_line(given: object, code: str, values: list[str]) -> None:
    with fails(code, "card, line 5", *values, kind=CardError):
        parse_card(LINE.replace('source = "a test"', f'source = "a test"\nreferences = {json.dumps(given)}'))


def plain(key: str) -> str:
    """A key without the letter that tells papers of one author and year apart."""
    return re.sub(r"(?<=\d)[a-z]$", "", key)


def test_every_card_has_the_references_that_its_source_names(law: Law) -> None:
    """First author and year, as the sources have them."""
    keys = [r.key for r in law.references]
    assert keys
    named = re.findall(r"\b([A-Z][a-z]+)(?: et al\.| and [A-Z][a-z]+) (\d{4})", law.source)
    assert {f"{author.lower()}{year}" for author, year in named} <= {plain(key) for key in keys}
    assert len(keys) == len(set(named)) or law.name in ("forgetting", "midtraining", "replay-source", "replay-target")


@pytest.mark.slow
def test_every_entry_is_complete_and_in_use() -> None:
    used = {r.key for name in law_names() for r in load_law(name).references}
    programs = {"uhlenbeck1930", "juarez2010", "hoffman2014", "seyboldt2026", "abrilpla2023", "martin2026"}
    assert not used - set(bibliography()), "references of cards in models/ belong in bayeslaw/laws/references.bib"
    assert used | programs == set(bibliography())
    for key, entry in bibliography().items():
        assert {"author", "title", "year"} <= entry.fields.keys()
        assert plain(key).endswith(entry.fields["year"])
        assert {"doi", "eprint", "journal", "url"} & entry.fields.keys()
        assert re.fullmatch(r"10\.\d{4,}/\S+", entry.fields.get("doi", "10.1234/x"))
        assert re.fullmatch(r"\d{4}\.\d{4,5}", entry.fields.get("eprint", "2001.08361"))


def test_references_may_be_given_twice_when_they_agree() -> None:
    assert len(read_references(["kaplan2020", "kaplan2020"])) == 1
