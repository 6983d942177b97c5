//! The state-dir: created for the user that the daemon runs as, opened once, locked against a second daemon.
//!
//! Whoever owns a folder may put links into it and replace them at any time. So root only creates and chowns folders whose
//! parents nobody else can change ([`prepare`]). The daemon's user does the rest, inside the open folder
//! ([`StateDir::open`]).

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};

use netio::file::{is_link_loop, open_directory, open_no_link};
use netio::privilege::{Identity, current_user};

use crate::printable::printable_path;
use crate::write_help::write_help;

/// Why a state-dir cannot be used. The message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// The folder cannot be created or written.
    #[error("the state-dir {path} cannot be used: {1}; {help}, or set `state-dir`", path = printable_path(.0), help = write_help(.1, "it"))]
    Unusable(PathBuf, io::Error),
    /// The path leads through a link to nothing.
    #[error(
        "the state-dir {path} cannot be created: the symbolic link {link} points to nothing; create its target, remove the link, or \
         set `state-dir`", path = printable_path(.path), link = printable_path(.link)
    )]
    DanglingLink {
        /// The state-dir.
        path: PathBuf,
        /// The link.
        link: PathBuf,
    },
    /// The path leads through a link that has no end.
    #[error(
        "the state-dir {path} cannot be used: the symbolic link {link} refers to itself, directly or through other links; \
         remove the link, or set `state-dir`", path = printable_path(.path), link = printable_path(.link)
    )]
    LinkLoop {
        /// The state-dir.
        path: PathBuf,
        /// The link.
        link: PathBuf,
    },
    /// Another user could replace what is in it.
    #[error(
        "the state-dir {path} can be changed by others (owner {owner}, mode {mode:o}); {help}, or set `state-dir`",
        path = printable_path(.path), help = not_ours_help(*.mode)
    )]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// Another daemon has locked it.
    #[error("another zonda (process {1}) uses the state-dir {path}; stop that one or set another `state-dir`", path = printable_path(.0))]
    InUse(PathBuf, String),
}

fn not_ours_help(mode: u32) -> &'static str {
    match mode & WRITABLE_BY_ALL {
        0 => "give it to the user that zonda runs as",
        _ => "take that right away (`chmod o-w`)",
    }
}

/// The control socket in the state-dir.
pub const CONTROL_SOCKET: &str = "control.sock";
/// The names of frozen zones, one per line.
pub const FROZEN_ZONES: &str = "frozen-zones";
/// The zones of `zonda zone add`.
pub const ADDED_ZONES: &str = "added-zones";
/// A copy of that file with its damaged lines.
pub const DAMAGED_ZONES: &str = "added-zones.damaged";
/// The folder of the journal in a state-dir.
pub const JOURNAL: &str = "journal";
/// A journal that this version of zonda cannot read is renamed to this and more.
const SET_ASIDE: &str = "journal.format-";
/// The folder of files that check commands read.
const CHECKS: &str = "checks";

/// The lock file, which holds the process ID.
const LOCK: &str = "lock";

/// Maximum length of the process ID in the lock file, in octets.
const MAX_LOCK_LEN: u64 = 32;

const WRITABLE_BY_GROUP: u32 = 0o020;
const WRITABLE_BY_ALL: u32 = 0o002;
/// Only the owner of a file, or root, may rename or remove it in a folder with this bit.
const STICKY: u32 = 0o1000;

/// The state-dir where none is configured.
pub fn default_path() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // systemd passes a list; the first folder is the daemon's.
    let first = |list: PathBuf| {
        list.as_os_str().as_bytes().split(|&octet| octet == b':').next().map(OsStr::from_bytes).map(PathBuf::from)
    };
    let of_systemd = variable("STATE_DIRECTORY").and_then(first);
    let personal = || variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    let of_user = || if current_user() == 0 { None } else { Some(personal()?.join("zonda")) };
    of_systemd.or_else(of_user).unwrap_or_else(|| "/var/lib/zonda".into())
}

/// Whether [`default_path`] is a folder that systemd made for this service.
pub fn is_given_by_systemd() -> bool {
    std::env::var_os("STATE_DIRECTORY").is_some_and(|value| !value.is_empty())
}

