"""The laws and the noise written a second time, in plain NumPy, and tables made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, logit

from bayeslaw.data.observations import Observations
from bayeslaw.data.table import Runs, read_runs
from bayeslaw.laws.law import Law
from tests.curves import curves

Array = NDArray[np.float64]
Values = Mapping[str, Any]
LogDensity = Callable[[Array], tuple[float, Array]]


def _power(base: Any, exponent: Any) -> Any:
    return np.exp(exponent * np.log(base))


def _share(r: Any) -> Any:
    return np.clip(r, 1e-9, 1 - 1e-9)


def _beta_eff(p: Values, ptpp: Any) -> Any:
    gate = 1 / (1 + np.exp(-p["zeta"] * np.log(ptpp)))
    return np.clip(p["beta"] * (1 - p["lam"] * gate), 1e-6, None)


def _size(p: Values, x: Values) -> Any:
    return p["E"] + p["A"] * _power(x["N"], -p["alpha"])


def _barrier(p: Values, x: Values) -> Any:
    return p["C"] * _power(_share(x["r"]) + 1e-5, -p["gamma"])


def chinchilla(p: Values, x: Values) -> Any:
    """Hoffmann et al. 2022, eq. 2."""
    return _size(p, x) + p["B"] * _power(x["D"], -p["beta"])


def chinchilla_nd(p: Values, x: Values) -> Any:
    """Chinchilla and a term in both N and D."""
    return chinchilla(p, x) + p["C"] * _power(x["N"], -p["gamma"]) * _power(x["D"], -p["delta"])


def kaplan(p: Values, x: Values) -> Any:
    """Kaplan et al. 2020, eq. 1.5, in the paper's own N_c and D_c; by logarithms, since N_c may be astronomic."""
    log_n = np.log(p["A"]) / p["alpha"] - np.log(x["N"])
    log_d = np.log(p["B"]) / p["beta"] - np.log(x["D"])
    return np.exp(p["beta"] * np.logaddexp(p["alpha"] / p["beta"] * log_n, log_d))


def overtraining(p: Values, x: Values) -> Any:
    """Gadre et al. 2024, eq. 4, by logarithms of compute and of tokens per parameter."""
    log_c, log_m = np.log(6) + np.log(x["N"]) + np.log(x["D"]), np.log(x["D"]) - np.log(x["N"])
    return p["E"] + p["a"] * np.exp(p["eta"] * (log_m - log_c)) + p["b"] * np.exp(-p["eta"] * (log_m + log_c))


def farseer(p: Values, x: Values) -> Any:
    """Li et al. 2025 (Farseer) in their own a1, a2, a3 and b1, b2, b3."""
    unit = 1e9
    a3 = -p["e"] / p["gamma"] * unit ** -p["gamma"]
    b3 = np.log(p["E"]) + p["e"] / p["gamma"]
    f = p["g"] + p["h"] * p["alpha"] * 10 * np.log(10)
    a2 = f / p["beta"] * unit ** p["beta"]
    b2 = np.log(p["B"]) - f / p["beta"]
    a1 = -p["h"] / p["delta"] * unit ** -p["delta"]
    b1 = np.log(p["alpha"]) + p["h"] / p["delta"]
    rate = np.exp(a1 * x["N"] ** p["delta"] + b1)
    return np.exp(a3 * x["N"] ** p["gamma"] + b3) + np.exp(a2 * x["N"] ** -p["beta"] + b2 - rate * np.log(x["D"]))


def lr_batch(p: Values, x: Values) -> Any:
    """Chinchilla, and what a learning rate and a batch size cost that are not the best of Li et al. 2025 (Step Law)."""
    log_lr = np.log(p["c"]) + p["xi"] * np.log(x["D"]) - p["eta"] * np.log(x["N"])
    more = np.log(x["batch"]) - np.log(p["b"]) - p["nu"] * np.log(x["D"])
    off = np.log(x["lr"]) - log_lr - p["kappa"] * more
    return chinchilla(p, x) + p["U"] * (np.exp(p["s"] * off) - 1 - p["s"] * off) / p["s"] ** 2 + p["W"] / 2 * more**2


def precision(p: Values, x: Values) -> Any:
    """Kumar et al. 2024, eqs. 3 and 4."""
    kept = [-np.expm1(-x[f"bits_{of}"] / p[f"gamma_{of}"]) for of in ("w", "a", "kv")]
    return chinchilla(p, {**x, "N": x["N"] * kept[0] * kept[1] * kept[2]})


def granular_experts(p: Values, x: Values) -> Any:
    """Krajewski et al. 2024, eq. 5: the model-size term's scale falls with granularity."""
    scale = p["A"] + p["F"] * _power(x["G"], -p["gamma"])
    return chinchilla({**p, "A": scale}, x)


