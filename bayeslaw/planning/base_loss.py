"""The base checkpoint's loss, from which forgetting is counted.

Published laws have a term in D that is infinite at D = 0, so the base loss can't be read off them: it is measured (rows with D = 0
of the same model), follows from a law that is finite there, or is stated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.streams import Stream
from bayeslaw.core.text import settings_text
from bayeslaw.core.units import in_nats
from bayeslaw.data.base_loss import BASE_LOSS, SPREAD, in_words
from bayeslaw.data.measured import LOSS_SUPPORT
from bayeslaw.data.observations import Observations
from bayeslaw.data.validate import complete
from bayeslaw.forecasting.base_losses import MODEL_TOLERANCE, base_loss_of, near_model, unknown_base_loss
from bayeslaw.forecasting.stack import Posterior
from bayeslaw.inference.point import PointFit
from bayeslaw.noise.custom import PointNoise
from bayeslaw.planning.arguments import as_number
from bayeslaw.planning.domain_loss import DomainLoss
from bayeslaw.posterior.fit import Fit

EXAMPLE = "--base-loss 2.31+-0.01, base_loss='2.31+-0.01'"
SHOWN = 4  # models with base rows that an error names


@dataclass(frozen=True, eq=False)
class BaseLoss:
    """The base checkpoint's loss."""

    log: Array  # its logarithm in each draw, (S,)
    kind: Literal["measured", "law", "stated"]
    text: str  # its median and where it is from


def base_losses(
    sources: Sequence[DomainLoss], given: str | float | Mapping[str, str | float] | None, seed: int, start: float | None = None
) -> dict[str, BaseLoss]:
    """The base loss of each source.

    Parameters
    ----------
    sources, given, seed
        As in `base_loss`; one for all sources or a mapping with one for each is given.
    start : float, optional
        The base loss among the settings of the plan: it is taken where a law starts at it and no other is given.
    """
    names = [source.name for source in sources]
    stated = dict(given) if isinstance(given, Mapping) else dict.fromkeys(names, given)
    for name in stated:
        if name not in names:
            raise BayeslawError(
                f"base-loss names {name!r}; the sources with a limit are {', '.join(names) or 'none'}.", code="unknown-source"
            )
    at_start = {source.name: start for source in sources if BASE_LOSS in source.settings and start is not None}
    chosen = at_start | {name: value for name, value in stated.items() if value not in (None, "")}
    return {source.name: base_loss(source, chosen.get(source.name), seed + i) for i, source in enumerate(sources)}


def starting_at_base(losses: Sequence[DomainLoss], bases: Mapping[str, BaseLoss]) -> list[DomainLoss]:
    """The losses of domains; laws that have the base loss as a covariate start at that of `bases`, where it has one.

    Parameters
    ----------
    losses : sequence of DomainLoss
    bases : mapping of source to BaseLoss
    """
    return [loss.starting_at(np.exp(bases[loss.name].log)) if loss.name in bases else loss for loss in losses]


def start_of(name: str, posterior: Posterior | PointFit, settings: Mapping[str, Any], given: Any) -> dict[str, float]:
    """The base loss at which laws of a source start that have it as a covariate, as a setting; empty for other laws.

    Parameters
    ----------
    name, posterior
        As in `DomainLoss`.
    settings : mapping
        Settings of the plan. A base loss that is among them is taken.
    given : text, float, mapping or None
        As in `base_losses`. A stated loss is taken, and else that of the model's checkpoint in the rows of the fit.

    Raises
    ------
    BayeslawError
        If a stated loss is another than that among the settings, none is known, or checkpoints of the model have several.
    """
    fits = [fit for fit, _ in posterior.selections]
    if not any(BASE_LOSS in fit.law.covariates for fit in fits):
        return {}
    _, stated = _choice(given.get(name) if isinstance(given, Mapping) else given, posterior.unit)
    if (start := settings.get(BASE_LOSS)) is not None:
        if stated is not None and not math.isclose(stated[0], start, rel_tol=MODEL_TOLERANCE):
            twice = f"{start:g} among the settings, {stated[0]:g} by --base-loss (base_loss=)"
            problem = f"The base loss of {name} is given twice: {twice}"
            raise BayeslawError(f"{problem}. Give it once.", code="two-base-losses")
        return {}
    if stated is not None:
        return {BASE_LOSS: stated[0]}
    fitted = [fit.observed for fit in fits]
    known = base_loss_of(posterior.name, fitted, settings)
    if known is None:
        way = f"--base-loss 2.31, base_loss=2.31, or {BASE_LOSS}=2.31 among the settings"
        raise unknown_base_loss(posterior.name, in_words(settings), way, near_model(fitted, settings))
    return {BASE_LOSS: known}


