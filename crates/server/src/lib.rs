//! The daemon: configuration, listeners, zone registry, control.
#![forbid(unsafe_code)]

pub mod config;
