"""The command watch: logs of every kind, one look or many, and what happens to a log on the way."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bayeslaw.cli import watch as command_module
from bayeslaw.cli.answer import Answer
from bayeslaw.cli.options import Beginning
from bayeslaw.core.errors import TableError
from bayeslaw.data.logs import growing
from tests import events
from tests.commands import Command, load_from, rejected, unchanged
from tests.dynamics import TARGET as TARGET_VALUES
from tests.dynamics import dynamics_fit
from tests.unit.dynamics.test_monitor import setting, table, without

SCHEDULE = "constant:steps=4000,peak=2e-4,warmup=100"
LIMIT = 2.0  # seconds from a new row to its forecast


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which fits with these names can be loaded, although it has no files of them."""
    stored = {"F.nc": without()[0], "both.nc": setting()[0], "T.nc": dynamics_fit(TARGET_VALUES, size=1200)}

    load_from(stored, tmp_path, monkeypatch)
    return tmp_path


def rows(step: int = 2000) -> pd.DataFrame:
    frame = table()
    return frame[(frame["run"] == "now") & (frame["step"] <= step)]


def as_lines(step: int) -> str:
    return "".join(json.dumps({"step": r.step, "val_loss": r.loss}) + "\n" for r in rows(step).itertuples())


def write(kind: str, folder: Path) -> Path:
    """Write the log of a run as one of the kinds that are imported."""
    own = rows()
    match kind:
        case "jsonl":
            (folder / "now.jsonl").write_text(as_lines(2000), encoding="utf-8")
            return folder / "now.jsonl"
        case "table":
            own.to_csv(folder / "now.csv", index=False)
            return folder / "now.csv"
        case "wandb":
            named = own.rename(columns={"run": "Name", "step": "Step", "loss": "eval/loss", "lr": "train/learning_rate"})
            named.to_csv(folder / "export.csv", index=False)
            return folder / "export.csv"
        case "wide":
            pd.DataFrame({"Step": own["step"], "now - eval/loss": own["loss"]}).to_csv(folder / "chart.csv", index=False)
            return folder / "chart.csv"
        case "trainer":
            history = [{"step": int(r.step), "eval_loss": float(r.loss)} for r in own.itertuples()]  # type: ignore[arg-type]
            path = folder / "now" / "checkpoint-2000" / "trainer_state.json"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps({"log_history": history}), encoding="utf-8")
            return folder / "now"
        case _:
            logged = [events.event(int(r.step), float(r.step), events.simple("eval/loss", float(r.loss))) for r in own.itertuples()]  # type: ignore[arg-type]
            return events.write(folder / "now" / "events.out.tfevents.1", logged).parent


@pytest.mark.parametrize("kind", ["jsonl", "table", "wandb", "wide", "trainer", "events"])
def test_a_log_of_every_kind(command: Command, folder: Path, kind: str) -> None:
    done = command(
        "watch", str(write(kind, folder)), "--fit", "F.nc", "--schedule", SCHEDULE, "--once", "--target", "3.8", "--json"
    )
    assert done.status == 0, done
    result = json.loads(done.out)["results"]
    assert (result["step"], result["end"], result["left_band"], result["reliable"]) == (2000, 4000, None, True)
    final = {row["quantity"]: row for row in result["summary"]}["final"]
    assert final["eti90_lb"] < final["median"] < final["eti90_ub"]
    assert 0 <= result["reached"] <= 1


def test_of_a_folder_with_logs_of_two_kinds_one_is_watched(command: Command, folder: Path) -> None:
    """In `import` the option is --from, which names a run here."""
    write("trainer", folder)
    events.write(folder / "now" / "events.out.tfevents.1", [events.event(100, 1.0, events.simple("eval/loss", 4.0))])
    asked = ("watch", "now", "--fit", "F.nc", "--schedule", SCHEDULE, "--once")
    rejected(command(*asked), "ambiguous-folder", "--kind")
    done = command(*asked, "--kind", "trainer")
    assert done.status == 0, done
    assert "step 2,000 of 4,000" in done.out
    rejected(command(*asked, "--kind", "trainers"), "unknown-option", "'trainers'", "Did you mean 'trainer'?")


