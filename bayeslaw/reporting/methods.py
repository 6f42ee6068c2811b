"""A paragraph on each fit for the methods section of a paper, with its numbers filled in, as plain text and as LaTeX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayeslaw.core.text import compact, counted, listed
from bayeslaw.data.query import asks_for_last
from bayeslaw.laws.formula import latex_text

MOST_RANGES = 4  # number of covariates whose ranges are in the text; the table has all


def methods(facts: Mapping[str, Any], interval: str, forecasts: bool) -> dict[str, str]:
    """Return the paragraph of one fit, under the keys text and latex.

    Parameters
    ----------
    facts, interval, forecasts
        The result of `fit_facts`, the name of its intervals, and whether the report has forecasts.
    """
    law = facts["law"]
    formula = f"${law['latex']}$" + "".join(f", ${part['latex']}$" for part in law["let"])
    words = law["text"] + "".join(f", {part['name']} = {part['text']}" for part in law["let"])
    before, after = _sentences(facts, interval, forecasts)
    name = "L" if facts["data"]["outcome"] == "loss" else facts["data"]["outcome"]
    text = f"{before[0]}, {name} = {words}, {before[1]} {after}"
    latex = f"{latex_text(before[0])}, {formula}, {latex_text(before[1])} {latex_text(after)}"
    return {"text": text, "latex": latex}


def _sentences(facts: Mapping[str, Any], interval: str, forecasts: bool) -> tuple[tuple[str, str], str]:
    """Return the two parts of the first sentence, before and after the formula, and the sentences that follow."""
    law, fitting, data = facts["law"], facts["made"], facts["data"]
    ranges = [dict(zip(data["ranges"]["columns"], row, strict=True)) for row in data["ranges"]["rows"]]
    spans = [f"{r['covariate']} from {compact(r['smallest'])} to {compact(r['largest'])}" for r in ranges[:MOST_RANGES]]
    base_rows = counted(data["base_rows"], data["outcome"])
    base = f"; {base_rows} at D = 0 {'was' if data['base_rows'] == 1 else 'were'} kept out" if data["base_rows"] else ""
    head = f"We fitted the law {law['name']} ({law['source']})"
    errors = f" and the stated standard errors of {data['with_errors']} {data['outcomes']}" if data["with_errors"] else ""
    fitted = f"{data['rows']} {data['outcomes']} of {counted(data['runs'], 'run')}"
    rows = f"to {fitted} ({', '.join(spans)}{base}), with {facts['noise']}{errors}."
    after = [_left_out(data), *_varying(data), _priors(fitting), _sampled(fitting), _diagnosed(facts)]
    after.append(_reported(facts, interval, forecasts))
    return (head, rows), " ".join(filter(None, after))


def _varying(data: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the parameters that differ by a column in the same way, which the formula does not show."""
    alike: dict[tuple[str, str], list[str]] = {}
    for row in data["varying"]:
        alike.setdefault((row["column"], row["prior_of_spread"]), []).append(row["parameter"])
    sentences = []
    for (column, prior), names in alike.items():
        values = f"a value for each of the {len(data['levels'][column])} values of {column}"
        how = "each with the parameter's prior"
        if prior:
            how = f"which are pooled around a typical value (the spread around it has the prior {prior})"
        subject = f"Parameter {names[0]} has" if len(names) == 1 else f"Parameters {listed(names, len(names))} have"
        sentences.append(f"{subject} {values}, {how}.")
    return sentences


def _priors(fitting: Mapping[str, Any]) -> str:
    """Return a sentence on the priors that the user stated; '' for none."""
    stated = listed([f"{prior} for {name}" for name, prior in fitting["priors"].items()], len(fitting["priors"]))
    return f"In place of the priors that come with the law and its noise, we used {stated}." if stated else ""


