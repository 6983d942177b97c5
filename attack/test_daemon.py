"""The queries of the tests, on a busy machine and to a server that does not run."""

from __future__ import annotations

import os
import signal
import threading
import time

import dns.rcode
import pytest


def test_a_query_waits_for_a_server_that_the_machine_does_not_run(daemon):
    server = daemon().start()
    os.kill(server.pid, signal.SIGSTOP)
    threading.Timer(1.5, os.kill, (server.pid, signal.SIGCONT)).start()
    assert server.ask("www.example.").rcode() == dns.rcode.NOERROR


def test_a_query_to_a_server_that_does_not_run_fails_at_once(daemon):
    began = time.monotonic()
    with pytest.raises(ConnectionRefusedError):
        daemon().ask("www.example.")
    assert time.monotonic() - began < 5, "less than the time for a response"
