from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon import Daemon
from granted_time import Stopwatch, granted_time


@pytest.fixture
def daemons() -> Iterator[list[Daemon]]:
    """The daemons of the test, which stop at its end."""
    made: list[Daemon] = []
    yield made
    for one in made:
        one.stop()


@pytest.fixture
def daemon(daemons: list[Daemon], tmp_path: Path) -> Callable[..., Daemon]:
    """Creates daemons, each in a folder of its own."""

    def make(*arguments, **named) -> Daemon:
        folder = tmp_path / str(len(daemons))
        folder.mkdir()
        daemons.append(Daemon(folder, *arguments, **named))
        return daemons[-1]

    return make


@pytest.fixture
def stopwatch(daemons: list[Daemon]) -> Iterator[Callable[[], Stopwatch]]:
    """Makes stopwatches that stand still while the machine takes the processors away."""
    with granted_time(lambda: [one.pid for one in daemons if one.process]) as make:
        yield make
