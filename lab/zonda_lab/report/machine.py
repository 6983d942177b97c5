"""What the measurements ran on: the machine, the servers with their roles, and the limit of the rig."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zonda_lab.report.document import Folded, Part, Table, Text
from zonda_lab.report.number_format import number
from zonda_lab.results.window_record import WindowRecord

MEASURED, PRIMARY, LIMIT = "measured", "primary", "limit"


def machine(manifest: Mapping[str, Any], records: Sequence[WindowRecord], primaries: Iterable[str]) -> list[Part]:
    """Machine, servers that took part, limit of the rig, and servers that were wanted but not installed."""
    described, generator = manifest["machine"], manifest["generator"]
    virtual = "virtual, " if described["hypervisor"] else ""
    text = (
        f"{described['cpu']}, {described['cpus']} CPUs, {virtual}{described['memory_mb'] / 1024:.1f} GiB, "
        f"Linux {described['kernel']}, {described['system']}. "
        f"Load by {generator['name']} {generator['version']}. Started {manifest['began']}."
    )
    kernel = [[key, value] for key, value in described["sysctl"].items() if value]
    found = roles(records, primaries)
    return [
        Text(text, "Machine."),
        _servers(manifest["servers"], found),
        *_limit(manifest.get("limits"), found),
        *_absent(manifest["absent"], records),
        Folded("Kernel settings", [Table(["setting", "value"], kernel)]),
    ]


def roles(records: Iterable[WindowRecord], primaries: Iterable[str]) -> dict[str, list[str]]:
    """What each server took part as, by label."""
    found: dict[str, dict[str, None]] = {}  # each role once, in order
    for record in records:
        if not record.skipped:
            found.setdefault(_label(record), {})[MEASURED] = None
        if record.echo or "echo_qps" in record.metrics:
            found.setdefault("echo", {})[LIMIT] = None
    for label in primaries:
        found.setdefault(label, {})[PRIMARY] = None
    return {label: list(roles) for label, roles in found.items()}


def primaries_of(described: Mapping[str, Any]) -> set[str]:
    """The labels of the primaries of an experiment, at all levels that were run."""
    run = described["levels"]
    tables = [
        table
        for name, levels in {**described["factors"], **described["within"]}.items()
        if isinstance(levels, Mapping)
        for level, table in levels.items()
        if level in run.get(name, levels)
    ]
    named = {table.get("primary", {}).get("name", "") for table in (described["settings"], *tables)}
    return {*named, *run.get("primary.name", [])} - {""}


def _label(record: WindowRecord) -> str:
    return record.server.get("label") or record.levels.get("server.name", "")


def _servers(servers: Mapping[str, Mapping[str, str]], found: Mapping[str, Sequence[str]]) -> Table:
    """The servers that took part; the manifest also has those that are only installed."""
    rows = [
        [label, ", ".join(found[label]), server["kind"], server["version"], server["sha256"][:12]]
        for label, server in servers.items()
        if label in found
    ]
    return Table(["server", "role", "kind", "version", "SHA-256 of the program"], rows)


def _limit(limits: Mapping[str, float] | None, found: Mapping[str, Sequence[str]]) -> list[Part]:
    """The rate of the echo server, where the windows refer to it."""
    if not limits or LIMIT not in found.get("echo", ()):
        return []
    text = (
        f"A UDP echo server on one core answers {number(limits['echo_qps'])} queries per second "
        f"(closed loop, 200 outstanding), using {number(limits['echo_cpu_us'])} µs of CPU time each. "
        "A DNS server that uses sockets can hardly do better. This is a single window; "
        "an open loop whose queries arrive in larger batches can exceed it."
    )
    return [Text(text, "Limit.")]


def _absent(absent: Mapping[str, str], records: Iterable[WindowRecord]) -> list[Part]:
    """Servers that a window should have had; the manifest also has those that nobody asked for."""
    wanted = {_label(record) for record in records}
    why = [text.splitlines()[0] for label, text in absent.items() if label in wanted]
    return [Text(f"{'; '.join(why)}.", "Not measured:")] if why else []
