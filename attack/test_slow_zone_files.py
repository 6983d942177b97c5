"""Zone files that are big or block on open must not delay other zones."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dns.rcode
import pytest

from daemon import TINY_ZONE, Daemon
from granted_time import Stopwatch

# A read without progress for this time is reported as stuck.
STUCK_S = 10
# Maximum time until a tiny zone is served, of what a busy machine grants.
SOON_S = 2.0
TINY_NAMES = [f"tiny{number}" for number in range(4)]
TINY_ZONES = dict.fromkeys(TINY_NAMES, TINY_ZONE)


@contextmanager
def blocked(path: Path) -> Iterator[None]:
    """Blocks `open` of the file, as on a hung mount, with a lease that is not released (fcntl(2))."""
    handler = signal.signal(signal.SIGIO, signal.SIG_IGN)
    holder = os.open(path, os.O_RDWR)
    try:
        fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield
    finally:
        os.close(holder)
        signal.signal(signal.SIGIO, handler)


def serial(server: Daemon, name: str) -> int | None:
    """The served serial of a zone, `None` for SERVFAIL."""
    return server.serial(f"{name}.", timeout_s=0.2)  # `expect_soon` looks at its limit between queries only


def write_zone(server: Daemon, name: str, new_serial: int, text: str = TINY_ZONE) -> None:
    """Replaces a zone's file as an operator would."""
    path = server.zones / f"{name}.zone"
    new = path.with_suffix(".new")
    new.write_text(text.replace(" 1 3600", f" {new_serial} 3600", 1))
    new.rename(path)


