//! Ports and TIME_WAIT: how many connections a minute are possible.

use super::evidence::{DROPPED, Lookup, SHARE, TRANSFER, alone, effect, group, medians, together};
use super::sizes::{self, octets};
use super::sources::Document::{Isc, Kernel, Liang, LowerValues, Operator};
use super::sources::{advises, says};
use super::workload::{Role, Server};
use super::{Advice, Case, Group, Place, SETTING, Setting, missing};

const PORT: Setting = Setting { group: Group::Ports, ..SETTING };

/// From here on ports are for everybody.
const FIRST: u64 = 1_024;
const LAST: u64 = 65_535;
const ALL: u64 = LAST + 1 - FIRST;
/// 32768 to 60999.
const DEFAULT: u64 = 28_232;

/// As many connections in TIME_WAIT take 5 MiB.
const FEWEST_BUCKETS: u64 = 16_384;

/// Servers with a connection for each zone, of which there are more than ports by default, and one of them with more ports.
const EXHAUSTED: &[&str] = &["knot, zones 30,000, tuned", "bind, zones 30,000, tuned"];
const EXHAUSTED_TIME: Lookup = medians("E12", TRANSFER).only(EXHAUSTED);
const EXHAUSTED_PORTS: Lookup = medians("E12", "Maximum sockets in TIME_WAIT").only(EXHAUSTED);
const WITH_MORE_PORTS: Lookup = medians("E15", TRANSFER).only(&["bind, tcp, zones 30,000"]);

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "net.ipv4.ip_local_port_range",
        rule: "for a secondary, at least as many ports as transfers per minute (TIME_WAIT lasts 60 s): 1024 65535 if the range is too small; otherwise left",
        compute: |case| {
            let [first, last] = case.host.sysctl_numbers("net.ipv4.ip_local_port_range")[..] else {
                return Advice::Absent(missing());
            };
            if case.workload.role != Role::Secondary {
                let why = "only a secondary opens many connections; all others arrive at port 53";
                return if (first, last) == (FIRST, LAST) {
                    Advice::KeepMore(why.into())
                } else {
                    Advice::Leave(why.into())
                };
            }
            let (now, needed) = (sizes::port_count(first, last), sizes::ports(case.workload.transfers_per_min()));
            let why = format!(
                "{needed} transfers a minute with a connection each hold {needed} ports for {} s; there are {now}{}",
                sizes::TIME_WAIT_S,
                if now >= needed || now < ALL { "" } else { ", and there can be no more: use several addresses" }
            );
            let is_set = needed > DEFAULT && (first, last) == (FIRST, LAST);
            match is_set || (needed > now && now < ALL) {
                true => Advice::set(format!("{FIRST} {LAST}"), why),
                false => Advice::KeepMore(why),
            }
        },
        sources: &[
            says(Isc, "28,231 ports and 60 s of TIME_WAIT stop a secondary of 30,000 zones"),
            advises(Liang, "2048 65500"),
            advises(LowerValues, "1024 65535"),
        ],
        evidence: &[
            alone(SHARE, "more ports"),
            EXHAUSTED_TIME,
            EXHAUSTED_PORTS,
            WITH_MORE_PORTS,
            effect("E14", TRANSFER, "more ports"),
            group("Liang et al."),
        ],
        risk: "a service that starts later may find its port in use: list such ports in net.ipv4.ip_local_reserved_ports",
        condition: "a secondary that opens a connection for each zone. In E12 there are 28,232 ports, in E15 64,512",
        ..PORT
    },
    Setting {
        name: "net.ipv4.tcp_max_tw_buckets",
        rule: "at least the connections that close in 60 s (--connections and transfers) and 16,384, within 5 % of the memory; never lowered",
        compute: |case| {
            let idle_s = case.server.idle_s.max(sizes::RECONNECT_S);
            let closing = case.workload.connections * sizes::TIME_WAIT_S / idle_s + case.workload.transfers_per_min();
            let room = case.host.usable_memory() / 20 / sizes::TIME_WAIT_OCTETS;
            let wanted = closing.max(FEWEST_BUCKETS).min(room.max(1)).next_power_of_two();
            let why = format!(
                "{closing} connections close within {} s, at {} octets each",
                sizes::TIME_WAIT_S,
                sizes::TIME_WAIT_OCTETS
            );
            case.at_least("net.ipv4.tcp_max_tw_buckets", wanted, why)
        },
        sources: &[
            advises(Isc, "1000").saying(" makes a cold start eleven times as fast, and is dangerous"),
            advises(Operator, "2000000").saying(" against simple attacks"),
            says(Kernel, "you must not lower the limit artificially, but rather increase it"),
        ],
        evidence: &[
            EXHAUSTED_TIME,
            EXHAUSTED_PORTS,
            WITH_MORE_PORTS,
            effect("E14", TRANSFER, "1,000 buckets (dangerous)"),
            group("other operator"),
        ],
        risk: "too low: an old packet can reach a new connection with the same ports; net.ipv4.ip_local_port_range helps without that risk",
        condition: "in E12 there are 28,232 ports, in E15 64,512; E14 has 1,000 buckets, but its record could not test them",
        ..PORT
    },
    Setting {
        name: "net.ipv4.tcp_tw_reuse",
        rule: "left: 2 (loopback only) is the default; 1 helps only programs that let connect() choose the port",
        compute: |case| {
            case.leave(
                "net.ipv4.tcp_tw_reuse",
                "programs that bind their source address first, as most DNS servers do, gain nothing; use more ports",
            )
        },
        sources: &[
            says(LowerValues, "not recommended: 1"),
            advises(Kernel, "2").saying(" by default; needs TCP timestamps"),
        ],
        evidence: &[alone(SHARE, "tw_reuse 1"), together(SHARE, "tw_reuse 1, timestamps 0")],
        risk: "with 1 and without timestamps an old packet can reach a new connection",
        ..PORT
    },
    Setting {
        name: "net.ipv4.tcp_fin_timeout",
        rule: "left at 60: it is the time of FIN-WAIT-2 after close, not that of TIME_WAIT, which is fixed; less drops hanging clients sooner, but also slow ones",
        compute: |case| {
            case.default(
                "net.ipv4.tcp_fin_timeout",
                "60",
                "less drops connections of clients that hang sooner (E33), but also answers the last packets of slow ones with a reset; it does not shorten TIME_WAIT, so it frees no port",
            )
        },
        sources: &[
            advises(Operator, "15").saying("; “some say not lower then 30, other say 5-10 for busy server; dflt 60s”"),
            advises(Kernel, "60").saying(" by default; orphaned connections in FIN-WAIT-2"),
        ],
        evidence: &[alone(DROPPED, "fin_timeout 5"), group("other operator")],
        risk: "too low: a slow client's last packets are answered with a reset",
        ..PORT
    },
    Setting {
        name: "net.ipv4.tcp_orphan_retries",
        rule: "left at 0 (which means 8): Zonda resets connections that do not read after 10 s, so that fewer retries gain nothing; where it is set for BIND it may stay, because BIND leaves them to the kernel",
        compute: |case| {
            match case.workload.server {
            Server::Bind => case.leave(
                "net.ipv4.tcp_orphan_retries",
                "1 drops connections of clients that have vanished sooner (E33), but also the last answer to a client with loss: a gain only where they take too much memory",
            ),
            Server::Zonda => case.default(
                "net.ipv4.tcp_orphan_retries",
                "0",
                "Zonda itself resets connections that do not read, so that 1 drops none of them sooner (E33), but loses the last answer to a client with loss",
            ),
            _ => case.default(
                "net.ipv4.tcp_orphan_retries",
                "0",
                "1 may drop connections of clients that have vanished sooner, as those of BIND (E33), but loses the last answer to a client with loss",
            ),
        }
        },
        sources: &[
            advises(Operator, "1").saying(": times out sooner"),
            advises(Kernel, "0")
                .saying(" by default, which means 8; lower it on loaded web servers, where orphans take much memory"),
        ],
        evidence: &[alone(DROPPED, "orphan_retries 1"), group("other operator")],
        risk: "the last answer to a client with some loss gets lost",
        ..PORT
    },
    Setting {
        name: "connections for each transfer",
        place: Place::Habit,
        rule: "reuse connections, or spread them over several addresses of the primary, where transfers per minute exceed all ports",
        compute: |case| {
            let needed = sizes::ports(case.workload.transfers_per_min());
            let addresses = needed.div_ceil(ALL).max(1);
            match (case.workload.role, addresses) {
                (Role::Secondary, 2..) => Advice::Set {
                    value: format!("{addresses} addresses of primary or secondary, or reused connections"),
                    why: format!("{needed} transfers a minute need more than the {ALL} ports of one pair of addresses"),
                },
                (Role::Secondary, _) => {
                    Advice::Keep(format!("{needed} transfers a minute fit into the ports of one pair of addresses"))
                }
                _ => Advice::Absent("only a secondary opens many connections".into()),
            }
        },
        sources: &[says(Isc, "connection reuse? protocol tweaks?")],
        evidence: &[
            medians("E12", TRANSFER).only(&["zonda, zones 30,000, tuned", "bind, zones 30,000, tuned"]),
            medians("E12", "Maximum sockets in TIME_WAIT")
                .only(&["zonda, zones 30,000, tuned", "bind, zones 30,000, tuned"]),
        ],
        risk: "none known",
        condition: "a secondary with more zones than ports. Zonda reuses connections, BIND opens one for each zone",
        ..PORT
    },
    Setting {
        name: "cold page cache at the start",
        place: Place::Habit,
        rule: "free memory of at least the size of the zone files, or a start that may take longer",
        compute: |case| match case.host.memory.pressure {
            Some(pressure) if pressure.io >= 1.0 => {
                Advice::Leave(format!("disks delayed some work for {} % of the last minute", pressure.io))
            }
            Some(pressure) => Advice::Keep(format!(
                "disks delayed work for {} % of the last minute; {} of memory are available",
                pressure.io,
                octets(case.host.memory.available)
            )),
            None => Advice::Absent("this kernel has no pressure stall information".into()),
        },
        sources: &[says(Isc, "the first of ten starts was an outlier: 1 to 5 % of the time stalled by disks")],
        evidence: &[effect(
            "E10",
            "Claims",
            "a cold page cache delays the start (ratio of the time to the first answer, cold to warm)",
        )],
        risk: "none known",
        condition: "a primary that reads large zone files",
        ..PORT
    },
];

/// Used by the options of other servers: for a secondary, the transfers of a second.
pub(super) fn parallel_transfers(case: &Case, default: u64) -> Advice {
    if case.workload.role != Role::Secondary {
        return Advice::Leave("only for a secondary of many zones".into());
    }
    let per_min = case.workload.transfers_per_min();
    let most = if case.workload.server == Server::Nsd { 65_536 } else { 1_000 };
    Advice::above_default((per_min / 60).min(most), default, &format!("{per_min} transfers a minute"))
}
