"""Zones built from the answers in a capture, and the questions there, so that a replay finds its answers.

The zones are those whose SOA an authoritative answer shows. DNSSEC records are left out, because a part of a signed
zone does not validate; the zones may be signed again.
"""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rrset
from dns.rdatatype import AAAA, CNAME, DNAME, DNSKEY, DS, NS, NSEC, NSEC3, NSEC3PARAM, RRSIG, SOA, ZONEMD, A, RdataType

from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import ZoneSpec
from zonda_lab.zones import captures
from zonda_lab.zones.dnssec_signing import Role, RRset
from zonda_lab.zones.zone_shapes import ZoneSource

LEFT_OUT = {RRSIG, NSEC, NSEC3, NSEC3PARAM, DNSKEY, ZONEMD}
META = range(128, 256)  # types of queries only, such as ANY and AXFR, RFC 6895 3.1
# For a name of which the trace shows only which types it does not have; the type is for private use, RFC 6895 3.1.
PLACEHOLDER = ("TYPE65280", (r"\# 0",))
DNS = 53
SERIAL = 1_000_000_000  # at least: serials of generated zones have ten digits, see `zonegen.set_serial`
Records = dict[dns.name.Name, dict[RdataType, dns.rrset.RRset]]


Kind = Literal["answer", "referral", "nodata", "nxdomain"]


class Question(NamedTuple):
    """A question and its answer."""

    name: str
    type: str
    rcode: str
    kind: Kind


class Trace(NamedTuple):
    """The content of zones by apex, the SOA first, and questions in the order of the capture."""

    zones: dict[str, list[RRset]]
    questions: list[Question]


class TraceZones(ZoneSource):
    """The zones whose server answered the queries of a capture (pcap or pcapng, also compressed with xz)."""

    def __init__(self, spec: ZoneSpec) -> None:
        super().__init__(spec)
        if not spec.trace:
            raise LabError("the shape trace needs a capture", "name it by `zones.trace`, or zonegen's --trace")
        self._trace = read(captures.find(spec.trace))
        self._apexes = list(self._trace.zones)

    @property
    def zones(self) -> int:
        """The number of zones."""
        return len(self._apexes)

    @property
    def questions(self) -> list[Question]:
        """The questions of the capture about these zones that were answered."""
        return self._trace.questions

    def apex(self, index: int) -> str:
        """The name of a zone."""
        return self._apexes[index]

    def rrsets(self, index: int) -> Iterator[RRset]:
        yield from self._trace.zones[self.apex(index)]


@functools.lru_cache(maxsize=1)
def read(path: Path) -> Trace:
    """Reads a capture; raises if it has no authoritative answer with an SOA record."""
    responses = list(_responses(path))
    zones: dict[dns.name.Name, Records] = {}
    for message in responses:
        if message.flags & dns.flags.AA:
            zones |= {rrset.name: {} for rrset in (*message.answer, *message.authority) if rrset.rdtype == SOA}
    if not zones:
        raise LabError(f"{path}: no authoritative answer shows the SOA record of a zone", "were answers captured?")
    questions = []
    for message in responses:
        for rrset in (*message.answer, *message.authority, *message.additional):
            if rrset.rdtype not in LEFT_OUT and rrset.rdclass == dns.rdataclass.IN:
                _add(zones, rrset)
        if question := _question(message, zones):
            questions.append(question)
    for question in questions:
        if question.kind == "nodata":
            name = dns.name.from_text(question.name)
            zones[_zone_of(name, question.type, zones)].setdefault(name, {})  # type: ignore[index]
    return Trace({apex.to_text(): list(_content(apex, records)) for apex, records in zones.items()}, questions)


def _responses(path: Path) -> Iterator[dns.message.Message]:
    """The whole responses over UDP in a capture."""
    for source, _, payload in captures.datagrams(path):
        if source != DNS:
            continue
        try:
            message = dns.message.from_wire(payload, ignore_trailing=True)
        except (dns.exception.DNSException, ValueError):  # malformed
            continue
        if message.flags & dns.flags.QR and not message.flags & dns.flags.TC:
            yield message


