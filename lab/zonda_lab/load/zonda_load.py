"""zonda-load: supports everything. LOAD-CONTRACT.md has its output."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

from zonda_lab.errors import UnsupportedError
from zonda_lab.experiments.definition import ChangeSpec, TrafficSpec
from zonda_lab.load.generator import Command, LoadGenerator, QueryJob
from zonda_lab.load.result import LoadResult, read_ramp, read_summary
from zonda_lab.rig.namespaces import SOURCES
from zonda_lab.servers.adapter import printed, version_in
from zonda_lab.servers.config import Certificate, Endpoint, Tsig
from zonda_lab.zones.workload import Workload

UDP_PROBE_MS = 10  # between the UDP queries sent while connections are held
ZONE_PROBE_RATE = 20_000  # per second, so that probing zones takes less than a tenth of a server's core
# Longer than any window: encoding the report of an interval takes 5 ms of the core that sends, and queries leave late.
ONE_INTERVAL_S = 1_000_000
# Settings of `[traffic]` that `zonda-load quic` lacks.
NOT_OVER_QUIC = ["ramp", "arrivals", "timeout_ms", "tcp_share", "fast_open", "capture", "client_ports", "client_idle_s"]
RAMP_POINTS = 20  # rates, at least, at which a ramp shows the share answered


class ZondaLoad(LoadGenerator):
    """The load generator of this project."""

    name = "zonda-load"

    def __init__(self, program: Path) -> None:
        self.program, self.version = program, version_in(printed([program, "--version"]))
        self._help: dict[str, str] = {}

    def query(self, job: QueryJob) -> Command:
        traffic = job.traffic
        if traffic.transport == "quic":
            return self._quic(job)
        optional = {"--idle-timeout": traffic.client_idle_s, "--resume": traffic.resumption}
        optional |= {"--client-ports": traffic.client_ports, "--ramp-to": job.is_ramp}
        optional |= {"--fast-open": traffic.fast_open}
        asked = [option for option, value in optional.items() if value]
        self._require("query", f"--transport {traffic.transport}", *asked)
        if traffic.capture:
            return self._asking(job, f"--speed {traffic.speed:g}{' --client-ports' if traffic.client_ports else ''}")
        open_loop = f"--rate {job.rate:g} --arrivals {traffic.arrivals}"
        open_loop += f" --ramp-to {job.rate * traffic.ramp:g}" if job.is_ramp else ""
        pace = f"--outstanding {traffic.outstanding}" if traffic.loop == "closed" else open_loop
        return self._asking(job, f"{pace} --seconds {job.seconds:g}")

    def _quic(self, job: QueryJob) -> Command:
        """Queries over QUIC, which `query` does not send."""
        traffic, defaults = job.traffic, TrafficSpec()
        if others := [name for name in NOT_OVER_QUIC if getattr(traffic, name) != getattr(defaults, name)]:
            raise UnsupportedError(f"zonda-load quic has no traffic.{others[0].replace('_', '-')}")
        if traffic.loop == "open" and traffic.queries_per_connection:
            raise UnsupportedError("zonda-load quic has no open loop over new connections", "use a closed loop")
        self._require("quic", "--expect", "--sources")
        is_closed = traffic.loop == "closed"
        options = [
            f"--outstanding {traffic.outstanding}" if is_closed else f"--query-rate {job.rate:g}",
            f"--connections {traffic.connections} --seconds {job.seconds:g} --warm-up 0",
            f"--queries-per-connection {traffic.queries_per_connection}" if is_closed else "",
            f"--edns {traffic.edns_size}" if traffic.edns_size else "",
            f"--do {traffic.dnssec_ok:g}" if traffic.dnssec_ok else "",
            "--resume" if traffic.resumption else "",
        ]
        return [
            *(self.program, "quic", *_at(job.endpoint.address, job.endpoint.quic_port)),
            *("--queries", job.workload.queries),
            *(("--expect", job.workload.expectation) if job.verify else ()),
            *" ".join(options).split(),
            *_sources(traffic.sources, job.source_prefix),
            *_trust(job.authority),
        ]

    def find_peak(self, job: QueryJob, goals: Sequence[str], resolution: float) -> Command:
        """Searches peak rates from the rate of the job on, to a relative `resolution`.

        A goal is a percentage of answers, or a latency limit such as `p99=1ms`.
        """
        self._require("query", "--find-peak", f"--transport {job.traffic.transport}")
        pace = f"--rate {job.rate:g} --arrivals {job.traffic.arrivals} --seconds {job.seconds:g}"
        return self._asking(job, f"{pace} --find-peak {','.join(goals)} --resolution {resolution * 100:g}")

    def _asking(self, job: QueryJob, pace: str) -> Command:
        """The command line of `query` with its timing."""
        traffic = job.traffic
        options = [
            pace,
            f"--interval {traffic.timeout_ms / 1000 / _timeout(job) if job.is_ramp else ONE_INTERVAL_S:g}",
            f"--timeout-ms {traffic.timeout_ms}",
            f"--connections {traffic.connections} --queries-per-connection {traffic.queries_per_connection}",
            f"--edns {traffic.edns_size}" if traffic.edns_size and not traffic.capture else "",
            f"--do {traffic.dnssec_ok:g}" if traffic.dnssec_ok else "",
            f"--tcp-share {traffic.tcp_share:g}" if traffic.tcp_share else "",
            f"--idle-timeout {traffic.client_idle_s:g}" if traffic.client_idle_s else "",
            f"--burst {traffic.burst}" if traffic.burst > 1 else "",
            "--resume" if traffic.resumption else "",
            "--fast-open" if traffic.fast_open else "",
        ]
        source = ("--pcap", Path(traffic.capture)) if traffic.capture else ("--queries", job.workload.queries)
        is_checked = job.verify and not traffic.capture
        return [
            *(self.program, "query", *_to(job.endpoint, traffic.transport), *source),
            *(("--expect", job.workload.expectation) if is_checked else ()),
            *" ".join(options).split(),
            *_sources(traffic.sources, job.source_prefix),
            *_trust(job.authority),
        ]

    def parse(self, output: str, job: QueryJob) -> LoadResult:
        result = read_summary(output)
        result.ramp = read_ramp(output, _timeout(job)) if job.is_ramp else []
        return result

    def hold(
        self,
        endpoint: Endpoint,
        traffic: TrafficSpec,
        change: ChangeSpec,
        until_answered: bool = False,
        source_prefix: str = SOURCES,
        workload: Workload | None = None,
        authority: Certificate | None = None,
    ) -> Command:
        """Opens the connections of `change` and keeps them open for its time, or until all are answered."""
        command = ["hostile", "--kind", change.hostile] if change.hostile else ["hold"]
        transport = traffic.transport if traffic.is_encrypted else "tcp"
        ending = ["--until-answered"] if until_answered else []
        self._require(command[0], f"--transport {transport}", *ending)
        pace = f"--connections {change.connections} --rate {change.connect_rate:g} --seconds {change.hold_s:g}"
        pace += f" --probe-ms {UDP_PROBE_MS}"
        return [
            *(self.program, *command, *_to(endpoint, transport), *pace.split()),
            *(("--probe-port", str(endpoint.port)) if traffic.is_encrypted else ()),
            *(("--queries", workload.queries) if workload and transport != "quic" else ()),
            *ending,
            *_sources(traffic.sources, source_prefix),
            *_trust(authority),
        ]

    def pull(
        self,
        endpoint: Endpoint,
        transport: str,
        zones: Path,
        tsig: Tsig | None,
        authority: Certificate | None = None,
        parallel: int = 1,
        patience_s: float = 0.0,
    ) -> Command:
        """Transfers the zones that a file names, and discards their content; ends if nothing comes for `patience_s`."""
        self._require("xfr pull", f"--transport {transport}", *(["--tsig"] if tsig else []))
        many = ["--parallel", str(parallel)] if parallel > 1 else []
        many += ["--timeout-ms", f"{patience_s * 1000:.0f}"] if patience_s else []
        target: Command = [*_to(endpoint, transport), "--zones", zones]
        return [self.program, "xfr", "pull", *target, *many, *_key(tsig), *_trust(authority)]

    def probe(self, endpoint: Endpoint, zones: Path, arrivals: Path, seconds: float, serial: int = 0) -> Command:
        """Sends SOA queries for zones until each is answered, with a serial if given; writes times to `arrivals`."""
        self._require("probe", "--arrivals")
        pace = f"--seconds {seconds:g} --rate {ZONE_PROBE_RATE}{f' --serial {serial}' if serial else ''}"
        files = ("--zones", zones, "--arrivals", arrivals)
        return [self.program, "probe", *_at(endpoint.address, endpoint.port), *pace.split(), *files]

    def update(self, endpoint: Endpoint, zone: str, rate: float, seconds: float, tsig: Tsig | None) -> Command:
        """Sends dynamic updates of one zone at a rate per second."""
        self._require("update", *(["--tsig"] if tsig else []))
        pace = f"--zone {zone} --rate {rate:g} --seconds {seconds:g}"
        return [self.program, "update", *_at(endpoint.address, endpoint.port), *pace.split(), *_key(tsig)]

    def _require(self, command: str, *options: str) -> None:
        """Raises UnsupportedError for an option, or option value, that the help of this version does not show."""
        if command not in self._help:
            self._help[command] = printed([self.program, *command.split(), "--help"])
        for option in options:
            name, _, value = option.partition(" ")
            match = re.search(rf"^\s*{name}\b.*(?:\n(?!\s*-).*)*", self._help[command], re.MULTILINE)
            if match is None or not re.search(rf"\b{value}\b", match[0]):
                raise UnsupportedError(f"zonda-load {self.version} {command} does not support {option}")


def require_zonda_load(generator: LoadGenerator) -> ZondaLoad:
    """The generator; raises UnsupportedError for others, which do nothing but send queries."""
    if not isinstance(generator, ZondaLoad):
        raise UnsupportedError(f"{generator.name} can only send queries", "use zonda-load")
    return generator


def _timeout(job: QueryJob) -> int:
    """The time-out of a query in intervals of a ramp, which are as long that this is a whole number."""
    return math.ceil(job.traffic.timeout_ms / 1000 / (job.seconds / RAMP_POINTS))


def _at(address: str, port: int) -> list[str]:
    return ["--server", address, "--port", str(port)]


def _to(endpoint: Endpoint, transport: str) -> list[str]:
    port = {"tls": endpoint.tls_port, "quic": endpoint.quic_port}.get(transport, endpoint.port)
    return [*_at(endpoint.address, port), "--transport", transport]


def _sources(count: int, prefix: str) -> list[str]:
    return ["--sources", str(count), "--source-prefix", prefix] if count > 1 else []


def _trust(authority: Certificate | None) -> Command:
    return ["--ca", authority.certificate, "--tls-name", authority.name] if authority else []


def _key(tsig: Tsig | None) -> list[str]:
    return ["--tsig", f"{tsig.algorithm}:{tsig.name}:{tsig.secret}"] if tsig else []
