//! TSIG (RFC 8945): transfers from the null primary, and NOTIFY and UPDATE to a server that verifies them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use load::job::{Job, Timing};
use load::queries::maintenance;
use load::schedule::{ArrivalProcess, RateProfile};
use load::verify::ResponseChecker;
use load::xfr::encode::ZoneEncoder;
use load::xfr::pull::{PullConfig, PullResult};
use load::xfr::serve::Primary;
use wire::Name;
use wire::tsig::{TsigKey, verify_query};
use zone::text::Source;

const KEY: &str = "hmac-sha256:transfer.example:c2VjcmV0";

fn key(text: &str) -> Option<Arc<TsigKey>> {
    Some(Arc::new(text.parse().expect("a literal")))
}

fn apex() -> Name {
    "example.org".parse().expect("a literal")
}

/// A primary for `example.org`, whose transfer has several messages.
fn primary(key: Option<Arc<TsigKey>>) -> (SocketAddr, Arc<AtomicBool>) {
    let text: String = (0..5000).map(|host| format!("host{host} A 192.0.2.{}\n", host % 256)).collect();
    let text = format!("$TTL 60\n@ SOA ns hostmaster 7 1 1 1 1\n@ NS ns\n{text}");
    let zone = ZoneEncoder::default()
        .encode(Source { name: "test".into(), bytes: text.as_bytes() }, &apex())
        .expect("a good zone");
    let address = "127.0.0.1:0".parse().expect("a literal");
    let primary = Primary::bind(address, [(apex(), zone)].into_iter().collect(), key).expect("loopback");
    let (address, stop) = (primary.local_addr().expect("bound"), Arc::new(AtomicBool::new(false)));
    let flag = stop.clone();
    thread::spawn(move || primary.run(&flag));
    (address, stop)
}

fn pull(server: SocketAddr, key: Option<Arc<TsigKey>>, serial: Option<u32>) -> PullResult {
    let timeout = Duration::from_secs(5);
    let pull = PullConfig { server, zones: vec![apex()], serial, parallel: 1, timeout, tls: None, key };
    pull.run(&AtomicBool::new(false))
}

#[test]
fn signed_zones_are_transferred() {
    let (server, stop) = primary(key(KEY));
    for serial in [None, Some(3)] {
        let result = pull(server, key(KEY), serial);
        assert_eq!((result.zones, result.records), (1, 5003), "{result:?}");
        assert!(result.messages > 3);
    }
    let failure = |key| pull(server, key, None).failures.remove(0);
    assert_eq!(failure(None), "example.org.: the response is REFUSED");
    for (wrong, error) in [
        ("hmac-sha256:other.example:c2VjcmV0", "BADKEY"),
        ("hmac-sha512:transfer.example:c2VjcmV0", "BADKEY"),
        ("hmac-sha256:transfer.example:c2VjcmV1", "BADSIG"),
    ] {
        assert_eq!(
            failure(key(wrong)),
            format!("example.org.: message 1: the server refuses the signature with {error}")
        );
    }
    stop.store(true, Ordering::Relaxed);
    let (keyless, stop) = primary(None);
    let error = pull(keyless, key(KEY), None).failures.remove(0);
    assert_eq!(error, "example.org.: message 1: the server refuses the signature with BADKEY");
    stop.store(true, Ordering::Relaxed);
}

/// A man in the middle changes an octet of the second message.
#[test]
fn forged_zones_are_rejected() {
    let (server, stop) = primary(key(KEY));
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let forger = listener.local_addr().expect("bound");
    thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("loopback");
        let mut upstream = TcpStream::connect(server).expect("loopback");
        let mut octets = vec![0; 4096];
        let len = client.read(&mut octets).expect("a query");
        upstream.write_all(&octets[..len]).expect("loopback");
        let mut zone = vec![0; 40_000];
        upstream.read_exact(&mut zone).expect("messages");
        zone[20_000] ^= 1;
        client.write_all(&zone).expect("loopback");
    });
    let result = pull(forger, key(KEY), None);
    assert_eq!(result.failures, ["example.org.: message 2: the MAC is wrong (BADSIG)"]);
    stop.store(true, Ordering::Relaxed);
}

/// A server that verifies each query and responds, signed if `signs` says so of the number of the query.
fn verifying_server(signs: fn(u32) -> bool) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = socket.local_addr().expect("bound");
    thread::spawn(move || {
        let (known, mut octets) = (key(KEY).expect("a key"), [0; 2048]);
        for number in 0.. {
            let Ok((len, peer)) = socket.recv_from(&mut octets) else { return };
            let now_s = netio::clock::real().as_secs();
            let signer = verify_query(&octets[..len], |name| (name == known.name()).then_some(&*known), now_s);
            let mut signer = signer.expect("a good signature").expect("a signature");
            let mut answer = octets[..29].to_vec();
            answer[2] |= 0x80;
            answer[6..12].fill(0);
            if signs(number) {
                signer.sign(&mut answer, 0, now_s).expect("short");
            }
            let _ = socket.send_to(&answer, peer);
        }
    });
    address
}

#[test]
fn updates_and_notifies_are_signed_and_their_responses_verified() {
    let updates = maintenance::updates(apex().as_ref(), 50).expect("short");
    let notifies = maintenance::notifies([apex().as_ref()]).expect("short");
    for queries in [updates, notifies] {
        let server = verifying_server(|number| number % 10 != 0);
        let job = Job {
            key: key(KEY),
            ..Job::new(server, Arc::new(queries), Timing::Rate(RateProfile::flat(500.0, 0.2), ArrivalProcess::Constant))
        };
        let metrics = job.run(&AtomicBool::new(false), |_| ()).expect("loopback").metrics;
        assert_eq!((metrics.queries, metrics.responses, metrics.wrong), (100, 100, 10));
        assert!(metrics.wrong_examples[0].ends_with("the message is not signed"), "{:?}", metrics.wrong_examples);
    }
}

/// An unsigned response counts as none, and the query is sent again (RFC 8945 5.3.1).
#[test]
fn a_second_server_gets_signed_queries() {
    let queries = maintenance::updates(apex().as_ref(), 50).expect("short");
    let ask = |signs| ResponseChecker::from_server(verifying_server(signs), key(KEY), &queries, Duration::from_secs(1));
    assert!(ask(|number| number >= 100 || number % 10 != 0).expect("signed in the end").checks_content());
    let error = ask(|_| false).expect_err("never signed").to_string();
    assert!(
        error.starts_with("the second server does not answer ") && error.ends_with(": the message is not signed"),
        "{error}"
    );
}
