import contextlib
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dns.message
import dns.rrset
import pytest
from test_validity import result, rig, telemetry

from zonda_lab.experiments.definition import ChangeSpec, Settings
from zonda_lab.load.zonda_load import ZondaLoad
from zonda_lab.measurement import validity
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.observer import Span
from zonda_lab.measurement.running_server import Server
from zonda_lab.measurement.validity import ValidityInput
from zonda_lab.measurement.window import PlannedWindow, Window
from zonda_lab.procedures import changes
from zonda_lab.servers.config import Endpoint


def test_as_many_transfers_run_at_once_as_asked(tmp_path: Path, zonda_load: ZondaLoad) -> None:
    """A single zone must be listed for each thread of the client, or all but one have no zone to transfer (E24)."""
    network: Any = SimpleNamespace(client=SimpleNamespace(place=lambda *_: None))
    harness: Any = SimpleNamespace(folder=tmp_path, network=network, zonda_load=zonda_load)
    config: Any = SimpleNamespace(zones=[SimpleNamespace(name="a."), SimpleNamespace(name="b.")], tsig=None)
    config.endpoint = Endpoint("10.53.0.2")
    line = changes._endless_pull(cast(Harness, harness), cast(Server, SimpleNamespace(config=config)), 2)
    assert Path(line[line.index("--zones") + 1]).read_text().split() == ["a.", "a.", "b.", "b."]
    assert line[-2:] == ["--parallel", "2"]


def ended(tmp_path: Path, alive: bool, zones: list[int]) -> Window:
    """A window after transfers that began a minute ago, with these zones per pass, each of which took a second."""
    log = tmp_path / "transfers.log"
    passes = [
        {"type": "stats_sum", "since": n * 10**9, "until": (n + 1) * 10**9, "zonda": {"zones": count, "failed": 0}}
        for n, count in enumerate(zones)
    ]
    log.write_text("".join(f"{json.dumps(each)}\n" for each in ({"type": "header"}, *passes)))
    transfers: Any = SimpleNamespace(alive=alive, log=log, began=time.monotonic() - 60.0, stop=lambda: None)
    window = Window(Span(), {})
    changes._add_transfers(window, transfers)
    return window


def test_transfers_are_counted_by_zone(tmp_path: Path) -> None:
    """A pass is as many transfers as it has zones, and the time of one that is cut off does not count."""
    window = ended(tmp_path, alive=True, zones=[4, 4])
    assert window.metrics["transfers_per_s"] == 4.0
    assert window.invalid == []


def test_transfers_that_took_longer_than_the_window_have_no_rate(tmp_path: Path) -> None:
    """While four are running, the rate must not be 0 transfers per second."""
    window = ended(tmp_path, alive=True, zones=[])
    assert "transfers_per_s" not in window.metrics and window.notes == ["no zone was transferred completely"]


def test_transfers_that_end_early_invalidate_the_window(tmp_path: Path) -> None:
    """The shell loop ends at the first failure: a window whose rest is without transfers must not be valid."""
    assert ended(tmp_path, alive=False, zones=[4]).invalid == [
        "the zone transfers ended during the window, because one failed"
    ]


