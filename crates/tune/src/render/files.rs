//! Files for `--write FOLDER`: sysctl.d, limits.d and a systemd drop-in, with the reasons as comments.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use crate::advice::workload::Server;
use crate::advice::{Action, Case, Place, Row};
use crate::host::SysctlLine;

/// The first line of each file. A file that begins otherwise is not ours and is not overwritten.
const MARK: &str = "# Written by `zonda tune`.";

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFile {
    /// Its path below the folder given.
    pub path: PathBuf,
    /// Its contents.
    pub text: String,
}

/// The name of the file for sysctl.d. The last name wins, and those of distributions begin with 99 at most.
pub fn sysctl_file(server: Server) -> String {
    format!("99-zz-{}-tune.conf", server.process().1)
}

/// The files that set what should be set; none for a place where nothing is to set.
pub fn plan(case: &Case, rows: &[Row]) -> Vec<PlannedFile> {
    let (_, unit) = case.workload.server.process();
    let to_set = |place| rows.iter().filter(move |row| row.place == place && row.action == Action::Set);
    let planned = [
        (format!("sysctl.d/{}", sysctl_file(case.workload.server)), sysctls(case, rows)),
        (
            format!("limits.d/zz-{unit}-tune.conf"),
            // Lines for everybody (*) are not for root.
            assignments(to_set(Place::Login), |_, value| {
                let (soft, hard) = value.split_once(':').unwrap_or((value, value));
                ["*", "root"].map(|who| format!("{who} soft nofile {soft}\n{who} hard nofile {hard}\n")).concat()
            }),
        ),
        (
            // After override.conf, which `systemctl edit` writes.
            format!("systemd/{unit}.service.d/zz-{unit}-tune.conf"),
            assignments(to_set(Place::Unit), |row, value| format!("[Service]\n{}={value}\n", row.name)),
        ),
        ("by-hand.txt".into(), by_hand(rows)),
    ];
    let is_needed = |(_, text): &(String, String)| !text.is_empty();
    let file = |(path, text): (String, String)| PlannedFile { path: path.into(), text: format!("{MARK}\n{text}") };
    planned.into_iter().filter(is_needed).map(file).collect()
}

/// Writes the files below `folder`, which is made if it is missing; the paths written.
///
/// If there is a file of another author, or one of the files cannot be written, that is an error and no file is replaced.
pub fn write(folder: &Path, files: &[PlannedFile]) -> io::Result<Vec<PathBuf>> {
    let paths: Vec<PathBuf> = files.iter().map(|file| folder.join(&file.path)).collect();
    for path in &paths {
        check_author(path).map_err(|error| named(path, &error))?;
    }
    let written = paths.iter().zip(files).map(|(path, file)| NewFile::write(path, &file.text));
    for new in written.collect::<io::Result<Vec<NewFile>>>()? {
        new.replace_old()?;
    }
    Ok(paths)
}

/// The error with the path and what to do about it.
fn named(path: &Path, error: &io::Error) -> io::Error {
    let help = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (help: free some space, or choose a folder on another disk)"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            " (help: choose a folder that you may write to, and copy the files as root)"
        }
        _ => "",
    };
    io::Error::new(error.kind(), format!("{}: {error}{help}", path.display()))
}

/// An error if there is a file that is not ours.
fn check_author(path: &Path) -> io::Result<()> {
    let mut start = Vec::new();
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        // Others than regular files may block or never end.
        Ok(found) if found.is_file() => _ = File::open(path)?.take(MARK.len() as u64).read_to_end(&mut start)?,
        Ok(_) => {}
    }
    if start == MARK.as_bytes() {
        return Ok(());
    }
    let message = "it exists and was not written by `zonda tune` (help: move it away or choose another folder)";
    Err(io::Error::new(io::ErrorKind::AlreadyExists, message))
}

/// A complete file beside the one that it is to replace. It is removed unless it has replaced it.
struct NewFile<'p> {
    new: PathBuf,
    path: &'p Path,
}

