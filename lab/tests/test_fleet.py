"""Several machines, simulated by network namespaces with an sshd each."""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import small_experiment
from ssh_hosts import ADDRESSES, Hosts, make

from zonda_lab.command import cli
from zonda_lab.doctor import fleet as fleet_doctor
from zonda_lab.errors import HostLostError, LabError, UnsupportedError
from zonda_lab.experiments.block_design import plan_starts
from zonda_lab.experiments.catalogue import load
from zonda_lab.experiments.definition import PrimarySpec, RigSpec, Settings
from zonda_lab.fleet import read, ssh
from zonda_lab.fleet.network import Fleet
from zonda_lab.fleet.remote_host import LOST
from zonda_lab.fleet.ssh import ConnectionLostError, SshConnection
from zonda_lab.load.zonda_load import ZondaLoad
from zonda_lab.results.folder import Results
from zonda_lab.rig.host import drop_page_cache
from zonda_lab.run.progress import Progress
from zonda_lab.run.runner import Runner
from zonda_lab.servers import ADAPTERS
from zonda_lab.servers.config import Endpoint

pytestmark = pytest.mark.usefixtures("namespaces")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    made = make(tmp_path_factory.mktemp("hosts"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def fleet(hosts: Hosts) -> Iterator[Fleet]:
    """Connected once; tests must not change it."""
    with hosts.lab.entered(), Fleet(read(hosts.inventory)) as connected:
        connected.connect()
        yield connected


@pytest.fixture
def lab(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zonda_load: ZondaLoad
) -> Iterator[Callable[..., int]]:
    """Runs the command line in the namespace of the lab, with the inventory as lab.toml."""
    monkeypatch.setenv("ZONDA_LOAD", str(zonda_load.program))
    monkeypatch.setattr(fleet_doctor, "WINDOW_S", 0.5)
    monkeypatch.setattr(fleet_doctor, "SINK", dataclasses.replace(fleet_doctor.SINK, rate=500.0))
    monkeypatch.chdir(tmp_path)
    Path("lab.toml").write_text(hosts.inventory.read_text())
    with hosts.lab.entered():
        yield lambda *arguments: cli.main(arguments)


def changed(hosts: Hosts, tmp_path: Path, old: str, new: str) -> Path:
    """The inventory with one change."""
    path = tmp_path / "other.toml"
    text = hosts.inventory.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def eventually(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)
    return true()


def traces(hosts: Hosts) -> set[str]:
    """Every process of a lab and every folder of a session, on all hosts."""
    return {
        f"{name}: {line}"
        for name in hosts.daemons
        for line in (
            *hosts.inside(name, "ps", "axwwo", "pid,args").splitlines(),
            *hosts.inside(name, "find", str(hosts.folder / "work"), "-name", "zonda-lab-*-*").splitlines(),
        )
        if any(sign in line for sign in ("zonda-lab", "sleep 300", "exec(eval(sys.stdin"))  # the last: an agent
    }


def test_a_run_records_all_machines_and_cleans_up(
    hosts: Hosts, lab: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    before = traces(hosts)
    Path("small.toml").write_text(small_experiment(rate=400, seconds=1.0))
    assert lab("run", "--quick", "E1", "--inventory", "lab.toml", "--dry-run") == 0
    lab("run", "small.toml", "--inventory", "lab.toml", "--out", "out")
    printed = capsys.readouterr()
    assert "report: out/report.html" in printed.out, printed.err
    results = Results(Path("out"))
    records = [record for record in results.records() if not record.skipped]
    assert records
    for record in records:
        assert record.metrics["answered_share"] >= 0.98  # on a busy machine the last answers come late
        assert record.metrics["sent_qps"] == pytest.approx(400, rel=0.02)
        assert record.metrics["cpu_us_per_query"] > 0 and record.metrics["rss_mb"] > 0.1
        assert 0 < record.metrics["first_answer_s"] < 5 and record.window[1] - record.window[0] > 1.0
    machines = results.manifest()["machines"]
    assert set(machines) == set(ADDRESSES)
    assert all(abs(machine["clock"]["offset_s"]) < 0.1 for machine in machines.values())
    assert eventually(lambda: traces(hosts) <= before)


def test_doctor_reports_every_machine(lab: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    lab("doctor", "--inventory", "lab.toml")
    printed = capsys.readouterr().out
    for name in ADDRESSES:
        assert f"{name}: monotonic clock " in printed and f"{name}: in " in printed
        assert (f"{name}: sends " in printed) == (f"{name}: a UDP echo gives it " in printed) == (name != "server")
    assert "of these queries arrive, by the kernel of server" in printed
    assert "load by zonda-load 0.1.0 on 2 players" in printed


def test_doctor_reports_every_unreachable_machine(
    hosts: Hosts, lab: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changed(hosts, tmp_path, '.11"\naddress', '.11:23"\naddress')
    assert lab("doctor", "--inventory", str(path)) == 1
    printed = capsys.readouterr().out
    assert (
        "bad     player1: root@10.77.0.11:23 cannot be reached: Connection refused\n        help: is it up" in printed
    )
    assert "good    server: " in printed and "good    player2: " in printed


def test_files_are_copied_once_and_after_each_change(hosts: Hosts, fleet: Fleet) -> None:
    folder = fleet.session / "zones"
    (folder / "empty").mkdir(parents=True)
    (folder / "a.zone").write_text("one")
    for text in ("one", "two"):
        (folder / "a.zone").write_text(text)
        fleet.server.place(folder)
        assert hosts.inside("server", "cat", str(folder / "a.zone")) == text
    inode = hosts.inside("server", "stat", "-c", "%i", str(folder / "a.zone"))
    os.utime(folder / "a.zone")
    fleet.server.place(folder)
    assert hosts.inside("server", "stat", "-c", "%i", str(folder / "a.zone")) == inode
    assert hosts.inside("server", "ls", str(folder)).split() == ["a.zone", "empty"]
    drop_page_cache(fleet.server, folder / "cold.txt", [folder / "a.zone"])
    assert hosts.inside("server", "cat", str(folder / "a.zone")) == "two"
    with pytest.raises(LabError, match="/etc/passwd is outside of"):
        fleet.server.place(Path("/etc/passwd"))
    fleet.server.clear()
    assert "zones" not in hosts.inside("server", "ls", str(fleet.session)).split()


def test_a_program_is_measured_signalled_and_stopped_with_its_children(fleet: Fleet) -> None:
    script = "import os, time; os.fork(); x = bytearray(20_000_000); t = time.time()\nwhile time.time() < t + 30: pass"
    player = fleet.players[0]
    with player.start("busy", [player.python, "-c", script], fleet.session / "busy.log", [1]) as program:
        assert eventually(lambda: program.cpu_s() > 0.2)
        assert program.memory().rss_kb > 30_000 and program.alive
        program.signal(signal.SIGKILL)  # kills the first process, and with it the whole tree
        assert program.wait(5) and program.status
    assert player.lab_cpu_s > 0.05
    dead = player.start("dead", ["sh", "-c", "echo no such option; exit 3"], fleet.session / "dead.log")
    assert dead.wait(5)
    with pytest.raises(LabError, match="dead ended with status 3\n  its log ends: no such option"):
        dead.require_alive()
    missing = player.start("missing", ["/no/such/program"], fleet.session / "missing.log")
    assert missing.wait(5) and "/no/such/program: No such file" in missing.tail()


def test_sockets_are_opened_on_the_remote_machine(fleet: Fleet) -> None:
    """The server listens only on loopback, which the lab cannot reach."""
    here = Endpoint("127.0.0.1", 5353)
    echo = (
        "import socket; u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 5353))\n"
        "t = socket.create_server(('127.0.0.1', 5353)); print('up', flush=True)\n"
        "for i in range(2): d, a = u.recvfrom(100); u.sendto(d, a)\n"
        "c, _ = t.accept(); c.sendall(c.recv(100))"
    )
    server = fleet.server
    with pytest.raises(ConnectionRefusedError):
        server.tcp_stream(here, 1.0)
    with server.start("echo", [server.python, "-c", echo], fleet.session / "echo.log") as program:
        assert eventually(lambda: "up" in program.tail())
        with server.udp_socket(here) as link:
            link.settimeout(5)
            for asked in (b"first", b"second"):
                link.send(asked)
                assert link.recv(100) == asked
        with server.tcp_stream(here, 5.0) as stream:
            stream.sendall(b"third")
            assert stream.recv(100) == b"third"


def test_missing_settings_are_reported_and_not_changed(fleet: Fleet) -> None:
    sack = fleet.server.read_sysctl("net.ipv4.tcp_sack")
    asked = Settings(rig=RigSpec(sysctl={"net.ipv4.tcp_sack": 1 - int(sack)}))
    with pytest.raises(UnsupportedError, match=r"there: sysctl -w net\.ipv4\.tcp_sack="), fleet.network(asked):
        pass
    assert fleet.server.read_sysctl("net.ipv4.tcp_sack") == sack
    with fleet.network(Settings(rig=RigSpec(sysctl={"net.ipv4.tcp_sack": sack}))):
        pass
    with pytest.raises(UnsupportedError, match="a delay is set in namespaces only"):
        fleet.network(Settings(rig=RigSpec(delay_ms=5.0))).__enter__()
    with pytest.raises(UnsupportedError, match="player1 has 1 of 4 addresses"):
        fleet.network(Settings(primary=PrimarySpec(name="nsd", addresses=4))).__enter__()
    with pytest.raises(UnsupportedError, match="server has no CPU 4096"):
        fleet.server.start("x", ["true"], fleet.session / "x.log", [4096])
    with pytest.raises(UnsupportedError, match="player1 has one source address only"):
        _ = fleet.players[0].sources


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('ssh = "root@10.77.0.12"', 'ssh = "root@10.77.0.99"', "player2: root@10.77.0.99 cannot be reached: "),
        ('ssh = "root@10.77.0.12"', 'ssh = "root@10.77.0.12:23"', "cannot be reached: Connection refused"),
        ('address = "10.77.0.2"', 'address = "10.77.0.3"', "server: root@10.77.0.2 has no address 10.77.0.3"),
        ("user", "host", "server: root@10.77.0.2 refuses "),
        ("known_hosts", "nobody_known", "other.toml: server: known-hosts: no file "),
        ("[server]", '[server]\npython = "python9"', "server: `python9` does not run"),
        ("[[player]]", '[[player]]\nsources = "10.64.0.0/14"', "there: ip route add local 10.64.0.0/14 dev lo"),
    ],
)
def test_an_unusable_machine_is_one_error_message(
    hosts: Hosts, tmp_path: Path, old: str, new: str, message: str
) -> None:
    inventory = changed(hosts, tmp_path, old, new)
    with hosts.lab.entered(), pytest.raises(LabError) as caught, Fleet(read(inventory)) as fleet:
        fleet.connect()
    assert message in str(caught.value)


def test_source_addresses_need_routes_at_both_ends(hosts: Hosts, tmp_path: Path) -> None:
    inventory = read(changed(hosts, tmp_path, '.11"\nidentity', '.11"\nsources = "10.64.0.0/14"\nidentity'))
    player, server = hosts.namespaces["player1"], hosts.namespaces["server"]
    player.run("ip", "route", "add", "local", "10.64.0.0/14", "dev", "lo")
    with hosts.lab.entered(), Fleet(inventory) as fleet:
        with pytest.raises(LabError, match=r"there: ip route add 10\.64\.0\.0/14 via 10\.77\.0\.11"):
            fleet.connect()
        server.run("ip", "route", "add", "10.64.0.0/14", "via", "10.77.0.11")
        fleet.connect()
        assert fleet.players[0].sources == "10.64.0.0/14"
    server.run("ip", "route", "delete", "10.64.0.0/14")


def test_an_unknown_or_wrong_host_key_is_rejected(hosts: Hosts, tmp_path: Path) -> None:
    known = tmp_path / "known"
    inventory = changed(hosts, tmp_path, str(hosts.folder / "known_hosts"), str(known))
    wrong = (hosts.folder / "user.pub").read_text().split()[1]
    for text, message in (
        ("", "its host key is not known"),
        (f"10.77.0.2 ssh-ed25519 {wrong}\n", "has another host key"),
    ):
        known.write_text(text)
        with hosts.lab.entered(), pytest.raises(HostLostError, match=message), Fleet(read(inventory)) as fleet:
            fleet.connect()


def test_a_silent_host_times_out_and_is_retried(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel acknowledges all data; without signs of life the lab would wait for an answer."""
    monkeypatch.setattr(ssh, "ALIVE_S", 1)
    call, stopped = SshConnection.call, list[str]()

    def call_when_stopped(self: SshConnection, function: str, *arguments: Any) -> Any:
        if self.spec.name == "player1" and not stopped:
            stopped.extend(sessions(hosts, "player1"))
            signal_all(hosts, "player1", "STOP", stopped)
        return call(self, function, *arguments)

    with hosts.lab.entered(), Fleet(read(hosts.inventory)) as fleet:
        monkeypatch.setattr(SshConnection, "call", call_when_stopped)
        fleet.connect()
        assert stopped and all(player.alive for player in fleet.players)
        signal_all(hosts, "player1", "KILL", stopped)
        stopped = sessions(hosts, "player1")
        signal_all(hosts, "player1", "STOP", stopped)
        with pytest.raises(ConnectionLostError, match=r"player1: the connection to root@10\.77\.0\.11 is lost"):
            fleet.players[0].run("true")
        signal_all(hosts, "player1", "KILL", stopped)


def signal_all(hosts: Hosts, name: str, signal_name: str, pids: list[str]) -> None:
    """Ignores processes that have ended."""
    hosts.inside(name, "sh", "-c", f'kill -{signal_name} "$@" 2>/dev/null || true', "sh", *pids)


def sessions(hosts: Hosts, name: str) -> list[str]:
    """The processes of sshd that serve a connection to a host."""
    lines = hosts.inside(name, "ps", "axwwo", "pid,args").splitlines()
    return [line.split()[0] for line in lines if "sshd: root" in line]


def test_a_killed_lab_leaves_nothing_on_any_machine(hosts: Hosts) -> None:
    """After SIGKILL, the agent on each machine must notice that the connection has ended."""
    script = f"""
import time
from pathlib import Path
from zonda_lab.fleet import read, ssh
from zonda_lab.fleet.network import Fleet
from zonda_lab.fleet.remote_host import LOST
fleet = Fleet(read(Path({str(hosts.inventory)!r}))).__enter__()
fleet.connect()
for machine in (fleet.server, *fleet.players):
    machine.start("sleeper", ["sh", "-c", "sleep 300 & sleep 300"], fleet.session / "log").pid
print("up", flush=True)
time.sleep(300)
"""
    command = hosts.lab.command([sys.executable, "-c", script])
    before = traces(hosts)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stdout.readline() == "up\n"
        assert len(traces(hosts) - before) > 3 * 3  # on each host the agent, the program, a folder
        running.kill()
    assert eventually(lambda: traces(hosts) <= before), traces(hosts) - before


def test_the_agent_ends_everything_when_the_lab_is_silent(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the network of the lab fails: the connection stays open, but nothing arrives."""
    monkeypatch.setattr(ssh, "BEAT_S", 3600.0)
    monkeypatch.setattr(ssh, "SILENCE_S", 2.0)
    with hosts.lab.entered(), Fleet(read(hosts.inventory)) as fleet:
        program = fleet.server.start("sleeper", ["sh", "-c", "sleep 300 & sleep 300"], fleet.session / "log")
        assert program.pid and session_of(fleet, hosts)
        assert program.wait(10) and program.status == LOST
        assert "the connection was lost while sleeper ran" in program.tail()
        assert eventually(lambda: not session_of(fleet, hosts)), session_of(fleet, hosts)


def session_of(fleet: Fleet, hosts: Hosts) -> set[str]:
    """The traces of the fleet's session and of its program."""
    return {line for line in traces(hosts) if fleet.session.name in line or "sleep 300" in line}


def test_a_lost_host_ends_the_run_with_one_message(hosts: Hosts, tmp_path: Path, zonda_load: ZondaLoad) -> None:
    (tmp_path / "long.toml").write_text(small_experiment(seconds=600))
    results, experiment = Results(tmp_path / "out"), load(tmp_path / "long.toml")
    results.create({"experiments": {}, "servers": {}})

    def switch_off() -> None:
        assert eventually(lambda: "--seconds 600" in hosts.inside("player2", "ps", "axwwo", "args"), 30)
        time.sleep(2.0)  # until the run is within the window
        hosts.stop("player2")

    began = time.monotonic()
    with hosts.lab.entered(), Fleet(read(hosts.inventory)) as fleet, Path(os.devnull).open("w") as quiet:
        installed = {"echo": fleet.installed(ADAPTERS["echo"])}
        fleet.equip(zonda_load)
        runner = Runner(results, installed, zonda_load, Progress(1.0, quiet), fleet.network)
        killer = threading.Thread(target=switch_off)
        killer.start()
        try:
            with pytest.raises(
                HostLostError, match=r"player2: root@10\.77\.0\.12 cannot be reached: Connection refused"
            ):
                runner.run(plan_starts(experiment, 1))
        finally:
            killer.join()
            hosts.start("player2")
    assert time.monotonic() - began < 300, "the window was waited for"
    assert results.finished() == set()
    assert eventually(lambda: not any("--seconds 600" in line for line in traces(hosts)))