def _zone_of(name: dns.name.Name, rdtype: str | RdataType, zones: Mapping[dns.name.Name, Any]) -> dns.name.Name | None:
    """The apex of the zone that holds these records; DS records belong to the parent."""
    if rdtype in (DS, "DS") and name != dns.name.root:
        name = name.parent()
    while name not in zones:
        if name == dns.name.root:
            return None
        name = name.parent()
    return name


def _add(zones: dict[dns.name.Name, Records], rrset: dns.rrset.RRset) -> None:
    """Adds records to their zone; servers leave out or rotate records, so the union is the RRset."""
    apex = _zone_of(rrset.name, rrset.rdtype, zones)
    if apex is not None:
        zones[apex].setdefault(rrset.name, {}).setdefault(rrset.rdtype, rrset).union_update(rrset)  # type: ignore[no-untyped-call]


def _question(message: dns.message.Message, zones: Mapping[dns.name.Name, Any]) -> Question | None:
    """The question and the kind of answer; None for those that a query file cannot express or no zone answers."""
    if message.opcode() != dns.opcode.QUERY or len(message.question) != 1:
        return None
    asked, rcode = message.question[0], dns.rcode.to_text(message.rcode())
    rdtype = dns.rdatatype.to_text(asked.rdtype)
    if asked.rdclass != dns.rdataclass.IN or asked.rdtype in META or asked.rdtype in LEFT_OUT:
        return None
    if _zone_of(asked.name, rdtype, zones) is None:
        return None
    kind: Kind
    if rcode == "NOERROR" and message.answer:
        kind = "answer"
    elif rcode == "NOERROR":
        kind = "nodata" if message.flags & dns.flags.AA else "referral"
    elif rcode == "NXDOMAIN":
        kind = "nxdomain"
    else:
        return None
    name = asked.name.to_text().replace(r"\;", r"\059")  # in query files, `;` starts a comment
    return Question(name, rdtype, rcode, kind)


def _content(apex: dns.name.Name, records: Records) -> Iterator[RRset]:
    """The RRsets of a zone, the SOA first, without those that are hidden or contradict each other."""
    soa = records[apex][SOA]
    number = max(soa[0].serial, SERIAL)
    yield RRset(apex.to_text(), soa.ttl, "SOA", (soa[0].replace(serial=number).to_text(),), "apex")
    for name, types in records.items():
        if NS not in types and (name == apex or DS in types):  # the trace does not show the name servers
            types[NS] = dns.rrset.from_text(name, soa.ttl, "IN", "NS", soa[0].mname.to_text())
    cuts = {name for name, types in records.items() if NS in types and name != apex}
    tops = cuts | {name for name, types in records.items() if DNAME in types}
    for name in sorted(records):
        types, is_cut, is_hidden = records[name], name in cuts, _is_below(name, tops)
        if CNAME in types:
            types = {CNAME: types[CNAME]}
        if not types:
            yield RRset(name.to_text(), soa.ttl, *PLACEHOLDER, "own")
        for rdtype, rrset in types.items():
            role = _role(name == apex, is_cut, is_hidden, rdtype)
            if role and rdtype != SOA:
                rdatas = tuple(rdata.to_text() for rdata in rrset)
                yield RRset(name.to_text(), rrset.ttl, dns.rdatatype.to_text(rdtype), rdatas, role)


def _role(is_apex: bool, is_cut: bool, is_hidden: bool, rdtype: RdataType) -> Role | None:
    """The role of an RRset in its zone; None if a cut or a DNAME hides it."""
    if is_apex:
        return "apex"
    if is_hidden or (is_cut and rdtype in (A, AAAA)):
        return "glue" if rdtype in (A, AAAA) else None
    if is_cut:
        return {NS: "cut", DS: "own"}.get(rdtype)  # type: ignore[return-value]
    return "own"


def _is_below(name: dns.name.Name, tops: set[dns.name.Name]) -> bool:
    """Whether one of its ancestors is in `tops`."""
    while name != dns.name.root:
        name = name.parent()
        if name in tops:
            return True
    return False
