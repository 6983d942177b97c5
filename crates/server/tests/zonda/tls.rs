//! Zone transfers over TLS and QUIC from the real daemon: by `kdig`, and by the secondary's transfer thread.

use std::fs;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use data_encoding::BASE64;
use server::config::remote_server::{KeyPin, RemoteTls};
use server::tls::{ClientTls, MIN_BUFFER, TlsConnector, TlsPeers, TlsStream};
use server::transfer::engine::{EngineLimits, RequestedTransfer, TransferCommand, TransferEvent};
use server::transfer::network::{TransferHandle, TransferNetwork};
use server::transfer::primary::PeerConfig;
use server::transfer::soa_timers::TimerLimits;
use server::zone_id::ZoneId;
use zone::transfer_receiver::{Received, TransferLimits, TransferReceiver, TransferRequest};
use zone::zone_builder::ZoneBuilderOptions;

use crate::harness::{Daemon, TestFolder, is_root, outcome, report_skipped};
use crate::test_certificates::{CertificateFiles, TestCertificates};

const SOON: Duration = Duration::from_secs(20);

/// Records of the zone `big.example`: its transfer takes many round trips of flow control.
const RECORDS: usize = 30_000;

/// Serves `example.com`, `example.net` and `big.example`, all transferred by TLS or QUIC only, with this certificate.
fn serve(folder: &TestFolder, certificates: &TestCertificates, own: &CertificateFiles) -> (Daemon, SocketAddr) {
    for (name, file) in [("cert.pem", &own.certificate), ("key.pem", &own.key), ("ca.pem", &certificates.authority())] {
        folder.write(name, &fs::read_to_string(file).expect("a file of the test"));
    }
    let zone = |name: &str, allowed: &str| {
        folder.write_zone(name, 1, "192.0.2.1");
        format!("[[zone]]\nname = \"{name}\"\nfile = \"zones/{name}.zone\"\nallow-transfer = [{{ tls = {allowed} }}]\n")
    };
    let server = "[server]\nlisten-tls = [\"127.0.0.1:0\"]\nlisten-quic = [\"127.0.0.1:0\"]\ntls-cert = \"cert.pem\"\ntls-key = \"key.pem\"\ntls-ca = \"ca.pem\"\n";
    let zones =
        [zone("example.com", "true"), zone("example.net", "\"secondary.example.\""), zone("big.example", "true")];
    let records = (0..RECORDS).map(|number| format!("n{number} TXT \"{}\"\n", "x".repeat(number % 200)));
    let head = "$TTL 60\n@ SOA ns host 1 60 60 600 60\n@ NS ns\nns A 192.0.2.1\n";
    folder.write("zones/big.example.zone", &format!("{head}{}", records.collect::<String>()));
    let zones = zones.concat();
    folder.write("zonda.toml", &format!("{server}{zones}"));
    let daemon = folder.serve_with_config();
    let address = daemon.wait_for_address("listening for TLS");
    (daemon, address)
}

fn kdig(address: SocketAddr, arguments: &[&str]) -> String {
    let port = address.port().to_string();
    let server = ["@127.0.0.1", "-p", &port, "+retry=0", "+timeout=5"];
    outcome(Command::new("kdig").args(server).args(arguments).output().expect("kdig runs")).out
}

