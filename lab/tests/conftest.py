from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zonda_lab import load
from zonda_lab.errors import LabError
from zonda_lab.experiment import RigSpec
from zonda_lab.load import ZondaLoad
from zonda_lab.record import Record
from zonda_lab.rig import Rig

FAKE = Path(__file__).with_name("fake_load.py")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Zones, queries and the reflector are made anew for each run of the tests."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["XDG_CACHE_HOME"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def fake_load(tmp_path_factory: pytest.TempPathFactory) -> ZondaLoad:
    """The slow reference of `zonda-load`."""
    program = tmp_path_factory.mktemp("bin") / "zonda-load"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    program.chmod(0o755)
    found = load.find(str(program))
    assert isinstance(found, ZondaLoad)
    return found


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skips where the kernel allows no network namespaces."""
    if missing := [tool for tool in ("ip", "nsenter", "unshare", "setpriv", "taskset") if not shutil.which(tool)]:
        pytest.skip(f"needs {missing[0]}")
    try:
        Rig(RigSpec()).close()
    except LabError as error:
        pytest.skip(str(error).splitlines()[0])


@pytest.fixture(scope="session")
def compiler() -> None:
    """Skips where there is no C compiler for the reflector."""
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("needs a C compiler")


@pytest.fixture
def lab(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line as a user does."""

    def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "zonda_lab", *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False, **options)  # type: ignore[call-overload]

    return run


@pytest.fixture
def make_record() -> Callable[..., Record]:
    """A window made up: `make_record(block, server="nsd", cpu_us_per_query=3.0)`."""

    def made(
        block: int, copy: int = 0, experiment: str = "E1", within: dict[str, str] | None = None, **given: object
    ) -> Record:
        levels = {key: str(value) for key, value in given.items() if isinstance(value, str)}
        metrics = {key: float(value) for key, value in given.items() if isinstance(value, int | float)}
        treatment = {"server.name": levels.pop("server", "nsd"), **levels}
        start = f"{experiment}/{block}/{treatment}/{copy}"
        return Record(
            experiment,
            start,
            block,
            0,
            treatment,
            copy,
            within or {},
            metrics=metrics,
            server={"label": treatment["server.name"]},
        )

    return made
