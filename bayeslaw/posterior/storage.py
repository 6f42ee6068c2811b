"""The NetCDF file of a fit: written in one step, and compared with its checksums when it is read.

The file is the fit's `DataTree`, which ArviZ opens too; the card, settings and checks are its attributes. A checksum of all bytes
follows the end of the HDF5 data and is compared before HDF5 reads the file, since damaged files can keep HDF5 busy for ever.
Digests of card, data, draws and everything else are attributes; they are compared after reading and find later changes. Neither
stops someone who makes a file on purpose, so links, sizes and attributes are checked before anything is read (`structure`).
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import xarray as xr

from bayeslaw.core.errors import BayeslawError, FitError, whole_number
from bayeslaw.core.files import TABLE_ENDINGS, check_target, write_bytes
from bayeslaw.data.curves import ABOUT_AREAS
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import Source, data_sha256
from bayeslaw.laws.card import parse_card
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import with_by, with_levels
from bayeslaw.laws.prior import Prior
from bayeslaw.noise.noise import Noise
from bayeslaw.noise.walk import Walk
from bayeslaw.posterior.diagnostics import Check, Subject
from bayeslaw.posterior.fit import EXTRAPOLATION, Fit, values_of
from bayeslaw.posterior.structure import check_structure, read_groups

FORMAT = 3
ROUNDING = 1e-6  # difference of numbers that are equal but for rounding
MARK = b"bayeslaw"  # precedes the checksum after the HDF5 data
# Attributes that are stored as they are; the others are stored as JSON.
PLAIN = frozenset({"card", "law_sha256", "data_sha256", "draws_sha256", "contents_sha256", "data"})


def write_tree(tree: xr.DataTree, path: Path) -> None:
    """Write a NetCDF file under a temporary name and rename it, so that a killed write leaves an older file intact.

    HDF5 builds it in memory: where the disk is full it crashes.
    """
    check_target(path, "A fit", ".nc")
    content = bytes(tree.to_netcdf(engine="h5netcdf"))
    seal = MARK + hashlib.sha256(content).digest()  # HDF5 ignores what follows its data
    write_bytes(path, content + seal)


def read_tree(path: Path) -> xr.DataTree:
    """Read a NetCDF file into memory, after comparing its checksum and size."""
    if not path.is_file():
        raise FitError(f"There is no file {path}.", code="missing-file")
    if path.suffix.lower() in TABLE_ENDINGS:
        way = f"make one by `bayeslaw fit LAW {shlex.quote(str(path))} -o fit.nc` (bayeslaw.fit)"
        raise FitError(f"{path.name} is a table, and a fit is wanted: {way}.", code="table-for-a-fit")
    try:
        _check_bytes(path)
        check_structure(path)
        return read_groups(path)
    except FitError:
        raise
    except Exception as error:  # h5py raises many kinds of errors on damaged files
        raise _unreadable(path.name, type(error).__name__) from None


def restore(tree: xr.DataTree, name: str) -> Fit:
    """Return the fit in a tree that was read from the file `name`; a FitError says if it holds none, or not what was written."""
    if "bayeslaw_stack" in tree.attrs:
        raise FitError(f"{name} is a stack of fits; read it with `bayeslaw.load_fit`.", code="stack-of-fits")
    try:
        info: dict[str, Any] = {str(k): v if k in PLAIN else json.loads(v) for k, v in tree.attrs.items()}
    except (ValueError, TypeError, RecursionError) as error:
        raise _unreadable(name, type(error).__name__) from None
    if (stored := info.get("bayeslaw_format", "none")) != FORMAT:
        raise FitError(
            f"{name} is not a bayeslaw fit of format {FORMAT} (found {stored}); write one with `bayeslaw fit … -o FIT.nc`.",
            code="other-format",
        )
    try:
        return _restore(tree, info, name)
    except BayeslawError as error:
        raise FitError(f"{name} can't be used: {error}", code=error.code) from None
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, StopIteration, RecursionError) as error:
        raise FitError(f"{name} is damaged: {type(error).__name__} {error}.", code="damaged-file") from None


def _restore(tree: xr.DataTree, info: dict[str, Any], name: str) -> Fit:
    law = with_levels(with_by(parse_card(info["card"], f"the card in {name}"), info["by"]), info["levels"])
    law = law.with_priors({k: Prior.from_card(table) for k, table in info["priors"].items()})
    for content, digest in {"law": law.sha256, "data": data_digest(tree), "draws": draws_digest(tree)}.items():
        if digest != (expected := info[f"{content}_sha256"]):
            raise FitError(
                f"its {content} changed since it was written (SHA-256 {digest[:12]}… instead of {expected[:12]}…).",
                code=f"changed-{content}",
            )
    if contents_digest(tree) != info["contents_sha256"]:
        raise FitError("its settings, checks or statistics changed since it was written.", code="changed-settings")
    noise = Noise.from_table(info["noise"])
    for parameter in (*law.parameters, *noise.parameters):
        if not np.isfinite(values_of(tree, "posterior", parameter)).all():
            raise FitError(f"the draws of {parameter} are not all finite.", code="infinite-draws")
    checks = tuple(Check(**c | {"table": pd.DataFrame(c["table"])}) for c in info["checks"])
    if not all(isinstance(c.passed, bool) and c.subject in get_args(Subject) and isinstance(c.text, str) for c in checks):
        raise FitError("a check's verdict is neither true nor false, or its subject or text is none.", code="damaged-checks")
    if not any(c.name == "informed" and "prior_overlap" in c.table for c in checks):
        raise FitError("the check of which parameters the data inform is missing.", code="damaged-checks")
    _check_settings(info)
    observed = _observations(tree, info, law, noise)
    _check_observations(observed)
    restored = Fit(tree, law, noise, observed, checks, info)
    if EXTRAPOLATION in tree:
        _check_extrapolation(restored)
    return restored


def _check_settings(info: Mapping[str, Any]) -> None:
    """Refuse settings that no fit has: a file's digests can be made anew."""
    whole_number("its seed", info["seed"], 0)
    for column, (_, end, _) in ABOUT_AREAS.items():
        if not isinstance(value := info.get(column, 0.0), float) or not 0 <= value < end:
            raise FitError(f"the {column} of its areas is no number that can be.", code="damaged-settings")
    lengths = info.get("token_length", {})
    if not isinstance(lengths, dict) or not all(isinstance(length, float) and length > 0 for length in lengths.values()):
        raise FitError("the lengths of its tokens are no positive numbers.", code="damaged-settings")
    if not isinstance(info.get("loss_unit", ""), str):
        raise FitError("the unit of the losses on which its outcomes depend is no text.", code="damaged-settings")
    if not isinstance(info["noise_by"], str | None):
        raise FitError("the column of the groups of its noise is no text.", code="damaged-settings")
    for setting in ("draws", "tune", "chains"):
        whole_number(f"its number of {setting}", info["settings"][setting], 0)
    sources = [Source(**source) for source in info["sources"]]
    texts = [text for source in sources for text in (source.name, source.where, *source.columns, *source.columns.values())]
    if not sources or not all(isinstance(text, str) for text in texts):
        raise FitError("the names of its tables or of their columns are missing, or are no texts.", code="damaged-sources")
    about = info.get("discrepancy", {})
    if not isinstance(about, dict) or not all(isinstance(about.get(name, ""), str) for name in ("asked", "reason")):
        raise FitError("what it says of the learnt discrepancy is no text.", code="damaged-extrapolation")


