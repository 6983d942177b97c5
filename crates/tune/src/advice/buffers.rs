//! Socket buffers and the memory of protocols.

use super::evidence::{Lookup, SHARE, TRANSFER, alone, effect, group, sweep};
use super::sizes::octets;
use super::sources::Document::{Diiner, Esnet, Kernel, LowerValues, Operator};
use super::sources::{advises, says};
use super::workload::Role;
use super::{Advice, Case, Group, SETTING, Setting, card, missing, sizes};

const BUFFER: Setting = Setting { group: Group::Buffers, ..SETTING };

/// The defaults of Linux for the largest buffers that the kernel gives a connection by itself.
const TCP_RMEM_MAX: u64 = 6 << 20;
const TCP_WMEM_MAX: u64 = 4 << 20;

/// ESnet's values for 10 Gbit/s and 100 ms; more than that gained nothing in DIINER's tests.
const TCP_MAX: u64 = 32 << 20;

/// At both ends of a transfer: 64 KiB, and 64 MiB.
const SMALL_BUFFERS: Lookup =
    effect("E30", TRANSFER, "small buffers").only(&["zonda, 0 ms", "zonda, 20 ms", "zonda, 100 ms"]);
const BIG_BUFFERS: Lookup = effect("E30", TRANSFER, "big buffers").only(&["zonda, 20 ms", "zonda, 100 ms"]);

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "net.core.rmem_max",
        rule: "the queries of a 50 ms pause at --rate on each UDP socket, at 2,304 octets each, halved because the kernel doubles it; at least what the server asks for; for all sockets at most a quarter of the memory, and 1,023 MiB for each; never lowered",
        compute: |case| {
            let (wanted, why) = receive_buffer(case);
            let most = most_buffer(case);
            let limit =
                if wanted > most { format!("; no more than {} are possible", octets(most)) } else { String::new() };
            case.at_least("net.core.rmem_max", wanted.min(most), why + &limit)
        },
        sources: &[
            advises(Esnet, "67108864"),
            advises(LowerValues, "10485760"),
            says(Diiner, "tiny buffers (550 octets) have no impact"),
        ],
        evidence: &[alone(SHARE, "receive buffer 208 KiB")],
        risk: "queries that wait longer than the client does are answered for nothing",
        condition: "UDP; a server with CAP_NET_ADMIN may exceed it (SO_RCVBUFFORCE). E33 sets the buffer of the sockets",
        ..BUFFER
    },
    Setting {
        name: "net.core.wmem_max",
        rule: "the answers of 5 ms at --rate on each UDP socket, at 2,304 octets each, at least 4 MiB, so that answers to hosts that do not exist leave room for others (net.ipv4.neigh.default.unres_qlen_bytes); at most 1,023 MiB; never lowered",
        compute: |case| {
            let answers = sizes::datagrams(case.queries_per_s(), case.udp_sockets(), sizes::SOFTIRQ_PAUSE_MS);
            let wanted = (answers * sizes::DATAGRAM_OCTETS / 2).next_power_of_two();
            let wanted = wanted.clamp(sizes::FEWEST_SEND_BUFFER, sizes::MOST_BUFFER);
            let why = format!(
                "{answers} answers wait for the card for {} ms at each socket, and others for hosts that do not exist",
                sizes::SOFTIRQ_PAUSE_MS
            );
            case.at_least("net.core.wmem_max", wanted, why)
        },
        sources: &[advises(Esnet, "67108864"), advises(LowerValues, "10485760")],
        risk: "none known",
        ..BUFFER
    },
    Setting {
        name: "net.core.rmem_default",
        rule: "left at 212992: DNS servers ask for the buffer of their own sockets",
        compute: |case| default_buffer(case, "net.core.rmem_default"),
        sources: &[advises(Esnet, "67108864")],
        risk: "64 MiB for every UDP and raw socket of every program: one that does not read can pin that much",
        ..BUFFER
    },
    Setting {
        name: "net.core.wmem_default",
        rule: "left at 212992: DNS servers ask for the buffer of their own sockets",
        compute: |case| default_buffer(case, "net.core.wmem_default"),
        sources: &[advises(Esnet, "67108864")],
        risk: "as net.core.rmem_default",
        ..BUFFER
    },
    Setting {
        name: "net.ipv4.tcp_rmem",
        rule: "for a secondary, twice the octets in flight at the speed of the card and 100 ms, because half of a buffer is overhead, from 6 to 32 MiB; otherwise left",
        compute: |case| stream_buffer(case, "net.ipv4.tcp_rmem", Role::Secondary, TCP_RMEM_MAX),
        sources: &[
            advises(Esnet, "4096 87380 33554432"),
            advises(LowerValues, "1024 4096 1048576"),
            says(Diiner, "above 32 MiB no improvement; 550 octets no impact"),
        ],
        evidence: &[SMALL_BUFFERS, BIG_BUFFERS, sweep("big buffers"), sweep("tiny buffers"), group("ESnet")],
        risk: "a connection may take that much memory while its program does not read",
        condition: "transfers over a long path; queries and answers fit into any buffer. E30: 64 KiB and 64 MiB at both ends",
        ..BUFFER
    },
    Setting {
        name: "net.ipv4.tcp_wmem",
        rule: "for a primary, twice the octets in flight at the speed of the card and 100 ms, because half of a buffer is overhead, from 4 to 32 MiB; otherwise left",
        compute: |case| stream_buffer(case, "net.ipv4.tcp_wmem", Role::Primary, TCP_WMEM_MAX),
        sources: &[
            advises(Esnet, "4096 65536 33554432"),
            advises(LowerValues, "1024 4096 1048576"),
            says(Diiner, "above 32 MiB no improvement; 550 octets no impact"),
        ],
        evidence: &[SMALL_BUFFERS, BIG_BUFFERS, sweep("big buffers"), sweep("tiny buffers"), group("ESnet")],
        risk: "a client that never reads pins that much",
        condition: "transfers over a long path; queries and answers fit into any buffer. E30: 64 KiB and 64 MiB at both ends",
        ..BUFFER
    },
    Setting {
        name: "net.ipv4.tcp_mem",
        rule: "16 KiB for each tenth of --connections, at most a quarter of the host's memory; never lowered, unless the last mark is above the memory",
        compute: |case| {
            let (_, _, busy) = sizes::connection_memory(case.workload.connections, 0);
            let needed = format!("{} connections with a tenth of them busy", case.workload.connections);
            protocol_memory(case, "net.ipv4.tcp_mem", busy, 16, &needed)
        },
        sources: &[
            advises(Operator, "8388608 8388608 8388608").saying(" (32 GiB)"),
            says(Kernel, "computed from the memory at boot"),
        ],
        risk: "above the memory of the host it is no limit at all: buffers then end in the out-of-memory killer",
        ..BUFFER
    },
    Setting {
        name: "net.ipv4.udp_mem",
        rule: "twice the receive buffers of all UDP sockets, at most a quarter of the host's memory; never lowered, unless the last mark is above the memory",
        compute: |case| {
            let (buffer, _) = receive_buffer(case);
            let sockets = case.udp_sockets() * case.server.addresses.max(1);
            // The kernel charges twice what a socket asked for.
            let charged = buffer.saturating_mul(2 * sockets);
            let needed = format!("{sockets} sockets of {} and as much overhead", octets(buffer));
            protocol_memory(case, "net.ipv4.udp_mem", charged, 8, &needed)
        },
        sources: &[advises(Operator, "747744 996992 1495488"), says(Kernel, "computed from the memory at boot")],
        risk: "as net.ipv4.tcp_mem",
        ..BUFFER
    },
    Setting {
        name: "net.core.optmem_max",
        rule: "left: it limits ancillary data, and a DNS server sends one address with a datagram",
        compute: |case| case.leave("net.core.optmem_max", "ancillary data of a datagram takes less than 100 octets"),
        sources: &[advises(Operator, "10485760"), says(Diiner, "no noticeable improvement, as ESnet says")],
        evidence: &[sweep("optmem_max 10 MB"), group("other operator")],
        risk: "any program may then pin 10 MiB of kernel memory with one socket",
        ..BUFFER
    },
];

