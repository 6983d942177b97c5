"""Several machines, named in an inventory and reached over SSH by fabric: the network of `host.py` in earnest."""

from __future__ import annotations

from zonda_lab.fleet.inventory import HostSpec, Inventory, read

__all__ = ["HostSpec", "Inventory", "read"]
