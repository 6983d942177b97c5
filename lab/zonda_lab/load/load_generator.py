"""Load generators: command lines and output (LOAD-CONTRACT.md). No other module knows them.

`ZondaLoad` supports everything; `Dnsperf` supports most queries and serves as a cross-check.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.experiments.definition import TrafficSpec
from zonda_lab.generator_program import zonda_load
from zonda_lab.load.latency_histogram import LatencyHistogram
from zonda_lab.rig.namespaces import SOURCES
from zonda_lab.servers.config import Certificate, Endpoint, Tsig
from zonda_lab.zones.workload import Workload

N = TypeVar("N", int, float)
GRACE_S = 20.0  # after its scheduled end, before the generator is considered hung


@dataclass(frozen=True)
class QueryJob:
    """Queries at `rate` per second, or in the closed loop of `traffic`."""

    traffic: TrafficSpec
    rate: float
    endpoint: Endpoint
    workload: Workload
    seconds: float
    warm_up_s: float = 0.0
    verify: bool = True
    authority: Certificate | None = None
    source_prefix: str = SOURCES

    @property
    def files(self) -> list[Path]:
        """The files that the generator reads."""
        capture = [Path(self.traffic.capture)] if self.traffic.capture else []
        authority = [self.authority.certificate] if self.authority else []
        return [*capture, self.workload.queries, self.workload.expectation, *authority]


@dataclass(frozen=True)
class PeakSearch:
    """Objectives of a peak search: percentages of answers, or latency limits such as `p99=1ms`."""

    objectives: tuple[str, ...]
    resolution: float  # relative


@dataclass(frozen=True)
class ProbeJob:
    """SOA queries for zones until each is answered, with a serial if given; times are written to `arrivals`."""

    endpoint: Endpoint
    zones: Path
    arrivals: Path
    seconds: float
    serial: int = 0
    timeout_ms: int = 100
    rate: float = 20_000.0  # so that probing takes less than a tenth of a server's core


@dataclass(frozen=True)
class HoldJob:
    """Connections opened at a rate and kept open, idle or hostile."""

    transport: str
    endpoint: Endpoint
    connections: int
    rate: float
    seconds: float
    sources: int = 1
    source_prefix: str = SOURCES
    workload: Workload | None = None
    probe_ms: int = 10
    authority: Certificate | None = None
    hostile: str = ""


@dataclass(frozen=True)
class PullJob:
    """Zone transfers whose content is discarded."""

    transport: str
    endpoint: Endpoint
    zones: Path
    tsig: Tsig | None = None
    authority: Certificate | None = None
    parallel: int = 1


@dataclass(frozen=True)
class UpdateJob:
    """Dynamic updates of one zone at a rate."""

    endpoint: Endpoint
    zone: str
    rate: float
    seconds: float
    tsig: Tsig | None = None


@dataclass
class LoadResult:
    """What a load generator measured; None where it does not report a value."""

    sent: int
    answered: int  # within the window
    timeouts: int
    seconds: float
    scheduled: float | None = None
    late: int | None = None
    missed: int | None = None
    wrong: int = 0
    wrong_examples: list[str] = field(default_factory=list)
    rcodes: dict[str, int] = field(default_factory=dict)
    latency_mean_us: float | None = None
    latency_intended: str = ""
    latency_actual: str = ""
    schedule_error_p99_us: float | None = None
    connect_mean_us: float | None = None
    invalid: list[str] = field(default_factory=list)
    late_answers: int = 0  # after sending had stopped
    busy: float | None = None  # of the busiest thread, without waiting for its schedule
    receive_drops: int = 0
    handshakes: int | None = None
    sending: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)


class LoadGenerator(ABC):
    """A load generator."""

    name: str
    program: Path
    version: str

    @abstractmethod
    def query(self, job: QueryJob) -> list[str | Path]:
        """The command line for queries."""

    @abstractmethod
    def parse(self, output: str, job: QueryJob) -> LoadResult:
        """Parses the output of the `query` command."""

    def find_peak(self, job: QueryJob, search: PeakSearch) -> list[str | Path]:
        """The command line for a peak search that starts at the rate of the job."""
        requested = f"{', '.join(search.objectives)} over {job.traffic.transport} requested"
        raise UnsupportedError(f"{self.name} has no peak search ({requested})", "use zonda-load")

    def probe(self, job: ProbeJob) -> list[str | Path]:
        """The command line for probing when zones are answered."""
        raise UnsupportedError(f"{self.name} cannot probe zones ({job.zones} requested)", "use zonda-load")

    def hold(self, job: HoldJob) -> list[str | Path]:
        """The command line for held connections."""
        raise UnsupportedError(
            f"{self.name} cannot hold idle connections ({job.connections} requested)", "use zonda-load"
        )

    def pull(self, job: PullJob) -> list[str | Path]:
        """The command line for transfers."""
        raise UnsupportedError(f"{self.name} cannot transfer zones ({job.transport} requested)", "use zonda-load")

    def update(self, job: UpdateJob) -> list[str | Path]:
        """The command line for dynamic updates."""
        raise UnsupportedError(f"{self.name} cannot send updates ({job.zone} requested)", "use zonda-load")


class ZondaLoad(LoadGenerator):
    """The load generator of this project."""

    name = "zonda-load"

    def __init__(self, program: Path) -> None:
        self.program, self.version = program, _version([program, "--version"])
        self._help: dict[str, str] = {}

    def query(self, job: QueryJob) -> list[str | Path]:
        traffic = job.traffic
        idle = ["--idle-timeout"] if traffic.client_idle_s else []
        resumption = ["--resume"] if traffic.resumption else []
        self._require("query", f"--transport {traffic.transport}", *resumption, *idle)
        if traffic.capture:
            return self._asking(job, ["--speed", f"{traffic.speed:g}"])
        closed = traffic.loop == "closed"
        pace = (
            f"--outstanding {traffic.outstanding}" if closed else f"--rate {job.rate:g} --arrivals {traffic.arrivals}"
        )
        return self._asking(job, [*pace.split(), "--seconds", f"{job.seconds:g}", "--warm-up", f"{job.warm_up_s:g}"])

    def find_peak(self, job: QueryJob, search: PeakSearch) -> list[str | Path]:
        self._require("query", "--find-peak", f"--transport {job.traffic.transport}")
        pace = ["--rate", f"{job.rate:g}", "--seconds", f"{job.seconds:g}", "--warm-up", f"{job.warm_up_s:g}"]
        goals = ["--find-peak", ",".join(search.objectives), "--resolution", f"{search.resolution * 100:g}"]
        return self._asking(job, [*pace, *goals])

    def _asking(self, job: QueryJob, pace: Sequence[str]) -> list[str | Path]:
        """The command line of `query` with its timing."""
        traffic = job.traffic
        options = [
            f"--timeout-ms {traffic.timeout_ms}",
            f"--connections {traffic.connections} --queries-per-connection {traffic.queries_per_connection}",
            f"--edns {traffic.edns_size}" if traffic.edns_size and not traffic.capture else "",
            f"--do {traffic.dnssec_ok:g}" if traffic.dnssec_ok else "",
            f"--tcp-share {traffic.tcp_share:g}" if traffic.tcp_share else "",
            f"--idle-timeout {traffic.client_idle_s:g}" if traffic.client_idle_s else "",
            f"--burst {traffic.burst}" if traffic.burst > 1 else "",
            "--resume" if traffic.resumption else "",
        ]
        source = ("--pcap", Path(traffic.capture)) if traffic.capture else ("--queries", job.workload.queries)
        is_checked = job.verify and not traffic.capture
        return [
            *(self.program, "query", *_to(job.endpoint, traffic.transport), *source),
            *(("--expect", job.workload.expectation) if is_checked else ()),
            *pace,
            *" ".join(options).split(),
            *_sources(traffic.sources, job.source_prefix),
            *_trust(job.authority),
        ]

    def parse(self, output: str, job: QueryJob) -> LoadResult:  # noqa: ARG002
        return read_summary(output)

    def hold(self, job: HoldJob) -> list[str | Path]:
        command = ["hostile", "--kind", job.hostile] if job.hostile else ["hold"]
        self._require(command[0], f"--transport {job.transport}")
        pace = f"--connections {job.connections} --rate {job.rate:g} --seconds {job.seconds:g}".split()
        return [
            *(self.program, *command, *_to(job.endpoint, job.transport), *pace, "--probe-ms", str(job.probe_ms)),
            *(("--probe-port", str(job.endpoint.port)) if job.transport == "tls" else ()),
            *(("--queries", job.workload.queries) if job.workload else ()),
            *_sources(job.sources, job.source_prefix),
            *_trust(job.authority),
        ]

    def pull(self, job: PullJob) -> list[str | Path]:
        self._require("xfr pull", f"--transport {job.transport}", *(["--tsig"] if job.tsig else []))
        target: list[str | Path] = [*_to(job.endpoint, job.transport), "--zones", job.zones]
        many = ["--parallel", str(job.parallel)] if job.parallel > 1 else []
        return [self.program, "xfr", "pull", *target, *many, *_key(job.tsig), *_trust(job.authority)]

    def probe(self, job: ProbeJob) -> list[str | Path]:
        self._require("probe", "--arrivals")
        place = ["--server", job.endpoint.address, "--port", str(job.endpoint.port), "--seconds", f"{job.seconds:g}"]
        place += ["--timeout-ms", str(job.timeout_ms), "--rate", f"{job.rate:g}"]
        wanted = ["--serial", str(job.serial)] if job.serial else []
        return [self.program, "probe", *place, *wanted, "--zones", job.zones, "--arrivals", job.arrivals]

    def update(self, job: UpdateJob) -> list[str | Path]:
        self._require("update", *(["--tsig"] if job.tsig else []))
        pace = ["--rate", f"{job.rate:g}", "--seconds", f"{job.seconds:g}"]
        return [self.program, "update", *_to(job.endpoint, "udp")[:4], "--zone", job.zone, *pace, *_key(job.tsig)]

    def _require(self, command: str, *options: str) -> None:
        """Raises UnsupportedError for an option, or option value, that the help of this version does not show."""
        if command not in self._help:
            self._help[command] = _printed([self.program, *command.split(), "--help"])
        for option in options:
            name, _, value = option.partition(" ")
            match = re.search(rf"^\s*{name}\b.*(?:\n(?!\s*-).*)*", self._help[command], re.MULTILINE)
            if match is None or not re.search(rf"\b{value}\b", match[0]):
                raise UnsupportedError(f"zonda-load {self.version} {command} does not support {option}")


class Dnsperf(LoadGenerator):
    """DNS-OARC's dnsperf: a closed loop even with a rate, no histograms; answers are checked by RCODE only."""

    name = "dnsperf"
    OUTSTANDING = 20_000  # limit of an "open" loop; dnsperf then waits for answers

    def __init__(self, program: Path) -> None:
        self.program, self.version = program, _version([program, "-h"])

    def query(self, job: QueryJob) -> list[str | Path]:
        traffic = job.traffic
        for asked, what in (
            (traffic.sources > 1, "more than one source address"),
            (traffic.queries_per_connection > 0, "a limit of queries per connection"),
            (0 < traffic.dnssec_ok < 1, "DO in a share of the queries"),
            (traffic.tcp_share > 0, "two transports at once"),
            (traffic.loop == "open" and traffic.arrivals == "poisson", "Poisson arrivals"),
        ):
            if asked:
                raise UnsupportedError(f"dnsperf does not support {what}", "use zonda-load")
        closed = traffic.loop == "closed"
        transport, port = (
            ("dot", job.endpoint.tls_port) if traffic.transport == "tls" else (traffic.transport, job.endpoint.port)
        )
        options = [
            f"-l {max(1, round(job.seconds))} -c {traffic.connections} -T 1 -t {traffic.timeout_ms / 1000:g}",
            f"-q {traffic.outstanding}" if closed else f"-q {self.OUTSTANDING} -Q {max(1, round(job.rate))}",
            "-e" if traffic.edns_size else "",
            "-D" if traffic.dnssec_ok else "",
        ]
        target: list[str | Path] = [
            "-s",
            job.endpoint.address,
            "-p",
            str(port),
            "-m",
            transport,
            "-d",
            job.workload.queries,
        ]
        return [self.program, *target, *" ".join(options).split()]

    def parse(self, output: str, job: QueryJob) -> LoadResult:
        def number(pattern: str) -> float:
            match = re.search(pattern, output)
            if match is None:
                raise LabError(f"dnsperf printed no result ({pattern})", detail=output[-400:])
            return float(match[1])

        seconds = number(r"Run time \(s\):\s+([\d.]+)")
        sent, lost = int(number(r"Queries sent:\s+(\d+)")), int(number(r"Queries lost:\s+(\d+)"))
        rcodes = {name: int(count) for name, count in re.findall(r"([A-Z]+\d*) (\d+) \([\d.]+%\)", output)}
        scheduled = job.rate * max(1, round(job.seconds)) if job.traffic.loop == "open" else None
        result = LoadResult(
            sent=sent,
            answered=int(number(r"Queries completed:\s+(\d+)")),
            timeouts=lost,
            seconds=seconds,
            scheduled=scheduled,
            missed=max(0, round(scheduled) - sent) if scheduled else None,
            wrong=count_unexpected_rcodes(rcodes, job.workload.rcodes) if job.verify else 0,
            rcodes=rcodes,
            latency_mean_us=number(r"Average Latency \(s\):\s+([\d.]+)") * 1e6,
        )
        if job.traffic.transport != "udp":
            result.connect_mean_us = number(r"Connection Statistics:(?:.|\n)*?Average Latency \(s\):\s+([\d.]+)") * 1e6
        return result


