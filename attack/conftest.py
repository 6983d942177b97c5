from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon import Daemon
from granted_time import Stopwatch, granted_time


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Creates daemons, each in a folder of its own, which stop at the end of the test."""
    made: list[Daemon] = []

    def make(*arguments, **named) -> Daemon:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Daemon(folder, *arguments, **named))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def stopwatch() -> Iterator[Callable[[], Stopwatch]]:
    """Makes stopwatches that stand still while the machine takes the processors away."""
    with granted_time() as make:
        yield make
