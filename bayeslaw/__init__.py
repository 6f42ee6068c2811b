"""Scaling laws as PyMC generative models: from a table of logged losses to a forecast with honest intervals."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayeslaw.core.errors import BayeslawError, CardError, FitError, TableError
    from bayeslaw.core.executors import Executor, Outcome, executor, values_of
    from bayeslaw.core.flops import stage_flops
    from bayeslaw.core.units import converted
    from bayeslaw.data.curves import Curves, read_curves
    from bayeslaw.data.datasets import fetch_dataset
    from bayeslaw.data.logs.api import Imported, import_runs
    from bayeslaw.data.schedule_text import parse_schedule
    from bayeslaw.data.table import Runs, read_runs
    from bayeslaw.data.validate import check
    from bayeslaw.design.anchors import Anchors, anchors
    from bayeslaw.design.update import Update, update
    from bayeslaw.dynamics.mixtures import combine, combined
    from bayeslaw.dynamics.monitor import Watch, watch
    from bayeslaw.dynamics.optimise import Balance, balance
    from bayeslaw.dynamics.recipe import Recipe
    from bayeslaw.dynamics.turning_points import Turning, turning
    from bayeslaw.evaluation.compare import Comparison, compare
    from bayeslaw.evaluation.loo import Loo, leave_one_run_out
    from bayeslaw.evaluation.scores import score
    from bayeslaw.forecasting.forecast import Forecast, forecast
    from bayeslaw.forecasting.grid import grid
    from bayeslaw.forecasting.stack import Stack, load
    from bayeslaw.inference.batch import Task, fit_many
    from bayeslaw.inference.fit import fit
    from bayeslaw.inference.model import pymc_model
    from bayeslaw.inference.point import PointFit, point_fit
    from bayeslaw.laws.card import law_names, load_law
    from bayeslaw.laws.law import Law
    from bayeslaw.laws.prior import Prior
    from bayeslaw.planning.allocation import Allocation, allocate
    from bayeslaw.planning.plan import Plan, plan
    from bayeslaw.planning.transfer import Transfer, transfer
    from bayeslaw.plots.decisions import plot_frontier, plot_plan, plot_savings
    from bayeslaw.plots.design import plot_anchors
    from bayeslaw.plots.fit import plot_comparison, plot_coverage, plot_pair, plot_parameters, plot_prior_posterior, plot_transforms
    from bayeslaw.plots.forecast import plot_forecast
    from bayeslaw.plots.schedules import plot_schedules
    from bayeslaw.plots.training import plot_optimum, plot_surface, plot_transfer, plot_turning, plot_watch
    from bayeslaw.posterior.fit import Fit, load_fit
    from bayeslaw.reporting.report import Report, report
    from bayeslaw.schedules.areas import OPEN, Point
    from bayeslaw.schedules.schedule import Schedule

_HOME = {
    "Allocation": "planning.allocation", "allocate": "planning.allocation", "Anchors": "design.anchors", "anchors": "design.anchors",
    "Balance": "dynamics.optimise", "balance": "dynamics.optimise", "law_names": "laws.card", "load_law": "laws.card", "Plan": "planning.plan",
    "Comparison": "evaluation.compare", "compare": "evaluation.compare", "stage_flops": "core.flops", "Curves": "data.curves",
    "read_curves": "data.curves", "fetch_dataset": "data.datasets", "BayeslawError": "core.errors", "CardError": "core.errors",
    "FitError": "core.errors", "TableError": "core.errors", "executor": "core.executors", "Fit": "posterior.fit", "load_fit": "posterior.fit",
    "fit": "inference.fit", "Forecast": "forecasting.forecast", "forecast": "forecasting.forecast", "grid": "forecasting.grid", "Imported": "data.logs.api",
    "import_runs": "data.logs.api", "Law": "laws.law", "Loo": "evaluation.loo", "leave_one_run_out": "evaluation.loo", "Task": "inference.batch", "fit_many": "inference.batch",
    "combine": "dynamics.mixtures", "combined": "dynamics.mixtures", "pymc_model": "inference.model", "Executor": "core.executors", "Outcome": "core.executors",
    "values_of": "core.executors", "OPEN": "schedules.areas", "Point": "schedules.areas", "plan": "planning.plan", "plot_forecast": "plots.forecast",
    "plot_anchors": "plots.design", "plot_frontier": "plots.decisions", "plot_plan": "plots.decisions",
    "plot_savings": "plots.decisions", "plot_schedules": "plots.schedules", "plot_comparison": "plots.fit",
    "plot_coverage": "plots.fit", "plot_pair": "plots.fit", "plot_parameters": "plots.fit",
    "plot_prior_posterior": "plots.fit", "plot_transforms": "plots.fit", "plot_optimum": "plots.training",
    "plot_surface": "plots.training", "plot_transfer": "plots.training", "plot_turning": "plots.training",
    "plot_watch": "plots.training", "PointFit": "inference.point", "point_fit": "inference.point", "Prior": "laws.prior", "Recipe": "dynamics.recipe",
    "Report": "reporting.report", "report": "reporting.report", "Runs": "data.table", "read_runs": "data.table", "Schedule": "schedules.schedule",
    "parse_schedule": "data.schedule_text", "score": "evaluation.scores", "Stack": "forecasting.stack", "load": "forecasting.stack", "check": "data.validate",
    "Transfer": "planning.transfer", "transfer": "planning.transfer", "Turning": "dynamics.turning_points", "turning": "dynamics.turning_points",
    "converted": "core.units", "Update": "design.update", "update": "design.update", "Watch": "dynamics.monitor", "watch": "dynamics.monitor",
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
