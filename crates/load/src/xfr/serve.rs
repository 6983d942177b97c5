//! The null primary: responds to SOA queries over UDP, TCP and TLS, and transfers encoded zones over TCP and TLS.
//!
//! One thread serves all connections, one UDP, and one changes zones if that is configured.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use netio::resource_limits;
use netio::tcp::{Listener, ListenerOptions};
use rustls::ServerConfig;
use wire::tsig::TsigKey;

pub use super::changes::ChangeConfig;
use super::changes::Changer;
use super::encode::EncodedZones;
pub use super::responder::PrimaryCounters;
use super::responder::{Responder, Response};
use crate::STOP_INTERVAL;
use crate::stream_server::StreamServer;

/// A primary with bound sockets.
pub struct Primary {
    udp: UdpSocket,
    tcp: Listener,
    tls: Option<(Listener, Arc<ServerConfig>)>,
    responder: Arc<Responder>,
    key: Option<Arc<TsigKey>>,
    changer: Option<Changer>,
}

impl Primary {
    /// Binds UDP and TCP to one port; with port 0 the kernel chooses it. With a key, transfers must be signed.
    pub fn bind(address: SocketAddr, zones: EncodedZones, key: Option<Arc<TsigKey>>) -> io::Result<Primary> {
        // Each connection needs a descriptor; the limit is what the process may have.
        resource_limits::raise_open_files()?;
        let tcp = listen(address)?;
        let udp = UdpSocket::bind(tcp.local_addr()?)?;
        udp.set_read_timeout(Some(STOP_INTERVAL))?;
        let responder = Arc::new(Responder::new(zones, key.clone()));
        Ok(Primary { udp, tcp, tls: None, responder, key, changer: None })
    }

    /// Also listens for TLS (RFC 9103); returns the bound address.
    pub fn bind_tls(&mut self, address: SocketAddr, config: Arc<ServerConfig>) -> io::Result<SocketAddr> {
        let listener = listen(address)?;
        let address = listener.local_addr()?;
        self.tls = Some((listener, config));
        Ok(address)
    }

    /// Changes zones while it serves them, which must have been encoded as changing ones.
    pub fn change(&mut self, config: ChangeConfig) -> io::Result<()> {
        let address = self.local_addr()?.ip();
        self.changer = Some(Changer::new(config, &self.responder, address, self.key.clone())?);
        Ok(())
    }

    /// The bound address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves until `stop`.
    pub fn run(self, stop: &AtomicBool) -> io::Result<Arc<PrimaryCounters>> {
        let responder = self.responder;
        let counters = &responder.counters;
        let server = StreamServer::new(self.tcp, self.tls, responder.clone())?;
        thread::scope(|scope| {
            scope.spawn(|| serve_udp(&self.udp, &responder, stop));
            let changer = self.changer.map(|changer| scope.spawn(move || changer.run(stop)));
            let served = server.run(stop);
            // After an error, the other threads must end too.
            stop.store(true, Ordering::Relaxed);
            let (_, streams) = served?;
            counters.connections.store(streams.connections, Ordering::Relaxed);
            if let Some(changer) = changer {
                let (changes, notifies) = changer.join().expect("changers do not panic")?;
                counters.changes.store(changes, Ordering::Relaxed);
                counters.notifies.store(notifies.sent, Ordering::Relaxed);
                counters.notifies_acknowledged.store(notifies.acknowledged, Ordering::Relaxed);
                counters.notifies_failed.store(notifies.failed, Ordering::Relaxed);
            }
            Ok(counters.clone())
        })
    }
}

fn listen(address: SocketAddr) -> io::Result<Listener> {
    Listener::bind(address, &ListenerOptions { reuse_port: false, ..ListenerOptions::default() })
}

fn serve_udp(socket: &UdpSocket, responder: &Responder, stop: &AtomicBool) {
    let (mut query, mut response) = ([0; 4096], Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let Ok((len, peer)) = socket.recv_from(&mut query) else { continue };
        if let Some(Response::Message) = responder.respond(&query[..len], false, &mut response) {
            // If it cannot be sent, the client retries.
            let _ = socket.send_to(&response, peer);
        }
    }
}
