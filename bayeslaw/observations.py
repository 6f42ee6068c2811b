"""What a law is fitted to: covariates and log losses as arrays, sorted by run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslaw.errors import BayeslawError, Fault, TableError
from bayeslaw.laws import Law
from bayeslaw.runs import Runs, base_rows, check, complete, mixed_domains


@dataclass(frozen=True)
class Observations:
    """Rows of a table under a law.

    Attributes
    ----------
    covariates : dict of str to array (n,)
    log_loss : array (n,)
        Log of the loss in nats/token, rows sorted by run.
    run : int array (n,)
        Run codes 0 … R-1, ascending; rows without a run are runs of their own.
    run_names : tuple of str
    at : dict of str to float
        Reference point of the rows (`Law.reference`): priors with `on` are stated there.
    rows : int array (n,)
        Row numbers in the table.
    base : DataFrame
        Rows with D = 0 that the law can't describe: measured losses of base checkpoints, kept out of the fit.
    """

    covariates: dict[str, NDArray[np.float64]]
    log_loss: NDArray[np.float64]
    run: NDArray[np.int64]
    run_names: tuple[str, ...]
    at: dict[str, float]
    rows: NDArray[np.int64]
    base: pd.DataFrame

    @property
    def runs(self) -> int:
        return len(self.run_names)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each run begins, and the number of rows."""
        return np.searchsorted(self.run, np.arange(self.runs + 1)).astype(np.int64)

    @property
    def loss(self) -> NDArray[np.float64]:
        return np.exp(self.log_loss)

    @classmethod
    def of(cls, law: Law, runs: Runs) -> Observations:
        """Check a table against a law and take what the law needs.

        Raises
        ------
        TableError
            With every fault of the table.
        """
        if faults := check(runs, law):
            raise TableError(faults, runs.name)
        if mixed := mixed_domains(runs.frame, law):
            raise BayeslawError(f"{runs.name}: {mixed}.")
        base = base_rows(runs.frame, law)
        frame = complete(runs.frame[~base], law)
        if len(frame) < 3:
            raise BayeslawError(f"{runs.name} has {len(frame)} rows for {law.name}; a fit needs at least 3.")
        code, names = run_codes(frame)
        order = np.argsort(code, kind="stable")
        frame = frame.iloc[order]
        observed = cls(
            covariates={c: frame[c].to_numpy(dtype=np.float64) for c in law.covariates},
            log_loss=np.log(frame["loss"].to_numpy(dtype=np.float64)),
            run=code[order],
            run_names=names,
            at=law.reference(frame),
            rows=frame.index.to_numpy(dtype=np.int64),
            base=runs.frame[base],
        )
        _check_finite(law, observed, runs.name)
        return observed


def run_codes(frame: pd.DataFrame) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Run codes in order of appearance and the runs' names; a row without a run is a run of its own."""
    if "run" in frame:
        labels = frame["run"].astype(object).where(frame["run"].notna(), [f"row {i}" for i in frame.index]).astype(str)
    else:
        labels = pd.Series([f"row {i}" for i in frame.index], index=frame.index)
    code, names = pd.factorize(labels)
    return code.astype(np.int64), tuple(map(str, names))


def _check_finite(law: Law, observed: Observations, name: str) -> None:
    """Refuse settings where the law has no value whatever its parameters, such as r = 0 under r**-gamma."""
    draws = law.sample_prior(64, observed.at, np.random.default_rng(0))
    bad = ~np.isfinite(law.predict(draws, observed.covariates)).any(axis=0)
    if bad.any():
        settings = [", ".join(f"{k} = {v[i]:g}" for k, v in observed.covariates.items()) for i in np.flatnonzero(bad)]
        faults = [
            Fault(
                int(row),
                "loss",
                "",
                f"{law.name} has no finite value at {setting}",
                "remove the row or use a law that is finite there",
            )
            for row, setting in zip(observed.rows[bad], settings, strict=True)
        ]
        raise TableError(faults, name)
