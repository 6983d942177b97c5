"""Packet captures (pcap) for replays: where they are, unpacked, and their duration."""

from __future__ import annotations

import functools
import lzma
import os
import struct
from pathlib import Path

from zonda_lab.errors import LabError, UnsupportedError

FOLDER_VARIABLE = "ZONDA_LAB_CAPTURES"
HEADER = 24  # octets of the file header; each packet has a header of 16
MAGIC = {0xA1B2C3D4: 1e-6, 0xA1B23C4D: 1e-9}  # resolution of the fraction of a second


def find(name: str) -> Path:
    """The capture: a path, or a file in the folder that ZONDA_LAB_CAPTURES names."""
    found = Path(os.environ.get(FOLDER_VARIABLE, ".")) / name
    if not found.exists():
        raise UnsupportedError(f"{name}: no such capture", f"name its folder in the environment as {FOLDER_VARIABLE}")
    return found.resolve()


def unpacked(capture: Path, folder: Path) -> Path:
    """The capture as a file that is not compressed, in `folder` if it had to be unpacked."""
    if capture.suffix != ".xz":
        return capture
    target = folder / capture.stem
    if not target.exists():
        target.write_bytes(lzma.decompress(capture.read_bytes()))
    return target


@functools.cache
def duration_s(path: Path) -> float:
    """Seconds from the first packet to the last."""
    data = path.read_bytes()
    order = next((order for order in "<>" if struct.unpack_from(f"{order}I", data)[0] in MAGIC), None)
    if order is None:
        raise LabError(f"{path} is no pcap file", "convert pcapng with `editcap -F pcap`")
    resolution, times, at = MAGIC[struct.unpack_from(f"{order}I", data)[0]], list[float](), HEADER
    while at + 16 <= len(data):
        seconds, fraction, length, _ = struct.unpack_from(f"{order}4I", data, at)
        times.append(seconds + fraction * resolution)
        at += 16 + length
    return max(times) - min(times) if times else 0.0
