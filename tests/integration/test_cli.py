"""The command line: what each command prints and writes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

import bayeslaw
from bayeslaw import plots
from bayeslaw.core.errors import BayeslawError
from bayeslaw.core.text import plain
from bayeslaw.laws.card import law_names, load_law
from bayeslaw.laws.law import Law
from bayeslaw.posterior.fit import Fit
from bayeslaw.posterior.storage import contents_digest, draws_digest
from tests.commands import Command, Done, rejected, unchanged
from tests.fixed import loaded_fit

SHORT = ("-q", "--draws", "200", "--tune", "100", "--chains", "2")
SCRIPT = Path(sys.executable).with_name("bayeslaw")


# --- what the commands do -------------------------------------------------------------------------------------------


def test_a_law_says_the_noise_that_its_card_names(command: Command) -> None:
    assert "noise of fits to runs that are logged often: normal-drift" in command("laws", "from-base-source").out
    assert "noise" not in command("laws", "plateau-source").out.split("note:")[0]


def test_laws_are_listed_one_a_line(command: Command) -> None:
    done = command("laws")
    assert (done.status, done.err) == (0, "")
    assert [line.split()[0] for line in done.out.splitlines()] == law_names()
    assert all(load_law(n).title in line for n, line in zip(law_names(), done.out.splitlines(), strict=True))


def test_a_law_is_shown_with_all_its_parts(command: Command, law: Law) -> None:
    done = command("laws", law.name)
    assert done.status == 0
    for text in (law.title, f"source: {law.source}", f"{law.outcome.name} = {law.formula.text}", f"note: {law.note}"):
        assert text in done.out
    for name, expression in law.let.items():
        assert f"{name} = {expression.text}" in done.out
    for name, covariate in law.covariates.items():
        of = f" (not in the {'loss' if law.outcome.is_loss else 'formula'})" if covariate.context else ""
        if covariate.series:
            columns = law.series[covariate.series]
            name, of = covariate.series, f" (columns {columns[0]} to {columns[-1]})"
        assert f"  {name:<10} {covariate.unit}, {covariate.support[0]:g} to {covariate.support[1]:g}{of}\n" in done.out
    for name, parameter in law.parameters.items():
        assert f"  {name:<10} {parameter.meaning}" in done.out
        assert f"prior {parameter.prior}\n" in done.out
    for title, numbers in law.published.items():
        assert f"published: {title}\n" in done.out
        assert all(f"{k} {v:g}" in done.out for k, v in numbers.items())


def test_a_card_of_ones_own_is_shown(command: Command, folder: Path) -> None:
    assert command("laws", "card.toml").out == command("laws", "chinchilla").out


def test_a_sound_table_passes_the_check(command: Command, folder: Path) -> None:
    table = pd.read_csv("runs.csv").rename(columns={"loss": "val_loss"}).assign(N=lambda t: t["N"] / 1e9)
    base = table.head(2).assign(D=0)
    pd.concat([table, base]).rename(columns={"N": "params_b"}).to_csv("named.csv", index=False)
    done = command("check", "named.csv", "--law", "chinchilla")
    assert (done.status, done.err) == (0, "")
    assert "read: N = params_b x 1e+09\nread: loss = val_loss\n" in done.out
    assert "named.csv: 42 rows are sound for chinchilla; 2 rows (D = 0) are kept out of the fit.\n" in done.out
    assert "\nnote: rows 41–42 have D = 0 and are kept out: chinchilla is a law of training from scratch" in done.out


def test_check_counts_the_rows_that_a_fit_has_and_notes_swapped_columns(command: Command, folder: Path) -> None:
    table = pd.read_csv("runs.csv").drop(columns="run").assign(D=lambda t: 20 * t["N"] + t["D"])
    pd.concat([table, table.head(1)]).rename(columns={"N": "D", "D": "N"}).to_csv("swapped.csv", index=False)
    done = command("check", "swapped.csv", "--law", "chinchilla", "--duplicates", "drop")
    assert done.status == 0
    assert "swapped.csv: 40 rows are sound for chinchilla.\n" in done.out
    assert "row 41, which repeats an earlier row exactly, is left out" in done.out
    assert "note: every run has more parameters than training tokens" in done.out


def test_a_table_in_the_place_of_the_law_is_named_so(command: Command, folder: Path) -> None:
    rejected(command("fit", "runs.csv", "chinchilla", "-o", "x.nc"), "table-for-a-law", "runs.csv", "changed places")


def test_check_names_every_fault_of_a_table(command: Command, folder: Path) -> None:
    table = pd.read_csv("ptpp.csv")
    table.loc[3, "loss"], table.loc[7, "r"], table.loc[9, "N"] = -1.0, 34.0, 8.1
    table.to_csv("faulty.csv", index=False)
    done = command("check", "faulty.csv", "--law", "ptpp-floor")
    rejected(done, "faulty-table", "faulty.csv", 3)
    assert done.out.splitlines() == [
        "loss -1 is not positive: give losses in nats/token, above 0: add back what was subtracted (row 4, column loss)",
        "r 34 is outside [0, 1]: is it a percentage? Divide by 100 (row 8, column r)",
        "N 8.1 is outside [10000, 1e+13]: is it in millions? Give the number of parameters (row 10, column N)",
    ]
    assert command("check", "faulty.csv", "--law", "ptpp-floor", "--where", "loss > 0 and r <= 1 and N > 1e4").status == 0


def test_check_refuses_what_a_fit_refuses_of_sound_rows(command: Command, folder: Path) -> None:
    """It said that all rows are sound, and ended with status 0 where the fit of the same table ends with an error."""
    table = pd.read_csv("runs.csv")
    pd.concat([table.assign(domain=name) for name in ("web", "code")]).to_csv("two.csv", index=False)
    done = command("check", "two.csv", "--law", "chinchilla")
    rejected(done, "faulty-table", "two.csv")
    assert "2 domains (web, code)" in done.out
    assert "sound" not in done.out
    assert command("check", "two.csv", "--law", "chinchilla", "--where", "domain == 'web'").status == 0
    assert command("check", "two.csv", "--law", "chinchilla", "--by", "E=domain").status == 0


def test_check_takes_the_laws_of_a_stack(command: Command, folder: Path) -> None:
    done = command("check", "ptpp.csv", "--law", "ptpp-floor, chinchilla", "--json")
    assert done.status == 0
    given = json.loads(done.out)
    sound = [line for line in given["text"] if " sound for " in line]
    assert [line.split(" for ")[1].split(";")[0].rstrip(".") for line in sound] == ["ptpp-floor", "chinchilla"]
    assert "values of ptpp (15 to 279), which chinchilla does not know" in given["text"][-1]
    assert list(given["results"]["by_law"]) == ["ptpp-floor", "chinchilla"]
    done = command("check", "runs.csv", "--law", "chinchilla,ptpp-floor")  # a fault that one law alone finds
    rejected(done, "faulty-table", "for ptpp-floor.")
    assert "chinchilla" not in done.out


def test_fit_show_forecast_score(command: Command, folder: Path) -> None:
    done = command("fit", "chinchilla", "runs.csv", "-o", "new.nc", "--seed", "5", *SHORT)
    assert (done.status, done.err) == (0, "")
    assert "chinchilla fitted to 40 rows of 8 runs; normal point noise with a run effect.\n" in done.out
    *_, sampling, model, written = done.out.splitlines()
    assert sampling.startswith("Sampling: FAILED (")
    assert "Sample longer" in sampling or "More draws alone don't help" in sampling
    assert (model, written) == ("Model: not assessed, since the draws can't be trusted", "written to new.nc")
    made = loaded_fit("new.nc")
    settings = {
        "draws": 200,
        "tune": 100,
        "chains": 2,
        "target_accept": None,
        "bins": None,
    }
    assert made.info["settings"] == settings
    again = bayeslaw.fit("chinchilla", pd.read_csv("runs.csv"), seed=5, draws=200, tune=100, chains=2, progress=False)
    pd.testing.assert_frame_equal(made.summary(), again.summary())

    shown = command("show", "new.nc")
    assert all(name in shown.out for name in made.summary().index)
    assert all(str(check) in shown.out for check in made.checks)
    assert "fitted to runs.csv, 40 rows of 8 runs; normal point noise with a run effect" in shown.out
    assert shown.out.endswith("be trusted\nIntervals are not shown without --force.\n")  # few draws
    assert "eti90" not in shown.out
    for form in ("--csv", "--latex"):
        rejected(command("show", "new.nc", form), "failed-checks", "--force")
    read = pd.read_csv(io.StringIO(command("show", "new.nc", "--csv", "--ci", "0.5", "--force").out), index_col="parameter")
    pd.testing.assert_frame_equal(read, made.summary(0.5), rtol=1e-14)
    assert (read["checks"] == "FAILED").all()
    forced = command("show", "new.nc", "--force").out
    assert forced.endswith("Model: not assessed, since the draws can't be trusted\n")
    assert "eti90" in forced
    assert "in all rows: checks FAILED" in forced.split("\n\n")[1]
    latex = command("show", "new.nc", "--latex", "--force").out
    assert latex.count(r"]^{\dagger}$") == len(read)
    assert r"$^{\dagger}$ Sampling of this fit FAILED: not to be trusted." in latex

    at = ("--set", "N=1e8,1e9", "--set", "D=1e8:1e11:4")
    rejected(command("forecast", "new.nc", *at), "failed-checks")
    printed = command("forecast", "new.nc", *at, "--force")
    assert printed.out.count("FAILED (forced)") == 8
    rejected(command("score", "new.nc", "held.csv"), "failed-checks")
    scored = pd.read_csv(io.StringIO(command("score", "new.nc", "held.csv", "--force", "--csv").out))
    assert "crps, log_score" in command("score", "new.nc", "held.csv", "--force", "--all").out  # scores are explained below them
    pd.testing.assert_frame_equal(scored, bayeslaw.score(made, pd.read_csv("held.csv"), force=True), rtol=1e-14)
    assert scored["checks"].tolist() == ["FAILED (forced)"]


def test_a_sound_fit_is_shown_as_passed(command: Command, folder: Path) -> None:
    shown = command("show", "fit.nc").out
    assert "\nSampling: passed\nModel: " in shown
    assert "eti90" in shown
    assert "sensitivity" not in shown
    assert "FAILED" not in command("show", "fit.nc", "--csv").out + command("show", "fit.nc", "--latex").out
    assert "dagger" not in command("show", "fit.nc", "--latex").out


def test_sensitivity_is_shown_when_asked_for(command: Command, folder: Path, sound_fit: Fit) -> None:
    shown = command("show", "fit.nc", "--sensitivity").out
    assert "sensitivity to a doubling of the weight of priors (law, noise) or likelihood, of note from 0.05 on" in shown
    table = sound_fit.sensitivity()
    assert plain(table.rename(columns=lambda name: name.removesuffix("_sensitivity"))) in shown
    assert "\nSampling: passed\nModel: " in shown


def test_a_forecast_names_settings_far_outside_the_runs(command: Command, folder: Path) -> None:
    done = command("forecast", "fit.nc", "--set", "N=1e9", "--set", "D=1e10,1e14")
    assert (done.status, done.err) == (0, "")
    assert "\nconcern: 1 of 2 settings lie far outside the runs: D up to 8.7 e-folds (the runs span " in done.out
    assert done.out.endswith("\nSampling: passed\nModel: concerns (extrapolation)\n")
    assert done.out.count("FAR outside: D by 8.7 e-folds") == 1
    assert any(line.split()[-1:] == ["inside"] for line in done.out.splitlines())
    inside = command("forecast", "fit.nc", "--set", "N=1e9", "--set", "D=1e10", "-o", "out.csv")
    said = "1 setting written to out.csv\nAll rows lie inside the runs: report `run`.\n"
    assert inside.out == f"{said}Sampling: passed\nModel: no concerns\n"


def test_a_forecast_that_mixes_badly_is_refused_though_its_fit_passed(command: Command, folder: Path) -> None:
    """A fit file whose chains disagree about E, with checks that say they don't."""
    fit = loaded_fit("fit.nc")
    posterior = fit.tree["posterior"].to_dataset()
    apart = posterior["E"] * np.array([1.05, 1.0])[:, None]
    fit.tree["posterior"] = posterior.assign(E=apart)
    fit.tree.attrs["draws_sha256"] = draws_digest(fit.tree)
    fit.tree.attrs["contents_sha256"] = contents_digest(fit.tree)
    fit.save("apart.nc")
    at = ("--set", "N=1e9", "--set", "D=1e10,1e11")
    rejected(command("forecast", "apart.nc", *at), "failed-checks", "R-hat")
    done = command("forecast", "apart.nc", *at, "--force")
    assert done.out.count("FAILED (forced)") == 2
    assert "\nFAILED: smallest bulk effective sample size of the latent loss: " in done.out


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_forecast_writes_its_table_and_picture(command: Command, folder: Path, sound_fit: Fit, ending: str) -> None:
    done = command(
        "forecast", "fit.nc", "--set", "N=1e8,1e9", "--set", "D=1e8:1e11:4", "--ci", "0.8", "--seed", "4", "-o", "out.csv",
        "--plot", f"fan.{ending}",
    )  # fmt: skip
    assert (done.status, done.err) == (0, "")
    first, which, *last = done.out.splitlines()
    assert first == "8 settings written to out.csv"
    assert which.startswith("Rows outside the runs: report `extrapolated`, ")
    assert last == ["Sampling: passed", "Model: no concerns", f"picture written to fan.{ending}"]
    assert Path(f"fan.{ending}").stat().st_size > 5000
    head = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[ending]
    assert Path(f"fan.{ending}").read_bytes().startswith(head)
    settings = bayeslaw.grid(sound_fit.law, {"N": "1e8,1e9", "D": "1e8:1e11:4"})
    expected = bayeslaw.forecast(sound_fit, settings, seed=4).summary(0.8)
    pd.testing.assert_frame_equal(pd.read_csv("out.csv"), expected, rtol=1e-14)


