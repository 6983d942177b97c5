"""Attacks by local users: links in the state-dir, full pipes, descriptor limits, odd files and configurations."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import termios
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import dns.message
import dns.query
import dns.rcode
import pytest

from daemon import HOST, Daemon, framed_query, limit_descriptors, program, repeated

SMALL_PIPE = 4096
FEW_DESCRIPTORS = 256
CONTROL_THREADS = 8

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start as root and become another user")


# ---------- the state-dir ----------


class Privileged:
    """A server started as root that switches to `nobody`, and files of both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.user = pwd.getpwnam("nobody").pw_uid
        self.precious = folder / "precious"
        self.precious.write_text("precious\n")
        self.precious.chmod(0o600)

    def own(self, path: Path) -> Path:
        """A folder that belongs to `nobody`."""
        path.mkdir()
        os.chown(path, self.user, -1)
        return path

    def run_with(self, state_dir: Path) -> None:
        """Starts with this state-dir, then stops the server, whether it started or refused to."""
        server = Daemon(self.folder, server='user = "nobody"')
        server.state_dir = state_dir
        server.config.write_text(server.config.read_text().replace(str(self.folder / "state"), str(state_dir)))
        with contextlib.suppress(AssertionError):
            server.start()
        server.stop()

    def check_precious(self) -> None:
        assert self.precious.read_text() == "precious\n"
        assert self.precious.stat().st_uid == 0


@pytest.fixture
def privileged() -> Iterator[Privileged]:
    # Only root can enter the folder that pytest creates.
    folder = Path(tempfile.mkdtemp(prefix="zonda-attack-"))
    folder.chmod(0o755)
    yield Privileged(folder)
    shutil.rmtree(folder)


@needs_root
@pytest.mark.parametrize("name", ["lock", "control.sock"])
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_links_in_the_state_dir_do_not_change_files_of_root(privileged, name, link):
    state_dir = privileged.own(privileged.folder / "theirs")
    link(privileged.precious, state_dir / name)
    privileged.run_with(state_dir)
    privileged.check_precious()


@needs_root
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_above_the_state_dir_does_not_change_the_owner_of_a_folder(privileged, exists):
    secrets = privileged.folder / "secrets"
    secrets.mkdir(mode=0o755)
    if exists:
        (secrets / "state").mkdir()
    home = privileged.own(privileged.folder / "home")
    (home / "link").symlink_to(secrets)
    privileged.run_with(home / "link" / "state")
    assert (secrets / "state").exists() == exists
    assert not exists or (secrets / "state").stat().st_uid == 0


@needs_root
def test_a_state_dir_that_is_a_link_is_not_followed(privileged):
    secrets = privileged.folder / "secrets"
    secrets.mkdir(mode=0o755)
    home = privileged.own(privileged.folder / "home")
    (home / "state").symlink_to(secrets)
    privileged.run_with(home / "state")
    assert secrets.stat().st_uid == 0
    assert not list(secrets.iterdir())


@needs_root
def test_the_help_for_a_state_dir_that_cannot_be_written_fits_the_error(privileged):
    """No space has to be freed if a permission is missing."""
    state_dir = privileged.own(privileged.folder / "state")
    server = Daemon(privileged.folder, server='user = "nobody"').start()
    os.chown(state_dir, 0, 0)
    result = server.run("zone", "freeze", "example")
    server.stop()
    assert result.returncode != 0
    assert f"let user {privileged.user}, which zonda runs as, own the state-dir or write to it" in result.stderr
    assert "then repeat the command" in result.stderr
    assert "space" not in result.stderr + server.log_text()


