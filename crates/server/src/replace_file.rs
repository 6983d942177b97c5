//! Replaces a file as a whole: a reader, or a start after a crash, finds the old contents or the new ones.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::state_dir::sync_folder;
use crate::storage::disk::{Disk, DiskFile};

/// Writes `.NAME.new` beside the file, and puts it in its place once it is on disk. The name of no zone begins with a dot, so that
/// the new file of the zone `x` is never the file of the zone `x.new`.
pub fn replace_file(path: &Path, mode: u32, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    let new = path.with_file_name(name);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => (),
    }
    // O_EXCL follows no link, and the file is not another name of someone else's.
    let file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    let written = write(&file).and_then(|()| file.sync_all());
    let renamed = written.and_then(|()| fs::rename(&new, path));
    if renamed.is_err() {
        // It may be incomplete, on a full disk for example.
        _ = fs::remove_file(&new);
    }
    renamed?;
    sync_folder(path)
}

/// As [`replace_file`], in a folder of the state-dir.
pub fn replace_in(folder: &impl Disk, name: &str, text: &[u8]) -> io::Result<()> {
    let new = format!(".{name}.new");
    match folder.remove(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => (),
    }
    let file = folder.create(&new)?;
    let written = file.write_at(text, 0).and_then(|()| file.sync());
    let renamed = written.and_then(|()| folder.rename(&new, name));
    if renamed.is_err() {
        _ = folder.remove(&new);
    }
    renamed?;
    folder.sync_directory()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        replace_file(&path, 0o600, |mut file| file.write_all(b"longer")).expect("a writable folder");
        replace_file(&path, 0o644, |mut file| file.write_all(b"new")).expect("a writable folder");
        let failed = replace_file(&path, 0o644, |mut file| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
        assert_eq!(fs::read(&path).expect("it was written"), b"new");
        assert_eq!(fs::metadata(&path).expect("it was written").permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    /// Secondaries with `write-file = "{name}"` may have the zones `x` and `x.new`.
    #[test]
    fn a_file_with_a_similar_name_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, other] = ["x", "x.new"].map(|name| folder.path().join(name));
        fs::write(&other, b"another zone").expect("a writable folder");
        replace_file(&path, 0o644, |mut file| file.write_all(b"new")).expect("a writable folder");
        assert_eq!(fs::read(&other).expect("it is there"), b"another zone");
    }

    #[test]
    fn links_that_wait_for_the_new_file_are_not_written_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, new, other] = ["file", ".file.new", "other"].map(|name| folder.path().join(name));
        type Link = fn(&Path, &Path) -> io::Result<()>;
        let links: [Link; 2] =
            [|other, new| fs::hard_link(other, new), |other, new| std::os::unix::fs::symlink(other, new)];
        for link in links {
            fs::write(&other, b"precious").expect("a writable folder");
            link(&other, &new).expect("a writable folder");
            replace_file(&path, 0o644, |mut file| file.write_all(b"new")).expect("a writable folder");
            assert_eq!(fs::read(&other).expect("it was written"), b"precious");
            assert_eq!(fs::read(&path).expect("it was written"), b"new");
        }
    }
}
