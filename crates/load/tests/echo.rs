//! `zonda-load echo` and `sink`, queried over each transport.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::job::{Job, Timing, Transport};
use load::metrics::Metrics;
use load::queries::{CaptureOrigin, Queries, QueryTemplate, file};
use load::quic::QuicConfig;
use load::schedule::{ArrivalProcess, RateProfile};
use load::tls::{Purpose, TlsConfig, TlsOffer};
use load::verify::ResponseChecker;
use rustls::pki_types::ServerName;
use serde_json::Value;

use crate::running::Running;
use crate::tries::passes_in_one_of_ten;

#[path = "shared/program.rs"]
mod program;
#[path = "shared/running.rs"]
mod running;
#[path = "shared/tries.rs"]
mod tries;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A running server.
struct Server {
    running: Running,
    ready: Value,
}

impl Server {
    fn start(arguments: &str) -> Server {
        let mut running = Running::start(program::command(&format!("{arguments} --listen 127.0.0.1 --port 0")));
        let ready = running.next_with("msg_type", "ready");
        Server { running, ready: ready["zonda"].clone() }
    }

    fn address(&self, port: &str) -> SocketAddr {
        SocketAddr::new(LOCALHOST, self.ready[port].as_u64().expect("a port") as u16)
    }

    /// Sends SIGTERM and returns the totals.
    fn stop(self) -> Value {
        let (sum, code) = self.running.terminate();
        assert_eq!(code, Some(0));
        sum
    }
}

fn job(server: SocketAddr, line: &str, count: u32) -> Job {
    let queries = Arc::new(file::read(line.as_bytes(), &QueryTemplate::default()).expect("a query"));
    let profile = RateProfile::flat(f64::from(count) * 5.0, 0.2);
    Job {
        connections: 4,
        timeout: Duration::from_secs(2),
        ..Job::new(server, queries, Timing::Rate(profile, ArrivalProcess::Constant))
    }
}

fn run(job: &Job) -> Metrics {
    job.run(&AtomicBool::new(false), |_| ()).expect("loopback").metrics
}

fn tls(resume: bool) -> Option<TlsConfig> {
    let name = ServerName::try_from("localhost").expect("a literal");
    let config = TlsConfig::new(&TlsOffer::default(), name, Vec::new(), resume, Purpose::Queries);
    Some(config.expect("a good configuration"))
}

#[test]
fn echo_answers_every_query_of_every_transport() {
    for cpus in ["", "--cpus 0,0"] {
        let server = Server::start(&format!("echo --tls-port 0 --answer-octets 300 {cpus}"));
        let address = server.address("port");
        let udp = run(&job(address, "www.example A", 500));
        let tcp = run(&Job { transport: Transport::Tcp, ..job(address, "www.example A", 400) });
        let over_tls =
            Job { transport: Transport::Tcp, tls: tls(false), ..job(server.address("tls_port"), ". NS", 300) };
        let over_tls = run(&over_tls);
        for (metrics, count) in [(&udp, 500), (&tcp, 400), (&over_tls, 300)] {
            assert_eq!((metrics.queries, metrics.responses, metrics.wrong), (count, count, 0), "{metrics:?}");
            assert_eq!(metrics.response_octets, 300 * count);
        }
        assert_eq!(server.ready["threads"], if cpus.is_empty() { 1 } else { 2 });
        let sum = server.stop();
        assert_eq!((&sum["queries"], &sum["responses"]), (&1200.into(), &1200.into()));
        let zonda = &sum["zonda"];
        for (transport, count) in [("udp", 500), ("tcp", 400), ("tls", 300)] {
            assert_eq!((&zonda[transport]["queries"], &zonda[transport]["responses"]), (&count.into(), &count.into()));
        }
        assert_eq!((&zonda["connections"], &zonda["udp_drops"]), (&8.into(), &0.into()));
        assert!(zonda["cpu_ns"].as_u64().is_some_and(|cpu| cpu > 0) && zonda["seconds"].as_f64() > Some(0.6));
    }
}

