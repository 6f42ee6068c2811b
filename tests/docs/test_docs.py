"""Every code block of the README and of the documentation runs, and prints what the text says it prints."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayeslaw.cli import main as cli
from bayeslaw.data.table import read_runs
from bayeslaw.laws.card import load_law
from bayeslaw.schedules.schedule import wsd
from tests import events, oracles
from tests.hosts import CHINCHILLA, publish, serving
from tests.stores import in_files

pytestmark = pytest.mark.usefixtures("kept_draws_of_workers")  # pages fit the same tables
HERE = Path(__file__).parents[2]
PAGES = sorted(
    str(p.relative_to(HERE))
    for p in [*HERE.glob("*.md"), *(HERE / "docs").glob("*.md"), *(HERE / "docs").glob("*/*.md")]
    if "_made" not in str(p)
)
SHARED = Path(os.environ.get("BAYESLAW_SHARED_DATA", HERE.parent / "shared" / "data"))
QUICKSTART, LOSSES = "docs/quickstart.md", "docs/howto/losses.md"
PLANNING = (
    "README.md",
    "docs/howto/compute.md",
    "docs/howto/many-fits.md",
    "docs/howto/report.md",
)  # pages about models of usual sizes
LANGUAGES = {"sh", "python", "text", "csv", "toml"}
NEAR = 0.02  # how near numbers come to those that a page shows: draws have other last digits on other machines
FAR = {"docs/howto/replay-plan.md": 0.1, "docs/howto/compute.md": 0.1}  # of pages that show what few draws in a tail choose
REFUSED = "# ends with status 2"
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, but for Sphinx's own (```{toctree})."""
    found: list[Block] = []
    opened: tuple[str, int] | None = None
    lines: list[str] = []
    for number, line in enumerate((HERE / page).read_text(encoding="utf-8").splitlines(), start=1):
        if opened is None and line.startswith("```"):
            opened, lines = (line.removeprefix("```").strip(), number), []
        elif opened is not None and line == "```":
            if not opened[0].startswith("{"):
                found.append(Block(opened[0], "\n".join(lines) + "\n", opened[1]))
            opened = None
        else:
            lines.append(line)
    assert opened is None, f"{page}: the block of line {opened and opened[1]} has no end"
    return found


@dataclass
class Reader:
    """Someone who follows a page, block by block, in a folder."""

    page: str
    folder: Path
    scope: dict[str, Any] = field(default_factory=dict)
    printed: str = ""
    did: int = 0

    def follow(self) -> None:
        for block in blocks(self.page):
            with contextlib.chdir(self.folder):
                (self.file if block.text.startswith("# file: ") else getattr(self, block.language))(block)
            self.did += 1

    def python(self, block: Block) -> None:
        with warnings.catch_warnings():
            # ArviZ's own, which a page says may come: a k near the limit is above it on some processors, by the draws' last digits.
            warnings.filterwarnings("ignore", "Estimated shape parameter of Pareto distribution", UserWarning)
            self.printed = self.run(lambda: exec(compile(block.text, f"{self.page}:{block.line}", "exec"), self.scope))

    def sh(self, block: Block) -> None:
        self.printed = ""
        for line in block.text.replace("\\\n", " ").splitlines():
            # A shell splits the line; bayeslaw itself then runs in this process, where warnings are errors.
            split = 'printf "%s\\0" ' + line if line.startswith("bayeslaw ") else line
            done = subprocess.run(["bash", "-euc", split], stdout=subprocess.PIPE, text=True, check=True)
            if line.startswith("bayeslaw "):
                self.printed += self.run(partial(command, done.stdout.split("\0")[:-1], 2 if line.endswith(REFUSED) else 0))

    def text(self, block: Block) -> None:
        """What is shown after a command was printed by it, line for line, with numbers as near as those of a page come."""
        within, told = FAR.get(self.page, NEAR), iter(self.printed.splitlines())
        for line in filter(None, block.text.splitlines()) if self.printed else ():
            assert any(alike(line, other, within) for other in told), (
                f"{self.page}:{block.line}: {line!r} is not in\n{self.printed}"
            )

    def csv(self, block: Block) -> None:
        assert len(read_runs(pd.read_csv(io.StringIO(block.text)))) == block.text.count("\n") - 1

    def file(self, block: Block) -> None:
        """A block whose first line names a file is that file; a card is a law."""
        first, _, rest = block.text.partition("\n")
        name = first.removeprefix("# file: ")
        Path(name).write_text(rest, encoding="utf-8")
        if "\nformula" in rest:
            load_law(name)

    def run(self, what: Any) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            what()
        return out.getvalue()


