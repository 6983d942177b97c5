//! Latencies: from the intended and from the actual time, with the queries that were missed or never answered.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use load::job::{Job, Timing};
use load::schedule::{ArrivalProcess, RateProfile, from_profile};

use crate::tries::passes_in_one_of_ten;
use crate::udp_server::serve;
use crate::{at_rate, job, run};

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

/// Without a free message id, a query is missed: the histogram has its time-out, and so a value for every scheduled query.
#[test]
fn missed_queries_are_in_the_histogram() {
    let server = serve(|_, _| false);
    let timing = at_rate(400_000.0, 0.5);
    let timeout = Duration::from_secs(2);
    let metrics = run(&Job { connections: 1, timing, timeout, ..job(server, 1.0, 1.0) }).metrics;
    assert!(metrics.missed >= 100_000 && metrics.scheduled == 200_000, "{} missed", metrics.missed);
    assert_eq!(metrics.latency_intended.len(), metrics.scheduled);
    assert_eq!(metrics.latency_actual.len(), metrics.queries);
    assert!(metrics.latency_intended.min() >= 1_990_000_000, "{}", metrics.latency_intended.min());
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

/// Compares the reported schedule error with the arrival times at the receiver.
#[test]
fn the_schedule_error_agrees_with_the_receiver() {
    passes_in_one_of_ten(|| {
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
    });
}
