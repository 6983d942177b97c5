"""The 45 downloads of .gov of the summer of 2026, replayed as changes: 44 are zones, one is an error message."""

from __future__ import annotations

import re
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, lru_cache

import dns.name
import dns.tokenizer
import dns.zonefile

from dns_numbers import IN
from message import Record
from names import to_wire
from scenes import MissingInput, data_file
from transfers.cell import Cell, Pair, pair
from transfers.contents import contents, require_same, serial, wait_for_serial
from transfers.server import Failed, Skipped, write_file
from transfers.zone_versions import ZoneText
from zone_data import RecordCollector, canonical

ZONE, ARCHIVE = "gov.", "gov/gov-series-2026.tar.xz"
DOWNLOADS, ZONES = 45, 44
GOV_WAIT_S = 60.0
RELOADED_AFTER_S = 3.0  # when a server must have read, and refused, a broken file


def gov_series(cell: Cell) -> None:
    """After each download, both sides must have its records; after the broken one, those of the one before it."""
    try:
        texts = downloads()
    except MissingInput as missing:
        raise Skipped(str(missing)) from missing
    both, served, zones = start(cell, texts[0]), texts[0], 1
    for text in texts[1:]:
        if serial_in(text) is None:
            # NSD stops serving a zone whose file is broken; its operators check files first (nsd-checkzone).
            if both.primary.build.name != "nsd":
                publish_broken(both, text)
        else:
            both.primary.publish(ZONE, text)
            served, zones = text, zones + 1
        require_served(both, served)
    if zones != ZONES:
        raise Failed(f"{zones} of the {len(texts)} downloads are zones, expected {ZONES}")
    # A primary that reloads may close connections; the secondary then asks again.
    forms = Counter(exchange.form for exchange in both.relay.transfers(ZONE) if exchange.form != "unanswered")
    changes = len({found for text in texts if (found := serial_in(text)) is not None}) - 1
    if set(forms) != {"incremental"} or forms["incremental"] < changes:
        raise Failed(f"{changes} changes were transferred as: {dict(forms)}")


def start(cell: Cell, text: str) -> Pair:
    """Both sides with the first download."""
    both = pair(cell, ZoneText(1, name=ZONE))
    write_file(both.primary.zone_file(ZONE), text)
    both.primary.start()
    both.secondary.start([])
    require_served(both, text)
    both.relay.forget()
    return both


def publish_broken(both: Pair, text: str) -> None:
    """Publishes an error message as zone file; the primary may report the mistake."""
    both.primary.command_timeout_s = 0
    with suppress(Failed):
        both.primary.publish(ZONE, text)
    time.sleep(RELOADED_AFTER_S)
    both.primary.command_timeout_s = type(both.primary).command_timeout_s


def require_served(both: Pair, text: str) -> None:
    """Both sides must serve the records of this download."""
    expected = serial_in(text)
    assert expected is not None, "the caller chose a zone"
    wait_for_serial(both.primary, ZONE, expected, GOV_WAIT_S)
    wait_for_serial(both.secondary, ZONE, expected, GOV_WAIT_S)
    at_primary = contents(both.primary, ZONE)
    require_same(at_primary, records_of(text), ("the primary", "the download"))
    require_same(contents(both.secondary, ZONE), at_primary, ("the secondary", "the primary"))
    if serial(both.primary, ZONE) != expected:
        raise Failed("the primary changed its serial")


@cache
def downloads() -> list[str]:
    """The files of the series in order; raises `MissingInput`."""
    with tarfile.open(data_file(ARCHIVE)) as tar:
        members = sorted((m for m in tar.getmembers() if m.name.endswith(".zone")), key=lambda m: m.name)
        files = [tar.extractfile(member) for member in members]
        texts = [file.read().decode() for file in files if file is not None]
    if len(texts) != DOWNLOADS:
        raise MissingInput(f"{ARCHIVE} has {len(texts)} downloads instead of {DOWNLOADS}")
    return texts


def serial_in(text: str) -> int | None:
    """The serial of a download, None if it is not a zone."""
    found = re.search(r"^gov\.\s.*\sSOA\s+\S+\s+\S+\s+(\d+)\s", text, re.MULTILINE)
    return int(found[1]) if found else None


def records_of(text: str) -> frozenset[Record]:
    """The records of a download, read by dnspython. Most lines are those of the download before, and cached."""
    return frozenset(record for line in text.splitlines() if (record := record_of(line)) is not None)


@lru_cache(maxsize=1 << 17)
def record_of(line: str) -> Record | None:
    return next(iter(parsed(line)), None)


def parsed(line: str) -> Iterator[Record]:
    """The record of one line, which has an absolute owner."""
    collector = RecordCollector(dns.name.from_text(ZONE))
    dns.zonefile.Reader(dns.tokenizer.Tokenizer(line + "\n"), IN, collector).read()
    for name, ttl, rdata in collector.records:
        rtype = int(rdata.rdtype)
        yield Record(to_wire(name).lower(), rtype, IN, ttl, canonical(rtype, rdata.to_wire() or b""))