//----------- as root -----------------------------------------------------------------

/// As root: creates the state-dir and chowns it to the user that the daemon will run as, provided that only root can change
/// the path to it. Otherwise nothing is done, and that user must create it or own it already.
pub fn prepare(path: &Path, identity: &Identity) -> Result<(), StateDirError> {
    if current_user() != 0 || identity.user == 0 {
        return Ok(());
    }
    let unusable = |error| StateDirError::Unusable(path.to_owned(), error);
    // Without a trailing `/`, which would follow a link.
    let path: PathBuf = std::path::absolute(path).map_err(unusable)?.components().collect();
    match create_as_root(&path).map_err(unusable)? {
        true => chown_to(&path, identity).map_err(unusable),
        false => Ok(()),
    }
}

/// Creates the missing folders. Stops, and returns false, at the first one that others than root can change: they could
/// replace what is below it.
fn create_as_root(path: &Path) -> io::Result<bool> {
    let ancestors: Vec<&Path> = path.ancestors().skip(1).collect();
    for folder in ancestors.into_iter().rev() {
        if !is_writable_by_root_only(&ensure_folder(folder, 0o755)?) {
            return Ok(false);
        }
    }
    ensure_folder(path, 0o750).map(|metadata| metadata.is_dir())
}

/// Creates a folder if there is nothing at `path`, durably; returns what is there, without following a link.
fn ensure_folder(path: &Path, mode: u32) -> io::Result<Metadata> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => sync_folder(path)?,
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) => (),
    }
    fs::symlink_metadata(path)
}

/// Whether it is a folder in which only root can replace what root created.
fn is_writable_by_root_only(metadata: &Metadata) -> bool {
    let is_shared = metadata.mode() & (WRITABLE_BY_GROUP | WRITABLE_BY_ALL) != 0 && metadata.mode() & STICKY == 0;
    metadata.is_dir() && metadata.uid() == 0 && !is_shared
}

/// Chowns a folder of root's to the user, with the files that a start as root may have left in it. A folder that others
/// may write to is shared on purpose and left alone.
fn chown_to(path: &Path, identity: &Identity) -> io::Result<()> {
    let folder = open_directory(path)?;
    let metadata = folder.metadata()?;
    if metadata.uid() != 0 || metadata.mode() & (WRITABLE_BY_GROUP | WRITABLE_BY_ALL) != 0 {
        return Ok(());
    }
    // With anything else in it, it was never a state-dir: a typo in the configuration must not chown /var/lib/dpkg.
    let mut folders = vec![JOURNAL.to_owned(), CHECKS.to_owned()];
    for entry in fs::read_dir(path)? {
        match entry?.file_name().to_str() {
            Some(name) if name.starts_with(SET_ASIDE) => folders.push(name.to_owned()),
            Some(LOCK | CONTROL_SOCKET | FROZEN_ZONES | ADDED_ZONES | DAMAGED_ZONES | JOURNAL | CHECKS) => (),
            _ => return Ok(()),
        }
    }
    // The files first: while the folder is root's, nobody can replace them.
    for name in [LOCK, FROZEN_ZONES, ADDED_ZONES, DAMAGED_ZONES] {
        chown_file(&folder, name, identity)?;
    }
    for name in &folders {
        chown_folder(&folder, name, identity)?;
    }
    fchown(&folder, Some(identity.user), Some(identity.group))
}

/// Chowns a file in a folder that only root can change, if it is there.
fn chown_file(folder: &File, name: &str, identity: &Identity) -> io::Result<()> {
    match open_no_link(&within(folder, name), false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        // An attempt that failed may have chowned it before.
        Ok(file) if is_plain(&file.metadata()?, identity.user) => Ok(()),
        Ok(file) if !is_plain(&file.metadata()?, 0) => {
            Err(io::Error::other(format!("`{name}` in it is not a regular file of root's")))
        }
        Ok(file) => fchown(&file, Some(identity.user), Some(identity.group)),
    }
}

