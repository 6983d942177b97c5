//! The TLS settings of the daemon: read at the start, and again by every reload.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use zone::{FilePosition, Finding, Severity};

use super::peers::ReadPeers;
use super::server_config::ServerTlsSettings;
use super::{ServerTls, ServerTlsFiles, TlsError, TlsFileError, TlsPeers};
use crate::config::value::FilePath;
use crate::config::{Config, Server};

/// The TLS settings of listeners and of connections to primaries. Clones share them.
#[derive(Clone)]
pub struct DaemonTls {
    server: Option<Arc<ServerTls>>,
    peers: TlsPeers,
}

/// What a reload has read of all files, and whether it can be used. Nothing uses it before [`DaemonTls::replace`].
pub struct ReadTls {
    server: Result<Option<ServerTlsSettings>, TlsFileError>,
    peers: ReadPeers,
}

/// The result of [`DaemonTls::replace`].
pub struct ReplacedTls {
    /// Whether open connections to primaries may have been authenticated by what is no longer in use.
    pub are_peers_changed: bool,
    /// What could not be used.
    pub findings: Vec<Finding>,
}

impl DaemonTls {
    /// Reads the files of the listeners, if there are addresses for TLS or QUIC.
    pub fn start(server: &Server) -> Result<DaemonTls, TlsFileError> {
        let listens = !server.listen_tls.is_empty() || !server.listen_quic.is_empty();
        let files = ServerTlsFiles::of(server).filter(|_| listens);
        let read = files.map(|files| ServerTls::read(&files).map(Arc::new)).transpose()?;
        Ok(DaemonTls { server: read, peers: TlsPeers::new(authorities(server)) })
    }

    /// What the listeners accept connections with.
    pub fn server(&self) -> Option<&Arc<ServerTls>> {
        self.server.as_ref()
    }

    /// The settings of connections to primaries.
    pub fn peers(&self) -> &TlsPeers {
        &self.peers
    }

    /// Reads all files again.
    pub fn read_again(&self, server: &Server) -> ReadTls {
        ReadTls { server: self.read_server(server), peers: self.peers.read_again(authorities(server)) }
    }

    /// Why a reload could not read the files of the listeners, for the user that the daemon has become: it read them as root.
    pub fn check_after_start(&self, server: &Server) -> Option<Finding> {
        let finding = self.read_server(server).err().map(|error| finding(error.into()))?;
        let message = format!("{}; it was read as root, but reloads will fail", finding.message);
        Some(Finding { severity: Severity::Warning, message, ..finding })
    }

    /// Reads the files of the listeners again, if there are any.
    fn read_server(&self, server: &Server) -> Result<Option<ServerTlsSettings>, TlsFileError> {
        let files = ServerTlsFiles::of(server);
        self.server.as_ref().zip(files).map(|(server, files)| server.read_again(&files)).transpose()
    }

    /// Uses what was read. What cannot be used becomes an error in the report of the reload, and its predecessor stays in
    /// use; zones are reloaded all the same.
    pub fn replace(&self, read: ReadTls) -> ReplacedTls {
        let of_server = match (&self.server, read.server) {
            (Some(server), Ok(Some(new))) => {
                server.replace(new);
                None
            }
            (_, read) => read.err(),
        };
        let (are_peers_changed, of_peers) = self.peers.replace(read.peers);
        ReplacedTls { are_peers_changed, findings: kept(of_server, of_peers) }
    }
}

impl ReadTls {
    /// What cannot be used, for the report of a reload that is refused for another reason.
    pub fn into_findings(self) -> Vec<Finding> {
        kept(self.server.err(), self.peers.into_errors())
    }
}

/// What is wrong with the TLS files of a configuration: those of the listeners, of `primaries` and of `notify`. A file that the
/// user may not read is a warning: the daemon's user may.
pub fn check(config: &Config) -> Vec<Finding> {
    let of_server = DaemonTls::start(&config.server).err().map(|error| finding(error.into()));
    let peers = TlsPeers::new(authorities(&config.server));
    let mut seen = HashSet::new();
    let policies = config.zones.iter().map(|zone| &zone.source.policy);
    let remotes = policies
        .filter(|policy| seen.insert(Arc::as_ptr(policy)))
        .flat_map(|policy| policy.primaries.iter().chain(&policy.notify));
    let of_peers = remotes.filter_map(|remote| peers.number(remote.tls.as_ref()).1.err()).map(finding);
    of_server.into_iter().chain(of_peers).collect()
}

fn authorities(server: &Server) -> Option<&Path> {
    server.tls_ca.as_ref().map(|FilePath(path)| path.as_path())
}

fn finding(error: TlsError) -> Finding {
    let is_unreadable = matches!(
        &error,
        TlsError::File(TlsFileError::Unreadable { source, .. }) if source.kind() == ErrorKind::PermissionDenied
    );
    let severity = if is_unreadable { Severity::Warning } else { Severity::Error };
    Finding { severity, position: FilePosition::default(), message: error.to_string(), help: String::new() }
}

/// The findings of a reload.
fn kept(of_server: Option<TlsFileError>, of_peers: Vec<TlsError>) -> Vec<Finding> {
    let findings = of_server.map(TlsError::from).into_iter().chain(of_peers).map(finding);
    let kept = |finding: Finding| {
        let message = format!("{}; what was read before stays in use", finding.message);
        Finding { severity: Severity::Error, message, ..finding }
    };
    findings.map(kept).collect()
}
