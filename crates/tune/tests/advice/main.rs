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

/// Levels that may be better although the setting is left.
const EXCUSED: &[&str] = &[
    // They harm in another respect, or at a high load; the row's risk says so.
    "1,000 buckets (dangerous)",
    "synack_retries 1",
    "fin_timeout 5",
    "orphan_retries 1",
    "fastopen 1027",
    "a core each, packets on the server's",
    // It helps the load generator, but few DNS servers; the row's rule says so.
    "tw_reuse 1",
    // What is left: nothing is bound.
    "server and load free",
];

#[test]
fn no_final_record_contradicts_a_setting_that_is_left() {
    for setting in settings().filter(|setting| setting.rule.starts_with("left")) {
        for lookup in setting.evidence.iter().filter(|lookup| !EXCUSED.contains(&lookup.level)) {
            // A whole group of settings says nothing about one of them.
            let better = lookup
                .figures()
                .find(|figure| figure.outcome == "better" && !figure.preliminary && lookup.experiment != "E17");
            assert!(better.is_none(), "{} is left, but {better:?}", setting.name);
        }
    }
}
