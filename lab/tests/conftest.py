import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zonda_lab.errors import LabError
from zonda_lab.experiments import catalogue
from zonda_lab.experiments.definition import RigSpec
from zonda_lab.load.latency_histogram import LatencyHistogram, write_log
from zonda_lab.load.zonda_load import ZondaLoad
from zonda_lab.results.folder import FORMAT, Results
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.rig import machine_info
from zonda_lab.rig.namespaces import NamespaceNetwork
from zonda_lab.run.runner import described

Make = Callable[..., WindowRecord]
NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.002, 0.998, 1.003)  # of eight blocks
TARGET = Path(__file__).parents[2] / "target"
PROGRAMS = ("zonda", "zonda-load")
BUILDS = [TARGET / kind for kind in ("release", "debug") if all((TARGET / kind / name).exists() for name in PROGRAMS)]
BUILT = max(BUILDS, key=lambda folder: (folder / "zonda").stat().st_mtime, default=None)
# `zonda-load` with other members of its result: as on another machine, or in another hour.
ALTERED = """#!{python}
import json, subprocess, sys
running = subprocess.Popen([{program!r}, *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
for line in running.stdout:
    if '"stats_sum"' in line:
        found = json.loads(line)
        found["zonda"] |= {members!r}
        line = json.dumps(found) + "\\n"
    print(line, end="", flush=True)
sys.exit(running.wait())
"""


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Restores SIGINT, which is ignored in tests started in the background of a script, and in their children."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def small_experiment(
    server: str = "echo",
    rate: object = 200,
    blocks: int = 1,
    seconds: float = 0.5,
    retries: int = 0,
    metric: str = "answered_share",
    baseline: str = "",
    options: str = "",
) -> str:
    """The text of a short experiment with two treatments; `options` are options of the echo."""
    return f"""
id = "T1"
name = "small"
title = "A test"
[server.options]
echo = [{options}]
[zones]
shape = "root"
records = 20
[queries]
count = 200
[traffic]
rate = {rate}
[timing]
blocks = {blocks}
seconds = {seconds}
warm-up-s = 0.0
retries = {retries}
[factors]
"server.name" = ["{server}"]
kind = {{ one = {{}}, other = {{}} }}
[analysis]
metric = "{metric}"
metrics = ["answered_share", "sent_qps", "latency_p50_us"]
compare = "kind"
baseline = "{baseline}"
plots = ["boxes", "time", "latency"]
"""


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Uses an empty cache for zones, and queries in each run of the tests."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["XDG_CACHE_HOME"] = str(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def own_program() -> None:
    """Uses the load generator of this tree, also as the server echo."""
    if BUILT is not None:
        os.environ["ZONDA_LOAD"] = str(BUILT / "zonda-load")


@pytest.fixture(scope="session")
def zonda_load() -> ZondaLoad:
    """The load generator of this tree."""
    if BUILT is None:
        pytest.skip("needs zonda and zonda-load: cargo build")
    return ZondaLoad(BUILT / "zonda-load")


@pytest.fixture
def altered(zonda_load: ZondaLoad, tmp_path: Path) -> Callable[..., ZondaLoad]:
    """Makes the load generator report other values: `altered(busy=0.95)`."""

    def made(**members: object) -> ZondaLoad:
        program = tmp_path / "bin" / "zonda-load"
        program.parent.mkdir()
        program.write_text(ALTERED.format(python=sys.executable, program=str(zonda_load.program), members=members))
        program.chmod(0o755)
        return ZondaLoad(program)

    return made


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skips if the kernel does not allow network namespaces."""
    packages = {"ip": "iproute2"} | dict.fromkeys(("nsenter", "unshare", "setpriv", "taskset"), "util-linux")
    for tool, package in packages.items():
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed (help: apt-get install {package})")
    try:
        NamespaceNetwork(RigSpec()).close()
    except LabError as error:
        pytest.skip(str(error).splitlines()[0])


@pytest.fixture
def lab(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line as a user does."""

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "zonda_lab", *arguments]
        options = {"capture_output": True, "text": True, "cwd": tmp_path, "timeout": 300} | options
        return subprocess.run(command, check=False, **options)

    return run


def window(
    block: int, copy: int = 0, experiment: str = "E1", within: dict[str, str] | None = None, **given: object
) -> WindowRecord:
    """A synthetic window: `window(block, server="nsd", cpu_us_per_query=3.0)`."""
    levels = {key: str(value) for key, value in given.items() if isinstance(value, str)}
    metrics = {key: float(value) for key, value in given.items() if isinstance(value, int | float)}
    treatment = {"server.name": levels.pop("server", "nsd"), **levels}
    start, server = f"{experiment}/{block}/{treatment}/{copy}", {"label": treatment["server.name"]}
    return WindowRecord(experiment, start, block, 0, treatment, copy, within or {}, metrics=metrics, server=server)


