"""Somebody sets the clock while the server runs, by years, forward and back; or the machine is suspended."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import dns.edns
import dns.message
import dns.query
import dns.rcode
import pytest

from daemon import HOST, Daemon
from test_hostile_primaries import SERVED, Primary, primary, served  # noqa: F401

YEARS_S = 10 * 365 * 86_400
# The number of the EXPIRE option, and EXPIRE of the SOA record.
EXPIRE, EXPIRE_S = 9, 604_800

# The file CLOCK_STEP has two numbers of seconds: by how much the clock was set, and how long the machine was suspended.
SHIM = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    long result = syscall(SYS_clock_gettime, clock, time);
    int is_real = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (result == 0 && (is_real || clock == CLOCK_BOOTTIME)) {
        char text[64] = {0}, *rest = text;
        int file = open(getenv("CLOCK_STEP"), O_RDONLY | O_CLOEXEC);
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) > 0) {
                long step = strtol(text, &rest, 10);
                time->tv_sec += strtol(rest, 0, 10) + (is_real ? step : 0);
            }
            close(file);
        }
    }
    return result;
}
"""


class SteppedDaemon:
    """A secondary whose clock the test sets."""

    def __init__(self, daemon, folder: Path, port: int, more: str = "") -> None:
        if not (compiler := shutil.which("cc") or shutil.which("gcc")):
            pytest.skip("skipped: there is no C compiler to make a clock that can be set")
        self.step = folder / "step"
        self.step.write_text("0 0")
        source, self.library = folder / "clock.c", folder / "clock.so"
        source.write_text(SHIM)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", self.library, source], check=True, capture_output=True)
        self.server: Daemon = daemon()
        zone = f'[[zone]]\nname = "victim"\nmin-retry-s = 1\nmax-refresh-s = 4\nprimaries = ["{HOST}:{port}"]\n{more}'
        self.server.configure(zone)

    def start(self) -> Daemon:
        environment = os.environ | {"LD_PRELOAD": str(self.library), "CLOCK_STEP": str(self.step)}
        return self.server.start(env=environment)

    def set_clock(self, step_s: int, suspended_s: int = 0) -> None:
        # In one write: the clock is read all the time.
        new = self.step.with_name("new")
        new.write_text(f"{step_s} {suspended_s}")
        new.rename(self.step)


def expire_option(server: Daemon) -> int:
    """The EXPIRE option (RFC 7314) in a response to a SOA query: seconds."""
    option = dns.edns.GenericOption(EXPIRE, b"")
    query = dns.message.make_query("victim.", "SOA", use_edns=0, options=[option])
    response = dns.query.udp(query, HOST, port=server.port, timeout=5)
    return next(int.from_bytes(option.to_wire(), "big") for option in response.options if option.otype == EXPIRE)


@pytest.mark.parametrize("step_s", [YEARS_S, -YEARS_S], ids=["forward", "back"])
def test_setting_the_clock_neither_expires_zones_nor_delays_refreshes(daemon, tmp_path, primary: Primary, step_s: int):  # noqa: F811
    stepped = SteppedDaemon(daemon, tmp_path, primary.port)
    server = stepped.start()
    server.wait_until(lambda: served(server) == SERVED)
    primary.serial, primary.is_up = SERVED + 1, False
    stepped.set_clock(step_s)
    server.wait_until(lambda: "the clock was set" in server.log_text(), timeout_s=10)
    assert served(server) == SERVED, "the zone has not expired"
    server.wait_until(lambda: 0 < expire_option(server) <= EXPIRE_S, timeout_s=10)
    primary.is_up = True
    # Without NOTIFY: its own refresh finds it, within `max-refresh-s` and a backed-off attempt.
    server.wait_until(lambda: served(server) == SERVED + 1, timeout_s=60)
    status = server.run("zone", "status", "victim.")
    assert status.stdout.startswith("victim.: serving"), status
    assert server.ask("www.example.").rcode() == dns.rcode.NOERROR
    assert "panicked" not in server.log.read_text()


def test_a_zone_expires_while_the_machine_is_suspended(daemon, tmp_path, primary: Primary):  # noqa: F811
    stepped = SteppedDaemon(daemon, tmp_path, primary.port)
    server = stepped.start()
    server.wait_until(lambda: served(server) == SERVED)
    primary.is_up = False
    stepped.set_clock(0, suspended_s=YEARS_S)
    server.wait_until(lambda: server.ask("www.victim.").rcode() == dns.rcode.SERVFAIL, timeout_s=10)
    assert "the clock was set" not in server.log_text()
    primary.is_up = True
    server.wait_until(lambda: served(server) == SERVED, timeout_s=60)