/// Over QUIC alone, a certificate needed a port for TLS.
#[test]
fn a_certificate_needs_a_port_for_tls_or_quic() {
    let error = |ports: &str| {
        let command = format!("echo --listen 127.0.0.1 --port 0 --cert nowhere.pem --key nowhere.pem {ports}");
        String::from_utf8(program::run(&command).stderr).expect("UTF-8")
    };
    for ports in ["--quic-port 0", "--tls-port 0", "--tls-port 0 --quic-port 0"] {
        assert!(error(ports).contains("nowhere.pem: "), "{ports}: {}", error(ports));
    }
    assert!(error("").contains("<--tls-port <PORT>|--quic-port <PORT>>"), "{}", error(""));
}

#[test]
fn echo_answers_queries_over_quic_and_sink_does_not() {
    let name = ServerName::try_from("localhost").expect("a literal");
    let tls = TlsConfig::new(&TlsOffer::default(), name, Vec::new(), false, Purpose::Transfers)
        .expect("a good configuration");
    let queries = file::read(b"www.example A", &QueryTemplate::default()).expect("a query");
    for (command, is_answered) in [("echo --answer-octets 3000 --cpus 0,0", true), ("sink", false)] {
        let server = Server::start(&format!("{command} --quic-port 0"));
        let config = QuicConfig {
            server: server.address("quic_port"),
            sources: None,
            tls: &tls,
            connections: 4,
            rate: 1000.0,
            outstanding: 20,
            query_rate: None,
            queries_per_connection: 0,
            warm_up: Duration::ZERO,
            duration: Duration::from_millis(200),
            queries: &queries,
            checker: ResponseChecker::from_text("NOERROR nodata", &queries).expect("a literal"),
        };
        let result = config.run(&AtomicBool::new(false), |_| ()).expect("loopback");
        let metrics = result.metrics;
        // An echo has no SOA record.
        assert_eq!((metrics.wrong, metrics.checked), (metrics.responses, metrics.responses), "{metrics:?}");
        assert!(result.busy > 0.2 || !is_answered, "{}", result.busy);
        assert_eq!((metrics.closed_early, metrics.unexpected), (0, 0), "{metrics:?}");
        let (responses, lost) = if is_answered { (metrics.queries, 0) } else { (0, metrics.queries) };
        assert!(metrics.queries > 100, "{metrics:?}");
        assert_eq!(
            (metrics.responses, metrics.timeouts),
            (responses.saturating_sub(metrics.interrupted), lost.saturating_sub(metrics.interrupted))
        );
        assert_eq!(metrics.response_octets, 3000 * metrics.responses);
        let sum = server.stop();
        let quic = &sum["zonda"]["quic"];
        assert!(quic["queries"].as_u64() >= Some(metrics.responses + metrics.timeouts), "{sum}");
        assert_eq!((quic["responses"] == 0, &sum["zonda"]["connections"]), (!is_answered, &4.into()));
    }
}

/// A run at a rate reported no handshakes at all: the counters begin when the connections are open.
#[test]
fn the_handshakes_of_the_opening_are_reported_apart() {
    let server = Server::start("echo --quic-port 0");
    let port = server.address("quic_port").port();
    let queries = program::file("opening.queries", "www.example A\n");
    let command = format!("quic --server 127.0.0.1 --port {port} --queries {} --connections 4", queries.display());
    for (asked, later) in [("--query-rate 100 --warm-up 0.1", 0), ("--outstanding 0", 4)] {
        let done = program::run(&format!("{command} {asked} --seconds 0.2"));
        let sum = program::records(&done).pop().expect("a sum");
        let opening = &sum["zonda"]["opening"];
        assert_eq!((&opening["handshakes"], &opening["handshakes_failed"]), (&4.into(), &0.into()), "{sum}");
        assert!(opening["conn_latency"]["handshake"]["min"].as_u64() > Some(0) && opening["seconds"].is_f64(), "{sum}");
        // Those of idle connections are the result.
        assert_eq!(sum["conn_info"]["handshakes"], later, "{sum}");
    }
}

