//! Dropping root privileges permanently, once the ports are bound (credentials(7), capabilities(7)).

use crate::checked;
use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::ptr;

/// The user and group of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user ID.
    pub user: u32,
    /// The group ID.
    pub group: u32,
}

/// Changes to `user` (a name or ID), to `group` (a name or ID; by default the user's primary group) and to the user's supplementary
/// groups, irrevocably and without capabilities.
///
/// Applies to all threads, except PR_SET_NO_NEW_PRIVS: only to the calling thread and those it starts. Without permission, or if the
/// user or group does not exist, it fails and changes nothing.
pub fn drop_privileges(user: &str, group: Option<&str>) -> io::Result<Identity> {
    let account = Account::named(user)?;
    let Identity { user, group } = account.identity(group)?;
    let groups = account.supplementary_groups(group);
    // The order matters: only root can change groups.
    // SAFETY: `groups` lives through the call and has the length passed.
    checked(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    // SAFETY: no pointers; the C library applies it to all threads.
    checked(unsafe { libc::setresgid(group, group, group) })?;
    // SAFETY: as above. Leaving user ID 0 clears the capability sets (capabilities(7)).
    checked(unsafe { libc::setresuid(user, user, user) })?;
    // SAFETY: no pointers.
    checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    // SAFETY: no pointers. Verifies that the drop is permanent: regaining root must fail.
    if user != 0 && unsafe { libc::setresuid(libc::uid_t::MAX, 0, libc::uid_t::MAX) } == 0 {
        return Err(io::Error::other("the process could regain root"));
    }
    Ok(Identity { user, group })
}

/// The identity that [`drop_privileges`] would change to, for instance to change the owner of files before. Changes nothing.
pub fn resolve_identity(user: &str, group: Option<&str>) -> io::Result<Identity> {
    Account::named(user)?.identity(group)
}

/// The effective user and group of the process.
pub fn current_identity() -> Identity {
    // SAFETY: no pointers; it cannot fail.
    Identity { user: current_user(), group: unsafe { libc::getegid() } }
}

/// The effective user ID of the process.
pub fn current_user() -> u32 {
    // SAFETY: no pointers; it cannot fail.
    unsafe { libc::geteuid() }
}

struct Account {
    name: Option<CString>,
    user: libc::uid_t,
    group: libc::gid_t,
}

impl Account {
    fn named(user: &str) -> io::Result<Account> {
        let name = CString::new(user)?;
        // SAFETY: integers and pointers, for which zero is a value.
        let mut entry: libc::passwd = unsafe { mem::zeroed() };
        let found = with_growing_buffer(|buffer| {
            let mut result = ptr::null_mut();
            // SAFETY: all live through the call; the buffer has the length passed.
            let error = unsafe {
                libc::getpwnam_r(name.as_ptr(), &mut entry, buffer.as_mut_ptr().cast(), buffer.len(), &mut result)
            };
            (error, !result.is_null())
        })?;
        if found {
            return Ok(Account { name: Some(name), user: entry.pw_uid, group: entry.pw_gid });
        }
        match user.parse() {
            Ok(number) => Ok(Account { name: None, user: number, group: number }),
            Err(_) => Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no user {user:?}"))),
        }
    }

    fn identity(&self, group: Option<&str>) -> io::Result<Identity> {
        let group = group.map_or(Ok(self.group), group_number)?;
        Ok(Identity { user: self.user, group })
    }

    /// All groups of the account, including `group`.
    fn supplementary_groups(&self, group: libc::gid_t) -> Vec<libc::gid_t> {
        let Some(name) = &self.name else { return vec![group] };
        groups_of(name, group)
    }
}

fn groups_of(name: &CStr, group: libc::gid_t) -> Vec<libc::gid_t> {
    let mut groups = vec![group; 32];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: all live through the call; `groups` has the length passed.
        let result = unsafe { libc::getgrouplist(name.as_ptr(), group, groups.as_mut_ptr(), &mut count) };
        let fitted = result >= 0;
        groups.resize(count as usize, group);
        if fitted {
            return groups;
        }
    }
}

fn group_number(group: &str) -> io::Result<libc::gid_t> {
    let name = CString::new(group)?;
    // SAFETY: integers and pointers, for which zero is a value.
    let mut entry: libc::group = unsafe { mem::zeroed() };
    let found = with_growing_buffer(|buffer| {
        let mut result = ptr::null_mut();
        // SAFETY: all live through the call; the buffer has the length passed.
        let error = unsafe {
            libc::getgrnam_r(name.as_ptr(), &mut entry, buffer.as_mut_ptr().cast(), buffer.len(), &mut result)
        };
        (error, !result.is_null())
    })?;
    if found {
        return Ok(entry.gr_gid);
    }
    group.parse().map_err(|_| io::Error::new(io::ErrorKind::NotFound, format!("there is no group {group:?}")))
}

/// Runs a lookup of the C library with a growing buffer until it fits; returns whether it found an entry.
fn with_growing_buffer(mut lookup: impl FnMut(&mut [u8]) -> (libc::c_int, bool)) -> io::Result<bool> {
    let mut buffer = vec![0; 1024];
    // A mebibyte holds a group of some 30,000 members; a longer entry is an error.
    while buffer.len() <= 1 << 20 {
        match lookup(&mut buffer) {
            (0, found) => return Ok(found),
            (libc::ERANGE, _) => buffer.resize(buffer.len() * 4, 0),
            // getpwnam(3): "not found" has several error codes.
            (libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM, _) => return Ok(false),
            (error, _) => return Err(io::Error::from_raw_os_error(error)),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ERANGE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::Command;

    /// Runs in a child process of `root_is_dropped_permanently`, as it cannot be undone.
    #[test]
    #[ignore = "run by root_is_dropped_permanently in a child process"]
    fn child_drops_root() {
        let identity = drop_privileges("nobody", None).expect("root may, and every system has the user nobody");
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("procfs");
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).expect("a known field").trim();
        assert_eq!(field("Uid:"), [identity.user.to_string().as_str(); 4].join("\t"));
        assert_eq!(field("Gid:"), [identity.group.to_string().as_str(); 4].join("\t"));
        assert_eq!(field("Groups:"), identity.group.to_string());
        assert_eq!(u64::from_str_radix(field("CapEff:"), 16), Ok(0));
        assert_eq!(field("NoNewPrivs:"), "1");
        assert!(std::fs::File::open("/etc/shadow").is_err());
    }

    #[test]
    fn root_is_dropped_permanently() {
        if current_user() != 0 {
            let _ = writeln!(std::io::stderr(), "skipped: needs root");
            return;
        }
        let output = Command::new(std::env::current_exe().expect("a running program"))
            .args(["--exact", "privilege::tests::child_drops_root", "--ignored", "--nocapture"])
            .output()
            .expect("this program again");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    }

    #[test]
    fn unknown_names_change_nothing() {
        for (user, group) in [("no-such-user", None), ("root", Some("no-such-group")), ("nul\0", None)] {
            assert!(drop_privileges(user, group).is_err());
        }
    }

    #[test]
    fn accounts_are_found_by_name_and_number() {
        let root = Account::named("root").expect("every system has it");
        assert_eq!((root.user, root.group), (0, 0));
        assert_eq!(resolve_identity("root", Some("54321")).expect("as above"), Identity { user: 0, group: 54321 });
        assert!(root.supplementary_groups(7).contains(&7));
        assert_eq!(Account::named("54321").expect("numbers need no entry").user, 54321);
        assert_eq!(group_number("54321").expect("numbers need no entry"), 54321);
    }
}
