"""Reports how many descriptors each process of a program has open, and how many it may have; a stand-alone program.

`python3 open_files.py PID` prints one JSON object per descendant of PID, which is its wrapper: servers may raise their
limit, and use several processes. Standard library only, because it also runs on remote machines.
"""

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path


def main() -> None:
    """Prints the processes that are still running."""
    for pid in descendants(int(sys.argv[1])):
        with contextlib.suppress(OSError):  # the process has ended
            limits = Path(f"/proc/{pid}/limits").read_text()
            if limit := re.search(r"^Max open files +(\d+)", limits, re.MULTILINE):
                used = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
                print(json.dumps({"open": used, "limit": int(limit[1])}))


def descendants(root: int) -> Iterator[int]:
    """All descendants of a process."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{root}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from descendants(child)


if __name__ == "__main__":
    main()
