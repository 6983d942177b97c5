//! Changes the zones of a primary at an interval, one after the other, and notifies secondaries.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netio::clock;
use wire::tsig::TsigKey;

use super::notify::{Notifier, NotifyCounts};
use super::responder::{Responder, ServedZone};
use crate::STOP_INTERVAL;

/// When zones change, and who is notified.
#[derive(Clone, Debug)]
pub struct ChangeConfig {
    /// From one change to the next, of any zone.
    pub every: Duration,
    /// The secondaries that are notified of each change.
    pub notify: Vec<SocketAddr>,
}

/// Changes zones while it runs.
pub struct Changer {
    config: ChangeConfig,
    /// By the number of the notifier's messages.
    zones: Vec<Arc<ServedZone>>,
    notifier: Notifier,
    socket: UdpSocket,
    changes: u64,
}

impl Changer {
    /// A changer for all zones, which sends from `address`: secondaries accept NOTIFY from their primary only.
    pub fn new(
        config: ChangeConfig,
        responder: &Responder,
        address: IpAddr,
        key: Option<Arc<TsigKey>>,
    ) -> io::Result<Changer> {
        let zones = responder.zones_by_name();
        let names = zones.iter().map(|(name, _)| name.as_ref());
        let notifier = Notifier::new(names, config.notify.clone(), key).map_err(io::Error::other)?;
        let socket = UdpSocket::bind(SocketAddr::new(address, 0))?;
        let zones = zones.iter().map(|(_, zone)| Arc::clone(zone)).collect();
        Ok(Changer { config, zones, notifier, socket, changes: 0 })
    }

    /// Changes zones until `stop`; returns the number of changes, and the counts of the notifications.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<(u64, NotifyCounts)> {
        let start = clock::monotonic_exact();
        let mut buffer = [0; 4096];
        while !stop.load(Ordering::Relaxed) {
            let now = clock::monotonic_exact() - start;
            let now_ns = now.as_nanos() as u64;
            let due = self.config.every.saturating_mul(u32::try_from(self.changes + 1).unwrap_or(u32::MAX));
            // If the sender cannot be reached now, the message is repeated.
            let send = |to: SocketAddr, message: &[u8]| _ = self.socket.send_to(message, to);
            if due <= now {
                let number = (self.changes % self.zones.len() as u64) as u32;
                self.zones[number as usize].change();
                self.changes += 1;
                self.notifier.changed(number, now_ns, send);
                continue;
            }
            self.notifier.advance(now_ns, send);
            let retry = self.notifier.next_ns().map_or(STOP_INTERVAL, Duration::from_nanos);
            let wait = due.min(retry).saturating_sub(now).clamp(Duration::from_micros(50), STOP_INTERVAL);
            self.socket.set_read_timeout(Some(wait))?;
            if let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
                self.notifier.receive(from, &buffer[..len]);
            }
        }
        Ok((self.changes, self.notifier.counts))
    }
}