def find_generator(wanted: str = "") -> LoadGenerator:
    """The generator with that name or path; by default zonda-load if available, else dnsperf."""
    given = wanted or os.environ.get("ZONDA_LOAD", "")
    if Path(given).name.startswith("dnsperf"):
        return Dnsperf(_program(given))
    if given and given != "zonda-load":
        return ZondaLoad(_program(given))
    if built := zonda_load():
        return ZondaLoad(built)
    if given:
        raise LabError("zonda-load not found", "build it with `cargo build --release -p zonda-load`")
    return Dnsperf(_program("dnsperf"))


def events(output: str) -> list[dict[str, Any]]:
    """The JSON objects printed so far; ignores an incomplete last line."""
    return [json.loads(line) for line in output[: output.rfind("\n") + 1].splitlines() if line.startswith("{")]


def read_summary(output: str) -> LoadResult:
    """The `stats_sum` object of any `zonda-load` command."""
    sums = [found for found in events(output) if found.get("type") == "stats_sum"]
    if not sums:
        raise LabError(
            "the load generator printed no result", detail=f"its output ends: {output[-400:].strip() or '(empty)'}"
        )
    total, own = sums[-1], sums[-1].get("zonda", {})
    connections = total.get("conn_info", {})
    handshake = connections.get("conn_latency", {}).get("handshake", {})
    headers = [found.get("zonda", {}) for found in events(output) if found.get("type") == "header"]
    intended = own.get("latency_intended", "")
    return LoadResult(
        sent=total.get("queries", 0),
        answered=own.get("responses_in_window", total.get("responses", 0)),
        late_answers=own.get("responses_after_window", 0),
        busy=own.get("busy"),
        receive_drops=own.get("receive_drops", 0),
        handshakes=connections.get("handshakes"),
        sending=headers[0].get("sending", {}) if headers else {},
        timeouts=total.get("timeouts", 0),
        seconds=(total["until"] - total["since"]) / 1e9,
        scheduled=own.get("scheduled"),
        late=own.get("late"),
        missed=own.get("missed"),
        wrong=own.get("wrong", 0),
        wrong_examples=own.get("wrong_examples", []),
        rcodes=total.get("response_rcodes", {}),
        latency_mean_us=LatencyHistogram(intended).mean if intended else None,
        latency_intended=intended,
        latency_actual=own.get("latency_actual", ""),
        schedule_error_p99_us=own["schedule_error"]["p99"] / 1000 if "schedule_error" in own else None,
        connect_mean_us=handshake["avg"] / 1000 if handshake else None,
        invalid=own.get("invalid_because", []),
        more=own,
    )


