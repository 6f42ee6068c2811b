"""Commands on laws and tables before any fit: laws, check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.core.errors import BayeslawError, Fault, grouped
from bayeslaw.core.text import counted

if TYPE_CHECKING:
    from bayeslaw.laws.law import Law


def laws(
    name: Annotated[str | None, Argument(help="Show this law: its formula, parameters, priors and source.")] = None,
    schema: Annotated[bool, Option("--schema", help="Print the JSON schema of cards, by which editors complete them.")] = False,
    prior: Annotated[
        bool, Option("--prior", help="Show the outcomes that the law's priors allow, at --runs or at values given by --set.")
    ] = False,
    runs: Annotated[Path | None, Option(help="Runs, at whose settings outcomes are drawn from the prior.")] = None,
    column: options.Columns = None,
    where: options.Where = None,
    set_: options.Ranges = None,
    x: Annotated[str, Option(help="The covariate along the picture's axis.")] = "",
    plot: options.Picture = None,
    shares: options.Shares = None,
) -> Answer:
    """List the laws, one in each line, or show one law in full, or what its priors allow before any loss is seen."""
    answer = Answer()
    if prior:
        if name is None:
            raise BayeslawError("--prior is of one law: bayeslaw laws CARD --prior.", code="no-law")
        if runs is None:
            options.check_used("--runs RUNS.csv", column=column, where=where)
        if plot is None:
            options.check_used("--plot FILE.png", x=x)
        return _prior(answer, bayeslaw.load_law(name, shares=shares), runs, options.columns_of(column), where, set_, x, plot)
    if runs is not None or column or where is not None or set_ or plot is not None or x:
        raise BayeslawError("--runs, --column, --where, --set, --x and --plot belong to --prior.", code="without-prior")
    if name is None:
        options.check_used("a law: bayeslaw laws CARD", shares=shares)
    if schema:
        _print_schema(answer, name)
    elif name is None:
        _list_laws(answer)
    else:
        _show_law(answer, bayeslaw.load_law(name, shares=shares))
    return answer


def _print_schema(answer: Answer, name: str | None) -> None:
    from bayeslaw.laws.schema import FILE, card_schema

    if name is not None:
        raise BayeslawError("All cards have one schema: give --schema without a law.", code="law-with-schema")
    answer.results["schema"] = card_schema()
    answer.verbatim(FILE.read_text(encoding="utf-8").rstrip())


def _list_laws(answer: Answer) -> None:
    width = max(map(len, bayeslaw.law_names()))
    titles = {known: bayeslaw.load_law(known).title for known in bayeslaw.law_names()}
    answer.results["laws"] = [{"name": known, "title": title} for known, title in titles.items()]
    answer.say(*(f"{known:<{width}}  {title}" for known, title in titles.items()))


def _show_law(answer: Answer, law: Law) -> None:
    """Add a law's formula, covariates, parameters, published numbers and source."""
    answer.results["law"] = _described(law)
    answer.say(f"{law.name}: {law.title}", f"source: {law.source}", "", f"{law.outcome.name} = {law.formula.text}")
    answer.say(*(f"  {key} = {expression.text}" for key, expression in law.let.items()))
    if not law.outcome.is_loss:
        answer.say("", "outcome", f"  {law.outcome.name:<10} {law.outcome.described}")
    answer.say("", "covariates")
    for covariate in law.covariates.values():
        low, high = covariate.support
        columns = law.series.get(covariate.series, ())
        if covariate.name not in columns[1:]:  # a series has one line
            outside = f" (not in the {'loss' if law.outcome.is_loss else 'formula'})" if covariate.context else ""
            of = f" (columns {columns[0]} to {columns[-1]})" if columns else outside
            answer.say(f"  {covariate.series or covariate.name:<10} {covariate.unit}, {low:g} to {high:g}{of}")
    answer.say("", "parameters")
    for parameter in law.parameters.values():
        unit = f" ({parameter.unit})" if parameter.unit else ""
        answer.say(f"  {parameter.name:<10} {parameter.meaning}{unit}", f"  {'':<10} prior {parameter.prior}")
        if parameter.by:
            answer.say(f"  {'':<10} {parameter.pooling_text}")
    if law.noise:
        answer.say("", f"noise of fits to runs that are logged often: {law.noise}")
    for title, numbers in law.published.items():
        answer.say("", f"published: {title}", "  " + ", ".join(f"{k} {v:g}" for k, v in numbers.items()))
    if law.note:
        answer.say("", f"note: {law.note}")


