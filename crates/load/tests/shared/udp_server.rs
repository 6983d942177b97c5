//! A server over UDP that answers as a test says.

use std::net::{SocketAddr, UdpSocket};
use std::thread;

/// A server that responds to each query with what `behave` makes of it, or not if that returns false.
pub fn serve(mut behave: impl FnMut(u64, &mut Vec<u8>) -> bool + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = socket.local_addr().expect("bound");
    thread::spawn(move || {
        let mut octets = [0; 2048];
        for number in 0.. {
            let Ok((len, peer)) = socket.recv_from(&mut octets) else { return };
            let mut response = octets[..len].to_vec();
            response[2] |= 0x84;
            if behave(number, &mut response) {
                let _ = socket.send_to(&response, peer);
            }
        }
    });
    address
}
