"""The instruments of the rig: sockets of running servers, kernel memory, marks of telemetry, captures, both limits."""

import dataclasses
import json
import lzma
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.experiments.definition import QuerySpec, RigSpec, ServerSpec, Settings, TimingSpec, TrafficSpec, ZoneSpec
from zonda_lab.load.result import LoadResult
from zonda_lab.load.zonda_load import ZondaLoad
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.validity import rig_bound
from zonda_lab.rig import kernel_memory, server_sockets
from zonda_lab.rig.namespaces import NamespaceNetwork
from zonda_lab.rig.process import OWN_TREE, YIELDING, Process
from zonda_lab.rig.procfs import descendants
from zonda_lab.run.rig_limits import as_echo, rig_key, traffic_key
from zonda_lab.servers import ADAPTERS
from zonda_lab.servers.config import Endpoint, Remote, ServerConfig, Zone, ZonePolicy
from zonda_lab.telemetry.collector import TelemetryCollector
from zonda_lab.telemetry.sampler import NetCounters, Sampler
from zonda_lab.zones import captures

README = Path(__file__).parents[1] / "README.md"
REAL = [name for name in ADAPTERS if name not in ("echo", "sink", "null-primary")]
SERVER = """
import socket, sys, time
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(("127.0.0.1", 0))
tcp = socket.socket(); tcp.bind(("127.0.0.1", 0)); tcp.listen(7)
print(tcp.getsockname()[1], flush=True); time.sleep(300)
"""


def test_buffers_and_backlogs_of_a_running_server_are_changed() -> None:
    if not shutil.which("ss"):
        pytest.skip("ss is not installed (help: apt-get install iproute2)")
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            command = [sys.executable, server_sockets.__file__, str(server.pid)]
            changed = [*command, "--receive-buffer", "400000", "--backlog", "50"]
            first = [json.loads(line) for line in subprocess.check_output(changed, text=True).splitlines()]
            again = [json.loads(line) for line in subprocess.check_output(command, text=True).splitlines()]
            limit = subprocess.check_output(["ss", "-Hltn", f"sport = :{port}"], text=True).split()[2]
        finally:
            server.kill()
    (udp,) = [found for found in first if found["kind"] == "udp"]
    (tcp,) = [found for found in again if found["kind"] == "tcp"]
    assert udp["receive_buffer"] == 400_000 != udp["own_receive_buffer"]
    assert tcp["port"] == port and tcp["listens"] and limit == "50"
    assert [found["receive_buffer"] for found in again if found["kind"] == "udp"] == [400_000]


