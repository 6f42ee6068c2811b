"""Public losses, downloaded from a local server in the forms in which they are published; no network is used."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw.data import datasets
from bayeslaw.data.table import read_runs
from tests.commands import Command, rejected, snapshot
from tests.delphi import REPORT, delphi_losses, delphi_report, digest, figure
from tests.errors import fails
from tests.hosts import CHINCHILLA, publish, serving


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path, monkeypatch) as root:
        yield root


@pytest.mark.slow
def test_a_set_is_downloaded_checked_and_kept(
    served: Path, monkeypatch: pytest.MonkeyPatch, command: Command, tmp_path: Path
) -> None:
    publish(monkeypatch, served, "chinchilla", {"data/svg_extracted_data.csv": CHINCHILLA.encode()})
    (tmp_path / "out").mkdir()
    done = command("data", "fetch", "chinchilla", "-o", "out")
    assert (done.status, done.err) == (0, "")
    assert "licence: none stated" in done.out
    assert "cite: Hoffmann et al. 2022" in done.out
    assert "7 rows written to out/chinchilla.csv" in done.out
    runs = read_runs("out/chinchilla.csv").frame
    assert runs["D"].tolist() == pytest.approx([k * 1e9 for k in range(1, 8)])
    assert runs["excluded_by_epoch"].astype(str).tolist() == ["True", "False", "True", "True", "False", "True", "True"]
    monkeypatch.setattr(datasets, "HOST", "http://127.0.0.1:9")  # nobody listens there: the cache is enough
    assert command("data", "fetch", "chinchilla").status == 0
    assert command("data", "fetch", "chinchilla").status == 0
    Path("chinchilla.csv").write_text("run,N,D,loss\nmine,1e8,1e9,3\n", encoding="utf-8")
    rejected(command("data", "fetch", "chinchilla"), "would-overwrite", "chinchilla.csv")
    assert "mine" in Path("chinchilla.csv").read_text(encoding="utf-8")


@pytest.mark.slow
def test_nothing_is_written_when_a_set_cannot_be_downloaded(
    served: Path, monkeypatch: pytest.MonkeyPatch, command: Command, tmp_path: Path
) -> None:
    publish(monkeypatch, served, "chinchilla", {"data/svg_extracted_data.csv": CHINCHILLA.encode()})
    path = next(served.rglob("*.csv"))
    rejected(command("data", "fetch", "chinchila"), "unknown-dataset", "'chinchila'", "'chinchilla'")
    rejected(command("data", "fetch", "chinchilla", "-o", "none"), "no-such-folder", "none")
    path.write_text(CHINCHILLA + "1,2,#f,1e8,1e18,#f,1\n", encoding="utf-8")
    rejected(command("data", "fetch", "chinchilla"), "wrong-checksum", "svg_extracted_data.csv")
    path.unlink()
    rejected(command("data", "fetch", "chinchilla"), "download-failed", "404")
    monkeypatch.setattr(datasets, "HOST", "http://127.0.0.1:9")
    where = "https://github.com/epoch-research/analyzing-chinchilla/tree/9225883"
    rejected(command("data", "fetch", "chinchilla"), "unreachable-host", where)
    assert not list(tmp_path.glob("*.csv"))
    assert snapshot(tmp_path / "cache") == {}


def test_sets_are_listed_with_licence_and_source(command: Command) -> None:
    done = command("data", "list")
    assert done.status == 0
    for name, public in datasets.datasets().items():
        assert f"{name}\n  {public.title}\n" in done.out
        assert public.licence in done.out
        assert f"https://github.com/{public.repository}/tree/{public.commit}" in done.out
        assert len(public.commit) == 40
        assert all(len(digest or public.losses) == 64 for digest in public.files.values())


def model(name: str, seed: int | None) -> bytes:
    given = {
        "model": "configs/d=96.json", "tokens": 5e7, "warmup": 100, "lr": 3e-3, "wd": 0.03, "global_bs": 64, "params": 1e7,
        "params_no_embed": 5e6, "chinchilla_multiplier": 0.25,
    }  # fmt: skip
    result = {
        "loss": 5.5, "loss_sequences_lower_95": 5.4, "loss_sequences_upper_95": 5.6, "loss_tokens_lower_95": 5.45,
        "loss_tokens_upper_95": 5.55, "sequences": 120, "tokens": 245760,
    }  # fmt: skip
    where = ["data/c4_val/shard-{0..1}.tar", "data/openlm/shard.tar", "data/de-en/val_de-en_100.tar"]
    results = [result | {"val_data": [path]} for path in where]
    given |= {"seed": seed} if seed else {}
    return json.dumps({"name": name, "dataset_name": "c4", "hyperparameters": given, "results": results}).encode()


def test_losses_of_overtrained_models(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "exp_data/models/c4-d=96-0.25.json": model("c4-d=96-0.25", None),
        "exp_data/models/c4-d=96-1.json": model("other", 124),
    }
    publish(monkeypatch, served, "overtraining", files)
    fetched = datasets.fetch_dataset("overtraining")
    table = pd.read_csv(fetched.paths[0])
    assert table["val_set"].tolist() == ["c4_val", "c4_val", "openlm", "openlm", "val_de-en_100", "val_de-en_100"]
    assert table["tok_per_param"].unique().tolist() == [5]
    assert table["seed"].isna().sum() == 3
    assert read_runs(table).frame["domain"].nunique() == 3


def test_losses_with_replay(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        "/x/configs//pythia_70m_step20000\t/x/domains//pythia-pile.valid.ArXiv.bin\t2.25",
        "/x/ct//70M_ct_1-0.25-0.75/1000\t/x/domains//pythia-pile.valid.ArXiv.bin\t2.5",
        "/x/ct//70M_ct_1-0.25-0.75/1000\t/x/ct_valid//starcoder.python.valid.bin\t1.5",
        "/x/ct//70M_ct_9-0.285-0.715/1000\t/x/ct_valid//starcoder.python.valid.bin\t1.4",
    ]
    files = {"data/ct/70M.txt": "\n".join(rows).encode(), "pipeline/valid_weight.json": b'{"ArXiv": 1.0}'}
    publish(monkeypatch, served, "cpt-replay", files)
    fetched = datasets.fetch_dataset("cpt-replay")
    assert fetched.rows == (3, 1)
    table = pd.read_csv(fetched.paths[0])
    assert table["val_domain"].tolist() == ["ArXiv", "ArXiv", "python(starcoder)"]
    assert table["step"].tolist() == [0, 1000, 1000]
    assert table["replay_pile"].tolist()[1:] == [0.25, 0.25]
    assert len(fetched.notes) == 2


def test_losses_of_schedules_and_in_two_splits(served: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    curve = b"step,lr,loss\n2176,3e-4,3.75\n"
    publish(monkeypatch, served, "lr-schedules", {f"loss_curve_repo/csv_{size}/cosine_24000.csv": curve for size in (25, 100)})
    fetched = datasets.fetch_dataset("lr-schedules")
    assert "2160" in fetched.notes[0]
    assert pd.read_csv(fetched.paths[0]).to_dict("records") == [
        {"run": f"{model}-cosine_24000", "model": model, "schedule": "cosine_24000", "step": 2176, "lr": 3e-4, "loss": 3.75}
        for model in ("25M", "100M")
    ]
    for name, folder in (("data-constrained", "data_constrained_scaling_law"), ("parallel-scaling", "parallel_scaling_law")):
        files = {}
        for split in ("train", "test"):
            pd.DataFrame({"params": [1e8], "loss": [2.5]}).to_parquet(tmp_path / "x.parquet")
            files[f"benchmark/dataset/{folder}/{split}-00000-of-00001.parquet"] = (tmp_path / "x.parquet").read_bytes()
        publish(monkeypatch, served, name, files)
        table = pd.read_csv(datasets.fetch_dataset(name).paths[0])
        assert table["split"].tolist() == ["train", "test"]


def test_runs_of_isoflop_curves(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        "source,dataset,model,condition,experiment,tokens,params,budget,loss,outlier,reason",
        "llama_3,llama_3,llama_3,,a,1e9,1e8,1e18,3.5,False,none",
        "marin_202603,comma,llama_2,,b,2e9,2e8,3e18,3.25,False,none",
        "marin_202603,dclm,llama_2,,c,3e9,3e8,6e18,3.75,True,too_few_points",
    ]
    publish(monkeypatch, served, "marin-isoflops", {"data/isoflops/transform/isoflops.csv": "\n".join(rows).encode()})
    fetched = datasets.fetch_dataset("marin-isoflops")
    assert pd.read_csv(fetched.paths[0]).to_dict("records") == [
        {"train_set": "comma", "N": 2e8, "D": 2e9, "C": 3e18, "loss": 3.25, "outlier": False},
        {"train_set": "dclm", "N": 3e8, "D": 3e9, "C": 6e18, "loss": 3.75, "outlier": True},
    ]
    assert fetched.notes[1].startswith("outlier: 1 losses")
    assert read_runs(fetched.paths[0]).where("outlier == False").frame["D"].tolist() == [2e9]


def test_losses_before_and_after_cooldowns(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = {"run_name": "a", "params_active_precise": 50_000_001, "width": 256, "depth": 3, "num_nodes": 1, "seconds_per_step": 0.5}
    files = {
        f"wandb_dfs/wandb_df_for_fitting_{part}.jsonl": json.dumps(run | {"tokens": tokens, "step": 5, "final_loss": loss}).encode()
        for part, tokens, loss in (("hot", 10, 3.1010556221), ("cool_end", 11, 3.0146045685))
    }
    publish(monkeypatch, served, "gemstones", files)
    fetched = datasets.fetch_dataset("gemstones")
    assert [path.name for path in fetched.paths] == ["gemstones-hot.csv", "gemstones-cooled.csv"]
    hot, cooled = (pd.read_csv(path).to_dict("records") for path in fetched.paths)
    of_both = {"run": "a", "N": 50_000_001, "step": 5, "width": 256, "depth": 3}
    assert hot == [of_both | {"D": 10, "loss": 3.1010556221}]
    assert cooled == [of_both | {"D": 11, "loss": 3.0146045685}]


def test_losses_of_mixtures_of_slimpajama(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        "weight_book,weight_c4,model_size,n_tokens,c4_loss,openhermes_loss",
        "0.75,0.25,122000000.0,2e9,4.5,3.5",
        "0.25,0.75,122000000.0,2e9,4.25,",
        "0.75,0.25,1235000000.0,4e9,4.0,3.0",
    ]
    publish(monkeypatch, served, "slimpajama-mixtures", {"data/dmsl_llm_slimpajama.csv": "\n".join(rows).encode()})
    fetched = datasets.fetch_dataset("slimpajama-mixtures")
    table = pd.read_csv(fetched.paths[0])
    assert table["run"].tolist() == ["mix0-122M", "mix1-122M", "mix0-1235M", "mix0-122M", "mix0-1235M"]
    assert table["domain"].tolist() == ["c4", "c4", "c4", "openhermes", "openhermes"]
    assert table["loss"].tolist() == [4.5, 4.25, 4.0, 3.5, 3.0]
    assert table["weight_book"].tolist() == [0.75, 0.25, 0.75, 0.75, 0.75]
    assert table["D"].tolist() == [2e9, 2e9, 4e9, 2e9, 4e9]
    assert fetched.notes[1].startswith("1 losses")


def test_losses_of_mixtures_of_the_pile(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def row(run: str, step: int, domain: str, loss: float) -> str:
        return f"/x/ckpts/Pile100B//{run}/{step}\t/x/pythia-pile.valid.domains//pythia-pile.valid.{domain}.bin\t{loss}\n"

    mixture = "3-0.5-0-0.0625-0.0625-0.375"
    small = row(f"70M_{mixture}", 9000, "Pile-CC", 3.5) + row(f"70M_{mixture}", 6000, "Github", 2.5)
    large = row(f"1B_{mixture}", 6000, "Github", 1.5)
    publish(monkeypatch, served, "pile-mixtures", {"data/5Mix/70M.txt": small.encode(), "data/5Mix/1B.txt": large.encode()})
    table = pd.read_csv(datasets.fetch_dataset("pile-mixtures").paths[0])
    assert table["run"].tolist() == ["70M_3", "70M_3", "1B_3"]
    assert table["domain"].tolist() == ["Github", "Pile-CC", "Github"]
    assert table["D"].tolist() == [6000 * 2**20, 9000 * 2**20, 6000 * 2**20]
    assert table["N"].tolist() == [70e6, 70e6, 1e9]
    weights = table.filter(like="weight_").iloc[0].to_dict()
    assert weights == {
        "weight_academic": 0.5, "weight_prose": 0, "weight_dialogue": 0.0625, "weight_symbolic": 0.0625, "weight_internet": 0.375,
    }  # fmt: skip
    assert read_runs(table).frame["loss"].tolist() == [2.5, 3.5, 1.5]


def test_losses_of_mixtures_at_one_budget(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {}
    for split, model in (("train", "1m"), ("test", "1m"), ("test", "60m"), ("test", "1B")):
        files[f"data/{split}_mixture_{model}.csv"] = b"index,train_the_pile_arxiv,train_the_pile_nih-exporter\n3,0.25,0.752\n"
        losses = b"index,metric/the_pile_arxiv_val_loss,metric/the_pile_github_val_loss\n3,5.5,6.25\n"
        files[f"data/{split}_pile_loss_{model}.csv"] = losses
    publish(monkeypatch, served, "regmix", files)
    table = pd.read_csv(datasets.fetch_dataset("regmix").paths[0])
    assert table["run"].unique().tolist() == ["train-1M-3", "test-1M-3", "test-60M-3", "test-1B-3"]
    assert table["loss"].tolist() == [5.5, 6.25] * 4
    assert table["domain"].tolist() == ["arxiv", "github"] * 4
    np.testing.assert_allclose(table["weight_arxiv"] + table["weight_nih_exporter"], 1.0)
    assert table["weight_arxiv"].iloc[0] == pytest.approx(0.25 / 1.002)


def test_losses_of_several_vocabularies(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = b"vocab_size,embed_dim,num_characters,Non_vocab_parameters,FLOPs,Lossu\n"
    publish(monkeypatch, served, "vocabularies", {"exp_data.csv": head + b"4096.0,512.0,1.8e8,33222784.0,1.2e16,-1.25\n"})
    row = pd.read_csv(datasets.fetch_dataset("vocabularies").paths[0]).iloc[0]
    assert (row["run"], row["Nv"], row["normalised_loss"]) == ("N33M-V4096", 4096 * 512, -1.25)
    assert row["D"] == pytest.approx(1.2e16 / (6 * (33222784 + 4096 * 512)))


def test_losses_of_routed_experts(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = "hyper_id,step,loss_c4,loss_validation,num_experts,d_model,flop_increase,k,router_type,seed,routing_frequency,"
    rows = [
        f"{head}total_parameter_count,dense_parameter_count,flops_per_step,model_size_label",
        "7,0,10.5,10.75,8,512,1.0,1,Hash,42,0.5,4e8,1e8,1e12,55M",
        "7,10000,3.25,3.5,8,512,1.0,1,Hash,42,0.5,4e8,1e8,1e12,55M",
        "7,20000,,3.25,8,512,1.0,1,Hash,42,0.5,4e8,1e8,1e12,55M",
    ]
    publish(monkeypatch, served, "routed-experts", {"data/curves.csv.gz": gzip.compress("\n".join(rows).encode())})
    fetched = datasets.fetch_dataset("routed-experts")
    of_both = {
        "run": "run7", "size": "55M", "router": "Hash", "experts": 8, "used_experts": 1, "flop_increase": 1.0,
        "routing_frequency": 0.5, "seed": 42, "N": 4e8, "active": 0.25, "D": 10_000 * 256 * 2048, "step": 10_000,
    }  # fmt: skip
    assert pd.read_csv(fetched.paths[0]).to_dict("records") == [
        of_both | {"val_set": "c4", "loss": 3.25},
        of_both | {"val_set": "validation", "loss": 3.5},
        of_both | {"D": 20_000 * 256 * 2048, "step": 20_000, "val_set": "validation", "loss": 3.25},
    ]
    assert fetched.notes[-1] == "1 evaluations before training and 1 missing losses are left out"
    law = read_runs(fetched.paths[0]).where("val_set == 'c4'").frame
    assert law[["N", "active", "D"]].notna().all().all()


def test_losses_of_delphi(served: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    page = figure(["3e18", "2e20", "9e99"], {"tok1b": [1.75, 1.5, 9.0], "k0p20": [2.25, 1.25, 9.0]})
    publish(monkeypatch, served, "delphi", {REPORT: page}, digest([1.75, 1.5, 2.25, 1.25]))
    done = command("data", "fetch", "delphi")
    assert "note: 2 losses of the largest bases (9e99) are left out" in done.out
    table = pd.read_csv("delphi.csv", dtype={"checkpoint": str})
    assert table["loss"].tolist() == [1.75, 1.5, 2.25, 1.25]
    assert table["run"].tolist()[2:] == ["3e18-p33m67-k0p20-lr50", "2e20-p33m67-k0p20-lr50"]
    assert table["checkpoint"].tolist() == ["3e18", "2e20"] * 2
    assert table["D"].tolist() == [1_000_000_000, 1_000_000_000, 242_483_200, 2_956_460_000]
    assert table["ptpp"].tolist()[:2] == pytest.approx([1_223_393_280 / 447_217_664, 14_782_824_448 / 1_934_622_720])
    assert read_runs(table).frame["N"].tolist() == [447_217_664, 1_934_622_720] * 2


@pytest.mark.parametrize("change", [lambda page: page.replace(b"clean-unified", b"other"), lambda page: page[: len(page) // 2]])
def test_losses_of_delphi_that_were_changed_are_refused(
    change: Callable[[bytes], bytes], served: Path, monkeypatch: pytest.MonkeyPatch, command: Command, tmp_path: Path
) -> None:
    page = figure(["3e18", "2e20"], {"tok1b": [1.75, 1.5]})
    publish(monkeypatch, served, "delphi", {REPORT: change(page)}, digest([1.75, 1.5]))
    rejected(command("data", "fetch", "delphi"), "wrong-checksum", REPORT)
    assert snapshot(tmp_path / "cache") == {}
    publish(monkeypatch, served, "delphi", {REPORT: page}, digest([1.75, 1.5]))
    assert command("data", "fetch", "delphi").status == 0


def test_settings_of_delphi_are_those_collected_before(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the table in the folder of public losses, whose settings come from other pages of the authors."""
    expected = delphi_losses()
    publish(monkeypatch, served, "delphi", {REPORT: delphi_report(expected)}, datasets.dataset("delphi").losses)
    table = pd.read_csv(datasets.fetch_dataset("delphi").paths[0], dtype={"checkpoint": str})
    for name, other in [("N", "N"), ("N_no_embed", "N_nonemb"), ("D", "D"), ("ptpp", "ptpp"), ("r", "r"), ("loss", "loss")]:
        assert table[name].to_numpy() == pytest.approx(expected[other].to_numpy(), rel=1e-6), name
    assert table["checkpoint"].tolist() == expected["base"].tolist()


def test_a_cache_that_cannot_be_written_is_refused(served: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    publish(monkeypatch, served, "chinchilla", {"data/svg_extracted_data.csv": CHINCHILLA.encode()})
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("BAYESLAW_CACHE", str(tmp_path / "file"))
    with fails("unwritable-cache", tmp_path / "file"):
        datasets.fetch_dataset("chinchilla")


def test_without_a_home_folder_a_cache_is_to_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def homeless(_: str) -> None:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.delenv("BAYESLAW_CACHE", raising=False)
    monkeypatch.setattr("pooch.os_cache", homeless)
    with fails("unwritable-cache", "BAYESLAW_CACHE"):
        datasets.fetch_dataset("chinchilla", tmp_path)
