//! Compares results with the known behaviour of servers: stalls, wrong responses, silence, arrival times.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use load::job::{Job, Timing, Transport};
use load::queries::{Queries, QueryTemplate, file};
use load::run::RunResult;
use load::schedule::{ArrivalProcess, RateProfile, from_profile};
use load::verify::ResponseChecker;

/// A server that responds to each query with what `behave` makes of it, or not if that returns false.
fn serve(mut behave: impl FnMut(u64, &mut Vec<u8>) -> bool + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = socket.local_addr().expect("bound");
    thread::spawn(move || {
        let mut octets = [0; 2048];
        for number in 0.. {
            let Ok((len, peer)) = socket.recv_from(&mut octets) else { return };
            let mut response = octets[..len].to_vec();
            response[2] |= 0x84;
            if behave(number, &mut response) {
                let _ = socket.send_to(&response, peer);
            }
        }
    });
    address
}

fn queries() -> Arc<Queries> {
    let text: String = (0..100).map(|number| format!("name{number}.example A\n")).collect();
    Arc::new(file::read(text.as_bytes(), &QueryTemplate::default()).expect("queries"))
}

fn job(server: SocketAddr, rate: f64, seconds: f64) -> Job {
    Job {
        connections: 4,
        interval: Duration::from_millis(250),
        ..Job::new(server, queries(), Timing::Rate(RateProfile::flat(rate, seconds), ArrivalProcess::Constant))
    }
}

fn run(job: &Job) -> RunResult {
    job.run(&AtomicBool::new(false), |_| ()).expect("loopback")
}

/// Coordinated omission: when the server stalls for 200 ms, the closed loop sends nothing and sees one slow query. The
/// open loop continues to send, and a fifth of its queries wait up to 200 ms.
#[test]
fn a_closed_loop_hides_a_stall_that_an_open_loop_shows() {
    let stalling = || {
        serve(|number, _| {
            if number == 100 {
                thread::sleep(Duration::from_millis(200));
            }
            true
        })
    };
    let open = run(&job(stalling(), 1000.0, 1.0)).metrics;
    assert_eq!((open.queries, open.responses), (1000, 1000));
    let waited = open.latency_intended.count_between(20_000_000, u64::MAX);
    assert!((120..400).contains(&waited), "{waited} of 1000 waited more than 20 ms");

    let timing = Timing::Closed { outstanding: 1, seconds: 1.0 };
    let closed = run(&Job { timing, ..job(stalling(), 1.0, 1.0) }).metrics;
    assert!(closed.latency_intended.value_at_quantile(0.99) < 20_000_000, "the closed loop sees the stall once");
    assert!(closed.latency_intended.max() >= 200_000_000, "{} of {}", closed.latency_intended.max(), closed.queries);
}

