"""The timeline plot: CPU, sockets, drops and zones during one start."""

import re

from matplotlib.figure import Figure as Canvas

from zonda_lab.report.document import Figure
from zonda_lab.report.plot_style import COLOURS, PlotData, svg
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.telemetry.series import Floats, Telemetry, net


def time(data: PlotData) -> list[Figure]:
    """A timeline of the first valid start of each treatment."""
    found = []
    for treatment, record in _first_windows(data):
        path = data.folder / record.files.get("telemetry", "absent")
        telemetry = Telemetry.load(path) if path.exists() else Telemetry({}, [])
        if len(telemetry.samples) > 2:  # shorter starts have nothing to show
            found.append(_timeline(data, treatment, record, telemetry))
    return found


def _first_windows(data: PlotData) -> list[tuple[str, WindowRecord]]:
    found: dict[str, WindowRecord] = {}
    for record in data.records:
        if record.counts and not record.copy:
            found.setdefault(", ".join(record.treatment.values()), record)
    return list(found.items())


def _timeline(data: PlotData, treatment: str, record: WindowRecord, telemetry: Telemetry) -> Figure:
    zero, times = telemetry.times[0], telemetry.times - telemetry.times[0]
    canvas = Canvas(figsize=(8, 5), layout="constrained")
    used, sockets, events = canvas.subplots(3, 1, sharex=True)
    for label, colour in (("server", COLOURS[0]), ("load", COLOURS[1]), ("primary", COLOURS[2])):
        cores = telemetry.used_cores(label)
        if cores.any():
            used.plot(times[1:], cores, color=colour, label=label)
    used.plot(times[1:], _pressure(telemetry), color=COLOURS[4], linestyle=":", label="waiting for CPU")
    used.set(ylabel="CPUs used")
    sockets.plot(times, telemetry.gauge(net("server", "TCP.tw")), color=COLOURS[3], label="TIME_WAIT")
    sockets.plot(times, telemetry.gauge(net("server", "Tcp.CurrEstab")), color=COLOURS[6], label="established")
    sockets.set(ylabel="TCP sockets")
    for counter, what, colour in (
        ("Udp.RcvbufErrors", "datagrams dropped", COLOURS[1]),
        ("TcpExt.ListenDrops", "connections dropped", COLOURS[3]),
    ):
        events.plot(times[1:], telemetry.rate(net("server", counter)), color=colour, label=f"{what} per second")
    if points := record.detail.get("arrivals"):
        zones = points[-1][1] + record.metrics.get("zones_missing", 0.0)
        share = [100 * n / zones for _, n in points]
        events.plot(
            [record.window[0] - zero + at for at, _ in points], share, color=COLOURS[2], label="zones answered, %"
        )
    for axes in (used, sockets, events):
        axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        axes.axvspan(record.window[0] - zero, record.window[1] - zero, color="#000000", alpha=0.04)
    events.set(xlabel="seconds")
    first = (
        f" First to saturate: {record.saturated[0][1]}, after {record.saturated[0][0]} s."
        if record.saturated
        else " No saturation."
    )
    name = re.sub(r"\W+", "-", f"{data.id}-time-{treatment}")
    return Figure(name, svg(canvas), f"{treatment}: one start (n = 1); its first window is shaded.{first}")


def _pressure(telemetry: Telemetry) -> Floats:
    return telemetry.rate(lambda sample: sample["psi"]["cpu"] / 1e6)
