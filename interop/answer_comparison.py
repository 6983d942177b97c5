"""Compares the replies of two servers to one query and reports the fields in which they differ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from answer_rules import Violation
from dns_numbers import AA, AD, CD, QR, RA, RD, TC, Z
from message import Query, Record, Response, parse, rcode_text
from names import Malformed

SECTIONS = ("answer", "authority", "additional")
FLAGS = {"aa": AA, "tc": TC, "ra": RA, "rd": RD, "ad": AD, "cd": CD, "z": Z}


@dataclass(frozen=True)
class Reply:
    """What one server sent back: a well-formed response, a malformed message, or nothing."""

    server: str
    wire: bytes | None
    response: Response | None
    problem: str = ""
    violations: tuple[Violation, ...] = ()

    @classmethod
    def of(cls, server: str, wire: bytes | None) -> Reply:
        if wire is None:
            return cls(server, None, None)
        try:
            return cls(server, wire, parse(wire))
        except Malformed as error:
            return cls(server, wire, None, str(error))

    @property
    def kind(self) -> str:
        """ "answer", "silence" or "malformed"."""
        return "answer" if self.response else "silence" if self.wire is None else "malformed"

    @property
    def outcome(self) -> str:
        """The RCODE, "silence" or "malformed"."""
        return rcode_text(self.response.rcode) if self.response else self.kind


def section_of(response: Response, section: str) -> frozenset[Record]:
    return {"answer": response.answer, "authority": response.authority, "additional": response.additional}[section]


@dataclass(frozen=True)
class Difference:
    """The replies of two servers to one query, and the fields in which they differ."""

    query: Query
    ours: Reply
    theirs: Reply
    fields: frozenset[str]

    @cached_property
    def our_response(self) -> Response:
        """Our response; available unless the field `outcome` differs."""
        assert self.ours.response is not None
        return self.ours.response

    @cached_property
    def their_response(self) -> Response:
        """Their response; available unless the field `outcome` differs."""
        assert self.theirs.response is not None
        return self.theirs.response

    def only_ours(self, section: str) -> frozenset[Record]:
        return section_of(self.our_response, section) - section_of(self.their_response, section)

    def only_theirs(self, section: str) -> frozenset[Record]:
        return section_of(self.their_response, section) - section_of(self.our_response, section)

    def swapped(self) -> Difference:
        return Difference(self.query, self.theirs, self.ours, self.fields)


def compare(query: Query, ours: Reply, theirs: Reply) -> Difference | None:
    """The difference between two replies, None if they are equivalent. For unusual queries only the outcome is compared."""
    fields: set[str]
    if query.oddity or ours.response is None or theirs.response is None:
        fields = {"outcome"} if ours.outcome != theirs.outcome else set()
    else:
        fields = differing_fields(ours.response, theirs.response)
    return Difference(query, ours, theirs, frozenset(fields)) if fields else None


def differing_fields(a: Response, b: Response) -> set[str]:
    """The fields in which two responses differ.

    RFC 2181 9: the contents of a truncated response are ignored, so sections are compared only if neither is truncated.
    """
    fields = {name for name, bit in FLAGS.items() if (a.flags ^ b.flags) & bit}
    fields |= {name for name in ("rcode", "opcode", "question", "duplicates") if getattr(a, name) != getattr(b, name)}
    if (a.flags ^ b.flags) & QR:
        fields.add("qr")
    if not (a.has(TC) or b.has(TC)):
        fields |= {name for name in SECTIONS if section_of(a, name) != section_of(b, name)}
    return fields | differing_edns(a, b)


def differing_edns(a: Response, b: Response) -> set[str]:
    """Differing parts of the OPT record: "edns" (presence, version or flags), "payload", "options"."""
    if a.edns is None or b.edns is None:
        return {"edns"} if a.edns is not b.edns else set()
    fields = set()
    if (a.edns.version, a.edns.flags) != (b.edns.version, b.edns.flags):
        fields.add("edns")
    if a.edns.payload != b.edns.payload:
        fields.add("payload")
    if {code for code, _ in a.edns.options} != {code for code, _ in b.edns.options}:
        fields.add("options")
    return fields
