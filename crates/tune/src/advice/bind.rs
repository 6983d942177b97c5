//! Options of BIND 9.

use super::evidence::{IDLE_MEMORY, Lookup, TRANSFER, medians};
use super::sources::Document::{BindManual, Isc, NlnetLabs, Usc};
use super::sources::{advises, says};
use super::workload::Server;
use super::{Advice, Group, Place, SETTING, Setting, descriptors, ports, sizes};

const BIND: Setting = Setting { group: Group::Server, place: Place::Config(Server::Bind), ..SETTING };

/// All options for many zones at once: these three, faster retries and more NOTIFY messages.
const MANY_ZONES: Lookup =
    medians("E12", TRANSFER).only(&["bind, zones 2,000, tuned", "bind, zones 2,000, defaults"]).of_group("tuned");

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "tcp-clients",
        rule: "--connections, at least the default of 150, which is for a resolver at home",
        compute: |case| Advice::above_default(case.workload.connections, 150, "as many as --connections"),
        sources: &[
            advises(Usc, "6500000").saying("; the default is just 150"),
            advises(BindManual, "150").saying(" by default"),
        ],
        evidence: &[
            medians("E18", "Connections open").only(&["bind, 15,000 idle"]),
            medians("E18", IDLE_MEMORY).only(&["bind, 15,000 idle"]),
        ],
        risk: "BIND needs kilobytes for each connection: see memory of connections",
        ..BIND
    },
    Setting {
        name: "tcp-listen-queue",
        rule: "the accept queue for --connections, at least the default of 10; net.core.somaxconn must be as long",
        compute: |case| {
            let wanted = sizes::accept_queue(case.workload.connections).min(sizes::MOST_ACCEPT_QUEUE);
            Advice::above_default(wanted, 10, "0 takes the system's own default, which need not be somaxconn")
        },
        sources: &[
            advises(Usc, "0").saying(": the length of the system"),
            advises(BindManual, "10").saying(" by default and at least; 0 takes a default of the system"),
        ],
        evidence: &[medians("E18", "Connections accepted per second").only(&["bind, 15,000 idle"])],
        risk: "none known",
        ..BIND
    },
    Setting {
        name: "files",
        rule: "left: unlimited is the default, so BIND takes the limit of its unit; the option is deprecated",
        compute: |case| {
            Advice::Leave(format!(
                "unlimited by default; LimitNOFILE={} in the unit is what counts",
                descriptors::wanted(case)
            ))
        },
        sources: &[advises(Usc, "6500000"), says(BindManual, "deprecated in 9.18")],
        evidence: &[medians("E19", "Share of UDP queries answered").only(&["bind"])],
        ..BIND
    },
    Setting {
        name: "reserved-sockets",
        rule: "left: it has no effect any more",
        compute: |_| Advice::Leave("deprecated, without effect".into()),
        sources: &[advises(Usc, "16384"), says(BindManual, "deprecated, no effect")],
        risk: "useless, and later versions do not have it",
        ..BIND
    },
    Setting {
        name: "keep-response-order",
        rule: "left: none is the default, and answers leave as they are ready",
        compute: |_| Advice::Leave("{ none; } is the default".into()),
        sources: &[
            says(Usc, "{ none; }: processing out of order in parallel is faster"),
            says(BindManual, "none by default"),
        ],
        risk: "naming all clients makes BIND answer one query of a connection at a time",
        ..BIND
    },
    Setting {
        name: "-n (threads)",
        rule: "left: as many as processors is the default; set where a cgroup gives fewer",
        compute: |case| match case.processors() {
            few if few < case.host.cpus.online as u64 => {
                Advice::set(few, "fewer processors may be used than are online")
            }
            _ => Advice::Leave("the default is one for each processor".into()),
        },
        sources: &[says(NlnetLabs, "4 of 4 cores; up to 3 times faster with threads")],
        ..BIND
    },
    Setting {
        name: "transfers-in",
        rule: "for a secondary, the transfers of a second at --rate, at least the default of 10",
        compute: |case| ports::parallel_transfers(case, 10),
        sources: &[says(Isc, "30,000 zones take from 66 to 181 s; ports run out after 38 s")],
        evidence: &[MANY_ZONES],
        risk: "ports run out sooner: see net.ipv4.ip_local_port_range",
        ..BIND
    },
    Setting {
        name: "transfers-per-ns",
        rule: "as transfers-in, for zones of one primary, at least the default of 2",
        compute: |case| ports::parallel_transfers(case, 2),
        evidence: &[MANY_ZONES],
        risk: "more load for that primary at once",
        ..BIND
    },
    Setting {
        name: "serial-query-rate",
        rule: "for a secondary, the SOA queries of a second at --rate, at least the default of 20",
        compute: |case| ports::parallel_transfers(case, 20),
        evidence: &[MANY_ZONES],
        risk: "more load for the primaries at once",
        ..BIND
    },
];
