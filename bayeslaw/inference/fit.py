"""Fit a law to logged losses: check the table, sample, check the draws."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from numbers import Real
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import xarray as xr

from bayeslaw.core.arrays import Array, holds_numbers
from bayeslaw.core.errors import BayeslawError, nearest, shortened, whole_number
from bayeslaw.core.streams import PriorStream
from bayeslaw.core.text import counted, exact, label_text
from bayeslaw.data.base_loss import BASE_LOSS
from bayeslaw.data.columns import RUNS, TEXT, our_name
from bayeslaw.data.curves import ABOUT_AREAS
from bayeslaw.data.notes import TableNote, table_notes
from bayeslaw.data.observations import Observations, clock_column
from bayeslaw.data.table import Runs, Table, read_runs
from bayeslaw.data.tokenizers import loss_unit, token_length
from bayeslaw.data.validate import one_domain
from bayeslaw.engine.binning import bins_notes, compress
from bayeslaw.engine.density import Density
from bayeslaw.inference.discrepancy import STOPPED, learn_discrepancy, require_names, why_not
from bayeslaw.inference.sample import Acceptance, Sample, SamplerSettings, sample_soundly
from bayeslaw.laws.card import load_law, parse_card, require_card
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import levels_of, with_by, with_levels
from bayeslaw.laws.prior import Prior, read_priors
from bayeslaw.noise.custom import PointNoise
from bayeslaw.noise.noise import DRIFT, PRIORS, Noise, kind, resolved
from bayeslaw.posterior.diagnostics import Check, bins_check, information_check, learnt_error_check, run_effect_check, table_of
from bayeslaw.posterior.fit import EXTRAPOLATION, Fit, tree_of
from bayeslaw.posterior.identifiability import checkpoint_correlation_check, independence_check, lack_check
from bayeslaw.posterior.misfit import model_checks
from bayeslaw.posterior.storage import FORMAT, PLAIN, contents_digest, data_digest, draws_digest

MOST_DRAWS, MOST_CHAINS = 10_000_000, 1_000  # draws of all chains together
UNUSUAL = 0.95  # quantile of the prior of a law's learnt error above which that is a concern
MOST_RECIPES, OF_RECIPE = 8, 3  # names in a column that may say how runs were trained, and the runs that each has at least
PRIOR_DRAWS = 4_000  # with which draws of the posterior are compared
SHIFTED = 20  # draws at which the shift of binned settings is computed
Learning = Literal["learned", "none"]
PACKAGES = ("bayeslaw", "pymc", "arviz", "numpy", "xarray", "numba", "nutpie")


def fit(
    law: Law | str | Path,
    runs: Table,
    *,
    noise: str | Callable[..., Any] = "auto",
    noise_by: str | None = None,
    by: Mapping[str, str] | None = None,
    shares: Sequence[str] | str | None = None,
    priors: Mapping[str, Prior | str] | None = None,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    seed: int = 0,
    target_accept: float | None = None,
    progress: bool = True,
    cores: int | None = None,
    bins: float | None = None,
    discrepancy: Learning = "learned",
) -> Fit:
    """Fit a law to logged losses by NUTS.

    Parameters
    ----------
    law : Law, name or path of a card
    runs : Runs, DataFrame or path
        One evaluation a row; see `read_runs`.
    noise : {'auto', 'normal', 'normal-drift', 'normal-checkpoint', 'skew', 'student', 'normal-no-run', 'student-no-run'}
        'auto' is normal noise with a run effect where rows share runs, and Student-t noise where they don't; or the noise that the
        law's card names, where half of the runs, and eight at least, are logged at eight moments or more. Shares of counted items
        have noises of their own: 'beta-binomial', and 'beta-binomial-no-run' where no rows share runs. 'normal-drift', for whole
        curves, has a run effect that changes along the run's D, if the law has D, and else along its `step`.
        'normal-checkpoint' adds an effect shared by the runs of one checkpoint, 'skew' a one-sided run effect that raises the
        outcome, as undertuning raises a loss; so it is not for accuracies, of which higher is better (a card does not say which way
        is better). Known standard errors of losses (`loss_se`) are added. Or a function: the log density of each point's error; see
        the page on extending.
    noise_by : str, optional
        Column whose values are groups of runs with noise of their own.
    by : mapping of parameter to column
        Parameters that vary by a column, partially pooled, besides those of the card: {'E': 'domain'}.
    shares : sequence of str, optional
        The columns that are the shares of your mixture, for a law that comes with bayeslaw or a card; see `load_law`.
    priors : mapping of parameter to Prior or text such as 'LogNormal(0.5, 0.2)'
        Priors on parameters themselves, in place of the card's, of the spread of those that vary by a column (`E_spread`), or of
        the noise's own (`sigma_point`, `sigma_run` and the other parameters that `summary` shows; that of `dof` is on its excess
        over 2).
    draws, tune, chains, seed : int
        Draws kept and tuning draws for each chain, and the number of chains; the same seed gives the same draws.
    target_accept : float, optional
        Acceptance rate that the step size is tuned to. By default it is 0.95 where, in a short first run of larger steps, none
        diverged and few made a path, and 0.9875 elsewhere. Where checks of the sampling fail, sampling is repeated with four times
        as much tuning, and once more with smaller steps if only divergences are left, unless that would take too many gradients;
        the note `repeated` says so. With hundreds of values of counted items, such as accuracies of many tasks, the rate is eight
        times as far from 1, 0.9 by default.
    progress, cores
        Whether to show a progress bar, and how many chains run at a time (all available cores), which draws do not depend on.
    bins : float, optional
        With normal noise, put neighbouring points of a run into bins of this width, in e-folds of every covariate that spans
        decades: for whole curves of 10^5 points and more. The check `bins` reports how far that moves expected losses.
        Points of a run at equal settings are always put together, which changes nothing.
    discrepancy : {'learned', 'none'}
        'learned' samples a second posterior in which the law has an error (`noise.walk`); forecasts outside the runs come from it.
        'none' leaves it out. There is none for noises normal-drift, skew and functions, laws of continual pre-training, laws whose
        parameters vary by a column, outcomes between bounds, more than 5,000 rows, and runs that don't differ in size,
        tokens or stage; `info['discrepancy']` says why.

    Returns
    -------
    Fit
        Ctrl-C ends sampling early and keeps the draws made so far; `info['interrupted']` is then true, and the model has the
        concern `interrupted`. Commands write no such fit.

    Examples
    --------
    >>> fit = bayeslaw.fit("chinchilla", "runs.csv", seed=1, progress=False)
    >>> bayeslaw.load_fit("fit.nc").summary().index[:5].tolist()
    ['E', 'A', 'alpha', 'B', 'beta']
    """
    if discrepancy not in get_args(Learning):
        problem = (
            f"The discrepancy of a fit is {' or '.join(get_args(Learning))}, not {discrepancy!r}; forecasts take a stated one."
        )
        raise BayeslawError(problem, code="unknown-discrepancy")
    _check_mappings(by=by, priors=priors)
    _check_columns(by or {})
    draws, tune = whole_number("draws", draws, 10, MOST_DRAWS), whole_number("tune", tune, 50, MOST_DRAWS)
    chains, seed = whole_number("chains", chains, 1, MOST_CHAINS), whole_number("seed", seed, 0)
    cores = None if cores is None else whole_number("cores", cores, 1)
    settings: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains, "target_accept": target_accept}
    _check_settings(**settings, bins=bins)
    own, others = _with_priors(load_law(law, shares=shares), priors or {})
    require_card(own)
    runs, law = read_runs(runs), with_by(own, by or {})
    law, of_noise = _with_priors(with_levels(law, levels_of(law, runs.frame)), others)  # spreads of values are parameters only now
    noise = resolved(noise, law, runs, bins)
    observed = Observations.of(law, runs, noise_by, clock_column(runs.frame, law) if noise == DRIFT else "")
    chosen = _noise_of(noise, law, observed, bins)
    _check_noise_priors(of_noise, own, chosen)
    chosen = chosen.with_priors(of_noise)
    if discrepancy == "learned" and not why_not(law, observed, chosen):
        require_names(law)
    info = _info(law, runs, observed, chosen, seed)
    compressed = compress(law, observed, bins) if chosen.compressible else None
    how = SamplerSettings(draws, tune, chains, seed, Acceptance.of(target_accept), progress, cores)
    result, checks = sample_soundly(Density.of(law, observed, chosen, compressed), how)
    checks += [*_checks(law, observed, chosen, result.draws, runs.frame, seed), *_checks_of(table_notes(runs, law))]
    if compressed is not None and bins is None:
        checks += _checks_of(bins_notes(law, observed))
    if compressed is not None and bins is not None:
        draws_of = {name: v.ravel()[:: max(1, v.size // SHIFTED)] for name, v in result.draws.items() if name in law.parameters}
        shift, sigma = compressed.shift(law, draws_of, observed), chosen.scales(result.draws, "sigma_point")
        checks.append(bins_check(compressed.count, bins, shift, sigma, law.outcome))
    tree, reason = tree_of(result.draws, result.stats, observed), "it was left out"
    if discrepancy == "learned":
        reason, concerns = _learn(tree, law, observed, chosen, result, how)
        checks += concerns
    if interrupted := result.interrupted or reason == STOPPED:
        kept = f"{result.stats.sizes['draw']:,} of {draws:,} draws of each chain"
        text = f"Ctrl-C stopped the fit after {kept}" + (", before it learnt the law's error" if reason == STOPPED else "")
        checks.append(Check("interrupted", False, text, "model", pd.DataFrame(), "Fit again to the end"))
    info |= {
        "noise_by": noise_by, "by": _by_beyond_card(own) | dict(by or {}), "settings": settings | {"bins": bins},
        "ridge": result.ridge, "interrupted": interrupted, "checks": table_of(checks),
        "discrepancy": {"asked": discrepancy, "learned": not reason, "reason": reason},
        "data_sha256": data_digest(tree), "draws_sha256": draws_digest(tree),
    }  # fmt: skip
    tree.attrs = {k: v if k in PLAIN else json.dumps(v, default=_plain) for k, v in info.items()}
    tree.attrs["contents_sha256"] = info["contents_sha256"] = contents_digest(tree)
    return Fit(tree, law, chosen, observed, tuple(checks), info)


def _learn(
    tree: xr.DataTree, law: Law, observed: Observations, noise: Noise, plain: Sample, how: SamplerSettings
) -> tuple[str, list[Check]]:
    """Add the posterior in which the law has an error to the tree of one in which it has none, sampled with the settings `how`.

    Return the reason where that is not done, else '', and concerns about the error.
    """
    if reason := why_not(law, observed, noise):
        return reason, []
    with_it = STOPPED if plain.interrupted else learn_discrepancy(law, observed, noise, plain.draws, how)
    if isinstance(with_it, str):
        return with_it, []
    tree[EXTRAPOLATION] = xr.DataTree(with_it.dataset)
    most = float(noise.prior("discrepancy").scipy.ppf(UNUSUAL))
    concern = learnt_error_check(with_it.draws["discrepancy"], most, law.outcome)
    return "", [] if concern is None else [concern]


def _plain(value: object) -> Any:
    """Return what JSON has no form for: NumPy's numbers as Python's, others as text."""
    return value.item() if isinstance(value, np.generic) else str(value)


def _by_beyond_card(law: Law) -> dict[str, str]:
    """Return the columns by which parameters vary that the card does not state: those of `with_by`, and of the law of a fit."""
    varying = law.column_of | {name: p.by for name, p in law.parameters.items() if p.by}
    stated = parse_card(law.card).parameters if varying and law.card else law.parameters
    return {name: column for name, column in varying.items() if column != stated[name].by}


def _with_priors(law: Law, priors: Mapping[str, Prior | str]) -> tuple[Law, dict[str, Prior]]:
    """Return the law with other priors, and the priors of names that it does not have, such as the noise's."""
    stated = read_priors(priors)
    of_law = {name: p for name, p in stated.items() if name in law.parameters or name in law.by_card}
    return law.with_priors(of_law), {name: p for name, p in stated.items() if name not in of_law}


