//! The TLS settings of the daemon: read at the start, and again by every reload.

use std::path::Path;
use std::sync::Arc;

use zone::{FilePosition, Finding, Severity};

use super::{ServerTls, ServerTlsFiles, TlsFileError, TlsPeers};
use crate::config::value::FilePath;
use crate::config::{Config, Server};

/// The TLS settings of listeners and of connections to primaries. Clones share them.
#[derive(Clone)]
pub struct DaemonTls {
    server: Option<Arc<ServerTls>>,
    peers: TlsPeers,
}

impl DaemonTls {
    /// Reads the files of the listeners, if there are addresses for TLS.
    pub fn start(server: &Server) -> Result<DaemonTls, TlsFileError> {
        let files = ServerTlsFiles::of(server).filter(|_| !server.listen_tls.is_empty());
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
            config.warnings.push(finding(&error));
        }
        let errors = self.peers.reload(authorities(&config.server));
        config.warnings.extend(errors.iter().map(|error| finding(error)));
        config
    }
}

fn authorities(server: &Server) -> Option<&Path> {
    server.tls_ca.as_ref().map(|FilePath(path)| path.as_path())
}

fn finding(error: &dyn std::error::Error) -> Finding {
    let message = format!("{error}; the previous certificate or key stays in use");
    Finding { severity: Severity::Error, position: FilePosition::default(), message, help: String::new() }
}