def test_a_forecast_that_can_not_be_drawn_leaves_older_tables(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_picture(*_: object, **__: object) -> None:
        raise BayeslawError("no picture can be drawn of it.", code="no-picture")

    monkeypatch.setattr(plots, "plot_forecast", no_picture)
    with unchanged(folder):
        at = ("--set", "N=1e8", "--set", "D=1e8:1e11:4")
        rejected(command("forecast", "fit.nc", *at, "-o", "older.csv", "--plot", "fan.png"), "no-picture")


def test_the_picture_is_of_the_same_forecast(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Axes] = []
    plot = plots.plot_forecast
    monkeypatch.setattr(plots, "plot_forecast", lambda *args, **options: drawn.append(plot(*args, **options)))
    at = ("--set", "N=1e8", "--set", "D=1e8:1e11:4")
    assert command("forecast", "fit.nc", *at, "--ci", "0.8", "--plot", "fan.png").status == 0
    (ax,) = drawn
    assert ax.get_title() == "chinchilla: median, 80% equal-tailed interval of the next run"
    assert ax.get_xlabel() == "D (training tokens)"


def test_measured_losses_are_drawn_but_for_those_of_the_fit(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[pd.DataFrame] = []
    monkeypatch.setattr(plots, "plot_forecast", lambda *_, measured, **__: drawn.append(measured))
    seen, new = (pd.read_csv(name) for name in ("runs.csv", "held.csv"))
    pd.concat([seen[:3], new], ignore_index=True).to_csv("mixed.csv", index=False)
    at = ("--set", "N=1e8", "--set", "D=1e8:1e11:4")
    done = command("forecast", "fit.nc", *at, "--plot", "fan.png", "--measured", "mixed.csv")
    assert done.status == 0, done
    assert drawn[0]["loss"].tolist() == new["loss"].tolist()
    assert "note: 3 rows of mixed.csv in the fit are not drawn as measured\n" in done.out
    two = pd.concat([new.assign(domain="web"), new.assign(domain="code")])
    two.to_csv("two.csv", index=False)
    of_one = ("--plot", "fan.png", "--measured", "two.csv", "--where", "domain == 'code'")
    assert command("forecast", "fit.nc", *at, *of_one).status == 0
    assert drawn[1]["domain"].unique().tolist() == ["code"]
    rejected(command("forecast", "fit.nc", *at, "--where", "N > 1"), "where-without-table", "--measured")
    rejected(command("forecast", "fit.nc", *at, "--measured", "held.csv"), "measured-without-plot", "--plot")
    done = command("forecast", "fit.nc", *at, "--plot", "p.png", "--measured", "runs.csv")
    rejected(done, "nothing-held-out", "runs.csv", "--measured")
    assert "--in-sample" not in done.err  # which this command doesn't have
    assert not Path("p.png").exists()
    pd.read_csv("held.csv").rename(columns={"loss": "val/ppl"}).to_csv("named.csv", index=False)  # which no name of a column tells
    named = ("--measured", "named.csv", "--column", "loss=val/ppl", "-o", "named.csv")
    with unchanged(folder):
        rejected(command("forecast", "fit.nc", *at, "--plot", "p.png", *named), "output-is-input", "named.csv")


def test_show_draws_parameters_predictions_and_calibration(command: Command, folder: Path) -> None:
    done = command("show", "fit.nc", "--plot", "show.svg")
    assert done.status == 0, done
    assert done.out.endswith("picture written to show.svg\n")
    picture = Path("show.svg").read_text(encoding="utf-8")
    assert [words for words in ("interval of the prior", "posterior predictive intervals", "LOO-PIT") if words in picture]
    with unchanged(folder):
        rejected(command("show", "failed.nc", "--plot", "older.png"), "failed-checks", "--force")
        rejected(command("show", "fit.nc", "--plot", "show.gif"), "wrong-ending", "show.gif")
    assert command("show", "failed.nc", "--plot", "older.png", "--force").status == 0


def test_forecast_at_a_table_of_settings(command: Command, folder: Path) -> None:
    pd.DataFrame({"n_billions": [0.1, 1.0], "atpp": [10, 20]}).to_csv("at.csv", index=False)
    assert command("forecast", "fit.nc", "--at", "at.csv", "-o", "out.csv").status == 0
    table = pd.read_csv("out.csv")
    assert table["N"].tolist() == [1e8, 1e9]
    assert table["D"].tolist() == [1e9, 2e10]
    assert table["checks"].tolist() == ["passed"] * 2
    printed = command("forecast", "fit.nc", "--set", "N=1e9", "--set", "atpp=20").out
    assert f"{table['extrapolated_median'][1]:.3f}" in printed


def test_laws_with_commas_between_are_fitted_as_one_stack(command: Command, folder: Path) -> None:
    done = command("fit", "chinchilla, kaplan", "runs.csv", "-o", "both.nc", "--json", *SHORT)
    assert done.status == 0, done.err
    answer = json.loads(done.out)["results"]
    assert (answer["laws"], answer["weights"]) == (["chinchilla", "kaplan"], {"chinchilla": 0.5, "kaplan": 0.5})
    stack = bayeslaw.load_fit("both.nc")
    assert isinstance(stack, bayeslaw.Stack)
    assert dict(stack.weights) == answer["weights"]
    assert command("forecast", "both.nc", "--set", "N=1e9", "--set", "D=1e10", "--force").status == 0
    for laws, text in (
        ("chinchilla,nowhere", "There is no law 'nowhere'"),
        ("kaplan,kaplan", "each named once"),
        ("kaplan,", "''"),
    ):
        done = command("fit", laws, "runs.csv", "-o", "other.nc", *SHORT)
        assert done.status == 2
        assert text in done.err
        assert not Path("other.nc").exists()


def test_a_prior_moves_the_posterior(command: Command, folder: Path) -> None:
    done = command("fit", "chinchilla", "runs.csv", "-o", "new.nc", "--prior", "E = LogNormal(0.5, 0.001)", *SHORT)
    assert done.status == 0, done.err
    made = loaded_fit("new.nc")
    assert made.summary().loc["E", "median"] == pytest.approx(np.exp(0.5), rel=0.003)  # three sd of the prior
    assert str(made.law.parameters["E"].prior) == "LogNormal(0.5, 0.001)"


def test_rows_are_chosen_by_where(command: Command, folder: Path) -> None:
    few = int((pd.read_csv("runs.csv")["D"] > 3e8).sum())
    done = command("fit", "chinchilla", "runs.csv", "-o", "new.nc", "--where", "D > 3e8", "--noise", "student-no-run", *SHORT)
    assert f"fitted to {few} rows of 8 runs; Student-t point noise without a run effect" in done.out
    done = command("score", "fit.nc", "runs.csv", "--where", "D > 3e8", "--csv", "--in-sample")
    assert pd.read_csv(io.StringIO(done.out))["rows"].tolist() == [few]


def test_the_same_seed_gives_the_same_numbers(command: Command, folder: Path) -> None:
    shown = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        command("fit", "chinchilla", "runs.csv", "-o", f"{name}.nc", "--seed", seed, *SHORT)
        shown.append(command("show", f"{name}.nc", "--csv", "--force").out)
    assert shown[0] == shown[1] != shown[2]
    at = ("--set", "N=1e9", "--set", "D=1e10")
    forecasts = [command("forecast", "fit.nc", *at, "--json", "--seed", seed).out for seed in (1, 1, 2)]
    assert forecasts[0] == forecasts[1] != forecasts[2]


def test_an_older_output_is_replaced_whole(command: Command, folder: Path) -> None:
    assert command("fit", "chinchilla", "runs.csv", "-o", "older.nc", *SHORT).status == 0
    assert loaded_fit("older.nc").law.name == "chinchilla"
    assert not list(folder.glob(".*"))


def test_a_fit_that_was_cut_short_takes_no_others_place(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, small_fit: Fit
) -> None:
    stopped = replace(small_fit, info={**small_fit.info, "interrupted": True})
    monkeypatch.setattr("bayeslaw.fit", lambda *_, **__: stopped)
    with unchanged(folder):
        done = command("fit", "chinchilla", "runs.csv", "-o", "older.nc", *SHORT)
    assert (done.status, done.out) == (130, "")


# --- the console script ---------------------------------------------------------------------------------------------


def script(*args: str) -> Done:
    ended = subprocess.run([SCRIPT, *args], capture_output=True, text=True, check=False)
    return Done(ended.returncode, ended.stdout, ended.stderr)


def test_the_console_script_shows_a_fit_of_another_process(command: Command, folder: Path) -> None:
    shown, expected = script("show", "fit.nc", "--csv"), command("show", "fit.nc", "--csv")
    assert (shown.status, shown.out, shown.err) == (expected.status, expected.out, expected.err)


def test_the_console_script_ends_with_status_2_and_words(folder: Path) -> None:
    with unchanged(folder):
        done = script("fit", "chinchila", "runs.csv", "-o", "older.nc")
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith("Error: ")
        assert "Traceback" not in done.err


def test_letters_that_the_encoding_of_the_output_lacks_are_escaped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They ended a command in a traceback when its work was done."""
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    (folder / "runs.csv").rename(folder / "σ.csv")
    done = script("check", "σ.csv", "--law", "chinchilla")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("\\u03c3.csv: ")


@pytest.mark.usefixtures("all_blas_threads")
def test_a_fit_of_one_process_forecasts_the_same_bits_in_another(folder: Path, sound_fit: Fit) -> None:
    code = (
        "import bayeslaw; f = bayeslaw.load_fit('fit.nc'); at = bayeslaw.grid(f.law, {'N': '1e7:1e11:5', 'D': '1e8:1e12:5'});"
        "d = bayeslaw.forecast(f, at, seed=9).draws;"
        "[open(v + '.bin', 'wb').write(d[v].values.tobytes()) for v in ('latent', 'run')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    at = bayeslaw.grid(sound_fit.law, {"N": "1e7:1e11:5", "D": "1e8:1e12:5"})
    draws = bayeslaw.forecast(sound_fit, at, seed=9).draws
    for spread in ("latent", "run"):
        assert Path(f"{spread}.bin").read_bytes() == draws[spread].values.tobytes()