def _check_noise_priors(priors: Mapping[str, Prior], law: Law, noise: Noise) -> None:
    """Refuse a prior whose name neither the law nor any noise has; `Noise.with_priors` refuses one that only this noise lacks."""
    of_noise = dict.fromkeys(map(kind, noise.parameters))
    for name in priors:
        if kind(name) not in (*PRIORS, *of_noise):
            problem = f"{name} is a parameter neither of {law.name} ({', '.join(law.parameters)}) nor of its noise"
            known = f"({', '.join(of_noise)}).{nearest(name, [*law.parameters, *of_noise])}"
            raise BayeslawError(f"{problem} {known}", code="unknown-parameter")


def _noise_of(noise: str | Callable[..., Any], law: Law, observed: Observations, bins: float | None) -> Noise:
    """Return the noise that was asked for, which must go with the law and with bins."""
    chosen = Noise.choose(noise, observed)
    own = {*law.parameters, *law.covariates, *law.measured, *(f"{name}_level" for name in law.parameters)}
    if twice := sorted({*chosen.parameters} & own):
        what = "parameter" if twice[0] in law.parameters else "name"
        problem = f"The noise and {law.name} both have a {what} {twice[0]!r}; rename the noise's."
        raise BayeslawError(problem, code="name-used-twice")
    in_files = {"clock": observed.clock, "row_group": observed.row_group}  # beside the covariates (`posterior.fit.tree_of`)
    if taken := [name for name, values in in_files.items() if values.size and name in law.covariates]:
        problem = f"Files of fits with this noise have a {taken[0]!r} of their own, as a covariate of {law.name} is called"
        raise BayeslawError(f"{problem}: rename it in the card.", code="name-used-twice")
    if bins is not None and chosen.drift:
        raise BayeslawError(
            "Points with noise normal-drift can't be put into bins, since neighbouring points tell how long a run effect lasts. "
            "Leave bins out, or keep every tenth point of very long curves.",
            code="bins-with-ou-effect",
        )
    if bins is not None and not chosen.compressible:
        problem = f"Only points with normal noise can be put into bins; this fit has {chosen.text}"
        if observed.outcome.kind != "count":
            problem += ": name the run of each point in a column `run`, or choose noise normal-no-run if points share no runs"
        raise BayeslawError(f"{problem}.", code="bins-not-normal")
    return chosen


