//! The generator against servers whose truth is known: stalls, wrong answers, silence, and a receiver that looks at the clock.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use load::plan::{Arrivals, Profile, Schedule};
use load::queries::{Dress, Queries, file};
use load::run::{Job, Outcome, Timing, Transport};
use load::verify::Verifier;

/// Answers each datagram with what `behave` makes of it, until the process ends.
fn serve(mut behave: impl FnMut(u64, &mut Vec<u8>) -> bool + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = socket.local_addr().expect("bound");
    thread::spawn(move || {
        let mut octets = [0; 2048];
        for number in 0.. {
            let Ok((len, peer)) = socket.recv_from(&mut octets) else { return };
            let mut answer = octets[..len].to_vec();
            answer[2] |= 0x84;
            if behave(number, &mut answer) {
                let _ = socket.send_to(&answer, peer);
            }
        }
    });
    address
}

fn queries() -> Arc<Queries> {
    let text: String = (0..100).map(|number| format!("name{number}.example A\n")).collect();
    Arc::new(file::read(text.as_bytes(), &Dress::default()).expect("queries"))
}

fn job(server: SocketAddr, rate: f64, seconds: f64) -> Job {
    Job {
        server,
        transport: Transport::Udp,
        tcp_share: 0.0,
        connections: 4,
        queries_per_connection: 0,
        sources: None,
        bunch: 8,
        tls: None,
        key: None,
        queries: queries(),
        verifier: Verifier::Question,
        timing: Timing::Rate(Profile::flat(rate, seconds), Arrivals::Constant),
        warm_up: Duration::ZERO,
        timeout: Duration::from_secs(1),
        interval: Duration::from_millis(250),
        cpus: Vec::new(),
    }
}

fn run(job: &Job) -> Outcome {
    job.run(&AtomicBool::new(false), |_| ()).expect("loopback")
}

/// A server that stalls 200 ms holds up a closed loop, which then asks less: what it measures hides the stall. The open loop
/// goes on asking, and a fifth of its queries in this second waited up to 200 ms.
#[test]
fn a_stall_shows_in_the_open_loop_and_hides_in_the_closed_one() {
    let stalling = || {
        serve(|number, _| {
            if number == 100 {
                thread::sleep(Duration::from_millis(200));
            }
            true
        })
    };
    let open = run(&job(stalling(), 1000.0, 1.0)).measure;
    assert_eq!((open.queries, open.responses), (1000, 1000));
    let waited = open.latency_intended.count_between(20_000_000, u64::MAX);
    assert!((120..400).contains(&waited), "{waited} of 1000 waited more than 20 ms");

    let timing = Timing::Closed { outstanding: 1, seconds: 1.0 };
    let closed = run(&Job { timing, ..job(stalling(), 1.0, 1.0) }).measure;
    assert!(closed.latency_intended.value_at_quantile(0.99) < 20_000_000, "the closed loop sees the stall once");
    assert!(closed.latency_intended.max() >= 200_000_000, "{} of {}", closed.latency_intended.max(), closed.queries);
}

/// What holds up the generator itself shows in the latency from the intended time, not in that from the actual one: here
/// 20,000 queries are due at once.
#[test]
fn queries_that_leave_late_have_waited() {
    let server = serve(|_, _| true);
    let profile = Profile::steps(&[2_000_000.0, 1000.0], 0.01);
    let timing = Timing::Rate(profile, Arrivals::Constant);
    let measure = run(&Job { timing, ..job(server, 1.0, 1.0) }).measure;
    assert_eq!(measure.scheduled, measure.queries + measure.missed);
    let (intended, actual) = (&measure.latency_intended, &measure.latency_actual);
    assert!(intended.mean() >= actual.mean() + 0.9 * measure.schedule_error.mean());
    assert!(measure.late > 0 && measure.schedule_error.max() > 1_000_000);
    assert!(measure.invalid_because().iter().any(|reason| reason.contains("left more than 1 ms after their time")));
}

