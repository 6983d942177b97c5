"""An experiment as its TOML file says it: what is asked, what is varied, what was published, how it is judged."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from zonda_lab.errors import LabError
from zonda_lab.metrics import METRICS
from zonda_lab.schema import doc, parse, section, suggestion

FOLDER = Path(__file__).resolve().parent.parent / "experiments"
MEASURED_LEVELS = ("state",)  # levels that procedures make themselves, see `procedures.startup.memory`
TomlTable = Mapping[str, Any]


@dataclass(frozen=True)
class ServerSpec:
    """`[server]`: the server under test."""

    name: str = doc("label of the server: an adapter's name, or one given with --server", "nsd")
    workers: int = doc("threads or processes that answer queries", 1, least=1)
    tcp_clients: int = doc("TCP connections allowed at once", 1000, least=1)
    tcp_idle_s: int = doc("seconds after which an idle TCP connection is closed", 10, least=1)
    options: dict[str, list[str]] = doc("lines added to the server section of that adapter's configuration", {})


@dataclass(frozen=True)
class PrimarySpec:
    """`[primary]`: where a secondary under test transfers from; runs at the client's end."""

    name: str = doc("label of the primary; empty: none, the server under test has its zones as files", "")
    transport: Literal["tcp", "tls"] = doc("transport of transfers", "tcp")
    tsig: bool = doc("transfers and dynamic updates signed with TSIG (hmac-sha256)", False)
    addresses: int = doc("addresses of the primary, zones spread over them", 1, least=1)
    parallel_transfers: int = doc("transfers that the secondary may run at once", 100, least=1)


@dataclass(frozen=True)
class ZoneSpec:
    """`[zones]`: what is served; the same seed makes the same bytes."""

    shape: Literal["root", "tld", "flat", "mixed", "tiny"] = doc("shape of a zone, see `zonda-lab zonegen`", "root")
    zones: int = doc("number of zones", 1, least=1)
    records: int = doc("records in a zone, about; for root and tld: delegations", 500, least=0)
    signed: Literal["no", "nsec", "nsec3"] = doc("DNSSEC signatures (Ed25519) and the denial of existence", "no")
    seed: int = doc("seed of the random generator", 1)


@dataclass(frozen=True)
class QuerySpec:
    """`[queries]`: what is asked of those zones."""

    count: int = doc("distinct lines in the query file, which is sent round and round", 100_000, least=1)
    nxdomain: float = doc("share of names that do not exist", 0.0, least=0)
    popularity: Literal["uniform", "zipf"] = doc("how often each name is asked", "uniform")
    types: dict[str, float] = doc("shares of query types; empty: what the shape holds", {})
    seed: int = doc("seed of the random generator", 2)


@dataclass(frozen=True)
class TrafficSpec:
    """`[traffic]`: how it is asked."""

    transport: Literal["udp", "tcp", "tls"] = doc("transport", "udp")
    loop: Literal["open", "closed"] = doc("open: a schedule fixed beforehand; closed: `outstanding` in flight", "open")
    rate: float | str = doc('queries a second, or a share of this start\'s capacity as in "50%"', 10_000.0, least=0.001)
    arrivals: Literal["constant", "poisson"] = doc("spacing of an open loop", "constant")
    outstanding: int = doc("queries in flight of a closed loop", 200, least=1)
    connections: int = doc("sockets or connections", 20, least=1)
    queries_per_connection: int = doc("queries after which a connection is closed; 0: never", 0, least=0)
    sources: int = doc("source addresses", 1, least=1)
    timeout_ms: int = doc("an answer later than this counts as none", 1000, least=1)
    edns_size: int = doc("EDNS payload size; 0: no EDNS", 1232, least=0)
    dnssec_ok: float = doc("share of queries with DO", 0.0, least=0)
    tcp_share: float = doc("share of queries that go over TCP while the others go over UDP", 0.0, least=0)
    resumption: bool = doc("TLS sessions are resumed", False)


@dataclass(frozen=True)
class RigSpec:
    """`[rig]`: two network namespaces joined by a veth pair, and who runs where."""

    server_cpus: list[int] = doc("CPUs of the server", [0])
    load_cpus: list[int] = doc("CPUs of generator and telemetry", [1])
    queues: int = doc("receive queues of the server's interface", 1, least=1)
    rps_cpus: list[int] = doc("CPUs that receive packets for the server's interface (RPS); empty: the sender's", [])
    sysctl: dict[str, str | int] = doc("kernel settings at the server's end", {})
    client_sysctl: dict[str, str | int] = doc("kernel settings at the client's end", {})
    qdisc: str = doc("queueing discipline of the server's interface; empty: the kernel's default", "")
    delay_ms: float = doc("delay added at the client's end (netem)", 0.0, least=0)
    descriptors: int = doc("descriptors the server may open; 0: the limit of the system", 0, least=0)


