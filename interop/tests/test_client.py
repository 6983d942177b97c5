"""Every message gets its own response, even if messages are lost, delayed, reordered or unanswered."""

from __future__ import annotations

import time
from itertools import count

import pytest
from conftest import serving
from response_builder import record

import client
from dns_numbers import SOA, A
from names import Malformed, wire_name

MESSAGES = [b"\0\0" + bytes([i, i]) + b"x" * 20 for i in range(200)]


def echo(message: bytes) -> bytes:
    return message


def bodies(answers: list[bytes | None]) -> list[bytes | None]:
    return [a and a[2:] for a in answers]


@pytest.mark.parametrize("window", [1, 7, 200, 500])
def test_every_message_is_answered(window: int) -> None:
    with serving(echo) as server:
        assert bodies(client.udp(server, MESSAGES, window=window)) == [m[2:] for m in MESSAGES]
        assert bodies(client.tcp(server, MESSAGES, pipeline=window)) == [m[2:] for m in MESSAGES]


def test_lost_messages_are_resent() -> None:
    turn = count()
    with serving(lambda m: m if next(turn) % 3 else None) as server:
        assert bodies(client.udp(server, MESSAGES[:30], timeout_s=0.1, tries=9)) == [m[2:] for m in MESSAGES[:30]]


def test_silence_is_none() -> None:
    with serving(lambda m: None if m[2] == 5 else m) as server:
        answers = client.udp(server, MESSAGES[:20], window=4, timeout_s=0.5, tries=3)
        assert [i for i, a in enumerate(answers) if a is None] == [5]
        answers = client.tcp(server, MESSAGES[:20], pipeline=1, timeout_s=1.0)
        assert [i for i, a in enumerate(answers) if a is None] == [5]


def test_a_late_response_is_not_taken_for_the_next() -> None:
    """The server delays the first response until the client has timed out and sent the next query."""

    def respond(message: bytes) -> bytes:
        if message[2] == 0:
            time.sleep(1.3)
        return message

    with serving(respond) as server:
        assert bodies(client.udp(server, MESSAGES[:2], window=1, timeout_s=1.0, tries=1)) == [None, MESSAGES[1][2:]]


def test_messages_too_short_for_an_id() -> None:
    with serving(lambda _: b"\1\2\3") as server:
        assert client.udp(server, [b"a"]) == [b"\1\2\3"]


def transfer(*parts: list[bytes]) -> list[bytes]:
    """The messages of a transfer, each with some records and the query in the first."""
    asked = wire_name("example.") + b"\0\xfc\0\1"
    heads = [b"\0\1\x84\0" + bytes([0, not i, 0, len(records), 0, 0, 0, 0]) for i, records in enumerate(parts)]
    return [head + (asked if not i else b"") + b"".join(records) for i, (head, records) in enumerate(zip(heads, parts))]


START = record(("example.", SOA, wire_name("ns.example.") * 2 + bytes(20)))
ADDRESS = record(("a.example.", A, bytes(4)))


def test_a_transfer_of_several_messages() -> None:
    with serving(lambda _: transfer([START], [ADDRESS, ADDRESS], [START])) as server:
        records = client.axfr(server, wire_name("example."))
    assert [r.rtype for r in records] == [SOA, A, A, SOA]


@pytest.mark.parametrize("messages", [transfer([START, ADDRESS]), [b"\0\1\x84\5" + bytes(8)], []])
def test_a_transfer_that_ends_early_or_is_refused(messages: list[bytes]) -> None:
    with serving(lambda _: messages) as server, pytest.raises(Malformed):
        client.axfr(server, wire_name("example."))
