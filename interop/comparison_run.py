"""Sends the queries of a scene to all servers, checks and compares the replies, and counts the results."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

import client
from answer_checks import violations
from answer_comparison import Difference, Reply, compare
from answer_rules import Rule
from dns_numbers import SOA, TC
from dnssec_validation import Validator
from known_differences import KNOWN_DIFFERENCES, KnownDifference, explain, known
from message import Query, Record, rdata_text, type_text
from names import Malformed, is_at_or_below, name_text
from scenes import REFUSED, Scene, Suite
from servers import Server
from zone_set import ZoneSet, covered_type, ends_in_referral

QUERIES_PER_BATCH = 4000
# Malformed queries often get no response: a short timeout saves time.
TIMEOUT_S, TIMEOUT_MALFORMED_S = 2.0, 0.5
EXAMPLES = 20
# BIND rotates RRsets, and compression depends on the order, so sizes of the same response differ by up to this many octets.
ROTATION_SLACK = {"bind": 40}

# Not in the table: it is recognized only by comparing the complete responses.
TRUNCATION = known("truncation: different contents or compression", "2181 9", "all: each complete response decides", "tc", lambda *_: False)


@dataclass
class Tally:
    """The results of a run."""

    asked: dict[str, int] = field(default_factory=dict)
    classes: Counter[tuple[KnownDifference, str, str]] = field(default_factory=Counter)
    alone: Counter[KnownDifference] = field(default_factory=Counter)
    examples: dict[KnownDifference, Query] = field(default_factory=dict)
    unexplained: dict[tuple[str, str, frozenset[str]], list[UnexplainedDifference]] = field(default_factory=lambda: defaultdict(list))
    unexplained_count: Counter[tuple[str, str, frozenset[str]]] = field(default_factory=Counter)
    violations: Counter[tuple[str, Rule, str]] = field(default_factory=Counter)
    violation_examples: dict[tuple[str, Rule, str], ViolationExample] = field(default_factory=dict)
    transfers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class UnexplainedDifference:
    """An unexplained difference, and where it was found."""

    scene: str
    suite: str
    difference: Difference


@dataclass(frozen=True)
class ViolationExample:
    """A reply that violates a rule, and where it was found."""

    scene: str
    query: Query
    reply: Reply


@dataclass
class ComparisonRun:
    """Compares servers on one scene. `subject` is the server under test; without one, every pair of servers is compared."""

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
            queries = suite.make_queries()
            self.tally.asked[f"{self.scene.name}: {suite.name}"] = len(queries)
            for start in range(0, len(queries), QUERIES_PER_BATCH):
                self.compare_batch(suite, queries[start : start + QUERIES_PER_BATCH])
        self.compare_transfers()

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The servers to compare: the subject with each peer, or every pair."""
        for a, b in combinations(self.by_name, 2):
            if self.subject in (a, b, None):
                yield (a, b) if a == self.subject or self.subject is None else (b, a)

    # --- queries

    def compare_batch(self, suite: Suite, queries: list[Query]) -> None:
        replies = {server.name: self.replies(server, queries, suite.malformed) for server in self.servers}
        truncated: list[tuple[Difference, frozenset[str]]] = []
        for index, query in enumerate(queries):
            found: list[list[KnownDifference]] = []
            for a, b in self.pairs():
                ours, theirs = replies[a][index], replies[b][index]
                if ours is None or theirs is None or not (difference := compare(query, ours, theirs)):
                    continue
                entries, left = explain(difference, self.zones, KNOWN_DIFFERENCES)
                found.append(entries)
                self.count_explained(entries, difference)
                if "tc" in left:
                    truncated.append((difference, left))
                elif left:
                    self.add_unexplained(suite, difference, left)
            self.count_alone(found, sum(reply[index] is not None for reply in replies.values()) - 1)
        self.settle_truncation(suite, truncated)

    def replies(self, server: Server, queries: list[Query], malformed: bool) -> list[Reply | None]:
        """The server's replies with their violations; None for queries about zones that it refuses to load."""
        refused = REFUSED.get(server.name, set())
        served = [q for q in queries if not any(is_at_or_below(q.name.lower(), apex) for apex in refused)]
        wires = iter(self.send(server, served, malformed))
        sent = set(map(id, served))
        return [self.checked_reply(server.name, q, next(wires)) if id(q) in sent else None for q in queries]

    def send(self, server: Server, queries: list[Query], malformed: bool) -> list[bytes | None]:
        messages, timeout_s = [q.wire() for q in queries], TIMEOUT_MALFORMED_S if malformed else TIMEOUT_S
        if queries and queries[0].tcp:
            return client.tcp(server.address, messages, pipeline=1 if malformed else 50, timeout_s=timeout_s)
        replies = client.udp(server.address, messages, timeout_s=timeout_s, tries=2 if malformed else 3)
        if not malformed and None in replies:
            self.require_answers(server, queries[replies.index(None)])
        return replies

    def require_answers(self, server: Server, last: Query) -> None:
        """Raises `RuntimeError` if the server no longer responds; `last` is the first query without a response."""
        if client.udp(server.address, [Query(apex, SOA).wire() for apex in self.zones.zones]).count(None) == len(self.zones.zones):
            raise RuntimeError(f"{server.name} hangs or crashed after this query or one of the {client.WINDOW} sent with it: {last}")

    def checked_reply(self, server: str, query: Query, wire: bytes | None) -> Reply:
        """The reply with its violations, which are counted."""
        reply = Reply.of(server, wire)
        found = violations(query, reply, self.validator)
        if not found:
            return reply
        reply = replace(reply, violations=tuple(found))
        for rule in {violation.rule for violation in found}:
            self.tally.violations[server, rule, query.oddity] += 1
            self.tally.violation_examples.setdefault((server, rule, query.oddity), ViolationExample(self.scene.name, query, reply))
        return reply

    def count_explained(self, entries: list[KnownDifference], difference: Difference) -> None:
        for found in entries:
            self.tally.classes[found, difference.ours.server, difference.theirs.server] += 1
            self.tally.examples.setdefault(found, difference.query)

    def count_alone(self, found: list[list[KnownDifference]], peers: int) -> None:
        """Counts the classes in which the subject differs from all peers."""
        if self.subject and found and len(found) == peers:
            for common in set.intersection(*map(set, found)):
                self.tally.alone[common] += 1

    def add_unexplained(self, suite: Suite, difference: Difference, left: frozenset[str]) -> None:
        key = difference.ours.server, difference.theirs.server, left
        self.tally.unexplained_count[key] += 1
        if len(self.tally.unexplained[key]) < EXAMPLES:
            self.tally.unexplained[key].append(UnexplainedDifference(self.scene.name, suite.name, difference))

    # --- truncation

    def settle_truncation(self, suite: Suite, pending: list[tuple[Difference, frozenset[str]]]) -> None:
        """Where only one response is truncated, compares both complete responses over TCP, whose sizes must justify TC (RFC 2181 9)."""
        complete: dict[tuple[str, Query], Reply] = {}
        for name, server in self.by_name.items():
            queries = list({d.query for d, _ in pending if name in (d.ours.server, d.theirs.server)})
            wires = client.tcp(server.address, [q.wire() for q in queries])
            complete |= {(name, q): self.checked_reply(name, replace(q, tcp=True), wire) for q, wire in zip(queries, wires)}
        for difference, fields in pending:
            if left := self.unexplained_after_truncation(difference, fields, complete):
                self.add_unexplained(suite, difference, left)

    def unexplained_after_truncation(self, difference: Difference, left: frozenset[str], complete: dict[tuple[str, Query], Reply]) -> frozenset[str]:
        """The fields left unexplained after comparing the complete responses."""
        query = difference.query
        ours, theirs = (complete[reply.server, query] for reply in (difference.ours, difference.theirs))
        if not (truncates_correctly(query, difference.ours, ours) and truncates_correctly(query, difference.theirs, theirs)):
            return left
        self.count_explained([TRUNCATION], difference)
        over_tcp = compare(replace(query, tcp=True), ours, theirs)
        return (left - {"tc", "rcode"}) | (explain(over_tcp, self.zones, KNOWN_DIFFERENCES)[1] if over_tcp else frozenset())

    # --- transfers

    def compare_transfers(self) -> None:
        """Checks each AXFR: every record of the zone once, between two copies of the SOA (RFC 5936 2.2)."""
        for server in self.servers:
            for zone in self.zones.zones.values():
                if zone.apex in REFUSED.get(server.name, set()):
                    continue
                try:
                    records = client.axfr(server.address, zone.apex)
                except (Malformed, OSError) as error:
                    self.tally.transfers.append(f"{server.name}: {error}")
                    continue
                for violation in transfer_violations(records, frozenset(zone.records)):
                    self.tally.transfers.append(f"{server.name}: {violation}")


