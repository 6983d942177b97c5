//! The TLS configurations of primaries and NOTIFY targets, by the numbers that the transfer thread knows.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::client_config::{ClientTls, TlsError};
use crate::config::remote_server::RemoteTls;

/// All configurations of connections to primaries. Clones share them: the writer adds and reloads, the transfer thread connects.
#[derive(Clone, Default)]
pub struct TlsPeers(Arc<Mutex<Peers>>);

#[derive(Default)]
struct Peers {
    authorities: Option<PathBuf>,
    /// The number is the index plus one. Never removed: there are as many as different TLS settings of primaries.
    peers: Vec<Peer>,
    numbers: HashMap<RemoteTls, u32>,
}

/// The configurations of all peers as a reload has read them.
pub(super) struct ReadPeers {
    authorities: Option<PathBuf>,
    /// By index.
    configs: Vec<Result<ClientTls, TlsError>>,
}

struct Peer {
    remote: RemoteTls,
    /// The configuration, or why there is none.
    config: Result<ClientTls, String>,
}

impl TlsPeers {
    /// No peers yet; `authorities` is the file `tls-ca`.
    pub fn new(authorities: Option<&Path>) -> TlsPeers {
        TlsPeers(Arc::new(Mutex::new(Peers { authorities: authorities.map(Path::to_owned), ..Peers::default() })))
    }

    /// The number of these settings; 0 for none. New settings are read from their files; if that fails, the error is reported
    /// here and by each attempt to connect, until a reload succeeds.
    pub fn number(&self, remote: Option<&RemoteTls>) -> (u32, Result<(), TlsError>) {
        let Some(remote) = remote else { return (0, Ok(())) };
        let mut table = self.lock();
        if let Some(number) = table.numbers.get(remote) {
            return (*number, Ok(()));
        }
        let (config, result) = match ClientTls::read(remote, table.authorities.as_deref()) {
            Ok(config) => (Ok(config), Ok(())),
            Err(error) => (Err(error.to_string()), Err(error)),
        };
        table.peers.push(Peer { remote: remote.clone(), config });
        let number = table.peers.len() as u32;
        table.numbers.insert(remote.clone(), number);
        (number, result)
    }

    /// Reads all files again, for [`TlsPeers::replace`].
    pub(super) fn read_again(&self, authorities: Option<&Path>) -> ReadPeers {
        let remotes: Vec<RemoteTls> = self.lock().peers.iter().map(|peer| peer.remote.clone()).collect();
        // Without the lock: a file that blocks must not delay transfers.
        let configs = remotes.iter().map(|remote| ClientTls::read(remote, authorities)).collect();
        ReadPeers { authorities: authorities.map(Path::to_owned), configs }
    }

    /// Uses what was read. Where that failed or is the same as before, the earlier configuration stays in use, and with it the
    /// sessions to resume. Returns whether a configuration in use was replaced, and the errors.
    pub(super) fn replace(&self, read: ReadPeers) -> (bool, Vec<TlsError>) {
        let mut table = self.lock();
        let Peers { authorities, peers, .. } = &mut *table;
        *authorities = read.authorities;
        let (mut configs, mut is_replaced, mut errors) = (read.configs.into_iter(), false, Vec::new());
        for peer in peers {
            // One that was added since all were read has the former authorities.
            let added = || ClientTls::read(&peer.remote, authorities.as_deref());
            match configs.next().unwrap_or_else(added) {
                Ok(config) => is_replaced |= peer.replace(config),
                Err(error) => {
                    if peer.config.is_err() {
                        peer.config = Err(error.to_string());
                    }
                    errors.push(error);
                }
            }
        }
        (is_replaced, errors)
    }

    /// Reads all files again and uses them, as [`TlsPeers::replace`].
    #[cfg(test)]
    pub(super) fn reload(&self, authorities: Option<&Path>) -> (bool, Vec<TlsError>) {
        self.replace(self.read_again(authorities))
    }

    /// The configuration with this number.
    pub fn config(&self, number: u32) -> Result<ClientTls, String> {
        let peers = &self.lock().peers;
        let peer = (number as usize).checked_sub(1).and_then(|index| peers.get(index));
        peer.map_or_else(|| Err(format!("there are no TLS settings {number}")), |peer| peer.config.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Peers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer {
    /// Uses another configuration. Returns whether open connections may have been authenticated by one that differs.
    fn replace(&mut self, new: ClientTls) -> bool {
        match &self.config {
            Ok(old) if new.has_certificates_of(old) => false,
            old => {
                let was_in_use = old.is_ok();
                self.config = Ok(new);
                was_in_use
            }
        }
    }
}

impl ReadPeers {
    /// Why some cannot be used.
    pub(super) fn into_errors(self) -> Vec<TlsError> {
        self.configs.into_iter().filter_map(Result::err).collect()
    }
}
