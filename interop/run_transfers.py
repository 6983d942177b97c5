#!/usr/bin/env python3
"""Tests transfers, NOTIFY, TSIG, updates and catalogs between Zonda and NSD, Knot and BIND, in both directions.

Prints one line per server, version, direction and feature. Exit status: 0 nothing failed, 1 something failed, 2 it could not be tested.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

try:
    from servers import ProgramNotFound
    from transfers import result_table
    from transfers.features import AS_PRIMARY, AS_SECONDARY, FEATURES, Feature
    from transfers.result_table import FAILED, Result
    from transfers.table_run import KINDS, PEERS, TableRun, commit_of, find_builds, find_subject
except ModuleNotFoundError as missing:
    sys.exit(f"{missing} (help: pip install -r interop/requirements.txt)")

QUICK = ("axfr", "notify", "ixfr")
# The addresses of control sockets have 107 octets at most (unix(7)), of which the names of a cell take up to 97.
LONGEST_TMPDIR = 10


def main() -> int:
    # Raises SystemExit, which stops the servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    options = arguments()
    peers_folder = Path(os.environ["PEERS"]) if "PEERS" in os.environ else None
    try:
        subject = find_subject(options.subject, peers_folder)
    except ProgramNotFound as missing:
        print(missing, file=sys.stderr)
        return 2
    commit = commit_of(Path(subject.program(subject.name))) if subject.name == "zonda" else ""
    print(f"{subject.name:8} {subject.version} {commit} {subject.folder or ''}")
    peers = [peer for peer in find_builds(options.servers.split(","), peers_folder, print) if options.version in ("", peer.version)]
    if not peers:
        print("no server to test with (help: run interop/install-peers, or name a folder of builds in PEERS)")
        return 0
    folder = scratch_folder()
    run = TableRun(subject, features(options), tuple(options.directions.split(",")), folder, commit, print_failure)
    results = run.run(peers, options.at_once)
    print(result_table.text(results))
    if options.json:
        options.json.write_text(json.dumps(result_table.as_json(results), indent=1) + "\n")
    if failed := any(result.outcome == FAILED for result in results):
        print(f"the configurations and logs of the failed cells are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return int(failed)


def scratch_folder() -> Path:
    """A new folder whose path is short enough for control sockets in it: in TMPDIR, or in /tmp if that is too long."""
    usual = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="transfers-", dir=usual if len(usual) <= LONGEST_TMPDIR else "/tmp"))


def features(options: argparse.Namespace) -> list[Feature]:
    """The features to test."""
    wanted = list(QUICK) if options.quick else list(filter(None, options.features.split(",")))
    unknown = set(wanted) - {feature.group for feature in FEATURES}
    if unknown:
        sys.exit(f"no feature {sorted(unknown)[0]!r}; there are {', '.join(dict.fromkeys(f.group for f in FEATURES))}")
    return [feature for feature in FEATURES if not wanted or feature.group in wanted]


def print_failure(result: Result) -> None:
    """Shows progress: failures at once, the rest at the end."""
    if result.outcome == FAILED:
        print(f"{result.server} {result.version}, Zonda is {result.direction}, {result.feature}: {result.text}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"only the features {', '.join(QUICK)}")
    parser.add_argument("--servers", default=",".join(PEERS), help="servers to test with (default: %(default)s)")
    parser.add_argument("--version", default="", help="only the builds of this version")
    parser.add_argument("--features", default="", help="groups of features to test, separated by commas (default: all)")
    parser.add_argument("--directions", default=f"{AS_PRIMARY},{AS_SECONDARY}", help="roles of Zonda (default: %(default)s)")
    parser.add_argument("--subject", choices=KINDS, default="zonda", help="another server in the place of Zonda, to test the tests")
    processors = len(os.sched_getaffinity(0))  # more cells than processors exceed their time-outs
    at_once = "builds to test at the same time (default: the number of processors, %(default)s)"
    parser.add_argument("--at-once", type=int, default=processors, metavar="N", help=at_once)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table to FILE, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
