//! Which queries are sent, in which order and from where.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::Write;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use load::job::{Job, Timing};
use load::queries::{QueryTemplate, pcap};
use load::schedule::{ArrivalProcess, RateProfile};
use netio::cpu_affinity::allowed_cpus;
use netio::udp_client::Sources;

use crate::udp_server::serve;
use crate::{at_rate, job, queries, run};

#[test]
fn a_run_ends_after_the_passes() {
    let one_by_one = Timing::Closed { outstanding: 7, seconds: 60.0 };
    let open = Timing::Rate(RateProfile::flat(2000.0, 60.0), ArrivalProcess::Poisson(1));
    let cpu = allowed_cpus().expect("readable")[0];
    for (timing, cpus) in [(one_by_one, vec![]), (open.clone(), vec![]), (open, vec![cpu, cpu])] {
        let result = run(&Job { timing, cpus, max_queries: 300, ..job(serve(|_, _| true), 1.0, 1.0) });
        assert_eq!((result.metrics.queries, result.metrics.responses), (300, 300));
        assert!(result.until - result.since < Duration::from_secs(30), "until the last query");
    }
}

#[test]
fn several_sources_and_threads_share_the_schedule() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let server = socket.local_addr().expect("bound");
    let receiver = thread::spawn(move || {
        let (mut octets, mut peers) = ([0; 2048], HashMap::new());
        for _ in 0..1000 {
            let (len, peer) = socket.recv_from(&mut octets).expect("loopback");
            octets[2] |= 0x80;
            socket.send_to(&octets[..len], peer).expect("loopback");
            *peers.entry(peer.ip()).or_insert(0) += 1;
        }
        peers
    });
    let sources = Sources { first: [127, 7, 0, 1].into(), count: 200 };
    let cpu = allowed_cpus().expect("readable")[0];
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
    let timing = at_rate(1_000_000.0, 0.0001);
    let several = Sources { first: [127, 8, 0, 1].into(), count: 7 };
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
        let (sender, receiver) = mpsc::channel();
        let server = serve(move |_, response| sender.send(response[12..].to_vec()).is_ok());
        let timing = Timing::Closed { outstanding: 16, seconds: 0.3 };
        let metrics = run(&Job { timing, sort_by_length, burst_len, ..job(server, 1.0, 1.0) }).metrics;
        assert_eq!((metrics.wrong, metrics.timeouts), (0, 0));
        let asked: Vec<_> = receiver.try_iter().take(100).collect();
        let mut expected: Vec<_> = (0..100).map(|number| queries.at(number).message[12..].to_vec()).collect();
        if sort_by_length {
            expected.sort_by_key(|question| Reverse(question.len()));
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
    let capture = pcap::read(&octets.stdout, 53, &QueryTemplate::default()).expect("a capture");
    let origins = capture.queries.origins();
    assert!((10_300..10_600).contains(&origins.len()), "{} queries", origins.len());
    assert!(origins.iter().any(|origin| origin.connection.is_some()));
    assert!((55..65).contains(&(origins.last().expect("not empty").time_ns / 1_000_000_000)));
    let count = capture.queries.len() as u64;
    let sources = Some(Sources { first: [127, 9, 0, 1].into(), count: 2500 });
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
