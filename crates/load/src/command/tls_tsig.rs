//! Arguments for TLS and TSIG.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use wire::tsig::TsigKey;

use super::CommandError;
use crate::tls::{self, Purpose, TlsConfig, TlsOffer};

/// How a client verifies the server.
#[derive(Clone, Debug, Args)]
pub struct TlsClientArguments {
    /// With TLS: verify the server's certificate against the certificates of this file (PEM); without it, do not verify
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// With TLS: the server name to verify, also sent as SNI; without it, verify the address
    #[arg(long, value_name = "NAME")]
    tls_name: Option<String>,
    /// With TLS: offer this version only
    #[arg(long, value_enum, value_name = "VERSION")]
    tls_version: Option<TlsVersion>,
    /// With TLS: offer this cipher suite only, for example TLS_AES_128_GCM_SHA256
    #[arg(long, value_name = "SUITE")]
    tls_cipher: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TlsVersion {
    #[value(name = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    Tls13,
}

impl TlsClientArguments {
    /// The TLS configuration for connections to `server`.
    pub fn config(&self, server: IpAddr, resume: bool, purpose: Purpose) -> Result<TlsConfig, CommandError> {
        let name = match &self.tls_name {
            Some(name) => {
                ServerName::try_from(name.clone()).map_err(CommandError::input(format!("--tls-name {name}")))?
            }
            None => server.into(),
        };
        let authorities = self.ca.as_deref().map(certificates).transpose()?.unwrap_or_default();
        let version = self.tls_version.map(|version| match version {
            TlsVersion::Tls12 => &TLS12,
            TlsVersion::Tls13 => &TLS13,
        });
        let offer = TlsOffer { version, cipher: self.tls_cipher.clone() };
        TlsConfig::new(&offer, name, authorities, resume, purpose).map_err(CommandError::input("TLS"))
    }

    /// An error if an option was given that needs TLS.
    pub fn reject_without_tls(&self) -> Result<(), CommandError> {
        match self.ca.is_some() || self.tls_name.is_some() || self.tls_version.is_some() || self.tls_cipher.is_some() {
            true => {
                Err(CommandError::Input("--ca, --tls-name, --tls-version and --tls-cipher need --transport tls".into()))
            }
            false => Ok(()),
        }
    }
}

/// The certificates of a PEM file; at least one.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CommandError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read.map_err(CommandError::input(path.display()))? {
        found if found.is_empty() => Err(CommandError::Input(format!("{}: no certificate in PEM", path.display()))),
        found => Ok(found),
    }
}

/// The certificate of a TLS server.
#[derive(Clone, Debug, Args)]
pub struct TlsServerArguments {
    /// With TLS or QUIC: the certificate chain of the server (PEM); without it, a self-signed one is generated
    #[arg(long, value_name = "FILE", requires_all = ["key", "encrypted_port"])]
    cert: Option<PathBuf>,
    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl TlsServerArguments {
    /// The TLS configuration of the server.
    pub fn config(&self, purpose: Purpose) -> Result<Arc<rustls::ServerConfig>, CommandError> {
        let (certificates, key) = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let read = PrivateKeyDer::from_pem_file(key).map_err(CommandError::input(key.display()))?;
                (certificates(cert)?, read)
            }
            _ => tls::self_signed().map_err(CommandError::input("generating a certificate"))?,
        };
        tls::server_config(certificates, key, purpose).map_err(CommandError::input("--cert"))
    }
}

/// The TSIG key.
#[derive(Clone, Debug, Args)]
pub struct TsigArguments {
    /// Sign messages with this key and verify responses (TSIG, RFC 8945); the secret is in base64
    #[arg(id = "tsig", long = "tsig", value_name = "ALGORITHM:NAME:SECRET",
        value_parser = |text: &str| text.parse::<TsigKey>().map(Arc::new))]
    pub key: Option<Arc<TsigKey>>,
}
