"""Finds experiment files, and reads them (TOML): chosen levels, changed settings, and checks."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import (
    Claim,
    Combination,
    Experiment,
    ExperimentDefinition,
    Factor,
    Settings,
    TomlTable,
    merge,
)
from zonda_lab.experiments.metrics import METRICS
from zonda_lab.schema import parse, suggestion

FOLDER = Path(__file__).resolve().parents[2] / "experiments"
# What an experiment file says of results that exist already; a later version of the file may correct it.
READ_AFTERWARDS = ("title", "question", "why", "source", "expect", "published", "claims", "analysis")
MEASURED_LEVELS = ("state",)  # levels that procedures add themselves, see `procedures.startup.memory`


def load(path: Path, quick: bool = False, servers: Iterable[str] = (), changes: Iterable[str] = ()) -> Experiment:
    """The experiment in `path`; `servers` replaces the levels of `server.name`; `changes` are `key=value` settings."""
    try:
        table = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise LabError(f"{path}: no such experiment file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"{path}: cannot read the experiment: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise LabError(f"{path}: {error}", "`zonda-lab keys` lists the keys of an experiment") from None
    definition = parse(ExperimentDefinition, table, path.name)
    base = {key: value for key, value in table.items() if key in Settings.__dataclass_fields__}
    levels: dict[str, list[Any]] = dict(definition.quick.levels) if quick else {}
    if quick:
        merge(base, definition.quick.set)
    for change in changes:
        merge(base, _setting(change))
    if chosen := list(servers):
        levels["server.name"] = chosen
    experiment = Experiment(
        definition,
        base,
        tuple(_factor(name, value, levels, path) for name, value in definition.factors.items()),
        tuple(_factor(name, value, levels, path) for name, value in definition.within.items()),
        path,
    )
    _check(experiment)
    if chosen:
        _check_chosen_servers(experiment)
    return experiment


def files(folder: Path = FOLDER) -> list[Path]:
    """All experiment files (`eNN-name.toml`), in the order of their numbers."""
    return sorted(folder.glob("e[0-9][0-9]-*.toml"))


def described_today(described: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest's entry of an experiment with the texts, claims and analysis that its file has today.

    As it is if the catalogue has no such experiment. The analysis remains if its baseline was not measured.
    """
    found = [path for path in files() if path.stem[4:] == described["name"]]
    definition = load(found[0]).definition if found else None
    if definition is None or definition.id != described["id"]:
        return dict(described)
    today = {key: value for key, value in asdict(definition).items() if key in READ_AFTERWARDS}
    compare, baseline = definition.analysis.compare, definition.analysis.baseline
    if baseline and baseline not in described["levels"].get(compare, ()):
        del today["analysis"]
    return {**described, **today}


def find(word: str, folder: Path = FOLDER) -> list[Path]:
    """The files that `word` names: `all`, a number (E1), numbers (E1-E20), a name or a path."""
    known = files(folder)
    if word == "all":
        return known
    if span := re.fullmatch(r"e(\d+)-e(\d+)", word.lower()):
        found = [path for path in known if int(span[1]) <= int(path.stem[1:3]) <= int(span[2])]
        if not found:
            raise LabError(f"no experiments `{word}`", f"there are {known[0].stem[:3]} to {known[-1].stem[:3]}")
        return found
    if word.endswith(".toml"):
        return [Path(word)]
    by_number = {f"e{int(path.stem[1:3])}": path for path in known}
    by_name = {path.stem[4:]: path for path in known}
    named = by_number.get(word.lower()) or by_name.get(word.lower())
    if named is None:
        raise LabError(f"no experiment `{word}`", suggestion(word.lower(), by_name | by_number))
    return [named]


def _factor(name: str, value: Any, chosen: Mapping[str, list[Any]], path: Path) -> Factor:
    """`"traffic.rate" = [1, 2]` varies one setting; `tuning.NAME = {...}` names groups of settings."""
    if isinstance(value, list):
        return Factor(name, {str(level): _nested(name, level) for level in chosen.get(name, value)})
    if isinstance(value, Mapping) and value and all(isinstance(level, Mapping) for level in value.values()):
        for level in chosen.get(name, []):
            if level not in value:
                raise LabError(f"{path.name}: factor `{name}` has no level `{level}`", suggestion(str(level), value))
        return Factor(name, {level: value[level] for level in chosen.get(name, list(value))})
    raise LabError(f"{path.name}: factor `{name}` must be a list of levels or a table of named levels")


