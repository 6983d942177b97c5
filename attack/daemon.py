"""Runs `zonda serve` for one test: its folder, its process, and queries to it."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dns.message
import dns.query
import dns.rcode
import dns.update
from client import framed
from servers import HOST, Zonda, reserve_port
from zonda_lab.rig.procfs import own_cpu_s, thread_times

from granted_time import Stopwatch

START_TIMEOUT_S = 30.0
RESPONSE_TIMEOUT_S = 10.0  # a busy machine may not run the server for seconds; how long it takes is for tests of delays

TINY_ZONE = """\
$TTL 60
@ SOA ns.example. host.example. 1 3600 900 604800 300
@ NS ns.example.
www A 192.0.2.1
"""


def program() -> str:
    """The path of the zonda under attack; raises `ProgramNotFound`."""
    return Zonda.program()


class Daemon:
    """A server with a folder of its own; `zones` maps zone names to zone files, `server` has more lines for `[server]`."""

    def __init__(self, folder: Path, zones: dict[str, str] | None = None, server: str = "", top: str = "") -> None:
        self.folder, self.port = folder, reserve_port()
        self.state_dir = folder / "state"
        self.zones = folder / "zones"
        self.zones.mkdir(exist_ok=True)
        self.config = folder / "zonda.toml"
        text = f'{top}\n[server]\nlisten = ["{HOST}:{self.port}"]\nworkers = 1\nstate-dir = "{self.state_dir}"\n{server}\n'
        for name, zone in (zones or {"example": TINY_ZONE}).items():
            path = self.zones / f"{name}.zone"
            path.write_text(zone)
            text += f'[[zone]]\nname = "{name}"\nfile = "{path}"\nallow-transfer = ["127.0.0.0/8"]\n'
        self.config.write_text(text)
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / "log"

    def configure(self, text: str) -> None:
        """Adds lines to the end of the configuration."""
        self.config.write_text(self.config.read_text() + text)

    def start(self, wait_for: str | None = "example", **popen: object) -> Daemon:
        """Starts the server and waits until the zone `wait_for` answers, if one is named."""
        with self.log.open("wb") as log:
            options = {"stdout": log, "stderr": subprocess.STDOUT} | popen
            self.process = subprocess.Popen([program(), "serve", "--config", self.config], **options)
        if wait_for:
            self.wait_until(lambda: self.ask(f"{wait_for}.", "SOA").rcode() == dns.rcode.NOERROR)
        return self

    def wait_until(self, condition, timeout_s: float = START_TIMEOUT_S, since: Stopwatch | None = None) -> None:
        """Waits for a condition; a network error counts as false. `since` has begun, and measures the time."""
        began = time.monotonic()
        since = since or (lambda: time.monotonic() - began)
        while True:
            try:
                if condition():
                    return
            except (OSError, EOFError, dns.exception.DNSException):
                pass
            assert self.process is None or self.process.poll() is None, f"zonda ended:\n{self.log_text()}"
            assert since() < timeout_s, f"not within {timeout_s} s:\n{self.log_text()}"
            time.sleep(0.02)

    def ask(self, name: str, rtype: str = "A", timeout_s: float = RESPONSE_TIMEOUT_S, tcp: bool = False) -> dns.message.Message:
        """The response to one query; raises `dns.exception.Timeout` if there is none, `ConnectionRefusedError` if nobody listens."""
        query = dns.message.make_query(name, rtype)
        if tcp:
            return dns.query.tcp(query, HOST, timeout=timeout_s, port=self.port)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connected:
            connected.setblocking(False)
            # Only a connected socket reports at once that nobody listens.
            connected.connect((HOST, self.port))
            return dns.query.udp(query, HOST, timeout=timeout_s, port=self.port, sock=connected)

    def serial(self, zone: str, timeout_s: float = RESPONSE_TIMEOUT_S) -> int | None:
        """The served serial of a zone, `None` if the response is an error."""
        response = self.ask(zone, "SOA", timeout_s)
        return response.answer[0][0].serial if response.rcode() == dns.rcode.NOERROR else None

    def update(self, zone: str, owner: str) -> dns.rcode.Rcode:
        """The response code of an update that adds an address."""
        message = dns.update.UpdateMessage(zone)
        message.add(owner, 60, "A", "192.0.2.1")
        return dns.query.tcp(message, HOST, timeout=30, port=self.port).rcode()

    def run(self, *words: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Runs a command of `zonda` for this server; the exit status is not checked."""
        command = [program(), *words, "--config", self.config]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)

    def reload(self, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Runs `zonda reload`; the exit status is not checked."""
        return self.run("reload", timeout_s=timeout_s)

    @contextmanager
    def control_clients(self, count: int) -> Iterator[list[socket.socket]]:
        """Clients of the control socket, which say nothing by themselves."""
        with ExitStack() as stack:
            # Through a descriptor: an address has 107 octets at most (unix(7)), a path of tests can be longer.
            directory = os.open(self.state_dir, os.O_PATH)
            stack.callback(os.close, directory)
            clients = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(count)]
            for client in clients:
                client.connect(f"/proc/self/fd/{directory}/control.sock")
            yield clients

    def cpu_s(self) -> float:
        """CPU time of the process without its children, in seconds."""
        return own_cpu_s(self.pid)

    def thread_s(self, prefix: str) -> float:
        """CPU time of the threads whose names begin so, in seconds."""
        found = [used_ns for name, used_ns in thread_times(self.pid).items() if name.startswith(prefix)]
        assert found, f"no thread is named {prefix}"
        return sum(found) / 1e9

    def rss_mb(self) -> float:
        """Resident memory in MB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def log_text(self) -> str:
        """The end of the log, which the daemon writes some milliseconds later in a thread of its own."""
        time.sleep(0.05)
        return self.log.read_text(errors="replace")[-8000:]

    @property
    def pid(self) -> int:
        assert self.process, "not started"
        return self.process.pid

    def kill(self) -> None:
        """Kills the server, as a crash would."""
        assert self.process, "not started"
        self.process.kill()
        self.process.wait()

    def stop(self, timeout_s: float = 10.0) -> int | None:
        """Stops the server with SIGTERM, then SIGKILL after `timeout_s`; returns its exit status."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode


def framed_query(name: str, rtype: str = "A", **options: object) -> bytes:
    """A query with its length, as for TCP and QUIC."""
    return framed(dns.message.make_query(name, rtype, **options).to_wire())


def limit_descriptors(limit: int) -> Callable[[], None]:
    """What a child process runs first, to have no more descriptors."""
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


@contextmanager
def repeated(action: Callable[[], object], threads: int = 1) -> Iterator[None]:
    """Repeats an action in threads of its own while the block runs; raises what an action has raised."""
    ends = threading.Event()

    def repeat() -> None:
        while not ends.is_set():
            action()

    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(repeat) for _ in range(threads)]
        try:
            yield
        finally:
            ends.set()
    for one in running:
        one.result()