#[test]
fn kdig_queries_and_transfers_and_a_reload_brings_the_new_certificate() {
    if Command::new("kdig").arg("--version").output().is_err() {
        return report_skipped("kdig is not installed");
    }
    let (folder, certificates) = (TestFolder::new(), TestCertificates::new());
    let own = certificates.issue("first", &["ns1.example.net"]);
    let (_daemon, address) = serve(&folder, &certificates, &own);
    let ca = format!("+tls-ca={}", certificates.authority().display());
    let strict = [ca.as_str(), "+tls-hostname=ns1.example.net"];
    let ask = |arguments: &[&str]| kdig(address, &[&strict[..], arguments].concat());
    let answer = ask(&["www.example.com", "A"]);
    assert!(answer.contains("192.0.2.1") && answer.contains("TLS1.3"), "{answer}");
    assert!(ask(&["example.com", "AXFR"]).contains("192.0.2.1"));
    assert!(!kdig(address, &[&ca, "+tls-hostname=ns2.example.net", "www.example.com"]).contains("192.0.2.1"));

    // Another zone asks for a name of the client.
    assert!(!ask(&["example.net", "AXFR"]).contains("192.0.2.1"));
    let client = certificates.issue("client", &["secondary.example"]);
    let certificate = format!("+tls-certfile={}", client.certificate.display());
    let key = format!("+tls-keyfile={}", client.key.display());
    let transferred = ask(&["example.net", "AXFR", &certificate, &key]);
    assert!(transferred.contains("192.0.2.1"), "{transferred}");

    let new = certificates.issue("second", &["ns1.example.net"]);
    let pin = format!("+tls-pin={}", BASE64.encode(&new.pin));
    assert!(!kdig(address, &[&pin, "www.example.com"]).contains("192.0.2.1"), "not reloaded yet");
    fs::copy(&new.certificate, folder.path().join("cert.pem")).expect("copied");
    let mismatch = folder.run(&["reload"]);
    assert!(mismatch.err.contains("does not belong to") || mismatch.out.contains("does not belong to"), "{mismatch:?}");
    fs::copy(&new.key, folder.path().join("key.pem")).expect("copied");
    let reload = folder.run(&["reload"]);
    assert_eq!(reload.status, 0, "{reload:?}");
    let answer = kdig(address, &[&pin, "www.example.com"]);
    assert!(answer.contains("192.0.2.1"), "{answer}");
}

#[test]
fn a_key_that_only_root_can_read_is_warned_of_at_the_start() {
    let folder = TestFolder::new();
    if !is_root() {
        return report_skipped("only root can become another user");
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let certificates = TestCertificates::new();
    let own = certificates.issue("own", &["ns1.example.net"]);
    for (name, file) in [("cert.pem", &own.certificate), ("key.pem", &own.key)] {
        folder.write(name, &fs::read_to_string(file).expect("a file of the test"));
    }
    folder.write_zone("example.com", 1, "192.0.2.1");
    let server =
        "[server]\nuser = \"nobody\"\nlisten-tls = [\"127.0.0.1:0\"]\ntls-cert = \"cert.pem\"\ntls-key = \"key.pem\"\n";
    folder.write("zonda.toml", &format!("{server}[[zone]]\nname = \"example.com\"\nfile = \"zones/{{name}}.zone\"\n"));
    let key = folder.path().join("key.pem");
    for (mode, is_warned) in [(0o600, true), (0o644, false)] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).expect("it is ours");
        let daemon = folder.serve_with_config();
        assert!(daemon.ask("www.example.com").has("192.0.2.1"));
        daemon.wait_for_log("ready served");
        assert_eq!(daemon.log().contains("it was read as root, but reloads will fail"), is_warned, "{}", daemon.log());
    }
}

