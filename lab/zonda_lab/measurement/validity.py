"""Validity rules for windows, fixed before measuring. Invalid windows stay in the records, marked.

A generator that was late or busy invalidates latencies, but neither rates nor CPU time: such a window remains valid for
all other metrics. Whether a CPU was short is decided by the waits of the server's and the generator's own threads, not
by the pressure of the machine (PSI), which counts the tasks of all programs.
"""

import math
from dataclasses import dataclass

from zonda_lab.experiments.definition import RigSpec, Settings, TrafficSpec
from zonda_lab.load.result import LoadResult
from zonda_lab.measurement.window import Window
from zonda_lab.results.settings_bounds import BUSY
from zonda_lab.results.window_record import LATE_SENDS
from zonda_lab.rig.host import Network
from zonda_lab.telemetry.series import BUFFERS, OCTETS, PACKETS, Telemetry, net

DRAIN = 0.1  # longest drain of a server's buffers after the load, as a share of the window
ACHIEVED = 0.999  # share of the scheduled queries that must be sent
SCHEDULE_ERROR = 0.10  # maximum 99th percentile schedule error, as a share of the median latency
SCHEDULE_FLOOR_US = 100.0  # schedule errors below this timer precision are accepted
SCHEDULE_OF_WINDOW = 0.02  # share of the window; with a larger schedule error the rate is wrong as well
UNSENT = "scheduled queries were never sent"  # text printed by zonda-load
WRONG = "answers are wrong"  # text printed by zonda-load; `wrong` has the number
STEAL = 0.01  # share of CPU time taken by the hypervisor
FOREIGN_CORES = 0.10  # CPUs used by programs outside the experiment
IO_PRESSURE = 0.05  # share of the time with a task waiting for I/O
SLOW_DISK = 1e6  # octets per second of the slowest disk that still measures the server
SLOW_FSYNC_S = 0.5  # the longest wait for a server that stores little
CPU_WAIT = 0.02  # share of the window in which the generator may wait for a CPU of its own
FAR_CPU_WAIT = 0.2  # the same with a delayed link, whose program shares the generator's CPU, but per answer at most ...
FAR_WAIT = 0.01  # ... this share of the delay, so that latencies hardly notice
SERVER_WAIT = 0.05  # share of the window in which the server may wait for its CPU while other programs run
FOREIGN_SLACK = 0.02  # CPUs of other programs that cannot be what the server waits for
STANDSTILL = 0.5  # share of the places of a closed loop that must be filled, on average, by queries that are answered
CPU_OVERSHOOT = 1.05  # CPU time of the server per second of load and core: more was used after the load
LATE_SAMPLE_S = 0.5  # with telemetry this late, the generator was starved as well
COUNT_ERROR = 0.005  # by which counts of the generator and of the kernel may differ
COUNT_SLACK = 50  # packets of other protocols and probes
LENGTH = 2  # octets before each message over TCP (RFC 1035 4.2.2)
HEADERS = 20 + 32  # octets of IPv4, and of TCP with the timestamps of Linux (RFC 7323 3.2)
SYN_OPTIONS = 8  # more octets in the first segment of a connection: MSS, window scale, SACK
ENDS = ("server", "client")
TIMESTAMPS = "net.ipv4.tcp_timestamps"


@dataclass(frozen=True)
class ValidityInput:
    """The evidence that the rules check."""

    window: Window
    telemetry: Telemetry  # from a sample before the window to one after it
    settings: Settings
    network: Network
    receives_load: bool  # whether queries are sent to the server, so that its receive buffer matters

    @property
    def own_cores(self) -> float:
        """CPUs used by the experiment on the server's machine."""
        span = self.window.span
        return own_cores(self.telemetry, self.settings.rig, span.own_cpu_s, span.seconds)

    @property
    def has_own_cpu(self) -> bool:
        """Whether the generator shares no CPU with the server."""
        return not {*self.network.server_cpus} & {*self.network.load_cpus}

    @property
    def has_one_transport(self) -> bool:
        """Whether every packet of the window is of queries over the same transport, or their answers."""
        traffic, change = self.settings.traffic, self.settings.change
        others = (traffic.tcp_share, traffic.capture, change.updates_per_s, change.transfers)
        return not any((*others, self.settings.primary.changes_per_s))

    @property
    def has_usual_segments(self) -> bool:
        """Whether all TCP segments have headers of the same length, and are sent once."""
        rig = self.settings.rig
        is_plain = not (rig.loss_percent or rig.path_mtu or self.settings.traffic.fast_open)
        return is_plain and TIMESTAMPS not in {**rig.sysctl, **rig.client_sysctl}