def base_loss(domain: DomainLoss, given: str | float | None, seed: int) -> BaseLoss:
    """The base checkpoint's loss: measured, by the law, or stated.

    Parameters
    ----------
    domain : DomainLoss
    given : text, float or None
        A loss in the unit of the domain's fit, '2.873' or, with its standard error, '2.873+-0.01'; 'measured' or 'law'; None
        takes rows with D = 0 of this model and, without any, a law that is finite at D = 0.
    seed : int
        Seed of the errors of measured and stated losses.

    Raises
    ------
    BayeslawError
        If the base loss is neither stated nor measured, and the law is infinite at D = 0.
    """
    choice, stated = _choice(given, domain.unit)
    normal = np.random.default_rng((seed, Stream.PLANNED, 1)).standard_normal(domain.size)
    if stated is not None:
        value, error = stated
        shown = f"{value:g} {domain.unit}" + (f" with a standard error of {error:g}" if error else "")
        text = f"base loss of {domain.name} {shown}, as stated{_contradiction(domain, value, error)}"
        return BaseLoss(math.log(value) + error / value * normal, "stated", text)
    model = settings_text(domain.settings)
    where = f" ({model})" if model else ""
    if choice != "law" and (measured := _of_rows(domain, normal, where)) is not None:
        return measured
    if choice == "measured" or (choice != "law" and domain.why_no_base):
        why = f", and {domain.posterior.name} {domain.why_no_base}" if domain.why_no_base else ""
        raise BayeslawError(
            f"The base loss of {domain.name} is not known: no row with D = 0 is of this model{where}{why}. "
            f"State it, with its standard error if that is known ({EXAMPLE}).{_models_with_base(domain)}",
            code="unknown-base-loss",
        )
    if domain.why_no_base:
        raise BayeslawError(
            f"{domain.posterior.name} {domain.why_no_base}, so the base loss of {domain.name} can't be the law's: state it "
            f"({EXAMPLE}).",
            code="infinite-base-loss",
        )
    log = domain.at_base(np.arange(domain.size))
    shown = f"{float(np.exp(np.median(log))):.4g} {domain.unit}, by {domain.posterior.name} at D = 0, draw by draw{where}"
    return BaseLoss(log, "law", f"base loss of {domain.name} {shown}{domain.shared}")


def _of_rows(domain: DomainLoss, normal: Array, where: str) -> BaseLoss | None:
    """The base loss by rows with D = 0 of the planned model, with errors from standard normal numbers (S,); None without rows."""
    logs, variances = _measured(domain)
    if not logs.size:
        return None
    variance = variances.mean(axis=0)[np.arange(domain.size) % variances.shape[1]]
    if logs.size > 1:
        variance = np.maximum(variance, logs.var(ddof=1))
    errors, mean = np.sqrt(variance / logs.size), float(np.exp(logs.mean()))
    error = mean * float(np.median(errors))
    shown = f"{mean:.4g} {domain.unit} with a standard error of {error:.2g}, measured at D = 0{where}"
    return BaseLoss(logs.mean() + errors * normal, "measured", f"base loss of {domain.name} {shown}{domain.shared}")


def _choice(given: Any, unit: str) -> tuple[str, tuple[float, float] | None]:
    """How the base loss is chosen: '' if nothing is given, 'measured', 'law', or 'stated' with the loss and its standard error."""
    text = "" if given is None else str(given).strip()
    if text in ("", "measured", "law"):
        return text, None
    value, _, error = text.replace("±", "+-").partition("+-")
    loss, se = as_number(value), as_number(error or 0.0)
    if math.isnan(loss + se):
        raise BayeslawError(
            f"A base loss is a loss in {unit}, 2.873 or 2.873+-0.01, or `measured` or `law`, not {text!r}.",
            code="unreadable-base-loss",
        )
    most = LOSS_SUPPORT[1] / in_nats(unit)
    if not (0 < loss <= most and 0 <= se < 0.5 * loss):
        raise BayeslawError(
            f"A base loss must lie above 0 and at {most:.3g} {unit} at most, with an error below half of it, not at {text!r}.",
            code="impossible-base-loss",
        )
    return "stated", (loss, se)


