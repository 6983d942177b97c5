//! A client of dynamic update (RFC 2136), and a primary that lets it change a zone.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use wire::message::{Message, Opcode, Rcode, Record};
use wire::serial::of_soa;
use wire::tsig::{Mac, TsigKey, TsigSigner, TsigVerifier};
use wire::{Class, Name, Rtype};

use crate::harness::{Daemon, TestFolder, uninterrupted};

const SECRET: &str = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=";
const SOON: Duration = Duration::from_secs(20);

pub fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// The secret of all keys here.
fn key(text: &str) -> TsigKey {
    let secret: Vec<u8> = (1..=32).collect();
    TsigKey::new("hmac-sha256", name(text).as_ref(), &secret).expect("a known algorithm")
}

/// A configuration with the zone `a.example`, which has these keys, and with a `state-dir`.
pub fn config(zone: &str) -> String {
    let key = |name| format!("[[key]]\nname = \"{name}\"\nalgorithm = \"hmac-sha256\"\nsecret = \"{SECRET}\"\n");
    let keys: String = ["all.", "acme.", "owner."].map(key).concat();
    format!("[server]\nstate-dir = \"state\"\n{keys}[[zone]]\nname = \"a.example\"\n{zone}")
}

/// A primary of `a.example` that `all.` may update everywhere, `acme.` where ACME needs it, and whose zone `owner.` may define.
pub fn primary(folder: &TestFolder, more: &str) -> Daemon {
    folder.write_zone("a.example", 1, "192.0.2.1");
    folder.write(
        "zonda.toml",
        &config(&format!(
            "file = \"zones/a.example.zone\"\nallow-transfer = [\"127.0.0.1\"]\nallow-update = [{{ key = \"all.\" }}, \
             {{ key = \"acme.\", names = [\"_acme-challenge.www.a.example\"], types = [\"TXT\"] }}, \
             {{ key = \"owner.\", types = [\"SOA\", \"NS\", \"DNSKEY\"] }}]\n{more}"
        )),
    );
    folder.serve_with_config()
}

pub fn record(owner: &str, class: Class, rtype: Rtype, rdata: &[u8]) -> Record {
    let ttl = if class == Class::IN { 60 } else { 0 };
    Record { owner: name(owner), rtype, class, ttl, rdata: rdata.to_vec() }
}

pub fn add(owner: &str, last: u8) -> Record {
    record(owner, Class::IN, Rtype::A, &[192, 0, 2, last])
}

pub fn delete(owner: &str) -> Record {
    record(owner, Class::ANY, Rtype::ANY, &[])
}

pub fn update(id: u16, records: Vec<Record>) -> Message {
    Message { id, opcode: Opcode::UPDATE, authority: records, ..Message::query(name("a.example"), Rtype::SOA) }
}

pub fn now_s() -> u64 {
    netio::clock::real().as_secs()
}

/// The octets of a signed message, and what its response is signed with, too.
pub fn signed(message: &Message, signer: &str) -> (Vec<u8>, Mac) {
    let mut octets = message.to_wire();
    let mac = TsigSigner::for_query(&key(signer)).sign(&mut octets, 0, now_s()).expect("it is short");
    (octets, mac)
}

#[track_caller]
pub fn assert_signed(response: &[u8], signer: &str, query_mac: &Mac) {
    assert_eq!(TsigVerifier::new(&key(signer), query_mac).verify(response, now_s()), Ok(()));
}

/// A client with a UDP socket and a TCP connection.
pub struct Client {
    udp: UdpSocket,
    tcp: TcpStream,
}

impl Client {
    pub fn new(server: SocketAddr) -> Client {
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        udp.connect(server).expect("loopback");
        udp.set_read_timeout(Some(SOON)).expect("a timeout");
        let tcp = TcpStream::connect(server).expect("loopback");
        tcp.set_read_timeout(Some(SOON)).expect("a timeout");
        Client { udp, tcp }
    }

    pub fn exchange(&mut self, octets: &[u8], over_tcp: bool) -> Vec<u8> {
        if over_tcp {
            self.send_over_tcp(octets);
            return self.receive_over_tcp();
        }
        self.udp.send(octets).expect("loopback");
        let mut answer = vec![0; 4096];
        let len = uninterrupted(|| self.udp.recv(&mut answer)).expect("a response");
        answer.truncate(len);
        answer
    }

    pub fn send_over_tcp(&mut self, octets: &[u8]) {
        let len = (octets.len() as u16).to_be_bytes();
        self.tcp.write_all(&[&len, octets].concat()).expect("it is open");
    }

    pub fn receive_over_tcp(&mut self) -> Vec<u8> {
        let mut len = [0; 2];
        self.tcp.read_exact(&mut len).expect("a response");
        let mut answer = vec![0; u16::from_be_bytes(len).into()];
        self.tcp.read_exact(&mut answer).expect("a response");
        answer
    }

    /// The RCODE of a signed update, whose response is verified.
    pub fn update(&mut self, signer: &str, message: &Message, over_tcp: bool) -> Rcode {
        let (octets, mac) = signed(message, signer);
        let response = self.exchange(&octets, over_tcp);
        assert_signed(&response, signer, &mac);
        let response = Message::parse(&response).expect("well-formed");
        assert_eq!((response.id, response.opcode), (message.id, Opcode::UPDATE));
        response.rcode
    }

    pub fn serial(&mut self, over_tcp: bool) -> u32 {
        let query = Message::query(name("a.example"), Rtype::SOA).to_wire();
        let response = Message::parse(&self.exchange(&query, over_tcp)).expect("well-formed");
        of_soa(&response.answer[0].rdata).expect("a SOA record")
    }
}
