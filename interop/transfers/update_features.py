"""Dynamic updates (RFC 2136) with nsupdate and knsupdate, to a primary and forwarded by a secondary."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace

from zonda_lab.servers.config import Access, TlsRemote, Tsig, Zone
from zonda_lab.servers.credentials import tsig_key

from dns_numbers import SOA
from message import Record
from names import wire_name
from servers import HOST
from transfers.cell import Cell, Pair, pair
from transfers.contents import WAIT_S, contents, expected_contents, require_same, serial, wait_for_serial
from transfers.server import Failed, Skipped, TransferServer, wait_until, write_file
from transfers.tls_features import CLIENT_NAME, INSPECTION, SERVER_NAME, certificates
from transfers.zone_versions import ZONE, ZoneText

KEY = tsig_key("update.example.")


@dataclass(frozen=True)
class UpdateStep:
    """One UPDATE message: its commands, the acceptable RCODEs, and its change of the zone."""

    commands: str
    rcodes: str = "NOERROR"
    change: Callable[[ZoneText], None] = lambda _: None


def add_host(v: ZoneText) -> None:
    v.records["dyn", "A"] = ["192.0.2.100", "192.0.2.101"]
    v.records["dyn", "TXT"] = ['"one"']


def remove_one_record(v: ZoneText) -> None:
    v.records["dyn", "A"] = ["192.0.2.101"]


def remove_rrset(v: ZoneText) -> None:
    del v.records["dyn", "TXT"]


def remove_name(v: ZoneText) -> None:
    del v.records["dyn", "A"]


def add_after_prerequisite(v: ZoneText) -> None:
    v.records["web", "A"].append("192.0.2.81")


def replace_alias(v: ZoneText) -> None:
    v.records["www", "CNAME"] = ["other"]


def add_ns(v: ZoneText) -> None:
    v.records["@", "NS"].append("ns4.other.example.")


def drop_other_apex_records(v: ZoneText) -> None:
    for key in [key for key in v.records if key[0] == "@" and key[1] != "NS"]:
        del v.records[key]


STEPS = [
    UpdateStep("update add dyn.{z} 3600 A 192.0.2.100\nupdate add dyn.{z} 3600 A 192.0.2.101\nupdate add dyn.{z} 3600 TXT one", change=add_host),
    UpdateStep("update delete dyn.{z} A 192.0.2.100", change=remove_one_record),
    UpdateStep("prereq nxdomain dyn.{z}\nupdate add dyn.{z} 3600 A 192.0.2.1", "YXDOMAIN"),
    UpdateStep("prereq yxdomain nobody.{z}\nupdate add dyn.{z} 3600 A 192.0.2.1", "NXDOMAIN"),
    UpdateStep("prereq nxrrset dyn.{z} A\nupdate add dyn.{z} 3600 A 192.0.2.1", "YXRRSET"),
    UpdateStep("prereq yxrrset dyn.{z} AAAA\nupdate add dyn.{z} 3600 A 192.0.2.1", "NXRRSET"),
    UpdateStep("prereq yxrrset dyn.{z} A 192.0.2.9\nupdate add dyn.{z} 3600 A 192.0.2.1", "NXRRSET"),
    UpdateStep("prereq yxrrset web.{z} A 192.0.2.80\nupdate add web.{z} 3600 A 192.0.2.81", change=add_after_prerequisite),
    UpdateStep("update add dyn.other.example. 3600 A 192.0.2.1", "NOTZONE"),
    UpdateStep("update delete dyn.{z} TXT", change=remove_rrset),
    UpdateStep("update delete dyn.{z}", change=remove_name),
    # RFC 2136 3.4.2.2: a CNAME beside other data is ignored, and a CNAME replaces a CNAME.
    UpdateStep("update add web.{z} 3600 CNAME other.{z}"),
    UpdateStep("update add www.{z} 3600 CNAME other.{z}", change=replace_alias),
    UpdateStep("update add {z} 3600 NS ns4.other.example.", change=add_ns),
    # RFC 2136 3.4.2.3: the SOA and the NS records of the apex stay.
    UpdateStep("update delete {z}", change=drop_other_apex_records),
]


def update(program: str) -> Callable[[Cell], None]:
    """The test with one of the two clients."""

    def test(cell: Cell) -> None:
        """Each step is sent to the primary; the secondary must follow, and both must have what RFC 2136 says."""
        version = ZoneText(1)
        both = pair(cell, version, change=lambda zone: zone.changed(update=(Access(KEY),)) if zone.file else zone)
        both.start(version)
        for step in STEPS:
            send(program, both.primary, step)
            step.change(version)
            require_updated(both, version)
        refuse_unsigned(program, both)

    return test


def update_forwarded(cell: Cell) -> None:
    """Each step is sent to the secondary, which forwards it (RFC 2136 6)."""
    version = ZoneText(1)
    both = pair(cell, version, KEY, change=with_forwarding)
    both.start(version)
    for step in STEPS:
        # BIND answers SERVFAIL for some errors of the primary.
        rcodes = step.rcodes if step.rcodes == "NOERROR" else f"{step.rcodes} SERVFAIL"
        send("nsupdate", both.secondary, replace(step, rcodes=rcodes))
        step.change(version)
        require_updated(both, version)


def update_forwarded_over_tls(cell: Cell) -> None:
    """A secondary that transfers over TLS forwards updates over TLS, too; nothing passes the relay in clear text."""
    files, version = certificates(cell), ZoneText(1)
    access, own, client = (Access(KEY, tls=True), Access(INSPECTION)), files[SERVER_NAME], files[CLIENT_NAME]
    remote = TlsRemote(SERVER_NAME)
    both = pair(cell, version, KEY, tls=own, client_tls=client, tls_remote=remote, access=access, inspection=INSPECTION, change=with_forwarding)
    both.start(version)
    for step in STEPS[:2]:
        send("nsupdate", both.secondary, step)
        step.change(version)
        require_updated(both, version)
    if found := both.relay.transfers(ZONE):
        raise Failed(f"{len(found)} transfers passed the relay in clear text")


def with_forwarding(zone: Zone) -> Zone:
    return zone.changed(update=(Access(KEY),), forward_updates=bool(zone.policy.primaries))


def send(program: str, server: TransferServer, step: UpdateStep, key: Tsig | None = KEY) -> None:
    """Sends one UPDATE message and checks its RCODE."""
    if shutil.which(program) is None:
        raise Skipped(f"{program} is not on PATH")
    script = f"server {HOST} {server.address[1]}\nzone {ZONE}\n{step.commands.format(z=ZONE)}\nsend\nanswer\n"
    arguments = [program, "-t", "10"] + (["-y", f"{key.algorithm}:{key.name}:{key.secret}"] if key else [])
    done = subprocess.run(arguments, input=script, capture_output=True, text=True, timeout=60, check=False)
    output = done.stdout + done.stderr
    if (done.returncode == 0) != (step.rcodes == "NOERROR") or not any(rcode in output for rcode in step.rcodes.split()):
        shown = " ".join(output.split())[-300:]
        raise Failed(f"{program}, {step.commands.format(z=ZONE)!r}: expected {step.rcodes}, exit status {done.returncode}: {shown}")


def require_updated(both: Pair, version: ZoneText) -> None:
    """Both servers must have the records of the version; the serial is the primary's choice."""
    file = both.primary.folder / "expected"
    write_file(file, version.text())
    expected = without_soa(expected_contents(file, ZONE))
    wait_until(lambda: without_soa(contents(both.primary, ZONE, both.key)) == expected, lambda: difference(both, expected), WAIT_S)
    current = serial(both.primary, ZONE)
    assert current is not None, "the primary answered before"
    wait_for_serial(both.secondary, ZONE, current)
    require_same(contents(both.secondary, ZONE, both.key), contents(both.primary, ZONE, both.key), ("the secondary", "the primary"))


def difference(both: Pair, expected: frozenset[Record]) -> str:
    """How the contents of the primary differ from what RFC 2136 says."""
    try:
        require_same(without_soa(contents(both.primary, ZONE, both.key)), expected, ("the primary", "RFC 2136"))
    except Failed as failed:
        return str(failed)
    return "the primary had other records for a while"


def without_soa(records: frozenset[Record]) -> frozenset[Record]:
    return frozenset(record for record in records if not (record.rtype == SOA and record.owner == wire_name(ZONE)))


def refuse_unsigned(program: str, both: Pair) -> None:
    """An update without the key must be refused and change nothing."""
    before = contents(both.primary, ZONE, both.key)
    send(program, both.primary, UpdateStep("update add unsigned.{z} 3600 A 192.0.2.1", "REFUSED NOTAUTH"), key=None)
    require_same(contents(both.primary, ZONE, both.key), before, ("after an unsigned update", "before"))
