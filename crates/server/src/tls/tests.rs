//! Both sides over a pipe in memory.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CipherSuite, ClientConfig, HandshakeKind, RootCertStore};
use wire::Name;

use super::client_config::check_alpn;
use super::test_certificates::{CertificateFiles, TestCertificates};
use super::{ClientTls, MIN_BUFFER, OwnCertificate, ServerTls, ServerTlsFiles, TlsPeers, TlsStream};
use crate::config::remote_server::{KeyPin, RemoteTls};

/// One end of a pipe: what was written by the other end, and what this end wrote.
#[derive(Default)]
pub(super) struct Socket {
    pub(super) incoming: VecDeque<u8>,
    pub(super) outgoing: Vec<u8>,
    /// Octets that may wait in `outgoing`; 0 is no limit.
    pub(super) room: usize,
}

impl Read for Socket {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        if self.incoming.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { self.incoming.read(octets) }
    }
}

impl Write for Socket {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let room = if self.room == 0 { usize::MAX } else { self.room - self.outgoing.len() };
        match octets.len().min(room) {
            0 => Err(ErrorKind::WouldBlock.into()),
            len => self.outgoing.write(&octets[..len]),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) struct Side {
    pub(super) stream: TlsStream,
    pub(super) socket: Socket,
    pub(super) received: Vec<u8>,
}

impl Side {
    pub(super) fn new(stream: TlsStream) -> Side {
        Side { stream, socket: Socket::default(), received: Vec::new() }
    }

    /// Takes at most `max` octets that the other side sent, and handles them.
    pub(super) fn take(&mut self, from: &mut Side, max: usize) -> io::Result<()> {
        let len = from.socket.outgoing.len().min(max);
        self.socket.incoming.extend(from.socket.outgoing.drain(..len));
        let (mut records, mut out) = (vec![0; MIN_BUFFER], vec![0; MIN_BUFFER]);
        while !self.socket.incoming.is_empty() {
            if let Some(len) = self.stream.receive(&mut self.socket, &mut records, &mut out)? {
                self.received.extend_from_slice(&out[..len]);
            }
        }
        Ok(())
    }