/// Chowns a folder in the state-dir, if it is there, and the files in it.
fn chown_folder(state_dir: &File, name: &str, identity: &Identity) -> io::Result<()> {
    let folder = match open_directory(&within(state_dir, name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let metadata = folder.metadata()?;
    if metadata.uid() == identity.user {
        return Ok(());
    }
    if !is_writable_by_root_only(&metadata) {
        return Err(io::Error::other(format!("`{name}` in it is not a folder that only root can change")));
    }
    for entry in fs::read_dir(within(&folder, "."))? {
        let file = entry?.file_name();
        let file = file.to_str().ok_or_else(|| io::Error::other(format!("`{name}` in it has files of others")))?;
        chown_file(&folder, file, identity)?;
    }
    fchown(&folder, Some(identity.user), Some(identity.group))
}

//----------- as the daemon's user ----------------------------------------------------

/// An open state-dir, locked against a second daemon.
pub struct StateDir {
    /// As configured, for messages.
    path: PathBuf,
    folder: File,
    /// The kernel releases it however the daemon ends.
    _lock: File,
}

impl StateDir {
    /// Creates the folder if it is missing, and locks it.
    pub fn open(path: &Path) -> Result<StateDir, StateDirError> {
        let unusable = |error| StateDirError::Unusable(path.to_owned(), error);
        create_folders(path).map_err(|error| broken_link(path).unwrap_or_else(|| unusable(error)))?;
        // A link to it is followed, as systemd makes one with DynamicUser=: the checks concern the folder that is opened.
        let folder = fs::canonicalize(path).and_then(|path| open_directory(&path)).map_err(unusable)?;
        let metadata = folder.metadata().map_err(unusable)?;
        let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
        if ![0, current_user()].contains(&owner) || mode & WRITABLE_BY_ALL != 0 {
            return Err(StateDirError::NotOurs { path: path.to_owned(), owner, mode });
        }
        let _lock = lock(&folder, path)?;
        Ok(StateDir { path: path.to_owned(), folder, _lock })
    }

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the journal, whose images have this format; returns its new name. The folder is not synced.
    pub fn set_journal_aside(&self, format: u16) -> io::Result<String> {
        let first = format!("{SET_ASIDE}{format}");
        let mut names = std::iter::once(first.clone()).chain((2..u32::MAX).map(|number| format!("{first}.{number}")));
        // The lock keeps others from taking it meanwhile.
        let is_free = |name: &String| {
            fs::symlink_metadata(self.file(name)).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let name = names.find(is_free).ok_or(io::ErrorKind::AlreadyExists)?;
        fs::rename(self.file(JOURNAL), self.file(&name))?;
        Ok(name)
    }

    /// The folder for files that check commands read, which is empty: a daemon that was killed may have left some. Other processes can use
    /// its path.
    pub fn check_folder(&self) -> io::Result<PathBuf> {
        let folder = self.own_folder(CHECKS)?;
        for entry in fs::read_dir(within(&folder, "."))? {
            fs::remove_file(entry?.path())?;
        }
        fs::canonicalize(self.file(CHECKS))
    }

    /// The folder with this name, which is created if it is missing. It is no link, and nobody else can change it.
    pub fn own_folder(&self, name: &str) -> io::Result<File> {
        let path = self.file(name);
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => (),
        }
        let folder = open_directory(&path)?;
        let metadata = folder.metadata()?;
        if metadata.uid() != current_user() || metadata.mode() & (WRITABLE_BY_GROUP | WRITABLE_BY_ALL) != 0 {
            return Err(io::Error::other(format!("the folder `{name}` can be changed by others; remove it")));
        }
        Ok(folder)
    }

    /// The path of a file in the folder, valid whatever is renamed meanwhile, and short enough for a socket.
    pub fn file(&self, name: &str) -> PathBuf {
        within(&self.folder, name)
    }
}

/// Creates a folder with its missing parents, durably: all that is synced in it would be lost with it.
fn create_folders(path: &Path) -> io::Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && fs::symlink_metadata(folder).is_err();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    DirBuilder::new().recursive(true).mode(0o750).create(path)?;
    missing.into_iter().try_for_each(sync_folder)
}

/// Makes the name of a file in its folder durable: without that, a power failure may leave no file.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// The path of a file in an open folder.
pub fn within(folder: &File, name: &str) -> PathBuf {
    Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name)
}

