"""Generates zone files with random mistakes, as operators, editors, scripts and old software make them."""

from __future__ import annotations

import random
from collections.abc import Callable

OUT_OF_ZONE = "out.example."
OWNERS = ("@", "www", "d", "x.d", "cut", "ns.cut", "*.w", "alias", "new", "a.b.c", "WWW", OUT_OF_ZONE, f"deep.{OUT_OF_ZONE}")
ODD_OWNERS = ('"quoted"', '"two words"', "a..b", "x" * 64, "under_score", "sl/ash", "a\\.b", "\\065", "@x", "-", "1", "A", ".", "\\300", "a\\")
TYPES = ("A", "AAAA", "NS", "CNAME", "DNAME", "MX", "TXT", "SRV", "PTR", "SOA", "DS", "CAA", "TYPE1", "TYPE65280", "ANY", "BOGUS")
TTLS = ("", "0", "1h", "1W2d", "2147483648", "4294967296", "-1", "60 60", "1x", "IN 60", "60 IN", "CH", "CLASS1", "IN IN")
NUMBERS = ("0", "1", "255", "256", "65535", "65536", "-1", "00")
WORDS = (*NUMBERS, "", ".", "@", "x", '"x y"', '""', "192.0.2.1", "2001:db8::1", "a..b", "\\# 1 00", "\\# 0", "AAAA")

ORIGINS = ("$ORIGIN sub", f"$ORIGIN {OUT_OF_ZONE}", "$ORIGIN", "$ORIGIN a..b")
DIRECTIVES = (*ORIGINS, "$TTL 60", "$TTL", "$TTL x", "$TTL 60 x", "$FOO bar", "$INCLUDE absent")

BASE_ZONE = """\
$TTL 3600
@ SOA ns host 1 7200 900 1209600 300
@ NS ns
@ NS ns.elsewhere.test.
@ MX 10 mail
@ TXT "v=spf1 -all" "second"
@ CAA 0 issue "ca.example"
ns A 192.0.2.1
ns AAAA 2001:db8::1
mail 300 A 192.0.2.25
www IN 60 A 192.0.2.80
www A 192.0.2.81
alias CNAME www
*.w TXT "wildcard"
d DNAME target
x.target A 192.0.2.4
cut NS ns.cut
cut NS ns
cut DS 12345 13 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
ns.cut A 192.0.2.5
_sip._tcp SRV 1 2 5060 mail
host HINFO "PC" "Linux"
host RP host.test. txt
ptr PTR www
sshfp SSHFP 4 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
svc HTTPS 1 . alpn="h2,h3" ipv4hint=192.0.2.1
svc SVCB 0 www
loc LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m
own TYPE65280 \\# 3 010203
naptr NAPTR 100 10 "u" "E2U+sip" "!^.*$!sip:info@example.com!" .
multi TXT ( "one"
  "two" ) ; a comment
"""

Lines = list[str]


def mutated_zone(seed: int) -> str:
    """The base zone with one to three random mistakes; deterministic for a seed."""
    rng = random.Random(seed)
    lines = BASE_ZONE.splitlines()
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice(MUTATIONS)(rng, lines)
    end = rng.choice(("\n",) * 8 + ("\r\n", ""))
    return ("\r\n" if end == "\r\n" else "\n").join(lines) + end


def random_line(rng: random.Random, lines: Lines) -> int:
    return rng.randrange(len(lines))


def delete(rng: random.Random, lines: Lines) -> None:
    del lines[random_line(rng, lines)]


def duplicate(rng: random.Random, lines: Lines) -> None:
    lines.insert(random_line(rng, lines), rng.choice(lines))


def move(rng: random.Random, lines: Lines) -> None:
    lines.insert(random_line(rng, lines), lines.pop(random_line(rng, lines)))


def reorder(rng: random.Random, lines: Lines) -> None:
    rng.shuffle(lines)


def change_owner(rng: random.Random, lines: Lines) -> None:
    at = random_line(rng, lines)
    _, _, rest = lines[at].partition(" ")
    lines[at] = f"{rng.choice((*OWNERS, *ODD_OWNERS, ''))} {rest}"


def change_field(rng: random.Random, lines: Lines) -> None:
    at = random_line(rng, lines)
    fields = lines[at].split(" ")
    index = rng.randrange(len(fields))
    fields[index] = rng.choice((*WORDS, *TYPES))
    lines[at] = " ".join(fields)


def repeat_or_drop_field(rng: random.Random, lines: Lines) -> None:
    at = random_line(rng, lines)
    fields = lines[at].split(" ")
    index = rng.randrange(len(fields))
    fields[index : index + 1] = [fields[index]] * rng.choice((0, 2))
    lines[at] = " ".join(fields)


def change_octet(rng: random.Random, lines: Lines) -> None:
    at = random_line(rng, lines)
    if lines[at]:
        column = rng.randrange(len(lines[at]))
        octet = rng.choice(("", *'";()\\$@.- \t09aZ', "\\000", "\\"))
        lines[at] = lines[at][:column] + octet + lines[at][column + rng.choice((0, 1)) :]


def set_ttl(rng: random.Random, lines: Lines) -> None:
    at = random_line(rng, lines)
    owner, _, rest = lines[at].partition(" ")
    lines[at] = f"{owner} {rng.choice(TTLS)} {rest}"


def add_record(rng: random.Random, lines: Lines) -> None:
    owner, target = rng.choice(OWNERS), rng.choice(OWNERS[1:])
    data = {
        "A": "192.0.2.99",
        "TXT": '"x"',
        "SOA": rng.choice(("ns host 1 7200 900 1209600 300", "NS host 1 7200 900 1209600 300", "ns host 2 7200 900 1209600 300")),
        "MX": f"5 {target}",
        "KEY": "256 3 5 AQPSKmynfzW4kyBv015MUG2DeIQ3",
        "NSEC": f"{target} A NSEC",
        "RRSIG": "A 13 3 60 20300101000000 20200101000000 1 @ AAAA",
    }
    rtype = rng.choice((*data, *("CNAME", "DNAME", "NS") * 3))
    lines.insert(rng.randint(2, max(2, len(lines))), f"{owner} {rtype} {data.get(rtype, target)}")


def add_directive(rng: random.Random, lines: Lines) -> None:
    lines.insert(random_line(rng, lines), rng.choice(DIRECTIVES))


def break_line(rng: random.Random, lines: Lines) -> None:
    at = random_line(rng, lines)
    cut = rng.randrange(len(lines[at]) + 1)
    lines[at : at + 1] = [lines[at][:cut], lines[at][cut:]]


MUTATIONS: tuple[Callable[[random.Random, Lines], None], ...] = (
    *(delete, duplicate, move, reorder, change_owner, change_owner, change_field, change_field, repeat_or_drop_field),
    *(change_octet, change_octet, set_ttl, add_record, add_record, add_record, add_directive, break_line),
)
