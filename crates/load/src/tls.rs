//! TLS as clients of DNS over TLS (RFC 7858) and of transfers over TLS (RFC 9103) speak it, and as a primary does.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientConnection, ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
    WebPkiServerVerifier, verify_server_name,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::TLS13;
use rustls::{
    ALL_VERSIONS, ClientConfig, DigitallySignedStruct, Error, NamedGroup, RootCertStore, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
};

/// RFC 9103 7.1: what goes over the connection. It is offered and not insisted on, since not every server selects it:
/// NSD 4.6 does not.
const ALPN_DOT: &[u8] = b"dot";
/// Tickets that are kept: as many as connections that may begin at once.
const MAX_TICKETS: usize = 4096;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Queries.
    Queries,
    /// Transfers. RFC 9103 7.2: they need TLS 1.3.
    Transfers,
}

impl Purpose {
    fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        static TLS13_ALONE: [&SupportedProtocolVersion; 1] = [&TLS13];
        match self {
            Purpose::Queries => ALL_VERSIONS,
            Purpose::Transfers => &TLS13_ALONE,
        }
    }
}

/// How connections to one server begin.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    server_name: ServerName<'static>,
}

impl Tls {
    /// The server must have a certificate for `server_name` by one of `authorities`, if there are any; else it is not checked.
    /// Sessions are resumed if `resumes`, and never otherwise.
    pub fn new(
        server_name: ServerName<'static>,
        authorities: Vec<CertificateDer<'static>>,
        resumes: bool,
        purpose: Purpose,
    ) -> Result<Tls, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        // The first random number takes some 40 ms, which are not to be measured as part of a handshake.
        provider.secure_random.fill(&mut [0; 32]).map_err(|_| Error::FailedToGetRandomBytes)?;
        let verifier = Arc::new(Verifier::new(authorities, &provider)?);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(purpose.versions())?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN_DOT.to_vec()];
        config.resumption = match resumes {
            true => Resumption::store(Arc::new(Sessions::default())),
            false => Resumption::disabled(),
        };
        Ok(Tls { config: Arc::new(config), server_name })
    }

    /// A connection before its first message.
    pub fn begin(&self) -> Result<ClientConnection, Error> {
        ClientConnection::new(self.config.clone(), self.server_name.clone())
    }
}

/// What a primary needs for transfers over TLS: its certificate and those above it, and its key.
pub fn primary(
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(Purpose::Transfers.versions())?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![ALPN_DOT.to_vec()];
    Ok(Arc::new(config))
}

/// A certificate for `localhost` that nobody has reason to trust, with its key.
pub fn self_made() -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), rcgen::Error> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}

//----------- Verifier ---------------------------------------------------------

/// Verifies certificates as `rustls` does, with two differences: without authorities it takes any, and an authority may
/// itself be the server's certificate, as `openssl req -x509` makes them.
#[derive(Debug)]
struct Verifier {
    authorities: Vec<CertificateDer<'static>>,
    /// `None` for a verifier that takes everything.
    inner: Option<Arc<WebPkiServerVerifier>>,
    schemes: Vec<SignatureScheme>,
}

impl Verifier {
    fn new(authorities: Vec<CertificateDer<'static>>, provider: &Arc<CryptoProvider>) -> Result<Verifier, Error> {
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.clone())?;
        }
        let verified = |roots| WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        let inner = (!authorities.is_empty()).then(|| verified(roots)).transpose();
        Ok(Verifier {
            authorities,
            inner: inner.map_err(|error| Error::General(error.to_string()))?,
            schemes: provider.signature_verification_algorithms.supported_schemes(),
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.inner {
            None => Ok(ServerCertVerified::assertion()),
            Some(_) if self.authorities.contains(certificate) => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            Some(inner) => inner.verify_server_cert(certificate, intermediates, server_name, ocsp_response, now),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match &self.inner {
            None => Ok(HandshakeSignatureValid::assertion()),
            Some(inner) => inner.verify_tls12_signature(message, certificate, signature),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match &self.inner {
            None => Ok(HandshakeSignatureValid::assertion()),
            Some(inner) => inner.verify_tls13_signature(message, certificate, signature),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

//----------- Sessions ---------------------------------------------------------

/// The sessions with the one server. The store that `rustls` has keeps eight tickets, fewer than connections begin at once.
#[derive(Default)]
struct Sessions(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    /// Each is for one connection (RFC 8446 C.4).
    tickets: Vec<Tls13ClientSessionValue>,
}

impl Sessions {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().expect("nobody panics with it")
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({} tickets)", self.kept().tickets.len())
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.kept().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.kept().tls12 = Some(session);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.kept().tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.kept().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let tickets = &mut self.kept().tickets;
        if tickets.len() < MAX_TICKETS {
            tickets.push(ticket);
        }
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        // The newest, which has the longest to live.
        self.kept().tickets.pop()
    }
}
