"""The relay tells the forms of transfers apart, and the table says why cells are skipped."""

from __future__ import annotations

import json
import os
import random
import re
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from conftest import serving

import client
import run_transfers
import transfer_table
from message import Query
from names import wire_name
from transfers import contents, gov_series, notify_features, result_table, table_run, update_features, zone_versions
from transfers.features import AS_PRIMARY, AS_SECONDARY, FEATURES, LACKS
from transfers.kinds import KnotTransfers, NsdTransfers
from transfers.relay import IXFR, FramedMessages, Relay
from transfers.result_table import FAILED, OK, SKIPPED, Result
from transfers.server import Build, Failed, Skipped
from transfers.table_run import TableRun

APEX = wire_name("transfer.example.")
A = struct.pack(">HHIH", 1, 1, 60, 4) + bytes([192, 0, 2, 1])


def soa(serial: int) -> bytes:
    """A SOA record without its owner."""
    rdata = b"\0\0" + struct.pack(">5I", serial, 1, 1, 1, 1)
    return struct.pack(">HHIH", 6, 1, 60, len(rdata)) + rdata


def transfer_message(*records: bytes, rcode: int = 0) -> bytes:
    """A message of a transfer, for the ID that `client.udp` and `client.tcp` use first."""
    return struct.pack(">6H", 1, 0x8400 | rcode, 0, len(records), 0, 0) + b"".join(APEX + record for record in records)


@pytest.mark.parametrize(
    ("response", "form"),
    [
        (transfer_message(soa(2)), "serial"),
        (transfer_message(soa(2), A, soa(2)), "full"),
        (transfer_message(soa(2), soa(1), A, soa(2), A, soa(2)), "incremental"),
        (transfer_message(rcode=5), "refused"),
    ],
)
def test_the_relay_records_the_form_of_a_transfer(response: bytes, form: str) -> None:
    with serving(lambda _: response) as (_, port):
        relay = Relay(port)
        relay.open()
        for send in (client.tcp, client.udp):
            assert send(("127.0.0.1", relay.port), [Query(APEX, IXFR).wire()])[0] == response
        assert [(e.form, e.over_udp, e.signed, e.zone) for e in relay.transfers()] == [
            (form, udp, False, zone_versions.ZONE) for udp in (False, True)
        ]
        relay.close()
        with pytest.raises(ConnectionRefusedError):
            client.tcp(("127.0.0.1", relay.port), [Query(APEX, IXFR).wire()])


def test_name_servers_of_two_runs_have_addresses_of_their_own() -> None:
    """If each run began with the same address, the cells of one would fail."""
    try:
        relays = [notify_features.name_server(random.Random(1)) for _ in range(2)]
    except Skipped as skipped:
        pytest.skip(str(skipped))
    assert len({relay.address for relay in relays}) == 2
    for relay in relays:
        relay.close()


def test_a_transfer_in_several_messages_is_one_exchange() -> None:
    parts = [transfer_message(soa(2)), transfer_message(soa(1), A, soa(2), A, soa(2))]
    with serving(lambda _: parts) as (_, port):
        relay = Relay(port)
        relay.open()
        client.tcp(("127.0.0.1", relay.port), [Query(APEX, IXFR).wire()])
        deadline = time.monotonic() + 5
        while [e.records for e in relay.transfers()] != [6] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [(e.form, e.records) for e in relay.transfers()] == [("incremental", 6)]
        relay.close()


def test_messages_of_a_stream_may_come_in_pieces() -> None:
    stream, found = FramedMessages(), []
    for octet in client.framed(b"first") + client.framed(b"second"):
        found += stream.receive(bytes([octet]))
    assert found == [b"first", b"second"]


def test_records_that_differ_are_named() -> None:
    zone = frozenset(client.transferred(transfer_message(soa(2), A)))
    contents.require_same(zone, zone, ("ours", "theirs"))
    with pytest.raises(Failed, match=r"1 records only on ours, 0 only on theirs; ours: transfer.example. 60 IN A 192.0.2.1"):
        contents.require_same(zone, frozenset(r for r in zone if r.rtype != 1), ("ours", "theirs"))


def test_every_change_makes_another_zone(tmp_path: Path) -> None:
    version, seen = zone_versions.ZoneText(zone_versions.FIRST_SERIAL), set()
    for number, change in enumerate([lambda _: None, *zone_versions.CHANGES]):
        version = version.next(change)
        (tmp_path / str(number)).write_text(version.text())
        seen.add(contents.expected_contents(tmp_path / str(number), version.name))
    assert len(seen) == 1 + len(zone_versions.CHANGES)
    assert version.serial < zone_versions.FIRST_SERIAL, "the chain must pass the end of the serial space"


def test_steps_of_updates_change_the_zone_or_fail() -> None:
    version = zone_versions.ZoneText(1)
    for step in update_features.STEPS:
        before = version.text()
        step.change(version)
        assert step.rcodes == "NOERROR" or version.text() == before


def test_a_lack_depends_on_role_and_release(tmp_path: Path) -> None:
    consumed = next(feature for feature in FEATURES if feature.name == "catalog consumed")
    old, new = Build(NsdTransfers, tmp_path, "4.6.1"), Build(NsdTransfers, tmp_path, "4.15.1")
    assert consumed.lack(old, AS_SECONDARY) == "NSD has catalogs since 4.9"
    assert consumed.lack(old, AS_PRIMARY) is None and consumed.lack(new, AS_SECONDARY) is None


def test_lacks_name_features() -> None:
    known = {feature.name for feature in FEATURES} | {feature.group for feature in FEATURES}
    assert not {lack.features for lack in LACKS} - known


