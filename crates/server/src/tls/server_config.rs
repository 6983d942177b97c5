//! The TLS configuration of the listeners, reloaded without closing connections.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, ProducesTickets, ServerConnection, StoresServerSessions};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use wire::Name;

use super::certificate_verifier::ClientVerifier;
use super::client_certificate::ClientCertificate;
use super::files::{Authorities, TlsFileError, read_certified_key};
use super::stream::TlsStream;
use super::ticket_keys::TicketKeys;
use super::traffic_secrets::TrafficSecrets;
use super::{ALPN_DOT, VERSIONS, crypto, quic_config, self_signed};
use crate::config::Server;
use crate::config::value::FilePath;

/// The files that the listeners need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTlsFiles {
    /// The server's own certificate.
    pub own: OwnCertificate,
    /// Authorities of client certificates; without them no client certificate is asked for.
    pub authorities: Option<PathBuf>,
    /// The keys of session tickets that several servers share; without them this server makes its own.
    pub ticket_keys: Option<PathBuf>,
}

/// Where the server's own certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnCertificate {
    /// Made at the start, for trials.
    SelfSigned,
    /// From files.
    Files {
        /// The certificate chain, the server's own certificate first.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
}

impl ServerTlsFiles {
    /// The configured files, if there are any.
    pub fn of(server: &Server) -> Option<ServerTlsFiles> {
        let path = |key: &Option<FilePath>| key.as_ref().map(|FilePath(path)| path.clone());
        let own = match server.tls_self_signed {
            true => OwnCertificate::SelfSigned,
            false => OwnCertificate::Files { certificate: path(&server.tls_cert)?, key: path(&server.tls_key)? },
        };
        Some(ServerTlsFiles { own, authorities: path(&server.tls_ca), ticket_keys: path(&server.tls_ticket_keys) })
    }
}

/// What new connections of all threads are accepted with.
pub struct ServerTls {
    /// Read once per connection, replaced by [`ServerTls::replace`].
    current: RwLock<ServerTlsSettings>,
    kept: Kept,
}

/// What reloads keep.
struct Kept {
    /// The keys of session tickets (RFC 8446 4.6.1) where there is no file of keys. They are made anew every 6 hours.
    ticketer: Arc<dyn ProducesTickets>,
    /// The certificate for trials, once it is made.
    self_signed: OnceLock<Arc<CertifiedKey>>,
    /// The sessions of QUIC clients, kept as the keys are.
    quic_sessions: Arc<dyn StoresServerSessions>,
}

/// The settings of new connections, as read from the files.
#[derive(Clone)]
pub(super) struct ServerTlsSettings {
    config: Arc<ServerConfig>,
    quic: Arc<ServerConfig>,
    verifier: Option<Arc<ClientVerifier>>,
}

impl ServerTls {
    /// Reads the files.
    pub fn read(files: &ServerTlsFiles) -> Result<ServerTls, TlsFileError> {
        let ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().map_err(setup)?;
        let kept = Kept { ticketer, self_signed: OnceLock::new(), quic_sessions: quic_config::sessions() };
        Ok(ServerTls { current: RwLock::new(read(files, &kept)?), kept })
    }

    /// Reads the files again, for [`ServerTls::replace`].
    pub(super) fn read_again(&self, files: &ServerTlsFiles) -> Result<ServerTlsSettings, TlsFileError> {
        read(files, &self.kept)
    }

    /// New connections use these settings, open ones go on.
    pub(super) fn replace(&self, new: ServerTlsSettings) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// Reads the files again and uses them.
    #[cfg(test)]
    pub(crate) fn reload(&self, files: &ServerTlsFiles) -> Result<(), TlsFileError> {
        self.read_again(files).map(|new| self.replace(new))
    }

    /// The TLS side of a new connection.
    pub fn accept(&self) -> Result<TlsStream, rustls::Error> {
        let secrets = Arc::new(TrafficSecrets::default());
        let mut config = ServerConfig::clone(&self.current().config);
        (config.key_log, config.enable_secret_extraction) = (secrets.clone(), true);
        ServerConnection::new(Arc::new(config)).map(|session| TlsStream::server(session.into(), secrets))
    }

    /// The TLS side of new QUIC connections: the same value until a reload.
    pub fn quic(&self) -> Arc<ServerConfig> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).quic.clone()
    }

    /// The certificate chain that a client proved to have, in this handshake or in an earlier session.
    ///
    /// It is verified here in any case: it may have expired since the session, or a reload changed `tls-ca` since the handshake began.
    pub fn client_certificate(&self, chain: Box<[CertificateDer<'static>]>) -> Box<ClientCertificate> {
        Box::new(ClientCertificate::new(chain, self.current().verifier))
    }

    /// The names of a client, from its certificate. After a reload they are verified again, so that open connections have no rights that
    /// new ones do not get.
    pub fn client_names<'c>(&self, client: &'c mut ClientCertificate) -> &'c [Name] {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        if !client.is_verified_by(current.verifier.as_ref()) {
            client.verify_again(current.verifier.clone());
        }
        client.names()
    }

    fn current(&self) -> ServerTlsSettings {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Kept {
    fn self_signed(&self, crypto: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsFileError> {
        if self.self_signed.get().is_none() {
            // Only one thread reads files.
            _ = self.self_signed.set(self_signed::make(crypto)?);
        }
        Ok(self.self_signed.get().expect("it was just made").clone())
    }
}

fn read(files: &ServerTlsFiles, kept: &Kept) -> Result<ServerTlsSettings, TlsFileError> {
    let crypto = crypto();
    let own = match &files.own {
        OwnCertificate::Files { certificate, key } => read_certified_key(certificate, key, &crypto)?,
        OwnCertificate::SelfSigned => kept.self_signed(&crypto)?,
    };
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
    // RFC 9539 3.2: clients need not authenticate it. 3.3: the same certificate for every name in SNI, and without one.
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(own)));
    // Clients mostly put AES-256 first, which costs a handshake a tenth more (see `crypto`).
    config.ignore_client_order = true;
    // RFC 9103 7.1: `dot` is selected from what the client offers. A client that offers no ALPN may ask all the same: some
    // send none, as RFC 7858 has none. One that offers others only is refused (RFC 7301 3.2).
    config.alpn_protocols = vec![ALPN_DOT.to_vec()];
    // RFC 8446 C.4: a ticket is used once, and a client of DNS over TLS needs one connection. RFC 8310 9: resumption needs no state here.
    config.send_tls13_tickets = 1;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = match &files.ticket_keys {
        Some(path) => Arc::new(TicketKeys::read(path)?),
        None => kept.ticketer.clone(),
    };
    let quic = quic_config::for_quic(&config, kept.quic_sessions.clone());
    Ok(ServerTlsSettings { config: Arc::new(config), quic: Arc::new(quic), verifier })
}

fn setup(error: rustls::Error) -> TlsFileError {
    TlsFileError::Setup(error.to_string())
}
