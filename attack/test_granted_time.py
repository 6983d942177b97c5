"""The clock of the tests: it goes on an idle machine, and stands still for what is taken away."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from granted_time import granted_time


def test_a_delay_of_the_server_is_not_subtracted():
    """A server that waits leaves its processor to others."""
    with granted_time() as stopwatch:
        waits = []
        for _ in range(10):
            since, began = stopwatch(), time.monotonic()
            time.sleep(0.1)
            waits.append(since() / (time.monotonic() - began))
    # Most of the time is granted on a machine that loses half of it.
    assert median(waits) > 0.3 and max(waits) <= 1, waits


SHOW = """
import time
from granted_time import granted_time
with granted_time() as stopwatch:
    since = stopwatch()
    print("ready", flush=True)
    input()
    print(since())
"""


def test_time_in_which_nothing_runs_is_subtracted():
    """All threads are stopped, as by a hypervisor."""
    folder, pipe = Path(__file__).parent, subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", SHOW], cwd=folder, stdin=pipe, stdout=pipe, text=True) as shown:
        shown.stdout.readline()
        began = time.monotonic()
        for number in (signal.SIGSTOP, signal.SIGCONT):
            shown.send_signal(number)
            time.sleep(1)
        output, _ = shown.communicate("\n", timeout=30)
    elapsed_s = time.monotonic() - began
    assert 0 < float(output) < elapsed_s - 0.9, (output, elapsed_s)
