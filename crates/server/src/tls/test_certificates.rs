//! Certificates for tests, in PEM files of a temporary folder. Tests of the daemon include this file, too.

use std::fs;
use std::path::PathBuf;

use data_encoding::BASE64;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;

/// A folder with an authority, and certificates that it signs.
pub(crate) struct TestCertificates {
    folder: TempDir,
    authority: Issuer<'static, KeyPair>,
}

/// The files of a certificate and its key, and its pin.
#[derive(Clone)]
pub(crate) struct CertificateFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// The SHA-256 digest of the public key.
    pub(crate) pin: [u8; 32],
}

impl TestCertificates {
    pub(crate) fn new() -> TestCertificates {
        let key = KeyPair::generate().expect("random numbers");
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let folder = tempfile::tempdir().expect("a folder");
        // Authorities of different tests have different names.
        params.distinguished_name.push(DnType::CommonName, folder.path().display().to_string());
        let certificate = params.self_signed(&key).expect("signed");
        fs::write(folder.path().join("ca.pem"), pem("CERTIFICATE", certificate.der())).expect("written");
        TestCertificates { folder, authority: Issuer::new(params, key) }
    }

    /// The authority's certificate.
    pub(crate) fn authority(&self) -> PathBuf {
        self.path("ca.pem")
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// A certificate of the authority with these names.
    pub(crate) fn issue(&self, file: &str, names: &[&str]) -> CertificateFiles {
        self.write(file, names, |params, key| params.signed_by(key, &self.authority))
    }

    /// One that was valid until 2020.
    pub(crate) fn issue_expired(&self, file: &str, names: &[&str]) -> CertificateFiles {
        self.write(file, names, |mut params, key| {
            (params.not_before, params.not_after) = (date_time_ymd(2019, 1, 1), date_time_ymd(2020, 1, 1));
            params.signed_by(key, &self.authority)
        })
    }

    /// One as `openssl req -x509` makes them: self-signed, and marked as an authority.
    pub(crate) fn self_signed(&self, file: &str, names: &[&str], is_expired: bool) -> CertificateFiles {
        self.write(file, names, |mut params, key| {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            if is_expired {
                (params.not_before, params.not_after) = (date_time_ymd(2019, 1, 1), date_time_ymd(2020, 1, 1));
            }
            params.self_signed(key)
        })
    }

    fn write(
        &self,
        file: &str,
        names: &[&str],
        sign: impl FnOnce(CertificateParams, &KeyPair) -> Result<rcgen::Certificate, rcgen::Error>,
    ) -> CertificateFiles {
        let key = KeyPair::generate().expect("random numbers");
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let certificate = sign(CertificateParams::new(names).expect("names"), &key).expect("signed");
        let files = CertificateFiles {
            certificate: self.path(&format!("{file}.pem")),
            key: self.path(&format!("{file}.key")),
            pin: pin(&rcgen::PublicKeyData::subject_public_key_info(&key)),
        };
        fs::write(&files.certificate, pem("CERTIFICATE", certificate.der())).expect("written");
        fs::write(&files.key, pem("PRIVATE KEY", &key.serialize_der())).expect("written");
        files
    }
}

fn pin(public_key: &[u8]) -> [u8; 32] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, public_key);
    digest.as_ref().try_into().expect("32 octets")
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| str::from_utf8(line).expect("ASCII")).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
