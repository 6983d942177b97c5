//! Safe wrappers of Linux system calls, with nearly all unsafe code: batched UDP, TCP, epoll, CPU affinity, files, signals, privileges.
//! No DNS.
//!
//! Used by the server and the load generator.

mod send_queue;
mod socket_address;
mod socket_options;

pub mod child_process;
pub mod clock;
pub mod clock_changes;
pub mod cpu_affinity;
pub mod epoll;
pub mod file;
pub mod malloc;
pub mod privilege;
pub mod program_pages;
pub mod resource_limits;
pub mod signal;
pub mod tcp;
pub mod udp_client;
pub mod udp_endpoint;
pub mod udp_server;

/// Converts the -1 of a system call into the error in errno(3).
fn checked(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
