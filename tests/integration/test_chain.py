"""Chains of two fits, averages over tasks, and effects of runs on a covariate."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

import bayeslaw
from bayeslaw.core.arrays import Array
from bayeslaw.core.errors import BayeslawError, TableError
from bayeslaw.data.observations import Observations
from bayeslaw.data.tokenizers import loss_unit
from bayeslaw.forecasting.average import average
from bayeslaw.inference.refit import rows_of
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import levels_of, with_by, with_levels
from bayeslaw.noise import counts
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.fit import Fit
from tests.commands import Command, rejected
from tests.errors import fails
from tests.fixed import fixed_fit, typical_fit

SIZE = 4000
CHANCES, ITEMS = {"easy": 0.5, "hard": 0.25}, {"easy": 400.0, "hard": 1000.0}
TRUTH = {"L0_easy": 3.0, "L0_hard": 2.4, "k": 2.5, "top": 0.9}
BY = {"L0": "task"}


def around(value: float, seed: int, scatter: float) -> Array:
    return np.asarray(value * np.exp(scatter * np.random.default_rng(seed).standard_normal(SIZE)))


@cache
def losses() -> Fit:
    """`chinchilla` with draws near published values."""
    frame = pd.DataFrame([{"N": n, "D": d} for n in (1e7, 1e8, 1e9) for d in (1e9, 1e10, 1e11)])
    values = {"E": 1.8, "A": 480.0, "alpha": 0.35, "B": 2080.0, "beta": 0.37}
    noise = {"sigma_point": 0.01, "dof": 12.0}
    draws = {name: around(value, i, 0.01) for i, (name, value) in enumerate((values | noise).items())}
    loss = 1.8 + 480 / frame["N"] ** 0.35 + 2080 / frame["D"] ** 0.37
    return fixed_fit(load_law("chinchilla"), frame.assign(loss=loss), draws)


def shifted_law() -> Law:
    card = load_law("task-sigmoid").card.replace('chance = "chance"', 'chance = "chance"\nrun_shifts = "loss"', 1)
    return parse_card(card)


def accuracy_table(runs: int = 12) -> pd.DataFrame:
    rng, rows = np.random.default_rng(5), []
    for i, loss in enumerate(np.linspace(2.0, 4.5, runs)):
        for task, chance in CHANCES.items():
            p = chance + (0.9 - chance) / (1 + np.exp(2.5 * (loss - TRUTH[f"L0_{task}"])))
            share = rng.binomial(int(ITEMS[task]), p) / ITEMS[task]
            rows.append({"run": f"m{i}", "task": task, "loss": loss, "chance": chance, "items": ITEMS[task], "accuracy": share})
    return pd.DataFrame(rows)


@cache
def accuracies(*, shifts: bool = False, noise_by: str | None = None, sigma_run: float = 0.06) -> Fit:
    """`task-sigmoid` for two tasks, with draws near the values that made the table."""
    law = shifted_law() if shifts else load_law("task-sigmoid")
    draws = {name: around(value, 20 + i, 0.02) for i, (name, value) in enumerate((TRUTH | {"L0": 2.7, "L0_spread": 0.2}).items())}
    draws["top"] = np.minimum(draws["top"], 0.99)
    groups = [f"sigma_point[{task}]" for task in CHANCES] if noise_by else ["sigma_point"]
    draws |= {name: around(0.04, 40 + i, 0.1) for i, name in enumerate(groups)}
    draws["sigma_run"] = around(sigma_run, 50, 0.1)
    effects = 0.05 * np.random.default_rng(6).standard_normal((12, SIZE))
    return fixed_fit(law, accuracy_table(), draws, noise_by=noise_by, by=BY, run_effect=effects)


def brute_force(settings: pd.DataFrame, fit: Fit, *, shifts: bool, size: int = 400_000) -> Array:
    """Draws (size, n) of accuracies, rows of one setting of N and D at the same draw of the loss and of the run's effect."""
    rng, one, two = np.random.default_rng(9), losses().draws, fit.draws
    i, j = rng.integers(SIZE, size=size), rng.integers(SIZE, size=size)
    columns = []
    latent: dict[tuple[float, float], tuple[Array, Array]] = {}
    for _, row in settings.iterrows():
        key = (row["N"], row["D"])
        if key not in latent:
            law = one["E"][i] + one["A"][i] / row["N"] ** one["alpha"][i] + one["B"][i] / row["D"] ** one["beta"][i]
            logged = law * np.exp(one["sigma_point"][i] * rng.standard_t(one["dof"][i]))
            latent[key] = (logged, two["sigma_run"][j] * rng.standard_normal(size))
        loss, effect = latent[key]
        chance, items = CHANCES[row["task"]], int(ITEMS[row["task"]])
        loss = loss + effect if shifts else loss
        p = chance + (two["top"][j] - chance) / (1 + np.exp(two["k"][j] * (loss - two[f"L0_{row['task']}"][j])))
        p = p if shifts else expit(logit(p) + effect)
        phi = 1 / (two["sigma_point"][j] ** 2 + 1e-6)
        columns.append(rng.binomial(items, rng.beta(p * phi, (1 - p) * phi)) / items)
    return np.stack(columns, axis=1)