def _sampled(fitting: Mapping[str, Any]) -> str:
    """Return sentences on how the draws were made: those that were kept, if the first ones failed their checks."""
    settings, versions, again = fitting["settings"], fitting["versions"], fitting["repeated"]
    tune, rate = settings["tune"], settings["target_accept"]
    further = f", target acceptance rate {rate:g}" if rate is not None and not again else ""
    sentences = [
        f"The posterior was sampled by the No-U-Turn sampler of nutpie {versions.get('nutpie', '')} through bayeslaw "
        f"{versions.get('bayeslaw', '')} ({counted(settings['chains'], 'chain')} of {settings['draws']} draws after "
        f"{(again or {}).get('tune', tune)} tuning draws each, seed {fitting['seed']}{further})."
    ]
    if again and "tune" in again:
        checks = f"failed the check{'s' if ',' in again['failed'] else ''} {again['failed']}"
        first = f"the first had {tune} tuning draws and {checks}"
        if again["sample"] != "second":
            first = f"the first had {tune} tuning draws, and the one before {checks}"
        sentences.append(f"This is the {again['sample']} sample: {first}.")
        rates = [again["target_accept"], again["target_accept_before"]]
        if None not in rates and rates[0] != rates[1]:
            sentences.append(f"The target acceptance rate was {rates[0]:.5g} in place of {rates[1]:.5g}.")
        if again["thin"] > 1:
            sentences.append(f"One draw in {again['thin']} was kept.")
    elif again:  # in files of earlier versions
        sentences.append(f"It was {again['text']}.")
    if fitting["interrupted"]:
        sentences.append("Sampling was interrupted before its end.")
    return " ".join(sentences)


def _left_out(data: Mapping[str, Any]) -> str:
    """Return a sentence on the rows of the tables that were not fitted, which a reader can't see in the others; '' for none."""
    total = sum(source["rows"] for source in data["sources"])
    left = total - data["rows"] - data["base_rows"]
    if left <= 0:
        return ""
    meant = "; last is the last row of each run" if any(asks_for_last(source["where"]) for source in data["sources"]) else ""
    return f"They are from {data['name']}{meant}; {left} of {total:,} rows {'was' if left == 1 else 'were'} left out."


def _diagnosed(facts: Mapping[str, Any]) -> str:
    """Return sentences on the diagnostics and the verdicts."""
    table = facts["parameters"]
    columns = {name: [row[i] for row in table["rows"]] for i, name in enumerate(table["columns"])}
    worst = [v for v in columns["r_hat"] if v is not None]
    sizes = [[v for v in columns[c] if v is not None] for c in ("ess_bulk", "ess_tail")]
    verdict = f"Sampling FAILED ({facts['failures']}): intervals of this fit are not to be trusted."
    if facts["passed"]:
        checks = [dict(zip(facts["checks"]["columns"], row, strict=True)) for row in facts["checks"]["rows"]]
        # Their findings alone: what to do about them is for the user, not for the readers of a paper.
        concerns = "; ".join(check["finding"].rstrip(".") for check in checks if check["verdict"] == "concern")
        model = f"Concerns about the model: {concerns}." if concerns else "Checks of the model raised no concerns."
        verdict = f"All checks of the sampling passed. {model}"
    if not worst or not all(sizes):
        return verdict
    return (
        f"The largest R-hat was {max(worst):.3f}, the smallest effective sample sizes {min(sizes[0]):.0f} in bulk and "
        f"{min(sizes[1]):.0f} in the tails. {verdict}"
    )


def _reported(facts: Mapping[str, Any], interval: str, forecasts: bool) -> str:
    sentences = [] if facts["withheld"] else [f"Values are posterior medians with {interval}s."]
    if forecasts and not facts["withheld"]:
        name = facts["data"]["outcome"]
        sentences.append(
            f"Forecast intervals named latent are for the law's expected {name}, those named run for the {name} of a new run, and "
            f"those named extrapolated, which are reported outside the runs, for that {name} with the error of the law."
        )
        if facts["discrepancy"]:
            sentences.append(facts["discrepancy"])
    return " ".join(sentences)
