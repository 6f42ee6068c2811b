"""Cards whose texts would do something to LaTeX, to a page, to a terminal or to a picture."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import h5py
import pytest
from markupsafe import escape

from bayeslaw.core.errors import CardError
from bayeslaw.laws.card import card_folder, parse_card
from bayeslaw.laws.pooling import with_by, with_levels
from bayeslaw.plots.style import finish, save_figure
from bayeslaw.reporting.html import page
from bayeslaw.reporting.latex import files
from bayeslaw.reporting.report import report
from tests.commands import Command, rejected
from tests.errors import fails
from tests.fixed import LINE, apart_fit, line_fit

CARD = (card_folder() / "chinchilla.toml").read_text(encoding="utf-8")


def with_symbol(symbol: str) -> str:
    return CARD.replace("[parameters.E]", f"[parameters.E]\nlatex = {json.dumps(symbol, ensure_ascii=False)}")


SYMBOLS = [
    r"\input{/etc/passwd}", r"\write18{touch hacked}", r"\immediate\openout", r"\csname input\endcsname", r"\catcode`\%=12",
    r"\def\x{}", r"\let\x", r"\loop\iftrue\repeat", r"\href{javascript:alert(1)}{E}", r"\includegraphics{x}", r"\begin{document}",
    r"\end{document}", r"^^5cinput{x}", r"^^ 5c", "a^^b", "a_", "a^}", "$a$", "a%", "a&b", "a#1", "a~b", "a\\\\b", "\\", "é",
    "α", "{a", "a}", "a}b{", "", "x" * 81, r"\bta", r"\special{x}", r"\url{x}", '"<script>', "`ls`", "\\@input", r"\text{a$b$}",
]  # fmt: skip


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_what_is_no_symbol_never_reaches_latex(symbol: str) -> None:
    with fails("not-a-symbol", "card, line 15: `latex` of E", kind=CardError):
        parse_card(with_symbol(symbol))


@pytest.mark.parametrize("symbol", ["L_0", r"\beta'", r"R_N^*", r"S_1^{\mathrm{pt}}", r"\hat{\Omega}_{\text{a b}}", "|a|^{-1/2}"])
def test_symbols_are_kept_as_they_are(symbol: str) -> None:
    assert parse_card(with_symbol(symbol)).parameters["E"].latex == symbol


def test_a_card_within_the_file_of_a_fit_is_no_way_around(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "fit.nc"
    line_fit().save(path)
    with h5py.File(path, "r+") as file:  # without its checksum, as another program leaves it
        file.attrs["card"] = file.attrs["card"].replace("[parameters.a]", '[parameters.a]\nlatex = "\\\\input{x}"')
    rejected(command("show", path, "--latex", "--force"), "not-a-symbol", "\\input is not allowed")


TEXTS = {
    "title": CARD.replace('title  = "', 'title  = "\\u001b]0;x\\u0007'),
    "source": CARD.replace('source = "', 'source = "\\u0000'),
    "note": CARD.replace('note   = "', 'note   = "\\u009b2J'),
    "meaning": CARD.replace('meaning = "', 'meaning = "\\u0008'),
    "unit of a covariate": CARD.replace('unit = "parameters"', 'unit = "\\u001b[2J"'),
    "unit of a parameter": CARD.replace('unit    = "nats/token"', 'unit = "\\u202e"'),
    "published values": f'{CARD}\n[published."\\u001b[2J"]\nE = 1.0\n',
    "a published value": f'{CARD}\n[published.x]\n"\\u001b[2J" = 1.0\n',
}


@pytest.mark.parametrize("name", TEXTS)
def test_commands_to_a_terminal_are_refused_in_every_text(name: str) -> None:
    with fails("control-characters", kind=CardError):
        parse_card(TEXTS[name])


HARMLESS = [r"\input{/etc/passwd}", "<script>alert(1)</script>", r"$\frac$ %&#_{}~^", "{{ 7*7 }}", "]]>", "-->", "'\"`"]


def test_other_texts_are_escaped_in_latex_and_on_the_page() -> None:
    """A report shows them all: title, source, note, meaning, unit, and the names of a fit and of groups."""
    text = " ".join(HARMLESS)
    written = json.dumps(text)
    card = LINE.replace('"a test"', written).replace('"level"', f"{written}\nunit = {written}")
    card = card.replace('"Log loss that is linear in its parameters"', written).replace(
        "[covariates]", f"note = {written}\n[covariates]"
    )
    fit = apart_fit(labs=("a", r"$\frac$<b>%"))
    made = report({text: replace(fit, law=with_levels(with_by(parse_card(card), {"a": "domain"}), fit.law.levels))})
    shown = page(made.facts, dict.fromkeys(made.pictures, b""))
    latex = b"".join(files(made.facts).values()).decode()
    assert "<script>alert" not in shown
    assert shown.count(str(escape(text))) > 5
    assert all(unsafe not in latex for unsafe in (r"\input{/", r"$\frac$", "%&", "#_"))


@pytest.mark.parametrize("name", [r"$\frac$", "$", "$$", r"\$a$", r"$\input{x}$"])
def test_names_with_dollars_are_drawn_as_they_are(name: str, tmp_path: Path) -> None:
    save_figure(tmp_path / "picture.svg", lambda ax: ax.plot([1, 2], [1, 2], label=name) and finish(ax, name, "loss", name))
    assert (tmp_path / "picture.svg").stat().st_size > 1_000
