"""An experiment: question, settings, factors, published figures and claims, analysis; `catalogue` reads the files."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from zonda_lab.schema import doc, parse, section

# The exponents that make a shape: flat is 0, linear 1. "levels off" is about the upper half of the levels.
SHAPES: Mapping[str, tuple[float, float]] = {
    "flat": (-0.05, 0.05),
    "levels off": (-0.2, 0.2),
    "rising": (0.05, float("inf")),
    "falling": (float("-inf"), -0.05),
    "slower than linear": (0.0, 0.9),
    "linear": (0.9, 1.1),
    "faster than linear": (1.1, float("inf")),
}
RECORDS_PER_DELEGATION = {"root": 12.0, "tld": 2.7}  # name servers and their addresses
TomlTable = Mapping[str, Any]
ProcedureName = Literal[
    "queries",
    "queries-alone",
    "peak",
    "startup",
    "memory",
    "secondary",
    "pull",
    "idle",
    "descriptors",
    "storm",
    "vanishing",
    "propagation",
    "updating",
    "receiving",
]  # how `procedures.PROCEDURES` measure a start


@dataclass(frozen=True)
class ServerSpec:
    """`[server]`: the server under test."""

    name: str = doc("label of the server: name of an adapter, or a label defined with --server", "nsd")
    workers: int = doc("threads or processes that answer queries", 1, least=1)
    tcp_clients: int = doc("maximum number of concurrent TCP connections", 1000, least=1)
    tcp_idle_s: int = doc("seconds after which an idle TCP connection is closed", 10, least=1)
    settings: Literal["tuned", "defaults"] = doc(
        "tuned: settings that mean the same are equal for all servers; defaults: as installed", "tuned"
    )
    receive_buffer: int = doc("octets of the UDP receive buffer, if tuned; equal for all servers", 4 << 20, least=4096)
    backlog: int = doc("length of the listen queue, if tuned; equal for all servers", 4096, least=1)
    options: dict[str, list[str]] = doc("per adapter: lines added to the server section of the configuration", {})


@dataclass(frozen=True)
class PrimarySpec:
    """`[primary]`: the primary of a secondary under test; runs on the client side."""

    name: str = doc("label of the primary; empty: no primary, the server under test loads zone files", "")
    transport: Literal["tcp", "tls"] = doc("transport of transfers", "tcp")
    tsig: bool = doc("sign transfers and dynamic updates with TSIG (hmac-sha256)", False)
    addresses: int = doc("addresses of the primary; zones are distributed over them", 1, least=1)
    parallel_transfers: int = doc("maximum number of concurrent transfers of the secondary", 100, least=1)
    changes_per_s: float = doc(
        "new versions of zones per second, each with NOTIFY and IXFR; null-primary only", 0.0, least=0
    )


@dataclass(frozen=True)
class ZoneSpec:
    """`[zones]`: the zones served; the same seed gives identical files."""

    shape: Literal["root", "tld", "flat", "mixed", "tiny", "trace"] = doc(
        "shape of a zone, see `zonda-lab zonegen`", "root"
    )
    zones: int = doc("number of zones", 1, least=1)
    records: int = doc("approximate records per zone; for root and tld: delegations", 500, least=0)
    signed: Literal["no", "nsec", "nsec3"] = doc("DNSSEC (Ed25519), with the given denial of existence", "no")
    seed: int = doc("seed of the random generator", 1)
    trace: str = doc("shape trace: capture with the answers of a server; its queries replace `[queries]`", "")

    @property
    def expected_records(self) -> float:
        """The records of all zones, approximately."""
        return self.zones * self.records * RECORDS_PER_DELEGATION.get(self.shape, 1.0)


@dataclass(frozen=True)
class QuerySpec:
    """`[queries]`: the queries for those zones."""

    count: int = doc("queries in the query file, which is sent repeatedly", 100_000, least=1)
    nxdomain: float = doc("share of queries for names that do not exist", 0.0, least=0)
    popularity: Literal["uniform", "zipf"] = doc("distribution of query names", "uniform")
    types: dict[str, float] = doc("share of each query type, for names that have it; empty: those of the shape", {})
    seed: int = doc("seed of the random generator", 2)


@dataclass(frozen=True)
class TrafficSpec:
    """`[traffic]`: how the queries are sent."""

    transport: Literal["udp", "tcp", "tls", "quic"] = doc("transport", "udp")
    loop: Literal["open", "closed"] = doc(
        "open: fixed schedule; closed: constant number of outstanding queries", "open"
    )
    rate: float | str = doc(
        'queries per second, a share of the capacity of this start ("50%"), or of the echo server\'s in the rig of the '
        'baseline ("50% of echo"), which is the same rate for all levels that are compared',
        10_000.0,
        least=0.001,
    )
    ramp: float = doc(
        "rate at the end of a window of an open loop, as a multiple of the rate at its start; between them it changes "
        "linearly",
        1.0,
        least=0.001,
    )
    arrivals: Literal["constant", "poisson"] = doc("distribution of send times in an open loop", "constant")
    outstanding: int = doc("outstanding queries in a closed loop", 200, least=1)
    connections: int = doc("number of UDP sockets or TCP connections", 20, least=1)
    queries_per_connection: int = doc("queries after which a connection is closed; 0: never", 0, least=0)
    sources: int = doc("number of source addresses", 1, least=1)
    timeout_ms: int = doc("queries without an answer after this time are lost", 1000, least=1)
    edns_size: int = doc("EDNS payload size; 0: no EDNS", 1232, least=0)
    dnssec_ok: float = doc("share of queries with the DO bit", 0.0, least=0)
    tcp_share: float = doc("share of queries over TCP; the others use UDP", 0.0, least=0)
    resumption: bool = doc("resume TLS sessions", False)
    fast_open: bool = doc("send the first query of a connection with the SYN, where the server's side allows it", False)
    capture: str = doc("pcap file (also .xz) whose queries are replayed with its clients; empty: generated queries", "")
    speed: float = doc("speed of the replay of a capture", 1.0, least=0.001)
    client_ports: bool = doc("replay a capture from the ports of its clients", False)
    client_idle_s: float = doc("seconds after which a client closes an idle connection; 0: never", 0.0, least=0)
    burst: int = doc("UDP queries sent as segments of one send; more than 1 changes what servers get", 1, least=1)

    @property
    def is_encrypted(self) -> bool:
        """Whether the server needs a certificate."""
        return self.transport in ("tls", "quic")


@dataclass(frozen=True)
class RigSpec:
    """`[rig]`: the network of two namespaces joined by a veth pair, and CPU pinning."""

    server_cpus: list[int] = doc("CPUs of the server", [0])
    load_cpus: list[int] = doc("CPUs of the load generator and telemetry", [1])
    queues: int = doc("receive queues of the server's interface", 1, least=1)
    rps_cpus: list[int] = doc("RPS CPUs of the server's interface; empty: packets are handled on the sender's CPU", [])
    sysctl: dict[str, str | int] = doc("kernel settings on the server side", {})
    client_sysctl: dict[str, str | int] = doc("kernel settings on the client side", {})
    qdisc: str = doc("queueing discipline of the server's interface; empty: the kernel's default", "")
    delay_ms: float = doc("delay of packets to the server, by netem or a program of the lab", 0.0, least=0)
    loss_percent: float = doc("share of packets that are lost in each direction, at random", 0.0, least=0)
    path_mtu: int = doc(
        "octets of the longest packet that passes; a program of the lab drops longer ones; 0: no limit", 0, least=0
    )
    nftables: str = doc("commands of nft(8) on the server side: packet filters and connection tracking", "")
    descriptors: int = doc("file descriptor limit of the server; 0: system default", 0, least=0)


@dataclass(frozen=True)
class TimingSpec:
    """`[timing]`: durations and repetitions."""

    blocks: int = doc("repetitions of every treatment, each a new start of the server, in random order", 10, least=1)
    warm_up_s: float = doc("seconds of load before the first window of a start", 1.0, least=0)
    seconds: float = doc("length of a window in seconds", 10.0, least=0.01)
    ready_s: float = doc("timeout for the first answer, in seconds", 120.0, least=0)
    finish_s: float = doc("timeout for transfers and other work, in seconds", 600.0, least=0)
    retries: int = doc("maximum number of repetitions of an invalid window", 1, least=0)
    tolerance: float = doc("relative precision of the peak search", 0.03, least=0.001)
    censored: bool = doc(
        "treat zones missing after `finish-s` as censored at that time, instead of as a failure", False
    )
    tolerated: list[Literal["listen-drops", "wrong-answers", "unsent-queries"]] = doc(
        "what is studied here, so not a fault", []
    )
    cold_cache: bool = doc("drop zone files from the page cache before the start", False)


@dataclass(frozen=True)
class ChangeSpec:
    """`[change]`: idle connections, zone changes and updates."""

    connections: int = doc("idle connections opened", 0, least=0)
    connect_rate: float = doc("idle connections opened per second", 5_000.0, least=0.001)
    hold_s: float = doc("seconds they stay open", 2.0, least=0)
    changes: int = doc("number of zone changes", 0, least=0)
    updates_per_s: float = doc("dynamic updates per second", 0.0, least=0)
    transfers: int = doc("concurrent zone transfers out of the server during the queries", 0, least=0)
    pause_ms: float = doc(
        "milliseconds that the process of the server is stopped: from the first connection on, or in the middle of a "
        "window of queries",
        0.0,
        least=0,
    )
    vanish: Literal["", "half-open", "unreachable", "hang"] = doc(
        "how clients vanish: before their handshakes are complete (`half-open`), or when they were answered; then "
        "their machines are `unreachable`, or only their programs `hang`",
        "",
    )
    hostile: Literal["", "half-query", "byte-a-second", "never-read", "reset", "handshake", "silence", "random"] = doc(
        "behaviour of hostile clients, which hold `connections`; empty: none", ""
    )


@dataclass(frozen=True)
class Published:
    """A published figure."""

    what: str = doc("what was measured")
    figure: str = doc("the published value")
    metric: str = doc("the comparable metric shown next to it; empty: none", "")
    of: dict[str, str] = doc("levels of the windows to compare it with", {})
    here: str = doc("without a metric: what the report has about it, or why it has nothing", "not measured")


@dataclass(frozen=True)
class Claim:
    """`[[claims]]`: a published claim, checked as a ratio of medians, one median, an order or a shape."""

    says: str = doc("the claim")
    published: str = doc("the published figure")
    metric: str = doc("the metric it is about")
    of: dict[str, str] = doc("levels of the treatments in the numerator", {})
    to: dict[str, str] = doc("levels of the treatments in the denominator; empty: the median itself is checked", {})
    low: float = doc("lowest value that confirms the claim", 0.0)
    high: float = doc("highest value that confirms the claim", float("inf"))
    spread: bool = doc("compare coefficients of variation over starts instead of medians", False)
    event: float = doc(
        "not 0: what is claimed happens in some starts, those with a value below this; `low` is their least share", 0.0
    )
    order: list[str] = doc('levels from the highest value to the lowest; `"a = b"` has no order among them', [])
    shape: Literal[
        "", "flat", "rising", "falling", "linear", "slower than linear", "faster than linear", "levels off"
    ] = doc("shape of the curve over the factor `along`, by the exponent of the metric over it", "")
    along: str = doc("the factor of an order (default: server.name) or of a shape (with numbers as levels)", "")
    untestable: str = doc("why this machine cannot test the claim, and what it would take", "")
    unverified: str = doc("why the published figure is uncertain, which leaves the claim inconclusive", "")
    requires: dict[str, float] = doc(
        "least median of other metrics in the denominator, or else in the numerator: without it, what the claim is "
        "about did not happen, and it is not testable",
        {},
    )

    @property
    def confirming(self) -> tuple[float, float]:
        """The range that confirms the claim: of the value, or of the exponent of a shape."""
        return SHAPES[self.shape] if self.shape else (self.low, self.high)


@dataclass(frozen=True)
class Combination:
    """`[[combinations]]`: levels that are measured together; if there are any, all others are left out."""

    of: dict[str, list[str]] = doc("factor -> levels; a factor that is not named has any level", {})
    procedure: Literal[""] | ProcedureName = doc("measurement procedure; empty: that of the experiment", "")

    def has(self, levels: Mapping[str, str]) -> bool:
        """Whether these levels are measured together."""
        return all(level in self.of.get(name, (level,)) for name, level in levels.items())


@dataclass(frozen=True)
class AnalysisSpec:
    """`[analysis]`: how results are analysed."""

    metric: str = doc("the primary metric; invalid windows of it are repeated")
    compare: str = doc("the factor whose levels are compared")
    baseline: str = doc("the level others are compared with; runs twice per block (A/A pair)", "")
    metrics: list[str] = doc("further metrics to analyse", [])
    margin: float = doc("equivalence margin, relative", 0.02)
    effect: float = doc("the effect to detect with 80 % power, relative: blocks are planned for it", 0.05, least=0.001)
    plots: list[str] = doc("plots of the report", ["boxes"])
    main_plot: str = doc("metric whose plot a committed report shows; empty: the first plot", "")
    x: str = doc("the factor along the x axis of line plots", "")


@dataclass(frozen=True)
class Settings:
    """All settings that a factor may vary."""

    server: ServerSpec = section("the server under test", ServerSpec)
    primary: PrimarySpec = section("the primary of a secondary under test", PrimarySpec)
    zones: ZoneSpec = section("the zones served", ZoneSpec)
    queries: QuerySpec = section("the queries", QuerySpec)
    traffic: TrafficSpec = section("how queries are sent", TrafficSpec)
    rig: RigSpec = section("network and CPU pinning", RigSpec)
    timing: TimingSpec = section("durations and repetitions", TimingSpec)
    change: ChangeSpec = section("idle connections, zone changes and updates", ChangeSpec)


@dataclass(frozen=True)
class Quick:
    """`[quick]`: the quick form of the experiment."""

    levels: dict[str, list[Any]] = doc("factor -> levels in the quick form", {})
    set: dict[str, Any] = doc("tables merged over the settings", {})


@dataclass(frozen=True)
class ExperimentDefinition(Settings):
    """A whole experiment file: these keys and the tables of `Settings`."""

    id: str = doc("number in the catalogue, for example E1", "")
    name: str = doc("name for the command line", "")
    title: str = doc("title", "")
    question: str = doc("the question", "")
    why: str = doc("why it matters", "")
    source: str = doc("who published it", "")
    expect: str = doc("expected result, and why it may differ from the publication", "")
    left_out: str = doc("what the full form leaves out, so that it takes minutes; the report says so", "")
    procedure: ProcedureName = doc("measurement procedure", "queries")
    published: list[Published] = doc("published figures", [])
    factors: dict[str, Any] = doc("factors varied between starts: setting = [levels], or name.level = {settings}", {})
    within: dict[str, Any] = doc("factors varied within one start, in the same two forms", {})
    combinations: list[Combination] = doc("the combinations of levels of `factors` that are measured; empty: all", [])
    analysis: AnalysisSpec = section("how results are analysed", AnalysisSpec)
    claims: list[Claim] = doc("published claims to check", [])
    quick: Quick = section("the quick form", Quick)


@dataclass(frozen=True)
class Factor:
    """A factor: level -> tables merged over the settings."""

    name: str
    levels: dict[str, TomlTable]


@dataclass(frozen=True)
class Experiment:
    """A loaded experiment; `base` has the settings before any level is applied."""

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

    def combination(self, levels: Mapping[str, str]) -> Combination | None:
        """The combination that these levels of `factors` are measured in; None if they are not measured."""
        every = self.definition.combinations or [Combination()]
        return next((each for each in every if each.has(levels)), None)

    def factor(self, name: str) -> Factor | None:
        """The factor of that name, between or within starts."""
        return next((factor for factor in self.factors + self.within if factor.name == name), None)


def merge(table: dict[str, Any], over: TomlTable) -> None:
    """Merges `over` into `table`, recursively."""
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(table.get(key), dict):
            merge(table[key], value)
        else:
            table[key] = copy.deepcopy(value)
