"""The contents of a report as plain values: every number of its page, tables and texts, in the form in which JSON has it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayeslaw.core.errors import BayeslawError, FitError
from bayeslaw.core.html import header, plain_value, table
from bayeslaw.core.intervals import interval_names, quantiles
from bayeslaw.core.toml import parse_toml
from bayeslaw.data.table import IN_MEMORY, Runs
from bayeslaw.evaluation.loo import leave_one_run_out
from bayeslaw.evaluation.scores import MEANINGS, sample_note, score
from bayeslaw.forecasting.stack import Posterior, fits_of, stacking
from bayeslaw.laws.card import law_names, parse_card
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import stated_spreads
from bayeslaw.laws.prior import Prior
from bayeslaw.noise.custom import PointNoise
from bayeslaw.plots.fit import PRIOR_DRAWS
from bayeslaw.posterior.diagnostics import checks_label
from bayeslaw.posterior.fit import Fit
from bayeslaw.posterior.parameters import correlated_pairs, describe_parameter, in_unit_of_losses, parameter_unit

Facts = dict[str, Any]

INTERVAL = "equal-tailed credible interval"
STACK_NOTE = (
    "Weights maximise the log predictive density of the left-out runs under the weighted laws; runs are left out by importance "
    "weights of the draws, without refits."
)


# --- one fit ---------------------------------------------------------------------------------------------------------


def fit_facts(fit: Fit, label: str, file: str | None, stack: str | None, ci_prob: float, shown: bool, learnt: str) -> Facts:
    """Return the contents of the section of one fit.

    Parameters
    ----------
    fit : Fit
    label, file, stack : str
        Its name in the report, the file it came from, and the stack that it is a member of; the last two may be None.
    ci_prob, shown
        The probability of its intervals, and whether they are shown or withheld.
    learnt : str
        What error of its law it has learnt, in words.
    """
    return {
        "label": label, "file": file, "stack": stack, "passed": fit.passed, "failures": fit.failures, "withheld": not shown,
        "sampling": fit.verdicts[0], "model": fit.verdicts[1], "concerns": [str(check) for check in fit.concerns],
        "law": _law(fit), "noise": fit.noise.text, "data": _data(fit), "checks": _checks(fit),
        "parameters": _parameters(fit, ci_prob, shown), "made": _made(fit, file, stack),
        "discrepancy": learnt if shown else "",
        "pairs": table("Parameters with the strongest posterior correlation", correlated_pairs(fit)),
    }  # fmt: skip


def _law(fit: Fit) -> Facts:
    law = fit.law
    definitions = [{"name": n, "text": e.text, "latex": f"{law.symbols[n]} = {e.latex(law.symbols)}"} for n, e in law.let.items()]
    return {
        "name": law.name, "title": law.title, "source": law.source, "note": law.note, "text": law.formula.text,
        "latex": f"{law.symbol} = " + law.formula.latex(law.symbols), "symbol": law.symbol,
        "mathml": law.mathml, "let": definitions, "sha256": law.sha256,
        "published": {title: {k: plain_value(v) for k, v in numbers.items()} for title, numbers in law.published.items()},
    }  # fmt: skip


def _data(fit: Fit) -> Facts:
    seen, law = fit.observed, fit.law
    columns = [(name, in_unit_of_losses(fit, covariate.unit), seen.covariates[name]) for name, covariate in law.axes.items()]
    columns.append((law.outcome.name, seen.unit, seen.outcomes))
    rows = [
        {"covariate": name, "unit": unit, "smallest": values.min(), "largest": values.max(), "values": np.unique(values).size}
        for name, unit, values in columns
    ]
    counts = {"rows": int(seen.response.size), "runs": seen.runs, "base_rows": len(seen.base)}
    return {
        "name": fit.origin, "sources": [asdict(source) for source in fit.sources], **counts, "unit": seen.unit,
        "outcome": law.outcome.name, "outcomes": law.outcome.plural, "with_errors": int((seen.known > 0).sum()),
        "sha256": fit.info["data_sha256"],
        "conversions": [str(c) for c in fit.info["conversions"]],
        "levels": {column: list(values) for column, values in law.levels.items()},
        "varying": [
            {"parameter": name, "column": column, "prior_of_spread": _prior_of_spread(law, name)}
            for name, column in law.column_of.items()
        ],
        "ranges": table(f"Ranges of the {law.outcome.plural} and of the covariates", pd.DataFrame(rows)),
    }  # fmt: skip


def _prior_of_spread(law: Law, name: str) -> str:
    """Return the prior of the spread of a parameter's values, '' where they are not pooled."""
    return str(law.parameters[law.pools[name][1]].prior) if name in law.pools else ""


