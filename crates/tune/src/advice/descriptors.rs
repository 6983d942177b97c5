//! Descriptors, and the memory of connections.

use super::evidence::{IDLE, idle_connection_memory, medians};
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
        rule: "--connections times (4 KiB of the kernel for an idle connection, and the server's own memory), and 16 KiB for each tenth connection with an answer under way; any may be a TLS one if Zonda listens for TLS, and as many are open over QUIC besides if it listens for that",
        compute: connection_memory,
        sources: &[says(Usc, "BIND has locked up with all file descriptors in use")],
        evidence: &[
            medians("E18", "Server memory per idle connection").only(IDLE),
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

fn connection_memory(case: &Case) -> Advice {
    let connections = case.workload.connections;
    let server = case.workload.server.name();
    let Some(user) = idle_connection_memory(server) else {
        return Advice::Leave(format!("the memory of a connection of {} is not in the records", case.workload.server));
    };
    // Any of them may be a TLS connection.
    let (kernel, user, busy) = sizes::connection_memory(connections, user.ceil() as u64 + case.server.tls_octets);
    // The kernel has nothing for each: they share sockets.
    let quic = connections.saturating_mul(case.server.quic_octets);
    let needed = kernel.saturating_add(user).saturating_add(busy).saturating_add(quic);
    let over_tls = if case.server.tls_octets > 0 { " over TLS" } else { "" };
    let over_quic = match case.server.quic_octets {
        0 => String::new(),
        _ => format!(", {} for as many over QUIC", octets(quic)),
    };
    let why = format!(
        "{connections} connections{over_tls} need {} in the kernel, {} in the server, {} for answers under way{over_quic}: {} of {}",
        octets(kernel),
        octets(user),
        octets(busy),
        octets(needed),
        octets(case.host.usable_memory()),
    );
    if case.host.memory.total == 0 {
        return Advice::Absent("the memory of the host cannot be read".into());
    }
    // The other half is for zones and the rest of the system.
    match needed > case.host.usable_memory() / 2 {
        true => Advice::Set {
            value: format!("at most {} connections", possible(connections, case.host.usable_memory() / 2, needed)),
            why,
        },
        false => Advice::Keep(why),
    }
}

/// The number of connections that the memory is enough for, of which `connections` need `needed` octets.
fn possible(connections: u64, memory: u64, needed: u64) -> u64 {
    (u128::from(connections) * u128::from(memory) / u128::from(needed.max(1))) as u64
}
