"""Several faults at once: a stuck file and reloads, a full disk, slow local clients, changing configurations."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

import pytest

from daemon import TINY_ZONE, program, repeated
from test_local_users import needs_root
from test_slow_zone_files import blocked, serial


def test_reloads_during_a_stuck_read_take_little_memory(daemon):
    server = daemon({"example": TINY_ZONE, "stuck": TINY_ZONE})
    # Every pending load reports each of these.
    absent = "".join(f'[[zone]]\nname = "absent{number}"\nfile = "absent/{number}"\n' for number in range(300))
    server.configure(absent)
    server.start()
    os.utime(server.zones / "stuck.zone")
    with blocked(server.zones / "stuck.zone"):
        for _ in range(100):
            os.kill(server.pid, signal.SIGHUP)
            time.sleep(0.01)
        assert server.rss_mb() < 100


@pytest.mark.slow
def test_slow_control_clients_do_not_delay_others(daemon):
    server = daemon().start()
    with server.control_clients(8) as slow:

        def trickle() -> None:
            time.sleep(0.5)
            for one in slow:
                with suppress(OSError):  # it was closed
                    one.send(b" ")

        with repeated(trickle):
            assert server.reload(timeout_s=10).returncode == 0


def test_a_state_dir_with_a_long_path_accepts_reloads(daemon):
    server = daemon()
    deep = server.folder / ("deep/" * 30)
    server.config.write_text(server.config.read_text().replace(str(server.state_dir), str(deep)))
    server.start()
    assert server.reload().returncode == 0


@needs_root
def test_a_full_disk_does_not_keep_the_server_from_starting(daemon):
    server = daemon()
    server.state_dir.mkdir()
    fill = f"mount -t tmpfs -o size=4k,mode=755 tmpfs {server.state_dir} && head -c 4096 /dev/zero > {server.state_dir}/filled"
    script = f"{fill} && exec {program()} serve --config {server.config}"
    with server.log.open("wb") as log:
        server.process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script], stdout=log, stderr=log)
    server.wait_until(lambda: serial(server, "example") == 1, timeout_s=5)


def test_a_changed_zone_file_with_its_old_mtime_is_read(daemon):
    server = daemon()
    zone = server.zones / "example.zone"
    long_ago = time.time() - 1000
    os.utime(zone, (long_ago, long_ago))
    server.start()
    assert server.reload().returncode == 0
    # As `cp -p` and `rsync --inplace --times` do if both files have the same mtime.
    zone.write_text(TINY_ZONE.replace(" 1 3600", " 2 3600"))
    os.utime(zone, (long_ago, long_ago))
    assert server.reload().returncode == 0
    assert serial(server, "example") == 2


@pytest.mark.slow
def test_added_and_removed_zones_do_not_delay_others(daemon):
    # Zones are checked in order of size; checking a broken one takes long at each reload.
    server = daemon({"a": TINY_ZONE, "lastofthem": TINY_ZONE})
    broken = server.folder / "broken"
    broken.write_text(TINY_ZONE + "".join(f"h{number} A 192.0.2.1\n" for number in range(20_000)) + "h A 1.2.3\n")
    server.configure("".join(f'[[zone]]\nname = "b{number:06}"\nfile = "{broken}"\n' for number in range(1500)))
    config = server.config.read_text()
    server.start("a")
    more = [f'[[zone]]\nname = "m{number}"\nfile = "{server.zones}/a.zone"\n' for number in range(2)]
    for number in range(100):
        server.config.write_text(config + more[number % 2])
        os.kill(server.pid, signal.SIGHUP)
        time.sleep(0.25)
        if serial(server, "lastofthem") == 1:
            return
    raise AssertionError("not served within 25 s")
