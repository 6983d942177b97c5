//! `zonda man` and `zonda completions`: generated from the declarations of the command line and the configuration.

use std::process::ExitCode;

use clap::CommandFactory;

use super::print;
use crate::cli::{Cli, ManArguments};
use crate::config::manual;

/// The page of the configuration file.
const CONFIG_PAGE: &str = "zonda.toml";

/// The footer of a page.
const SOURCE: &str = concat!("zonda ", env!("CARGO_PKG_VERSION"));

/// Prints a manual page, the Markdown reference, or the names of all pages.
pub fn run(arguments: &ManArguments) -> ExitCode {
    if arguments.list {
        return print(&(pages().join("\n") + "\n"));
    }
    if arguments.markdown {
        return print(&manual::markdown());
    }
    match page(&arguments.page) {
        Some(page) => print(&page),
        None => {
            eprintln!("zonda: there is no page {} (help: `zonda man --list` lists them)", arguments.page);
            ExitCode::FAILURE
        }
    }
}

/// Prints the completions for a shell.
pub fn completions(shell: clap_complete::Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "zonda", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// The file names of the manual pages: `zonda.1`, `zonda-serve.1`, `zonda-zone-status.1` and so on, `zonda.toml.5`.
pub fn pages() -> Vec<String> {
    fn append(command: &clap::Command, name: &str, pages: &mut Vec<String>) {
        pages.push(format!("{name}.1"));
        for command in command.get_subcommands() {
            append(command, &format!("{name}-{}", command.get_name()), pages);
        }
    }
    let mut pages = Vec::new();
    append(&Cli::command(), "zonda", &mut pages);
    pages.push(format!("{CONFIG_PAGE}.5"));
    pages
}

/// A manual page, by its file name with or without the section, or by the command alone.
pub fn page(name: &str) -> Option<String> {
    let name = name.strip_suffix(".1").or(name.strip_suffix(".5")).unwrap_or(name);
    if name == CONFIG_PAGE {
        return Some(manual::man());
    }
    // `build` sets the full names of commands and the options they share.
    let mut command = Cli::command();
    command.build();
    let mut command = &command;
    for name in name.strip_prefix("zonda-").unwrap_or(name).split('-').filter(|name| *name != "zonda") {
        command = command.find_subcommand(name)?;
    }
    let command = command.clone();
    let mut page = Vec::new();
    clap_mangen::Man::new(command).manual("zonda").source(SOURCE).render(&mut page).ok()?;
    String::from_utf8(page).ok()
}
