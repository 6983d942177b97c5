//! Options of Zonda.

use super::evidence::{SHARED_PROCESSOR, effect, medians};
use super::workload::Server;
use super::{Advice, Group, Place, SETTING, Setting};

const ZONDA: Setting = Setting { group: Group::Server, place: Place::Config(Server::Zonda), ..SETTING };

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "tcp-connections",
        rule: "--connections, as far as descriptors and memory allow",
        compute: |case| {
            let now = case.server.options.get("tcp-connections").and_then(|value| value.parse::<u64>().ok());
            match now {
                Some(0) => Advice::Keep(
                    "0: as many as descriptors and memory allow; see LimitNOFILE and memory of connections".into(),
                ),
                Some(now) if now >= case.workload.connections => {
                    Advice::Keep(format!("{} connections are asked for", case.workload.connections))
                }
                _ => Advice::Set {
                    value: case.workload.connections.to_string(),
                    why: "as asked for with --connections; LimitNOFILE and memory must follow".into(),
                },
            }
        },
        evidence: &[
            medians("E18", "Connections open").only(&["zonda, 15,000 idle"]),
            medians("E18", "Server memory per idle connection").only(&["zonda, 15,000 idle"]),
        ],
        risk: "each connection takes kernel memory: see memory of connections",
        ..ZONDA
    },
    Setting {
        name: "tcp-connections-per-client",
        rule: "left at 0 (1000, or a quarter of all if that is less); more only where many clients share an address, such as that of a proxy that is not in proxy-from",
        compute: |case| match case.server.options.get("tcp-connections-per-client").map(String::as_str) {
            Some("0") | None => {
                Advice::Leave("1000, or a quarter of all where there are few: no client can take all".into())
            }
            Some(_) => Advice::Leave("set by hand: a client may have as many, even if that is all of them".into()),
        },
        risk: "too many, and one client takes the places of the others",
        ..ZONDA
    },
    Setting {
        name: "quic-connections",
        rule: "--connections, if the server listens for QUIC and memory allows",
        compute: |case| {
            let now = case.server.options.get("quic-connections").and_then(|value| value.parse::<u64>().ok());
            match now {
                _ if case.server.quic_octets == 0 => Advice::Leave("the server does not listen for QUIC".into()),
                Some(0) => Advice::Keep("0: as many as memory allows; see memory of connections".into()),
                Some(now) if now >= case.workload.connections => {
                    Advice::Keep(format!("{} connections are asked for", case.workload.connections))
                }
                _ => Advice::Set {
                    value: case.workload.connections.to_string(),
                    why: "as asked for with --connections; memory must follow".into(),
                },
            }
        },
        risk: "each connection takes memory of the server: see memory of connections",
        ..ZONDA
    },
    Setting {
        name: "workers",
        rule: "0, the default: one UDP thread for each processor; as many as the cgroup pays for, if that is less",
        compute: |case| match case.server.options.get("workers").map(String::as_str) {
            Some("0") | None if case.processors() < case.host.cpus.usable() as u64 => Advice::set(
                case.processors(),
                format!("0 means one for each of {} processors, and the cgroup allows less", case.host.cpus.usable()),
            ),
            Some("0") | None => Advice::Keep("one for each processor".into()),
            Some(_) => Advice::Leave("set by hand: see workers and processors".into()),
        },
        evidence: &[effect("E3", "Answered rate", "2 workers").only(&["zonda"])],
        condition: SHARED_PROCESSOR,
        ..ZONDA
    },
    Setting {
        name: "tcp-idle-timeout-ms",
        rule: "left at 10000: longer keeps more connections, shorter costs clients a handshake",
        compute: |_| {
            Advice::Leave("10 s suits resolvers; idle connections are closed earlier when room is short".into())
        },
        risk: "too short, and every query needs a handshake",
        ..ZONDA
    },
];
