//! TLS for DNS over TLS (RFC 7858) and zone transfers over TLS (RFC 9103).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
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
    SupportedCipherSuite, SupportedProtocolVersion,
};

/// The ALPN of DNS over TLS (RFC 9103 7.1). It is offered but not required, since NSD 4.6 does not select it.
const ALPN_DOT: &[u8] = b"dot";
/// The ALPN of DNS over QUIC (RFC 9250 4.1.1).
const ALPN_DOQ: &[u8] = b"doq";
/// The size of the session cache: enough for all connections that may open at once.
const MAX_TICKETS: usize = 4096;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Queries.
    Queries,
    /// Zone transfers, which need TLS 1.3 (RFC 9103 7.2).
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

/// What a client offers, of all that it could.
#[derive(Clone, Debug, Default)]
pub struct TlsOffer {
    /// The only version; `None` for all that the purpose allows.
    pub version: Option<&'static SupportedProtocolVersion>,
    /// The only cipher suite, by its IANA name; `None` for all.
    pub cipher: Option<String>,
}

impl TlsOffer {
    fn versions(&self, purpose: Purpose) -> Result<Vec<&'static SupportedProtocolVersion>, Error> {
        let allowed = purpose.versions().iter().copied();
        let versions: Vec<_> = allowed.filter(|&version| self.version.is_none_or(|only| only == version)).collect();
        if versions.is_empty() {
            Err(Error::General("transfers need TLS 1.3 (RFC 9103 7.2)".into()))
        } else {
            Ok(versions)
        }
    }

    fn suites(&self, all: Vec<SupportedCipherSuite>) -> Result<Vec<SupportedCipherSuite>, Error> {
        let Some(wanted) = &self.cipher else { return Ok(all) };
        let names: Vec<String> = all.iter().map(iana_name).collect();
        match names.iter().position(|name| name == wanted) {
            Some(index) => Ok(vec![all[index]]),
            None => Err(Error::General(format!("no cipher suite {wanted}; there are {}", names.join(", ")))),
        }
    }
}

/// `rustls` marks the suites of TLS 1.3 in their names.
fn iana_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
}

/// The TLS configuration of a client, for one server.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    config: Arc<ClientConfig>,
    verifier: Arc<CertificateVerifier>,
    server_name: ServerName<'static>,
}

impl TlsConfig {
    /// The server's certificate must be valid for `server_name` and issued by one of `authorities`; without authorities
    /// it is not verified. `resume` turns session resumption on.
    pub fn new(
        offer: &TlsOffer,
        server_name: ServerName<'static>,
        authorities: Vec<CertificateDer<'static>>,
        resume: bool,
        purpose: Purpose,
    ) -> Result<TlsConfig, Error> {
        let mut provider = aws_lc_rs::default_provider();
        provider.cipher_suites = offer.suites(provider.cipher_suites)?;
        let provider = Arc::new(provider);
        // The first random number takes about 40 ms, which must not be measured as handshake latency.
        provider.secure_random.fill(&mut [0; 32]).map_err(|_| Error::FailedToGetRandomBytes)?;
        let verifier = Arc::new(CertificateVerifier::new(authorities, &provider)?);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&offer.versions(purpose)?)?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN_DOT.to_vec()];
        config.resumption = match resume {
            true => Resumption::store(Arc::new(SessionCache::default())),
            false => Resumption::disabled(),
        };
        Ok(TlsConfig { config: Arc::new(config), verifier, server_name })
    }

    /// The same for DNS over QUIC. The purpose must be [`Purpose::Transfers`], which has TLS 1.3 alone.
    pub fn quic(&self) -> Result<QuicClientConfig, NoInitialCipherSuite> {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![ALPN_DOQ.to_vec()];
        config.try_into()
    }

    /// How many handshakes have had the server's certificate: full ones, as those that resume a session have none.
    pub fn full_handshakes(&self) -> u64 {
        self.verifier.verified.load(Ordering::Relaxed)
    }

    /// The name to verify, or the address.
    pub fn server_name(&self) -> String {
        self.server_name.to_str().into_owned()
    }

    /// A session for a new connection.
    pub fn new_session(&self) -> Result<ClientConnection, Error> {
        ClientConnection::new(self.config.clone(), self.server_name.clone())
    }
}

