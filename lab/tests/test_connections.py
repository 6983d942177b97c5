from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zonda_lab.errors import LabError
from zonda_lab.measurement.running_server import Server
from zonda_lab.procedures import connections, storms


def server_with(pss_kb: Iterator[int]) -> Server:
    process: Any = SimpleNamespace(memory=lambda: SimpleNamespace(pss_kb=next(pss_kb)))
    return cast(Server, SimpleNamespace(process=process))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SETTLED_S", 0.001)


def test_memory_is_weighed_once_loading_has_given_its_own_back() -> None:
    """Zonda gave 5 MB back after its first answer: connections seemed to have -5,000 octets each."""
    assert connections._settled_pss_kb(server_with(iter([12_000, 9_000, 7_000, 7_000]))) == 7_000


def test_memory_that_never_settles_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SETTLING_S", 0.05)
    assert connections._settled_pss_kb(server_with(iter(range(1_000_000)))) > 0


def test_connections_that_do_not_come_are_counted_in_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was: not all connections are there."""
    monkeypatch.setattr(storms, "CONNECTING_S", -1.0)
    process = SimpleNamespace(require_alive=lambda: None, tail=lambda: "too many connections")
    server = cast(Server, SimpleNamespace(process=process, config=SimpleNamespace(tcp_idle_s=1)))
    with pytest.raises(LabError) as caught:
        storms._wait(server, 9, "established", lambda: 7, "lower change.connections")
    log, advice = "the server's log ends: too many connections", "help: lower change.connections"
    assert str(caught.value).splitlines()[1:] == [f"  {log}", f"  {advice}"]
    assert caught.value.what == "after 0 s 7 of 9 connections are established"