#[test]
fn one_wrong_answer_in_a_hundred_makes_the_run_invalid() {
    for break_answer in [|answer: &mut Vec<u8>| answer[13] ^= 1, |answer: &mut Vec<u8>| answer.truncate(20)] {
        let server = serve(move |number, answer| {
            if number % 100 == 0 {
                break_answer(answer);
            }
            true
        });
        let measure = run(&job(server, 2000.0, 0.5)).measure;
        assert_eq!((measure.responses, measure.wrong), (1000, 10));
        assert!(measure.invalid_because().contains(&"10 of 1000 answers are wrong".into()));
        assert!(measure.wrong_examples[0].contains(".example. A: got an answer to "), "{:?}", measure.wrong_examples);
    }
}

#[test]
fn answers_are_held_against_expectations_by_the_number_of_the_query() {
    let server = serve(|_, answer| {
        let is_7 = answer[12..].starts_with(b"\x05name7");
        answer[3] = if is_7 { 3 } else { 5 };
        true
    });
    let queries = queries();
    let text: String =
        (0..100).map(|number| if number == 7 { "NXDOMAIN other\n" } else { "REFUSED other\n" }).collect();
    let verifier = Verifier::from_text(&text, &queries).expect("expectations");
    let measure = run(&Job { verifier, ..job(server, 1000.0, 0.3) }).measure;
    assert_eq!((measure.checked, measure.wrong, measure.rcodes[3], measure.rcodes[5]), (300, 0, 3, 297));
    let verifier = Verifier::from_text(&"REFUSED other\n".repeat(100), &queries).expect("expectations");
    let measure = run(&Job { verifier, ..job(server, 1000.0, 0.3) }).measure;
    assert_eq!(measure.wrong_examples[0], "name7.example. A: expected REFUSED other, got NXDOMAIN other");
    assert_eq!(measure.wrong, 3);
}

#[test]
fn a_second_server_says_what_is_right() {
    let (reference, subject) = (
        serve(|_, _| true),
        serve(|number, answer| {
            answer[3] = if number < 100 { 0 } else { 2 };
            true
        }),
    );
    let queries = queries();
    let verifier = Verifier::from_server(reference, None, &queries, Duration::from_secs(1)).expect("it answers");
    let measure = run(&Job { verifier, ..job(subject, 1000.0, 0.2) }).measure;
    assert_eq!((measure.checked, measure.wrong), (200, 100));
}

/// The second server answers when it has been asked everything, the last question first, and loses the first try of one.
#[test]
fn a_second_server_is_asked_many_queries_at_a_time() {
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
        first.iter().rev().skip(1).for_each(|(answer, peer)| drop(socket.send_to(answer, peer)));
        let (answer, peer) = receive();
        socket.send_to(&answer, peer).expect("loopback");
    });
    let verifier = Verifier::from_server(reference, None, &queries(), Duration::from_millis(300)).expect("it answers");
    let measure = run(&Job { verifier, ..job(serve(|_, _| true), 1000.0, 0.1) }).measure;
    assert_eq!((measure.checked, measure.wrong), (100, 0));

    let silent = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = silent.local_addr().expect("bound");
    let error =
        Verifier::from_server(address, None, &queries(), Duration::from_millis(50)).expect_err("nobody answers");
    assert!(error.to_string().contains("the second server does not answer name"), "{error}");
}

/// Every tenth query is never answered: each counts as a time-out and stands in the histograms at no less than the time-out.
#[test]
fn timeouts_are_counted_and_stay_in_the_latency() {
    let server = serve(|number, _| number % 10 != 0);
    let outcome = run(&Job { timeout: Duration::from_millis(100), ..job(server, 1000.0, 0.5) });
    let seconds = (outcome.until - outcome.since).as_secs_f64();
    assert!((0.5..0.58).contains(&seconds), "waiting for answers is no part of the time of sending: {seconds}");
    let measure = outcome.measure;
    assert_eq!((measure.queries, measure.responses, measure.timeouts), (500, 450, 50));
    assert_eq!(measure.latency_intended.len(), 500);
    // Three significant digits: the bucket of 100 ms begins a little below it.
    assert_eq!(measure.latency_actual.count_between(99_900_000, u64::MAX), 50);
}

