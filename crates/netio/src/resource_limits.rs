//! Limits of file descriptors (getrlimit(2)), ephemeral ports (ip(7)) and memory (sysconf(3)).

use crate::checked;
use std::io;

/// Raises the soft limit of open files (RLIMIT_NOFILE) to the hard limit, and returns it.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: as above.
        checked(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    }
    Ok(limit.rlim_cur)
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

/// The memory that can still be used without swapping, in octets: of the machine, or of the control group of this process if that has
/// less (proc_meminfo(5), cgroups(7)).
pub fn available_memory() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let of_machine = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    let kib: u64 = of_machine.and_then(|kib| kib.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(group_memory().map_or(kib << 10, |of_group| of_group.min(kib << 10)))
}

/// What the control group leaves; `None` without a limit.
fn group_memory() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let number = |file: &str| -> Option<u64> {
        std::fs::read_to_string(format!("/sys/fs/cgroup{group}/{file}")).ok()?.trim().parse().ok()
    };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
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
    #[test]
    fn some_of_the_memory_is_available() {
        let (all, available) = (super::physical_memory().expect("sysconf"), super::available_memory().expect("procfs"));
        assert!((1 << 20..=all).contains(&available), "{available} of {all}");
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