def sparse_experts(p: Values, x: Values) -> Any:
    """Abnar et al. 2025, eq. 6, with the share of active parameters in place of the sparsity."""
    both = p["G"] * np.exp(-p["delta"] * np.log(x["active"]) - p["gamma"] * np.log(x["N"]))
    return chinchilla(p, x) + p["F"] * _power(x["active"], p["lam"]) + both


def vocabulary(p: Values, x: Values) -> Any:
    """Tao et al. 2024, eq. 6, in millions of parameters and billions of tokens."""
    n, v, d = np.log(x["N"]) - 6 * np.log(10), np.log(x["Nv"]) - 6 * np.log(10), np.log(x["D"]) - 9 * np.log(10)
    terms = p["A1"] * np.exp(-p["alpha1"] * n) + p["A2"] * np.exp(-p["alpha2"] * v) + p["B"] * np.exp(-p["beta"] * d)
    return p["E"] + terms


def _worth(once: Any, times: Any, star: Any) -> Any:
    """Muennighoff et al. 2023, eq. 5: what `once`, had `times` over, is worth."""
    return once - once * star * np.expm1(-(times - 1) / star)


def repeated_epochs(p: Values, x: Values) -> Any:
    """Muennighoff et al. 2023, eqs. 5 and 6; the compute-optimal size is where the marginal gains of C = 6 N D are equal."""
    seen = np.minimum(x["U"], x["D"])
    # alpha A/N^alpha = beta B/D^beta at the optimum of any budget
    optimal = np.exp((np.log(p["alpha"] * p["A"] / (p["beta"] * p["B"])) + p["beta"] * np.log(seen)) / p["alpha"])
    size = np.minimum(x["N"], optimal)
    effective = {"N": _worth(size, x["N"] / size, p["R_N"]), "D": _worth(seen, x["D"] / seen, p["R_D"])}
    return chinchilla(p, effective)


def parallel_scaling(p: Values, x: Values) -> Any:
    """Chen et al. 2025, eq. 5, in the paper's own scale of parameters; by logarithms, since that may be astronomic."""
    log_size = np.log(x["N"]) + np.log1p(p["k"] * np.log(x["P"]))
    return p["E"] + np.exp(p["alpha"] * (np.log(p["A"]) / p["alpha"] - log_size))


def cpt_joint(p: Values, x: Values) -> Any:
    """Zheng et al. 2024, eqs. 1 and 4."""
    scratch = p["B"] * _power(x["D"], -p["beta"])
    continued = p["B_cpt"] * _power(x["D"], -p["beta_cpt"]) * _power(x["N"], -p["gamma"])
    return _size(p, x) + scratch + x["cpt"] * (continued - scratch)


def d_cpt(p: Values, x: Values) -> Any:
    """Que et al. 2024, as Goffinet et al. 2025 read it."""
    return _size(p, x) + p["B"] * _power(_share(x["r"]), p["nu"]) * _power(x["D"], -p["beta"]) + _barrier(p, x)


def ptpp_floor(p: Values, x: Values) -> Any:
    """Goffinet et al. 2025, form 1."""
    return d_cpt(p, x) + p["F"] * _power(x["ptpp"], -p["eta"])


def ptpp_gate(p: Values, x: Values) -> Any:
    """Goffinet et al. 2025, form 2."""
    data = p["B"] * _power(_share(x["r"]), p["nu"]) * _power(x["D"], -_beta_eff(p, x["ptpp"]))
    return _size(p, x) + data + _barrier(p, x)


def ptpp_gate_floor(p: Values, x: Values) -> Any:
    """Goffinet et al. 2025, form 3."""
    return ptpp_gate(p, x) + p["F"] * _power(x["ptpp"], -p["eta"])


def transfer_target(p: Values, x: Values) -> Any:
    """The gap closes with new tokens, and they wash out what pre-training left to gain."""
    new = (1 - x["r"]) * x["D"]
    floor = p["F"] * _power(x["N"], -p["delta"]) * _power(x["ptpp"], -p["eta"]) * _power(1 + new / p["tau"], -p["kappa"])
    closed = (1 - x["r"]) ** p["c"] * -np.expm1(-p["q"] * np.log1p(new / p["h"]))
    return _size(p, x) + floor + p["G"] * (1 - closed)


def transfer_source(p: Values, x: Values) -> Any:
    """Replayed tokens continue pre-training; new tokens bring a bounded forgetting; the rate is high again after D = 0."""
    floor = p["F"] * _power(x["N"], -p["delta"]) * _power(x["ptpp"] + x["r"] * x["D"] / x["N"], -p["eta"])
    forgotten = (1 - x["r"]) ** p["c"] * -np.expm1(-p["q"] * np.log1p((1 - x["r"]) * x["D"] / p["h"]))
    return _size(p, x) + floor + p["S"] * forgotten + p["J"] * np.clip(x["D"], 0, 1)


