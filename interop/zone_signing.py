"""Signs zones reproducibly with `dnssec-signzone` (BIND).

The key is derived from a fixed seed, Ed25519 signatures are deterministic, and the dates are fixed.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import dns.dnssec
import dns.name
import dns.rdtypes.ANY.DNSKEY
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CAN_SIGN = shutil.which("dnssec-signzone") is not None
SEED = hashlib.sha256(b"zonda interop: a key that protects nothing").digest()
ED25519 = 15
# RFC 4034 3.1.5: dates use 32-bit serial number arithmetic, so the expiration must be less than 68 years away.
INCEPTION, EXPIRATION = "20260101000000", "20890101000000"
# Options of dnssec-signzone for each form of denial of existence.
NSEC: Sequence[str] = ()
NSEC3: Sequence[str] = ("-3", "5A4F4E44", "-H", "3")
OPT_OUT: Sequence[str] = ("-3", "-", "-H", "0", "-A")


def sign(scratch: Path, apex: str, records: str, denial: Sequence[str]) -> tuple[list[str], str]:
    """Signs a zone; returns the lines of the signed zone, and its DS record. Requires `CAN_SIGN`."""
    key = Ed25519PrivateKey.from_private_bytes(SEED)
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    dnskey = dns.rdtypes.ANY.DNSKEY.DNSKEY(1, 48, 257, 3, ED25519, public)
    stem = scratch / f"K{apex}+015+{dns.dnssec.key_id(dnskey):05}"
    stem.with_name(stem.name + ".key").write_text(f"{apex} 3600 IN DNSKEY {dnskey}\n")
    private = f"Private-key-format: v1.3\nAlgorithm: {ED25519} (ED25519)\nPrivateKey: {base64.b64encode(SEED).decode()}\n"
    stem.with_name(stem.name + ".private").write_text(private)
    text = scratch / "zone"
    text.write_text(f"{records}\n{apex} 3600 IN DNSKEY {dnskey}\n")
    options = ["-P", "-z", "-n", "1", "-O", "full", "-s", INCEPTION, "-e", EXPIRATION, *denial]
    command = ["dnssec-signzone", *options, "-o", apex, "-f", "-", text, stem.name]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{apex}: {done.stderr}")
    signed = [re.sub(r"\s*\t\s*", " ", line) for line in done.stdout.splitlines() if not line.startswith(";")]
    return signed, f"{apex} 3600 IN DS {dns.dnssec.make_ds(dns.name.from_text(apex), dnskey, 'SHA256')}"
