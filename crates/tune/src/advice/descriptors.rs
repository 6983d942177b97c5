//! Descriptors, and the memory of connections.

use super::evidence::{IDLE, IDLE_MEMORY, idle_connection_memory, idle_tls_connection_memory, medians};
use super::sizes::octets;
use super::sources::Document::{Diiner, Kernel, Liang, Usc};
use super::sources::{advises, says};
use super::workload::Server;
use super::{Advice, Case, Group, Place, SETTING, Setting, sizes};

const DESCRIPTOR: Setting = Setting { group: Group::Descriptors, ..SETTING };

/// Descriptors of the rest of the system.
const SYSTEM: u64 = 65_536;

/// The limit of the systemd unit.
pub(super) const UNIT: &str = "LimitNOFILE";
/// The limit of all units.
const MANAGER: &str = "DefaultLimitNOFILE";
/// The limit of logins.
const LOGIN: &str = "nofile (limits.d)";

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: UNIT,
        place: Place::Unit,
        rule: "--connections and what the server needs besides, rounded up to a multiple of 1,024; twice that for Knot, which uses half of its limit for TCP; never lowered, and a higher hard limit stays. The hard limit counts for Zonda and BIND, which raise the soft one to it, else the soft one",
        compute: |case| {
            let wanted = wanted(case);
            let why = format!("{} connections and {} other descriptors", case.workload.connections, reserved(case));
            match now(case, UNIT).and_then(|limit| effective(case, &limit)) {
                Some(now) if now >= wanted => Advice::Keep(format!("{why}; it is enough")),
                _ => Advice::set(raised(case, UNIT, wanted), why),
            }
        },
        sources: &[
            advises(Liang, "6500000:8388600"),
            says(Usc, "services do not honour limits.d, so set it in the unit"),
        ],
        evidence: &[medians("E19", "Share of UDP queries answered"), medians("E19", "Time until TCP answers again")],
        risk: "none known: a limit that is never reached costs nothing",
        condition: "the server is started by systemd",
        ..DESCRIPTOR
    },
    Setting {
        name: MANAGER,
        place: Place::Unit,
        rule: "left: the limit of one service belongs into its own unit; this one needs a reboot and concerns all services",
        compute: |_| Advice::Leave("LimitNOFILE of the server's own unit is enough, and needs no reboot".into()),
        sources: &[advises(Liang, "6500000:8388600").saying(" for all services, after a reboot")],
        risk: "programs that close every possible descriptor at their start become slow",
        ..DESCRIPTOR
    },
    Setting {
        name: LOGIN,
        place: Place::Login,
        rule: "as LimitNOFILE, for servers started from a login shell",
        compute: |case| {
            let wanted = wanted(case);
            match now(case, LOGIN).and_then(|limit| effective(case, &limit)) {
                Some(now) if now >= wanted => Advice::Keep("it is enough".into()),
                _ => Advice::set(raised(case, LOGIN, wanted), format!("as {UNIT}; systemd services do not read it")),
            }
        },
        sources: &[advises(Liang, "6500000").saying(", soft and hard, for everybody")],
        risk: "concerns every user of the host; above fs.nr_open pam_limits fails, and nobody can log in",
        condition: "the server is started from a shell, by cron or by an init script with PAM",
        ..DESCRIPTOR
    },
    Setting {
        name: "fs.nr_open",
        rule: "at least the limit of the process; never lowered",
        compute: |case| {
            let wanted = wanted(case);
            case.at_least(
                "fs.nr_open",
                wanted,
                format!("no process may have a limit above it, and {wanted} descriptors are needed"),
            )
        },
        sources: &[advises(Liang, "6500000")],
        risk: "none known",
        ..DESCRIPTOR
    },
    Setting {
        name: "fs.file-max",
        rule: "what the server needs and 65,536 for the rest of the system; never lowered",
        compute: |case| {
            let wanted = wanted(case) + SYSTEM;
            case.at_least(
                "fs.file-max",
                wanted,
                format!("{} descriptors of the server and {SYSTEM} of the rest", wanted - SYSTEM),
            )
        },
        sources: &[advises(Liang, "6500000"), says(Diiner, "above 524288 no noticeable improvement")],
        risk: "each open file takes about 1 KiB of kernel memory",
        ..DESCRIPTOR
    },
    Setting {
        name: "memory of connections",
        place: Place::Habit,
        rule: "--connections times (4 KiB of the kernel for an idle connection, and the server's own memory), and 16 KiB for each tenth connection with an answer under way; any may be a TLS one if Zonda listens for TLS, and as many are open over QUIC besides if it listens for that. For Zonda also what it keeps where tcp-connections and quic-connections are 0",
        compute: connection_memory,
        sources: &[says(Usc, "BIND has locked up with all file descriptors in use")],
        evidence: &[
            medians("E18", IDLE_MEMORY).only(IDLE),
            medians("E32", IDLE_MEMORY),
            medians("E18", "Kernel memory per idle connection, both ends").only(&["zonda, 15,000 idle"]),
        ],
        risk: "without room for them the kernel kills the server",
        ..DESCRIPTOR
    },
    Setting {
        name: "net.ipv4.tcp_max_orphans",
        rule: "at least a tenth of --connections: connections that the server has closed and whose last data is not acknowledged; never lowered",
        compute: |case| {
            let wanted = (case.workload.connections / sizes::BUSY_FRACTION).next_power_of_two();
            case.at_least(
                "net.ipv4.tcp_max_orphans",
                wanted,
                format!("{wanted} closed connections may still have data to send"),
            )
        },
        sources: &[says(
            Kernel,
            "each orphan takes up to 64 KiB that cannot be swapped; do not rely on it or lower it",
        )],
        risk: "orphans of clients that never read hold memory",
        condition: "--connections is larger than about 40,000",
        ..DESCRIPTOR
    },
];

