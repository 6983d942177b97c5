#!/usr/bin/env python3
"""A fleet on one machine: a hidden primary and two edges, each in a network namespace of its own, joined by a catalog zone.

usage: examples/fleet/fleet.py [--edge2 zonda|nsd|knot|bind] [--zonda PROGRAM] [--stay]

Starts the fleet from the files of this folder, adds, changes and removes zones at the primary, and shows that both edges follow; that each
machine can be lost, with its disk, while the others go on; and that it catches up once it is back. A line for each step; the exit status is
1 if one fails. With --stay the fleet then runs until Ctrl-C. Needs Linux, `ip`, `unshare` and `openssl`; not root. Nothing outside of the
namespaces is changed.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ADDRESSES = {"primary": "10.53.0.1", "edge1": "10.53.0.11", "edge2": "10.53.0.12"}
EDGES = ("edge1", "edge2")
CATALOG = "catalog.fleet.example"
REFUSED = 5
# Other servers for the second edge: the command, the option that prints the version, and the first version with catalogs and TLS.
OTHERS = {
    "nsd": (("nsd", "-d", "-c", "edge2.nsd.conf"), "-v", (4, 9)),
    "knot": (("knotd", "-c", "edge2.knot.conf"), "-V", (3, 5)),
    "bind": (("named", "-g", "-c", "edge2.named.conf"), "-v", (9, 18)),
}
INSIDE = "ZONDA_FLEET_INSIDE"
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


def run(*command: str | Path) -> None:
    """Runs a command that must succeed."""
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


class Machine:
    """A network namespace, joined to the switch, with a server."""

    def __init__(self, name: str, command: list[str], folder: Path) -> None:
        self.name, self.command, self.folder = name, command, folder
        self.process: subprocess.Popen[bytes] | None = None
        run("ip", "netns", "add", name)
        run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", name, "master", "switch", "up")
        inside = ("ip", "-n", name)
        run(*inside, "address", "add", f"{ADDRESSES[name]}/24", "dev", "eth0")
        run(*inside, "link", "set", "eth0", "up")
        run(*inside, "link", "set", "lo", "up")

    def start(self) -> None:
        """Starts the server, and connects the machine."""
        run("ip", "link", "set", self.name, "up")
        with (self.folder / f"{self.name}.log").open("ab") as log:
            command = ["ip", "netns", "exec", self.name, *self.command]
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True)

    def lose(self) -> None:
        """Power failure: no process of it says goodbye, and no packet of it arrives."""
        run("ip", "link", "set", self.name, "down")
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


class Fleet:
    """All machines, and the zones of the primary."""

    def __init__(self, folder: Path, zonda: str, edge2: str) -> None:
        self.folder, self.zonda = folder, zonda
        self.serial = 1
        self.zones: set[str] = set()
        self.removed: set[str] = set()
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "switch", "type", "bridge")
        run("ip", "address", "add", "10.53.0.254/24", "dev", "switch")
        run("ip", "link", "set", "switch", "up")
        for name in ADDRESSES:
            make_certificate(folder, name)
        (folder / "fleet-ca.crt").write_text("".join((folder / f"{name}.crt").read_text() for name in ADDRESSES))
        secret = base64.b64encode(secrets.token_bytes(32)).decode()
        (folder / "fleet.secret").touch(0o600)
        (folder / "fleet.secret").write_text(secret)
        commands = {name: [zonda, "serve", "--config", f"{name}.toml"] for name in ADDRESSES}
        if edge2 != "zonda":
            commands["edge2"] = other_server(edge2, folder, secret)
        self.machines = {name: Machine(name, command, folder) for name, command in commands.items()}

    def zonda_at(self, machine: str, *command: str) -> str:
        """Runs a command of zonda with the configuration of a machine; its output."""
        line = [self.zonda, *command, "--config", str(self.folder / f"{machine}.toml")]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout

    def add(self, zone: str) -> None:
        """Adds a zone at the primary; the edges are not touched."""
        file = self.folder / "zones" / f"{zone}.zone"
        if not file.exists():
            shutil.copy(file.with_name("shop.example.zone"), file)
        self.zonda_at("primary", "zone", "add", zone, "--template", "hosted")
        self.zones.add(zone)

    def remove(self, zone: str) -> None:
        """Removes a zone at the primary; the edges are not touched."""
        self.zonda_at("primary", "zone", "remove", zone)
        self.zones.remove(zone)
        self.removed.add(zone)

    def change(self) -> None:
        """Edits all zone files and reloads the primary."""
        for path in (self.folder / "zones").glob("*.zone"):
            path.write_text(path.read_text().replace(f" {self.serial} 10 ", f" {self.serial + 1} 10 "))
        self.serial += 1
        self.zonda_at("primary", "reload")

    def is_current(self, *names: str) -> bool:
        """Whether these machines answer all zones with the current serial, and refuse those that were removed."""
        expected = [(zone, (0, self.serial)) for zone in self.zones] + [(zone, (REFUSED, 0)) for zone in self.removed]
        return all(ask(ADDRESSES[name], zone) == reply for name in names for zone, reply in expected)

    def refuses_catalog(self, edge: str) -> bool:
        """Whether this edge reports that it has refused a version of the catalog."""
        return "max-shrink-percent" in self.zonda_at(edge, "zone", "status", CATALOG, "--json")


def make_certificate(folder: Path, name: str) -> None:
    """A key and a self-signed certificate; a real fleet has its own authority."""
    subject = f"{name}.fleet.example"
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    options = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj", f"/CN={subject}")
    run("openssl", "req", "-x509", *options, "-addext", f"subjectAltName=DNS:{subject}", "-keyout", key, "-out", certificate)


def other_server(name: str, folder: Path, secret: str) -> list[str]:
    """The command for another server as the second edge, whose configuration it completes."""
    command, version_flag, needed = OTHERS[name]
    if not shutil.which(command[0]):
        raise SystemExit(f"{command[0]} is not installed")
    printed = subprocess.run([command[0], version_flag], capture_output=True, text=True, check=False)
    version = re.search(r"(\d+)\.(\d+)", printed.stdout + printed.stderr)
    if version and tuple(map(int, version.groups())) < needed:
        needs = ".".join(map(str, needed))
        raise SystemExit(f"{name} {version[0]} lacks catalog zones or TLS (help: put {needs} or later first in PATH)")
    config = folder / command[-1]
    config.write_text(config.read_text().replace("SECRET", secret).replace("FOLDER", str(folder)))
    (folder / "state-edge2").mkdir()
    return list(command)


def ask(server: str, zone: str) -> tuple[int, int] | None:
    """RCODE and serial of the answer of a server; `None` without an answer."""
    name = b"".join(bytes([len(label)]) + label.encode() for label in zone.split(".")) + b"\0"
    query = secrets.token_bytes(2) + bytes.fromhex("0000 0001 0000 0000 0000") + name + bytes.fromhex("0006 0001")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(0.2)
        try:
            client.connect((server, 53))
            client.send(query)
            reply = client.recv(4096)
        except OSError:
            return None
    if reply[6:8] != b"\0\1":
        return reply[3] & 15, 0
    # The SOA record is the only answer; it ends with five numbers of four octets.
    at = len(query) + 2  # Its owner is a pointer to the question.
    end = at + 10 + int.from_bytes(reply[at + 8 : at + 10])
    return reply[3] & 15, int.from_bytes(reply[end - 20 : end - 16])


def expect(what: str, condition: Callable[[], bool], patience_s: float = 60) -> None:
    """Waits for a condition and reports it."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > patience_s:
            raise SystemExit(f"FAILED after {patience_s:.0f} s: {what}")
        time.sleep(0.005)
    print(f"{time.monotonic() - began:7.2f} s  {what}", flush=True)