def test_control_sockets_have_valid_addresses_below_a_long_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NSD and Knot must start below a TMPDIR of 70 octets."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("long" * 20)))
    folder, peer = run_transfers.scratch_folder(), Build(KnotTransfers, None, "3.10.10-dev")
    folder.rmdir()
    for feature in FEATURES:
        address = folder / table_run.cell_name(peer, AS_SECONDARY, feature) / "secondary" / "control"
        assert len(bytes(address)) <= 107, address


def test_as_many_builds_are_tested_at_once_as_there_are_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six at once exceed their time-outs on two processors."""
    monkeypatch.setattr("sys.argv", ["run_transfers.py"])
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {2, 5})
    assert run_transfers.arguments().at_once == 2


def test_a_server_that_does_not_start_is_a_failure(tmp_path: Path) -> None:
    knot = Build(KnotTransfers, tmp_path, "3.6")
    results = TableRun(knot, [f for f in FEATURES if f.name == "AXFR"], (AS_PRIMARY,), tmp_path / "cells").run([knot], 1)
    assert [(r.outcome, "knotd is not in" in r.reason) for r in results] == [(FAILED, True)]


@pytest.mark.parametrize(
    ("printed", "version", "release"),
    [
        ("knotd (Knot DNS), version 3.6.dev0+1786107603.242eeaa13", "3.6-dev", (3, 6)),
        ("BIND 9.21.26-dev (Development Release) <id:0123>", "9.21.26-dev", (9, 21, 26)),
        ("BIND 9.18.49-1~deb12u1-Debian (Extended Support Version)", "9.18.49", (9, 18, 49)),
        ("NSD version 4.15.1", "4.15.1", (4, 15, 1)),
        ("no version", "unknown", ()),
    ],
)
def test_a_development_build_is_not_named_as_the_release(tmp_path: Path, printed: str, version: str, release: tuple[int, ...]) -> None:
    """A build before that release must not be named "Knot 3.6"."""
    assert table_run.version_of(printed) == version
    assert Build(KnotTransfers, tmp_path, version).release == release


def test_the_table_has_reasons_and_counts() -> None:
    results = [Result("knot", "3.6", AS_PRIMARY, "AXFR", OK), Result("nsd", "4.6.1", AS_SECONDARY, "XoT", SKIPPED, "why")]
    lines = result_table.text(results).splitlines()
    assert lines[1].split(" | ")[-1] == "ok" and lines[2].endswith("| skipped: why") and lines[-1] == "1 ok, 0 failed, 1 skipped"
    assert result_table.as_json(results)[1]["reason"] == "why"


def test_the_markdown_table_names_reasons_and_takes_the_latest_results(tmp_path: Path) -> None:
    files = [tmp_path / "first.json", tmp_path / "second.json"]
    failed, skipped = (AS_PRIMARY, "AXFR", FAILED, "why"), (AS_PRIMARY, "AXFR", SKIPPED, "no AXFR")
    first = [Result("knot", "3.6", *failed, commit="a" * 40), Result("nsd", "4.6.1", *skipped, commit="a" * 40)]
    for file, results in zip(files, [first, [Result("knot", "3.6", AS_PRIMARY, "AXFR", OK, commit="b" * 40)]]):
        file.write_text(json.dumps(result_table.as_json(results)))
    text = transfer_table.markdown(transfer_table.read(files))
    assert f"Zonda is `{'b' * 12}` and `{'a' * 12}`." in text
    assert "| feature | Knot 3.6 | NSD 4.6.1 |" in text and "| AXFR | ok | (1) |" in text and "1. no AXFR" in text
    assert "| refresh | not run | not run |" in text


@pytest.mark.parametrize("commit", ["", "unknown", "a" * 40 + "-dirty"])
def test_the_document_has_no_results_without_their_commit(commit: str) -> None:
    with pytest.raises(SystemExit, match="there are results of Zonda at"):
        transfer_table.markdown([Result("knot", "3.6", AS_PRIMARY, "AXFR", OK, commit=commit)])


def test_a_program_older_than_its_commit_or_of_a_changed_tree_is_dirty(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.net", *words], check=True, capture_output=True)

    program, source = tmp_path / "zonda", tmp_path / "source"
    program.touch()
    assert table_run.commit_of(program) == "unknown"
    git("init")
    source.write_text("one")
    git("add", "source")
    git("commit", "-m", "one")
    os.utime(program, (time.time() + 5,) * 2)
    clean = table_run.commit_of(program)
    assert re.fullmatch("[0-9a-f]{40}", clean)
    os.utime(program, (1, 1))
    assert table_run.commit_of(program) == f"{clean}-dirty"
    os.utime(program, (time.time() + 5,) * 2)
    source.write_text("two")
    assert table_run.commit_of(program) == f"{clean}-dirty"


def test_the_document_has_every_feature_and_no_failure() -> None:
    text = (Path(__file__).parents[2] / "docs/interoperability.md").read_text()
    for feature in FEATURES:
        assert text.count(f"| {feature.name} |") == 2, f"{feature.name}: generate the table again, as interop/README.md says"
    assert "failed" not in text and "not run" not in text


def test_downloads_are_zones_or_not() -> None:
    line = "gov.\t3600\tIN\tSOA\ta.ns.gov. dns.cloudflare.com. 1783759811 3600 900 604800 300"
    assert gov_series.serial_in(line) == 1783759811 and gov_series.serial_in('{"success":false}') is None
    records = gov_series.records_of(f";; SOA Record\n{line}\n\na.gov.\t60\tIN\tNS\tns.example.\n")
    assert sorted(record.rtype for record in records) == [2, 6]