def truncates_correctly(query: Query, reply: Reply, complete: Reply) -> bool:
    """Whether TC is clear, or the complete response exceeds the size limit.

    The answer and authority sections must fit, and the glue of a referral (RFC 2181 9, RFC 9471 2.1).
    """
    if reply.response is None or complete.response is None or complete.response.has(TC):
        return False
    if not reply.response.has(TC):
        return True
    response = complete.response
    needed = response.size if ends_in_referral(response) else response.authority_end + (11 if response.edns else 0)
    return needed + ROTATION_SLACK.get(reply.server, 0) > query.size_limit_served


def transfer_violations(records: list[Record], zone_records: frozenset[Record]) -> Iterator[str]:
    """How the records of a transfer differ from those of the zone file.

    RFC 2181 5.2, RFC 4034 3: a server may give one of its TTLs to an RRset that has several, and to its RRSIGs.
    """
    if records[0] != records[-1]:
        yield "first and last record differ (RFC 5936 2.2)"
    sent = Counter((r.owner, r.rtype, r.rdata) for r in records[:-1])
    expected = {(r.owner, r.rtype, r.rdata) for r in zone_records}
    yield from (f"sent {count} times: {record_text(key)} (RFC 5936 2.2)" for key, count in sent.items() if count > 1)
    yield from (f"not in the zone: {record_text(key)}" for key in sent.keys() - expected)
    yield from (f"missing: {record_text(key)}" for key in expected - sent.keys())
    ttls: dict[tuple[bytes, int], set[int]] = defaultdict(set)
    for record in zone_records:
        ttls[record.owner, covered_type(record)].add(record.ttl)
    yield from (f"TTL not in the zone: {r}" for r in records if r.ttl not in ttls.get((r.owner, covered_type(r)), {r.ttl}))


def record_text(key: tuple[bytes, int, bytes]) -> str:
    owner, rtype, rdata = key
    return f"{name_text(owner)} {type_text(rtype)} {rdata_text(rtype, rdata)}"
