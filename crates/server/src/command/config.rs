//! `zonda config`: prints the effective configuration as TOML or JSON.

use std::process::ExitCode;

use super::{json, print, print_findings, read_config};
use crate::cli::{ConfigArguments, ZoneArguments};
use crate::config::render;
use crate::sources::Sources;

/// Prints the effective configuration, or its mistakes on standard error.
pub fn run(arguments: &ConfigArguments) -> ExitCode {
    let sources = Sources::new(&arguments.config, &ZoneArguments::default());
    match read_config(&sources) {
        Err(mistakes) => {
            print_findings(&mistakes);
            ExitCode::FAILURE
        }
        Ok(config) => {
            print_findings(&config.warnings);
            let toml = render::toml(&config);
            match arguments.json {
                true => print(&json(&from_toml(&toml))),
                false => print(&toml),
            }
        }
    }
}

fn from_toml(toml: &str) -> serde_json::Value {
    toml::from_str(toml).expect("render::toml prints TOML")
}
