"""The command line: an application of all commands, and `main`, which runs it."""

from __future__ import annotations

import io
import itertools
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

import bayeslaw
from bayeslaw.cli import (
    anchors,
    backtest,
    chain,
    data,
    dynamics,
    explore,
    fits,
    forecasts,
    laws,
    logs,
    mixtures,
    onrecord,
    plan,
    recipes,
    report,
    versus,
    watch,
)
from bayeslaw.cli.answer import Answer, answering
from bayeslaw.core.errors import BayeslawError, shortened
from bayeslaw.core.text import percent_hint

INTERRUPTED = 130  # the status of a command that Ctrl-C ended
MOST_IN_LINE = 1_000  # characters in a line of an error


class _Command(TyperCommand):
    """A command that says what to write in place of usual mistakes.

    They are an argument given as an option, settings of which not each has its --set, a percentage where a number is needed, and an
    option given several times of which only the last would count.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = [*args]  # which are taken out of the list one by one
        try:
            _, _, order = self.make_parser(ctx).parse_args([*args])
            single = [param for param in order if isinstance(param, TyperOption) and not (param.multiple or param.is_flag)]
            if not ctx.resilient_parsing and (again := next((param for param in single if single.count(param) > 1), None)):
                message = f"it is given {single.count(again)} times, of which only the last would count: give it once"
                if again.name == "by" and any(param.name == "pool" for param in self.params):
                    message += ", and parameters that vary by a column by --pool (options={'by': …})"
                raise typer.BadParameter(message, ctx, again)
            return super().parse_args(ctx, args)
        except Exception as error:  # click's NoSuchOption, which newer versions of typer have a copy of
            given = str(getattr(error, "option_name", ""))
            own = [param for param in self.params if param.param_type_name == "argument" and param.name == given.lstrip("-")]
            if own:
                vars(error).update(
                    message=f"{own[0].name} is given by its position, as above: leave out {given}", possibilities=None
                )
            problem = str(getattr(error, "message", ""))
            setting = re.search(r"extra argument.*?(\w+=[^\s()]+)", problem)
            if setting and any("--set" in param.opts for param in self.params):
                vars(error).update(message=f"{problem}: write --set before each setting, as in --set {setting[1]}")
            options = {*getattr(getattr(error, "param", None), "opts", ())}
            values = [value for option, value in itertools.pairwise(words) if option in options]
            values += [word.partition("=")[2] for word in words if word.partition("=")[0] in options]
            if hint := next(filter(None, map(percent_hint, values)), ""):
                vars(error).update(message=f"{problem.rstrip('.')}.{hint}")
            raise


def application(help_: str, *commands: Callable[..., Answer], completion: bool = False) -> typer.Typer:
    """Return an application of commands, each named by its function."""
    group = typer.Typer(
        help=help_, no_args_is_help=True, add_completion=completion, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    for command in commands:
        group.command(command.__name__.rstrip("_"), cls=_Command)(answering(command))
    return group


app = application(
    "Scaling laws as Bayesian models: from a table of logged losses to a forecast with credible intervals.",
    laws.laws, laws.check, fits.fit, fits.show, forecasts.forecast, chain.chain, forecasts.score, forecasts.compare,
    backtest.backtest, onrecord.register, onrecord.settle, onrecord.record,
    anchors.anchors, report.report, report.cite, explore.explore, fits.update, data.demo, plan.plan, plan.allocate, plan.transfer,
    plan.tuning,
    versus.versus,
    mixtures.mix,
    mixtures.long,
    logs.import_,
    logs.convert,
    watch.watch,
    completion=True,
)  # fmt: skip


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"bayeslaw {bayeslaw.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version of bayeslaw.")
    ] = False,
) -> None:
    pass


app.add_typer(
    application(
        "Forecast losses at every step, under any learning-rate schedule, in pre-training and adaptation.",
        dynamics.areas, dynamics.memory, recipes.forecast, recipes.best, recipes.turning, recipes.combine, recipes.outside,
    ),
    name="dynamics",
)  # fmt: skip
app.add_typer(application("Download public losses from where they are published.", data.list_, data.fetch), name="data")


def main() -> None:
    """Run the command line. An error in what was given is one message on standard error and exit status 2, without a traceback."""
    try:
        if sys.flags.optimize > 1:
            raise BayeslawError("ArviZ needs its docstrings: run without -OO (PYTHONOPTIMIZE=2).", code="no-docstrings")
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            sys.stdout.reconfigure(errors="backslashreplace")  # a letter that its encoding lacks would end a command that is done
        app(prog_name="bayeslaw")
    except BayeslawError as error:
        end(f"Error: {error}")
    except OSError as error:  # commands turn their own into errors, so that this is of printing
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # where Python writes the rest of the text when it ends
        end(f"Error: Standard output can't be written: {error.strerror}.")
    except Exception as error:
        if is_interrupt(error):
            sys.exit(INTERRUPTED)
        if hint := unusable_environment():
            end(f"Error: {type(error).__name__}: {error} {hint}")
        raise


def unusable_environment() -> str:
    """Return what of the environment PyTensor or Numba can't be imported with, and what to do about it; '' where they can."""
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        value = os.environ.get(name) or "1"
        if not (value.isdecimal() and int(value)):
            return f"Set {name}, which is {value!r}, to one whole number above 0."
    try:
        Path.home()
    except RuntimeError:  # as of a user without an entry in a container
        return "Name a folder in HOME."
    return ""


def end(text: str) -> None:
    """End the command with status 2 and an error."""
    lines = [shortened(line, MOST_IN_LINE) for line in text.splitlines()]  # what was given may be long
    with suppress(OSError):  # standard error may be full too
        typer.echo("\n".join(lines), err=True)
    sys.exit(2)


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether Ctrl-C is behind an error: modules in C that are being imported turn it into a SystemError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
