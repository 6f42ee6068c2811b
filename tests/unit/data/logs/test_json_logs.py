"""JSON lines, tokens logged apart from losses, and folders of logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bayeslaw.core.errors import TableError
from bayeslaw.data.logs.api import import_runs
from tests import events
from tests.errors import fails, faults
from tests.logs import cells, lines, noted, state, written

# --- JSON lines ------------------------------------------------------------------------------------------------------------


def test_json_lines_with_missing_values_null_and_nan(tmp_path: Path) -> None:
    lines = [
        '{"run": "A", "step": 100, "eval": {"loss": 3.0}, "lr": 3e-4, "tokens_seen": 1e6}',
        '{"run": "A", "step": 200, "eval": {"loss": null}, "lr": 2e-4, "tokens_seen": 2e6}',
        '{"run": "A", "step": 300, "train_loss": 2.5}',
        "",
        '{"run": "A", "step": 400, "eval": {"loss": NaN}, "tokens_seen": 4e6}',
    ]
    path = written(tmp_path, "\n".join(lines), "log.jsonl")
    with faults(("diverged", 4, "loss")):
        import_runs(path)
    imported = import_runs(path, nan="drop")
    assert cells(imported, "run", "step", "loss", "lr", "D") == [["A", 100, 3.0, 3e-4, 1e6]]
    assert noted(imported, "1 entry without")
    assert noted(imported, "1 step without")


def test_a_list_of_pairs_is_no_loss_of_one_row(tmp_path: Path) -> None:
    path = lines(tmp_path, {"config": {"max_steps": 300}, "eval_loss": [[100, 7.113935], [200, 6.62796]]})
    with fails("not-a-number", "is a list of pairs", '{"step": 100, "loss": 7.113935}', kind=TableError):
        import_runs(path)


def test_texts_in_json_lines_have_the_decimal_sign_that_is_given(tmp_path: Path) -> None:
    path = lines(tmp_path, {"step": 1, "val_loss": "3,105"}, {"step": 2, "val_loss": 2.5})
    assert cells(import_runs(path, map={"decimal": ","}), "loss") == [[3.105], [2.5]]
    with fails("not-a-number", 'decimal = ","'):
        import_runs(lines(tmp_path, {"step": 1, "val_loss": "3,1"}))


def test_json_lines_that_are_cut_off_are_refused(tmp_path: Path) -> None:
    with faults(("unreadable-line", 2, "")):
        import_runs(written(tmp_path, '{"step": 1, "val_loss": 3.0}\n{"step": 2, "val_lo', "log.jsonl"))
    with faults(("unreadable-line", 1, "")):
        import_runs(written(tmp_path, '{"step": 1, "step": 2, "val_loss": 3.0}\n{"step": 3, "val_loss": 3.0}', "twice.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("column", ["split", "phase"])
def test_losses_of_training_and_of_validation_are_not_mixed(tmp_path: Path, column: str) -> None:
    log = [{"step": s, column: w, "loss": v} for s, w, v in ((100, "train", 3.3), (149, "Val", 3.6), (200, "train", 3.1))]
    path = lines(tmp_path, *log)
    with fails("several-splits", f"'{column}'", "train and of Val", "--domain Val"):
        import_runs(path)
    imported = import_runs(path, map={"columns": {"domain": column}}, domains=["Val"])
    assert cells(imported, "step", "domain", "loss") == [[149, "Val", 3.6]]
    assert len(import_runs(lines(tmp_path, *log[::2], name="train.jsonl")).runs) == 2  # of one alone
    with fails("several-splits", "val.jsonl"):
        import_runs([lines(tmp_path, log[0], name="train.jsonl"), lines(tmp_path, log[1], name="val.jsonl")])
    # losses in other columns, and other words, do not matter
    named = [{"step": 1, column: "train", "train_loss": 3.3}, {"step": 1, column: "val", "val_loss": 3.6, "betas": [0.9]}]
    assert cells(import_runs(lines(tmp_path, *named)), "loss") == [[3.6]]
    assert (
        len(import_runs(lines(tmp_path, *({"step": s, column: w, "loss": 3.0} for s, w in ((1, "warm"), (2, "train"))))).runs) == 2
    )


@pytest.mark.slow
def test_a_table_dumped_as_json_with_nan_in_its_gaps(tmp_path: Path) -> None:
    table = pd.DataFrame([{"step": s} | more for s in (100, 200) for more in ({"lr": 1e-4}, {"eval_loss": 3.0})])
    path = lines(tmp_path, *({str(k): v for k, v in row.items()} for row in table.to_dict("records")))
    assert path.read_text(encoding="utf-8").count("NaN") == 4
    for resumed in (None, "last", "first"):
        imported = import_runs(path, resumed=resumed)
        assert cells(imported, "step", "loss", "lr") == [[100, 3.0, 1e-4], [200, 3.0, 1e-4]]
        assert noted(imported, "2 losses")
    other = [{"run": run, "step": 1, "eval_loss": 3.0} for run in ("a", float("nan"))]
    with fails("missing-run"):
        import_runs(lines(tmp_path, *other))


def test_nan_beside_a_finite_loss_of_another_domain_is_refused(tmp_path: Path) -> None:
    log = [{"step": 1, "val_domain": d, "eval_loss": v} for d, v in (("web", float("nan")), ("code", 3.0))]
    with fails("diverged"):
        import_runs(lines(tmp_path, *log))


def test_an_object_over_several_lines(tmp_path: Path) -> None:
    summary = {"val/loss": 3.25, "_step": 500, "lr": 1e-4, "_wandb": {"runtime": 60}}
    for indent in (None, 2):
        path = written(tmp_path, json.dumps(summary, indent=indent), "wandb-summary.json")
        assert cells(import_runs(path), "run", "step", "loss", "lr") == [["wandb-summary", 500, 3.25, 1e-4]]


def test_an_object_of_runs_has_an_object_with_the_size_of_each(tmp_path: Path) -> None:
    by_run: dict[str, dict[str, Any]] = {
        "tiny": {"n_params": 1e6, "final_val_loss": 3.5},
        "small": {"n_params": 3e6, "final_val_loss": 3.0},
    }
    path = written(tmp_path, json.dumps(by_run, indent=2), "results.json")
    assert cells(import_runs(path), "run", "N", "loss") == [["tiny", 1e6, 3.5], ["small", 3e6, 3.0]]
    named = {key: of | {"run_name": f"sp_{key}"} for key, of in by_run.items()}
    path = written(tmp_path, json.dumps(named, indent=2), "named.json")
    assert cells(import_runs(path), "run", "N") == [["sp_tiny", 1e6], ["sp_small", 3e6]]
    domains = written(tmp_path, json.dumps({"web": {"val_loss": 3.0}, "code": {"val_loss": 2.0}}, indent=2), "domains.json")
    assert cells(import_runs(domains), "domain", "loss") == [["web", 3.0], ["code", 2.0]]


def test_values_that_a_run_logs_once_hold_for_all_its_entries(tmp_path: Path) -> None:
    start: dict[str, Any] = {"event": "run_start", "n_params": 1e6, "config": {"tokens_per_iter": 1000, "learning_rate": 1.0}}
    log: list[dict[str, Any]] = [
        start,
        *({"iter": s, "lr": 1e-4, "val_loss": v} for s, v in ((10, 3.2), (20, 3.1))),
        {"event": "end", "iterations": 20},
    ]
    imported = import_runs(lines(tmp_path, *log))
    assert cells(imported, "step", "loss", "N", "D", "lr") == [[10, 3.2, 1e6, 1e4, 1e-4], [20, 3.1, 1e6, 2e4, 1e-4]]
    assert noted(imported, "N is logged at some entries of 1 run")
    runs = [{"run": r, "step": 1, "val_loss": 3.0} | ({"N": n} if n else {}) for r, n in (("a", 1e6), ("a", 0), ("b", 0))]
    imported = import_runs(lines(tmp_path, runs[0], runs[1] | {"step": 2}, runs[2]))
    assert cells(imported, "run", "N") == [["a", 1e6], ["a", 1e6], ["b", None]]


def test_a_rate_of_nan_in_events_is_missing(tmp_path: Path) -> None:
    log = [events.event(1, 1.0, events.simple("eval/loss", 3.5), events.simple("lr", float("nan")))]
    assert "lr" not in import_runs(events.write(tmp_path / "x.tfevents", log)).runs.frame


@pytest.mark.slow
def test_integers_beyond_any_float_are_refused(tmp_path: Path) -> None:
    with fails("diverged", "step 1"):
        import_runs(lines(tmp_path, {"step": 1, "eval_loss": 10**400}))
    with faults(("not-a-whole-number", 1, "step")):
        import_runs(lines(tmp_path, {"step": 10**400, "eval_loss": 3.0}))
    history = {"log_history": [{"step": 10**400, "eval_loss": 3.0}]}
    with faults(("not-a-whole-number", 1, "step")):
        import_runs(written(tmp_path, json.dumps(history), "trainer_state.json"))


def test_runs_may_have_numbers_for_names(tmp_path: Path) -> None:
    log = [{"run_id": run, "step": 100, "eval_loss": 3.0} for run in (20240115.0, 20240116.0, 0.1234567, 7)]
    imported = import_runs(lines(tmp_path, *log))
    assert cells(imported, "run") == [["20240115"], ["20240116"], ["0.1234567"], ["7"]]


def test_half_a_character_is_refused(tmp_path: Path) -> None:
    for entry in ({"run": "\ud800", "step": 1, "eval_loss": 3.0}, {"run": "é", "eval/\ud800_loss": 3.0}):
        with faults(("half-a-character", 2, ascii(next(k for k, v in entry.items() if "\ud800" in f"{k}{v}")))) as listed:
            import_runs(lines(tmp_path, {"run": "ü", "step": 1, "eval_loss": 3.0}, entry))
        str(listed[0]).encode()  # can be printed


# --- tokens logged apart from losses ----------------------------------------------------------------------------------------


def apart(step: int, loss: float, **more: Any) -> list[dict[str, Any]]:
    """A step at which the tokens are logged by the training and the loss by the evaluation."""
    return [{"step": step, "train_loss": 3.5, "tokens_seen": step * 1e6}, {"step": step, "eval_loss": loss} | more]


@pytest.mark.slow
def test_tokens_are_read_from_entries_without_a_loss(tmp_path: Path) -> None:
    imported = import_runs(lines(tmp_path, *apart(100, 3.4), {"step": 150, "tokens_seen": 1.5e8}, *apart(200, 3.2)))
    assert cells(imported, "step", "loss", "D") == [[100, 3.4, 1e8], [200, 3.2, 2e8]]
    assert noted(imported, "1 entry without")
    assert noted(imported, "2 entries combined")
    of_domains = lines(
        tmp_path,
        *apart(100, 3.4, val_domain="web"), {"step": 100, "eval_loss": 2.0, "val_domain": "code"}, {"step": 100, "lr": 1e-4},
    )  # fmt: skip
    imported = import_runs(of_domains)
    assert cells(imported, "step", "domain", "loss", "D") == [[100, "web", 3.4, 1e8], [100, "code", 2.0, 1e8]]


def test_tokens_of_a_resumed_run_follow_its_losses(tmp_path: Path) -> None:
    entries = [*apart(100, 3.4), *apart(200, 3.2), *apart(250, 3.1), *apart(200, 3.3), *apart(300, 3.0)]
    imported = import_runs(lines(tmp_path, *entries), resumed="last")
    assert cells(imported, "step", "loss", "D") == [[100, 3.4, 1e8], [200, 3.3, 2e8], [300, 3.0, 3e8]]


def test_tokens_are_read_from_events_of_their_own(tmp_path: Path) -> None:
    log = []
    for s in (100, 200):
        log += [events.event(s, float(s), events.simple(t, v)) for t, v in (("eval/loss", 3.5), ("train/tokens_seen", s * 2.0**20))]
    imported = import_runs(events.write(tmp_path / "run" / "x.tfevents", log), tokens_per_step=2**20)
    assert cells(imported, "step", "loss", "D") == [[100, 3.5, 100 * 2**20], [200, 3.5, 200 * 2**20]]


@pytest.mark.slow
def test_tokens_are_logged_or_computed_from_steps(tmp_path: Path) -> None:
    log = [{"run": "a", "step": s, "eval_loss": 3.0} | ({"tokens_seen": s * 1e6} if s < 300 else {}) for s in (100, 200, 300)]
    path = lines(tmp_path, *log, {"run": "b", "step": 100, "eval_loss": 3.1})
    imported = import_runs(path, tokens_per_step=1e6)
    assert cells(imported, "run", "D") == [["a", 1e8], ["a", 2e8], ["a", 3e8], ["b", 1e8]]
    assert noted(imported, "D = step x tokens_per_step in 2 rows", "logged in 2 rows")
    assert noted(import_runs(path), "no tokens in 2 rows")
    with fails("tokens-differ", "'a'", "D 1e+08 at step 100", "2e+08"):
        import_runs(path, tokens_per_step=2e6)
    never = lines(tmp_path, {"step": 90, "tokens_seen": 9e7}, {"step": 100, "eval_loss": 3.0}, name="never.jsonl")
    assert cells(import_runs(never, tokens_per_step=1e6), "D") == [[1e8]]
    assert noted(import_runs(never), "no tokens", "no step with a loss")


@pytest.mark.slow
def test_tokens_are_not_computed_from_a_batch_that_changes(tmp_path: Path) -> None:
    text = "run,step,val_loss,tokens_per_step\na,1000,3.5,250000\na,2000,3.2,500000\nb,2000,3.2,500000\n"
    with faults(("batch-changes", 1, "batch")) as listed:
        import_runs(written(tmp_path, text))
    assert "'a' has batches of 250000 and 500000 tokens" in listed[0].problem
    curves = import_runs(written(tmp_path, text), curves=True)  # areas per step need no tokens
    assert cells(curves, "run", "step", "loss") == [["a", 1000, 3.5], ["a", 2000, 3.2], ["b", 2000, 3.2]]
    assert curves.runs.frame["D"].isna().tolist() == [True, True, False]
    assert noted(curves, "the batch changes in 1 run (a), which have no batch and no D")
    # also where no loss is logged at the other batch
    ramp = [{"step": s, "tokens_per_step": 250000} for s in (1, 2)] + [{"step": 10, "val_loss": 3.0, "tokens_per_step": 500000}]
    with fails("batch-changes"):
        import_runs(lines(tmp_path, *ramp))
    with_tokens = "run,step,val_loss,tokens_per_step,tokens\na,1000,3.5,250000,2.5e8\na,2000,3.2,500000,7.5e8\n"
    assert cells(import_runs(written(tmp_path, with_tokens)), "D") == [[2.5e8], [7.5e8]]


# --- folders -----------------------------------------------------------------------------------------------------------------


def test_a_folder_must_hold_logs_of_one_kind(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with fails("no-logs", "empty"):
        import_runs(tmp_path / "empty")
    (tmp_path / "empty" / "run-a-tag-eval_loss.csv").touch()
    with fails("no-logs", f"name its files, such as {tmp_path / 'empty'}/*.csv."):
        import_runs(tmp_path / "empty")
    with fails("no-such-file", "none"):
        import_runs(tmp_path / "none")
    state(tmp_path / "both", range(1, 3))
    events.write(tmp_path / "both" / "x.tfevents", [events.event(1, 1.0, events.simple("eval/loss", 3.0))])
    with fails("ambiguous-folder", "tensorboard or trainer", "--from (of watch --kind, kind=)"):
        import_runs(tmp_path / "both")
    assert len(import_runs(tmp_path / "both", kind="tensorboard").runs) == 1
    path = written(tmp_path, "run,step,eval_loss\na,1,3.0\n")
    with fails("file-twice", path):
        import_runs([path, path])


def test_a_note_on_several_logs_is_given_once(tmp_path: Path) -> None:
    for i in range(4):
        written(tmp_path, f"step,val_loss,{'replay_pct' if i else 'replay'}\n100,3.{i},0\n", f"run-{i}.csv")
    imported = import_runs([tmp_path / f"run-{i}.csv" for i in range(4)])
    assert sum("losses are val_loss" in note for note in imported.notes) == 1
    assert noted(imported, "4 logs: losses are val_loss")
    assert noted(imported, "3 of 4 logs (run-1.csv, run-2.csv, run-3.csv): r = replay_pct x 0.01")
    assert noted(imported, "run-0.csv: r = replay")


@pytest.mark.slow
def test_files_of_one_name_in_several_folders_are_several_runs(tmp_path: Path) -> None:
    for folder, loss in (("small", 3.5), ("large", 3.1)):
        (tmp_path / "x" / folder / "logs").mkdir(parents=True)
        written(tmp_path / "x" / folder, f"step,val_loss\n100,{loss}\n", "log.csv")
        lines(tmp_path / "x" / folder / "logs", {"step": 100, "val_loss": loss})
    imported = import_runs([tmp_path / "x" / f / "log.csv" for f in ("small", "large")])
    assert cells(imported, "run", "loss") == [["small/log", 3.5], ["large/log", 3.1]]
    assert noted(imported, "2 logs: no column names runs", "named after its file")
    # as many folders as make their names differ
    deep = [tmp_path / "x" / f / "logs" / "log.jsonl" for f in ("small", "large")]
    assert cells(import_runs(deep), "run") == [["small/logs/log"], ["large/logs/log"]]
    # parts of one run are joined by their names
    rename = {"rename": {"small/log": "a", "large/log": "a"}}
    with fails("two-values-of-one-step", "large/log.csv", "'a'", "3.1 at step 100 and 3.5 in row 1 of small/log.csv"):
        import_runs([tmp_path / "x" / f / "log.csv" for f in ("small", "large")], map=rename)
    # files of different names keep their names
    both = [lines(tmp_path, {"step": 100, "val_loss": 3.0}), lines(tmp_path, {"step": 100, "lr": 1e-4}, name="log.json")]
    assert cells(import_runs(both), "run", "lr") == [["log", 1e-4]]
    written(tmp_path / "x" / "large", "step,val_loss\n100,3.0,1\n", "log.csv")
    with pytest.raises(TableError, match=r"^large/log.csv"):
        import_runs([tmp_path / "x" / f / "log.csv" for f in ("small", "large")])


@pytest.mark.slow
def test_event_files_and_histories_of_one_name_are_several_runs(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        events.write(tmp_path / folder / "tb" / "x.tfevents", [events.event(1, 1.0, events.simple("eval/loss", 3.0))])
        state(tmp_path / folder / "run" / "checkpoint-2", range(1, 3))
        state(tmp_path / folder / "run" / "checkpoint-3", range(1, 4))
    assert cells(import_runs([tmp_path / "one" / "tb", tmp_path / "two" / "tb"]), "run") == [["one/tb"], ["two/tb"]]
    imported = import_runs([tmp_path / "one" / "run", tmp_path / "two" / "run"])
    assert imported.runs.frame["run"].unique().tolist() == ["one/run", "two/run"]
    assert len(imported.runs) == 12


def test_steps_that_go_back_to_other_steps_are_a_resumed_run(tmp_path: Path) -> None:
    """The run went on from step 300 at another rate, and no step was logged twice: both trainings would be mixed."""
    lines = [{"step": s, "lr": 1e-3, "eval_loss": 4 - s / 1000} for s in range(100, 501, 100)]
    lines += [{"step": s, "lr": 5e-4, "eval_loss": 3.9 - s / 1000} for s in range(350, 751, 100)]
    path = tmp_path / "resumed.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    with faults(("step-goes-back", 6, "step")) as listed:
        import_runs(path, curves=True)
    assert "--resumed last" in listed[0].suggestion
    kept = import_runs(path, curves=True, resumed="last").runs.frame
    assert kept["step"].tolist() == [100, 200, 300, 350, 450, 550, 650, 750]
    late = [lines[i] for i in (0, 1, 2, 4, 3)]  # one evaluation took longer
    twice = [*lines[:3], lines[4], {"step": 600, "lr": 1e-3, "eval_loss": 3.4}, lines[3]]
    by_text = [{"step": s, "lr": 1e-3, "eval_loss": 4 - s / 1e4} for s in sorted(range(100, 1600, 100), key=str)]
    for entries in (late, twice, by_text, lines[5:] + lines[:3]):
        path.write_text("\n".join(map(json.dumps, entries)))
        assert import_runs(path, curves=True).runs.frame["step"].is_monotonic_increasing


def test_losses_beside_norms_of_gradients_are_noted_as_those_of_training_batches(tmp_path: Path) -> None:
    trained = [{"step": s, "loss": 3.5 - s / 1000, "grad_norm": 1.2} for s in (10, 20, 30)]
    beside = [{"step": s, "loss": 3.4 - s / 1000} for s in (10, 20, 30)]
    told = "loss stands in the rows of grad_norm"
    for rows, is_noted in ((trained, True), (beside, False), ([*beside, {"step": 30, "grad_norm": 1.2}], False)):
        path = written(tmp_path, "\n".join(json.dumps(row) for row in rows), name="log.jsonl")
        assert noted(import_runs(path, N=1e8, tokens_per_step=1e6), told) == is_noted
    named = [{"step": s, "eval/xent": 3.5 - s / 1000, "train/grad_norm": 1.2} for s in (10, 20, 30)]
    path = written(tmp_path, "\n".join(json.dumps(row) for row in named), name="log.jsonl")
    assert not noted(import_runs(path, N=1e8, tokens_per_step=1e6, losses="eval/xent"), "stands in the rows of grad_norm")
