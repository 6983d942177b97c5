//! The files of the store: what it needs of a file system, so that a simulation can take the place of one.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use netio::file::{free_space, open_directory, open_no_link};
use netio::privilege::current_user;

use crate::printable::printable_path;
use crate::state_dir::{StateDir, within};

/// A folder of files. What was written to a file survives a crash only after [`DiskFile::sync`], and that a file was created or
/// removed only after [`Disk::sync_directory`].
pub trait Disk: Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;

    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Creates a file that does not exist.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens a file.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Removes a file. Those who have it open can still read it.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Gives a file another name, in place of the file that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Whether an open file still has this name.
    fn has(&self, name: &str, file: &Self::File) -> bool;
    /// How much may still be written.
    fn free_octets(&self) -> io::Result<u64>;
    /// Makes durable which files there are.
    #[track_caller]
    fn sync_directory(&self) -> io::Result<()>;
    /// Fails if a start would find another folder or none: this one was moved away, removed or replaced. Cheap: called for each commit.
    fn check_place(&self) -> io::Result<()>;
}

/// An open file of a [`Disk`].
pub trait DiskFile: Send + Sync + 'static {
    /// Its length in octets.
    fn length(&self) -> io::Result<u64>;
    /// Reads at most `out.len()` octets at `offset`; 0 after the end.
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all `bytes` at `offset`. After an error any part of them may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts what follows the first `len` octets.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Makes durable what was written. After an error whatever was not durable before may be lost, even if a later call succeeds.
    #[track_caller]
    fn sync(&self) -> io::Result<()>;
}

/// A folder of the state-dir. Nothing in it is a link or another user's.
pub struct StateFolder {
    folder: File,
    /// Where a start finds it.
    path: PathBuf,
    /// Its device and inode.
    id: (u64, u64),
}

impl StateFolder {
    /// Opens the folder with this name in the state-dir, and creates it if it is missing.
    pub fn open(state_dir: &StateDir, name: &str) -> io::Result<StateFolder> {
        let folder = state_dir.own_folder(name)?;
        // The new folder itself must survive a crash.
        open_directory(&state_dir.file("."))?.sync_all()?;
        StateFolder::new(folder, &state_dir.path().join(name))
    }

    /// The state-dir itself.
    pub fn of_state_dir(state_dir: &StateDir) -> io::Result<StateFolder> {
        StateFolder::new(open_directory(&state_dir.file("."))?, state_dir.path())
    }

    /// An open folder, and where it is.
    pub(crate) fn new(folder: File, path: &Path) -> io::Result<StateFolder> {
        let metadata = folder.metadata()?;
        // The path counts as it is configured: a start follows links in it anew.
        Ok(StateFolder { folder, path: std::path::absolute(path)?, id: (metadata.dev(), metadata.ino()) })
    }
}

impl Disk for StateFolder {
    type File = File;

    fn list(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(within(&self.folder, "."))?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn create(&self, name: &str) -> io::Result<File> {
        // O_EXCL follows no link.
        File::options().read(true).write(true).create_new(true).mode(0o600).open(within(&self.folder, name))
    }

    fn open(&self, name: &str) -> io::Result<File> {
        let file = open_no_link(&within(&self.folder, name), false)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        // Another name of it could be a hard link to someone else's file.
        if metadata.uid() != current_user() || metadata.nlink() != 1 {
            let problem = "it belongs to another user, or has several names";
            return Err(io::Error::new(ErrorKind::PermissionDenied, problem));
        }
        Ok(file)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(within(&self.folder, name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(within(&self.folder, from), within(&self.folder, to))
    }

    fn has(&self, name: &str, file: &File) -> bool {
        let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let [open, there] = [file.metadata(), fs::symlink_metadata(within(&self.folder, name))];
        open.ok().map(id) == there.ok().map(id)
    }

    fn free_octets(&self) -> io::Result<u64> {
        free_space(&self.folder)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.folder.sync_all()
    }

    fn check_place(&self) -> io::Result<()> {
        let there = match fs::symlink_metadata(&self.path) {
            Ok(metadata) => Some((metadata.dev(), metadata.ino())),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
            // It may be in its place, where this user cannot see it.
            Err(_) => return Ok(()),
        };
        let path = printable_path(&self.path);
        match there {
            Some(id) if id == self.id => Ok(()),
            Some(_) => Err(io::Error::new(ErrorKind::NotFound, format!("{path} was replaced while zonda was running"))),
            None => Err(io::Error::new(
                ErrorKind::NotFound,
                format!("{path} was moved away or removed while zonda was using it"),
            )),
        }
    }
}

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, out, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()?;
        // What is written to a file without a name is lost as soon as it is closed.
        match self.metadata()?.nlink() {
            0 => Err(io::Error::new(ErrorKind::NotFound, "the file was removed while zonda was using it")),
            _ => Ok(()),
        }
    }
}

/// Reads as much of `out` as the file has at `offset`; returns how much.
pub(crate) fn read_full(file: &impl DiskFile, out: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < out.len() {
        match file.read_at(&mut out[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// All of a file.
pub(crate) fn read_all(file: &impl DiskFile) -> io::Result<Vec<u8>> {
    let mut octets = vec![0; file.length()? as usize];
    let len = read_full(file, &mut octets, 0)?;
    octets.truncate(len);
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_in_its_place_is_noticed() {
        let root = tempfile::tempdir().expect("a folder");
        let (path, moved) = (root.path().join("state"), root.path().join("moved"));
        let state_dir = StateDir::open(&path).expect("a fresh folder");
        let folder = StateFolder::open(&state_dir, "journal").expect("a fresh folder");
        folder.check_place().expect("it is there");
        let problem = || folder.check_place().map_err(|error| error.to_string()).err().unwrap_or_default();
        for (from, to) in [(path.join("journal"), path.join("elsewhere")), (path.clone(), moved)] {
            fs::rename(&from, &to).expect("it is ours");
            assert!(problem().ends_with("was moved away or removed while zonda was using it"), "{}", problem());
            fs::create_dir_all(path.join("journal")).expect("nothing is there");
            assert!(problem().ends_with("was replaced while zonda was running"), "{}", problem());
            fs::remove_dir_all(&from).and_then(|()| fs::rename(&to, &from)).expect("it is ours");
            folder.check_place().expect("it is back");
        }
        fs::remove_dir(path.join("journal")).expect("it is empty");
        assert!(problem().ends_with("was moved away or removed while zonda was using it"), "{}", problem());
    }
}