def reasons(checked: ValidityInput) -> list[str]:
    """Why the window is invalid; empty if it is valid."""
    return load_reasons(checked) + disturbances(checked)


def load_reasons(checked: ValidityInput) -> list[str]:
    """What the server, the load or the counts of the window show to be wrong."""
    window = checked.window
    found = [*(["the server died"] if window.died else []), *_server(checked)]
    if window.result is not None:
        found += _generator(checked, window.result)
        found += _buffering(window, window.result)
        found += _standstill(checked.settings.traffic, window.result)
        found += _counts(checked, window.result)
        found += _lateness(window, window.result) if _is_off_its_rate(window.result) else []
    return found


def disturbances(checked: ValidityInput) -> list[str]:
    """Why the server's machine was not fit for measurements during the window."""
    return machine_reasons(checked.telemetry, checked.window.span.seconds, checked.own_cores)


def latency_reasons(checked: ValidityInput) -> list[str]:
    """Why only the latencies of the window are invalid."""
    result = checked.window.result
    if result is None or _is_off_its_rate(result):
        return []
    return _lateness(checked.window, result) + _headroom(checked, result)


def rig_bound(result: LoadResult, closed: bool) -> str:
    """Why the generator limited the rate of this window; empty if it did not."""
    busy = result.busy or 0.0
    return f"a thread of the generator was {busy:.0%} busy" if closed and busy > BUSY else ""


def _server(checked: ValidityInput) -> list[str]:
    window, telemetry, settings, found = checked.window, checked.telemetry, checked.settings, list[str]()
    dropped = telemetry.grown(net("server", "TcpExt.ListenDrops"))
    if dropped and "listen-drops" not in settings.timing.tolerated:
        what = f"{dropped:.0f} connections were dropped at the server's listen queue"
        found.append(f"{what}, so their clients tried again a second later")
    cores = len({*checked.network.server_cpus})
    used = window.span.server_cpu_s / window.load_s if window.load_s else 0.0
    if used > cores * CPU_OVERSHOOT:
        found.append(f"the server used {used:.2f} of {cores} cores: it worked on after the load")
    waited = telemetry.waited_s("server") / max(window.span.seconds, 1e-9)
    foreign = telemetry.busy_cores() - checked.own_cores
    slack = FOREIGN_SLACK + telemetry.tick_error_cores()
    if checked.has_own_cpu and waited > SERVER_WAIT and foreign > slack:
        what = f"the server waited for its CPU {waited:.0%} of the time"
        found.append(f"{what}, while other programs used {foreign:.2f} CPUs")
    has_same_buffer = checked.receives_load and settings.server.settings == "tuned"
    have, want = int(window.metrics.get("receive_buffer_kb", 0.0) * 1024), settings.server.receive_buffer
    if has_same_buffer and have < want:
        found.append(f"the server's receive buffer is {have // 1024} KiB, that of the others {want // 1024} KiB")
    return found


def _buffering(window: Window, result: LoadResult) -> list[str]:
    """A server that still answers long after the load has measured its memory, not its rate."""
    if not result.late_answers or result.late_answers <= DRAIN * result.answered + COUNT_SLACK:
        return []
    drain_s = result.late_answers / max(1, result.answered) * result.seconds
    what = f"{result.late_answers} answers came after the load, from buffers drained for about {drain_s:.2g} s"
    return [f"{what}: a window must last ten times that, this one lasted {window.load_s or result.seconds:.2g} s"]


