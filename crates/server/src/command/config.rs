//! `zonda config`: what is in force, as TOML or JSON.

use std::process::ExitCode;

use super::{complain, json, print, read_config};
use crate::cli::{Config, ZoneArguments};
use crate::config::render;
use crate::sources::Sources;

/// Prints the effective configuration; mistakes and warnings go to standard error.
pub fn run(arguments: &Config) -> ExitCode {
    let sources = Sources::new(&arguments.config, &ZoneArguments::default());
    match read_config(&sources) {
        Err(mistakes) => {
            complain(&mistakes);
            ExitCode::FAILURE
        }
        Ok(config) => {
            complain(&config.warnings);
            let toml = render::toml(&config);
            match arguments.json {
                true => print(&json(&from_toml(&toml))),
                false => print(&toml),
            }
        }
    }
}

fn from_toml(toml: &str) -> serde_json::Value {
    toml::from_str(toml).expect("what render::toml prints is TOML")
}
