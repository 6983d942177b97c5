"""Compares the replies of two servers to one question: which fields differ, and the difference as a value that rules can look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from faults import Fault
from message import AA, AD, CD, QR, RA, RD, TC, Answer, Question, Record, Z, parse, rcode_text
from names import Malformed

SECTIONS = ("answer", "authority", "additional")
FLAGS = {"aa": AA, "tc": TC, "ra": RA, "rd": RD, "ad": AD, "cd": CD, "z": Z}


@dataclass(frozen=True)
class Reply:
    """What came back: a message, its comparable form if it has one, or silence."""

    server: str
    wire: bytes | None
    message: Answer | None
    problem: str = ""
    faults: tuple[Fault, ...] = ()

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
        return "answer" if self.message else "silence" if self.wire is None else "malformed"

    @property
    def outcome(self) -> str:
        """The RCODE, "silence" or "malformed"."""
        return rcode_text(self.message.rcode) if self.message else self.kind


def section_of(message: Answer, section: str) -> frozenset[Record]:
    return {"answer": message.answer, "authority": message.authority, "additional": message.additional}[section]


@dataclass(frozen=True)
class Difference:
    """Two servers' replies to one question, and the fields in which they differ."""

    question: Question
    ours: Reply
    theirs: Reply
    fields: frozenset[str]

    @cached_property
    def a(self) -> Answer:
        """Our answer; only to be asked for where both servers answered."""
        assert self.ours.message is not None
        return self.ours.message

    @cached_property
    def b(self) -> Answer:
        """Their answer; only to be asked for where both servers answered."""
        assert self.theirs.message is not None
        return self.theirs.message

    @property
    def both_answer(self) -> bool:
        return self.ours.message is not None and self.theirs.message is not None

    def only_ours(self, section: str) -> frozenset[Record]:
        return section_of(self.a, section) - section_of(self.b, section)

    def only_theirs(self, section: str) -> frozenset[Record]:
        return section_of(self.b, section) - section_of(self.a, section)

    def swapped(self) -> Difference:
        return Difference(self.question, self.theirs, self.ours, self.fields)


def compare(question: Question, ours: Reply, theirs: Reply) -> Difference | None:
    """The difference between two replies, None when they mean the same. Of odd questions only the outcome counts."""
    fields: set[str]
    if question.note or ours.message is None or theirs.message is None:
        fields = {"outcome"} if ours.outcome != theirs.outcome else set()
    else:
        fields = differing(ours.message, theirs.message)
    return Difference(question, ours, theirs, frozenset(fields)) if fields else None


def differing(a: Answer, b: Answer) -> set[str]:
    """The fields in which two answers differ.

    RFC 2181 9: what a truncated answer holds means nothing, so sections count only where neither is truncated.
    """
    fields = {name for name, bit in FLAGS.items() if (a.flags ^ b.flags) & bit}
    fields |= {name for name in ("rcode", "opcode", "question", "doubled") if getattr(a, name) != getattr(b, name)}
    if (a.flags ^ b.flags) & QR:
        fields.add("qr")
    if not (a.has(TC) or b.has(TC)):
        fields |= {name for name in SECTIONS if section_of(a, name) != section_of(b, name)}
    return fields | differing_edns(a, b)


def differing_edns(a: Answer, b: Answer) -> set[str]:
    """ "edns" for presence, version or flags; "payload"; "options"."""
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