/// The limit of open files now and where it is set, as `SOFT:HARD (WHERE)`.
pub(super) fn now(case: &Case, name: &str) -> Option<String> {
    let (_, unit) = case.workload.server.process();
    let limits = case.host.open_files(unit);
    let of_process = |(soft, hard): (u64, u64), whose: &str| format!("{soft}:{hard} ({whose})");
    match name {
        UNIT => limits
            .unit
            .or_else(|| limits.running.map(|limit| of_process(limit, "running")))
            .or_else(|| limits.manager.map(|limit| format!("{limit} ({MANAGER})"))),
        MANAGER => limits.manager,
        _ => limits.login.or_else(|| limits.own.map(|limit| of_process(limit, "this shell"))),
    }
}

/// The limit that the server gets of `SOFT:HARD`, or of a single number for both.
fn effective(case: &Case, limit: &str) -> Option<u64> {
    let mut parts = limit.split_whitespace().next()?.split(':');
    let part = if case.workload.server.raises_open_files() { parts.next_back() } else { parts.next() }?;
    number(part)
}

/// The soft and hard limit to set: `wanted` for both, unless the hard limit is higher already, which other programs may need.
fn raised(case: &Case, name: &str, wanted: u64) -> String {
    let now = now(case, name).unwrap_or_default();
    let hard = now.split_whitespace().next().and_then(|limit| limit.rsplit(':').next()).unwrap_or_default();
    match number(hard) {
        Some(u64::MAX) => format!("{wanted}:infinity"),
        Some(hard) if hard > wanted => format!("{wanted}:{hard}"),
        _ => wanted.to_string(),
    }
}

/// A limit as systemd, PAM and `/proc` write it.
fn number(limit: &str) -> Option<u64> {
    if matches!(limit, "infinity" | "unlimited" | "-1") { Some(u64::MAX) } else { limit.parse().ok() }
}

/// What a server has open besides connections; unknown servers get some for each processor and zone transfers.
fn reserved(case: &Case) -> u64 {
    if case.server.reserved > 0 { case.server.reserved } else { 1_024 + 64 * case.processors() }
}

/// The limit of open files.
pub(super) fn wanted(case: &Case) -> u64 {
    let needed = case.workload.connections + reserved(case);
    let share = if case.workload.server == Server::Knot { 2 } else { 1 };
    (needed * share).next_multiple_of(1_024)
}

/// The connections that the server allows itself where `tcp-connections` is 0: with its limit of open files now, and with the advised one.
/// `None` if that is not known.
pub(super) fn derived_connections(case: &Case) -> Option<(u64, u64)> {
    let derive = case.server.derived_limits?.connections;
    let memory = case.host.available_memory()?;
    let wanted = wanted(case);
    let limits = [UNIT, LOGIN].iter().filter_map(|name| effective(case, &now(case, name)?));
    let now = limits.into_iter().next().unwrap_or(wanted);
    let with = |open_files| derive(open_files, reserved(case), memory);
    Some((with(now), with(now.max(wanted))))
}

