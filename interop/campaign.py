"""One run of the comparison: asks every suite of all servers, judges the replies, and keeps the tally."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

import ask
from compare import Difference, Reply, compare
from explanations import TABLE, Explanation, explain, row
from faults import Rule
from laws import faults
from message import SOA, TC, Question, Record, rdata_text, type_text
from names import Malformed, is_below, name_text
from proofs import Validator
from servers import Server
from suites import REFUSED, Scene, Suite
from zoneset import ZoneSet, covered, hands_over

CHUNK = 4000
# Waiting for silence takes its time: ill-formed messages are often met with it.
PATIENCE_S, PATIENCE_WITH_ILL_FORMED_S = 2.0, 0.5
EXAMPLES = 20
# Who turns the records of a set round sends the same answer in other sizes, as compression depends on their order: by so many octets.
SHUFFLED = {"bind": 40}

# Not in the table: it takes the whole answers to see it.
TRUNCATION = row("truncation: other contents or compression", "2181 9", "each, by the size of its whole answer", "tc", lambda *_: False)


@dataclass
class Tally:
    """What a run has found."""

    asked: dict[str, int] = field(default_factory=dict)
    classes: Counter[tuple[Explanation, str, str]] = field(default_factory=Counter)
    alone: Counter[Explanation] = field(default_factory=Counter)
    examples: dict[Explanation, Question] = field(default_factory=dict)
    unexplained: dict[tuple[str, str, frozenset[str]], list[Finding]] = field(default_factory=lambda: defaultdict(list))
    unexplained_count: Counter[tuple[str, str, frozenset[str]]] = field(default_factory=Counter)
    faults: Counter[tuple[str, Rule, str]] = field(default_factory=Counter)
    broken: dict[tuple[str, Rule, str], Broken] = field(default_factory=dict)
    transfers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Finding:
    """An unexplained difference, with the scene it was found in."""

    scene: str
    suite: str
    difference: Difference


@dataclass(frozen=True)
class Broken:
    """An answer that breaks rules by itself."""

    scene: str
    question: Question
    reply: Reply


@dataclass
class Campaign:
    """Asks and judges. `subject` is the server to be held right; without one, all pairs of servers are compared."""

    servers: list[Server]
    scene: Scene
    zones: ZoneSet
    subject: str | None
    tally: Tally

    def __post_init__(self) -> None:
        self.validator = Validator(self.zones)
        self.by_name = {server.name: server for server in self.servers}

    def run(self) -> None:
        for suite in self.scene.suites:
            questions = suite.ask()
            self.tally.asked[f"{self.scene.name}: {suite.name}"] = len(questions)
            for start in range(0, len(questions), CHUNK):
                self.judge(suite, questions[start : start + CHUNK])
        self.compare_transfers()

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Which servers are compared: the subject with each peer, or each with each."""
        for a, b in combinations(self.by_name, 2):
            if self.subject in (a, b, None):
                yield (a, b) if a == self.subject or self.subject is None else (b, a)

    # --- questions

    def judge(self, suite: Suite, questions: list[Question]) -> None:
        replies = {server.name: self.replies(server, questions, suite.ill_formed) for server in self.servers}
        truncated: list[tuple[Difference, frozenset[str]]] = []
        for index, question in enumerate(questions):
            found: list[list[Explanation]] = []
            for a, b in self.pairs():
                ours, theirs = replies[a][index], replies[b][index]
                if ours is None or theirs is None or not (difference := compare(question, ours, theirs)):
                    continue
                rows, left = explain(difference, self.zones, TABLE)
                found.append(rows)
                self.note_rows(rows, difference)
                if "tc" in left and difference.both_answer:
                    truncated.append((difference, left))
                elif left:
                    self.note_unexplained(suite, difference, left)
            self.note_alone(found, sum(reply[index] is not None for reply in replies.values()) - 1)
        self.settle_truncated(suite, truncated)

    def replies(self, server: Server, questions: list[Question], ill_formed: bool) -> list[Reply | None]:
        """The server's replies, with the laws they break; None for questions about zones it refuses to load."""
        refused = REFUSED.get(server.name, set())
        concerned = [q for q in questions if not any(is_below(q.name.lower(), apex) for apex in refused)]
        wires = iter(self.send(server, concerned, ill_formed))
        kept = set(map(id, concerned))
        return [self.reply(server.name, q, next(wires)) if id(q) in kept else None for q in questions]

    def send(self, server: Server, questions: list[Question], ill_formed: bool) -> list[bytes | None]:
        messages, patience_s = [q.wire() for q in questions], PATIENCE_WITH_ILL_FORMED_S if ill_formed else PATIENCE_S
        if questions and questions[0].tcp:
            return ask.tcp(server.address, messages, pipeline=1 if ill_formed else 50, timeout_s=patience_s)
        replies = ask.udp(server.address, messages, timeout_s=patience_s, tries=2 if ill_formed else 3)
        if not ill_formed and None in replies:
            self.require_answers(server, questions[replies.index(None)])
        return replies

    def require_answers(self, server: Server, last: Question) -> None:
        """Raises `RuntimeError` if the server answers no more; `last` is what it was silent to first."""
        if ask.udp(server.address, [Question(apex, SOA).wire() for apex in self.zones.zones]).count(None) == len(self.zones.zones):
            raise RuntimeError(f"{server.name} hangs or has died since it, or one of {ask.WINDOW} asked with it, came: {last}")

    def reply(self, server: str, question: Question, wire: bytes | None) -> Reply:
        reply = Reply.of(server, wire)
        broken = faults(question, reply, self.validator)
        if not broken:
            return reply
        reply = replace(reply, faults=tuple(broken))
        for rule in {fault.rule for fault in broken}:
            self.tally.faults[server, rule, question.note] += 1
            self.tally.broken.setdefault((server, rule, question.note), Broken(self.scene.name, question, reply))
        return reply

    def note_rows(self, rows: list[Explanation], difference: Difference) -> None:
        for found in rows:
            self.tally.classes[found, difference.ours.server, difference.theirs.server] += 1
            self.tally.examples.setdefault(found, difference.question)

    def note_alone(self, found: list[list[Explanation]], peers: int) -> None:
        """Counts the classes in which the subject differs from every peer."""
        if self.subject and found and len(found) == peers:
            for common in set.intersection(*map(set, found)):
                self.tally.alone[common] += 1

    def note_unexplained(self, suite: Suite, difference: Difference, left: frozenset[str]) -> None:
        key = difference.ours.server, difference.theirs.server, left
        self.tally.unexplained_count[key] += 1
        if len(self.tally.unexplained[key]) < EXAMPLES:
            self.tally.unexplained[key].append(Finding(self.scene.name, suite.name, difference))

    # --- truncation

    def settle_truncated(self, suite: Suite, pending: list[tuple[Difference, frozenset[str]]]) -> None:
        """RFC 2181 9: where only one truncates, both whole answers are asked for over TCP; they are what counts, and must explain why."""
        whole: dict[tuple[str, Question], Reply] = {}
        for name, server in self.by_name.items():
            questions = list({d.question for d, _ in pending if name in (d.ours.server, d.theirs.server)})
            wires = ask.tcp(server.address, [q.wire() for q in questions])
            whole |= {(name, q): self.reply(name, replace(q, tcp=True), wire) for q, wire in zip(questions, wires)}
        for difference, fields in pending:
            if left := self.left_of_truncated(difference, fields, whole):
                self.note_unexplained(suite, difference, left)

    def left_of_truncated(self, difference: Difference, left: frozenset[str], whole: dict[tuple[str, Question], Reply]) -> frozenset[str]:
        """What remains unexplained once the whole answers have been looked at."""
        question = difference.question
        ours, theirs = (whole[reply.server, question] for reply in (difference.ours, difference.theirs))
        if not (truncates_rightly(question, difference.ours, ours) and truncates_rightly(question, difference.theirs, theirs)):
            return left
        self.note_rows([TRUNCATION], difference)
        full = compare(replace(question, tcp=True), ours, theirs)
        return (left - {"tc", "rcode"}) | (explain(full, self.zones, TABLE)[1] if full else frozenset())

    # --- transfers

    def compare_transfers(self) -> None:
        """RFC 5936 2.2: a transfer holds every record of the zone, once, between two copies of the SOA."""
        for server in self.servers:
            for zone in self.zones.zones.values():
                if zone.apex in REFUSED.get(server.name, set()):
                    continue
                try:
                    records = ask.axfr(server.address, zone.apex)
                except (Malformed, OSError) as error:
                    self.tally.transfers.append(f"{server.name}: {error}")
                    continue
                for fault in transfer_faults(records, frozenset(zone.records)):
                    self.tally.transfers.append(f"{server.name}: {fault}")


