#!/usr/bin/env python3
"""A fleet on one machine: a hidden primary and two edges, each in a network namespace of its own.

usage: examples/fleet/fleet.py [--edge2 zonda|nsd|knot] [--zonda PROGRAM] [--stay]

Starts the fleet from the files of this folder, then shows that a change reaches both edges; that each machine can be lost while the others
go on; and that it catches up once it is back. A line for each step; the exit status is 1 if one fails. With --stay the fleet then runs until
Ctrl-C. Needs Linux, `ip`, `unshare` and `openssl`; not root. Nothing outside of the namespaces is changed.
"""

from __future__ import annotations

import argparse
import base64
import os
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
ZONES = ("shop.example", "blog.example")
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
    """All machines, and the zone files of the primary."""

    def __init__(self, folder: Path, zonda: str, edge2: str) -> None:
        self.folder = folder
        self.serial = 1
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
        self.zonda = zonda
        commands = {name: [zonda, "serve", "--config", str(folder / f"{name}.toml")] for name in ADDRESSES}
        if edge2 != "zonda":
            commands["edge2"] = other_server(edge2, folder, secret)
        self.machines = {name: Machine(name, command, folder) for name, command in commands.items()}

    def change(self) -> None:
        """Edits the zone files and reloads the primary."""
        for zone in ZONES:
            path = self.folder / "zones" / f"{zone}.zone"
            path.write_text(path.read_text().replace(f" {self.serial} 10 ", f" {self.serial + 1} 10 "))
        self.serial += 1
        run("ip", "netns", "exec", "primary", self.zonda, "reload", "--config", self.folder / "primary.toml")

    def is_current(self, *names: str) -> bool:
        """Whether these machines answer all zones with the current serial."""
        return all(serial_at(ADDRESSES[name], zone) == self.serial for name in names for zone in ZONES)


def make_certificate(folder: Path, name: str) -> None:
    """A key and a self-signed certificate; a real fleet has its own authority."""
    subject = f"{name}.fleet.example"
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    options = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj", f"/CN={subject}")
    run("openssl", "req", "-x509", *options, "-addext", f"subjectAltName=DNS:{subject}", "-keyout", key, "-out", certificate)


def other_server(name: str, folder: Path, secret: str) -> list[str]:
    """Another server as the second edge: the same zones, keys and peers, but no TLS, which Debian's Knot lacks."""
    for path in (folder / "primary.toml", folder / "edge1.toml"):
        path.write_text(path.read_text().replace(", tls = true", "").replace(', tls = "edge2.fleet.example"', ""))
    sources, address = (ADDRESSES["primary"], ADDRESSES["edge1"]), ADDRESSES["edge2"]
    state = folder / "state-edge2"
    state.mkdir()
    config = folder / f"edge2.{name}.conf"
    if name == "nsd":
        transfers = "".join(f"  request-xfr: {source} fleet.example.\n  allow-notify: {source} fleet.example.\n" for source in sources)
        transfers += f"  provide-xfr: {ADDRESSES['edge1']} fleet.example.\n  notify: {ADDRESSES['edge1']} fleet.example.\n"
        config.write_text(
            f'server:\n  ip-address: {address}\n  username: ""\n  zonesdir: {state}\n  pidfile: {state}/pid\n  xfrdfile: {state}/xfrd\n'
            f"  zonelistfile: {state}/list\n  xfrdir: {state}\n  database: \"\"\nremote-control:\n  control-enable: no\n"
            f"key:\n  name: fleet.example.\n  algorithm: hmac-sha256\n  secret: {secret}\n"
            + "".join(f"zone:\n  name: {zone}\n  zonefile: {zone}\n{transfers}" for zone in ZONES)
        )
        return [shutil.which("nsd", path=PATH) or "nsd", "-d", "-c", str(config)]
    remotes = "".join(f"  - id: r{number}\n    address: {source}\n    key: fleet.example.\n" for number, source in enumerate(sources))
    zones = "".join(
        f"  - domain: {zone}\n    master: [r0, r1]\n    notify: r1\n    acl: [from, to]\n" for zone in ZONES
    )
    config.write_text(
        f"server:\n  rundir: {state}\n  listen: {address}\nlog:\n  - target: stderr\n    any: info\ndatabase:\n  storage: {state}\n"
        f"key:\n  - id: fleet.example.\n    algorithm: hmac-sha256\n    secret: {secret}\nremote:\n{remotes}"
        f"acl:\n  - id: from\n    address: [{', '.join(sources)}]\n    key: fleet.example.\n    action: notify\n"
        f"  - id: to\n    address: {sources[1]}\n    key: fleet.example.\n    action: transfer\n"
        f"template:\n  - id: default\n    storage: {state}\nzone:\n{zones}"
    )
    return [shutil.which("knotd", path=PATH) or "knotd", "-c", str(config)]


def serial_at(server: str, zone: str) -> int | None:
    """The serial in the answer of a server; `None` without an answer."""
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
    # The SOA record ends with five numbers of four octets; nothing that has such a record precedes it in the answer section.
    if reply[:2] != query[:2] or reply[3] & 15 or reply[6:8] != b"\0\1":
        return None
    at = len(query) + 2  # Its owner is a pointer to the question.
    end = at + 10 + int.from_bytes(reply[at + 8 : at + 10])
    return int.from_bytes(reply[end - 20 : end - 16])


def expect(what: str, condition: Callable[[], bool], patience_s: float = 30) -> None:
    """Waits for a condition and reports it."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > patience_s:
            raise SystemExit(f"FAILED after {patience_s:.0f} s: {what}")
        time.sleep(0.005)
    print(f"{time.monotonic() - began:7.2f} s  {what}", flush=True)


def demonstrate(fleet: Fleet) -> None:
    """Loses one machine after the other."""
    primary, edge1, edge2 = fleet.machines.values()
    for machine in (primary, edge1, edge2):
        machine.start()
    expect("both edges answer", lambda: fleet.is_current(*EDGES))
    fleet.change()
    expect("a change is answered by both edges", lambda: fleet.is_current(*EDGES))
    for lost, other in ((edge1, edge2), (edge2, edge1)):
        lost.lose()
        fleet.change()
        expect(f"{lost.name} is lost; a change is answered by {other.name}", partial(fleet.is_current, other.name))
        lost.start()
        expect(f"{lost.name} is back, and has the change", partial(fleet.is_current, lost.name))
    primary.lose()
    expect("the primary is lost; both edges answer", lambda: fleet.is_current(*EDGES))
    edge1.lose()
    shutil.rmtree(fleet.folder / "state-edge1", ignore_errors=True)
    edge1.start()
    expect("edge1 lost its disk too, and has its zones from edge2", lambda: fleet.is_current("edge1"))
    primary.start()
    expect("the primary is back", lambda: fleet.is_current("primary"))
    fleet.change()
    expect("a change is answered by both edges", lambda: fleet.is_current(*EDGES))


def enter_namespaces() -> None:
    """Starts this program again in namespaces of its own, which vanish with it."""
    unshare = ["unshare", "--net", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    os.execvpe(unshare[0], [*unshare, sys.executable, *sys.argv], {**os.environ, INSIDE: "1", "PATH": PATH})


def main() -> None:
    """Reads the arguments, starts the fleet, loses its machines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edge2", choices=("zonda", "nsd", "knot"), default="zonda", help="the server of the second edge")
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
            demonstrate(fleet)
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
