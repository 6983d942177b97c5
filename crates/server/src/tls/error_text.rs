//! The errors of `rustls` in the words of an operator.

use rustls::{AlertDescription, CertificateError, Error, OtherError};

/// A TLS error for an operator.
pub(super) fn describe(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) => {
            format!("the certificate is refused: {cause}")
        }
        Error::InvalidCertificate(reason) => format!("the certificate is refused: {reason}"),
        Error::AlertReceived(AlertDescription::ProtocolVersion) => {
            "the peer does not speak TLS 1.3, which XoT needs (RFC 9103 7.2)".into()
        }
        Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            "the peer does not accept the ALPN `dot` (RFC 9103 7.1)".into()
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the peer requires a certificate (help: set `tls-client-cert` and `tls-client-key`)".into()
        }
        Error::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::AccessDenied),
        ) => format!("the peer refuses this side's certificate ({alert:?})"),
        Error::InvalidMessage(_) => format!("the peer does not speak TLS on this port ({error})"),
        other => format!("TLS: {other}"),
    }
}
