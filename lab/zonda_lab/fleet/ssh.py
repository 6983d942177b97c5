"""One SSH connection to a host: host key check, commands and their input. The only user of fabric."""

from __future__ import annotations

import contextlib
import logging
import shlex
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from zonda_lab.errors import HostLostError, LabError
from zonda_lab.fleet.inventory import HostSpec
from zonda_lab.servers.adapter import SYSTEM

try:
    import fabric
    import paramiko
except ImportError:
    raise LabError("an inventory needs fabric", "pip install 'zonda-lab[hosts]'") from None

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # errors are reported by this module
CONNECT_S = 10.0
LOST_S = 15.0  # without a response for this time, the connection counts as lost
ALIVE_S = 5  # interval of keepalives
SILENT_S = 300.0  # timeout of a short command without input or output
BUFFER = 1 << 16
REACH = "is it up, is sshd running, may we connect? `ssh {ssh}` shows details"


class _OnlyKnown(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """Rejects hosts whose key is not known."""

    def missing_host_key(self, _client: object, hostname: str, key: Any) -> None:
        raise HostLostError(
            f"{hostname}: its host key is not known ({key.get_name()} {key.fingerprint})",
            "connect once with ssh, or name a file with the key by `known-hosts` in the inventory",
        )


class ConnectionLostError(LabError):
    """An open connection was lost; the host may still be reachable."""


class SshConnection:
    """An open connection; errors of the library become one message with the host name."""

    def __init__(self, spec: HostSpec) -> None:
        self.spec = spec
        identity = {"key_filename": spec.identity, "look_for_keys": False, "allow_agent": False}
        self._fabric = fabric.Connection(
            spec.ssh, connect_timeout=CONNECT_S, connect_kwargs=identity if spec.identity else {}
        )
        client = self._fabric.client
        client.load_host_keys(spec.known_hosts) if spec.known_hosts else client.load_system_host_keys()
        client.set_missing_host_key_policy(_OnlyKnown())
        try:
            self._fabric.open()
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise self._refused(error) from None
        self._stay_alive()

    @property
    def alive(self) -> bool:
        """Whether it is open."""
        return bool(self._fabric.is_connected and self._fabric.transport.is_active())

    def close(self) -> None:
        """Closes the connection and everything running over it."""
        self._fabric.close()

    def run(self, argv: Sequence[str | Path]) -> tuple[int, str, str]:
        """Runs a short command; returns status, standard output and standard error."""
        return self.feed(argv, lambda _: None)

    def start(self, argv: Sequence[str | Path]) -> Any:
        """Starts a command; returns its channel."""
        with self._loss_reported(), self._loss_timeout():
            channel = self._fabric.create_session()
            channel.exec_command(_shell(argv))
        return channel

    def feed(self, argv: Sequence[str | Path], fill: Callable[[Any], None]) -> tuple[int, str, str]:
        """Like `run`, with input written by `fill`; each output must fit in an SSH window."""
        with self._loss_reported():
            channel = self.start(argv)
            channel.settimeout(SILENT_S)
            with channel.makefile_stdin("wb", BUFFER) as stream:
                fill(stream)
            with channel.makefile("rb") as output, channel.makefile_stderr("rb") as errors:
                printed, complained = output.read(), errors.read()
            with self._loss_timeout():
                status = channel.recv_exit_status()
            return status, printed.decode(errors="replace"), complained.decode(errors="replace")

    def tcp(self, address: str, port: int, timeout_s: float) -> Any:
        """A TCP connection opened by the host (like `ssh -W`); raises OSError on failure."""
        try:
            channel = self._fabric.transport.open_channel("direct-tcpip", (address, port), ("", 0), timeout=timeout_s)
        except paramiko.ChannelException as error:
            if error.code == 1:  # RFC 4254 5.1: administratively prohibited
                raise LabError(f"{self.spec.name}: its sshd forwards no TCP", "set AllowTcpForwarding there") from None
            raise ConnectionRefusedError(error.text) from None
        except paramiko.SSHException as error:
            raise TimeoutError(str(error)) from None
        channel.settimeout(timeout_s)
        return channel

    @contextlib.contextmanager
    def _loss_reported(self) -> Iterator[None]:
        try:
            yield
        except (paramiko.SSHException, OSError, EOFError, AttributeError) as error:
            if isinstance(error, AttributeError) and self.alive:
                raise
            self.close()  # so that the next command does not read leftovers
            lost = f"{self.spec.name}: the connection to {self.spec.ssh} is lost: {_cause(error)}"
            raise ConnectionLostError(lost, self._help) from None

    @contextlib.contextmanager
    def _loss_timeout(self) -> Iterator[None]:
        """Closes the connection if sshd does not respond; the library would wait an hour or forever."""
        watch = threading.Timer(LOST_S, self.close)
        watch.daemon = True
        watch.start()
        try:
            yield
        finally:
            watch.cancel()

    def _refused(self, error: Exception) -> LabError:
        name, where = self.spec.name, self.spec.ssh
        if isinstance(error, paramiko.BadHostKeyException):
            return HostLostError(
                f"{name}: {where} has another host key than the one known",
                "if it was set up anew, remove the old key (`ssh-keygen -R`); otherwise it is not your machine",
            )
        if isinstance(error, paramiko.AuthenticationException):
            used = self.spec.identity or "any key of the agent and of ~/.ssh"
            return HostLostError(
                f"{name}: {where} refuses {used}",
                "add the public key to ~/.ssh/authorized_keys there, or name another by `identity`",
            )
        return HostLostError(f"{name}: {where} cannot be reached: {_cause(error)}", self._help)

    @property
    def _help(self) -> str:
        return REACH.format(ssh=self.spec.ssh)

    def _stay_alive(self) -> None:
        """Sets keepalives and TCP_USER_TIMEOUT, to notice a host that is switched off."""
        self._fabric.transport.set_keepalive(ALIVE_S)
        link = self._fabric.transport.sock
        if isinstance(link, socket.socket):  # otherwise a proxy's
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(LOST_S * 1000))
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _shell(argv: Sequence[str | Path]) -> str:
    """The shell command for `argv`, with the system folders on PATH."""
    script = f'PATH="$PATH:{SYSTEM}" exec "$@"'
    return shlex.join(["sh", "-c", script, "sh", *map(str, argv)])


def _cause(error: Exception) -> str:
    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        error = next(iter(error.errors.values()))
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or "no answer"