def _prior(
    answer: Answer, law: Law, runs: Path | None, columns: dict[str, str], where: str | None, ranges: list[str] | None, x: str,
    plot: Path | None,
) -> Answer:  # fmt: skip
    """Add the outcomes that a law's priors allow at runs or on a grid, and measured ones that lie outside."""
    import numpy as np

    from bayeslaw.laws.pooling import levels_of, with_levels
    from bayeslaw.plots.prior import prior_outcomes

    if (runs is None) == (not ranges):
        raise BayeslawError("Say where: either --runs RUNS.csv or --set N=1e9 --set D=1e9:1e12:30.", code="nothing-asked")
    options.check_outputs("", None, plot, [runs])
    if runs is not None:
        at = bayeslaw.read_runs(runs, where, columns=columns).frame
    else:
        at = bayeslaw.grid(law, options.pairs_of("--set", ranges, "NAME=VALUES, such as N=1e9 or D=1e9:1e12:30"))
    law, name = with_levels(law, levels_of(law, at)), law.outcome.name
    outcomes = prior_outcomes(law, at)
    impossible = float(np.mean(~law.outcome.possible(outcomes)))
    if np.isnan(outcomes).all(axis=0).any():
        problem = f"{law.name} is no number at some of these settings, whatever its parameters"
        raise BayeslawError(f"{problem}: correct its formula, or ask for settings at which it has a value.", code="no-outcome")
    answer.save_picture(plot, lambda ax: bayeslaw.plots.plot_prior(law, at, ax, x=x))
    low, middle, high = np.nanquantile(outcomes, [0.05, 0.5, 0.95])
    answer.results["prior"] = {"median": middle, "eti90_lb": low, "eti90_ub": high, "impossible": impossible}
    answer.say(f"{law.outcome.plural} that the priors of {law.name} allow at {counted(len(at), 'setting')}")
    answer.say(f"  median {middle:.4g}, 90% equal-tailed interval [{low:.4g}, {high:.4g}]")
    if impossible:
        answer.say(f"  {impossible:.2g} of what is drawn is no possible {name} (no number, or out of its bounds)")
    if name in at:
        measured = at[name].to_numpy(dtype=np.float64)
        outside = (measured < np.nanquantile(outcomes, 0.05, axis=0)) | (measured > np.nanquantile(outcomes, 0.95, axis=0))
        answer.results["prior"]["outside"] = outside.mean()
        answer.say(f"  {outside.mean():.0%} of the measured ones lie outside the interval at their setting")
    return answer


def check(
    runs: options.RunsPath,
    law: Annotated[str, Option(help="The law to check the table for; several, of a stack, separated by commas.")],
    column: options.Columns = None,
    where: options.Where = None,
    duplicates: options.Duplicates = "refuse",
    shares: options.Shares = None,
    by: options.Pooled = None,
) -> Answer:
    """List every fault of a table, with row, column, value and a suggestion."""
    from bayeslaw.laws.pooling import levels_of, with_by, with_levels

    pooled = options.pairs_of("--by", by, "PARAMETER=COLUMN, such as E=domain")
    read = partial(bayeslaw.read_runs, runs, where, columns=options.columns_of(column), strict=False, duplicates=duplicates)
    cards, table = options.laws_and_table([law], read, shares)
    answer = Answer()
    cards = [with_by(card, pooled) for card in cards]
    cards = [with_levels(card, levels_of(card, table.frame)) for card in cards]
    answer.read(table)
    faults = _faults(table, cards)
    answer.results["faults"] = [asdict(fault) for fault in faults]
    answer.say(*grouped(faults))
    if faults:
        answer.say(*_with_guesses(table, cards))
        faulty = ", ".join(card.name for card in cards if _faults(table, [card]))
        answer.error = BayeslawError(f"{runs.name} has {counted(len(faults), 'fault')} for {faulty}.", code="faulty-table")
        return answer
    rows = {card.name: _sound(answer, table, card) for card in cards}
    answer.results |= dict(zip(("rows", "base_rows"), rows[cards[0].name], strict=True))
    if len(cards) > 1:
        answer.results["by_law"] = {name: dict(zip(("rows", "base_rows"), counts, strict=True)) for name, counts in rows.items()}
    return answer


