"""Fit many tables or laws at once through an executor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, overload

import pandas as pd

from bayeslaw.core.errors import BayeslawError, StoppedError, as_mapping, kind_of, nearest, shown
from bayeslaw.core.executors import Executor, Result, opened
from bayeslaw.data.table import Table, read_runs
from bayeslaw.inference.fit import fit
from bayeslaw.laws.card import load_law
from bayeslaw.laws.law import Law
from bayeslaw.posterior.fit import Fit

OPTIONS = tuple(k for k in inspect.signature(fit).parameters if k not in ("law", "runs", "progress", "cores"))


@dataclass(frozen=True)
class Task:
    """One fit of a batch.

    Attributes
    ----------
    law, runs, options
        Arguments of `fit`; `options` are all but the first two, by name. Every fit has seed 0 unless given.

    Examples
    --------
    >>> task = bayeslaw.inference.Task("chinchilla", "runs.csv", {"seed": 1})
    >>> task.options["seed"]
    1
    """

    law: Law | str | Path
    runs: Table
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in as_mapping(self.options, "{'draws': 2000}", "Options"):
            if name not in OPTIONS:
                raise BayeslawError(
                    f"A task has no option {name!r}; it has {', '.join(OPTIONS)}.{nearest(name, OPTIONS)}", code="unknown-option"
                )

    def _loaded(self) -> Task:
        """The task with its files read, since other computers may not have them."""
        law = load_law(self.law)
        return replace(self, law=law, runs=read_runs(self.runs) if isinstance(self.runs, (str, Path)) else self.runs)


@overload
def fit_many(
    tasks: Iterable[Task], *, executor: str | Executor = ..., then: None = None, progress: bool = ...
) -> list[Result[Fit]]: ...
@overload
def fit_many[T](
    tasks: Iterable[Task], *, executor: str | Executor = ..., then: Callable[[Fit], T], progress: bool = ...
) -> list[Result[T]]: ...
def fit_many(
    tasks: Iterable[Task],
    *,
    executor: str | Executor = "in-process",
    then: Callable[[Fit], Any] | None = None,
    progress: bool = True,
) -> list[Result[Any]]:
    """Make many fits; each equals that of `fit`, on any executor.

    Parameters
    ----------
    tasks : iterable of Task
    executor : str or Executor
        'in-process', 'processes', 'processes:4' or the address of a Dask scheduler; see `bayeslaw.core.executors`.
    then : callable, optional
        Function of a fit, called where the fit was made. Its result is returned instead of the fit, so that draws need not travel.
    progress : bool
        Show a progress bar over all fits on standard error.

    Returns
    -------
    list of Result
        In the order of the tasks. A fit that fails is an outcome with an error and does not affect the others. Nothing is fitted
        if a law or a file can't be read. The caller looks at whether checks passed.

    Examples
    --------
    >>> tasks = [bayeslaw.inference.Task(law, "runs.csv") for law in ("chinchilla", "overtraining")]
    >>> fits = [outcome.value for outcome in bayeslaw.fit_many(tasks, progress=False)]
    """
    lone = isinstance(tasks, (str, pd.DataFrame, Mapping)) or not isinstance(tasks, Iterable)
    given: list[Any] = [tasks] if lone else list(tasks)
    if wrong := [task for task in given if not isinstance(task, Task)]:
        what = f"{kind_of(wrong[0])} of them" if isinstance(wrong[0], Mapping) else shown(wrong[0])
        problem = f"Give a list of tasks, each made by bayeslaw.inference.Task(law, runs, options), not {what}."
        raise BayeslawError(problem, code="not-a-task")
    if then is not None and not callable(then):
        raise BayeslawError(f"then is a function of a fit, such as Fit.summary, not {shown(then)}.", code="not-a-function")
    loaded = [task._loaded() for task in given]
    with opened(executor) as run:
        return run.map(partial(_fitted, then=then, cores=run.cores), loaded, what="fit", progress=progress)


def _fitted(task: Task, then: Callable[[Fit], Any] | None, cores: int | None) -> Any:
    try:
        fitted = fit(task.law, task.runs, **task.options, progress=False, cores=cores)
    except StoppedError:
        raise KeyboardInterrupt from None
    if fitted.info["interrupted"]:  # Ctrl-C ends all fits and does not shorten one
        raise KeyboardInterrupt
    return then(fitted) if then else fitted
