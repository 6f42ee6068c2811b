"""The expert's model of `pymc_expert`, sampled by nutpie with a normalizing flow learnt while tuning (JAX, FlowJAX, Equinox)."""

from __future__ import annotations

import time

import nutpie
from common import report, task
from pymc_expert import chinchilla, form3

if __name__ == "__main__":
    this = task()
    o, start = this.options, time.perf_counter()
    model = {"form3": form3, "chinchilla": chinchilla}[this.problem](this.rows, this.at)
    compiled = nutpie.compile_pymc_model(model, backend="jax", gradient_backend="jax").with_transform_adapt()
    built = time.perf_counter()
    tree = nutpie.sample(
        compiled,
        tune=o["tune"],
        draws=o["draws"],
        chains=o["chains"],
        cores=2,
        seed=o["seed"],
        progress_bar=False,
        adaptation="flow",
    )
    sampled = time.perf_counter()
    posterior, stats, tuning = tree["posterior"], tree["sample_stats"], tree["warmup_sample_stats"]
    report(
        this,
        {str(name): value.values for name, value in posterior.data_vars.items() if value.ndim == 2},
        compile_seconds=built - start,
        sampling_seconds=sampled - built,
        log_density=stats["logp"].values,
        steps=stats["n_steps"].values,
        tuning_steps=tuning["n_steps"].values,
        diverging=stats["diverging"].values,
    )
