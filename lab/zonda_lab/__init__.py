"""Reruns published DNS experiments against any authoritative server, interleaved and with statistics.

The way of a run: `experiments` (TOML, randomised blocks) -> `run` -> `procedures` (one start of one of the `servers`,
in a `rig`, under `load`, watched by `telemetry`, checked by `measurement`) -> `results` -> `analysis` -> `report`.
"""

__version__ = "0.1.0"