/// If the generator itself is late, the latency from the intended time shows it and that from the actual time does not.
/// Here 20,000 queries are due at once.
#[test]
fn late_queries_have_a_higher_intended_latency() {
    let server = serve(|_, _| true);
    let profile = RateProfile::steps(&[2_000_000.0, 1000.0], 0.01);
    let timing = Timing::Rate(profile, ArrivalProcess::Constant);
    let metrics = run(&Job { timing, ..job(server, 1.0, 1.0) }).metrics;
    assert_eq!(metrics.scheduled, metrics.queries + metrics.missed);
    let (intended, actual) = (&metrics.latency_intended, &metrics.latency_actual);
    assert!(intended.mean() >= actual.mean() + 0.9 * metrics.schedule_error.mean());
    assert!(metrics.late > 0 && metrics.schedule_error.max() > 1_000_000);
    assert!(metrics.invalid_because().iter().any(|reason| reason.contains("left more than 1 ms after their time")));
}

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
fn a_run_ends_after_the_passes() {
    let one_by_one = Timing::Closed { outstanding: 7, seconds: 60.0 };
    let open = Timing::Rate(RateProfile::flat(2000.0, 60.0), ArrivalProcess::Poisson(1));
    let cpu = netio::cpu_affinity::allowed_cpus().expect("readable")[0];
    for (timing, cpus) in [(one_by_one, vec![]), (open.clone(), vec![]), (open, vec![cpu, cpu])] {
        let result = run(&Job { timing, cpus, max_queries: 300, ..job(serve(|_, _| true), 1.0, 1.0) });
        assert_eq!((result.metrics.queries, result.metrics.responses), (300, 300));
        assert!(result.until - result.since < Duration::from_secs(30), "until the last query");
    }
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

/// Both ends are read by one clock, so the latency to the kernel is not above that to the program.
#[test]
fn the_kernel_notes_arrivals_before_the_program_reads_them() {
    let latency = |kernel_timestamps| {
        let metrics = run(&Job { kernel_timestamps, ..job(serve(|_, _| true), 500.0, 0.4) }).metrics;
        assert_eq!((metrics.responses, metrics.wrong), (200, 0));
        assert!(metrics.latency_actual.min() < 1_000_000_000, "{}", metrics.latency_actual.min());
        metrics.latency_actual.min()
    };
    assert!(latency(true) > 0 && latency(false) > 0);
}

/// A server that answers slower than it is asked, but buffers everything: it answers all queries in time, most of them
/// after sending has stopped, which is no rate that it sustains.
#[test]
fn answers_from_a_buffer_are_counted_separately() {
    let server = serve(|_, _| {
        thread::sleep(Duration::from_millis(2));
        true
    });
    // Few enough for the server's receive buffer.
    let job = Job { timeout: Duration::from_secs(60), ..job(server, 2000.0, 0.1) };
    let result = run(&job);
    let metrics = &result.metrics;
    assert_eq!((metrics.responses, metrics.timeouts), (200, 0));
    assert!(metrics.responses_in_window() <= 60, "{} in the window", metrics.responses_in_window());
    assert_eq!(metrics.responses_in_window() + metrics.responses_after_window, 200);
    assert!(result.until - result.since < Duration::from_secs(1), "the window ends with the sending");
}

/// A server at a distance buffers nothing: its answers are on their way for longer than the grace of 5 ms.
#[test]
fn answers_from_far_away_are_in_the_window() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let server = socket.local_addr().expect("bound");
    let (sender, sent) = mpsc::channel::<(Instant, Vec<u8>, SocketAddr)>();
    let back = socket.try_clone().expect("a descriptor");
    thread::spawn(move || {
        let mut octets = [0; 2048];
        while let Ok((len, peer)) = socket.recv_from(&mut octets) {
            octets[2] |= 0x84;
            let _ = sender.send((Instant::now() + Duration::from_millis(60), octets[..len].to_vec(), peer));
        }
    });
    thread::spawn(move || {
        for (due, response, peer) in sent {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let _ = back.send_to(&response, peer);
        }
    });
    let metrics = run(&job(server, 1000.0, 0.5)).metrics;
    assert_eq!((metrics.responses, metrics.timeouts), (500, 0));
    assert!(metrics.responses_after_window < 20, "{} after the window", metrics.responses_after_window);
}

/// Without a free message id, a query is missed: the histogram has its time-out, and so a value for every scheduled query.
#[test]
fn missed_queries_are_in_the_histogram() {
    let server = serve(|_, _| false);
    let timing = Timing::Rate(RateProfile::flat(400_000.0, 0.5), ArrivalProcess::Constant);
    let timeout = Duration::from_secs(2);
    let metrics = run(&Job { connections: 1, timing, timeout, ..job(server, 1.0, 1.0) }).metrics;
    assert!(metrics.missed >= 100_000 && metrics.scheduled == 200_000, "{} missed", metrics.missed);
    assert_eq!(metrics.latency_intended.len(), metrics.scheduled);
    assert_eq!(metrics.latency_actual.len(), metrics.queries);
    assert!(metrics.latency_intended.min() >= 1_990_000_000, "{}", metrics.latency_intended.min());
}

/// A closed loop with one outstanding query waits for a slow server most of the time; an open loop that cannot keep its
/// schedule never does.
#[test]
fn the_time_that_a_thread_waits_is_no_work() {
    let slow = serve(|_, _| {
        thread::sleep(Duration::from_millis(5));
        true
    });
    let timing = Timing::Closed { outstanding: 1, seconds: 0.3 };
    let idle = run(&Job { timing, ..job(slow, 1.0, 1.0) });
    assert!(idle.busy < 0.5, "{}", idle.busy);
    // Other tests may have the processor meanwhile, for which the thread waits, too.
    let busy = || run(&Job { timeout: Duration::from_millis(10), ..job(serve(|_, _| false), 1e8, 0.2) }).busy;
    let most = (0..3).map(|_| busy()).fold(0.0, f64::max);
    assert!(most > 0.9, "{most}");
}

