"""Measurements on several machines, described in an inventory and reached over SSH (execnet)."""

from zonda_lab.fleet.inventory import HostSpec, Inventory, read

__all__ = ["HostSpec", "Inventory", "read"]