def test_one_look_writes_table_and_picture(command: Command, folder: Path) -> None:
    asked = ("watch", str(write("table", folder)), "--fit", "both.nc", "--schedule", SCHEDULE, "--once", "--target", "3.8")
    done = command(*asked, "--plot", "w.png", "-o", "w.csv")
    assert done.status == 0, done
    assert "reached by step 4,000 with probability" in done.out
    assert "still to gain" in done.out
    assert (folder / "w.png").stat().st_size > 10_000
    assert {"step", "run_median", "gain_eti90_ub", "reached"} <= set(pd.read_csv("w.csv"))


def test_an_adaptation_goes_on_from_its_pre_training(command: Command, folder: Path) -> None:
    adaptation = "".join(json.dumps({"step": step, "val_loss": 3.0 - step / 1e5}) + "\n" for step in range(500, 2001, 500))
    (folder / "a.jsonl").write_text(adaptation, encoding="utf-8")
    asked = ("watch", "a.jsonl", "--fit", "T.nc", "--schedule", "cosine:steps=4000,peak=4e-4,warmup=100", "--once")
    pretrain = ("--pretrain", "wsd:steps=8000,peak=2e-4,warmup=200")
    done = command(*asked, *pretrain, "--json")
    assert done.status == 0, done
    ahead = pd.DataFrame(json.loads(done.out)["results"]["table"])
    assert ahead["step"].iloc[-1] == 4000
    rejected(command(*asked, *pretrain, "--open"), "pre-training-not-clear", "--pretrain, --open")


@pytest.mark.parametrize(
    ("options", "code", "value"),
    [
        (("missing.jsonl", "--schedule", SCHEDULE, "--once"), "no-such-file", "missing.jsonl"),
        (("now.jsonl", "--schedule", "constant:steps=50,peak=2e-4", "--once"), "nothing-ahead", "step 50"),
        (("now.jsonl", "--schedule", SCHEDULE, "--once", "--target", "-1"), "bad-target", -1),
        (("now.jsonl", "--schedule", SCHEDULE, "--once", "--run", "nwo"), "unknown-run", "now.jsonl has no run 'nwo'"),
        (("now.jsonl", "--schedule", SCHEDULE, "--once", "--domain", "web"), "unknown-domain", "'web'"),
        (("now.jsonl", "--schedule", SCHEDULE, "--every", "0"), "out-of-range", 0),
        (("now.jsonl", "--schedule", SCHEDULE, "--ci", "90"), "not-a-probability", 90),
        (("now.jsonl", "--schedule", SCHEDULE, "-o", "now.jsonl"), "wrong-ending", ".csv"),
        (("now.csv", "--schedule", SCHEDULE, "-o", "now.csv"), "output-is-input", "now.csv"),
        (("tokens.jsonl", "--schedule", SCHEDULE, "--once"), "no-steps", "--column step=COLUMN"),
        (("now.jsonl", "--schedule", "logged:rates.csv", "-o", "rates.csv"), "output-is-input", "rates.csv"),
        (("now.jsonl", "--schedule", SCHEDULE, "--once", "--warmup", "100"), "option-without-use", "--warmup"),
    ],
)
def test_what_can_not_be_watched_is_refused_and_leaves_no_file(
    command: Command, folder: Path, options: tuple[str, ...], code: str, value: object
) -> None:
    write("jsonl", folder)
    write("table", folder)
    pd.DataFrame({"step": [1, 2000], "lr": [2e-4, 2e-5]}).to_csv("rates.csv", index=False)
    (folder / "tokens.jsonl").write_text('{"tokens": 1e6, "val_loss": 3.1}\n{"tokens": 2e6, "val_loss": 3.0}\n', encoding="utf-8")
    with unchanged(folder):
        rejected(command("watch", *options, "--fit", "F.nc"), code, value)


