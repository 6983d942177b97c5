import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zonda_lab.load.zone_probe import Arrivals
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.observer import Span
from zonda_lab.measurement.window import Window
from zonda_lab.procedures import startup
from zonda_lab.rig.procfs import Memory


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A harness whose server uses 2 s of CPU until all zones are answered, and 5 s until memory has settled."""
    monkeypatch.setattr(startup, "SETTLE_S", 0.0)
    process = SimpleNamespace(began=10.0, alive=True, cpu_s=lambda: 5.0, memory=lambda: Memory(1, 1, 1))
    process.stop = lambda _: None
    config = SimpleNamespace(zones=[SimpleNamespace(name="a.")], tuned=False)
    adapter = SimpleNamespace(tuning=lambda _: [])
    server = SimpleNamespace(process=process, config=config, sockets=[], installed=SimpleNamespace(adapter=adapter))

    @contextlib.contextmanager
    def span() -> Iterator[Span]:
        yield Span(began=10.0, ended=11.0, server_cpu_s=2.0)

    made = SimpleNamespace(zones=SimpleNamespace(zones=config.zones, records=1), span=span)
    made.settings = SimpleNamespace(timing=SimpleNamespace(finish_s=1.0))
    made.start_probe = made.settle_sockets = lambda *_: None
    made.start_server = lambda *_: server
    made.arrivals = lambda *_: Arrivals({"a.": 10.5}, 0)
    return made


def measured(harness: Any) -> Window:
    windows: list[Window] = []
    startup.startup(cast(Harness, harness), cast(Any, SimpleNamespace(add=windows.append)))
    return windows[0]


def test_the_cpu_time_of_a_start_ends_when_all_zones_are_answered(harness: Any) -> None:
    """It must not be read after the wait for memory to settle and the script that sets the sockets."""
    assert measured(harness).metrics["start_cpu_s"] == 2.0


def test_the_machine_is_observed_during_the_restart(harness: Any) -> None:
    window = measured(harness)
    assert window.metrics["restart_s"] == 0.5 and window.later["restart"].seconds == 1.0


def test_a_reload_is_timed_from_the_request_to_the_answer(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of the probe and the wait for its end must not be part of `reload_s`."""
    done: list[str] = []
    zones = [SimpleNamespace(name="a.", file=Path("a.zone"))]

    @contextlib.contextmanager
    def span(*_: Any) -> Iterator[Span]:
        yield Span(began=10.0, ended=13.0)

    def reload(_: Any) -> float:
        done.append("reload")
        return 10.2

    harness.settings.change = SimpleNamespace(changes=1)
    harness.changeable_zones, harness.span, harness.reload = lambda: zones, span, reload
    harness.start_probe = lambda *_: done.append("probe")
    harness.observer = SimpleNamespace(observed=lambda _: SimpleNamespace(samples=[]))
    monkeypatch.setattr(startup, "set_serial", lambda *_: None)
    monkeypatch.setattr(startup, "warm_up", lambda *_: None)
    windows: list[Window] = []
    startup.memory(cast(Harness, harness), cast(Any, SimpleNamespace(add=windows.append)))
    assert windows[-1].metrics["reload_s"] == pytest.approx(0.3)
    assert done == ["probe", "probe", "reload"], "the second probe asks before the server is asked to reload"
