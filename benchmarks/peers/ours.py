"""bayeslaw with its defaults.

`fits` = 2 fits twice and times the second: sampling with everything about it (whitening, checks), but nothing that
a process does once.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
from common import report, task

import bayeslaw

if __name__ == "__main__":
    this = task()
    table = pd.DataFrame({name: values for name, values in this.rows.items() if name != "log_loss"})
    law = {"form3": "ptpp-gate-floor", "chinchilla": "chinchilla", "dynamics": "cpt-dynamics"}[this.problem]
    frame = table.assign(loss=np.exp(this.rows["log_loss"])).astype({"run": str})
    seconds = []
    for _ in range(this.options.get("fits", 1)):
        start = time.perf_counter()
        fit = bayeslaw.fit(law, frame, seed=this.options["seed"], progress=False)
        seconds.append(time.perf_counter() - start)
    stats = fit.tree["sample_stats"]
    report(
        this,
        fit.by_chain,
        compile_seconds=seconds[0] - seconds[-1],
        sampling_seconds=seconds[-1],
        steps=stats["n_steps"].values,
        diverging=stats["diverging"].values,
    )