@pytest.mark.parametrize("once", [("--once",), ()])
def test_a_log_beyond_the_schedule_is_of_a_run_that_has_ended(command: Command, folder: Path, once: tuple[str, ...]) -> None:
    log = write("jsonl", folder)
    last = max(json.loads(line)["step"] for line in log.read_text(encoding="utf-8").splitlines())
    end = last - 150
    done = command("watch", log, "--fit", "F.nc", "--schedule", f"constant:steps={end},peak=2e-4", "--no-refit", *once)
    assert done.status == 0, done
    assert f"has ended at step {end:,}" in done.out
    assert f"the last that was logged before it, at step {last - 200:,}" in done.out
    assert f"the log goes on to step {last:,}" in done.out


def test_a_diverged_run_is_said_so(command: Command, folder: Path) -> None:
    (folder / "d.jsonl").write_text(as_lines(1500) + '{"step": 1600, "val_loss": NaN}\n', encoding="utf-8")
    done = command("watch", "d.jsonl", "--fit", "F.nc", "--schedule", SCHEDULE, "--once", "--json")
    assert done.status == 0, done
    result = json.loads(done.out)
    assert result["results"]["diverged"] is True
    assert result["results"]["step"] == 1500
    assert "HAS DIVERGED" in result["text"][0]


# --- following ----------------------------------------------------------------------------------------------------------------


def following(log: Path, **options: Any) -> Iterator[Answer]:
    given: dict[str, Any] = {"fit": Path("F.nc"), "schedule": SCHEDULE, "every": 0.05, "refit": False, "begin": Beginning()}
    yield from command_module.watch(log, **given | options).updates


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Do something with the log whenever the command has looked at it in vain."""

    def use(action: Callable[[], object]) -> None:
        monkeypatch.setattr("bayeslaw.cli.watch.time.sleep", lambda _: action())

    return use


def test_a_growing_log_is_followed_to_the_end_of_its_schedule(folder: Path, slowly: Callable[[Callable[[], object]], None]) -> None:
    """Not there, half a line, a new loss, two at once, a file that begins anew, the last loss."""
    log, whole = folder / "now.jsonl", table().query("run == 'done'").assign(run="now")
    whole_lines = [
        json.dumps({"step": int(s), "val_loss": float(v)}) + "\n" for s, v in zip(whole["step"], whole["loss"], strict=True)
    ]
    texts = iter([
        "".join(whole_lines[:5]) + whole_lines[5][:9], "".join(whole_lines[:6]), "".join(whole_lines[:8]), "".join(whole_lines[:4]),
        "".join(whole_lines),
    ])  # fmt: skip

    def grow() -> None:
        log.write_text(next(texts), encoding="utf-8")

    slowly(grow)
    answers = list(following(log, target=3.9))
    text = ["\n".join(part for part, _ in answer.parts) for answer in answers]
    assert "waiting" in text[0]
    assert "not there yet" in text[0]
    assert [answer.results.get("step") for answer in answers[1:]] == [600, 700, 900, 500, 4000]
    assert "was replaced, or the run was resumed" in text[4]
    assert "has ended at step 4,000" in text[-1]
    assert "target 3.9 was reached" in text[-1]
    assert "inside" in text[-1]
    assert answers[-1].results["ended"] is True


def test_a_loss_that_is_logged_again_and_a_diverged_run_are_answered(
    folder: Path, slowly: Callable[[Callable[[], object]], None]
) -> None:
    """Neither has a later step with a finite loss."""
    log, lines = folder / "now.jsonl", as_lines(1500)
    again = lines + '{"step": 1500, "val_loss": 3.7}\n'
    texts = iter([lines, again, again + '{"step": 1600, "val_loss": NaN}\n', as_lines(2000)])
    slowly(lambda: log.write_text(next(texts), encoding="utf-8"))
    answers = following(log)
    found = [next(answers) for _ in range(5)]
    assert [answer.results.get("step") for answer in found[1:]] == [1500, 1500, 1500, 2000]
    assert [answer.results.get("diverged") for answer in found[1:]] == [False, False, True, False]
    first, second = (answer.results["summary"] for answer in found[1:3])
    assert second["median"]["loss"] < first["median"]["loss"]


def test_a_log_that_can_not_be_read_ends_the_command_once_nobody_writes_to_it(
    folder: Path, slowly: Callable[[Callable[[], object]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = folder / "now.jsonl"
    log.write_text('{"step": 100, "val_loss": 3.0}\n{"step": oops}\n', encoding="utf-8")
    answers = following(log)
    slowly(lambda: monkeypatch.setattr(growing, "SETTLED", 0.0))
    assert "can't be read yet" in next(answers).parts[0][0]
    with pytest.raises(TableError, match="row 2"):
        next(answers)


def test_half_a_line_of_json_is_waited_for(
    folder: Path, slowly: Callable[[Callable[[], object]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program writes the rest with its next losses, which may take minutes."""
    monkeypatch.setattr(growing, "SETTLED", 0.0)
    log, whole = folder / "now.jsonl", as_lines(1500)
    at = len(as_lines(1000)) + 8
    log.write_text(whole[:at], encoding="utf-8")
    answers = following(log)
    slowly(lambda: log.write_text(whole, encoding="utf-8"))
    assert [next(answers).results["step"] for _ in range(2)] == [1000, 1500]


