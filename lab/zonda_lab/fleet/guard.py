"""Runs a program on a remote host and kills it when the connection ends. Standard library only.

`python3 guard.py PROGRAM ARGUMENT...`: standard output is the program's; standard error gets its process id and start
on the monotonic clock, and at its end its CPU time, a JSON line each. Standard input is the connection: when it ends,
or is silent for SILENCE_S seconds, the program and its descendants are killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time

SILENCE_S = 30.0  # longer than network interruptions, short enough to free the machine soon


def main() -> int:
    """Returns the program's exit status, or 128 and the signal that ended it, as a shell does."""
    began_ns = time.monotonic_ns()
    program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True)
    report(pid=program.pid, began_ns=began_ns)
    threading.Thread(target=end_with_connection, args=(program.pid,), daemon=True).start()
    status = program.wait()
    kill(program.pid)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report(cpu_s=used.ru_utime + used.ru_stime)
    return status if status >= 0 else 128 - status


def end_with_connection(group: int) -> None:
    """Kills the process group when the connection has ended."""
    while select.select([0], [], [], SILENCE_S)[0] and os.read(0, 4096):
        pass
    kill(group)


def kill(group: int) -> None:
    """Kills a process group; other descendants are in a PID namespace or die with their parent."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def report(**fields: float) -> None:
    """Prints a line for the lab, which may be gone."""
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(fields), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
