"""Public losses, downloaded from their repositories at one commit, checked, and converted to tables of runs."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.core.files import own_path, write_own
from bayeslaw.data.files import read_parquet

HOST = "https://raw.githubusercontent.com"
CACHE = "BAYESLAW_CACHE"  # the environment variable that names a folder for downloads
WORST = 5  # highest losses, which the published refit leaves out

Tables = dict[str, pd.DataFrame]
Form = Callable[[Mapping[str, Path]], tuple[Tables, list[str]]]


@dataclass(frozen=True)
class Dataset:
    """A public set of losses, its source, and the SHA-256 of each of its files by the path in the repository.

    The SHA-256 of a file is empty where it is unknown. Then `losses` is that of the losses read from the files.
    """

    name: str
    title: str
    citation: str
    licence: str
    repository: str
    commit: str
    files: Mapping[str, str]
    losses: str = ""

    @property
    def source(self) -> str:
        """The address of the repository at the commit."""
        return f"https://github.com/{self.repository}/tree/{self.commit}"

    def url(self, path: str) -> str:
        """Return the address of a file."""
        return f"{HOST}/{self.repository}/{self.commit}/{quote(path)}"


@dataclass(frozen=True)
class Fetched:
    """Tables written from a public set, their numbers of rows, and notes of what was computed or left out."""

    paths: tuple[Path, ...]
    rows: tuple[int, ...]
    notes: tuple[str, ...]


@cache
def datasets() -> Mapping[str, Dataset]:
    """Return the public sets, by name."""
    given = tomllib.loads((Path(__file__).parent / "datasets.toml").read_text(encoding="utf-8"))
    return {name: Dataset(name, **values) for name, values in given.items()}


def dataset(name: str) -> Dataset:
    """Return one public set."""
    known = datasets()
    if name not in [*known]:
        message = f"There is no public set {name!r}; there are {', '.join(known)}.{nearest(str(name), known)}"
        raise BayeslawError(message, code="unknown-dataset")
    return known[name]


def fetch_dataset(name: str, folder: str | Path = ".") -> Fetched:
    """Download a public set and write its tables, NAME.csv.

    Files that were downloaded before are taken from the system's cache, or from the folder named by the environment variable
    `BAYESLAW_CACHE`.

    Parameters
    ----------
    name : str
        Name of the set, as `bayeslaw data list` has it.
    folder : str or Path
        Where the tables are written.

    Returns
    -------
    Fetched
        Paths and numbers of rows of the tables, and notes of what was computed or left out.

    Raises
    ------
    BayeslawError
        If there is no such set or folder, a file can't be downloaded or has another checksum, or a file with other contents has
        the name of a table.

    Examples
    --------
    >>> fetched = bayeslaw.fetch_dataset("chinchilla")  # doctest: +SKIP
    >>> runs = bayeslaw.read_runs(fetched.paths[0])  # doctest: +SKIP
    """
    source, folder = dataset(name), own_path(folder)
    if not folder.is_dir():
        raise BayeslawError(f"There is no folder {folder} to write {name}.csv into.", code="no-such-folder")
    files = {path: _download(source, path) for path in source.files}
    tables, notes = _FORMS[name](files)
    if source.losses:
        _check_losses(source, files, tables)
    texts = {folder / f"{stem}.csv": frame.to_csv(index=False) for stem, frame in tables.items()}
    write_own(texts, f"the table of the public set {name}")
    return Fetched(tuple(texts), tuple(len(frame) for frame in tables.values()), tuple(notes))


def _download(source: Dataset, path: str) -> Path:
    """Return a file of a set, in the cache, after checking its SHA-256 if that is known."""
    import pooch
    import requests

    pooch.get_logger().setLevel("ERROR")
    try:
        cache_folder = Path(os.environ.get(CACHE) or pooch.os_cache("bayeslaw")) / source.name / source.commit
    except RuntimeError:  # of a user without an entry, as in some containers
        problem = "there is no home folder to keep downloads in"
        raise BayeslawError(f"{source.name}: {problem}: name a folder in {CACHE}.", code="unwritable-cache") from None
    known = f"sha256:{source.files[path]}" if source.files[path] else None
    try:
        return Path(pooch.retrieve(source.url(path), known, path.replace("/", "__"), cache_folder))
    except requests.HTTPError as error:
        if error.response is not None:
            error.response.close()  # pooch streams it and leaves it open
        message, code = f"{source.url(path)} can't be downloaded: {error}.", "download-failed"
    except requests.RequestException as error:
        host = f"{HOST.removeprefix('https://')} can't be reached ({type(error).__name__})"
        message, code = f"{host}. Are you offline? The files are at {source.source}.", "unreachable-host"
    except ValueError:  # how pooch reports another checksum
        message = f"{path} as downloaded has another SHA-256 than {source.files[path]}: it was changed or damaged, and is not used."
        code = "wrong-checksum"
    except OSError as error:
        message, code = f"{path} can't be kept in {cache_folder}: {error}. Name a folder in {CACHE}.", "unwritable-cache"
    raise BayeslawError(f"{source.name}: {message}", code=code)


def _check_losses(source: Dataset, files: Mapping[str, Path], tables: Tables) -> None:
    """Refuse other losses than those known, and take their files out of the cache."""
    losses = " ".join(f"{loss:.6f}" for frame in tables.values() for loss in frame["loss"])
    if hashlib.sha256(losses.encode()).hexdigest() != source.losses:
        for path in files.values():
            path.unlink()
        message = f"The losses in {', '.join(files)} as downloaded have another SHA-256 than {source.losses}"
        raise BayeslawError(f"{source.name}: {message}: it was changed or damaged, and is not used.", code="wrong-checksum")


# --- the forms in which the sets are published ----------------------------------------------------------------------------


def _chinchilla(files: Mapping[str, Path]) -> tuple[Tables, list[str]]:
    raw = pd.read_csv(files["data/svg_extracted_data.csv"])
    table = pd.DataFrame({"N": raw["Model Size"], "C": raw["Training FLOP"], "loss": raw["loss"]})
    table.insert(1, "D", table["C"] / (6 * table["N"]))
    table["excluded_by_epoch"] = table["loss"].rank(ascending=False) <= WORST
    return {"chinchilla": table}, [
        "D = C/(6 N); losses and sizes were read off a figure, not logged",
        f"excluded_by_epoch: the {WORST} highest losses, which the published refit leaves out",
    ]


_RESULTS = {
    "loss": "loss", "loss_seq_lo95": "loss_sequences_lower_95", "loss_seq_hi95": "loss_sequences_upper_95",
    "loss_tok_lo95": "loss_tokens_lower_95", "loss_tok_hi95": "loss_tokens_upper_95", "n_sequences": "sequences",
    "n_val_tokens": "tokens",
}  # fmt: skip


def _overtraining(files: Mapping[str, Path]) -> tuple[Tables, list[str]]:
    rows: list[dict[str, Any]] = []
    for path in files.values():
        model = json.loads(path.read_text(encoding="utf-8"))
        given = model["hyperparameters"]
        run = {
            "run": model["name"], "train_set": model["dataset_name"], "arch": Path(given["model"]).stem, "N": given["params"],
            "N_no_embed": given["params_no_embed"], "D": given["tokens"], "chinchilla_mult": given["chinchilla_multiplier"],
            "tok_per_param": 20 * given["chinchilla_multiplier"], "lr": given["lr"], "warmup": given["warmup"],
            "wd": given["wd"], "global_bs": given["global_bs"], "seed": given.get("seed"),
        }  # fmt: skip
        for result in model["results"]:
            file = Path(result["val_data"][0])
            validation = file.stem if file.parent.name == "de-en" else file.parent.name
            rows.append(run | {"val_set": validation} | {o: result[t] for o, t in _RESULTS.items()})
    table = pd.DataFrame(rows).sort_values(["train_set", "N", "chinchilla_mult", "val_set"], kind="stable")
    return {"overtraining": table}, ["models trained on C4 and RedPajama; those on RefinedWeb are left out"]


def _cpt_replay(files: Mapping[str, Path]) -> tuple[Tables, list[str]]:
    raw = pd.read_csv(files["data/ct/70M.txt"], sep="\t", header=None, names=["checkpoint", "validation", "loss"])
    folder = raw["checkpoint"].str.split("/").str[-2]
    shares = folder.str.extract(r"^70M_ct_(?P<number>\d+)-(?P<pile>[\d.]+)-(?P<python>[\d.]+)$")
    base = raw["checkpoint"].str.endswith("pythia_70m_step20000")
    kept = base | shares["number"].isin(["0", "1", "2", "3"])
    file = raw["validation"].str.split("/").str[-1].str.removesuffix(".bin")
    table = pd.DataFrame(
        {
            "replay_pile": shares["pile"].astype(float),
            "target_python": shares["python"].astype(float),
            "step": raw["checkpoint"].str.split("/").str[-1].where(~base, "0").astype(int),
            "val_domain": file.str.removeprefix("pythia-pile.valid.").replace("starcoder.python.valid", "python(starcoder)"),
            "loss": raw["loss"],
        }
    )[kept]
    weights = json.loads(files["pipeline/valid_weight.json"].read_text(encoding="utf-8"))
    table = table.sort_values(["replay_pile", "step", "val_domain"], na_position="first", kind="stable")
    of_domains = pd.DataFrame({"val_domain": list(weights), "weight": list(weights.values())})
    return {"cpt-replay": table, "cpt-replay-weights": of_domains}, [
        "step 0 is the base checkpoint, without replay; cpt-replay-weights.csv turns the 22 Pile domains into one Pile loss",
        f"{int((~kept).sum())} losses of the share that the authors predicted to be best are left out",
    ]


def _lr_schedules(files: Mapping[str, Path]) -> tuple[Tables, list[str]]:
    parts = []
    for name, path in files.items():
        model, schedule = f"{Path(name).parent.name.removeprefix('csv_')}M", Path(name).stem
        parts.append(pd.read_csv(path).assign(run=f"{model}-{schedule}", model=model, schedule=schedule))
    table = pd.concat(parts)[["run", "model", "schedule", "step", "lr", "loss"]]
    note = "2,160 steps of warm-up come before the first logged one: read the curves with a warm-up of 2160"
    return {"lr-schedules": table}, [note]


def _marin_isoflops(files: Mapping[str, Path]) -> tuple[Tables, list[str]]:
    raw = pd.read_csv(files["data/isoflops/transform/isoflops.csv"])
    raw = raw[raw["source"] == "marin_202603"]
    names = {"dataset": "train_set", "params": "N", "tokens": "D", "budget": "C"}
    table = raw.rename(columns=names)[["train_set", "N", "D", "C", "loss", "outlier"]]
    return {"marin-isoflops": table}, [
        "losses are means over the sets of Paloma; C is the budget of the run's IsoFLOP curve, not 6 N D",
        f"outlier: {int(raw['outlier'].sum())} losses that the collectors leave out, most as too few of their budget",
    ]


def _gemstones(files: Mapping[str, Path]) -> tuple[Tables, list[str]]:
    names = {"run_name": "run", "params_active_precise": "N", "tokens": "D", "final_loss": "loss"}
    tables = {}
    for stem, part in (("gemstones-hot", "hot"), ("gemstones-cooled", "cool_end")):
        raw = pd.read_json(files[f"wandb_dfs/wandb_df_for_fitting_{part}.jsonl"], lines=True, precise_float=True)
        tables[stem] = raw.rename(columns=names)[["run", "N", "D", "step", "width", "depth", "loss"]]
    return tables, [
        "gemstones-hot: losses before any cooldown; gemstones-cooled: at the end of cooldowns that start from these",
        "N counts the embedding, 50304 x width",
    ]


def _slimpajama_mixtures(files: Mapping[str, Path]) -> tuple[Tables, list[str]]:
    raw = pd.read_csv(files["data/dmsl_llm_slimpajama.csv"]).rename(columns={"model_size": "N", "n_tokens": "D"})
    weights = [column for column in raw.columns if column.startswith("weight_")]
    losses = [column for column in raw.columns if column.endswith("_loss")]
    mixture = raw.groupby(weights, sort=False).ngroup()
    raw.insert(0, "run", "mix" + mixture.astype(str) + "-" + (raw["N"] / 1e6).round().astype(int).astype(str) + "M")
    raw.insert(1, "mixture", mixture)
    table = raw.melt(["run", "mixture", "N", "D", *weights], losses, "domain", "loss")
    table["domain"] = table["domain"].str.removesuffix("_loss")
    return {"slimpajama-mixtures": table.dropna(subset="loss")}, [
        "weight_...: shares of the training domains; mixture numbers them in the order of the file; none trains on openhermes",
        f"{int(table['loss'].isna().sum())} losses that the file lacks are left out",
    ]


_PILE_GROUPS = ("academic", "prose", "dialogue", "symbolic", "internet")
_PILE_STEP = 4096 * 256  # tokens, as the authors' code has it
_PILE_SIZES = {  # nominal N, and N without embeddings from the authors' code
    "70M": (70e6, 18_915_328), "160M": (160e6, 85_056_000), "305M": (305e6, 201_541_632), "410M": (410e6, 302_311_424),
    "1B": (1e9, 805_736_448),
}  # fmt: skip


def _pile_mixtures(files: Mapping[str, Path]) -> tuple[Tables, list[str]]:
    parts = [pd.read_csv(path, sep="\t", header=None, names=["checkpoint", "validation", "loss"]) for path in files.values()]
    raw = pd.concat(parts, ignore_index=True)
    where = raw["checkpoint"].str.extract(r"/(?P<size>[^/_]+)_(?P<mixture>\d+)-(?P<weights>[^/]+)/(?P<step>\d+)$")
    weights = where["weights"].str.split("-", expand=True).astype(float)
    table = pd.DataFrame(
        {
            "run": where["size"] + "_" + where["mixture"],
            "mixture": where["mixture"].astype(int),
            "N": where["size"].map({size: nominal for size, (nominal, _) in _PILE_SIZES.items()}),
            "N_no_embed": where["size"].map({size: bare for size, (_, bare) in _PILE_SIZES.items()}),
            "D": where["step"].astype(int) * _PILE_STEP,
            "step": where["step"].astype(int),
            **{f"weight_{group}": weights[i] for i, group in enumerate(_PILE_GROUPS)},
            "domain": raw["validation"].str.extract(r"\.valid\.([^/]+)\.bin$")[0],
            "loss": raw["loss"],
        }
    )
    return {"pile-mixtures": table.sort_values(["mixture", "N", "step", "domain"], kind="stable")}, [
        f"D = step x {_PILE_STEP:,}, the batch in the authors' code; N is nominal",
        "mixture and weight_..., the shares of the training data, are read from the checkpoints' names",
    ]


def _regmix(files: Mapping[str, Path]) -> tuple[Tables, list[str]]:
    parts = []
    for split, model in (("train", "1m"), ("test", "1m"), ("test", "60m"), ("test", "1B")):
        given = [pd.read_csv(files[f"data/{split}_{what}_{model}.csv"], index_col="index") for what in ("mixture", "pile_loss")]
        shares, losses = (frame.rename(columns=_name_in_the_pile) for frame in given)
        table = shares.div(shares.sum(axis=1), axis=0).add_prefix("weight_")
        table.insert(0, "run", [f"{split}-{model.upper()}-{number}" for number in table.index])
        table = table.assign(model=model.upper(), split=split).join(losses)
        parts.append(table.melt([c for c in table if c not in losses], [*losses], "domain", "loss"))
    return {"regmix": pd.concat(parts)}, [
        "all runs of a model have one budget",
        "weight_...: shares of the training domains, divided by their sums, which rounding left at .996 to 1.003",
    ]


def _name_in_the_pile(column: str) -> str:
    name = column.removeprefix("train_the_pile_").removeprefix("metric/the_pile_").removesuffix("_val_loss")
    return name.replace("-", "_")


_ROUTED_STEP = 256 * 2048  # tokens, as the paper has it


def _routed_experts(files: Mapping[str, Path]) -> tuple[Tables, list[str]]:
    raw = pd.read_csv(files["data/curves.csv.gz"])
    kept = raw[raw["step"] > 0]
    names = {
        "model_size_label": "size", "router_type": "router", "num_experts": "experts", "k": "used_experts",
        "flop_increase": "flop_increase", "routing_frequency": "routing_frequency", "seed": "seed", "total_parameter_count": "N",
    }  # fmt: skip
    table = kept[[*names]].rename(columns=names)
    table.insert(0, "run", kept["hyper_id"].map("run{}".format))
    table["active"] = kept["dense_parameter_count"] / kept["total_parameter_count"]
    table["D"], table["step"] = kept["step"] * _ROUTED_STEP, kept["step"]
    losses = [column for column in raw.columns if column.startswith("loss_")]
    table = table.join(kept[losses]).melt([*table.columns], losses, "val_set", "loss")
    table["val_set"] = table["val_set"].str.removeprefix("loss_")
    return {"routed-experts": table.dropna(subset="loss")}, [
        f"D = step x {_ROUTED_STEP:,}, the batch in the paper; N counts all experts, active is the share that a token uses",
        "losses before the last step are those of a rate that has not fallen yet",
        f"{(raw['step'] == 0).sum()} evaluations before training and {table['loss'].isna().sum()} missing losses are left out",
    ]


def _vocabularies(files: Mapping[str, Path]) -> tuple[Tables, list[str]]:
    raw = pd.read_csv(files["exp_data.csv"])
    table = pd.DataFrame({"N": raw["Non_vocab_parameters"], "Nv": raw["vocab_size"] * raw["embed_dim"]})
    entries = raw["vocab_size"].astype(int)
    table.insert(0, "run", [f"N{n / 1e6:.0f}M-V{v}" for n, v in zip(table["N"], entries, strict=True)])
    table["D"] = raw["FLOPs"] / (6 * (table["N"] + table["Nv"]))
    table = table.assign(vocab_size=entries, flops=raw["FLOPs"], normalised_loss=raw["Lossu"])
    return {"vocabularies": table}, [
        "D = FLOPs/(6 (N + Nv)), as the source counts them; N is without the vocabulary's parameters Nv",
        "normalised_loss: the loss minus that of a unigram model of the same vocabulary",
    ]


_DELPHI_BASES = pd.DataFrame(
    {  # N with embeddings and without, pre-training tokens, and adaptation tokens of 20% of these as trained
        "3e18": (447_217_664, 184_549_376, 1_223_393_280, 242_483_200),
        "9e18": (550_305_792, 254_803_968, 2_889_875_456, 577_961_980),
        "2e19": (836_960_256, 475_791_360, 3_598_909_440, 719_781_890),
        "3e19": (997_982_208, 603_979_776, 4_982_571_008, 992_739_330),
        "9e19": (1_384_513_536, 924_844_032, 10_528_489_472, 2_105_802_800),
        "2e20": (1_934_622_720, 1_409_286_144, 14_782_824_448, 2_956_460_000),
        "3e20": (2_544_500_736, 1_953_497_088, 18_617_466_880, 3_713_007_600),
    },
    index=["N", "N_no_embed", "pretrain_tokens", "k0p20"],
).T
_DELPHI_BUDGETS = {"tok1b": 1_000_000_000, "tok2b": 2_000_000_000, "tok4b": 4_000_000_000, "tok8b": 8_000_000_000}


def _delphi(files: Mapping[str, Path]) -> tuple[Tables, list[str]]:
    (path,) = files.values()
    parts = []
    for trace in _traces(path.read_text(encoding="utf-8"), "clean-unified"):
        if trace["xaxis"] == "x2" and trace["mode"] == "markers+lines":  # measured losses of the clean set; x: the contaminated set
            losses = np.frombuffer(base64.b64decode(trace["y"]["bdata"]), trace["y"]["dtype"].replace("f8", "<f8"))
            parts.append(pd.DataFrame({"checkpoint": trace["text"], "budget": trace["legendgroup"], "loss": losses}))
    raw = pd.concat(parts) if parts else pd.DataFrame(columns=["checkpoint", "budget", "loss"])
    kept = raw[raw["checkpoint"].isin(_DELPHI_BASES.index)]
    of_base = _DELPHI_BASES.loc[kept["checkpoint"]].set_axis(kept.index)
    table = pd.DataFrame(
        {
            "run": kept["checkpoint"] + "-p33m67-" + kept["budget"] + "-lr50",
            "checkpoint": kept["checkpoint"],
            "N": of_base["N"],
            "N_no_embed": of_base["N_no_embed"],
            "pretrain_tokens": of_base["pretrain_tokens"],
            "ptpp": of_base["pretrain_tokens"] / of_base["N"],
            "r": 0.33,
            "D": kept["budget"].map(_DELPHI_BUDGETS).fillna(of_base["k0p20"]).astype(np.int64),
            "budget": kept["budget"],
            "val_set": "clean_seen",
            "loss": kept["loss"],
        }
    )
    left_out = raw.loc[~raw["checkpoint"].isin(_DELPHI_BASES.index), "checkpoint"]
    return {"delphi": table}, [
        "losses at the end of the runs with a third of replay and rate factor 0.5, on the only set that the authors call clean; "
        "they are taken from a figure of the authors' report, and their pages have other sets, shares and rates",
        f"{len(left_out)} losses of the largest bases ({', '.join(left_out.unique())}) are left out, to judge laws on them",
        "checkpoint is the nominal pre-training compute of the base in FLOPs; N counts the embedding; k0p20 is 20% of the tokens",
        "the file's own SHA-256 is not known to bayeslaw; that of the losses was checked instead",
    ]


def _traces(page: str, figure: str) -> list[dict[str, Any]]:
    """The traces of one of Plotly's figures in a page, none if the page lacks it or breaks off in it."""
    call = re.search(rf'Plotly\.newPlot\(\s*"{figure}",\s*', page)
    try:
        return list(json.JSONDecoder().raw_decode(page, call.end())[0]) if call else []
    except json.JSONDecodeError:
        return []


def _parquet(stem: str, note: str) -> Form:
    """Return the form of a set published as Parquet, one file for each split."""

    def form(files: Mapping[str, Path]) -> tuple[Tables, list[str]]:
        parts = [read_parquet(path).assign(split=Path(name).name.split("-")[0]) for name, path in files.items()]
        return {stem: pd.concat(parts)}, [note]

    return form


_FORMS: dict[str, Form] = {
    "chinchilla": _chinchilla, "overtraining": _overtraining, "cpt-replay": _cpt_replay, "lr-schedules": _lr_schedules,
    "marin-isoflops": _marin_isoflops, "gemstones": _gemstones, "slimpajama-mixtures": _slimpajama_mixtures,
    "pile-mixtures": _pile_mixtures, "regmix": _regmix, "routed-experts": _routed_experts,
    "vocabularies": _vocabularies, "delphi": _delphi,
    "data-constrained": _parquet("data-constrained", "a run's cost is 6 x params x tokens"),
    "parallel-scaling": _parquet("parallel-scaling", "a run's cost is num_params, all have the same tokens"),
}  # fmt: skip
