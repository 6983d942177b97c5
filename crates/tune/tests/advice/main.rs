//! The advice on recorded and synthetic hosts: its values follow the host and the workload, and it can be written and set.

mod apply;
mod checkers;
mod connections;
mod files;
mod hosts;
mod notrack;
mod reasons;
mod synthetic;
mod values;

use std::collections::BTreeSet;

use tune::advice::evidence::{Figure, Lookup};
use tune::advice::settings;

/// Every setting and option that the source documents name, and the row that answers it.
const NAMED: &[(&str, &str)] = &[
    ("tcp-clients", "tcp-clients"),
    ("tcp-listen-queue", "tcp-listen-queue"),
    ("files", "files"),
    ("reserved-sockets", "reserved-sockets"),
    ("keep-response-order", "keep-response-order"),
    ("net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_max_syn_backlog"),
    ("net.core.netdev_max_backlog", "net.core.netdev_max_backlog"),
    ("net.core.somaxconn", "net.core.somaxconn"),
    ("net.ipv4.ip_local_port_range", "net.ipv4.ip_local_port_range"),
    ("fs.file-max", "fs.file-max"),
    ("fs.nr_open", "fs.nr_open"),
    ("nofile in limits.d", "nofile (limits.d)"),
    ("LimitNOFILE", "LimitNOFILE"),
    ("DefaultLimitNOFILE", "DefaultLimitNOFILE"),
    ("net.core.rmem_max", "net.core.rmem_max"),
    ("net.core.wmem_max", "net.core.wmem_max"),
    ("net.core.rmem_default", "net.core.rmem_default"),
    ("net.core.wmem_default", "net.core.wmem_default"),
    ("net.ipv4.tcp_rmem", "net.ipv4.tcp_rmem"),
    ("net.ipv4.tcp_wmem", "net.ipv4.tcp_wmem"),
    ("net.ipv4.tcp_congestion_control", "net.ipv4.tcp_congestion_control"),
    ("net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_mtu_probing"),
    ("net.core.default_qdisc", "net.core.default_qdisc"),
    ("tc qdisc fq maxrate", "fq maxrate (tc)"),
    ("net.core.optmem_max", "net.core.optmem_max"),
    ("net.ipv4.udp_mem", "net.ipv4.udp_mem"),
    ("net.ipv4.tcp_mem", "net.ipv4.tcp_mem"),
    ("net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_fin_timeout"),
    ("net.ipv4.tcp_low_latency", "net.ipv4.tcp_low_latency"),
    ("net.ipv4.tcp_max_tw_buckets", "net.ipv4.tcp_max_tw_buckets"),
    ("net.ipv4.tcp_no_metrics_save", "net.ipv4.tcp_no_metrics_save"),
    ("net.ipv4.tcp_orphan_retries", "net.ipv4.tcp_orphan_retries"),
    ("net.ipv4.tcp_retries2", "net.ipv4.tcp_retries2"),
    ("net.ipv4.tcp_sack", "net.ipv4.tcp_sack"),
    ("net.ipv4.tcp_synack_retries", "net.ipv4.tcp_synack_retries"),
    ("net.ipv4.tcp_tw_reuse", "net.ipv4.tcp_tw_reuse"),
    ("net.ipv4.tcp_timestamps", "net.ipv4.tcp_timestamps"),
    ("net.ipv4.tcp_abort_on_overflow", "net.ipv4.tcp_abort_on_overflow"),
    ("net.ipv4.tcp_tso_win_divisor", "net.ipv4.tcp_tso_win_divisor"),
    ("qdisc sfq, codel, fq_codel, fq", "qdisc of the card"),
    ("CPU frequency scaling", "CPU governor"),
    ("IRQ binding", "IRQ affinity"),
    ("connection reuse", "connections for each transfer"),
    ("file system cache, io.pressure", "cold page cache at the start"),
    ("firewall rule for UDP", "firewall and connection tracking"),
    ("UDP receive threads", "workers and processors"),
    ("NIC receive buffers", "NIC receive buffers (ring)"),
    ("NIC transmit buffers", "NIC transmit buffers (ring)"),
    ("RSS queues and processors", "RSS queues"),
    ("RSS table sizes", "RSS hash fields and indirection table"),
    ("NUMA node of RSS and server", "memory nodes (NUMA)"),
    ("DNS affinity", "binding of workers"),
    ("VM queues and buffers", "queues of virtual machines"),
    ("source addresses", "source addresses of a benchmark"),
    ("recursion, root hints", "recursion and root hints"),
    ("workers and cores, NSD", "server-count"),
    ("workers and cores, Knot", "udp-workers"),
    ("workers and cores, BIND", "-n (threads)"),
];