    pub(super) fn send(&mut self, octets: &[u8]) -> usize {
        self.stream.send(&mut self.socket, octets).expect("the pipe is open")
    }
}

pub(super) const PRIMARY: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The result of a handshake: both sides, or the client's error or the server's.
fn handshake(client: TlsStream, server: TlsStream) -> Result<(Side, Side), String> {
    let (mut client, mut server) = (Side::new(client), Side::new(server));
    client.stream.flush(&mut client.socket).expect("a pipe");
    for _ in 0..4 {
        let at_server = server.take(&mut client, usize::MAX);
        let at_client = client.take(&mut server, usize::MAX);
        at_client.map_err(|error| format!("client: {error}"))?;
        at_server.map_err(|error| format!("server: {error}"))?;
    }
    check_alpn(&client.stream)?;
    Ok((client, server))
}

pub(super) fn connect(client: &ClientTls, server: &ServerTls) -> Result<(Side, Side), String> {
    handshake(client.connect(PRIMARY).expect("valid settings"), server.accept().expect("valid settings"))
}

/// The error of a handshake with these settings of the client, if there is one.
pub(super) fn failure(certificates: &TestCertificates, remote: &RemoteTls, server: &ServerTls) -> Option<String> {
    connect(&client(certificates, remote), server).err()
}

/// The files of a server that asks clients for certificates of the authority.
pub(super) fn server_files(certificates: &TestCertificates, own: &CertificateFiles) -> ServerTlsFiles {
    let CertificateFiles { certificate, key, .. } = own.clone();
    let own = OwnCertificate::Files { certificate, key };
    ServerTlsFiles { own, authorities: Some(certificates.authority()), ticket_keys: None }
}

/// The settings of a client that trusts the authority.
pub(super) fn client(certificates: &TestCertificates, remote: &RemoteTls) -> ClientTls {
    ClientTls::read(remote, Some(&certificates.authority())).expect("the files of the test")
}

pub(super) fn server(certificates: &TestCertificates, own: &CertificateFiles) -> ServerTls {
    ServerTls::read(&server_files(certificates, own)).expect("the files of the test")
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

pub(super) fn strict(text: &str) -> RemoteTls {
    RemoteTls { name: Some(name(text)), ..RemoteTls::default() }
}

pub(super) fn pinned(pin: [u8; 32]) -> RemoteTls {
    RemoteTls { pin: Some(KeyPin(pin)), ..RemoteTls::default() }
}

pub(super) fn mutual(own: &CertificateFiles) -> RemoteTls {
    RemoteTls { client: Some((own.certificate.clone(), own.key.clone())), ..RemoteTls::default() }
}

#[test]
fn rfc_9103_9_3_strict_the_name_and_the_authority_are_verified() {
    let certificates = TestCertificates::new();
    let good = server(&certificates, &certificates.issue("good", &["ns1.example.net"]));
    assert_eq!(failure(&certificates, &strict("ns1.example.net."), &good), None);
    assert_eq!(failure(&certificates, &strict("NS1.example.net."), &good), None);
    let error = failure(&certificates, &strict("ns2.example.net."), &good).expect("another name");
    assert!(error.contains("the certificate is refused") && error.contains("ns1.example.net"), "{error}");

    let foreign = TestCertificates::new();
    let unknown = server(&foreign, &foreign.issue("foreign", &["ns1.example.net"]));
    let error = failure(&certificates, &strict("ns1.example.net."), &unknown).expect("another authority");
    assert!(error.contains("the certificate is refused"), "{error}");
    // Opportunistic: nothing is verified (RFC 9103 9.3.1).
    assert_eq!(failure(&certificates, &RemoteTls::default(), &unknown), None);

    let expired = server(&certificates, &certificates.issue_expired("expired", &["ns1.example.net"]));
    let error = failure(&certificates, &strict("ns1.example.net."), &expired).expect("expired");
    assert!(error.contains("expired"), "{error}");
}

#[test]
fn a_self_signed_certificate_may_be_its_own_authority() {
    let certificates = TestCertificates::new();
    let connects = |own: &CertificateFiles, name: &str| {
        let peers = TlsPeers::new(Some(&own.certificate));
        let (number, result) = peers.number(Some(&strict(name)));
        result.expect("the files of the test");
        connect(&peers.config(number).expect("settings"), &server(&certificates, own)).err()
    };
    let own = certificates.self_signed("own", &["ns1.example.net"], false);
    assert_eq!(connects(&own, "ns1.example.net."), None);
    assert!(connects(&own, "ns2.example.net.").is_some_and(|error| error.contains("ns1.example.net")));
    let expired = certificates.self_signed("old", &["ns1.example.net"], true);
    assert!(connects(&expired, "ns1.example.net.").is_some_and(|error| error.contains("expired")));
    let other = server(&certificates, &certificates.self_signed("other", &["ns1.example.net"], false));
    assert!(failure(&certificates, &strict("ns1.example.net."), &other).is_some());
}

#[test]
fn rfc_7858_4_2_a_pin_is_the_digest_of_the_public_key() {
    let certificates = TestCertificates::new();
    let own = certificates.issue("good", &["ns1.example.net"]);
    let good = server(&certificates, &own);
    assert_eq!(failure(&certificates, &pinned(own.pin), &good), None);
    let error = failure(&certificates, &pinned([7; 32]), &good).expect("another key");
    assert!(error.contains("not its `tls-pin`") && error.contains(&KeyPin(own.pin).to_string()), "{error}");
    // With a name, both must match.
    let both = RemoteTls { pin: Some(KeyPin(own.pin)), ..strict("ns2.example.net.") };
    assert!(failure(&certificates, &both, &good).is_some());
    let both = RemoteTls { pin: Some(KeyPin([7; 32])), ..strict("ns1.example.net.") };
    assert!(failure(&certificates, &both, &good).is_some());
}

/// The names that the server sees of a client with these settings.
fn seen_names(certificates: &TestCertificates, remote: &RemoteTls, server: &ServerTls) -> Result<Vec<Name>, String> {
    let (_, mut at_server) = connect(&client(certificates, remote), server)?;
    Ok(names_of(server, &mut at_server))
}

/// The names of the client at the other side of a handshake.
fn names_of(server: &ServerTls, side: &mut Side) -> Vec<Name> {
    let client = side.stream.take_client().map(|chain| server.client_certificate(chain));
    client.map_or_else(Vec::new, |mut client| server.client_names(&mut client).to_vec())
}

#[test]
fn rfc_9103_9_3_3_mutual_tls_gives_the_names_of_the_client() {
    let certificates = TestCertificates::new();
    let server = server(&certificates, &certificates.issue("server", &["ns1.example.net"]));
    let own = certificates.issue("client", &["Secondary.example.net", "*.wild.example", "b.example"]);
    let names = seen_names(&certificates, &mutual(&own), &server);
    assert_eq!(names, Ok(vec![name("secondary.example.net."), name("b.example.")]));
    assert_eq!(seen_names(&certificates, &RemoteTls::default(), &server), Ok(Vec::new()), "no certificate");

    let others = TestCertificates::new();
    let foreign = others.issue("foreign", &["secondary.example.net"]);
    let error = seen_names(&certificates, &mutual(&foreign), &server).expect_err("of another authority");
    assert!(error.contains("refuses this side's certificate"), "{error}");
    let expired = certificates.issue_expired("expired", &["secondary.example.net"]);
    let error = seen_names(&certificates, &mutual(&expired), &server).expect_err("expired");
    assert!(error.contains("refuses this side's certificate"), "{error}");
}

#[test]
fn rfc_9103_7_2_tls_1_2_is_refused() {
    let certificates = TestCertificates::new();
    let server = server(&certificates, &certificates.issue("server", &["ns1.example.net"]));
    let (mut records, mut out) = (vec![0; MIN_BUFFER], vec![0; MIN_BUFFER]);
    // The ClientHello of `openssl s_client -tls1_2`, without extensions but what it must have.
    let hello = client_hello_of_tls_1_2();
    let mut side = Side::new(server.accept().expect("valid settings"));
    side.socket.incoming.extend(hello);
    let error = side.stream.receive(&mut side.socket, &mut records, &mut out).expect_err("TLS 1.2");
    assert!(error.to_string().contains("TLS"), "{error}");
    // Alert (21), fatal (2), protocol_version (70).
    assert_eq!(side.socket.outgoing, [21, 3, 3, 0, 2, 2, 70]);
}

#[test]
fn the_suite_with_sha_256_is_chosen_from_a_client_that_prefers_sha_384() {
    let certificates = TestCertificates::new();
    let server = server(&certificates, &certificates.issue("server", &["ns1.example.net"]));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    assert_eq!(provider.cipher_suites[0].suite(), CipherSuite::TLS13_AES_256_GCM_SHA384);
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&super::VERSIONS);
    let config = builder.expect("TLS 1.3").with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let session = rustls::ClientConnection::new(Arc::new(config), PRIMARY.into()).expect("valid settings");
    let (mut client, mut side) =
        (Side::new(TlsStream::client(session.into())), Side::new(server.accept().expect("valid settings")));
    client.stream.flush(&mut client.socket).expect("a pipe");
    side.take(&mut client, usize::MAX).expect("a ClientHello");
    // After the record's header (5), the message's (4), version (2), random (32), and session with its length (33).
    assert_eq!(side.socket.outgoing[76..78], [0x13, 0x01], "TLS_AES_128_GCM_SHA256 (RFC 8446 B.4)");
}

/// RFC 9539 3.3: a resolver that only tries whether there is TLS may send any name, or none, and must get the same.
#[test]
fn rfc_9539_3_3_the_name_in_sni_changes_nothing() {
    let certificates = TestCertificates::new();
    let server = server(&certificates, &certificates.issue("server", &["ns1.example.net"]));
    let config = Arc::new(client(&certificates, &RemoteTls::default()).config().clone());
    let seen = ["ns1.example.net", "other.example", "192.0.2.1"].map(|name| {
        let name = ServerName::try_from(name).expect("a name, or an address, which is not sent");
        let session = rustls::ClientConnection::new(config.clone(), name).expect("valid settings");
        let (client, _) =
            handshake(TlsStream::client(session.into()), server.accept().expect("valid settings")).expect("any name");
        let session = client.stream.session().expect("a client");
        (session.peer_certificates().map(<[_]>::to_vec), session.handshake_kind())
    });
    assert!(seen[0].0.is_some() && seen[0].1 == Some(HandshakeKind::Full));
    assert!(seen.iter().all(|other| *other == seen[0]));
}

fn client_hello_of_tls_1_2() -> Vec<u8> {
    let groups = [0, 10, 0, 4, 0, 2, 0, 23];
    let signatures = [0, 13, 0, 4, 0, 2, 4, 3];
    let extensions = [&groups[..], &signatures[..]].concat();
    // Version, random, no session, one cipher suite, no compression.
    let mut body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0xc0, 0x2b, 1, 0, 0, extensions.len() as u8]].concat();
    body.extend(extensions);
    let mut hello = vec![22, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8];
    hello.extend(body);
    hello
}

