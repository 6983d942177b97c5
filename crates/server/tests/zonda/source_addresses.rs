//! The addresses that the real daemon sends from, as its peers see them: SOA queries, transfers and NOTIFY, over UDP and TCP.

use std::io::{self, Read};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::harness::TestFolder;
use crate::zone_status::{serves, wait_for};

/// A zone that is checked every second.
const ZONE: &str = "$TTL 1h\n@ SOA ns.example.net. host.example.net. 1 1 1 1000 300\n@ NS ns.example.net.\n";
const OPCODE_NOTIFY: u8 = 4;
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Udp,
    Tcp,
}

/// What came from where.
type Seen = (Protocol, IpAddr);

/// A port of the loopback for datagrams and connections.
fn bind() -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        // Another program may have it.
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().expect("it is bound")) {
            return (udp, tcp);
        }
    }
}

/// Stands before a server: passes on what comes, and reports from where.
fn relay(server: SocketAddr) -> (SocketAddr, Receiver<Seen>) {
    let ((udp, tcp), (sender, seen)) = (bind(), channel());
    let address = udp.local_addr().expect("it is bound");
    let of_datagrams = sender.clone();
    thread::spawn(move || relay_datagrams(&udp, server, &of_datagrams));
    thread::spawn(move || relay_connections(&tcp, server, &sender));
    (address, seen)
}

fn relay_datagrams(socket: &UdpSocket, server: SocketAddr, seen: &Sender<Seen>) {
    let upstream = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    upstream.connect(server).expect("loopback");
    upstream.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
    let mut datagram = [0; 1500];
    while let Ok((len, from)) = socket.recv_from(&mut datagram) {
        _ = seen.send((Protocol::Udp, from.ip()));
        _ = upstream.send(&datagram[..len]);
        if let Ok(len) = upstream.recv(&mut datagram) {
            _ = socket.send_to(&datagram[..len], from);
        }
    }
}

fn relay_connections(listener: &TcpListener, server: SocketAddr, seen: &Sender<Seen>) {
    while let Ok((client, from)) = listener.accept() {
        _ = seen.send((Protocol::Tcp, from.ip()));
        let upstream = TcpStream::connect(server).expect("loopback");
        let (from_client, to_server) = (client.try_clone(), upstream.try_clone());
        thread::spawn(move || pass_on(from_client.expect("a socket"), to_server.expect("a socket")));
        thread::spawn(move || pass_on(upstream, client));
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    // The connection may be reset.
    _ = io::copy(&mut from, &mut to);
    _ = to.shutdown(Shutdown::Write);
}

#[test]
fn soa_queries_and_transfers_come_from_the_configured_address() {
    let first = TestFolder::new();
    first.write("a.zone", ZONE);
    first
        .write("zonda.toml", "[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\nallow-transfer = [\"127.0.0.0/8\"]\n");
    let primary = first.serve_with_config();
    // Of the primary, or else of the zone.
    for (source, expected) in [(", source = \"127.0.0.5\"", [127, 0, 0, 5]), ("", [127, 0, 0, 7])] {
        let ((address, seen), second) = (relay(primary.address), TestFolder::new());
        let primaries = format!("primaries = [{{ address = \"{address}\"{source} }}]\n");
        let settings = "source = [\"127.0.0.7\", \"::1\"]\nmin-refresh-s = 1\nmin-retry-s = 1\n";
        second.write("zonda.toml", &format!("[[zone]]\nname = \"a.example\"\n{primaries}{settings}"));
        let _secondary = second.serve_with_config();
        wait_for(&second, "transferred", serves(1));
        let (mut missing, expected) = (vec![Protocol::Tcp, Protocol::Udp], IpAddr::from(expected));
        while !missing.is_empty() {
            let (protocol, from) = seen.recv_timeout(TIMEOUT).expect("the zone is checked");
            assert_eq!(from, expected, "{protocol:?}");
            missing.retain(|missing| *missing != protocol);
        }
    }
}

/// Nobody answers over UDP, so that NOTIFY follows over TCP.
#[test]
fn notify_comes_from_the_configured_address() {
    let (folder, targets) = (TestFolder::new(), [bind(), bind()]);
    folder.write("a.zone", ZONE);
    let [first, second] = [0, 1].map(|index| targets[index].0.local_addr().expect("it is bound"));
    let notify = format!("notify = [{{ address = \"{first}\", source = \"127.0.0.5\" }}, \"{second}\"]\n");
    let source = "source = [\"127.0.0.7\"]\n";
    folder.write("zonda.toml", &format!("[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\n{source}{notify}"));
    let _daemon = folder.serve_with_config();
    for ((udp, tcp), expected) in targets.into_iter().zip([[127, 0, 0, 5], [127, 0, 0, 7]].map(IpAddr::from)) {
        udp.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        let mut message = [0; 512];
        let (_, from) = udp.recv_from(&mut message).expect("a NOTIFY");
        assert_eq!((message[2] >> 3, from.ip()), (OPCODE_NOTIFY, expected));
        let (sender, accepted) = channel();
        thread::spawn(move || sender.send(tcp.accept()));
        let (mut stream, from) = accepted.recv_timeout(TIMEOUT).expect("a NOTIFY over TCP").expect("a connection");
        let mut message = [0; 5];
        stream.read_exact(&mut message).expect("a message with its length");
        assert_eq!((message[4] >> 3, from.ip()), (OPCODE_NOTIFY, expected));
    }
}
