"""The disk of the state-dir is full, at every write in turn: nothing acknowledged is lost, and all goes on once there is room."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import dns.exception
import dns.query
import dns.rcode
import dns.update
import pytest

from daemon import HOST, TINY_ZONE, Daemon, program
from test_local_users import needs_root

pytestmark = [needs_root, pytest.mark.slow]

DISK_KIB = 512
PAGE = 4096

# Starts the server again whenever it was killed, in a mount namespace with a small disk.
RUN = """
mount -t tmpfs -o size={size}k,mode=755 tmpfs {state} || exit 1
while [ ! -e {end} ]; do
    {program} serve --config {config} &
    echo $! > {pid}.new && mv {pid}.new {pid}
    wait $!
done
"""


class SmallDisk:
    """A server whose state-dir is on a small disk."""

    def __init__(self, daemon) -> None:
        self.server: Daemon = daemon()
        folder = self.server.folder
        self.pid_file, self.end = folder / "pid", folder / "end"
        (self.server.zones / "added.zone").write_text(TINY_ZONE)
        for number in range(200):
            (self.server.zones / f"z{number}.zone").write_text(TINY_ZONE)
        self.server.configure(
            f"[[zone]]\nname = 'added'\nfile = '{self.server.zones}/added.zone'\nallow-update = ['127.0.0.1']\n"
            f"write-file = '{self.server.state_dir}/{{name}}.text'\n"
            f"[template.more]\nfile = '{self.server.zones}/{{name}}.zone'\n"
        )
        self.server.state_dir.mkdir()
        script = RUN.format(
            size=DISK_KIB,
            state=self.server.state_dir,
            end=self.end,
            program=program(),
            config=self.server.config,
            pid=self.pid_file,
        )
        with self.server.log.open("wb") as log:
            self.server.process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script], stdout=log, stderr=log)
        self.wait()

    def wait(self) -> None:
        """Until it answers."""
        self.server.wait_until(lambda: self.server.ask("www.added.").rcode() == dns.rcode.NOERROR)

    @property
    def pid(self) -> int:
        return int(self.pid_file.read_text())

    @property
    def disk(self) -> Path:
        """The state-dir as the server sees it."""
        return Path(f"/proc/{self.pid}/root{self.server.state_dir}")

    def leave(self, octets: int) -> None:
        """Fills the disk up to these octets."""
        self.free()
        statistics = os.statvfs(self.disk)
        with (self.disk / "filled").open("wb") as file, suppress(OSError):
            file.write(bytes(max(0, statistics.f_bavail * statistics.f_frsize - octets)))

    def free(self) -> None:
        (self.disk / "filled").unlink(missing_ok=True)

    def kill(self) -> None:
        """SIGKILL; it starts again."""
        before = self.pid
        os.kill(before, signal.SIGKILL)
        self.server.wait_until(lambda: self.pid != before)
        self.wait()

    def update(self, owner: str) -> bool:
        message = dns.update.UpdateMessage("added.")
        message.add(owner, 60, "TXT", "x" * 200)
        with suppress(dns.exception.DNSException, OSError, EOFError):
            return dns.query.tcp(message, HOST, timeout=30, port=self.server.port).rcode() == dns.rcode.NOERROR
        return False

    def zone(self, *words: str) -> bool:
        command = [program(), "zone", *words, "--state-dir", self.disk]
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


@pytest.fixture
def small(daemon) -> Iterator[SmallDisk]:
    one = SmallDisk(daemon)
    yield one
    one.end.touch()
    with suppress(OSError, ValueError):
        os.kill(one.pid, signal.SIGKILL)


def test_a_full_disk_loses_nothing_that_was_acknowledged(small: SmallDisk):
    server = small.server
    updated, added, refused = [], [], 0
    for step in range(14):
        small.leave(step // 2 * PAGE)
        for number in range(40):
            owner = f"n{step}-{number}"
            if small.update(owner):
                updated.append(owner)
            else:
                refused += 1
                break  # each waits for the disk for some seconds
        zone = f"z{step}."
        if small.zone("add", zone, "--template", "more"):
            added.append(zone)
        assert server.ask("www.added.").rcode() == dns.rcode.NOERROR
        if step % 4 == 3:
            small.kill()  # while the disk is full
            assert not [owner for owner in updated if not server.ask(f"{owner}.added.", "TXT").answer], server.log_text()
        small.free()
        server.wait_until(lambda step=step: small.update(f"freed{step}"))
        updated.append(f"freed{step}")
    assert refused > 3, "the disk was full"
    server.wait_until(lambda: small.zone("add", "z100.", "--template", "more"))
    small.kill()
    missing = [owner for owner in updated if not server.ask(f"{owner}.added.", "TXT").answer]
    missing += [zone for zone in [*added, "z100."] if server.ask(zone, "SOA").rcode() != dns.rcode.NOERROR]
    assert not missing, server.log_text()
    log = server.log.read_text()
    assert "panicked" not in log
    assert "damaged" not in log
    assert "no change is acknowledged until this works again" in log


def test_frozen_zones_survive_a_full_disk(small: SmallDisk):
    server = small.server
    small.leave(0)
    assert not small.zone("freeze", "added."), "it is not stored"
    server.wait_until(lambda: "cannot be written" in server.log.read_text())
    small.free()
    assert small.zone("freeze", "added."), "it is frozen already, which is stored now"
    small.kill()
    assert not small.update("refused"), "the zone is frozen"
    small.leave(0)
    small.zone("thaw", "example.")  # the list is not lost, whatever this answers
    small.kill()
    small.free()
    assert not small.update("refused"), "the zone is frozen"
    server.wait_until(lambda: small.zone("thaw", "added."))
    server.wait_until(lambda: small.update("taken"))


def test_a_text_file_is_never_half_written(small: SmallDisk):
    server = small.server
    assert small.update("first")
    text = small.disk / "added.text"
    server.wait_until(lambda: b"first" in text.read_bytes(), timeout_s=20)
    for room in (0, PAGE, 2 * PAGE):
        small.leave(room)
        small.update(f"more{room}")
        ends_at = time.monotonic() + 6  # it is written every five seconds
        while time.monotonic() < ends_at:
            octets = text.read_bytes()
            assert octets.endswith(b"\n") and b"first" in octets, octets
            time.sleep(0.05)
    small.free()
    server.wait_until(lambda: small.update("last"))
    server.wait_until(lambda: b"last" in text.read_bytes(), timeout_s=30)
