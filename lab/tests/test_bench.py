"""The programs in `bench/` share modules with one another and with the lab."""

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"


def test_importing_a_benchmark_runs_nothing() -> None:
    """`import memory` wrote a zone of a million delegations and started three servers."""
    modules = ", ".join(path.stem for path in sorted(BENCH.glob("*.py")))
    command = [sys.executable, "-c", f"import {modules}"]
    done = subprocess.run(command, cwd=BENCH, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
