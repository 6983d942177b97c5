//! Dynamic updates of a running daemon are never seen in part or out of order, and never lost by a kill.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wire::message::{Message, Rcode, Record};
use wire::serial::is_later;
use wire::{Class, Rtype};

use crate::harness::{Daemon, TestFolder, uninterrupted};
use crate::update_client::{Client, delete, name, primary, record, signed, update};

/// Every answer is from one version, and no client sees an older version after a newer one, whatever thread it asks.
#[test]
fn clients_see_versions_in_order_and_none_in_part() {
    let folder = TestFolder::new();
    let daemon = primary(&folder, "");
    let mut client = Client::new(daemon.address);
    let version = |number: u8| {
        let all = record("pair.a.example", Class::ANY, Rtype::TXT, &[]);
        let text = |half| record("pair.a.example", Class::IN, Rtype::TXT, &[2, half, number]);
        update(number.into(), vec![all, text(b'a'), text(b'b')])
    };
    assert_eq!(client.update("all.", &version(0), true), Rcode::NOERROR);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(|| watch(daemon.address, &is_over))).collect();
        for number in 1..=250 {
            assert_eq!(client.update("all.", &version(number), number % 2 == 0), Rcode::NOERROR);
        }
        is_over.store(true, Ordering::Relaxed);
        for reader in readers {
            let seen = reader.join().expect("no reader fails");
            assert!(seen > 1, "{seen} versions were seen");
        }
    });
    assert_eq!(client.serial(false), 252);
}

/// Asks over several sockets in turn, which different threads answer. Returns how many versions it saw.
fn watch(server: SocketAddr, is_over: &AtomicBool) -> usize {
    let mut clients: Vec<Client> = (0..4).map(|_| Client::new(server)).collect();
    let query = Message::query(name("pair.a.example"), Rtype::TXT).to_wire();
    let (mut last, mut seen) = (0, 0);
    for turn in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let client = &mut clients[turn % 4];
        let serial = client.serial(turn % 3 == 0);
        assert!(last == 0 || serial == last || is_later(serial, last), "{serial} after {last}");
        seen += usize::from(serial != last);
        last = serial;
        let answer = Message::parse(&client.exchange(&query, turn % 5 == 0)).expect("well-formed");
        let versions: Vec<u8> = answer.answer.iter().map(|record| record.rdata[2]).collect();
        assert!(versions.len() == 2 && versions[0] == versions[1], "{versions:?}");
    }
    seen
}

/// RFC 2136 3.5: an update that was acknowledged is on disk: a kill at any moment loses none, and brings none back in part.
#[test]
fn acknowledged_updates_survive_kills() {
    let folder = TestFolder::new();
    let mut daemon = primary(&folder, "");
    let mut senders: Vec<Sender> = (0..4).map(Sender::new).collect();
    for round in 0..8 {
        let server = daemon.address;
        let senders_now = &mut senders;
        std::thread::scope(|scope| {
            for sender in senders_now {
                scope.spawn(move || sender.send_until_it_fails(server));
            }
            std::thread::sleep(Duration::from_millis(100 + 43 * round));
            daemon.kill();
        });
        daemon = folder.serve_with_config();
        senders.iter().for_each(|sender| sender.check(&daemon));
    }
    let acknowledged: u32 = senders.iter().map(|sender| sender.acknowledged).sum();
    assert!(acknowledged > 100, "only {acknowledged} updates were made");
}

/// Replaces two records by the next number, one update after the other.
struct Sender {
    owner: String,
    /// The numbers that the last update had, and the last one that was acknowledged.
    sent: u32,
    acknowledged: u32,
    over_tcp: bool,
}

impl Sender {
    fn new(number: usize) -> Sender {
        Sender { owner: format!("s{number}.a.example"), sent: 0, acknowledged: 0, over_tcp: number.is_multiple_of(2) }
    }

    fn send_until_it_fails(&mut self, server: SocketAddr) {
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        udp.connect(server).expect("loopback");
        udp.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        let Ok(mut tcp) = TcpStream::connect(server) else { return };
        loop {
            let message = self.next();
            let mut answer = [0; 512];
            let received = if self.over_tcp {
                let octets = [&(message.len() as u16).to_be_bytes(), &message[..]].concat();
                tcp.write_all(&octets).and_then(|()| tcp.read_exact(&mut answer[..2])).and_then(|()| {
                    let len = u16::from_be_bytes([answer[0], answer[1]]).into();
                    tcp.read_exact(&mut answer[..len])
                })
            } else {
                udp.send(&message).and_then(|_| uninterrupted(|| udp.recv(&mut answer)).map(drop))
            };
            if received.is_err() {
                return;
            }
            assert_eq!(answer[3] & 15, 0, "{}", self.owner);
            self.acknowledged = self.sent;
        }
    }

    fn next(&mut self) -> Vec<u8> {
        self.sent += 1;
        let number = self.sent.to_be_bytes();
        let mut records = vec![delete(&self.owner)];
        for half in [b'a', b'b'] {
            let text = [&[5, half], &number[..]].concat();
            records.push(record(&self.owner, Class::IN, Rtype::TXT, &text));
        }
        signed(&update(self.sent as u16, records), "all.").0
    }

    /// The update that was on its way when the daemon was killed may have been made or not.
    fn check(&self, daemon: &Daemon) {
        let query = Message::query(name(&self.owner), Rtype::TXT).to_wire();
        let answer = Message::parse(&Client::new(daemon.address).exchange(&query, false)).expect("well-formed");
        let number = |record: &Record| u32::from_be_bytes(record.rdata[2..6].try_into().expect("four octets"));
        let numbers: Vec<u32> = answer.answer.iter().map(number).collect();
        let is_complete = numbers.len() == 2 && numbers[0] == numbers[1] || self.acknowledged == 0;
        let is_kept = numbers.iter().all(|number| (self.acknowledged..=self.sent).contains(number));
        assert!(is_complete && is_kept, "{}: {numbers:?} of {} to {}", self.owner, self.acknowledged, self.sent);
    }
}
