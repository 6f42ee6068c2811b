"""Tables as they stand in files: comma- or tab-separated text, JSON and Parquet, without a look at what their columns mean."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.files import TABLE_ENDINGS

WORKBOOKS = (".xlsx", ".xls", ".ods")
AS_CSV = "Save the sheet as CSV, or read it by pandas.read_excel and give the frame to bayeslaw.read_runs."
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
# Functions of pandas that read files, by their endings: packed tables of text, and others.
OF_TABLES = {
    ".csv": "read_csv", ".tsv": "read_csv with sep='\\t'", ".json": "read_json", ".jsonl": "read_json with lines=True",
}  # fmt: skip
OF_OTHERS = {
    ".pkl": "read_pickle", ".pickle": "read_pickle", ".feather": "read_feather", ".orc": "read_orc", ".dta": "read_stata",
    ".h5": "read_hdf", ".hdf5": "read_hdf",
}  # fmt: skip
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}  # of cells


def read_file(path: Path) -> pd.DataFrame:
    """Read a table of runs by the ending of its name; a file that holds none is refused with its reason."""
    suffix = path.suffix.lower()
    if suffix not in TABLE_ENDINGS:
        problem = f"not in {path.suffix}" if path.suffix else "and this has no ending"
        message = f"{path.name or path}: the name of a table of runs ends in {', '.join(TABLE_ENDINGS)}, {problem}."
        logs = "Logs of training are read by `bayeslaw import` (in Python bayeslaw.import_runs)."
        message += f" {by_pandas(path) or logs}"
        raise BayeslawError(message, code="unknown-ending")
    if not path.is_file():
        raise BayeslawError(f"There is no file {path}.", code="no-such-file")
    try:
        if suffix == ".parquet":
            return read_parquet(path)
        return _records(path) if suffix.startswith(".json") else _text_table(path, "," if suffix == ".csv" else "\t")
    except pd.errors.EmptyDataError:
        raise BayeslawError(
            f"{path.name} is empty: a table begins with the names of its columns.", code="unreadable-table"
        ) from None
    except BayeslawError:
        raise
    except UnicodeDecodeError as error:
        message = f"{path.name} is not UTF-8 text ({error.reason}): save it as UTF-8."
        raise BayeslawError(message, code="unreadable-table") from None
    except (ValueError, OSError, RecursionError) as error:
        message = f"{path.name} can't be read as a {path.suffix} table: {str(error).strip()}."
        raise BayeslawError(message, code="unreadable-table") from None


def by_pandas(path: Path) -> str:
    """Return how a file whose ending shows that it is no text becomes a table of runs; '' for other endings."""
    suffix, within = path.suffix.lower(), Path(path.stem).suffix.lower()
    if suffix in WORKBOOKS:
        return AS_CSV
    if suffix in OF_OTHERS:
        return f"Read it by pandas.{OF_OTHERS[suffix]} and give the frame to bayeslaw.read_runs, or save it as CSV."
    if suffix not in PACKED:
        return ""
    if within in OF_TABLES:
        return f"Unpack it, or read it by pandas.{OF_TABLES[within]}, which unpacks it, and give the frame to bayeslaw.read_runs."
    return "Unpack it, and give what is in it."


def numbered(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose rows are counted from 1, as those of a file below its header."""
    return frame.set_axis(pd.RangeIndex(1, len(frame) + 1, name="row"))


def read_parquet(path: Path) -> pd.DataFrame:
    """Read a file in Parquet; faults of its content are ValueErrors or OSErrors."""
    try:
        return pd.read_parquet(path)
    except ImportError:
        message = f"{path.name} is written as Parquet: pip install 'bayeslaw[parquet]' to read it."
        raise BayeslawError(message, code="missing-package") from None
    except (ValueError, OSError):
        raise
    except Exception as error:  # metadata for pandas that lack a key, or have one of another type
        raise ValueError(f"its metadata are damaged ({type(error).__name__}: {error})") from None


def _text_table(path: Path, separator: str) -> pd.DataFrame:
    content = path.read_bytes()
    if b"\0" in content:  # UTF-16, which may pass for UTF-8
        raise ValueError("it holds NUL bytes: save it as UTF-8 text")
    header = content.partition(b"\n")[0].decode("utf-8-sig")
    if separator not in header and (other := next((s for s in SEPARATORS if s in header), "")):
        way = "`bayeslaw import` (in Python bayeslaw.import_runs) reads a table with losses"
        if other == ";":
            way += ', decimal commas with decimal = "," in a file of --map (map=)'
        way += f"; in a table of settings write {SEPARATORS[separator]}, and points in decimals"
        raise ValueError(f"its header has {SEPARATORS[other]} where {SEPARATORS[separator]} are needed between cells; {way}")
    frame = pd.read_csv(path, sep=separator, dtype=object, keep_default_na=False, na_values=[""], skipinitialspace=True)
    if not isinstance(frame.index, pd.RangeIndex):
        raise ValueError("its rows have more cells than its header has names (commas inside numbers?)")
    return frame


def _records(path: Path) -> pd.DataFrame:
    """Read JSON objects, one a line or all in one list."""
    text = path.read_text(encoding="utf-8-sig").strip()
    whole = text.startswith("[") or text.partition("\n")[0].strip() == "{"  # a list, or one object over several lines
    lines = [text] if whole else [line for line in text.split("\n") if line.strip()]
    values = [json.loads(line, object_pairs_hook=json_object) for line in lines]
    rows = values[0] if text.startswith("[") else values
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError('each line must be an object such as {"N": 1e9, "loss": 2.5}')
    if len(rows) == 1 and rows[0] and all(isinstance(value, (list, dict)) for value in rows[0].values()):
        raise ValueError("it is one object of columns or rows: write a list of objects, in pandas df.to_json(…, orient='records')")
    return pd.DataFrame(rows)


def json_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object; of two values under one key Python would silently keep the last, and we refuse them."""
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"an object gives {next(k for k in keys if keys.count(k) > 1)!r} twice")
    return values
