//! TLS with the null primary: SOA queries and transfers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use load::hold::{Behaviour, HoldConfig};
use load::job::{Job, Timing, Transport};
use load::metrics::Metrics;
use load::queries::{Queries, QueryTemplate, file};
use load::schedule::{ArrivalProcess, RateProfile};
use load::tls::{self, Purpose, TlsConfig, TlsOffer};
use load::xfr::encode::ZoneEncoder;
use load::xfr::pull::{PullConfig, PullResult};
use load::xfr::serve::Primary;
use rustls::pki_types::{CertificateDer, ServerName};
use wire::Name;
use zone::text::Source;

/// A running primary for `example.org` with a certificate for `localhost`, stopped on drop.
struct Server {
    address: SocketAddr,
    certificate: CertificateDer<'static>,
    stop: Arc<AtomicBool>,
}

impl Server {
    fn start() -> Server {
        let text: String = (0..5000).map(|host| format!("host{host} A 192.0.2.{}\n", host % 256)).collect();
        let text = format!("$TTL 60\n@ SOA ns hostmaster 7 1 1 1 1\n@ NS ns\n{text}");
        let apex = apex();
        let zone = ZoneEncoder::default()
            .encode(Source { name: "test".into(), bytes: text.as_bytes() }, &apex)
            .expect("a good zone");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("a literal");
        let mut primary = Primary::bind(any, [(apex, zone)].into_iter().collect(), None).expect("loopback");
        let (certificates, key) = tls::self_signed().expect("random numbers");
        let certificate = certificates[0].clone();
        let config = tls::server_config(certificates, key, Purpose::Queries).expect("a matching pair");
        let address = primary.bind_tls(any, config).expect("loopback");
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        thread::spawn(move || primary.run(&flag));
        Server { address, certificate, stop }
    }

    fn pull(&self, tls: TlsConfig) -> PullResult {
        let zones = vec![apex(); 3];
        let timeout = Duration::from_secs(5);
        let pull =
            PullConfig { server: self.address, zones, serial: None, parallel: 1, timeout, tls: Some(tls), key: None };
        pull.run(&AtomicBool::new(false))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn apex() -> Name {
    "example.org".parse().expect("a literal")
}

/// A client that accepts any certificate.
fn trusting(resume: bool, purpose: Purpose) -> TlsConfig {
    let name = ServerName::try_from("localhost").expect("a literal");
    TlsConfig::new(&TlsOffer::default(), name, Vec::new(), resume, purpose).expect("a good configuration")
}

fn queries() -> Queries {
    file::read(b"example.org SOA", &QueryTemplate::default()).expect("a query")
}

fn run(server: SocketAddr, tls: TlsConfig, timing: Timing, queries_per_connection: u32) -> Metrics {
    let job = Job {
        transport: Transport::Tcp,
        connections: 4,
        queries_per_connection,
        tls: Some(tls),
        timeout: Duration::from_secs(2),
        ..Job::new(server, Arc::new(queries()), timing)
    };
    job.run(&AtomicBool::new(false), |_| ()).expect("loopback").metrics
}

fn at_rate(rate: f64, seconds: f64) -> Timing {
    Timing::Rate(RateProfile::flat(rate, seconds), ArrivalProcess::Constant)
}

#[test]
fn queries_are_pipelined_on_connections_that_stay_open() {
    let server = Server::start();
    let metrics = run(server.address, trusting(false, Purpose::Queries), at_rate(2000.0, 0.5), 0);
    assert_eq!((metrics.queries, metrics.responses, metrics.wrong), (1000, 1000, 0));
    assert_eq!((metrics.handshakes, metrics.handshakes_resumed, metrics.handshake.len()), (4, 0, 4));
    let metrics = run(server.address, trusting(false, Purpose::Queries), at_rate(300.0, 0.2), 3);
    assert_eq!((metrics.responses, metrics.handshakes, metrics.closed_early), (60, 20, 0));
}

/// One connection after another, so that each but the first has a session to resume.
#[test]
fn sessions_are_resumed_only_if_configured() {
    let server = Server::start();
    let one_by_one = || Timing::Closed { outstanding: 1, seconds: 0.3 };
    let metrics = run(server.address, trusting(true, Purpose::Queries), one_by_one(), 1);
    assert!(metrics.handshakes > 2, "{} handshakes", metrics.handshakes);
    assert_eq!(metrics.handshakes_resumed, metrics.handshakes - 1);
    let metrics = run(server.address, trusting(false, Purpose::Queries), one_by_one(), 1);
    assert!(metrics.handshakes > 2, "{} handshakes", metrics.handshakes);
    assert_eq!((metrics.handshakes_resumed, metrics.responses), (0, metrics.handshakes));
}

#[test]
fn certificates_are_verified_against_authorities() {
    let server = Server::start();
    let failure = |name: &'static str, authority: &CertificateDer<'static>| {
        let name = ServerName::try_from(name).expect("a literal");
        let tls = TlsConfig::new(&TlsOffer::default(), name, vec![authority.clone()], false, Purpose::Queries)
            .expect("a good configuration");
        let metrics = run(server.address, tls, at_rate(10.0, 0.1), 0);
        assert_eq!(metrics.responses + metrics.handshakes_failed, 1);
        metrics.handshake_failure
    };
    assert_eq!(failure("localhost", &server.certificate), None);
    let wrong_name = failure("other.example", &server.certificate).expect("refused");
    assert!(wrong_name.contains("not valid for name"), "{wrong_name}");
    let foreign = tls::self_signed().expect("random numbers").0.remove(0);
    let unknown = failure("localhost", &foreign).expect("refused");
    assert!(unknown.contains("invalid peer certificate"), "{unknown}");
}

/// RFC 8446 6.1: a connection is closed with a closure alert after its last query.
#[test]
fn rfc_8446_6_1_connections_end_with_close_notify() {
    let (certificates, key) = tls::self_signed().expect("random numbers");
    let config = tls::server_config(certificates, key, Purpose::Queries).expect("a matching pair");
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("loopback");
        let connection = rustls::ServerConnection::new(config).expect("a good configuration");
        let mut stream = rustls::StreamOwned::new(connection, stream);
        let mut query = [0; 2 + 12 + 13 + 4];
        stream.read_exact(&mut query).expect("a query");
        query[4] |= 0x80;
        stream.write_all(&query).expect("loopback");
        stream.read(&mut query).map_err(|error| error.kind())
    });
    let metrics = run(address, trusting(false, Purpose::Queries), at_rate(10.0, 0.1), 1);
    assert_eq!(metrics.responses, 1);
    assert_eq!(server.join().expect("no panic"), Ok(0), "an error without close_notify");
}

