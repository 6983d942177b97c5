"""The table of servers: who took part, and as what."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from conftest import Make

from zonda_lab.measurement.observer import Span
from zonda_lab.measurement.running_server import Server
from zonda_lab.measurement.window import window_of
from zonda_lab.report.build import document
from zonda_lab.report.document import Folded, Table, Text
from zonda_lab.report.machine import machine, primaries_of, roles
from zonda_lab.results.folder import Results
from zonda_lab.servers.adapter import TunedLine

INSTALLED = {label: {"kind": label, "version": "1", "sha256": "0" * 64} for label in ("nsd", "knot", "echo", "null")}
MANIFEST = {
    "machine": {"cpu": "x", "cpus": 2, "hypervisor": "", "memory_mb": 2048, "kernel": "6", "system": "y", "sysctl": {}},
    "generator": {"name": "zonda-load", "version": "1"},
    "began": "2026-01-01",
    "servers": INSTALLED,
    "absent": {"yadifa": "yadifa: not installed\nhelp", "pdns": "pdns: not installed"},
}


def test_the_servers_table_has_only_those_that_took_part(make_record: Make) -> None:
    skipped = make_record(0, server="yadifa")
    skipped.skipped, skipped.valid = "yadifa: not installed", False
    parts = machine(MANIFEST, [make_record(0, server="nsd"), skipped], ["null"])
    table = next(part for part in parts if isinstance(part, Table))
    assert [row[:2] for row in table.rows] == [["nsd", "measured"], ["null", "primary"]]
    texts = {part.strong: part.text for part in parts if isinstance(part, Text)}
    assert texts["Not measured:"] == "yadifa: not installed." and "Limits of the rig." not in texts


def test_both_limits_are_printed_where_windows_refer_to_them(make_record: Make) -> None:
    """The limit of the generator must be in the report, and that of echo must be the one that rates are shares of."""
    traffic = {"transport": "udp", "connections": 20, "sources": 1}
    records = [make_record(0, server="nsd", placement=place) for place in ("free", "pinned", "steered")]
    for record, echo in zip(records, (552_085.0, 552_085.0, 412_000.0), strict=True):
        limits = {"echo_qps": echo, "generator_qps": 556_930.0, "measured": "2026-11-24T12:26:26+00:00"}
        record.echo, record.detail["limits"] = {"capacity_qps": echo}, {**limits, "traffic": traffic, "disturbed": []}
        record.detail["limits"]["latency_reasons"] = [record.treatment["placement"]]  # of each window another
    parts = machine(MANIFEST, records, ["nsd"])
    assert roles(records, ["nsd"]) == {"nsd": ["measured", "primary"], "echo": ["limit"]}
    assert any(isinstance(part, Text) and part.strong == "Limits of the rig." for part in parts)
    table = next(part for part in parts if isinstance(part, Table) and part.head[0] == "traffic")
    assert table.head == ["traffic", "conditions", "echo server answers, q/s", "generator's limit, q/s", "measured"]
    udp, measured = "UDP, 20 sockets, 1 source address", "2026-11-24 12:26 UTC"
    assert table.rows == [
        [udp, "free or pinned", "552,000", "557,000", measured],
        [udp, "steered", "412,000", "557,000", measured],
    ]


@pytest.mark.parametrize(
    ("sending", "text"),
    [
        (None, "No queries were measured."),
        (
            {"burst": 1, "order": "file", "timestamps": "user"},
            "Queries were sent without bursts of UDP segments, in the ",
        ),
        (
            {"burst": 9, "order": "length", "timestamps": "kernel"},
            "Queries were sent in bursts of up to 9 UDP segments, so",
        ),
    ],
)
def test_every_report_says_how_queries_were_sent(make_record: Make, sending: object, text: str) -> None:
    record = make_record(0)
    record.detail = {"sending": sending} if sending else {}
    parts = {part.strong: part.text for part in machine(MANIFEST, [record], []) if isinstance(part, Text)}
    assert parts["Sending."].startswith(text)


def test_the_settings_of_the_servers_are_in_the_report(make_record: Make) -> None:
    """They must not be in the records only, and those of `defaults` must not have the lines of `tuned`."""
    line = ["transfers-in 100", "as many transfers at once as by all servers"]
    records = [make_record(0, server="bind", settings=settings) for settings in ("tuned", "tuned", "defaults")]
    for record, used in zip(records, (4 << 20, 8 << 20, 212_992), strict=True):
        sockets = [{"kind": "udp", "own_receive_buffer": 212_992, "receive_buffer": used}] * 2
        settings = record.treatment["settings"]
        record.detail["settings"] = {"settings": settings, "lines": [line], "sockets": sockets}
    (folded,) = [part for part in machine(MANIFEST, records, []) if isinstance(part, Folded) and "server" in part.title]
    lines, buffers = folded.parts
    assert isinstance(lines, Table) and lines.rows == [["bind", *line]]
    assert isinstance(buffers, Table)
    assert buffers.rows == [["bind", "tuned", "UDP", "208", "4,096"], ["bind", "defaults", "UDP", "208", "208"]]


@pytest.mark.parametrize(("tuned", "lines"), [(True, [["a yes", "it is so"]]), (False, [])])
def test_a_window_records_the_lines_that_were_written(tuned: bool, lines: list[list[str]]) -> None:
    adapter = SimpleNamespace(tuning=lambda _: [TunedLine("a yes", "it is so")])
    parts = {"process": SimpleNamespace(alive=True), "sockets": [], "installed": SimpleNamespace(adapter=adapter)}
    server = cast(Server, SimpleNamespace(config=SimpleNamespace(tuned=tuned), **parts))
    assert window_of(server, Span(), {}).detail["settings"]["lines"] == lines


def test_probes_over_udp_are_no_query_load_but_not_nothing(make_record: Make) -> None:
    """Where UDP is probed all the time, the report must say so under the way of sending (E18, E19, E32)."""
    parts = machine(MANIFEST, [make_record(0, udp_answered_share=1.0)], [])
    texts = {part.strong: part.text for part in parts if isinstance(part, Text)}
    assert texts["Sending."] == "UDP was probed with a query every 10 ms while connections were open."


def test_queries_of_an_unknown_way_are_queries(make_record: Make) -> None:
    """If the generator does not say how it sends them, the report must not say that no queries were measured (E34)."""
    parts = machine(MANIFEST, [make_record(0, sent_qps=100.0)], [])
    texts = {part.strong: part.text for part in parts if isinstance(part, Text)}
    assert texts["Sending."] == "The load generator did not report how it sent queries."


def test_primaries_are_those_of_the_levels_that_ran() -> None:
    levels = {"a": {"primary": {"name": "knot"}}, "b": {"primary": {"name": "bind"}}, "c": {}}
    described = {
        "settings": {"primary": {"name": "nsd"}},
        "factors": {"kind": levels, "server.name": ["zonda"]},
        "within": {"primary.name": ["null"]},
        "levels": {"kind": ["a", "c"], "server.name": ["zonda"], "primary.name": ["null"]},
    }
    assert primaries_of(described) == {"nsd", "knot", "null"}


def test_the_page_names_the_roles(made: Results, tmp_path: Path) -> None:
    results = Results(Path(shutil.copytree(made.folder, tmp_path / "results")))
    manifest = results.manifest()
    manifest["servers"] |= {"null-primary": INSTALLED["null"], "null": INSTALLED["null"]}
    results.write("manifest.json", json.loads(json.dumps(manifest)))
    tables = [
        part for part in document(results).parts if isinstance(part, Table) and part.head[:2] == ["server", "role"]
    ]
    assert [row[:2] for row in tables[0].rows] == [
        ["nsd", "measured"],
        ["knot", "measured"],
        ["null-primary", "primary"],
    ]