#[test]
fn doubled_and_broken_answers_are_told_apart() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let server = socket.local_addr().expect("bound");
    thread::spawn(move || {
        let mut octets = [0; 2048];
        while let Ok((len, peer)) = socket.recv_from(&mut octets) {
            octets[2] |= 0x80;
            for answer in [&octets[..len], &octets[..len], &octets[..5]] {
                let _ = socket.send_to(answer, peer);
            }
        }
    });
    let measure = run(&job(server, 500.0, 0.2)).measure;
    // The run ends with the last answer; what follows it is seen by nobody.
    assert_eq!((measure.responses, measure.wrong), (100, 0));
    assert!((98..=100).contains(&measure.unexpected) && (98..=100).contains(&measure.discarded), "{measure:?}");
}

/// The reported error of the schedule against the arrival times that a receiver sees.
#[test]
fn the_schedule_error_is_what_a_receiver_sees() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let server = socket.local_addr().expect("bound");
    let receiver = thread::spawn(move || {
        let (mut octets, mut arrivals) = ([0; 2048], Vec::new());
        while arrivals.len() < 500 {
            let (len, peer) = socket.recv_from(&mut octets).expect("loopback");
            arrivals.push(Instant::now());
            octets[2] |= 0x80;
            socket.send_to(&octets[..len], peer).expect("loopback");
        }
        arrivals
    });
    let profile = Profile::flat(1000.0, 0.5);
    let timing = Timing::Rate(profile.clone(), Arrivals::Poisson(5));
    let measure = run(&Job { timing, ..job(server, 1.0, 1.0) }).measure;
    let arrivals = receiver.join().expect("no panic");
    let scheduled: Vec<u64> = Schedule::of_rate(profile, Arrivals::Poisson(5)).take(500).collect();
    assert!(measure.queries >= 450, "Poisson: 500 on average, {} with this seed", measure.queries);
    // Where the receiver's zero is, the least delayed arrival tells.
    let delays = |zero: Instant| -> Vec<i64> {
        let times = arrivals.iter().map(|arrival| arrival.duration_since(zero).as_nanos() as i64);
        times.zip(&scheduled).map(|(time, &planned)| time - planned as i64).collect()
    };
    let zero = arrivals[0];
    let least = delays(zero).into_iter().min().expect("not empty");
    let mut seen: Vec<i64> = delays(zero).into_iter().map(|delay| delay - least).collect();
    seen.sort_unstable();
    let (seen, told) = (seen[250], measure.schedule_error.value_at_quantile(0.5) as i64);
    assert!((seen - told).abs() < 1_000_000, "the receiver sees {seen} ns, the report says {told} ns");
}

#[test]
fn a_run_that_is_broken_off_says_so() {
    let server = serve(|_, _| false);
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        flag.store(true, Ordering::Relaxed);
    });
    let job = Job { timeout: Duration::from_secs(60), ..job(server, 1000.0, 60.0) };
    let measure = job.run(&stop, |_| ()).expect("loopback").measure;
    assert!(measure.queries > 50 && measure.interrupted == measure.queries, "{measure:?}");
}

#[test]
fn intervals_add_up_and_the_warm_up_is_in_none() {
    let server = serve(|_, _| true);
    let mut intervals = Vec::new();
    let job = Job { warm_up: Duration::from_millis(250), ..job(server, 1000.0, 1.0) };
    let outcome =
        job.run(&AtomicBool::new(false), |interval| intervals.push(interval.measure.clone())).expect("loopback");
    assert_eq!((outcome.measure.queries, outcome.measure.responses), (1000, 1000));
    assert_eq!(intervals.iter().map(|measure| measure.queries).sum::<u64>(), 1000);
    assert!(intervals.len() >= 4, "{} intervals", intervals.len());
}

