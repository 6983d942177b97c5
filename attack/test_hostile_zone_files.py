"""Hostile zone files: rewritten while they are read, bombs, files of others, costly NSEC3 parameters."""

from __future__ import annotations

import itertools
import os
import resource
from pathlib import Path

import dns.rcode
import pytest

from daemon import TINY_ZONE, Daemon, repeated

APEX = "$TTL 60\n@ SOA ns.invalid. host.invalid. {serial} 3600 900 604800 300\n@ NS ns.invalid.\n"
MEMORY_LIMIT = 1 << 29


def limit_memory() -> None:
    """Runs in the child: allocations above `MEMORY_LIMIT` fail, which aborts a Rust program."""
    # Not RLIMIT_AS: each thread's arena reserves 64 MB of address space that it never uses.
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))


def is_served(server: Daemon, name: str) -> bool:
    return server.ask(name).rcode() == dns.rcode.NOERROR


def rewrite(server: Daemon, text: str, zone: str = "example") -> None:
    """Renames a new zone file into place."""
    new = server.zones / "new"
    new.write_text(text)
    new.rename(server.zones / f"{zone}.zone")


def assert_refused(server: Daemon, *words: str) -> str:
    """A reload reports all `words` and keeps the old version of the zone; returns the report."""
    result = server.reload()
    report = result.stdout + result.stderr
    assert result.returncode != 0, report
    assert all(word in report for word in words), report
    assert is_served(server, "www.example.")
    return report


# ----------- rewritten in place ------------------------------------------------


def version(serial: int, hosts: int) -> str:
    """A zone in which every address contains the serial."""
    return APEX.format(serial=serial) + "".join(f"h{n} A 10.0.0.{serial}\n" for n in range(hosts))


@pytest.mark.slow
@pytest.mark.parametrize("hosts", [60_000, 600_000])
def test_a_file_rewritten_in_place_is_never_served_as_a_mixture(daemon, hosts):
    server = daemon({"example": version(1, hosts)}).start()
    versions = itertools.cycle([version(serial, hosts).encode() for serial in (2, 3, 1)])
    with repeated(lambda: (server.zones / "example.zone").write_bytes(next(versions))):
        for _ in range(10):
            server.reload()
            assert server.process.poll() is None, server.log_text()
            names = [f"h{n}.example." for n in (0, hosts // 3, hosts // 2, hosts - 1)]
            answers = [server.ask(name).answer for name in names]
            addresses = {answer[0][0].address for answer in answers if answer}
            assert len(addresses) == 1, addresses


# ----------- bombs -------------------------------------------------------------


def test_generate_does_not_use_up_memory(daemon):
    server = daemon().start(preexec_fn=limit_memory)
    text = " ".join("${0,255,d}" for _ in range(30))
    rewrite(server, TINY_ZONE + f"$GENERATE 1-16000000 a$ TXT {text}\n")
    assert_refused(server, "max-generated")


def test_many_generates_do_not_use_up_memory(daemon):
    server = daemon().start(preexec_fn=limit_memory)
    rewrite(server, TINY_ZONE + "".join(f"$GENERATE 1-900000 a$.b{n} A 10.0.0.1\n" for n in range(30)))
    assert_refused(server, "max-generated")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("$GENERATE 1-1000000 a$.elsewhere. A 10.0.0.1\n" * 50, id="records that are left out"),
        pytest.param('$GENERATE 1-1000000 a$ A "10.0.0.1 ;' + "${0,255}" * 1000 + '"\n', id="comments"),
        pytest.param('$GENERATE 1-1000000 a$ A "10.0.0.1 ;' + "${0,255}" * 30000 + '"\n', id="long comments"),
    ],
)
def test_generate_does_not_use_up_time(daemon, line):
    server = daemon().start(preexec_fn=limit_memory)
    began_s = server.cpu_s()
    rewrite(server, TINY_ZONE + "$GENERATE 1-1000000 a$ A 10.0.0.1\n")
    assert server.reload().returncode == 0
    loaded_s = server.cpu_s()
    rewrite(server, TINY_ZONE + line)
    assert_refused(server, "error")
    # Unlimited, up to 50 million lines would be made. As many as are allowed take 0.5 to 1.6 times as long as a zone of that size.
    assert server.cpu_s() - loaded_s < 3 * (loaded_s - began_s)


@pytest.mark.parametrize("last", ["a A 192.0.2.1\n" * 1000, "; nothing\n" * 1000])
def test_includes_do_not_multiply_without_bound(daemon, last):
    server = daemon().start(preexec_fn=limit_memory)
    for depth in range(15):
        (server.zones / f"i{depth}").write_text(f"$INCLUDE i{depth + 1}\n" * 2)
    (server.zones / "i15").write_text(last)
    rewrite(server, TINY_ZONE + "$INCLUDE i0\n")
    assert_refused(server, "max-generated")


def test_max_records_is_the_size_of_a_zone(daemon):
    server = daemon(zones={"example": TINY_ZONE})
    server.configure("max-records = 10\n")
    server.start()
    rewrite(server, TINY_ZONE + "".join(f"h{n} A 192.0.2.{n}\n" for n in range(8)))
    assert_refused(server, "max-records")


# ----------- included files ----------------------------------------------------

SECRET = "topsecret"


def hide(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{SECRET} {SECRET}\n")
    return path


@pytest.mark.parametrize("route", ["absolute", "parent", "link", "linked folder", "proc"])
def test_includes_stay_in_their_folder(daemon, tmp_path, route):
    server = daemon().start(env=os.environ | {"SECRET": f"{SECRET} {SECRET}"})
    secret = hide(tmp_path / "elsewhere" / "secret")
    (server.zones / "link").symlink_to(secret)
    (server.zones / "folder").symlink_to(secret.parent)
    path = {
        "absolute": secret,
        "parent": "../../elsewhere/secret",
        "link": "link",
        "linked folder": "folder/secret",
        "proc": "/proc/self/environ",
    }[route]
    rewrite(server, TINY_ZONE + f"$INCLUDE {path}\n")
    assert SECRET not in assert_refused(server, "include-paths")
    assert SECRET not in server.log_text()


# ----------- NSEC3 -------------------------------------------------------------


def test_nsec3_with_many_iterations_is_not_loaded(daemon):
    server = daemon().start()
    salt = "AB" * 255
    chain = f"2t7b4g4vsa5smi47k61mv5bv1a22bojr NSEC3 1 0 65535 {salt} 2t7b4g4vsa5smi47k61mv5bv1a22bojr SOA NS\n"
    rewrite(server, TINY_ZONE + f"@ NSEC3PARAM 1 0 65535 {salt}\n{chain}")
    assert_refused(server, "iterations", "65535", "nsec3-max-iterations")