impl NewFile<'_> {
    fn write<'p>(path: &'p Path, text: &str) -> io::Result<NewFile<'p>> {
        let named = |error| named(path, &error);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(named)?;
        }
        let new = path.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(named(error)),
            _ => {}
        }
        // O_EXCL follows no link: whoever may write to the folder must not choose what is overwritten.
        let mut file = File::create_new(&new).map_err(named)?;
        // From here on it is removed if it is incomplete. Some file systems report a full disk only when they write to it.
        let written = NewFile { new, path };
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(named)?;
        Ok(written)
    }

    fn replace_old(self) -> io::Result<()> {
        fs::rename(&self.new, self.path).map_err(|error| named(self.path, &error))
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        // After a replacement there is none.
        _ = fs::remove_file(&self.new);
    }
}

/// The sysctls of a file that replaces the installed one: those to set, those that would be lost, and what else is installed.
fn sysctls(case: &Case, rows: &[Row]) -> String {
    let path = format!("etc/sysctl.d/{}", sysctl_file(case.workload.server));
    let (installed, others): (Vec<_>, Vec<_>) =
        case.host.sysctl_lines().into_iter().partition(|line| line.file == path);
    let is_written = |row: &&Row| row.place == Place::Sysctl && (row.action == Action::Set || is_lost(row, &others));
    let written: Vec<&Row> = rows.iter().filter(is_written).collect();
    let mut text = assignments(written.iter().copied(), |row, value| format!("{} = {value}\n", row.name));
    for line in installed.iter().filter(|line| written.iter().all(|row| row.name != line.name)) {
        _ = write!(text, "\n# from the installed file\n{} = {}\n", line.name, line.value);
    }
    if text.is_empty() { text } else { text + &left_alone(rows) }
}

/// Whether a value that `--apply` may have set would be another after the next start of the host.
fn is_lost(row: &Row, lines: &[SysctlLine]) -> bool {
    let at_start = lines.iter().rfind(|line| line.name == row.name);
    row.is_reached
        && match at_start {
            Some(line) => Some(&line.value) != row.now.as_ref(),
            // The host starts with the kernel's default, which a row that is left has now.
            None => row.action == Action::Keep,
        }
}

/// The settings of one place, each with its reasons.
fn assignments<'r>(rows: impl Iterator<Item = &'r Row>, line: impl Fn(&Row, &str) -> String) -> String {
    let mut text = String::new();
    for row in rows {
        let Some(value) = &row.advised else { continue };
        text.push('\n');
        comment(&mut text, &format!("{}: {}", row.name, row.why));
        comment(&mut text, &format!("was: {}", row.now.as_deref().unwrap_or("not set")));
        comment(&mut text, &format!("evidence: {}", row.evidence));
        for (key, words) in [("sources", row.sources.join("; ").as_str()), ("condition", row.condition)] {
            if !words.is_empty() {
                comment(&mut text, &format!("{key}: {words}"));
            }
        }
        comment(&mut text, &format!("risk: {}", row.risk));
        text += &line(row, value);
    }
    text
}

/// The sysctls that sources recommend and that are left, as comments.
fn left_alone(rows: &[Row]) -> String {
    let mut text = String::from("\n# Left alone:\n");
    for row in rows.iter().filter(|row| row.place == Place::Sysctl && row.action == Action::Leave) {
        comment(&mut text, &format!("{}: {}", row.name, row.why));
    }
    text
}

/// What no file of the system sets: cards, processors, the server's own configuration.
fn by_hand(rows: &[Row]) -> String {
    let is_by_hand =
        |row: &&Row| matches!(row.place, Place::Device | Place::Habit | Place::Config(_)) && row.action == Action::Set;
    let mut text = String::new();
    for row in rows.iter().filter(is_by_hand) {
        _ = write!(text, "\n{}\n    now: {}\n", row.name, row.now.as_deref().unwrap_or("not set"));
        _ = write!(text, "    advised: {}\n    why: {}\n", row.advised.as_deref().unwrap_or_default(), row.why);
        _ = writeln!(text, "    risk: {}", row.risk);
    }
    if text.is_empty() {
        text
    } else {
        format!("# To be done by hand, or by a script at the start of the host.\n{text}")
    }
}

/// A comment of one line: no text may end it early.
fn comment(text: &mut String, words: &str) {
    _ = writeln!(text, "# {}", words.replace(['\n', '\r'], " "));
}
