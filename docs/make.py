"""Make the pages of the site that follow from the code: gallery of laws, notebooks, commands, API.

The pages are written to docs/_made, which git ignores. The gallery knows covariates, not laws: a card added to models/ gets a page.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Container, Iterator
from importlib import import_module
from inspect import ismodule
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from typer.testing import CliRunner

import bayeslaw
from bayeslaw.cli import main as cli
from bayeslaw.laws.card import card_folder, law_names, load_law
from bayeslaw.laws.formula import Expression
from bayeslaw.laws.law import Law
from bayeslaw.laws.references import Reference
from bayeslaw.plots.style import COLOURS, finish, save_figure
from bayeslaw.schedules import changes as nodes
from bayeslaw.schedules import schedule as schedules
from bayeslaw.schedules.areas import trace

HERE = Path(__file__).resolve().parent
MADE = HERE / "_made"
NOTEBOOKS = HERE.parent / "notebooks"
DRAWS, SHOWN = 2000, 20  # of the prior; of them as lines
# The axis of a law's picture is the first of these that it has; the other covariates have fixed values.
ALONG = {"D": (1e8, 1e12), "P": (1, 64), "L_target": (1.5, 4.0), "loss": (1.5, 4.0), "S1": (-2.5, 2.5), "web": (0.0, 1.0)}
STAND = {"N": 1e9, "D": 1e10, "r": 0.25, "ptpp": 31.0, "cpt": 1.0, "U": 3e10, "P": 1.0}
STAND |= {"web": 0.5, "code": 0.2, "books": 0.3}
STAND |= {"L_source": 2.5, "L_target": 2.5, "base_loss": 2.5, "chance": 0.25, "items": 1000.0, "S2": 0.0, "S3": 0.0}
STAND |= {"lr": 1e-3, "batch": 5e5, "bits_w": 8.0, "bits_a": 8.0, "bits_kv": 8.0, "G": 8.0, "active": 0.1, "Nv": 5e7}
PRETRAIN, ADAPT = schedules.wsd(10_000, 3e-4, warmup=200), schedules.cosine(5_000, 1.5e-4, warmup=100)
GROUPS = {
    "Pre-training": "Losses at the end of runs from scratch.",
    "Continual pre-training": "Losses of adaptations and fine-tuning, many with replay or the length of the pre-training.",
    "Training curves": "Losses at every step, under any learning-rate schedule.",
    "Tasks": "What benchmarks measure: accuracies, errors and losses of answers.",
}
MEMBERS = ["   :members:", "   :inherited-members:"]  # the verdicts of fits and stacks are inherited
# Of the page of the API.
BEGIN = """\
:py:obj:`bayeslaw.read_runs` reads a table, and :py:obj:`bayeslaw.fit` fits a law to it. The :py:obj:`bayeslaw.Fit` that it returns
has a :py:obj:`summary <bayeslaw.Fit.summary>` of its parameters and the :py:obj:`verdicts <bayeslaw.Fit.verdicts>` of its checks.
Many functions of a fit are also its methods: ``fit.forecast(settings)`` is :py:obj:`bayeslaw.forecast` with this fit, and so are
``fit.score``, ``fit.update``, ``fit.anchors``, ``fit.allocate``, ``fit.transfer``, ``fit.tuning`` and ``fit.report``.
:py:obj:`bayeslaw.load_fit` reads what :py:obj:`save <bayeslaw.Fit.save>` wrote."""
PACKAGES = ("", ".data", ".schedules", ".inference", ".evaluation", ".design", ".planning", ".dynamics", ".plots", ".core")


def main() -> None:
    for folder in ("laws", "notebooks"):
        (MADE / folder).mkdir(parents=True, exist_ok=True)
    for older in MADE.rglob("*.*"):
        older.unlink()
    gallery()
    notebooks()
    (MADE / "commands.md").write_text(commands(), encoding="utf-8")
    (MADE / "api.md").write_text(api(), encoding="utf-8")


# --- the gallery ------------------------------------------------------------------------------------------------------


def gallery() -> None:
    """One page a law, and the page that lists them."""
    laws = {name: load_law(name) for name in law_names()}
    for name, law in laws.items():
        prior_picture(law, MADE / "laws" / f"{name}.png")
        (MADE / "laws" / f"{name}.md").write_text(page(law), encoding="utf-8")
    lines = ["# Gallery of laws", "", "Made from the cards in `models/`; `bayeslaw laws NAME` describes a law in a terminal.", ""]
    for group, what in GROUPS.items():
        lines += [f"## {group}", "", what, "", "| law | |", "|---|---|"]
        lines += [f"| [{n}]({n}.md) | {law.title} |" for n, law in laws.items() if group_of(law) == group]
        lines.append("")
    lines += ["```{toctree}", ":hidden:", "", *laws, "```", ""]
    (MADE / "laws" / "index.md").write_text("\n".join(lines), encoding="utf-8")


def group_of(law: Law) -> str:
    """The group of the gallery in which a law stands, by its covariates and its domain."""
    if "lr_peak" in law.covariates:
        return "Training curves"
    if not law.outcome.is_loss and law.outcome.kind != "real":  # a difference of losses is one too
        return "Tasks"
    return "Continual pre-training" if law.domain or {"r", "ptpp", "cpt", "L_source"} & set(law.covariates) else "Pre-training"


def page(law: Law) -> str:
    """The page of a law: its papers, formula, covariates, parameters, losses that priors allow, published numbers, its card."""
    lines = [f"# {law.name}", "", f"{law.title}.", "", f"Source: {law.source}.", "", *map(linked, law.references), ""]
    lines += ["## Formula", "", *(f'<div class="formula">{element}</div>' for element in law.mathml), ""]
    lines += ["As the card has it:", "", "```", f"{law.outcome.name} = {law.formula.text}"]
    lines += [f"{name} = {expression.text}" for name, expression in law.let.items()]
    lines += ["```", ""]
    if law.noise:
        lines += [f"Noise of fits to runs that are logged often: `{law.noise}` ([noise](../../intervals.md#noise)).", ""]
    if law.note:
        lines += ["## Note", "", law.note, ""]
    lines += ["## Covariates", "", "| | unit | from | to |", "|---|---|---|---|"]
    nodes_of = law.series
    skipped = {c for columns in nodes_of.values() for c in columns[1:]}
    for c in law.covariates.values():
        if c.name not in skipped:
            shown = f"`{c.series}`, {len(nodes_of[c.series])} nodes" if c.series else f"`{c.name}`"
            unit = c.unit + (" (not in the loss)" if c.context else "")
            unit += f"; runs need {c.at_least} values" if c.at_least > 1 else ""
            lines.append(f"| {shown} | {unit} | {c.support[0]:g} | {c.support[1]:g} |")
    lines += ["", "## Parameters", "", "| | name | meaning | unit | prior |", "|---|---|---|---|---|"]
    for p in law.parameters.values():
        lines.append(f"| {Expression.parse(p.name).mathml()} | `{p.name}` | {p.meaning} | {p.unit} | `{p.prior}` |")
    lines += ["", "`on` in a prior: it is stated for the value of that term at the geometric middle of the runs.", ""]
    outcomes = law.outcome.plural.replace("_", " ")
    caption = (
        f"{outcomes.capitalize()} that the priors of {law.name} allow: median, 50% and 90% equal-tailed intervals, and 20 draws"
    )
    lines += ["## What the priors allow", "", f"![{caption}]({law.name}.png)", ""]
    lines += [f"{caption}, before any {law.outcome.name.replace('_', ' ')} is seen. {where(law)}", ""]
    if law.published:
        lines += ["## Published numbers", ""]
        for title, numbers in law.published.items():
            lines += [f"{title}:", "", "| | |", "|---|---|", *(f"| `{k}` | {v:g} |" for k, v in numbers.items()), ""]
    lines += ["## Card", "", "```toml", (card_folder() / f"{law.name}.toml").read_text(encoding="utf-8").rstrip(), "```", ""]
    return "\n".join(lines)


def linked(reference: Reference) -> str:
    """A paper as an entry of a list, with a link to it."""
    fields = reference.fields
    for name, site in (("doi", "https://doi.org/"), ("eprint", "https://arxiv.org/abs/"), ("url", "")):
        if name in fields:
            return f"- [{re.sub('[{}]', '', fields['title'])}]({site}{fields[name]}), {fields['year']}"
    return f"- {re.sub('[{}]', '', fields['title'])}, {fields['year']}"


def settings(law: Law) -> tuple[str, pd.DataFrame, str]:
    """The axis of a law's picture, settings along it, and the values of the other covariates as text."""
    if "lr_peak" in law.covariates:
        step = np.unique(np.linspace(100, len(PRETRAIN), 80).astype(np.int64))
        table, end = trace(PRETRAIN, step)
        table = pd.concat([table, nodes.nodes(PRETRAIN, step)], axis=1)
        if "S1_cpt" in law.covariates:
            late = np.unique(np.linspace(1, len(ADAPT), 80).astype(np.int64))
            table = pd.concat([table, trace(ADAPT, late, end, phase="adapt")[0]], ignore_index=True)
            step = np.concatenate([step, len(PRETRAIN) + late])
        others = held(law, table)
        table = table.assign(**others, axis=step)
        schedule = f"{len(PRETRAIN):,} steps of WSD at a peak of 3e-4"
        if "S1_cpt" in law.covariates:
            schedule += f", then {len(ADAPT):,} of a cosine at 1.5e-4"
        return "step", table, schedule + ("; " + listed(others) if others else "") + "."
    axis = next((name for name in ALONG if name in law.covariates), None)
    if axis is None:
        raise SystemExit(f"{law.name} has no covariate for the axis of its picture: add one to ALONG in docs/make.py.")
    low, high = ALONG[axis]
    values = (np.geomspace if low > 0 else np.linspace)(low, high, 120)
    others = held(law, [axis])
    if axis in law.shares:  # the others share the rest evenly
        rest = [name for name in law.shares if name != axis]
        table = pd.DataFrame({axis: values, **{name: (1 - values) / len(rest) for name in rest}})
        return axis, table.assign(axis=values), f"{' and '.join(rest)} have equal parts of the rest."
    return axis, pd.DataFrame({axis: values, **others}).assign(axis=values), f"{listed(others)}." if others else ""