fn receive_buffer(case: &Case) -> (u64, String) {
    let computed = sizes::receive_buffer(case.queries_per_s(), case.udp_sockets());
    let asked = case.server.receive_buffer.unwrap_or(0);
    let pause = format!(
        "{} for the queries of {} ms at {} per second on {} sockets",
        octets(computed),
        sizes::PAUSE_MS,
        case.queries_per_s(),
        case.udp_sockets(),
    );
    match asked > computed {
        true => (asked, format!("{pause}; the server asks for {}", octets(asked))),
        false => (computed, pause),
    }
}

/// The largest receive buffer that may be asked for: of all sockets together, as the kernel charges them, a quarter of the memory. What the
/// server asks for is possible.
fn most_buffer(case: &Case) -> u64 {
    let sockets = case.udp_sockets() * case.server.addresses.max(1);
    let room = match case.host.memory.total {
        0 => sizes::MOST_BUFFER,
        total => (total / 4 / (2 * sockets)) & !((1 << 20) - 1),
    };
    room.clamp(1 << 20, sizes::MOST_BUFFER).max(case.server.receive_buffer.unwrap_or(0))
}

fn default_buffer(case: &Case, name: &str) -> Advice {
    const DEFAULT: u64 = 212_992;
    /// Ten times the default: a program that needs more asks for it.
    const HARMFUL: u64 = 2 << 20;
    let why = "DNS servers set the buffers of their own sockets, up to rmem_max and wmem_max";
    match case.host.sysctl_number(name) {
        Some(DEFAULT | HARMFUL..) => case.default(name, &DEFAULT.to_string(), why),
        _ => case.leave(name, why),
    }
}

