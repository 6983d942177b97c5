"""Restarts: after SIGKILL a server has what it served, and a primary the history for IXFR."""

from __future__ import annotations

import os
import signal

from zonda_lab.servers.config import Access

from transfers.cell import Cell, Pair, pair
from transfers.contents import WAIT_S, contents, require_same, serial, wait_for_serial
from transfers.server import Failed, TransferServer, wait_until
from transfers.update_features import KEY, UpdateStep, send
from transfers.zone_versions import CHANGES, ZONE, ZoneText

FROM_DISK_S = 10.0


def restart_without_primary(cell: Cell) -> None:
    """After a restart the secondary serves the zone although its primary is gone."""
    version = ZoneText(1, refresh=2, retry=1)
    both = pair(cell, version)
    both.start(version)
    version = both.follow(version, CHANGES[:1])
    before = contents(both.secondary, ZONE)
    both.secondary.flush()
    both.secondary.stop()
    both.relay.close()
    both.secondary.start([])
    wait_for_serial(both.secondary, ZONE, version.serial)
    require_same(contents(both.secondary, ZONE), before, ("after the restart", "before"))


def secondary_killed(cell: Cell) -> None:
    """The secondary is killed; it serves the zone without its primary, and then follows it by IXFR."""
    version = ZoneText(1, refresh=2, retry=1)
    both = pair(cell, version)
    both.start(version)
    version = both.follow(version, CHANGES[:3])
    before = contents(both.secondary, ZONE)
    kill(both.secondary)
    both.relay.close()
    missed = version.next(CHANGES[3])
    both.publish(missed)
    both.secondary.start([])
    wait_for_serial(both.secondary, ZONE, version.serial, FROM_DISK_S)
    require_same(contents(both.secondary, ZONE), before, ("after SIGKILL", "before"))
    both.relay.forget()
    both.relay.open()
    both.require_equal(missed)
    both.require_form("incremental")


def primary_killed(cell: Cell) -> None:
    """The primary is killed after updates that the secondary has missed; the secondary gets them by IXFR afterwards."""
    version = ZoneText(1, refresh=2, retry=1)
    both = pair(cell, version, change=lambda zone: zone.changed(update=(Access(KEY),)) if zone.file else zone)
    both.start(version)
    add(both, 1)
    wait_until(lambda: serial(both.secondary, ZONE) == serial(both.primary, ZONE), "the secondary did not follow", WAIT_S)
    both.relay.close()
    add(both, 2)
    add(both, 3)
    before = contents(both.primary, ZONE)
    kill(both.primary)
    both.primary.start([])
    wait_until(lambda: serial(both.primary, ZONE) is not None, "the primary does not serve the zone", FROM_DISK_S)
    require_same(contents(both.primary, ZONE), before, ("after SIGKILL", "before"))
    add(both, 4)
    both.relay.forget()
    both.relay.open()
    current = serial(both.primary, ZONE)
    if current is None:
        raise Failed("the primary serves the zone no longer")
    wait_for_serial(both.secondary, ZONE, current)
    require_same(contents(both.secondary, ZONE), contents(both.primary, ZONE), ("the secondary", "the primary"))
    both.require_form("incremental")


def add(both: Pair, number: int) -> None:
    """Adds a record by an update, which is acknowledged."""
    send("nsupdate", both.primary, UpdateStep(f"update add killed{number}.{{z}} 60 A 192.0.2.{number}"))


def kill(server: TransferServer) -> None:
    """SIGKILL to the server and its children."""
    assert server.process is not None, "it was started"
    os.killpg(server.process.pid, signal.SIGKILL)
    server.process.wait(10)
