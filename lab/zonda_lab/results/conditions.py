"""The conditions of a result: what must be equal for its values to be compared with those of another one."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zonda_lab.experiments.definition import Settings

LONGEST, MOST = 60, 4  # characters of a value, and differences, in a message


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


def digest(manifest: Mapping[str, Any], described: Mapping[str, Any]) -> str:
    """A digest of the conditions: only recordings with the same are one series."""
    return hashlib.sha256(json.dumps(conditions(manifest, described), sort_keys=True).encode()).hexdigest()


def differences(before: Any, now: Any, path: str = "") -> Iterator[str]:
    """How two JSON values differ, as in `settings.timing.seconds: 10.0, then 5.0`."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*before, *now]):
            yield from differences(before.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif before != now:
        yield f"{path}: {_shown(before)}, then {_shown(now)}"


def listed(found: Sequence[str]) -> str:
    """The first differences, and how many more there are."""
    return "; ".join(found[:MOST]) + (f"; and {len(found) - MOST} more" if len(found) > MOST else "")


def _shown(value: Any) -> str:
    text = "not set" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
