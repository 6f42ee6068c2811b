"""The result of a fit: posterior draws, the law and data they belong to, and checks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayeslaw.core import html
from bayeslaw.core.arrays import Index, read_only
from bayeslaw.core.errors import BayeslawError, FitError, shown, whole_number
from bayeslaw.core.files import as_path
from bayeslaw.core.intervals import interval_names, quantiles
from bayeslaw.core.methods import PublicFunction
from bayeslaw.core.streams import PriorStream
from bayeslaw.core.text import counted, short_lines
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import Runs, Source
from bayeslaw.laws.law import Covariate, Law
from bayeslaw.laws.outcome import Outcome
from bayeslaw.noise.custom import PointNoise
from bayeslaw.noise.noise import Noise, Shifted
from bayeslaw.noise.walk import Walk
from bayeslaw.posterior.diagnostics import ESS, LONGER, R_HAT, Check, Verdicts, diagnostics, model_label, sampling_label
from bayeslaw.posterior.discrepancy import LearntDiscrepancy
from bayeslaw.posterior.draws import LawDraws
from bayeslaw.posterior.sensitivity import log_priors, power_scaling

if TYPE_CHECKING:
    import pymc as pm

Group = Literal[
    "posterior", "sample_stats", "log_likelihood", "log_prior", "prior", "posterior_predictive", "observed_data", "constant_data"
]
GROUPS: tuple[Group, ...] = get_args(Group)
Per = Literal["run", "row"]
DATA = ("observed_data", "constant_data")
EXTRAPOLATION = "extrapolation"
"""Group of a fit's tree with the draws of the model in which the law has an error."""
LEAST_DRAWS = 400  # for tail probabilities and covariances
SCALED = 4_000_000  # log likelihoods of rows that are computed for sensitivities: all draws of 1,000 rows


class Fitted(Protocol):
    """A law fitted to runs, with draws of its parameters: a fit, or a point fit with one draw."""

    @property
    def law(self) -> Law: ...

    @property
    def observed(self) -> Observations: ...

    @property
    def draws(self) -> dict[str, NDArray[np.float64]]: ...


class OfOneLaw:
    """What fits and point fits have from their law, their runs and their draws."""

    @property
    def name(self: Fitted) -> str:
        """Name in forecasts, scores and errors: the law's."""
        return self.law.name

    @property
    def outcome(self: Fitted) -> Outcome:
        """What the law predicts."""
        return self.law.outcome

    @property
    def unit(self: Fitted) -> str:
        """Unit of the outcome: of losses nats/token, unless it was fitted to losses in another unit."""
        return self.observed.unit

    @property
    def covariates(self: Fitted) -> Mapping[str, Covariate]:
        """Quantities that the loss depends on; see `Law.covariates`."""
        return self.law.covariates

    @property
    def measured(self: Fitted) -> Mapping[str, Covariate]:
        """The covariates that are quantities; see `Law.measured`."""
        return self.law.measured

    @property
    def levels(self: Fitted) -> Mapping[str, tuple[str, ...]]:
        """Values of each column by which parameters vary."""
        return self.law.levels

    def draws_of(self: Fitted, chosen: Index | slice) -> dict[str, NDArray[np.float64]]:
        """Return some of the draws, arrays (s,).

        Parameters
        ----------
        chosen : int array (s,) or slice
            Numbers of draws.
        """
        return {name: values[chosen] for name, values in self.draws.items()}