def _check_extrapolation(fit: Fit) -> None:
    """Refuse draws of the law with an error that are not what was learnt from the fit's rows: a file's digests can be made anew."""
    group = {str(name): np.asarray(values) for name, values in fit.tree[EXTRAPOLATION].to_dataset().data_vars.items()}
    for name, values in group.items():
        if values.dtype.kind != "f" or not np.isfinite(values).all():
            raise FitError(f"the draws of {name} for forecasts outside the runs are not all finite numbers.", code="infinite-draws")
    walk = Walk.of(fit.law, fit.observed.covariates)
    if walk is None:
        raise FitError("it has draws of a discrepancy, and its law can't learn any.", code="damaged-extrapolation")
    loadings, squares = group["loadings"], group["squares"]
    expected: dict[str, tuple[int, ...]] = dict.fromkeys((*fit.law.parameters, *fit.noise.parameters, "discrepancy"), fit.shape)
    expected |= {"coefficients": (*fit.shape, squares.size), "squares": (squares.size,)}
    expected["loadings"] = (int(walk.inside.sum()), squares.size)
    if "multiple" in group:
        expected["multiple"] = fit.observed.response.shape
    for name, size in expected.items():
        if group[name].shape != size:
            problem = f"{name} for forecasts outside the runs has the shape {group[name].shape}, not {size}."
            raise FitError(problem, code="damaged-extrapolation")
    for name, what in (("discrepancy", "draws of the discrepancy"), ("multiple", "weights of outliers")):
        if not (group.get(name, np.ones(1)) > 0).all():
            raise FitError(f"the {what} are not all positive.", code="damaged-extrapolation")
    components = walk.features(fit.observed.covariates)[:, walk.inside] @ loadings
    if not (
        np.allclose(loadings.T @ loadings, np.eye(squares.size), atol=ROUNDING)
        and np.allclose((components**2).sum(0), squares, ROUNDING)
    ):
        raise FitError("what was learnt from its runs about the discrepancy does not fit its rows.", code="damaged-extrapolation")


def _check_observations(observed: Observations) -> None:
    """Refuse numbers that no table gives: a file's digests can be made anew."""
    columns = {
        **observed.covariates,
        observed.outcome.name: observed.response,
        observed.outcome.error: observed.se,
        "clock": observed.clock,
    }
    for name, values in columns.items():
        if values.shape not in ((observed.run.size,), (0,)) or not np.isfinite(values).all():
            raise FitError(f"the values of {name} are not one finite number a row.", code="damaged-data")
    if not np.array_equal(np.unique(observed.run), np.arange(len(observed.run_names))) or (np.diff(observed.run) < 0).any():
        raise FitError("the numbers of its runs are not those of its names of runs, in order.", code="damaged-data")
    if not (observed.checkpoint.size == observed.group.size == len(observed.run_names)):
        raise FitError("its runs have not one checkpoint and one group each.", code="damaged-data")


