"""Temporary folders, named after the process of the lab, so that those of killed labs are found and removed."""

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
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=below))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale_folders(below: Path | None = None) -> None:
    """Removes temporary folders of labs whose process no longer exists."""
    for folder in stale_folders(below):
        shutil.rmtree(folder, ignore_errors=True)


def stale_folders(below: Path | None = None) -> Iterator[Path]:
    """Temporary folders of labs whose process no longer exists."""
    for folder in (below or Path(tempfile.gettempdir())).glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        with suppress(FileNotFoundError):  # another lab removes it at the same time
            if owner.isdigit() and not Path(f"/proc/{owner}").exists() and folder.stat().st_uid == os.getuid():
                yield folder
