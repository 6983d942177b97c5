//! Queues of connections and packets.

use std::collections::BTreeMap;

use super::evidence::{
    ANSWERED, BIND_AT_FULL_LOAD, DROPPED, PROCESSOR, WAITED, alone, effect, group_latency, sweep, together,
};
use super::sources::Document::{Diiner, Kernel, Liang, LowerValues, Microsoft};
use super::sources::{advises, says};
use super::{Advice, Case, Group, SETTING, Setting, card, sizes};

const QUEUE: Setting = Setting { group: Group::Queues, ..SETTING };

const NEIGHBOUR: Setting = Setting {
    rule: "4096: about five answers wait for a neighbour that ARP or neighbour discovery has not found yet, instead of some 270; never raised. All that wait, for up to 1,024 addresses, then leave half of a send buffer of 8 MiB free: see net.core.wmem_max",
    sources: &[says(Kernel, "the most octets that wait for an address that is not resolved; 212992 by default")],
    risk: "until a neighbour or the gateway is found, which takes about a round trip, more answers to it are lost",
    condition: "someone can send packets with forged addresses of the own network: from there, or through a router that does not drop them. An interface with a value of its own keeps it",
    ..QUEUE
};

/// 6,000 connections within 0.12 s while the server pauses for 0.5 s.
const STORM: &[&str] = &["zonda, storm during a pause", "bind, storm during a pause"];

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "net.core.somaxconn",
        rule: "the connections that arrive in 0.5 s if all of --connections come back within 10 s of a restart, from 4,096 (the default since Linux 5.4) to 65,535; never lowered. The queue of a server is the smaller of this and what it asks for",
        compute: |case| {
            let needed = sizes::accept_queue(case.workload.connections);
            let wanted = needed.clamp(sizes::FEWEST_ACCEPT_QUEUE, sizes::MOST_ACCEPT_QUEUE);
            let why = format!(
                "{} connections that come back within {} s need {needed} places, and clients that find none wait a second or more",
                case.workload.connections,
                sizes::RECONNECT_S
            );
            case.at_least("net.core.somaxconn", wanted, why)
        },
        sources: &[
            advises(Liang, "65535"),
            advises(LowerValues, "32768"),
            says(Kernel, "the limit of what a server may ask for with listen()"),
        ],
        evidence: &[
            alone(ANSWERED, "somaxconn 128"),
            alone(ANSWERED, "somaxconn 65535"),
            alone(WAITED, "somaxconn 128").only(STORM),
            alone(WAITED, "somaxconn 65535").only(STORM),
            group_latency("Liang et al."),
            group_latency("lower values"),
        ],
        risk: "a longer queue hides a server that is too slow: clients wait instead of failing",
        condition: "in the storm during a pause of E33, 6,000 connections come within 0.12 s, faster than in the 10 s of the rule: raise it further for such clients",
        ..QUEUE
    },
    Setting {
        name: "net.ipv4.tcp_max_syn_backlog",
        rule: "left where tcp_syncookies is on, which ignores it; else the half-open connections of one round trip of 300 ms if all of --connections come back within 10 s; never lowered",
        compute: |case| {
            if case.host.sysctl("net.ipv4.tcp_syncookies").is_some_and(|cookies| cookies != "0") {
                return case.leave("net.ipv4.tcp_max_syn_backlog", "with SYN cookies the accept queue is the limit");
            }
            let wanted = sizes::half_open(case.workload.connections);
            let why = format!(
                "{wanted} handshakes are open at once when {} connections come back within {} s",
                case.workload.connections,
                sizes::RECONNECT_S
            );
            case.at_least("net.ipv4.tcp_max_syn_backlog", wanted, why)
        },
        sources: &[
            advises(Liang, "8388600"),
            advises(LowerValues, "65536"),
            says(Kernel, "a limit for each listener; if the server is overloaded, increase it, and check somaxconn"),
        ],
        evidence: &[
            alone(ANSWERED, "max_syn_backlog 256"),
            together(ANSWERED, "syncookies 0, max_syn_backlog 256"),
            group_latency("Liang et al."),
            group_latency("lower values"),
        ],
        risk: "each half-open connection takes some 300 octets: 8388600 of them would be 2.4 GiB for a SYN flood",
        ..QUEUE
    },
    Setting {
        name: "net.core.netdev_max_backlog",
        rule: "the packets that arrive at one processor in 5 ms at --rate; never lowered. Only packets steered by RPS, or of a device without NAPI such as veth, pass this queue",
        compute: |case| {
            let queues = card::fastest(case).map_or(1, |card| card.rx_queues.max(1) as u64);
            let wanted = sizes::datagrams(case.queries_per_s(), queues, sizes::SOFTIRQ_PAUSE_MS).next_power_of_two();
            let why = format!(
                "{} packets per second on {queues} queues are {wanted} within {} ms",
                case.queries_per_s(),
                sizes::SOFTIRQ_PAUSE_MS
            );
            match case.host.counters.value("softnet.dropped") {
                Some(1..) => case.at_least(
                    "net.core.netdev_max_backlog",
                    wanted.max(4 * 1_000),
                    format!("{why}, and this queue has dropped packets"),
                ),
                _ => case.at_least("net.core.netdev_max_backlog", wanted, why),
            }
        },
        sources: &[
            advises(Liang, "8388600"),
            advises(LowerValues, "300000"),
            says(Kernel, "the longest queue of received packets of a processor"),
        ],
        risk: "300,000 packets are 1.5 s of delay at 200,000 per second: clients have asked again by then",
        ..QUEUE
    },
    Setting {
        name: "net.core.netdev_budget",
        rule: "600, twice the default, where softirqs ran out of it (time_squeeze in softnet_stat is above one in 1,000 packets); never lowered",
        compute: |case| {
            let squeezed = case.host.counters.value("softnet.time_squeeze").unwrap_or(0);
            let packets = case.host.counters.value("softnet.processed").unwrap_or(0);
            let wanted = if squeezed > 1_000 && squeezed > packets / 1_000 { 600 } else { 0 };
            let why = format!("softirqs were cut short {squeezed} times while {packets} packets came");
            case.at_least("net.core.netdev_budget", wanted, why)
        },
        sources: &[says(Kernel, "the packets that a softirq may take at once")],
        risk: "a longer softirq delays the server's threads on that processor",
        ..QUEUE
    },
    Setting {
        name: "net.ipv4.tcp_abort_on_overflow",
        rule: "left at 0: a reset is a failure for clients that do not try again, while the kernel of a client whose packet is dropped sends it again within a second",
        compute: |case| {
            case.default(
                "net.ipv4.tcp_abort_on_overflow",
                "0",
                "a reset is a failure for clients that do not try again; those that do may be served sooner, but a longer accept queue (net.core.somaxconn) cures the cause for all",
            )
        },
        sources: &[
            advises(Diiner, "1")
                .saying(" gains: latency -5 %, rate +8 %, lost -98 % at full load, nothing at other loads"),
            advises(Kernel, "0")
                .saying(" by default; 1 only if you are really sure that the listener cannot be made faster"),
        ],
        evidence: &[
            effect("E16", "Answered rate", "abort_on_overflow 1").only(BIND_AT_FULL_LOAD),
            sweep("abort_on_overflow 1"),
        ],
        risk: "1 refuses clients in a burst that a queue would have absorbed",
        condition: "the source saw its gain only at full load, with a queue that overflows. E33 does not test it: its queues overflowed, but no connection was reset",
        ..QUEUE
    },
    Setting {
        name: "net.ipv4.tcp_syncookies",
        rule: "1: a full queue of half-open connections then still accepts clients",
        compute: |case| {
            case.default("net.ipv4.tcp_syncookies", "1", "a SYN flood then costs no memory, and clients still connect")
        },
        sources: &[advises(Kernel, "1").saying(" by default; a fallback, not a way to serve legal load")],
        evidence: &[
            alone(ANSWERED, "syncookies 0"),
            together(ANSWERED, "syncookies 0, max_syn_backlog 256"),
            alone(ANSWERED, "syncookies 2"),
        ],
        risk: "connections made by a cookie lose some TCP options",
        ..QUEUE
    },
    Setting {
        name: "net.ipv4.tcp_synack_retries",
        rule: "left at 5: fewer retries drop half-open connections sooner, but also clients behind lossy links; SYN cookies handle floods",
        compute: |case| {
            case.default(
                "net.ipv4.tcp_synack_retries",
                "5",
                "1 drops half-open connections of clients that have vanished sooner (E33), but then a client that loses two packets cannot connect; against a flood SYN cookies hold them without memory",
            )
        },
        sources: &[
            advises(super::sources::Document::Operator, "1").saying(": times out sooner"),
            advises(Kernel, "5").saying(" by default, about 63 s"),
        ],
        evidence: &[alone(DROPPED, "synack_retries 1"), group_latency("other operator")],
        risk: "with 1 a client that loses two packets cannot connect",
        ..QUEUE
    },
    Setting {
        name: "net.ipv4.neigh.default.unres_qlen_bytes",
        compute: |case| neighbour_queue(case, "net.ipv4.neigh.default.unres_qlen_bytes"),
        ..NEIGHBOUR
    },
    Setting {
        name: "net.ipv6.neigh.default.unres_qlen_bytes",
        compute: |case| neighbour_queue(case, "net.ipv6.neigh.default.unres_qlen_bytes"),
        ..NEIGHBOUR
    },
    Setting {
        name: "firewall and connection tracking",
        place: super::Place::Habit,
        rule: "no tracking (notrack) of UDP and TCP to and from this host on the server's ports where connection tracking is loaded: those of the configuration, else 53 and 853. Left where a nat chain at prerouting may redirect them (DNAT), such as those of published containers: packets that are not tracked skip it",
        compute: connection_tracking,
        sources: &[says(
            Microsoft,
            "a firewall rule limited to UDP and the local port, or the firewall takes much CPU time at high rates",
        )],
        evidence: &[alone(PROCESSOR, "connection tracking"), alone(PROCESSOR, "connection tracking, notrack")],
        risk: "rules that need the state of a connection (ct state) do not match these packets: allow the server's ports by address and port. Without root the nat chains cannot be read: with a redirection of these ports to a container or guest, its server becomes unreachable",
        condition: "the server runs on this host itself; in E33 nothing is forwarded, and the rules lack `fib daddr type local`",
        ..QUEUE
    },
    Setting {
        name: "net.netfilter.nf_conntrack_max",
        rule: "left: a larger table does not help a server whose every query is a new entry; see notrack",
        compute: |case| case.leave("net.netfilter.nf_conntrack_max", "do not track the ports of the server instead"),
        sources: &[says(Kernel, "as many entries as buckets by default")],
        risk: "each entry takes some 320 octets of kernel memory",
        ..QUEUE
    },
];

