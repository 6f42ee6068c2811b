"""Lines that training programs print, in the forms of several programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayeslaw.core.errors import BayeslawError
from bayeslaw.data.logs.api import import_runs
from tests.errors import fails, faults
from tests.logs import cells, noted, written

PRINTED = {  # what a program prints, and the steps and validation losses in it
    "nanoGPT": (
        "number of parameters: 10.65M\nstep 0: train loss 4.2874, val loss 4.2823\niter 0: loss 4.2650, time 3129.14ms, mfu 1%\n"
        "step 1,250: train loss 1.9639, val loss 2.0676\niter 1250: loss 1.9011, time 31.02ms, mfu 12.00%\n",
        [[0, 4.2823], [1250, 2.0676]],
    ),
    "splits alone": (
        "Running evaluation at step 0...\nstep 0: train 4.8350, val 4.9583\nstep 0 | loss 4.9710\nstep 10 | loss 4.3443\n"
        "step 250: train 0.9057, val 1.6165\nstep 250 | loss 1.5928\n",
        [[0, 4.9583], [250, 1.6165]],
    ),
    "with times": (
        "2026-07-14 11:56:45,277 [INFO] iter 299: loss 2.9520, time 638.29ms, tok/s 51,337\n"
        "2026-07-14 11:56:49,134 [INFO] step 300: val loss 2.9513\n",
        [[300, 2.9513]],
    ),
    "llm.c": (
        "s:0 tel:11.0095\ns:0 trl:11.0116 lr:0.000001 norm:14.96\ns:250 tel:6.1565\ns:250 eval:0.2437\n",
        [[0, 11.0095], [250, 6.1565]],
    ),
    "build-nanogpt": (
        "0 val 10.9310\n0 hella 0.2413\n0 train 10.934416\n1 train 10.883945\n250 val 6.0312\n",
        [[0, 10.931], [250, 6.0312]],
    ),
    "modded-nanogpt": (
        'print0(f"step:{step}/{steps} val_loss:{val_loss:.4f}")\nstep:124/1530 train_time:21ms step_avg:174.23ms\n'
        "step:125/1530 val_loss:4.4021 train_time:21ms step_avg:174.28ms\n",
        [[125, 4.4021]],
    ),
    "Megatron": (
        " [2026-01-06 03:27:07] iteration       10/      20 | consumed samples:         5120 | "
        "elapsed time per iteration (ms): 4647.8 | learning rate: 1.500000E-06 | global batch size:   512 | "
        "lm loss: 9.763827E+00 | number of skipped iterations:   0 |\n"
        "Evaluating iter 24/32\n"
        " validation loss at iteration 10 on validation set | lm loss value: 9.647480E+00 | lm loss PPL: 1.548272E+04 |\n",
        [[10, 9.64748]],
    ),
    "torchtitan": (
        "[titan] 2026-03-04 10:01:11,123 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  9.2011  \x1b[33mmemory:  2.45GiB(2.58%)\n"
        "[titan] 2026-03-04 10:01:12,123 - root - INFO - \x1b[32mvalidate step: 10  \x1b[32mloss:  9.1011  \x1b[34mtps: 1,234\n",
        [[10, 9.1011]],
    ),
    "LitGPT": (  # counts of iterations and of steps; a training line repeats the last validation loss
        "Epoch 1 | iter 128 step 8 | loss train: 8.542, val: n/a | iter time: 351.58 ms (step)\n"
        "iter 128: val loss 8.0312, val time: 1632.10 ms\n"
        "Epoch 1 | iter 256 step 16 | loss train: 8.142, val: 8.031 | iter time: 351.58 ms (step)\n",
        [[128, 8.0312]],
    ),
    "GPT-NeoX": (
        " samples/sec: 12.3 | iteration       10/      20 | learning rate: 1.5E-06 | lm_loss: 9.763827E+00 | loss scale: 1.0 |\n"
        " validation results at iteration 10 | lm_loss value: 9.647480E+00 | lm_loss_ppl value: 1.548272E+04 | \n",
        [[10, 9.64748]],
    ),
    "NeMo": (  # goes on printing the last validation loss until there is another
        "Training epoch 0, iteration 0/5 | lr: 1e-05 | global_step: 0 | reduced_train_loss: 9.9\n"
        "Training epoch 0, iteration 1/5 | lr: 1e-05 | global_step: 1 | reduced_train_loss: 9.8 | val_loss: 9.7\n"
        "Training epoch 0, iteration 2/5 | lr: 1e-05 | global_step: 2 | reduced_train_loss: 9.6 | val_loss: 9.7\n"
        "Training epoch 0, iteration 3/5 | lr: 1e-05 | global_step: 3 | reduced_train_loss: 9.5 | val_loss: 9.4\n"
        "Training epoch 0, iteration 4/5 | lr: 1e-05 | global_step: 4 | reduced_train_loss: 9.4 | val_loss: 9.4\n",
        [[1, 9.7], [3, 9.4]],
    ),
    "Lightning": (
        "Epoch 0:  33%|###   | 1/3 [00:01<00:02, train_loss=9.9, global_step=0.0]\rEpoch 0:  66%|####  | 2/3 [00:02<00:01, "
        "train_loss=9.8, global_step=1.0, val_loss=9.7]\rEpoch 0: 100%|######| 3/3 [00:03<00:00, train_loss=9.6, global_step=2.0, "
        "val_loss=9.7]\n",
        [[1, 9.7]],
    ),
    "MLX": (
        "Iter 1: Val loss 3.124, Val took 8.123s\nIter 50: Train loss 2.847, Learning Rate 1.000e-04, It/sec 0.892, Peak 8 GB\n",
        [[1, 3.124]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("program", PRINTED)
def test_validation_losses_are_read_from_printed_lines(tmp_path: Path, program: str) -> None:
    text, losses = PRINTED[program]
    path = written(tmp_path, text, "small.out")
    imported = import_runs(path)
    assert cells(imported, "step", "loss") == losses
    assert set(imported.runs.frame["run"]) == {"small"}
    assert noted(imported, "small.out", "lines that name a step")
    assert cells(import_runs(path, kind="text"), "step", "loss") == losses


def test_rates_and_tokens_in_printed_lines(tmp_path: Path) -> None:
    text, _ = PRINTED["Megatron"]
    imported = import_runs(written(tmp_path, text, "a.out"), columns={"D": "consumed samples:2048"})
    assert cells(imported, "step", "lr", "D") == [[10, 1.5e-6, 5120 * 2048]]
    text = "step 10 | lr 3e-4 | tokens_seen: 1.5M | val loss 3.5\nstep 20 | lr 2e-4 | tokens_seen: 3M | val loss nan\n"
    path = written(tmp_path, text, "b.out")
    assert cells(import_runs(path, nan="drop"), "step", "loss", "lr", "D") == [[10, 3.5, 3e-4, 1.5e6]]
    with faults(("diverged", 2, "loss")):
        import_runs(path)


def test_a_decimal_comma_in_a_printed_line_is_not_the_end_of_a_number(tmp_path: Path) -> None:
    text = "step 100: train loss 3,3, val loss 3,21\nstep 200: train loss 3,2, val loss 3,0105, lr 2,5e-4\n"
    path = written(tmp_path, text, "run.log")
    with faults(("not-a-number", 1, "val loss"), ("not-a-number", 2, "val loss"), ("not-a-number", 2, "lr")) as listed:
        import_runs(path)
    assert 'decimal = ","' in listed[0].suggestion
    assert cells(import_runs(path, map={"decimal": ","}), "step", "loss", "lr")[1] == [200, 3.0105, 2.5e-4]


def test_lines_with_another_count_are_counted(tmp_path: Path) -> None:
    imported = import_runs(
        written(tmp_path, "iter 2: loss 4.1, lr 1e-4\nstep 2: val loss 4.2\niter 4: loss 4.0, lr 2e-4\n", "a.log")
    )
    assert cells(imported, "step", "loss") == [[2, 4.2]]
    assert noted(imported, "2 lines", "(iter)")


def test_losses_of_validation_and_test_sets_are_not_mixed(tmp_path: Path) -> None:
    text, _ = PRINTED["Megatron"]
    path = written(tmp_path, text + " validation loss at iteration 10 on test set | lm loss value: 9.625707E+00 |\n", "a.out")
    with fails("ambiguous-losses", "'val loss' and 'test loss'"):
        import_runs(path)
    assert cells(import_runs(path, losses="test loss"), "loss") == [[9.625707]]


def test_a_resumed_run_prints_steps_again(tmp_path: Path) -> None:
    text = "step 100: val loss 3.3\nstep 200: val loss 3.2\nresuming\nstep 200: val loss 3.1\nstep 300: val loss 3.0\n"
    path = written(tmp_path, text, "a.log")
    with faults(("two-values-of-one-step", 4, "loss")):
        import_runs(path)
    assert cells(import_runs(path, resumed="last"), "step", "loss") == [[100, 3.3], [200, 3.1], [300, 3.0]]


@pytest.mark.parametrize(
    "text",
    [
        "validation loss: 10.9511\nstep     0 | loss: 10.955029 | lr 8.3916e-07\nvalidation loss: 5.9\nstep   250 | loss: 5.95\n",
        "{'loss': 3.2, 'learning_rate': 1e-4, 'epoch': 0.1}\n{'eval_loss': 3.1, 'eval_runtime': 3.0, 'epoch': 0.1}\n",
    ],
)
def test_validation_losses_without_a_step_are_refused(tmp_path: Path, text: str) -> None:
    with fails("losses-without-steps", f"line {1 if text.startswith('val') else 2}", "trainer_state.json"):
        import_runs(written(tmp_path, text, "a.out"))


BLOCKS = {  # evaluations every 4 steps, in blocks without a step
    "Composer": (
        "Config:\nmodel:\n  n_layers: 4\n[batch=3/8]:\n\t Train time/token: 20\n\t Train loss/train/total: 3.5\n"
        "[batch=4/8]:\n\t Train time/token: 30\n\t Train loss/train/total: 3.25\n\t Train lr-DecoupledAdamW/group0: 0.5\n"
        "[Eval batch=1/9] Eval on eval data\n[Eval batch=9/9] Eval on eval data:\n"
        "\t Eval metrics/eval/LanguageCrossEntropy: 3.125\n\t Eval metrics/eval/LanguagePerplexity: 22.7599\n"
        "[batch=8/8]:\n\t Train time/token: 70\n\t Train loss/train/total: 3.0\n\t Train lr-DecoupledAdamW/group0: 0.25\n"
        "[Eval batch=9/9] Eval on eval data:\n\t Eval metrics/eval/LanguageCrossEntropy: 2.875\n",
        [[4, 3.125, 30, 0.5], [8, 2.875, 70, 0.25]],
    ),
    "OLMo-core": (  # prints an evaluation before the steps that it reports together
        "t\tINFO\tTraining for 8 steps\nt\tINFO\t[step=3/8,epoch=1,eta=00:01]\n    train/CE loss=3.500\n"
        "t\tINFO\tRunning lm evals...\nt\tINFO\t[eval=lm,step=5/9]\nt\tINFO\tFinished lm evals in 2.1 seconds. Metrics:\n"
        "    web-validation/CE loss=3.125\n    web-validation/PPL=22.76\n"
        "t\tINFO\t[step=4/8,epoch=1,eta=00:01]\n    train/CE loss=3.250\n    throughput/total tokens=40,000\n"
        "    optim/LR (group 0)=0.5000\n",
        [[4, 3.125, 40_000, 0.5]],
    ),
}


@pytest.mark.parametrize("program", BLOCKS)
def test_evaluations_in_blocks_without_a_step_are_placed_by_their_interval(tmp_path: Path, program: str) -> None:
    text, losses = BLOCKS[program]
    path = written(tmp_path, text, "small.out")
    with fails("losses-without-steps", "--set eval_interval=500"):
        import_runs(path)
    imported = import_runs(path, eval_interval=4)
    assert cells(imported, "step", "loss", "D", "lr") == losses
    assert noted(imported, "next multiple of 4 steps")
    with fails("not-the-interval", f"after {'batch 4' if program == 'Composer' else 'step 3'}", "is 50"):
        import_runs(path, eval_interval=50)
    with fails("not-a-whole-number", "2.5"):
        import_runs(path, eval_interval=2.5)
    with fails("unknown-name", "eval_interval"):
        import_runs(path, map={"runs": {"small": {"eval_interval": 4}}})


def test_an_evaluation_before_the_first_step_is_of_step_0(tmp_path: Path) -> None:
    text = "validation loss: 10.5\nstep     1 | loss: 10.25 | lr 0.5\nstep   250 | loss: 5.5\nvalidation loss: 5.25\n"
    assert cells(import_runs(written(tmp_path, text, "a.out"), eval_interval=250), "step", "loss") == [[0, 10.5], [250, 5.25]]


def test_batches_of_an_epoch_are_counted_through(tmp_path: Path) -> None:
    block = "[epoch={}][batch=8/8]:\n\t Train loss/train/total: 3.5\n[Eval batch=9/9] Eval on eval data:\n"
    block += "\t Eval metrics/eval/c4/LanguageCrossEntropy: {}\n"
    path = written(tmp_path, block.format(1, 3.25) + block.format(2, 3.0), "a.out")
    assert cells(import_runs(path, eval_interval=8), "step", "domain", "loss") == [[8, "c4", 3.25], [16, "c4", 3.0]]


def test_the_evaluation_at_the_end_is_of_the_last_step(tmp_path: Path) -> None:
    text = "step 250 | loss: 5.5\nval loss: 5.25\nstep 300 | loss: 5.0\nval loss: 4.75\n"
    assert cells(import_runs(written(tmp_path, text, "a.out"), eval_interval=250), "step", "loss") == [[250, 5.25], [300, 4.75]]


def test_equal_losses_of_two_evaluations_both_count(tmp_path: Path) -> None:
    text = "".join(f"step {s}: train loss 3.1{', val loss 3.2' if s % 2 == 0 else ''}\n" for s in range(1, 5))
    assert cells(import_runs(written(tmp_path, text, "a.out")), "step", "loss") == [[2, 3.2], [4, 3.2]]
    text = "step 2: train loss 3.1, val loss 3.2\niter 3: loss 3.3\nstep 4: train loss 3.1, val loss 3.2\n"
    assert cells(import_runs(written(tmp_path, text, "b.out")), "step", "loss") == [[2, 3.2], [4, 3.2]]


def test_an_interval_is_not_used_where_evaluations_name_their_steps(tmp_path: Path) -> None:
    imported = import_runs(written(tmp_path, "step 3: val loss 3.2\n", "a.out"), eval_interval=2)
    assert cells(imported, "step") == [[3]]
    assert noted(imported, "eval_interval is not used")
    table = import_runs(written(tmp_path, "step,val_loss\n3,3.2\n", "a.csv"), eval_interval=2)
    assert noted(table, "eval_interval is not used", "kind text")


def test_two_counts_in_one_line_are_noted(tmp_path: Path) -> None:
    assert noted(
        import_runs(written(tmp_path, PRINTED["LitGPT"][0], "a.out")), "iter 128 is step 8", "tokens_per_step is of one iter"
    )


def test_printed_losses_of_training_are_not_taken_for_those_of_validation(tmp_path: Path) -> None:
    path = written(tmp_path, "/home/eval/train.py step 10: loss 3.5\nstep 20: loss 3.4\n", "a.out")
    with fails("no-loss", "--loss loss"):
        import_runs(path)
    assert cells(import_runs(path, losses="loss"), "step", "loss") == [[10, 3.5], [20, 3.4]]
    with fails("no-rows", "step"):
        import_runs(written(tmp_path, "loading\ncompiling\n", "b.out"), kind="text")


@pytest.mark.parametrize("text", ["loading\ncompiling, 2 graphs\n", "cached 'a'\n\"b\" is used, c\n"])
def test_printed_lines_without_losses_are_no_table(tmp_path: Path, text: str) -> None:
    with fails("no-rows", "as a table", "step 500: train loss"):
        import_runs(written(tmp_path, text, "a.out"))
    with pytest.raises(BayeslawError) as caught:
        import_runs(written(tmp_path, text, "a.csv"))
    assert "step 500" not in str(caught.value)


def test_bits_per_byte_are_advised_with_their_unit(tmp_path: Path) -> None:
    path = written(tmp_path, "Step 00250 | Validation bpb: 1.25\nstep 00251/21400 (0.00%) | loss: 3.07 | dt: 300ms\n", "a.log")
    with fails("no-loss", "--column 'loss=Validation bpb:bits/byte'"):
        import_runs(path)
    imported = import_runs(path, columns={"loss": "Validation bpb:bits/byte"})
    assert (cells(imported, "step", "loss"), imported.runs.unit) == ([[250, 1.25]], "bits/byte")


def test_a_table_with_words_of_printed_lines_is_a_table(tmp_path: Path) -> None:
    path = written(tmp_path, "run,step,note,val_loss\na,1,step 3: val loss 9.5,3.0\na,2,step 4: val loss 9.1,2.9\n")
    assert cells(import_runs(path), "step", "loss") == [[1, 3.0], [2, 2.9]]


def test_an_export_with_such_words_in_its_runs_names_is_a_table(tmp_path: Path) -> None:
    text = '"Name","State","N","val/loss"\n"small, step 500, lr 3e-4","finished","1,000","3.2"\n"large","finished","2,000","3.0"\n'
    assert cells(import_runs(written(tmp_path, text)), "run", "loss")[0] == ["small, step 500, lr 3e-4", 3.2]
