"""Checks of the required setup of a machine; error messages show the command that fixes it."""

import ipaddress
from collections.abc import Mapping, Sequence

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.experiments.definition import RigSpec
from zonda_lab.fleet.remote_host import RemoteHost


def address(machine: RemoteHost) -> None:
    """Checks that the machine has the addresses in the inventory."""
    for wanted in (machine.spec.address, *machine.spec.more_addresses):
        if not machine.run("ip", "-oneline", "address", "show", "to", wanted).strip():
            raise LabError(
                f"{machine.name}: {machine.spec.ssh} has no address {wanted}",
                f"correct the inventory, or there: ip address add {wanted}/24 dev INTERFACE",
            )


def rig(server: RemoteHost, players: Sequence[RemoteHost], spec: RigSpec) -> None:
    """Checks that the machines already have the settings that an experiment needs."""
    for asked, what in (
        (spec.queues > 1, "receive queues"),
        (bool(spec.rps_cpus), "RPS"),
        (bool(spec.qdisc), "a queueing discipline"),
        (spec.delay_ms > 0, "a delay"),
    ):
        if asked:
            raise UnsupportedError(f"{what} is set in namespaces only", "run this without an inventory")
    _settings(server, spec.sysctl)
    for player in players:
        _settings(player, spec.client_sysctl)


def sources(server: RemoteHost, player: RemoteHost) -> None:
    """Checks that a player may send from its prefix, and that the server routes that prefix to it."""
    if not player.spec.sources:
        return
    some = str(next(ipaddress.ip_network(player.spec.sources).hosts()))
    if not player.printed(["ip", "route", "get", some]).startswith("local"):
        raise LabError(
            f"{player.name}: it cannot send from {player.spec.sources}",
            f"there: ip route add local {player.spec.sources} dev lo",
        )
    if f"via {player.spec.address} " not in server.printed(["ip", "route", "get", some]):
        raise LabError(
            f"{server.name}: it does not send to {player.spec.sources} by way of {player.name}",
            f"there: ip route add {player.spec.sources} via {player.spec.address}",
        )


def _settings(machine: RemoteHost, wanted: Mapping[str, str | int]) -> None:
    for key, value in wanted.items():
        found = machine.read_sysctl(key).split()
        if found != str(value).split():
            raise UnsupportedError(
                f"{machine.name} has {key} = {' '.join(found)}, {value} is asked for",
                f"there: sysctl -w {key}='{value}'; the lab changes nothing on real machines",
            )
