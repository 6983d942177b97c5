#!/usr/bin/env python3
"""Compares the responses of Zonda, NSD, Knot and BIND, and fails on any difference that no RFC explains.

Starts each server on 127.0.0.1 with the same zones, sends them the same queries over UDP and TCP, transfers the zones, and prints
each class of differences with its ruling. Exit status: 0 all explained, 1 unexplained differences, 2 the comparison failed.
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
    import load_decisions
    import report
    from comparison_run import ComparisonRun, Tally
    from scenes import REFUSED, SCENES, Scene, scenes
    from servers import SERVERS, ProgramNotFound, Server
except ModuleNotFoundError as missing:
    sys.exit(f"{missing} (help: pip install -r interop/requirements.txt)")

SUBJECT = "zonda"


def main() -> int:
    # Raises SystemExit, which stops the servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    options = arguments()
    kinds, versions = find_servers(options.servers.split(","))
    if not kinds:
        return 2
    if len(kinds) == 1:
        print("no server to compare with: only the rules for single responses are checked")
    subject, tally = SUBJECT if SUBJECT in versions else None, Tally()
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        names = [options.hold] if options.hold else ["oddities", "random"] if options.quick else list(filter(None, options.scenes.split(",")))
        for scene in scenes(names, Path(folder), options.quick, options.seed, lambda name, why: print(f"skipped {name}: {why}")):
            with ExitStack() as stack:
                servers = start_servers(scene, kinds, Path(folder) / scene.name, stack)
                if options.hold:
                    return hold(servers)
                ComparisonRun(servers, scene, scene.load(), subject, tally).run()
        load_comparison = compare_load_decisions(options, subject, Path(folder))
    print(report.text(tally, subject))
    print("\n" + load_comparison.report())
    if options.json:
        options.json.write_text(json.dumps(report.as_json(tally, versions), indent=1) + "\n")
    return 0 if is_clean(tally, subject) and not load_comparison.unexplained else 1


def compare_load_decisions(options: argparse.Namespace, subject: str | None, folder: Path) -> load_decisions.LoadComparison:
    """Compares which mutated zones the servers load."""
    count = load_decisions.QUICK if options.quick else load_decisions.FULL
    count = count if options.mutations is None else options.mutations
    if subject is None or count == 0:
        return load_decisions.LoadComparison()
    return load_decisions.compare(SERVERS[subject], folder / "decisions", options.seed, count)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="9,000 queries about the zones of this folder and two random zones")
    parser.add_argument("--servers", default="zonda,nsd,knot,bind", help="servers to compare; without zonda, every pair (default: %(default)s)")
    parser.add_argument("--scenes", default=",".join(SCENES), help="sets of zones to query (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random zones and mutations (default: %(default)s)")
    parser.add_argument("--mutations", type=int, metavar="N", help="number of mutated zones to load")
    parser.add_argument("--hold", metavar="SCENE", choices=SCENES, help="only run the servers with the zones of a scene, until interrupted")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report to FILE, too")
    return parser.parse_args()


def find_servers(names: list[str]) -> tuple[list[type[Server]], dict[str, str]]:
    """The installed servers of these names, with their versions; prints which are missing."""
    kinds, versions = [], {}
    for name in names:
        if name not in SERVERS:
            sys.exit(f"no server {name!r}; there are {', '.join(SERVERS)}")
        try:
            versions[name] = SERVERS[name].version()
            kinds.append(SERVERS[name])
            print(f"{name:8} {versions[name]}")
        except ProgramNotFound as missing:
            print(f"{name:8} left out: {missing}")
    return kinds, versions


def start_servers(scene: Scene, kinds: list[type[Server]], folder: Path, stack: ExitStack) -> list[Server]:
    """Starts the servers with the zones of a scene; the stack stops them."""
    servers = [kind([z for z in scene.zones if z.apex not in REFUSED.get(kind.name, set())], folder) for kind in kinds]
    for server in servers:
        stack.callback(server.stop)
        server.start()
    return servers


def hold(servers: list[Server]) -> int:
    """Prints the ports and waits until interrupted."""
    for server in servers:
        print(f"{server.name:8} PORT={server.address[1]}")
    print("stop with Ctrl-C", flush=True)
    with suppress(KeyboardInterrupt):
        signal.pause()
    return 0


def is_clean(tally: Tally, subject: str | None) -> bool:
    """Whether every difference is explained and the subject violates no rule."""
    return (
        not tally.unexplained
        and not any(server == subject for server, _, _ in tally.violations)
        and not any(line.startswith(f"{subject}:") for line in tally.transfers)
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:  # a server did not start, or crashed
        print(error, file=sys.stderr)
        sys.exit(2)