def _checks(fit: Fit) -> Facts:
    rows = [
        {"check": c.name, "about": c.subject, "verdict": c.verdict, "finding": c.text, "advice": "" if c.passed else c.advice}
        for c in fit.checks
    ]
    # Failed checks come first; the other checks keep the order of the fit.
    order = {"FAILED": 0, "concern": 1, "note": 2, "passed": 3}
    frame = pd.DataFrame(rows).sort_values("verdict", key=lambda v: v.map(order), kind="stable")
    return table("Checks of the fit", frame)


def _parameters(fit: Fit, ci_prob: float, shown: bool) -> Facts:
    summary, before = fit.summary(ci_prob), fit.prior_draws(PRIOR_DRAWS)
    low, high = interval_names("eti", ci_prob)
    rows = []
    for name, row in summary.iterrows():
        own = fit.law.parameters.get(str(name))
        stated = str(own.prior if own else fit.noise.prior(str(name)))
        stated += f" on {name} - {least:g}" if own is None and (least := fit.noise.least(str(name))) else ""
        if own is not None and own.around is not None:
            stated = f"around {own.around[0]}, spread {own.around[1]}"
        middle, *ends = quantiles(before[str(name)], ci_prob)
        meaning, latex = describe_parameter(fit, str(name))
        rows.append(
            {"parameter": name, "unit": parameter_unit(fit, str(name)), "median": row["median"], low: row[low], high: row[high],
             "prior": stated, "prior_median": middle, f"prior_{low}": ends[0], f"prior_{high}": ends[1],
             "prior_overlap": row["prior_overlap"], "r_hat": row["r_hat"], "ess_bulk": row["ess_bulk"], "ess_tail": row["ess_tail"],
             "meaning": meaning, "latex": latex, "checks": row["checks"]}
        )  # fmt: skip
    frame = pd.DataFrame(rows)
    if not shown:
        frame = frame.drop(columns=[low, high])
    hidden = ["latex", "prior_median", "unit", "r_hat", "ess_bulk", "ess_tail", *(["checks"] if fit.passed else [])]
    return table("Parameters of law and noise, posterior beside prior", frame, hidden)


def _made(fit: Fit, file: str | None, stack: str | None) -> Facts:
    """Return settings, versions, and the commands that make the fit again, or what it has that no command states."""
    info, of_python = fit.info, _of_python(fit)
    return {
        "command": commands(fit, file) if stack is None and not of_python else None, "of_python": of_python, "seed": info["seed"],
        "in_memory": any(source.name == IN_MEMORY for source in fit.sources),
        "settings": {k: plain_value(v) for k, v in info["settings"].items()}, "versions": dict(info["versions"]),
        "interrupted": bool(info["interrupted"]), "draws_sha256": info["draws_sha256"],
        "priors": {name: str(prior) for name, prior in changed_priors(fit).items()}, "repeated": _repeated(fit),
    }  # fmt: skip


def _of_python(fit: Fit) -> str:
    """Return the argument of `fit` by which a fit was made that no command can state, '' where there is none."""
    if isinstance(fit.noise, PointNoise):
        return "noise"
    return "priors" if any(prior.on is not None for prior in changed_priors(fit).values()) else ""


def _repeated(fit: Fit) -> Facts | None:
    """Return how a fit was sampled again, and `text`, or None where its first sample was kept; older files have the text alone."""
    for check in fit.checks:
        if check.name == "repeated":
            rows = check.table.to_dict("records")
            return {"text": check.text} | {str(k): plain_value(v) for row in rows for k, v in row.items()}
    return None


