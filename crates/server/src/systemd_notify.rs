//! Notifications to systemd (sd_notify(3)), sent if `$NOTIFY_SOCKET` is set.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// How long a send may block: neither a reload nor a stop may hang if nobody reads the socket.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Sends notifications.
pub struct Notifier {
    address: Option<OsString>,
}

impl Notifier {
    /// A notifier for the socket of `$NOTIFY_SOCKET`, if that is set.
    pub fn from_environment() -> Notifier {
        Notifier { address: std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty()) }
    }

    /// The daemon has started, or has finished a reload.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// A reload begins. systemd compares the time with its own clock (Type=notify-reload).
    pub fn reloading(&self) {
        let now_us = netio::clock::monotonic_exact().as_micros();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\nSTATUS=Reloading"));
    }

    /// The daemon stops.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=Finishing queries and transfers in progress");
    }

    /// A line for `systemctl status`; also extends the start timeout.
    pub fn status(&self, status: &str, extend_timeout_s: u64) {
        self.send(&format!("STATUS={status}\nEXTEND_TIMEOUT_USEC={}", extend_timeout_s * 1_000_000));
    }

    /// Errors are ignored: the daemon serves as well without systemd.
    fn send(&self, state: &str) {
        if let Some(address) = &self.address {
            _ = send_to(address.as_bytes(), state);
        }
    }
}

fn send_to(address: &[u8], state: &str) -> io::Result<()> {
    let address = match address {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(TIMEOUT))?;
    socket.send_to_addr(state.as_bytes(), &address).map(|_| ())
}
