"""Floods of handshakes by processes of their own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

WARM_UP_S = 1.0


def client_hellos(port: int) -> list[object]:
    """Clients that send a ClientHello and nothing else."""
    return [sys.executable, "tls_attackers.py", str(port)]


@contextlib.contextmanager
def flooded(command: list[object]) -> Iterator[None]:
    """Attackers in a process of their own while the block runs."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    options = {"cwd": Path(__file__).parent, "env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **options) as attacker:
        try:
            time.sleep(WARM_UP_S)
            yield
            assert attacker.poll() is None, "the attackers have ended"
        finally:
            attacker.kill()
