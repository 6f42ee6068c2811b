"""A fit's rows as a table again, and what may join them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from bayeslaw.core.errors import FitError, TableError
from bayeslaw.core.units import NATS
from bayeslaw.data.observations import Observations
from bayeslaw.data.table import Duplicates, Runs, read_runs
from bayeslaw.data.tokenizers import token_length
from bayeslaw.inference.refit import join_runs, refit_task, rows_of, stack_runs
from bayeslaw.laws.card import load_law, parse_card
from bayeslaw.laws.law import Law
from bayeslaw.laws.pooling import levels_of, with_by, with_levels
from bayeslaw.laws.prior import Prior
from bayeslaw.noise.noise import CHOICES, Noise
from bayeslaw.posterior.fit import Fit, require_draws, require_single_fit
from bayeslaw.reporting.facts import commands
from tests import oracles
from tests.errors import fails, faults
from tests.fixed import fixed_fit, line_fit, loaded_fit, stand_in_fit
from tests.outcomes import outcome_fit, table

CHINCHILLA = load_law("chinchilla")


def any_draws(law: Law, size: int = 400) -> dict[str, Any]:
    """Draws of all parameters that a fit may need, all equal."""

    class Same(dict[str, Any]):
        def __missing__(self, name: str) -> Any:
            return np.full(size, 0.5)

    return Same({name: np.full(size, value) for name, value in oracles.typical(law).items()})


def fitted(table: pd.DataFrame, law: Law = CHINCHILLA, **options: Any) -> Fit:
    return fixed_fit(law, table, any_draws(law), **options)


def old_table(**columns: Any) -> pd.DataFrame:
    """Six runs of five rows, shuffled."""
    table = oracles.table(CHINCHILLA).assign(**columns)
    return table.sample(frac=1.0, random_state=4)


def same(a: Observations, b: Observations, *, but: tuple[str, ...] = ("base",)) -> None:
    for field in fields(Observations):
        if field.name in but:
            continue
        left, right = getattr(a, field.name), getattr(b, field.name)
        if field.name in ("covariates", "at"):
            assert left.keys() == right.keys()
            left, right = np.array(list(left.values())), np.array(list(right.values()))
        if isinstance(left, np.ndarray) and left.dtype.kind == "f":
            np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-15, err_msg=field.name)
        else:
            np.testing.assert_array_equal(left, right, err_msg=field.name)


LETTERS = np.repeat(list("aabbcc"), 5)
BASE = pd.DataFrame({"N": [1e7, 1e8], "D": 0.0, "loss": [4.0, 3.5], "run": ["run 0", None], "note": "before"})
TABLES: dict[str, tuple[pd.DataFrame, dict[str, Any]]] = {
    "runs": (old_table(), {}),
    "rows-alone": (old_table().drop(columns="run"), {}),
    "some-rows-alone": (old_table().assign(run=lambda t: t["run"].where(t["N"] > 1e8)), {}),
    "checkpoints": (old_table(checkpoint=LETTERS), {"noise": "normal-checkpoint"}),
    "groups": (old_table(set=LETTERS), {"noise_by": "set"}),
    "groups-by-number": (old_table(stage=np.repeat([1.5, 2e7 + 1, 3.0], 10)), {"noise_by": "stage"}),
    "groups-by-size": (old_table(), {"noise_by": "N"}),
    "levels": (old_table(domain=LETTERS), {"by": {"E": "domain"}}),
    "levels-by-number": (old_table(stage=np.repeat([15.0, 31.0, 279.0], 10)), {"by": {"E": "stage"}}),
    "levels-and-groups": (old_table(stage=np.repeat([15.0, 31.0, 279.0], 10)), {"by": {"E": "stage"}, "noise_by": "stage"}),
    "errors": (old_table(loss_se=np.linspace(0, 0.02, 30)), {}),
    "base": (pd.concat([BASE, old_table()]), {}),
    "base-alone": (pd.concat([BASE.drop(columns="run"), old_table().drop(columns="run")]), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("stored", [False, True], ids=["in-memory", "from-file"])
def test_the_rows_of_a_fit_give_its_observations(name: str, stored: bool) -> None:
    table, options = TABLES[name]
    fit = fitted(table, **options)
    if stored:  # where base checkpoints are lists in JSON
        fit = replace(fit, observed=replace(fit.observed, base=pd.DataFrame(fit.observed.base.to_dict(orient="list"))))
    rows = rows_of(fit)
    law = with_by(CHINCHILLA, options.get("by", {}))
    law = with_levels(law, levels_of(law, rows.frame))
    assert law.levels == fit.law.levels
    same(Observations.of(law, rows, options.get("noise_by")), fit.observed)
    assert rows.frame.index.is_unique
    pd.testing.assert_frame_equal(
        rows.frame[rows.frame["D"] == 0].dropna(axis=1, how="all").reset_index(drop=True),
        fit.observed.base.dropna(axis=1, how="all").reset_index(drop=True),
        check_like=True,
        check_dtype=False,
    )


def test_checkpoints_identified_by_size_and_stage_are_kept() -> None:
    law = load_law("ptpp-floor")
    table = oracles.table(law, runs=24)
    for rows in (table, table.assign(seed=np.arange(120) // 60)):
        fit = fitted(rows, law, noise="normal-checkpoint")
        same(Observations.of(law, rows_of(fit)), fit.observed)


def test_a_refit_has_the_settings_of_the_fit() -> None:
    prior = Prior.parse("LogNormal(0.5, 0.2)")
    law = CHINCHILLA.with_priors({"E": prior})
    fit = fixed_fit(law, old_table(domain=LETTERS), any_draws(law), by={"alpha": "domain"}, noise="skew", noise_by="domain")
    task = refit_task(fit, rows_of(fit))
    assert isinstance(task.law, Law)
    assert {k: str(p.prior) for k, p in task.law.parameters.items()} == {k: str(p.prior) for k, p in law.parameters.items()}
    assert task.options == fit.info["settings"] | {"noise": "skew", "noise_by": "domain", "by": {"alpha": "domain"}, "seed": 3}
    assert refit_task(fit, rows_of(fit), 8).options["seed"] == 8
    wide = {"run_excess": Prior.parse("HalfNormal(0.05)")}
    assert refit_task(replace(fit, noise=fit.noise.with_priors(wide)), rows_of(fit)).options["priors"] == wide
    remade = with_levels(with_by(task.law, task.options["by"]), fit.law.levels)
    assert remade.sha256 == fit.law.sha256


def test_the_prior_of_a_spread_is_kept_by_files_refits_and_commands(tmp_path: Path) -> None:
    """It was refused by `fit`, and that of a law in Python was lost by updates and by the command that made the fit."""
    stated = {"alpha_spread": "HalfNormal(0.1)", "E": "LogNormal(0.5, 0.2)"}
    fit = stand_in_fit("chinchilla", old_table(domain=LETTERS), by={"alpha": "domain", "E": "domain"}, priors=stated)
    fit.save(tmp_path / "fit.nc")
    again = loaded_fit(tmp_path / "fit.nc")
    task = refit_task(again, rows_of(again))
    refitted = stand_in_fit(cast("Law", task.law), rows_of(again), by=task.options["by"], priors=task.options["priors"])
    for one_fit in (fit, again, refitted):
        priors = {name: str(parameter.prior) for name, parameter in one_fit.law.parameters.items()}
        assert (priors["alpha_spread"], priors["E_spread"]) == ("HalfNormal(0.1)", "HalfNormal(0.5)")
        assert priors["E"] == "LogNormal(0.5, 0.2)"
        command = commands(one_fit, None)
        assert "--prior 'alpha_spread=HalfNormal(0.1)'" in command
        assert "E_spread" not in command


def test_a_refit_has_the_priors_of_values_that_are_not_pooled() -> None:
    card = parse_card(CHINCHILLA.card.replace("[parameters.beta]", "[parameters.beta]\npooled = false"))
    law = card.with_priors({"beta": Prior.parse("LogNormal(-1.2, 0.1)")})
    fit = fixed_fit(law, old_table(domain=LETTERS), any_draws(law), by={"beta": "domain"})
    task = refit_task(fit, rows_of(fit))
    assert isinstance(task.law, Law)
    assert with_levels(with_by(task.law, task.options["by"]), fit.law.levels).sha256 == fit.law.sha256
    assert "--prior 'beta=LogNormal(-1.2, 0.1)'" in commands(fit, None)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("shared", [False, True], ids=["rows", "runs"])
def test_a_noise_knows_its_choice(choice: str, shared: bool) -> None:
    observed = oracles.nested([0, 0, 1, 1, 2] if shared else np.arange(5), [0, 0, 1] if shared else [0, 0, 1, 2, 3])
    observed = oracles.timed(observed)
    noise = Noise.choose(choice, observed)
    assert Noise.choose(noise.choice(observed), observed) == noise
    if choice != "auto" and (shared or not choice.endswith("no-run")):
        assert noise.choice(observed) == choice


@pytest.mark.slow
def test_points_that_were_alone_get_a_run_effect_with_runs_that_join() -> None:
    fit = fitted(old_table().drop(columns="run"))
    assert not fit.noise.run_effect
    table = join_runs(fit, read_runs(oracles.table(CHINCHILLA, seed=5).assign(D=lambda t: 2 * t["D"])))
    observed = Observations.of(CHINCHILLA, table)
    assert Noise.choose(fit.noise.choice(fit.observed), observed) == Noise(student=True, run_effect=True)


# --- rows that join -------------------------------------------------------------------------------------------------


def test_rows_of_a_known_run_join_it() -> None:
    fit = fitted(old_table(checkpoint=LETTERS), noise="normal-checkpoint")
    more = pd.DataFrame(
        {
            "N": 1e7,
            "D": [3e10, 5e10, 3e10],
            "loss": [2.1, 2.0, 2.2],
            "run": ["run 0", "run 0", "new"],
            "checkpoint": [None, None, "b"],
        }
    )
    observed = Observations.of(CHINCHILLA, join_runs(fit, read_runs(more)))
    names = np.array(observed.run_names)
    assert np.bincount(observed.run)[names == "run 0"] == 7
    assert np.bincount(observed.run)[names == "new"] == 1
    of = dict(zip(names, np.array(observed.checkpoint_names)[observed.checkpoint], strict=True))
    assert (of["run 0"], of["new"]) == ("a", "b")
    assert (observed.rows > 30).sum() == 3


@pytest.mark.slow
def test_rows_without_a_run_stay_alone_round_after_round(tmp_path: Path, small_fit: Fit) -> None:
    """Row 1 of the new table is not row 1 of the old one."""
    fit = fitted(old_table().drop(columns="run"))
    more = pd.DataFrame({"N": 1e7, "D": [3e10, 5e10], "loss": [2.1, 2.0]})
    table = join_runs(fit, read_runs(more))
    observed = Observations.of(CHINCHILLA, table)
    assert observed.runs == 32
    second = join_runs(fitted(table.frame), read_runs(more.assign(D=[6e10, 7e10])))
    assert Observations.of(CHINCHILLA, second).runs == 34
    small_fit.save(tmp_path / "fit.nc")
    loaded = join_runs(loaded_fit(tmp_path / "fit.nc"), read_runs(more))
    assert Observations.of(CHINCHILLA, loaded).runs == 10


def test_empty_checkpoints_of_new_runs_are_their_own() -> None:
    """The fit calls an unnamed checkpoint 'run 0', and so would the new table."""
    fit = fitted(oracles.table(CHINCHILLA).assign(checkpoint=np.array([None] * 5 + ["k"] * 25)), noise="normal-checkpoint")
    assert fit.observed.checkpoint_names == ("run 0", "k")
    more = pd.DataFrame({"N": 1e7, "D": 3e10, "loss": 2.1, "run": ["u", "v", "w"], "checkpoint": [None, None, "k"]})
    observed = Observations.of(CHINCHILLA, join_runs(fit, read_runs(more)))
    sizes = dict(zip(observed.checkpoint_names, np.bincount(observed.checkpoint), strict=True))
    assert sizes == {"run 0": 1, "k": 6, "of run u": 1, "of run v": 1}


def test_standard_errors_join_losses_without_any() -> None:
    more = pd.DataFrame({"N": 1e7, "D": [3e10], "loss": [2.0], "run": "run 0", "loss_se": 0.01})
    observed = Observations.of(CHINCHILLA, join_runs(fitted(old_table()), read_runs(more)))
    assert np.sort(observed.se)[-2:] == pytest.approx([0, 0.005])
    with fails("no-loss-errors", "loss_se"):
        join_runs(fitted(old_table(loss_se=0.01)), read_runs(more.drop(columns="loss_se")))


@pytest.mark.parametrize(("old", "new"), [(None, NATS), (NATS, None), ("bits/byte", "bits/byte")])
def test_rows_of_one_unit_join_whether_the_column_names_it_or_not(old: str | None, new: str | None) -> None:
    fit = fitted(old_table(**({"unit": old} if old else {})))
    table = read_runs(pd.DataFrame(GOOD | ({"unit": new} if new else {})))
    assert join_runs(fit, table).unit == (old or NATS)


def test_simulated_losses_are_in_the_unit_of_the_fit() -> None:
    fit = fitted(old_table(unit="bits/byte"))
    frame = read_runs(pd.DataFrame(GOOD)).frame
    simulated = Runs(frame.set_axis(frame.index + 1000))
    assert stack_runs(rows_of(fit), simulated).unit == "bits/byte"


def test_rows_of_a_fit_have_no_known_errors_where_only_new_ones_have_them() -> None:
    fit = outcome_fit("bounded")
    new = table("bounded").head(3).assign(run=["x", "y", "z"], D=lambda f: 1.5 * f["D"], score_se=2.0)
    joined = join_runs(fit, read_runs(new))
    assert joined.frame["score_se"].tolist() == [0.0] * 24 + [2.0] * 3


def test_base_checkpoints_join_those_kept_aside() -> None:
    fit = fitted(pd.concat([BASE, old_table()]))
    more = pd.DataFrame({"N": 1e9, "D": [0.0, 3e10], "loss": [3.0, 2.0], "run": "new"})
    observed = Observations.of(CHINCHILLA, join_runs(fit, read_runs(more)))
    assert observed.base["loss"].tolist() == [4.0, 3.5, 3.0]
    assert observed.response.size == 31


GOOD = {"N": 1e7, "D": [3e10, 4e10], "loss": 2.0, "run": "new"}
FIRST = oracles.table(CHINCHILLA).iloc[7]
REFUSED: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], tuple[str, int | None, str], str]] = {
    "no-loss": (lambda t: t.drop(columns="loss"), ("missing-column", None, "loss"), ""),
    "no-covariate": (lambda t: t.drop(columns="D"), ("missing-column", None, "D"), ""),
    "loss": (lambda t: t.assign(loss=[2.0, -1]), ("loss-not-positive", 2, "loss"), "-1"),
    "unit": (lambda t: t.assign(N=[1e7, 0.01]), ("out-of-support", 2, "N"), "0.01"),
    "other-size": (lambda t: t.assign(run=["new", "run 0"], N=[1e7, 1e9]), ("other-run", 2, "N"), "1e+09"),
    "two-sizes": (lambda t: t.assign(N=[1e7, 1e9]), ("run-of-several-sizes", 1, "run"), "1e+09"),
    "twice": (lambda t: t.assign(run="run 1", N=FIRST["N"], D=[3e10, FIRST["D"] * (1 + 1e-12)]),
              ("repeated-row", 2, "run"), "D = 1.1e+09"),
}  # fmt: skip


@pytest.mark.slow
def test_new_rows_that_repeat_each_other_are_refused_dropped_or_kept() -> None:
    fit, new = fitted(old_table()), pd.DataFrame({"N": 1e8, "D": [1e9, 2e9, 2e9], "loss": [2.5, 2.4, 2.4], "run": "new"})
    with faults(("repeated-rows", None, "run")):
        join_runs(fit, read_runs(new))
    sizes = [len(join_runs(fit, read_runs(new, duplicates=policy))) for policy in ("drop", "keep")]
    assert sizes == [32, 33]


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_cannot_join(name: str) -> None:
    corrupt, expected, named = REFUSED[name]
    assert len(join_runs(fitted(old_table()), read_runs(pd.DataFrame(GOOD)))) == 32
    with faults(expected) as found:
        join_runs(fitted(old_table()), read_runs(corrupt(pd.DataFrame(GOOD))))
    assert named in str(found[0])


def test_a_row_without_a_run_is_refused_with_the_same_loss() -> None:
    table = old_table().drop(columns="run")
    fit = fitted(table)
    repeated = table.iloc[[3, 4]].assign(loss=lambda t: t["loss"] * [1.0, 1.001])
    with faults(("repeated-row", 1, "run")):
        join_runs(fit, read_runs(repeated))


@pytest.mark.slow
def test_a_base_checkpoint_is_known_whatever_its_replay() -> None:
    """Logs leave r empty at D = 0, and the fit has filled it in."""
    law = load_law("transfer-target")
    table = oracles.table(law, runs=12)
    base = table.iloc[:1].assign(D=0.0, r=np.nan, run="base")
    fit = fitted(pd.concat([base, table]), law)
    with fails("repeated-row", "'base'", "D = 0"):
        join_runs(fit, read_runs(base))
    assert len(join_runs(fit, read_runs(base.assign(run="another")))) == 62


@pytest.mark.slow
def test_a_run_of_another_checkpoint_group_or_level_is_refused() -> None:
    fit = fitted(old_table(checkpoint=LETTERS, set=LETTERS), noise="normal-checkpoint", noise_by="set")
    more = pd.DataFrame({"N": 1e7, "D": [3e10, 4e10], "loss": 2.0, "run": ["new", "run 0"], "checkpoint": "b", "set": ["b", "a"]})
    with faults(("other-run", 2, "checkpoint")):
        join_runs(fit, read_runs(more))
    with faults(("other-run", 2, "set")):
        join_runs(fit, read_runs(more.assign(checkpoint="a", set=["b", "c"])))
    with fails("unknown-group", "'z'"):
        join_runs(fit, read_runs(more.assign(set="z")))
    with fails("other-checkpoint-columns", "checkpoint", "run"):
        join_runs(fit, read_runs(more.drop(columns="checkpoint")))
    varying = fitted(old_table(domain=LETTERS), by={"E": "domain"})
    with pytest.raises(TableError, match="'z'"):
        join_runs(varying, read_runs(more.assign(domain="z")))


@pytest.mark.slow
def test_checkpoints_with_an_effect_must_be_identified_by_the_same_columns() -> None:
    law = load_law("ptpp-floor")
    table = oracles.table(law, runs=12)
    more = read_runs(table.assign(D=lambda t: 3 * t["D"]))
    seeded = fitted(table.assign(seed=0), law, noise="normal-checkpoint")
    with fails("other-checkpoint-columns", "N, ptpp, seed"):
        join_runs(seeded, more)
    unnamed = fitted(table, law, noise="normal-checkpoint")
    assert Observations.of(law, join_runs(unnamed, more)).checkpoint_names == unnamed.observed.checkpoint_names
    with fails("other-checkpoint-columns", "N, ptpp", "checkpoint"):
        join_runs(unnamed, replace(more, frame=more.frame.assign(checkpoint="k")))


def test_sizes_of_more_than_six_digits_identify_checkpoints_and_are_shown() -> None:
    """They were said to be identified by a column `checkpoint`, which neither table has, and runs to differ by equal sizes."""
    law = load_law("ptpp-floor")
    table = oracles.table(law, runs=12).assign(N=lambda t: (1.2345678 * t["N"]).round())
    fit = fitted(table, law, noise="normal-checkpoint")
    more = table.iloc[:1].assign(D=7e10, run="new")
    assert len(join_runs(fit, read_runs(more))) == len(table) + 1
    with fails("other-run", "12345678 in the fit and 12345698 here"):
        join_runs(fit, read_runs(more.assign(N=12345698, run="run 0")))


def test_a_size_written_with_fewer_digits_is_that_of_the_run_in_the_fit() -> None:
    """It was called another run, where forecasts and scores take rows within 1e-6 for those of the fit."""
    fit = fitted(old_table(N=12345678.0))
    more = pd.DataFrame(GOOD | {"N": 12345680, "run": "run 0"})
    assert len(join_runs(fit, read_runs(more))) == 32
    again = oracles.table(CHINCHILLA).iloc[:1].assign(N=12345680)
    with faults(("repeated-row", 1, "run")):
        join_runs(fit, read_runs(again))


def test_losses_of_another_tokenizer_are_refused_and_its_ratio_is_kept() -> None:
    fit = fitted(old_table(bytes_per_token=3.1))
    known = replace(fit, info={**fit.info, "token_length": {"bytes_per_token": 3.1}})
    with fails("other-tokenizer", "4.6 and 3.1 bytes per token"):
        join_runs(known, read_runs(pd.DataFrame(GOOD | {"bytes_per_token": 4.6})))
    both = join_runs(known, read_runs(pd.DataFrame(GOOD)))
    assert token_length(both.frame, known.law) == {"bytes_per_token": 3.1}


def test_losses_of_another_domain_are_refused() -> None:
    fit = fitted(pd.concat([BASE.assign(domain="target"), old_table(domain="target")]))
    more = pd.DataFrame(GOOD | {"domain": "source"})
    with fails("mixed-domains", "target, source", "bayeslaw fit --by E=domain"):  # `update` itself has no --by
        join_runs(fit, read_runs(more))
    known = replace(fit, info={**fit.info, "domain": "target"})
    with fails("other-domain", "are of domain source and the fit's of target"):
        join_runs(known, read_runs(more))


def test_stacks_and_fits_of_few_draws_are_refused() -> None:
    with fails("not-a-single-fit", "law", kind=FitError):
        require_single_fit(CHINCHILLA, "A look-ahead")
    fit = line_fit(size=396)
    with fails("too-few-draws", 400, 396, kind=FitError):
        require_draws(fit, "An update")
    require_draws(line_fit(size=400), "An update")


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "verdict"), [("drop", "passed"), ("keep", "concern")])
def test_a_fit_says_what_became_of_repeated_rows(policy: Duplicates, verdict: str) -> None:
    table = old_table().sort_index()
    fit = stand_in_fit(CHINCHILLA, read_runs(pd.concat([table, table.head(4)]), duplicates=policy))
    (check,) = (check for check in fit.checks if check.name == "repeats")
    assert check.verdict == verdict
    assert check.text.startswith("rows 31–34, which repeat earlier rows exactly, are ")
    assert fit.observed.response.size == (30 if policy == "drop" else 34)
    assert fit.sources[0].duplicates == policy


@pytest.mark.slow
def test_a_fit_to_swapped_columns_has_a_concern() -> None:
    table = old_table().assign(D=lambda t: 20 * t["N"])
    for runs, concerns in ((table, []), (table.rename(columns={"N": "D", "D": "N"}), ["tokens"])):
        fit = stand_in_fit(CHINCHILLA, read_runs(runs.drop(columns="run")))
        assert [check.name for check in fit.concerns if check.name == "tokens"] == concerns