AT = pd.DataFrame([{"N": n, "D": 5e10, "task": task, "run": f"new{n:.0e}"} for n in (3e8, 1e9) for task in CHANCES])


@pytest.mark.parametrize("shifts", [False, True])
def test_the_interval_of_a_chain_is_that_of_brute_force(shifts: bool) -> None:
    fit = accuracies(shifts=shifts)
    chain = bayeslaw.chain(losses(), fit, AT, discrepancy="none", force=True)
    expected = brute_force(AT, fit, shifts=shifts)
    for prob in (0.05, 0.5, 0.95):
        np.testing.assert_allclose(np.quantile(chain.predictive, prob, axis=0), np.quantile(expected, prob, axis=0), rtol=0.01)
    averages = chain.mean("task")
    whole = expected.reshape(-1, 2, 2).mean(axis=2)
    np.testing.assert_allclose(
        np.quantile(averages.draws, [0.05, 0.95], axis=0), np.quantile(whole, [0.05, 0.95], axis=0), rtol=0.01
    )
    assert averages.settings["rows"].tolist() == [2, 2]


def test_facts_of_tasks_are_known_from_the_fit() -> None:
    chain = bayeslaw.chain(losses(), accuracies(), AT, force=True)
    assert chain.settings["chance"].tolist() == [0.5, 0.25, 0.5, 0.25]
    assert chain.settings["items"].tolist() == [400.0, 1000.0, 400.0, 1000.0]
    two = accuracies().forecast(pd.DataFrame({"loss": 2.0, "task": ["hard", "easy"]}), force=True)
    assert two.settings["items"].tolist() == [1000.0, 400.0]


def test_a_fact_in_which_rows_of_a_task_differ_is_asked_for() -> None:
    fit, easy = accuracies(), pd.DataFrame({"loss": [2.0], "task": ["easy"]})
    seen = {name: values.copy() for name, values in fit.observed.covariates.items()}
    seen["chance"][np.flatnonzero(seen["chance"] == CHANCES["hard"])[0]] = 0.3
    differing = replace(fit, observed=replace(fit.observed, covariates=seen))
    assert differing.forecast(easy, force=True).settings[["chance", "items"]].to_numpy().tolist() == [[0.5, 400.0]]
    with pytest.raises(TableError, match=r"since hard has 0\.25 to 0\.3: give the settings") as refused:
        differing.forecast(easy.assign(task="hard"), force=True)
    assert [fault.column for fault in refused.value.faults] == ["chance"]


def test_a_measured_loss_does_not_stand_in_for_the_forecast_one() -> None:
    plain = bayeslaw.chain(losses(), accuracies(), AT, force=True)
    given = bayeslaw.chain(losses(), accuracies(), AT.assign(loss=9.0), force=True)
    np.testing.assert_array_equal(plain.predictive, given.predictive)


def test_a_chain_says_what_it_carries_and_how_far_outside_it_lies() -> None:
    table = bayeslaw.chain(losses(), accuracies(), AT.assign(N=1e12), force=True).summary()
    assert {"loss_median", "loss_eti90_lb", "latent_median", "run_eti90_ub"} <= {*table}
    assert (table["run_eti90_ub"] - table["run_eti90_lb"] > table["latent_eti90_ub"] - table["latent_eti90_lb"]).all()
    assert table["run_eti90_lb"].min() >= 0
    assert table["run_eti90_ub"].max() <= 1
    assert all("chinchilla FAR outside: N" in text for text in table["extrapolation"])


