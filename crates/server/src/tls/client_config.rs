//! The TLS configuration for one primary or NOTIFY target.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig};
use rustls::client::{ClientConnection, ClientSessionMemoryCache, Resumption};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, Error};

use super::certificate_verifier::PrimaryVerifier;
use super::files::{Authorities, TlsFileError, read_certified_key};
use super::stream::TlsStream;
use super::{ALPN_DOQ, ALPN_DOT, VERSIONS, crypto};
use crate::config::remote_server::RemoteTls;

/// Servers whose session tickets are kept, per configuration: the addresses of one primary.
const SESSION_CACHE: usize = 16;

/// Why there is no configuration for a primary.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] TlsFileError),
    /// A name is to be verified, but no authority is trusted. The system's list of authorities is not used: any of more
    /// than a hundred could vouch for a primary, which is an agreement of two operators.
    #[error(
        "`tls = \"{0}\"` needs `tls-ca` (help: name a file with the authority of the primary, or its certificate, or the \
         system's list, often /etc/ssl/certs/ca-certificates.crt)"
    )]
    NoAuthorities(wire::Name),
    /// No host name.
    #[error("`tls = \"{0}\"` is not the name of a host")]
    NotAHostName(wire::Name),
}

/// How to connect to a primary by TLS, or by QUIC.
#[derive(Clone, Debug)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    /// The name to verify, which is sent as SNI too; `None`: no name is verified, and none is sent.
    name: Option<ServerName<'static>>,
    is_quic: bool,
    /// The digest of all certificates that were read.
    certificates: [u8; 32],
}

impl ClientTls {
    /// Reads the files that `remote` names, and the authorities if a name is to be verified.
    pub fn read(remote: &RemoteTls, authorities: Option<&Path>) -> Result<ClientTls, TlsError> {
        let crypto = crypto();
        let (name, authorities) = match &remote.name {
            Some(name) => {
                let path = authorities.ok_or_else(|| TlsError::NoAuthorities(name.clone()))?;
                (Some(server_name(name)?), Some(Authorities::read(path)?))
            }
            None => (None, None),
        };
        let mut certificates = CertificateDigest::new();
        certificates.add(authorities.iter().flat_map(|authorities| &authorities.certificates));
        let verifier = PrimaryVerifier::new(authorities, remote.pin, &crypto).map_err(TlsFileError::Setup)?;
        let setup = |error: Error| TlsFileError::Setup(error.to_string());
        let builder =
            ClientConfig::builder_with_provider(crypto.clone()).with_protocol_versions(&VERSIONS).map_err(setup)?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &remote.client {
            Some((certificate, key)) => {
                let own = read_certified_key(certificate, key, &crypto)?;
                certificates.add(&own.cert);
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![if remote.quic { ALPN_DOQ } else { ALPN_DOT }.to_vec()];
        // RFC 8446 2.2: sessions are resumed by tickets. Early data (2.3), which can be replayed, is not sent. Tickets belong to this
        // configuration: another name or pin never resumes a session of this one. With an own certificate every handshake is a full
        // one: NSD 4.15 refuses to resume a session with client authentication (OpenSSL: "session id context uninitialized").
        config.resumption = match remote.client {
            Some(_) => Resumption::disabled(),
            None => Resumption::store(Arc::new(ClientSessionMemoryCache::new(SESSION_CACHE))),
        };
        Ok(ClientTls { config: Arc::new(config), name, is_quic: remote.quic, certificates: certificates.finish() })
    }

    /// Whether the files had the same certificates when `other`, for the same remote server, was read. A key belongs to its certificate,
    /// so that it is the same, too.
    pub(super) fn has_certificates_of(&self, other: &ClientTls) -> bool {
        self.certificates == other.certificates
    }

    #[cfg(test)]
    pub(crate) fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// Whether connections are QUIC, not TLS over TCP.
    pub fn is_quic(&self) -> bool {
        self.is_quic
    }

    /// The TLS side of QUIC connections; ALPN is checked in the handshake (RFC 9001 8.1).
    pub(super) fn quic(&self) -> Result<QuicClientConfig, NoInitialCipherSuite> {
        self.config.clone().try_into()
    }

    /// The name to verify, or else the address.
    pub(super) fn server_name(&self, address: IpAddr) -> String {
        self.name.as_ref().map_or_else(|| address.to_string(), |name| name.to_str().into_owned())
    }

    /// The TLS side of a new connection to this address.
    pub fn connect(&self, address: IpAddr) -> Result<TlsStream, Error> {
        let name = self.name.clone().unwrap_or(ServerName::IpAddress(address.into()));
        ClientConnection::new(self.config.clone(), name).map(|session| TlsStream::client(session.into()))
    }
}

/// The SHA-256 digest of lists of certificates.
struct CertificateDigest(Context);

impl CertificateDigest {
    fn new() -> CertificateDigest {
        CertificateDigest(Context::new(&SHA256))
    }

    /// Adds a list, with lengths: certificates that move from one list to another give another digest.
    fn add<'c>(&mut self, certificates: impl IntoIterator<Item = &'c CertificateDer<'static>>) {
        let mut count: u64 = 0;
        for certificate in certificates {
            self.0.update(&(certificate.len() as u64).to_be_bytes());
            self.0.update(certificate);
            count += 1;
        }
        self.0.update(&count.to_be_bytes());
    }

    fn finish(self) -> [u8; 32] {
        self.0.finish().as_ref().try_into().expect("SHA-256 has 32 octets")
    }
}

/// RFC 9103 7.1: `dot` MUST be selected. Checked after the handshake.
pub(super) fn check_alpn(stream: &TlsStream) -> Result<(), String> {
    match stream.session().and_then(|session| session.alpn_protocol()) {
        Some(ALPN_DOT) => Ok(()),
        Some(other) => Err(format!("the server chose the ALPN `{}`, not `dot`", other.escape_ascii())),
        None => Err("the server chose no ALPN, but XoT needs `dot` (RFC 9103 7.1) (help: update the server, or put a \
                     TLS proxy that selects `dot` before it)"
            .into()),
    }
}

/// The name without the trailing dot.
fn server_name(name: &wire::Name) -> Result<ServerName<'static>, TlsError> {
    let text = name.to_string();
    let text = text.strip_suffix('.').unwrap_or(&text).to_owned();
    ServerName::try_from(text).map_err(|_| TlsError::NotAHostName(name.clone()))
}
