//! The configuration: TOML files to a [`Config`], with every mistake of all files found in one run.
//!
//! [`keys`] is the table of what may be written; [`read::Reader`] walks the files with it; [`render`] prints what is in
//! force; [`manual`] is the reference for people.

mod blocks;
mod include;
pub mod keys;
pub mod manual;
pub mod read;
pub mod render;
mod resolve;
pub mod section;
mod suggest;
pub mod value;
pub mod zones;

use std::path::PathBuf;
use std::sync::Arc;

use zone::Finding;

pub use keys::{LogFormat, LogLevel, Server};
pub use value::{Endpoint, Prefix};
pub use zones::{ZoneConfig, ZoneLimits, ZonePolicy, ZoneSource};

/// All that the files say, with templates resolved.
#[derive(Debug, Default)]
pub struct Config {
    /// `[server]`.
    pub server: Server,
    /// Every zone once, ordered by the octets of its name (see [`ZoneConfig::name`]).
    pub zones: Vec<ZoneConfig>,
    /// The files read, as they were named.
    pub files: Vec<Arc<str>>,
    /// The folders on the command line that hold no zone file.
    pub empty_folders: Vec<PathBuf>,
    /// What deserves a look but stops nothing.
    pub warnings: Vec<Finding>,
}

/// Where a configuration is looked for when none is named; the first that exists is read.
pub fn search_path() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let personal = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
    let folders = personal.into_iter().map(|folder| folder.join("zonda")).chain([PathBuf::from("/etc/zonda")]);
    folders.map(|folder| folder.join("zonda.toml")).collect()
}

/// The first file of [`search_path`] that exists.
pub fn find() -> Option<PathBuf> {
    search_path().into_iter().find(|path| path.exists())
}