def test_kernel_memory_is_that_of_the_caches_of_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages have 64 KiB on some machines, and must not be taken for 4 KiB everywhere."""
    monkeypatch.setattr(kernel_memory.os, "sysconf", {"SC_PAGE_SIZE": 65_536}.get)
    slab, memory = tmp_path / "slabinfo", tmp_path / "sockstat"
    slab.write_text(
        "slabinfo - 2.1\n# name\nTCP 10 20 2368 13 8 : x\nxfs_inode 500 500 1000 1 1 : x\nfilp 4 4 192 1 1 : x\n"
    )
    memory.write_text("sockets: used 9\nTCP: inuse 5 orphan 0 tw 0 alloc 6 mem 3\n")
    assert kernel_memory.slab_octets(slab) == 10 * 2368 + 4 * 192
    assert kernel_memory.buffer_octets(memory) == 3 * 65_536


def test_without_root_the_memory_of_connections_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not be that of the whole system, in which connections are a small part of what changes."""

    def refused(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", refused)
    assert kernel_memory.slab_octets() is None


def test_an_open_connection_needs_some_kilobytes_in_the_kernel() -> None:
    if not Path("/proc/slabinfo").exists() or not _is_readable(Path("/proc/slabinfo")):
        pytest.skip("/proc/slabinfo is not readable (help: run as root)")
    count, opened = 300, []
    with socket.create_server(("127.0.0.1", 0), backlog=count) as listener:
        before = kernel_memory.slab_octets() or 0
        for _ in range(count):
            opened += [socket.create_connection(listener.getsockname()), listener.accept()[0]]
        used = ((kernel_memory.slab_octets() or 0) - before) / count
    for link in opened:
        link.close()
    assert 4_000 < used < 40_000  # both ends; other programs open connections, too


def _is_readable(path: Path) -> bool:
    try:
        path.read_text()
    except PermissionError:
        return False
    return True


def test_captures_are_found_unpacked_and_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packets = b"".join(struct.pack("<4I", 100 + i, 500_000 * (i % 2), 2, 2) + b"ab" for i in range(4))
    packed = tmp_path / "some.pcap.xz"
    packed.write_bytes(lzma.compress(struct.pack("<I5I", 0xA1B2C3D4, 0, 0, 0, 65535, 1) + packets))
    monkeypatch.setenv(captures.FOLDER_VARIABLE, str(tmp_path))
    plain = captures.unpacked(captures.find("some.pcap.xz"), tmp_path)
    assert captures.duration_s(plain) == pytest.approx(3.5)
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(plain.read_bytes() + bytes(9))  # the beginning of another frame, as when the disk was full
    assert captures.duration_s(cut) == pytest.approx(3.5)
    with pytest.raises(UnsupportedError, match=r"other\.pcap: no such capture"):
        captures.find("other.pcap")
    (tmp_path / "no.pcap").write_text("this is no capture")
    with pytest.raises(LabError, match="not a capture"):
        captures.duration_s(tmp_path / "no.pcap")


def test_a_closed_loop_is_rig_bound_if_the_generator_is_busy() -> None:
    busy = LoadResult(100, 100, 1.0, busy=0.97)
    assert rig_bound(busy, closed=True) == "a thread of the generator was 97% busy"
    assert rig_bound(busy, closed=False) == rig_bound(LoadResult(100, 100, 1.0, busy=0.5), closed=True) == ""


def test_limits_are_those_of_the_rig_and_of_the_traffic() -> None:
    def settings(**traffic: object) -> Settings:
        return Settings(traffic=TrafficSpec(**traffic))  # type: ignore[arg-type]

    plain = settings(rate=100.0)
    assert rig_key(plain) == rig_key(settings(rate="50% of echo")) == rig_key(settings(loop="closed", outstanding=7))
    assert rig_key(plain) != rig_key(settings(transport="tcp"))
    assert as_echo(settings(rate="50%")).traffic.rate == "50% of echo"
    assert traffic_key(as_echo(settings(rate="50%"))) == traffic_key(settings(rate="50%")) != traffic_key(plain)


@pytest.mark.usefixtures("namespaces")
def test_rates_are_shares_of_the_echo_server(zonda_load: ZondaLoad) -> None:
    settings = Settings(
        server=ServerSpec("echo"),
        zones=ZoneSpec("flat", records=10),
        queries=QuerySpec(count=100),
        traffic=TrafficSpec(rate="25% of echo"),
        timing=TimingSpec(seconds=0.2),
    )
    installed = {"echo": ADAPTERS["echo"].installed()}
    with Harness(settings, installed, zonda_load, echo_qps=lambda _: 1000.0) as harness:
        server = harness.start_server()
        harness.wait_ready(server)
        assert harness.load.rate(settings, server) == 250.0
        with harness.span(server) as span:
            pass
        assert len(harness.observer.observed(span).samples) >= 2  # even in the shortest window
    with (
        Harness(settings, installed, zonda_load) as unmeasured,
        pytest.raises(LabError, match="without a measured echo server"),
    ):
        unmeasured.load.rate(settings, server)


@pytest.mark.parametrize("name", REAL)
def test_what_is_tuned_has_a_reason_and_is_not_in_the_defaults(name: str, tmp_path: Path) -> None:
    received, loaded = Zone("a.test.", policy=ZonePolicy((Remote("10.53.1.9"),))), Zone("b.test.", tmp_path / "b.zone")
    tuned = ServerConfig(tmp_path, Endpoint("10.53.0.2"), (received, loaded))
    plain = dataclasses.replace(tuned, tuned=False)
    adapter = ADAPTERS[name]
    written, as_installed = ("".join(adapter.files(config).values()) for config in (tuned, plain))
    for line in adapter.tuning(tuned):
        assert line.text in written and line.why
        assert line.text not in as_installed
    alone = dataclasses.replace(tuned, zones=(loaded,))
    assert all(line.text in "".join(adapter.files(alone).values()) for line in adapter.tuning(alone))
    for line in adapter.in_both:
        assert line.text in written and line.text in as_installed
        assert f"`{line.text}` | {line.why} |" in README.read_text()


class CountedZones(tuple[Zone, ...]):
    """The zones of a configuration, which count how often all are read."""

    readings = 0

    def __iter__(self) -> Iterator[Zone]:
        type(self).readings += 1
        return super().__iter__()


@pytest.mark.parametrize("name", REAL)
def test_a_configuration_does_not_read_all_zones_for_each(name: str, tmp_path: Path) -> None:
    policy = ZonePolicy((Remote("10.53.0.3"),))
    zones = CountedZones(Zone(f"z{number}.example.", policy=policy) for number in range(100))
    CountedZones.readings = 0
    ADAPTERS[name].files(ServerConfig(tmp_path, Endpoint("10.53.0.2"), zones))
    assert CountedZones.readings < 10


def test_a_yielding_program_leaves_the_cpu_to_a_busy_one_of_another_session(tmp_path: Path) -> None:
    spin = [*OWN_TREE, "taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
    loop = [sys.executable, "-c", "while True: pass"]
    with (
        Process("busy", [*spin, *loop], tmp_path / "busy.log") as busy,
        Process("yielding", [*spin, *YIELDING, *loop], tmp_path / "yielding.log") as yielding,
    ):
        time.sleep(0.5)
        before = busy.cpu_s(), yielding.cpu_s()
        time.sleep(1.5)
        used = busy.cpu_s() - before[0], yielding.cpu_s() - before[1]
    assert used[1] < 0.3 * used[0], used


def test_the_sampler_keeps_files_open_as_long_as_their_processes_live(tmp_path: Path) -> None:
    labels = tmp_path / "labels.json"
    sampling = Sampler(labels, {"host": ""})
    # Not this process: its threads, which the test runner and earlier tests started, may end meanwhile.
    spin = [sys.executable, "-c", "print(flush=True)\nfor _ in range(10**9): pass"]
    with subprocess.Popen(["sleep", "60"]) as server, subprocess.Popen(spin, stdout=subprocess.PIPE) as busy:
        assert busy.stdout and busy.stdout.readline()
        labels.write_text(json.dumps({"server": server.pid, "busy": busy.pid}))
        first, later = sampling.sample(0.0, edge=True), sampling.sample(0.0)
        opened = len(list(Path("/proc/self/fd").iterdir()))
        assert sampling.sample(0.0)["net"].keys() == later["net"].keys() == {"host"}
        assert len(list(Path("/proc/self/fd").iterdir())) == opened, "nothing is opened again"
        server.kill()
        server.wait()
        time.sleep(0.2)  # the kernel counts a thread's time at ticks, and when it leaves the CPU
        last = sampling.sample(0.0)
        busy.kill()
    assert len(list(Path("/proc/self/fd").iterdir())) < opened, "files of a process that is gone are closed"
    thread = str(server.pid)
    assert first["processes"]["server"]["names"] == {thread: "sleep"} and "names" not in later["processes"]["server"]
    assert later["processes"]["server"]["threads"].keys() == {thread} and not last["processes"]["server"]["threads"]
    used = [sample["processes"]["busy"] for sample in (first, last)]
    assert used[0]["rss_kb"] > 5_000 and used[1]["threads"][str(busy.pid)] > used[0]["threads"][str(busy.pid)] > 0


@pytest.mark.usefixtures("namespaces")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
def test_telemetry_does_not_run_on_the_cpu_of_the_server(tmp_path: Path) -> None:
    """On that of the server, the time of the server's CPUs would contain its own."""
    with NamespaceNetwork(RigSpec(server_cpus=[0], load_cpus=[1])) as rig:
        collector = TelemetryCollector(rig.telemetry_targets[0], tmp_path / "telemetry")
        with collector.start() as sampler:
            collector.mark()
            collector.wait_for_mark()
            assert {frozenset(os.sched_getaffinity(pid)) for pid in descendants(sampler.pid)} == {frozenset({1})}


def test_counters_are_found_when_other_protocols_begin(tmp_path: Path) -> None:
    counters, file = NetCounters(), tmp_path / "snmp"
    file.write_text("Ip: Forwarding\nIp: 1\nUdp: InDatagrams InErrors\nUdp: 5 0\n")
    counters.files["snmp"] = os.open(file, os.O_RDONLY)
    assert counters.read()["Udp.InDatagrams"] == 5
    file.write_text("Ip: Forwarding\nIp: 1\nIcmpMsg: InType3\nIcmpMsg: 1\nUdp: InDatagrams InErrors\nUdp: 7 1\n")
    found = counters.read()
    assert (found["Udp.InDatagrams"], found["Udp.InErrors"]) == (7, 1)