def _info(law: Law, runs: Runs, observed: Observations, noise: Noise, seed: int) -> dict[str, Any]:
    """Return what a file says of law, data, noise and versions."""
    info: dict[str, Any] = {
        "bayeslaw_format": FORMAT,
        "card": law.card,
        "priors": {k: p.prior.table for k, p in law.parameters.items()},
        "law_sha256": law.sha256,
        "noise": noise.text if isinstance(noise, PointNoise) else noise.table,
        "levels": law.levels,
        "data": runs.name,
        "sources": [asdict(source if source.seed is not None else replace(source, seed=seed)) for source in runs.sources],
        "conversions": list(runs.conversions),
        "domain": one_domain(runs.frame, law),
        "unit": observed.unit,
        "token_length": token_length(runs.frame, law),
        "loss_unit": loss_unit(runs.frame, law),
        "at": observed.at,
        "clock": {"column": observed.clock_column, "span": observed.span},
        "seed": seed,
        "versions": {p: version(p) for p in PACKAGES} | {"python": platform.python_version()},
        "base": observed.base.to_dict(orient="list"),
    }
    return info | _about_areas(law, runs)


def _about_areas(law: Law, runs: Runs) -> dict[str, float]:
    """Return how the areas of the law were computed, where the table says: forecasts compute theirs in the same way."""
    about = {}
    for column, (area, end, code) in ABOUT_AREAS.items():
        # The skills S1 and S2 of a law of accuracies are no areas.
        if column not in runs.frame or not law.outcome.is_loss or not any(name.startswith(area) for name in law.covariates):
            continue
        cells = runs.frame[column].dropna()
        numbers = pd.to_numeric(cells, errors="coerce")
        if (wrong := cells[~((numbers >= 0) & (numbers < end))]).size:
            span = f"from 0 to below {end:g}" if np.isfinite(end) else "from 0 on"
            where = f"{runs.name}: {column} {shortened(wrong.iloc[0])} at row {wrong.index[0]}"
            raise BayeslawError(
                f"{where} is no number {span}. The column says how the areas of learning-rate schedules were computed; give it "
                "another name if it has another meaning.",
                code="invalid-areas",
            )
        values = numbers.unique()
        if values.size > 1:
            shown = ", ".join(map(exact, values[:3]))
            raise BayeslawError(
                f"The areas of {runs.name} have several values of {column} ({shown}): compute them all with one.", code=code
            )
        if values.size:
            about[column] = float(values[0])
    return about


