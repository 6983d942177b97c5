"""The report shows complete messages and commands that repeat the queries."""

from response_builder import answer

import report
from dns_numbers import A
from message import Query
from names import wire_name

WWW = wire_name("www.example.")


def test_dig_style_shows_everything() -> None:
    shown = report.dig_style(answer(Query(WWW, A, payload=1232, dnssec=True), [("www.example.", A, bytes([1, 2, 3, 4]))], rcode=3))
    for part in ("status: NXDOMAIN", "flags: qr aa", "flags: do, udp: 1232", "QUESTION www.example. IN A", "www.example. 60 IN A 1.2.3.4"):
        assert part in shown
    assert "malformed" in report.dig_style(b"abc") and "no response" in report.dig_style(None)


def test_commands_repeat_the_query() -> None:
    assert report.repeat_command(Query(WWW, A)) == "dig @127.0.0.1 -p $PORT +norec +nocookie +noedns +notcp +ignore -q 'www.example.' -t A"
    dnssec = report.repeat_command(Query(WWW, A, payload=512, dnssec=True, tcp=True))
    assert dnssec == "dig @127.0.0.1 -p $PORT +norec +nocookie +bufsize=512 +dnssec +tcp -q 'www.example.' -t A"
    raw = Query(WWW, A, raw=b"\1\2\3", oddity="odd")
    assert report.repeat_command(raw) == "echo 010203 | xxd -r -p | nc -u -w1 127.0.0.1 $PORT | xxd"
    over_tcp = Query(WWW, A, raw=b"\1\2\3", oddity="odd", tcp=True)
    assert report.repeat_command(over_tcp) == "echo 0003010203 | xxd -r -p | nc -w1 127.0.0.1 $PORT | xxd"
