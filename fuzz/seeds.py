#!/usr/bin/env python3
"""Writes the seed corpus of each fuzz target: well-formed input for the fuzzer to mutate."""

import itertools
import random
import struct
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"

NAMES = [".", "z.", "a.z.", "b.a.z.", "*.z.", "a.b.c.z.", "version.bind.", "l" * 63 + ".z."]
TYPES = [1, 2, 5, 6, 16, 28, 39, 43, 46, 47, 48, 50, 64, 251, 252, 255]
OPTIONS = [
    (3, b""),
    (9, b""),
    (10, b"cookie01"),
    (10, b"cookie01" + b"s" * 16),
    (11, b""),
    (15, b"\0\x14"),
    (19, b""),
    (65001, b"x"),
]

ZONE = r"""$ORIGIN z.
$TTL 1h
@ SOA ns hostmaster ( 1 2h 15m
    1w 5m ) ; numbers
  NS ns
ns A 192.0.2.1
  AAAA 2001:db8::1
*.w 300 IN MX 10 mail.example.com.
a\.b IN 60 TXT "one" two \"three\" \065
c CNAME @
d DNAME e
sub NS ns.sub
sub DS 12345 13 2 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
ns.sub A 192.0.2.2
$GENERATE 1-3/2 host${0,3,d} A 192.0.2.$
u TYPE65280 \# 3 010203
s HTTPS 1 . alpn=h2,h3 port=443 ipv4hint=192.0.2.3
loc LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m
caa CAA 0 issue "ca.example"
@ NSEC a\.b.z. A NS SOA RRSIG NSEC TYPE65280
@ RRSIG NSEC 13 1 300 20300101000000 20200101000000 1 z. c2lnbmF0dXJl
2t7b4g4vsa5smi47k61mv5bv1a22bojr NSEC3 1 1 12 aabbccdd 2vptu5timamqttgl4luu9kg21e0aor3s A RRSIG
"""


