"""Imports of logs: an export of each kind, with the defects of real ones, is read correctly or refused by row."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayeslaw.cli.options import LOG_KINDS
from bayeslaw.data.logs.api import import_runs
from bayeslaw.data.logs.mapping import KINDS
from bayeslaw.data.logs.merge import Entries, merged
from bayeslaw.data.logs.tensorboard import masked_crc, records, scalars
from tests import events
from tests.errors import fails, faults
from tests.logs import cells, lines, noted, state, written


def test_help_and_docstring_name_every_kind_of_log() -> None:
    assert ", ".join(KINDS[:-1]) + f" or {KINDS[-1]}" == LOG_KINDS
    assert f"kind : {{{', '.join(map(repr, KINDS))}}}, optional" in str(import_runs.__doc__)


# --- Weights & Biases ----------------------------------------------------------------------------------------------------

CHART = """"Step","big-1 - eval/loss","big-1 - eval/loss__MIN","big-1 - eval/loss__MAX","small - Eval/Loss","small - Eval/Loss__MIN"
"500","3.41","3.41","3.41","3.62","3.62"
"1,000","3.30","3.30","3.30","",""
"1,500","","","","3.45","3.45"
"""


def test_a_chart_with_byte_order_mark_thousands_and_mixed_case(tmp_path: Path) -> None:
    imported = import_runs(written(tmp_path, CHART, encoding="utf-8-sig"), tokens_per_step=1e6, N=1e8)
    assert cells(imported, "run", "step", "loss", "D", "N") == [
        ["big-1", 500, 3.41, 5e8, 1e8], ["big-1", 1000, 3.30, 1e9, 1e8], ["small", 500, 3.62, 5e8, 1e8],
        ["small", 1500, 3.45, 1.5e9, 1e8],
    ]  # fmt: skip
    assert noted(imported, "thousands", "2 cells", "'Step'")
    assert noted(imported, "logger", "(Step)")


def test_a_chart_of_perplexities_is_read_by_its_metric(tmp_path: Path) -> None:
    """The error that asks for the unit suggests this option."""
    path = written(tmp_path, 'Step,"a - eval/perplexity","b - eval/perplexity"\n1000,30,25\n2000,28,24\n')
    imported = import_runs(path, columns={"loss": "eval/perplexity:perplexity"}, N=1e8, tokens_per_step=1e6)
    losses = [("a", 1000, 30), ("b", 1000, 25), ("a", 2000, 28), ("b", 2000, 24)]
    found = {(run, step): loss for run, step, loss in cells(imported, "run", "step", "loss")}
    assert found == {(run, step): pytest.approx(np.log(value)) for run, step, value in losses}


def test_a_chart_in_utf_16_with_semicolons_and_decimal_commas(tmp_path: Path) -> None:
    text = "Step;a - eval/loss\n1.000;3,25\n2.000;3,125\n"
    path = written(tmp_path, text, encoding="utf-16")
    of_losses = (("not-a-number", 1, "eval/loss"), ("ambiguous-number", 2, "eval/loss"))
    with faults(*of_losses, ("ambiguous-number", None, "Step")):
        import_runs(path)
    imported = import_runs(path, map={"decimal": ",", "thousands": "."})
    assert cells(imported, "step", "loss") == [[1000, 3.25], [2000, 3.125]]


@pytest.mark.slow
def test_two_charts_of_one_run_are_joined_by_step(tmp_path: Path) -> None:
    losses = written(
        tmp_path,
        '"train/global_step","a - eval/web_loss","a - eval/code_loss","a - _step"\n100,3.0,2.0,7\n200,2.9,,9\n',
        "losses.csv",
    )
    rates = written(tmp_path, '"train/global_step","a - train/learning_rate"\n100,3e-4\n150,2e-4\n200,1e-4\n', "rates.csv")
    imported = import_runs([losses, rates])
    assert cells(imported, "run", "step", "domain", "loss", "lr") == [
        ["a", 100, "web", 3.0, 3e-4], ["a", 200, "web", 2.9, 1e-4], ["a", 100, "code", 2.0, 3e-4],
    ]  # fmt: skip
    assert noted(imported, "1 evaluation of code")
    assert noted(imported, "1 step without", "--curves")
    assert not noted(imported, "1 column", "_step")  # the logger's steps
    kept = import_runs([losses, rates], curves=True)
    assert cells(kept, "step", "domain", "loss", "lr")[-1] == [150, None, None, 2e-4]
    only = import_runs([losses, rates], domains=["web"])
    assert cells(only, "domain", "loss") == [["web", 3.0], ["web", 2.9]]
    assert noted(only, "1 loss of other domains")
    with fails("unknown-domain", "'wbe'", "web, code"):
        import_runs([losses, rates], domains=["wbe"])


def test_minima_that_differ_from_the_values_are_noted(tmp_path: Path) -> None:
    imported = import_runs(written(tmp_path, '"Step","Group: a - eval/loss","Group: a - eval/loss__MIN"\n1,3.0,2.9\n2,2.9,2.9\n'))
    assert noted(imported, "'Group: a - eval/loss__MIN'", "means")


def test_a_chart_over_time_is_refused(tmp_path: Path) -> None:
    with fails("no-steps", "Relative Time", "Step on the x axis"):
        import_runs(written(tmp_path, '"Relative Time (Process)","a - eval/loss"\n1.5,3.0\n'))


def test_a_chart_over_another_axis_is_no_table_of_domains(tmp_path: Path) -> None:
    path = written(tmp_path, 'epoch,"small - eval/loss","small - eval/loss__MIN","large - eval/loss"\n1,3.5,3.5,3.25\n')
    with fails("no-steps", "epoch", "--column D=COLUMN"):
        import_runs(path)
    imported = import_runs(path, columns={"D": "epoch:6400"})
    assert cells(imported, "run", "D", "loss") == [["small", 6400, 3.5], ["large", 6400, 3.25]]


@pytest.mark.slow
def test_a_column_of_no_run_in_a_chart_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, 'Step,lr,"small - eval/loss","large - eval/loss"\n100,1e-4,3.4,3.1\n200,1e-4,3.2,2.9\n')
    imported = import_runs(path)
    assert cells(imported, "run", "step", "loss") == [
        ["small", 100, 3.4],
        ["small", 200, 3.2],
        ["large", 100, 3.1],
        ["large", 200, 2.9],
    ]
    assert noted(imported, "1 column", "RUN - METRIC", "('lr')")
    # with a column of runs, or named by a person, such columns are of domains
    whole = import_runs(written(tmp_path, 'run,Step,"web - eval/loss"\na,100,3.4\n', "domains.csv"))
    assert cells(whole, "run", "loss") == [["a", 3.4]]
    named = import_runs(path, losses={"small - eval/loss": "web"})
    assert cells(named, "run", "domain", "loss", "lr")[0] == ["log", "web", 3.4, 1e-4]


def test_two_different_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    head = '"Step","a - eval/loss","a - eval/loss"\n'
    with fails("two-columns-of-one-name", "'a - eval/loss'", "row 2", "2.9 and 2.8"):
        import_runs(written(tmp_path, head + "1,3.0,3.0\n2,2.9,2.8\n"))
    imported = import_runs(written(tmp_path, head + "1,3.0,3.0\n2,2.9,2.9\n"))
    assert noted(imported, "'a - eval/loss'", "once")


HISTORY = """,_step,_runtime,_timestamp,train/global_step,train/loss,train/learning_rate,eval/loss
0,0,1.5,1700000001.5,100,3.5,0.0003,
1,1,2.5,1700000002.5,100,,,3.40
2,2,3.5,1700000003.5,200,3.2,0.0002,
3,3,4.5,1700000004.5,200,,,NaN
4,4,5.5,1700000005.5,300,3.1,0.0001,3.20
"""


@pytest.mark.slow
def test_a_history_with_a_failed_evaluation(tmp_path: Path) -> None:
    path = written(tmp_path, HISTORY, "run-7.csv")
    with faults(("failed-evaluation", 4, "loss")) as listed:
        import_runs(path)
    problem = "run 'run-7' logs a loss at step 200 that is not finite: a finite loss follows"
    assert str(listed[0]) == f"{problem}: --nan drop (nan='drop') leaves it out (row 4, column loss)"
    imported = import_runs(path, nan="drop")
    assert cells(imported, "run", "step", "loss", "lr") == [["run-7", 100, 3.4, 3e-4], ["run-7", 300, 3.2, 1e-4]]
    assert noted(imported, "1 loss", "1 with finite ones", "0 at the end")
    assert noted(imported, "column 1")
    assert not noted(imported, "the logger's")
    kept = import_runs(path, nan="drop", curves=True)
    assert cells(kept, "step", "loss", "lr") == [[100, 3.4, 3e-4], [200, None, 2e-4], [300, 3.2, 1e-4]]


def test_a_run_that_logs_tokens_and_no_steps_stands_beside_runs_with_steps(tmp_path: Path) -> None:
    """As a spreadsheet, or base checkpoints at D = 0, beside the tables of a trainer."""
    stepped = written(tmp_path, "run,step,D,val_loss\na,2,2e9,2.9\na,1,1e9,3.0\n", "stepped.csv")
    sheet = written(tmp_path, "run,D,val_loss\nb,2e9,2.8\nb,1e9,2.85\nbase,0,3.3\n", "sheet.csv")
    imported = import_runs([sheet, stepped])
    rows = [["a", 1, 1e9, 3.0], ["a", 2, 2e9, 2.9], ["b", None, 1e9, 2.85], ["b", None, 2e9, 2.8], ["base", None, 0, 3.3]]
    assert cells(imported, "run", "step", "D", "loss") == rows
    neither = written(tmp_path, "run,step,D,val_loss\nc,1,1e9,3.1\nc,,,3.2\n", "neither.csv")
    with faults(("missing-step", 2, "step")):
        import_runs([stepped, neither])


def test_a_row_that_was_exported_twice_is_counted(tmp_path: Path) -> None:
    for again, note in ((1, "1 entry that repeats another"), (2, "2 entries that repeat another")):
        text = "run,step,val_loss\n" + "a,1,3.0\n" * (again + 1)
        assert noted(import_runs(written(tmp_path, text)), note)


def test_losses_of_two_domains_that_are_not_finite_are_told_apart(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,eval/web_loss,eval/code_loss\na,1,NaN,NaN\na,2,3.0,2.0\n")
    with faults(("failed-evaluation", 1, "loss"), ("failed-evaluation", 1, "loss")) as listed:
        import_runs(path)
    assert ["loss of web" in listed[0].problem, "loss of code" in listed[1].problem] == [True, True]


def test_steps_of_logger_and_trainer_are_not_mixed(tmp_path: Path) -> None:
    one = written(tmp_path, '"Step","a - eval/loss"\n1,3.0\n', "one.csv")
    two = written(tmp_path, '"train/global_step","a - train/learning_rate"\n100,1e-4\n', "two.csv")
    with fails("two-counts-of-steps", "one.csv", "two.csv"):
        import_runs([one, two])


def test_the_table_of_runs_is_read(tmp_path: Path) -> None:
    text = """"Name","State","Runtime","n_params","eval/loss","tokens","config.ptpp"
