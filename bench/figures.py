#!/usr/bin/env python3
"""Compare instructions per answer and memory per record with the committed figures (bench/figures.json).

usage: figures.py [--update]

Instructions per answer are the difference of two callgrind runs, so that loading does not count; octets come from
`cargo bench -p zonda-zone -- sizes`. Both are independent of the load of the machine but depend on compiler and C
library, so the committed file names its compiler. Exit status 1 if a figure is more than TOLERANCE worse than the
committed one; if it is better by as much, run with --update.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "figures.json"
SCENARIOS = ("root referral", "referral", "nxdomain", "positive", "nsec3 denial")
FEW, MANY = 2_000, 12_000
TOLERANCE = 0.05


def main() -> int:
    measured = {**octets(), **instructions()}
    if "--update" in sys.argv[1:]:
        FIGURES.write_text(json.dumps({"compiler": compiler(), "figures": measured}, indent=2) + "\n")
    committed = json.loads(FIGURES.read_text())
    if committed["compiler"] != compiler():
        print(f"note: the committed figures are of {committed['compiler']}, this is {compiler()}")
    return 1 if compare(committed["figures"], measured) else 0


def compare(committed: dict[str, float], measured: dict[str, float]) -> int:
    """Prints a table and returns how many figures are worse."""
    worse = 0
    print(f"{'figure':42}{'committed':>12}{'measured':>12}{'change':>9}")
    for name, value in measured.items():
        before = committed.get(name)
        change = value / before - 1 if before else 0.0
        mark = "  WORSE" if change > TOLERANCE else "  better: --update" if change < -TOLERANCE else ""
        worse += change > TOLERANCE
        print(f"{name:42}{before if before is not None else '-':>12}{value:>12}{change:>+9.1%}{mark}")
    return worse


def octets() -> dict[str, float]:
    out = run("cargo", "bench", "--locked", "-q", "-p", "zonda-zone", "--bench", "store", "--", "sizes")
    rows = re.findall(r"^([^#\n]+?) {2,}([\d.]+)$", out, re.MULTILINE)
    return {name: float(value) for name, value in rows}


def instructions() -> dict[str, float]:
    if not shutil.which("valgrind"):
        print("valgrind is not installed: instructions are not counted")
        return {}
    program = bench_program()
    return {f"{name}, instructions": per_answer(program, name) for name in SCENARIOS}


def per_answer(program: str, scenario: str) -> float:
    few, many = (collected(program, scenario, count) for count in (FEW, MANY))
    return round((many - few) / (MANY - FEW))


def collected(program: str, scenario: str, count: int) -> int:
    command = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, scenario, str(count))
    err = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    found = re.search(r"Collected : (\d+)", err)
    assert found, err
    return int(found[1])


def bench_program() -> str:
    command = ("cargo", "bench", "--locked", "-p", "zonda-answer", "--bench", "respond", "--no-run", "--message-format=json")
    messages = (json.loads(line) for line in run(*command).splitlines())
    return next(m["executable"] for m in messages if m.get("executable") and m["target"]["name"] == "respond")


def compiler() -> str:
    return run("rustc", "--version").strip()


def run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent).stdout


if __name__ == "__main__":
    sys.exit(main())