def _standstill(traffic: TrafficSpec, result: LoadResult) -> list[str]:
    """A closed loop keeps its queries outstanding: if few are, on average, it has stood still (Little's law).

    Those that are never answered keep their places for the time-out, which then is what determines the rate. A busy
    generator cannot ask soon enough. Over QUIC no query is sent before the handshake is complete. Other generators'
    latencies do not have the time-outs.
    """
    if traffic.loop != "closed" or traffic.capture or not result.latency_intended or (result.busy or 0.0) > BUSY:
        return []
    places, is_quic = traffic.outstanding, traffic.transport == "quic"
    if is_quic and traffic.queries_per_connection:
        places = min(places, traffic.connections * traffic.queries_per_connection)
    lost = result.sent - result.answered - result.late_answers
    waited_us = result.latencies * (result.latency_mean_us or 0.0) - lost * traffic.timeout_ms * 1000
    if is_quic:
        waited_us += result.handshakes * (result.connect_mean_us or 0.0) * places / traffic.connections
    filled = max(0.0, waited_us) / 1e6 / result.seconds
    what = f"{filled:.2g} queries that were answered were outstanding on average, of {places}"
    return [f"the closed loop stood still: {what}"] if filled < STANDSTILL * places else []


def _counts(checked: ValidityInput, result: LoadResult) -> list[str]:
    """Compares what the generator counted with what the kernels received."""
    telemetry, transport = checked.telemetry, checked.settings.traffic.transport
    if not checked.network.is_isolated or not checked.has_one_transport:
        return []
    if transport == "udp":
        return packets_miscounted(telemetry, result) if has_columns(telemetry, PACKETS) else []
    if transport == "quic":
        return []  # neither packets nor octets of the kernel are those of the messages
    is_counted = result.query_octets and checked.has_usual_segments and has_columns(telemetry, OCTETS, BUFFERS)
    return _octets(telemetry, result, is_encrypted=transport == "tls") if is_counted else []


def packets_miscounted(telemetry: Telemetry, result: LoadResult) -> list[str]:
    """Where the kernels received other numbers of packets than the generator counted.

    Over UDP a message is a packet; the client also gets the answers that came after the time-out.
    """
    sent, answers = result.sent, result.answered + result.late_answers
    arrived, answered = (telemetry.grown(net(end, PACKETS)) for end in ENDS)
    return [
        *_miscounted(f"{sent} queries, the server's kernel {arrived:.0f} packets", arrived, sent, sent, COUNT_SLACK),
        *_miscounted(f"{answers} answers, its kernel {answered:.0f} packets", answered, answers, math.inf, COUNT_SLACK),
    ]


def _octets(telemetry: Telemetry, result: LoadResult, is_encrypted: bool) -> list[str]:
    """Over TCP messages are octets of the streams; TLS adds some.

    Unanswered queries may have been queued for a connection that failed.
    """
    answers = result.answered + result.late_answers
    sent, got = result.query_octets + LENGTH * result.sent, result.response_octets + LENGTH * answers
    arrived, answered = (_stream_octets(telemetry, end, result.handshakes) for end in ENDS)
    least, most, slack = sent * answers / result.sent, math.inf if is_encrypted else sent, COUNT_SLACK * HEADERS
    counted = f"{sent} octets of queries, the server's kernel {arrived:.0f} octets"
    return [
        *_miscounted(counted, arrived, least, most, slack),
        *_miscounted(f"{got} octets of answers, its kernel {answered:.0f} octets", answered, got, math.inf, slack),
    ]


def _miscounted(counted: str, received: float, least: float, most: float, slack: int) -> list[str]:
    allowed = COUNT_ERROR * least + slack
    return [] if least - allowed <= received <= most + allowed else [f"the generator counts {counted}"]


def _stream_octets(telemetry: Telemetry, end: str, connections: int) -> float:
    """The octets in the streams that the kernel of an end received."""
    octets, buffers = (telemetry.grown(net(end, counter)) for counter in (OCTETS, BUFFERS))
    return octets - HEADERS * buffers - SYN_OPTIONS * connections


def has_columns(telemetry: Telemetry, *counters: str) -> bool:
    """Whether the telemetry has these counters of both ends."""
    samples = telemetry.samples
    return len(samples) > 1 and all({*counters} <= samples[0]["net"].get(end, {}).keys() for end in ENDS)


