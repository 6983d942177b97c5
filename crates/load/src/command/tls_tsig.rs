//! Arguments that say how messages are protected: TLS and TSIG.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use wire::tsig::{Key, KeyError};

use super::Failure;
use crate::tls::{self, Purpose, Tls};

/// Whom a client trusts.
#[derive(Clone, Debug, Args)]
pub struct Trust {
    /// With TLS: the server has a certificate of this file (PEM) or by one of them; without, it is not checked
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// With TLS: the name that the certificate is for, which the server is told; without, it is for its address
    #[arg(long, value_name = "NAME")]
    tls_name: Option<String>,
}

impl Trust {
    /// How connections to `server` begin.
    pub fn tls(&self, server: IpAddr, resumes: bool, purpose: Purpose) -> Result<Tls, Failure> {
        let name = match &self.tls_name {
            Some(name) => ServerName::try_from(name.clone()).map_err(Failure::input(format!("--tls-name {name}")))?,
            None => server.into(),
        };
        let authorities = self.ca.as_deref().map(certificates).transpose()?.unwrap_or_default();
        Tls::new(name, authorities, resumes, purpose).map_err(Failure::input("TLS"))
    }

    /// An error where it was asked for without TLS.
    pub fn needs_tls(&self) -> Result<(), Failure> {
        match self.ca.is_some() || self.tls_name.is_some() {
            true => Err(Failure::Input("--ca and --tls-name need --transport tls".into())),
            false => Ok(()),
        }
    }
}

/// The certificates of a PEM file; there is at least one.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read.map_err(Failure::input(path.display()))? {
        found if found.is_empty() => Err(Failure::Input(format!("{}: no certificate in PEM", path.display()))),
        found => Ok(found),
    }
}

/// What a primary shows over TLS.
#[derive(Clone, Debug, Args)]
pub struct Identity {
    /// With TLS: show this certificate and those above it (PEM); without, one that is made on the spot
    #[arg(long, value_name = "FILE", requires_all = ["key", "tls_port"])]
    cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl Identity {
    /// How a primary begins connections.
    pub fn tls(&self) -> Result<Arc<rustls::ServerConfig>, Failure> {
        let (certificates, key) = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let read = PrivateKeyDer::from_pem_file(key).map_err(Failure::input(key.display()))?;
                (certificates(cert)?, read)
            }
            _ => tls::self_made().map_err(Failure::input("making a certificate"))?,
        };
        tls::primary(certificates, key).map_err(Failure::input("--cert"))
    }
}

/// What messages are signed with.
#[derive(Clone, Debug, Args)]
pub struct Tsig {
    /// Sign with this key, its secret in base64, and verify what comes (TSIG, RFC 8945)
    #[arg(id = "tsig", long = "tsig", value_name = "ALGORITHM:NAME:SECRET", value_parser = key)]
    pub key: Option<Arc<Key>>,
}

fn key(text: &str) -> Result<Arc<Key>, KeyError> {
    text.parse().map(Arc::new)
}
