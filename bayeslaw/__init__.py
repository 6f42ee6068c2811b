"""Scaling laws as PyMC generative models: from a table of logged losses to a forecast with honest intervals."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayeslaw.allocation import Allocation, allocate
    from bayeslaw.anchoring import Anchors, anchors
    from bayeslaw.balancing import Balance, balance
    from bayeslaw.cards import law_names, load_law
    from bayeslaw.choices import Plan
    from bayeslaw.comparison import Comparison, compare
    from bayeslaw.costs import stage_flops
    from bayeslaw.curves import Curves, read_curves
    from bayeslaw.datasets import fetch_dataset
    from bayeslaw.errors import BayeslawError, CardError, FitError, TableError
    from bayeslaw.executors import executor
    from bayeslaw.fits import Fit, load_fit
    from bayeslaw.fitting import fit
    from bayeslaw.forecasts import Forecast, forecast
    from bayeslaw.grids import grid
    from bayeslaw.imports import Imported, import_runs
    from bayeslaw.laws import Law
    from bayeslaw.loo import Loo, leave_one_run_out
    from bayeslaw.many import Task, fit_many
    from bayeslaw.mixtures import combine, combined
    from bayeslaw.model import pymc_model
    from bayeslaw.outcomes import Executor, Outcome, values_of
    from bayeslaw.phases import OPEN, Point
    from bayeslaw.plans import plan
    from bayeslaw.plots import plot_forecast
    from bayeslaw.plots_anchors import plot_anchors
    from bayeslaw.plots_decisions import plot_frontier, plot_plan, plot_savings
    from bayeslaw.plots_dynamics import plot_schedules
    from bayeslaw.plots_fit import plot_comparison, plot_coverage, plot_pair, plot_parameters, plot_prior_posterior, plot_transforms
    from bayeslaw.plots_training import plot_optimum, plot_surface, plot_transfer, plot_turning, plot_watch
    from bayeslaw.point import PointFit, point_fit
    from bayeslaw.priors import Prior
    from bayeslaw.recipes import Recipe
    from bayeslaw.reporting import Report, report
    from bayeslaw.runs import Runs, read_runs
    from bayeslaw.schedules import Schedule
    from bayeslaw.schedules_text import parse_schedule
    from bayeslaw.scores import score
    from bayeslaw.stacking import Stack, load
    from bayeslaw.tablechecks import check
    from bayeslaw.transfers import Transfer, transfer
    from bayeslaw.turning_points import Turning, turning
    from bayeslaw.units import converted
    from bayeslaw.updating import Update, update
    from bayeslaw.watching import Watch, watch

_HOME = {
    "Allocation": "allocation", "allocate": "allocation", "Anchors": "anchoring", "anchors": "anchoring",
    "Balance": "balancing", "balance": "balancing", "law_names": "cards", "load_law": "cards", "Plan": "choices",
    "Comparison": "comparison", "compare": "comparison", "stage_flops": "costs", "Curves": "curves",
    "read_curves": "curves", "fetch_dataset": "datasets", "BayeslawError": "errors", "CardError": "errors",
    "FitError": "errors", "TableError": "errors", "executor": "executors", "Fit": "fits", "load_fit": "fits",
    "fit": "fitting", "Forecast": "forecasts", "forecast": "forecasts", "grid": "grids", "Imported": "imports",
    "import_runs": "imports", "Law": "laws", "Loo": "loo", "leave_one_run_out": "loo", "Task": "many", "fit_many": "many",
    "combine": "mixtures", "combined": "mixtures", "pymc_model": "model", "Executor": "outcomes", "Outcome": "outcomes",
    "values_of": "outcomes", "OPEN": "phases", "Point": "phases", "plan": "plans", "plot_forecast": "plots",
    "plot_anchors": "plots_anchors", "plot_frontier": "plots_decisions", "plot_plan": "plots_decisions",
    "plot_savings": "plots_decisions", "plot_schedules": "plots_dynamics", "plot_comparison": "plots_fit",
    "plot_coverage": "plots_fit", "plot_pair": "plots_fit", "plot_parameters": "plots_fit",
    "plot_prior_posterior": "plots_fit", "plot_transforms": "plots_fit", "plot_optimum": "plots_training",
    "plot_surface": "plots_training", "plot_transfer": "plots_training", "plot_turning": "plots_training",
    "plot_watch": "plots_training", "PointFit": "point", "point_fit": "point", "Prior": "priors", "Recipe": "recipes",
    "Report": "reporting", "report": "reporting", "Runs": "runs", "read_runs": "runs", "Schedule": "schedules",
    "parse_schedule": "schedules_text", "score": "scores", "Stack": "stacking", "load": "stacking", "check": "tablechecks",
    "Transfer": "transfers", "transfer": "transfers", "Turning": "turning_points", "turning": "turning_points",
    "converted": "units", "Update": "updating", "update": "updating", "Watch": "watching", "watch": "watching",
}  # fmt: skip
__all__ = [
    "OPEN", "Allocation", "Anchors", "Balance", "BayeslawError", "CardError", "Comparison", "Curves", "Executor", "Fit",
    "FitError", "Forecast", "Imported", "Law", "Loo", "Outcome", "Plan", "Point", "PointFit", "Prior", "Recipe", "Report",
    "Runs", "Schedule", "Stack", "TableError", "Task", "Transfer", "Turning", "Update", "Watch", "allocate", "anchors",
    "balance", "check", "combine", "combined", "compare", "converted", "executor", "fetch_dataset", "fit", "fit_many",
    "forecast", "grid", "import_runs", "law_names", "leave_one_run_out", "load", "load_fit", "load_law", "parse_schedule",
    "plan", "plot_anchors", "plot_comparison", "plot_coverage", "plot_forecast", "plot_frontier", "plot_optimum",
    "plot_pair", "plot_parameters", "plot_plan", "plot_prior_posterior", "plot_savings", "plot_schedules", "plot_surface",
    "plot_transfer", "plot_transforms", "plot_turning", "plot_watch", "point_fit", "pymc_model", "read_curves", "read_runs",
    "report", "score", "stage_flops", "transfer", "turning", "update", "values_of", "watch",
]  # fmt: skip
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import on first use, so that `import bayeslaw` is quick."""
    if name in _HOME:
        return getattr(import_module(f"bayeslaw.{_HOME[name]}"), name)
    raise AttributeError(f"module 'bayeslaw' has no attribute {name!r}")
