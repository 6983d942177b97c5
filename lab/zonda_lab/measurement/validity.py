"""Validity rules for windows, fixed before measuring. Invalid windows stay in the records, marked.

A generator that was late or busy invalidates latencies, but neither rates nor CPU time: such a window remains valid for
all other metrics.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from zonda_lab.load.result import LoadResult
from zonda_lab.results.disturbances import LATE_SENDS
from zonda_lab.telemetry.series import PACKETS, Telemetry, net

BUSY = 0.9  # share of the generator's busiest thread above which it, and not the server, is the limit
DRAIN = 0.1  # longest drain of a server's buffers after the load, as a share of the window
ACHIEVED = 0.999  # share of the scheduled queries that must be sent
SCHEDULE_ERROR = 0.10  # maximum 99th percentile schedule error, as a share of the median latency
SCHEDULE_FLOOR_US = 100.0  # schedule errors below this timer precision are accepted
SCHEDULE_OF_WINDOW = 0.02  # share of the window; with a larger schedule error the rate is wrong as well
WRONG = "answers are wrong"  # text printed by zonda-load; `wrong` has the number
STEAL = 0.01  # share of CPU time taken by the hypervisor
FOREIGN_CORES = 0.10  # CPUs used by programs outside the experiment
IO_PRESSURE = 0.05  # share of the time with a task waiting for I/O
CPU_WAIT = 0.02  # share of the window in which the generator may wait for a CPU of its own
SERVER_WAIT = 0.05  # share of the window in which the server may wait for its CPU while other programs run
FOREIGN_SLACK = 0.02  # CPUs of other programs that cannot be what the server waits for
CPU_OVERSHOOT = 1.05  # CPU time of the server per second of load and core: more was used after the load
LATE_SAMPLE_S = 0.5  # with telemetry this late, the generator was starved as well
COUNT_ERROR = 0.005  # by which counts of the generator and of the kernel may differ
COUNT_SLACK = 50  # packets of other protocols and probes


@dataclass(frozen=True)
class ValidityInput:
    """The evidence that the rules check."""

    telemetry: Telemetry  # from a sample before the window to one after it
    seconds: float
    own_cores: float
    result: LoadResult | None
    died: bool
    latency_p50_us: float | None = None
    server_cpu_s: float = 0.0
    server_cores: int = 0  # CPUs of the server; 0: unknown
    load_s: float = 0.0  # how long queries were sent; 0: no load
    is_isolated: bool = False  # whether all packets of both ends belong to the window
    is_udp_only: bool = False
    has_own_cpu: bool = False  # whether the generator shares no CPU with the server
    wanted_receive_buffer: int = 0
    receive_buffer: int = 0
    tolerated: Sequence[str] = ()


def reasons(window: ValidityInput) -> list[str]:
    """Why the window is invalid; empty if it is valid."""
    found = [] if not window.died else ["the server died"]
    found += _server(window)
    if window.result is not None:
        found += _generator(window, window.result)
        found += _buffering(window, window.result)
        found += _counts(window, window.result)
        found += _lateness(window, window.result) if _is_off_its_rate(window.result) else []
    return found + machine_reasons(window.telemetry, window.seconds, window.own_cores)


def latency_reasons(window: ValidityInput) -> list[str]:
    """Why only the latencies of the window are invalid."""
    if window.result is None or _is_off_its_rate(window.result):
        return []
    return _lateness(window, window.result) + _headroom(window, window.result)


def rig_bound(result: LoadResult | None, closed: bool) -> str:
    """Why the generator limited the rate of this window; empty if it did not."""
    if result is None or not closed or (result.busy or 0.0) <= BUSY:
        return ""
    return f"a thread of the generator was {result.busy:.0%} busy"


def _server(window: ValidityInput) -> list[str]:
    found = []
    dropped = window.telemetry.grown(net("server", "TcpExt.ListenDrops"))
    if dropped and "listen-drops" not in window.tolerated:
        what = f"{dropped:.0f} connections were dropped at the server's listen queue"
        found.append(f"{what}, so their clients tried again a second later")
    if window.load_s and window.server_cores:
        used = window.server_cpu_s / window.load_s
        if used > window.server_cores * CPU_OVERSHOOT:
            found.append(f"the server used {used:.2f} of {window.server_cores} cores: it worked on after the load")
    waited = window.telemetry.waited_s("server") / max(window.seconds, 1e-9)
    foreign = window.telemetry.busy_cores() - window.own_cores
    slack = FOREIGN_SLACK + window.telemetry.tick_error_cores()
    if window.has_own_cpu and waited > SERVER_WAIT and foreign > slack:
        what = f"the server waited for its CPU {waited:.0%} of the time"
        found.append(f"{what}, while other programs used {foreign:.2f} CPUs")
    if window.wanted_receive_buffer and window.receive_buffer < window.wanted_receive_buffer:
        have, want = window.receive_buffer // 1024, window.wanted_receive_buffer // 1024
        found.append(f"the server's receive buffer is {have} KiB, that of the others {want} KiB")
    return found


def _buffering(window: ValidityInput, result: LoadResult) -> list[str]:
    """A server that still answers long after the load has measured its memory, not its rate."""
    if not result.late_answers or result.late_answers <= DRAIN * result.answered + COUNT_SLACK:
        return []
    drain_s = result.late_answers / max(1, result.answered) * result.seconds
    what = f"{result.late_answers} answers came after the load, from buffers drained for about {drain_s:.2g} s"
    return [f"{what}: a window must last ten times that, this one lasted {window.load_s or result.seconds:.2g} s"]


def _counts(window: ValidityInput, result: LoadResult) -> list[str]:
    """Compares what the generator counted with what the kernels did."""
    if not window.is_isolated or not window.is_udp_only or not _has(window.telemetry, PACKETS):
        return []
    arrived = window.telemetry.grown(net("server", PACKETS))
    answered, claimed = window.telemetry.grown(net("client", PACKETS)), result.answered + result.late_answers
    found = []
    if abs(arrived - result.sent) > COUNT_ERROR * result.sent + COUNT_SLACK:
        found.append(f"the generator counts {result.sent} queries, the server's kernel {arrived:.0f} packets")
    if claimed > answered * (1 + COUNT_ERROR) + COUNT_SLACK:
        found.append(f"the generator counts {claimed} answers, its kernel {answered:.0f} packets")
    return found


def _has(telemetry: Telemetry, counter: str) -> bool:
    ends = ("server", "client")
    return len(telemetry.samples) > 1 and all(counter in telemetry.samples[0]["net"].get(end, {}) for end in ends)


def _headroom(window: ValidityInput, result: LoadResult) -> list[str]:
    """A generator near its limit, or without its CPU, adds its own delays to latencies."""
    found = []
    if (result.busy or 0.0) > BUSY:
        found.append(f"the generator was {result.busy:.0%} busy: no headroom for latencies")
    waited = window.telemetry.waited_s("load")
    if window.has_own_cpu and waited > CPU_WAIT * window.seconds:
        found.append(f"the generator waited for its CPU {waited / window.seconds:.0%} of the time")
    return found


def _generator(window: ValidityInput, result: LoadResult) -> list[str]:
    found = [reason for reason in result.invalid if LATE_SENDS not in reason and WRONG not in reason]
    if result.wrong and "wrong-answers" not in window.tolerated:
        examples = f" ({'; '.join(result.wrong_examples[:2])})" if result.wrong_examples else ""
        found.append(f"{result.wrong} of {result.answered + result.late_answers} answers are wrong{examples}")
    if result.scheduled and result.sent < ACHIEVED * result.scheduled:
        found.append(f"the generator sent {result.sent / result.scheduled:.2%} of its schedule")
    if result.receive_drops or window.telemetry.grown(net("client", "Udp.RcvbufErrors")):
        found.append("the generator lost answers: its socket buffers overflowed")
    return found


def _lateness(window: ValidityInput, result: LoadResult) -> list[str]:
    found = [reason for reason in result.invalid if LATE_SENDS in reason]
    limit = max(SCHEDULE_FLOOR_US, SCHEDULE_ERROR * (window.latency_p50_us or 0))
    if result.schedule_error_p99_us is not None and result.schedule_error_p99_us > limit:
        off = f"{result.schedule_error_p99_us:.0f} µs off its schedule (99 %)"
        found.append(f"the generator was {off}, {limit:.0f} µs are allowed")
    return found


def _is_off_its_rate(result: LoadResult) -> bool:
    return (result.schedule_error_p99_us or 0.0) / 1e6 > SCHEDULE_OF_WINDOW * result.seconds


def machine_reasons(telemetry: Telemetry, seconds: float, own_cores: float) -> list[str]:
    """Why a machine (the server's or a player's) was not fit for measurements during the window."""
    found = []
    if len(telemetry.samples) < 2:
        return ["no telemetry"]
    if (steal := telemetry.cpu_share("steal")) > STEAL:
        found.append(f"the hypervisor took {steal:.1%} of the CPU time")
    if (foreign := telemetry.busy_cores() - own_cores) > FOREIGN_CORES + telemetry.tick_error_cores():
        found.append(f"other programs used {foreign:.2f} CPUs")
    waiting = telemetry.grown(lambda sample: sample["psi"]["io"]) / 1e6 / seconds
    # A server that makes what it has got durable waits for the disk itself: that is measured, and is no disturbance.
    if waiting > IO_PRESSURE and not telemetry.used_disk("server"):
        found.append(f"something waited for a disk {waiting:.0%} of the time")
    if (late := float(telemetry.gauge(lambda sample: sample["late"]).max()) / 1e9) > LATE_SAMPLE_S:
        found.append(f"telemetry came {late:.1f} s late")
    return found
