"""Many independent fits through an executor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, overload

import pandas as pd

from bayeslaw.core.errors import BayeslawError, StoppedError, nearest
from bayeslaw.core.executors import Executor, Outcome, opened
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.inference.fit import fit
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from bayeslaw.posterior.fit import Fit

OPTIONS = tuple(k for k in inspect.signature(fit).parameters if k not in ("law", "runs", "progress", "cores"))


@dataclass(frozen=True)
class Task:
    """One fit to be made.

    Attributes
    ----------
    law : Law, name or path of a card
    runs : Runs, DataFrame or path
    options : mapping
        Other arguments of `fit`: noise, priors, draws, tune, chains, seed, target_accept, bins. Fits
        share the seed 0 unless given.
    """

    law: Law | str | Path
    runs: Runs | pd.DataFrame | str | Path
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.options:
            if name not in OPTIONS:
                raise BayeslawError(f"A task has no option {name!r}; it has {', '.join(OPTIONS)}.{nearest(name, OPTIONS)}")

    def _loaded(self) -> Task:
        """With law and runs in place of their files, which other machines may not have."""
        law = self.law if isinstance(self.law, Law) else load_law(self.law)
        return replace(self, law=law, runs=read_runs(self.runs) if isinstance(self.runs, (str, Path)) else self.runs)


@overload
def fit_many(
    tasks: Iterable[Task], *, executor: str | Executor = ..., then: None = None, progress: bool = ...
) -> list[Outcome[Fit]]: ...
@overload
def fit_many[T](
    tasks: Iterable[Task], *, executor: str | Executor = ..., then: Callable[[Fit], T], progress: bool = ...
) -> list[Outcome[T]]: ...
def fit_many(
    tasks: Iterable[Task],
    *,
    executor: str | Executor = "in-process",
    then: Callable[[Fit], Any] | None = None,
    progress: bool = True,
) -> list[Outcome[Any]]:
    """Make many fits; each has the numbers that `fit` gives it, wherever it is made.

    Parameters
    ----------
    tasks : iterable of Task
    executor : str or Executor
        'in-process', 'processes', 'processes:4' or the address of a Dask scheduler; see `bayeslaw.core.executor`.
    then : callable, optional
        Takes a fit where it was made; what it returns is kept instead of the fit, so that not all draws need travel.
    progress : bool
        Show a progress bar over all fits on standard error.

    Returns
    -------
    list of Outcome
        In the order of the tasks. A fit that can't be made is an outcome with an error and costs none of the others; whether
        checks passed is for the caller to look at.

    Raises
    ------
    BayeslawError
        If a law or a file of runs can't be read or there is no such executor; nothing has been fitted then.
    """
    loaded = [task._loaded() for task in tasks]
    with opened(executor) as run:
        return run.map(partial(_fitted, then=then, cores=run.cores), loaded, what="fit", progress=progress)


def _fitted(task: Task, then: Callable[[Fit], Any] | None, cores: int | None) -> Any:
    try:
        made = fit(task.law, task.runs, **task.options, progress=False, cores=cores)
    except StoppedError:
        raise KeyboardInterrupt from None
    if made.info["interrupted"]:  # Ctrl-C ends them all, it does not shorten one
        raise KeyboardInterrupt
    return then(made) if then else made