/// Every tenth query is never answered: it is a time-out, with at least the time-out as its latency.
#[test]
fn timeouts_are_counted_and_included_in_the_latency() {
    let server = serve(|number, _| number % 10 != 0);
    let result = run(&Job { timeout: Duration::from_millis(100), ..job(server, 1000.0, 0.5) });
    let seconds = (result.until - result.since).as_secs_f64();
    assert!((0.5..0.58).contains(&seconds), "without the wait for responses: {seconds}");
    let metrics = result.metrics;
    assert_eq!((metrics.queries, metrics.responses, metrics.timeouts), (500, 450, 50));
    assert_eq!(metrics.latency_intended.len(), 500);
    // With three significant digits, the bucket of 100 ms begins slightly below it.
    assert_eq!(metrics.latency_actual.count_between(99_900_000, u64::MAX), 50);
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

/// Compares the reported schedule error with the arrival times at the receiver.
#[test]
fn the_schedule_error_agrees_with_the_receiver() {
    let profile = RateProfile::flat(1000.0, 0.5);
    let scheduled: Vec<u64> = from_profile(profile.clone(), ArrivalProcess::Poisson(5)).collect();
    let count = scheduled.len();
    assert!((450..550).contains(&count), "Poisson: 500 on average, {count} with this seed");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a valid timeout");
    let server = socket.local_addr().expect("bound");
    let receiver = thread::spawn(move || {
        let (mut octets, mut arrivals) = ([0; 2048], Vec::new());
        while arrivals.len() < count {
            let (len, peer) = socket.recv_from(&mut octets).expect("every query arrives");
            arrivals.push(Instant::now());
            octets[2] |= 0x80;
            socket.send_to(&octets[..len], peer).expect("loopback");
        }
        arrivals
    });
    let timing = Timing::Rate(profile, ArrivalProcess::Poisson(5));
    let metrics = run(&Job { timing, ..job(server, 1.0, 1.0) }).metrics;
    let arrivals = receiver.join().expect("no panic");
    assert_eq!(metrics.queries, count as u64);
    // The start of the run is taken from the least delayed arrival.
    let delays = |zero: Instant| -> Vec<i64> {
        let times = arrivals.iter().map(|arrival| arrival.duration_since(zero).as_nanos() as i64);
        times.zip(&scheduled).map(|(time, &planned)| time - planned as i64).collect()
    };
    let zero = arrivals[0];
    let least = delays(zero).into_iter().min().expect("not empty");
    let mut seen: Vec<i64> = delays(zero).into_iter().map(|delay| delay - least).collect();
    seen.sort_unstable();
    let (seen, reported) = (seen[count / 2], metrics.schedule_error.value_at_quantile(0.5) as i64);
    assert!((seen - reported).abs() < 1_000_000, "the receiver sees {seen} ns, the report says {reported} ns");
}

#[test]
fn an_interrupted_run_counts_its_outstanding_queries() {
    let server = serve(|_, _| false);
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        flag.store(true, Ordering::Relaxed);
    });
    let job = Job { timeout: Duration::from_secs(60), ..job(server, 1000.0, 60.0) };
    let metrics = job.run(&stop, |_| ()).expect("loopback").metrics;
    assert!(metrics.queries > 50 && metrics.interrupted == metrics.queries, "{metrics:?}");
}

#[test]
fn intervals_add_up_without_the_warm_up() {
    let server = serve(|_, _| true);
    let mut intervals = Vec::new();
    let job = Job { warm_up: Duration::from_millis(250), ..job(server, 1000.0, 1.0) };
    let result =
        job.run(&AtomicBool::new(false), |interval| intervals.push(interval.metrics.clone())).expect("loopback");
    assert_eq!((result.metrics.queries, result.metrics.responses), (1000, 1000));
    assert_eq!(intervals.iter().map(|metrics| metrics.queries).sum::<u64>(), 1000);
    assert!(intervals.len() >= 4, "{} intervals", intervals.len());
}

