import contextlib
import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.experiments.definition import RigSpec
from zonda_lab.rig import link
from zonda_lab.rig.host import drop_page_cache
from zonda_lab.rig.namespaces import CLIENT, CONGESTION, SERVER, Namespace, NamespaceNetwork
from zonda_lab.rig.procfs import cpu_s, descendants, own_cpu_s, thread_times, threads
from zonda_lab.servers.config import Endpoint

pytestmark = pytest.mark.usefixtures("namespaces")

LIMIT_S = 60.0  # for what may take long on a slow machine


def test_namespaces_reach_each_other_from_many_source_addresses() -> None:
    with NamespaceNetwork(RigSpec(), primaries=2) as rig:
        assert SERVER in rig.server.run("ip", "-brief", "address", "show", "dev", "server")
        assert CLIENT in rig.client.run("ip", "-brief", "address", "show", "dev", "client")
        assert "local 10.64.7.7" in rig.client.run("ip", "route", "get", "10.64.7.7")
        assert f"via {CLIENT}" in rig.server.run("ip", "route", "get", "10.64.7.7")


def test_packets_are_delayed_and_lost_with_or_without_netem() -> None:
    try:
        rig = NamespaceNetwork(RigSpec(delay_ms=20.0, loss_percent=20.0))
    except UnsupportedError as error:
        pytest.skip(str(error))
    with rig:
        assert "local 10.64.7.7" in rig.client.run("ip", "route", "get", "10.64.7.7")
        with rig.server.entered():
            answering = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        answering.bind((SERVER, 5300))
        answering.settimeout(1.0)
        asking = rig.client.udp_socket(Endpoint(SERVER, 5300))
        began = time.monotonic()
        for number in range(200):  # a default receive buffer holds them
            asking.send(number.to_bytes(2, "big"))
        arrived = [answering.recv(2)]
        assert 0.02 <= time.monotonic() - began < 0.2
        with contextlib.suppress(TimeoutError):
            while True:
                arrived.append(answering.recv(2))
        assert arrived == sorted(arrived)
        assert 125 < len(arrived) < 195  # 160 are expected, with a standard deviation of 6
        answering.close()
        asking.close()


def test_packets_longer_than_the_path_allows_are_lost_without_a_message() -> None:
    try:
        rig = NamespaceNetwork(RigSpec(path_mtu=1000, queues=4))
    except UnsupportedError as error:
        pytest.skip(str(error))
    with rig:
        with rig.server.entered():
            answering = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        answering.bind((SERVER, 5300))
        answering.settimeout(1.0)
        asking = rig.client.udp_socket(Endpoint(SERVER, 5300))
        headers = 28  # octets of IPv4 and UDP
        for length in (1000 - headers + 1, 1000 - headers):
            asking.send(bytes(length))
        assert len(answering.recv(2000)) == 1000 - headers
        assert "one receive queue instead of 4: that program has no more" in rig.notes
        answering.close()
        asking.close()


