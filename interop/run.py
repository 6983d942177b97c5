#!/usr/bin/env python3
"""Compares Zonda with NSD, Knot and BIND, answer by answer, and fails on any difference that no RFC explains.

Starts each server on 127.0.0.1 with the same zones, asks all the same questions over UDP and TCP, transfers the zones, and
prints every class of difference with who is right. Exit status: 0 all explained, 1 not, 2 the comparison could not be made.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

try:
    import decisions
    import report
    from campaign import Campaign, Tally
    from proofs import CAN_VERIFY
    from servers import SERVERS, Missing, Server
    from suites import REFUSED, SCENES, Scene, scenes
except ModuleNotFoundError as missing:
    sys.exit(f"{missing}: install what interop/requirements.txt names (pip install -r interop/requirements.txt)")

SUBJECT = "zonda"


def main() -> int:
    # The servers end with this program, however it ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    options = arguments()
    kinds, versions = found(options.servers.split(","))
    if not kinds:
        return 2
    if len(kinds) == 1:
        print("no server to compare with: only the rules that hold for each answer by itself are checked")
    if not CAN_VERIFY:
        print("the Python package cryptography is not there: signatures are looked for, not verified")
    subject, tally = SUBJECT if SUBJECT in versions else None, Tally()
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        names = [options.hold] if options.hold else ["oddities", "random"] if options.quick else list(filter(None, options.scenes.split(",")))
        for scene in scenes(names, Path(folder), options.quick, options.seed, lambda name, why: print(f"skipped {name}: {why}")):
            with ExitStack() as stack:
                servers = started(scene, kinds, Path(folder) / scene.name, stack)
                if options.hold:
                    return hold(servers)
                Campaign(servers, scene, scene.load(), subject, tally).run()
        found_decisions = decide(options, subject, Path(folder))
    print(report.text(tally, subject))
    print("\n" + found_decisions.report())
    if options.json:
        options.json.write_text(json.dumps(report.as_json(tally, versions), indent=1) + "\n")
    return 0 if is_clean(tally, subject) and not found_decisions.unexplained else 1


def decide(options: argparse.Namespace, subject: str | None, folder: Path) -> decisions.Decisions:
    """Compares which zones with mistakes are loaded."""
    count = decisions.QUICK if options.quick else decisions.FULL
    count = count if options.mutations is None else options.mutations
    if subject is None or count == 0:
        return decisions.Decisions()
    return decisions.compare(SERVERS[subject], folder / "decisions", options.seed, count)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="some thousand questions about the zones of this folder and two made by chance")
    parser.add_argument(
        "--servers", default="zonda,nsd,knot,bind", help="which to start; without zonda, each is compared with each (default: %(default)s)"
    )
    parser.add_argument("--scenes", default=",".join(SCENES), help="what to ask about (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the zones and mistakes made by chance (default: %(default)s)")
    parser.add_argument("--mutations", type=int, metavar="N", help="how many zones with mistakes made by chance to load")
    parser.add_argument("--hold", metavar="SCENE", choices=SCENES, help="only start the servers with the zones of a scene, until interrupted")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the findings to FILE as well")
    return parser.parse_args()


def found(names: list[str]) -> tuple[list[type[Server]], dict[str, str]]:
    """The servers of these names that are on this machine, with their versions; says which are not."""
    kinds, versions = [], {}
    for name in names:
        if name not in SERVERS:
            sys.exit(f"no server {name!r}; there are {', '.join(SERVERS)}")
        try:
            versions[name] = SERVERS[name].version()
            kinds.append(SERVERS[name])
            print(f"{name:8} {versions[name]}")
        except Missing as missing:
            print(f"{name:8} left out: {missing}")
    return kinds, versions


def started(scene: Scene, kinds: list[type[Server]], folder: Path, stack: ExitStack) -> list[Server]:
    """Starts the servers with the zones of a scene; the stack stops them."""
    servers = [kind([z for z in scene.zones if z.apex not in REFUSED.get(kind.name, set())], folder) for kind in kinds]
    for server in servers:
        stack.callback(server.stop)
        server.start()
    return servers


def hold(servers: list[Server]) -> int:
    """Leaves the servers to questions by hand, until interrupted."""
    for server in servers:
        print(f"{server.name:8} PORT={server.address[1]}")
    print("stop with Ctrl-C", flush=True)
    with suppress(KeyboardInterrupt):
        signal.pause()
    return 0


def is_clean(tally: Tally, subject: str | None) -> bool:
    """Whether nothing is left unexplained, and the subject breaks no rule by itself."""
    return (
        not tally.unexplained
        and not any(server == subject for server, _, _ in tally.faults)
        and not any(line.startswith(f"{subject}:") for line in tally.transfers)
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:  # a server does not start, or has ended
        print(error, file=sys.stderr)
        sys.exit(2)