def changed_priors(fit: Fit) -> dict[str, Prior]:
    """Return the priors that were stated in place of those of the law's card and of the noise."""
    card = parse_card(fit.info["card"])
    of_law = {name: fit.law.in_formula[name].prior for name in card.parameters if name in fit.law.in_formula}
    changed = {name: prior for name, prior in of_law.items() if prior.table != card.parameters[name].prior.table}
    changed |= stated_spreads(fit.law, card)
    return changed if isinstance(fit.noise, PointNoise) else changed | dict(fit.noise.priors)


def commands(fit: Fit, file: str | None) -> str:
    """Return the command that fits the first table, and one that updates the fit for each further table, a line each.

    Parameters
    ----------
    fit : Fit
    file : str, optional
        The name of its file; by default that of its law.
    """
    info, card = fit.info, parse_card(fit.info["card"])
    settings = dict(info["settings"])
    law, noise = card.name if card.name in law_names() else f"{card.name}.toml", fit.noise.choice(fit.observed)
    last = Path(file or f"{card.name}.nc")
    outputs = [str(last.with_stem(f"{last.stem}-{i}")) for i in range(1, len(fit.sources))] + [str(last)]
    given = []
    for source in fit.sources:
        rows = [word for ours, text in source.columns.items() for word in ("--column", f"{ours}={text}")]
        rows += ["--where", source.where] if source.where else []
        given.append(rows + (["--duplicates", source.duplicates] if source.duplicates != "refuse" else []))
    tables = ["TABLE.csv" if source.name == IN_MEMORY else source.name for source in fit.sources]
    words = ["bayeslaw", "fit", law, tables[0], "-o", outputs[0], *_mixture(card), "--noise", noise]
    words += ["--noise-by", info["noise_by"]] if info["noise_by"] else []
    words += [w for name, column in info["by"].items() for w in ("--by", f"{name}={column}")]
    for name, prior in changed_priors(fit).items():
        words += ["--prior", f"{name}={prior.dist}({', '.join(map(repr, prior.args.values()))})"]
    for key in ("draws", "tune", "chains", "target_accept", "bins"):
        words += [f"--{key.replace('_', '-')}", str(settings[key])] if settings[key] is not None else []
    words += ["--discrepancy", "none"] if info.get("discrepancy", {}).get("asked") == "none" else []
    lines = [[*words, *given[0], "--seed", str(fit.sources[0].seed)]]
    for i, source in enumerate(fit.sources[1:], 1):
        lines.append(["bayeslaw", "update", outputs[i - 1], tables[i], "-o", outputs[i], *given[i], "--seed", str(source.seed)])
    return "\n".join(map(shlex.join, lines))


def _mixture(card: Law) -> list[str]:
    """Return the options that choose the shares of a law of a mixture, and their reference where it has one."""
    if not card.shares:
        return []
    reference = parse_toml(card.card, card.name)["mixture"].get("reference")
    return ["--shares", ",".join(card.shares), *(["--reference", reference] if reference else [])]


# --- scores ----------------------------------------------------------------------------------------------------------


def score_facts(posteriors: Mapping[str, Posterior], held: Runs, **options: Any) -> Facts:
    """Return the scores of every posterior on measured losses; fits with failed checks are named and not scored unless forced."""
    rows, notes = [], []
    for label, posterior in posteriors.items():
        try:
            rows.append(score(posterior, held, **options).assign(law=label))
        except FitError as error:
            notes.append(f"{label}: not scored. {error}")
        else:
            notes += [f"{label}: {note}" for note in [sample_note(rows[-1], held.name)] if note]
    frame = pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()
    counts = map(str, sorted({*frame["rows"]})) if rows else []
    scored = outcomes_of([fit for posterior in posteriors.values() for fit in fits_of(posterior).values()])
    caption = f"Scores on the {' or '.join(counts)} {scored} of {held.name}"
    if rows and (frame["sample"] != "held-out").any():
        caption += ", IN-SAMPLE"
    return {"notes": notes, "table": scores_table(caption, frame) if rows else None}


