//! Safe wrappers of Linux system calls, with nearly all unsafe code: batched UDP, TCP, epoll, CPU affinity, files, signals, privileges.
//! No DNS.
//!
//! Used by the server and the load generator.

mod control_messages;
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

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// Whether a call on a non-blocking descriptor is to be repeated when that is ready: nothing is wrong with the descriptor.
pub fn is_not_ready(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The unspecified address of the family of `address`: a socket that is bound to it sends from whichever the route says.
pub fn unspecified(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// No datagrams if a socket has none, or an earlier datagram was refused (ICMP).
fn none_if_transient(error: std::io::Error) -> std::io::Result<usize> {
    if is_not_ready(&error) || error.kind() == ErrorKind::ConnectionRefused { Ok(0) } else { Err(error) }
}

/// A header of recvmmsg(2) or sendmmsg(2) that points at nothing.
fn empty_header() -> libc::mmsghdr {
    // SAFETY: integers and raw pointers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

fn empty_part() -> libc::iovec {
    libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }
}

/// Converts the -1 of a system call into the error in errno(3).
fn checked(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
