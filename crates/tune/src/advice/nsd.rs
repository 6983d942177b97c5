//! Options of NSD.

use super::evidence::{SHARED_PROCESSOR, effect};
use super::sources::Document::{NlnetLabs, NsdManual};
use super::sources::says;
use super::workload::Server;
use super::{Advice, Group, Place, SETTING, Setting, ports, sizes};

const NSD: Setting = Setting { group: Group::Server, place: Place::Config(Server::Nsd), ..SETTING };

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "server-count",
        rule: "one process for each processor",
        compute: |case| Advice::set(case.processors(), "one process for each processor that it may use"),
        sources: &[says(NsdManual, "the number of cores; 1 by default"), says(NlnetLabs, "2 of 4 cores on Linux 3.9")],
        evidence: &[effect("E3", "Answered rate", "2 workers").only(&["nsd"])],
        risk: "tcp-count and memory multiply by it; sources disagree, years apart",
        condition: SHARED_PROCESSOR,
        ..NSD
    },
    Setting {
        name: "reuseport",
        rule: "yes with more than one process",
        compute: |case| match case.processors() {
            1 => Advice::Leave("one process needs no sharing".into()),
            count => Advice::set("yes", format!("the kernel spreads packets over {count} processes")),
        },
        sources: &[says(NsdManual, "distributes packets evenly; no by default")],
        ..NSD
    },
    Setting {
        name: "tcp-count",
        rule: "--connections divided by server-count, because the limit is for each process; at least the default of 100",
        compute: |case| {
            Advice::above_default(
                case.workload.connections.div_ceil(case.processors()),
                100,
                &format!("{} connections on {} processes", case.workload.connections, case.processors()),
            )
        },
        sources: &[says(NsdManual, "1000 instead of 100; for each server process")],
        risk: "NSD keeps buffers for each possible connection",
        ..NSD
    },
    Setting {
        name: "tcp-timeout",
        rule: "left at 120 s; 3 where more clients come than tcp-count has room for",
        compute: |_| Advice::Leave("it also limits transfers; first give tcp-count room for --connections".into()),
        sources: &[says(NsdManual, "3")],
        risk: "3 cuts slow transfers",
        ..NSD
    },
    Setting {
        name: "tcp-reject-overflow",
        rule: "yes: a client that is refused tries another server at once",
        compute: |_| {
            Advice::set("yes", "else connections above tcp-count wait in the accept queue until they time out")
        },
        sources: &[says(NsdManual, "yes keeps the kernel's queue from growing")],
        ..NSD
    },
    Setting {
        name: "receive-buffer-size",
        rule: "as net.core.rmem_max: the queries of 50 ms",
        compute: |case| {
            Advice::set(
                sizes::receive_buffer(case.queries_per_s(), case.processors()).min(sizes::MOST_BUFFER),
                "the queries of a pause of 50 ms on each socket",
            )
        },
        sources: &[says(NsdManual, "0 takes the system's default")],
        condition: "net.core.rmem_max allows it",
        ..NSD
    },
    Setting {
        name: "cpu-affinity",
        rule: "from four processors on, all that the server may use, each for one process (server-N-cpu-affinity), siblings of a core (SMT) too, because server-count takes all; xfrd shares the last. With fewer processes, one core each and one for xfrd",
        compute: |case| match case.processors() {
            0..=3 => Advice::Leave("too few processors to reserve any".into()),
            count => {
                let allowed = case.host.cpus.allowed.iter().take(count as usize);
                Advice::set(
                    allowed.map(usize::to_string).collect::<Vec<_>>().join(" "),
                    "with server-1-cpu-affinity: the first and so on, and xfrd-cpu-affinity: the last, which it shares with a process",
                )
            }
        },
        sources: &[says(
            NsdManual,
            "one dedicated core for each process, no SMT siblings, one address and card for each",
        )],
        evidence: &[effect("E20", "Server CPU time per answer", "server and load free").only(&["nsd"])],
        ..NSD
    },
    Setting {
        name: "xfrd-tcp-max",
        rule: "for a secondary, the transfers of a second at --rate, at least the default of 128",
        compute: |case| ports::parallel_transfers(case, 128),
        sources: &[says(NsdManual, "128 by default; 256 for more transfers at once")],
        risk: "each takes a socket and a buffer",
        ..NSD
    },
    Setting {
        name: "xdp-interface",
        rule: "left: AF_XDP answers without the kernel's network stack, but needs privileges, a fit driver, and a version of NSD that has it",
        compute: |_| {
            Advice::Leave("try it where the kernel's packet work is the limit, with a card that supports it".into())
        },
        sources: &[says(NsdManual, "not in 4.6")],
        risk: "firewall and packet capture do not see these packets",
        condition: "NSD with XDP support",
        ..NSD
    },
];
