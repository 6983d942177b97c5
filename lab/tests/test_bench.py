"""The programs in `bench/` share modules with one another and with the lab."""

import os
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"


def test_importing_a_benchmark_runs_nothing() -> None:
    """`import memory` must not write a zone of a million delegations, nor start servers."""
    modules = ", ".join(path.stem for path in sorted(BENCH.glob("*.py")))
    command = [sys.executable, "-c", f"import {modules}"]
    done = subprocess.run(command, cwd=BENCH, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def run(code: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Runs Python code in the folder of the benchmarks."""
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=BENCH, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_an_unknown_server_is_one_message_before_the_zone_is_written() -> None:
    """`memory.py nsdd` must not write a zone of a million delegations first, nor end with a KeyError."""
    done = run("import sys, memory; sys.argv = ['memory.py', 'nsdd']; memory.main()")
    assert done.returncode == 1 and done.stderr.startswith("no server nsdd; help: the lab knows "), done.stderr
    assert not done.stdout


def test_a_void_result_is_read_where_it_may_be_void(tmp_path: Path) -> None:
    """`scale.py` must print its table even if a few of a million NOTIFYs leave late."""
    program = tmp_path / "zonda-load"
    line = '{"type": "stats_sum", "responses": 7, "zonda": {"invalid_because": ["2 of 9 queries left late"]}}'
    program.write_text(f"#!/bin/sh\necho '{line}'\necho 'invalid because of that' >&2\nexit 3\n")
    program.chmod(0o755)
    lines = ["import argparse, pathlib, scale, server_process", "given = argparse.Namespace(zones=9, notify_rate=1)"]
    noted = run("; ".join([*lines, "print(scale.notify(pathlib.Path(), given))"]), ZONDA_LOAD=str(program))
    assert noted.stdout == "7 of 9 NOTIFYs answered, void: 2 of 9 queries left late\n", noted.stderr
    strict = run("; ".join([*lines, "server_process.load_result(['probe'])"]), ZONDA_LOAD=str(program))
    assert strict.returncode == 1 and "invalid because of that" in strict.stderr