#[test]
fn the_cpu_time_is_that_of_the_window_alone_whatever_the_interval() {
    let server = serve(|_, _| true);
    // At this rate, the thread busy-waits between queries: it uses its processor all the time.
    let job = Job {
        warm_up: Duration::from_secs(1),
        interval: Duration::from_secs(100),
        connections: 1,
        ..job(server, 20_000.0, 0.2)
    };
    let cpu = Duration::from_nanos(run(&job).metrics.cpu_ns);
    assert!(cpu > Duration::ZERO && cpu < Duration::from_millis(600), "{cpu:?}");
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
    let sources = netio::udp_client::Sources { first: [127, 7, 0, 1].into(), count: 200 };
    let cpu = netio::cpu_affinity::allowed_cpus().expect("readable")[0];
    let job = Job { sources: Some(sources), cpus: vec![cpu, cpu], ..job(server, 2000.0, 0.5) };
    assert_eq!(run(&job).metrics.responses, 1000);
    let peers = receiver.join().expect("no panic");
    assert_eq!(peers.len(), 200);
    assert!(peers.values().all(|&count| count == 5), "{peers:?}");
}

/// Segment bursts with queries of several lengths.
#[test]
fn segment_bursts_lose_and_confuse_nothing() {
    let server = serve(|_, _| true);
    let timing = Timing::Rate(RateProfile::flat(1_000_000.0, 0.0001), ArrivalProcess::Constant);
    let several = netio::udp_client::Sources { first: [127, 8, 0, 1].into(), count: 7 };
    for (burst_len, sources) in [(64, None), (64, Some(several)), (1, None)] {
        let metrics = run(&Job { burst_len, sources, timing: timing.clone(), ..job(server, 1.0, 1.0) }).metrics;
        assert_eq!((metrics.queries, metrics.responses, metrics.wrong, metrics.unexpected), (100, 100, 0, 0));
    }
}

/// Queries keep the order of the file, also in a closed loop, unless they are sorted by length; all are sent equally often.
#[test]
fn queries_are_sent_in_the_order_of_the_file_or_by_length() {
    let queries = queries();
    for (sort_by_length, burst_len) in [(false, 1), (false, 8), (true, 8)] {
        let (sender, receiver) = std::sync::mpsc::channel();
        let server = serve(move |_, response| sender.send(response[12..].to_vec()).is_ok());
        let timing = Timing::Closed { outstanding: 16, seconds: 0.3 };
        let metrics = run(&Job { timing, sort_by_length, burst_len, ..job(server, 1.0, 1.0) }).metrics;
        assert_eq!((metrics.wrong, metrics.timeouts), (0, 0));
        let asked: Vec<_> = receiver.try_iter().take(100).collect();
        let mut expected: Vec<_> = (0..100).map(|number| queries.at(number).message[12..].to_vec()).collect();
        if sort_by_length {
            expected.sort_by_key(|question| std::cmp::Reverse(question.len()));
        }
        assert!(asked == expected, "sorted: {sort_by_length}, burst of {burst_len}");
    }
}

/// Replays a capture of a root server twenty times as fast, over UDP, with a source for each client.
#[test]
fn a_real_capture_is_replayed() {
    let file = data_file("pcap/root-server-2016.pcap.xz");
    let Some(octets) = file.and_then(|path| Command::new("xz").arg("-dkc").arg(path).output().ok()) else {
        let _ = writeln!(std::io::stderr(), "skipped: no capture in the folder that ZONDA_DATA names, or no xz");
        return;
    };
    let capture = load::queries::pcap::read(&octets.stdout, 53, &QueryTemplate::default()).expect("a capture");
    let origins = capture.queries.origins();
    assert!((10_300..10_600).contains(&origins.len()), "{} queries", origins.len());
    assert!(origins.iter().any(|origin| origin.connection.is_some()));
    assert!((55..65).contains(&(origins.last().expect("not empty").time_ns / 1_000_000_000)));
    let count = capture.queries.len() as u64;
    let sources = Some(netio::udp_client::Sources { first: [127, 9, 0, 1].into(), count: 2500 });
    let queries = Arc::new(capture.queries);
    let timing = Timing::Trace { speed: 20.0 };
    let server = serve(|_, _| true);
    let metrics = run(&Job { queries, sources, timing, connections: 1, ..job(server, 1.0, 1.0) }).metrics;
    assert_eq!((metrics.scheduled, metrics.wrong), (count, 0));
    assert_eq!(metrics.responses + metrics.timeouts + metrics.missed, count);
    assert!(metrics.responses > count * 9 / 10, "{metrics:?}");
}