/// Makes what waits for each neighbour shorter, never longer.
fn neighbour_queue(case: &Case, name: &str) -> Advice {
    let why = "forged queries from addresses of the own network that no host has: their answers wait for seconds, and fill the send buffers that the answers to all others need";
    match case.host.sysctl_number(name) {
        None => Advice::Absent(super::missing()),
        Some(now) if now < sizes::NEIGHBOUR_OCTETS => Advice::Keep(format!("{why}; it is low enough")),
        Some(_) => Advice::set(sizes::NEIGHBOUR_OCTETS, why),
    }
}

fn connection_tracking(case: &Case) -> Advice {
    let ports = case.server.dns_ports();
    let list = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let Some(entries) = case.host.surroundings.tracked else {
        return Advice::Absent("connection tracking is not loaded".into());
    };
    let of_ports = |found: &BTreeMap<u16, usize>| ports.iter().filter_map(|port| found.get(port)).sum::<usize>();
    let found = case.host.surroundings.tracked_ports.as_ref().map(of_ports);
    if found == Some(0) {
        return Advice::Keep(format!("connection tracking is loaded, but has no entry of port {list}"));
    }
    let why = format!(
        "{entries} entries, {} of port {list}; at {} queries per second the table of {} is full at once, then queries are dropped",
        found.map_or("an unknown number".into(), |found| found.to_string()),
        case.queries_per_s(),
        case.host.sysctl("net.netfilter.nf_conntrack_max").unwrap_or_else(|| "unknown size".into()),
    );
    match &case.host.surroundings.redirection {
        None => Advice::set(notrack(&list), why),
        Some(redirection) => Advice::Leave(format!(
            "{why}. But {redirection} may redirect queries, and packets that are not tracked skip it: a server behind it would become unreachable. If no rule there is of these ports: {}",
            notrack(&list)
        )),
    }
}

/// The commands for IPv4 and IPv6, UDP and TCP. Answers need a rule of their own. Packets that this host forwards stay tracked, because
/// others are not translated (NAT).
fn notrack(ports: &str) -> String {
    format!(
        "nft 'add table inet dns; \
         add chain inet dns in {{ type filter hook prerouting priority raw; }}; \
         add chain inet dns out {{ type filter hook output priority raw; }}; \
         add rule inet dns in fib daddr type local meta l4proto {{ tcp, udp }} th dport {{ {ports} }} notrack; \
         add rule inet dns out meta l4proto {{ tcp, udp }} th sport {{ {ports} }} notrack'"
    )
}
