//! What limits the advice on this host: containers, missing privileges, missing programs, old kernels.

use super::files;
use crate::advice::{Action, Case, Place, Row};
use crate::host::SysctlLine;

/// The oldest kernel whose settings are known: older ones lack files, and rows say so.
const OLDEST: (u32, u32) = (4, 14);

/// Sentences for the administrator, most important first.
pub fn notes(case: &Case, rows: &[Row]) -> Vec<String> {
    let (host, surroundings) = (case.host, &case.host.surroundings);
    let mut notes = Vec::new();
    if let Some(mark) = &surroundings.container {
        notes.push(format!(
            "this is a container ({mark}): it sees its own network namespace, and settings that it does not have belong to the host; run `zonda tune` there as well"
        ));
    }
    if surroundings.user_namespace {
        notes.push("this is a user namespace: its root can set the settings of its own network namespace only".into());
    }
    let is_limited = surroundings.cpu_limit.is_some() || surroundings.memory_limit.is_some();
    if host.server.is_none() && (is_limited || host.cpus.usable() < host.cpus.online) {
        notes.push(format!(
            "{} does not run: the processors and the limits of the cgroup are those of this shell",
            case.workload.server
        ));
    }
    notes.extend(overridden(case, rows));
    notes.extend(above_nr_open(case, rows));
    if !surroundings.net_admin {
        notes.push("without CAP_NET_ADMIN nothing can be set here, and connection tracking cannot be read; advice needs no privileges".into());
    }
    if host.kernel_version().is_some_and(|version| version < OLDEST) {
        notes.push(format!(
            "Linux {} is older than {}.{}: it lacks some files, and their rows are absent",
            host.kernel, OLDEST.0, OLDEST.1
        ));
    }
    let (timed_out, seconds) = host.timed_out();
    let is_without_program =
        |row: &Row| row.place == Place::Device && row.action == Action::Absent && row.why.contains("is missing");
    for command in &timed_out {
        notes.push(format!(
            "`{command}` did not end within {seconds} seconds and was given up: what this program would print is missing here (help: run it by hand; it may wait for a driver that hangs)"
        ));
    }
    if timed_out.is_empty() && rows.iter().any(is_without_program) {
        notes.push("`ethtool` or `tc` is missing or may not ask the card: install them to get advice on queues, rings and offloads".into());
    }
    let denied = host.denied();
    if !denied.is_empty() {
        notes.push(format!("no permission to read {}", denied.join(", ")));
    }
    notes
}

/// Other values of files that are read after the one of `--write`.
fn overridden(case: &Case, rows: &[Row]) -> Vec<String> {
    let ours = files::sysctl_file(case.workload.server);
    let differs = |row: &Row, line: &SysctlLine| {
        let is_wanted = row.action == Action::Set || row.is_reached;
        row.name == line.name && is_wanted && row.advised.as_ref() != Some(&line.value)
    };
    let lines = case.host.sysctl_lines().into_iter().filter(|line| line.is_after(&ours));
    let others = lines.filter(|line| rows.iter().any(|row| differs(row, line)));
    let note = |SysctlLine { file, name, value }| {
        format!("/{file} sets {name} = {value}, and is read after /etc/sysctl.d/{ours}: change it there")
    };
    others.map(note).collect()
}

/// A limit of logins that the kernel refuses until fs.nr_open is raised.
fn above_nr_open(case: &Case, rows: &[Row]) -> Option<String> {
    let limit = rows.iter().find(|row| row.place == Place::Login && row.action == Action::Set)?.advised.as_ref()?;
    let most = case.host.sysctl_number("fs.nr_open")?;
    let limit = limit.rsplit(':').next()?;
    (limit.parse::<u64>().ok()? > most).then(|| {
        format!("fs.nr_open is {most}: raise it before a file in limits.d asks for {limit}, or nobody can log in")
    })
}