def plateau_source(p: Values, x: Values) -> Any:
    """A plateau and Chinchilla's sum, joined smoothly; forgetting by the ratio of new to replayed tokens."""
    read = x["N"] * x["ptpp"] + x["r"] * x["D"]
    gain = p["A"] * _power(x["N"], -p["alpha"]) + p["B"] * _power(read, -p["beta"])
    started = p["U"] * gain / np.cbrt(1 + np.sqrt(gain) ** 3) ** 2
    forgotten = p["S"] * np.log1p((1 - x["r"]) * x["D"] / (p["h"] * np.sqrt(x["N"]) + p["k"] * x["r"] * x["D"]))
    forgotten = forgotten * (1 - x["r"]) ** p["c"]
    return p["E"] + started + forgotten + p["J"] * np.clip(x["D"], 0, 1)


def plateau_target(p: Values, x: Values) -> Any:
    """The share of a plateau that a checkpoint lacks, in odds: what size and pre-training left, times a gap that closes."""
    new = (1 - x["r"]) * x["D"]
    left = p["B"] * _power(x["N"] * x["ptpp"], -p["beta"]) * _power(1 + new / p["tau"], -p["kappa"])
    closed = (1 - x["r"]) ** p["c"] * -np.expm1(-p["q"] * np.log1p(new / (p["s"] * p["tau"])))
    odds = (p["A"] * _power(x["N"], -p["alpha"]) + left) * (1 + p["G"] * (1 - closed))
    return p["E"] + p["U"] / (1 + 1 / odds)


def from_base_source(p: Values, x: Values) -> Any:
    """A fall from the plateau U that goes on with replayed tokens, the rate is high again, and forgetting by what was learnt."""
    share = (x["base_loss"] / p["U"]) ** 2  # of the plateau, squared
    further = np.exp(2 * p["eta"] * np.log1p(x["r"] * x["D"] / (x["N"] * x["ptpp"])))
    below = (1 / share - 1 + np.hypot(1 / share - 1, 0.1)) / 2
    replaced = p["h"] * np.cbrt(x["N"]) + p["k"] * x["r"] * x["D"]
    forgotten = p["S"] * _power(x["N"], -p["nu"]) * np.log1p((1 - x["r"]) ** p["c"] * x["D"] / replaced)
    fallen = np.sqrt((1 + below) / (1 + below * further))
    return x["base_loss"] * fallen + p["J"] + forgotten * np.sqrt(below / (1 + below))


def _stages(x: Values) -> tuple[Any, Any]:
    """Tokens of pre-training, and new ones of the adaptation; a share of 1e-9 stays new."""
    return x["N"] * x["ptpp"], np.clip(1 - x["r"], 1e-9, None) * x["D"]


def reuse_saturation(p: Values, x: Values) -> Any:
    """Liew and Kato 2025, in hundred millions of tokens, and Chinchilla's term of model size."""
    before, after = (np.log(tokens) - 8 * np.log(10) for tokens in _stages(x))
    data = p["A"] * np.exp(-p["alpha1"] * before - p["alpha2"] * after + p["alpha3"] * before * after)
    return p["E"] + data + p["B"] * _power(x["N"], -p["beta"])


def midtraining(p: Values, x: Values) -> Any:
    """Marin's Delphi: Chinchilla with a term for each stage."""
    before, after = _stages(x)
    return _size(p, x) + p["B"] * _power(before, -p["beta"]) + p["G"] * _power(after, -p["gamma"])


def injection(p: Values, x: Values) -> Any:
    """Bethune et al. 2025: a rise over the base loss, in a model as large as its injected data make it."""
    _, after = _stages({"ptpp": 1.0, **x})
    effective = np.log(x["N"]) + np.log1p(p["B"] * x["r"])
    return x["base_loss"] + p["A"] * np.exp(p["beta"] * np.log(after) - p["alpha"] * effective)


def replay_target(p: Values, x: Values) -> Any:
    """The gap that new tokens close, and what they gain beyond."""
    new = (1 - x["r"]) * x["D"]
    gained = p["F"] * np.exp(-p["kappa"] * np.log1p(new / p["tau"]))
    return p["E"] + gained + p["G"] * (1 - (1 - x["r"]) ** p["c"] * -np.expm1(-p["q"] * np.log1p(new / p["h"])))


def replay_source(p: Values, x: Values) -> Any:
    """What replay gains, and what new tokens forget."""
    new, replayed = (1 - x["r"]) * x["D"], x["r"] * x["D"]
    gained = p["F"] * np.exp(-p["eta"] * np.log1p(replayed / p["T"]))
    return p["E"] + gained + p["S"] * (1 - x["r"]) ** p["c"] * np.log1p(new / (p["h"] + p["k"] * replayed))


