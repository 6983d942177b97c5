//! Arguments of the commands that are servers: where they listen.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use clap::{ArgGroup, Args};
use rustls::ServerConfig;

use super::CommandError;
use super::tls_tsig::TlsServerArguments;
use crate::tls::Purpose;

/// Where a server listens. With port 0 the kernel chooses one, which the event `ready` reports.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("encrypted_port").multiple(true))]
pub struct ListenArguments {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS")]
    pub listen: IpAddr,
    /// Port for UDP and TCP; 0: one that the kernel chooses, reported by the event `ready`
    #[arg(long, default_value_t = 53)]
    port: u16,
    /// Port for TLS; 0: one that the kernel chooses
    #[arg(long, value_name = "PORT", group = "encrypted_port")]
    tls_port: Option<u16>,
    #[command(flatten)]
    tls: TlsServerArguments,
}

impl ListenArguments {
    /// The address of UDP and TCP.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.listen, self.port)
    }

    /// The address of TLS with its configuration, if there is a port for it.
    pub fn tls(&self, purpose: Purpose) -> Result<Option<(SocketAddr, Arc<ServerConfig>)>, CommandError> {
        self.with_tls(self.tls_port, purpose)
    }

    /// The address with this port, if there is one, and the TLS configuration.
    pub fn with_tls(
        &self,
        port: Option<u16>,
        purpose: Purpose,
    ) -> Result<Option<(SocketAddr, Arc<ServerConfig>)>, CommandError> {
        let with_config = |port| Ok((SocketAddr::new(self.listen, port), self.tls.config(purpose)?));
        port.map(with_config).transpose()
    }
}