def demonstrate(fleet: Fleet, protected: tuple[str, ...]) -> None:
    """Loses one machine after the other. `protected` edges refuse a catalog that has lost its zones."""
    primary, edge1, edge2 = fleet.machines.values()
    for machine in (primary, edge1, edge2):
        machine.start()
    expect("the primary has an empty catalog", lambda: ask(ADDRESSES["primary"], CATALOG) is not None)
    fleet.add("shop.example")
    fleet.add("blog.example")
    expect("two zones are added at the primary; both edges answer", lambda: fleet.is_current(*EDGES))
    fleet.change()
    expect("a change is answered by both edges", lambda: fleet.is_current(*EDGES))
    for lost, other, zone in ((edge1, edge2, "news.example"), (edge2, edge1, "maps.example")):
        lost.lose()
        fleet.change()
        fleet.add(zone)
        expect(f"{lost.name} is lost; {other.name} has a change and a new zone", partial(fleet.is_current, other.name))
        lost.start()
        expect(f"{lost.name} is back, and has both", partial(fleet.is_current, lost.name))
    edge1.lose()
    fleet.remove("news.example")
    expect("edge1 is lost; a zone is removed at edge2", lambda: fleet.is_current("edge2"))
    primary.lose()
    expect("the primary is lost, too; edge2 answers", lambda: fleet.is_current("edge2"))
    shutil.rmtree(fleet.folder / "state-edge1")
    edge1.start()
    expect("edge1 is back without its disk, and has catalog and zones from edge2", lambda: fleet.is_current("edge1"))
    state, backup = fleet.folder / "state-primary", fleet.folder / "backup"
    state.rename(backup)
    primary.start()
    expect("the primary is back without its disk, and so with an empty catalog", lambda: ask(ADDRESSES["primary"], CATALOG) is not None)
    expect(f"{' and '.join(protected)} refused that catalog", lambda: all(map(fleet.refuses_catalog, protected)))
    expect(f"{' and '.join(protected)} answered all the time", lambda: fleet.is_current(*protected), patience_s=0)
    primary.lose()
    shutil.rmtree(state)
    backup.rename(state)
    primary.start()
    expect("the primary is restored from its backup", lambda: fleet.is_current("primary"))
    fleet.change()
    time.sleep(1)  # The serial of a catalog is the time in seconds: it must be later than that of the empty one.
    fleet.add("wiki.example")
    expect("a change and a new zone are answered by both edges", lambda: fleet.is_current(*EDGES))