#[test]
fn rfc_9103_7_1_the_alpn_must_be_dot() {
    let certificates = TestCertificates::new();
    let own = certificates.issue("server", &["ns1.example.net"]);
    let server = server(&certificates, &own);
    let client = client(&certificates, &RemoteTls::default());

    // A client that offers no ALPN may ask; one that offers others only may not.
    let with_alpn = |alpn: &[&[u8]]| {
        let mut config = ClientConfig::clone(client.config());
        config.alpn_protocols = alpn.iter().map(|alpn| alpn.to_vec()).collect();
        let name = rustls::pki_types::ServerName::IpAddress(PRIMARY.into());
        let session = rustls::ClientConnection::new(Arc::new(config), name).expect("valid settings");
        handshake(TlsStream::client(session.into()), server.accept().expect("valid settings"))
    };
    let error = with_alpn(&[]).err().expect("refused by the client's own check");
    assert!(error.contains("chose no ALPN") && error.contains("help:"), "{error}");
    let error = with_alpn(&[b"doq", b"h2"]).err().expect("no common protocol");
    assert!(error.contains("does not accept the ALPN `dot`"), "{error}");
    let error = with_alpn(&[b"h2", b"dot"]).err();
    assert_eq!(error, None);
}

#[test]
fn rfc_8446_2_2_sessions_are_resumed_and_client_certificates_verified_again() {
    let certificates = TestCertificates::new();
    let own = certificates.issue("server", &["ns1.example.net"]);
    let server = server(&certificates, &own);
    let own_of_client = certificates.issue("client", &["secondary.example.net"]);
    let client = client(&certificates, &mutual(&own_of_client));
    // Zonda's own client does not resume such sessions, others do.
    let mut config = ClientConfig::clone(client.config());
    config.resumption = Resumption::in_memory_sessions(8);
    let config = Arc::new(config);
    let kinds = || {
        let name = rustls::pki_types::ServerName::IpAddress(PRIMARY.into());
        let session = rustls::ClientConnection::new(config.clone(), name).expect("valid settings");
        let client = TlsStream::client(session.into());
        let (at_client, mut at_server) =
            handshake(client, server.accept().expect("valid settings")).expect("a handshake");
        let kind = at_client.stream.session().expect("a client").handshake_kind();
        (kind, names_of(&server, &mut at_server).len())
    };
    assert_eq!(kinds(), (Some(HandshakeKind::Full), 1));
    assert_eq!(kinds(), (Some(HandshakeKind::Resumed), 1));
    // Other authorities: the session goes on, but the name is not verified any more.
    let mut files = server_files(&certificates, &own);
    let foreign = TestCertificates::new();
    files.authorities = Some(foreign.authority());
    server.reload(&files).expect("the files of the test");
    assert_eq!(kinds(), (Some(HandshakeKind::Resumed), 0));
    files.authorities = None;
    server.reload(&files).expect("the files of the test");
    assert_eq!(kinds().1, 0);
}

