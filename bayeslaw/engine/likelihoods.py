"""Log densities of rows under each noise, with their gradients; see `noise`.

These are plain functions: `compiled.compiled_function` compiles each by itself, for callers by address.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslaw.engine.build import Reals, Wholes
from bayeslaw.engine.functions import digamma, exps, log_mills, logs, total


def normal_density(
    y: Reals, mu: Reals, starts: Wholes, count: Reals, scatter: Reals, squared: Reals, family: Wholes, group: Wholes,
    v: Reals, t: Reals, omega: float, excess: float, d_mu: Reals, d_v: Reals, d_t: Reals,
) -> tuple[float, float, float]:  # fmt: skip
    """Log density of rows sorted by checkpoint and run, all effects integrated out, and its derivatives by omega and excess.

    Parameters
    ----------
    y, mu, starts, count, scatter, squared, family, group
        A row is the mean of `count` points; `scatter` is each run's sum of squares of points around the means of their rows;
        `squared` are known variances of rows of one point each, or empty. `family` holds the first run of each checkpoint.
    v, t, omega, excess
        Variances of points and run effects for every group, of checkpoint effects, and the mean of one-sided run effects; the last
        three may be 0.
    d_mu, d_v, d_t
        The other derivatives are added to these.
    """
    logp, d_omega, d_excess, grown = 0.0, 0.0, 0.0, 1.0
    own, inverse, level = -1, 0.0, 0.0
    widest = 1
    for c in range(family.size - 1):
        widest = max(widest, family[c + 1] - family[c])
    weights, totals = np.empty(widest), np.empty(widest)
    plain = squared.size == 0
    for c in range(family.size - 1):
        first = family[c]
        whole_a, whole_b = 0.0, 0.0
        for j in range(first, family[c + 1]):
            variance, spread = v[group[j]], t[group[j]]
            if group[j] != own:
                own, inverse, level = group[j], 1 / variance, math.log(variance) + math.log(2 * math.pi)
            k, weight, total, squares, logs = 0.0, 0.0, 0.0, scatter[j] * inverse, 0.0
            if plain:
                for i in range(starts[j], starts[j + 1]):
                    e = y[i] - mu[i]
                    k += count[i]
                    total += count[i] * e
                    squares += count[i] * e * e * inverse
                weight, total, logs = k * inverse, total * inverse, k * level
            else:
                for i in range(starts[j], starts[j + 1]):
                    e, p = y[i] - mu[i], 1 / (variance + squared[i])
                    k += 1.0
                    weight += p
                    total += p * e
                    squares += p * e * e
                    logs += math.log(2 * math.pi) - math.log(p)
            s = 1 + spread * weight
            grown *= s  # a logarithm takes longer than the rest of a short run: it is taken of the product of many runs
            if grown > 1e150:
                logp -= 0.5 * math.log(grown)
                grown = 1.0
            logp -= 0.5 * (logs + squares - spread * total * total / s)
            whole_a += weight / s
            whole_b += total / s
            weights[j - first], totals[j - first] = weight, total
        z = 1 + omega * whole_a
        grown *= z
        logp += 0.5 * omega * whole_b * whole_b / z
        d_omega += 0.5 * (whole_b * whole_b / (z * z) - whole_a / z)
        pull_a, pull_b = -0.5 * omega * (1 / z + omega * whole_b * whole_b / (z * z)), omega * whole_b / z
        for j in range(first, family[c + 1]):
            variance, spread = v[group[j]], t[group[j]]
            weight, total = weights[j - first], totals[j - first]
            s = 1 + spread * weight
            if excess > 0:
                a = weight / s
                root = math.sqrt(a)
                x = (total / s - 1 / excess) / root
                h = log_mills(x)
                rise = x + math.exp(-h) / math.sqrt(2 * math.pi)
                logp += 0.5 * math.log(2 * math.pi / a) - math.log(excess) + h
                d_excess += rise / (root * excess * excess) - 1 / excess
                pull_a, pull_b = -0.5 * (1 + rise * x) / a, rise / root
            ratio = total / s
            d_weight = pull_a / (s * s) - pull_b * ratio * spread / s - 0.5 * spread / s - 0.5 * (spread * ratio) ** 2
            d_total = pull_b / s + spread * ratio
            d_t[group[j]] -= (pull_a * weight / s + pull_b * ratio + 0.5) * weight / s - 0.5 * ratio * ratio
            precision = 1 / variance
            d_variance = 0.5 * scatter[j] * precision * precision
            if plain:
                d_p, k = 0.0, 0.0
                for i in range(starts[j], starts[j + 1]):
                    e = y[i] - mu[i]
                    k += count[i]
                    d_p += count[i] * (d_total - 0.5 * e) * e
                    d_mu[i] += count[i] * (e - d_total) * precision
                d_variance -= (d_p + k * d_weight) * precision * precision + 0.5 * k * precision
            else:
                for i in range(starts[j], starts[j + 1]):
                    e, p = y[i] - mu[i], 1 / (variance + squared[i])
                    d_mu[i] += (e - d_total) * p
                    d_variance -= (d_weight + (d_total - 0.5 * e) * e) * p * p + 0.5 * p
            d_v[group[j]] += d_variance
    return logp - 0.5 * math.log(grown), d_omega, d_excess


def ou_density(
    y: Reals, mu: Reals, starts: Wholes, clock: Reals, scatter: Reals, squared: Reals, family: Wholes, group: Wholes,
    v: Reals, t: Reals, omega: float, length: float, d_mu: Reals, d_v: Reals, d_t: Reals,
) -> tuple[float, float, float]:  # fmt: skip
    """Log density of rows sorted by run and clock with OU run effects, by a Kalman filter; 0; and its derivative by length.

    Parameters
    ----------
    y, mu, starts, clock, scatter, squared, family, group, v, t, omega, length, d_mu, d_v, d_t
        As in `normal_density`, since the same code calls either: `clock` stands for counts and the correlation `length`, in the
        clock's unit, for the mean excess; scatter, family and omega are not used.

    Notes
    -----
    With m and P the mean and variance of the effect u given the rows before, S = P + v and K = P / S, a row adds K (e - m) to the
    mean and leaves the variance K v; to the next row u decays by rho = exp(-step / length) and gains the variance (1 - rho^2) t.
    """
    n = y.size
    rho, error, gain, whole, inverse = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for i in range(1, n):
        inverse[i] = min(max((clock[i - 1] - clock[i]) / length, -700.0), 0.0)
    inverse[0] = 0.0
    exps(inverse, rho)
    for j in range(starts.size - 1):
        rho[starts[j]] = 0.0  # a run begins with the stationary distribution: mean 0 and variance t
    known = squared.size > 0
    squares = 0.0
    for j in range(starts.size - 1):
        variance, spread = v[group[j]], t[group[j]]
        mean, left = 0.0, 0.0
        for i in range(starts[j], starts[j + 1]):
            own = variance + squared[i] if known else variance
            before = rho[i] * rho[i] * left + (1 - rho[i]) * (1 + rho[i]) * spread
            mean *= rho[i]
            e, s = y[i] - mu[i] - mean, before + own
            p = 1 / s
            k = before * p
            squares += e * e * p
            mean += k * e
            left = k * own
            error[i], gain[i], whole[i], inverse[i] = e, k, s, p
    d_length = 0.0
    for j in range(starts.size - 1):
        variance, spread = v[group[j]], t[group[j]]
        pull_mean, pull_left, d_variance, d_spread = 0.0, 0.0, 0.0, 0.0
        for i in range(starts[j + 1] - 1, starts[j] - 1, -1):
            e, k, p, r = error[i], gain[i], inverse[i], rho[i]
            z = e * p
            d_whole = 0.5 * (z * z - p)
            d_error = pull_mean * k - z
            d_before = d_whole + pull_mean * z * (1 - k) + pull_left * (1 - k) * (1 - k)
            d_variance += d_whole - pull_mean * k * z + pull_left * k * k
            d_mean = pull_mean - d_error
            d_mu[i] -= d_error
            d_spread += (1 - r) * (1 + r) * d_before
            pull_mean, pull_left = r * d_mean, r * r * d_before
            if i > starts[j]:
                own = variance + squared[i - 1] if known else variance
                mean = y[i - 1] - mu[i - 1] - error[i - 1] * (1 - gain[i - 1])
                d_rho = mean * d_mean + 2 * r * (gain[i - 1] * own - spread) * d_before
                d_length += d_rho * r * (clock[i] - clock[i - 1])
        d_v[group[j]] += d_variance
        d_t[group[j]] += d_spread
    logs(whole, inverse)
    return -0.5 * (squares + total(inverse) + n * math.log(2 * math.pi)), 0.0, d_length / (length * length)


def student_density(
    y: Reals, mu: Reals, starts: Wholes, squared: Reals, group: Wholes,
    sigma: Reals, dof: float, tau: Reals, effects: Reals, d_mu: Reals, d_effects: Reals, d_sigma: Reals, d_tau: Reals,
) -> tuple[float, float]:  # fmt: skip
    """Log density of rows sorted by run with Student-t noise, without the prior of run effects, and its derivative by dof.

    Parameters
    ----------
    y, mu, starts, squared, group, sigma, dof, tau, effects, d_mu, d_effects, d_sigma, d_tau
        As in `normal_density`; sigma and tau hold a value for every group, and run effects are tau * effects, or none if empty.
    """
    front = math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - 0.5 * math.log(dof * math.pi)
    d_front = 0.5 * (digamma((dof + 1) / 2) - digamma(dof / 2) - 1 / dof)
    logp, d_dof = y.size * front, y.size * d_front
    explicit = effects.size > 0
    for j in range(starts.size - 1):
        g = group[j]
        shift = tau[g] * effects[j] if explicit else 0.0
        for i in range(starts[j], starts[j + 1]):
            scale = sigma[g] if squared.size == 0 else math.sqrt(sigma[g] * sigma[g] + squared[i])
            z = (y[i] - mu[i] - shift) / scale
            tail = math.log1p(z * z / dof)
            pull = (dof + 1) * z / (dof + z * z)
            logp -= math.log(scale) + 0.5 * (dof + 1) * tail
            d_mu[i] += pull / scale
            d_sigma[g] += (pull * z - 1) * sigma[g] / (scale * scale)
            d_dof += 0.5 * (pull * z / dof - tail)
            if explicit:
                d_effects[j] += pull * tau[g] / scale
                d_tau[g] += pull * effects[j] / scale
    return logp, d_dof
