//! Giving up root, for good, once the ports are bound.

use crate::checked;
use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::ptr;

/// Who a process becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
}

/// Becomes `user` (a name or a number) with the group's name or number given, or else the user's own group,
/// and with that user's supplementary groups. No privilege is left and none can be had again.
///
/// Applies to all threads, but that no program they start may gain privileges (PR_SET_NO_NEW_PRIVS) only to the calling
/// one and those it starts. Fails without effect when the process may not, or when there is no such user or group.
pub fn drop_privileges(user: &str, group: Option<&str>) -> io::Result<Identity> {
    let account = Account::named(user)?;
    let Identity { user, group } = account.identity(group)?;
    let groups = account.supplementary_groups(group);
    // The order matters: a process that is not root any more cannot change its groups.
    // SAFETY: `groups` lives through the call and has the length told.
    checked(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    // SAFETY: no pointers; the C library applies it to all threads.
    checked(unsafe { libc::setresgid(group, group, group) })?;
    // SAFETY: as above. Leaving user 0 empties the sets of capabilities (capabilities(7)).
    checked(unsafe { libc::setresuid(user, user, user) })?;
    // SAFETY: no pointers.
    checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    // SAFETY: no pointers. That root cannot be had again is the point of all this, so it is tried.
    if user != 0 && unsafe { libc::setresuid(libc::uid_t::MAX, 0, libc::uid_t::MAX) } == 0 {
        return Err(io::Error::other("the process could become root again"));
    }
    Ok(Identity { user, group })
}

/// Who the process would become by [`drop_privileges`], for instance to give it files while it still can. Changes nothing.
pub fn resolve_identity(user: &str, group: Option<&str>) -> io::Result<Identity> {
    Account::named(user)?.identity(group)
}

/// The user that the process runs as.
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
            // SAFETY: all live through the call; the buffer has the length told.
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

    /// All groups of the account, `group` among them.
    fn supplementary_groups(&self, group: libc::gid_t) -> Vec<libc::gid_t> {
        let Some(name) = &self.name else { return vec![group] };
        groups_of(name, group)
    }
}

fn groups_of(name: &CStr, group: libc::gid_t) -> Vec<libc::gid_t> {
    let mut groups = vec![group; 32];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: all live through the call; `groups` has the length told.
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
        // SAFETY: all live through the call; the buffer has the length told.
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

/// Runs a lookup of the C library with more and more room until it says that the room was enough. Tells whether it found anything.
fn with_growing_buffer(mut lookup: impl FnMut(&mut [u8]) -> (libc::c_int, bool)) -> io::Result<bool> {
    let mut buffer = vec![0; 1024];
    // A mebibyte holds a group of some 30,000 members; a longer entry is an error.
    while buffer.len() <= 1 << 20 {
        match lookup(&mut buffer) {
            (0, found) => return Ok(found),
            (libc::ERANGE, _) => buffer.resize(buffer.len() * 4, 0),
            // "Not found" has many numbers, see getpwnam(3).
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

    /// What the child of `root_is_given_up_for_good` runs: in a process of its own, as it cannot be undone.
    #[test]
    #[ignore = "run by root_is_given_up_for_good in a child process"]
    fn child_gives_up_root() {
        let identity = drop_privileges("nobody", None).expect("root may do that, and every system has the user nobody");
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
    fn root_is_given_up_for_good() {
        if current_user() != 0 {
            let _ = writeln!(std::io::stderr(), "skipped: only root can give up root");
            return;
        }
        let output = Command::new(std::env::current_exe().expect("a running program"))
            .args(["--exact", "privilege::tests::child_gives_up_root", "--ignored", "--nocapture"])
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