def test_a_link_program_that_cannot_start_says_why_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message must not always be that of a kernel without netem."""
    broken = tmp_path / "link.py"
    broken.write_text("raise SystemExit('No such device')\n")
    monkeypatch.setattr(link, "__file__", str(broken))
    message = r"\(only it drops long packets\): No such device\n  help: it needs /dev/net/tun"
    with pytest.raises(UnsupportedError, match=message):
        NamespaceNetwork(RigSpec(path_mtu=1000))


def test_connections_are_tracked_on_the_server_side_only() -> None:
    chain = "add table inet t; add chain inet t in { type filter hook input priority 0; };"
    try:
        rig = NamespaceNetwork(RigSpec(nftables=f"{chain} add rule inet t in ct state new accept"))
    except UnsupportedError as error:
        pytest.skip(str(error))
    with rig:
        asking = rig.client.udp_socket(Endpoint(SERVER, 5300))
        asking.send(b"?")
        tracked = [end.read_sysctl("net.netfilter.nf_conntrack_count") for end in (rig.server, rig.client)]
        assert tracked == ["1", "0"]
        asking.close()


@pytest.mark.parametrize(
    ("printed", "kind", "message"),
    [
        ("netlink: cache initialization failed: Operation not supported", UnsupportedError, "no nf_tables: `nft"),
        ("Unable to initialize Netlink socket: Protocol not supported", UnsupportedError, "no nf_tables: `nft"),
        ("Error: syntax error, unexpected string", LabError, "^`nft add nonsense` failed in the server names"),
    ],
)
def test_only_a_kernel_without_packet_filters_skips_a_treatment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, kind: type[LabError], message: str
) -> None:
    """A misspelled rule must not skip its treatment with the advice to install nftables."""
    program = tmp_path / "nft"
    program.write_text(f"#!/bin/sh\necho '{printed}' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(LabError, match=message) as caught:
        NamespaceNetwork(RigSpec(nftables="add nonsense"))
    assert type(caught.value) is kind


def test_a_missing_packet_filter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(UnsupportedError, match="no program nft to filter packets\n  help: install nftables"):
        NamespaceNetwork(RigSpec(nftables="add nonsense"))


def test_the_files_of_a_slow_link_bear_the_name_of_the_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next lab removes those of a killed one by their name."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    try:
        rig = NamespaceNetwork(RigSpec(delay_ms=1.0))
    except UnsupportedError as error:
        pytest.skip(str(error))
    with rig:
        found = [path.name for path in tmp_path.iterdir()]
        assert all(name.startswith(f"zonda-lab-{os.getpid()}-") for name in found), found
    assert not list(tmp_path.iterdir())


def test_settings_are_changed_inside_only() -> None:
    path = Path("/proc/sys/net/ipv4/tcp_sack")
    before = path.read_text()
    changed = 1 - int(before)
    with NamespaceNetwork(RigSpec(sysctl={"net.ipv4.tcp_sack": changed})) as rig:
        assert rig.server.read_sysctl("net.ipv4.tcp_sack") == str(changed)
        assert rig.client.read_sysctl("net.ipv4.tcp_sack") == "1"
        assert path.read_text() == before
    assert path.read_text() == before


def test_global_kernel_settings_are_not_changed() -> None:
    before = Path("/proc/sys/fs/nr_open").read_text()
    with NamespaceNetwork(RigSpec(sysctl={"net.ipv4.tcp_sack": 1, "fs.nr_open": 2_000_000})) as rig:
        assert rig.notes == ["not set, because it is not per namespace on this kernel: fs.nr_open"]
    assert Path("/proc/sys/fs/nr_open").read_text() == before
    with pytest.raises(UnsupportedError, match=r"not per namespace on this kernel: fs\.nr_open"):
        NamespaceNetwork(RigSpec(sysctl={"fs.nr_open": 2_000_000}))


def test_a_congestion_control_that_is_not_allowed_is_not_replaced_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Namespace, "sysctl", lambda *_: [CONGESTION])
    with pytest.raises(UnsupportedError, match="tcp_congestion_control"):
        NamespaceNetwork(RigSpec(sysctl={"net.ipv4.tcp_sack": 0, CONGESTION: "cubic"}))


def test_a_value_that_the_kernel_rejects_is_one_error_message() -> None:
    with pytest.raises(LabError, match=r"net\.ipv4\.tcp_sack = maybe: Invalid argument"):
        NamespaceNetwork(RigSpec(sysctl={"net.ipv4.tcp_sack": "maybe"}))


def test_a_failed_setup_leaves_nothing_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(LabError):
            NamespaceNetwork(RigSpec(sysctl={"net.ipv4.tcp_sack": "maybe"}))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_pages_are_dropped_from_the_cache(tmp_path: Path) -> None:
    file = tmp_path / "a zone"
    file.write_bytes(bytes(1 << 20))
    with NamespaceNetwork(RigSpec()) as rig:
        drop_page_cache(rig.server, tmp_path / "cold.txt", [file])
        cached = rig.server.run("fincore", "--bytes", "--noheadings", "--output", "RES", file)
    kind = subprocess.run(
        ["stat", "--file-system", "-c", "%T", file], capture_output=True, text=True, check=True
    ).stdout
    assert int(cached) == 0 or kind.strip() == "tmpfs"  # tmpfs keeps files only in the page cache


def test_a_process_is_measured_and_stopped_with_its_children(tmp_path: Path) -> None:
    script = "import os, time; os.fork(); x = bytearray(20_000_000); t = time.time()\nwhile time.time() < t + 30: pass"
    with NamespaceNetwork(RigSpec()) as rig:
        with rig.server.start("busy", [sys.executable, "-c", script], tmp_path / "log") as process:
            deadline = time.monotonic() + LIMIT_S
            while process.cpu_s() < 0.2 or len(process.pids()) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            pids = process.pids()
            assert len(pids) == 2
            assert process.memory().rss_kb > 30_000 and process.memory().pss_kb < process.memory().rss_kb
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
        dead = rig.server.start("dead", ["sh", "-c", "echo no such option; exit 3"], tmp_path / "log2")
        assert dead.wait(LIMIT_S)
        with pytest.raises(LabError, match="dead ended with status 3\n  its log ends: no such option"):
            dead.require_alive()


def test_cpu_time_includes_threads_and_children_that_have_ended() -> None:
    """A server that loads its zones in threads of their own must not seem to start in a seventh of its CPU time."""
    burn = "import time\ndef burn():\n t = time.thread_time()\n while time.thread_time() < t + 0.2: pass\n"
    script = (
        f"import os, resource, threading\n{burn}thread = threading.Thread(target=burn); thread.start(); thread.join()\n"
        "child = os.fork()\nif not child: burn(); os._exit(0)\nos.waitpid(child, 0)\n"
        "used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]\n"
        "print(sum(one.ru_utime + one.ru_stime for one in used), flush=True); input()"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        used_s = float(process.stdout.readline())
        measured_s = cpu_s([process.pid])
        assert used_s >= 0.4
        # Python may take any time to start. Thread and child take 0.2 s each: neither is missing or counted twice.
        assert abs(measured_s - used_s) < 0.1, (measured_s, used_s)
        assert abs(measured_s - own_cpu_s(process.pid) - 0.2) < 0.1, "without the child"
        process.communicate("\n")


def test_thread_times_are_of_the_threads_that_live() -> None:
    """What the threads that have ended used is the rest of the time of the process."""
    pid, living = os.getpid(), len(threads([os.getpid()]))

    def burn() -> None:
        while time.thread_time() < 0.2:
            pass

    def ended_s() -> float:
        return own_cpu_s(pid) - thread_times(pid).total() / 1e9

    before_s = ended_s()
    thread = threading.Thread(target=burn)
    thread.start()
    thread.join()
    deadline = time.monotonic() + LIMIT_S
    while len(threads([pid])) > living:  # it may live a little longer than its function
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert abs(ended_s() - before_s - 0.2) < 0.05
    assert thread_times(pid)[Path("/proc/self/comm").read_text().rstrip("\n")] > 0


def test_a_process_may_end_while_it_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may end after its /proc folder is listed: simulated by failing every listing."""

    def gone(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(os, "scandir", gone)
    monkeypatch.setattr(os, "listdir", gone)
    assert descendants(os.getpid()) == []
    assert thread_times(os.getpid()) == {}
    assert cpu_s([2**22 + 1]) == 0.0  # beyond the highest process id (proc(5))