@needs_root
@pytest.mark.parametrize("may_control", [False, True])
def test_other_users_control_the_server_only_as_members_of_its_group(privileged, may_control):
    state_dir = privileged.own(privileged.folder / "state")
    group = pwd.getpwnam("nobody").pw_gid
    os.chown(state_dir, privileged.user, group)
    settings = f'user = "nobody"\ncontrol-by-group = {str(may_control).lower()}'
    server = Daemon(privileged.folder, server=settings).start()
    command = [program(), "zone", "status", "--state-dir", state_dir]

    def is_served(of: int) -> bool:
        # A user without an account.
        done = subprocess.run(command, capture_output=True, text=True, check=False, user=54321, group=of, extra_groups=[])
        assert done.returncode == 0 or "Permission denied" in done.stderr, done.stderr
        return done.returncode == 0

    others = [is_served(54321), is_served(group)]
    server.stop()
    assert others == [False, may_control]


# ---------- the log ----------


def test_an_unread_log_does_not_block_the_server(daemon):
    server = daemon()
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, SMALL_PIPE)
    server.start(stderr=writer)
    os.close(writer)
    for _ in range(25):
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.01)
        query = dns.message.make_query("example.", "AXFR")
        dns.query.tcp(query, HOST, timeout=5, port=server.port)
    assert server.ask("www.example.", tcp=True).rcode() == dns.rcode.NOERROR
    assert server.reload(timeout_s=5).returncode == 0
    assert server.stop(timeout_s=8) == 0, "SIGTERM did not stop it"
    os.close(reader)


@pytest.mark.slow
def test_dropped_log_lines_are_counted(daemon):
    server = daemon()
    # Every load logs that these files are missing, with their long paths: of more zones it would log a part only.
    absent = "/".join(["absent"] + ["x" * 250] * 13)
    zones = "".join(f'[[zone]]\nname = "z{number}"\nfile = "{absent}/{number}"\n' for number in range(100))
    server.configure(zones)
    reader, writer = os.pipe()
    server.start(stderr=writer)
    os.close(writer)
    reloads = 40  # each logs 355 KB, and 8 MiB may wait
    for _ in range(reloads - 1):
        assert server.reload(timeout_s=60).returncode == 1
    read = threading.Thread(target=lambda: server.log.write_bytes(Path(f"/dev/fd/{reader}").read_bytes()))
    read.start()
    # Half of what waits must be written before more lines are taken.
    server.wait_until(lambda: fcntl.ioctl(reader, termios.FIONREAD, b"    ") == bytes(4))
    assert server.reload(timeout_s=60).returncode == 1
    assert server.stop() == 0
    read.join()
    os.close(reader)
    lines = server.log.read_text().splitlines()
    assert "zonda has stopped" in lines[-1], "the last line is written"
    notices = [found for line in lines if (found := re.search(r"log lines were dropped: standard error was not read lines=(\d+)", line))]
    dropped = sum(int(found[1]) for found in notices)
    assert dropped > 0
    # All reloads log as many lines, and the first two are complete.
    first, second = [number for number, line in enumerate(lines) if line.endswith("INFO reloading")][:2]
    expected = first + (second - first) * reloads + len(["stopping", "zonda has stopped"])
    assert len(lines) - len(notices) + dropped == expected


# ---------- the control socket and descriptors ----------


@pytest.mark.parametrize(("clients", "timeout_s"), [(5, 3), (100, 20)])
def test_silent_control_clients_do_not_delay_others(daemon, clients, timeout_s):
    """Eight threads that waited 5 s for each of 100 clients would take a minute."""
    server = daemon().start()
    with server.control_clients(clients):
        assert server.reload(timeout_s=timeout_s).returncode == 0


def test_concurrent_reload_requests_are_all_answered(daemon):
    server = daemon().start()
    command = [program(), "reload", "--config", server.config]
    asking = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(40)]
    assert [one.wait(30) for one in asking] == [0] * 40


