"""Primaries that answer over QUIC as RFC 9250 forbids. Needs aioquic (`requirements.txt`)."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import dns.rrset
import pytest
from client import framed
from servers import reserve_port
from zonda_lab.servers.credentials import certificate

from daemon import HOST, Daemon

quic_asyncio = pytest.importorskip("aioquic.asyncio", reason="aioquic is not installed")
from aioquic.quic.configuration import QuicConfiguration  # noqa: E402 - the line above skips without it
from aioquic.quic.events import ConnectionTerminated, QuicEvent, StopSendingReceived, StreamDataReceived  # noqa: E402

Answer = Callable[["Primary", int, bytes], None]


def transfer(serial: int, query: dns.message.Message) -> bytes:
    """The response to a query for the SOA record or the zone, with its length."""
    soa = dns.rrset.from_text("example.", 60, "IN", "SOA", f"ns.example. host.example. {serial} 3600 900 604800 300")
    records = [dns.rrset.from_text(f"t{number}.example.", 60, "IN", "TXT", "x" * 200) for number in range(50)]
    records.append(dns.rrset.from_text("example.", 60, "IN", "NS", "ns.example."))
    response = dns.message.make_response(query)
    response.answer = [soa] if query.question[0].rdtype == dns.rdatatype.SOA else [soa, *records, soa]
    return framed(response.to_wire(max_size=65535))


class Primary(quic_asyncio.QuicConnectionProtocol):
    """Answers the complete query of a stream as `answer` says."""

    serial = 1
    answer: Answer
    asked = 0
    close_codes: set[int]
    stop_codes: set[int]

    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **named)
        self.queries: dict[int, bytes] = {}

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ConnectionTerminated):
            Primary.close_codes.add(event.error_code)
        if isinstance(event, StopSendingReceived):
            Primary.stop_codes.add(event.error_code)
        if isinstance(event, StreamDataReceived):
            query = self.queries[event.stream_id] = self.queries.get(event.stream_id, b"") + event.data
            if event.end_stream:
                Primary.asked += 1
                Primary.answer(self, event.stream_id, transfer(Primary.serial, dns.message.from_wire(query[2:])))
                self.transmit()

    def send(self, stream: int, octets: bytes, ends: bool = True) -> None:
        self._quic.send_stream_data(stream, octets, ends)

    def send_half(self, stream: int, octets: bytes) -> None:
        self.send(stream, octets[: len(octets) // 2])

    def send_other_id(self, stream: int, octets: bytes) -> None:
        self.send(stream, octets[:2] + b"\x09" + octets[3:])

    def send_without_soa(self, stream: int, octets: bytes) -> None:
        """A message that is no transfer, and no end of the stream."""
        response = dns.message.from_wire(octets[2:])
        is_transfer = response.question[0].rdtype != dns.rdatatype.SOA
        response.answer = response.answer[is_transfer:]
        self.send(stream, framed(response.to_wire(max_size=65535)), ends=not is_transfer)

    def send_without_last_soa(self, stream: int, octets: bytes) -> None:
        response = dns.message.from_wire(octets[2:])  # which takes the two SOA records for one
        self.send(stream, framed(response.to_wire(max_size=65535)))

    def reset(self, stream: int, octets: bytes) -> None:
        self.send(stream, octets[:500], ends=False)
        self.transmit()
        self._quic.reset_stream(stream, 3)

    def end(self, stream: int, octets: bytes) -> None:
        self._quic.close(error_code=2)


@pytest.fixture
def secondary(daemon, tmp_path: Path) -> Iterator[Daemon]:
    """A server whose zone comes from `Primary`."""
    files, port, loop = certificate(tmp_path), reserve_port(), asyncio.new_event_loop()
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["doq"])
    configuration.load_cert_chain(files.certificate, files.key)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    start = quic_asyncio.serve(HOST, port, configuration=configuration, create_protocol=Primary)
    primary = asyncio.run_coroutine_threadsafe(start, loop).result(5)
    Primary.serial, Primary.answer, Primary.close_codes, Primary.stop_codes = 1, Primary.send, set(), set()
    server = daemon()
    text = server.config.read_text().split("[[zone]]")[0]
    peer = f'{{ address = "{HOST}:{port}", tls = true, quic = true }}'
    server.config.write_text(f'{text}[[zone]]\nname = "example"\nprimaries = [{peer}]\nmin-refresh-s = 1\nmin-retry-s = 1\n')
    server.quic_port = port
    yield server.start()
    loop.call_soon_threadsafe(primary.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


def retransfer(server: Daemon) -> None:
    assert server.run("zone", "retransfer", "example").returncode == 0


@pytest.mark.parametrize(
    "answer",
    [
        Primary.send_half,
        Primary.send_other_id,
        Primary.send_without_last_soa,
        lambda primary, stream, octets: primary.send(stream, os.urandom(2000)),
        lambda primary, stream, octets: primary.send(stream, b"\0\0" * 10_000),
        Primary.reset,
        Primary.end,
    ],
    ids=["half", "another message ID", "half a transfer", "noise", "empty messages", "reset", "closed"],
)
def test_what_is_no_response_is_not_taken(secondary, answer):
    Primary.serial, Primary.answer, asked, before_s = 2, answer, Primary.asked, secondary.cpu_s()
    retransfer(secondary)
    secondary.wait_until(lambda: Primary.asked > asked, timeout_s=5)
    time.sleep(0.5)
    assert secondary.serial("example.") == 1
    assert secondary.cpu_s() - before_s < 0.5
    Primary.answer = Primary.send
    secondary.wait_until(lambda: secondary.serial("example.") == 2 or retransfer(secondary), timeout_s=15)
    assert "bug" not in secondary.log_text()


@pytest.mark.parametrize("answer", [Primary.send_half, Primary.send_other_id, Primary.send_without_last_soa])
def test_rfc_9250_4_3_3_a_primary_gets_the_code_of_its_protocol_error(secondary, answer):
    Primary.serial, Primary.answer = 2, answer
    retransfer(secondary)
    secondary.wait_until(lambda: 2 in Primary.close_codes, timeout_s=5)


def test_rfc_9250_4_3_1_a_transfer_that_is_given_up_is_cancelled(secondary):
    Primary.serial, Primary.answer = 2, Primary.send_without_soa
    retransfer(secondary)
    secondary.wait_until(lambda: 3 in Primary.stop_codes, timeout_s=5)