def merge_results(results: Sequence[LoadResult]) -> LoadResult:
    """Merges the results of several players: sums counts, merges histograms, takes the worst schedule error."""
    if len(results) == 1:
        return results[0]
    answered = sum(result.answered for result in results)
    means = [(result.latency_mean_us, result.answered) for result in results if result.latency_mean_us is not None]
    return LoadResult(
        sent=sum(result.sent for result in results),
        answered=answered,
        late_answers=sum(result.late_answers for result in results),
        busy=max((result.busy for result in results if result.busy is not None), default=None),
        receive_drops=sum(result.receive_drops for result in results),
        handshakes=_sum(result.handshakes for result in results),
        sending=results[0].sending,
        timeouts=sum(result.timeouts for result in results),
        seconds=max(result.seconds for result in results),
        scheduled=_sum(result.scheduled for result in results),
        late=_sum(result.late for result in results),
        missed=_sum(result.missed for result in results),
        wrong=sum(result.wrong for result in results),
        wrong_examples=[example for result in results for example in result.wrong_examples],
        rcodes=dict(sum((Counter(result.rcodes) for result in results), Counter())),
        latency_mean_us=sum(mean * count for mean, count in means) / max(1, answered) if means else None,
        latency_intended=_merged_histogram([result.latency_intended for result in results]),
        latency_actual=_merged_histogram([result.latency_actual for result in results]),
        schedule_error_p99_us=max((r.schedule_error_p99_us for r in results if r.schedule_error_p99_us), default=None),
        connect_mean_us=max((result.connect_mean_us for result in results if result.connect_mean_us), default=None),
        invalid=[f"player {i}: {reason}" for i, result in enumerate(results, 1) for reason in result.invalid],
        more=results[0].more,
    )