#[test]
fn a_self_signed_certificate_is_made_once_and_the_log_has_its_pin() {
    let folder = TestFolder::new();
    if !is_root() {
        return report_skipped("only root can become another user");
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    folder.write_zone("example.com", 1, "192.0.2.1");
    let server = "[server]\nuser = \"nobody\"\nlisten-tls = [\"127.0.0.1:0\"]\ntls-self-signed = true\n";
    let zone = "name = \"example.com\"\nfile = \"zones/{name}.zone\"\nallow-transfer = [{ tls = true }]\n";
    folder.write("zonda.toml", &format!("{server}[[zone]]\n{zone}"));
    let daemon = folder.serve_with_config();
    let line = daemon.wait_for_log("pin=");
    let (_, pin) = line.split_once("pin=").expect("a pin");
    let KeyPin(pin) = pin.trim_end().parse().expect("a pin");
    let address = daemon.wait_for_address("listening for TLS");
    assert_eq!(transfer("example.com.", address, &TlsPeers::new(None), &pinned(pin)), Ok(1));
    let (_, log) = daemon.stop();
    assert_eq!(log.matches("pin=").count(), 1, "{log}");
}

/// Nothing is changed by it, and all that is wrong is reported at once.
#[test]
fn a_refused_reload_changes_no_certificate() {
    let (folder, certificates) = (TestFolder::new(), TestCertificates::new());
    let own = certificates.issue("first", &["ns1.example.net"]);
    let (_daemon, address) = serve(&folder, &certificates, &own);
    let config = folder.read("zonda.toml");
    let (without_zones, _) = config.split_once("[[zone]]").expect("it has zones");
    folder.write("zonda.toml", without_zones);
    let new = certificates.issue("second", &["ns1.example.net"]);
    fs::copy(&new.certificate, folder.path().join("cert.pem")).expect("copied");
    let mismatch = folder.run(&["reload"]);
    let expected = ["no zone is left", "does not belong to", "nothing was changed"];
    assert!(expected.iter().all(|expected| mismatch.out.contains(expected)), "{mismatch:?}");
    fs::copy(&new.key, folder.path().join("key.pem")).expect("copied");
    assert!(folder.run(&["reload"]).out.contains("nothing was changed"));
    assert_eq!(transfer("example.com.", address, &TlsPeers::new(None), &pinned(own.pin)), Ok(1));
    folder.write("zonda.toml", &config);
    assert_eq!(folder.run(&["reload"]).status, 0);
    assert_eq!(transfer("example.com.", address, &TlsPeers::new(None), &pinned(new.pin)), Ok(1));
}

/// The trial is over: a reload takes the certificate.
#[test]
fn a_certificate_replaces_a_self_signed_one_without_a_restart() {
    let (folder, certificates) = (TestFolder::new(), TestCertificates::new());
    let own = certificates.issue("own", &["ns1.example.net"]);
    for (name, file) in [("cert.pem", &own.certificate), ("key.pem", &own.key)] {
        folder.write(name, &fs::read_to_string(file).expect("a file of the test"));
    }
    folder.write_zone("example.com", 1, "192.0.2.1");
    let config = |certificate: &str| {
        let zone = "name = \"example.com\"\nfile = \"zones/{name}.zone\"\nallow-transfer = [{ tls = true }]\n";
        folder
            .write("zonda.toml", &format!("[server]\nlisten-tls = [\"127.0.0.1:0\"]\n{certificate}\n[[zone]]\n{zone}"));
    };
    config("tls-self-signed = true");
    let daemon = folder.serve_with_config();
    let address = daemon.wait_for_address("listening for TLS");
    config("tls-cert = \"cert.pem\"\ntls-key = \"key.pem\"");
    let reloaded = folder.reload();
    assert!(reloaded.status == 0 && !reloaded.out.contains("restart"), "{reloaded:?}");
    assert_eq!(transfer("example.com.", address, &TlsPeers::new(None), &pinned(own.pin)), Ok(1));
}

/// A primary with this key.
fn pinned(pin: [u8; 32]) -> RemoteTls {
    RemoteTls { pin: Some(KeyPin(pin)), ..RemoteTls::default() }
}

/// The transfer thread of a secondary.
fn secondary(peers: &TlsPeers) -> (TransferHandle, Receiver<TransferEvent<TransferReceiver>>) {
    let (sender, events) = channel();
    let make_sink = |RequestedTransfer { apex, from_serial: ixfr_from, .. }: RequestedTransfer<'_>| {
        let request = TransferRequest { ixfr_from, not_before: ixfr_from, is_udp: false };
        TransferReceiver::new(apex, request, TransferLimits::default(), ZoneBuilderOptions::default())
    };
    let on_event = move |event| _ = sender.send(event);
    let connector = Box::new(TlsConnector(peers.clone()));
    let (network, handle) =
        TransferNetwork::new(EngineLimits::default(), 1, connector, make_sink, on_event).expect("epoll");
    thread::spawn(move || network.run().expect("epoll"));
    (handle, events)
}

