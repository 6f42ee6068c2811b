"""The measured losses in data/tinycpt3 are complete, pass the checks of every card with PTPP, and are as their README says."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw.data.table import read_runs
from bayeslaw.data.validate import check
from bayeslaw.laws.card import law_names, load_law

DATA = Path(__file__).parents[2] / "data"
TABLE = DATA / "tinycpt3" / "runs.csv"
sys.path.insert(0, str(DATA / "tinycpt"))
from sweeps import TINYCPT3  # noqa: E402

GRID = {
    (12 * TINYCPT3.depths[width] * width**2, seed, ptpp, anneal, r)
    for part in TINYCPT3.grid
    for width in part.widths
    for seed in part.seeds
    for ptpp in part.stages
    for anneal in part.anneals
    for r in part.replay
}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.read_csv(TABLE)


@pytest.mark.parametrize("anneal", ["constant", "annealed"])
@pytest.mark.parametrize("domain", ["source", "target"])
def test_the_table_has_no_faults_for_any_card(anneal: str, domain: str) -> None:
    runs = read_runs(TABLE, f"domain == '{domain}' and anneal == '{anneal}'")
    laws = [law for name in law_names() if "ptpp" in (law := load_law(name)).covariates]
    assert {law.name: faults for law in laws if (faults := check(runs, law))} == {}


def test_the_grid_is_complete(table: pd.DataFrame) -> None:
    """Every run of the grid has both losses at 12 points and of its base checkpoint, and there are no other rows."""
    adapted, base = table[table["D"] > 0], table[table["D"] == 0]
    keys = ["N", "seed", "ptpp", "anneal"]
    rows = adapted.groupby([*keys, "r"])
    assert set(rows.groups) == GRID
    assert (rows.size() == 24).all()
    assert set(base.groupby(keys).groups) == {key[:4] for key in GRID}
    assert (base.groupby(keys)["domain"].agg(sorted).map(tuple) == ("source", "target")).all()
    assert not table.duplicated(["run", "domain", "D"]).any()


def test_rows_are_as_designed(table: pd.DataFrame) -> None:
    adapted, base = table[table["D"] > 0], table[table["D"] == 0]
    assert (table["N"] == 36 * table["width"] ** 2).all()
    assert (adapted["lr"] == 2e-3).all()
    assert np.allclose(base["lr"], base["anneal"].map({"constant": 4e-3, "annealed": 4e-4}))
    assert (adapted["flops"] == 6 * adapted["N"] * adapted["D"]).all()
    atpp = adapted["D"] / adapted["N"]
    assert atpp.between(0.49, 20.1).all()
    assert (TINYCPT3.adaptation_warmup <= 0.02 * adapted["step"] / atpp).all()


def test_no_run_reads_a_text_twice(table: pd.DataFrame) -> None:
    corpora = json.loads((DATA / "tinycpt3" / "corpora.json").read_text())
    assert (table["N"] * table["ptpp"] < corpora["source"]["train"]["bytes"]).all()
    assert (table["D"] < corpora["target"]["train"]["bytes"]).all()


def test_losses_behave_as_the_readme_says(table: pd.DataFrame) -> None:
    ends = table[table["D"] > 0].sort_values("D").groupby(["run", "domain"])["loss"].agg(["first", "last"])
    runs = ends.reset_index().merge(table[["run", "N", "seed", "ptpp", "anneal", "r"]].drop_duplicates())
    target, source = (runs[runs["domain"] == domain] for domain in ("target", "source"))
    assert (target["last"] < target["first"]).all()
    pairs = [(target, "N", 0.0), (target, "ptpp", 0.0), (source, "N", 5e-4), (source, "ptpp", 0.0), (source, "r", 0.0)]
    for losses, along, above in pairs:
        others = [c for c in ("N", "ptpp", "anneal", "r") if c != along]
        lines = losses[losses["seed"] == 0].pivot_table(index=others, columns=along, values="last")
        assert not (lines.map(math.log).diff(axis=1) > above).any(axis=None)
    half = source[source["r"] == 0.5]
    falls = (half["last"] < half["first"]).groupby(half["ptpp"]).agg(["sum", "size"])
    assert falls.T.to_dict("list") == {10: [23, 23], 40: [21, 23], 160: [5, 18], 640: [1, 8]}


def test_adaptation_undoes_annealing(table: pd.DataFrame) -> None:
    """Annealed checkpoints start below those at a constant rate; 20 tokens per parameter later they are level."""
    keys = ["N", "seed", "ptpp", "r", "domain"]
    last = table.sort_values("D").fillna({"r": -1.0}).drop_duplicates([*keys, "anneal"], keep="last")
    losses = last.pivot_table(index=keys, columns="anneal", values="loss").dropna().reset_index()
    losses["gap"] = np.log(losses["annealed"] / losses["constant"])
    base = losses["r"] < 0
    for domain, low, high in (("source", -0.131, -0.012), ("target", -0.064, -0.006)):
        of_domain = losses["domain"] == domain
        assert losses.loc[base & of_domain, "gap"].between(low, high).all()
        assert 0 < losses.loc[~base & of_domain, "gap"].mean() < 0.005


def test_the_smallest_size_comes_out_again(table: pd.DataFrame, tmp_path: Path) -> None:
    """As good as a second run: matrix products of the accelerator that made the table round more coarsely than a processor's."""
    pytest.importorskip("jax", reason="training needs JAX")
    if len(list(TINYCPT3.cache.glob("*.tar.gz"))) < sum(len(corpus.packages) for corpus in TINYCPT3.corpora.values()):
        pytest.skip("the archives of the corpora are not downloaded (data/tinycpt3/README.md)")
    import make

    data = make.read_data(TINYCPT3)
    part = TINYCPT3.grid[0]._replace(widths=(24,), seeds=(0,), stages=(10,), replay=(0.2,), anneals=("annealed",))
    (model,) = make.models(TINYCPT3, part)
    names = make.pieces(TINYCPT3, part, model)
    for base, state in make.checkpoints(data, model, part, tmp_path):
        name = names[base, 0.2]
        rows = make.base_rows(data, base, state, "target")
        rows += make.adaptation_rows(data, [make.Run(base, state.weights, 0.2, name)], TINYCPT3, "target")[name]
        again = pd.DataFrame(rows).merge(table, on=["run", "D", "domain"], suffixes=("", "_table"))
        assert len(again) == 26
        # Two seeds differ by .6 to .8% at the next size (README): twice that is too much for one run.
        assert np.allclose(again["loss"], again["loss_table"], rtol=0.015)
