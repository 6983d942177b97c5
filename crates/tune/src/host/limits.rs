//! Limits of open files: of the running server, of the systemd unit, of PAM logins.

use std::collections::BTreeMap;

use super::Tree;

/// The limits of open files (RLIMIT_NOFILE) that concern a server. `None` where it is not set or not readable.
#[derive(Clone, Debug, Default)]
pub struct OpenFileLimits {
    /// Soft and hard limit of the running server.
    pub running: Option<(u64, u64)>,
    /// `LimitNOFILE=` of its unit, as it is written.
    pub unit: Option<String>,
    /// `DefaultLimitNOFILE=` of the systemd manager, as it is written, or its own default; `None` without systemd.
    pub manager: Option<String>,
    /// Soft and hard limit for `*` in limits.conf and limits.d, as `SOFT:HARD`, or one number for both. Where they set only the soft one, the
    /// hard one is that of this process, which a login shell has started.
    pub login: Option<String>,
    /// Soft and hard limit of this process.
    pub own: Option<(u64, u64)>,
}

/// The soft limit of the kernel, which logins have where nothing sets it.
const KERNEL_SOFT: &str = "1024";
/// What units get without any setting, since systemd 240.
const SYSTEMD_DEFAULT: &str = "1024:524288";

impl OpenFileLimits {
    /// The limits for a unit whose server runs as the process `running`.
    pub(super) fn read(files: &Tree, running: Option<&str>, unit: &str) -> OpenFileLimits {
        let of_process = |process: &str| open_files(&files.text(&format!("proc/{process}/limits"))?);
        let own = of_process("self");
        let default = || files.exists("run/systemd/system").then(|| SYSTEMD_DEFAULT.to_owned());
        OpenFileLimits {
            running: running.and_then(of_process),
            unit: last_value(files, &unit_files(files, unit), "LimitNOFILE"),
            manager: last_value(files, &drop_ins(files, "etc/systemd/system.conf"), "DefaultLimitNOFILE")
                .or_else(default),
            login: login_limit(files, own.map(|(_, hard)| hard)),
            own,
        }
    }
}

/// Soft and hard limit of the line `Max open files` of `/proc/PID/limits`.
fn open_files(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut words = line.split_whitespace().map(|word| word.parse().unwrap_or(u64::MAX));
    Some((words.next()?, words.next()?))
}

/// The folders of units, the strongest first: of files with the same name only the first is read (systemd.unit(5)).
const UNIT_FOLDERS: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// The files that define a unit, the strongest last: the drop-ins of all folders, by name.
fn unit_files(files: &Tree, unit: &str) -> Vec<String> {
    let paths = UNIT_FOLDERS.map(|folder| format!("{folder}/{unit}.service"));
    let mut by_name = BTreeMap::new();
    for drop_in in paths.iter().flat_map(|path| drop_ins(files, path).into_iter().skip(1)) {
        let name = drop_in.rsplit('/').next().unwrap_or_default().to_owned();
        by_name.entry(name).or_insert(drop_in);
    }
    paths.into_iter().find(|path| files.exists(path)).into_iter().chain(by_name.into_values()).collect()
}

/// A configuration file of systemd and its drop-ins.
fn drop_ins(files: &Tree, base: &str) -> Vec<String> {
    let folder = format!("{base}.d");
    let names = files.names(&folder).into_iter().filter(|name| name.ends_with(".conf"));
    [base.to_owned()].into_iter().chain(names.map(|name| format!("{folder}/{name}"))).collect()
}

fn last_value(files: &Tree, paths: &[String], key: &str) -> Option<String> {
    let mut found = None;
    for text in paths.iter().filter_map(|path| files.text(path)) {
        for line in text.lines() {
            if let Some((name, value)) = line.split_once('=')
                && name.trim() == key
            {
                found = Some(value.trim().to_owned());
            }
        }
    }
    found
}

/// The limits for everybody: the lines `* soft nofile N` and `* hard nofile N`, or `* - nofile N` for both (pam_limits). A hard limit that no
/// line sets stays at `own_hard`.
fn login_limit(files: &Tree, own_hard: Option<u64>) -> Option<String> {
    let mut paths = vec!["etc/security/limits.conf".to_owned()];
    let folder = "etc/security/limits.d";
    paths.extend(files.names(folder).into_iter().map(|name| format!("{folder}/{name}")));
    let (mut soft, mut hard) = (None, None);
    for text in paths.iter().filter_map(|path| files.text(path)) {
        for line in text.lines() {
            let ["*", kind, "nofile", value, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else { continue };
            if matches!(kind, "soft" | "-") {
                soft = Some(value.to_owned());
            }
            if matches!(kind, "hard" | "-") {
                hard = Some(value.to_owned());
            }
        }
    }
    let kept = own_hard.map(|hard| if hard == u64::MAX { "unlimited".to_owned() } else { hard.to_string() });
    let hard = hard.or(kept.filter(|_| soft.is_some()));
    match (soft, hard) {
        (soft, Some(hard)) if soft.as_ref() == Some(&hard) => Some(hard),
        (soft, Some(hard)) => Some(format!("{}:{hard}", soft.as_deref().unwrap_or(KERNEL_SOFT))),
        (soft, None) => soft,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn limits_of_a_process_are_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max open files            1024                 unlimited            files\n";
        assert_eq!(super::open_files(text), Some((1024, u64::MAX)));
    }
}
