"""Packet captures (pcap, pcapng) for replays: where they are, unpacked, and their duration."""

import contextlib
import functools
import hashlib
import lzma
import os
from collections.abc import Iterator
from pathlib import Path

import dpkt

from zonda_lab.errors import LabError, UnsupportedError

FOLDER_VARIABLE = "ZONDA_LAB_CAPTURES"
FRAMES = {dpkt.pcap.DLT_EN10MB: dpkt.ethernet.Ethernet, dpkt.pcap.DLT_LINUX_SLL: dpkt.sll.SLL}


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
    times = [at for _, at, _ in frames(path)]
    return max(times) - min(times) if times else 0.0


def datagrams(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Source port, destination port and payload of each UDP datagram of a capture that is not fragmented."""
    for link, _, frame in frames(path):
        with contextlib.suppress(dpkt.UnpackError):
            packet = FRAMES.get(link, dpkt.ip.IP)(frame)
            while not isinstance(packet, dpkt.udp.UDP | bytes) and not getattr(packet, "mf", 0):
                packet = packet.data
            if isinstance(packet, dpkt.udp.UDP):
                yield packet.sport, packet.dport, packet.data


def frames(path: Path) -> Iterator[tuple[int, float, bytes]]:
    """The link type, time and octets of each frame of a capture; the last one may be cut off."""
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            reader = dpkt.pcap.UniversalReader(file)
            link = reader.datalink()
            with contextlib.suppress(dpkt.NeedData):
                for at, frame in reader:
                    yield link, float(at), frame
    except (ValueError, dpkt.Error, lzma.LZMAError) as error:
        help_text = "it must be pcap or pcapng, or either compressed with xz"
        raise LabError(f"{path}: not a capture: {error}", help_text) from None