/// A file of real data, in the folder ZONDA_DATA or next to the workspace.
fn data_file(name: &str) -> Option<PathBuf> {
    let beside = || Some(Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3)?.join("shared/data"));
    let folder = std::env::var_os("ZONDA_DATA").map(PathBuf::from).or_else(beside)?;
    Some(folder.join(name)).filter(|path| path.exists())
}

//----------- TCP --------------------------------------------------------------

/// Accepts `connections` connections, responds to up to `responses_each` queries on each, and returns how many.
fn serve_stream(connections: usize, responses_each: usize) -> (SocketAddr, thread::JoinHandle<Vec<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let handle = thread::spawn(move || {
        let threads: Vec<_> = (0..connections)
            .map(|_| {
                let (mut stream, _) = listener.accept().expect("loopback");
                thread::spawn(move || {
                    let mut answered = 0;
                    while answered < responses_each && respond_once(&mut stream).is_ok() {
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

fn respond_once(stream: &mut (impl Read + Write)) -> std::io::Result<()> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message)?;
    message[2] |= 0x80;
    // In two writes, so that responses arrive in pieces.
    stream.write_all(&len)?;
    stream.write_all(&message[..5])?;
    stream.write_all(&message[5..])
}

#[test]
fn connections_stay_open_or_have_a_number_of_queries() {
    let (server, served) = serve_stream(4, usize::MAX);
    let kept = Job { transport: Transport::Tcp, ..job(server, 1000.0, 0.5) };
    let metrics = run(&kept).metrics;
    assert_eq!((metrics.responses, metrics.wrong, metrics.handshakes), (500, 0, 4));
    assert_eq!(served.join().expect("no panic"), [125; 4]);

    let (server, served) = serve_stream(48, usize::MAX);
    let metrics = run(&Job { queries_per_connection: 3, ..Job { server, ..kept } }.for_queries(144)).metrics;
    assert_eq!((metrics.responses, metrics.wrong, metrics.handshakes), (144, 0, 48));
    assert_eq!(served.join().expect("no panic").iter().sum::<usize>(), 144);
}

/// A listen backlog may be as short as 10 (Knot DNS, BIND): a SYN that does not fit is retransmitted after a second.
#[test]
fn a_closed_loop_opens_a_few_connections_at_a_time() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let server = listener.local_addr().expect("bound");
    let timing = Timing::Closed { outstanding: 200, seconds: 0.02 };
    let job = Job { transport: Transport::Tcp, connections: 200, timing, ..job(server, 1.0, 1.0) };
    let metrics = run(&Job { timeout: Duration::from_millis(50), ..job }).metrics;
    assert!((8..=12).contains(&metrics.queries), "{} queries before the first response", metrics.queries);
}

#[test]
fn queries_on_connections_that_the_server_closes_time_out() {
    let (server, _served) = serve_stream(1000, 1);
    let timing = Timing::Rate(RateProfile::flat(100_000.0, 0.001), ArrivalProcess::Constant);
    let timeout = Duration::from_millis(200);
    let metrics = run(&Job { transport: Transport::Tcp, timing, timeout, ..job(server, 1.0, 1.0) }).metrics;
    // A response may be lost to the RST that follows it.
    assert!(metrics.responses <= metrics.handshakes, "{metrics:?}");
    assert_eq!((metrics.queries, metrics.responses + metrics.timeouts), (100, 100));
    assert!(metrics.closed_early > 0);
}

#[test]
fn a_missing_server_is_counted() {
    let refused = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback");
    let timeout = Duration::from_millis(100);
    let metrics = run(&Job { transport: Transport::Tcp, timeout, ..job(refused, 100.0, 0.1) }).metrics;
    assert_eq!((metrics.responses, metrics.timeouts), (0, 10));
    assert!(metrics.handshakes_failed > 0);
    let metrics = run(&Job { timeout, ..job(refused, 100.0, 0.1) }).metrics;
    assert_eq!((metrics.responses, metrics.queries - metrics.timeouts), (0, 0));
}

trait ForQueries {
    fn for_queries(self, count: u32) -> Self;
}

impl ForQueries for Job {
    /// The same job with `count` queries at 1000 per second.
    fn for_queries(self, count: u32) -> Job {
        let timing = Timing::Rate(RateProfile::flat(1000.0, f64::from(count) / 1000.0), ArrivalProcess::Constant);
        Job { timing, ..self }
    }
}
