"""Zone transfers from Zonda preserve the letter case of the zone file, as in BIND."""

from __future__ import annotations

from pathlib import Path

import dns.query
import pytest

from names import wire_name
from servers import HOST, Bind, ProgramNotFound, Server, Zonda, Zone

RECORDS = """\
ExAmple.Com. 60 IN SOA Ns1.ExAmple.Com. Host.example.com. 1 7200 900 604800 300
ExAmple.Com. 60 IN NS Ns1.ExAmple.Com.
ExAmple.Com. 60 IN NS nS2.example.com.
Ns1.ExAmple.Com. 60 IN A 192.0.2.1
ns2.ExAmple.Com. 60 IN A 192.0.2.2
WWW.Sub.ExAmple.Com. 60 IN CNAME Www.sub.ExAmple.Com.
*.Wild.ExAmple.Com. 60 IN MX 10 MAIL.Wild.ExAmple.Com.
lower.ExAmple.Com. 60 IN TXT "Text"
CUT.ExAmple.Com. 60 IN NS NS.CUT.ExAmple.Com.
NS.CUT.ExAmple.Com. 60 IN AAAA 2001:db8::1
Old.ExAmple.Com. 60 IN DNAME New.Example.COM.
"""


@pytest.mark.parametrize("server", [Bind, Zonda])
@pytest.mark.parametrize("query", ["example.com.", "EXAMPLE.com."])
def test_transfers_preserve_letter_case_as_in_bind(server: type[Server], query: str, tmp_path: Path) -> None:
    try:
        server.program()
    except ProgramNotFound as missing:
        pytest.skip(str(missing))
    file = tmp_path / "zone"
    file.write_text(RECORDS)
    running = server([Zone(wire_name("example.com."), "example.com", file)], tmp_path)
    running.start()
    try:
        assert transferred(running, query) == sorted(RECORDS.splitlines())
    finally:
        running.stop()


def transferred(server: Server, query: str) -> list[str]:
    """The distinct records of a transfer as lines."""
    lines = set[str]()
    for message in dns.query.xfr(HOST, query, port=server.address[1], relativize=False, lifetime=30):
        for rrset in message.answer:
            lines.update(rrset.to_text().splitlines())
    return sorted(lines)
