"""Scaling laws as PyMC generative models: from a table of logged losses to a forecast with honest intervals."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayeslaw.allocation import Allocation, allocate
    from bayeslaw.anchoring import Anchors, anchors
    from bayeslaw.cards import law_names, load_law
    from bayeslaw.choices import Plan
    from bayeslaw.comparison import Comparison, compare
    from bayeslaw.curves import Curves, read_curves
    from bayeslaw.errors import BayeslawError, CardError, FitError, TableError
    from bayeslaw.executors import executor
    from bayeslaw.fits import Fit, load_fit
    from bayeslaw.fitting import fit
    from bayeslaw.forecasts import Forecast, forecast
    from bayeslaw.grids import grid
    from bayeslaw.laws import Law
    from bayeslaw.loo import Loo, leave_one_run_out
    from bayeslaw.many import Task, fit_many
    from bayeslaw.model import pymc_model
    from bayeslaw.outcomes import Executor, Outcome, values_of
    from bayeslaw.plans import plan
    from bayeslaw.plots import plot_forecast
    from bayeslaw.plots_anchors import plot_anchors
    from bayeslaw.plots_decisions import plot_frontier, plot_plan, plot_savings
    from bayeslaw.plots_dynamics import plot_schedules
    from bayeslaw.plots_fit import (
        plot_comparison,
        plot_coverage,
        plot_pair,
        plot_parameters,
        plot_prior_posterior,
        plot_transforms,
    )
    from bayeslaw.point import PointFit, point_fit
    from bayeslaw.priors import Prior
    from bayeslaw.reporting import Report, report
    from bayeslaw.runs import Runs, read_runs
    from bayeslaw.schedules import Schedule
    from bayeslaw.schedules_text import parse_schedule
    from bayeslaw.scores import score
    from bayeslaw.stacking import Stack, load
    from bayeslaw.tablechecks import check
    from bayeslaw.transfers import Transfer, transfer
    from bayeslaw.updating import Update, update

_HOME = {
    "BayeslawError": "errors", "CardError": "errors", "FitError": "errors", "TableError": "errors",
    "Executor": "outcomes", "Outcome": "outcomes", "values_of": "outcomes", "executor": "executors",
    "Fit": "fits", "fit": "fitting", "load_fit": "fits", "Task": "many", "fit_many": "many",
    "Forecast": "forecasts", "forecast": "forecasts", "grid": "grids",
    "Law": "laws", "law_names": "cards", "load_law": "cards",
    "pymc_model": "model", "plot_forecast": "plots", "PointFit": "point", "point_fit": "point", "Prior": "priors",
    "Runs": "runs", "check": "tablechecks", "read_runs": "runs", "score": "scores",
    "Comparison": "comparison", "compare": "comparison", "Loo": "loo", "leave_one_run_out": "loo", "Stack": "stacking",
    "load": "stacking", "Anchors": "anchoring", "anchors": "anchoring", "plot_anchors": "plots_anchors", "Update": "updating",
    "update": "updating", "Plan": "choices", "plan": "plans", "Allocation": "allocation", "allocate": "allocation",
    "Transfer": "transfers", "transfer": "transfers", "plot_plan": "plots_decisions", "plot_frontier": "plots_decisions",
    "plot_savings": "plots_decisions", "Curves": "curves", "read_curves": "curves",
    "Schedule": "schedules", "parse_schedule": "schedules_text", "plot_schedules": "plots_dynamics",
    "plot_comparison": "plots_fit", "plot_coverage": "plots_fit", "plot_pair": "plots_fit", "plot_parameters": "plots_fit",
    "plot_prior_posterior": "plots_fit", "plot_transforms": "plots_fit", "Report": "reporting", "report": "reporting",
}  # fmt: skip
__all__ = [
    "Allocation", "Anchors", "BayeslawError", "CardError", "Comparison", "Curves", "Executor", "Fit", "FitError",
    "Forecast", "Law", "Loo", "Outcome", "Plan", "PointFit", "Prior", "Report", "Runs", "Schedule", "Stack", "TableError",
    "Task", "Transfer", "Update", "allocate", "anchors", "check", "compare", "executor", "fit", "fit_many", "forecast",
    "grid", "law_names", "leave_one_run_out", "load", "load_fit", "load_law", "parse_schedule", "plan", "plot_anchors",
    "plot_comparison", "plot_coverage", "plot_forecast", "plot_frontier", "plot_pair", "plot_parameters", "plot_plan",
    "plot_prior_posterior", "plot_savings", "plot_schedules", "plot_transforms", "point_fit", "pymc_model", "read_curves",
    "read_runs", "report", "score", "transfer", "update", "values_of",
]  # fmt: skip
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import on first use, so that `import bayeslaw` is quick."""
    if name in _HOME:
        return getattr(import_module(f"bayeslaw.{_HOME[name]}"), name)
    raise AttributeError(f"module 'bayeslaw' has no attribute {name!r}")