/// Transfers a zone with these settings; returns the serial, or why it failed.
fn transfer(name: &str, address: SocketAddr, peers: &TlsPeers, remote: &RemoteTls) -> Result<u32, String> {
    let (tls, _) = peers.number(Some(remote));
    transfer_from(name, PeerConfig { tls, ..PeerConfig::plain(address) }, peers)
}

fn transfer_from(name: &str, primary: PeerConfig, peers: &TlsPeers) -> Result<u32, String> {
    let (handle, events) = secondary(peers);
    let (primaries, zone) = ([primary].into(), ZoneId { index: 0, generation: 0 });
    let (apex, limits) = (name.parse().expect("a name"), TimerLimits::default());
    handle.send(TransferCommand::Add { zone, apex, primaries, limits: limits.into(), version: None }).expect("it runs");
    let event = events.recv_timeout(SOON).expect("an event");
    handle.stop();
    match event {
        TransferEvent::Received { sink, report, .. } if report.failure.is_none() => match sink.finish() {
            Ok(Received::Full { zone, .. }) => Ok(zone.serial()),
            _ => Err("no zone".into()),
        },
        TransferEvent::Received { report, .. } | TransferEvent::Failed { report, .. } => {
            Err(report.failure.map(|failure| failure.to_string()).unwrap_or_default())
        }
        _ => Err("another event".into()),
    }
}

/// A connection with the certificate of a client; `None` if it is refused.
struct MutualTls(TcpStream, TlsStream);

impl MutualTls {
    fn connect(address: SocketAddr, client: &CertificateFiles) -> Option<MutualTls> {
        let own = (client.certificate.clone(), client.key.clone());
        let settings = ClientTls::read(&RemoteTls { client: Some(own), ..RemoteTls::default() }, None);
        let tls = settings.expect("files of the test").connect(address.ip()).expect("valid settings");
        let socket = TcpStream::connect(address).expect("loopback");
        socket.set_read_timeout(Some(SOON)).expect("an option");
        let mut connection = MutualTls(socket, tls);
        // With TLS 1.3 a client learns only afterwards that its certificate is refused.
        connection.transfer().map(|_| connection)
    }

    /// The RCODE of an AXFR of `example.net`, which takes one message.
    fn transfer(&mut self) -> Option<u8> {
        const QUERY: &[u8] = b"\0\x1d\x12\x34\0\0\0\x01\0\0\0\0\0\0\x07example\x03net\0\0\xfc\0\x01";
        let MutualTls(socket, tls) = self;
        let (mut records, mut out) = (vec![0; MIN_BUFFER], vec![0; MIN_BUFFER]);
        tls.flush(socket).ok()?;
        while tls.is_handshaking() {
            tls.receive(socket, &mut records, &mut out).ok()?;
        }
        tls.send(socket, QUERY).ok()?;
        loop {
            match tls.receive(socket, &mut records, &mut out) {
                Ok(None) => {}
                // After the prefix.
                Ok(Some(_)) => return Some(out[2 + 3] & 15),
                Err(_) => return None,
            }
        }
    }
}