@dataclass(frozen=True, eq=False)
class Fit(OfOneLaw, Verdicts):
    """A posterior with its law, noise, data and checks.

    `bayeslaw.fit` makes it, `bayeslaw.load_fit` reads it from a file.

    Attributes
    ----------
    tree : DataTree
        What the fit's file holds: draws of the parameters that the card names, statistics of the sampler, and data; its arrays
        can be read and not changed. For ArviZ and PyMC take `to_datatree`, which has copies of them, the model's variables and all
        other groups that their functions ask for.
    info : dict
        Seed, settings, versions, sources of the rows, digests of card and data.
    discrepancy : LearntDiscrepancy, optional
        The error of the law, in the posterior that answers for settings outside the runs (`extrapolation`).

    Examples
    --------
    >>> fit = bayeslaw.load_fit("fit.nc")
    >>> fit.passed, fit.law.name
    (True, 'chinchilla')
    >>> fit.summary()["median"].round(1).index.tolist()[:3]
    ['E', 'A', 'alpha']
    """

    tree: xr.DataTree
    law: Law
    noise: Noise
    observed: Observations
    checks: tuple[Check, ...]
    info: Mapping[str, Any]
    discrepancy: LearntDiscrepancy | None = None

    def __post_init__(self) -> None:
        """Lock the arrays of the tree: a file whose draws are not those that were sampled is refused."""
        for group in self.tree.children.values():
            for variable in group.to_dataset().data_vars.values():
                variable.values.flags.writeable = False

    forecast, score, anchors, update = PublicFunction(), PublicFunction(), PublicFunction(), PublicFunction()
    allocate, transfer, tuning, report = PublicFunction(), PublicFunction(), PublicFunction(), PublicFunction()

    @property
    def token_length(self) -> dict[str, float]:
        """Bytes or characters of a token of the fitted losses, by the column that says so; empty where none does."""
        return dict(self.info.get("token_length", {}))

    def __repr__(self) -> str:
        chains, draws = self.shape
        verdicts = f"sampling {sampling_label(self.checks)}, model {model_label(self.checks)}"
        drawn = f"{counted(chains, 'chain')} of {counted(draws, 'draw')}"
        return short_lines(f"<Fit of {self.name} to {self._fitted}: {drawn}, {verdicts}>")

    @property
    def _fitted(self) -> str:
        """Of how many outcomes and runs it is a fit, in words."""
        return f"{counted(self.observed.response.size, self.law.outcome.name)} of {counted(self.observed.runs, 'run')}"

    def _repr_html_(self) -> str:
        """Show formula, verdicts and parameters in a notebook; intervals of a fit whose sampling failed are left out."""
        from bayeslaw.posterior.parameters import describe_parameter, parameter_unit  # which imports this module

        frame = self.summary().reset_index()[["parameter", "median", *(interval_names("eti", 0.9) if self.passed else ())]]
        names = frame["parameter"].map(str)
        frame = frame.assign(unit=[parameter_unit(self, n) for n in names], meaning=[describe_parameter(self, n)[0] for n in names])
        fitted = f"to {self._fitted} ({self.origin}); {self.noise.text}"
        concerns = [str(check) for check in self.concerns] + ([text] if (text := self.learnt()) and self.passed else [])
        stopped = html.alarm("Sampling was interrupted before its end.") if self.info["interrupted"] else ""
        return html.fragment(
            f"Fit of {self.name}", fitted, html.formulas(self.law.mathml), stopped, html.verdicts(*self.verdicts), html.grid(frame),
            html.notes(concerns),
        )  # fmt: skip

    @cached_property
    def model(self) -> pm.Model:
        """The PyMC model whose posterior this is; see `bayeslaw.pymc_model`. `to_datatree` has draws of its variables."""
        from bayeslaw.noise.model import pymc_model

        return pymc_model(self.law, self.observed, self.noise)

    def to_datatree(self, groups: Iterable[Group] = GROUPS, *, per: Per = "run", seed: int = 0) -> xr.DataTree:
        """Return the fit as ArviZ and PyMC take it: draws of the variables of `model`, and the groups that their functions ask for.

        Parameters
        ----------
        groups : iterable of str
            Of posterior, sample_stats, log_likelihood, log_prior, prior, posterior_predictive, observed_data and constant_data;
            all of them unless some are named. The larger ones have chains x draws x rows numbers.
        per : {'run', 'row'}
            What `az.loo` leaves out: the log likelihood is that of whole runs, as in `bayeslaw.compare`, or of single rows, as
            `az.plot_loo_pit` needs. Densities are given all other runs, or rows, that share an effect.
        seed : int
            Seed of draws from the prior and of losses.

        Returns
        -------
        DataTree
            Variables have the names of `model`: ``A_level`` beside ``A`` where the prior is on the term at the runs' reference
            point, ``dof_above_2`` beside ``dof``, ``E_by_domain`` with the dimension `domain` for the values of a parameter that
            differs by a column. Losses are log losses, one a row (``log_loss``). posterior_predictive has them for new runs at
            the fitted settings, with Student-t noise for the fitted runs. log_prior has the priors of law and noise; effects of
            runs and pooled values are not priors. Its arrays are copies: to change them does not change the fit.

        Raises
        ------
        BayeslawError
            For a group that is none of these, and for densities of rows where the noise only has those of runs.

        Examples
        --------
        >>> tree = bayeslaw.load_fit("fit.nc").to_datatree()
        >>> list(tree["posterior"].data_vars)[:3], tree["log_likelihood"]["log_loss"].dims
        (['E', 'A_level', 'A'], ('chain', 'draw', 'run'))
        """
        from bayeslaw.posterior.datatree import datatree  # which imports this module

        return datatree(self, groups, per, seed)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The tables that its rows came from, the first fit's first, then those of updates."""
        return tuple(Source(**source) for source in self.info["sources"])

    @property
    def origin(self) -> str:
        """The sources as text, such as 'runs.csv (60 rows, where ptpp <= 31)'."""
        rows, texts = int(self.observed.response.size) + len(self.observed.base), []
        for source in self.sources:
            details = [] if source.rows == rows else [f"{source.rows} rows"]
            details += [f"where {source.where}"] if source.where else []
            details += ["without repeated rows"] if source.duplicates == "drop" else []
            texts.append(source.name + (f" ({', '.join(details)})" if details else ""))
        return " and ".join(texts)

    @property
    def selections(self) -> tuple[tuple[Fit, NDArray[np.int64]], ...]:
        """Pairs of a fit and the indices of the draws that make a forecast: all draws of this fit."""
        return ((self, np.arange(self.size)),)

    @property
    def size(self) -> int:
        """Number of draws S."""
        chains, draws = self.shape
        return chains * draws

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of chains and of the draws of each."""
        sizes = self.tree["posterior"].sizes
        return sizes["chain"], sizes["draw"]

    @property
    def draws(self) -> dict[str, NDArray[np.float64]]:
        """Posterior draws of the parameters of law and noise with chains joined, arrays (S,) that can be read and not changed."""
        return {name: read_only(values.reshape(-1)) for name, values in self.by_chain.items()}

    @cached_property
    def by_chain(self) -> dict[str, NDArray[np.float64]]:
        """Posterior draws of the parameters of law and noise, arrays (chains, draws) that can be read and not changed."""
        return {name: read_only(values_of(self.tree, "posterior", name)) for name in (*self.law.parameters, *self.noise.parameters)}

    def summary(self, ci_prob: float = 0.9) -> pd.DataFrame:
        """Return a table of the parameters with equal-tailed credible intervals of probability `ci_prob`.

        Columns are median, eti<prob>_lb, eti<prob>_ub, mean, sd, r_hat, ess_bulk, ess_tail, prior_overlap, and the verdicts on
        the whole fit: `checks` ('passed' or 'FAILED') on its sampling and `model` ('no concerns', 'concerns', 'not assessed').

        Parameters
        ----------
        ci_prob : float
            Between 0 and 1.

        Returns
        -------
        DataFrame
            A row for each parameter of law and noise.

        Raises
        ------
        BayeslawError
            If `ci_prob` is no probability.
        """
        ends, rows = interval_names("eti", ci_prob), {}
        for name, values in self.by_chain.items():
            interval = dict(zip(ends, quantiles(values, ci_prob)[1:], strict=True))
            rows[name] = {"median": np.median(values)} | interval | {"mean": values.mean(), "sd": values.std(ddof=1)}
        overlaps = next(c for c in self.checks if c.name == "informed").table["prior_overlap"]
        table = pd.DataFrame(rows).T.join(diagnostics(self.by_chain)).join(overlaps).rename_axis("parameter")
        return table.assign(checks=sampling_label(self.checks), model=model_label(self.checks))

    def prior_draws(self, size: int, seed: int = 0) -> dict[str, NDArray[np.float64]]:
        """Return prior draws of the parameters of law and noise; priors with `on` are at the runs' reference point.

        Parameters
        ----------
        size : int
        seed : int
            Equal seeds give equal draws.

        Returns
        -------
        dict of str to array (size,)
        """
        whole_number("size", size, 1)
        whole_number("seed", seed, 0)
        rng = np.random.default_rng([seed, PriorStream.ASKED])
        draws = self.law.sample_prior(size, self.observed.at, rng)
        for name in self.noise.parameters:
            draws[name] = self.noise.least(name) + self.noise.prior(name).sample(size, rng)
        return draws

    def sensitivity(self) -> pd.DataFrame:
        """Return the sensitivity of the posterior to its priors: the table of `bayeslaw.posterior.sensitivity.power_scaling`.

        It has one row for each parameter and one for the law's loss at the far end of the runs (covariates that span decades at
        their largest, the others at a median value, shares of a mixture as in the row nearest to their medians), of the commonest
        value of each column by which parameters differ.
        """
        seen, covariates = self.observed.covariates, self.law.covariates
        end = {k: float(v.max() if covariates[k].logarithmic else np.sort(v)[v.size // 2]) for k, v in seen.items()}
        if self.law.series:  # the nodes of a series are those of one row, which is farthest in the first axis
            farthest = int(seen[next(iter(self.law.axes))].argmax())
            end |= {column: float(seen[column][farthest]) for columns in self.law.series.values() for column in columns}
        if self.law.shares:  # medians of shares don't add up to 1
            shares = np.stack([seen[name] for name in self.law.shares])
            nearest = int(((shares - np.median(shares, axis=1, keepdims=True)) ** 2).sum(axis=0).argmin())
            end |= {name: float(seen[name][nearest]) for name in self.law.shares}
        end |= dict.fromkeys(self.law.indicators, 0.0)
        commonest = {}
        for column, values in self.law.levels.items():
            marks = self.law.marks_of(column)
            most = int(np.argmax([seen[name].sum() for name in marks]))
            end[marks[most]], commonest[column] = 1.0, values[most]
        at = [*(f"{k} = {end[k]:.3g}" for k in self.law.axes), *(f"{k} = {v}" for k, v in commonest.items())]
        label = f"{self.law.outcome.name} at {', '.join(at)}"
        value = self.law.predict(self.draws, {k: [v] for k, v in end.items()}).reshape(self.shape)
        return self.sensitivity_of(self.by_chain | {label: value})

    def sensitivity_of(self, quantities: Mapping[str, NDArray[np.float64]]) -> pd.DataFrame:
        """Return the sensitivity to priors of quantities (chains, draws) of this fit's draws; see `power_scaling`.

        Of large tables some draws are used, as many as have 4 million log likelihoods of rows, and at least 200 of each chain.
        """
        every, *densities = self._log_densities
        return power_scaling({name: values[:, ::every] for name, values in quantities.items()}, *densities)

    @cached_property
    def _log_densities(self) -> tuple[int, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Step between draws, and log densities (chains, draws) of the priors of law and noise and of the losses at those."""
        chains, length = self.shape
        every = max(1, min(length // 200, chains * length * self.observed.response.size // SCALED))
        some = {name: values[:, ::every].reshape(-1) for name, values in self.by_chain.items()}
        residual = self.law.outcome.residual(self.observed.response, self.law.predict(some, self.observed.covariates))
        shifted = self.at_effects(self.observed, some)
        of_runs = self.noise.log_likelihood(np.asarray(residual), self.observed, some, given="earlier", shifted=shifted)
        likelihood = of_runs.sum(axis=1)
        by_name = log_priors(self.law, self.noise, some, self.observed.at)
        of_law, of_noise = (np.sum(list(d.values()), axis=0).reshape(chains, -1) for d in by_name)
        return every, of_law, of_noise, likelihood.reshape(chains, -1)

    @property
    def asked_for_errors(self) -> bool:
        """Whether an error of the law was to be learnt (`discrepancy` of `bayeslaw.fit`), whether or not it could be."""
        return bool(self.info.get("discrepancy", {}).get("asked") == "learned")

    @cached_property
    def extrapolation(self) -> Fit | None:
        """The posterior of the model in which the law has an error, from which forecasts outside the runs come; or None.

        Where no error was learnt from the runs, it is the fit's own, and the law errs beyond the runs alone.
        """
        if not self.asked_for_errors or self.discrepancy is not None:
            return None
        walk = Walk.of(self.law, self.observed.covariates)
        if walk is None:
            return None
        if EXTRAPOLATION not in self.tree:
            nothing = np.zeros((self.size, walk.squares.size))
            return replace(self, discrepancy=LearntDiscrepancy(replace(walk, exact=True), nothing, nothing.sum(axis=1)))
        draws = self.tree[EXTRAPOLATION].to_dataset()
        # Sums over arrays that lie otherwise in memory, as those of a file may, have other last digits.
        walk = replace(walk, loadings=np.ascontiguousarray(draws["loadings"].values), squares=np.asarray(draws["squares"].values))
        if "multiple" in draws:
            walk = replace(walk, multiple=np.asarray(draws["multiple"].values))
        flat = np.asarray(draws["coefficients"].values).reshape(-1, walk.squares.size)
        learnt = LearntDiscrepancy(walk, flat, np.asarray(draws["discrepancy"].values).reshape(-1))
        kept = draws.drop_vars(["loadings", "squares", "coefficients", "discrepancy", "multiple"], errors="ignore")
        tree = xr.DataTree.from_dict({"posterior": kept} | {k: v.to_dataset() for k, v in self.tree.children.items() if k in DATA})
        return replace(self, tree=tree, discrepancy=learnt)

    def learnt(self, ci_prob: float = 0.9, beyond: str = "") -> str:
        """Say in a sentence how large the discrepancy is that was learnt, or why none was; empty for fits made without asking.

        Parameters
        ----------
        ci_prob : float
        beyond : str
            What the law is beyond the runs, in words, if it is fitted beside others and that is not what it is by itself.
        """
        from bayeslaw.posterior.run_distance import RunDistance  # which imports this module

        with_error = self.extrapolation
        if with_error is not None and with_error.discrepancy is not None and not with_error.discrepancy.walk.exact:
            factor, sign = (100, "%") if self.law.outcome.relative else (1, "")
            median, low, high = (f"{factor * value:.2g}" for value in quantiles(with_error.discrepancy.scale, ci_prob))
            interval = f"{ci_prob * 100:g}% equal-tailed interval {low} to {high}{sign}"
            learnt = f"Discrepancy learnt from the runs: the law errs by {median}{sign} an e-fold away from the largest"
            beyond_runs = "Beyond the runs the errors that laws have on other ladders are added."
            return f"{learnt} ({interval}). {beyond_runs}{self._mixing_of(with_error)}"
        if not (reason := self.info.get("discrepancy", {}).get("reason", "")):
            return ""
        alone = "beyond them it has the error that laws have on other ladders" if with_error else "and beyond"
        distance = RunDistance.of(self)
        of_runs = "" if distance is None else f" Losses of a new run lie as far from it as those of the fitted runs: {distance}."
        return f"No discrepancy was learnt, because {reason}: the law counts as exact inside the runs, {beyond or alone}.{of_runs}"

    def _mixing_of(self, with_error: Fit) -> str:
        """Say that draws of the law with its error mix too slowly for forecasts outside the runs, where they do."""
        draws = with_error.tree["posterior"].to_dataset()
        mixing = diagnostics({name: draws[name].values for name in self.law.parameters if name in draws})
        worst, least = mixing["r_hat"].max(), min(mixing["ess_bulk"].min(), mixing["ess_tail"].min())
        if worst <= R_HAT and least >= ESS:
            return ""
        slow = f"Draws of the law with this error mix slowly (R-hat {worst:.3f}, {least:.0f} effective draws)"
        return f" {slow}, and forecasts outside the runs may be refused. {LONGER}."

    @property
    def residual(self) -> NDArray[np.float64]:
        """Responses (log losses) minus the law's at the fitted rows, array (S, n)."""
        return self.residual_of(self.observed)

    def residual_of(self, observed: Observations, chosen: Index | slice = slice(None)) -> NDArray[np.float64]:
        """Responses minus the law's and its learnt error at some of the fitted rows (n,), by the draws `chosen`, (s, n)."""
        residual = self.law.outcome.residual(observed.response, self.law.predict(self.draws_of(chosen), observed.covariates))
        return np.asarray(residual if self.discrepancy is None else residual - self.discrepancy.learnt(observed.covariates, chosen))

    def at_effects(self, observed: Observations, draws: Mapping[str, NDArray[np.float64]]) -> Shifted:
        """Return the law's values (S, n) by draws as a function of what is added to the covariate that run effects shift."""

        def expected(effect: NDArray[np.float64]) -> NDArray[np.float64]:
            column = observed.covariates[self.noise.shifts]
            return LawDraws(self.law, draws).outcome(observed.covariates | {self.noise.shifts: column + effect}, axes=1)

        return expected

    def log_likelihood(self, given: Literal["others", "earlier"] = "others") -> xr.DataArray:
        """Return the log density of each run given each draw, dimensions (chain, draw, run).

        Runs that share a checkpoint effect are not independent. Their densities are conditional on all other runs, as leaving one
        run out needs, or on the earlier runs, so that the sum over runs is the log likelihood.

        Parameters
        ----------
        given : {'others', 'earlier'}
            Which runs a run's density is conditional on.

        Returns
        -------
        DataArray (chain, draw, run)
        """
        if given not in ("others", "earlier"):
            raise BayeslawError(f"A run's density is given 'others' or 'earlier' runs, not {given!r}.", code="unknown-condition")
        shifted = self.at_effects(self.observed, self.draws)
        values = self.noise.log_likelihood(self.residual, self.observed, self.draws, given=given, shifted=shifted)
        shape = (*self.shape, self.observed.runs)
        return xr.DataArray(values.reshape(shape), dims=("chain", "draw", "run"), coords={"run": list(self.observed.run_names)})

    def save(self, path: str | Path) -> None:
        """Write the fit as one NetCDF file; a killed write leaves an older file intact.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        BayeslawError
            If its noise is a function of your own, which is code.
        """
        from bayeslaw.posterior.storage import write_tree  # which imports this module

        if isinstance(self.noise, PointNoise):
            problem = "A fit with a noise of your own can't be written to a file, since its noise is code. Keep its tables instead."
            raise BayeslawError(problem, code="noise-is-code")
        write_tree(self.tree, as_path(path, "A fit"))


def values_of(tree: xr.DataTree, group: str, name: str) -> NDArray[Any]:
    """Return the values of a variable of a fit's tree.

    Parameters
    ----------
    tree : DataTree
    group, name : str
        A group such as 'posterior', and a variable in it.
    """
    return np.asarray(tree[group].to_dataset()[name].values)


def tree_of(draws: Mapping[str, NDArray[np.float64]], stats: xr.Dataset, observed: Observations) -> xr.DataTree:
    """Return the tree of a fit.

    Parameters
    ----------
    draws : mapping of parameter to array (chains, draws) or (chains, draws, runs)
    stats : Dataset
        Statistics of the sampler, with coordinates chain and draw.
    observed : Observations
    """
    dims = {2: ("chain", "draw"), 3: ("chain", "draw", "run")}
    coords = {"chain": stats["chain"], "draw": stats["draw"]}
    rows, runs = {"row": observed.rows}, {"run": np.array(observed.run_names, dtype=np.str_)}
    effects = runs if any(v.ndim == 3 for v in draws.values()) else {}
    constants: dict[str, Any] = {k: ("row", v) for k, v in observed.covariates.items()} | {"run_code": ("row", observed.run)}
    constants |= {observed.outcome.error: ("row", observed.se)} if observed.se.size else {}
    constants |= {"clock": ("row", observed.clock)} if observed.clock.size else {}
    codes = {
        "checkpoint": (observed.checkpoint_names, observed.checkpoint),
        "group": (observed.group_names or ("",), observed.group),
    }
    belongs = {name: ("run", np.array(names, dtype=np.str_)[code]) for name, (names, code) in codes.items()}
    if observed.row_group.size:
        belongs["row_group"] = ("row", np.array(observed.group_names, dtype=np.str_)[observed.row_group])
    groups = {
        "posterior": xr.Dataset({k: (dims[v.ndim], v) for k, v in draws.items()}, coords=coords | effects),
        "sample_stats": stats,
        "observed_data": xr.Dataset({observed.outcome.observed: ("row", observed.response)}, coords=rows),
        "constant_data": xr.Dataset(constants | belongs, coords=rows | runs),
    }
    return xr.DataTree.from_dict(groups)


def require_fits(*given: object, points: bool = False) -> None:
    """Refuse what is no fit or stack, such as the path of one, nor a point fit where `points` may be used."""
    for value in given:
        if hasattr(value, "selections") and (points or not hasattr(value, "bootstrap")):  # which only point fits have
            continue
        kinds = "fit, a stack or a point fit" if points else "fit or a stack"
        what = f"the path {str(value)!r}" if isinstance(value, (str, Path)) else shown(value)
        advice = "bayeslaw.load_fit reads one from its file."
        if isinstance(value, (pd.DataFrame, Runs)):
            advice = "have two arguments changed places?"
        elif isinstance(value, Law):
            advice = "bayeslaw.fit makes one of a law and runs."
        raise BayeslawError(f"Give a {kinds}, not {what}: {advice}", code="not-a-fit")


def require_single_fit(fit: object, what: str) -> Fit:
    """Return a single fit; refuse anything else, such as a stack. `what` is the subject of the error message."""
    if not isinstance(fit, Fit):
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(fit).__name__).lower()  # such as point fit
        raise FitError(
            f"{what} takes the fit of one law, not a {kind}: give one that `bayeslaw fit` wrote for a single law "
            "(in Python one of bayeslaw.fit).",
            code="not-a-single-fit",
        )
    return fit


def require_draws(fit: Fit, what: str, least: int = LEAST_DRAWS) -> None:
    """Refuse a fit with too few draws or with draws that are not finite.

    Parameters
    ----------
    fit : Fit
    what : str
        The subject of the error message, such as 'A look-ahead'.
    least : int
        Number of draws that it needs.
    """
    if fit.size < least:
        raise FitError(
            f"{what} needs at least {least} posterior draws and the fit has {fit.size}: fit with more draws.",
            code="too-few-draws",
        )
    for name, values in fit.draws.items():
        if bad := int((~np.isfinite(values)).sum()):
            raise FitError(f"{what} needs finite draws, and {bad} of {fit.size} draws of {name} are not.", code="non-finite-draws")
