//! Kernel edges and nearly all unsafe code: batched UDP, stream polling, socket options, pinning, files. Knows no DNS.
//!
//! Linux only. Used by the server and the load generator; everything here is a thin, safe face of a system call.

mod socket_address;
mod socket_options;

pub mod clock;
pub mod cpu_affinity;
pub mod epoll;
pub mod file;
pub mod malloc;
pub mod privilege;
pub mod resource_limits;
pub mod signal;
pub mod tcp;
pub mod udp_client;
pub mod udp_server;

/// Turns the `-1` of a system call into the error it left behind.
fn checked(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
