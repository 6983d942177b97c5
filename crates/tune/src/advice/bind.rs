//! Options of BIND 9.

use super::evidence::medians;
use super::sources::Document::{BindManual, Isc, NlnetLabs, Usc};
use super::sources::says;
use super::workload::{Role, Server};
use super::{Advice, Group, Place, SETTING, Setting, descriptors, ports, sizes};

const BIND: Setting = Setting { group: Group::Server, place: Place::Config(Server::Bind), ..SETTING };

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "tcp-clients",
        rule: "--connections: the default of 150 is for a resolver at home",
        compute: |case| set(case.workload.connections, "150 by default"),
        sources: &[says(Usc, "6500000; the default is just 150"), says(BindManual, "150 by default")],
        evidence: &[
            medians("E18", "Connections open").only(&["bind, 15,000 idle"]),
            medians("E18", "Server memory per idle connection").only(&["bind, 15,000 idle"]),
        ],
        risk: "BIND needs kilobytes for each connection: see memory of connections",
        ..BIND
    },
    Setting {
        name: "tcp-listen-queue",
        rule: "the accept queue for --connections, as net.core.somaxconn",
        compute: |case| {
            let wanted = sizes::accept_queue(case.workload.connections).max(10);
            set(wanted, "10 by default; 0 takes the system's own default, which need not be somaxconn")
        },
        sources: &[
            says(Usc, "0: the length of the system"),
            says(BindManual, "10 by default and at least; 0 takes a default of the system"),
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
        sources: &[says(Usc, "6500000"), says(BindManual, "deprecated in 9.18")],
        evidence: &[medians("E19", "Share of UDP queries answered").only(&["bind"])],
        ..BIND
    },
    Setting {
        name: "reserved-sockets",
        rule: "left: it has no effect any more",
        compute: |_| Advice::Leave("deprecated, without effect".into()),
        sources: &[says(Usc, "16384"), says(BindManual, "deprecated, no effect")],
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
            few if few < case.host.cpus.online as u64 => set(few, "fewer processors may be used than are online"),
            _ => Advice::Leave("the default is one for each processor".into()),
        },
        sources: &[says(NlnetLabs, "4 of 4 cores; up to 3 times faster with threads")],
        ..BIND
    },
    Setting {
        name: "transfers-in, transfers-per-ns, serial-query-rate",
        rule: "for a secondary, the transfers of a second, so that --rate can be reached",
        compute: |case| match case.is_role(&[Role::Secondary]) {
            true => set(
                ports::parallel_transfers(case),
                &format!("{} transfers a minute, 10, 2 and 20 by default", case.workload.transfers_per_min()),
            ),
            false => Advice::Leave("only for a secondary of many zones".into()),
        },
        sources: &[says(Isc, "30,000 zones take from 66 to 181 s; ports run out after 38 s")],
        risk: "ports run out sooner: see net.ipv4.ip_local_port_range",
        ..BIND
    },
];

fn set(value: impl ToString, why: &str) -> Advice {
    Advice::Set { value: value.to_string(), why: why.into() }
}
