//! The certificate of a client, and the names in it for as long as the authorities in use certify them.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use webpki::EndEntityCert;
use wire::Name;

use super::certificate_verifier::ClientVerifier;

/// Names of a client certificate that access lists see: more have no use.
const MAX_CLIENT_NAMES: usize = 64;

/// The most octets of a chain that is kept, to be verified again after a reload: two or three certificates, as much as in a session that
/// QUIC clients may resume. The names of a longer one are gone then, until the client connects again.
const MAX_KEPT: usize = 4 << 10;

/// What a client proved to have in a handshake.
pub struct ClientCertificate {
    /// The client's own certificate first; nothing if the chain is too long to be kept.
    chain: Box<[CertificateDer<'static>]>,
    names: Box<[Name]>,
    /// What has verified it; `None` for no authorities.
    verifier: Option<Arc<ClientVerifier>>,
}

impl ClientCertificate {
    /// Verifies a chain. Without authorities, or if it is refused, there are no names.
    pub(super) fn new(
        chain: Box<[CertificateDer<'static>]>,
        verifier: Option<Arc<ClientVerifier>>,
    ) -> ClientCertificate {
        let names = verified_names(&chain, verifier.as_deref());
        let len: usize = chain.iter().map(|certificate| certificate.len()).sum();
        let chain = if len > MAX_KEPT { Box::default() } else { chain };
        ClientCertificate { chain, names, verifier }
    }

    /// The DNS names in the certificate.
    pub(super) fn names(&self) -> &[Name] {
        &self.names
    }

    /// Whether it was verified with these authorities, and not with those of an earlier reload.
    pub(super) fn is_verified_by(&self, verifier: Option<&Arc<ClientVerifier>>) -> bool {
        match (&self.verifier, verifier) {
            (Some(own), Some(current)) => Arc::ptr_eq(own, current),
            (own, current) => own.is_none() && current.is_none(),
        }
    }

    /// Verifies it with other authorities.
    #[cold]
    pub(super) fn verify_again(&mut self, verifier: Option<Arc<ClientVerifier>>) {
        self.names = verified_names(&self.chain, verifier.as_deref());
        self.verifier = verifier;
    }
}

/// The DNS names in a client's certificate; none if it is not certified.
fn verified_names(chain: &[CertificateDer<'static>], verifier: Option<&ClientVerifier>) -> Box<[Name]> {
    let (Some((own, intermediates)), Some(verifier)) = (chain.split_first(), verifier) else { return Box::default() };
    match verifier.verify_client_cert(own, intermediates, UnixTime::now()) {
        Ok(_) => dns_names(own),
        Err(_) => Box::default(),
    }
}

/// The DNS names in the subjectAltName of a certificate. Wildcards are left out: a client has one name (RFC 9103 9.3.3: mutual TLS).
fn dns_names(certificate: &CertificateDer<'_>) -> Box<[Name]> {
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return Box::default() };
    let names = certificate.valid_dns_names().filter(|name| !name.starts_with('*'));
    names.filter_map(|name| name.parse().ok()).take(MAX_CLIENT_NAMES).collect()
}