def big_zone(octets: int) -> str:
    """A zone of about this size."""
    line = "n{0:08} A 192.0.2.1\nn{0:08} TXT " + "x" * 90 + "\n"
    return TINY_ZONE + "".join(line.format(number) for number in range(octets // 130))


def expect_soon(server: Daemon, since: Stopwatch, condition) -> None:
    """Waits for a condition that must hold soon."""
    server.wait_until(condition, SOON_S, since)


def test_a_blocked_read_delays_no_other_zone(daemon, stopwatch):
    server = daemon(TINY_ZONES | {"a": TINY_ZONE, "zzz": TINY_ZONE})
    with blocked(server.zones / "a.zone"), blocked(server.zones / "zzz.zone"):
        server.start(wait_for=None)
        for name in TINY_NAMES:
            expect_soon(server, stopwatch(), lambda name=name: serial(server, name) == 1)
        assert serial(server, "a") is None
        write_zone(server, "tiny2", 2)
        os.kill(server.pid, signal.SIGHUP)
        expect_soon(server, stopwatch(), lambda: serial(server, "tiny2") == 2)
    expect_soon(server, stopwatch(), lambda: serial(server, "a") == serial(server, "zzz") == 1)


def test_a_blocked_read_does_not_delay_shutdown(daemon, stopwatch):
    server = daemon(TINY_ZONES | {"a": TINY_ZONE})
    with blocked(server.zones / "a.zone"):
        server.start("tiny0")
        since = stopwatch()
        assert server.stop() == 0
        assert since() < SOON_S


def test_a_zone_is_not_published_from_its_former_file(daemon, stopwatch):
    server = daemon(TINY_ZONES | {"moved": TINY_ZONE, "gone": TINY_ZONE})
    old, gone = server.zones / "moved.zone", server.zones / "gone.zone"
    with blocked(old), blocked(gone):
        server.start("tiny0")
        write_zone(server, "tiny1", 5)
        (server.zones / "tiny1.zone").rename(server.zones / "elsewhere.zone")
        config = server.config.read_text().replace(str(old), str(server.zones / "elsewhere.zone"))
        server.config.write_text(config.partition('[[zone]]\nname = "gone"')[0])
        os.kill(server.pid, signal.SIGHUP)
        expect_soon(server, stopwatch(), lambda: serial(server, "moved") == 5)
    time.sleep(0.5)
    assert serial(server, "moved") == 5
    assert server.ask("gone.", "SOA").rcode() == dns.rcode.REFUSED


@pytest.mark.slow
def test_a_stuck_read_is_reported_and_later_reloads_do_not_wait(daemon, stopwatch):
    server = daemon(TINY_ZONES | {"hung": TINY_ZONE})
    server.start("hung")
    write_zone(server, "hung", 2)
    with blocked(server.zones / "hung.zone"):
        begin = time.monotonic()
        first = server.reload()
        assert STUCK_S - 1 < time.monotonic() - begin < STUCK_S + 5
        assert first.returncode == 1 and "hung.: NOT LOADED YET" in first.stdout, first
        assert f"hung.zone has made no progress for {STUCK_S} s" in server.log_text()
        write_zone(server, "tiny0", 2)
        since = stopwatch()
        second = server.reload()
        assert since() < SOON_S
        assert "tiny0.: changed, serial 1 -> 2" in second.stdout, second
        assert "hung.: NOT LOADED YET" in second.stdout, second
        assert serial(server, "hung") == 1
    expect_soon(server, stopwatch(), lambda: serial(server, "hung") == 2)
    assert server.reload().returncode == 0


@pytest.mark.slow
def test_a_blocked_included_file_of_a_big_zone_is_stuck_as_well(daemon, stopwatch):
    server = daemon({"big": TINY_ZONE} | TINY_ZONES)
    (server.zones / "part").write_text("part A 192.0.2.1\n")
    server.start("big")
    # Big enough to be read in chunks: its own text is read before the included file is opened.
    write_zone(server, "big", 2, big_zone(6_000_000) + "$INCLUDE part\n")
    with blocked(server.zones / "part"):
        reload = server.reload(timeout_s=STUCK_S + 5)
        assert reload.returncode == 1 and "big.: NOT LOADED YET" in reload.stdout, reload
    expect_soon(server, stopwatch(), lambda: serial(server, "big") == 2)


@pytest.mark.slow
def test_many_blocked_reads_in_one_folder_delay_no_other_folder(daemon, stopwatch):
    hung = [f"hung{number:02}" for number in range(40)]
    server = daemon(dict.fromkeys(hung, TINY_ZONE))
    other = server.folder / "other"
    other.mkdir()
    (other / "zz.zone").write_text(TINY_ZONE)
    text = f'[[zone]]\nname = "zz"\nfile = "{other}/zz.zone"\n'
    server.configure(text)
    # Exits in reverse order: the first one restores the handler of the signal that each broken lease sends.
    with ExitStack() as blocks:
        for name in hung:
            blocks.enter_context(blocked(server.zones / f"{name}.zone"))
        server.start(wait_for=None)
        server.wait_until(lambda: serial(server, "zz") == 1, 10.0, stopwatch())
    for name in hung:
        server.wait_until(lambda name=name: serial(server, name) == 1, 10.0, stopwatch())


@pytest.mark.slow
def test_tiny_zones_do_not_wait_for_a_big_one(daemon, stopwatch):
    big = big_zone(120_000_000)
    server = daemon({"big": big} | TINY_ZONES)
    server.start(wait_for=None)
    for name in TINY_NAMES:
        expect_soon(server, stopwatch(), lambda name=name: serial(server, name) == 1)
    assert serial(server, "big") is None, "the zone is too small for this test"
    # A changed tiny zone is served while the big one is still being read for the first time.
    write_zone(server, "tiny1", 2)
    os.kill(server.pid, signal.SIGHUP)
    expect_soon(server, stopwatch(), lambda: serial(server, "tiny1") == 2)
    assert serial(server, "big") is None, "the zone is too small for this test"
    server.wait_until(lambda: serial(server, "big") == 1, timeout_s=120)
    # A changed tiny zone is served while the big one is read again.
    write_zone(server, "big", 2, big)
    write_zone(server, "tiny3", 3)
    os.kill(server.pid, signal.SIGHUP)
    expect_soon(server, stopwatch(), lambda: serial(server, "tiny3") == 3)
    assert serial(server, "big") == 1, "the zone is too small for this test"
    since = stopwatch()
    assert server.stop() == 0
    assert since() < SOON_S
