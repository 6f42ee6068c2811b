"""The result of a fit, and the file that keeps it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.core.intervals import interval_names, quantiles
from bayeslaw.core.methods import PublicFunction
from bayeslaw.core.units import NATS
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import data_sha256
from bayeslaw.laws.card import parse_card
from bayeslaw.laws.law import Covariate, Law
from bayeslaw.laws.pooling import varied, with_by
from bayeslaw.laws.prior import Prior
from bayeslaw.noise import noise as noises
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.diagnostics import Check, diagnostics
from bayeslaw.posterior.sensitivity import log_priors, power_scaling
from bayeslaw.posterior.storage import check_seal, check_size, contents_sha256, seal

FORMAT = 2
PLAIN = frozenset(
    {"card", "law_sha256", "data_sha256", "draws_sha256", "contents_sha256", "data"}
)  # attributes stored as they are, the others as JSON


@dataclass(frozen=True)
class Fit:
    """A posterior, what it was made from, and whether its checks passed.

    Attributes
    ----------
    tree : DataTree
        Groups posterior, sample_stats, observed_data and constant_data; usable with ArviZ as it is.
    law : Law
    noise : Noise
    observed : Observations
    checks : tuple of Check
    info : dict
        Seed, settings, versions, digests of card and data.
    """

    tree: xr.DataTree
    law: Law
    noise: Noise
    observed: Observations
    checks: tuple[Check, ...]
    info: Mapping[str, Any]

    forecast, score, anchors, update = PublicFunction(), PublicFunction(), PublicFunction(), PublicFunction()
    allocate, transfer, report = PublicFunction(), PublicFunction(), PublicFunction()

    def __repr__(self) -> str:
        size, verdict = self.tree["posterior"].sizes, "passed" if self.passed else "FAILED"
        fitted = f"{self.observed.log_loss.size:,} losses of {self.observed.runs:,} runs"
        return f"<Fit of {self.name} to {fitted}: {size['chain']} chains of {size['draw']:,} draws, checks {verdict}>"

    @property
    def passed(self) -> bool:
        """Whether every required check passed."""
        return all(c.passed for c in self.checks if c.required)

    @property
    def name(self) -> str:
        """What forecasts and scores call it: the law's name."""
        return self.law.name

    @property
    def covariates(self) -> Mapping[str, Covariate]:
        """What the loss depends on."""
        return self.law.covariates

    @property
    def measured(self) -> Mapping[str, Covariate]:
        """The covariates that are quantities; see `Law.measured`."""
        return self.law.measured

    @property
    def levels(self) -> Mapping[str, tuple[str, ...]]:
        """Values of each column by which parameters vary."""
        return self.law.levels

    @property
    def shares(self) -> tuple[tuple[Fit, NDArray[np.int64]], ...]:
        """Which draws of which fits make a forecast: all of this one."""
        posterior = self.tree["posterior"].sizes
        return ((self, np.arange(posterior["chain"] * posterior["draw"])),)

    @property
    def draws(self) -> dict[str, NDArray[np.float64]]:
        """Posterior draws of the parameters of law and noise, chains joined, arrays (S,)."""
        return {name: values.reshape(-1) for name, values in self.by_chain.items()}

    @cached_property
    def by_chain(self) -> dict[str, NDArray[np.float64]]:
        """Posterior draws of the parameters of law and noise, arrays (chains, draws)."""
        return {name: _values(self.tree, "posterior", name) for name in (*self.law.parameters, *self.noise.parameters)}

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Parameters with equal-tailed credible intervals.

        Returns
        -------
        DataFrame
            One row per parameter: median, mean, sd, eti<prob>_lo, eti<prob>_hi, r_hat, ess_bulk, ess_tail, prior_overlap, and
            `checks`, which says 'passed' or 'FAILED' of the whole fit.
        """
        by_chain = self.by_chain
        low, high = interval_names("eti", ci_prob)
        rows = {}
        for name, values in by_chain.items():
            _, lower, upper = quantiles(values, ci_prob)
            rows[name] = {
                "median": np.median(values),
                "mean": values.mean(),
                "sd": values.std(ddof=1),
                low: lower,
                high: upper,
            }
        overlaps = next(c for c in self.checks if c.name == "informed").table["prior_overlap"]
        table = pd.DataFrame(rows).T.join(diagnostics(by_chain)).join(overlaps).rename_axis("parameter")
        return table.assign(checks="passed" if self.passed else "FAILED")

    def prior_draws(self, size: int, seed: int = 0) -> dict[str, NDArray[np.float64]]:
        """Draws (S,) of the parameters of law and noise before any loss was seen; priors with `on` at the runs' reference point."""
        rng = np.random.default_rng([seed, 2])
        found = self.law.sample_prior(size, self.observed.at, rng)
        for name in self.noise.parameters:
            found[name] = noises.LEAST.get(name, 0.0) + noises.prior(name).sample(size, rng)
        return found

    @property
    def unit(self) -> str:
        """What its losses are in: nats/token, unless it was fitted to losses in another unit."""
        return self.observed.unit

    @property
    def failures(self) -> str:
        """What the required checks that failed say; empty where all passed."""
        return "; ".join(c.text for c in self.checks if c.required and not c.passed)

    def sensitivity(self) -> pd.DataFrame:
        """How much the posterior owes to its priors, by power-scaling; see `bayeslaw.posterior.sensitivity`.

        Returns
        -------
        DataFrame
            One row for each parameter and one for the law's loss at the far end of the runs (covariates that span decades at their
            largest, the others at a middle value): prior_sensitivity, noise_prior_sensitivity, likelihood_sensitivity and `says`,
            'possible prior-data conflict', 'weak likelihood', 'prior of the noise' or nothing.
        """
        seen, covariates = self.observed.covariates, self.law.covariates
        end = {k: float(v.max() if covariates[k].logarithmic else np.sort(v)[v.size // 2]) for k, v in seen.items()}
        if self.law.series:  # nodes go together: those of the row that is farthest in the first of the others
            far = int(seen[next(iter(self.law.axes))].argmax())
            end |= {column: float(seen[column][far]) for columns in self.law.series.values() for column in columns}
        by_chain, draws = self.by_chain, self.draws
        shape = next(iter(by_chain.values())).shape
        label = f"loss at {', '.join(f'{k} = {end[k]:.3g}' for k in (*self.law.axes, *self.law.indicators))}"
        loss = self.law.predict(draws, {k: [v] for k, v in end.items()}).reshape(shape)
        of_law, of_noise = log_priors(self.law, self.noise, draws, self.observed.at)
        likelihood: NDArray[np.float64] = self.log_likelihood("earlier").sum("run").values
        return power_scaling(by_chain | {label: loss}, of_law.reshape(shape), of_noise.reshape(shape), likelihood)

    @property
    def residual(self) -> NDArray[np.float64]:
        """Log loss minus the law's at the rows fitted, array (S, n)."""
        expected: NDArray[np.float64] = np.log(self.law.predict(self.draws, self.observed.covariates))
        return self.observed.log_loss - expected

    def log_likelihood(self, given: Literal["others", "earlier"] = "others") -> xr.DataArray:
        """Log density of each run given each draw, dimensions (chain, draw, run).

        Where runs share the luck of a checkpoint, it is that of a run given the other runs too, as leaving one run out needs; or
        given the earlier ones, so that runs add up to the log likelihood.
        """
        posterior = self.tree["posterior"]
        values = self.noise.log_likelihood(self.residual, self.observed, self.draws, given=given)
        shape = (posterior.sizes["chain"], posterior.sizes["draw"], self.observed.runs)
        return xr.DataArray(values.reshape(shape), dims=("chain", "draw", "run"), coords={"run": list(self.observed.run_names)})

    def save(self, path: str | Path) -> None:
        """Write the fit as one NetCDF file, under a temporary name first: a killed write leaves an older file whole."""
        write_tree(self.tree, Path(path))


def write_tree(tree: xr.DataTree, path: Path) -> None:
    """Write a NetCDF file under a temporary name, then rename it."""
    if not path.parent.is_dir():
        raise BayeslawError(f"There is no folder {path.parent} to write {path.name} into.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        tree.to_netcdf(temporary, engine="h5netcdf")
        seal(temporary)
        temporary.replace(path)
    except (OSError, ValueError) as error:
        raise BayeslawError(f"{path} can't be written: {error}.") from None
    finally:
        temporary.unlink(missing_ok=True)


def _values(tree: xr.DataTree, group: str, name: str) -> NDArray[Any]:
    return np.asarray(tree[group].to_dataset()[name].values)


def tree_of(draws: Mapping[str, NDArray[np.float64]], stats: xr.Dataset, observed: Observations) -> xr.DataTree:
    dims = {2: ("chain", "draw"), 3: ("chain", "draw", "run")}
    coords = {"chain": stats["chain"], "draw": stats["draw"]}
    rows, runs = {"row": observed.rows}, {"run": np.array(observed.run_names, dtype=np.str_)}
    effects = runs if any(v.ndim == 3 for v in draws.values()) else {}
    constants: dict[str, Any] = {k: ("row", v) for k, v in observed.covariates.items()} | {"run_code": ("row", observed.run)}
    constants |= {"loss_se": ("row", observed.se)} if observed.se.size else {}
    constants |= {"clock": ("row", observed.clock)} if observed.clock.size else {}
    names = {"checkpoint": observed.checkpoint_names, "group": observed.group_names or ("",)}
    belongs = {
        name: ("run", np.array(names[name], dtype=np.str_)[code])
        for name, code in {"checkpoint": observed.checkpoint, "group": observed.group}.items()
    }
    groups = {
        "posterior": xr.Dataset({k: (dims[v.ndim], v) for k, v in draws.items()}, coords=coords | effects),
        "sample_stats": stats,
        "observed_data": xr.Dataset({"log_loss": ("row", observed.log_loss)}, coords=rows),
        "constant_data": xr.Dataset(constants | belongs, coords=rows | runs),
    }
    return xr.DataTree.from_dict(groups)


def data_digest(tree: xr.DataTree) -> str:
    """Digest of the observed losses and their covariates."""
    data = tree["constant_data"].to_dataset()
    names = sorted(str(n) for n in data.data_vars if data[n].dims == ("row",))
    columns = {n: _values(tree, "constant_data", n) for n in names}
    frame = pd.DataFrame(columns | {"log_loss": _values(tree, "observed_data", "log_loss")})
    return data_sha256(frame, [*names, "log_loss"])


def draws_digest(tree: xr.DataTree) -> str:
    digest = hashlib.sha256()
    for name in sorted(str(n) for n in tree["posterior"].data_vars):
        digest.update(name.encode() + np.ascontiguousarray(_values(tree, "posterior", name), dtype=np.float64).tobytes())
    return digest.hexdigest()


def read_tree(path: Path) -> xr.DataTree:
    """Read a NetCDF file whole."""
    if not path.is_file():
        raise FitError(f"There is no file {path}.")
    try:
        check_seal(path)
        check_size(path)
        with xr.open_datatree(path, engine="h5netcdf") as stored:
            return stored.load()
    except FitError:
        raise
    except Exception as error:  # h5py raises many kinds on damaged files
        raise _unreadable(path.name, error) from None


def _unreadable(name: str, error: Exception) -> FitError:
    return FitError(f"{name} can't be read as a fit: it is damaged or no NetCDF file ({type(error).__name__}).")


def restore(tree: xr.DataTree, name: str) -> Fit:
    """The fit that a tree read from the file `name` holds."""
    if "bayeslaw_stack" in tree.attrs:
        raise FitError(f"{name} is a stack of fits, not one; read it with `bayeslaw.load_fit`.")
    try:
        info: dict[str, Any] = {str(k): v if k in PLAIN else json.loads(v) for k, v in tree.attrs.items()}
    except (ValueError, TypeError) as error:
        raise _unreadable(name, error) from None
    if info.get("bayeslaw_format") != FORMAT:
        found = info.get("bayeslaw_format", "none")
        raise FitError(
            f"{name} is not a bayeslaw fit of format {FORMAT} (found {found}); write one with `bayeslaw fit … -o FIT.nc`."
        )
    try:
        return _restore(tree, info, name)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        if isinstance(error, BayeslawError):
            raise FitError(f"{name} can't be used: {error}") from None
        raise FitError(f"{name} is damaged: {type(error).__name__} {error}.") from None


def _restore(tree: xr.DataTree, info: dict[str, Any], name: str) -> Fit:
    law = with_by(parse_card(info["card"], f"the card in {name}"), info["by"])
    law = varied(law, info["levels"])
    law = law.with_priors({k: Prior.from_card(table) for k, table in info["priors"].items()})
    found = {"law": law.sha256, "data": data_digest(tree), "draws": draws_digest(tree)}
    for what, digest in found.items():
        if digest != (expected := info[f"{what}_sha256"]):
            raise FitError(f"its {what} changed since it was written (SHA-256 {digest[:12]}… instead of {expected[:12]}…).")
    if contents_sha256(tree) != info["contents_sha256"]:
        raise FitError("its settings, checks or statistics changed since it was written.")
    noise = Noise(**info["noise"] | {"groups": tuple(info["noise"]["groups"])})
    run_names = tuple(map(str, _values(tree, "constant_data", "run")))
    checkpoint, checkpoints = pd.factorize(_values(tree, "constant_data", "checkpoint"))
    # By name: runs are stored in the order of their checkpoints, groups are numbered in that of the table.
    group = pd.Index(noise.groups or ("",)).get_indexer(pd.Index(_values(tree, "constant_data", "group").astype(str)))
    if (group < 0).any():
        raise FitError("the groups of its runs are not those of its noise.")
    base, clock = pd.DataFrame(info["base"]), info.get("clock", {"column": "", "span": 1.0})  # older fits have none
    observed = Observations(
        covariates={c: _values(tree, "constant_data", c) for c in law.covariates},
        log_loss=_values(tree, "observed_data", "log_loss"),
        run=_values(tree, "constant_data", "run_code").astype(np.int64),
        run_names=run_names,
        at={k: float(v) for k, v in info["at"].items()},
        rows=_values(tree, "constant_data", "row").astype(np.int64),
        base=base,
        se=_values(tree, "constant_data", "loss_se") if "loss_se" in tree["constant_data"] else np.empty(0),
        checkpoint=checkpoint.astype(np.int64),
        checkpoint_names=tuple(map(str, checkpoints)),
        group=group.astype(np.int64),
        group_names=noise.groups,
        group_column=info["noise_by"] or "",
        clock=_values(tree, "constant_data", "clock") if clock["column"] else np.empty(0),
        clock_column=clock["column"],
        span=float(clock["span"]),
        unit=info.get("unit", NATS),  # older fits have none
    )
    for parameter in (*law.parameters, *noise.parameters):
        if not np.isfinite(_values(tree, "posterior", parameter)).all():
            raise FitError(f"the draws of {parameter} are not all finite.")
    checks = tuple(Check(c["name"], c["passed"], c["text"], c["required"], pd.DataFrame(c["table"])) for c in info["checks"])
    return Fit(tree, law, noise, observed, checks, info)
