"""The inventory file: machines, how to reach them, and where their programs are."""

import dataclasses
import ipaddress
import tomllib
from dataclasses import dataclass
from pathlib import Path

from zonda_lab.errors import LabError
from zonda_lab.schema import doc, parse

UPLOAD = "upload"


@dataclass(frozen=True)
class HostSpec:
    """`[server]`, `[primary]`, `[[player]]`: one machine."""

    ssh: str = doc("SSH destination: [user@]host[:port], or a name in ~/.ssh/config")
    address: str = doc("its IPv4 address in the measured network")
    name: str = doc("its name in messages; empty: role and number", "")
    identity: str = doc("private key file; empty: keys of the SSH agent and default files", "")
    known_hosts: str = doc("file with its host key; empty: ~/.ssh/known_hosts", "")
    python: str = doc("its Python, 3.10 or newer; only the standard library is used", "python3")
    cpus: list[int] | None = doc(
        "CPUs for programs there; default: those of the experiment on the server, all elsewhere", None
    )
    sources: str = doc("prefix of additional source addresses of a player; must be routed to it; empty: none", "")
    more_addresses: list[str] = doc("additional addresses of a primary", [])
    programs: dict[str, str] = doc("like `[programs]`, for this machine only", {})


@dataclass(frozen=True)
class Inventory:
    """A whole inventory file."""

    server: HostSpec = doc("the machine of the server under test")
    player: list[HostSpec] = doc("the machines that share the load")
    primary: HostSpec | None = doc("the machine of the primary; default: the first player", None)
    work: str = doc("folder of the lab, at the same path on all machines and here", "/var/tmp/zonda-lab")
    programs: dict[str, str] = doc(
        'path of a program, or "upload" to copy the local one into `work`; default: found on PATH', {}
    )

    @property
    def hosts(self) -> list[HostSpec]:
        """All machines, the server's first."""
        return [self.server, *self.player, *([self.primary] if self.primary else [])]


def read(path: Path) -> Inventory:
    """Reads an inventory; fills in host names and absolute paths."""
    try:
        found = parse(Inventory, tomllib.loads(path.read_text()), path.name)
    except FileNotFoundError:
        raise LabError(f"{path}: no such inventory") from None
    except tomllib.TOMLDecodeError as error:
        raise LabError(f"{path}: {error}", "see `zonda-lab keys --inventory` for its form") from None
    found = _named(found, path.resolve().parent)
    _check(found, path.name)
    return found


def _named(inventory: Inventory, folder: Path) -> Inventory:
    def whole(file: str) -> str:
        return str(folder / Path(file).expanduser()) if file else ""

    def with_name(spec: HostSpec, name: str) -> HostSpec:
        identity, known_hosts = whole(spec.identity), whole(spec.known_hosts)
        named, programs = spec.name or name, {**inventory.programs, **spec.programs}
        return dataclasses.replace(spec, name=named, identity=identity, known_hosts=known_hosts, programs=programs)

    server = with_name(inventory.server, "server")
    primary = with_name(inventory.primary, "primary") if inventory.primary else None
    players = [with_name(spec, f"player{i}") for i, spec in enumerate(inventory.player, 1)]
    return dataclasses.replace(inventory, server=server, player=players, primary=primary)


def _check(inventory: Inventory, where: str) -> None:
    if not inventory.player:
        raise LabError(f"{where}: `player` is empty", "at least one [[player]] is needed")
    if not Path(inventory.work).is_absolute():
        raise LabError(f"{where}: work is {inventory.work!r}", "it must be an absolute path")
    names: set[str] = set()
    for spec in inventory.hosts:
        if spec.name in names:
            raise LabError(f"{where}: two machines are called {spec.name}")
        names.add(spec.name)
        for key, value in (("address", spec.address), *(("more-addresses", each) for each in spec.more_addresses)):
            _parsed(ipaddress.IPv4Address, value, f"{where}: {spec.name}: {key}", "an IPv4 address, as in 10.0.0.2")
        for key, file in (("identity", spec.identity), ("known-hosts", spec.known_hosts)):
            if file and not Path(file).is_file():
                raise LabError(f"{where}: {spec.name}: {key}: no file {file}")
        if spec.sources:
            _parsed(ipaddress.IPv4Network, spec.sources, f"{where}: {spec.name}: sources", "as in 10.64.0.0/14")


def _parsed(kind: type, text: str, where: str, expected: str) -> None:
    try:
        kind(text)
    except ValueError:
        raise LabError(f"{where} is {text!r}", f"it must be {expected}") from None
