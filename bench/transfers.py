#!/usr/bin/env python3
"""Transfers, restart and updates of one large zone, as tables.

usage: bench/transfers.py [out] [in] [restart] [update] [--delegations N] [--rounds N] [--updates N]

The zone is a TLD: a million delegations of two name servers each, a tenth of them with glue, 2.2 M records in all.

out      AXFR to `zonda-load xfr pull` over TCP, with TSIG (hmac-sha256) and over TLS, in alternation, and the raw HMAC of as many octets
in       a secondary with an empty state directory, from `zonda`: until its first answer, and until its image is written
restart  a secondary after SIGKILL, without its primary: until its first answer. Then the same zone from its text
update   one added record: until the primary's and the secondary's answers have it, alone and with an AXFR reader that stalls

The server runs on CPU 0, everything else on CPU 1. CPU time is user and system time of the measured server.
"""

from __future__ import annotations

import argparse
import hmac
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from queries import AXFR, SOA, A, is_answered, question, udp_client, wait_until_answered
from server_process import ServerProcess, load_result, serving
from zones import write_tld_zone

PORT, TLS_PORT, SECONDARY_PORT = 5391, 5392, 5393
SECRET = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
#: What one TSIG of a full message covers.
MESSAGE = 65_000


# ----------- servers -------------------------------------------------------------


def primary_config(folder: Path, zone: Path) -> str:
    """A primary that anybody on this machine may update and transfer from, with a key and over TLS too."""
    return (
        f'[server]\nlisten = ["127.0.0.1:{PORT}"]\nlisten-tls = ["127.0.0.1:{TLS_PORT}"]\ntls-cert = "{folder}/cert.pem"\n'
        f'tls-key = "{folder}/key.pem"\nstate-dir = "{folder}/primary-state"\n\n[[key]]\nname = "t."\nalgorithm = "hmac-sha256"\n'
        f'secret = "{SECRET}"\n\n[[zone]]\nname = "tld"\nfile = "{zone}"\nallow-transfer = ["127.0.0.0/8"]\n'
        f'allow-update = ["127.0.0.0/8"]\nnotify = ["127.0.0.1:{SECONDARY_PORT}"]\n'
    )


def secondary_config(folder: Path) -> str:
    """A secondary of the primary above."""
    return (
        f'[server]\nlisten = ["127.0.0.1:{SECONDARY_PORT}"]\nstate-dir = "{folder}/secondary-state"\n\n'
        f'[[zone]]\nname = "tld"\nprimaries = ["127.0.0.1:{PORT}"]\n'
    )