/// The TLS configuration of a server, from its certificate chain and key.
pub fn server_config(
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    purpose: Purpose,
) -> Result<Arc<ServerConfig>, Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(purpose.versions())?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![ALPN_DOT.to_vec()];
    if purpose == Purpose::Queries {
        // Stateless: clients resume however many connections there have been.
        config.ticketer = aws_lc_rs::Ticketer::new()?;
    }
    Ok(Arc::new(config))
}

/// The same for DNS over QUIC.
pub fn quic_server_config(tls: &ServerConfig) -> Result<Arc<quinn_proto::ServerConfig>, NoInitialCipherSuite> {
    let mut config = tls.clone();
    config.alpn_protocols = vec![ALPN_DOQ.to_vec()];
    Ok(Arc::new(quinn_proto::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(config)?))))
}

/// A self-signed certificate for `localhost`, with its key.
pub fn self_signed() -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), rcgen::Error> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}

//----------- CertificateVerifier ----------------------------------------------

/// Verifies certificates as `rustls` does, with two differences: without authorities it accepts any certificate, and an
/// authority may itself be the server's certificate, like those that `openssl req -x509` makes.
#[derive(Debug)]
struct CertificateVerifier {
    authorities: Vec<CertificateDer<'static>>,
    /// `None` to accept any certificate.
    inner: Option<Arc<WebPkiServerVerifier>>,
    schemes: Vec<SignatureScheme>,
    /// Certificates that were to be verified.
    verified: AtomicU64,
}

impl CertificateVerifier {
    fn new(
        authorities: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<CertificateVerifier, Error> {
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.clone())?;
        }
        let verifier = |roots| WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        let inner = (!authorities.is_empty()).then(|| verifier(roots)).transpose();
        Ok(CertificateVerifier {
            authorities,
            inner: inner.map_err(|error| Error::General(error.to_string()))?,
            schemes: provider.signature_verification_algorithms.supported_schemes(),
            verified: AtomicU64::new(0),
        })
    }
}

impl CertificateVerifier {
    fn verify_signature(
        &self,
        verify: impl FnOnce(&WebPkiServerVerifier) -> Result<HandshakeSignatureValid, Error>,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.as_deref().map_or(Ok(HandshakeSignatureValid::assertion()), verify)
    }
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verified.fetch_add(1, Ordering::Relaxed);
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
        self.verify_signature(|inner| inner.verify_tls12_signature(message, certificate, signature))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(|inner| inner.verify_tls13_signature(message, certificate, signature))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

//----------- SessionCache -----------------------------------------------------

/// The sessions of one server. The cache of `rustls` holds eight tickets, fewer than connections open at once.
#[derive(Default)]
struct SessionCache(Mutex<CachedSessions>);

#[derive(Default)]
struct CachedSessions {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    /// Each is used once (RFC 8446 C.4).
    tickets: Vec<Tls13ClientSessionValue>,
}

impl SessionCache {
    fn lock(&self) -> MutexGuard<'_, CachedSessions> {
        self.0.lock().expect("no panic while it is locked")
    }
}

impl fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionCache({} tickets)", self.lock().tickets.len())
    }
}

impl ClientSessionStore for SessionCache {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.lock().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.lock().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.lock().tls12 = Some(session);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.lock().tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.lock().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let tickets = &mut self.lock().tickets;
        if tickets.len() < MAX_TICKETS {
            tickets.push(ticket);
        }
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        // The newest, which is valid longest.
        self.lock().tickets.pop()
    }
}
