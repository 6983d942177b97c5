//! Compares results with the known behaviour of servers: stalls, wrong responses, silence, arrival times.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::job::{Job, Timing};
use load::queries::{Queries, QueryTemplate, file};
use load::run::RunResult;
use load::schedule::{ArrivalProcess, RateProfile};

mod answers;
mod latency;
mod sending;
mod tcp;
#[path = "../shared/tries.rs"]
mod tries;
#[path = "../shared/udp_server.rs"]
mod udp_server;
mod window;

fn queries() -> Arc<Queries> {
    let text: String = (0..100).map(|number| format!("name{number}.example A\n")).collect();
    Arc::new(file::read(text.as_bytes(), &QueryTemplate::default()).expect("queries"))
}

fn at_rate(rate: f64, seconds: f64) -> Timing {
    Timing::Rate(RateProfile::flat(rate, seconds), ArrivalProcess::Constant)
}

fn job(server: SocketAddr, rate: f64, seconds: f64) -> Job {
    let interval = Duration::from_millis(250);
    Job { connections: 4, interval, ..Job::new(server, queries(), at_rate(rate, seconds)) }
}

fn run(job: &Job) -> RunResult {
    job.run(&AtomicBool::new(false), |_| ()).expect("loopback")
}