/// Raises the maximum for the role that moves zones over long paths.
fn stream_buffer(case: &Case, name: &str, role: Role, default: u64) -> Advice {
    let [min, start, max] = case.host.sysctl_numbers(name)[..] else { return Advice::Absent(missing()) };
    // Without a driver that knows its speed, assume 1 Gbit/s.
    let mbit = card::fastest(case).and_then(|card| card.speed).unwrap_or(1_000);
    let in_flight = sizes::in_flight(mbit);
    // The kernel gives half of a buffer to the window, and counts the overhead of packets in it (tcp_adv_win_scale).
    let wanted = in_flight.saturating_mul(2).clamp(default, TCP_MAX);
    let transfer = format!(
        "{mbit} Mbit/s and {} ms keep {} in flight, and half of a buffer is overhead",
        sizes::TRANSFER_ROUND_TRIP_MS,
        octets(in_flight)
    );
    match case.is_role(&[role]) {
        true if max > wanted => Advice::Keep(format!("{transfer}; it is enough")),
        true => Advice::set(format!("{min} {start} {wanted}"), transfer),
        false => Advice::Leave(format!(
            "the kernel sizes the buffers of a connection by itself, and queries fit; for a {role}: {transfer}"
        )),
    }
}

/// Raises the three marks of a protocol's memory, in pages, to `needed` octets. By default the second is the `part`-th part of the memory.
///
/// They are of the whole host, so its memory counts and not that of a cgroup.
fn protocol_memory(case: &Case, name: &str, needed: u64, part: u64, what: &str) -> Advice {
    let Ok(now) = <[u64; 3]>::try_from(case.host.sysctl_numbers(name)) else { return Advice::Absent(missing()) };
    let page = case.host.memory.page_octets;
    let memory = case.host.memory.total / page;
    let pages = needed.div_ceil(page).min(memory / 4).max(1);
    let why = format!("{what} need {pages} pages");
    let (wanted, default) = (marks(pages), marks(pages.max(memory / part)));
    if memory > 0 && now[2] > memory {
        let why = format!("{} pages are more than the memory of {memory} pages: no limit at all; {why}", now[2]);
        return Advice::set(text(default), why);
    }
    let raised = [0, 1, 2].map(|mark| now[mark].max(wanted[mark]));
    // The kernel computes other numbers: these have been set before.
    let is_set = now == default || (0..3).any(|mark| now[mark] == wanted[mark]);
    match now == raised && !is_set {
        true => Advice::Keep(format!("{why}; it is enough")),
        false => Advice::set(text(raised), why),
    }
}

/// The three marks in the kernel's own proportions.
fn marks(pages: u64) -> [u64; 3] {
    [pages * 3 / 4, pages, pages * 3 / 2]
}

/// Marks as a sysctl has them.
fn text(marks: [u64; 3]) -> String {
    marks.map(|mark| mark.to_string()).join(" ")
}
