"""Runs the cells of the table; those of different builds in parallel."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from zonda_lab.rig.machine_info import source_version
from zonda_lab.servers import ADAPTERS

from servers import ProgramNotFound, Zonda
from transfers.cell import Cell
from transfers.features import AS_PRIMARY, AS_SECONDARY, Feature
from transfers.kinds import BindTransfers, KnotTransfers, NsdTransfers, ZondaTransfers
from transfers.result_table import FAILED, OK, SKIPPED, Result
from transfers.server import CANCELLED, Build, Failed, Skipped, TransferServer

PEERS: dict[str, type[TransferServer]] = {kind.name: kind for kind in (NsdTransfers, KnotTransfers, BindTransfers)}
SHOWN = 500  # octets of a reason
KINDS: dict[str, type[TransferServer]] = {"zonda": ZondaTransfers, **PEERS}


@dataclass
class TableRun:
    """Tests features between a subject and other builds."""

    subject: Build
    features: list[Feature]
    directions: tuple[str, ...]
    folder: Path
    commit: str = ""
    report: Callable[[Result], None] = lambda _: None

    def run(self, peers: list[Build], at_once: int) -> list[Result]:
        """All results, in the order of the table."""
        with ThreadPoolExecutor(max(1, at_once)) as pool:
            try:
                found = list(pool.map(lambda peer: list(self.results(peer)), peers))
            except BaseException:  # interrupted: the cells end soon and stop their servers
                CANCELLED.set()
                raise
        return [result for results in found for result in results]

    def results(self, peer: Build) -> Iterator[Result]:
        for direction in self.directions:
            for feature in self.features:
                if CANCELLED.is_set():
                    return
                start = time.monotonic()
                outcome, reason = self.outcome(peer, direction, feature)
                seconds = round(time.monotonic() - start, 1)
                result = Result(peer.name, peer.version, direction, feature.name, outcome, reason, seconds, self.commit)
                self.report(result)
                yield result

    def outcome(self, peer: Build, direction: str, feature: Feature) -> tuple[str, str]:
        """Runs one cell; the result and the reason."""
        other = AS_SECONDARY if direction == AS_PRIMARY else AS_PRIMARY
        for build, role in ((peer, other), (self.subject, direction)):
            if lack := feature.lack(build, role):
                return SKIPPED, lack
        roles = (self.subject, peer) if direction == AS_PRIMARY else (peer, self.subject)
        folder = self.folder / cell_name(peer, direction, feature)
        folder.mkdir(parents=True)
        with ExitStack() as stack:
            cell = Cell(*roles, folder, stack)
            try:
                feature.test(cell)
            except Skipped as skipped:
                return SKIPPED, str(skipped)
            except (Failed, RuntimeError, OSError, subprocess.SubprocessError) as failed:
                return FAILED, " ".join((str(failed) or type(failed).__name__).split())[:SHOWN]
        shutil.rmtree(folder)
        return OK, ""


def cell_name(peer: Build, direction: str, feature: Feature) -> Path:
    """The folder of a cell in that of the run."""
    return Path(f"{peer.name}-{peer.version}", direction, re.sub(r"\W+", "-", feature.name))


def find_builds(names: list[str], peers_folder: Path | None, report: Callable[[str], None]) -> list[Build]:
    """The builds of these servers: on PATH, and below `peers_folder`/NAME; reports which are missing."""
    found = []
    for name in names:
        for folder in [None, *([peers_folder / name] if peers_folder is not None else [])]:
            try:
                found.append(find_build(PEERS[name], folder))
            except ProgramNotFound as missing:
                report(f"{name:8} left out: {missing}")
    return found


def find_build(kind: type[TransferServer], folder: Path | None) -> Build:
    """A build and its version; raises `ProgramNotFound`."""
    build, adapter = Build(kind, folder, ""), ADAPTERS[kind.name]
    for program in (adapter.program, *kind.programs_needed):
        build.program(program)
    done = subprocess.run([build.program(adapter.program), adapter.version_flag], capture_output=True, text=True, check=False)
    return Build(kind, folder, version_of(done.stdout + done.stderr))


def commit_of(program: Path) -> str:
    """The commit that a program was built from: that of the tree it is in, with `-dirty` if the tree, or the program, may have changed since."""
    commit = source_version(program.parent)
    asked: list[str | Path] = ["git", "-C", program.parent, "log", "-1", "--format=%ct"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    is_older = program.stat().st_mtime < int(done.stdout or 0)
    return f"{commit}-dirty" if is_older and not commit.endswith("-dirty") else commit


def version_of(printed: str) -> str:
    """`3.6-dev` of a development build: it may lack or have what release 3.6 has."""
    version = re.search(r"(\d+(?:\.\d+)+)[.-]?(dev)?", printed)
    return "-".join(filter(None, version.groups())) if version else "unknown"


def find_subject(name: str, peers_folder: Path | None) -> Build:
    """The server in the place of Zonda; another one only to test the tests."""
    if name == "zonda":
        return find_build(ZondaTransfers, Path(Zonda.program()).parent)
    return find_build(PEERS[name], None if peers_folder is None else peers_folder / name)