def test_connections_leave_descriptors_for_reloads(daemon):
    server = daemon(server="tcp-connections = 10000")
    server.start(preexec_fn=limit_descriptors(FEW_DESCRIPTORS))
    server.wait_until(lambda: "tcp-connections" in server.log_text())  # a warning of the low limit
    query = framed_query("www.example.")

    def burst() -> None:
        with contextlib.ExitStack() as connections:
            for _ in range(2 * FEW_DESCRIPTORS):
                with contextlib.suppress(OSError):  # it was evicted
                    one = connections.enter_context(socket.create_connection((HOST, server.port)))
                    one.sendall(query)  # not accepted at once without a query

    with repeated(burst):
        for _ in range(20):
            server.zones.joinpath("example.zone").touch()
            reloaded = server.reload(timeout_s=10)
            assert reloaded.returncode == 0, reloaded.stdout + reloaded.stderr
    assert "Too many open files" not in server.log_text()


def test_a_start_says_how_many_descriptors_it_needs(daemon):
    """With fewer it must end with help: neither without, nor start and leave a zone unserved now and then."""
    for limit in (5, 16, 24):
        server = daemon().start(wait_for=None, preexec_fn=limit_descriptors(limit))
        assert server.process.wait(5) == 1, server.log_text()
        needed = re.search(rf"limit of open files is {limit}, but .* needs at least (\d+) .*\(help: .*LimitNOFILE=", server.log_text())
        assert needed, server.log_text()
    server = daemon().start(preexec_fn=limit_descriptors(int(needed[1])))
    with server.control_clients(6):
        for _ in range(20):
            server.zones.joinpath("example.zone").touch()
            assert server.reload(timeout_s=10).returncode == 0, server.log_text()
            assert server.ask("www.example.", tcp=True).rcode() == dns.rcode.NOERROR
    assert "Too many open files" not in server.log_text()


def test_control_threads_without_descriptors_log_one_line(daemon):
    """Each of eight threads tries ten times per second, and must not log each time."""
    server = daemon().start()
    limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (1, limits[1]))
    with server.control_clients(2 * CONTROL_THREADS) as clients:
        # Threads that wait for a client have the descriptor for it already.
        for client in clients[:CONTROL_THREADS]:
            client.sendall(b"\n")
        server.wait_until(lambda: "control socket" in server.log_text(), timeout_s=5)
        time.sleep(1)
        assert server.ask("www.example.").rcode() == dns.rcode.NOERROR
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limits)
    assert server.reload(timeout_s=5).returncode == 0
    lines = [line for line in server.log.read_text().splitlines() if "Too many open files" in line]
    assert 1 <= len(lines) <= 2, lines


# ---------- zonda check ----------


def check(*arguments: str | Path, cwd: Path | None = None, **run: object) -> subprocess.CompletedProcess[str]:
    """Runs `zonda check` with a limit of 1 GiB of memory and five seconds."""

    def little_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    options = {"capture_output": True, "text": True, "timeout": 5} | run
    command = [program(), "check", *arguments]
    return subprocess.run(command, check=False, cwd=cwd, preexec_fn=little_memory, **options)


@pytest.mark.parametrize("device", ["pipe.zone", "/dev/zero"])
def test_check_refuses_files_without_an_end(tmp_path, device):
    os.mkfifo(tmp_path / "pipe.zone")
    for arguments in (["--zone", f"example={device}"], ["--config", device], [device], [tmp_path]):
        checked = check(*arguments, cwd=tmp_path)
        assert checked.returncode == 1, checked.stderr
        assert "regular file" in checked.stdout, (arguments, checked.stdout)


def test_check_reads_a_named_pipe_up_to_a_limit(tmp_path):
    zone = "@ 60 SOA a. b. 1 1 1 1 1\n@ 60 NS a.\n"
    checked = check("--zone", "example=/dev/stdin", input=zone)
    assert checked.returncode == 0, checked.stdout
    with Path("/dev/zero").open() as zeros, subprocess.Popen(["cat"], stdin=zeros, stdout=subprocess.PIPE) as cat:
        checked = check("--zone", "example=/dev/stdin", stdin=cat.stdout, timeout=30)
        assert cat.stdout
        cat.stdout.close()
    assert checked.returncode == 1
    assert "longer than 256 MiB" in checked.stdout


