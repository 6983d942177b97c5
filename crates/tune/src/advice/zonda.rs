//! Options of Zonda.

use super::evidence::{IDLE_MEMORY, SHARED_PROCESSOR, effect, medians};
use super::workload::Server;
use super::{Advice, Case, Group, Place, SETTING, Setting, descriptors};

const ZONDA: Setting = Setting { group: Group::Server, place: Place::Config(Server::Zonda), ..SETTING };

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "tcp-connections",
        rule: "0 where the limit that the server derives from descriptors and memory is enough for --connections; else --connections, as far as memory allows",
        compute: |case| {
            connections(case, "tcp-connections", "descriptors and memory", descriptors::derived_connections(case))
        },
        evidence: &[
            medians("E18", "Connections open").only(&["zonda, 15,000 idle"]),
            medians("E18", IDLE_MEMORY).only(&["zonda, 15,000 idle"]),
            medians("E32", IDLE_MEMORY).only(&["zonda"]),
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
        rule: "if the server listens for QUIC, as tcp-connections: 0 where the limit that it derives from memory is enough",
        compute: |case| match case.server.quic_octets {
            0 => Advice::Leave("the server does not listen for QUIC".into()),
            _ => {
                let derived = descriptors::derived_quic_connections(case).map(|limit| (limit, limit));
                connections(case, "quic-connections", "memory", derived)
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

/// The advice on a limit of connections. `derived` is what the server allows itself for 0, now and with the advised LimitNOFILE.
fn connections(case: &Case, name: &str, by: &str, derived: Option<(u64, u64)>) -> Advice {
    let asked = case.workload.connections;
    let room = descriptors::possible_connections(case).map_or(asked, |possible| possible.min(asked));
    let short = if room < asked { format!("; memory is enough for {room}") } else { String::new() };
    let now = case.server.options.get(name).and_then(|value| value.parse::<u64>().ok());
    match (now, derived) {
        (Some(0), None) => Advice::Keep(format!("0: as many as {by} allow; see LimitNOFILE and memory of connections")),
        (Some(0), Some((now, _))) if now >= asked => Advice::Keep(format!(
            "0: the server allows itself {now} connections on this host, and {asked} are asked for"
        )),
        (Some(0), Some((now, later))) if later >= asked => Advice::Keep(format!(
            "0: the server allows itself {now} connections now, and {later} with the advised LimitNOFILE; {asked} are asked for"
        )),
        (Some(0), Some((_, later))) if later >= room => Advice::Keep(format!(
            "0: the server allows itself {later} connections on this host; {asked} are asked for{short}"
        )),
        (Some(0), Some((_, later))) => Advice::set(
            room,
            format!("0 means {later} connections on this host, by the available memory; {asked} are asked for{short}"),
        ),
        (Some(now), _) if now >= asked => Advice::Keep(format!("{asked} connections are asked for")),
        (Some(now), _) if now >= room => Advice::Keep(format!("{asked} connections are asked for{short}")),
        _ => Advice::set(room, format!("{asked} are asked for with --connections{short}; LimitNOFILE must follow")),
    }
}
