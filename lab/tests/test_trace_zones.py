"""Zones built from a capture: a server that loads them gives the captured answers."""

import lzma
import os
from pathlib import Path

import dns.flags
import dns.message
import dns.name
import dns.rrset
import dns.zone
import dpkt
import pytest
from test_zonegen import answer_kind

from zonda_lab.command import cli
from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import QuerySpec, ZoneSpec
from zonda_lab.zones import trace_zones, zonegen
from zonda_lab.zones.workload import workload

SOA = "example. 300 IN SOA ns1.example. host.example. 7 3600 900 604800 300"
CAPTURE = Path(os.environ.get("ZONDA_DATA", Path(__file__).parents[3] / "shared/data"), "pcap/root-server-2016.pcap.xz")
ANSWERS = (
    ("www.example. A", "NOERROR", True, ["www.example. 60 IN A 192.0.2.1"], [], []),
    ("www.example. A", "NOERROR", True, ["www.example. 60 IN A 192.0.2.2"], [], []),  # one RRset in two halves
    ("www.example. AAAA", "NOERROR", True, [], [SOA], []),
    ("empty.example. A", "NOERROR", True, [], [SOA], []),
    ("alias.example. A", "NOERROR", True, ["alias.example. 60 IN CNAME www.example."], [], []),
    (
        "host.sub.example. A",
        "NOERROR",
        False,
        [],
        ["sub.example. 60 IN NS ns.sub.example."],
        ["ns.sub.example. 60 IN A 192.0.2.53"],
    ),
    ("cut.example. DS", "NOERROR", True, ["cut.example. 60 IN DS 1 13 2 " + "00" * 32], [], []),
    ("nothing.example. A", "NXDOMAIN", True, [], [SOA], []),
    ("semicolon\\;.example. A", "NXDOMAIN", True, [], [SOA], []),
    ("www.elsewhere. A", "REFUSED", False, [], [], []),
)


def captured(folder: Path, compressed: bool = False) -> Path:
    """A capture of these answers, of their queries, and of a malformed and a truncated answer."""
    path = folder / ("trace.pcap.xz" if compressed else "trace.pcap")
    with (lzma.open if compressed else open)(path, "wb") as file:  # type: ignore[operator]
        writer = dpkt.pcap.Writer(file)
        for asked, rcode, aa, *sections in ANSWERS:
            query = dns.message.make_query(*asked.split())
            answer = dns.message.make_response(query)
            answer.flags |= dns.flags.AA if aa else 0
            answer.set_rcode(dns.rcode.from_text(rcode))
            for section, texts in zip((answer.answer, answer.authority, answer.additional), sections, strict=True):
                section += [dns.rrset.from_text(*text.split(maxsplit=4)) for text in texts]
            truncated = dns.message.make_response(query)
            truncated.flags |= dns.flags.TC | dns.flags.AA
            for wire, ports in (
                (query.to_wire(), (4000, 53)),
                (answer.to_wire(), (53, 4000)),
                (answer.to_wire()[:20], (53, 4000)),
                (truncated.to_wire(), (53, 4000)),
            ):
                writer.writepkt(framed(wire, *ports))
    return path


def framed(payload: bytes, source: int, target: int) -> bytes:
    datagram = dpkt.udp.UDP(sport=source, dport=target, data=payload, ulen=8 + len(payload))
    packet = dpkt.ip.IP(src=b"\x0a\0\0\1", dst=b"\x0a\0\0\2", p=dpkt.ip.IP_PROTO_UDP, data=datagram)
    packet.len = len(packet)
    return bytes(dpkt.ethernet.Ethernet(data=packet))


def loaded(spec: ZoneSpec, folder: Path) -> list[dns.zone.Zone]:
    made = zonegen.generate(spec, folder)
    return [dns.zone.from_file(str(zone.file), zone.name, relativize=False) for zone in made.zones]


@pytest.mark.parametrize("compressed", [False, True])
def test_zones_of_a_trace_give_its_answers(tmp_path: Path, compressed: bool) -> None:
    spec = ZoneSpec("trace", trace=str(captured(tmp_path, compressed)))
    (zone,) = loaded(spec, tmp_path)
    assert zone.origin == dns.name.from_text("example.")
    assert {rdata.address for rdata in zone.find_rdataset("www.example.", "A")} == {"192.0.2.1", "192.0.2.2"}
    made = workload(spec, QuerySpec(), tmp_path)
    asked = made.queries.read_text().splitlines()
    assert asked == [answer[0].replace("\\;", "\\059") for answer in ANSWERS if answer[1] != "REFUSED"]
    for line, expected in zip(asked, made.expectation.read_text().splitlines(), strict=True):
        name, qtype = line.split()
        assert answer_kind(zone, dns.name.from_text(name), qtype) == expected.split()[1], line


def test_a_trace_can_be_signed_again(tmp_path: Path) -> None:
    (zone,) = loaded(ZoneSpec("trace", signed="nsec", trace=str(captured(tmp_path))), tmp_path)
    assert zone.get_rdataset("www.example.", "RRSIG", "A") and zone.get_rdataset("cut.example.", "NSEC")


@pytest.mark.skipif(not CAPTURE.exists(), reason="no capture of a root server (ZONDA_DATA names the folder of data)")
def test_zones_of_a_root_server_give_its_answers(tmp_path: Path) -> None:
    part = tmp_path / "part.pcap"
    with lzma.open(CAPTURE) as whole:
        part.write_bytes(whole.read(2_000_000))  # a fifth; the last packet is cut off
    spec = ZoneSpec("trace", trace=str(part))
    zones = {zone.origin: zone for zone in loaded(spec, tmp_path)}
    assert set(zones) == {dns.name.root, dns.name.from_text("root-servers.net.")}
    asked = trace_zones.read(part).questions
    assert len(asked) > 2_000
    different = []
    for question in asked:
        name = dns.name.from_text(question.name)
        inside = [origin for origin in zones if name.is_subdomain(origin)]
        zone = zones[max(inside, key=len)]
        if answer_kind(zone, name, question.type) != question.kind:
            different.append(question)
    assert not different


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such capture"),
        (b"no capture at all, but text of some length", "help: it must be pcap or pcapng"),
        (b"", "help: it must be pcap or pcapng"),
        (
            b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00" + bytes(8) + b"\xff\xff\x00\x00\x01\x00\x00\x00",
            "were answers captured?",
        ),
    ],
)
def test_an_unusable_trace_is_one_error_message(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.pcap"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LabError, match=message.replace("?", r"\?")):
        zonegen.generate(ZoneSpec("trace", trace=str(path)), tmp_path)


def test_a_trace_must_be_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["zonegen", "trace", "--out", str(tmp_path)]) == cli.ERROR
    assert "zonegen's --trace" in capsys.readouterr().err