/// What the manual says under "Revoking a certificate".
#[test]
fn a_certificate_is_revoked_at_once_by_its_name_and_by_its_authority() {
    const REFUSED: u8 = 5;
    let (folder, certificates) = (TestFolder::new(), TestCertificates::new());
    let own = certificates.issue("own", &["ns1.example.net"]);
    let client = certificates.issue("client", &["secondary.example"]);
    let (_daemon, address) = serve(&folder, &certificates, &own);
    let mut open = MutualTls::connect(address, &client).expect("its authority is known");
    assert_eq!(open.transfer(), Some(0));
    let reload = || assert_eq!(folder.run(&["reload"]).status, 0);

    let config = folder.read("zonda.toml");
    folder.write("zonda.toml", &config.replace("secondary.example.", "successor.example."));
    reload();
    assert_eq!(open.transfer(), Some(REFUSED), "the connection is as old as before");
    folder.write("zonda.toml", &config);
    reload();
    assert_eq!(open.transfer(), Some(0));

    let other = TestCertificates::new();
    fs::copy(other.authority(), folder.path().join("ca.pem")).expect("copied");
    reload();
    assert!(MutualTls::connect(address, &client).is_none());
    assert_eq!(open.transfer(), Some(REFUSED), "the connection is as old as before");
}

#[test]
fn the_transfer_thread_authenticates_primaries_and_itself() {
    let (folder, certificates) = (TestFolder::new(), TestCertificates::new());
    let own = certificates.issue("server", &["ns1.example.net"]);
    let (_daemon, address) = serve(&folder, &certificates, &own);
    let peers = TlsPeers::new(Some(&certificates.authority()));
    let get = |zone: &str, remote: &RemoteTls| transfer(zone, address, &peers, remote);
    let strict = |name: &str| RemoteTls { name: name.parse().ok(), ..RemoteTls::default() };
    assert_eq!(get("example.com.", &RemoteTls::default()), Ok(1));
    assert_eq!(get("example.com.", &strict("ns1.example.net.")), Ok(1));
    assert_eq!(get("example.com.", &pinned(own.pin)), Ok(1));
    let error = get("example.com.", &strict("ns2.example.net.")).expect_err("another name");
    assert!(error.contains("the certificate is refused"), "{error}");
    let error = get("example.com.", &pinned([7; 32])).expect_err("another key");
    assert!(error.contains("not its `tls-pin`"), "{error}");

    let with = |own: CertificateFiles| RemoteTls { client: Some((own.certificate, own.key)), ..RemoteTls::default() };
    let known = certificates.issue("client", &["secondary.example"]);
    assert_eq!(get("example.net.", &with(known)), Ok(1));
    let other_name = certificates.issue("other", &["other.example"]);
    for remote in [RemoteTls::default(), with(other_name)] {
        let error = get("example.net.", &remote).expect_err("refused");
        assert!(error.to_lowercase().contains("refused"), "{error}");
    }
    let others = TestCertificates::new();
    let error = get("example.net.", &with(others.issue("client", &["secondary.example"]))).expect_err("not verified");
    assert!(error.contains("refuses this side's certificate"), "{error}");
}

/// RFC 9250 5.7: zones are transferred over QUIC, with the authentication of TLS.
#[test]
fn the_transfer_thread_uses_quic() {
    let (folder, certificates) = (TestFolder::new(), TestCertificates::new());
    let own = certificates.issue("server", &["ns1.example.net"]);
    let (daemon, over_tls) = serve(&folder, &certificates, &own);
    let address = daemon.wait_for_address("listening for QUIC");
    let peers = TlsPeers::new(Some(&certificates.authority()));
    let get = |zone: &str, remote: RemoteTls| transfer(zone, address, &peers, &RemoteTls { quic: true, ..remote });
    let strict = |name: &str| RemoteTls { name: name.parse().ok(), ..RemoteTls::default() };
    assert_eq!(get("example.com.", RemoteTls::default()), Ok(1));
    assert_eq!(get("example.com.", strict("ns1.example.net.")), Ok(1));
    assert_eq!(get("big.example.", pinned(own.pin)), Ok(1));
    let error = get("example.com.", strict("ns2.example.net.")).expect_err("another name");
    assert!(error.contains("QUIC") && error.contains("certificate"), "{error}");
    let error = get("example.com.", pinned([7; 32])).expect_err("another key");
    assert!(error.contains("not its `tls-pin`"), "{error}");
    let known = certificates.issue("client", &["secondary.example"]);
    let mutual = RemoteTls { client: Some((known.certificate, known.key)), ..RemoteTls::default() };
    assert_eq!(get("example.net.", mutual), Ok(1));
    let error = get("example.net.", RemoteTls::default()).expect_err("refused");
    assert!(error.to_lowercase().contains("refused"), "{error}");
    // Nothing listens there for QUIC.
    let error = transfer("example.com.", over_tls, &peers, &RemoteTls { quic: true, ..RemoteTls::default() });
    assert!(error.is_err(), "{error:?}");
}