def test_losses_in_other_units_or_of_other_tokenizers_are_no_link() -> None:
    """By what the table of the second fit says of its losses, else by its law."""

    def of(fit: Fit, **info: object) -> Fit:
        return replace(fit, info={**fit.info, **info})

    loss, accuracy = losses(), accuracies()
    short, long = ({"bytes_per_token": length} for length in (3.0, 4.5))
    with fails("another-unit", "forecasts loss in nats/token", "takes it in bits/byte"):
        bayeslaw.chain(loss, of(accuracy, loss_unit="bits/byte"), AT)
    in_bits = replace(loss, observed=replace(loss.observed, unit="bits/byte"))
    with fails("another-unit", "forecasts loss in bits/byte", "takes it in nats/token"):
        bayeslaw.chain(in_bits, accuracy, AT)
    with fails("other-tokenizer", "4.5 and 3 bytes per token"):
        bayeslaw.chain(of(loss, token_length=long), of(accuracy, token_length=short), AT)
    same = of(in_bits, token_length=short), of(accuracy, token_length=short, loss_unit="bits/byte")
    assert bayeslaw.chain(*same, AT).link == "loss"


def test_measured_accuracies_have_losses_in_the_unit_of_the_fit() -> None:
    table, law = accuracy_table(), load_law("task-sigmoid")
    in_bits = table.assign(unit="bits/byte")
    assert [loss_unit(frame, law) for frame in (table, in_bits)] == ["nats/token", "bits/byte"]
    assert loss_unit(in_bits, losses().law) == ""
    fit = accuracies()
    fit = replace(fit, info={**fit.info, "loss_unit": "nats/token", "token_length": {"bytes_per_token": 3.0}})
    for call in (bayeslaw.forecast, bayeslaw.score):
        with fails("another-unit", "losses in bits/byte", "takes them in nats/token"):
            call(fit, in_bits.assign(run="new", loss=in_bits["loss"] * 0.99))
    with fails("other-tokenizer", "3 bytes per token"):
        bayeslaw.score(fit, table.assign(run="new", loss=table["loss"] * 0.99, bytes_per_token=4.5))
    assert set(rows_of(fit).frame["unit"]) == {"nats/token"}


def test_fits_without_a_link_are_refused() -> None:
    with pytest.raises(BayeslawError, match="forecasts accuracy, which is no covariate of chinchilla") as error:
        bayeslaw.chain(accuracies(), losses(), AT, force=True)
    assert error.value.code == "no-link"


def test_a_new_task_is_forecast_as_the_refusal_says() -> None:
    at: dict[str, str | float] = {"N": 1e9, "D": 5e10, "task": "new", "chance": 0.25, "items": 1000}
    with fails("unknown-level", "chain` forecast it as a new one with --as new-group (as_='new-group')", kind=TableError):
        bayeslaw.chain(losses(), accuracies(), at, force=True)
    new = bayeslaw.chain(losses(), accuracies(), at, as_="new-group", force=True)
    known = bayeslaw.chain(losses(), accuracies(), at | {"task": "hard"}, force=True)
    assert np.ptp(np.quantile(new.predictive, [0.05, 0.95])) > np.ptp(np.quantile(known.predictive, [0.05, 0.95]))
    assert any("task = new" in check.text for check in new.checks)
    with fails("unknown-level", "differs by task too", "(--noise-by, noise_by=)", kind=TableError):
        accuracies(noise_by="task").forecast(pd.DataFrame([at | {"loss": 2.0}]), force=True)


def test_measured_outcomes_are_checked() -> None:
    with pytest.raises(TableError, match="is it in percent"):
        bayeslaw.chain(losses(), accuracies(), AT.assign(accuracy=50.0), force=True)