def _observations(tree: xr.DataTree, info: dict[str, Any], law: Law, noise: Noise) -> Observations:
    """Return the observations stored in a fit's tree."""
    constant = partial(values_of, tree, "constant_data")
    checkpoint, checkpoints = pd.factorize(constant("checkpoint"))
    # Groups are matched by name: runs are stored in the order of their checkpoints, groups are numbered in that of the table.
    group = pd.Index(noise.groups or ("",)).get_indexer(pd.Index(constant("group").astype(str)))
    row_group = np.empty(0, dtype=np.int64)
    if "row_group" in tree["constant_data"]:
        row_group = pd.Index(noise.groups).get_indexer(pd.Index(constant("row_group").astype(str))).astype(np.int64)
    if (group < 0).any() or (row_group < 0).any():
        raise FitError("the groups of its runs are not those of its noise.", code="unknown-group")
    clock = info["clock"]
    return Observations(
        covariates={c: constant(c) for c in law.covariates},
        response=values_of(tree, "observed_data", law.outcome.observed),
        run=constant("run_code").astype(np.int64),
        run_names=tuple(map(str, constant("run"))),
        at={k: float(v) for k, v in info["at"].items()},
        rows=constant("row").astype(np.int64),
        base=pd.DataFrame(info["base"]),
        se=constant(law.outcome.error) if law.outcome.error in tree["constant_data"] else np.empty(0),
        checkpoint=checkpoint.astype(np.int64),
        checkpoint_names=tuple(map(str, checkpoints)),
        group=group.astype(np.int64),
        group_names=noise.groups,
        group_column=info["noise_by"] or "",
        clock=constant("clock") if clock["column"] else np.empty(0),
        clock_column=clock["column"],
        span=float(clock["span"]),
        unit=info["unit"],
        outcome=law.outcome,
        row_group=row_group,
    )


def data_digest(tree: xr.DataTree) -> str:
    """SHA-256 of the observed outcomes and their covariates."""
    data = tree["constant_data"].to_dataset()
    names = sorted(str(n) for n in data.data_vars if data[n].dims == ("row",))
    columns = {n: values_of(tree, "constant_data", n) for n in names}
    (outcome,) = map(str, tree["observed_data"].data_vars)
    frame = pd.DataFrame(columns | {outcome: values_of(tree, "observed_data", outcome)})
    return data_sha256(frame, [*names, outcome])


def draws_digest(tree: xr.DataTree) -> str:
    """SHA-256 of the posterior draws."""
    digest = hashlib.sha256()
    for name in sorted(str(n) for n in tree["posterior"].data_vars):
        digest.update(name.encode() + np.ascontiguousarray(values_of(tree, "posterior", name), dtype=np.float64).tobytes())
    return digest.hexdigest()


def contents_digest(tree: xr.DataTree) -> str:
    """SHA-256 of all that a file holds: draws, statistics, settings, checks, names of runs."""
    digest = hashlib.sha256()
    for name in sorted(str(k) for k in tree.attrs if k != "contents_sha256"):
        digest.update(f"{name}={tree.attrs[name]}\n".encode())
    for group in sorted(map(str, tree.children)):
        variables = tree[group].to_dataset()
        for name in sorted(map(str, variables.variables)):
            values = np.asarray(variables[name].values)
            digest.update(f"{group}/{name} {variables[name].dims} {values.shape}\n".encode())
            numeric = values.dtype.kind in "fiub"
            digest.update(values.astype(np.float64).tobytes() if numeric else "\x00".join(map(str, values.ravel())).encode())
    return digest.hexdigest()


def _check_bytes(path: Path) -> None:
    """Refuse a file whose bytes differ from its checksum.

    A file that ends where HDF5 says it does was saved by another program and has no checksum. It is accepted here;
    `contents_digest` finds what changed.
    """
    content = path.read_bytes()
    end = _hdf5_end(content)
    if end is None or len(content) <= end:
        return
    if content[end:] != MARK + hashlib.sha256(content[:end]).digest():
        raise _unreadable(path.name, "its bytes are not those written")


def _hdf5_end(content: bytes) -> int | None:
    """Return where an HDF5 file ends by its superblock, or None where it has no known superblock."""
    if len(content) < 48 or not content.startswith(b"\x89HDF\r\n\x1a\n"):
        return None
    where = {0: 40, 1: 44, 2: 28, 3: 28}.get(content[8])
    return None if where is None else int.from_bytes(content[where : where + 8], "little")


def _unreadable(name: str, reason: str) -> FitError:
    return FitError(f"{name} can't be read as a fit: it is damaged or no NetCDF file ({reason}).", code="unreadable-file")