#[test]
fn the_transports_of_a_mix_have_their_shares() {
    let server = Server::start("echo --tls-port 0");
    let tls_port = server.address("tls_port").port();
    let mix = Job {
        transport: Transport::Mixed,
        tcp_share: 0.3,
        tls_share: 0.2,
        tls_port,
        tls: tls(false),
        ..job(server.address("port"), ". NS", 1000)
    };
    let metrics = run(&mix);
    assert_eq!((metrics.responses, metrics.wrong, metrics.handshakes), (1000, 0, 8));
    let sum = server.stop();
    for (transport, share) in [("udp", 0.5), ("tcp", 0.3), ("tls", 0.2)] {
        let found = sum["zonda"][transport]["queries"].as_f64().expect("a number") / 1000.0;
        assert!((found - share).abs() < 0.08, "{transport} has {found}, not {share}");
    }
}

#[test]
fn idle_connections_are_closed() {
    let server = Server::start("echo");
    let spaced = |idle_timeout| {
        let timing = Timing::Rate(RateProfile::flat(4.0, 1.5), ArrivalProcess::Constant);
        let job = job(server.address("port"), ". NS", 1);
        run(&Job { transport: Transport::Tcp, connections: 1, idle_timeout, timing, ..job })
    };
    let kept = spaced(None);
    assert_eq!((kept.responses, kept.handshakes, kept.closed_idle), (6, 1, 0));
    let closed = spaced(Some(Duration::from_millis(20)));
    assert_eq!((closed.responses, closed.closed_early), (6, 0));
    // A busy machine may answer one query when the next is due.
    assert!(closed.handshakes >= 4 && closed.closed_idle >= 4, "{closed:?}");
}

#[test]
fn captured_clients_with_an_idle_timeout_have_connections_of_their_own() {
    let server = Server::start("echo");
    let line = file::read(b". NS", &QueryTemplate::default()).expect("a query");
    let mut queries = Queries::default();
    for number in 0..90 {
        let origin =
            CaptureOrigin { time_ns: number * 2_000_000, client: number as u32 % 30, port: 1000, connection: None };
        queries.push_captured(line.at(0).message, origin).expect("a query");
    }
    let job = Job::new(server.address("port"), Arc::new(queries), Timing::Trace { speed: 1.0 });
    let replay = Job { transport: Transport::Tcp, connections: 4, ..job };
    assert_eq!(run(&replay).handshakes, 4);
    let metrics = run(&Job { idle_timeout: Some(Duration::from_secs(20)), ..replay });
    assert_eq!((metrics.responses, metrics.handshakes), (90, 30));
}

#[test]
fn echo_resumes_tls_sessions() {
    let server = Server::start("echo --tls-port 0");
    let timing = Timing::Closed { outstanding: 1, seconds: 0.2 };
    let one_by_one = Job {
        transport: Transport::Tcp,
        tls: tls(true),
        queries_per_connection: 1,
        timing,
        ..job(server.address("tls_port"), ". NS", 1)
    };
    let metrics = run(&one_by_one);
    assert!(metrics.handshakes > 1 && metrics.responses > 1, "{metrics:?}");
    let resumed = server.stop()["zonda"]["handshakes_resumed"].as_u64().expect("a number");
    assert!(resumed >= metrics.handshakes_resumed && metrics.handshakes_resumed > 0, "{resumed}");
}

/// A client that sends 1000 queries before it reads: more answers than the buffers of both sockets hold.
#[test]
fn echo_waits_for_clients_that_do_not_read() {
    use std::io::{Read, Write};
    let server = Server::start("echo --answer-octets 60000");
    let mut client = std::net::TcpStream::connect(server.address("port")).expect("loopback");
    let queries = file::read(b"www.example A", &QueryTemplate::default()).expect("a query");
    client.write_all(&wire::framing::frame(queries.at(0).message).repeat(1000)).expect("it fits into the buffers");
    let mut answer = vec![0; 60_002];
    for number in 0..1000 {
        client.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer[..2], 60_000u16.to_be_bytes(), "{number}");
    }
    assert_eq!(server.stop()["zonda"]["tcp"]["responses"], 1000);
}