def write_certificate(folder: Path) -> None:
    """A certificate, signed by itself."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    subprocess.run([*command.split(), "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)


# ----------- sections -------------------------------------------------------------


def transfers_out(folder: Path, zone: Path, records: int, arguments: argparse.Namespace) -> None:
    """AXFR over each transport."""
    (folder / "names").write_text("tld\n")
    kinds = {
        "TCP": ["--port", str(PORT)],
        "TSIG": ["--port", str(PORT), "--tsig", f"hmac-sha256:t.:{SECRET}"],
        "TLS": ["--port", str(TLS_PORT), "--transport", "tls"],
    }
    figures: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    octets = 0
    with serving(folder, primary_config(folder, zone)) as server:
        wait_until_answered(PORT, question("tld", SOA))
        server.wait_until_idle()
        for _ in range(arguments.rounds):
            for kind, more in kinds.items():
                before = server.cpu_s()
                pull = ["xfr", "pull", "--server", "127.0.0.1", "--zones", f"{folder}/names", *more]
                summary = load_result(pull, cpu=1)["zonda"]
                if summary["records"] != records + 1:
                    raise SystemExit(f"{kind}: {summary['records']} records instead of {records + 1}")
                octets = max(octets, summary["bytes"])
                figures[kind].append((summary["seconds"], server.cpu_s() - before))
    hmac_s = min(hmac_seconds(octets) for _ in range(arguments.rounds))
    print(f"\nAXFR out, {records} records, {octets / 1e6:.0f} MB, medians of {arguments.rounds}; raw HMAC-SHA256 of as much: {hmac_s:.3f} s")
    print(f"{'':8}{'seconds':>9}{'of TCP':>8}{'CPU s':>8}{'us/record':>11}{'CPU added / raw HMAC':>22}")
    tcp = [statistics.median(column) for column in zip(*figures["TCP"], strict=True)]
    for kind, rounds in figures.items():
        seconds, cpu = (statistics.median(column) for column in zip(*rounds, strict=True))
        added = f"{(cpu - tcp[1]) / hmac_s:22.2f}" if kind == "TSIG" else ""
        print(f"{kind:8}{seconds:9.3f}{seconds / tcp[0]:8.2f}{cpu:8.3f}{cpu * 1e6 / records:11.4f}{added}")


def hmac_seconds(octets: int) -> float:
    """CPU seconds of OpenSSL's HMAC-SHA256 over this many octets, message by message."""
    key, message = bytes(32), bytes(MESSAGE)
    began = time.process_time()
    for _ in range(octets // MESSAGE):
        hmac.digest(key, message, "sha256")
    return time.process_time() - began


def transfer_in(folder: Path, zone: Path, records: int, arguments: argparse.Namespace) -> None:
    """A secondary without any data, again and again."""
    print(f"\nAXFR in, {records} records")
    print(f"{'':8}{'seconds':>9}{'CPU s':>8}{'us/record':>11}{'with image':>12}{'peak MB':>9}{'PSS MB':>8}{'of PSS':>8}")
    with serving(folder, primary_config(folder, zone), cpu=1) as primary:
        wait_until_answered(PORT, question("tld", SOA))
        primary.wait_until_idle()
        for number in range(arguments.rounds):
            own = folder / f"in-{number}"
            own.mkdir()
            began = time.monotonic()
            with serving(own, secondary_config(own)) as server:
                seconds = wait_until_answered(SECONDARY_PORT, question("tld", SOA)) - began
                cpu = server.cpu_s()
                server.wait_until_idle()
                with_image, pss, peak = server.cpu_s(), server.pss(), server.peak()
            each, all_each = cpu * 1e6 / records, with_image * 1e6 / records
            print(f"{'':8}{seconds:9.3f}{cpu:8.2f}{each:11.3f}{all_each:12.3f}{peak / 1e6:9.1f}{pss / 1e6:8.1f}{peak / pss:8.2f}")


def restart(folder: Path, zone: Path, records: int, arguments: argparse.Namespace) -> None:
    """Kills a secondary that has an image, and starts it without its primary; the same from text."""
    with serving(folder / "p", primary_config(folder, zone), cpu=1), serving(folder / "s", secondary_config(folder)) as server:
        wait_until_answered(SECONDARY_PORT, question("tld", SOA))
        server.wait_until_idle()
        server.stop(signal.SIGKILL)
    last = question("domain999.tld", A)
    print(f"\nrestart with {records} records, seconds to the first answer, CPU seconds by then, seconds to stop")
    text = primary_config(folder, zone).replace("primary-state", "text-state")
    for kind, config, port in [("image", secondary_config(folder), SECONDARY_PORT), ("text", text, PORT)]:
        for _ in range(arguments.rounds):
            shutil.rmtree(folder / "text-state", ignore_errors=True)
            began = time.monotonic()
            with serving(folder / kind, config) as server:
                seconds, cpu = wait_until_answered(port, question("tld", SOA)) - began, server.cpu_s()
                with udp_client(port, 1) as client:
                    client.send(last)
                    if client.recv(4096)[9] == 0:
                        raise SystemExit("a delegation is missing")
                print(f"{kind:8}{seconds:9.3f}{cpu:8.2f}{server.stop():9.3f}")


def update(folder: Path, zone: Path, _records: int, arguments: argparse.Namespace) -> None:
    """Adds records one by one, and waits for each at the primary and at the secondary."""
    with serving(folder / "p", primary_config(folder, zone)) as primary, serving(folder / "s", secondary_config(folder)) as secondary:
        wait_until_answered(SECONDARY_PORT, question("tld", SOA))
        primary.wait_until_idle()
        secondary.wait_until_idle()
        print("\nmilliseconds from one update to the first answer with it: median, 90 %, maximum; and what the primary did for each")
        print(f"{'':28}{'primary':>24}{'secondary':>24}{'CPU ms':>8}{'disk kB':>9}")
        add_records(primary, "alone", 0, arguments.updates)
        with stalled_reader():
            add_records(primary, "with a stalled AXFR reader", arguments.updates, arguments.updates)


@contextmanager
def stalled_reader() -> Iterator[None]:
    """Begins an AXFR and does not read it."""
    query = question("tld", AXFR)
    with socket.create_connection(("127.0.0.1", PORT)) as reader:
        reader.sendall(struct.pack("!H", len(query)) + query)
        reader.recv(1000)
        yield


def add_records(server: ServerProcess, what: str, first: int, count: int) -> None:
    """A row of the table."""
    times_ms: list[tuple[float, float]] = []
    before, written = server.cpu_s(), server.written()
    with udp_client(PORT, 5) as primary, udp_client(SECONDARY_PORT, 5) as secondary, udp_client(PORT, 5) as updater:
        for number in range(first, first + count):
            name = f"new{number}.tld"
            query, began = question(name, A, number + 2), time.monotonic()
            updater.send(add_message(name, number))
            arrivals = []
            for client in (primary, secondary):
                while not is_answered(client, query):
                    if time.monotonic() - began > 30:
                        raise SystemExit(f"{name} does not arrive")
                arrivals.append((time.monotonic() - began) * 1e3)
            times_ms.append((arrivals[0], arrivals[1]))
            if updater.recv(512)[3] & 15:
                raise SystemExit("an update is refused")
    cells = ""
    for column in zip(*times_ms, strict=True):
        ordered = sorted(column)
        cells += f"{statistics.median(ordered):10.2f}{ordered[len(ordered) * 9 // 10]:7.2f}{ordered[-1]:7.2f}"
    print(f"{what:28}{cells}{(server.cpu_s() - before) * 1e3 / count:8.2f}{(server.written() - written) / count / 1e3:9.1f}")


def add_message(name: str, number: int) -> bytes:
    """An UPDATE (RFC 2136) of `tld` that adds an address."""
    head = question("tld", SOA, number + 2, opcode=5)
    owner = question(name, A)[12:-4]
    return head[:8] + struct.pack("!2H", 1, 0) + head[12:] + owner + struct.pack("!2HIH", A, 1, 300, 4) + bytes([192, 0, 2, 1])


SECTIONS = {"out": transfers_out, "in": transfer_in, "restart": restart, "update": update}


def main() -> None:
    """Reads the arguments and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="what to measure; everything if it is left out")
    parser.add_argument("--delegations", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=200)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {1})
    with tempfile.TemporaryDirectory(prefix="zonda-transfers-") as temporary:
        zone = Path(temporary) / "tld.zone"
        records = write_tld_zone(zone, arguments.delegations)
        for section in arguments.sections or SECTIONS:
            folder = Path(temporary) / section
            folder.mkdir()
            write_certificate(folder)
            SECTIONS[section](folder, zone, records, arguments)


if __name__ == "__main__":
    sys.exit(main())
