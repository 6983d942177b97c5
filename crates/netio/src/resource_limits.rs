//! Limits of file descriptors (getrlimit(2)), ephemeral ports (ip(7)) and memory (sysconf(3)).

use crate::checked;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// The limit of open files before [`raise_open_files`] raised it.
static FORMER_OPEN_FILES: Mutex<Option<libc::rlimit>> = Mutex::new(None);

/// Raises the soft limit of open files (RLIMIT_NOFILE) to the hard limit, and returns it.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    if limit.rlim_cur < limit.rlim_max {
        *FORMER_OPEN_FILES.lock().unwrap_or_else(PoisonError::into_inner) = Some(limit);
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: as above.
        checked(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    }
    Ok(limit.rlim_cur)
}

/// Gives a child process the limit of open files that this one had before [`raise_open_files`]: many programs close all descriptors that
/// there may be, or use select(2), which has no more than 1024.
pub(crate) fn restore_open_files_of(process: u32) {
    let Some(limit) = *FORMER_OPEN_FILES.lock().unwrap_or_else(PoisonError::into_inner) else { return };
    // SAFETY: `limit` lives through the call, which changes nothing here. It fails only for a process of another user (setuid), which keeps
    // the limit of this one.
    unsafe { libc::prlimit(process as libc::pid_t, libc::RLIMIT_NOFILE, &limit, ptr::null_mut()) };
}