#[test]
fn a_sink_answers_soa_queries_alone() {
    passes_in_one_of_ten(|| {
        let server = Server::start("sink");
        let short = |line| Job { timeout: Duration::from_millis(20), ..job(server.address("port"), line, 100) };
        assert_eq!(run(&short("www.example A")).responses, 0);
        assert!(run(&short(". SOA")).responses > 0);
        let sum = server.stop();
        assert_eq!(sum["queries"], 200);
        assert!(sum["responses"].as_u64().is_some_and(|responses| (1..=100).contains(&responses)));
    });
}

#[test]
fn faults_are_injected() {
    let server = Server::start("echo --fault drop-every=10,wrong-every=4");
    let metrics = run(&Job { timeout: Duration::from_millis(200), ..job(server.address("port"), ". NS", 100) });
    assert_eq!((metrics.responses, metrics.timeouts, metrics.rcodes[2]), (90, 10, 20));
    let bad = program::run("echo --listen 127.0.0.1 --port 0 --fault loss=1");
    assert_eq!(bad.status.code(), Some(2));
}

fn find_peak(server: &Server, options: &str) -> (Value, Vec<Value>) {
    // Tests run at the same time, so each has files of its own.
    let port = server.address("port").port();
    let queries = program::file(&format!("peak-echo-{port}.queries"), "www.example A\n");
    let expected = program::file(&format!("peak-echo-{port}.expected"), "NOERROR answer\n");
    let (queries, expected) = (queries.display(), expected.display());
    let records = program::records(&program::run(&format!(
        "query --server 127.0.0.1 --port {port} --queries {queries} --expect {expected} {options}"
    )));
    let trials = records.iter().filter(|record| record["msg_type"] == "trial").map(|record| record["zonda"].clone());
    (records.last().expect("a sum")["zonda"].clone(), trials.collect())
}

/// The server falsifies answers above 2000 queries per second, all of which it answers.
#[test]
fn a_peak_search_stops_where_answers_become_wrong() {
    passes_in_one_of_ten(|| {
        let server = Server::start("echo --fault wrong-above=2000");
        let (sum, trials) =
            find_peak(&server, "--find-peak 90 --rate 500 --seconds 0.5 --resolution 20 --timeout-ms 300");
        let peak = &sum["peaks"][0];
        let [rate, failed] = ["rate", "failed_rate"].map(|key| peak[key].as_f64().expect("a number"));
        assert!((800.0..=2000.0).contains(&rate) && failed <= rate * 1.21, "{peak}");
        assert_eq!(peak["failure"], "wrong");
        let wrong = trials.iter().find(|trial| trial["wrong"] != 0).expect("a trial with wrong answers");
        assert!(wrong["void_because"][0].as_str().is_some_and(|why| why.contains("answers are wrong")), "{wrong}");
        let reasons = sum["invalid_because"].as_array().expect("a list");
        assert!(
            reasons.len() == 1 && reasons[0].as_str().is_some_and(|why| why.contains("answers are wrong")),
            "{reasons:?}"
        );
    });
}

/// The server answers at most 128 queries in 40 ms and buffers the others, so all are answered before they time out.
#[test]
fn a_peak_search_is_not_deceived_by_a_buffer() {
    let server = Server::start("echo --fault delay-us=40000");
    let (sum, _) = find_peak(&server, "--find-peak 90 --rate 8000 --seconds 0.5 --resolution 30 --timeout-ms 9000");
    let peak = &sum["peaks"][0];
    assert!(peak["rate"].as_f64().is_some_and(|rate| rate < 4500.0), "{peak}");
    assert!(sum["responses_after_window"].as_u64() > Some(1000), "{sum}");
}

/// More datagrams than the receive buffer holds while the server pauses.
#[test]
fn datagrams_that_the_kernel_drops_are_counted() {
    let server = Server::start("echo --receive-buffer 1 --fault delay-us=300000");
    let client = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let queries = file::read(b"www.example A", &QueryTemplate::default()).expect("a query");
    for _ in 0..1000 {
        client.send_to(queries.at(0).message, server.address("port")).expect("loopback");
    }
    let sum = server.stop();
    let drops = sum["zonda"]["udp_drops"].as_u64().expect("a number");
    assert!(drops > 500 && drops + sum["queries"].as_u64().expect("a number") <= 1000, "{sum}");
}