def _nested(dotted: str, value: Any) -> TomlTable:
    for key in reversed(dotted.split(".")):
        value = {key: value}
    return value  # type: ignore[no-any-return]


def _setting(text: str) -> TomlTable:
    """Parses `timing.blocks=20`; the value is TOML, or else a string."""
    key, equals, value = text.partition("=")
    if not equals:
        raise LabError(f"--set {text}: no `=`", "for example --set timing.blocks=20")
    try:
        return _nested(key, tomllib.loads(f"value = {value}")["value"])
    except tomllib.TOMLDecodeError:
        return _nested(key, value)


def _check(experiment: Experiment) -> None:
    """Finds errors that would otherwise appear only during the run."""
    definition, where = experiment.definition, experiment.path.name
    for factor in experiment.factors + experiment.within:
        for overrides in factor.levels.values():
            experiment.settings(overrides)
    if not definition.id or not definition.title:
        raise LabError(f"{where}: `id` and `title` are missing")
    beside = [row.metric for row in definition.published if row.metric]
    claimed = [name for claim in definition.claims for name in (claim.metric, *claim.requires)]
    shown = [definition.analysis.main_plot] if definition.analysis.main_plot else []
    for metric in [definition.analysis.metric, *definition.analysis.metrics, *shown, *claimed, *beside]:
        if metric not in METRICS:
            raise LabError(f"{where}: no metric `{metric}`", suggestion(metric, METRICS))
    names = [factor.name for factor in experiment.factors + experiment.within]
    if definition.analysis.compare not in names:
        raise LabError(f"{where}: analysis.compare is not a factor", suggestion(definition.analysis.compare, names))
    about = [
        *(name for claim in definition.claims for name in (*claim.of, *claim.to)),
        *(n for r in definition.published for n in r.of),
        *(claim.along for claim in definition.claims if claim.along),
    ]
    for name in about:
        if name not in (*names, *MEASURED_LEVELS):
            raise LabError(f"{where}: claim about `{name}`, which is not a factor", suggestion(name, names))
    for combination in definition.combinations:
        _check_combination(combination, definition.factors, where)
    for claim in definition.claims:
        _check_claim(claim, {**definition.factors, **definition.within}, where)


def _check_combination(combination: Combination, factors: Mapping[str, Any], where: str) -> None:
    """Its factors and levels exist: without a misspelled one, less would be measured, and nothing would say so."""
    for name, levels in combination.of.items():
        if name not in factors:
            raise LabError(f"{where}: combination of `{name}`, which is no factor", suggestion(name, factors))
        known = [str(level) for level in factors[name]]
        for level in levels:
            if level not in known:
                raise LabError(f"{where}: combination of `{level}`, which is no level", suggestion(level, known))


def _check_chosen_servers(experiment: Experiment) -> None:
    """Every combination has a chosen server: without one, less would be measured, and nothing would say so."""
    levels = {factor.name: {*factor.levels} for factor in experiment.factors}
    for combination in experiment.definition.combinations:
        left_out = [name for name, wanted in combination.of.items() if not levels[name] & {*wanted}]
        if left_out == ["server.name"]:
            named = " or ".join(combination.of["server.name"])
            what = f"{experiment.id}: some combinations are measured with {named} only"
            raise LabError(what, f"add {named} to --servers")


def _check_claim(claim: Claim, factors: Mapping[str, Any], where: str) -> None:
    """An order is one of levels of its factor; a shape has a factor along which it is drawn.

    Servers are not checked: a published order may name some that are not measured.
    """
    if claim.shape and not claim.along:
        raise LabError(f"{where}: the shape of `{claim.says}` has no `along`", "name the factor of the x axis")
    if claim.along in ("", "server.name"):
        return
    known = [str(level) for level in factors.get(claim.along, [])]
    for level in (name.strip() for group in claim.order for name in group.split("=")):
        if level not in known:
            raise LabError(f"{where}: `{claim.says}` orders `{level}`, which is no level", suggestion(level, known))
