//! Files that are read again: certificates, authorities and ticket keys, while connections go on.

use std::fs;

use rustls::HandshakeKind;

use super::test_certificates::TestCertificates;
use super::tests::{client, connect, failure, mutual, pinned, server, server_files, strict};
use super::{OwnCertificate, ServerTls, ServerTlsFiles, TlsError, TlsFileError, TlsPeers};
use crate::config::remote_server::RemoteTls;

#[test]
fn certificates_are_reloaded_for_new_connections_while_old_ones_go_on() {
    let certificates = TestCertificates::new();
    let first = certificates.issue("server", &["ns1.example.net"]);
    let server = server(&certificates, &first);
    let (mut at_client, mut at_server) =
        connect(&client(&certificates, &pinned(first.pin)), &server).expect("a handshake");

    let second = certificates.issue("server", &["ns1.example.net"]);
    assert!(failure(&certificates, &pinned(second.pin), &server).is_some(), "not reloaded yet");
    let files = server_files(&certificates, &second);
    server.reload(&files).expect("the files of the test");
    assert_eq!(failure(&certificates, &pinned(second.pin), &server), None);
    assert!(failure(&certificates, &pinned(first.pin), &server).is_some());

    at_client.send(b"a question");
    at_server.take(&mut at_client, usize::MAX).expect("still open");
    assert_eq!(at_server.received, b"a question");

    fs::write(&second.key, "nonsense").expect("written");
    assert!(server.reload(&files).is_err());
    assert_eq!(failure(&certificates, &pinned(second.pin), &server), None, "the last good certificate stays");
}

/// Open connections must not have names that new ones do not get.
#[test]
fn a_certificate_is_verified_again_after_a_reload_unless_its_chain_is_long() {
    let certificates = TestCertificates::new();
    let files = server_files(&certificates, &certificates.issue("server", &["ns1.example.net"]));
    let server = ServerTls::read(&files).expect("the files of the test");
    let own = certificates.issue("client", &["secondary.example.net"]);
    let text = fs::read_to_string(&own.certificate).expect("a certificate");
    for (copies, names_after) in [(1, 1), (40, 0)] {
        fs::write(&own.certificate, text.repeat(copies)).expect("written");
        let (_, mut at_server) = connect(&client(&certificates, &mutual(&own)), &server).expect("a handshake");
        let chain = at_server.stream.take_client().expect("a certificate");
        let mut seen = server.client_certificate(chain);
        assert_eq!(server.client_names(&mut seen).len(), 1);
        server.reload(&files).expect("the files of the test");
        assert_eq!(server.client_names(&mut seen).len(), names_after, "{copies} certificates");
    }
}

#[test]
fn a_self_signed_certificate_for_trials_stays_the_same_when_files_are_reloaded() {
    let certificates = TestCertificates::new();
    let files = ServerTlsFiles { own: OwnCertificate::SelfSigned, authorities: None, ticket_keys: None };
    let server = ServerTls::read(&files).expect("no files");
    let pin = || {
        let error = failure(&certificates, &pinned([7; 32]), &server).expect("another key");
        error.split_once("sha256/").map(|(_, pin)| pin[..44].to_owned()).expect("the pin of the server")
    };
    let before = pin();
    server.reload(&files).expect("no files");
    assert_eq!(pin(), before);
    assert_eq!(failure(&certificates, &RemoteTls::default(), &server), None);
}

#[test]
fn rfc_8446_4_6_1_servers_with_the_same_ticket_keys_resume_each_others_sessions() {
    let certificates = TestCertificates::new();
    let key = |octet| data_encoding::BASE64.encode(&[octet; 32]) + "\n";
    let path = certificates.path("tickets.keys");
    fs::write(&path, key(1)).expect("written");
    let mut files = server_files(&certificates, &certificates.issue("server", &["ns1.example.net"]));
    files.ticket_keys = Some(path.clone());
    let servers = [ServerTls::read(&files).expect("files"), ServerTls::read(&files).expect("files")];
    let client = client(&certificates, &RemoteTls::default());
    let kind = |server: &ServerTls| {
        let (at_client, _) = connect(&client, server).expect("a handshake");
        at_client.stream.session().expect("a client").handshake_kind()
    };
    assert_eq!(kind(&servers[0]), Some(HandshakeKind::Full));
    assert_eq!(kind(&servers[1]), Some(HandshakeKind::Resumed));
    // A new key first; then the old one goes.
    for (text, expected) in [(key(2) + &key(1), HandshakeKind::Resumed), (key(3) + &key(2), HandshakeKind::Resumed)] {
        fs::write(&path, text).expect("written");
        servers[1].reload(&files).expect("files");
        assert_eq!(kind(&servers[1]), Some(expected));
    }
    fs::write(&path, key(4)).expect("written");
    servers[1].reload(&files).expect("files");
    assert_eq!(kind(&servers[1]), Some(HandshakeKind::Full));
}