def _check_mappings(**given: object) -> None:
    """Refuse texts and lists where a mapping of parameters is asked for."""
    examples = {"by": "{'E': 'domain'}", "priors": "{'E': 'LogNormal(0.5, 0.2)'}"}
    for name, value in given.items():
        if value is not None and not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
            raise BayeslawError(f"{name} is a mapping by parameter, such as {examples[name]}, not {value!r}.", code="not-a-mapping")


def _check_columns(by: Mapping[str, object]) -> None:
    """Refuse a column of `by` that is no text, or an empty one."""
    if wrong := [column for column in by.values() if not isinstance(column, str) or not column.strip()]:
        problem = f"by names the column by which each parameter varies, such as {{'E': 'domain'}}, not {wrong[0]!r}."
        raise BayeslawError(problem, code="not-a-text")


def _check_settings(*, draws: int, tune: int, chains: int, target_accept: float | None, bins: float | None) -> None:
    """Refuse settings of the sampler that are out of range together, and bins that are no number."""
    if (count := chains * (draws + tune)) > MOST_DRAWS:
        what = f"{counted(chains, 'chain')} of {draws:,} draws after {tune:,} tuning draws"
        raise BayeslawError(f"{what} are {count:,} draws; at most {MOST_DRAWS:,} are made.", code="too-many-draws")
    if target_accept is not None and not (isinstance(target_accept, Real) and 0.5 <= target_accept < 1):
        raise BayeslawError(f"target_accept must be at least 0.5 and less than 1, not {target_accept!r}.", code="bad-target-accept")
    if bins is not None and not isinstance(bins, Real):
        raise BayeslawError(f"The width of a bin is a number of e-folds, not {bins!r}.", code="bad-bin-width")


