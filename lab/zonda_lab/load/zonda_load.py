"""zonda-load: supports everything. LOAD-CONTRACT.md lists its options."""

import re
from collections.abc import Sequence
from pathlib import Path

from zonda_lab.errors import UnsupportedError
from zonda_lab.load.generator import LoadGenerator, printed, version_of
from zonda_lab.load.jobs import HoldJob, PeakSearch, ProbeJob, PullJob, QueryJob, UpdateJob
from zonda_lab.load.result import LoadResult
from zonda_lab.load.summary import read_summary
from zonda_lab.servers.config import Certificate, Endpoint, Tsig

#: Longer than any window: encoding the report of an interval takes 5 ms of the core that sends, and queries leave late.
ONE_INTERVAL_S = 1_000_000


class ZondaLoad(LoadGenerator):
    """The load generator of this project."""

    name = "zonda-load"

    def __init__(self, program: Path) -> None:
        self.program, self.version = program, version_of([program, "--version"])
        self._help: dict[str, str] = {}

    def query(self, job: QueryJob) -> list[str | Path]:
        traffic = job.traffic
        idle = ["--idle-timeout"] if traffic.client_idle_s else []
        resumption = ["--resume"] if traffic.resumption else []
        ports = ["--client-ports"] if traffic.client_ports else []
        self._require("query", f"--transport {traffic.transport}", *resumption, *idle, *ports)
        if traffic.capture:
            return self._asking(job, ["--speed", f"{traffic.speed:g}", *ports])
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
            f"--interval {ONE_INTERVAL_S} --timeout-ms {traffic.timeout_ms}",
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
        place += ["--rate", f"{job.rate:g}"]
        wanted = ["--serial", str(job.serial)] if job.serial else []
        return [self.program, "probe", *place, *wanted, "--zones", job.zones, "--arrivals", job.arrivals]

    def update(self, job: UpdateJob) -> list[str | Path]:
        self._require("update", *(["--tsig"] if job.tsig else []))
        pace = ["--rate", f"{job.rate:g}", "--seconds", f"{job.seconds:g}"]
        return [self.program, "update", *_to(job.endpoint, "udp")[:4], "--zone", job.zone, *pace, *_key(job.tsig)]

    def _require(self, command: str, *options: str) -> None:
        """Raises UnsupportedError for an option, or option value, that the help of this version does not show."""
        if command not in self._help:
            self._help[command] = printed([self.program, *command.split(), "--help"])
        for option in options:
            name, _, value = option.partition(" ")
            match = re.search(rf"^\s*{name}\b.*(?:\n(?!\s*-).*)*", self._help[command], re.MULTILINE)
            if match is None or not re.search(rf"\b{value}\b", match[0]):
                raise UnsupportedError(f"zonda-load {self.version} {command} does not support {option}")


def _to(endpoint: Endpoint, transport: str) -> list[str]:
    port = endpoint.tls_port if transport == "tls" else endpoint.port
    return ["--server", endpoint.address, "--port", str(port), "--transport", transport]


def _sources(count: int, prefix: str) -> list[str]:
    return ["--sources", str(count), "--source-prefix", prefix] if count > 1 else []


def _trust(authority: Certificate | None) -> list[str | Path]:
    return ["--ca", authority.certificate, "--tls-name", authority.name] if authority else []


def _key(tsig: Tsig | None) -> list[str]:
    return ["--tsig", f"{tsig.algorithm}:{tsig.name}:{tsig.secret}"] if tsig else []
