"""The measured losses in data/tinycpt are complete, pass the checks of every card with PTPP, and behave as described."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from bayeslaw.data.table import read_runs
from bayeslaw.data.validate import check
from bayeslaw.laws.card import law_names, load_law

FOLDER = Path(__file__).parents[2] / "data" / "tinycpt"
CARDS = [n for n in law_names() if "ptpp" in load_law(n).covariates]
STAGES = [15, 31, 62, 124, 279]
SIZES = [13_824, 24_576, 57_600, 110_592, 196_608]


@pytest.fixture(scope="module")
def headers() -> pd.DataFrame:
    return pd.read_csv(FOLDER / "runs.csv")


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize("table", ["runs.csv", "runs-docs.csv"])
@pytest.mark.parametrize("domain", ["source", "target"])
def test_the_tables_have_no_faults_for_any_card(name: str, table: str, domain: str) -> None:
    assert check(read_runs(FOLDER / table, f"domain == '{domain}'"), load_law(name)) == []


def test_the_grid_is_complete(headers: pd.DataFrame) -> None:
    adapted = headers[(headers["D"] > 0) & (headers["domain"] == "target")]
    rows = adapted.groupby(["N", "seed", "ptpp", "r"]).size()
    assert (rows == 12).all()
    for size in SIZES:
        for seed in (0, 1, 2) if size in SIZES[:2] else (0,):
            for ptpp in STAGES:
                for r in (0.05, 0.1, 0.25, 0.5):
                    assert (size, seed, ptpp, r) in rows.index
    assert {(24_576, 0, ptpp, r) for ptpp in STAGES for r in (0.0, 1.0)} <= set(rows.index)


def test_every_run_is_complete(headers: pd.DataFrame) -> None:
    docs = pd.read_csv(FOLDER / "runs-docs.csv")
    assert list(docs.columns) == list(headers.columns)
    for table in (headers, docs):
        assert table[["loss", "lr", "flops", "D"]].notna().all().all()
        assert table["loss"].between(0.5, 6).all()
        assert not table.duplicated(["run", "domain", "D"]).any()
        assert (table.groupby(["run", "step"])["domain"].nunique() == 2).all()
        assert set(table["checkpoint"]) == set(table.loc[table["D"] == 0, "run"])
        assert (table.loc[table["D"] > 0, "D"] / table.loc[table["D"] > 0, "N"]).between(0.4, 20.5).all()


def test_curves_continue_their_parents() -> None:
    """Tokens per parameter and both losses at the start of an adaptation are those of its parent at `parent_step`."""
    table = pd.read_csv(FOLDER / "curves.csv")
    assert table["run"].nunique() == 18
    assert len(table[["run", "parent", "parent_step"]].drop_duplicates()) == 18
    adapted = table[table["phase"] == "adapt"]
    assert table.loc[table["phase"] == "pretrain", ["parent", "parent_step"]].isna().all().all()
    assert (table["D"] == 320 * table["step"]).all()
    first = adapted[adapted["step"] == 0]
    assert len(first) == 15
    assert (first["parent"] == "pretrain-" + first["run"].str.split("-").str[0]).all()
    assert (first["parent_step"] * 320 == first["ptpp"] * first["N"]).all()
    assert set(first["parent_step"]) == {1440, 2880, 5580}
    there = first.merge(table, left_on=["parent", "parent_step"], right_on=["run", "step"], suffixes=("", "_parent"))
    assert len(there) == 15
    for domain in ("source", "target"):
        assert (there[f"{domain}_loss"] == there[f"{domain}_loss_parent"]).all()


def test_two_pretrainings_are_one_until_a_rate_falls() -> None:
    table = pd.read_csv(FOLDER / "curves.csv")
    columns = ["step", "lr", "train_loss", "source_loss", "target_loss"]
    constant, wsd = (table[table["run"] == f"pretrain-{name}"].reset_index(drop=True)[columns] for name in ("constant", "wsd"))
    pd.testing.assert_frame_equal(constant[:4465], wsd[:4465])
    assert (constant["lr"][4465:] > wsd["lr"][4465:]).all()


def test_losses_behave_as_the_readme_says(headers: pd.DataFrame) -> None:
    """The target loss falls with D, N and PTPP; the source loss rises with new data, and rises less with more replay."""
    first_seed = headers[(headers["seed"] == 0) & headers["r"].isin([0.05, 0.1, 0.25, 0.5])].copy()
    first_seed["atpp"] = (first_seed["D"] / first_seed["N"]).round(1)

    def losses(domain: str, atpp: float, along: str) -> NDArray[np.float64]:
        rows = first_seed[(first_seed["atpp"] == atpp) & (first_seed["domain"] == domain)]
        table = rows.pivot_table(index=[c for c in ("N", "ptpp", "r") if c != along], columns=along, values="loss")
        return table.to_numpy()

    assert (losses("target", 20, "r") < losses("target", 0.5, "r")).all()
    assert (np.diff(losses("target", 20, "N"), axis=1) < 0).all()
    assert (np.diff(losses("target", 20, "ptpp"), axis=1) < 0).all()
    assert (np.diff(losses("source", 20, "r"), axis=1) < 0).all()
    assert (losses("source", 20, "r")[:, 0] > losses("source", 0.5, "r")[:, 0]).all()
    # A replay share of 0.5 restores the source loss after a short pre-training (PTPP 15, 31) but not after a long one.
    source = first_seed[(first_seed["r"] == 0.5) & (first_seed["domain"] == "source")]
    first, last = (source[source["atpp"] == atpp].set_index(["N", "ptpp"])["loss"] for atpp in (0.5, 20))
    stages = last.index.get_level_values("ptpp")
    assert ((last < first) == (stages <= 31)).all()
