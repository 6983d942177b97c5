//! A self-signed certificate for trials (`tls-self-signed`), made at the start and kept in memory.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rcgen::{CertificateParams, DnType, KeyPair, PublicKeyData};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::CertifiedKey;

use super::files::TlsFileError;
use crate::config::remote_server::KeyPin;

/// The names of the certificate.
const NAME: &str = "localhost";

/// Makes a certificate and its key, and logs the pin by which clients may know it.
pub(super) fn make(crypto: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsFileError> {
    let (key, certificate) = certificate().map_err(|error| TlsFileError::Setup(error.to_string()))?;
    if let Ok(pin) = digest(&SHA256, &key.subject_public_key_info()).as_ref().try_into() {
        tracing::warn!(pin = %KeyPin(pin), "TLS has a self-signed certificate, for trials only; each start makes another one");
    }
    let secret = PrivatePkcs8KeyDer::from(key.serialize_der());
    let signer = crypto.key_provider.load_private_key(secret.into());
    let signer = signer.map_err(|error| TlsFileError::Setup(error.to_string()))?;
    Ok(Arc::new(CertifiedKey::new(vec![certificate.der().clone()], signer)))
}

fn certificate() -> Result<(KeyPair, rcgen::Certificate), rcgen::Error> {
    let mut params = CertificateParams::new([NAME.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, "zonda");
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((key, certificate))
}
