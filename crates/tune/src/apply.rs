//! Sets the advised sysctls now, and says how to undo it.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::advice::{Action, Place, Row};
use crate::host::{single_spaced, sysctl_path};

/// A sysctl that was set, or could not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The sysctl.
    pub name: &'static str,
    /// Its value before.
    pub before: String,
    /// The value that was asked for.
    pub asked: String,
    /// The value afterwards; the kernel rounds some.
    pub after: Option<String>,
    /// Why it could not be set.
    pub error: Option<String>,
}

impl Change {
    /// The command that sets the value of before again.
    pub fn undo(&self) -> String {
        format!("sysctl -w {}='{}'", self.name, self.before)
    }
}

/// Sets the sysctls that should be set below `root`, which is `/` except in tests. Nothing else is changed.
pub fn apply(root: &Path, rows: &[Row]) -> Vec<Change> {
    let wanted = rows.iter().filter(|row| row.place == Place::Sysctl && row.action == Action::Set);
    wanted.filter_map(|row| Some(set(root, row.name, row.now.clone()?, row.advised.clone()?))).collect()
}

fn set(root: &Path, name: &'static str, before: String, asked: String) -> Change {
    let path = root.join(sysctl_path(name));
    let error = fs::write(&path, &asked).err().map(|error| explain(&error));
    // A value that was set must be undone, even if it cannot be read again.
    let after = error.is_none().then(|| fs::read_to_string(&path).ok()).flatten().map(|text| single_spaced(&text));
    let is_kept = after.as_ref().is_some_and(|after| *after == before && *after != asked);
    let error = error.or_else(|| is_kept.then(|| KEPT.into()));
    Change { name, before, after: after.filter(|_| error.is_none()), asked, error }
}

/// The error of a write that had no effect.
const KEPT: &str = "the kernel took the value and kept its own (help: it is out of range, or this container only imitates the setting)";

fn explain(error: &io::Error) -> String {
    let help = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "run it as root of the host; in a container only root of the host may set it, or the option --sysctl of the container"
        }
        io::ErrorKind::ReadOnlyFilesystem => "/proc/sys is read-only, as in most containers: set it on the host",
        io::ErrorKind::NotFound => "this network namespace does not have it: set it on the host",
        io::ErrorKind::InvalidInput => "the kernel refuses the value",
        _ => "set it by hand",
    };
    format!("{error} (help: {help})")
}
