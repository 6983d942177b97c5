"""What the measurements ran on: the machine, the servers with their roles, and the limit of the rig."""

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zonda_lab.experiments.metrics import level_words
from zonda_lab.load.zonda_load import UDP_PROBE_MS
from zonda_lab.report.document import Folded, Part, Table, Text, filled_table
from zonda_lab.report.number_format import number
from zonda_lab.report.reading import LIMITS_OF_RIG
from zonda_lab.results.window_record import WindowRecord

MEASURED, PRIMARY, LIMIT = "measured", "primary", "limit"
OF_WINDOW = ("bounds", "latency_reasons")  # of echo's window at the rate of this one, not of the limits
ORDERS = {"file": "in the order of the input", "length": "sorted by length"}
CLOCKS = {"user": "the load generator", "kernel": "the kernel"}


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
        *_limits(records, found),
        _sending(records),
        *_absent(manifest["absent"], records),
        *_settings(records),
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


def _limits(records: Sequence[WindowRecord], found: Mapping[str, Sequence[str]]) -> list[Part]:
    """Both limits of the rig for each kind of traffic, where the windows refer to an echo server."""
    kinds: dict[str, list[WindowRecord]] = {}
    for record in records:
        if record.counts and (limits := record.detail.get("limits")):
            measured = {key: value for key, value in limits.items() if key not in OF_WINDOW}
            kinds.setdefault(json.dumps(measured, sort_keys=True), []).append(record)
    if not kinds or LIMIT not in found.get("echo", ()):
        return []
    columns = ["experiment", "traffic", "conditions", "echo server answers, q/s", "generator's limit, q/s", "measured"]
    rows = [_limit_row(json.loads(text), windows, records) for text, windows in kinds.items()]
    return [Text(LIMITS_OF_RIG, "Limits of the rig."), filled_table(columns, rows)]


def _limit_row(
    limits: Mapping[str, Any], windows: Sequence[WindowRecord], records: Sequence[WindowRecord]
) -> list[str]:
    """One kind of traffic; its conditions are the levels that not all windows of the experiment have."""
    traffic, experiment = limits["traffic"], windows[0].experiment
    measured = datetime.datetime.fromisoformat(limits["measured"])
    return [
        experiment if len({record.experiment for record in records}) > 1 else "",
        f"{traffic['transport'].upper()}, {traffic['connections']:,} sockets, {_addresses(traffic['sources'])}",
        _conditions(windows, [record for record in records if record.experiment == experiment and record.counts]),
        number(limits["echo_qps"]),
        number(limits["generator_qps"]),
        f"{measured:%Y-%m-%d %H:%M} UTC" + (f"; {'; '.join(limits['disturbed'])}" if limits.get("disturbed") else ""),
    ]


def _addresses(count: int) -> str:
    return "1 source address" if count == 1 else f"{count:,} source addresses"


def _conditions(windows: Sequence[WindowRecord], records: Sequence[WindowRecord]) -> str:
    """The levels of these windows, of each factor of which other windows have others; not those of the traffic."""
    texts = []
    for name in windows[0].levels:
        if name in ("traffic.sources", "traffic.transport", "traffic.connections"):
            continue  # stand in a column of their own
        levels = dict.fromkeys(record.levels.get(name, "") for record in windows)
        if len(levels) < len({record.levels.get(name, "") for record in records}):
            texts.append(" or ".join(level_words(name, level) for level in levels))
    return "; ".join(texts)


def _sending(records: Sequence[WindowRecord]) -> Text:
    """How the generator sent queries: bursts, sorting and the source of its times change what is measured."""
    recorded = [record.detail["sending"] for record in records if record.detail.get("sending")]
    ways = dict.fromkeys(_way(sending) for sending in recorded)
    texts = [f"Queries were sent {'; or '.join(ways)}."] if ways else []
    if not ways and any("sent_qps" in record.metrics for record in records):
        texts.append("The load generator did not report how it sent queries.")
    if any("udp_answered_share" in record.metrics for record in records):
        texts.append(f"UDP was probed with a query every {UDP_PROBE_MS} ms while connections were open.")
    return Text(" ".join(texts) or "No queries were measured.", "Sending.")


def _way(sending: Mapping[str, Any]) -> str:
    burst, order, clock = sending.get("burst", 1), sending.get("order", ""), sending.get("timestamps", "")
    bursts = "without bursts of UDP segments" if burst == 1 else f"in bursts of up to {burst} UDP segments"
    return f"{bursts}, {ORDERS.get(order, order)}, with times of arrival from {CLOCKS.get(clock, clock)}"


def _settings(records: Sequence[WindowRecord]) -> list[Part]:
    """Tuned lines and receive buffers of each server, as its first window of each condition has them."""
    first: dict[tuple[str, str], Mapping[str, Any]] = {}
    for record in records:
        if found := record.detail.get("settings"):
            first.setdefault((_label(record), found["settings"]), found)
    if not first:
        return []
    # Records of earlier versions have the lines of `tuned` under `defaults`, too.
    lines = [[server, *line] for (server, kind), found in first.items() if kind == "tuned" for line in found["lines"]]
    buffers = dict.fromkeys(
        (server, kind, socket["kind"].upper(), _kib(socket["own_receive_buffer"]), _kib(socket["receive_buffer"]))
        for (server, kind), found in first.items()
        for socket in found["sockets"]
    )
    columns = ["server", "settings", "sockets", "own receive buffer, KiB", "used, KiB"]
    tables = [Table(["server", "line", "why"], lines), Table(columns, [list(row) for row in buffers])]
    return [Folded("Settings of the servers", [table for table in tables if table.rows])]


def _kib(octets: int) -> str:
    return f"{octets / 1024:,.0f}"


def _absent(absent: Mapping[str, str], records: Iterable[WindowRecord]) -> list[Part]:
    """Servers that a window should have had; the manifest also has those that nobody asked for."""
    wanted = {_label(record) for record in records}
    why = [text.splitlines()[0] for label, text in absent.items() if label in wanted]
    return [Text(f"{'; '.join(why)}.", "Not measured:")] if why else []
