//! Reads certificates and keys from PEM files; the errors name the file and say what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore};

use crate::input;
use crate::printable::printable_path;

/// Larger files are refused: all authorities of a system take 250 KB.
const MAX_FILE_LEN: u64 = 16 << 20;

/// The most octets of the Certificate message of a handshake (RFC 8446 4.4.2). `rustls` has 64 KiB for it with what surrounds it, and
/// OpenSSL takes 100 KiB.
const MAX_CHAIN_LEN: usize = 60_000;

/// A certificate or key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFileError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}{}", printable_path(.path), unreadable_help(.source))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The file is not PEM.
    #[error("{} is not a PEM file: {reason}", printable_path(.path))]
    NotPem {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file holds no certificate.
    #[error("{} contains no certificate (help: it must have a line `-----BEGIN CERTIFICATE-----`)", printable_path(.0))]
    NoCertificate(PathBuf),
    /// The chain is longer than what others accept.
    #[error(
        "the certificates in {} are too long for a handshake: clients accept {MAX_CHAIN_LEN} octets (help: keep only the \
         server's own certificate and the intermediate ones)",
        printable_path(.0)
    )]
    LongChain(PathBuf),
    /// The file holds no usable key.
    #[error(
        "{} contains no private key that can be used (help: an encrypted key is decrypted by `openssl pkey -in KEY -out NEW`)",
        printable_path(.0)
    )]
    NoKey(PathBuf),
    /// A certificate is malformed or of a kind that is not supported.
    #[error("the certificate in {} cannot be used: {source}", printable_path(.path))]
    BadCertificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
    /// The key is malformed or of a kind that is not supported.
    #[error("the private key in {} cannot be used: {source}", printable_path(.path))]
    BadKey {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
    /// The key is another certificate's.
    #[error(
        "the private key in {} does not belong to the first certificate in {} (help: the server's own certificate comes first)",
        printable_path(.key), printable_path(.certificate)
    )]
    KeyMismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// A line of the keys of session tickets is no key, or one too many.
    #[error(
        "line {line} of {} is not the base64 of 32 octets, or the 17th key (help: `openssl rand -base64 32` makes a key)",
        printable_path(.path)
    )]
    BadTicketKey {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// There are no keys of session tickets.
    #[error("{} contains no key (help: `openssl rand -base64 32` makes one)", printable_path(.0))]
    NoTicketKey(PathBuf),
    /// Something that does not depend on the files.
    #[error("cannot set up TLS: {0}")]
    Setup(String),
}

fn unreadable_help(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (help: the user that zonda runs as must be able to read it)",
        _ => "",
    }
}

/// The certificate chain and its key, which belong together.
pub(super) fn read_certified_key(
    certificate: &Path,
    key: &Path,
    crypto: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsFileError> {
    let chain = read_certificates(certificate)?;
    // With the lengths of the list, of each certificate and of its extensions.
    let chain_len: usize = 4 + chain.iter().map(|certificate| 5 + certificate.len()).sum::<usize>();
    if chain_len > MAX_CHAIN_LEN {
        return Err(TlsFileError::LongChain(certificate.to_owned()));
    }
    let key_der = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|source| match source {
        pem::Error::NoItemsFound => TlsFileError::NoKey(key.to_owned()),
        error => not_pem(key, &error),
    })?;
    let bad_key = |source| TlsFileError::BadKey { path: key.to_owned(), source };
    let signer = crypto.key_provider.load_private_key(key_der).map_err(bad_key)?;
    let certified = CertifiedKey::new(chain, signer);
    match certified.keys_match() {
        // Unknown: the kind of key does not reveal its public part.
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(Arc::new(certified)),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(TlsFileError::KeyMismatch { certificate: certificate.to_owned(), key: key.to_owned() })
        }
        Err(source) => Err(TlsFileError::BadCertificate { path: certificate.to_owned(), source }),
    }
}

/// The authorities to trust: the certificates of the file, and the same as roots of chains.
#[derive(Debug)]
pub(super) struct Authorities {
    pub(super) certificates: Vec<CertificateDer<'static>>,
    pub(super) roots: Arc<RootCertStore>,
}

impl Authorities {
    pub(super) fn read(path: &Path) -> Result<Authorities, TlsFileError> {
        let certificates = read_certificates(path)?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            let bad = |source| TlsFileError::BadCertificate { path: path.to_owned(), source };
            roots.add(certificate.clone()).map_err(bad)?;
        }
        Ok(Authorities { certificates, roots: Arc::new(roots) })
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let text = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(TlsFileError::NoCertificate(path.to_owned())),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(not_pem(path, &error)),
    }
}

/// `pem`'s own messages show octets as numbers.
fn not_pem(path: &Path, error: &pem::Error) -> TlsFileError {
    let reason = match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!("the line `-----END {}-----` is missing", end_marker.escape_ascii())
        }
        pem::Error::IllegalSectionStart { line } => {
            format!("there is no section that begins with `{}`", line.escape_ascii())
        }
        error => error.to_string(),
    };
    TlsFileError::NotPem { path: path.to_owned(), reason }
}

/// Pipes are refused: one without a writer would block this reload and all later ones.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, TlsFileError> {
    input::read_at_most(path, MAX_FILE_LEN).map_err(|source| TlsFileError::Unreadable { path: path.to_owned(), source })
}
