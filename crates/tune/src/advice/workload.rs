//! What the server shall do, and what is known of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What the server mostly does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers queries over UDP.
    Udp,
    /// Answers queries over many TCP or TLS connections.
    Tcp,
    /// Transfers zones in.
    Secondary,
    /// Transfers zones out.
    Primary,
}

/// The server that the advice is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// This project's.
    Zonda,
    /// NLnet Labs' NSD.
    Nsd,
    /// CZ.NIC's Knot DNS.
    Knot,
    /// ISC's BIND 9.
    Bind,
}

/// What the server shall do.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The server.
    pub server: Server,
    /// What it mostly does.
    pub role: Role,
    /// Concurrent TCP and TLS connections, and as many over QUIC.
    pub connections: u64,
    /// Zones.
    pub zones: u64,
    /// Queries per second, or transfers per minute for a primary or secondary.
    pub rate: Option<u64>,
}

/// What is known of the server; all defaults if nothing is.
#[derive(Clone, Debug, Default)]
pub struct ServerFacts {
    /// UDP sockets that share the queries to one address.
    pub workers: Option<u64>,
    /// Addresses that it listens on.
    pub addresses: u64,
    /// Ports that it listens on, for all transports; empty if they are not known.
    pub ports: BTreeSet<u16>,
    /// Descriptors it needs besides its connections.
    pub reserved: u64,
    /// The receive buffer that it asks for, in octets for each UDP socket.
    pub receive_buffer: Option<u64>,
    /// The connections that it allows itself where its configuration says 0; `None` if that is not known.
    pub derived_limits: Option<DerivedLimits>,
    /// What TLS adds to the memory of an idle connection, in octets; 0 if it does not listen for TLS.
    pub tls_octets: u64,
    /// Its memory of an idle QUIC connection, in octets; 0 if it does not listen for QUIC.
    pub quic_octets: u64,
    /// How long an idle connection stays open, in seconds.
    pub idle_s: u64,
    /// Its own options and their values.
    pub options: BTreeMap<&'static str, String>,
}

/// The limits of connections that a server derives from its host where its configuration has none.
#[derive(Clone, Copy, Debug)]
pub struct DerivedLimits {
    /// TCP and TLS connections: from the limit of open files, the descriptors that it needs besides, and the available memory in octets.
    pub connections: fn(open_files: u64, reserved: u64, memory: u64) -> u64,
    /// QUIC connections: from the available memory in octets.
    pub quic_connections: fn(memory: u64) -> u64,
}

/// Queries per second if none are given: what one busy site of a large operator sees.
const QUERIES_PER_S: u64 = 100_000;

/// The ports of DNS over UDP and TCP (RFC 1035), and over TLS and QUIC (RFC 7858, RFC 9250).
const PORTS: [u16; 2] = [53, 853];

impl ServerFacts {
    /// The ports that it listens on, or those of DNS.
    pub fn dns_ports(&self) -> BTreeSet<u16> {
        if self.ports.is_empty() { PORTS.into() } else { self.ports.clone() }
    }
}

impl Workload {
    /// Queries per second.
    pub fn queries_per_s(&self) -> u64 {
        match self.role {
            Role::Udp | Role::Tcp => self.rate.unwrap_or(QUERIES_PER_S),
            Role::Secondary | Role::Primary => QUERIES_PER_S,
        }
    }

    /// Transfers per minute. Without a rate all zones shall arrive within a minute of a cold start.
    pub fn transfers_per_min(&self) -> u64 {
        match self.role {
            Role::Udp | Role::Tcp => 0,
            Role::Secondary | Role::Primary => self.rate.unwrap_or(self.zones),
        }
    }
}

impl Server {
    /// The name of its process and of its systemd unit.
    pub fn process(self) -> (&'static str, &'static str) {
        match self {
            Server::Zonda => ("zonda", "zonda"),
            Server::Nsd => ("nsd", "nsd"),
            Server::Knot => ("knotd", "knot"),
            Server::Bind => ("named", "named"),
        }
    }

    /// Whether it raises its soft limit of open files to the hard one when it starts.
    pub fn raises_open_files(self) -> bool {
        matches!(self, Server::Zonda | Server::Bind)
    }

    /// The name that the records of the lab use.
    pub fn name(self) -> &'static str {
        match self {
            Server::Zonda => "zonda",
            Server::Nsd => "nsd",
            Server::Knot => "knot",
            Server::Bind => "bind",
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Server::Zonda => "Zonda",
            Server::Nsd => "NSD",
            Server::Knot => "Knot DNS",
            Server::Bind => "BIND 9",
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Role::Udp => "udp",
            Role::Tcp => "tcp",
            Role::Secondary => "secondary",
            Role::Primary => "primary",
        })
    }
}