@pytest.mark.parametrize(
    ("change", "costs"),
    [(ChangeSpec(transfers=4), set()), (ChangeSpec(updates_per_s=1000.0), {"cpu_us_per_query", "answers_per_cpu_s"})],
)
def test_work_for_transfers_and_updates_is_no_buffering(
    change: ChangeSpec, costs: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transfers may end after the queries: 1.19 s of CPU per second of queries must not invalidate the window."""
    span = Span(began=100.0, ended=102.4, server_cpu_s=2.38, own_cpu_s=2.5)
    window = Window(span, {"cpu_us_per_query": 31.0, "answers_per_cpu_s": 32_000.0}, load_s=2.0, result=result())
    (log := tmp_path / "log").write_text('{"type": "stats_sum", "since": 0, "until": 1, "zonda": {"zones": 4}}\n')
    client: Any = SimpleNamespace(alive=True, log=log, began=0.0, stop=lambda: None, wait=lambda _: None)
    zones = [SimpleNamespace(name="a.")]
    server: Any = SimpleNamespace(config=SimpleNamespace(zones=zones, endpoint=None, tsig=None))
    load = SimpleNamespace(update=lambda *_: [])
    harness: Any = SimpleNamespace(zonda_load=load, start_process=lambda *_: client)
    monkeypatch.setattr(changes, "measure_window", lambda *_: window)
    monkeypatch.setattr(changes, "_endless_pull", lambda *_: [])
    monkeypatch.setattr(changes, "read_summary", lambda _: result(rcodes={"NOERROR": 10_000}))
    found = changes._disturbed_window(harness, server, Settings(change=change))
    checked = ValidityInput(found, telemetry(2.4), Settings(), rig(is_isolated=False), receives_load=False)
    assert [reason for reason in validity.reasons(checked) if "after the load" in reason] == []
    assert {name for name in found.metrics if "cpu" in name} == costs


@pytest.mark.parametrize(("accepted", "invalid"), [(5860, []), (6000, []), (0, ["all 6000 updates failed"])])
def test_updates_that_fail_are_a_result(accepted: int, invalid: list[str]) -> None:
    """A window in which a server loses some of 6,000 updates must be valid, or its overload is not in the report."""
    window = Window(Span(), {})
    changes._add_updates(window, result(sent=6000, rcodes={"NOERROR": accepted}, seconds=6.0))
    assert window.metrics["updates_per_s"] == accepted / 6
    assert window.metrics["updates_failed_share"] == pytest.approx(1 - accepted / 6000)
    assert window.invalid == invalid


@pytest.mark.parametrize(("count", "has_p99"), [(8, False), (99, False), (100, True)])
def test_a_99th_percentile_needs_a_hundred_changes(count: int, has_p99: bool) -> None:
    """E25 makes eight changes: the 99th percentile of eight values is nearly the longest of them."""
    metrics = changes._propagation_metrics([float(n + 1) for n in range(count)])
    assert ("propagation_p99_ms" in metrics) == has_p99
    assert metrics["propagation_max_ms"] == count
    assert metrics["propagation_p50_ms"] == (count + 1) / 2


def test_versions_are_counted_over_the_time_between_the_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The serials are read before and after the window: over its shorter time the rate would be too high."""
    zone = SimpleNamespace(name="a.")
    server: Any = SimpleNamespace(config=SimpleNamespace(zones=[zone], endpoint=None))
    client = SimpleNamespace(udp_socket=lambda _: contextlib.nullcontext())
    settings = SimpleNamespace(server=SimpleNamespace(name="zonda"))
    harness: Any = SimpleNamespace(settings=settings, network=SimpleNamespace(client=client))
    harness.installed = harness.require = harness.start_primary = harness.secondary_zones = lambda *_, **__: None
    harness.zones, harness.endpoint, harness.start_ready_server = SimpleNamespace(zones=[]), None, lambda _: server
    readings = iter([(100.0, 5), (103.0, 35)])

    def answer(*_: Any) -> bytes:
        now, serial = next(readings)
        monkeypatch.setattr(changes.time, "monotonic", lambda: now)
        reply = dns.message.make_response(dns.message.make_query("a.", "SOA"))
        reply.answer.append(dns.rrset.from_text("a.", 1, "IN", "SOA", f"a. a. {serial} 1 1 1 1"))
        return reply.to_wire()

    monkeypatch.setattr(changes.readiness, "ask", answer)
    monkeypatch.setattr(changes, "warm_up", lambda *_: None)
    monkeypatch.setattr(changes, "measure_window", lambda *_: Window(Span(began=101.0, ended=102.0), {}))
    planned = PlannedWindow({}, cast(Any, SimpleNamespace(primary=SimpleNamespace(changes_per_s=10.0))))
    windows: list[Window] = []
    recorder: Any = SimpleNamespace(windows=[planned], add=windows.append)
    changes.receiving(harness, recorder)
    assert windows[0].metrics["versions_per_s"] == 10.0 and windows[0].invalid == []
