"""Temporary folders, named after the process of the lab, so that those of killed labs are found and removed."""

import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "zonda-lab-"  # followed by the process id of the lab


def scratch_folder(below: Path | None = None) -> Path:
    """Makes a folder of this lab; the caller removes it."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=below))


def remove_stale_folders(below: Path | None = None) -> None:
    """Removes temporary folders of labs whose process no longer exists."""
    for folder in (below or Path(tempfile.gettempdir())).glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
