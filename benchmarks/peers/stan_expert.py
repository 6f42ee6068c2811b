"""The law as an expert writes it in Stan: terms by their level at a reference point, run effects integrated out.

Parameters named by small letters (a, b, c, f) are the terms' values at the middle of the data; covariates are logs
centred there. The prior is that of the direct version. Chains start near the prior's medians.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import task
from stan_direct import sample

FORM3 = """
data {
  int n, runs;
  array[n] int run;
  vector[n] N, D, r, ptpp, log_loss;
  real at_N, at_D, at_r, at_ptpp;
}
transformed data {
  real eps = 1e-5;
  vector[n] lnN = log(N / at_N);
  vector[n] lnD = log(D);
  vector[n] lnr = log(r / at_r);
  vector[n] lnr_eps = log((r + eps) / (at_r + eps));
  vector[n] lnp = log(ptpp);
  vector[runs] count = rep_vector(0, runs);
  for (i in 1:n) count[run[i]] += 1;
}
parameters {
  real<lower=0> E, a, alpha, b, beta, nu, c, gamma, f, eta;
  real<lower=0, upper=1> lam;
  real zeta;
  real<lower=0> sigma_point, sigma_run;
}
transformed parameters {
  real beta_at = beta * (1 - lam * inv_logit(zeta * log(at_ptpp)));
  real A = a * at_N^alpha;
  real B = b * at_r^(-nu) * at_D^beta_at;
  real C = c * (at_r + eps)^gamma;
  real F = f * at_ptpp^eta;
}
model {
  vector[n] beta_eff = beta * (1 - lam * inv_logit(zeta * lnp));
  vector[n] error = log_loss - log(
    E + a * exp(-alpha * lnN) + b * exp(nu * lnr - beta_eff .* lnD + beta_at * log(at_D))
    + c * exp(-gamma * lnr_eps) + f * exp(-eta * (lnp - log(at_ptpp))));
  vector[runs] total = rep_vector(0, runs);
  real v = square(sigma_point);
  real t = square(sigma_run);
  vector[runs] w = v + count * t;
  for (i in 1:n) total[run[i]] += error[i];
  target += -0.5 * (dot_self(error) / v - t / v * sum(square(total) ./ w) + (n - runs) * log(v) + sum(log(w)));
  E ~ lognormal(0.3, 0.5);
  alpha ~ lognormal(-1.05, 0.4);
  beta ~ lognormal(-0.8, 0.5);
  nu ~ lognormal(-1.2, 0.8);
  gamma ~ lognormal(-1.2, 0.6);
  eta ~ lognormal(-1.05, 0.5);
  lam ~ beta(2, 2);
  zeta ~ normal(0.5, 0.5);
  a ~ lognormal(-0.9, 1);
  b ~ lognormal(-0.9, 1);
  c ~ lognormal(-2.3, 1);
  f ~ lognormal(-2.3, 1);
  sigma_point ~ lognormal(log(0.005), 1.5);
  sigma_run ~ normal(0, 0.003);
}
"""

CHINCHILLA = """
data {
  int n;
  vector[n] N, D, log_loss;
  real at_N, at_D;
}
transformed data {
  vector[n] lnN = log(N / at_N);
  vector[n] lnD = log(D / at_D);
}
parameters {
  real<lower=0> E, a, alpha, b, beta, sigma_point, dof_above_2;
}
transformed parameters {
  real dof = 2 + dof_above_2;
  real A = a * at_N^alpha;
  real B = b * at_D^beta;
}
model {
  E ~ lognormal(0.3, 0.5);
  alpha ~ lognormal(-1.05, 0.4);
  beta ~ lognormal(-0.8, 0.5);
  a ~ lognormal(-0.9, 1);
  b ~ lognormal(-0.9, 1);
  sigma_point ~ lognormal(log(0.005), 1.5);
  dof_above_2 ~ gamma(2, 0.1);
  log_loss ~ student_t(dof, log(E + a * exp(-alpha * lnN) + b * exp(-beta * lnD)), sigma_point);
}
"""

MEDIANS = {"E": 1.35, "a": 0.4, "alpha": 0.35, "b": 0.4, "beta": 0.45, "sigma_point": 0.005}
MORE = {
    "form3": {"nu": 0.3, "c": 0.1, "gamma": 0.3, "f": 0.1, "eta": 0.35, "lam": 0.5, "zeta": 0.5, "sigma_run": 0.002},
    "chinchilla": {"dof_above_2": 17.0},
}


def inits(problem: str, chains: int) -> list[dict[str, Any]]:
    """Starts of the chains: the prior's medians, each up to 10% off."""
    rng = np.random.default_rng(0)
    middle = MEDIANS | MORE[problem]
    return [{name: value * float(rng.uniform(0.9, 1.1)) for name, value in middle.items()} for _ in range(chains)]


if __name__ == "__main__":
    this = task()
    program = {"form3": FORM3, "chinchilla": CHINCHILLA}[this.problem]
    sample(this, program, init=inits(this.problem, this.options["chains"]))