def _checks(
    law: Law, observed: Observations, noise: Noise, draws: Mapping[str, Array], frame: pd.DataFrame, seed: int
) -> list[Check]:
    """Checks of what the draws tell about the parameters, and of the model against its runs."""
    scalar = {k: v for k, v in draws.items() if v.ndim == 2}
    prior = law.sample_prior(PRIOR_DRAWS, observed.at, np.random.default_rng([seed, PriorStream.CHECKED]))
    checks = [information_check(prior, {k: scalar[k] for k in prior})]
    checks.append(lack_check(law, observed, {k: float(np.median(scalar[k])) for k in law.parameters}))
    if noise.run_effect:
        shifted = observed.covariates[noise.shifts] if noise.shifts else None
        checks.append(run_effect_check(noise.scales(scalar, "sigma_run"), law.outcome, shifted))
    elif (independence := independence_check(law, observed, scalar)) is not None:
        checks.append(independence)
    related = checkpoint_correlation_check(law, observed, scalar) if noise.run_effect and not noise.checkpoint_effect else None
    logged = numbers_of(frame, observed)
    others = {
        name: values
        for name, values in logged.items()
        if name in RUNS and name not in (*law.covariates, law.outcome.name, BASE_LOSS)
    } | settings_of_runs(law, observed, logged)
    order = logged.get("step", logged.get("D", observed.covariates[next(iter(law.axes))]))
    recipes = recipes_of_runs(law, observed, frame)
    return [*checks, *([] if related is None else [related]), *model_checks(law, observed, noise, scalar, others, recipes, order)]


