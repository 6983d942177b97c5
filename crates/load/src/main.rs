//! `zonda-load`: a load generator for DNS servers. See [`load`].
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    load::command::main()
}
