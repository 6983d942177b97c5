"""What a result was measured with: a resumed run must go on with the same commit and the same programs."""

from collections.abc import Mapping
from typing import Any

from zonda_lab.errors import LabError


def require_same(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Fails if the tree or a program differs from that of the manifest `before`."""
    if before.get("source") != now["source"]:
        raise LabError(
            f"the run began at commit {before.get('source')}, and this tree is {now['source']}",
            "check that commit out in its own worktree (git worktree add) and resume from there, or begin a new run",
        )
    if before["generator"] != now["generator"]:
        raise LabError(
            f"the run began with {_named(before['generator'])}, and this is {_named(now['generator'])}",
            "build the load generator of that commit, or begin a new run",
        )
    for label, server in before["servers"].items():
        if label in now["servers"] and server["sha256"] != now["servers"][label]["sha256"]:
            raise LabError(
                f"{label} is another program than when the run began ({server['version']}, {server['sha256'][:12]})",
                "install that program again, or begin a new run",
            )


def _named(program: Mapping[str, str]) -> str:
    return f"{program['name']} {program['version']}"
