"""The load generator of this machine."""

import os
import shutil
from pathlib import Path

from zonda_lab.errors import LabError
from zonda_lab.load.dnsperf import Dnsperf
from zonda_lab.load.generator import LoadGenerator
from zonda_lab.load.zonda_load import ZondaLoad
from zonda_lab.servers.generator_servers import zonda_load


def find_generator(wanted: str = "") -> LoadGenerator:
    """The generator with that name or path; zonda-load by default."""
    given = wanted or os.environ.get("ZONDA_LOAD", "")
    if Path(given).name.startswith("dnsperf"):
        return Dnsperf(_program(given))
    if given and given != "zonda-load":
        return ZondaLoad(_program(given))
    if built := zonda_load():
        return ZondaLoad(built)
    help_text = "build it with `cargo build --release -p zonda-load`, or give --load dnsperf for closed loops"
    raise LabError("zonda-load not found", help_text)


def _program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise LabError(f"load generator `{name}` not found", "`apt-get install dnsperf`, or build zonda-load")
    return Path(found)
