"""One SSH connection to a host: opened with its key checked, commands and their input. The only user of fabric."""

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

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # what goes wrong is told once, by us
CONNECT_S = 10.0
LOST_S = 15.0  # without a sign of the host for so long, the connection is lost
ALIVE_S = 5  # between signs
SILENT_S = 300.0  # a short command that neither takes nor says anything for so long has no end
BUFFER = 1 << 16
REACH = "is it up, is sshd running, may we connect? `ssh {ssh}` tells more"


class _OnlyKnown(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """No host is believed whose key is not known already."""

    def missing_host_key(self, _client: object, hostname: str, key: Any) -> None:
        raise HostLostError(
            f"{hostname}: its host key is not known ({key.get_name()} {key.fingerprint})",
            "connect once with ssh, or name a file with the key by `known-hosts` in the inventory",
        )


class ConnectionLostError(LabError):
    """A connection that was open has ended; the host may still be there."""


class SshConnection:
    """An open connection; all errors of the library come out as one message that names the host."""

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
        """Is it still open?"""
        return bool(self._fabric.is_connected and self._fabric.transport.is_active())

    def close(self) -> None:
        """Ends all that runs over it."""
        self._fabric.close()

    def run(self, argv: Sequence[str | Path]) -> tuple[int, str, str]:
        """A short command to its end: its status, output and error output."""
        return self.feed(argv, lambda _: None)

    def start(self, argv: Sequence[str | Path]) -> Any:
        """A command that goes on: its channel."""
        with self._told(), self._answered():
            channel = self._fabric.create_session()
            channel.exec_command(_shell(argv))
        return channel

    def feed(self, argv: Sequence[str | Path], fill: Callable[[Any], None]) -> tuple[int, str, str]:
        """A short command whose input `fill` writes: its status and both outputs, each less than an SSH window."""
        with self._told():
            channel = self.start(argv)
            channel.settimeout(SILENT_S)
            with channel.makefile_stdin("wb", BUFFER) as stream:
                fill(stream)
            with channel.makefile("rb") as output, channel.makefile_stderr("rb") as errors:
                printed, complained = output.read(), errors.read()
            with self._answered():
                status = channel.recv_exit_status()
            return status, printed.decode(errors="replace"), complained.decode(errors="replace")

    def tcp(self, address: str, port: int, timeout_s: float) -> Any:
        """A TCP connection made by the host (what `ssh -W` does); raises OSError if there is none."""
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
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (paramiko.SSHException, OSError, EOFError, AttributeError) as error:
            if isinstance(error, AttributeError) and self.alive:
                raise
            self.close()  # what is half done over it would be found by the next command
            lost = f"{self.spec.name}: the connection to {self.spec.ssh} is lost: {_cause(error)}"
            raise ConnectionLostError(lost, self._mend) from None

    @contextlib.contextmanager
    def _answered(self) -> Iterator[None]:
        """An sshd that lives and says nothing is lost too: the library would wait an hour for it, or for ever."""
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
        return HostLostError(f"{name}: {where} cannot be reached: {_cause(error)}", self._mend)

    @property
    def _mend(self) -> str:
        return REACH.format(ssh=self.spec.ssh)

    def _stay_alive(self) -> None:
        """A host that is switched off is noticed: the kernel gives up when its signs are not acknowledged."""
        self._fabric.transport.set_keepalive(ALIVE_S)
        link = self._fabric.transport.sock
        if isinstance(link, socket.socket):  # otherwise a proxy's
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(LOST_S * 1000))
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _shell(argv: Sequence[str | Path]) -> str:
    """For whatever shell the user has there; system programs are found without being root."""
    script = f'PATH="$PATH:{SYSTEM}" exec "$@"'
    return shlex.join(["sh", "-c", script, "sh", *map(str, argv)])


def _cause(error: Exception) -> str:
    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        error = next(iter(error.errors.values()))
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or "no answer"
