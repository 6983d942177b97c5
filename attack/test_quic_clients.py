"""QUIC clients that hold connections open, or make handshakes as fast as they can. `zonda-load` is the client."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from pathlib import Path

import pytest
from servers import reserve_port

from daemon import HOST, Daemon, program

CONNECTION_KB = 72  # docs/manual/zonda.md, "Limits"
IDLE_TIMEOUT_MS = 2000


@pytest.fixture
def load() -> Path:
    """The load generator that was built with the server."""
    path = Path(program()).with_name("zonda-load")
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path


@pytest.fixture
def quic(daemon) -> tuple[Daemon, int]:
    """A server with QUIC, and its port."""
    port = reserve_port()
    server = f'listen-quic = ["{HOST}:{port}"]\ntls-self-signed = true\nquic-idle-timeout-ms = {IDLE_TIMEOUT_MS}'
    return daemon(server=server).start(), port


def command(load: Path, folder: Path, port: int, *options: str) -> list[str | Path]:
    """The command line of some clients."""
    queries = folder / "queries"
    queries.write_text("www.example. A\nexample. SOA\nno.example. A\n")
    return [load, "quic", "--server", HOST, "--port", str(port), "--queries", queries, "--warm-up", "0", *options]


def summary(output: str) -> dict:
    """The result of a run."""
    return json.loads(output.splitlines()[-1])


def test_responses_over_quic_are_those_of_their_queries(quic, load, tmp_path) -> None:
    server, port = quic
    more = ["--connections", "20", "--outstanding", "100", "--seconds", "1"]
    done = subprocess.run(command(load, tmp_path, port, *more), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + server.log_text()
    result = summary(done.stdout)
    assert result["responses"] > 500, result
    assert (result["timeouts"], result["zonda"]["wrong"], result["zonda"]["open"]) == (0, 0, 20), result
    assert set(result["response_rcodes"]) == {"NOERROR", "NXDOMAIN"}, result


def test_queries_over_quic_are_sent_at_a_rate(quic, load, tmp_path) -> None:
    server, port = quic
    more = ["--connections", "20", "--query-rate", "300", "--seconds", "2"]
    done = subprocess.run(command(load, tmp_path, port, *more), capture_output=True, text=True, check=False)
    result = summary(done.stdout)
    assert result["zonda"]["loop"] == "open" and 570 <= result["zonda"]["scheduled"] <= 630, result
    assert (result["timeouts"], result["zonda"]["missed"], result["zonda"]["wrong"]) == (0, 0, 0), result
    assert result["responses"] + result["interrupted"] == result["zonda"]["scheduled"], done.stderr + server.log_text()


def resumed_by_metrics(server: Daemon) -> int:
    """The number of resumed QUIC handshakes that the server reports."""
    lines = [line for line in server.run("metrics").stdout.splitlines() if line.startswith('zonda_resumed_total{transport="quic"}')]
    return int(lines[0].split()[1])


def test_sessions_are_resumed_and_both_sides_count_them(quic, load, tmp_path) -> None:
    server, port = quic
    more = ["--connections", "5", "--outstanding", "5", "--queries-per-connection", "1", "--seconds", "1"]
    for options, is_resumed in ((more, False), ([*more, "--resume"], True)):
        before = resumed_by_metrics(server)
        done = subprocess.run(command(load, tmp_path, port, *options), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr + server.log_text()
        connections = summary(done.stdout)["conn_info"]
        assert connections["handshakes"] > 20, connections
        resumed = connections["handshakes_resumed"]
        assert (resumed > 0.9 * connections["handshakes"]) if is_resumed else resumed == 0, connections
        # At the end some are complete for one side only, and those of the opening are not in the summary.
        counted = resumed_by_metrics(server) - before
        assert (abs(counted - resumed) <= 20) if is_resumed else counted == 0, (counted, connections)


def test_queries_to_a_server_that_stops_are_lost(quic, load, tmp_path) -> None:
    server, port = quic
    more = ["--connections", "20", "--outstanding", "100", "--seconds", "3"]
    with subprocess.Popen(command(load, tmp_path, port, *more), stdout=subprocess.PIPE, text=True) as clients:
        time.sleep(1)
        server.process.kill()
        output, _ = clients.communicate(timeout=30)
    result = summary(output)
    assert result["responses"] > 0, result
    # Those that were outstanding, and those that took the places of the first ones to time out.
    assert result["timeouts"] >= 100 and result["interrupted"] == 0, result


def test_a_flood_of_handshakes_delays_no_udp_response(quic, load, tmp_path, stopwatch) -> None:
    server, port = quic
    more = ["--connections", "50", "--outstanding", "50", "--queries-per-connection", "1", "--seconds", "4"]
    with subprocess.Popen(command(load, tmp_path, port, *more), stdout=subprocess.PIPE, text=True) as flood:
        time.sleep(1)
        before, began, times = server.cpu_s(), time.monotonic(), []
        while time.monotonic() < began + 2:
            since = stopwatch()
            server.ask("www.example.")
            times.append(since())
        share = (server.cpu_s() - before) / (time.monotonic() - began)
        output, _ = flood.communicate(timeout=30)
    result = summary(output)
    assert result["conn_info"]["handshakes"] > 20, result
    assert statistics.median(times) < 0.05, times
    # Half a processor for handshakes; the rest is for the other packets of these connections.
    assert share < 0.9, share


def test_idle_connections_have_a_bounded_memory_and_are_closed(quic, load, tmp_path) -> None:
    server, port = quic
    server.ask("www.example.")
    before, count = server.rss_mb(), 600
    more = ["--connections", str(count), "--rate", "300", "--outstanding", "0", "--seconds", "1"]
    with subprocess.Popen(command(load, tmp_path, port, *more), stdout=subprocess.PIPE, text=True) as clients:
        for line in clients.stdout:
            if '"open"' in line and '"event"' in line:
                break
        grown_kb = (server.rss_mb() - before) * 1000 / count
        output, _ = clients.communicate(timeout=30)
    assert summary(output)["zonda"]["open"] > 0.9 * count, output
    assert grown_kb < CONNECTION_KB, grown_kb
    # The clients are gone without a word.
    time.sleep(2 * IDLE_TIMEOUT_MS / 1000)
    used = server.cpu_s()
    time.sleep(1)
    assert server.cpu_s() - used < 0.2, "connections without clients cost processor time"
