"""The choice of a memory, by curves that were made with one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayeslaw.data import parse_schedule
from bayeslaw.dynamics.callbacks import RunForecasts
from bayeslaw.dynamics.memory import compare_memories, left_out_squares, memory_of, require_same_areas
from bayeslaw.dynamics.monitor import watch
from bayeslaw.dynamics.optimise import balance
from bayeslaw.dynamics.recipe import Recipe
from bayeslaw.dynamics.turning_points import turning_point
from bayeslaw.laws.card import card_folder, load_law
from bayeslaw.posterior.fit import Fit
from bayeslaw.schedules.schedule import areas
from tests.commands import Command, refused
from tests.errors import fails
from tests.unit.dynamics.test_monitor import WHOLE, setting

FORMS = (
    "constant:steps=900,peak=1e-3,warmup=20",
    "wsd:steps=900,peak=1e-3,decay=0.2,final=0.1,warmup=20",
    "cosine:steps=900,peak=1e-3,final=0.1,warmup=20",
)


def table(memory: float = 0.98) -> pd.DataFrame:
    """Three runs of a law of annealing, whose areas have a memory of 50 steps, logged every 20 steps to .02%."""
    rng, parts = np.random.default_rng(3), []
    for form in FORMS:
        schedule, steps = parse_schedule(form), np.arange(60, 901, 20)
        of = areas(schedule, memory=memory)
        loss = 2.0 + 0.4 * of.S1[steps - 1] ** -0.5 - 3.0 * of.S2[steps - 1]
        loss *= np.exp(0.0002 * rng.standard_normal(steps.size))
        parts.append(pd.DataFrame({"run": form.split(":")[0], "step": steps, "lr": schedule.rates[steps - 1], "loss": loss}))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.slow
def test_the_memory_that_made_the_curves_is_found() -> None:
    compared = compare_memories(table(), "annealing", memories=(0.9, 0.98, 0.999), warmup=20)
    assert compared["memory"].tolist()[0] == 0.98
    assert compared["steps"].tolist()[0] == pytest.approx(50)
    assert compared["left_out"].is_monotonic_increasing
    # .02% of noise, and a schedule that is read from every twentieth rate.
    assert compared["fitted"].iloc[0] < 0.0006
    assert compared["left_out"].iloc[1] > 3 * compared["left_out"].iloc[0]


@pytest.mark.slow
def test_one_run_whose_rate_changes_is_not_left_out() -> None:
    two = table().query("run != 'cosine'")
    compared = compare_memories(two, "annealing", memories=(0.999, 0.98), warmup=20)
    assert compared["left_out"].isna().all()
    assert compared["memory"].tolist() == [0.98, 0.999]
    assert compared["fitted"].is_monotonic_increasing


def exact(*forms: str, **off: float) -> pd.DataFrame:
    """Runs of a law of annealing without noise, named by their forms, of which some are off by a factor; one begins at step 0."""
    steps, parts = np.arange(60, 901, 60), [pd.DataFrame({"run": [forms[0]], "S1": 0.0, "S2": 0.0, "loss": 11.0})]
    for form in forms:
        of = areas(parse_schedule(next(text for text in FORMS if text.startswith(form.rstrip("2")))), memory=0.98)
        s1, s2 = of.S1[steps - 1], of.S2[steps - 1]
        loss = (2.0 + 0.4 * s1**-0.5 - 3.0 * s2) * np.exp(off.get(form, 0.0))
        parts.append(pd.DataFrame({"run": form, "S1": s1, "S2": s2, "loss": loss}))
    return pd.concat(parts, ignore_index=True).assign(lr_peak=1e-3)


@pytest.mark.slow
def test_a_run_that_is_left_out_errs_by_all_that_it_deviates(monkeypatch: pytest.MonkeyPatch) -> None:
    law = load_law("annealing")
    squares = left_out_squares(exact("constant", "wsd", "cosine", cosine=0.03), law)
    assert squares["cosine"] == pytest.approx(0.03**2, rel=1e-2)
    monkeypatch.setattr("bayeslaw.dynamics.memory.FOLDS", 2)
    # Two runs are left out together, never both that tell of changes.
    for order in (("wsd", "constant", "cosine", "constant2"), ("constant", "wsd", "constant2", "cosine")):
        assert sorted(left_out_squares(exact(*order), law).index) == ["constant", "constant2", "cosine", "wsd"]


def test_laws_without_the_area_and_runs_at_one_rate_are_refused() -> None:
    with fails("no-annealing-area", "chinchilla", "annealing"):
        compare_memories(table(), "chinchilla", warmup=20)
    with fails("no-memory"):
        compare_memories(table(), card_folder() / "annealing.toml", memories=[], warmup=20)
    with fails("same-rate", "in none of the runs"):
        compare_memories(table(), "annealing", where="run == 'constant'", warmup=20)


def with_memory(memory: float | None) -> Fit:
    fit, _ = setting()
    return fit if memory is None else replace(fit, info={**fit.info, "memory": memory})


def test_the_memory_of_a_fit_is_taken_and_another_refused() -> None:
    known, unknown = with_memory(0.98), with_memory(None)
    assert memory_of([unknown]) == 0.999
    assert memory_of([unknown], 0.9) == 0.9
    assert memory_of([known]) == memory_of([known], 0.98) == memory_of([unknown, known]) == 0.98
    with fails("other-memory", "memory 0.98", "have 0.999"):
        memory_of([known], 0.999)
    with fails("other-memory", "0.9 and 0.98"):
        memory_of([known, with_memory(0.9)])
    with fails("other-memory", "memory 0.98"):
        watch(known, setting()[1], "now", WHOLE)
    recipe = Recipe("constant:steps=2000,peak=2e-4", "constant:steps=1000,peak=2e-4")
    with fails("other-memory"):
        turning_point(known, recipe)
    with fails("other-memory"):
        balance(known, unknown, recipe, {"peak": (1e-5, 1e-3)}, weight=0.5)


def test_areas_that_count_tokens_and_steps_are_told_apart() -> None:
    """A fit of an older version doesn't say which: curves of either go with it, as before."""
    fit, curves = setting()
    by_token = replace(curves, reference_batch=1000.0)
    steps, tokens = (replace(fit, info={**fit.info, "reference_batch": value}) for value in (0.0, 1000.0))
    for known, other in ((steps, by_token), (tokens, curves), (tokens, replace(curves, reference_batch=2000.0))):
        with fails("other-batch", "1,000 tokens"):
            require_same_areas([known], other)
    for known, own in ((steps, curves), (tokens, by_token), (fit, curves), (fit, by_token)):
        require_same_areas([known], own)
    with fails("other-batch", "1,000 tokens"):  # before the training, not at each of its losses
        RunForecasts(tokens, WHOLE)
    RunForecasts(steps, WHOLE)


@pytest.mark.slow
def test_the_command_names_the_memory_and_writes_the_table(command: Command, folder: Path) -> None:
    table().to_csv("curves.csv", index=False)
    done = command(
        "dynamics", "memory", "curves.csv", "--law", "annealing", "--warmup", 20, "--memories", "0.98,0.999", "-o", "memories.csv"
    )
    assert done.status == 0, done.err
    assert "--memory 0.98 forecasts left-out runs best" in done.out
    assert "end of the values" in done.out
    assert pd.read_csv("memories.csv")["memory"].tolist() == [0.98, 0.999]
    wrong = command("dynamics", "memory", "curves.csv", "--law", "annealing", "--memories", "much")
    refused(wrong, "'much' is not a number")