def fine_tuning(p: Values, x: Values) -> Any:
    """Lin et al. 2024: half of the gap is closed after h tokens."""
    return p["E"] + p["G"] * p["h"] ** p["q"] / (p["h"] ** p["q"] + x["D"] ** p["q"])


def forgetting(p: Values, x: Values) -> Any:
    """What new tokens forget, and what the replay of the mixture gains."""
    return p["E"] + p["S"] * np.log1p(x["D"] / p["h"]) - p["G"] * np.log1p(x["D"] / p["T"])


def combination(p: Values, x: Values) -> Any:
    """Wang et al. 2025, eq. 6."""
    return p["k"] * (p["q"] * x["L_source"] + (1 - p["q"]) * x["L_target"])


def annealing(p: Values, x: Values) -> Any:
    """Tissue et al. 2024; Wang et al. 2025, eq. 1."""
    return p["L0"] + p["A"] * _power(x["S1"], -p["alpha"]) - p["C"] * x["S2"]


def _base(p: Values, x: Values) -> Any:
    """Wang et al. 2025, eq. 2, without the annealing."""
    return p["L0"] + p["A"] * _power(x["S1_pt"] + x["S1_cpt"], -p["alpha"])


def _moved(p: Values, x: Values) -> Any:
    """Wang et al. 2025, eq. 3, as a share of B."""
    return -np.expm1(-p["beta"] * np.log1p(p["E"] * x["S1_cpt"]))


def cpt_dynamics(p: Values, x: Values) -> Any:
    """Wang et al. 2025, eq. 4."""
    return _base(p, x) - p["C1"] * x["S2_pt"] - p["C2"] * x["S2_cpt"] + p["B"] * _moved(p, x)


def multi_power(p: Values, x: Values) -> Any:
    """Luo et al. 2025, over the nodes of the changes of the rate."""
    gained: Any = 0.0
    for k in range(1, 1 + sum(name.startswith("fall_") for name in x)):
        since = p["C"] * _power(x[f"rate_{k}"], -p["gamma"]) * x[f"since_{k}"]
        gained = gained - x[f"fall_{k}"] * np.expm1(-p["beta"] * np.log1p(since))
    return p["L0"] + p["A"] * _power(x["S1"], -p["alpha"]) - p["B"] * gained


def _signed(area: Any, exponent: Any) -> Any:
    return area * np.hypot(area, 1e-8) ** (exponent - 1)


def annealing_lr_weighted(p: Values, x: Values) -> Any:
    """Wang et al. 2025, eq. 1 with the area of eq. 9."""
    return annealing(p, {"S1": x["S1"], "S2": x["S2w"]})


def annealing_power(p: Values, x: Values) -> Any:
    """Wang et al. 2025, eq. 1 with the power of eq. 10."""
    return annealing(p, {"S1": x["S1"], "S2": _signed(x["S2"], p["zeta"])})


def cpt_dynamics_lr_weighted(p: Values, x: Values) -> Any:
    """Wang et al. 2025, eq. 4 with the areas of eq. 9."""
    return cpt_dynamics(p, {**x, "S2_pt": x["S2w_pt"], "S2_cpt": x["S2w_cpt"]})


def cpt_dynamics_power(p: Values, x: Values) -> Any:
    """Wang et al. 2025, eq. 10."""
    return cpt_dynamics(p, {**x, "S2_pt": _signed(x["S2_pt"], p["zeta1"]), "S2_cpt": _signed(x["S2_cpt"], p["zeta2"])})


def cpt_dynamics_size(p: Values, x: Values) -> Any:
    """Wang et al. 2025, eq. 7."""
    grown = {**x, "S2_pt": x["S2_pt"] * _power(x["N"], p["gamma1"]), "S2_cpt": x["S2_cpt"] * _power(x["N"], p["gamma2"])}
    return cpt_dynamics(p, grown) + p["F"] * _power(x["N"], -p["gamma3"])


def cpt_dynamics_replay_source(p: Values, x: Values) -> Any:
    """Wang et al. 2025, eq. 8, the first."""
    annealed = p["C1"] * x["S2_pt"] + p["C2"] * x["S2_cpt"] * np.exp(p["a1"] * x["r"])
    return _base(p, x) - annealed - p["B"] * _moved(p, x) * np.expm1(-p["a2"] * (1 - x["r"]))


def cpt_dynamics_replay_target(p: Values, x: Values) -> Any:
    """Wang et al. 2025, eq. 8, the second; B is positive and what is gained."""
    annealed = p["C1"] * x["S2_pt"] + p["C2"] * x["S2_cpt"] * np.exp(p["a1"] * (1 - x["r"]))
    return _base(p, x) - annealed - p["B"] * _moved(p, x) * np.expm1(p["a2"] * (1 - x["r"]))


