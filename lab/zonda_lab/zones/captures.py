"""Packet captures (pcap, pcapng) for replays: where they are, unpacked, and their duration."""

import contextlib
import functools
import hashlib
import lzma
import os
from pathlib import Path

import dpkt

from zonda_lab.errors import LabError, UnsupportedError

FOLDER_VARIABLE = "ZONDA_LAB_CAPTURES"


def find(name: str) -> Path:
    """The capture: a path, or a file in the folder that ZONDA_LAB_CAPTURES names."""
    found = Path(os.environ.get(FOLDER_VARIABLE, ".")) / name
    if not found.exists():
        raise UnsupportedError(f"{name}: no such capture", f"name its folder in the environment as {FOLDER_VARIABLE}")
    return found.resolve()


def digest(capture: Path) -> str:
    """The SHA-256 digest of a capture."""
    with capture.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    times: list[float] = []
    try:
        with path.open("rb") as file:
            reader = dpkt.pcap.UniversalReader(file)
            with contextlib.suppress(dpkt.NeedData):  # the last frame may be cut off
                for at, _ in reader:
                    times.append(at)
    except (ValueError, dpkt.Error) as error:
        raise LabError(f"{path} is no capture: {error}", "it must be pcap or pcapng") from None
    return float(max(times) - min(times)) if times else 0.0