/// A NOTIFY for `example.com` without a SOA record: the zone is checked whenever it comes.
const NOTIFY: &[u8] = b"\x12\x34\x24\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x06\0\x01";

/// What open connections were authenticated with may be revoked by a reload that changes it, and only by that.
#[test]
fn a_reload_replaces_connections_to_primaries_only_if_certificates_have_changed() {
    const RELOADS: u64 = 10;
    let (first, second) = (TestFolder::new(), TestFolder::new());
    let (certificates, others) = (TestCertificates::new(), TestCertificates::new());
    let (_primary, address) = serve(&first, &certificates, &certificates.issue("own", &["ns1.example.net"]));
    let [authority, other_authority] =
        [&certificates, &others].map(|all| fs::read_to_string(all.authority()).expect("a file of the test"));
    second.write("ca.pem", &authority);
    let zone = "[[zone]]\nname = \"example.com\"\nprimaries";
    let primaries = format!("[{{ address = \"{address}\", tls = \"ns1.example.net\" }}]");
    second.write("zonda.toml", &format!("[server]\ntls-ca = \"ca.pem\"\n{zone} = {primaries}\n"));
    let secondary = second.serve_with_config();
    secondary.wait_until("transferred", || secondary.ask("www.example.com").has("192.0.2.1"));
    // Checked so often that its connection is never idle for long.
    let (is_over, to) = (Arc::new(AtomicBool::new(false)), secondary.address);
    let checks = thread::spawn({
        let (is_over, socket) = (is_over.clone(), UdpSocket::bind("127.0.0.1:0").expect("loopback"));
        move || {
            while !is_over.load(Ordering::Relaxed) {
                socket.send_to(NOTIFY, to).expect("loopback");
                thread::sleep(Duration::from_millis(10));
            }
        }
    });
    let opened = |change: &dyn Fn(u64)| {
        let connections = || first.metric("zonda_connections_total{transport=\"tls\"}");
        let before = connections();
        for number in 0..RELOADS {
            change(number);
            let reload = second.run(&["reload"]);
            assert_eq!(reload.status, 0, "{reload:?}");
            // The server would wait for whoever does not read it.
            secondary.wait_for_notification("READY=1");
            thread::sleep(Duration::from_millis(50));
        }
        connections() - before
    };
    let unchanged = opened(&|_| {});
    assert!(unchanged < RELOADS / 2, "{unchanged} connections opened");
    let changed = opened(&|number| {
        let others = other_authority.repeat(number as usize % 2 + 1);
        second.write("ca.pem", &format!("{authority}{others}"));
    });
    assert!(changed >= RELOADS / 2, "{changed} connections opened");
    is_over.store(true, Ordering::Relaxed);
    checks.join().expect("it has not panicked");
}

/// Serves `example.com`, which may be transferred, without TLS and QUIC.
fn serve_without_tls(folder: &TestFolder) -> Daemon {
    folder.write_zone("example.com", 1, "192.0.2.1");
    let zone = "name = \"example.com\"\nfile = \"zones/example.com.zone\"\nallow-transfer = [\"127.0.0.0/8\"]\n";
    folder.write("zonda.toml", &format!("[[zone]]\n{zone}"));
    folder.serve_with_config()
}

