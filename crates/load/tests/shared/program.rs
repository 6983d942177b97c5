//! Runs `zonda-load` to its end.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

pub fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zonda-load"));
    command.args(arguments.split_whitespace());
    command
}

pub fn run(arguments: &str) -> Output {
    command(arguments).output().expect("the program was built")
}

/// The JSON lines on standard output.
pub fn records(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object per line")).collect()
}

/// A file in the folder of this crate's tests, where each test has names of its own.
pub fn file(name: &str, content: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("a writable folder");
    path
}
