//! `zonda-load`: measures DNS servers truthfully.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    load::command::main()
}