@dataclass(frozen=True)
class TimingSpec:
    """`[timing]`: how long and how often."""

    blocks: int = doc("repetitions of every treatment, each a fresh start, in random order", 10, least=1)
    warm_up_s: float = doc("load before the first window of a start", 1.0, least=0)
    seconds: float = doc("length of a window", 10.0, least=0.01)
    ready_s: float = doc("longest wait for the first answer", 120.0, least=0)
    finish_s: float = doc("longest wait for transfers and other work to finish", 600.0, least=0)
    retries: int = doc("how often an invalid window is repeated", 1, least=0)
    tolerance: float = doc("how near the ends of a peak's bracket come, relatively", 0.03, least=0.001)
    censored: bool = doc(
        "what has not arrived after `finish-s` counts as having taken so long, instead of as a fault", False
    )
    cold_cache: bool = doc("drop the zone files from the page cache before the start", False)


@dataclass(frozen=True)
class ChangeSpec:
    """`[change]`: what is done besides (connections held, zones changed)."""

    connections: int = doc("idle connections opened", 0, least=0)
    connect_rate: float = doc("idle connections opened in a second", 5_000.0, least=0.001)
    hold_s: float = doc("seconds that they are held", 2.0, least=0)
    changes: int = doc("changes of a zone", 0, least=0)
    updates_per_s: float = doc("dynamic updates in a second", 0.0, least=0)


@dataclass(frozen=True)
class Published:
    """A published figure."""

    what: str = doc("what was measured")
    figure: str = doc("the figure, as published")
    metric: str = doc("the metric that stands beside it in the report; empty: none is the same", "")
    of: dict[str, str] = doc("levels of the windows that it is taken from", {})


@dataclass(frozen=True)
class Claim:
    """`[[claims]]`: a published statement as a ratio of medians (or one median) that can be checked."""

    says: str = doc("the statement")
    published: str = doc("the published figure")
    metric: str = doc("the metric it is about")
    of: dict[str, str] = doc("levels of the treatments in the numerator", {})
    to: dict[str, str] = doc("levels of the treatments in the denominator; empty: the median itself is judged", {})
    low: float = doc("lowest value that agrees", 0.0)
    high: float = doc("highest value that agrees", float("inf"))
    spread: bool = doc("the ratio is one of spreads over starts (coefficients of variation), not of medians", False)


@dataclass(frozen=True)
class AnalysisSpec:
    """`[analysis]`: how results are judged."""

    metric: str = doc("the metric that decides")
    compare: str = doc("the factor whose levels are compared")
    baseline: str = doc("the level that the others are compared with; run twice in every block (A/A)", "")
    metrics: list[str] = doc("further metrics shown and judged", [])
    margin: float = doc("relative difference that does not matter (equivalence test)", 0.02)
    plots: list[str] = doc("plots of the report", ["boxes"])
    x: str = doc("the factor along the x axis of line plots", "")


@dataclass(frozen=True)
class Settings:
    """Everything that a factor may vary."""

    server: ServerSpec = section("the server under test", ServerSpec)
    primary: PrimarySpec = section("where a secondary transfers from", PrimarySpec)
    zones: ZoneSpec = section("what is served", ZoneSpec)
    queries: QuerySpec = section("what is asked", QuerySpec)
    traffic: TrafficSpec = section("how it is asked", TrafficSpec)
    rig: RigSpec = section("the network and who runs where", RigSpec)
    timing: TimingSpec = section("how long and how often", TimingSpec)
    change: ChangeSpec = section("what is done besides", ChangeSpec)


@dataclass(frozen=True)
class Quick:
    """`[quick]`: the small form of the experiment."""

    levels: dict[str, list[Any]] = doc("factor -> the levels of the small form", {})
    set: dict[str, Any] = doc("tables merged over the settings", {})


@dataclass(frozen=True)
class ExperimentDefinition(Settings):
    """A whole experiment file: these keys and the tables of `Settings`."""

    id: str = doc("short number, as in the catalogue: E1", "")
    name: str = doc("name for the command line", "")
    title: str = doc("headline", "")
    question: str = doc("what is asked", "")
    why: str = doc("why it matters", "")
    source: str = doc("who published it", "")
    expect: str = doc("what is expected here, and why it may differ from the publication", "")
    procedure: str = doc("how a start is measured: queries, peak, memory, secondary, pull, connections, ...", "queries")
    published: list[Published] = doc("published figures", [])
    factors: dict[str, Any] = doc("what is varied between starts: setting = [levels], or name.level = {settings}", {})
    within: dict[str, Any] = doc("what is varied within one start, in the same two forms", {})
    analysis: AnalysisSpec = section("how results are judged", AnalysisSpec)
    claims: list[Claim] = doc("published statements to check", [])
    quick: Quick = section("the small form", Quick)