def test_a_resumed_run_and_what_is_assumed_of_its_rates_are_told(command: Command, folder: Path) -> None:
    lines = as_lines(1000).splitlines(keepends=True)
    again = [line.replace("}", ', "note": 1}') for line in as_lines(1500).splitlines(keepends=True)[len(lines) // 2 :]]
    changed = [json.dumps(json.loads(line) | {"val_loss": json.loads(line)["val_loss"] + 1e-3}) + "\n" for line in again]
    (folder / "now.jsonl").write_text("".join([*lines, *changed]), encoding="utf-8")
    pd.DataFrame({"step": [100, 4000], "lr": [2e-4, 2e-4]}).to_csv("rates.csv", index=False)
    done = command("watch", "now.jsonl", "--fit", "F.nc", "--schedule", "logged:rates.csv", "--once")
    assert done.status == 0, done
    assert "was resumed at step" in done.out
    assert "rates before step 100 are assumed to equal that step's" in done.out


def test_a_new_loss_is_answered_within_two_seconds(folder: Path) -> None:
    """As the command does it, with the time that it sleeps between two looks."""
    log = folder / "now.jsonl"
    log.write_text(as_lines(1000), encoding="utf-8")
    answers = following(log, every=0.5)
    assert next(answers).results["step"] == 1000
    written: list[float] = []

    def later() -> None:
        time.sleep(0.2)
        log.write_text(as_lines(1100), encoding="utf-8")
        written.append(time.monotonic())

    writer = threading.Thread(target=later)
    writer.start()
    assert next(answers).results["step"] == 1100
    took = time.monotonic() - written[0]
    writer.join()
    assert took < LIMIT


def test_every_update_is_one_line_of_json(command: Command, folder: Path, slowly: Callable[[Callable[[], object]], None]) -> None:
    log = folder / "now.jsonl"
    log.write_text(as_lines(1000), encoding="utf-8")
    slowly(lambda: log.write_text(as_lines(2000) + '{"step": 4000, "val_loss": 3.5}\n', encoding="utf-8"))
    done = command("watch", "now.jsonl", "--fit", "F.nc", "--schedule", SCHEDULE, "--json", "--no-refit")
    assert done.status == 0, done
    steps = [json.loads(line)["results"]["step"] for line in done.out.splitlines()]
    assert steps == [1000, 4000]