/// RFC 8310 5, 6.5: it is asked for nothing without encryption, though it would answer.
#[test]
fn a_server_without_tls_is_reported() {
    let folder = TestFolder::new();
    let daemon = serve_without_tls(&folder);
    let address = daemon.address;
    // Its TCP port takes the ClientHello for the start of a long message, and waits for the rest. To its UDP port, packets of QUIC are
    // malformed messages.
    let attempts = [false, true].map(|quic| {
        thread::spawn(move || {
            let remote = RemoteTls { quic, ..RemoteTls::default() };
            transfer("example.com.", address, &TlsPeers::new(None), &remote)
        })
    });
    for attempt in attempts {
        let error = attempt.join().expect("it has not panicked").expect_err("nothing to answer it");
        assert!(error.contains("not established in time"), "{error}");
    }
    let transfers = || folder.metric("zonda_transfers_total{transport=\"tcp\"}");
    assert_eq!(transfers(), 0);
    assert_eq!(transfer_from("example.com.", PeerConfig::plain(address), &TlsPeers::new(None)), Ok(1));
    assert_eq!(transfers(), 1);
}

/// RFC 9103 5.3.1: any response to a NOTIFY is counted, also REFUSED.
#[test]
fn notify_to_a_target_with_tls_settings_is_not_sent_without_encryption() {
    let folder = TestFolder::new();
    let daemon = serve_without_tls(&folder);
    let peers = TlsPeers::new(None);
    let (handle, _events) = secondary(&peers);
    let counters = || handle.notify_counters().expect("it runs");
    let notify = |tls| {
        let zone = ZoneId { index: 0, generation: 0 };
        let (apex, soa) = ("example.com.".parse().expect("a name"), [0; 22].into());
        let targets = [PeerConfig { tls, ..PeerConfig::plain(daemon.address) }].into();
        handle.send(TransferCommand::SendNotify { zone, apex, soa, targets }).expect("it runs");
    };
    let (tls, _) = peers.number(Some(&RemoteTls::default()));
    notify(tls);
    // The connection is given up.
    thread::sleep(Duration::from_millis(EngineLimits::default().connect_ms + 1500));
    assert_eq!((counters().sent, counters().answered), (1, 0));
    notify(0);
    daemon.wait_until("answered", || counters().answered == 1);
    handle.stop();
}

#[test]
fn check_reads_the_files_of_tls() {
    let (folder, certificates) = (TestFolder::new(), TestCertificates::new());
    let (own, other) = (certificates.issue("own", &["a.example"]), certificates.issue("other", &["b.example"]));
    folder.write_zone("example.com", 1, "192.0.2.1");
    let check = |key: &CertificateFiles, primary: &str| {
        let (certificate, key) = (own.certificate.display(), key.key.display());
        let server = format!("listen-tls = [\"127.0.0.1\"]\ntls-cert = \"{certificate}\"\ntls-key = \"{key}\"");
        let zone = format!("name = \"example.com\"\nfile = \"zones/example.com.zone\"\nprimaries = [{primary}]");
        folder.write("zonda.toml", &format!("[server]\n{server}\n[[zone]]\n{zone}\n"));
        folder.run_with_config(&["check"])
    };
    let good = check(&own, "{ address = \"192.0.2.1\", tls = true }");
    assert_eq!(good.status, 0, "{good:?}");
    let wrong_key = check(&other, "\"192.0.2.1\"");
    assert!(wrong_key.status != 0 && format!("{wrong_key:?}").contains("does not belong to"), "{wrong_key:?}");
    let no_authority = check(&own, "{ address = \"192.0.2.1\", tls = \"ns1.example.net\" }");
    assert!(no_authority.status != 0 && format!("{no_authority:?}").contains("needs `tls-ca`"), "{no_authority:?}");
}
