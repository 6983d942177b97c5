"""Sets and reports receive buffers and listen backlogs of a running server; a stand-alone program.

`python3 server_sockets.py PID [--receive-buffer OCTETS] [--backlog N]` prints one JSON object per socket of the process
tree. The sockets are duplicated from the server (pidfd_getfd), so that every server gets equal settings, also where its
configuration has no key for them. Standard library only, because it also runs on remote machines.
"""

import argparse
import contextlib
import ctypes
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PIDFD_GETFD = 438  # system call number on all architectures
SO_RCVBUFFORCE = 33  # beyond net.core.rmem_max; needs CAP_NET_ADMIN
LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Sets what is given and prints the sockets."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("pid", type=int)
    arguments.add_argument("--receive-buffer", type=int, default=0)
    arguments.add_argument("--backlog", type=int, default=0)
    given = arguments.parse_args()
    for found in sockets(given.pid):
        with found:
            print(json.dumps(settled(found, given.receive_buffer, given.backlog)))


def settled(found: socket.socket, receive_buffer: int, backlog: int) -> dict[str, Any]:
    """Changes one socket; reports its receive buffer before and after, as the kernel counts it."""
    own = found.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    if found.type == socket.SOCK_DGRAM and receive_buffer:
        half = receive_buffer // 2  # the kernel doubles the value, for its own overhead
        try:
            found.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, half)
        except PermissionError:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, half)
    listens = bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    if listens and backlog:
        found.listen(backlog)  # of a listening socket, changes the backlog only
    return {
        "kind": "udp" if found.type == socket.SOCK_DGRAM else "tcp",
        "port": found.getsockname()[1],
        "listens": listens,
        "own_receive_buffer": own,
        "receive_buffer": found.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
    }


def sockets(root: int) -> Iterator[socket.socket]:
    """Duplicates of all bound UDP sockets and TCP listeners of a process tree, each once."""
    seen: set[str] = set()
    for pid in tree(root):
        with contextlib.suppress(OSError):  # the process has ended
            handle = os.pidfd_open(pid)
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):  # closed meanwhile
                    name = str(link.readlink())
                    if name.startswith("socket:") and name not in seen:
                        seen.add(name)
                        yield from served(duplicate(handle, int(link.name)))
            os.close(handle)


def served(found: socket.socket) -> Iterator[socket.socket]:
    """The socket, if clients send queries to it; otherwise closes it."""
    internet = found.family in (socket.AF_INET, socket.AF_INET6)
    is_udp = found.type == socket.SOCK_DGRAM
    if internet and found.getsockname()[1] and (is_udp or found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)):
        yield found
    else:
        found.close()


def duplicate(pidfd: int, number: int) -> socket.socket:
    """A duplicate of another process's socket."""
    ours = LIBC.syscall(PIDFD_GETFD, pidfd, number, 0)
    if ours < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return socket.socket(fileno=ours)


def tree(root: int) -> list[int]:
    """A process and its descendants."""
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                todo += map(int, (task / "children").read_text().split())
    return found


if __name__ == "__main__":
    main()
