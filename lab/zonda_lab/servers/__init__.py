"""Server adapters, all configured from the common `ServerConfig`."""

from zonda_lab.servers.adapter import Adapter, Feature, InstalledServer
from zonda_lab.servers.bind import Bind
from zonda_lab.servers.knot import Knot
from zonda_lab.servers.nsd import Nsd
from zonda_lab.servers.pdns import Pdns
from zonda_lab.servers.reflector import Echo, Null
from zonda_lab.servers.yadifa import Yadifa
from zonda_lab.servers.zonda import Zonda

ADAPTERS: dict[str, Adapter] = {
    adapter.name: adapter for adapter in (Zonda(), Nsd(), Knot(), Bind(), Yadifa(), Pdns(), Echo(), Null())
}

__all__ = ["ADAPTERS", "Adapter", "Feature", "InstalledServer"]