def test_averages_over_different_tasks_are_refused() -> None:
    with pytest.raises(BayeslawError, match="lacks hard") as error:
        bayeslaw.chain(losses(), accuracies(), AT.iloc[:3], force=True).mean("task")
    assert error.value.code == "unequal-averages"
    with pytest.raises(BayeslawError, match=r"no column 'tasks'.*Did you mean 'task'"):
        bayeslaw.chain(losses(), accuracies(), AT, force=True).mean("tasks")
    with fails("missing-value", "task"):
        average(AT.assign(task=["a", np.nan, "b", "c"]), np.zeros((3, 4)), "task")


def test_averages_are_scored() -> None:
    new = accuracy_table().assign(run=lambda t: "new " + t["run"], accuracy=lambda t: (t["accuracy"] + 0.01).clip(0, 1))
    scores = bayeslaw.score(accuracies(), new, mean="task", force=True)
    assert scores["rows"].item() == 12
    assert scores["mae"].item() < 0.03


@pytest.mark.parametrize("noise_by", [None, "task"])
def test_a_shifted_density_is_that_of_the_model(noise_by: str | None) -> None:
    from bayeslaw.engine.density import Density

    runs = bayeslaw.read_runs(accuracy_table())
    law = with_by(shifted_law(), BY)
    law = with_levels(law, levels_of(law, runs.frame))
    observed = Observations.of(law, runs, noise_by)
    noise = Noise.choose("auto", observed)
    assert noise.shifts == "loss"
    density, model = Density.of(law, observed, noise), bayeslaw.pymc_model(law, observed, noise)
    logp = model.compile_logp()
    differences, rng = [], np.random.default_rng(3)
    for _ in range(3):
        x = density.start() + 0.2 * rng.standard_normal(density.size)
        draws = density.draws(x[None])
        point, jacobian = {}, 0.0
        for value in model.value_vars:
            name = value.name.removesuffix("_log__").removesuffix("_logodds__")
            if name == "run_effect":
                given = draws["run_effect"][0] / draws["sigma_run"][0]
            elif name == "L0_by_task":
                given = np.array([draws[f"L0_{task}"][0] for task in CHANCES])
            else:
                given = draws[name][0]
            point[value.name] = (
                np.log(given) if value.name.endswith("_log__") else logit(given) if "logodds" in value.name else given
            )
        # Levels are sampled in spreads from the typical value, so that their coordinates stretch by the spread.
        jacobian = 2 * np.log(draws["L0_spread"][0])
        differences.append(density.function()(x)[0] - float(logp(point)) - jacobian)
    np.testing.assert_allclose(differences, differences[0], rtol=0, atol=1e-6)


def test_densities_of_runs_integrate_over_effects_on_the_covariate() -> None:
    fit = accuracies(shifts=True)
    some = np.arange(0, SIZE, 800)
    draws = {name: values[some] for name, values in fit.draws.items()}
    observed = fit.observed
    residual = observed.response - fit.law.predict(draws, observed.covariates)
    made = fit.noise.log_likelihood(residual, observed, draws, shifted=fit.at_effects(observed, draws))
    grid = np.linspace(-8, 8, 1601)
    for s in range(some.size):
        at = {name: np.repeat(values[s], grid.size) for name, values in draws.items()}
        effect = grid * draws["sigma_run"][s]
        expected = replace(fit).at_effects(observed, at)(np.repeat(effect[:, None], observed.run.size, axis=1))
        spread = np.full_like(expected, draws["sigma_point"][s])
        rows = counts.log_probability(observed.response, expected, observed.items, spread)
        for run in range(observed.runs):
            logs = rows[:, observed.run == run].sum(axis=1) - 0.5 * grid**2 - 0.5 * np.log(2 * np.pi)
            top = logs.max()
            assert made[s, run] == pytest.approx(top + np.log(np.exp(logs - top).sum() * (grid[1] - grid[0])), abs=1e-3)


def test_new_rows_of_one_run_share_its_effect() -> None:
    at = pd.DataFrame({"loss": 2.6, "task": ["easy", "hard"], "run": "new"})
    draws = accuracies(shifts=True).forecast(at, force=True).draws["run"].values
    apart = accuracies(shifts=True).forecast(at.assign(run=["a", "b"]), force=True).draws["run"].values
    assert np.corrcoef(draws.T)[0, 1] > np.corrcoef(apart.T)[0, 1] + 0.1