def held(law: Law, varied: Container[str]) -> dict[str, float]:
    """The fixed values of a law's covariates that its picture does not vary."""
    others = [name for name in law.covariates if name not in varied]
    if lacking := [name for name in others if name not in STAND]:
        raise SystemExit(f"{law.name}: its picture needs a value of {', '.join(lacking)}: add it to STAND in docs/make.py.")
    return {name: STAND[name] for name in others}


def listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in values.items())


def where(law: Law) -> str:
    """The values of the covariates that are not on the picture's axis, as text."""
    return f"Here {settings(law)[2]}" if settings(law)[2] else ""


def prior_picture(law: Law, path: Path) -> None:
    """Draw the losses along one covariate under draws of the prior."""
    axis, table, _ = settings(law)
    rng = np.random.default_rng(0)
    losses = law.predict(law.sample_prior(DRAWS, law.reference(table), rng), {k: table[k].to_numpy() for k in law.covariates})
    x = table["axis"].to_numpy()

    def draw(ax: Axes) -> None:
        for outer, shade in ((90, 0.15), (50, 0.3)):
            low, high = np.nanpercentile(losses, [50 - outer / 2, 50 + outer / 2], axis=0)
            ax.fill_between(x, low, high, color=COLOURS[0], alpha=shade, lw=0, label=f"{outer}% equal-tailed interval")
        lines = ax.plot(x, losses[:SHOWN].T, color=COLOURS[0], lw=0.4)
        lines[0].set_label(f"{SHOWN} draws")
        ax.plot(x, np.nanmedian(losses, axis=0), color="black", lw=1.5, label="median")
        if axis in ("D", "P"):
            ax.set_xscale("log")
        unit = "of pre-training, and adaptation after it" if axis == "step" else law.covariates[axis].unit
        least = 0.0 if law.outcome.kind != "real" else float(np.nanpercentile(losses, 5))
        ax.set_ylim(least, min(law.outcome.bounds[1], 15.0, 1.1 * float(np.nanpercentile(losses, 95))))
        finish(ax, f"{axis} ({unit})", law.outcome.labelled(law.outcome.unit).replace("_", " "), "")

    save_figure(path, draw)