def _headroom(checked: ValidityInput, result: LoadResult) -> list[str]:
    """A generator near its limit, or without its CPU, adds its own delays to latencies."""
    found, seconds = [], checked.window.span.seconds
    if (result.busy or 0.0) > BUSY:
        found.append(f"the generator was {result.busy:.0%} busy: no headroom for latencies")
    waited = checked.telemetry.waited_s("load")
    far = min(FAR_CPU_WAIT * seconds, FAR_WAIT * checked.settings.rig.delay_ms / 1000 * result.answered)
    tolerable = max(CPU_WAIT * seconds, far)
    if checked.has_own_cpu and waited > tolerable:
        found.append(f"the generator waited for its CPU {waited / seconds:.0%} of the time")
    return found


def _generator(checked: ValidityInput, result: LoadResult) -> list[str]:
    tolerated = checked.settings.timing.tolerated
    elsewhere = [LATE_SENDS, WRONG, *([UNSENT] if "unsent-queries" in tolerated else [])]
    found = [reason for reason in result.invalid if not any(words in reason for words in elsewhere)]
    if result.wrong and "wrong-answers" not in tolerated:
        examples = f" ({'; '.join(result.wrong_examples[:2])})" if result.wrong_examples else ""
        found.append(f"{result.wrong} of {result.answered + result.late_answers} answers are wrong{examples}")
    if result.scheduled and result.sent < ACHIEVED * result.scheduled and "unsent-queries" not in tolerated:
        found.append(f"the generator sent {result.sent / result.scheduled:.2%} of its schedule")
    if result.receive_drops or checked.telemetry.grown(net("client", "Udp.RcvbufErrors")):
        found.append("the generator lost answers: its socket buffers overflowed")
    return found


def _lateness(window: Window, result: LoadResult) -> list[str]:
    found = [reason for reason in result.invalid if LATE_SENDS in reason]
    limit = max(SCHEDULE_FLOOR_US, SCHEDULE_ERROR * window.metrics.get("latency_p50_us", 0.0))
    if result.schedule_error_p99_us is not None and result.schedule_error_p99_us > limit:
        off = f"{result.schedule_error_p99_us:.0f} µs off its schedule (99 %)"
        found.append(f"the generator was {off}, {limit:.0f} µs are allowed")
    return found


def _is_off_its_rate(result: LoadResult) -> bool:
    return (result.schedule_error_p99_us or 0.0) / 1e6 > SCHEDULE_OF_WINDOW * result.seconds


def own_cores(telemetry: Telemetry, rig: RigSpec, own_cpu_s: float, seconds: float) -> float:
    """CPUs used by the experiment on the server's machine; RPS runs softirqs outside any process."""
    steered = rig.rps_cpus and telemetry.samples
    softirqs = telemetry.cpu_share("softirq") * len(telemetry.samples[0]["cpu"]) if steered else 0.0
    return own_cpu_s / seconds + softirqs


def machine_reasons(telemetry: Telemetry, seconds: float, own_cores: float) -> list[str]:
    """Why a machine (the server's or a player's) was not fit for measurements during the window."""
    found = []
    if len(telemetry.samples) < 2:
        return ["no telemetry"]
    if (steal := telemetry.cpu_share("steal")) > STEAL:
        found.append(f"the hypervisor took {steal:.1%} of the CPU time")
    if (foreign := telemetry.busy_cores() - own_cores) > FOREIGN_CORES + telemetry.tick_error_cores():
        found.append(f"other programs used {foreign:.2f} CPUs")
    waited_s = telemetry.grown(lambda sample: sample["psi"]["io"]) / 1e6
    if waited_s > IO_PRESSURE * seconds and waited_s > _own_disk_s(telemetry):
        found.append(f"something waited for a disk {waited_s / seconds:.0%} of the time")
    if (late := float(telemetry.gauge(lambda sample: sample["late"]).max()) / 1e9) > LATE_SAMPLE_S:
        found.append(f"telemetry came {late:.1f} s late")
    return found


def _own_disk_s(telemetry: Telemetry) -> float:
    """How long a server may wait for the disk because of its own data: that is measured, and is no disturbance."""
    octets = telemetry.disk_octets("server")
    return SLOW_FSYNC_S + octets / SLOW_DISK if octets else 0.0