@pytest.mark.parametrize("shifts", [False, True])
def test_tasks_of_one_setting_are_of_one_run(shifts: bool) -> None:
    """The effect of a model's run stays in the average over its tasks, whether the run has a name or not."""
    fit, at = accuracies(shifts=shifts, sigma_run=0.4), AT.assign(loss=[2.6, 2.6, 2.4, 2.4]).drop(columns=["N", "D"])
    of_chain = [bayeslaw.chain(losses(), fit, t, force=True).mean("task") for t in (AT, AT.drop(columns="run"))]
    of_forecast = [fit.forecast(t, force=True).mean("task") for t in (at, at.drop(columns="run"))]
    for named, unnamed in (of_chain, of_forecast):
        # Three standard errors of the ratio of two sds from 4000 draws each.
        np.testing.assert_allclose(unnamed.draws.std(axis=0), named.draws.std(axis=0), rtol=3 / np.sqrt(SIZE))
    apart = fit.forecast(at.assign(run=list("abcd")), force=True).predictive.reshape(SIZE, 2, 2).mean(axis=2)
    assert (apart.std(axis=0) < 0.9 * of_forecast[1].draws.std(axis=0)).all()


def test_runs_of_several_sizes_have_effects_of_their_own() -> None:
    forecast = typical_fit("chinchilla").forecast(pd.DataFrame({"N": [1e9, 2e9], "D": 5e10}), force=True)
    np.testing.assert_array_equal(forecast.mean("N").draws[:, 0], forecast.predictive.mean(axis=1))
    shared = forecast.with_runs(np.zeros(2, dtype=np.int64)).predictive  # the fit has effects of runs, so that these differ
    assert not np.array_equal(shared, forecast.predictive)


def test_noise_by_task_is_kept_in_a_file(tmp_path: Path) -> None:
    fit = accuracies(shifts=True, noise_by="task")
    assert fit.noise.parameters == ("sigma_point[easy]", "sigma_point[hard]", "sigma_run")
    fit.save(tmp_path / "fit.nc")
    again = bayeslaw.load_fit(tmp_path / "fit.nc")
    assert isinstance(again, Fit)
    np.testing.assert_array_equal(again.observed.row_group, fit.observed.row_group)
    drawn = [one.forecast(AT.assign(loss=2.5), force=True).draws["run"].values for one in (fit, again)]
    np.testing.assert_array_equal(*drawn)


