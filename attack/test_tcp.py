"""Clients over TCP that hold what they get."""

from __future__ import annotations

import socket

import dns.rcode

from daemon import HOST


def test_half_a_query_stalls_nobody(daemon):
    server = daemon().start()
    with socket.create_connection((HOST, server.port)) as half:
        half.sendall(b"\x00\x20half")
        for tcp in (False, True):
            assert server.ask("www.example.", tcp=tcp).rcode() == dns.rcode.NOERROR
