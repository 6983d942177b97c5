from dataclasses import dataclass
from typing import Literal

import pytest

from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import ExperimentDefinition
from zonda_lab.schema import doc, parse, reference, section


@dataclass(frozen=True)
class Inner:
    size_kb: int = doc("a size", 1)


@dataclass(frozen=True)
class Outer:
    name: str = doc("its name")
    rate: float | str = doc("a rate", 1.0)
    kind: Literal["a", "b"] = doc("a kind", "a")
    parts: list[int] = doc("parts", [])
    inner: Inner = section("inside", Inner)


def test_kebab_case_defaults_and_nesting() -> None:
    assert parse(Outer, {"name": "x", "inner": {"size-kb": 3}}, "f") == Outer("x", inner=Inner(3))
    assert parse(Outer, {"name": "x", "rate": 5}, "f").rate == 5.0
    assert parse(Outer, {"name": "x", "rate": "50%"}, "f").rate == "50%"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"name": "x", "raet": 1}, "f: unknown key `raet`\n  help: did you mean `rate`?"),
        ({"name": "x", "inner": {"sizekb": 1}}, "f: inner: unknown key `sizekb`\n  help: did you mean `size-kb`?"),
        ({}, "f: `name` is missing\n  help: it is its name"),
        ({"name": 3}, "f: name must be a string, is 3"),
        ({"name": "x", "kind": "c"}, "f: kind is 'c'\n  help: known: a, b"),
        ({"name": "x", "parts": [1, "2"]}, "f: parts[1] must be an integer, is '2'"),
        ({"name": "x", "parts": [True]}, "f: parts[0] must be an integer, is True"),
        ({"name": "x", "inner": 1}, "f: inner must be a table, is 1"),
    ],
)
def test_every_error_names_its_key(table: dict[str, object], message: str) -> None:
    with pytest.raises(LabError) as caught:
        parse(Outer, table, "f")
    assert str(caught.value) == message


def test_every_key_of_an_experiment_is_documented() -> None:
    keys = list(reference(ExperimentDefinition))
    assert len(keys) > 60
    assert all(documentation for _, _, _, documentation in keys)
    assert ("traffic.timeout-ms", "an integer", "1000", "queries without an answer after this time are lost") in keys
