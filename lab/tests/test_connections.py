import contextlib
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import ChangeSpec, Settings, TrafficSpec
from zonda_lab.load.result import LoadResult
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.observer import Span
from zonda_lab.measurement.running_server import Server
from zonda_lab.measurement.window import Recorder, Window
from zonda_lab.procedures import connections, storms


def server_with(pss_kb: Iterator[int]) -> Server:
    process: Any = SimpleNamespace(memory=lambda: SimpleNamespace(pss_kb=next(pss_kb)))
    return cast(Server, SimpleNamespace(process=process))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SETTLED_S", 0.001)


def test_memory_is_weighed_once_loading_has_given_its_own_back() -> None:
    """A server may give 5 MB back after its first answer: connections must not seem to have -5,000 octets each."""
    assert connections._settled_pss_kb(server_with(iter([12_000, 9_000, 7_000, 7_000]))) == 7_000


def test_memory_that_never_settles_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SETTLING_S", 0.05)
    assert connections._settled_pss_kb(server_with(iter(range(1_000_000)))) > 0


@pytest.mark.parametrize(("slab", "found"), [(2_000, (20.0, 60.0)), (None, (None, None))])
def test_kernel_memory_is_measured_or_a_note_says_why_not(
    slab: int | None, found: tuple[float | None, float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without root, the growth of the slab memory of the whole system must not be that of the connections."""
    kernel = iter([{"slab": slab and 0, "buffers": 1_000}, {"slab": slab, "buffers": 5_000}])
    opened = LoadResult(0, 0, 1.0, more={"failed": 0, "open": 100, "established": 100, "open_s": 1.0})

    def hold(*arguments: Any) -> LoadResult:
        arguments[3]({"msg_type": "open", "zonda": {"open": 100, "closed_by_peer": 0}})
        return opened

    monkeypatch.setattr(connections, "hold", hold)
    monkeypatch.setattr(connections, "_warm_up", lambda *_: None)
    monkeypatch.setattr(connections, "memory_metrics", lambda *_, **__: {})
    monkeypatch.setattr(connections, "_kernel", lambda _: next(kernel))
    monkeypatch.setattr(connections, "window_of", lambda _, span, metrics: Window(span, metrics))
    recorded: list[Window] = []
    harness: Any = SimpleNamespace(
        settings=Settings(),
        network=SimpleNamespace(client=SimpleNamespace(read_sysctl=lambda _: "1 2")),
        start_ready_server=lambda: server_with(iter([1, 1])),
        span=lambda _: contextlib.nullcontext(Span()),
    )
    connections.idle(harness, cast(Recorder, SimpleNamespace(add=recorded.append)))
    metrics, names = recorded[0].metrics, ("kernel_slab_bytes_per_connection", "kernel_bytes_per_connection")
    assert tuple(map(metrics.get, names)) == found
    notes = ["kernel memory needs root: /proc/slabinfo is not readable"]
    assert recorded[0].notes == ([] if slab else notes)


@pytest.mark.parametrize(("hostile", "found"), [("", (90.0, 100.0)), ("reset", (None, 100.0))])
def test_connections_are_open_until_one_side_closes_them(hostile: str, found: tuple[float | None, float]) -> None:
    """`connections_open` must not be all that were ever established."""
    more = {"open": 90, "established": 100, "open_s": 1.0}
    metrics = connections.opened(LoadResult(0, 0, 1.0, more=more), ChangeSpec(hostile=hostile))
    assert (metrics.get("connections_open"), metrics["connects_per_s"]) == found


def test_a_connection_that_is_closed_without_an_answer_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only those that cannot be opened count."""
    more = {"open": 80, "established": 95, "open_s": 1.0, "failed": 5, "closed_unanswered": 15, "late_connections": 0}
    result = LoadResult(0, 0, 1.0, more={**more, "held_responses": 80, "last_response_s": 1.0})
    monkeypatch.setattr(storms, "hold", lambda *_, **__: result)
    monkeypatch.setattr(storms, "window_of", lambda _, span, metrics: Window(span, metrics))
    recorded: list[Window] = []
    server = SimpleNamespace(paused=lambda _: contextlib.nullcontext())
    harness: Any = SimpleNamespace(
        settings=Settings(change=ChangeSpec(connections=100)),
        start_ready_server=lambda: server,
        span=lambda _: contextlib.nullcontext(Span()),
    )
    storms.storm(harness, cast(Recorder, SimpleNamespace(add=recorded.append)))
    assert recorded[0].metrics["failed_share"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("processes", "found"),
    [
        ([(9, 512), (499, 512)], []),
        ([(2_001, 4_096), (2_001, 65_536)], ["2001 of 4096 open"]),  # a server raised the limit of a process
        ([], ["none is known"]),
    ],
)
def test_descriptors_are_those_of_the_fullest_process(processes: list[tuple[int, int]], found: list[str]) -> None:
    reasons = connections.unused([{"open": used, "limit": limit} for used, limit in processes])
    assert len(reasons) == len(found) and all(part in reason for part, reason in zip(found, reasons, strict=True))


def test_a_server_is_asked_everything_on_a_few_connections_before_it_is_weighed() -> None:
    """Referrals that it caches, for connections or for probes, must not be weighed as memory of connections (E18)."""
    jobs: list[tuple[Settings, float]] = []
    load = SimpleNamespace(job=lambda settings, _, seconds: (settings, seconds), run=jobs.append)
    settings = Settings(traffic=TrafficSpec(transport="tls", sources=16))
    connections._warm_up(cast(Harness, SimpleNamespace(settings=settings, load=load)), server_with(iter([])))
    assert [seconds for _, seconds in jobs] == [1.0, 1.0]
    expected = TrafficSpec(transport="tls", sources=16, loop="closed", connections=64, outstanding=64)
    assert [asked.traffic for asked, _ in jobs] == [expected, replace(expected, transport="udp")]


def test_connections_that_do_not_come_are_counted_in_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not only say that not all connections are there."""
    monkeypatch.setattr(storms, "CONNECTING_S", -1.0)
    process = SimpleNamespace(require_alive=lambda: None, tail=lambda: "too many connections")
    server = cast(Server, SimpleNamespace(process=process, config=SimpleNamespace(tcp_idle_s=1)))
    with pytest.raises(LabError) as caught:
        storms._wait(server, 9, "established", lambda: 7, "lower change.connections")
    log, advice = "the server's log ends: too many connections", "help: lower change.connections"
    assert str(caught.value).splitlines()[1:] == [f"  {log}", f"  {advice}"]
    assert caught.value.what == "after 0 s 7 of 9 connections are established"