def test_the_command_forecasts_and_scores(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    losses().save("loss.nc")
    accuracies().save("accuracy.nc")
    AT.assign(accuracy=[0.7, 0.5, 0.8, 0.6]).to_csv("large.csv", index=False)
    done = command("chain", "loss.nc", "accuracy.nc", "--at", "large.csv", "--plot", "chain.png", "--force")
    assert done.status == 0
    assert "measured accuracies in the table" in done.out
    assert Path("chain.png").stat().st_size > 10_000
    done = command("chain", "loss.nc", "accuracy.nc", "--at", "large.csv", "--mean", "task", "-o", "means.csv", "--force")
    assert done.status == 0
    assert pd.read_csv("means.csv")["rows"].tolist() == [2, 2]
    AT.assign(accuracy=[0.7, 0.5, 0.8, np.nan]).to_csv("large.csv", index=False)
    done = command("chain", "loss.nc", "accuracy.nc", "--at", "large.csv", "--mean", "task", "--plot", "chain.png", "--force")
    assert "1 of 2 averages have rows without a measured accuracy" in done.out
    assert "measured accuracies in the table" in done.out
    done = command("chain", "accuracy.nc", "loss.nc", "--at", "large.csv", "--force")
    assert done.status == 2
    assert "no covariate of chinchilla" in done.err
    assert "Traceback" not in done.err
    assert command("chain", "loss.nc", "accuracy.nc").status == 2
    rejected(command("chain", "loss.nc", "accuracy.nc", "--set", "N=1e9", "--column", "N=size"), "column-without-table")


def test_a_single_setting_has_a_bar() -> None:
    from matplotlib.figure import Figure

    settings = pd.DataFrame([{"N": 1e9, "D": 1e10, "task": t} for t in CHANCES])
    above, below = bayeslaw.plots.plot_chain(bayeslaw.chain(losses(), accuracies(), settings, force=True), Figure().subplots(2, 1))
    assert len(above.containers) == 1
    assert len(below.containers) == len(CHANCES)
    bars = [container[0] for container in below.containers]
    pixels = [bar.get_transform().transform(bar.get_xydata())[0] for bar in bars]
    assert np.diff([x for x, _ in pixels]).min() > 5  # side by side, where intervals would hide each other
    low, high = below.transAxes.transform([(0, 0), (1, 1)])
    assert all((low < at).all() and (at < high).all() for at in pixels)


def test_tasks_at_a_single_setting_have_a_place_and_a_line_of_chance_each() -> None:
    """On an axis of N they would look as if N differed, and lines over the whole width could not be told apart."""
    from matplotlib.figure import Figure

    settings = pd.DataFrame([{"N": 1e9, "D": 1e10, "task": t} for t in CHANCES])
    chain = bayeslaw.chain(losses(), accuracies(), settings, force=True)
    above, below = bayeslaw.plots.plot_chain(chain, Figure().subplots(2, 1))
    assert (above.get_xlabel(), below.get_xlabel()) == ("N = 1B, D = 10B", "task")
    assert above.get_xticks().size == 0
    assert [label.get_text() for label in below.get_xticklabels()] == [*CHANCES]
    (chances,) = [lines for lines in below.collections if len(lines.get_paths()) == len(CHANCES)]
    ends = [np.asarray(path.vertices) for path in chances.get_paths()]
    assert [float(end[0, 1]) for end in ends] == [*CHANCES.values()]
    assert all(end[0, 0] < place < end[1, 0] and np.ptp(end[:, 0]) < 1 for place, end in enumerate(ends))
    shared = bayeslaw.plots.plot_chain(chain)
    assert [label.get_text() for label in shared[1].get_xticklabels()] == [*CHANCES]


def test_averages_have_a_line_for_each_text_in_a_column_rows() -> None:
    """The number of averaged rows has another name beside it."""
    from matplotlib.figure import Figure

    settings = pd.DataFrame([{"N": 1e9, "D": d, "task": t, "rows": r} for d in (1e10, 1e11) for r in "ab" for t in CHANCES])
    chain = bayeslaw.chain(losses(), accuracies(), settings, force=True)
    _, below = bayeslaw.plots.plot_chain(chain, Figure().subplots(2, 1), x="D", mean="task")
    assert {"rows = a", "rows = b"} < {*below.get_legend_handles_labels()[1]}


def test_the_picture_has_both_panels_and_the_chance_line() -> None:
    from matplotlib.figure import Figure

    settings = pd.DataFrame([{"N": 1e9, "D": d, "task": t} for d in (1e10, 3e10, 1e11) for t in CHANCES])
    chain = bayeslaw.chain(losses(), accuracies(), settings, force=True)
    measured = chain.settings.assign(accuracy=[0.1, *[0.6] * 5])
    above, below = bayeslaw.plots.plot_chain(chain, Figure(figsize=(6, 6)).subplots(2, 1), measured=measured)
    assert above.get_ylabel() == "loss (nats/token)"
    assert below.get_ylabel() == "accuracy (share of questions)"
    assert 0 <= below.get_ylim()[0] < below.get_ylim()[1] <= 1
    labels = below.get_legend_handles_labels()[1]
    assert "chance" in labels
    assert any(label.startswith("measured, outside") for label in labels)
    with fails("wrong-number-of-axes", 3):
        bayeslaw.plots.plot_chain(chain, Figure().subplots(3, 1))
    with fails("wrong-number-of-axes", "not 1"):
        bayeslaw.plots.plot_chain(chain, Figure().subplots())  # type: ignore[arg-type]
    with fails("not-axes", "an int"):
        bayeslaw.plots.plot_chain(chain, [1, 2])  # type: ignore[list-item]
    with fails("not-numbers", "accuracy"):
        texts = pd.DataFrame({"accuracy": ["high"] * len(chain.settings)})
        bayeslaw.plots.plot_chain(chain, Figure().subplots(2, 1), measured=texts)
    for column in ("C", "task", "items"):  # the first fit has none of them
        with pytest.raises(BayeslawError, match="no column of the settings"):
            bayeslaw.plots.plot_chain(chain, Figure().subplots(2, 1), x=column)
