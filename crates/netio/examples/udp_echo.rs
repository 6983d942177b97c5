//! The upper limit for a UDP server on [`netio::udp_server::ServerBatch`]: answers every query with its copy, padded to 200 octets.
//!
//! usage: `udp_echo ADDRESS PORT`; the difference to the same program in C is the cost of the batch.

use netio::udp_server::{ServerBatch, ServerSocket, ServerSocketOptions};
use std::io;
use std::net::{IpAddr, SocketAddr};

const BATCH: usize = 128;
const ANSWER: usize = 200;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, port] = arguments.as_slice() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "usage: udp_echo ADDRESS PORT"));
    };
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidInput, "ADDRESS is an IP address, PORT a number");
    let ip: IpAddr = address.parse().map_err(|_| ()).map_err(invalid)?;
    let address = SocketAddr::new(ip, port.parse().map_err(|_| ()).map_err(invalid)?);
    let mut batch = ServerBatch::new(ServerSocket::bind(address, &ServerSocketOptions::default())?, BATCH, 4096);
    loop {
        for index in 0..batch.receive()? {
            let slot = batch.slot(index);
            if slot.request.len() < 12 {
                continue;
            }
            let len = slot.request.len().max(ANSWER);
            slot.reply[..slot.request.len()].copy_from_slice(slot.request);
            slot.reply[2] |= 0x84; // QR, AA
            slot.reply[3] = 0; // NOERROR
            slot.reply[7] = 1; // one answer, so that a readiness probe is content
            batch.set_reply(index, len);
        }
        batch.send();
    }
}