#[test]
fn several_sources_and_threads_share_the_schedule() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let server = socket.local_addr().expect("bound");
    let receiver = thread::spawn(move || {
        let (mut octets, mut peers) = ([0; 2048], std::collections::HashMap::new());
        for _ in 0..1000 {
            let (len, peer) = socket.recv_from(&mut octets).expect("loopback");
            octets[2] |= 0x80;
            socket.send_to(&octets[..len], peer).expect("loopback");
            *peers.entry(peer.ip()).or_insert(0) += 1;
        }
        peers
    });
    let sources = netio::client::Sources { first: [127, 7, 0, 1].into(), count: 200 };
    let cpu = netio::pin::allowed().expect("readable")[0];
    let job = Job { sources: Some(sources), cpus: vec![cpu, cpu], ..job(server, 2000.0, 0.5) };
    assert_eq!(run(&job).measure.responses, 1000);
    let peers = receiver.join().expect("no panic");
    assert_eq!(peers.len(), 200);
    assert!(peers.values().all(|&count| count == 5), "{peers:?}");
}

/// Queries of several lengths leave in segments and come back as what they were.
#[test]
fn segments_lose_and_mix_up_nothing() {
    let server = serve(|_, _| true);
    let timing = Timing::Rate(Profile::flat(1_000_000.0, 0.0001), Arrivals::Constant);
    let several = netio::client::Sources { first: [127, 8, 0, 1].into(), count: 7 };
    for (bunch, sources) in [(64, None), (64, Some(several)), (1, None)] {
        let measure = run(&Job { bunch, sources, timing: timing.clone(), ..job(server, 1.0, 1.0) }).measure;
        assert_eq!((measure.queries, measure.responses, measure.wrong, measure.unexpected), (100, 100, 0, 0));
    }
}

/// A closed loop asks neighbours in the order of their lengths, and all of them equally often.
#[test]
fn a_closed_loop_asks_all_and_like_lengths_together() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let server = serve(move |_, answer| sender.send(answer[12..].to_vec()).is_ok());
    let timing = Timing::Closed { outstanding: 16, seconds: 0.3 };
    let measure = run(&Job { timing, ..job(server, 1.0, 1.0) }).measure;
    assert_eq!((measure.wrong, measure.timeouts), (0, 0));
    let asked: Vec<_> = receiver.try_iter().take(100).collect();
    assert!(asked.len() == 100 && asked.is_sorted_by_key(|question| std::cmp::Reverse(question.len())), "{asked:?}");
    assert_eq!(asked.iter().collect::<std::collections::HashSet<_>>().len(), 100);
}

/// The capture of a root server, replayed twenty times as fast from as many sources as it has, by UDP.
#[test]
fn a_real_capture_is_replayed() {
    let file = data_file("pcap/root-server-2016.pcap.xz");
    let Some(octets) = file.and_then(|path| Command::new("xz").arg("-dkc").arg(path).output().ok()) else {
        let _ = writeln!(std::io::stderr(), "skipped: no capture in the folder that ZONDA_DATA names, or no xz");
        return;
    };
    let capture = load::queries::pcap::read(&octets.stdout, 53).expect("a capture");
    let origins = capture.queries.origins();
    assert!((10_300..10_600).contains(&origins.len()), "{} queries", origins.len());
    assert!(origins.iter().any(|origin| origin.stream));
    assert!((55..65).contains(&(origins.last().expect("not empty").time_ns / 1_000_000_000)));
    let count = capture.queries.len() as u64;
    let sources = Some(netio::client::Sources { first: [127, 9, 0, 1].into(), count: 2500 });
    let queries = Arc::new(capture.queries);
    let timing = Timing::Trace { speed: 20.0 };
    let server = serve(|_, _| true);
    let measure = run(&Job { queries, sources, timing, connections: 1, ..job(server, 1.0, 1.0) }).measure;
    assert_eq!((measure.scheduled, measure.wrong), (count, 0));
    assert_eq!(measure.responses + measure.timeouts + measure.missed, count);
    assert!(measure.responses > count * 9 / 10, "{measure:?}");
}

/// Real input lies in a folder beside the workspace, or where ZONDA_DATA says.
fn data_file(name: &str) -> Option<PathBuf> {
    let beside = || Some(Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3)?.join("shared/data"));
    let folder = std::env::var_os("ZONDA_DATA").map(PathBuf::from).or_else(beside)?;
    Some(folder.join(name)).filter(|path| path.exists())
}

