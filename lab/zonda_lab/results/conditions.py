"""The conditions of a result: what must be equal for its values to be compared with those of another one."""

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from zonda_lab.experiments.definition import Settings

LONGEST, MOST = 60, 4  # characters of a value, and differences, in a message
OF_THE_LAB = ("clock", "python", "root")  # what the description of a machine has that changes no value
OWN = ("zonda", "echo", "sink", "null-primary")  # kinds of servers that are built from the tree: what a series follows


def conditions(manifest: Mapping[str, Any], described: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, machine and generator of one experiment of a manifest. The number of blocks may differ.

    A setting that is newer than the manifest had its default.
    """
    defaults, given = dataclasses.asdict(Settings()), described["settings"]
    settings = {name: {**default, **given.get(name, {})} for name, default in defaults.items()}
    del settings["timing"]["blocks"]
    return {
        "settings": settings,
        "machine": {key: manifest["machine"][key] for key in ("cpu", "cpus")},
        "generator": manifest["generator"]["name"],
    }


def circumstances(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Kernel and build of the load generator: with others, results can be compared, but may differ because of them."""
    generator = {key: manifest["generator"].get(key) for key in ("version", "sha256")}
    return {"kernel": manifest["machine"].get("kernel"), "generator": generator}


def machine_and_peers(manifest: Mapping[str, Any], labels: Collection[str]) -> dict[str, Any]:
    """The machines of a manifest, and the versions of those of these servers that are not built from the tree."""
    machines = {"machine": manifest["machine"], **manifest.get("machines", {})}
    kept = {
        name: {key: value for key, value in machine.items() if key not in OF_THE_LAB}
        for name, machine in machines.items()
    }
    peers = {label: each for label, each in manifest["servers"].items() if label in labels}
    versions = {label: each["version"] for label, each in peers.items() if each.get("kind", label) not in OWN}
    return {**kept, "servers": versions}


def digest(manifest: Mapping[str, Any], described: Mapping[str, Any]) -> str:
    """A digest of the conditions: only recordings with the same are one series."""
    return hashlib.sha256(json.dumps(conditions(manifest, described), sort_keys=True).encode()).hexdigest()


def differences(before: Any, now: Any, path: str = "", in_both: bool = False) -> Iterator[str]:
    """How two JSON values differ, as in `settings.timing.seconds: 10.0, then 5.0`; or only what is set `in_both`."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*before, *now]):
            yield from differences(before.get(key), now.get(key), f"{path}.{key}" if path else key, in_both)
    elif before != now and not (in_both and (before is None or now is None)):
        yield f"{path}: {_shown(before)}, then {_shown(now)}"


def listed(found: Sequence[str]) -> str:
    """The first differences, and how many more there are."""
    return "; ".join(found[:MOST]) + (f"; and {len(found) - MOST} more" if len(found) > MOST else "")


def _shown(value: Any) -> str:
    text = "not set" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
