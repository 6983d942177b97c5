"""Test machines: network namespaces on one bridge, each with an sshd and its own view of the file system."""

import contextlib
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from zonda_lab.rig.namespaces import Namespace

SSHD = "/usr/sbin/sshd"
ADDRESSES = {"server": "10.77.0.2", "player1": "10.77.0.11", "player2": "10.77.0.12"}
CONFIG = """
ListenAddress {address}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized_keys
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
PidFile none
Subsystem sftp internal-sftp
"""
APART = """
mount -t tmpfs run /run
mkdir -m 755 /run/sshd
mount -t tmpfs work {folder}/work
for rc in /etc/bash.bashrc ~/.bashrc; do test ! -e $rc || mount --bind /dev/null $rc; done
exec {sshd} -D -e -f {config}
"""


@dataclass
class Hosts:
    """The namespace of the lab and the hosts; `inventory` is the file that lists them."""

    folder: Path
    lab: Namespace
    inventory: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Starts the sshd of a host and waits until it listens."""
        config = self.folder / f"{name}.sshd"
        config.write_text(CONFIG.format(address=ADDRESSES[name], folder=self.folder))
        script = APART.format(sshd=SSHD, config=config, folder=self.folder)
        command = self.namespaces[name].command(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "sh", "-ec", script]
        )
        with (self.folder / f"{name}.log").open("ab") as log:
            self.daemons[name] = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stderr=log)
        deadline = time.monotonic() + 10
        while b"Server listening" not in (self.folder / f"{name}.log").read_bytes():
            assert time.monotonic() < deadline, (self.folder / f"{name}.log").read_text()
            time.sleep(0.02)

    def stop(self, name: str) -> None:
        """Switches a host off: everything on it dies at once."""
        daemon = self.daemons.pop(name)
        daemon.kill()
        daemon.wait()
        (self.folder / f"{name}.log").unlink()

    def inside(self, name: str, *argv: str) -> str:
        """What a command prints that sees the files and processes of a host."""
        command = ["nsenter", f"--target={self._first(name)}", "--net", "--mount", "--pid", "--", *argv]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.stderr, done.stderr
        return done.stdout

    def _first(self, name: str) -> str:
        return Path(f"/proc/{self.daemons[name].pid}/task/{self.daemons[name].pid}/children").read_text().split()[0]

    def close(self) -> None:
        """Nothing stays."""
        for name in list(self.daemons):
            self.stop(name)
        for namespace in (self.lab, *self.namespaces.values()):
            namespace.close()


def make(folder: Path) -> Hosts:
    """A server and two players; skips with the reason if they cannot be set up."""
    if not Path(SSHD).exists():
        pytest.skip(f"needs {SSHD} (Debian: openssh-server)")
    if os.geteuid():
        pytest.skip("needs root: sshd starts sessions as other users only then")
    hosts = Hosts(folder, Namespace("lab"), folder / "lab.toml")
    with contextlib.ExitStack() as undo:
        undo.callback(hosts.close)
        (folder / "work").mkdir(mode=0o700)
        _keys(folder)
        hosts.lab.run("ip", "link", "add", "bridge", "type", "bridge")
        hosts.lab.run("ip", "address", "add", "10.77.0.1/24", "dev", "bridge")
        for device in ("lo", "bridge"):
            hosts.lab.run("ip", "link", "set", device, "up")
        for name, address in ADDRESSES.items():
            hosts.namespaces[name] = _wired(hosts.lab, name, address)
            hosts.start(name)
        hosts.inventory.write_text(_inventory(folder))
        undo.pop_all()
    return hosts


def _keys(folder: Path) -> None:
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized_keys")
    kind, key, _ = (folder / "host.pub").read_text().split(maxsplit=2)
    (folder / "known_hosts").write_text("".join(f"{address} {kind} {key}\n" for address in ADDRESSES.values()))


def _wired(lab: Namespace, name: str, address: str) -> Namespace:
    host = Namespace(name)
    lab.run("ip", "link", "add", name, "type", "veth", "peer", "name", "net0", "netns", host.path)
    lab.run("ip", "link", "set", name, "master", "bridge", "up")
    host.run("ip", "address", "add", f"{address}/24", "dev", "net0")
    for device in ("net0", "lo"):
        host.run("ip", "link", "set", device, "up")
    return host


def _inventory(folder: Path) -> str:
    reached = f'identity = "{folder}/user"\nknown-hosts = "{folder}/known_hosts"\n'
    lines = [f'work = "{folder}/work"\n[programs]\nzonda-load = "upload"\n']
    for name, address in ADDRESSES.items():
        table = "[server]" if name == "server" else "[[player]]"
        lines.append(f'{table}\nssh = "root@{address}"\naddress = "{address}"\n{reached}')
    return "".join(lines)
