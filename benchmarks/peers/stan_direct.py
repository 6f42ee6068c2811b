"""The law as one would write it in Stan from the paper: A, B, C, F themselves, run effects as parameters (non-centred).

Sampled through PyStan with Stan's defaults.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import stan
from common import Task, report, task

FORM3 = """
data {
  int n, runs;
  array[n] int run;
  vector[n] N, D, r, ptpp, log_loss;
  real at_N, at_D, at_r, at_ptpp;
}
parameters {
  real<lower=0> E, A, alpha, B, beta, nu, C, gamma, F, eta;
  real<lower=0, upper=1> lam;
  real zeta;
  real<lower=0> sigma_point, sigma_run;
  vector[runs] z;
}
model {
  real eps = 1e-5;
  real beta_at = beta * (1 - lam * at_ptpp^zeta / (1 + at_ptpp^zeta));
  vector[n] beta_eff = beta * (1 - lam * ptpp.^zeta ./ (1 + ptpp.^zeta));
  vector[n] loss = E + A * N.^(-alpha) + B * r.^nu .* D.^(-beta_eff) + C * (r + eps).^(-gamma) + F * ptpp.^(-eta);
  E ~ lognormal(0.3, 0.5);
  alpha ~ lognormal(-1.05, 0.4);
  beta ~ lognormal(-0.8, 0.5);
  nu ~ lognormal(-1.2, 0.8);
  gamma ~ lognormal(-1.2, 0.6);
  eta ~ lognormal(-1.05, 0.5);
  lam ~ beta(2, 2);
  zeta ~ normal(0.5, 0.5);
  A ~ lognormal(-0.9 + alpha * log(at_N), 1);
  B ~ lognormal(-0.9 - nu * log(at_r) + beta_at * log(at_D), 1);
  C ~ lognormal(-2.3 + gamma * log(at_r + eps), 1);
  F ~ lognormal(-2.3 + eta * log(at_ptpp), 1);
  sigma_point ~ lognormal(log(0.005), 1.5);
  sigma_run ~ normal(0, 0.003);
  z ~ std_normal();
  log_loss ~ normal(log(loss) + sigma_run * z[run], sigma_point);
}
"""

CHINCHILLA = """
data {
  int n;
  vector[n] N, D, log_loss;
  real at_N, at_D;
}
parameters {
  real<lower=0> E, A, alpha, B, beta, sigma_point, dof_above_2;
}
transformed parameters {
  real dof = 2 + dof_above_2;
}
model {
  E ~ lognormal(0.3, 0.5);
  alpha ~ lognormal(-1.05, 0.4);
  beta ~ lognormal(-0.8, 0.5);
  A ~ lognormal(-0.9 + alpha * log(at_N), 1);
  B ~ lognormal(-0.9 + beta * log(at_D), 1);
  sigma_point ~ lognormal(log(0.005), 1.5);
  dof_above_2 ~ gamma(2, 0.1);
  log_loss ~ student_t(dof, log(E + A * N.^(-alpha) + B * D.^(-beta)), sigma_point);
}
"""

DYNAMICS = """
data {
  int n, runs;
  array[n] int run;
  vector[n] S1_pt, S1_cpt, S2_pt, S2_cpt, log_loss;
  real at_S1_pt, at_S1_cpt, at_lr_peak;
}
transformed data {
  vector[n] S1 = S1_pt + S1_cpt;
}
parameters {
  real<lower=0> L0, A, alpha, C1, C2;
  real B;
  real<lower=0> E, beta, sigma_point, sigma_run;
  vector[runs] z;
}
model {
  vector[n] loss = L0 + A * S1.^(-alpha) - C1 * S2_pt - C2 * S2_cpt + B * (1 - (1 + E * S1_cpt).^(-beta));
  L0 ~ lognormal(0.7, 0.5);
  alpha ~ lognormal(-0.7, 0.4);
  A ~ lognormal(-1.3 + alpha * log(at_S1_pt + at_S1_cpt), 1);
  C1 ~ lognormal(-2.5 - log(1000 * at_lr_peak), 1);
  C2 ~ lognormal(-2.5 - log(1000 * at_lr_peak), 1);
  B ~ normal(0, 0.7);
  E ~ lognormal(-4.6 - log(at_lr_peak), 1.5);
  beta ~ lognormal(-1, 0.7);
  sigma_point ~ lognormal(log(0.005), 1.5);
  sigma_run ~ normal(0, 0.003);
  z ~ std_normal();
  log_loss ~ normal(log(loss) + sigma_run * z[run], sigma_point);
}
"""

PROGRAMS = {"form3": FORM3, "chinchilla": CHINCHILLA, "dynamics": DYNAMICS}


def data(t: Task) -> dict[str, Any]:
    """The rows as Stan takes them: run codes from 1."""
    given: dict[str, Any] = {name: values.tolist() for name, values in t.rows.items()}
    runs = int(t.rows["run"].max()) + 1
    return (
        given
        | {"n": len(t.rows["run"]), "runs": runs, "run": (t.rows["run"] + 1).tolist()}
        | {f"at_{name}": value for name, value in t.at.items()}
    )


def sample(t: Task, program: str, **settings: Any) -> None:
    """Build, sample and report."""
    o, start = t.options, time.perf_counter()
    posterior = stan.build(program, data=data(t), random_seed=o["seed"])
    built = time.perf_counter()
    fit = posterior.sample(num_chains=o["chains"], num_warmup=o["tune"], num_samples=o["draws"], save_warmup=True, **settings)
    sampled = time.perf_counter()

    def by_chain(name: str) -> Any:
        """Values (chains, draws), tuning first; PyStan lays the chains of a draw side by side."""
        return np.asarray(fit[name]).reshape(-1, o["chains"]).T

    names = [name for name, dims in zip(fit.param_names, fit.dims, strict=True) if not dims]
    tuning, kept = slice(None, o["tune"]), slice(o["tune"], None)
    report(
        t,
        {name: by_chain(name)[:, kept] for name in names},
        compile_seconds=built - start,
        sampling_seconds=sampled - built,
        log_density=by_chain("lp__")[:, kept],
        steps=by_chain("n_leapfrog__")[:, kept],
        tuning_steps=by_chain("n_leapfrog__")[:, tuning],
        diverging=by_chain("divergent__")[:, kept],
    )


if __name__ == "__main__":
    this = task()
    sample(this, PROGRAMS[this.problem])