def scores_table(caption: str, scores: pd.DataFrame) -> Facts:
    """Return scores with a row for each score, a column for each fit and its meaning: there are more scores than fits."""
    head = [c for c in ("held_out", "law", "noise", "fit") if c in scores and scores[c].fillna("").unique().size > 1] or ["law"]
    names = [" ".join(dict.fromkeys(v for v in row if isinstance(v, str))) for row in scores[head].itertuples(index=False)]
    taken = [*names, "score", "meaning"]  # the other columns
    unique = [n if taken.count(n) == 1 else f"{n} ({i})" for i, n in enumerate(names, 1)]
    turned = scores.drop(columns=head).T.set_axis(unique, axis=1)
    turned = turned.rename_axis("score").reset_index()
    turned["meaning"] = [MEANINGS.get(name, header(name)) for name in turned["score"]]
    return table(caption, turned)


# --- comparison ------------------------------------------------------------------------------------------------------


def outcomes_of(fits: Iterable[Fit]) -> str:
    """Return what fits are to, in the plural: losses, accuracies, or where they differ outcomes."""
    names = {fit.law.outcome.plural for fit in fits}
    return names.pop() if len(names) == 1 else "outcomes"


def _same_outcomes(fits: Mapping[str, Fit]) -> bool:
    """Return whether all fits are of the same losses, or other outcomes, of the same runs."""

    def key(fit: Fit) -> list[tuple[str, float]]:
        names = [fit.observed.run_names[i] for i in fit.observed.run]
        return sorted(zip(names, fit.observed.response.tolist(), strict=True))

    first, *others = [key(fit) for fit in fits.values()]
    return len({fit.law.outcome.name for fit in fits.values()}) == 1 and all(
        [name for name, _ in first] == [name for name, _ in other]
        and np.allclose([value for _, value in first], [value for _, value in other], rtol=1e-9, atol=1e-9)
        for other in others
    )


def left_out(fits: Mapping[str, Fit], force: bool) -> tuple[pd.DataFrame, list[str]]:
    """Compare fits of the same outcomes by leaving out one run after the other, with importance weights instead of refits.

    The table has for each label runs, elpd, se, elpd_diff, dse, weight, p_loo, k_max, runs_unsure and checks; it is empty where
    nothing can be compared. The texts are reasons why fits are not compared, and cautions.
    """
    if len(fits) < 2:
        return pd.DataFrame(), []
    if not _same_outcomes(fits):
        different = f"The fits are of different {outcomes_of(fits.values())}, so the densities of left-out runs can't be compared."
        return pd.DataFrame(), [different]
    first = dict[str, str]()
    copies = {label: of for label, fit in fits.items() if (of := first.setdefault(fit.info["draws_sha256"], label)) != label}
    notes = [
        f"{label} is the same fit as {of} and compared once: two copies would share one weight." for label, of in copies.items()
    ]
    fits = {label: fit for label, fit in fits.items() if label not in copies}
    if len(fits) < 2:
        return pd.DataFrame(), notes
    usable = {label: fit for label, fit in fits.items() if fit.passed or force}
    notes += [f"{label} is not compared: sampling {fits[label].verdicts[0]}" for label in fits if label not in usable]
    if len(usable) < 2:
        return pd.DataFrame(), [*notes, "Sampling passed for fewer than two fits: there is nothing to compare."]
    loos = {label: leave_one_run_out(fit) for label, fit in usable.items()}
    try:
        weights = stacking(pd.DataFrame({label: loo.table["elpd"] for label, loo in loos.items()}))
    except BayeslawError as error:
        return pd.DataFrame(), [*notes, str(error)]
    more = {}
    for label, loo in loos.items():
        more[label] = {"p_loo": loo.p, "k_max": float(loo.table["pareto_k"].max()), "runs_unsure": len(loo.unreliable)}
        if loo.unreliable:
            notes.append(
                f"{label}: {len(loo.unreliable)} of {len(loo.table)} runs can't be left out by weights (Pareto k above "
                f"{loo.good_k:.2f}); its density is uncertain. `compare --loo` (loo=True) fits again without them."
            )
    runs = len(next(iter(loos.values())).table)
    marks = pd.Series({label: checks_label(not fit.passed) for label, fit in usable.items()}, name="checks")
    return weights.join(pd.DataFrame(more).T).join(marks).assign(runs=runs).rename_axis("fit"), [*notes, STACK_NOTE]
