"""The JSON schema of cards: it accepts every card, has the reader's keys, and refuses what the reader refuses."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import jsonschema
import pytest

from bayeslaw.core.errors import CardError
from bayeslaw.laws.card import OF_COVARIATES, OF_PARAMETERS, TOP, card_folder, law_names, parse_card
from bayeslaw.laws.prior import ARGUMENTS, Prior
from bayeslaw.laws.schema import FILE, VERSION, card_schema
from tests.commands import Command, rejected
from tests.errors import fails
from tests.fixed import LINE

SCHEMA = card_schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)


def valid(card: str) -> bool:
    return not list(VALIDATOR.iter_errors(tomllib.loads(card)))


def test_the_schema_is_one_and_has_a_version() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == f"urn:bayeslaw:card:{VERSION}"


def test_the_file_is_that_of_the_code() -> None:
    """`bayeslaw laws --schema` prints the file."""
    same = FILE.read_text(encoding="utf-8") == json.dumps(SCHEMA, indent=2) + "\n"
    assert same, f"keys or references have changed: write json.dumps(card_schema(), indent=2) and a line end to {FILE.name}"


def test_its_keys_are_those_that_the_reader_accepts() -> None:
    keys = SCHEMA["properties"]
    assert list(keys) == list(TOP)
    assert list(keys["covariates"]["additionalProperties"]["properties"]) == list(OF_COVARIATES)
    parameter = keys["parameters"]["additionalProperties"]["properties"]
    assert list(parameter) == list(OF_PARAMETERS)
    forms = {form["properties"]["dist"]["const"]: form["properties"] for form in parameter["prior"]["oneOf"]}
    assert {dist: set(form) - {"dist", "on"} for dist, form in forms.items()} == {d: set(a) for d, (_, a) in ARGUMENTS.items()}
    described = [*keys.values(), *keys["covariates"]["additionalProperties"]["properties"].values(), *parameter.values()]
    assert all(key.get("description") for key in described)


@pytest.mark.parametrize("name", law_names())
def test_every_card_is_valid(name: str) -> None:
    card = (card_folder() / f"{name}.toml").read_text(encoding="utf-8")
    assert [error.message for error in VALIDATOR.iter_errors(tomllib.loads(card))] == []


def test_the_first_line_may_name_the_schema() -> None:
    card = f"#:schema ./card.schema.json\n{LINE}"
    assert valid(card)
    assert parse_card(card).name == "line"


CHANGES = {
    "an unknown key": ("loss   =", "losses = 1\nloss   ="),
    "no loss": ('loss   = "exp(a + b*x + c*x*x)"', ""),
    "no covariates": ('[covariates]\nx = { unit = "units", support = [-10, 10] }', ""),
    "an unknown key of a covariate": ("support =", "range = 1, support ="),
    "a support of one number": ("[-10, 10]", "[-10]"),
    "too few values": ("support =", "at_least = 0, support ="),
    "too few nodes": ("support =", "nodes = 1, support ="),
    "a flag that is none": ("support =", "log = 1, support ="),
    "an unknown key of a parameter": ('meaning = "level"', 'meaning = "level"\nfloor = 1'),
    "no meaning": ('meaning = "level"', ""),
    "an unknown distribution": ('"Normal", mu = 1.0', '"Norml", mu = 1.0'),
    "a missing number": ("mu = 1.0, ", ""),
    "a number too many": ("mu = 1.0, ", "mu = 1.0, nu = 3, "),
    "a negative spread": ("sigma = 0.3", "sigma = -0.3"),
    "a number that is a text": ("mu = 1.0", 'mu = "1.0"'),
    "a Huber delta of 0": ("loss   =", "huber_delta = 0\nloss   ="),
    "a large error in corners": ("loss   =", "corner_error = -11\nloss   ="),
    "a noise that no card may name": ("loss   =", 'noise = "skew"\nloss   ='),
    "a note that is none": ("loss   =", "note = 1\nloss   ="),
    "an unknown reference": ("loss   =", 'references = ["nobody1900"]\nloss   ='),
    "published values that are none": ("[covariates]", '[published.x]\na = "1"\n[covariates]'),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_it_refuses_the_reader_refuses_too(name: str) -> None:
    card = LINE.replace(*CHANGES[name], 1)
    assert card != LINE
    assert not valid(card)
    with pytest.raises(CardError):
        parse_card(card)


@pytest.mark.parametrize("dist", ARGUMENTS)
def test_every_prior_of_the_reader_is_valid(dist: str) -> None:
    numbers: dict[str, Any] = dict.fromkeys(ARGUMENTS[dist][1], 0.5) | ({"lower": 0.1} if "lower" in ARGUMENTS[dist][1] else {})
    assert Prior.from_card({"dist": dist, **numbers}).dist == dist
    form = SCHEMA["properties"]["parameters"]["additionalProperties"]["properties"]["prior"]
    assert jsonschema.Draft7Validator(form).is_valid({"dist": dist, **numbers})


@pytest.mark.slow
def test_a_command_prints_it(command: Command) -> None:
    done = command("laws", "--schema")
    assert done.status == 0
    assert json.loads(done.out) == SCHEMA
    assert json.loads(command("laws", "--schema", "--json").out)["results"]["schema"] == SCHEMA
    rejected(command("laws", "chinchilla", "--schema"), "law-with-schema")
    with fails("unknown-key", kind=CardError):
        parse_card("#:schema x\nschema = 1\n" + LINE)