def control_characters(text: str) -> list[str]:
    """Control characters that a terminal may interpret, except line feeds."""
    return [one for one in text if (ord(one) < 32 and one != "\n") or 126 < ord(one) < 160 or one == "\u202e"]


def test_the_log_has_no_control_characters(daemon):
    server = daemon()
    zone = '[[zone]]\nname = "odd"\nfile = "\\u001b]0;\\u0007\\nERROR forged\\u009b"\n'
    server.configure(zone)
    server.start()
    server.wait_until(lambda: "odd" in server.log_text())
    assert not control_characters(server.log_text())
    assert not any(line.startswith("ERROR forged") for line in server.log_text().splitlines())


def test_check_prints_no_control_characters(tmp_path):
    odd = "\x1b]0;owned\x07\x9b31m\u202e.zone"
    (tmp_path / odd).write_text("@ 60 SOA a. b. 1 1 1 1 1\n@ 60 NS a.\n@ 60 A 'x\x1b[2J\n")
    (tmp_path / "zonda.toml").write_text('"\\u001b[2J" = 1\n[server]\nlisten = ["\\u001b[31m"]\n')
    for arguments in ([tmp_path], [odd], [f"{odd}/x"], ["--config", "zonda.toml"], ["--config", odd], ["--json", odd]):
        checked = check(*arguments, cwd=tmp_path)
        assert checked.stdout
        assert not control_characters(checked.stdout + checked.stderr), (arguments, checked.stdout)
    (tmp_path / "zonda.toml").write_text('[server]\nnsid = "\\u001b\\u009b\\u202e\\u007f\'\\"\\\\"\n')
    printed = [subprocess.check_output([program(), "config", "--config", "zonda.toml", *more], cwd=tmp_path, text=True) for more in ([], ["--json"])]
    assert not control_characters("".join(printed))
    assert tomllib.loads(printed[0])["server"] == json.loads(printed[1])["server"]
    assert json.loads(printed[1])["server"]["nsid"] == "\x1b\x9b\u202e\x7f'\"\\"


# ---------- configurations ----------


def test_a_reload_does_not_drop_every_zone(daemon):
    server = daemon().start()
    text = server.config.read_text()
    server.config.write_text(text.split("[[zone]]")[0])
    refused = server.reload()
    assert refused.returncode == 1
    assert "allow-no-zones" in refused.stdout
    assert server.ask("www.example.").rcode() == dns.rcode.NOERROR
    server.config.write_text(text.split("[[zone]]")[0] + "allow-no-zones = true\n")
    assert server.reload().returncode == 0
    assert server.ask("www.example.").rcode() == dns.rcode.REFUSED


def test_an_include_pattern_takes_no_exponential_time(tmp_path):
    folder = tmp_path / "zones.d"
    folder.mkdir()
    (folder / ("a" * 200)).write_text("")
    (tmp_path / "zonda.toml").write_text(f'include = ["zones.d/{"*a" * 40}*b"]\n')
    assert check("--config", tmp_path / "zonda.toml").returncode == 0


def test_paths_that_are_not_utf8_are_served(daemon):
    server = daemon()
    folder = Path(os.fsdecode(os.fsencode(server.folder) + b"/\xff"))
    folder.mkdir()
    zone = server.zones / "example.zone"
    (folder / "example.zone").write_text(zone.read_text() + "$INCLUDE more\n")
    (folder / "more").write_text("more A 192.0.2.2\n")
    for arguments in (["--zone", os.fsencode("example=") + os.fsencode(folder / "example.zone")], [folder]):
        assert check(*arguments).returncode == 0
    config = server.config.read_text().replace(str(server.zones), ".")
    server.config = folder / "zonda.toml"
    server.config.write_text(config)
    server.start()
    assert server.ask("more.example.").rcode() == dns.rcode.NOERROR
    assert server.reload().returncode == 0