def recipes_of_runs(law: Law, observed: Observations, frame: pd.DataFrame) -> dict[str, pd.Series]:
    """Return columns of names, such as optimizer, by which runs differ: two to eight, each of three runs or more.

    Not those that say which run, domain or checkpoint a row is of, or by which parameters or the noise vary, nor names of sizes or
    other values of a covariate, along which the law itself is judged.

    Parameters
    ----------
    law, observed
    frame : DataFrame
        The table of the runs.
    """
    known, rows, recipes = {*TEXT["curves"], *law.levels, observed.group_column}, frame.loc[observed.rows], dict[str, pd.Series]()
    first = np.unique(observed.run, return_index=True)[1]
    for column in (c for c in rows if c not in known and not holds_numbers(rows[c]) and rows[c].notna().all()):
        names = rows[column].map(label_text)
        of_run = names.iloc[first]
        counts = of_run.value_counts()
        if (
            2 <= counts.size <= MOST_RECIPES
            and counts.min() >= OF_RECIPE
            and (names.to_numpy() == of_run.to_numpy()[observed.run]).all()
            and not any(_named_by(names, values) for values in observed.covariates.values())
        ):
            recipes[str(column)] = names
    return recipes


def _named_by(names: pd.Series, values: Array) -> bool:
    """Whether each name has one value of a covariate that has several."""
    of_name = pd.Series(values).groupby(names.to_numpy()).nunique()
    return bool((of_name == 1).all()) and np.unique(values).size > 1


def settings_of_runs(law: Law, observed: Observations, logged: Mapping[str, Array]) -> dict[str, Array]:
    """Return the columns (n,) of learning rates and batches by which runs differ and which the law does not have.

    A rate that changes along a run is that of a schedule, and no setting of the run.

    Parameters
    ----------
    law, observed
    logged : mapping of column to array (n,)
        The columns of the table that hold numbers.
    """
    first = np.unique(observed.run, return_index=True)[1]
    return {
        name: values
        for name, values in logged.items()
        if (ours := our_name(name, "logs")) in ("lr", "batch") and ours not in law.covariates
        and np.ptp(values) > 0 and (values == values[first][observed.run]).all()
    }  # fmt: skip


def _checks_of(notes: Iterable[TableNote]) -> list[Check]:
    """Concerns and notes about the rows themselves: repeated ones, tokens in another unit, FLOPs, unnamed runs."""
    return [
        Check(note.name, note.subject == "model" and not note.advice, note.text, note.subject, pd.DataFrame(), note.advice)
        for note in notes
    ]


def numbers_of(frame: pd.DataFrame, observed: Observations) -> dict[str, Array]:
    """Return the columns of a table that have a finite number in every fitted row, arrays (n,)."""
    rows = frame.loc[observed.rows]
    numbers = {str(name): rows[name].to_numpy(dtype=np.float64) for name in rows if holds_numbers(rows[name])}
    return {name: values for name, values in numbers.items() if np.isfinite(values).all()}
