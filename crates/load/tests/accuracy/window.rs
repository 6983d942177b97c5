//! The window of a run: which answers, which time and which intervals belong to it.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use load::job::{Job, Timing};

use crate::udp_server::serve;
use crate::{job, run};

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