#[test]
fn every_setting_of_the_source_documents_has_a_row() {
    let rows: BTreeSet<&str> = settings().map(|setting| setting.name).collect();
    let missing: Vec<_> = NAMED.iter().filter(|(_, row)| !rows.contains(row)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_row_is_complete_and_named_once() {
    let mut names = BTreeSet::new();
    for setting in settings() {
        assert!(names.insert(setting.name), "{} is there twice", setting.name);
        assert!(!setting.rule.is_empty() && !setting.risk.is_empty(), "{}", setting.name);
        assert!(!setting.rule.ends_with('.') && !setting.risk.ends_with('.'), "{}", setting.name);
    }
    assert!(names.len() > 70, "{}", names.len());
}

/// Levels that are better although the setting is left.
const EXCUSED: &[&str] = &[
    // They harm in another respect, or at a high load; the row's risk says so.
    "synack_retries 1",
    "fin_timeout 5",
    "orphan_retries 1",
    "fastopen 1027",
    "a core each, packets on the server's",
    // It helps the load generator, but few DNS servers; the row's rule says so.
    "tw_reuse 1",
];

/// Levels that are worse, and not what the row advises.
const NOT_ADVISED: &[&str] = &[
    // Shorter or smaller than the rule, or what the row takes away.
    "somaxconn 128",
    "receive buffer 208 KiB",
    "small buffers",
    "tiny buffers",
    "syncookies 0, max_syn_backlog 256",
    "connection tracking",
    // The lab differs from the hosts that the row is for; its condition says how.
    "2 workers",
    "by the server's CPU",
];

/// The final figures with this verdict that rows quote: those that leave a setting, or those that change it.
fn final_figures(is_left: bool, verdict: &str) -> Vec<(&'static str, &'static Figure)> {
    let mut found = Vec::new();
    for setting in settings().filter(|setting| setting.rule.starts_with("left") == is_left) {
        // A whole group of settings says nothing about one of them.
        let lookups = setting.evidence.iter().filter(|lookup| lookup.experiment != "E17");
        let figures = lookups.flat_map(Lookup::figures).filter(|figure| !figure.preliminary);
        let contradicting = figures.filter(|figure| figure.outcome.starts_with(verdict));
        found.extend(contradicting.map(|figure| (setting.name, figure)));
    }
    found
}

/// All of these figures are of these levels, each of which is needed.
fn assert_excused(found: &[(&str, &Figure)], excused: &[&str]) {
    let others: Vec<_> = found.iter().filter(|(_, figure)| !excused.contains(&figure.level.as_str())).collect();
    assert!(others.is_empty(), "the advice contradicts {others:?}");
    let is_needed = |level: &str| found.iter().any(|(_, figure)| figure.level == level);
    let needless: Vec<_> = excused.iter().filter(|level| !is_needed(level)).collect();
    assert!(needless.is_empty(), "nothing to excuse in {needless:?}");
}

#[test]
fn no_final_record_contradicts_a_setting_that_is_left() {
    assert_excused(&final_figures(true, "better"), EXCUSED);
}

#[test]
fn no_final_record_contradicts_a_setting_that_is_changed() {
    assert_excused(&final_figures(false, "worse"), NOT_ADVISED);
}
