"""One connection to a host: `ssh` starts a Python there, in which execnet runs `agent.py`. The only user of execnet."""

import contextlib
import json
import re
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from zonda_lab.errors import HostLostError, LabError
from zonda_lab.fleet import agent
from zonda_lab.fleet.inventory import HostSpec
from zonda_lab.servers.adapter import SYSTEM

try:
    import execnet
except ImportError:
    raise LabError("an inventory needs execnet", "pip install 'zonda-lab[hosts]'") from None

CONNECT_S = 10
ALIVE_S, ALIVE_TRIES = 5, 3  # without a response for their product in seconds, the connection counts as lost
BEAT_S, SILENCE_S = 5.0, 30.0  # signs of life to the agent, and the longest time without one
ANSWER_S = 300.0  # timeout of a short command
CLOSE_S = 5.0  # until the agent has ended
# What ssh prints, what that means, and what helps.
REFUSALS = (
    (
        "HOST IDENTIFICATION HAS CHANGED",
        "{name}: {ssh} has another host key than the one known",
        "if it was set up anew, remove the old key (`ssh-keygen -R`); otherwise it is not your machine",
    ),
    (
        "Host key verification failed",
        "{name}: {ssh}: its host key is not known",
        "connect once with ssh, or name a file with the key by `known-hosts` in the inventory",
    ),
    (
        "Permission denied",
        "{name}: {ssh} refuses {identity}",
        "add the public key to ~/.ssh/authorized_keys there, or name another by `identity`",
    ),
)
TOOLS = ("setpriv", "unshare", "prlimit", "taskset", "ip", "tar", "xargs", "dd")
FACTS = f"""
import json, os, shutil, sys
os.makedirs(work := sys.argv[1], 0o700, exist_ok=True)
print(json.dumps({{"python": sys.executable, "version": sys.version_info[:2], "cpus": os.cpu_count(),
                   "uid": os.geteuid(), "owner": os.stat(work).st_uid,
                   "missing": [tool for tool in {TOOLS} if not shutil.which(tool)]}}))
"""


class ConnectionLostError(LabError):
    """An open connection was lost; the host may still be reachable."""


class SshConnection:
    """An open connection; `folder` is the session folder, at the same path here and there."""

    def __init__(self, spec: HostSpec, folder: Path) -> None:
        self.spec = spec
        with tempfile.NamedTemporaryFile("w", prefix="ssh-", dir=folder, delete=False) as config:
            config.write(_ssh_config(spec))
        self._help = f"is it up, is sshd running, may we connect? `ssh {spec.ssh}` shows details"
        self._closed = threading.Event()
        self.facts = self._examined(config.name, folder.parent)
        self._group = execnet.Group()
        with self._loss_reported():
            gateway = execnet.XSpec(f"ssh=-q {_host_and_port(spec.ssh)[0]}//ssh_config={config.name}")
            gateway.python = _shell([self.facts["python"]])
            self._gateway = self._group.makegateway(gateway)
            self._requests = self._gateway.remote_exec(agent)
            self._requests.send((str(folder), SILENCE_S))
        threading.Thread(target=self._beat, name=f"{spec.name} beat", daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether it is open."""
        return not self._closed.is_set() and self._gateway.hasreceiver()

    def close(self) -> None:
        """Closes the connection; the agent then ends everything on the host."""
        self._closed.set()
        self._group.terminate(CLOSE_S)

    def call(self, function: str, *arguments: Any) -> Any:
        """Starts a function of the agent; returns the channel of its answers."""
        with self._loss_reported():
            answers = self._gateway.newchannel()
            self._requests.send((function, arguments, answers))
        return answers

    def ask(self, function: str, *arguments: Any) -> Any:
        """Calls a function of the agent and returns its first answer."""
        return self.receive(self.call(function, *arguments))

    def receive(self, answers: Any) -> Any:
        """The next answer of a function."""
        with self._loss_reported():
            return answers.receive(ANSWER_S)

    def run(self, argv: Sequence[str | Path], fill: Callable[[Any], None] = lambda _: None) -> tuple[int, str, str]:
        """Runs a short command with input written by `fill`; returns status, standard output and standard error."""
        answers = self.call("command", list(map(str, argv)))
        with self._loss_reported():
            fill(answers.makefile("w"))
            answers.send(b"")
        status, printed, errors = self.receive(answers)
        return status, printed, errors

    def _examined(self, config: str, work: Path) -> dict[str, Any]:
        """Facts about the host, by one command, because execnet does not say why a connection fails."""
        examine = _shell([self.spec.python, "-c", FACTS, str(work)])
        command = ["ssh", "-F", config, _host_and_port(self.spec.ssh)[0], examine]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=ANSWER_S
            )
        except subprocess.TimeoutExpired:
            raise self._refused("no answer") from None
        if done.returncode == 255:
            raise self._refused(done.stderr)
        if done.returncode:
            help_text = "install Python there, or give its path by `python`"
            raise LabError(f"{self.spec.name}: `{self.spec.python}` does not run: {done.stderr.strip()}", help_text)
        facts: dict[str, Any] = json.loads(done.stdout)
        return facts

    def _refused(self, errors: str) -> LabError:
        used = self.spec.identity or "any key of the agent and of ~/.ssh"
        for printed, what, help_text in REFUSALS:
            if printed in errors:
                return HostLostError(what.format(name=self.spec.name, ssh=self.spec.ssh, identity=used), help_text)
        cause = errors.strip().rpartition("\n")[2].rpartition(": ")[2].strip() or "no answer"
        return HostLostError(f"{self.spec.name}: {self.spec.ssh} cannot be reached: {cause}", self._help)

    @contextlib.contextmanager
    def _loss_reported(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError, AssertionError, execnet.HostNotFound):
            self.close()
            lost = f"{self.spec.name}: the connection to {self.spec.ssh} is lost"
            raise ConnectionLostError(lost, self._help) from None

    def _beat(self) -> None:
        """Sends signs of life."""
        with contextlib.suppress(OSError):  # the connection has ended
            while not self._closed.wait(BEAT_S):
                self._requests.send(None)


def _ssh_config(spec: HostSpec) -> str:
    """Options of ssh: the user's, and before them, because the first value counts, what the lab needs."""
    lines = [
        *("BatchMode yes", "StrictHostKeyChecking yes", "ControlPath none", "LogLevel ERROR"),
        *(f"ConnectTimeout {CONNECT_S}", f"ServerAliveInterval {ALIVE_S}", f"ServerAliveCountMax {ALIVE_TRIES}"),
    ]
    if port := _host_and_port(spec.ssh)[1]:
        lines.append(f"Port {port}")
    if spec.known_hosts:
        lines.append(f'UserKnownHostsFile "{spec.known_hosts}"')
    if spec.identity:
        lines += [f'IdentityFile "{spec.identity}"', "IdentitiesOnly yes", "IdentityAgent none"]
    return "".join(f"{line}\n" for line in [*lines, "Include ~/.ssh/config", "Include /etc/ssh/ssh_config"])


def _host_and_port(destination: str) -> tuple[str, str]:
    """Splits `[user@]host[:port]`."""
    match = re.fullmatch(r"([^:]+):(\d+)", destination)
    return (match[1], match[2]) if match else (destination, "")


def _shell(argv: Sequence[str]) -> str:
    """The shell command for `argv`, with the system folders on PATH."""
    return shlex.join(["sh", "-c", f'PATH="$PATH:{SYSTEM}" exec "$@"', "sh", *argv])