def wire_name(name: str) -> bytes:
    labels = [label.encode() for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def opt(payload: int, version: int, flags: int, options: list[tuple[int, bytes]]) -> bytes:
    rdata = b"".join(struct.pack("!HH", code, len(data)) + data for code, data in options)
    return b"\0" + struct.pack("!HHBBHH", 41, payload, 0, version, flags, len(rdata)) + rdata


def query(name: str, rtype: int, additional: bytes = b"") -> bytes:
    header = struct.pack("!6H", 0x1234, 0x0100, 1, 0, 0, 1 if additional else 0)
    return header + wire_name(name) + struct.pack("!HH", rtype, 1) + additional


def edns_input(payload: int, version: int, flags: int, copies: int, options: int) -> bytes:
    """Input of the target `edns`: payload size, version, flags, number of OPT records, then their RDATA."""
    fixed = struct.pack("!HBHB", payload, version, flags, copies)
    return fixed + opt(0, 0, 0, OPTIONS[:options])[11:]


def answer() -> bytes:
    """A response with compressed names in owner and RDATA."""
    record = b"\xc0\x0c" + struct.pack("!HHIH", 15, 1, 3600, 7) + b"\0\x0a\x02mx\xc0\x10"
    return struct.pack("!6H", 0x1234, 0x8400, 1, 1, 0, 0) + wire_name("www.z.") + struct.pack("!HH", 15, 1) + record


def record(owner: str, rtype: int, rclass: int, ttl: int, rdata: bytes = b"") -> bytes:
    return wire_name(owner) + struct.pack("!HHIH", rtype, rclass, ttl, len(rdata)) + rdata


def update(prerequisites: list[bytes], updates: list[bytes]) -> bytes:
    """An UPDATE message for the zone z., after its length."""
    header = struct.pack("!6H", 1, 0x2800, 1, len(prerequisites), len(updates), 0)
    message = header + wire_name("z.") + struct.pack("!HH", 6, 1) + b"".join(prerequisites + updates)
    return struct.pack("!H", len(message)) + message


def updates() -> list[bytes]:
    """Updates that add, replace and delete, with each kind of prerequisite."""
    owners = ["z.", "ns.z.", "a.w.z.", "sub.z.", "x.sub.z.", "d.z.", "x.d.z.", "c.z.", "new.z."]
    data = [(1, b"\xc0\0\2\1"), (2, wire_name("ns.z.")), (5, wire_name("e.z.")), (16, b"\3one"), (39, wire_name("f.z."))]
    soa = wire_name("ns.z.") + wire_name("host.z.") + struct.pack("!5I", 9, 1, 1, 1, 1)
    changes = [[record("z.", 6, 1, 60, soa)]]
    for owner in owners:
        changes += [[record(owner, rtype, 1, 60, rdata)] for rtype, rdata in data]
        changes += [[record(owner, rtype, 254, 0, rdata)] for rtype, rdata in data]
        changes += [[record(owner, rtype, 255, 0)] for rtype in (1, 2, 255)]
    prerequisites = [[record("ns.z.", rtype, rclass, 0)] for rtype in (1, 255) for rclass in (254, 255)]
    prerequisites += [[], [record("ns.z.", 1, 1, 0, b"\xc0\0\2\1")]]
    single = [update(prerequisite, change) for prerequisite in prerequisites for change in changes]
    return [*single, *(b"".join(single[at : at + 8]) for at in range(0, len(single), 8))]


def signed(name: str, algorithm: str, mac: bytes) -> bytes:
    """The input of the target `tsig`: a key, a change, and a query with a TSIG record, whose MAC is wrong."""
    rdata = wire_name(algorithm) + struct.pack("!HIHH", 0, 1_700_000_000, 300, len(mac)) + mac + struct.pack("!HHH", 0x1234, 0, 0)
    return bytes([2, 13]) + query("a.z.", 252, record(name, 250, 255, 0, rdata))


def journal_record(kind: int, zone: int, sequence: int, numbers: tuple[int, int, int, int], payload: bytes) -> bytes:
    """A record of the journal without checksums, which the fuzz target adds; `numbers` are base, from, to and batch."""
    base, first, last, batch = numbers
    name = wire_name(f"zone{zone}.example.")
    head = struct.pack("<IBBHQQIIII", len(payload), kind, len(name), 0, sequence, base, zone, first, last, batch)
    record = bytes(8) + head + name + payload
    return record + bytes(-len(record) % 8)


def journal_file(records: list[bytes], predecessor: int = 0, predecessor_len: int = 0, batch: int = 0) -> bytes:
    """A file of the journal after its flags and length, without checksums."""
    header = bytes(20) + struct.pack("<IIII", predecessor, predecessor_len, batch, 0) + bytes(44)
    octets = header + b"".join(records)
    return b"\1" + struct.pack("!H", len(octets)) + octets


def journals() -> list[bytes]:
    """Journals of one to three files: images, changes, timers, removals, and records that were moved."""
    frames = struct.pack("<II", 4, 0) + b"zone"
    image = journal_record(1, 0, 1, (1, 5, 0, 80), frames)
    changes = [journal_record(2, 0, 2 + n, (0, 5 + n, 6 + n, 80), b"change" * 5) for n in range(3)]
    timers = journal_record(3, 0, 6, (0, 0, 0, 80), bytes(24))
    removed = journal_record(4, 0, 7, (0, 0, 0, 80), b"")
    other = [journal_record(1, 1, 8, (8, 1, 0, 80), frames), journal_record(1, 1, 9, (8, 1, 2, 80), bytes(12))]
    first = [image, *changes, timers]
    second = journal_file([removed, *other], 1, 80 + sum(map(len, first)), 5)
    third = journal_file([*changes, image], 2, 400)
    files = [journal_file(first), journal_file([image, removed]), journal_file(changes), journal_file(other)]
    return [
        *(b"\1" + file for file in files),
        b"\2" + files[0] + second,
        b"\3" + files[0] + second + third,
        b"\3" + files[0] + b"\3" + third[1:] + second,
    ]


def proxy_headers() -> list[bytes]:
    """PROXY headers of version 2 of each command and family, some with a TLV, and a query after them."""
    addresses = {0x00: b"", 0x11: bytes(range(12)), 0x12: bytes(range(12)), 0x21: bytes(36), 0x22: bytes(36), 0x31: bytes(216)}
    parts = itertools.product((0x20, 0x21), addresses.items(), (b"", b"\x04\0\x02ab"), (b"", query("z.", 6)))
    return [
        b"\r\n\r\n\0\r\nQUIT\n" + struct.pack("!BBH", command, family, len(address + tlv)) + address + tlv + message
        for command, (family, address), tlv, message in parts
    ]


def write(target: str, seeds: list[bytes]) -> None:
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (folder / f"seed-{number:03}").write_bytes(seed)


def main() -> None:
    rng = random.Random(1034)
    queries = [query(name, rtype) for name in NAMES for rtype in TYPES]
    queries += [query("a.z.", 1, opt(1232, 0, 0x8000, [option])) for option in OPTIONS]
    write("message", [*queries, answer()])
    variants = itertools.product((512, 4096), (0, 1), (0, 0x8000), (1, 2), (0, 1, len(OPTIONS)))
    write("edns", [edns_input(*variant) for variant in variants])
    write("zone_text", [ZONE.encode(), *(line.encode() + b"\n" for line in ZONE.splitlines())])
    write("update", updates())
    macs = itertools.product(("key.", "other."), ("hmac-sha1.", "hmac-sha256.", "hmac-md5.sig-alg.reg.int."), (0, 9, 10, 16, 20, 32, 33))
    write("tsig", [*(b"\0\7" + it for it in queries), *(signed(name, algorithm, bytes(length)) for name, algorithm, length in macs)])
    write("journal", journals())
    write("proxy_header", proxy_headers())
    write("respond", [rng.randbytes(2) + it for it in queries])


if __name__ == "__main__":
    main()
