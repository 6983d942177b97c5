"""Operations on domain names in wire format."""

from __future__ import annotations

from functools import lru_cache

import dns.name


class Malformed(ValueError):
    """A malformed DNS message; the text says where."""


def labels(name: bytes) -> list[bytes]:
    """The labels of a wire-format name, without the root."""
    out, at = [], 0
    while name[at]:
        out.append(name[at + 1 : at + 1 + name[at]])
        at += 1 + name[at]
    return out


def from_labels(parts: list[bytes]) -> bytes:
    """The wire-format name of these labels."""
    return b"".join(bytes([len(p)]) + p for p in parts) + b"\0"


def parent(name: bytes) -> bytes:
    """The name without its first label."""
    return name[1 + name[0] :]


def ancestors(name: bytes) -> list[bytes]:
    """The name, its parent, and so on up to the root."""
    out = [name]
    while name[0]:
        name = parent(name)
        out.append(name)
    return out


def is_at_or_below(name: bytes, top: bytes) -> bool:
    """Whether `name` is `top` or a descendant of it (both lower-case)."""
    return name.endswith(top) and top in ancestors(name)


def wire_name(text: str) -> bytes:
    """Converts a name from presentation to wire format, preserving case; a relative name is made absolute."""
    return to_wire(dns.name.from_text(text))


def to_wire(name: dns.name.Name) -> bytes:
    wire = name.to_wire()
    assert wire is not None, "to_wire returns bytes when called without a file"
    return wire


def read_name(wire: bytes, at: int, names: dict[int, tuple[bytes, int]]) -> tuple[bytes, int]:
    """The uncompressed name at offset `at`, and the offset of the octet after it; `names` caches earlier results.

    RFC 1035 4.1.4: a pointer refers to a prior name, so each pointer followed must have a lower target.
    """
    if at in names:
        return names[at]
    start, limit, end, out = at, at, 0, b""
    while True:
        if at >= len(wire):
            raise Malformed("message ends within a name")
        length = wire[at]
        if length == 0:
            out, at = out + b"\0", at + 1
            break
        if length < 64:
            out += wire[at : at + 1 + length]
            at += 1 + length
        elif length >= 192 and at + 1 < len(wire):
            target = (length & 63) << 8 | wire[at + 1]
            if target >= limit:
                raise Malformed(f"pointer at {at} does not point backwards")
            end, limit = end or at + 2, target
            if target in names:
                out += names[target][0]
                break
            at = target
        else:
            raise Malformed(f"label type {length >> 6} at {at}")
    if len(out) > 255:
        raise Malformed(f"name of {len(out)} octets at {start}")
    names[start] = out, end or at
    return names[start]


@lru_cache(maxsize=1 << 16)
def name_text(name: bytes) -> str:
    return dns.name.from_wire(name, 0)[0].to_text()
