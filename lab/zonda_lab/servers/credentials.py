"""TSIG keys and TLS certificates for test networks only."""

import base64
import datetime
import hashlib
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from zonda_lab.servers.config import Certificate, Tsig

HOST = "primary.lab.test"
DAY = datetime.timedelta(days=1)


def tsig_key(name: str, algorithm: str = "hmac-sha256", salt: str = "") -> Tsig:
    """A key whose secret depends on its name, so that both sides have the same; another salt gives another secret."""
    return Tsig(name, algorithm, base64.b64encode(hashlib.sha256((name + salt).encode()).digest()).decode())


TSIG = tsig_key("lab-key.")


def certificate(
    folder: Path, name: str = HOST, issuer: Certificate | None = None, file: str = "", days: int = 30
) -> Certificate:
    """Writes a P-256 certificate of a host by `issuer`, or an authority's own one; `days` may have passed."""
    own, subject = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer, issuing = (private_key(issuer), issued(issuer).subject) if issuer else (own, subject)
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder(issuing, subject, own.public_key(), x509.random_serial_number())
        .not_valid_before(now - 9 * DAY)
        .not_valid_after(now + days * DAY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .sign(signer, hashes.SHA256())
    )
    pem, stem = serialization.Encoding.PEM, file or name
    files = Certificate(
        folder / f"{stem}.crt", folder / f"{stem}.key", name, authority=issuer.certificate if issuer else None
    )
    files.certificate.write_bytes(built.public_bytes(pem))
    files.key.write_bytes(own.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return files


def issued(files: Certificate) -> x509.Certificate:
    """The certificate in its file."""
    return x509.load_pem_x509_certificate(files.certificate.read_bytes())


def private_key(files: Certificate) -> ec.EllipticCurvePrivateKey:
    """The key in its file."""
    found = serialization.load_pem_private_key(files.key.read_bytes(), None)
    assert isinstance(found, ec.EllipticCurvePrivateKey), "it was written by `certificate`"
    return found
