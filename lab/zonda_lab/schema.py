"""Parses TOML tables into dataclasses; reports unknown keys with a suggestion, and wrong types.

A key is the field's name in kebab-case; its documentation is the field's `doc`, which `reference` lists.
"""

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from zonda_lab.errors import LabError

T = TypeVar("T")
NAMES = {str: "a string", int: "an integer", float: "a number", bool: "true or false", dict: "a table", list: "a list"}


def doc(text: str, default: Any = dataclasses.MISSING, least: float | None = None) -> Any:
    """A dataclass field with its documentation; mutable defaults are copied.

    With `least`, a number must be finite and at least `least`.
    """
    metadata = {"doc": text, "least": least}
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def section(text: str, cls: type) -> Any:
    """A dataclass field that is a TOML table with defaults for all keys."""
    return dataclasses.field(default_factory=cls, metadata={"doc": text})


def parse(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Parses `table` as a `cls`; error messages start with `where` (file and table)."""
    fields = {field.name.replace("_", "-"): field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    for key in table:
        if key not in fields:
            raise LabError(f"{where}: unknown key `{key}`", suggestion(key, fields))
    missing = [key for key, field in fields.items() if key not in table and _required(field)]
    if missing:
        documented = fields[missing[0]].metadata.get("doc", "needed")
        raise LabError(f"{where}: `{missing[0]}` is missing", f"it is {documented}")
    values = {}
    for key, value in table.items():
        field = fields[key]
        values[field.name] = _convert(hints[field.name], value, f"{where}: {key}")
        _check_least(values[field.name], field.metadata.get("least"), f"{where}: {key}")
    return cls(**values)


def parse_stored(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Parses a table that a manifest stored with the names of the fields as keys."""
    return parse(cls, {key.replace("_", "-"): value for key, value in table.items()}, where)


def _check_least(value: Any, least: float | None, where: str) -> None:
    if least is not None and isinstance(value, int | float) and not least <= value < math.inf:
        raise LabError(f"{where} must be {least:g} or more, is {value}")


def suggestion(word: str, known: typing.Iterable[str]) -> str:
    """Suggests the closest known word, or lists all of them."""
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean `{close[0]}`?" if close else f"known: {', '.join(known)}"


def reference(cls: type, prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Every key of `cls` and its tables as (key, type, default, documentation)."""
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        key, hint = prefix + field.name.replace("_", "-"), hints[field.name]
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield key, "table", "", field.metadata.get("doc", "")
            yield from reference(hint, key + ".")
        else:
            yield key, _described(hint), _default(field), field.metadata.get("doc", "")


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return repr(field.default_factory())
    return "" if field.default is dataclasses.MISSING else repr(field.default)


def _described(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return " | ".join(f'"{choice}"' for choice in typing.get_args(hint))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_described(arm) for arm in typing.get_args(hint) if arm is not type(None))
    if typing.get_origin(hint) is list:
        return f"list of {_described(typing.get_args(hint)[0])}"
    return NAMES.get(typing.get_origin(hint) or hint, "a table")


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return parse(hint, _checked(dict, value, where), where)
    if origin is typing.Literal:
        if value not in arguments:
            raise LabError(f"{where} is {value!r}", suggestion(str(value), map(str, arguments)))
        return value
    if origin in (typing.Union, types.UnionType):
        return _convert_union(arguments, value, where)
    if origin is list:
        return [_convert(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(_checked(list, value, where))]
    if origin is dict:
        items = _checked(dict, value, where).items()
        return {key: _convert(arguments[1], item, f"{where}.{key}") for key, item in items}
    return _checked(hint, value, where)


def _convert_union(arms: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in arms:
        return None
    failure: LabError | None = None
    for arm in (arm for arm in arms if arm is not type(None)):
        try:
            return _convert(arm, value, where)
        except LabError as error:
            failure = error
    raise failure or LabError(f"{where} is {value!r}")


def _checked(kind: type, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise LabError(f"{where} must be {NAMES.get(kind, kind.__name__)}, is {value!r}")
    return value