def count_unexpected_rcodes(rcodes: dict[str, int], expected: dict[str, float]) -> int:
    """Answers with an unexpected RCODE, or in excess (five sigma) of its expected share."""
    total = sum(rcodes.values())
    wrong = sum(count for rcode, count in rcodes.items() if rcode not in expected)
    for rcode, share in expected.items():
        off = abs(rcodes.get(rcode, 0) - share * total)
        if off > 5 * (total * share * (1 - share)) ** 0.5 + 0.005 * total:
            wrong += round(off)
    return wrong


def _sum(values: Iterable[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def _merged_histogram(encoded: Sequence[str]) -> str:
    if not all(encoded):
        return ""
    total = LatencyHistogram()
    for each in encoded:
        total.merge(LatencyHistogram(each))
    return total.encoded()


def _to(endpoint: Endpoint, transport: str) -> list[str]:
    port = endpoint.tls_port if transport == "tls" else endpoint.port
    return ["--server", endpoint.address, "--port", str(port), "--transport", transport]


def _sources(count: int, prefix: str) -> list[str]:
    return ["--sources", str(count), "--source-prefix", prefix] if count > 1 else []


def _trust(authority: Certificate | None) -> list[str | Path]:
    return ["--ca", authority.certificate, "--tls-name", authority.name] if authority else []


def _key(tsig: Tsig | None) -> list[str]:
    return ["--tsig", f"{tsig.algorithm}:{tsig.name}:{tsig.secret}"] if tsig else []


def _program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise LabError(f"load generator `{name}` not found", "`apt-get install dnsperf`, or build zonda-load")
    return Path(found)


def _version(command: Sequence[str | Path]) -> str:
    match = re.search(r"\d+\.\d+[\w.+-]*", _printed(command))
    return match[0] if match else "unknown"


def _printed(command: Sequence[str | Path]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
