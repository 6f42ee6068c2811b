"""The sweeps of measured losses: what each is trained on and which models, stages and replay shares it has.

`make.py` trains any of them and writes its tables into the folder of its name beside this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Corpus(NamedTuple):
    """The files of some packages whose path matches a pattern, in wheels or in source archives."""

    packages: dict[str, str]
    files: str
    sdists: bool = False
    longest: int | None = None  # bytes; longer files are tables and generated code


class Part(NamedTuple):
    """A block of the grid: every combination of its entries.

    `anneals` are the checkpoints of each stage: the trunk at its constant rate, the branch that anneals it, or both.
    """

    widths: tuple[int, ...]
    seeds: tuple[int, ...]
    stages: tuple[int, ...]
    replay: tuple[float, ...]
    shift: str
    anneals: tuple[str, ...] = ("annealed",)


@dataclass(frozen=True)
class Sweep:
    name: str
    corpora: dict[str, Corpus]
    shifts: dict[str, str]  # shift: the corpus adapted to; the first one's table is runs.csv
    depths: dict[int, int]  # width: depth
    grid: tuple[Part, ...]
    adaptation_warmup: int  # steps
    validation_windows: int

    @property
    def folder(self) -> Path:
        return Path(__file__).parents[1] / self.name

    @property
    def cache(self) -> Path:
        return self.folder / ".cache"

    def suffix(self, shift: str) -> str:
        """Return what the names of a shift's runs and table end in."""
        return "" if shift == next(iter(self.shifts)) else f"-{shift}"

    def table(self, shift: str, *, whole: bool) -> Path:
        """Return where runs of a shift are written: to the committed table if the grid is whole, to one in the cache if not."""
        return (self.folder if whole else self.cache) / f"runs{self.suffix(shift)}.csv"


STAGES = (15, 31, 62, 124, 279)
PYTHON = {
    "Django": "6.1.3",
    "networkx": "3.7",
    "Twisted": "26.10.0",
    "ansible-core": "2.21.5",
    "sphinx": "9.2.0",
    "sympy": "1.14.0",
}
TINYCPT = Sweep(
    name="tinycpt",
    corpora={
        "source": Corpus(PYTHON, r"\.py$"),
        "target": Corpus({"nvidia-cuda-cccl": "13.3.5.0.6"}, r"\.(h|cuh|hpp|inl)$"),
        "docs": Corpus({"botocore": "1.44.5"}, r"service-2\.json\.gz$"),
    },
    shifts={"headers": "target", "docs": "docs"},
    depths={24: 2, 32: 2, 40: 3, 48: 4, 64: 4},
    grid=(
        Part((24, 32), (0, 1, 2), STAGES, (0.05, 0.1, 0.25, 0.5), "headers"),
        Part((40, 48, 64), (0,), STAGES, (0.05, 0.1, 0.25, 0.5), "headers"),
        Part((32,), (0,), STAGES, (0.0, 1.0), "headers"),
        Part((24, 32, 40), (0,), STAGES, (0.1, 0.25, 0.5), "docs"),
    ),
    adaptation_warmup=5,
    validation_windows=2_048,
)

REPLAY = (0.0, 0.05, 0.2, 0.5)
BOTH = ("constant", "annealed")
TINYCPT2 = Sweep(
    name="tinycpt2",
    corpora={
        "source": Corpus(
            {"grpcio": "1.85.1", "duckdb": "2.0.0", "z3-solver": "5.4.1.0", "scipy": "1.18.1"}, r"\.(c|cc|cpp)$", True, 300_000
        ),
        "target": Corpus({"django": "6.1.3", "sqlalchemy": "2.1.9", "salt": "3008.5"}, r"/docs?/.*\.(rst|md|txt)$", True, 300_000),
    },
    shifts={"manuals": "target"},
    depths=dict.fromkeys((16, 24, 32, 48, 64, 96), 3),
    grid=(
        Part((16, 24), (0,), (8, 31, 124, 496), REPLAY, "manuals", BOTH),
        Part((32, 48), (0,), (8, 31, 124), REPLAY, "manuals", BOTH),
        Part((24, 32), (1,), (8, 31, 124), REPLAY, "manuals", BOTH),
        Part((64,), (0,), (8, 31), REPLAY, "manuals"),
        Part((64,), (0,), (8, 31, 124), (0.05, 0.2), "manuals"),
        Part((64,), (0,), (8, 31), (0.05, 0.2), "manuals", BOTH),
        Part((96,), (0,), (8,), (0.05, 0.2), "manuals"),
    ),
    adaptation_warmup=2,
    validation_windows=1_024,
)
RUST = {
    "ruff": "0.17.6",
    "uv": "0.13.9",
    "polars-runtime-32": "2.1.0",
    "nautilus_trader": "1.231.0",
    "pyrefly": "1.4.1",
    "ty": "0.0.107",
    "qiskit": "2.6.2",
    "deltalake": "1.6.6",
    "daft": "0.7.26",
    "hf_xet": "1.8.0",
    "sqruff": "0.44.0",
    "foxglove_sdk": "0.30.3",
    "tokenizers": "0.23.3",
    "cryptography": "50.0.2",
    "rustworkx": "0.18.1",
}
TINYCPT3 = Sweep(
    name="tinycpt3",
    corpora={
        "source": Corpus(RUST, r"\.rs$", True, 300_000),
        "target": Corpus({"homeassistant": "2026.11.0", "scikit_learn": "1.9.1"}, r"\.py$", True, 300_000),
    },
    shifts={"python": "target"},
    depths=dict.fromkeys((24, 32, 48, 64, 96, 128, 192, 256), 3),
    grid=(
        Part((24, 32, 48, 64), (0,), (10, 40, 160, 640), REPLAY, "python", BOTH),
        Part((96, 128), (0,), (10, 40, 160), REPLAY, "python", BOTH),
        Part((192,), (0,), (10, 40), REPLAY, "python", BOTH),
        Part((256,), (0,), (10, 40), (0.05, 0.2, 0.5), "python"),
        Part((32, 48, 64), (1,), (10, 40, 160), REPLAY, "python", BOTH),
        Part((96,), (1,), (10, 40), REPLAY, "python", BOTH),
    ),
    adaptation_warmup=2,
    validation_windows=1_024,
)
SWEEPS = {sweep.name: sweep for sweep in (TINYCPT, TINYCPT2, TINYCPT3)}
