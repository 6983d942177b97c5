//! The TLS configuration of the listeners, reloaded without closing connections.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ProducesTickets, ServerConnection};
use rustls::sign::SingleCertAndKey;
use webpki::EndEntityCert;
use wire::Name;

use super::certificate_verifier::ClientVerifier;
use super::files::{Authorities, TlsFileError, read_certified_key};
use super::stream::TlsStream;
use super::traffic_secrets::TrafficSecrets;
use super::{ALPN_DOT, VERSIONS, crypto};
use crate::config::Server;
use crate::config::value::FilePath;

/// Names of a client certificate that access lists see: more have no use.
const MAX_CLIENT_NAMES: usize = 64;

/// The files that the listeners need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTlsFiles {
    /// The certificate chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities of client certificates; without them no client certificate is asked for.
    pub authorities: Option<PathBuf>,
}

impl ServerTlsFiles {
    /// The configured files, if there are any.
    pub fn of(server: &Server) -> Option<ServerTlsFiles> {
        let path = |key: &Option<FilePath>| key.as_ref().map(|FilePath(path)| path.clone());
        let (certificate, key) = (path(&server.tls_cert)?, path(&server.tls_key)?);
        Some(ServerTlsFiles { certificate, key, authorities: path(&server.tls_ca) })
    }
}

/// What new connections of all threads are accepted with.
pub struct ServerTls {
    /// Read once per connection, replaced by [`ServerTls::reload`].
    current: RwLock<Current>,
    /// The keys of session tickets (RFC 8446 4.6.1), kept when certificates are replaced. They are made anew every 6 hours.
    ticketer: Arc<dyn ProducesTickets>,
}

#[derive(Clone)]
struct Current {
    config: Arc<ServerConfig>,
    verifier: Option<Arc<ClientVerifier>>,
}

impl ServerTls {
    /// Reads the files.
    pub fn read(files: &ServerTlsFiles) -> Result<ServerTls, TlsFileError> {
        let ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().map_err(setup)?;
        Ok(ServerTls { current: RwLock::new(read(files, &ticketer)?), ticketer })
    }

    /// Reads the files again: new connections use their content, open ones go on. If it fails, all stays as it was.
    pub fn reload(&self, files: &ServerTlsFiles) -> Result<(), TlsFileError> {
        let new = read(files, &self.ticketer)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// The TLS side of a new connection.
    pub fn accept(&self) -> Result<TlsStream, rustls::Error> {
        let secrets = Arc::new(TrafficSecrets::default());
        let mut config = ServerConfig::clone(&self.current().config);
        (config.key_log, config.enable_secret_extraction) = (secrets.clone(), true);
        ServerConnection::new(Arc::new(config)).map(|session| TlsStream::server(session.into(), secrets))
    }

    /// The names of the client's certificate, once after the handshake; none if it has none.
    ///
    /// A resumed session has the certificate of the first one, so it is verified again: it may have expired, or `tls-ca` changed.
    pub fn client_names(&self, stream: &mut TlsStream) -> Box<[Name]> {
        let Some(client) = stream.take_client() else { return Box::default() };
        let [certificate, intermediates @ ..] = &client.certificates[..] else { return Box::default() };
        let is_verified = !client.is_resumed
            || self.current().verifier.is_some_and(|verifier| {
                verifier.verify_client_cert(certificate, intermediates, UnixTime::now()).is_ok()
            });
        if is_verified { dns_names(certificate) } else { Box::default() }
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The DNS names in the subjectAltName of a certificate. Wildcards are left out: a client has one name (RFC 9103 9.3.3: mutual TLS).
fn dns_names(certificate: &CertificateDer<'_>) -> Box<[Name]> {
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return Box::default() };
    let names = certificate.valid_dns_names().filter(|name| !name.starts_with('*'));
    names.filter_map(|name| name.parse().ok()).take(MAX_CLIENT_NAMES).collect()
}

fn read(files: &ServerTlsFiles, ticketer: &Arc<dyn ProducesTickets>) -> Result<Current, TlsFileError> {
    let crypto = crypto();
    let own = read_certified_key(&files.certificate, &files.key, &crypto)?;
    let verifier = |path: &PathBuf| {
        Authorities::read(path).and_then(|all| ClientVerifier::new(all, &crypto).map_err(TlsFileError::Setup))
    };
    let verifier = files.authorities.as_ref().map(verifier).transpose()?.map(Arc::new);
    let builder =
        ServerConfig::builder_with_provider(crypto.clone()).with_protocol_versions(&VERSIONS).map_err(setup)?;
    let builder = match &verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(own)));
    // RFC 9103 7.1: `dot` is selected from what the client offers. A client that offers no ALPN may ask all the same: some
    // send none, as RFC 7858 has none. One that offers others only is refused (RFC 7301 3.2).
    config.alpn_protocols = vec![ALPN_DOT.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = ticketer.clone();
    Ok(Current { config: Arc::new(config), verifier })
}

fn setup(error: rustls::Error) -> TlsFileError {
    TlsFileError::Setup(error.to_string())
}
