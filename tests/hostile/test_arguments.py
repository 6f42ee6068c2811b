"""Arguments of another type than the functions take: errors in words, with what to do, and none of Python's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import bayeslaw
from tests import oracles
from tests.dynamics import SOURCE, dynamics_fit
from tests.errors import fails
from tests.fixed import typical_fit

RUNS = oracles.table(bayeslaw.load_law("chinchilla"))
AT = pd.DataFrame({"N": [1e9], "D": [2e10]})
api: Any = bayeslaw  # types are checked elsewhere
RECIPE = bayeslaw.dynamics.Recipe("constant:steps=2000,peak=2e-4", "constant:steps=1000,peak=2e-4")
FITS: dict[str, Callable[[Any], object]] = {
    "forecast": lambda fit: api.forecast(fit, AT),
    "score": lambda fit: api.score(fit, AT),
    "anchors": lambda fit: api.anchors(fit, AT, AT, budget=1e20),
    "plan": lambda fit: api.plan(fit, fit, {"N": 1e9}, on="run"),
    "allocate": lambda fit: api.allocate(fit, 1e20),
    "transfer": lambda fit: api.transfer(fit, {"N": 1e9}),
    "tuning": lambda fit: api.tuning(fit, {"N": 1e9}),
    "mix": lambda fit: api.mix(fit),
    "chain": lambda fit: api.chain(fit, fit, AT),
    "update": lambda fit: api.update(fit, AT),
    "report": lambda fit: api.report(fit),
    "explore": lambda fit: api.explore({"label": fit}),
    "register": lambda fit: api.evaluation.register(fit, AT),
    "leave_one_run_out": lambda fit: api.evaluation.leave_one_run_out(fit),
    "predictive_check": lambda fit: api.evaluation.predictive_check(fit),
    "compare_with_predictions": lambda fit: api.design.compare_with_predictions(fit, api.read_runs(AT)),
    "watch": lambda fit: api.dynamics.watch(fit, None, "run", None),
    "Follower": lambda fit: api.dynamics.Follower(fit, "run", None),
    "combination_draws": lambda fit: api.dynamics.combination_draws(fit, fit, fit, AT),
    "balance": lambda fit: api.dynamics.balance(fit, fit, RECIPE, {"peak": (1e-4, 1e-3)}, weight=0.5),
    "turning_point": lambda fit: api.dynamics.turning_point(fit, RECIPE),
}


@pytest.mark.parametrize("function", FITS)
def test_the_path_of_a_fit_is_no_fit(function: str) -> None:
    with fails("not-a-fit", "the path 'fit.nc'", "bayeslaw.load_fit"):
        FITS[function]("fit.nc")
    with fails("not-a-fit", "not 3"):
        FITS[function](3)


SINGLE: dict[str, Callable[[Any], object]] = {
    "leave_one_run_out": lambda fit: api.evaluation.leave_one_run_out(fit),
    "predictive_check": lambda fit: api.evaluation.predictive_check(fit),
    "nested": lambda fit: api.design.nested(fit, AT, AT),
    "watch": lambda fit: api.dynamics.watch(fit, None, "run", None),
    "Follower": lambda fit: api.dynamics.Follower(fit, "run", None),
    "combination_draws": lambda fit: api.dynamics.combination_draws(fit, fit, fit, AT),
}


@pytest.mark.parametrize("function", SINGLE)
def test_a_stack_is_not_the_fit_of_one_law(function: str) -> None:
    fit = typical_fit("chinchilla", size=400)
    with fails("not-a-single-fit", "not a stack"):
        SINGLE[function](api.Stack({"a": fit, "b": fit}, {"a": 0.5, "b": 0.5}))


def test_a_grid_is_of_a_fit_or_of_a_law_by_its_name() -> None:
    with fails("fit-for-a-law", "fit.nc", "bayeslaw.load_fit"):
        api.grid("fit.nc", {"N": "1e9"})
    with fails("not-a-fit", "not 3"):
        api.grid(3, {"N": "1e9"})


def test_one_fit_is_reported_and_explored_by_its_name() -> None:
    fit = typical_fit("chinchilla", size=400)
    assert api.report(fit).facts["fits"][0]["label"] == "chinchilla"
    assert api.explore(fit, draws=100).data["fits"][0]["label"] == "chinchilla"


def test_paths_laws_conditions_columns_and_probabilities() -> None:
    law, fit = api.load_law("chinchilla"), cast("Any", typical_fit("chinchilla", size=400))
    table = oracles.table(law)
    point = api.point_fit(law, table, starts=1)
    wrong: list[tuple[str, str, Callable[[], object]]] = [
        ("not-a-path", "path of a file", lambda: api.load_fit(None)),
        ("not-a-path", "path of a file", lambda: fit.save(3)),
        ("not-a-path", "path of a file", lambda: api.cite(3)),
        ("is-a-folder", "is a folder", lambda: fit.save(".")),
        ("wrong-ending", "ending in .nc, not fit.pkl", lambda: fit.save("fit.pkl")),
        ("no-folder", "There is no folder", lambda: fit.save("nowhere/fit.nc")),
        ("not-a-law", "path of its card", lambda: api.backtest(law, table)),  # the other way round
        ("not-a-law", "path of its card", lambda: api.compare([law], table)),
        ("not-a-law", "path of its card", lambda: api.fit_stack(table, [law])),
        ("not-a-law", "path of its card", lambda: api.load_law(None)),
        ("not-a-text", "such as 'ptpp <= 31'", lambda: api.read_runs(table, 31)),
        ("not-a-text", "name of a column", lambda: api.fit(law, table, noise_by=3)),
        ("not-a-mapping", "by what we call them", lambda: api.read_runs(table, columns=["N"])),
        ("too-few-domains", "these are web_loss", lambda: api.data.to_long(table, "web_loss")),
        ("not-a-text", "not a Schedule", lambda: api.data.parse_schedule(api.schedules.linear(10, 1e-3))),
        ("unknown-dataset", "public set 3", lambda: api.fetch_dataset(3)),
        ("missing-parameter", "give draws of A, alpha, B, beta", lambda: law.predict({"E": [1.7]}, {"N": 1e9, "D": 1e10})),
        ("unknown-option", "fit, score, forecast", lambda: api.data.check(table, law, purpose="training")),
        ("not-a-mapping", "by what we call them", lambda: api.import_runs("runs.csv", columns="loss=val_loss")),
        ("not-a-path", "A log is named by the path of a file, not by a DataFrame", lambda: api.import_runs(AT)),
        ("not-a-path", "not by an int", lambda: api.import_runs(3)),
        ("not-a-path", "not by a NoneType", lambda: api.import_runs(["runs.csv", None])),
        ("bad-bin-width", "'0.1'", lambda: api.fit(law, table, bins="0.1")),
        ("bad-delta", "'1e-3'", lambda: api.point_fit(law, table, delta="1e-3")),
        ("not-a-probability", "'0.9'", lambda: fit.summary("0.9")),
        ("not-a-probability", "'90%'", lambda: fit.forecast(AT).summary("90%")),
        ("unknown-condition", "'earlier'", lambda: fit.log_likelihood("row")),
        ("missing-column", "D is missing", lambda: point.predict({"N": [1e9]})),
        ("missing-column", "N, D is missing", lambda: point.predict("at.csv")),
    ]
    for code, named, call in wrong:
        with fails(code, named):
            call()


def test_a_model_is_built_from_names_and_tables_as_a_fit_is() -> None:
    law = api.load_law("chinchilla")
    table = oracles.table(law)
    names = [
        [v.name for v in model.free_RVs]
        for model in (api.pymc_model("chinchilla", table), api.pymc_model(law, api.read_runs(table)))
    ]
    assert names[0] == names[1]


def test_arguments_of_decisions() -> None:
    fit = typical_fit("chinchilla", size=400)
    at = {"N": 1e9, "D": 2e10}
    wrong: list[tuple[str, str, Callable[[], object]]] = [
        (
            "bad-ratio",
            "'20 a parameter'",
            lambda: api.planning.versus(fit, fit, compute=1e20, tokens_per_parameter="20 a parameter"),
        ),
        ("settings-not-clear", "D/N", lambda: api.planning.versus(fit, fit, at, tokens_per_parameter=20)),
        ("not-a-mapping", "DataFrame", lambda: api.tuning(typical_fit("lr-batch", size=400), AT)),
        ("not-a-task", "Task(law, runs, options)", lambda: api.fit_many(["chinchilla"])),
        ("given-twice", "auto is normal,", lambda: api.compare(RUNS, "chinchilla", noise=["auto", "normal"], holdout="N > 1e9")),
    ]
    for code, named, call in wrong:
        with fails(code, named):
            call()
    assert api.planning.versus(fit, fit, compute=np.array([1e20, 2e20])).difference.shape[1] == 2
    by_text = api.planning.versus(fit, fit, compute=1e20, tokens_per_parameter="20")
    assert "each at 20 tokens per parameter" in by_text.lines()[0]


def test_the_noise_of_a_fit_needs_the_rows_that_it_was_fitted_to() -> None:
    """A table has other runs and groups: its rows would be given scales of the wrong ones."""
    fit = typical_fit("chinchilla", size=400)
    with fails("noise-by-of-observations", "noise_by='lab'"):
        api.pymc_model(fit.law, fit.observed, noise_by="lab")
    with fails("noise-without-observations", "pymc_model(fit.law, fit.observed, fit.noise)"):
        api.pymc_model(fit.law, oracles.table(fit.law), fit.noise)


def test_settings_weights_columns_and_sizes_of_another_type() -> None:
    fit = typical_fit("chinchilla", size=400)
    with fails("not-a-mapping", "[1e9]", "{'N':"):
        api.grid(fit, "[1e9]")
    with fails("not-a-text", "3", "{'E': 'domain'}"):
        api.fit("chinchilla", RUNS, by={"E": 3}, progress=False)
    with fails("wrong-weights", "half"):
        api.Stack({"a": fit, "b": fit}, {"a": "half", "b": "half"})
    with fails("not-a-single-fit", "A stack", "stack"):
        api.Stack({"a": fit, "b": api.Stack({"a": fit}, {"a": 1.0})}, {"a": 0.5, "b": 0.5})
    with fails("not-a-single-fit", "not a point fit:"):
        api.Stack({"a": api.point_fit("chinchilla", RUNS, starts=2)}, {"a": 1.0})
    with fails("unknown-column", "None"):
        api.forecast(fit, AT).mean(None)
    with fails("not-a-whole-number", "size"):
        fit.prior_draws(-1)


def test_names_that_are_no_texts_tables_for_mappings_and_truth_values_for_numbers() -> None:
    fit, source, target = (
        typical_fit("chinchilla", size=400),
        *(typical_fit(f"transfer-{domain}", size=2000) for domain in ("source", "target")),
    )
    model = {"N": 1e9, "ptpp": 31}

    def planned(**options: Any) -> object:
        return api.plan(source, target, **({"settings": model, "on": "latent", "minimise": "target-loss"} | options))

    wrong: list[tuple[str, str, Callable[[], object]]] = [
        ("unknown-covariate", "no covariate 1", lambda: api.grid(fit, {1: 1e9, "D": 2e10})),
        ("not-a-number", "N=True", lambda: api.grid(fit, {"N": True, "D": 2e10})),
        ("unknown-column", "['N']", lambda: api.forecast(fit, AT).mean(["N"])),
        ("unreadable-compute", "compute", lambda: api.allocate(fit, pd.concat([AT, AT]))),
        ("unknown-stage", "['a']", lambda: api.allocate(fit, 1e20, ["a"])),
        ("not-a-mapping", "a DataFrame", lambda: api.allocate(fit, 1e20, settings=AT)),
        ("not-a-mapping", "a DataFrame", lambda: api.planning.whole_life(fit, compute=1e20, settings=AT)),
        ("not-a-mapping", "Prices", lambda: api.planning.whole_life(fit, compute=1e20, prices=3)),
        ("not-a-mapping", "device", lambda: planned(max_tokens=1e10, device="A100")),
        ("not-a-mapping", "Levels of sources", lambda: planned(max_tokens=1e10, source_levels="web")),
        ("not-a-mapping", "Levels of the target", lambda: planned(max_tokens=1e10, target_levels="web")),
        ("unreadable-range", "replay True", lambda: planned(max_tokens=1e10, replay=True)),
        ("limit-not-positive", "max-tokens", lambda: planned(max_tokens=True)),
        ("unreadable-stages", "not 3", lambda: planned(max_tokens=1e10, stages=3)),
        ("unreadable-stages", "(0.4, 0.5)", lambda: api.anchors(fit, AT, AT, budget=1e20, stages=[(0.4, 0.5)])),
        ("missing-column", "['cost']", lambda: api.anchors(fit, AT, AT, budget=1e20, cost=["cost"])),
        ("not-a-fit", "at least one fit", lambda: api.anchors([], AT, AT, budget=1e20)),
        ("not-two-names", "'ab'", lambda: api.planning.versus(fit, fit, compute=1e20, names="ab")),
        ("not-two-levels", "3 are not", lambda: api.planning.versus(fit, compute=1e20, levels=3)),
        ("no-menu", "two or more checkpoints", lambda: api.planning.plan_menu(source, target, None, on="latent")),
        ("not-a-mapping", "Options", lambda: api.backtest(RUNS, "chinchilla", options=3)),
        ("not-a-mapping", "Options", lambda: api.compare(RUNS, "chinchilla", options=3)),
        ("not-a-mapping", "Options", lambda: api.inference.Task("chinchilla", RUNS, 3)),
        ("unknown-direction", "['compute']", lambda: api.backtest(RUNS, "chinchilla", by=["compute"])),
        ("unknown-noise", "None", lambda: api.compare(RUNS, "chinchilla", noise=None)),
        ("not-a-task", "Task(law, runs, options)", lambda: api.fit_many(3)),
        ("not-a-function", "then is a function of a fit", lambda: api.fit_many([], then="summary")),  # after all fits
        ("not-a-text", "not 3", lambda: api.read_runs(RUNS, columns={"N": 3})),
        ("not-a-text", "not 3", lambda: api.read_runs(RUNS, columns={3: "N"})),
        ("not-a-text", "not None", lambda: api.import_runs("runs.csv", columns={"N": None})),
        ("not-a-text", "'val_loss'", lambda: api.import_runs("runs.csv", losses=3)),
        ("not-a-table", "bayeslaw.read_runs", lambda: api.Runs(3, "runs")),
        ("unknown-dataset", "['tinycpt']", lambda: api.fetch_dataset(["tinycpt"])),
        ("unknown-distribution", "['Normal']", lambda: api.Prior(["Normal"], {})),
        ("wrong-prior-arguments", "'mu': 0.5", lambda: api.Prior("LogNormal", [0, 1])),
        ("not-a-mapping", "Resamples", lambda: api.score(api.point_fit("chinchilla", RUNS, starts=1), RUNS, bootstrap=3)),
        ("not-a-mapping", "Bounds", lambda: api.mix(fit, bounds=[0.1, 0.5])),
    ]
    for code, named, call in wrong:
        with fails(code, named):
            call()


def test_arguments_that_changed_places_are_asked_about() -> None:
    law, fit = api.load_law("chinchilla"), typical_fit("chinchilla", size=400)
    exchanged: list[Callable[[], object]] = [
        lambda: api.fit(RUNS, law), lambda: api.backtest(law, RUNS), lambda: api.compare(law, RUNS),
        lambda: api.point_fit(RUNS, law), lambda: api.forecast(AT, fit), lambda: api.score(api.read_runs(RUNS), fit),
        lambda: api.fit(law, fit), lambda: api.score(fit, law),
    ]  # fmt: skip
    for call in exchanged:
        with pytest.raises(api.BayeslawError, match="have two arguments changed places"):
            call()
    with fails("not-a-fit", "bayeslaw.fit makes one"):
        api.forecast(law, AT)
    with fails("not-a-table", "not the type NoneType."):
        api.fit(law, None)


def test_labels_of_fits_may_be_numbers() -> None:
    fit = typical_fit("chinchilla", size=400)
    assert api.report({1: fit}).facts["fits"][0]["label"] == "1"
    assert api.explore({1: fit}, draws=100).data["fits"][0]["label"] == "1"


def test_arguments_of_the_dynamics() -> None:
    dynamics, data, recipe, fit = api.dynamics, api.data, cast("Any", RECIPE), dynamics_fit(SOURCE, size=400)
    schedule = api.schedules.constant(4000, 2e-4)
    steps = np.arange(100, 2001, 100)
    table = pd.DataFrame({"run": "a", "step": steps, "lr": 2e-4, "loss": 3 + 1 / steps})
    wrong: list[tuple[str, str, Callable[[], object]]] = [
        ("not-a-mapping", "not 3", lambda: dynamics.Recipe(RECIPE.start, RECIPE.adapt, 3)),
        ("not-a-mapping", "1 is no text", lambda: dynamics.Recipe(RECIPE.start, RECIPE.adapt, {1: 2})),
        ("no-such-step", "0.5", lambda: recipe.rows([0.5])),  # it was taken for step 0
        ("not-numbers", "'x'", lambda: recipe.pretraining("x")),
        ("not-a-number", "peak", lambda: recipe.varied(peak="x")),
        ("not-a-number", "steps", lambda: recipe.varied(steps=np.nan)),
        ("not-a-whole-number", "steps", lambda: recipe.with_pretraining("x")),
        ("not-a-recipe", "'cosine:steps=10'", lambda: dynamics.turning_point(fit, "cosine:steps=10")),
        ("not-a-recipe", "None", lambda: dynamics.balance(fit, fit, None, {"peak": (1e-4, 1e-3)}, weight=0.5)),
        ("not-a-mapping", "Ranges", lambda: dynamics.balance(fit, fit, RECIPE, 3, weight=0.5)),
        ("not-a-fit", "not 3", lambda: dynamics.turning_point(fit, RECIPE, target=3)),
        ("not-a-text", "['run']", lambda: data.read_curves(table, run=["run"])),
        ("not-a-list", "3", lambda: data.read_curves(table, losses=3)),
        ("unknown-run", "['a']", lambda: data.read_curves(table).curve(["a"])),
        ("not-a-text", "not None", lambda: data.to_long(table, None)),
        ("not-curves", "a DataFrame", lambda: dynamics.watch(fit, table, "a", schedule)),
        ("not-a-point", "not 3", lambda: dynamics.RunForecasts(fit, schedule, start=3)),  # which ended the training
        ("not-a-mapping", "not 'N'", lambda: dynamics.RunForecasts(fit, schedule, settings="N")),
        ("not-a-number", "'x'", lambda: dynamics.RunForecasts(fit, schedule, memory="x")),
        ("not-numbers", "None", lambda: dynamics.compare_memories(table, "annealing", memories=None)),
        ("not-a-table", "int", lambda: dynamics.combine(3, "web", "code", "forum")),
    ]
    for code, named, call in wrong:
        with fails(code, named):
            call()


def test_arguments_of_records_units_and_pictures() -> None:
    evaluation, units, plots, fit = api.evaluation, api.core.units, api.plots, typical_fit("chinchilla")
    prediction, forecast = evaluation.register(fit, AT), api.forecast(fit, {"N": 1e9, "D": "1e9:1e11:3"})
    wrong: list[tuple[str, str, Callable[[], object]]] = [
        ("not-a-text", "who", lambda: evaluation.register(fit, AT, who=3)),
        ("not-a-path", "A prediction", lambda: evaluation.read_prediction(3)),
        ("not-a-path", "A prediction", lambda: evaluation.settle(3, AT)),
        ("not-a-path", "A prediction", lambda: prediction.save(3)),
        ("not-a-path", "A key", lambda: prediction.save("p.json", key=3)),
        ("not-a-path", "A folder", lambda: evaluation.record([])),
        ("not-a-table", "int", lambda: api.design.compare_with_predictions(fit, 3)),
        ("not-numbers", "loss", lambda: units.convert("2.5", "bits/token")),
        ("not-numbers", "None", lambda: units.convert(None, "bits/token")),
        ("not-numbers", "bytes_per_token", lambda: units.convert(2.5, "bits/byte", bytes_per_token="4.2")),
        ("unequal-lengths", "2 of loss, 3 of", lambda: units.convert([2, 3], "bits/byte", bytes_per_token=[4, 4, 4])),
        ("not-a-table", "int", lambda: units.convert_table(3, "bits/byte")),
        ("unknown-column", "[4.2]", lambda: units.convert_table(RUNS, "bits/byte", bytes_per_token=[4.2])),
        ("not-a-number", "reference", lambda: units.convert_table(RUNS, "nats/token", reference="4.2")),
        ("not-numbers", "utilisation", lambda: api.core.device_hours(1e20, 1e15, "half")),
        ("not-axes", "Figure", lambda: plots.plot_forecast(forecast, Figure())),
        ("not-a-table", "int", lambda: plots.plot_forecast(forecast, Figure().subplots(), measured=3)),
        ("unknown-parameter", "['E']", lambda: plots.plot_prior_posterior(fit, ["E"], Figure().subplots())),
        ("not-a-path", "A picture", lambda: plots.save_figure(3, lambda ax: None)),
        ("not-a-function", "draw", lambda: plots.save_figure("a.png", 3)),
        ("not-a-number", "width", lambda: plots.save_figure("a.png", lambda ax: None, width="3in")),
    ]
    for code, named, call in wrong:
        with fails(code, named):
            call()
