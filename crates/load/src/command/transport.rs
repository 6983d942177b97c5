//! `--transport` of the commands that always use a stream, and the names of transports in reports.

use std::net::IpAddr;

use clap::ValueEnum;

use super::CommandError;
use super::tls_tsig::TlsClientArguments;
use crate::tls::{Purpose, TlsConfig};

/// TCP, plain or with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StreamTransport {
    Tcp,
    Tls,
}

impl StreamTransport {
    pub fn name(self) -> &'static str {
        match self {
            StreamTransport::Tcp => "tcp",
            StreamTransport::Tls => "tls",
        }
    }

    /// The TLS configuration for `server`; `None` for TCP.
    pub fn tls(
        self,
        arguments: &TlsClientArguments,
        server: IpAddr,
        purpose: Purpose,
    ) -> Result<Option<TlsConfig>, CommandError> {
        match self {
            StreamTransport::Tcp => arguments.reject_without_tls().map(|()| None),
            StreamTransport::Tls => arguments.config(server, false, purpose).map(Some),
        }
    }
}
