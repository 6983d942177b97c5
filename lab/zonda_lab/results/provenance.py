"""Whether an interrupted run may be resumed: only with the same lab, programs, experiments and machine."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from zonda_lab.errors import LabError
from zonda_lab.results.conditions import differences, listed

NEW_RUN = "or begin a new run"
NAMES = ("server.name", "primary.name")  # factors whose levels are servers
OF_THE_TIME = ("clock",)  # what the description of a machine has that changes from run to run


def require_same(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Fails if anything that a value depends on differs from the manifest `before`; says what, and how to go on."""
    now = json.loads(json.dumps(now))  # as `before` was stored
    _require_same_source(before, now)
    _require_same_programs(before, now)
    if found := list(differences(before["experiments"], now["experiments"])):
        help_text = f"restore the experiment files as they were, {NEW_RUN}"
        raise LabError(f"the experiments differ from when the run began: {listed(found)}", help_text)
    if found := list(differences(_machines(before), _machines(now))):
        help_text = f"restore that setting, or resume on the machine where the run began, {NEW_RUN}"
        raise LabError(f"the machine differs from when the run began: {listed(found)}", help_text)


def _require_same_source(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    if before.get("source") != now["source"]:
        raise LabError(
            f"the run began at commit {before.get('source')}, and this tree is {now['source']}",
            f"check that commit out in its own worktree (git worktree add) and resume from there, {NEW_RUN}",
        )
    if before.get("source_sha256") != now["source_sha256"]:
        raise LabError(
            f"the files of the lab differ from when the run began, both times at commit {now['source']}",
            f"undo the changes since then, {NEW_RUN}, best from a clean commit",
        )


def _require_same_programs(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    if before["generator"] != now["generator"]:
        old, new = (_program(manifest["generator"]) for manifest in (before, now))
        help_text = f"build the load generator of that commit, {NEW_RUN}"
        raise LabError(f"the run began with {old}, and this is {new}", help_text)
    measured = set(_labels(before["experiments"]))
    for label in dict.fromkeys([*before["servers"], *now["servers"]]):
        old, new = (manifest["servers"].get(label) for manifest in (before, now))
        if old is None and label in measured:
            raise LabError(f"{label} was not installed when the run began", f"remove it, {NEW_RUN}")
        if new is None and label in measured:
            raise LabError(f"{label} is no longer installed", f"install that program again, {NEW_RUN}")
        if old and new and old["sha256"] != new["sha256"]:
            raise LabError(
                f"{label} is another program than when the run began ({old['version']}, {old['sha256'][:12]})",
                f"install that program again, {NEW_RUN}",
            )


def _labels(experiments: Mapping[str, Any]) -> Iterator[str]:
    """The servers and primaries of experiments, and those that show the limits of the rig."""
    yield from ("echo", "sink")
    for described in experiments.values():
        levels = described.get("levels", {})
        yield from (label for factor in NAMES for label in levels.get(factor, ()))
        factors = {**described.get("factors", {}), **described.get("within", {})}
        tables = [table for each in factors.values() if isinstance(each, Mapping) for table in each.values()]
        for table in (described.get("settings", {}), *tables):
            yield from (table[part]["name"] for part in ("server", "primary") if "name" in table.get(part, {}))


def _program(generator: Mapping[str, Any]) -> str:
    digest = generator["sha256"][:12] if "sha256" in generator else "digest not recorded"
    return f"{generator['name']} {generator['version']} ({digest})"


def _machines(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The machines of a manifest, without what changes from run to run."""
    machines = {"machine": manifest["machine"], **manifest.get("machines", {})}
    return {
        name: {key: value for key, value in machine.items() if key not in OF_THE_TIME}
        for name, machine in machines.items()
    }
