//! How many descriptors and ports there are.

use crate::checked;
use std::io;

/// Raises the number of descriptors the process may have to the most it may ask for, and returns that.
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

/// How many ports the kernel may choose from for connections of one address to one server (ip(7), ip_local_port_range, which
/// holds for IPv6 too).
pub fn ephemeral_port_count() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")?;
    let range: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    match range[..] {
        [low, high] if low <= high => Ok(high - low + 1),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "ip_local_port_range is no range")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn connections_have_ports_from_the_range() {
        let ports = super::ephemeral_port_count().expect("procfs");
        assert!((1..=65536).contains(&ports), "{ports}");
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let raised = super::raise_open_files().expect("raising to the hard limit is always allowed");
        let limits = std::fs::read_to_string("/proc/self/limits").expect("procfs");
        let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line for it");
        let fields: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(fields[3..5], [raised.to_string(), raised.to_string()]);
    }
}
