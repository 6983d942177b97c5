"""XoT (RFC 9103) and XoQ (RFC 9250): transfers over TLS or QUIC without authentication, with the primary authenticated by name or key, and mutual."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from zonda_lab.servers.config import Access, Certificate, TlsRemote
from zonda_lab.servers.credentials import certificate, tsig_key

from transfers.cell import Cell, pair
from transfers.contents import serial
from transfers.server import Failed
from transfers.zone_versions import CHANGES, ZONE, ZoneText, big

SERVER_NAME, CLIENT_NAME, WRONG_NAME = "primary.example", "secondary.example", "other.example"
REFUSED_AFTER_S = 4.0
INSPECTION = tsig_key("inspection.example.")  # with which the test itself transfers, without TLS


def xot(authentication: str, quic: bool = False) -> Callable[[Cell], None]:
    """The test of a kind of authentication: opportunistic, strict, pin or mutual."""

    def test(cell: Cell) -> None:
        """AXFR of several messages and a change over TLS or QUIC; nothing passes the relay in clear text."""
        files, key, version = certificates(cell), tsig_key("transfer.example."), big(ZoneText(1, refresh=2, retry=1), 2000)
        name = "" if authentication in ("opportunistic", "pin") else SERVER_NAME
        mutual, pin = authentication == "mutual", pin_of(files[SERVER_NAME]) if authentication == "pin" else ""
        access = (Access(key, CLIENT_NAME if mutual else True), Access(INSPECTION))
        remote = TlsRemote(name, client=mutual, pin=pin, quic=quic)
        own, client = files[SERVER_NAME], files[CLIENT_NAME]
        both = pair(cell, version, key, tls=own, client_tls=client, tls_remote=remote, access=access, inspection=INSPECTION)
        both.start(version)
        both.follow(version, CHANGES[:1])
        if found := both.relay.transfers(ZONE):
            raise Failed(f"{len(found)} transfers passed the relay in clear text")

    return test


def wrong_name(cell: Cell) -> None:
    """The certificate of the primary has another name than the secondary expects: no transfer."""
    require_refused(cell, certificates(cell), TlsRemote(WRONG_NAME))


def wrong_name_over_quic(cell: Cell) -> None:
    """The same over QUIC."""
    require_refused(cell, certificates(cell), TlsRemote(WRONG_NAME, quic=True))


def wrong_pin(cell: Cell) -> None:
    """The primary has another key than the secondary expects: no transfer."""
    files = certificates(cell)
    require_refused(cell, files, TlsRemote(pin=pin_of(files[CLIENT_NAME])))


def require_refused(cell: Cell, files: dict[str, Certificate], remote: TlsRemote) -> None:
    """The secondary must not take the zone from a primary that is authenticated so."""
    version = ZoneText(1, refresh=2, retry=1)
    both = pair(cell, version, tls=files[SERVER_NAME], client_tls=files[CLIENT_NAME], tls_remote=remote)
    both.primary.start()
    both.secondary.start([])
    time.sleep(REFUSED_AFTER_S)
    if serial(both.secondary, ZONE) is not None:
        raise Failed("the secondary has the zone, although the primary is not the expected one")


def pin_of(files: Certificate) -> str:
    """RFC 7858 4.2: the SHA-256 digest of the public key, in base64."""
    key = x509.load_pem_x509_certificate(files.certificate.read_bytes()).public_key()
    octets = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(octets).digest()).decode()


def certificates(cell: Cell) -> dict[str, Certificate]:
    """A certificate for the primary and one for the secondary, by a common authority, in the folder of the cell."""
    folder = cell.folder / "tls"
    folder.mkdir(parents=True)
    authority = certificate(folder, "authority.example")
    return {name: certificate(folder, name, authority) for name in (SERVER_NAME, CLIENT_NAME)}