def command(words: list[str], status: int = 0) -> None:
    """Run the command line in this process; it ends with this status."""
    given, sys.argv = sys.argv, words
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        sys.argv = given
    assert (ended.value.code or 0) == status, f"{' '.join(words)} ended with {ended.value.code}"


def alike(shown: str, printed: str, within: float) -> bool:
    """Whether two lines say the same words and nearly the same numbers; of spaces any number."""
    if NUMBER.sub("#", " ".join(shown.split())) != NUMBER.sub("#", " ".join(printed.split())):
        return False
    mine, its = (np.array([float(n.replace(",", "")) for n in NUMBER.findall(line)]) for line in (shown, printed))
    return bool(np.allclose(mine, its, rtol=within, atol=0.1 * within))


@pytest.fixture(scope="module")
def began(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of someone who has followed the quickstart."""
    folder = tmp_path_factory.mktemp("quickstart")
    Reader(QUICKSTART, folder).follow()
    return folder


def test_no_page_is_forgotten() -> None:
    assert {QUICKSTART, LOSSES, "README.md", "CONTRIBUTING.md", "docs/index.md", "docs/howto/own-card.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page: str) -> None:
    assert [(b.line, b.language) for b in blocks(page) if b.language not in LANGUAGES] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (HERE / page).read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    here = [link for link in links if link and "://" not in link and "_made" not in link]
    assert [link for link in here if not ((HERE / page).parent / link).exists()] == []


@pytest.mark.statistical
def test_the_quickstart(began: Path) -> None:
    assert {p.name for p in began.iterdir()} >= {"S.nc", "T.nc", "forecast.csv", "forecast.png"}


def training_logs(folder: Path) -> None:
    """Event files, a store and checkpoints, as training programs leave them."""
    for run, start in (("small", 3.5), ("large", 3.25)):
        seen = [events.event(s, float(s), events.simple("eval/loss", start - s / 4096)) for s in (1000, 2000)]
        events.write(folder / "logs" / run / "events.out.tfevents.1700000001.host", seen)
    settings = {"n_params": "124e6", "tokens_per_step": "524288"}
    in_files(folder, [("ladder", "small", "active", {"eval_loss": [(3.5, 1000)]}, settings)])
    for last in (500, 1000):
        history = [{"step": s, "epoch": s / 1000, "eval_loss": 3.5 - s / 4096} for s in range(250, last + 1, 250)]
        path = folder / "trained" / f"checkpoint-{last}" / "trainer_state.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"global_step": last, "log_history": history}), encoding="utf-8")


@pytest.mark.statistical
def test_the_page_of_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training_logs(tmp_path)
    with serving(tmp_path, monkeypatch) as root:
        publish(monkeypatch, root, "chinchilla", {"data/svg_extracted_data.csv": CHINCHILLA.encode()})
        reader = Reader(LOSSES, tmp_path)
        reader.follow()
    assert reader.did == len(blocks(LOSSES))


@pytest.mark.statistical
@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.startswith("docs/") and p not in (QUICKSTART, LOSSES, *PLANNING) and blocks(p)]
)
def test_a_page(page: str, began: Path, tmp_path: Path) -> None:
    shutil.copytree(began, tmp_path, dirs_exist_ok=True)
    reader = Reader(page, tmp_path)
    reader.follow()
    assert reader.did == len(blocks(page))


def test_modules_that_pages_name_exist() -> None:
    packages = {path.parent.name for path in (HERE / "bayeslaw").glob("*/__init__.py")}
    for page in PAGES:
        text = (HERE / page).read_text(encoding="utf-8")
        for package, name in re.findall(r"`(?:bayeslaw\.)?(\w+)\.(\w+)`", text):
            if package in packages and name != "md" and "decisions" not in page:
                assert find_spec(f"bayeslaw.{package}.{name}") or hasattr(import_module(f"bayeslaw.{package}"), name), (page, name)


def test_every_check_is_explained() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (HERE / "bayeslaw").rglob("*.py"))
    names = set(re.findall(r'\b(?:Check|TableNote)\("([\w-]+)"', code))
    assert len(names) > 15
    page = (HERE / "docs/howto/checks.md").read_text(encoding="utf-8")
    assert {name for name in names if f"`{name}`" not in page} == set()


def test_both_tables_of_questions_lead_to_every_page() -> None:
    pages = {path.stem for path in (HERE / "docs/howto").glob("*.md")}
    for start, folder in (("README.md", "docs/howto/"), ("docs/index.md", "howto/")):
        text = (HERE / start).read_text(encoding="utf-8")
        missing = pages - set(re.findall(rf"\({folder}([\w-]+)\.md\)", text)) - {"checks"}
        assert not missing, f"the table of questions in {start} has no line for {', '.join(sorted(missing))}"


# --- the README and pages about models of a size that people plan with -----------------------------------------------------

GENTLE = {
    "transfer-source": {"S": 0.03, "J": 0.005},
    "transfer-target": {"c": 0.2},
}  # little forgetting, and replay that costs little, so that the README's limits are not out of reach


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the tables that the README speaks of: losses simulated from the laws, curves of two runs."""
    folder = tmp_path_factory.mktemp("readme")
    for domain, name in (("target", "runs.csv"), ("source", "source.csv")):
        adaptations(f"transfer-{domain}", (15.0, 31.0, 279.0)).to_csv(folder / name, index=False)
    table = adaptations("transfer-target", (124.0,))
    table[table["N"] == 241e6].to_csv(folder / "new.csv", index=False)
    asked = pd.DataFrame({"N": 8.1e9, "ptpp": 279, "r": [0.1, 0.25], "D": 5e10})
    asked.to_csv(folder / "at.csv", index=False)
    pool = table[(table["D"] > 0) & (table["N"] < 1e9)].drop(columns=["loss", "checkpoint"])
    pool.assign(ptpp=279, run="new " + pool["run"]).to_csv(folder / "candidates.csv", index=False)
    for law in ("cpt-joint", "chinchilla"):
        oracles.table(load_law(law), runs=12).to_csv(folder / f"{law}.csv", index=False)
    log = pd.DataFrame({"run_name": "run-a", "_step": [1000, 2000, 3000], "eval/loss": [3.25, 3.0, 2.875]})
    log.to_csv(folder / "export.csv", index=False)
    curves(1).to_csv(folder / "curves.csv", index=False)
    curves(80, after=2160).to_csv(folder / "sparse.csv", index=False)
    with contextlib.chdir(folder):
        command(["bayeslaw", "fit", "transfer-target", "runs.csv", "-o", "T.nc", "-q"])
        command(["bayeslaw", "fit", "transfer-source", "source.csv", "-o", "S.nc", "-q"])
        for law in ("cpt-joint", "chinchilla"):
            command(["bayeslaw", "fit", law, f"{law}.csv", "-o", f"{law}.nc", "-q"])
    yield folder
    assert not [p.name for p in HERE.iterdir() if p.suffix == ".nc"], "a block wrote into the checkout"


def adaptations(name: str, stages: tuple[float, ...]) -> pd.DataFrame:
    """Adaptations of four sizes at some stages of pre-training, simulated from a law."""
    law, rng, rows = load_law(name), np.random.default_rng(len(stages)), []
    for size in (120e6, 241e6, 517e6, 1.3e9):
        for ptpp in stages:
            checkpoint = f"{size:g}-{ptpp:g}"
            rows.append((checkpoint, checkpoint, size, 0.0, np.nan, ptpp))
            for r in (0.1, 0.25, 0.5):
                rows += [(f"{checkpoint}-{r}", checkpoint, size, k * size, r, ptpp) for k in (1, 4, 16)]
    table = pd.DataFrame(rows, columns=["run", "checkpoint", "N", "D", "r", "ptpp"])
    filled = {c: table[c].fillna(0.0).to_numpy() for c in law.covariates}
    truth = {k: np.array([GENTLE[name].get(k, v)]) for k, v in oracles.typical(law).items()}
    loss = law.predict(truth, filled)[0]
    return table.assign(loss=loss * np.exp(0.003 * rng.standard_normal(len(table))))


def curves(every: int, after: int = 0) -> pd.DataFrame:
    """A pre-training and an adaptation of it, logged every so many steps; only the first, and not its warm-up, if `after` that."""
    parts = []
    for run, phase, parent, schedule in (
        ("pretrain-7", "pretrain", None, wsd(6000, 3e-4, warmup=2160)),
        ("adapt-7", "adapt", "pretrain-7", wsd(3000, 1e-4, warmup=100)),
    ):
        step = np.arange(every, len(schedule) + 1, every)
        step = step[step >= after]
        table = pd.DataFrame({"run": run, "phase": phase, "parent": parent, "step": step, "lr": schedule.rates[step - 1]})
        seen = step % 400 == 0
        losses = {
            f"{d}_loss": np.where(seen, at - fall * step, np.nan) for d, at, fall in (("source", 2.5, 5e-5), ("target", 3.0, 1e-4))
        }
        parts.append(table.assign(**losses))
    return parts[0] if after else pd.concat(parts, ignore_index=True)


@pytest.mark.statistical
@pytest.mark.parametrize("page", PLANNING)
def test_a_page_about_models_of_usual_sizes(page: str, logged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(logged, folder := tmp_path / "folder")
    reader = Reader(page, folder)
    if page != "README.md":
        reader.follow()
    elif not (SHARED / "chinchilla.csv").exists():
        pytest.skip("the README's first lines need the public losses of Chinchilla, which are not here")
    else:
        table = pd.read_csv(SHARED / "chinchilla.csv")
        (folder / "chinchilla.csv").unlink()  # simulated, and fetched here
        published = table.rename(columns={"N": "Model Size", "C": "Training FLOP"})[["Model Size", "Training FLOP", "loss"]]
        with serving(tmp_path, monkeypatch) as root:
            publish(monkeypatch, root, "chinchilla", {"data/svg_extracted_data.csv": published.to_csv(index=False).encode()})
            reader.follow()
    assert reader.did == len(blocks(page))


# --- the site ---------------------------------------------------------------------------------------------------------


def test_architecture_has_a_row_for_every_package_and_names_files_that_exist() -> None:
    text = (HERE / "docs/architecture.md").read_text(encoding="utf-8")
    packages = {path.parent.name for path in (HERE / "bayeslaw").glob("*/__init__.py")}
    table = text[text.index("| package |") : text.index("A law is one TOML card")]
    assert set(re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)) == packages
    assert {path.stem for path in (HERE / "docs/decisions").glob("*.md")} == packages | {"README", "tests"}
    named = re.findall(r"`((?:bayeslaw|tests)/[\w/.]+)`", text)
    assert len(named) > 20
    assert [name for name in named if not (HERE / name).exists()] == []


def test_the_gallery_knows_no_law_by_name() -> None:
    text = (HERE / "docs/make.py").read_text(encoding="utf-8")
    assert [p.stem for p in (HERE / "models").glob("*.toml") if f'"{p.stem}"' in text] == []


def test_numbers_name_what_prints_them() -> None:
    """Every file of results that a text names is there, and says in its first lines which command made it."""
    named = {name for page in PAGES for name in re.findall(r"\b(\w+\.md)\b", (HERE / page).read_text(encoding="utf-8"))}
    results = HERE / "benchmarks" / "results"
    for name in sorted(named & {p.name for p in results.glob("*.md")}):
        assert "python benchmarks/" in (results / name).read_text(encoding="utf-8")[:400], name
