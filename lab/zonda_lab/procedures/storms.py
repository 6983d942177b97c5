"""Procedures: connections opened all at once, and clients that vanish from connections."""

import signal
import time
from collections import Counter
from collections.abc import Callable

from zonda_lab.errors import LabError
from zonda_lab.experiments.block_design import Start
from zonda_lab.experiments.metrics import OF_MEMORY
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.running_server import Server
from zonda_lab.measurement.window import Recorder, window_of
from zonda_lab.procedures.connections import ACCEPTED_PER_S, HELD, hold, hold_command, opened
from zonda_lab.procedures.procedure import Procedure
from zonda_lab.rig.host import Host

# States in /proc/net/tcp (net/tcp_states.h).
ESTABLISHED, SYN_RECEIVED, LISTEN = "01", "03", "0A"
STATES = {"01": "established", "03": "SYN-RECEIVED", "04": "FIN-WAIT-1", "05": "FIN-WAIT-2", "06": "TIME-WAIT"}
LIMITED_BY = {  # settings that keep connections from reaching that state
    SYN_RECEIVED: "net.ipv4.tcp_max_syn_backlog in rig.sysctl",
    ESTABLISHED: "server.tcp-clients or server.tcp-idle-s",
}
# What no longer reaches the server's TCP: all but the first packet of a connection, or everything.
DROPPED = {"half-open": "tcp flags & (syn | ack) != syn drop", "unreachable": "drop"}
CHAIN = "add table ip gone; add chain ip gone in { type filter hook prerouting priority raw; }; add rule ip gone in"
ANSWERED_S = 0.3  # after all connections are established, until their queries are answered
CONNECTING_S = 10.0  # until all connections are established, and until the server has closed them after its time-out
POLL_S = 0.1


def storm(harness: Harness, recorder: Recorder) -> None:
    """Opens all connections at once, a query on each, while the server pauses: time until the last answer."""
    server, change = harness.start_ready_server(), harness.settings.change
    with harness.span(server) as span, server.paused(change.pause_ms / 1000):
        result = hold(harness, server, change, until_answered=True)
    more, is_complete = result.more, result.more["held_responses"] >= change.connections
    metrics = {
        "answered_s": more["last_response_s"] if is_complete else span.seconds,
        "late_share": more["late_connections"] / change.connections,
        "failed_share": (more["failed"] + more["closed_unanswered"]) / change.connections,
    }
    window = window_of(server, span, opened(result, change) | metrics)
    if not is_complete:
        window.bounds["answered_s"] = "at least"
    recorder.add(window)


def vanishing(harness: Harness, recorder: Recorder) -> None:
    """Clients connect and vanish: how long the server's kernel keeps what is left of their connections."""
    server, change = harness.start_ready_server(), harness.settings.change
    host, is_half_open = harness.network.server, change.vanish == "half-open"
    with harness.span(server) as span:
        if is_half_open:
            _drop(harness)
        clients = harness.start_process("clients", hold_command(harness, server, change))
        begun = SYN_RECEIVED if is_half_open else ESTABLISHED
        help_text = f"lower change.connections, or raise {LIMITED_BY[begun]}"
        _wait(server, change.connections, STATES[begun], lambda: tcp_sockets(host)[begun], help_text)
        if not is_half_open:
            time.sleep(ANSWERED_S)
            if change.vanish == "hang":
                clients.signal(signal.SIGSTOP)
            else:
                _drop(harness)
            closed = "closed by the server"
            _wait(server, change.connections, closed, lambda: change.connections - tcp_sockets(host)[ESTABLISHED])
        left = tcp_sockets(host)
        kept_s, is_forgotten = _forgotten(host, harness.settings.timing.finish_s)
    window = window_of(server, span, {"forgotten_s": kept_s, "sockets_left": float(left.total())})
    window.detail["left"] = {STATES.get(state, state): count for state, count in left.items()}
    if not is_forgotten:
        window.bounds["forgotten_s"] = "at least"
    recorder.add(window)


def _forgotten(host: Host, most_s: float) -> tuple[float, bool]:
    """Seconds until the host has no TCP socket that does not listen, at most `most_s`; and whether that is so."""
    began = time.monotonic()
    while tcp_sockets(host).total():
        if time.monotonic() - began > most_s:
            return most_s, False
        time.sleep(POLL_S)
    return time.monotonic() - began, True


def tcp_sockets(host: Host) -> Counter[str]:
    """The TCP sockets over IPv4 that do not listen, by state: also those that belong to no process any more."""
    lines = host.run("cat", "/proc/net/tcp").splitlines()[1:]
    counted = Counter(line.split(maxsplit=4)[3] for line in lines)
    del counted[LISTEN]
    return counted


def _drop(harness: Harness) -> None:
    harness.network.filter_packets(f"{CHAIN} {DROPPED[harness.settings.change.vanish]}")


def _wait(server: Server, connections: int, state: str, count: Callable[[], int], help: str = "") -> None:
    """Waits until all connections are in that state."""
    limit_s = CONNECTING_S + server.config.tcp_idle_s
    deadline = time.monotonic() + limit_s
    while (found := count()) < connections:
        server.process.require_alive()
        if time.monotonic() > deadline:
            what = f"after {limit_s:.0f} s {found} of {connections} connections are {state}"
            raise LabError(what, help, detail=f"the server's log ends: {server.process.tail()}")
        time.sleep(POLL_S)


def storm_estimate_s(start: Start) -> float:
    """The pause, and time for lost packets to be sent again."""
    change = start.settings.change
    return change.pause_ms / 1000 + change.connections / ACCEPTED_PER_S + 1.0


def vanishing_estimate_s(start: Start) -> float:
    """At most: until the server closes the connections, and as long as they are observed."""
    settings = start.settings
    idle_s = 0.0 if settings.change.vanish == "half-open" else settings.server.tcp_idle_s + ANSWERED_S
    return 0.5 + idle_s + settings.timing.finish_s


STORM = Procedure(storm, (*HELD, *OF_MEMORY, "answered_s", "late_share", "failed_share"), storm_estimate_s)
VANISHING = Procedure(vanishing, ("forgotten_s", "sockets_left"), vanishing_estimate_s)