/// The QUIC connections that the server allows itself where `quic-connections` is 0; `None` if that is not known.
pub(super) fn derived_quic_connections(case: &Case) -> Option<u64> {
    let derive = case.server.derived_limits?.quic_connections;
    Some(derive(case.host.available_memory()?))
}

/// What `--connections` connections need, in octets.
struct ConnectionMemory {
    kernel: u64,
    server: u64,
    busy: u64,
    quic: u64,
}

impl ConnectionMemory {
    /// `None` if the records do not have the memory of a connection of this server.
    fn of(case: &Case) -> Option<ConnectionMemory> {
        let connections = case.workload.connections;
        let (kernel, server, busy) = sizes::connection_memory(connections, user_octets(case)?);
        // The kernel has nothing for each: they share sockets.
        Some(ConnectionMemory { kernel, server, busy, quic: connections.saturating_mul(case.server.quic_octets) })
    }

    fn sum(&self) -> u64 {
        [self.server, self.busy, self.quic].into_iter().fold(self.kernel, u64::saturating_add)
    }
}

/// The server's memory of an idle connection. Any may be a TLS one if it listens for TLS.
fn user_octets(case: &Case) -> Option<u64> {
    let server = case.workload.server.name();
    let tcp = idle_connection_memory(server)?.ceil() as u64;
    match case.server.tls_octets {
        0 => Some(tcp),
        // What was measured has all that a connection takes.
        session => Some((tcp + session).max(idle_tls_connection_memory(server)?.ceil() as u64)),
    }
}

/// The connections that half of the memory is enough for: the other half is for zones and the rest of the system. `None` if that is not
/// known.
pub(super) fn possible_connections(case: &Case) -> Option<u64> {
    let needed = ConnectionMemory::of(case)?.sum();
    let half = case.host.usable_memory() / 2;
    let possible = u128::from(case.workload.connections) * u128::from(half) / u128::from(needed.max(1));
    (half > 0).then_some(u64::try_from(possible).unwrap_or(u64::MAX))
}

fn connection_memory(case: &Case) -> Advice {
    let connections = case.workload.connections;
    let Some(needed) = ConnectionMemory::of(case) else {
        return Advice::Leave(format!("the memory of a connection of {} is not in the records", case.workload.server));
    };
    let over_tls = if case.server.tls_octets > 0 { " over TLS" } else { "" };
    let over_quic = match needed.quic {
        0 => String::new(),
        quic => format!(", {} for as many over QUIC", octets(quic)),
    };
    let why = format!(
        "{connections} connections{over_tls} need {} in the kernel, {} in the server, {} for answers under way{over_quic}: {} of {}{}",
        octets(needed.kernel),
        octets(needed.server),
        octets(needed.busy),
        octets(needed.sum()),
        octets(case.host.usable_memory()),
        derived_limits(case),
    );
    match possible_connections(case) {
        None => Advice::Absent("the memory of the host cannot be read".into()),
        Some(possible) if possible < connections => Advice::set(format!("at most {possible} connections"), why),
        Some(_) => Advice::Keep(why),
    }
}

/// What the server keeps by itself, where that is less than `--connections`.
fn derived_limits(case: &Case) -> String {
    let is_derived = |name: &str| case.server.options.get(name).is_some_and(|value| value == "0");
    let tcp = derived_connections(case).map(|(_, limit)| limit).filter(|_| is_derived("tcp-connections"));
    let has_quic = case.server.quic_octets > 0 && is_derived("quic-connections");
    let quic = derived_quic_connections(case).filter(|_| has_quic);
    let limits = [("tcp-connections", tcp, "of them"), ("quic-connections", quic, "over QUIC")];
    let too_few = limits.into_iter().filter_map(|(name, limit, what)| Some((name, limit?, what)));
    let too_few = too_few.filter(|(_, limit, _)| *limit < case.workload.connections);
    too_few.map(|(name, limit, what)| format!("; with {name} = 0 the server keeps at most {limit} {what}")).collect()
}
