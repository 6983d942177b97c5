//! The daemon `zonda`: configuration, listeners, zones, control socket, commands.
#![forbid(unsafe_code)]

// Fixtures of benchmarks and tests are used in unit tests with this name.
#[cfg(test)]
extern crate self as server;

pub mod added_zones;
pub mod catalogs;
pub mod cli;
mod clock;
pub mod command;
pub mod config;
pub mod control;
mod control_service;
pub mod daemon;
mod essential_thread;
mod frozen_zones;
pub mod input;
mod interned;
pub mod listen;
mod listener_setup;
pub mod log;
mod metrics;
mod open_files;
pub mod persistence;
pub mod printable;
mod privileges;
mod rate_limited_log;
mod replace_file;
pub mod report;
#[cfg(test)]
mod simulated_arrivals;
#[cfg(test)]
#[path = "../tests/storage/simulated_disk.rs"]
#[expect(dead_code, reason = "the tests of the store need more of it")]
mod simulated_disk;
#[cfg(test)]
mod simulated_seeds;
pub mod sources;
pub mod state_dir;
pub mod storage;
pub mod systemd_notify;
pub mod tls;
pub mod transfer;
pub mod updates;
mod write_help;
pub mod writer;
pub mod zone_id;
pub mod zone_status;
pub mod zone_timers;
mod zone_totals;
pub mod zones;
