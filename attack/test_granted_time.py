"""The clock of the tests: it goes on an idle machine, and stands still for what is taken away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from granted_time import granted_time

FOLDER = Path(__file__).parent
PIPES = {"cwd": FOLDER, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}

# Delays its answer for a second: asleep, or with two threads on each processor, which take half a second of its time each.
SERVER = """
import hashlib, os, sys, threading, time
def spin():
    while time.thread_time() < 0.5:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 1000)  # without the lock of the interpreter
threads = [threading.Thread(target=spin) for _ in range(2 * len(os.sched_getaffinity(0)))]
print("ready", flush=True)
input()
if sys.argv[1] == "sleeps":
    time.sleep(1)
else:
    for each in threads: each.start()
    for each in threads: each.join()
print("done", flush=True)
"""


def measured_s(kind: str) -> float:
    """The delay of such a server, as it is measured."""
    command = [sys.executable, "-c", SERVER, kind]
    with subprocess.Popen(command, **PIPES) as server, granted_time(lambda: [server.pid]) as stopwatch:
        assert server.stdout.readline() == "ready\n"
        since = stopwatch()
        server.stdin.write("\n")
        server.stdin.flush()
        assert server.stdout.readline() == "done\n"
        return since()


def busy_s() -> float:
    """Processor time of all programs, and what a hypervisor took."""
    user, nice, system, _, _, irq, softirq, steal, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def test_a_second_in_which_the_server_sleeps_is_not_subtracted():
    for _ in range(10):
        before_s = busy_s()
        found_s = measured_s("sleeps")
        if found_s >= 0.9:
            return
    used_s = busy_s() - before_s
    assert used_s > 0.2, f"{found_s:.2f} s are left, though the processors were idle"
    pytest.skip(f"other programs take the processors away: {used_s:.1f} s during the last try")


def test_a_second_in_which_the_server_keeps_all_processors_busy_is_not_subtracted():
    assert measured_s("spins") >= 0.9


def test_a_second_in_which_the_test_itself_computes_is_not_subtracted():
    """Other threads, such as those that look for lost time, wait for the lock of the interpreter."""
    with granted_time() as stopwatch:
        since, end = stopwatch(), time.process_time() + 1
        while time.process_time() < end:
            pass
        assert since() >= 0.9


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
    with subprocess.Popen([sys.executable, "-c", SHOW], **PIPES) as shown:
        shown.stdout.readline()
        began = time.monotonic()
        for number in (signal.SIGSTOP, signal.SIGCONT):
            shown.send_signal(number)
            time.sleep(1)
        output, _ = shown.communicate("\n", timeout=30)
    elapsed_s = time.monotonic() - began
    assert 0 < float(output) < elapsed_s - 0.9, (output, elapsed_s)
