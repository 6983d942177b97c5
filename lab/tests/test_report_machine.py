"""The table of servers: who took part, and as what."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from zonda_lab.report.build import document
from zonda_lab.report.document import Table, Text
from zonda_lab.report.machine import machine, primaries_of, roles
from zonda_lab.results.folder import Results
from zonda_lab.results.window_record import WindowRecord

Make = Callable[..., WindowRecord]
INSTALLED = {label: {"kind": label, "version": "1", "sha256": "0" * 64} for label in ("nsd", "knot", "echo", "null")}
MANIFEST = {
    "machine": {"cpu": "x", "cpus": 2, "hypervisor": "", "memory_mb": 2048, "kernel": "6", "system": "y", "sysctl": {}},
    "generator": {"name": "zonda-load", "version": "1"},
    "began": "2026-01-01",
    "servers": INSTALLED,
    "absent": {"yadifa": "yadifa: not installed\nhelp", "pdns": "pdns: not installed"},
    "limits": {"echo_qps": 300_000.0, "echo_cpu_us": 3.0},
}


def test_the_servers_table_has_only_those_that_took_part(make_record: Make) -> None:
    skipped = make_record(0, server="yadifa")
    skipped.skipped, skipped.valid = "yadifa: not installed", False
    parts = machine(MANIFEST, [make_record(0, server="nsd"), skipped], ["null"])
    table = next(part for part in parts if isinstance(part, Table))
    assert [row[:2] for row in table.rows] == [["nsd", "measured"], ["null", "primary"]]
    texts = {part.strong: part.text for part in parts if isinstance(part, Text)}
    assert texts["Not measured:"] == "yadifa: not installed." and "Limit." not in texts


def test_the_limit_is_printed_where_windows_refer_to_it(make_record: Make) -> None:
    records = [make_record(0, server=server) for server in ("nsd", "echo")]
    records[0].echo = {"capacity_qps": 300_000.0}
    parts = machine(MANIFEST, records, ["nsd"])
    assert roles(records, ["nsd"]) == {"nsd": ["measured", "primary"], "echo": ["limit", "measured"]}
    assert any(isinstance(part, Text) and part.strong == "Limit." for part in parts)


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
    manifest["servers"] |= {"null": INSTALLED["null"]}
    results.write("manifest.json", json.loads(json.dumps(manifest)))
    tables = [
        part for part in document(results).parts if isinstance(part, Table) and part.head[:2] == ["server", "role"]
    ]
    assert [row[:2] for row in tables[0].rows] == [["nsd", "measured, primary"], ["knot", "measured"]]
