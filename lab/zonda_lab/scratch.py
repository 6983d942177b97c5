"""Temporary folders that are locked while they are used, so that those of killed labs are found and removed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "zonda-lab-"  # followed by the process id of the lab


@contextmanager
def scratch_folder(below: Path | None = None) -> Iterator[Path]:
    """A new folder of this lab, removed at the end; those of killed labs beside it are removed first."""
    remove_stale_folders(below)
    hidden = Path(tempfile.mkdtemp(prefix=f".{PREFIX}{os.getpid()}-", dir=below))  # until it is locked
    with _opened(hidden) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        folder = hidden.rename(hidden.with_name(hidden.name.removeprefix(".")))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def remove_stale_folders(below: Path | None = None) -> None:
    """Removes temporary folders of labs that have ended."""
    for folder in stale_folders(below):
        shutil.rmtree(folder, ignore_errors=True)


def stale_folders(below: Path | None = None) -> Iterator[Path]:
    """Temporary folders of labs that have ended, each locked while it is the current one.

    Process ids alone do not show that: a cache may be shared with another container or machine.
    """
    for folder in (below or Path(tempfile.gettempdir())).glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        with suppress(OSError), _opened(folder) as descriptor:  # in use, of another user, or removed meanwhile
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not Path("/proc", owner).exists() and folder.stat().st_uid == os.getuid():
                yield folder


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