#[test]
fn a_client_offers_one_version_and_cipher_suite() {
    let server = Server::start();
    let offering = |version, cipher: Option<&str>| {
        let name = ServerName::try_from("localhost").expect("a literal");
        let offer = TlsOffer { version, cipher: cipher.map(str::to_owned) };
        TlsConfig::new(&offer, name, Vec::new(), false, Purpose::Queries)
    };
    let tls12 = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
    for (version, cipher) in [
        (None, None),
        (Some(&rustls::version::TLS12), None),
        (Some(&rustls::version::TLS12), Some(tls12)),
        (Some(&rustls::version::TLS13), Some("TLS_CHACHA20_POLY1305_SHA256")),
    ] {
        let metrics = run(server.address, offering(version, cipher).expect("a good offer"), at_rate(100.0, 0.1), 0);
        assert_eq!((metrics.responses, metrics.handshakes_failed), (10, 0), "{version:?} {cipher:?}");
    }
    assert!(offering(Some(&rustls::version::TLS13), Some(tls12)).is_err(), "not a suite of this version");
    let unknown = offering(None, Some("TLS_NULL")).expect_err("no such suite").to_string();
    assert!(unknown.contains("no cipher suite TLS_NULL; there are TLS_AES_"), "{unknown}");
}

#[test]
fn tls_connections_are_held_and_hostile() {
    let server = Server::start();
    let hold = |behaviour, hold| {
        let queries = queries();
        let config = HoldConfig {
            server: server.address,
            sources: None,
            tls: Some(trusting(false, Purpose::Queries)),
            connections: 5,
            rate: 500.0,
            hold: Duration::from_millis(hold),
            until_answered: false,
            behaviour,
            queries: &queries,
        };
        let held = config.run(&AtomicBool::new(false), |held| assert_eq!((held.established, held.failed), (5, 0)));
        held.expect("loopback")
    };
    let silent = hold(Behaviour::Silence, 300);
    assert_eq!((silent.responses, silent.closed_by_peer), (0, 0), "session tickets are not responses");
    assert_eq!(hold(Behaviour::Ask, 500).responses, 5);
    assert_eq!(hold(Behaviour::HalfQuery, 200).closed_by_peer, 0);
    assert_eq!(hold(Behaviour::NeverRead, 200).responses, 0);
    assert_eq!(hold(Behaviour::Reset, 50).closed_by_peer, 0);
    let flood = hold(Behaviour::Handshake, 50);
    assert_eq!((flood.closed_by_peer, flood.handshake.len()), (0, flood.established));
    assert_eq!(hold(Behaviour::ByteASecond, 1200).closed_by_peer, 0);
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback");
    let metrics = run(nobody, trusting(false, Purpose::Queries), at_rate(10.0, 0.1), 0);
    assert!(metrics.handshake_failure.is_some_and(|why| why.contains("refused")));
}

#[test]
fn rfc_9103_zones_are_transferred() {
    let server = Server::start();
    let result = server.pull(trusting(false, Purpose::Transfers));
    assert_eq!((result.zones, result.failed, result.records, result.connections), (3, 0, 15_009, 1), "{result:?}");
}

/// RFC 9103 7.2: neither side accepts less than TLS 1.3.
#[test]
fn rfc_9103_7_2_transfers_need_tls_1_3() {
    let (certificates, key) = tls::self_signed().expect("random numbers");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let old = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .expect("a good configuration");
    let mut server = Server::start();
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    server.address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("loopback");
            let mut tls = rustls::ServerConnection::new(Arc::new(old.clone())).expect("a good configuration");
            while tls.complete_io(&mut stream).is_ok() && tls.is_handshaking() {}
        }
    });
    let result = server.pull(trusting(false, Purpose::Transfers));
    assert_eq!((result.zones, result.failed), (0, 3));
    assert!(result.failures[0].contains("ProtocolVersion"), "{:?}", result.failures);
}
