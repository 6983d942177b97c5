"""Reruns published DNS experiments against any authoritative server, interleaved and with statistics.

The way of a run: `experiment` (TOML) -> `plan` (randomised blocks) -> `procedures` (one start of one server, in a
`rig`, under `load`, watched by `telemetry`, gated by `validity`) -> `record` -> `analysis` -> `report` or `compare`.
"""

__version__ = "0.1.0"