def _contradiction(domain: DomainLoss, value: float, error: float) -> str:
    """Return a warning of rows at D = 0 of the same model with another loss than the stated one, or ''."""
    measured = np.exp(_measured(domain)[0])
    if not measured.size or np.abs(measured - value).min() <= max(SPREAD * value, 3 * error):
        return ""
    shown = f"{measured.min():.4g}" + (f" to {measured.max():.4g}" if measured.size > 1 else "")
    return f", ALTHOUGH ROWS AT D = 0 OF THIS MODEL HAVE {shown} {domain.unit}: is it in another unit, or of another checkpoint?"


def _measured(domain: DomainLoss) -> tuple[Array, Array]:
    """Log losses (n,) of the planned model's base checkpoints, and draws (n, s) of the variances of their errors.

    Copies of one evaluation, which every run of a branch may log, count once. Known errors are added to the noise of a logged
    loss; where the noise differs by group and a row's group isn't known, to the largest noise.
    """
    frame, checkpoints, number = _base_rows(domain)
    fit, member = domain.posterior.selections[number][0], domain.member_draws[number]
    none = np.empty(0), np.empty((0, 1))
    if not len(frame) or "loss" not in frame:
        return none
    covariates = complete(frame, member.law)
    same = np.ones(len(frame), dtype=bool)
    for name, value in member.constants.items():
        if name == BASE_LOSS:  # the law starts at the mean of these rows
            continue
        if name not in covariates:
            return none
        same &= np.isclose(covariates[name].to_numpy(dtype=np.float64), value, rtol=MODEL_TOLERANCE, atol=0.0)
    copies = checkpoints[same].assign(loss=frame["loss"][same]).duplicated(["checkpoint", "loss"])
    same[same] = ~copies.to_numpy()
    rows, group = frame[same], checkpoints["group"][same].to_numpy()
    loss = rows["loss"].to_numpy(dtype=np.float64)
    variances = np.zeros((loss.size, 1))
    if isinstance(fit, Fit):
        if isinstance(fit.noise, PointNoise):
            variances = np.full((loss.size, 1), fit.noise.variances(fit.draws)[0])
        else:
            scales = fit.noise.scales(fit.draws, "sigma_point")
            largest = int(np.median(scales, axis=1).argmax())
            variances = scales[np.where(group < 0, largest, group) if fit.noise.groups else np.zeros_like(group)] ** 2
    if "loss_se" in rows:
        variances = variances + ((rows["loss_se"].to_numpy(dtype=np.float64) / loss) ** 2)[:, None]
    return np.log(loss), variances


def _base_rows(domain: DomainLoss) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """Rows with D = 0 of the domain's first fit that has some, with `checkpoint` and `group` (of noise) of each, and its number.

    A group that isn't known is -1. Without a column that tells checkpoints apart, a model has one.
    """
    by_member = [_base_rows_of(fit.observed) for fit, _ in domain.posterior.selections]
    number = next((i for i, (frame, _) in enumerate(by_member) if len(frame)), 0)
    return *by_member[number], number


def _base_rows_of(observed: Observations) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows with D = 0 of one fit, and `checkpoint` and `group` of each."""
    frame = observed.base
    if "D" in observed.covariates and (at_base := observed.covariates["D"] == 0).any():
        columns = {k: v[at_base] for k, v in observed.covariates.items()}
        frame = pd.DataFrame(columns).assign(loss=observed.outcomes[at_base])
        if observed.se.size:
            frame["loss_se"] = observed.se[at_base] * frame["loss"]
        run = observed.run[at_base]
        return frame, pd.DataFrame({"checkpoint": observed.checkpoint[run], "group": observed.group[run]})
    checkpoint = next((c for c in ("checkpoint", "seed") if c in frame), None)
    column, names = observed.group_column, pd.Index(observed.group_names)
    group = names.get_indexer(pd.Index(frame[column].astype(str))) if column in frame else np.full(len(frame), -1)
    checkpoints = {"checkpoint": frame[checkpoint] if checkpoint else 0, "group": group}
    return frame, pd.DataFrame(checkpoints, index=frame.index)


def _models_with_base(domain: DomainLoss) -> str:
    """The models with rows at D = 0, as a sentence for an error."""
    frame = _base_rows(domain)[0]
    names = [k for k, v in domain.settings.items() if k in frame and isinstance(v, float)]
    if not len(frame) or not names:
        return ""
    known = frame[names].drop_duplicates()
    shown = "; ".join(settings_text(row) for row in known.head(SHOWN).to_dict("records"))
    return f" There are rows with D = 0 at {shown}{', …' if len(known) > SHOWN else ''}."
