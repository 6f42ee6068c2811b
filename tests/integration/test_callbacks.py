"""Callbacks of training programs: in a training that is made up, and in real ones where the packages are there."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bayeslaw.data.logs.api import import_runs
from bayeslaw.dynamics.callbacks import RunForecasts, lightning_callback, trainer_callback
from bayeslaw.schedules.schedule import constant
from tests.errors import fails
from tests.unit.dynamics.test_monitor import WHOLE, table, without
from tests.values import present

NAMES = {f"forecast/{name}{end}" for name in ("final", "gain") for end in ("", "_eti90_lb", "_eti90_ub")}
NAMES |= {"forecast/left_band", "forecast/reliable", "forecast/diverged"}


def run(forecasts: RunForecasts, last: int = 2000) -> list[dict[str, float]]:
    own = table().query("run == 'now'")
    return [forecasts.add(int(s), float(v)) for s, v in zip(own["step"], own["loss"], strict=True) if s <= last]


def test_every_loss_has_a_forecast() -> None:
    forecasts = RunForecasts(without()[0], WHOLE, target=3.8)
    numbers = run(forecasts, 500)
    assert [set(each) for each in numbers] == [NAMES | {"forecast/reached"}] * 4
    assert all(each["forecast/final_eti90_lb"] < each["forecast/final"] < each["forecast/final_eti90_ub"] for each in numbers)
    assert present(forecasts.watched).step == 500
    assert forecasts.stop == ""  # nothing was asked to stop
    assert forecasts.add(4000, 3.5) == {}  # nothing is ahead
    with pytest.warns(RuntimeWarning, match="4,001 lies after the last of its schedule, 4,000"):
        assert forecasts.add(4001, 3.5) == {}
    assert set(forecasts.add(400, 3.9)) == NAMES | {"forecast/reached"}  # a run that was resumed
    assert present(forecasts.watched).step == 400


def test_what_is_no_number_ends_no_training_and_a_run_may_be_numbered() -> None:
    forecasts = RunForecasts(without()[0], WHOLE, run=3)
    for step, loss in (("x", 3.8), (500, "high"), (500, None)):
        with pytest.warns(RuntimeWarning, match="is no number"):
            assert forecasts.add(step, loss) == {}  # type: ignore[arg-type]
    for part in (500.5, math.nan, math.inf):  # of an epoch, such as Trainer logs beside the step
        with pytest.warns(RuntimeWarning, match="is no whole number"):
            assert forecasts.add(part, 4.2) == {}  # type: ignore[arg-type]
    assert set(forecasts.add(500.0, "4.2")) == NAMES  # type: ignore[arg-type]


def test_a_training_is_stopped_only_if_asked() -> None:
    fit, _ = without()
    hopeless, reached = (
        RunForecasts(fit, WHOLE, target=2.5, stop_hopeless=0.01),
        RunForecasts(fit, WHOLE, target=9.0, stop_reached=0.99),
    )
    assert (hopeless.stop, reached.stop) == ("", "")
    run(hopeless, 300)
    run(reached, 300)
    assert "only" in hopeless.stop
    assert "at the target 9" in reached.stop
    open_ = RunForecasts(fit, WHOLE, target=3.57, stop_hopeless=0.01, stop_reached=0.99)
    run(open_, 300)
    assert open_.stop == ""
    with fails("no-target"):
        RunForecasts(fit, WHOLE, stop_hopeless=0.01)


@pytest.mark.parametrize(
    ("given", "code", "named"),
    [
        ({"ci_prob": 90}, "not-a-probability", "write 0.9"),
        ({"stop_reached": 99}, "not-a-probability", "stop_reached"),
        ({"stop_hopeless": -0.1}, "not-a-probability", "stop_hopeless"),
        ({"target": -1.0}, "bad-target", "-1"),
        ({"seed": -1}, "not-a-whole-number", "seed"),
    ],
)
def test_arguments_are_refused_before_the_training(given: dict[str, Any], code: str, named: str) -> None:
    with fails(code, named):
        RunForecasts(without()[0], WHOLE, **{"target": 3.8, **given})


def test_a_training_goes_on_without_a_forecast() -> None:
    forecasts = RunForecasts(without()[0], WHOLE)
    with pytest.warns(RuntimeWarning, match="No forecast"):
        assert forecasts.add(100, math.nan) == {}
    numbers = forecasts.add(200, 4.0)
    assert set(numbers) == NAMES
    assert numbers["forecast/diverged"] == 0
    with pytest.warns(RuntimeWarning, match="No forecast .* its loss at step 250 is 0"):
        assert forecasts.add(250, 0.0) == {}


def test_a_run_that_has_diverged_says_so() -> None:
    forecasts = RunForecasts(without()[0], WHOLE)
    before = forecasts.add(200, 4.0)
    with pytest.warns(RuntimeWarning, match="The loss at step 300 is inf"):
        after = forecasts.add(300, math.inf)
    assert after == before | {"forecast/diverged": 1.0}
    assert forecasts.add(400, 3.9)["forecast/diverged"] == 0


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    forecasts = RunForecasts(without()[0], WHOLE)
    for package, make in (("transformers", trainer_callback), ("lightning", lightning_callback)):
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.setitem(sys.modules, f"{package}.pytorch", None)
        with fails("not-installed", package, f"bayeslaw[{'trainer' if package == 'transformers' else package}]"):
            make(forecasts)


def test_a_training_whose_loss_has_another_name_is_warned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(TrainerCallback=object))
    state = SimpleNamespace(global_step=200, log_history=[{}])
    logs = [{"loss": 4.2}, {"eval_web_loss": 4.0}, {"eval_code_loss": 3.0}, {"loss": 4.1}]

    def log(callback: Any, times: int) -> None:
        for each in logs * times:
            callback.on_log(None, state, None, logs=dict(each))

    callback = trainer_callback(RunForecasts(without()[0], WHOLE))
    log(callback, 1)  # of one evaluation the loss that is expected may be the next
    with pytest.warns(RuntimeWarning, match="logs no 'eval_loss'; the names logged are eval_code_loss, eval_web_loss") as caught:
        log(callback, 2)
    assert len(caught) == 1
    log(trainer_callback(RunForecasts(without()[0], WHOLE), "eval_code_loss"), 2)


def test_a_module_whose_loss_has_another_name_is_warned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightning.pytorch", SimpleNamespace(Callback=object))
    monkeypatch.setitem(sys.modules, "lightning", SimpleNamespace(pytorch=sys.modules["lightning.pytorch"]))
    trainer = SimpleNamespace(sanity_checking=False, global_step=200, callback_metrics={"val/loss": 4.0}, optimizers=[])
    callback = lightning_callback(RunForecasts(without()[0], WHOLE))
    with pytest.warns(RuntimeWarning, match=r"logs no 'val_loss'.*loss='val/loss'.*validation_step") as caught:
        callback.on_validation_epoch_end(trainer, None)
    assert len(caught) == 1
    callback.on_validation_epoch_end(trainer, None)


# --- real packages ------------------------------------------------------------------------------------------------------------

STEPS = 12


def forecasts_of(**options: Any) -> RunForecasts:
    return RunForecasts(without()[0], constant(4000, 2e-4), **options)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("stopping", [False, True])
def test_trainer(tmp_path: Path, stopping: bool) -> None:
    torch = pytest.importorskip("torch", reason="the callback's test trains a model with torch")
    transformers = pytest.importorskip("transformers", reason="it is a callback of transformers' Trainer")
    pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate")
    options = {"target": 0.1, "stop_hopeless": 0.5} if stopping else {}
    forecasts = forecasts_of(**options)
    forecasts.follower.schedule = constant(400, 2e-4)
    callback, seen = trainer_callback(forecasts), list[dict[str, Any]]()

    class Reporter(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            seen.append(dict(logs))

    rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 16, (64, 8), generator=torch.Generator().manual_seed(0))]
    config = transformers.GPT2Config(
        vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0, use_cache=False
    )
    arguments = transformers.TrainingArguments(
        str(tmp_path), max_steps=STEPS, per_device_train_batch_size=4, eval_strategy="steps", eval_steps=4,
        logging_steps=4, save_steps=STEPS,
        learning_rate=2e-4, lr_scheduler_type="constant", report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    trainer = transformers.Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:16], callbacks=[Reporter(), callback])
    callback.first_in(trainer)
    trainer.train()
    evaluated = [row for row in trainer.state.log_history if "eval_loss" in row]
    assert [row["step"] for row in evaluated] == ([4] if stopping else [4, 8, 12])
    assert all(set(row) >= NAMES for row in evaluated)
    assert sum("forecast/final" in logs for logs in seen) == len(evaluated)
    if not stopping:  # what was logged is read as before
        runs = import_runs(tmp_path / f"checkpoint-{STEPS}" / "trainer_state.json", curves=True).runs.frame
        assert runs["loss"].notna().sum() >= 2


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("stopping", [False, True])
def test_lightning(tmp_path: Path, stopping: bool) -> None:
    torch = pytest.importorskip("torch", reason="the callback's test trains a model with torch")
    lightning = pytest.importorskip("lightning.pytorch", reason="it is a callback of lightning")
    options = {"target": 0.1, "stop_hopeless": 0.5} if stopping else {}
    forecasts = forecasts_of(**options)
    logged: list[dict[str, float]] = []

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            return self.layer(batch[0]).square().mean()

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("val_loss", 3.0 + self.layer(batch[0]).square().mean())

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=2e-4)

    class Logger(lightning.loggers.logger.DummyLogger):  # type: ignore[misc, name-defined]
        def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
            logged.append({**metrics, "step": float(step or 0)})

    rows = torch.utils.data.TensorDataset(torch.ones(16, 4))
    loader = torch.utils.data.DataLoader(rows, batch_size=4)
    trainer = lightning.Trainer(
        max_epochs=3, accelerator="cpu", logger=Logger(), enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False,
        default_root_dir=tmp_path, callbacks=[lightning_callback(forecasts)],
    )  # fmt: skip
    trainer.fit(Module(), loader, loader)
    told = [metrics for metrics in logged if "forecast/final" in metrics]
    assert all(set(metrics) >= NAMES for metrics in told)
    assert len(told) == (1 if stopping else 3)
    assert trainer.global_step == (4 if stopping else STEPS)
    assert trainer.callback_metrics["forecast/final"] > 0
