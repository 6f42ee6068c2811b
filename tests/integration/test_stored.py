"""benchmarks/stored.py: records of a stopped run, and digests of what they depend on."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path

from stored import Store, digest


def test_records_outlive_a_killed_process_but_for_the_line_it_was_writing(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.jsonl"
    store = Store(path)
    for number in (2, 0, 1):
        store.add({"number": number, "value": number / 3})
    path.write_text(path.read_text()[:-4])
    again = Store(path)
    assert again.all() == [{"number": 0, "value": 0.0}, {"number": 2, "value": 2 / 3}]
    assert again.first(2) == [{"number": 0, "value": 0.0}]
    again.add({"number": 1, "value": 1.0})
    assert Store(path).first(3) == again.all()


def test_records_may_have_other_keys_than_numbers(tmp_path: Path) -> None:
    store = Store(tmp_path / "a.jsonl", itemgetter("law", "seed"))
    store.add({"law": "kaplan", "seed": 1})
    assert list(Store(store.path, store.key).known) == [("kaplan", 1)]


def test_a_digest_is_of_code_files_and_settings(tmp_path: Path) -> None:
    card = tmp_path / "card.toml"
    card.write_text("a")
    whole = digest(card, settings={"draws": 100})
    assert whole == digest(card, settings={"draws": 100})
    others = {digest(settings={"draws": 100}), digest(card), digest(card, settings={"draws": 100}, without={"plots"})}
    card.write_text("b")
    assert len({whole, digest(card, settings={"draws": 100}), *others}) == 5