# --- the notebooks ----------------------------------------------------------------------------------------------------


def notebooks() -> None:
    """Write a page for each notebook, with its stored outputs, and the page that lists them."""
    lines = [
        "# Notebooks",
        "",
        "The notebooks are in the order in which questions arise. `notebooks/` has them with their outputs; `make test` runs them.",
        "",
    ]
    names = []
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = notebook_page(cells, path.stem)
        (MADE / "notebooks" / f"{path.stem}.md").write_text(text, encoding="utf-8")
        names.append(path.stem)
        lines.append(f"- [{text.partition(chr(10))[0].removeprefix('# ')}]({path.stem}.md)")
    lines += ["", "```{toctree}", ":hidden:", "", *names, "```", ""]
    (MADE / "notebooks" / "index.md").write_text("\n".join(lines), encoding="utf-8")


def notebook_page(cells: list[dict[str, Any]], name: str) -> str:
    """A notebook's cells as Markdown; its pictures are written beside the page."""
    parts, pictures, heading = list[str](), 0, ""
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            heading = ([line.lstrip("# ") for line in source.splitlines() if line.startswith("#")] or [heading])[-1]
            parts.append(source.replace("](../docs/", "](../../").replace(".ipynb)", ".md)"))
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
            if "image/png" in data:
                pictures += 1
                picture = MADE / "notebooks" / f"{name}-{pictures}.png"
                picture.write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![Picture: {heading}]({picture.name})")
            else:
                parts.append(printed("".join(output.get("text", "")), data))
    return "\n\n".join(parts) + "\n"