def cpt_dynamics_open(p: Values, x: Values) -> Any:
    """Wang et al. 2025, eq. 4 with an unknown pre-training."""
    return cpt_dynamics({**p, "C1": 0.0}, {**x, "S1_pt": p["S1_pt"], "S2_pt": 0.0})


def task_sigmoid(p: Values, x: Values) -> Any:
    """Dubey et al. 2024; Bhagia et al. 2024, with the accuracy of guessing known."""
    return x["chance"] + (p["top"] - x["chance"]) * expit(-p["k"] * (x["loss"] - p["L0"]))


def task_exp(p: Values, x: Values) -> Any:
    """Gadre et al. 2024."""
    return p["eps"] - p["k"] * np.exp(x["loss"]) ** -p["gamma"]


def task_direct(p: Values, x: Values) -> Any:
    """Krajewski et al. 2025, of the share that guessing does not get."""
    lost = p["A"] * _power(x["N"], -p["alpha"]) + p["B"] * _power(x["D"], -p["beta"])
    return x["chance"] + (1 - x["chance"]) * np.exp(-lost)


def observational_skill(p: Values, x: Values) -> Any:
    """Ruan et al. 2024: a sigmoid of height 1 - low."""
    return p["low"] + (1 - p["low"]) * expit(p["b"] + sum(p[f"w{i}"] * x[f"S{i}"] for i in (1, 2, 3)))


SHARES = ("web", "code", "books")


def data_mixing(p: Values, x: Values) -> Any:
    """Ye et al. 2024, the law of several training domains."""
    return p["c"] + p["k"] * np.prod([np.exp(p[f"t_{s}"]) ** x[s] for s in SHARES], axis=0)


def _worth_of_mixture(p: Values, x: Values) -> Any:
    """What a token of the mixture is worth, in the mean over its shares."""
    return sum(x[s] * np.exp(p[f"u_{s}"]) for s in SHARES)


def mixture_power(p: Values, x: Values) -> Any:
    """A floor, and a power of what the mixture's tokens are worth."""
    return p["c"] + p["k"] * _power(_worth_of_mixture(p, x), -p["alpha"])


def bimix(p: Values, x: Values) -> Any:
    """Ge et al. 2024, with what tokens are worth in place of the domain's own share."""
    return _power(_worth_of_mixture(p, x), -p["alpha"]) * (p["B"] * _power(x["D"], -p["beta"]) + p["C"])


def mixture_scaling(p: Values, x: Values) -> Any:
    """A floor and the p-norm of what size and tokens leave above it, times a power of what the mixture's tokens are worth."""
    size, tokens = p["A"] * _power(x["N"], -p["alpha"]), p["B"] * _power(x["D"], -p["beta"])
    above = np.exp(np.logaddexp(p["p"] * np.log(size), p["p"] * np.log(tokens)) / p["p"])
    return _power(_worth_of_mixture(p, x), -p["gamma"]) * (p["E"] + above)


LAWS: dict[str, Callable[[Values, Values], Any]] = {
    "bimix": bimix,
    "data-mixing": data_mixing,
    "mixture-power": mixture_power,
    "mixture-scaling": mixture_scaling,
    "annealing": annealing,
    "combination": combination,
    "annealing-lr-weighted": annealing_lr_weighted,
    "annealing-power": annealing_power,
    "chinchilla": chinchilla,
    "chinchilla-nd": chinchilla_nd,
    "cpt-dynamics": cpt_dynamics,
    "cpt-dynamics-lr-weighted": cpt_dynamics_lr_weighted,
    "cpt-dynamics-open": cpt_dynamics_open,
    "cpt-dynamics-power": cpt_dynamics_power,
    "cpt-dynamics-replay-source": cpt_dynamics_replay_source,
    "cpt-dynamics-replay-target": cpt_dynamics_replay_target,
    "cpt-dynamics-size": cpt_dynamics_size,
    "cpt-joint": cpt_joint,
    "d-cpt": d_cpt,
    "fine-tuning": fine_tuning,
    "forgetting": forgetting,
    "from-base-source": from_base_source,
    "injection": injection,
    "vocabulary": vocabulary,
    "sparse-experts": sparse_experts,
    "granular-experts": granular_experts,
    "precision": precision,
    "overtraining": overtraining,
    "lr-batch": lr_batch,
    "farseer": farseer,
    "kaplan": kaplan,
    "midtraining": midtraining,
    "multi-power": multi_power,
    "parallel-scaling": parallel_scaling,
    "plateau-source": plateau_source,
    "plateau-target": plateau_target,
    "ptpp-floor": ptpp_floor,
    "ptpp-gate": ptpp_gate,
    "ptpp-gate-floor": ptpp_gate_floor,
    "repeated-epochs": repeated_epochs,
    "reuse-saturation": reuse_saturation,
    "replay-source": replay_source,
    "replay-target": replay_target,
    "observational-skill": observational_skill,
    "task-direct": task_direct,
    "task-exp": task_exp,
    "task-loss": chinchilla,
    "task-sigmoid": task_sigmoid,
    "transfer-source": transfer_source,
    "transfer-target": transfer_target,
}

