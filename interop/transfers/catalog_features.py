"""Catalog zones (RFC 9432): members appear, change and disappear on the consumer."""

from __future__ import annotations

from zonda_lab.servers.config import Remote, Zone, ZonePolicy

from servers import reserve_port
from transfers.cell import Cell, config_of, remote
from transfers.contents import REFUSED, WAIT_S, contents, rcode, require_same, wait_for_serial
from transfers.relay import Relay
from transfers.server import TransferServer, wait_until, write_file
from transfers.zone_versions import CHANGES, ZoneText

CATALOG = "catalog.example."
MEMBERS = ("one.member.example.", "two.member.example.", "three.member.example.")
GROUP = "customers"


def catalog_text(serial: int, members: dict[str, str]) -> str:
    """A catalog with these members and their groups, written by hand."""
    lines = [f"$ORIGIN {CATALOG}", "$TTL 0", f"@ SOA invalid. invalid. {serial} 2 1 86400 0", "@ NS invalid.", 'version TXT "2"']
    for name, group in members.items():
        label = name.split(".", maxsplit=1)[0]
        lines.append(f"{label}.zones PTR {name}")
        lines += [f'group.{label}.zones TXT "{group}"'] if group else []
    return "\n".join(lines) + "\n"


def consumer(cell: Cell, port: int, relays: list[Relay]) -> TransferServer:
    """A secondary of the catalog and its members; those of the group use the second relay."""
    remotes = [(remote(relay.port),) for relay in relays]
    groups = {"": remotes[0]} | ({GROUP: remotes[1]} if len(remotes) > 1 else {})
    zone = Zone(CATALOG, policy=ZonePolicy(remotes[0], catalog="consume", groups=groups))
    return cell.server(cell.secondary, "secondary", config_of([zone], port))


def producer(cell: Cell, port: int, zones: list[Zone]) -> TransferServer:
    return cell.server(cell.primary, "primary", config_of(zones, port))


def member(cell: Cell, name: str, notify: Remote, catalog: str = "") -> Zone:
    """A member zone at the primary, and its file."""
    file = cell.folder / "primary" / f"{name}zone"
    write_file(file, ZoneText(1, refresh=2, retry=1, name=name).text())
    return Zone(name, file, ZonePolicy(notify=(notify,), member_of=catalog))


def catalog_consumed(cell: Cell) -> None:
    """A catalog written by hand: members are added, changed and removed."""
    ports = reserve_port(), reserve_port()
    zones = [member(cell, name, remote(ports[1])) for name in MEMBERS]
    file = cell.folder / "primary" / "catalog"
    write_file(file, catalog_text(1, dict.fromkeys(MEMBERS[:2], "")))
    primary = producer(cell, ports[0], [Zone(CATALOG, file, ZonePolicy(notify=(remote(ports[1]),))), *zones])
    secondary = consumer(cell, ports[1], [cell.relay(ports[0])])
    primary.start()
    secondary.start([])
    require_members(primary, secondary, MEMBERS[:2])
    primary.publish(CATALOG, catalog_text(2, dict.fromkeys(MEMBERS, "")))
    require_members(primary, secondary, MEMBERS)
    primary.publish(CATALOG, catalog_text(3, dict.fromkeys(MEMBERS[1:], "")))
    require_gone(secondary, MEMBERS[0])
    changed = ZoneText(1, refresh=2, retry=1, name=MEMBERS[1]).next(CHANGES[0])
    primary.publish(MEMBERS[1], changed.text())
    wait_for_serial(secondary, MEMBERS[1], changed.serial)
    require_members(primary, secondary, MEMBERS[1:])


def catalog_groups(cell: Cell) -> None:
    """The member of a group is transferred as the template of the group says: through the second relay."""
    ports = reserve_port(), reserve_port()
    zones = [member(cell, name, remote(ports[1])) for name in MEMBERS[:2]]
    file = cell.folder / "primary" / "catalog"
    write_file(file, catalog_text(1, {MEMBERS[0]: "", MEMBERS[1]: GROUP}))
    primary = producer(cell, ports[0], [Zone(CATALOG, file, ZonePolicy(notify=(remote(ports[1]),))), *zones])
    relays = [cell.relay(ports[0]), cell.relay(ports[0])]
    secondary = consumer(cell, ports[1], relays)
    primary.start()
    secondary.start([])
    require_members(primary, secondary, MEMBERS[:2])
    for name, relay in zip(MEMBERS[:2], relays):
        wait_until(lambda n=name, r=relay: bool(r.transfers(n)), f"{name} was not transferred as its group says", 1)


def catalog_produced(cell: Cell) -> None:
    """The primary writes the catalog: zones are added to its configuration and removed from it."""
    ports = reserve_port(), reserve_port()
    catalog = Zone(CATALOG, policy=ZonePolicy(notify=(remote(ports[1]),), catalog="produce"))
    zones = [member(cell, name, remote(ports[1]), CATALOG) for name in MEMBERS]
    primary = producer(cell, ports[0], [catalog, *zones[:2]])
    secondary = consumer(cell, ports[1], [cell.relay(ports[0])])
    primary.start([])
    for name in MEMBERS[:2]:
        primary.add_member(name)
    secondary.start([])
    require_members(primary, secondary, MEMBERS[:2])
    primary.reconfigure(catalog, *zones)
    primary.add_member(MEMBERS[2])
    require_members(primary, secondary, MEMBERS)
    primary.remove_member(MEMBERS[0])
    primary.reconfigure(catalog, *zones[1:])
    require_gone(secondary, MEMBERS[0])
    require_members(primary, secondary, MEMBERS[1:])


def require_members(primary: TransferServer, secondary: TransferServer, names: tuple[str, ...]) -> None:
    """The secondary must serve these members with the records of the primary."""
    for name in names:
        wait_until(lambda n=name: rcode(secondary, n) == 0, f"the member {name} is not served", WAIT_S)
        require_same(contents(secondary, name), contents(primary, name), ("the secondary", "the primary"))


def require_gone(secondary: TransferServer, name: str) -> None:
    wait_until(lambda: rcode(secondary, name) == REFUSED, f"the removed member {name} is still served", WAIT_S)
