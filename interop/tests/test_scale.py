"""A short form of `make scale`: one secondary with 2,000 zones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from servers import reserve_port

ROOT = Path(__file__).resolve().parent.parent.parent


def test_a_secondary_of_many_zones_transfers_refreshes_and_is_notified() -> None:
    programs = {"ZONDA": str(ROOT / "target/debug/zonda"), "ZONDA_LOAD": str(ROOT / "target/debug/zonda-load")}
    command = [sys.executable, str(ROOT / "bench/scale.py"), "2000", "--refresh-s", "5", "--probe-rate", "5000", "--notify-rate", "5000"]
    for _ in range(5):
        environment = {**os.environ, **programs, "PORTS": f"{reserve_port()} {reserve_port()}"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)
        # While the processor is taken away, zonda-load is late and says so.
        if "after their time" not in done.stderr:
            break
    else:
        pytest.skip("zonda-load was late in five runs: another program or the hypervisor takes the processor")
    assert done.returncode == 0, done.stdout + done.stderr
    # The steps wait for every zone; what is left to check is how many connections that took. The secondary closes one that is idle for
    # 10 ms, so that a slow machine needs more, one after the other. How many are open at once is for the secondary's own tests.
    connections = [int(number) for number in re.findall(r"(\d+) connections", done.stdout)]
    assert len(connections) == 2 and all(1 <= number <= 100 for number in connections), done.stdout
    soa_queries = int(re.search(r"(\d+) SOA queries, 2000 transfers in all", done.stdout)[1])
    assert soa_queries >= 1000, done.stdout
