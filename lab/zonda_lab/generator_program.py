"""Where `zonda-load` is: used to generate load, and for the servers echo and sink."""

import os
import shutil
from pathlib import Path

BUILT = Path(__file__).resolve().parents[2] / "target/release/zonda-load"


def zonda_load() -> Path | None:
    """In $ZONDA_LOAD, built in this tree, or on PATH."""
    given = os.environ.get("ZONDA_LOAD", "")
    if Path(given).name == "zonda-load" and shutil.which(given):
        return Path(given)
    found = BUILT if BUILT.exists() else shutil.which("zonda-load")
    return Path(found) if found else None
