//! Tells systemd how the daemon is (sd_notify(3)); says nothing where `$NOTIFY_SOCKET` is not set.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// How long to wait for a listener that does not listen: neither a reload nor a stop may hang on it.
const TIMEOUT: Duration = Duration::from_secs(1);

/// What systemd listens for.
pub struct Notifier {
    address: Option<OsString>,
}

impl Notifier {
    /// For the socket of `$NOTIFY_SOCKET`, if it is set.
    pub fn from_environment() -> Notifier {
        Notifier { address: std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty()) }
    }

    /// The daemon serves; also the end of a reload.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// A reload begins. systemd compares the time with its own, so it must be exact (Type=notify-reload).
    pub fn reloading(&self) {
        let now_us = netio::clock::monotonic_exact().as_micros();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\nSTATUS=Reloading"));
    }

    /// The daemon ends.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=Finishing what is in flight");
    }

    /// A line for `systemctl status`; also keeps systemd patient while a start takes long.
    pub fn status(&self, status: &str, extend_timeout_s: u64) {
        self.send(&format!("STATUS={status}\nEXTEND_TIMEOUT_USEC={}", extend_timeout_s * 1_000_000));
    }

    /// Failure is not worth a word: a daemon that nobody watches serves as well.
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