"a","finished","10","41,000,000","3.1","8.2e8","20"
"b","crashed","5","41,000,000","3.4","4.1e8","20"
"""
    imported = import_runs(written(tmp_path, text))
    assert cells(imported, "run", "N", "D", "ptpp", "loss") == [["a", 4.1e7, 8.2e8, 20, 3.1], ["b", 4.1e7, 4.1e8, 20, 3.4]]
    assert noted(imported, "1 run", "b (crashed)")


# --- resumed runs ----------------------------------------------------------------------------------------------------------

RESUMED = (
    "run,step,eval_loss,lr\na,100,3.0,3e-4\na,200,2.9,2e-4\na,250,2.85,2e-4\na,200,2.91,2e-4\na,300,2.7,1e-4\nb,100,3.1,3e-4\n"
)


@pytest.mark.slow
def test_a_resumed_run_is_refused_or_one_of_its_logs_counts(tmp_path: Path) -> None:
    path = written(tmp_path, RESUMED)
    with faults(("two-values-of-one-step", 4, "loss")) as listed:
        import_runs(path)
    assert "loss 2.91 at step 200 and 2.9 in row 2" in listed[0].problem
    last = import_runs(path, resumed="last")
    assert cells(last, "run", "step", "loss") == [["a", 100, 3.0], ["a", 200, 2.91], ["a", 300, 2.7], ["b", 100, 3.1]]
    assert noted(last, "run 'a'", "step 200", "2 abandoned values of loss")
    first = import_runs(path, resumed="first")
    assert cells(first, "step", "loss")[:4] == [[100, 3.0], [200, 2.9], [250, 2.85], [300, 2.7]]
    with fails("unknown-option", "'lats'", "last or first"):
        import_runs(path, resumed="lats")


def test_a_resumed_run_may_begin_with_a_repeated_evaluation(tmp_path: Path) -> None:
    text = "run,step,eval_loss\na,500,3.5\na,1000,3.2\na,1500,3.1\na,2000,3.0\na,1000,3.2\na,2000,3.05\na,3000,2.9\n"
    imported = import_runs(written(tmp_path, text), resumed="last")
    assert cells(imported, "step", "loss") == [[500, 3.5], [1000, 3.2], [2000, 3.05], [3000, 2.9]]
    assert noted(imported, "run 'a'", "step 1000", "2 abandoned values of loss")
    assert noted(imported, "1 value logged again unchanged")
    first = import_runs(written(tmp_path, text), resumed="first")
    assert cells(first, "step", "loss") == [[500, 3.5], [1000, 3.2], [1500, 3.1], [2000, 3.0], [3000, 2.9]]
    assert noted(first, "run 'a'", "step 1000", "1 repeated value of loss")


@pytest.mark.slow
def test_histories_of_checkpoints_are_no_resumed_runs(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        state(tmp_path / "run" / f"checkpoint-{step}", range(10, step + 1, 10))
    for resumed in ("last", "first"):
        imported = import_runs(tmp_path / "run", resumed=resumed, domains="web")
        assert cells(imported, "step", "loss") == [[s, 3 - s / 64] for s in (10, 20, 30, 40)]
        assert not noted(imported, "was resumed")
        # most checkpoints without an evaluation after those of the last one
        few = lines(tmp_path, *([{"step": s, "eval_loss": 3.0} for s in (1, 2)] * 6))
        assert cells(import_runs(few, resumed=resumed), "step") == [[1], [2]]


def test_rows_in_reverse_order_are_sorted_and_no_resumed_run(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,eval_loss\na,300,2.7\na,200,2.8\na,100,2.9\n")
    imported = import_runs(path)
    assert cells(imported, "step", "loss") == [[100, 2.9], [200, 2.8], [300, 2.7]]
    assert noted(imported, "2 times")
    with fails("steps-in-no-order", "2 times", "3 entries"):
        import_runs(path, resumed="last")


@pytest.mark.slow
def test_domains_below_one_another_are_no_resumed_run(tmp_path: Path) -> None:
    text = "run,step,val_domain,eval_loss\na,100,web,3.0\na,200,web,2.9\na,100,code,2.0\na,200,code,1.9\n"
    for resumed in (None, "last", "first"):
        assert len(import_runs(written(tmp_path, text), resumed=resumed).runs) == 4


@pytest.mark.slow
@settings(max_examples=8)
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=6, unique=True).map(sorted),
    st.integers(0, 5), st.integers(1, 6), st.booleans(),
)  # fmt: skip
def test_a_run_may_be_resumed_at_any_step(first: list[int], back: int, length: int, last: bool) -> None:
    """Two logs of a run: with 'last' the second and what lies before it; with 'first' the first and what lies after it."""
    start = first[min(back, len(first) - 1)]
    second = list(range(start, start + length))
    frame = pd.DataFrame(
        {"step": [*first, *second], "loss": [*(2.0 + np.arange(len(first)) / 64), *(3.0 + np.arange(length) / 64)]}
    )
    whole = (
        frame.rename(columns={"loss": "loss:"})
        .assign(run="a", _name="log", _row=range(1, len(frame) + 1))
        .astype({"step": float, "_name": "category"})
    )
    table = merged(Entries(whole), "last" if last else "first").frame
    if last:
        expected = {s for s in first if s < start} | set(second)
        assert table.loc[table["step"] >= start, "loss:"].ge(3).all()
    else:
        expected = set(first) | {s for s in second if s > first[-1]}
        assert table.loc[table["step"] <= first[-1], "loss:"].lt(3).all()
    assert table["step"].tolist() == sorted(expected)


# --- TensorBoard -----------------------------------------------------------------------------------------------------------


def test_the_checksum_equals_the_published_one() -> None:
    assert events.crc32c(b"123456789") == 0xE3069283
    for data in (b"", b"a", bytes(range(256))):
        assert masked_crc(data) == struct.unpack("<I", events.masked(data))[0]


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.integers(-(2**31), 2**31),
    st.floats(width=32),
    st.text(max_size=20),
    st.sampled_from(["simple", "float_val", "unpacked", "double_content"]),
)
def test_events_are_read_as_they_were_written(step: int, value: float, tag: str, form: str) -> None:
    scalar = events.simple(tag, value) if form == "simple" else events.tensor(tag, value, form)
    ((data, end),) = records(events.record(events.event(step, 12.5, scalar)), "x")
    ((at, time, name, number),) = scalars(data)
    assert (at, time, name, end) == (step, 12.5, tag, len(data) + 16)
    assert number == value or (np.isnan(value) and number is not None and np.isnan(number))


def test_a_folder_of_event_files_holds_several_runs(tmp_path: Path) -> None:
    both = [
        events.event(100, 1.0, events.simple("eval/loss", 3.5), events.simple("train/learning_rate", 0.25)),
        events.event(200, 2.0, events.tensor("eval/loss", 3.25), events.simple("train/grad_norm", 1.0)),
        events.event(200, 2.0, events.tensor("train/learning_rate", 0.125)),
    ]
    events.write(tmp_path / "logs" / "big" / "events.out.tfevents.1700000001.host", both)
    events.write(tmp_path / "logs" / "small" / "events.out.tfevents.1700000001.host", both[:1], cut=0)
    imported = import_runs(tmp_path / "logs", map={"runs": {"big": {"N": 1e9}, "small": {"N": 1e8}}})
    assert cells(imported, "run", "step", "loss", "lr", "N") == [
        ["big", 100, 3.5, 0.25, 1e9], ["big", 200, 3.25, 0.125, 1e9], ["small", 100, 3.5, 0.25, 1e8],
    ]  # fmt: skip
    assert noted(imported, "train/grad_norm")


def test_a_resumed_run_in_two_event_files(tmp_path: Path) -> None:
    first = [events.event(s, float(s), events.simple("eval/loss", 4 - s / 1024)) for s in (100, 200, 300)]
    second = [events.event(s, 1000.0 + s, events.simple("eval/loss", 3 - s / 1024)) for s in (200, 300, 400)]
    # the later file comes first in the folder
    events.write(tmp_path / "run" / "b.tfevents", first)
    events.write(tmp_path / "run" / "a.tfevents", second)
    with fails("two-values-of-one-step"):
        import_runs(tmp_path / "run")
    imported = import_runs(tmp_path / "run", resumed="last")
    assert cells(imported, "run", "step", "loss") == [["run", s, (4 if s == 100 else 3) - s / 1024] for s in (100, 200, 300, 400)]


def test_hyperparameters_of_tensorboard_are_values_of_their_run(tmp_path: Path) -> None:
    for run, size in (("big", 4e7), ("small", 1e7)):
        losses = [events.event(s, 1.0, events.simple("val/loss", 4 - s / 1024)) for s in (128, 256)]
        events.write(tmp_path / "logs" / run / "a.tfevents", losses)
        # add_hparams writes a folder of its own, with a result that has no step
        settings = events.settings(
            {"n_params": size, "lr": 0.25, "tokens": 1e9, "tokens_per_step": 64.0, "opt": "adam", "mup": True}
        )
        written = [events.event(0, 2.0, settings), events.event(0, 2.0, events.simple("hparam/val_loss", 1.0))]
        events.write(tmp_path / "logs" / run / "1700000000.5" / "a.tfevents", written)
    imported = import_runs(tmp_path / "logs")
    assert cells(imported, "run", "step", "loss", "N", "D", "lr") == [
        [run, s, 4 - s / 1024, size, s * 64, 0.25] for run, size in (("big", 4e7), ("small", 1e7)) for s in (128, 256)
    ]
    assert noted(imported, "3 settings of the run not used", "hparams.tokens", "hparams.opt", "hparams.mup")
    # a run of which nothing else was logged
    events.write(tmp_path / "logs" / "third" / "1700000000.5" / "a.tfevents", written)
    assert noted(import_runs(tmp_path / "logs"), "1700000000.5", "hparam/val_loss")
    # in the file of the losses too, and a planned number of tokens counts where the run has one step
    events.write(tmp_path / "one.tfevents", [events.event(0, 2.0, settings), events.event(9, 2.0, events.simple("val/loss", 3.0))])
    assert cells(import_runs(tmp_path / "one.tfevents"), "N", "D", "loss") == [[1e7, 1e9, 3.0]]


@pytest.mark.parametrize(
    "folders", [("run/Loss_train", "run/Loss_val"), ("run/Loss/train", "run/Loss/val"), ("run/train", "run/validation")]
)
@pytest.mark.parametrize("single", [False, True])
def test_a_tag_without_a_split_has_that_of_its_folder(tmp_path: Path, folders: tuple[str, str], single: bool) -> None:
    for folder, loss in zip(folders, (1.0, 3.0), strict=True):
        events.write(tmp_path / "logs" / folder / "a.tfevents", [events.event(8, 1.0, events.simple("Loss", loss))])
    events.write(tmp_path / "logs" / "run" / "a.tfevents", [events.event(8, 1.0, events.simple("train/lr", 0.25))])
    imported = import_runs([tmp_path / "logs" / f for f in folders] if single else tmp_path / "logs")
    assert cells(imported, "run", "loss") == [["run", 3.0]]
    assert noted(imported, "Loss has losses of training batches by its folder")


def test_runs_named_after_a_split_stay_apart(tmp_path: Path) -> None:
    for folder in ("big_val", "small_val", "small_train"):
        events.write(tmp_path / folder / "a.tfevents", [events.event(8, 1.0, events.simple("loss", 3.0 + (folder[0] == "s")))])
    assert cells(import_runs(tmp_path), "run", "loss") == [["big", 3.0], ["small", 4.0]]


def test_tags_that_are_not_read_are_proposed(tmp_path: Path) -> None:
    both = events.simple("eval/perplexity", 20.0), events.simple("seen_tokens_b", 2.0)
    events.write(tmp_path / "a.tfevents", [events.event(8, 1.0, *both)])
    with fails("no-loss", "--column loss=eval/perplexity:perplexity --column D=seen_tokens_b:B"):
        import_runs(tmp_path / "a.tfevents")


def test_an_event_file_that_ends_early_is_read_and_a_damaged_one_refused(tmp_path: Path) -> None:
    both = [events.event(s, 1.0, events.simple("eval/loss", 3.5)) for s in (100, 200)]
    cut = events.write(tmp_path / "cut.tfevents", both, cut=5)
    imported = import_runs(cut)
    assert cells(imported, "step") == [[100]]
    assert noted(imported, "incomplete record")
    data = bytearray(events.write(tmp_path / "bad.tfevents", both).read_bytes())
    data[60] ^= 1
    (tmp_path / "bad.tfevents").write_bytes(data)
    with fails("wrong-checksum", "bad.tfevents"):
        import_runs(tmp_path / "bad.tfevents")


def test_events_of_a_run_that_diverged(tmp_path: Path) -> None:
    log = [events.event(s, 1.0, events.simple("val_loss", v)) for s, v in ((1, 3.5), (2, float("inf")), (3, float("nan")))]
    path = events.write(tmp_path / "x.tfevents", log)
    with faults(("diverged", 3, "loss"), ("diverged", 4, "loss")):
        import_runs(path)
    assert noted(import_runs(path, nan="drop"), "2 losses", "0 with finite ones")


# --- Hugging Face ----------------------------------------------------------------------------------------------------------


def test_checkpoints_of_one_run_are_one_history(tmp_path: Path) -> None:
    state(tmp_path / "run-a" / "checkpoint-20", range(10, 21, 10))
    state(tmp_path / "run-a" / "checkpoint-9", range(9, 10))  # folders sort 20 before 9
    state(tmp_path / "run-a" / "checkpoint-30", range(10, 31, 10))
    imported = import_runs(tmp_path / "run-a", tokens_per_step=1000, domains=["web"])
    assert cells(imported, "run", "step", "loss", "D") == [["run-a", s, 3 - s / 64, 1000 * s] for s in (9, 10, 20, 30)]
    assert imported.runs.frame["lr"].tolist() == pytest.approx([1e-4 / s for s in (9, 10, 20, 30)])
    assert noted(imported, "6 entries")


def test_checkpoints_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    state(tmp_path / "run" / "checkpoint-30", range(10, 31, 10))
    state(tmp_path / "run" / "checkpoint-40", range(20, 41, 10), shift=0.5)
    with fails("two-values-of-one-step", "checkpoint-40/trainer_state.json", "'run'", "loss of web"):
        import_runs(tmp_path / "run")
    imported = import_runs(tmp_path / "run", resumed="last", domains=["code"])
    assert cells(imported, "step", "loss") == [[s, 2 - s / 64 + (0.5 if s > 10 else 0)] for s in (10, 20, 30, 40)]


def test_losses_of_training_batches_are_read_only_if_named(tmp_path: Path) -> None:
    path = written(tmp_path, '{"log_history": [{"loss": 3.5, "step": 10, "learning_rate": 1e-4}]}', "trainer_state.json")
    with fails("no-loss"):
        import_runs(path)
    assert cells(import_runs(path, losses=["loss"]), "loss") == [[3.5]]


def test_losses_named_in_two_ways_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,web,code\na,100,3.4,1.4\n")
    with fails(
        "ambiguous-losses", "--column loss=code (columns={'loss': 'code'}) and --loss web (losses='web') both name the losses"
    ):
        import_runs(path, losses="web", columns={"loss": "code"})


def test_tables_beside_the_event_files_of_a_folder_are_noted(tmp_path: Path) -> None:
    seen = [events.event(step, float(step), events.simple("eval/loss", 3.5 - step / 4096)) for step in (1000, 2000)]
    events.write(tmp_path / "a" / "events.out.tfevents.1700000001.host", seen)
    written(tmp_path, "run,step,eval/loss\nb,1000,3.4\n", "b.csv")
    alone, both = (import_runs(sources, N=1e8, tokens_per_step=1e3) for sources in (tmp_path, [tmp_path, tmp_path / "b.csv"]))
    assert any(note.startswith("1 other file of") and "b.csv: name it too" in note for note in alone.notes)
    assert sorted(both.runs.frame["run"].unique()) == ["a", "b"]
    assert not any("not read" in note for note in both.notes)


def test_steps_that_may_be_thousands_are_refused_until_the_sign_is_stated(tmp_path: Path) -> None:
    path = written(tmp_path, "run;step;eval_loss\na;1.000;3\na;2.000;2\n", "german.csv")
    with faults(("ambiguous-number", None, "step")):
        import_runs(path)
    assert cells(import_runs(path, map={"thousands": "."}, tokens_per_step=1), "D") == [[1000], [2000]]
    assert cells(import_runs(path, map={"decimal": "."}, tokens_per_step=1), "D") == [[1], [2]]
