//! The configuration: reads TOML files and zone lists into a [`Config`], and finds every mistake of all files in one run.
//!
//! [`keys`] is the table of all keys; [`reader::ConfigReader`] reads files with it; [`render`] prints the effective
//! configuration; [`manual`] prints the reference.

pub mod access_list;
mod blocks;
pub mod catalog_checks;
mod configured_key;
mod file_patterns;
mod inline_table;
pub mod key_spec;
pub mod keys;
pub mod manual;
mod policy_checks;
pub mod reader;
pub mod remote_server;
pub mod render;
pub mod resolve;
mod text_file_checks;
mod tsig_keys;
mod update_right_checks;
pub mod value;
mod zone_checks;
pub mod zone_config;
pub mod zone_list;
pub mod zone_path;

use std::path::PathBuf;
use std::sync::Arc;

use wire::Name;
use zone::Finding;

use crate::state_dir;

pub use access_list::{AccessEntry, TlsRequirement, UpdateRight};
pub use configured_key::ConfiguredKey;
pub use keys::Server;
pub use remote_server::{RemoteServer, RemoteTls};
pub use resolve::Templates;
pub use value::{Endpoint, LogFormat, LogLevel, ZonemdMode};
pub use zone_config::{CheckCommand, DnssecPolicy, ZoneConfig, ZoneLimits, ZonePolicy, ZoneSource, octet_limit};

/// The configuration of all files and of the command line, with templates resolved.
#[derive(Debug, Default)]
pub struct Config {
    /// `[server]`.
    pub server: Server,
    /// The keys of `[[key]]`, each name once.
    pub keys: Vec<ConfiguredKey>,
    /// Every zone once, ordered by the octets of its name (see [`ZoneConfig::name`]).
    pub zones: Vec<ZoneConfig>,
    /// `[template.NAME]`, for zones that are added while zonda runs.
    pub templates: Templates,
    /// The zones with `catalog`.
    pub catalogs: Vec<Name>,
    /// The files read, as they were named.
    pub files: Vec<Arc<str>>,
    /// The folders on the command line that hold no zone file, and the patterns of `include` and `zone-list` that match no file.
    pub empty_sources: Vec<PathBuf>,
    /// Findings that are not errors.
    pub warnings: Vec<Finding>,
}

impl Server {
    /// Whether the state-dir is for this daemon alone. The default one may be shared by daemons of different configurations.
    pub fn has_own_state_dir(&self) -> bool {
        self.state_dir.is_some() || state_dir::is_given_by_systemd()
    }
}

/// The default configuration files, in the order of preference.
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