@dataclass(frozen=True)
class Factor:
    """One thing that is varied: level -> tables merged over the settings."""

    name: str
    levels: dict[str, TomlTable]


@dataclass(frozen=True)
class Experiment:
    """An experiment ready to be planned; `base` are the settings before any level is applied."""

    definition: ExperimentDefinition
    base: TomlTable
    factors: tuple[Factor, ...]
    within: tuple[Factor, ...]
    path: Path

    @property
    def id(self) -> str:
        """Its number in the catalogue."""
        return self.definition.id

    def settings(self, *overrides: TomlTable) -> Settings:
        """The settings with the levels of a treatment applied."""
        table: dict[str, Any] = copy.deepcopy(dict(self.base))
        for override in overrides:
            merge(table, override)
        return parse(Settings, table, self.path.name)

    def factor(self, name: str) -> Factor | None:
        """The factor of that name, between or within starts."""
        return next((factor for factor in self.factors + self.within if factor.name == name), None)


def load(path: Path, quick: bool = False, servers: Iterable[str] = (), changes: Iterable[str] = ()) -> Experiment:
    """The experiment in `path`; `servers` replaces the levels of `server.name`, `changes` are `key=value` settings."""
    try:
        table = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise LabError(f"{path}: no such experiment file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"{path}: no experiment can be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise LabError(f"{path}: {error}", "see `zonda-lab keys` for the form of an experiment") from None
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
    return experiment


def catalogue(folder: Path = FOLDER) -> list[Path]:
    """All experiment files (`eNN-name.toml`), in the order of their numbers."""
    return sorted(folder.glob("e[0-9][0-9]-*.toml"))


def find(word: str, folder: Path = FOLDER) -> list[Path]:
    """The files that `word` names: `all`, a number (E1), numbers (E1-E20), a name or a path."""
    files = catalogue(folder)
    if word == "all":
        return files
    if span := re.fullmatch(r"e(\d+)-e(\d+)", word.lower()):
        found = [path for path in files if int(span[1]) <= int(path.stem[1:3]) <= int(span[2])]
        if not found:
            raise LabError(f"no experiments `{word}`", f"there are {files[0].stem[:3]} to {files[-1].stem[:3]}")
        return found
    if word.endswith(".toml"):
        return [Path(word)]
    by_number = {f"e{int(path.stem[1:3])}": path for path in files}
    by_name = {path.stem[4:]: path for path in files}
    named = by_number.get(word.lower()) or by_name.get(word.lower())
    if named is None:
        raise LabError(f"no experiment `{word}`", suggestion(word.lower(), by_name | by_number))
    return [named]


def merge(table: dict[str, Any], over: TomlTable) -> None:
    """Lays `over` upon `table`, table by table."""
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(table.get(key), dict):
            merge(table[key], value)
        else:
            table[key] = copy.deepcopy(value)


def _factor(name: str, value: Any, chosen: Mapping[str, list[Any]], path: Path) -> Factor:
    """`"traffic.rate" = [1, 2]` varies one setting; `tuning.NAME = {...}` names bundles of settings."""
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
    """`timing.blocks=20` as a table; the value is TOML, or text if it is not."""
    key, equals, value = text.partition("=")
    if not equals:
        raise LabError(f"--set {text}: no `=`", "as in --set timing.blocks=20")
    try:
        return _nested(key, tomllib.loads(f"value = {value}")["value"])
    except tomllib.TOMLDecodeError:
        return _nested(key, value)


def _check(experiment: Experiment) -> None:
    """Everything that would otherwise be found only after an hour of measuring."""
    definition, where = experiment.definition, experiment.path.name
    for factor in experiment.factors + experiment.within:
        for overrides in factor.levels.values():
            experiment.settings(overrides)
    if not definition.id or not definition.title:
        raise LabError(f"{where}: `id` and `title` are missing")
    beside = [row.metric for row in definition.published if row.metric]
    claimed = [claim.metric for claim in definition.claims]
    for metric in [definition.analysis.metric, *definition.analysis.metrics, *claimed, *beside]:
        if metric not in METRICS:
            raise LabError(f"{where}: no metric `{metric}`", suggestion(metric, METRICS))
    names = [factor.name for factor in experiment.factors + experiment.within]
    if definition.analysis.compare not in names:
        raise LabError(f"{where}: analysis.compare is no factor", suggestion(definition.analysis.compare, names))
    about = [
        *(name for claim in definition.claims for name in (*claim.of, *claim.to)),
        *(n for r in definition.published for n in r.of),
    ]
    for name in about:
        if name not in (*names, *MEASURED_LEVELS):
            raise LabError(f"{where}: claim about `{name}`, which is no factor", suggestion(name, names))
