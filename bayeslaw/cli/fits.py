"""Commands that make and show fits: fit, show, update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.core.errors import BayeslawError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayeslaw.forecasting.stack import Stack
    from bayeslaw.posterior.fit import Fit


LONG, FIRST = 12, 5  # values by a column of which only the first are shown, and how many those are


def fit(
    law: Annotated[
        str,
        Argument(
            help="A law that comes with bayeslaw (see `bayeslaw laws`), or the path of a card. Several, separated by commas, make "
            "a stack of their fits with equal weights."
        ),
    ],
    runs: options.RunsPath,
    output: options.NewFit,
    column: options.Columns = None,
    where: options.Where = None,
    duplicates: options.Duplicates = "refuse",
    shares: options.Shares = None,
    reference: options.Reference = None,
    prior: options.Priors = None,
    noise: options.NoiseName = "auto",
    noise_by: options.NoiseBy = None,
    by: options.Pooled = None,
    draws: options.Draws = 1000,
    tune: options.Tune = 500,
    chains: options.Chains = 4,
    target_accept: options.TargetAccept = None,
    seed: options.Seed = 0,
    bins: options.Bins = None,
    discrepancy: options.Learning = "learned",
    quiet: options.Quiet = False,
) -> Answer:
    """Fit a law, or a stack of several, to logged losses by NUTS and write the posterior to one NetCDF file."""
    options.check_outputs("A fit", output, ending=".nc")
    priors = options.pairs_of("--prior", prior, "NAME=LogNormal(0.5,0.2)")
    pooled = options.pairs_of("--by", by, "PARAMETER=COLUMN, such as E=domain")
    read = partial(bayeslaw.read_runs, runs, where, columns=options.columns_of(column), duplicates=duplicates)
    laws, table = options.laws_and_table([law], read, shares, reference)
    settings: dict[str, Any] = {"priors": priors, "draws": draws, "tune": tune, "chains": chains, "seed": seed, "bins": bins}
    settings |= {"noise": noise, "noise_by": noise_by, "by": pooled, "discrepancy": discrepancy, "target_accept": target_accept}
    fitted: Fit | Stack
    if len(laws) == 1:
        fitted = bayeslaw.fit(laws[0], table, progress=not quiet, **settings)
    else:
        fitted = bayeslaw.fit_stack(laws, table, progress=not quiet, **settings)
    options.save_draws(fitted, output)
    answer = Answer()
    answer.read(table)
    _add_fits(answer, fitted)
    answer.say(f"written to {output}")
    return answer


def _add_fits(answer: Answer, fitted: Fit | Stack) -> None:
    """Add to an answer what was fitted, the result of each check, and the verdicts."""
    from bayeslaw.forecasting.stack import errors_in_words, fits_of

    fits = fits_of(fitted)
    for member in fits.values():
        _add_fit(answer, member)
    learnt = errors_in_words(fitted)
    _add_learnt(answer, {name: learnt[name] for name, member in fits.items() if member.passed})
    if isinstance(fitted, bayeslaw.Stack):
        answer.results |= {"laws": list(fitted.members), "weights": dict(fitted.weights)}
    else:
        answer.results |= {"law": fitted.name, "rows": int(fitted.observed.response.size), "runs": int(fitted.observed.runs)}
    answer.judge(fitted.checks)


def _add_fit(answer: Answer, fit: Fit) -> None:
    """Say what was fitted, and the result of each check."""
    from bayeslaw.core.text import counted
    from bayeslaw.core.units import NATS
    from bayeslaw.data.validate import from_scratch

    rows, runs, base = int(fit.observed.response.size), int(fit.observed.runs), len(fit.observed.base)
    aside = f", {counted(base, 'row' if from_scratch(fit.law) else 'base-checkpoint row')} (D = 0) kept out" if base else ""
    answer.say(f"{fit.law.name} fitted to {counted(rows, 'row')} of {counted(runs, 'run')}{aside}; {fit.noise.text}.")
    if fit.law.outcome.is_loss and fit.observed.unit != NATS:
        answer.say(f"  losses and forecasts are in {fit.observed.unit}; the cards' priors are stated for {NATS}")
    answer.say(*(f"  {check}" for check in fit.checks))


def _add_learnt(answer: Answer, learnt: Mapping[str, str]) -> None:
    """Say what error of each law was learnt, or why none was; of several fits with their names, and what is the same once."""
    from bayeslaw.core.text import once

    answer.say(*once(f"{name}: {text}" if len(learnt) > 1 else text for name, text in learnt.items() if text))


def show(
    fit: options.FitPath,
    ci: options.Ci = 0.9,
    latex: Annotated[bool, Option("--latex", help="Print a LaTeX table.")] = False,
    csv: options.Csv = False,
    sensitivity: Annotated[bool, Option("--sensitivity", help="Show how strongly the posterior depends on the priors.")] = False,
    plot: options.Picture = None,
    width: options.PictureWidth = None,
    everything: Annotated[bool, Option("--all", help="Show every value of parameters that differ by a column.")] = False,
    force: options.Force = False,
) -> Answer:
    """Show parameters with credible intervals, the checks, and which parameters the data did not inform."""
    from bayeslaw.core.intervals import interval_names
    from bayeslaw.core.text import plain, with_intervals
    from bayeslaw.forecasting.stack import errors_in_words
    from bayeslaw.reporting.latex import parameters_latex

    options.check_outputs("A picture", None, plot, width=width)
    if csv and (latex or sensitivity):
        raise BayeslawError("--csv, --latex and --sensitivity show different tables: give one of them.", code="two-tables")
    loaded, answer = bayeslaw.load_fit(fit), Answer()
    if isinstance(loaded, bayeslaw.Stack) and (latex or sensitivity):
        raise BayeslawError(f"{fit.name} is a stack of fits; --latex and --sensitivity need a single fit.", code="stack-given")
    table = loaded.summary(ci)
    withheld = not loaded.passed and not force
    if (csv or latex or plot) and withheld:
        raise BayeslawError(
            f"Sampling failed ({loaded.failures}): the intervals can't be trusted. {loaded.remedy}; or --force them and have every "
            "row marked.",
            code="failed-checks",
        )
    if plot is not None:
        answer.save_picture(plot, *_panels(loaded, ci), height=None if width else 4.0, width=width)
    if csv:
        answer.csv = table.to_csv()
        return answer
    if latex and not isinstance(loaded, bayeslaw.Stack):
        answer.verbatim(parameters_latex(loaded, ci))
        return answer
    _add_origin(answer, loaded, fit.name)
    shown = table.drop(columns=list(interval_names("eti", ci))) if withheld else table
    hidden = [] if everything or isinstance(loaded, bayeslaw.Stack) else _hidden(loaded)
    answer.show("parameters", shown, plain(with_intervals(shown.drop(index=hidden))))
    if hidden:
        answer.say(f"and {len(hidden)} more values by {' and '.join(loaded.levels)}, which --all shows")
    answer.say("", *map(str, loaded.checks))
    if not withheld:
        _add_learnt(answer, errors_in_words(loaded, ci))
    if sensitivity and not isinstance(loaded, bayeslaw.Stack):
        _add_sensitivity(answer, loaded, hidden)
    answer.judge(loaded.checks)
    if withheld:
        answer.say("Intervals are not shown without --force.")
    return answer


def _add_origin(answer: Answer, fitted: Fit | Stack, file: str) -> None:
    """Say of what rows a fit or stack is, and of a single fit by which command it was made."""
    from bayeslaw.core.text import counted
    from bayeslaw.reporting.facts import commands

    if isinstance(fitted, bayeslaw.Stack):
        origins = dict.fromkeys(member.origin for member in fitted.members.values())
        answer.say(fitted.name, f"fitted to {'; '.join(origins)}", "")
        answer.show("fits", fitted.table)
        answer.say("")
        return
    size = f"{counted(fitted.observed.response.size, 'row')} of {counted(fitted.observed.runs, 'run')}"
    answer.say(f"{fitted.name}: {fitted.law.title}", f"fitted to {fitted.origin}, {size}; {fitted.noise.text}")
    command = commands(fitted, file)
    answer.verbatim(f"made by {command}\n")
    answer.results |= {"sources": list(fitted.sources), "command": command}


def _add_sensitivity(answer: Answer, fit: Fit, hidden: Sequence[str]) -> None:
    """Add how strongly the posterior of each parameter depends on priors and likelihood; `hidden` ones are not printed."""
    from bayeslaw.core.text import plain
    from bayeslaw.posterior.sensitivity import SENSITIVE

    table = fit.sensitivity()
    shown = table.drop(index=list(hidden)).rename(columns=lambda name: name.removesuffix("_sensitivity"))
    answer.say("", f"sensitivity to a doubling of the weight of priors (law, noise) or likelihood, of note from {SENSITIVE} on", "")
    answer.show("sensitivity", table, plain(shown))
    answer.say("")


def _hidden(fit: Fit) -> list[str]:
    """Return the values of parameters that differ by a column of many values, but for the first few."""
    return [name for members in fit.law.members.values() if len(members) > LONG for name in members[FIRST:]]


def _panels(loaded: Fit | Stack, ci: float) -> list[Callable[[Axes], object]]:
    """Return panels of a picture of every fit: parameters, posterior predictive intervals, and LOO-PIT."""
    from bayeslaw.evaluation.predictive import predictive_check
    from bayeslaw.forecasting.stack import fits_of

    panels: list[Callable[[Axes], object]] = []
    for member in fits_of(loaded).values():
        check = predictive_check(member)
        panels += [
            partial(bayeslaw.plots.plot_parameters, member, ci_prob=ci),
            partial(bayeslaw.plots.plot_predictive, check),
            partial(bayeslaw.plots.plot_loo_pit, check),
        ]
    return panels


def update(
    fit: Annotated[Path, Argument(help="A fit or stack, written by `bayeslaw fit`, `compare` or `update`.")],
    runs: Annotated[Path, Argument(help="Losses of the new runs, in a table like that of the fit.")],
    output: options.NewFit,
    column: options.Columns = None,
    where: options.Where = None,
    duplicates: options.Duplicates = "refuse",
    targets: Annotated[Path | None, Option(help="Settings whose intervals are shown before and after the update.")] = None,
    seed: Annotated[int | None, Option(help="The seed of the draws; by default that of each fit.")] = None,
    csv: options.Csv = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> Answer:
    """Fit again with the losses of new runs, and say whether the fit had predicted them. A stack keeps its weights."""
    from bayeslaw.core.text import plain, with_intervals

    options.check_outputs("A fit", output, inputs=[fit], ending=".nc")
    of_runs, of_targets = options.columns_of_each(column, runs, targets)
    new = bayeslaw.read_runs(runs, where, columns=of_runs, duplicates=duplicates)
    settings = None if targets is None else bayeslaw.read_runs(targets, columns=of_targets)
    updated = bayeslaw.update(bayeslaw.load_fit(fit), new, targets=settings, seed=seed, force=force, progress=not quiet)
    options.save_draws(updated.fit, output)
    answer, predictions = Answer(), updated.predictions
    answer.read(new)
    if csv:
        answer.csv = predictions.to_csv(index=False)
    else:
        short = predictions.drop(columns=["compared", "continues", "predicted_median", "inside_eti90"])
        answer.show("predictions", predictions, plain(with_intervals(short)))
        answer.say("errors are of the new runs: above 0 where they lie above the prediction's median", "")
    answer.say(updated.text, "")
    if updated.widths is not None:
        answer.show("widths", updated.widths, joined=True)
        answer.say("")
    _add_fits(answer, updated.fit)
    answer.say(f"written to {output}")
    return answer