def truncates_rightly(question: Question, reply: Reply, whole: Reply) -> bool:
    """Whether a reply without TC is as good as the whole one, or one with TC could not be whole.

    What must fit is answer and authority, and the glue of a referral (RFC 2181 9, RFC 9471 2.1).
    """
    if reply.message is None or whole.message is None or whole.message.has(TC):
        return False
    if not reply.message.has(TC):
        return True
    message = whole.message
    needed = message.size if hands_over(message) else message.core + (11 if message.edns else 0)
    return needed + SHUFFLED.get(reply.server, 0) > question.room_served


def transfer_faults(records: list[Record], held: frozenset[Record]) -> Iterator[str]:
    """How the records of a transfer differ from those of the zone text.

    RFC 2181 5.2, RFC 4034 3: a server may give one TTL to a set that has several, and to its signatures.
    """
    if records[0] != records[-1]:
        yield "first and last record differ (RFC 5936 2.2)"
    sent = Counter((r.owner, r.rtype, r.rdata) for r in records[:-1])
    texts = {(r.owner, r.rtype, r.rdata) for r in held}
    yield from (f"sent {count} times: {record_text(key)} (RFC 5936 2.2)" for key, count in sent.items() if count > 1)
    yield from (f"not in the zone: {record_text(key)}" for key in sent.keys() - texts)
    yield from (f"missing: {record_text(key)}" for key in texts - sent.keys())
    ttls: dict[tuple[bytes, int], set[int]] = defaultdict(set)
    for record in held:
        ttls[record.owner, covered(record)].add(record.ttl)
    yield from (f"TTL not in the zone: {r}" for r in records if r.ttl not in ttls.get((r.owner, covered(r)), {r.ttl}))


def record_text(key: tuple[bytes, int, bytes]) -> str:
    owner, rtype, rdata = key
    return f"{name_text(owner)} {type_text(rtype)} {rdata_text(rtype, rdata)}"