#[test]
fn a_peer_without_settings_gets_them_by_a_reload() {
    let certificates = TestCertificates::new();
    let peers = TlsPeers::new(Some(&certificates.path("missing.pem")));
    let remote = strict("ns1.example.net.");
    let (number, result) = peers.number(Some(&remote));
    assert!(matches!(result, Err(TlsError::File(TlsFileError::Unreadable { .. }))));
    assert!(peers.config(number).is_err_and(|error| error.contains("missing.pem")));
    assert_eq!(peers.reload(Some(&certificates.path("missing.pem"))).1.len(), 1);
    assert!(peers.reload(Some(&certificates.authority())).1.is_empty());
    assert!(peers.config(number).is_ok());
    // A failing reload keeps the configuration.
    let (is_replaced, errors) = peers.reload(Some(&certificates.path("missing.pem")));
    assert_eq!((is_replaced, errors.len()), (false, 1));
    assert!(peers.config(number).is_ok());
    assert_eq!(peers.number(Some(&remote)).0, number);
}

/// What open connections were authenticated with stays as it is unless a certificate has changed.
#[test]
fn a_reload_replaces_the_settings_of_a_peer_if_a_certificate_has_changed() {
    let (certificates, others) = (TestCertificates::new(), TestCertificates::new());
    let primary = server(&certificates, &certificates.issue("server", &["ns1.example.net"]));
    let own = certificates.issue("own", &["secondary.example.net"]);
    let peers = TlsPeers::new(Some(&certificates.authority()));
    let by_name = peers.number(Some(&strict("ns1.example.net."))).0;
    let by_certificate = peers.number(Some(&mutual(&own))).0;
    let reload = || {
        let (is_replaced, errors) = peers.reload(Some(&certificates.authority()));
        assert!(errors.is_empty(), "{errors:?}");
        is_replaced
    };
    let kind = || {
        let settings = peers.config(by_name).expect("settings");
        let (at_client, _) = connect(&settings, &primary).expect("a handshake");
        at_client.stream.session().expect("a client").handshake_kind()
    };
    assert_eq!(kind(), Some(HandshakeKind::Full));
    assert!(!reload());
    assert_eq!(kind(), Some(HandshakeKind::Resumed), "the session is still known");
    let ca = fs::read_to_string(certificates.authority()).expect("a certificate");
    fs::write(certificates.authority(), format!("# a comment\n{ca}")).expect("written");
    assert!(!reload(), "the certificates are the same");
    let more = fs::read_to_string(others.authority()).expect("a certificate");
    fs::write(certificates.authority(), ca + &more).expect("written");
    assert!(reload(), "another authority");
    assert_eq!(kind(), Some(HandshakeKind::Full));
    let new = certificates.issue("new", &["secondary.example.net"]);
    fs::copy(&new.key, &own.key).expect("copied");
    assert_eq!(peers.reload(Some(&certificates.authority())).1.len(), 1, "the key of another certificate");
    fs::copy(&new.certificate, &own.certificate).expect("copied");
    assert!(reload(), "another certificate and key");
    assert!(!reload());
    assert!(peers.config(by_certificate).is_ok());
}

#[test]
fn a_peer_that_is_added_during_a_reload_gets_the_new_authorities() {
    let (old, new) = (TestCertificates::new(), TestCertificates::new());
    let primary = server(&new, &new.issue("server", &["ns1.example.net"]));
    let peers = TlsPeers::new(Some(&old.authority()));
    let read = peers.read_again(Some(&new.authority()));
    let (number, _) = peers.number(Some(&strict("ns1.example.net.")));
    let error = || connect(&peers.config(number).expect("settings"), &primary).err();
    assert!(error().is_some_and(|error| error.contains("the certificate is refused")));
    assert!(matches!(peers.replace(read), (true, errors) if errors.is_empty()));
    assert_eq!(error(), None);
}