TYPICAL: dict[str, float] = {
    "E": 1.5, "A": 60.0, "alpha": 0.3, "B": 90.0, "beta": 0.28, "nu": 0.25, "C": 0.06, "gamma": 0.3, "F": 0.4, "eta": 0.4,
    "lam": 0.4, "zeta": 0.5, "B_cpt": 40.0, "beta_cpt": 0.22,
    "T": 5e9, "delta": 0.05, "tau": 1e9, "kappa": 0.5, "G": 1.0, "c": 0.8, "h": 3e7, "q": 0.4, "S": 0.5, "J": 0.05,
    "R_D": 15.0, "R_N": 5.0, "k": 0.35,
    "L0": 2.6, "C1": 0.5, "C2": 0.4,
    "t_web": -0.5, "t_code": 0.8, "t_books": -1.5, "u_web": 0.3, "u_code": -2.0, "u_books": 1.5,
}  # fmt: skip
"""Parameters that most laws give losses of 2 to 5 nats with."""
ANNEALING = {"A": 0.5, "alpha": 0.5, "C": 0.5}
SHIFT = {"A": 0.5, "alpha": 0.5, "B": 0.3, "E": 40.0, "beta": 0.4}
OWN: dict[str, dict[str, float]] = {
    "cpt-joint": {"gamma": 0.05},
    "bimix": {"C": 2.5, "alpha": 0.1},
    "data-mixing": {"c": 2.2},
    "mixture-power": {"c": 2.2},
    "mixture-scaling": {"p": 1.6},
    "combination": {"k": 1.05, "q": 0.6},
    "annealing": ANNEALING,
    "annealing-lr-weighted": ANNEALING | {"C": 1.0},
    "annealing-power": ANNEALING | {"zeta": 1.1},
    "cpt-dynamics": SHIFT,
    "cpt-dynamics-lr-weighted": SHIFT | {"C1": 1.0, "C2": 0.8},
    "cpt-dynamics-power": SHIFT | {"zeta1": 1.1, "zeta2": 0.9},
    "cpt-dynamics-size": SHIFT | {"L0": 1.5, "C1": 0.1, "C2": 0.1, "gamma1": 0.08, "gamma2": 0.08, "F": 100.0, "gamma3": 0.25},
    "cpt-dynamics-replay-source": SHIFT | {"a1": 0.1, "a2": 3.0},
    "cpt-dynamics-replay-target": SHIFT | {"a1": 0.1, "a2": 1.5, "B": 0.2},
    "cpt-dynamics-open": SHIFT | {"S1_pt": 8.0, "B": -0.8},
    "multi-power": {"L0": 2.6, "A": 0.5, "alpha": 0.5, "B": 450.0, "C": 2.0, "beta": 0.6, "gamma": 0.6},
    "plateau-source": {"U": 4.0, "A": 300.0, "alpha": 0.4, "B": 300.0, "beta": 0.35, "S": 0.06, "h": 1000.0, "k": 2.0},
    "plateau-target": {"U": 4.0, "A": 300.0, "alpha": 0.4, "B": 300.0, "beta": 0.35, "s": 0.05},
    "forgetting": {"S": 0.2, "h": 4e8, "G": 0.08, "T": 2e10},
    "from-base-source": {"U": 6.0, "eta": 0.2, "S": 0.4, "nu": 0.13, "c": 1.0, "h": 1e4, "k": 2.0},
    "injection": {"A": 2.0, "alpha": 0.4, "B": 300.0, "beta": 0.3},
    "midtraining": {"G": 20.0, "gamma": 0.2},
    "reuse-saturation": {"A": 0.6, "alpha1": 0.15, "alpha2": 0.2, "alpha3": 0.01, "B": 60.0, "beta": 0.3},
    "chinchilla-nd": {"C": 9e4, "gamma": 0.3, "delta": 0.5},
    "observational-skill": {"low": 0.1, "b": 0.3, "w1": 1.2, "w2": 0.5, "w3": -0.3},
    "task-direct": {"A": 300.0, "alpha": 0.35, "B": 500.0, "beta": 0.3},
    "task-exp": {"eps": 0.85, "k": 1.6, "gamma": 0.7},
    "task-loss": {"E": 0.6},
    "task-sigmoid": {"L0": 2.6, "k": 2.5, "top": 0.9},
    "farseer": {"E": 1.7, "e": 0.1, "gamma": 0.17, "B": 300.0, "g": 0.0, "beta": 0.1, "alpha": 0.32, "h": 0.15, "delta": 0.12},
    "lr-batch": {"c": 1.79, "eta": 0.713, "xi": 0.307, "b": 0.58, "nu": 0.571, "kappa": 0.5, "U": 0.03, "s": 0.5, "W": 0.02},
    "overtraining": {"a": 212.0, "b": 367.0, "eta": 0.136},
    "precision": {"gamma_w": 2.67, "gamma_a": 2.2, "gamma_kv": 1.0},
    "granular-experts": {"E": 0.5, "A": 18.0, "alpha": 0.115, "F": 2.1, "gamma": 0.58, "B": 30.0, "beta": 0.147},
    "sparse-experts": {"E": 0.9, "F": 0.46, "lam": 0.17, "G": 17.0, "delta": 0.16, "gamma": 0.16},
    "vocabulary": {"E": -5.5, "A1": 1.8, "alpha1": 0.45, "A2": 0.2, "alpha2": 0.67, "B": 2.1, "beta": 0.46},
    "kaplan": {"A": 11.2, "alpha": 0.076, "B": 23.19, "beta": 0.103},
}
"""Parameters that have another meaning in a law."""


