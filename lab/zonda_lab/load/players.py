"""Runs the load generator on the hosts that generate load ("players")."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from zonda_lab.errors import LabError
from zonda_lab.load.generator import GRACE_S, LoadGenerator
from zonda_lab.load.jobs import QueryJob
from zonda_lab.load.summary import events
from zonda_lab.rig.host import Host, Network
from zonda_lab.rig.process import Program

VALID, INVALID = 0, 3  # exit statuses of a load generator that printed a result
# Interval of reading the output of the load generator; each read can delay the generator by a millisecond.
POLL_S = 0.1
OnEvent = Callable[[dict[str, Any]], None]
Command = tuple[Host, Sequence[str | Path]]


def no_event(_: dict[str, Any]) -> None:
    """Ignores an event."""


class Players:
    """The hosts that generate load, each with an equal part of the rate."""

    def __init__(
        self, network: Network, folder: Path, cpus: Sequence[int], started: Callable[[str, Program, Host], None]
    ) -> None:
        self._network, self._folder, self._cpus, self._started = network, folder, cpus, started

    def query(self, generator: LoadGenerator, job: QueryJob, patience_s: float) -> list[tuple[str, QueryJob]]:
        """Runs the job on all players; returns each output with its part of the job."""
        players = self._network.players
        rate, count = job.rate / len(players), job.traffic.sources
        parts = [dataclasses.replace(job, rate=rate, source_prefix=sources(player, count)) for player in players]
        for player in players:
            player.place(*job.files)
        commands = [(player, generator.query(part)) for player, part in zip(players, parts, strict=True)]
        return list(zip(self.run(commands, patience_s), parts, strict=True))

    def run(self, commands: Sequence[Command], seconds: float, on_event: OnEvent = no_event) -> list[str]:
        """Runs all commands concurrently and returns their outputs; calls `on_event` with events of the first."""
        seen = read = 0
        with contextlib.ExitStack() as running:
            programs = [running.enter_context(self._start(*command, i)) for i, command in enumerate(commands)]
            for (host, _), program in zip(commands, programs, strict=True):
                self._started("load", program, host)
            deadline = time.monotonic() + seconds + GRACE_S
            while living := [program for program in programs if program.alive]:
                living[0].wait(POLL_S)
                _check(commands, programs)
                if time.monotonic() > deadline:
                    late = f"the load generator is still running {GRACE_S:.0f} s after its scheduled end"
                    raise LabError(late, detail=programs[0].tail())
                if programs[0].log.stat().st_size == read:
                    continue
                text = programs[0].log.read_text()
                found = [event for event in events(text) if "msg_type" in event]
                for event in found[seen:]:
                    on_event(event)
                seen, read = len(found), len(text)
            _check(commands, programs)
        return [program.log.read_text() for program in programs]

    def _start(self, host: Host, argv: Sequence[str | Path], number: int) -> Program:
        log = self._folder / f"load{number}.log"
        log.unlink(missing_ok=True)
        return host.start("load", argv, log, self._cpus)


def sources(host: Host, count: int) -> str:
    """The prefix for `count` source addresses on that host; empty for one address."""
    return host.sources if count > 1 else ""


def _check(commands: Sequence[Command], programs: Sequence[Program]) -> None:
    """Raises if a load generator ended without a result; the others are then useless."""
    for (host, _), program in zip(commands, programs, strict=True):
        if program.status not in (None, VALID, INVALID):
            failed = f"{host.name}: the load generator failed with status {program.status}"
            raise LabError(failed, detail=program.tail())
