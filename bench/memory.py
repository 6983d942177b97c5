#!/usr/bin/env python3
"""Memory and load time of a realistic TLD: name server sets, glue, DS, NSEC3 with opt-out.

usage: bench/memory.py [DELEGATIONS=1000000] [server ...]      servers: zonda nsd knot, or others that the lab knows

A fifth of the delegations has its own name servers with glue, the others one of 20,000 provider sets; 40 % are signed: DS, its
RRSIG, NSEC3 and its RRSIG. Signatures and keys are random octets of the right length (ECDSA P-256), as no server here verifies them.
Prints, for each server: proportional set size one second after the first answer, the peak while loading, seconds to the first answer,
CPU seconds. Peak is the sum of the peaks (VmHWM) of all processes.
"""

from __future__ import annotations

import base64
import hashlib
import random
import sys
import tempfile
import time
from pathlib import Path

from queries import SOA, is_answered, question, udp_client
from server_process import ROOT, ZONDA, started

sys.path.append(str(ROOT / "lab"))
from zonda_lab.errors import LabError
from zonda_lab.rig import procfs
from zonda_lab.servers import ADAPTERS
from zonda_lab.servers.config import Endpoint, ServerConfig, Zone

PORT = 5399
BASE32HEX = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789abcdefghijklmnopqrstuv")


def base32hex(digest: bytes) -> str:
    """A hash as label of an NSEC3 owner (RFC 5155 3.3)."""
    return base64.b32encode(digest).translate(BASE32HEX).decode()


def write_zone(path: Path, delegations: int) -> int:
    """Writes the zone `tld.`; returns the number of its records."""
    rnd = random.Random(1)
    records = 0

    def signature(covered: str, labels: int, ttl: int) -> str:
        octets = base64.b64encode(rnd.randbytes(64)).decode()
        return f"RRSIG {covered} 13 {labels} {ttl} 20890101000000 20260101000000 12345 tld. {octets}"

    with path.open("w") as zone:
        lines = [
            "$ORIGIN tld.",
            "$TTL 3600",
            f"@ SOA ns1 host 1 7200 900 1209600 300\n@ {signature('SOA', 1, 3600)}",
            f"@ NS ns1\n@ {signature('NS', 1, 3600)}\nns1 A 192.0.2.1\nns1 {signature('A', 2, 3600)}",
            f"@ NSEC3PARAM 1 0 0 -\n@ {signature('NSEC3PARAM', 1, 0)}",
            f"@ DNSKEY 257 3 13 {base64.b64encode(rnd.randbytes(64)).decode()}\n@ {signature('DNSKEY', 1, 3600)}",
        ]
        records += 11
        apex = hashlib.sha1(b"\x03tld\x00").digest()
        chain = [apex]
        for number in range(delegations):
            name = f"{rnd.choice(('', 'my', 'the', 'best', 'shop'))}{''.join(rnd.choices('abcdefghijklmnopqrstuvwxyz', k=6))}{number:x}"
            if number % 5 == 0:
                lines += [f"{name} NS ns{i}.{name}\nns{i}.{name} A 10.{i}.{number >> 8 & 255}.{number & 255}" for i in (1, 2)]
                records += 4
            else:
                provider = rnd.randrange(20_000)
                lines += [f"{name} NS ns{i}.provider{provider}.example." for i in (1, 2)]
                records += 2
            if number % 10 < 4:
                lines.append(f"{name} DS {rnd.randrange(65536)} 13 2 {rnd.randbytes(32).hex()}\n{name} {signature('DS', 2, 3600)}")
                chain.append(hashlib.sha1(bytes([len(name)]) + name.encode() + b"\x03tld\x00").digest())
                records += 2
            if len(lines) > 10_000:
                zone.write("\n".join(lines) + "\n")
                lines.clear()
        chain.sort()
        owners = [base32hex(digest) for digest in chain]
        for digest, owner, following in zip(chain, owners, [*owners[1:], owners[0]], strict=True):
            types = "NS SOA RRSIG DNSKEY NSEC3PARAM" if digest == apex else "NS DS RRSIG"
            lines.append(f"{owner} 300 NSEC3 1 1 0 - {following} {types}\n{owner} 300 {signature('NSEC3', 2, 300)}")
        zone.write("\n".join(lines) + "\n")
        return records + 2 * len(chain)


def command(server: str, zone: Path, folder: Path) -> list[str]:
    """Writes the server's configuration and returns its command line."""
    if server == "zonda":
        return [ZONDA, "serve", "--listen", f"127.0.0.1:{PORT}", "--zone", f"tld={zone}"]
    adapter = ADAPTERS[server]
    config = ServerConfig(folder / server, Endpoint("127.0.0.1", PORT), (Zone("tld.", zone),), tcp_clients=100, tuned=False)
    adapter.prepare(config)
    return [str(word) for word in adapter.command(adapter.find(), config)]


def measure(server: str, zone: Path, records: int, folder: Path) -> None:
    """Starts a server, waits for its first answer, prints memory and times."""
    words, began = command(server, zone, folder), time.monotonic()
    with started(words, folder / f"{server}.log") as process:
        with udp_client(PORT, 0.02) as client:
            while not is_answered(client, question("tld", SOA)):
                if process.poll() is not None or time.monotonic() - began > 600:
                    print(f"{server:8} does not answer")
                    return
                time.sleep(0.005)
        seconds = time.monotonic() - began
        time.sleep(1)
        pids = [process.pid, *procfs.descendants(process.pid)]
        memory, cpu = procfs.memory_of(pids), procfs.cpu_s(pids)
        size, peak = memory.pss_kb / 1e3, memory.peak_kb / 1e3
        per_record = size * 1e6 / records
        print(f"{server:8} {size:8.1f} MB  {per_record:6.1f} octets a record  peak {peak:8.1f} MB  {seconds:6.2f} s  CPU {cpu:6.2f} s", flush=True)


def main() -> None:
    arguments = sys.argv[1:]
    delegations = int(arguments.pop(0)) if arguments and arguments[0].isdigit() else 1_000_000
    servers = arguments or ["zonda", "nsd", "knot"]
    if unknown := [server for server in servers if server not in ADAPTERS]:
        raise SystemExit(f"no server {unknown[0]}; help: the lab knows {', '.join(ADAPTERS)}")
    with tempfile.TemporaryDirectory(prefix="zonda-memory-") as folder:
        zone = Path(folder) / "tld.zone"
        records = write_zone(zone, delegations)
        print(f"{delegations} delegations, {records} records, {zone.stat().st_size / 1e6:.0f} MB of text")
        for server in servers:
            try:
                measure(server, zone, records, Path(folder))
            except LabError as missing:
                print(missing)


if __name__ == "__main__":
    main()