/// What is wrong with a link on the way to `path`, if one cannot be followed.
fn broken_link(path: &Path) -> Option<StateDirError> {
    let links = path.ancestors().filter(|ancestor| ancestor.is_symlink());
    let (link, error) = links.filter_map(|link| Some((link, fs::metadata(link).err()?))).next()?;
    let (path, link) = (path.to_owned(), link.to_owned());
    Some(match error.kind() {
        io::ErrorKind::NotFound => StateDirError::DanglingLink { path, link },
        _ if is_link_loop(&error) => StateDirError::LinkLoop { path, link },
        _ => StateDirError::Unusable(path, error),
    })
}

/// Whether it is a regular file of the user's with a single name: another could be a hard link to someone else's file.
fn is_plain(metadata: &Metadata, user: u32) -> bool {
    metadata.is_file() && metadata.uid() == user && metadata.nlink() == 1
}

fn lock(folder: &File, path: &Path) -> Result<File, StateDirError> {
    let unusable = |error| StateDirError::Unusable(path.to_owned(), error);
    let in_lock = |error: io::Error| unusable(io::Error::new(error.kind(), format!("`{LOCK}` in it: {error}")));
    let mut lock = open_no_link(&within(folder, LOCK), true).map_err(in_lock)?;
    if !is_plain(&lock.metadata().map_err(in_lock)?, current_user()) {
        return Err(in_lock(io::Error::other("not a regular file of this user")));
    }
    match lock.try_lock() {
        Ok(()) => (),
        Err(TryLockError::Error(error)) => return Err(in_lock(error)),
        Err(TryLockError::WouldBlock) => {
            let mut process = String::new();
            (&lock).take(MAX_LOCK_LEN).read_to_string(&mut process).map_err(in_lock)?;
            return Err(StateDirError::InUse(path.to_owned(), process.trim().to_owned()));
        }
    }
    // The lock holds even if a full disk has no room for the process ID.
    _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_state_dir_has_one_daemon() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = StateDir::open(folder.path()).expect("a fresh folder");
        let second = StateDir::open(folder.path());
        let own = std::process::id().to_string();
        assert!(matches!(second, Err(StateDirError::InUse(_, process)) if process == own));
        drop(first);
        assert!(StateDir::open(folder.path()).is_ok());
    }

    #[test]
    fn what_a_killed_daemon_left_for_check_commands_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let state_dir = StateDir::open(folder.path()).expect("a fresh folder");
        let checks = state_dir.check_folder().expect("it is created");
        assert_eq!(checks, fs::canonicalize(folder.path()).expect("it is there").join(CHECKS));
        fs::write(checks.join("text"), "").expect("a file");
        state_dir.check_folder().expect("it is there");
        assert_eq!(fs::read_dir(&checks).expect("it is there").count(), 0);
        // A link could lead to files of others.
        let other = folder.path().join("other");
        fs::remove_dir(&checks).and_then(|()| fs::create_dir(&other)).expect("folders");
        fs::write(other.join("precious"), "").and_then(|()| symlink(&other, &checks)).expect("a link");
        state_dir.check_folder().expect_err("it is a link");
        assert!(other.join("precious").exists());
    }

    #[test]
    fn a_link_in_place_of_the_lock_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let (lock, other) = (folder.path().join(LOCK), folder.path().join("other"));
        fs::write(&other, "precious").expect("a file");
        symlink(&other, &lock).expect("a link");
        assert!(StateDir::open(folder.path()).is_err());
        fs::remove_file(&lock).and_then(|()| fs::hard_link(&other, &lock)).expect("a link");
        assert!(StateDir::open(folder.path()).is_err());
        assert_eq!(fs::read_to_string(&other).expect("the file"), "precious");
    }

    #[test]
    fn a_dangling_link_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        symlink("nowhere", &link).expect("a link");
        for path in [link.clone(), link.join("state")] {
            let error = StateDir::open(&path).err().expect("the link points to nothing");
            assert!(matches!(&error, StateDirError::DanglingLink { link: named, .. } if *named == link), "{error}");
        }
        fs::create_dir(folder.path().join("nowhere")).expect("a folder");
        assert!(StateDir::open(&link).is_ok());
    }

    #[test]
    fn a_link_that_refers_to_itself_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let [own, one, other] = ["own", "one", "other"].map(|name| folder.path().join(name));
        symlink("own", &own).expect("a link");
        symlink("other", &one).and_then(|()| symlink("one", &other)).expect("links");
        for (path, link) in [(own.clone(), &own), (own.join("state"), &own), (one.join("a/b"), &one)] {
            let error = StateDir::open(&path).err().expect("the link has no end");
            assert!(matches!(&error, StateDirError::LinkLoop { link: named, .. } if named == link), "{error}");
        }
    }

    #[test]
    fn a_folder_that_everybody_may_write_to_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).expect("it is ours");
        let message = StateDir::open(folder.path()).err().expect("others may write").to_string();
        assert!(message.contains("mode 777"), "{message}");
    }

    #[test]
    fn root_creates_and_chowns_only_what_only_root_can_change() {
        if current_user() != 0 {
            return eprintln!("skipped: only root can give folders away");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let identity = Identity { user: 54321, group: 54321 };
        let owner = |path: &Path| fs::metadata(path).expect("it is there").uid();
        let path = folder.path().join("a/b");
        prepare(&path.join("."), &identity).expect("root may");
        assert_eq!((owner(&path), owner(&folder.path().join("a"))), (54321, 0));
        // Root does nothing below a folder of that user's.
        prepare(&path.join("c"), &identity).expect("nothing is done");
        assert!(!path.join("c").exists());
        // What a start as root left is chowned, too.
        let left = folder.path().join("left");
        drop(StateDir::open(&left).expect("a fresh folder"));
        let (journal, segment, added) =
            (left.join(JOURNAL), left.join(JOURNAL).join("journal-1"), left.join(ADDED_ZONES));
        fs::create_dir(&journal).expect("a folder");
        fs::write(&segment, "").and_then(|()| fs::write(&added, "")).expect("files");
        let aside = left.join("journal.format-2");
        fs::create_dir(&aside).and_then(|()| fs::write(aside.join("journal-1"), "")).expect("a folder");
        let check = left.join(CHECKS).join("text");
        fs::create_dir(left.join(CHECKS)).and_then(|()| fs::write(&check, "")).expect("a file");
        // A link, or a file with another name, could be someone else's.
        let (linked, other) = (journal.join("image-1"), folder.path().join("precious"));
        fs::write(&other, "").and_then(|()| symlink(&other, &linked)).expect("a link");
        prepare(&left, &identity).expect_err("a link is in the journal");
        fs::remove_file(&linked).and_then(|()| fs::hard_link(&other, &linked)).expect("a link");
        prepare(&left, &identity).expect_err("a file has two names");
        fs::remove_file(&linked).expect("it is there");
        assert_eq!((owner(&left), owner(&journal), owner(&other)), (0, 0, 0));
        prepare(&left, &identity).expect("root may");
        let checks = left.join(CHECKS);
        let in_aside = aside.join("journal-1");
        for path in [&left, &left.join(LOCK), &journal, &segment, &added, &checks, &check, &aside, &in_aside] {
            assert_eq!(owner(path), 54321, "{}", path.display());
        }
        // What was never a state-dir is left alone.
        let other = folder.path().join("other");
        let locked = folder.path().join("locked");
        fs::create_dir_all(other.join("passwd"))
            .and_then(|()| fs::create_dir_all(locked.join("status")))
            .and_then(|()| fs::write(locked.join(LOCK), ""))
            .and_then(|()| fs::create_dir(folder.path().join("empty")))
            .expect("folders");
        for (path, expected) in [(other, 0), (locked, 0), (folder.path().join("empty"), 54321)] {
            prepare(&path, &identity).expect("root may");
            assert_eq!(owner(&path), expected);
        }
    }
}
