"""Server adapters, all configured from the common `ServerConfig`; other packages add theirs by an entry point."""

from importlib.metadata import EntryPoint, entry_points

from zonda_lab.servers.adapter import Adapter, Feature, InstalledServer, UnusableAdapter
from zonda_lab.servers.bind import Bind
from zonda_lab.servers.generator_servers import Echo, NullPrimary, Sink
from zonda_lab.servers.knot import Knot
from zonda_lab.servers.nsd import Nsd
from zonda_lab.servers.pdns import Pdns
from zonda_lab.servers.yadifa import Yadifa
from zonda_lab.servers.zonda import Zonda

GROUP = "zonda_lab.servers"  # of the entry points: name of the server = class of its adapter


def find_adapters() -> dict[str, Adapter]:
    """The adapters of the lab and of other packages, by name."""
    adapters = (Zonda(), Nsd(), Knot(), Bind(), Yadifa(), Pdns(), Echo(), Sink(), NullPrimary())
    own: dict[str, Adapter] = {adapter.name: adapter for adapter in adapters}
    return own | {entry.name: _loaded(entry) for entry in entry_points(group=GROUP) if entry.name not in own}


def _loaded(entry: EntryPoint) -> Adapter:
    try:
        adapter = entry.load()()
    except Exception as error:
        return UnusableAdapter(entry.name, f"{entry.value}: {error}")
    if not isinstance(adapter, Adapter) or adapter.name != entry.name:
        return UnusableAdapter(entry.name, f"{entry.value} is not an Adapter with the name {entry.name}")
    return adapter


ADAPTERS = find_adapters()

__all__ = ["ADAPTERS", "Adapter", "Feature", "InstalledServer", "find_adapters"]
