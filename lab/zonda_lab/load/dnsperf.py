"""dnsperf, as a cross-check of zonda-load."""

import re
from pathlib import Path

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.load.generator import Command, LoadGenerator, QueryJob
from zonda_lab.load.result import LoadResult
from zonda_lab.servers.adapter import printed, version_in


class Dnsperf(LoadGenerator):
    """DNS-OARC's dnsperf: a closed loop even with a rate, no histograms; answers are checked by RCODE only."""

    name = "dnsperf"
    OUTSTANDING = 20_000  # limit of an "open" loop; dnsperf then waits for answers

    def __init__(self, program: Path) -> None:
        self.program, self.version = program, version_in(printed([program, "-h"]))

    def query(self, job: QueryJob) -> Command:
        traffic = job.traffic
        for asked, what in (
            (traffic.sources > 1, "more than one source address"),
            (traffic.queries_per_connection > 0, "a limit of queries per connection"),
            (0 < traffic.dnssec_ok < 1, "DO in a share of the queries"),
            (traffic.tcp_share > 0, "two transports at once"),
            (traffic.loop == "open" and traffic.arrivals == "poisson", "Poisson arrivals"),
            (job.is_ramp, "a rate that changes"),
            (traffic.capture, "the replay of a capture"),
            (traffic.resumption, "the resumption of TLS sessions"),
            (traffic.fast_open, "TCP fast open"),
            (traffic.client_idle_s > 0, "clients that close idle connections"),
            (traffic.burst > 1, "several queries per send"),
        ):
            if asked:
                raise UnsupportedError(f"dnsperf does not support {what}", "use zonda-load")
        transport, port = traffic.transport, job.endpoint.port
        if transport == "quic":
            raise UnsupportedError("dnsperf does not support QUIC in all versions", "use zonda-load")
        open_loop = f"-q {self.OUTSTANDING} -Q {max(1, round(job.rate))}"
        options = [
            f"-s {job.endpoint.address}",
            f"-m dot -p {job.endpoint.tls_port}" if transport == "tls" else f"-m {transport} -p {port}",
            f"-l {max(1, round(job.seconds))} -c {traffic.connections} -T 1 -t {traffic.timeout_ms / 1000:g}",
            f"-q {traffic.outstanding}" if traffic.loop == "closed" else open_loop,
            "-e" if traffic.edns_size else "",
            "-D" if traffic.dnssec_ok else "",
        ]
        return [self.program, "-d", job.workload.queries, *" ".join(options).split()]

    def parse(self, output: str, job: QueryJob) -> LoadResult:
        def number(pattern: str) -> float:
            match = re.search(pattern, output)
            if match is None:
                raise LabError(f"dnsperf printed no result ({pattern})", detail=output[-400:])
            return float(match[1])

        rcodes = {name: int(count) for name, count in re.findall(r"([A-Z]+\d*) (\d+) \([\d.]+%\)", output)}
        result = LoadResult(
            sent=int(number(r"Queries sent:\s+(\d+)")),
            answered=int(number(r"Queries completed:\s+(\d+)")),
            seconds=number(r"Run time \(s\):\s+([\d.]+)"),
            scheduled=job.rate * max(1, round(job.seconds)) if job.traffic.loop == "open" else None,
            wrong=count_unexpected_rcodes(rcodes, job.workload.rcodes) if job.verify else 0,
            rcodes=rcodes,
            latency_mean_us=number(r"Average Latency \(s\):\s+([\d.]+)") * 1e6,
        )
        if job.traffic.transport != "udp":
            result.connect_mean_us = number(r"Connection Statistics:(?:.|\n)*?Average Latency \(s\):\s+([\d.]+)") * 1e6
            result.handshakes = job.traffic.connections + int(number(r"Reconnections:\s+(\d+)"))
        return result


def count_unexpected_rcodes(rcodes: dict[str, int], expected: dict[str, float]) -> int:
    """Answers with an unexpected RCODE, or in excess (five sigma) of its expected share."""
    total = sum(rcodes.values())
    wrong = sum(count for rcode, count in rcodes.items() if rcode not in expected)
    for rcode, share in expected.items():
        off = abs(rcodes.get(rcode, 0) - share * total)
        if off > 5 * (total * share * (1 - share)) ** 0.5 + 0.005 * total:
            wrong += round(off)
    return wrong
