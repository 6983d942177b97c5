//! `--transport` of the commands that always use a connection, and the names of transports in reports.

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

/// TCP, plain or with TLS, or QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConnectionTransport {
    Tcp,
    Tls,
    Quic,
}

impl ConnectionTransport {
    pub fn name(self) -> &'static str {
        match self {
            ConnectionTransport::Tcp => "tcp",
            ConnectionTransport::Tls => "tls",
            ConnectionTransport::Quic => "quic",
        }
    }

    /// The TLS configuration for `server`; `None` for TCP.
    pub fn tls(self, arguments: &TlsClientArguments, server: IpAddr) -> Result<Option<TlsConfig>, CommandError> {
        match self {
            ConnectionTransport::Tcp => StreamTransport::Tcp.tls(arguments, server, Purpose::Queries),
            ConnectionTransport::Tls => StreamTransport::Tls.tls(arguments, server, Purpose::Queries),
            // RFC 9001 4.2: TLS 1.3 alone, as for transfers.
            ConnectionTransport::Quic => StreamTransport::Tls.tls(arguments, server, Purpose::Transfers),
        }
    }
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
