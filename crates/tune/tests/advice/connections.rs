//! The connections that Zonda allows itself, and what connections need, compared with `--connections`.

use tune::advice::workload::DerivedLimits;
use tune::advice::{Action, evidence, sizes};
use tune::{Case, Role, Row, ServerFacts, Workload, advise};

use crate::synthetic::{TestHost, workload};

/// A quarter of the memory at 8 KiB for each connection, and 72 KiB for one over QUIC, as Zonda computes it.
const LIMITS: DerivedLimits = DerivedLimits {
    connections: |files, reserved, memory| (files - reserved).min(memory / 4 / 8_192),
    quic_connections: |memory| memory / 4 / 73_728,
};

/// Zonda with its defaults, which needs 1,000 descriptors besides its connections.
fn zonda(tcp: &str, quic: &str) -> ServerFacts {
    let options = [("tcp-connections", tcp), ("quic-connections", quic)].map(|(name, value)| (name, value.to_owned()));
    ServerFacts { reserved: 1_000, derived_limits: Some(LIMITS), options: options.into(), ..ServerFacts::default() }
}

/// A host with 8 GiB of memory.
fn host(open_files: u64) -> TestHost {
    let host = TestHost::recorded();
    host.write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 8388608 kB\n");
    host.write("etc/systemd/system/zonda.service", &format!("[Service]\nLimitNOFILE={open_files}\n"));
    host
}

fn row(host: &TestHost, connections: u64, server: ServerFacts, name: &str) -> Row {
    let host = host.read();
    let workload = Workload { connections, ..workload(Role::Tcp) };
    let rows = advise(&Case { host: &host, workload, server });
    rows.into_iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row {name}"))
}

#[test]
fn the_limit_that_the_server_derives_is_compared_with_the_connections_asked_for() {
    let host = host(1 << 20);
    let advice = |connections| row(&host, connections, zonda("0", "0"), "tcp-connections");
    let enough = advice(262_144);
    assert_eq!(enough.action, Action::Keep, "{}", enough.why);
    assert!(enough.why.contains("262144 connections on this host, and 262144 are asked for"), "{}", enough.why);
    let more = advice(500_000);
    assert_eq!((more.action, more.advised.as_deref()), (Action::Set, Some("500000")), "{}", more.why);
    assert!(more.why.contains("0 means 262144"), "{}", more.why);
    // Half of the memory is not enough for as many.
    let too_many = advice(5_000_000);
    let possible = too_many.advised.as_deref().and_then(|value| value.parse::<u64>().ok());
    assert!(possible.is_some_and(|possible| (262_144..1_000_000).contains(&possible)), "{too_many:?}");
}

#[test]
fn too_few_descriptors_for_the_connections_are_a_matter_of_their_limit() {
    let host = host(11_000);
    let few = row(&host, 100_000, zonda("0", "0"), "tcp-connections");
    assert_eq!(few.action, Action::Keep);
    assert!(few.why.contains("10000 connections now, and ") && few.why.contains("LimitNOFILE"), "{}", few.why);
    assert_eq!(row(&host, 100_000, zonda("0", "0"), "LimitNOFILE").action, Action::Set);
}

#[test]
fn a_configured_limit_is_raised_as_far_as_memory_allows() {
    let host = host(1 << 20);
    let configured = |value, connections| row(&host, connections, zonda(value, "0"), "tcp-connections");
    assert_eq!(configured("70000", 70_000).action, Action::Keep);
    assert_eq!(configured("70000", 500_000).advised.as_deref(), Some("500000"));
    let most = configured("70000", 5_000_000).advised.and_then(|value| value.parse::<u64>().ok());
    assert!(most.is_some_and(|most| most < 1_000_000), "{most:?}");
}

#[test]
fn the_limit_of_quic_connections_is_compared_with_the_connections_asked_for() {
    let host = host(1 << 20);
    let server = || ServerFacts { quic_octets: 73_728, ..zonda("0", "0") };
    let advice = |connections| row(&host, connections, server(), "quic-connections");
    assert_eq!(advice(29_127).action, Action::Keep);
    let more = advice(50_000);
    assert_eq!((more.action, more.advised.as_deref()), (Action::Set, Some("50000")), "{}", more.why);
    assert!(more.why.contains("0 means 29127"), "{}", more.why);
}

#[test]
fn the_row_of_the_memory_names_the_limits_that_the_server_derives() {
    let host = host(1 << 20);
    let why = |connections, server| row(&host, connections, server, "memory of connections").why;
    let by_itself = "with tcp-connections = 0 the server keeps at most 262144 of them";
    assert!(why(500_000, zonda("0", "0")).contains(by_itself));
    assert!(!why(200_000, zonda("0", "0")).contains("the server keeps"));
    assert!(!why(500_000, zonda("500000", "0")).contains("the server keeps"));
    let over_quic = why(100_000, ServerFacts { quic_octets: 73_728, ..zonda("0", "0") });
    assert!(over_quic.contains("with quic-connections = 0 the server keeps at most 29127 over QUIC"), "{over_quic}");
}

/// What the code reckons of a session is not all that a connection takes.
#[test]
fn idle_tls_connections_need_what_was_measured() {
    let host = host(1 << 20);
    let measured = evidence::idle_tls_connection_memory("zonda").expect("a committed median");
    assert!(measured > 500.0);
    let tls = |tls_octets| ServerFacts { tls_octets, ..zonda("0", "0") };
    let row = |tls_octets| row(&host, 100_000, tls(tls_octets), "memory of connections");
    let in_server = |octets: f64| format!("{} in the server", sizes::octets((octets.ceil() * 1e5) as u64));
    let recorded = row(256);
    assert!(recorded.why.contains(&in_server(measured)), "{}: {}", in_server(measured), recorded.why);
    assert!(recorded.evidence.contains("E32, Server memory per idle connection, bytes"), "{}", recorded.evidence);
    // A session that is reckoned larger than the one that was measured counts.
    let tcp = evidence::idle_connection_memory("zonda").expect("a committed median");
    assert!(row(4_096).why.contains(&in_server(tcp + 4_096.0)), "{}", row(4_096).why);
}