/// The memory of the machine, in octets.
pub fn physical_memory() -> io::Result<u64> {
    // SAFETY: sysconf has no preconditions.
    let [pages, page_len] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    match (u64::try_from(pages), u64::try_from(page_len)) {
        (Ok(pages), Ok(page_len)) => Ok(pages * page_len),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The memory that can still be used without swapping, in octets: of the machine, or of the control groups of this process if they
/// have less (proc_meminfo(5), cgroups(7)).
pub fn available_memory() -> io::Result<u64> {
    available_below(Path::new("/"))
}

/// [`available_memory`] by the files below `root`.
fn available_below(root: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo"))?;
    let of_machine = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    let kib: u64 = of_machine.and_then(|kib| kib.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(group_memory(root).map_or(kib << 10, |of_groups| of_groups.min(kib << 10)))
}

/// What the control group leaves, or one above it, to whose limit it is held, too; `None` without a limit.
fn group_memory(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let folders = groups.lines().filter_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let mount = match controllers {
            "" => "sys/fs/cgroup",
            _ if controllers.split(',').any(|controller| controller == "memory") => "sys/fs/cgroup/memory",
            _ => return None,
        };
        Some((root.join(mount), group))
    });
    folders.flat_map(|(mount, group)| with_parents(mount, group)).filter_map(|folder| left_in(&folder)).min()
}

/// The folders of a group and of those above it. In a container the path may be one of the host, of which only the mount exists.
fn with_parents(mount: PathBuf, group: &str) -> Vec<PathBuf> {
    let mut folders = vec![mount];
    for part in group.split('/').filter(|part| !part.is_empty() && *part != "..") {
        folders.push(folders[folders.len() - 1].join(part));
    }
    folders
}

/// For version 2 and 1 of control groups: the limit, what is used, and the parts of it in `memory.stat` that are page cache.
const GROUP_FILES: [[&str; 4]; 2] = [
    ["memory.max", "memory.current", "inactive_file", "active_file"],
    ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"],
];

/// What one control group leaves of its limit. As for `MemAvailable`, the page cache can be used.
fn left_in(folder: &Path) -> Option<u64> {
    let text = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let number = |file: &str| -> Option<u64> { text(file)?.trim().parse().ok() };
    GROUP_FILES.iter().find_map(|[limit, used, cached @ ..]| {
        let (limit, used) = (number(limit)?, number(used)?);
        let stat = text("memory.stat").unwrap_or_default();
        let fields = stat.lines().filter_map(|line| line.split_once(' '));
        let cache = fields.filter(|(key, _)| cached.contains(key)).filter_map(|(_, octets)| octets.parse::<u64>().ok());
        Some(limit.saturating_sub(used.saturating_sub(cache.fold(0, u64::saturating_add))))
    })
}

/// The number of ephemeral ports for connections from one address to one server (ip(7), ip_local_port_range; also for IPv6).
pub fn ephemeral_port_count() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")?;
    let range: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    match range[..] {
        [low, high] if low <= high => Ok(high - low + 1),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "ip_local_port_range is not a range")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_the_memory_is_available() {
        let (all, available) = (super::physical_memory().expect("sysconf"), super::available_memory().expect("procfs"));
        assert!((1 << 20..=all).contains(&available), "{available} of {all}");
    }

    /// The memory that is available with these files besides 8 GiB of the machine, in MiB.
    fn available_mib(name: &str, files: &[(&str, &str)]) -> u64 {
        let root = std::env::temp_dir().join(format!("netio-memory-{}-{name}", std::process::id()));
        for (path, text) in [&[("proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 8388608 kB\n")], files].concat() {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        let available = available_below(&root).expect("a number");
        fs::remove_dir_all(&root).expect("the folder just made");
        available >> 20
    }

    #[test]
    fn control_groups_limit_the_memory() {
        const GROUP: (&str, &str) = ("proc/self/cgroup", "0::/pod/server\n");
        assert_eq!(available_mib("none", &[GROUP, ("sys/fs/cgroup/pod/server/memory.max", "max\n")]), 8192);
        let own = [
            ("sys/fs/cgroup/pod/server/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/pod/server/memory.current", "536870912\n"),
        ];
        assert_eq!(available_mib("own", &[&[GROUP], &own[..]].concat()), 512);
        // A group is held to the limits of those above it.
        let above = [("sys/fs/cgroup/pod/memory.max", "268435456\n"), ("sys/fs/cgroup/pod/memory.current", "0\n")];
        assert_eq!(available_mib("above", &[&[GROUP], &own[..], &above].concat()), 256);
        // In a container its group may be the mount, whatever the path says.
        let mount = [("sys/fs/cgroup/memory.max", "134217728"), ("sys/fs/cgroup/memory.current", "0")];
        assert_eq!(
            available_mib("mount", &[&[("proc/self/cgroup", "0::/../../far/away\n")], &mount[..]].concat()),
            128
        );
        // Version 1.
        let old = [
            ("proc/self/cgroup", "5:cpu:/other\n4:pids,memory:/server\n0::/\n"),
            ("sys/fs/cgroup/memory/server/memory.limit_in_bytes", "1073741824\n"),
            ("sys/fs/cgroup/memory/server/memory.usage_in_bytes", "1073741824\n"),
            ("sys/fs/cgroup/memory/server/memory.stat", "inactive_file 1048576\ntotal_inactive_file 2097152\n"),
        ];
        assert_eq!(available_mib("version-1", &old), 2);
    }

    /// Zone files that were just read fill the group with page cache.
    #[test]
    fn the_page_cache_of_a_control_group_is_available() {
        let files = [
            ("proc/self/cgroup", "0::/server\n"),
            ("sys/fs/cgroup/server/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/server/memory.current", "1073737728\n"),
            (
                "sys/fs/cgroup/server/memory.stat",
                "anon 104857600\nfile 968884224\ninactive_file 900000000\nactive_file 68157440\n",
            ),
        ];
        assert_eq!(available_mib("cache", &files), 923);
    }

    #[test]
    fn the_ephemeral_port_range_is_read() {
        let ports = super::ephemeral_port_count().expect("procfs");
        assert!((1..=65536).contains(&ports), "{ports}");
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_limit() {
        let raised = super::raise_open_files().expect("raising to the hard limit is always allowed");
        let limits = std::fs::read_to_string("/proc/self/limits").expect("procfs");
        let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line for it");
        let fields: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(fields[3..5], [raised.to_string(), raised.to_string()]);
    }
}
