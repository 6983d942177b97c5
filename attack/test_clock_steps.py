"""Somebody sets the clock while the server runs: by years, forward and back."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import dns.rcode
import pytest

from daemon import HOST, Daemon, program
from test_hostile_primaries import SERVED, Primary, primary, served  # noqa: F401

YEARS_S = 10 * 365 * 86_400

# Adds what the file CLOCK_STEP has to the clock that tells the date.
SHIM = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    long result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        char text[32] = {0};
        int file = open(getenv("CLOCK_STEP"), O_RDONLY | O_CLOEXEC);
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) > 0) time->tv_sec += atol(text);
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
        self.step.write_text("0")
        source, self.library = folder / "clock.c", folder / "clock.so"
        source.write_text(SHIM)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", self.library, source], check=True, capture_output=True)
        self.server: Daemon = daemon()
        zone = f'[[zone]]\nname = "victim"\nmin-retry-s = 1\nmax-refresh-s = 4\nprimaries = ["{HOST}:{port}"]\n{more}'
        self.server.config.write_text(self.server.config.read_text() + zone)

    def start(self) -> Daemon:
        environment = os.environ | {"LD_PRELOAD": str(self.library), "CLOCK_STEP": str(self.step)}
        return self.server.start(env=environment)

    def set_clock(self, step_s: int) -> None:
        # In one write: the clock is read all the time.
        new = self.step.with_name("new")
        new.write_text(str(step_s))
        new.rename(self.step)


@pytest.mark.parametrize("step_s", [YEARS_S, -YEARS_S], ids=["forward", "back"])
def test_setting_the_clock_neither_expires_zones_nor_delays_refreshes(daemon, tmp_path, primary: Primary, step_s: int):  # noqa: F811
    stepped = SteppedDaemon(daemon, tmp_path, primary.port)
    server = stepped.start()
    server.wait_until(lambda: served(server) == SERVED)
    primary.serial, primary.is_up = SERVED + 1, False
    stepped.set_clock(step_s)
    server.wait_until(lambda: "the clock was set" in server.log_text(), timeout_s=10)
    assert served(server) == SERVED, "the zone has not expired"
    primary.is_up = True
    # Without NOTIFY: its own refresh finds it, within `max-refresh-s` and a backed-off attempt.
    server.wait_until(lambda: served(server) == SERVED + 1, timeout_s=60)
    status = subprocess.run([program(), "zone", "status", "victim.", "--config", server.config], capture_output=True, text=True, check=False)
    assert status.stdout.startswith("victim.: serving"), status
    assert server.ask("www.example.").rcode() == dns.rcode.NOERROR
    assert "panicked" not in server.log.read_text()