def _sound(answer: Answer, table: bayeslaw.Runs, card: Law) -> tuple[int, int]:
    """Say what a fit of a law would do with a table without faults; return how many rows it has, and how many of them base rows."""
    from bayeslaw.data.notes import table_notes
    from bayeslaw.data.observations import Observations
    from bayeslaw.data.validate import base_rows, from_scratch, without_repeats
    from bayeslaw.engine.binning import bins_notes
    from bayeslaw.noise.noise import Noise, resolved

    notes = table_notes(table, card)
    observed = Observations.of(card, table)  # refuses what a fit would, such as rows where the law has no finite value
    if Noise.choose(resolved("auto", card, table), observed).compressible:
        notes += bins_notes(card, observed)
    kept, _ = without_repeats(table, [card])  # the note says which rows were left out
    base = int(base_rows(kept.frame, card).sum())
    what = counted(base, "row" if from_scratch(card) else "base-checkpoint row")
    aside = f"; {what} (D = 0) {'is' if base == 1 else 'are'} kept out of the fit" if base else ""
    answer.say(f"{table.name}: {counted(len(kept), 'row')} {'is' if len(kept) == 1 else 'are'} sound for {card.name}{aside}.")
    answer.say(*(f"note: {note}" for note in notes))
    return len(kept), base


def _with_guesses(table: bayeslaw.Runs, cards: Sequence[Law]) -> list[str]:
    """Say what else is at fault once missing columns are those that are probably meant; nothing where it isn't clear which."""
    from bayeslaw.data.starter import guesses, several_losses, to_guess

    missing = [f.column for f in _faults(table, cards) if f.code == "missing-column"]
    guessed = guesses(table.frame, to_guess(table.frame, missing))
    if not missing or not {*missing} <= guessed.keys() or several_losses(table.frame, missing):
        return []
    again = bayeslaw.read_runs(table.frame, columns=guessed, strict=False)
    faults = _faults(again, cards)
    return ["With them it has these faults:", *(f"  {line}" for line in grouped(faults))] if faults else ["With them it is sound."]


def _faults(table: bayeslaw.Runs, cards: Sequence[Law]) -> list[Fault]:
    """Return what is at fault for one of some laws, each fault once."""
    return list(dict.fromkeys(fault for card in cards for fault in bayeslaw.data.check(table, card)))


def _described(law: Law) -> dict[str, Any]:
    """Return a law as JSON has it: formula, covariates, parameters with meaning, unit and prior, and the published values."""
    covariates = {c.name: {"unit": c.unit, "support": c.support, "at_least": c.at_least} for c in law.covariates.values()}
    parameters = {
        p.name: {"meaning": p.meaning, "unit": p.unit, "prior": str(p.prior), "latex": p.latex}
        | ({"by": p.by, "pooled": p.pooled, "spread": p.spread} if p.by else {})
        for p in law.parameters.values()
    }
    loss = law.outcome.is_loss  # the card has the formula of a loss under this name
    formula = {"loss": law.formula.text} if loss else {"formula": law.formula.text, "outcome": asdict(law.outcome)}
    return {
        "name": law.name, "title": law.title, "source": law.source, **formula,
        "let": {key: expression.text for key, expression in law.let.items()}, "latex": law.latex(), "covariates": covariates,
        "parameters": parameters, "published": law.published, "note": law.note, "noise": law.noise,
        "references": [reference.bibtex for reference in law.references],
    }  # fmt: skip