/// OpenSSL servers that require a certificate refuse to resume sessions unless they have set a context, which NSD 4.15 has not: each
/// ticket would cost a failed connection.
#[test]
fn sessions_with_an_own_certificate_are_not_resumed() {
    let certificates = TestCertificates::new();
    let server = server(&certificates, &certificates.issue("server", &["ns1.example.net"]));
    let own = certificates.issue("client", &["secondary.example.net"]);
    for (remote, second) in [(RemoteTls::default(), HandshakeKind::Resumed), (mutual(&own), HandshakeKind::Full)] {
        let client = client(&certificates, &remote);
        for kind in [HandshakeKind::Full, second] {
            let (at_client, _) = connect(&client, &server).expect("a handshake");
            assert_eq!(at_client.stream.session().expect("a client").handshake_kind(), Some(kind));
        }
    }
}

#[test]
fn the_longest_chain_that_is_accepted_is_one_that_clients_accept() {
    let certificates = TestCertificates::new();
    let (own, other) = (certificates.issue("own", &["ns1.example.net"]), certificates.issue("other", &["b.example"]));
    let [text, more] = [&own, &other].map(|files| fs::read_to_string(&files.certificate).expect("a certificate"));
    let [len, more_len] = [&own, &other].map(|files| {
        let first = CertificateDer::from_pem_file(&files.certificate).expect("a certificate");
        first.len() + 5
    });
    let most = (60_000 - 4 - len) / more_len;
    fs::write(&own.certificate, text.clone() + &more.repeat(most)).expect("written");
    let server = ServerTls::read(&server_files(&certificates, &own)).expect("a chain that is not too long");
    assert_eq!(failure(&certificates, &pinned(own.pin), &server), None);
    fs::write(&own.certificate, text + &more.repeat(most + 1)).expect("written");
    let error = ServerTls::read(&server_files(&certificates, &own)).err().map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.contains("own.pem are too long for a handshake")));
}