@pytest.fixture
def make_record() -> Make:
    return window


def blocks(
    make_record: Make, ratios: dict[str, float], n: int = 12, noise: float = 0.01, seed: int = 3
) -> list[WindowRecord]:
    """Interleaved starts on a machine that drifts by 30 %; the baseline twice."""
    draw = np.random.default_rng(seed)
    records = []
    for block in range(n):
        machine = draw.lognormal(0, 0.3)
        for server, ratio in {**ratios, "nsd": 1.0}.items():
            for copy in (0, 1) if server == "nsd" else (0,):
                value = 3.0 * machine * ratio * draw.lognormal(0, noise)
                records.append(make_record(block, copy, server=server, cpu_us_per_query=value))
    return records


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Synthetic windows for all kinds of plots: curve, peaks, lines, boxes, latency, arrivals."""
    folder = tmp_path_factory.mktemp("results")
    chosen = [
        catalogue.load(path, quick=True)
        for path in catalogue.files()
        if path.stem[:3] in ("e01", "e02", "e12", "e16", "e21")
    ]
    results = Results(folder / "made")
    servers = {label: {"kind": label, "version": "1.0", "sha256": "0" * 64} for label in ("nsd", "knot")}
    results.create(
        {
            "format": FORMAT,
            "options": {"quick": True, "server": ["nsd=/some/where/nsd"]},
            "machine": machine_info.describe(),
            "generator": {"name": "zonda-load", "version": "0.1"},
            "began": "2026-01-01T00:00:00+00:00",
            "servers": servers,
            "absent": {label: f"{label}: no program {label}\n  give its path" for label in ("bind", "zonda")},
            "experiments": {e.id: described(e) for e in chosen},
        }
    )
    draw = np.random.default_rng(5)
    for block in range(4):
        for name, speed in (("nsd", 1.0), ("knot", 1.1)):
            for record in windows(block, name, speed, draw, results.folder):
                results.append(record)
    skipped = window(0, experiment="E16", server="bind", setting="qdisc fq")
    skipped.skipped, skipped.valid = "this kernel cannot do qdisc fq", False
    results.append(skipped)
    return results


def windows(block: int, name: str, speed: float, draw: np.random.Generator, folder: Path) -> list[WindowRecord]:
    """Those of one block of a server that needs `speed` times the CPU time of NSD."""

    def add(experiment: str, within: dict[str, str] | None = None, **given: Any) -> WindowRecord:
        record = window(block, experiment=experiment, within=within, **{"server": name, **given})
        record.metrics = {metric: value * draw.lognormal(0, 0.01) for metric, value in record.metrics.items()}
        found.append(record)
        return record

    found: list[WindowRecord] = []
    for rate in (20_000, 80_000, 200_000):
        record = add("E1", {"traffic.rate": str(rate)}, sent_qps=rate, cpu_us_per_query=3 * speed)
        record.metrics["answered_share"] = min(1.0, 100_000 / speed / rate)
        record.saturated = [[0.4, "server: thread nsd uses its whole core"]]
    add("E2", **{f"peak_{goal}_qps": 100_000 / speed for goal in ("100", "9999", "999", "99")}, first_loss_qps=90_000)
    for zones in (250, 1000):
        times = {"transfer_s": zones / 1000 * speed, "zones_per_s": 1000 / speed}
        record = add("E12", **{"zones.zones": str(zones)}, **times)
        record.detail["arrivals"] = [[0.1, 1], [zones / 1000, zones]]
        record.predictions = {"transfer_s": 60.0 if zones == 1000 else 0.0, "connections_per_s": 470.5}
    for setting in ("default", "sack 1 (the default)", "tso_win_divisor 1"):
        for level in ("20,000 q/s", "full load"):
            costs = {"cpu_us_per_query": 18 * speed, "latency_mean_us": 200 * speed, "answered_qps": 50_000}
            record = add("E16", {"load": level}, server="bind", setting=setting, **costs)
            record.block = block * 2 + (name == "knot")
    record.latency_reasons = ["the generator was 2000 µs off its schedule (99 %), 100 µs are allowed"]
    latency = LatencyHistogram()
    for value in draw.lognormal(4, 0.3, 500):
        latency.add(float(value))
    record = add("E21", **{"traffic.transport": "udp"}, cpu_us_per_query=3.0, latency_p50_us=55.0)
    record.files["latency"] = f"hdr/{name}-{block}.hlog"
    write_log(folder / record.files["latency"], 0.0, 1.0, {"intended": latency.encoded(), "actual": latency.encoded()})
    record = add("E21", **{"traffic.transport": "tcp"}, cpu_us_per_query=3.0)
    record.valid, record.reasons = False, ["the hypervisor took 5.0% of the CPU time"]
    return found