def typical(law: Law) -> dict[str, float]:
    """Parameters of a law that give sensible losses."""
    values = TYPICAL | OWN.get(law.name, {})
    return {k: values[k] for k in law.parameters}


def design(law: Law, runs: int = 6, checkpoints: int = 5) -> dict[str, Array]:
    """Settings of a few runs, each logged at several D or steps; the other covariates differ between runs."""
    if "lr_peak" in law.covariates:
        table = curves(runs, checkpoints, changes=bool(law.series))
        return {k: table[k].to_numpy(dtype=np.float64) for k in law.covariates}
    run = np.repeat(np.arange(runs), checkpoints)
    place = np.tile(np.linspace(0, 1, checkpoints), runs)
    # A run's shares; runs of laws of shares alone are logged once or more at the same settings.
    web, code = np.array([0.1, 0.5, 0.3, 0.7, 0.2])[run % 5], np.array([0.4, 0.1, 0.6, 0.2])[run % 4]
    columns = {
        "web": web,
        "code": (1 - web) * code,
        "books": (1 - web) * (1 - code),
        "N": np.geomspace(1e7, 1e9, 3)[run % 3],
        "D": np.tile(np.geomspace(1e8, 1e10, checkpoints), runs) * (1 + 0.1 * run),
        "r": np.array([0.1, 0.25, 0.5, 0.8])[run % 4],
        "ptpp": np.array([15.0, 31.0, 279.0])[(run + run // 3) % 3],
        "cpt": (run % 2).astype(np.float64),
        "U": np.array([1e8, 1e9, 2e10])[(run + run // 3) % 3],
        "P": np.array([1.0, 2.0, 8.0])[(run + run // 3) % 3],
        "lr": 1e-3 * 2.0 ** (np.arange(run.size) % 5 - 2),
        "batch": 2e5 * 2.0 ** (np.arange(run.size) * 3 % 7 - 3),
        "bits_w": np.array([3.0, 4.0, 8.0, 16.0])[(run + run // 4) % 4],
        "bits_a": np.array([16.0, 4.0, 6.0])[(run + run // 3) % 3],
        "bits_kv": np.array([4.0, 16.0, 3.0, 8.0, 16.0])[run % 5],
        "G": np.array([1.0, 4.0, 16.0, 8.0])[(run + run // 4) % 4],
        "active": np.array([1.0, 0.25, 0.1, 0.03])[(run + run // 4) % 4],
        "Nv": np.array([4e6, 3e7, 2e8, 1e8])[(run + run // 4) % 4],
        "base_loss": np.array([3.0, 2.5, 2.8, 2.2, 2.6])[run % 5],
        "L_source": 2.5 + np.tile(np.linspace(0.0, 0.3, checkpoints), runs) * (1 + run % 3),
        "L_target": 3.0 - np.tile(np.linspace(0.0, 0.4, checkpoints), runs) * (1 + run % 4),
        "loss": 3.6 - 0.2 * run - 0.6 * place,
        "chance": np.array([0.25, 0.25, 0.2, 0.5])[run % 4],
        "items": np.array([500.0, 1000.0, 2000.0])[run % 3],
        "S1": np.linspace(-1.5, 1.5, runs)[run] + 0.3 * place,
        "S2": np.array([0.5, -1.0, 1.2, -0.4, 0.1])[run % 5] + 0.2 * place,
        "S3": np.array([0.3, 1.0, -0.8, -0.2])[run % 4] - 0.2 * place,
    }
    return {k: columns[k] for k in law.covariates}


def table(law: Law, *, seed: int = 0, sigma_point: float = 0.005, sigma_run: float = 0.004, **size: int) -> pd.DataFrame:
    """Runs of `design` with the oracle's losses and noise; column `run` names the run."""
    rng, settings = np.random.default_rng(seed), design(law, **size)
    checkpoints = size.get("checkpoints", 5)
    rows = len(next(iter(settings.values())))
    run = np.arange(rows) // checkpoints
    noise = sigma_point * rng.standard_normal(rows) + sigma_run * rng.standard_normal(rows)[run]
    expected = LAWS[law.name](typical(law), settings)
    values = measured(law, expected, settings, noise, rng)
    return pd.DataFrame(settings).assign(run=[f"run {i}" for i in run], **{law.outcome.name: values})


def measured(law: Law, expected: Array, settings: Values, noise: Array, rng: np.random.Generator, spread: float = 0.02) -> Array:
    """Outcomes with noise on the scale on which it adds up; of counted items the noise is that of runs, and items are answered."""
    match law.outcome.kind:
        case "positive":
            return np.asarray(expected * np.exp(noise))
        case "bounded":
            low, high = law.outcome.bounds
            return np.asarray(low + (high - low) * expit(logit((expected - low) / (high - low)) + noise))
        case "count":
            share, items = expit(logit(expected) + noise), np.asarray(settings[law.outcome.items]).astype(int)
            phi = 1 / spread**2
            return np.asarray(stats.betabinom(items, share * phi, (1 - share) * phi).rvs(random_state=rng) / items)
        case _:
            return np.asarray(expected + noise)


def observations(law: Law, *, seed: int = 0, **size: int) -> Observations:
    """`table` as a law takes it."""
    return observed(law, table(law, seed=seed, **size))


def nested(
    run: Any, checkpoint: Any = None, group: Any = None, names: tuple[str, ...] = (), se: Array | None = None
) -> Observations:
    """Rows of runs, of checkpoints (one for each run unless given) and groups, without a law."""
    run = np.asarray(run)
    size = int(run.max()) + 1
    checkpoint = np.arange(size) if checkpoint is None else np.asarray(checkpoint)
    return Observations(
        covariates={},
        response=np.zeros(run.size),
        run=run,
        run_names=tuple(f"run {j}" for j in range(size)),
        at={},
        rows=np.arange(run.size) + 1,
        base=pd.DataFrame(),
        se=np.empty(0) if se is None else se,
        checkpoint=checkpoint,
        checkpoint_names=tuple(f"checkpoint {c}" for c in range(int(checkpoint.max()) + 1)),
        group=np.zeros(size, np.int64) if group is None else np.asarray(group),
        group_names=names,
        group_column="set" if names else "",
    )


def with_groups(law: Law, *, known: bool = True, **size: int) -> Observations:
    """`observations` with a checkpoint for every two runs, two groups, and known standard errors unless `known` is False."""
    observed = observations(law, **size)
    code, rows = np.arange(observed.runs), observed.response.size
    return replace(
        observed,
        checkpoint=code // 2,
        checkpoint_names=tuple(f"checkpoint {c}" for c in range((observed.runs + 1) // 2)),
        group=(code > 2).astype(np.int64),
        group_names=("a", "b"),
        group_column="set",
        se=np.linspace(0, 0.01, rows) if known else np.empty(0),
    )


def timed(made: Observations) -> Observations:
    """With a clock: uneven steps within each run, the second of them 0."""
    place = np.arange(made.run.size) - made.starts[made.run]
    return replace(made, clock=100.0 * np.maximum(place - 1, 0) ** 1.5, clock_column="step", span=500.0)


def drifting(made: Observations, point: Array, run: Array, length: float) -> Array:
    """Covariance of all rows under noise that drifts: variances by group, and the correlation length in the clock's unit."""
    group, known = made.group[made.run], made.se**2 if made.se.size else 0.0
    same = made.run[:, None] == made.run[None, :]
    decay = np.exp(-np.abs(made.clock[:, None] - made.clock[None, :]) / length)
    return np.asarray(np.diag(point[group] + known) + run[group][:, None] * same * decay)


def observed(law: Law, columns: Mapping[str, Any] | pd.DataFrame) -> Observations:
    """A table in memory as a law takes it."""
    return Observations.of(law, runs(columns))


def runs(columns: Mapping[str, Any] | pd.DataFrame) -> Runs:
    """A table in memory, read."""
    return read_runs(pd.DataFrame(columns))


def central(function: Callable[[Array], float], x: Array, step: float = 1e-6) -> Array:
    """Gradient by fourth-order central differences, steps in proportion to the coordinates."""
    return jacobian(lambda v: np.array([function(v)]), x, step).ravel()


def jacobian(function: Callable[[Array], Array], x: Array, step: float = 1e-6) -> Array:
    """Derivatives (outputs, inputs) by fourth-order central differences."""
    columns = []
    for i in range(x.size):
        h = step * max(1.0, abs(x[i]))
        moved = x + np.outer([-2, -1, 1, 2], np.eye(x.size)[i]) * h
        values = [function(row) for row in moved]
        columns.append((values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h))
    return np.array(columns).T
