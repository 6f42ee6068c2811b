"""The laws of a posterior as functions of N and D, in one of the stages that they serve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from bayeslaw.core.arrays import Index
from bayeslaw.core.errors import BayeslawError, nearest
from bayeslaw.data.base_loss import BASE_LOSS
from bayeslaw.inference.point import PointFit
from bayeslaw.laws.law import Law, shares_of_parameters
from bayeslaw.planning.arguments import at_settings, setting
from bayeslaw.posterior.draws import LawDraws
from bayeslaw.posterior.fit import Fit

SCRATCH = "scratch"


def stages(
    selections: Sequence[tuple[Fit | PointFit, Index]], settings: Mapping[str, Any], stage: str | None = None
) -> list[LawDraws]:
    """The laws of some draws of fits at settings, as functions of N and D.

    Parameters
    ----------
    selections : sequence of (fit, int array)
        Fits and numbers of their draws, such as `Fit.selections`.
    settings, stage
        As in `allocate`; settings may also be values of columns by which parameters are pooled or noise differs.
    """
    free, laws = ("N", "D"), list[LawDraws]()
    noise_by = {fit.observed.group_column for fit, _ in selections if fit.observed.group_names}
    for fit, chosen in selections:
        law = fit.law
        if missing := [c for c in free if c not in law.covariates]:
            raise BayeslawError(f"{law.name} has no {missing[0]}, so there is no split of compute.", code="law-without-covariate")
        known = {c for c in law.measured if c not in free} | set(law.levels)
        given: dict[str, Any] = dict(_values_of_stage(law, stage))
        for name, value in settings.items():
            if name in noise_by - known:  # no law depends on it
                continue
            if name not in known:
                raise BayeslawError(
                    f"{law.name} takes no {name!r} here; it takes {', '.join(sorted(known)) or 'nothing'}.{nearest(name, known)}",
                    code="unknown-setting",
                )
            given[name] = value if name in law.levels else setting(name, value)
            if (name == stage and given[name] != 1) or (stage == SCRATCH and name in stage_names(law) and given[name] == 1):
                problem = f"{name} = {given[name]:g} contradicts the stage {stage!r}: leave {name} out of the settings."
                raise BayeslawError(problem, code="contradicting-stage")
        laws.append(at_settings(law.name, law, fit.draws_of(chosen), pd.DataFrame([given | {"N": 1e9, "D": 1e9}]), free))
    return laws


def _values_of_stage(law: Law, stage: str | None) -> dict[str, float]:
    """The 0/1 covariates by which a law tells its stages apart, with 1 for the stage that is chosen."""
    values = dict.fromkeys(stage_names(law), 0.0)
    if stage is None or stage == SCRATCH:
        return values
    if not isinstance(stage, str) or stage not in values:
        names = [*values, SCRATCH] if values else []
        shown = f"its stages are {', '.join(names)}" if names else "it has one only"
        raise BayeslawError(f"{law.name} has no stage {stage!r}; {shown}.{nearest(stage, names)}", code="unknown-stage")
    return values | {stage: 1.0}


def check_size_is_free(laws: Iterable[Law], decision: str) -> None:
    """Refuse a choice of N by a law that starts at a measured base loss, which would stay that of one checkpoint at every N.

    Parameters
    ----------
    laws : iterable of Law
    decision : str
        What chooses N, as the beginning of a sentence.
    """
    for law in laws:
        if BASE_LOSS in law.covariates:
            raise BayeslawError(
                f"{decision} chooses N, but {law.name} starts at {BASE_LOSS}, measured on one checkpoint, and so at one N. Choose "
                "among checkpoints by a plan with the base loss of each (bayeslaw plan, bayeslaw.planning.plan_menu), or fit a law "
                f"without {BASE_LOSS}.",
                code="base-loss-of-one-size",
            )


def support(laws: Iterable[Law]) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ranges of N and D that all laws allow, from one parameter and one token on."""
    ends = [(law.covariates["N"].support, law.covariates["D"].support) for law in laws]
    n, d = ((max(1.0, *(low for low, _ in own)), min(high for _, high in own)) for own in zip(*ends, strict=True))
    return n, d


def stage_names(law: Law) -> list[str]:
    """Covariates that tell two stages apart: 0 or 1."""
    return [n for n, c in law.measured.items() if c.support == (0.0, 1.0) and c.at_least == 2 and n != "r"]


def stage_notes(laws: Sequence[Law], stage: str | None, settings: Mapping[str, Any]) -> list[str]:
    """Say that losses are those of training from scratch, where a law has another stage and nothing chooses one; that compute is
    that of D alone, where a law has tokens of a pre-training besides; and whose parameters it is (`sparse_notes`).

    Parameters
    ----------
    laws, stage, settings
        As in `allocate`, of every law that it uses.
    """
    notes = sparse_notes(laws)
    if stage is None and (known := [name for law in laws for name in stage_names(law) if name not in settings]):
        return [*notes, f"for training from scratch ({known[0]} = 0); the other stage is {known[0]!r}"]
    if any("ptpp" in law.covariates for law in laws):
        notes.append("compute is that of the D tokens of the adaptation; pre-training each N on ptpp x N tokens is not counted")
    return notes


def sparse_notes(laws: Sequence[Law]) -> list[str]:
    """Say that compute counts all parameters, where a law has the share of them that a token uses."""
    return [
        f"compute is 6 N D with all N parameters, and a token uses the share `{share}` of them alone: what costs C FLOPs is at a "
        f"compute of C / {share} here, and two values of {share} compare at the same C"
        for share in shares_of_parameters(laws)
    ]