#[test]
fn errors_name_the_file_and_what_to_do() {
    let certificates = TestCertificates::new();
    let (own, other) = (certificates.issue("own", &["a.example"]), certificates.issue("other", &["b.example"]));
    let error = |change: &dyn Fn(&mut CertificateFiles)| {
        let mut files = own.clone();
        change(&mut files);
        ServerTls::read(&server_files(&certificates, &files)).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(error(&|_| {}), "");
    let missing = error(&|files| files.certificate = certificates.path("missing.pem"));
    assert!(missing.contains("missing.pem") && missing.contains("No such file"), "{missing}");
    let mismatch = error(&|files| files.key = other.key.clone());
    assert!(mismatch.contains("other.key") && mismatch.contains("does not belong to"), "{mismatch}");
    let no_key = error(&|files| files.key = own.certificate.clone());
    assert!(no_key.contains("own.pem contains no private key"), "{no_key}");
    let no_certificate = error(&|files| files.certificate = own.key.clone());
    assert!(no_certificate.contains("own.key contains no certificate"), "{no_certificate}");
    fs::write(certificates.path("cut.pem"), "-----BEGIN CERTIFICATE-----\nMIIB\n").expect("written");
    let cut = error(&|files| files.certificate = certificates.path("cut.pem"));
    assert!(cut.contains("cut.pem is not a PEM file"), "{cut}");
    assert!(cut.contains("`-----END CERTIFICATE-----`"), "{cut}");
    // As a pipe, which would block until somebody writes to it.
    let device = error(&|files| files.key = "/dev/null".into());
    assert_eq!(device, "cannot read /dev/null: it is not a regular file");

    let (_, result) = TlsPeers::new(None).number(Some(&strict("ns1.example.net.")));
    let error = result.expect_err("no authorities").to_string();
    assert!(error.contains("needs `tls-ca`"), "{error}");
    assert!(matches!(TlsPeers::new(None).number(None), (0, Ok(()))));
}