//----------- TCP --------------------------------------------------------------

/// Accepts connections and answers their queries; returns how many connections there were when `connections` have ended.
fn serve_stream(connections: usize, answers_each: usize) -> (SocketAddr, thread::JoinHandle<Vec<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let handle = thread::spawn(move || {
        let threads: Vec<_> = (0..connections)
            .map(|_| {
                let (mut stream, _) = listener.accept().expect("loopback");
                thread::spawn(move || {
                    let mut answered = 0;
                    while answered < answers_each && answer_one(&mut stream).is_ok() {
                        answered += 1;
                    }
                    answered
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    (address, handle)
}

fn answer_one(stream: &mut (impl Read + Write)) -> std::io::Result<()> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message)?;
    message[2] |= 0x80;
    // In two writes, so that answers come in pieces.
    stream.write_all(&len)?;
    stream.write_all(&message[..5])?;
    stream.write_all(&message[5..])
}

#[test]
fn connections_stay_open_or_have_so_many_queries() {
    let (server, served) = serve_stream(4, usize::MAX);
    let kept = Job { transport: Transport::Tcp, ..job(server, 1000.0, 0.5) };
    let measure = run(&kept).measure;
    assert_eq!((measure.responses, measure.wrong, measure.handshakes), (500, 0, 4));
    assert_eq!(served.join().expect("no panic"), [125; 4]);

    let (server, served) = serve_stream(48, usize::MAX);
    let measure = run(&Job { queries_per_connection: 3, ..Job { server, ..kept } }.for_queries(144)).measure;
    assert_eq!((measure.responses, measure.wrong, measure.handshakes), (144, 0, 48));
    assert_eq!(served.join().expect("no panic").iter().sum::<usize>(), 144);
}

/// A listen queue may be as short as 10 (Knot DNS, BIND): what does not fit is dropped, and comes back after a second.
#[test]
fn connections_of_a_closed_loop_begin_a_few_at_a_time() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let server = listener.local_addr().expect("bound");
    let timing = Timing::Closed { outstanding: 200, seconds: 0.02 };
    let job = Job { transport: Transport::Tcp, connections: 200, timing, ..job(server, 1.0, 1.0) };
    let measure = run(&Job { timeout: Duration::from_millis(50), ..job }).measure;
    assert!((8..=12).contains(&measure.queries), "{} queries before the first answer", measure.queries);
}

#[test]
fn queries_on_connections_that_the_server_closes_time_out() {
    let (server, _served) = serve_stream(1000, 1);
    let timing = Timing::Rate(Profile::flat(100_000.0, 0.001), Arrivals::Constant);
    let timeout = Duration::from_millis(200);
    let measure = run(&Job { transport: Transport::Tcp, timing, timeout, ..job(server, 1.0, 1.0) }).measure;
    // An answer may be lost to the reset that follows it.
    assert!(measure.responses <= measure.handshakes, "{measure:?}");
    assert_eq!((measure.queries, measure.responses + measure.timeouts), (100, 100));
    assert!(measure.closed_early > 0);
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let refused = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback");
    let timeout = Duration::from_millis(100);
    let measure = run(&Job { transport: Transport::Tcp, timeout, ..job(refused, 100.0, 0.1) }).measure;
    assert_eq!((measure.responses, measure.timeouts), (0, 10));
    assert!(measure.handshakes_failed > 0);
    let measure = run(&Job { timeout, ..job(refused, 100.0, 0.1) }).measure;
    assert_eq!((measure.responses, measure.queries - measure.timeouts), (0, 0));
}

trait ForQueries {
    fn for_queries(self, count: u32) -> Self;
}

impl ForQueries for Job {
    /// The same with as many queries as that, at a thousand a second.
    fn for_queries(self, count: u32) -> Job {
        let timing = Timing::Rate(Profile::flat(1000.0, f64::from(count) / 1000.0), Arrivals::Constant);
        Job { timing, ..self }
    }
}
