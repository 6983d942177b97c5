//! Files below a root directory: `/`, or a recorded host in tests.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::program;

/// The folder of a recorded host with the output of programs, one file for each command line.
const OUTPUTS: &str = "command-output";
/// The most octets that are read of a file: the list of tracked connections can be this long, no other.
const MAX_OCTETS: u64 = 256 << 20;
/// How long a program may take, in seconds. They print what the kernel returns at once.
pub(super) const PROGRAM_TIMEOUT_S: u64 = 2;

/// The files of a host. Paths are given without a leading slash.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    /// What exists but could not be read.
    denied: RefCell<BTreeSet<String>>,
    /// Command lines of programs that did not end.
    timed_out: RefCell<Vec<String>>,
}

impl Tree {
    /// The files below `root`; nothing is read yet.
    pub fn new(root: &Path) -> Tree {
        Tree { root: root.to_owned(), denied: RefCell::default(), timed_out: RefCell::default() }
    }

    /// The path of a file in the file system.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Whether the file or folder exists.
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The contents of a regular file without white space at the ends; `None` if it is missing or cannot be read.
    pub fn text(&self, path: &str) -> Option<String> {
        match read(&self.path(path)) {
            Ok(octets) => Some(String::from_utf8_lossy(&octets).trim().to_owned()),
            Err(error) => {
                if error.kind() == ErrorKind::PermissionDenied {
                    self.denied.borrow_mut().insert(format!("/{path}"));
                }
                None
            }
        }
    }

    /// The contents of a file that is a number.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The names in a folder, sorted; none if there is no such folder.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The last component of the target of a symbolic link.
    pub fn link_name(&self, path: &str) -> Option<String> {
        Some(fs::read_link(self.path(path)).ok()?.file_name()?.to_string_lossy().into_owned())
    }

    /// The output of a program that prints facts which the kernel has no files for, such as `ethtool` and `tc`.
    ///
    /// `None` if the program is missing, fails, or has not ended in time, now or before. Below another root than `/` nothing runs: the
    /// recorded output is read.
    pub fn output(&self, program: &str, arguments: &[&str]) -> Option<String> {
        if self.root != Path::new("/") {
            return self.text(&format!("{OUTPUTS}/{program}_{}", arguments.join("_")));
        }
        let is_of_program = |line: &String| line.split(' ').next() == Some(program);
        if self.timed_out.borrow().iter().any(is_of_program) {
            return None;
        }
        program::output(program, arguments, Duration::from_secs(PROGRAM_TIMEOUT_S)).unwrap_or_else(|_| {
            self.timed_out.borrow_mut().push([&[program][..], arguments].concat().join(" "));
            None
        })
    }

    /// The command lines of programs that did not end in time, one of each program.
    pub fn timed_out(&self) -> Vec<String> {
        self.timed_out.borrow().clone()
    }

    /// What exists but could not be read so far.
    pub fn denied(&self) -> Vec<String> {
        self.denied.borrow().iter().cloned().collect()
    }
}

/// The start of a regular file, as those of `/proc` and `/sys` are: others may block or never end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut octets = Vec::new();
    File::open(path)?.take(MAX_OCTETS).read_to_end(&mut octets)?;
    Ok(octets)
}
