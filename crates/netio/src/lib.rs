//! Kernel edges and nearly all unsafe code: batched UDP, stream polling, socket options, pinning, files. Knows no DNS.
//!
//! Linux only. Used by the server and the load generator; everything here is a thin, safe face of a system call.

mod address;
mod option;

pub mod client;
pub mod clock;
pub mod file;
pub mod limit;
pub mod memory;
pub mod pin;
pub mod privilege;
pub mod signal;
pub mod stream;
pub mod udp;

/// Turns the `-1` of a system call into the error it left behind.
fn checked(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