def printed(text: str, data: dict[str, str]) -> str:
    """The output of a cell as Markdown: an HTML table where there is one, else text."""
    if "text/html" in data:
        table = re.sub(r"<style.*?</style>", "", data["text/html"], flags=re.DOTALL)
        table = table.replace('<table border="1" class="dataframe">', '<table class="docutils dataframe">')
        return f'```{{raw}} html\n<div class="table-wrapper">{table}</div>\n```'
    return f"```{{code-block}} text\n:class: printed\n\n{(text or data['text/plain']).rstrip()}\n```"


# --- commands and API -------------------------------------------------------------------------------------------------


def commands() -> str:
    """The page of commands: the `--help` text of each."""
    text = [(HERE / "commands_head.md").read_text(encoding="utf-8").rstrip(), ""]
    for path in ((), *command_paths(cli.app)):
        text += [f"## {' '.join(('bayeslaw', *path))}", "", "```text", help_of(path), "```", ""]
    return "\n".join(text)


def command_paths(app: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command that runs, as the words behind `bayeslaw`."""
    for command in app.registered_commands:  # type: ignore[attr-defined]
        yield (*path, command.name or command.callback.__name__.replace("_", "-"))
    for group in app.registered_groups:  # type: ignore[attr-defined]
        yield from command_paths(group.typer_instance, (*path, group.name))


def help_of(path: tuple[str, ...]) -> str:
    """The help of a command as a terminal shows it, written by this process: to start one for each took half a minute."""
    done = CliRunner().invoke(cli.app, [*path, "--help"], prog_name="bayeslaw", terminal_width=78)
    if done.exit_code:
        raise SystemExit(f"bayeslaw {' '.join(path)} --help ended with {done.exit_code}: {done.output}")
    return done.output.rstrip()


def api() -> str:
    """Every public name from its docstring, by package, below a table of the names; a name at the top is not listed again."""
    lines, top = ["# API", "", "```{eval-rst}", BEGIN, "```", ""], set(dir(bayeslaw))
    for package in PACKAGES:
        module = import_module(f"bayeslaw{package}")
        names = [name for name in dir(module) if not name.startswith("_") and (package == "" or name not in top)]
        values = {name: value for name in names if not ismodule(value := getattr(module, name))}
        lines += [f"## bayeslaw{package}", "", (module.__doc__ or "").partition("\n")[0], "", "```{eval-rst}"]
        lines += [".. list-table::", "   :widths: auto", ""]
        for name, value in values.items():
            what = (value.__doc__ or "").partition("\n")[0] if callable(value) else ""
            lines += [f"   * - :py:obj:`{name} <bayeslaw{package}.{name}>`", f"     - {what}"]
        lines.append("")
        for name, value in values.items():
            kind = "function" if callable(value) else "data"
            if isinstance(value, type):
                kind = "exception" if issubclass(value, Exception) else "class"
            lines += [f".. auto{kind}:: bayeslaw{package}.{name}", *(MEMBERS if kind == "class" else []), ""]
        lines += ["```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
