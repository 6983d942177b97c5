//! The TLS settings of the daemon: read at the start, and again by every reload.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use zone::{FilePosition, Finding, Severity};

use super::{ServerTls, ServerTlsFiles, TlsError, TlsFileError, TlsPeers};
use crate::config::value::FilePath;
use crate::config::{Config, Server};

/// The TLS settings of listeners and of connections to primaries. Clones share them.
#[derive(Clone)]
pub struct DaemonTls {
    server: Option<Arc<ServerTls>>,
    peers: TlsPeers,
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

    /// Reads all files again. What cannot be used becomes an error in the report of the reload, and its predecessor stays in
    /// use; zones are reloaded all the same.
    pub fn reload(&self, mut config: Config) -> Config {
        let files = ServerTlsFiles::of(&config.server);
        if let (Some(server), Some(files)) = (&self.server, files)
            && let Err(error) = server.reload(&files)
        {
            config.warnings.push(kept(finding(error.into())));
        }
        let errors = self.peers.reload(authorities(&config.server));
        config.warnings.extend(errors.into_iter().map(|error| kept(finding(error))));
        config
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

/// Why a reload could not read the files of the listeners, for the user that the daemon has become: it read them as root.
pub fn check_after_start(server: &Server) -> Option<Finding> {
    let finding = DaemonTls::start(server).err().map(|error| finding(error.into()))?;
    let message = format!("{}; it was read as root, but reloads will fail", finding.message);
    Some(Finding { severity: Severity::Warning, message, ..finding })
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

/// A finding of a reload.
fn kept(finding: Finding) -> Finding {
    let message = format!("{}; what was read before stays in use", finding.message);
    Finding { severity: Severity::Error, message, ..finding }
}
