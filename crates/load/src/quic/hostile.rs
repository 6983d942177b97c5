//! Hostile clients over QUIC: floods of handshakes, connections without queries, and datagrams that are no QUIC.
//!
//! The kinds that send something on streams are for TCP and TLS: over QUIC, `attack/quic_attackers.py` does so.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fastrand::Rng;
use quinn_proto::Event;

use super::clients::QuicClients;
use crate::hold::{Behaviour, HoldConfig, HoldResult, MAX_WAIT};
use crate::opening::{MAX_QUIC_BEGUN_PER_TURN, Opening};
use crate::tls::TlsConfig;

/// The length of a datagram with random octets: the shortest that may begin a connection (RFC 9000 14.1).
const RANDOM_LEN: usize = 1200;

/// Whether there are clients over QUIC that do this.
pub fn is_possible(behaviour: Behaviour) -> bool {
    matches!(behaviour, Behaviour::Silence | Behaviour::Handshake | Behaviour::Random)
}

/// As [`HoldConfig::run`] over QUIC with these TLS settings, for a behaviour that [`is_possible`]. A datagram of [`Behaviour::Random`]
/// counts as an established connection.
pub fn run(
    config: &HoldConfig<'_>,
    tls: &TlsConfig,
    stop: &AtomicBool,
    on_opened: impl FnOnce(&HoldResult),
) -> io::Result<HoldResult> {
    let mut hostile = HostileClients::new(config, tls)?;
    while !hostile.all_opened() && !stop.load(Ordering::Relaxed) {
        hostile.open_due()?;
        hostile.turn()?;
    }
    hostile.result.finish_opening(hostile.start.elapsed(), config.behaviour);
    on_opened(&hostile.result);
    let end = Instant::now() + config.hold;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        hostile.turn()?;
    }
    hostile.clients.flush();
    Ok(hostile.result)
}

struct HostileClients<'h> {
    config: &'h HoldConfig<'h>,
    clients: QuicClients<'h>,
    start: Instant,
    opening: Opening,
    /// Those that are neither established nor failed.
    connecting: BTreeSet<usize>,
    result: HoldResult,
}

impl<'h> HostileClients<'h> {
    fn new(config: &'h HoldConfig<'h>, tls: &'h TlsConfig) -> io::Result<HostileClients<'h>> {
        Ok(HostileClients {
            config,
            clients: QuicClients::new(config.server, config.sources, tls, config.connections)?,
            start: Instant::now(),
            opening: Opening::new(config.connections, config.rate),
            connecting: BTreeSet::new(),
            result: HoldResult::default(),
        })
    }

    fn all_opened(&self) -> bool {
        self.opening.all_begun() && self.connecting.is_empty()
    }

    fn open_due(&mut self) -> io::Result<()> {
        for _ in 0..MAX_QUIC_BEGUN_PER_TURN {
            let Some(nth) = self.opening.next_due(self.start.elapsed()) else { return Ok(()) };
            if self.config.behaviour == Behaviour::Random {
                self.clients.send_datagram(nth, &random_datagram(nth as u64));
                self.result.established += 1;
                continue;
            }
            let number = self.clients.open(nth)?;
            self.connecting.insert(number);
            self.clients.transmit(number);
        }
        Ok(())
    }

    /// Handles what arrives or is due until the next connection is.
    fn turn(&mut self) -> io::Result<()> {
        let wait = self.opening.wait(self.start.elapsed()).map_or(MAX_WAIT, |wait| wait.min(MAX_WAIT));
        for number in self.clients.turn(wait)? {
            self.advance(number);
        }
        self.expire_connecting();
        Ok(())
    }

    /// Takes the events of a connection, and sends what QUIC itself sends.
    fn advance(&mut self, number: usize) {
        while let Some(event) = self.clients.next_event(number) {
            match event {
                Event::Connected => {
                    self.established(number);
                    if self.config.behaviour.closes_at_once() {
                        // First what completes the handshake at the server, which closing would leave out.
                        self.clients.transmit(number);
                        self.clients.close(number);
                        return self.clients.forget(number);
                    }
                }
                Event::ConnectionLost { reason } => return self.lose(number, &reason.to_string()),
                _ => {}
            }
        }
        self.clients.transmit(number);
    }

    fn established(&mut self, number: usize) {
        self.connecting.remove(&number);
        self.result.established += 1;
        let client = self.clients.client(number);
        self.result.handshake.saturating_record(client.since.elapsed().as_nanos() as u64);
        client.since = Instant::now();
    }

    /// Records that a connection is lost, or could not be opened.
    fn lose(&mut self, number: usize, reason: &str) {
        let client = self.clients.client(number);
        if client.is_established {
            self.result.record_closed(client.since.elapsed());
            self.result.closed_unanswered += 1;
        } else {
            self.connecting.remove(&number);
            self.result.record_failure(&reason);
        }
        self.clients.forget(number);
    }

    fn expire_connecting(&mut self) {
        if self.opening.all_begun() && self.opening.is_overdue(self.start.elapsed()) {
            for number in std::mem::take(&mut self.connecting) {
                self.lose(number, "no answer");
            }
        }
    }
}

/// Random octets; every second datagram has the header of an Initial packet (RFC 9000 17.2.2), which a server must try to decrypt.
fn random_datagram(seed: u64) -> [u8; RANDOM_LEN] {
    let mut random = Rng::with_seed(seed);
    let mut octets = [(); RANDOM_LEN].map(|()| random.u8(..));
    if seed % 2 == 1 {
        // Two connection IDs of 8 octets, no token, and the rest as the packet.
        let [high, low] = ((RANDOM_LEN - 26) as u16 | 0x4000).to_be_bytes();
        octets[..6].copy_from_slice(&[0xc0, 0, 0, 0, 1, 8]);
        octets[14] = 8;
        octets[23..26].copy_from_slice(&[0, high, low]);
    }
    octets
}
