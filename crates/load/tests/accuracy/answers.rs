//! Answers: right, wrong, expected, repeated, and by type and RCODE.

use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use load::job::Job;
use load::queries::{QueryTemplate, file};
use load::verify::ResponseChecker;

use crate::udp_server::serve;
use crate::{job, queries, run};

#[test]
fn one_wrong_response_in_a_hundred_makes_the_run_invalid() {
    for corrupt in [|response: &mut Vec<u8>| response[13] ^= 1, |response: &mut Vec<u8>| response.truncate(20)] {
        let server = serve(move |number, response| {
            if number % 100 == 0 {
                corrupt(response);
            }
            true
        });
        let metrics = run(&job(server, 2000.0, 0.5)).metrics;
        assert_eq!((metrics.responses, metrics.wrong), (1000, 10));
        assert!(metrics.invalid_because().contains(&"10 of 1000 answers are wrong".into()));
        assert!(metrics.wrong_examples[0].contains(".example. A: got an answer to "), "{:?}", metrics.wrong_examples);
    }
}

#[test]
fn responses_are_compared_with_the_expectation_of_their_query() {
    let server = serve(|_, response| {
        let is_7 = response[12..].starts_with(b"\x05name7");
        response[3] = if is_7 { 3 } else { 5 };
        true
    });
    let queries = queries();
    let text: String =
        (0..100).map(|number| if number == 7 { "NXDOMAIN other\n" } else { "REFUSED other\n" }).collect();
    let checker = ResponseChecker::from_text(&text, &queries).expect("expectations");
    let metrics = run(&Job { checker, ..job(server, 1000.0, 0.3) }).metrics;
    assert_eq!((metrics.checked, metrics.wrong, metrics.rcodes[3], metrics.rcodes[5]), (300, 0, 3, 297));
    let checker = ResponseChecker::from_text(&"REFUSED other\n".repeat(100), &queries).expect("expectations");
    let metrics = run(&Job { checker, ..job(server, 1000.0, 0.3) }).metrics;
    assert_eq!(metrics.wrong_examples[0], "name7.example. A: expected REFUSED other, got NXDOMAIN other");
    assert_eq!(metrics.wrong, 3);
}

#[test]
fn responses_are_compared_with_those_of_a_second_server() {
    let (reference, subject) = (
        serve(|_, _| true),
        serve(|number, response| {
            response[3] = if number < 100 { 0 } else { 2 };
            true
        }),
    );
    let queries = queries();
    let checker = ResponseChecker::from_server(reference, None, &queries, Duration::from_secs(1)).expect("it answers");
    let metrics = run(&Job { checker, ..job(subject, 1000.0, 0.2) }).metrics;
    assert_eq!((metrics.checked, metrics.wrong), (200, 100));
}

/// The second server responds once it has all queries, in reverse order, and not to one of them.
#[test]
fn a_second_server_gets_many_queries_at_once_and_retries() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let reference = socket.local_addr().expect("bound");
    thread::spawn(move || {
        let receive = || {
            let mut octets = [0; 2048];
            let (len, peer) = socket.recv_from(&mut octets).expect("loopback");
            octets[2] |= 0x84;
            (octets[..len].to_vec(), peer)
        };
        let first: Vec<_> = (0..100).map(|_| receive()).collect();
        first.iter().rev().skip(1).for_each(|(response, peer)| drop(socket.send_to(response, peer)));
        let (response, peer) = receive();
        socket.send_to(&response, peer).expect("loopback");
    });
    let checker =
        ResponseChecker::from_server(reference, None, &queries(), Duration::from_millis(300)).expect("it answers");
    let metrics = run(&Job { checker, ..job(serve(|_, _| true), 1000.0, 0.1) }).metrics;
    assert_eq!((metrics.checked, metrics.wrong), (100, 0));

    let silent = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = silent.local_addr().expect("bound");
    let error =
        ResponseChecker::from_server(address, None, &queries(), Duration::from_millis(50)).expect_err("nobody answers");
    assert!(error.to_string().contains("the second server does not answer name"), "{error}");
}

#[test]
fn duplicate_and_malformed_responses_are_counted_separately() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let server = socket.local_addr().expect("bound");
    thread::spawn(move || {
        let mut octets = [0; 2048];
        while let Ok((len, peer)) = socket.recv_from(&mut octets) {
            octets[2] |= 0x80;
            for response in [&octets[..len], &octets[..len], &octets[..5]] {
                let _ = socket.send_to(response, peer);
            }
        }
    });
    let metrics = run(&job(server, 500.0, 0.2)).metrics;
    // The run ends with the last response and does not receive what follows.
    assert_eq!((metrics.responses, metrics.wrong), (100, 0));
    assert!((98..=100).contains(&metrics.unexpected) && (98..=100).contains(&metrics.discarded), "{metrics:?}");
}

#[test]
fn latencies_are_reported_by_type_and_rcode() {
    let server = serve(|number, response| {
        response[3] = if response[13] == b'x' { 3 } else { 0 };
        number % 10 != 0
    });
    let text = "a.example A\nx.example AAAA\n";
    let queries = Arc::new(file::read(text.as_bytes(), &QueryTemplate::default()).expect("queries"));
    let timeout = Duration::from_millis(100);
    let metrics = run(&Job { queries, breakdown: true, timeout, ..job(server, 1000.0, 0.2) }).metrics;
    let parts: Vec<_> = metrics
        .breakdown
        .iter()
        .map(|(qtype, rcode, latency)| (qtype.to_string(), rcode, latency.len(), latency.min() > 99_000_000))
        .collect();
    // The server loses every tenth query: those of type A.
    assert_eq!(
        parts,
        [("A".into(), None, 20, true), ("A".into(), Some(0), 80, false), ("AAAA".into(), Some(3), 100, false)]
    );
}