def enter_namespaces() -> None:
    """Starts this program again in namespaces of its own, which vanish with it."""
    unshare = ["unshare", "--net", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    os.execvpe(unshare[0], [*unshare, sys.executable, *sys.argv], {**os.environ, INSIDE: "1", "PATH": PATH})


def main() -> None:
    """Reads the arguments, starts the fleet, loses its machines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edge2", choices=("zonda", *OTHERS), default="zonda", help="the server of the second edge")
    parser.add_argument("--zonda", default=os.environ.get("ZONDA", str(ROOT / "target/release/zonda")), help="the program")
    parser.add_argument("--stay", action="store_true", help="let the fleet run until Ctrl-C")
    arguments = parser.parse_args()
    if not os.environ.get(INSIDE):
        enter_namespaces()
    run("mount", "-t", "tmpfs", "tmpfs", "/run")  # For `ip netns`; the mount is in this namespace only.
    with tempfile.TemporaryDirectory(prefix="zonda-fleet-") as temporary:
        folder = Path(temporary)
        shutil.copytree(HERE, folder, dirs_exist_ok=True)
        fleet = Fleet(folder, str(Path(arguments.zonda).resolve()), arguments.edge2)
        try:
            demonstrate(fleet, EDGES if arguments.edge2 == "zonda" else ("edge1",))
            if arguments.stay:
                print(f"The fleet runs. In another terminal: nsenter --net -t {os.getpid()} dig @10.53.0.11 shop.example SOA")
                signal.pause()
        except KeyboardInterrupt:
            pass
        except SystemExit:
            for name in ADDRESSES:
                print(f"--- {name}\n{(folder / f'{name}.log').read_text()[-2000:]}", file=sys.stderr)
            raise
        finally:
            for machine in fleet.machines.values():
                machine.lose()


if __name__ == "__main__":
    main()
