//! Verifies the certificates of primaries and of clients.
//!
//! Both do what `webpki` does, except that a certificate in `tls-ca` may itself be the peer's, even if it is marked as an
//! authority: `openssl req -x509` makes such self-signed certificates, and operators exchange them.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, PeerMisbehaved, SignatureScheme,
};

use super::files::Authorities;
use crate::config::remote_server::KeyPin;

//----------- Primaries --------------------------------------------------------

/// Verifies a primary's certificate (RFC 9103 9.3, RFC 8310 5 and 6): by name and authority (strict), by pin (strict), by both, or not
/// at all (opportunistic). The primary always proves that it has the key of its certificate.
#[derive(Debug)]
pub(super) struct PrimaryVerifier {
    /// `None`: neither name nor authority is verified.
    by_name: Option<ByName>,
    pin: Option<KeyPin>,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
struct ByName {
    authorities: Authorities,
    webpki: Arc<WebPkiServerVerifier>,
}

impl PrimaryVerifier {
    /// The name is verified if there are authorities, the key if there is a pin.
    pub(super) fn new(
        authorities: Option<Authorities>,
        pin: Option<KeyPin>,
        crypto: &Arc<CryptoProvider>,
    ) -> Result<PrimaryVerifier, String> {
        let by_name = |authorities: Authorities| {
            let builder = WebPkiServerVerifier::builder_with_provider(authorities.roots.clone(), crypto.clone());
            builder.build().map(|webpki| ByName { authorities, webpki }).map_err(|error| error.to_string())
        };
        let by_name = authorities.map(by_name).transpose()?;
        Ok(PrimaryVerifier { by_name, pin, algorithms: crypto.signature_verification_algorithms })
    }
}

impl ServerCertVerifier for PrimaryVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(pin) = self.pin {
            verify_pin(certificate, pin)?;
        }
        let Some(ByName { authorities, webpki }) = &self.by_name else { return Ok(ServerCertVerified::assertion()) };
        match webpki.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(error) if is_trusted_itself(certificate, authorities, &error) => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// RFC 7858 4.2: the SHA-256 digest of the SubjectPublicKeyInfo is the pin.
fn verify_pin(certificate: &CertificateDer<'_>, pin: KeyPin) -> Result<(), Error> {
    let key = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
    let mut found = KeyPin([0; 32]);
    found.0.copy_from_slice(digest(&SHA256, &key).as_ref());
    if found == pin { Ok(()) } else { Err(other(PinMismatch { found })) }
}

/// Another key than the one that is pinned.
#[derive(thiserror::Error)]
#[error("the server's key is {found}, which is not its `tls-pin`")]
struct PinMismatch {
    found: KeyPin,
}

/// What a QUIC connection reports has it in this form only.
impl fmt::Debug for PinMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    CertificateError::Other(OtherError(Arc::new(error))).into()
}

/// Whether the only objection is that the certificate is an authority's, and it is trusted as it is. `webpki` checks the
/// period of validity before it objects.
fn is_trusted_itself(certificate: &CertificateDer<'_>, authorities: &Authorities, error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) = error else { return false };
    matches!(cause.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
        && authorities.certificates.iter().any(|authority| authority == certificate)
}

//----------- Clients ----------------------------------------------------------

/// Verifies a client's certificate, which is optional: access lists decide whether it is needed.
pub(super) struct ClientVerifier {
    authorities: Authorities,
    webpki: Arc<dyn ClientCertVerifier>,
}

impl ClientVerifier {
    pub(super) fn new(authorities: Authorities, crypto: &Arc<CryptoProvider>) -> Result<ClientVerifier, String> {
        let builder = WebPkiClientVerifier::builder_with_provider(authorities.roots.clone(), crypto.clone());
        let webpki = builder.allow_unauthenticated().build().map_err(|error| error.to_string())?;
        Ok(ClientVerifier { authorities, webpki })
    }
}

impl fmt::Debug for ClientVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientVerifier({} authorities)", self.authorities.certificates.len())
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.webpki.verify_client_cert(certificate, intermediates, now) {
            Err(error) if is_trusted_itself(certificate, &self.authorities, &error) => {
                Ok(ClientCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // Not reached: TLS 1.2 is not offered.
        Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}
