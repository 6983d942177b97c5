"""Runs on a remote host, in the Python that execnet starts there. Standard library only, without dataclasses.

The first message is the session folder and the longest silence in seconds. Each further message is a request (function,
arguments, channel for its answers), or None as a sign of life. When the connection ends or is silent for too long, all
programs are killed, and the folder, which holds the lab's files of this session, is removed, unless the lab has come
back meanwhile over another connection.
"""

import contextlib
import errno
import hashlib
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

OWNER = "agent.pid"  # holds the process id of the agent that has the folder
# The killed programs need some time to end, and then write no more into the folder.
REMOVE = f'sleep 1; read -r owner < "$1/{OWNER}" && test "$owner" = "$2" && rm -rf "$1"'
PIECE = 1 << 16
running: set[int] = set()  # process groups of programs
has_given_up = threading.Event()  # the lab is silent, and its programs are killed


def serve(channel: Any) -> None:
    """Answers requests until the connection ends."""
    folder, silence_s = channel.receive()
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    Path(folder, OWNER).write_text(f"{os.getpid()}\n")
    with contextlib.suppress(EOFError, channel.TimeoutError):
        while True:
            if request := channel.receive(silence_s):
                function, arguments, answers = request
                threading.Thread(target=globals()[function], args=(answers, *arguments), daemon=True).start()
    has_given_up.set()
    for group in list(running):
        kill(group)
    with Path(os.devnull).open("r+b") as quiet:
        remove = ["sh", "-c", REMOVE, "sh", folder, str(os.getpid())]
        subprocess.Popen(remove, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    os._exit(0)


def program(channel: Any, argv: list[str]) -> None:
    """Runs a program: sends its process id and start, its output, at last its status and CPU time; receives signals."""
    began_ns = time.monotonic_ns()
    child = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    running.add(child.pid)
    channel.send({"pid": child.pid, "began_ns": began_ns})
    channel.setcallback(lambda number: send_signal(child.pid, number))
    reader = threading.Thread(target=forward, args=(child.stdout, channel))
    reader.start()
    # This thread waits, because the kernel kills the program when the thread that started it ends.
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    kill(child.pid)  # other descendants are in a PID namespace or die with their parent
    running.discard(child.pid)
    reader.join()
    if has_given_up.is_set():
        return  # for the lab the connection was lost, whatever still arrives
    shown = child.returncode if child.returncode >= 0 else 128 - child.returncode  # as a shell shows signals
    channel.send({"status": shown, "cpu_s": used.ru_utime + used.ru_stime})


def forward(output: Any, channel: Any) -> None:
    """Sends all output of a program."""
    with output, contextlib.suppress(OSError):  # the connection has ended
        while piece := output.read1(PIECE):
            channel.send(piece)


def send_signal(wrapper: int, number: int) -> None:
    """Signals the program, which is the first child of its wrapper, or the wrapper if it has none yet."""
    if wrapper not in running:
        return
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{wrapper}/task/{wrapper}/children").read_text().split()
        os.kill(int(children[0]) if children else wrapper, number)


def kill(group: int) -> None:
    """Kills a process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def command(channel: Any, argv: list[str]) -> None:
    """Runs a short command: receives its input, in pieces until an empty one; sends status, output and errors."""
    try:
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        channel.send((127, "", f"{argv[0]}: {error.strerror}"))
        return
    with contextlib.suppress(BrokenPipeError):  # it has ended, and its errors say why
        while piece := channel.receive():
            child.stdin.write(piece)  # type: ignore[union-attr]
    output, errors = child.communicate()
    channel.send((child.returncode, output.decode(errors="replace"), errors.decode(errors="replace")))


def connect(channel: Any, kind: str, address: str, port: int, timeout_s: float) -> None:
    """Opens a socket to a server: sends an error number or 0, then what the server sends; receives what to send."""
    try:
        if kind == "tcp":
            link = socket.create_connection((address, port), timeout_s)
            link.settimeout(None)
        else:
            link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            link.connect((address, port))
    except OSError as error:
        channel.send(error.errno or errno.ETIMEDOUT)
        return
    channel.send(0)
    channel.setcallback(lambda data: send(link, data), endmarker=b"")
    while True:
        with contextlib.suppress(ConnectionRefusedError):  # a datagram to a port where nothing listens yet
            if not (received := link.recv(PIECE)):
                break
            channel.send(received)


def send(link: socket.socket, data: bytes) -> None:
    """Sends data; empty data ends the connection, which also ends a `recv` that waits."""
    with contextlib.suppress(OSError):  # a datagram is lost, or the connection closed by the server
        link.sendall(data) if data else link.shutdown(socket.SHUT_RDWR)


def digests(channel: Any, paths: list[str]) -> None:
    """Sends the SHA-256 digest of each file; empty for a missing one."""
    channel.send([digest(Path(path)) for path in paths])


def digest(path: Path) -> str:
    """The SHA-256 digest of a file; empty if it is missing."""
    found = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                found.update(piece)
    except FileNotFoundError:
        return ""
    return found.hexdigest()


def clock(channel: Any) -> None:
    """Sends the monotonic and the real time, in nanoseconds."""
    channel.send((time.monotonic_ns(), time.time_ns()))


if __name__ == "__channelexec__":
    serve(channel)  # type: ignore[name-defined]  # noqa: F821
