"""Commands that put forecasts on record and settle them: register, settle, record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import bayeslaw
from bayeslaw.cli import options
from bayeslaw.cli.answer import Answer
from bayeslaw.cli.forecasts import MOST_RUNS, add_runs, add_scores, conditions, settings_of
from bayeslaw.core.errors import BayeslawError

if TYPE_CHECKING:
    from bayeslaw.evaluation import Record

Key = Annotated[
    Path | None,
    Option("--key", help="A file with a secret of 16 bytes or more, to sign predictions or verify their signature (HMAC-SHA256)."),
]


def register(
    fit: Annotated[Path | None, Argument(help="A fit or a stack, written by `bayeslaw fit` or `bayeslaw compare`.")] = None,
    output: Annotated[
        Path | None, Option("-o", "--output", help="The file to write the prediction to (.json), which must not exist.")
    ] = None,
    at: options.SettingsFile = None,
    set_: options.Ranges = None,
    column: options.Columns = None,
    by: Annotated[
        str | None, Option(help="The direction in which the distance beyond the runs is measured: compute, N, D, ptpp or step.")
    ] = None,
    who: Annotated[str, Option(help="Who registers the forecast.")] = "",
    why: Annotated[str, Option(help="What the forecast is for.")] = "",
    key: Key = None,
    schema: Annotated[bool, Option("--schema", help="Print the JSON schema of predictions.")] = False,
    ci: options.Ci = 0.9,
    discrepancy: options.Discrepancy = None,
    as_: options.AsNew = "known",
    seed: options.Seed = 0,
    force: options.Force = False,
) -> Answer:
    """Write a forecast to a file before its runs are made, with its draws and digests; a changed byte is noticed."""
    from bayeslaw.core.text import counted, plain, with_intervals
    from bayeslaw.evaluation.prediction import check_new
    from bayeslaw.evaluation.prediction import register as registered
    from bayeslaw.evaluation.prediction_schema import FILE, prediction_schema

    answer = Answer()
    if schema:
        answer.results["schema"] = prediction_schema()
        answer.verbatim(FILE.read_text(encoding="utf-8").rstrip())
        return answer
    if fit is None or output is None:
        raise BayeslawError("Give a fit and the file to write: bayeslaw register FIT.nc --at … -o NAME.json.", code="nothing-to-do")
    options.check_outputs("A prediction", output, inputs=[fit, at], ending=".json")
    options.check_settings(at, set_)
    check_new(output)  # before the forecast is made
    loaded = bayeslaw.load_fit(fit)
    settings = settings_of(loaded, at, set_, options.columns_of(column))
    prediction = registered(
        loaded, settings, discrepancy=discrepancy, as_=as_, seed=seed, force=force, by=by, who=who, why=why
    ).save(output, key)
    table = prediction.summary(ci)
    answer.show("prediction", table, plain(with_intervals(table)))
    forecasts = counted(len(table), "forecast")
    answer.say(f"{forecasts} by {prediction.content['law']} registered {prediction.content['date']} in {output}")
    answer.results["sha256"] = prediction.sha256
    answer.say(f"SHA-256 {prediction.sha256}{' (signed)' if prediction.signed else ''}")
    answer.say("Whoever has this digest can tell that the forecast was not written later: send it to them, or commit the file.")
    answer.say(
        f"Sampling: {prediction.content['checks']}", f"Model: {prediction.content['model']}", *prediction.content["failures"]
    )
    return answer


def settle(
    prediction: Annotated[Path, Argument(help="A prediction written by `bayeslaw register`.")],
    runs: options.RunsPath,
    column: options.Columns = None,
    where: options.Where = None,
    mean: options.Mean = None,
    tolerance: Annotated[
        str, Option(help="Largest relative difference of a measured setting from the registered one, such as 0.5%.")
    ] = "1e-6",
    output: Annotated[
        Path | None, Option("-o", "--output", help="Write the result here; `record` looks for NAME.settled.json beside NAME.json.")
    ] = None,
    key: Key = None,
    csv: options.Csv = False,
    all_: options.All = False,
    in_sample: options.InSample = False,
) -> Answer:
    """Score a registered forecast on measured losses without the fit: the numbers of `score`, from the registered draws."""
    from bayeslaw.core.text import counted
    from bayeslaw.evaluation.prediction import RESULT_ENDING, read_prediction
    from bayeslaw.evaluation.scores import sample_note
    from bayeslaw.evaluation.settlement import settle as settled

    options.check_outputs("A result", output, inputs=[prediction, runs], ending=".json")
    asked = read_prediction(prediction, key)
    held = bayeslaw.read_runs(runs, where, columns=options.columns_of(column))
    share = tolerance.strip().removesuffix("%")
    close = options.number_of("--tolerance ", share) / (100 if tolerance.strip().endswith("%") else 1)
    result = settled(asked, held, tolerance=close, in_sample=in_sample, mean=mean)
    table, outcome, answer = result.table, asked.outcome, Answer()
    if note := sample_note(table, held.name):
        answer.note([note])
    if others := result.measured["other_rows_left_out"]:
        answer.note([f"{counted(others, 'row')} of {held.name} left out, of which no forecast was registered"])
    if output is not None:
        if output.exists():
            answer.last.append(f"the earlier result in {output} is replaced")
        result.save(output, key)
        answer.last.append(f"result written to {output}")
        if output.resolve() != (expected := prediction.with_name(f"{prediction.stem}{RESULT_ENDING}")).resolve():
            answer.last.append(f"`bayeslaw record` looks for it in {expected}.")
    if csv:
        answer.csv = table.to_csv(index=False)
        return answer
    add_runs(answer, result.runs, outcome, None if all_ else MOST_RUNS)
    (row,) = table.to_dict("records")
    of = f"{counted(row['rows'], outcome.name)} of {held.name} against {counted(len(asked.rows), 'forecast')} by {row['law']}"
    answer.say("", f"{of} registered {asked.content['date']} {conditions(row)}")
    add_scores(answer, table, outcome, asked.content["unit"], all_=all_)
    answer.say("The signature is that of the key." if asked.verified else "The SHA-256 of the file is the one in its last line.")
    if asked.signed and not asked.verified:
        answer.say("The file is signed, which --key verifies.")
    return answer


def record(
    folder: Annotated[Path, Argument(help="A folder with predictions, NAME.json, and results, NAME.settled.json.")],
    output: Annotated[Path | None, Option("-o", "--output", help="Write the page to this file (.html).")] = None,
    key: Key = None,
) -> Answer:
    """Show all registered forecasts of a folder, open and settled, with coverage, its band, PIT and CRPS by distance."""
    from bayeslaw.core.files import write_text
    from bayeslaw.core.text import plain
    from bayeslaw.evaluation.on_record import LEGEND
    from bayeslaw.evaluation.on_record import record as recorded

    options.check_outputs("A page", output, ending=".html")
    result, answer = recorded(folder, key=key), Answer()
    if output is not None:
        from bayeslaw.reporting.record import page_of

        write_text(output, page_of(result))
        answer.last.append(f"page written to {output}")
    for fault in result.faults:
        answer.say(f"✗ {fault}")
    answer.results["faults"] = list(result.faults)
    _add_predictions(answer, result)
    for number, calibration in enumerate(result.calibrations, 1):
        answer.say(
            "", f"{calibration.outcome.in_unit(calibration.unit)}: settled forecasts by their distance beyond the fitted runs"
        )
        answer.show(f"calibration{number}", calibration.table, plain(calibration.shown))
        answer.results[f"rows{number}"] = calibration.rows
    if result.calibrations:
        answer.say("", LEGEND)
    answer.say("", f"{result.text}.")
    return answer


def _add_predictions(answer: Answer, result: Record) -> None:
    """Add the table of predictions; a terminal shows what is not the same in all of them."""
    from bayeslaw.core.text import plain

    table = result.predictions
    shown = table[["file", "registered", "law", "forecasts", "settled", "status", "reach", "inside90", "crps"]]
    shown = shown.assign(registered=shown["registered"].str[:10])
    for name, usual in (("checks", "passed"), ("signed", "no")):
        if (table[name] != usual).any():
            shown = shown.assign(**{name: table[name]})
    answer.show("predictions", table, plain(shown))
