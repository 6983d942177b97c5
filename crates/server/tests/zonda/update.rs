//! Dynamic update of a running daemon (RFC 2136): what is changed, answered, refused, forwarded, and never lost or seen in part.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wire::message::{Message, Opcode, Rcode, Record};
use wire::serial::{is_later, of_soa};
use wire::tsig::{TsigKey, TsigSigner, TsigVerifier};
use wire::{Class, Name, Rtype};

use crate::harness::{Daemon, NXDOMAIN, TestFolder, uninterrupted};
use crate::test_certificates::TestCertificates;

const SECRET: &str = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=";
pub const SOON: Duration = Duration::from_secs(20);

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
fn primary(folder: &TestFolder, more: &str) -> Daemon {
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

//----------- messages -------------------------------------------------------------

pub fn record(owner: &str, class: Class, rtype: Rtype, rdata: &[u8]) -> Record {
    let ttl = if class == Class::IN { 60 } else { 0 };
    Record { owner: name(owner), rtype, class, ttl, rdata: rdata.to_vec() }
}

pub fn add(owner: &str, last: u8) -> Record {
    record(owner, Class::IN, Rtype::A, &[192, 0, 2, last])
}

fn delete(owner: &str) -> Record {
    record(owner, Class::ANY, Rtype::ANY, &[])
}

pub fn update(id: u16, records: Vec<Record>) -> Message {
    Message { id, opcode: Opcode::UPDATE, authority: records, ..Message::query(name("a.example"), Rtype::SOA) }
}

fn now_s() -> u64 {
    netio::clock::real().as_secs()
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

    fn send_over_tcp(&mut self, octets: &[u8]) {
        let len = (octets.len() as u16).to_be_bytes();
        self.tcp.write_all(&[&len, octets].concat()).expect("it is open");
    }

    fn receive_over_tcp(&mut self) -> Vec<u8> {
        let mut len = [0; 2];
        self.tcp.read_exact(&mut len).expect("a response");
        let mut answer = vec![0; u16::from_be_bytes(len).into()];
        self.tcp.read_exact(&mut answer).expect("a response");
        answer
    }

    /// The RCODE of a signed update, whose response is verified.
    pub fn update(&mut self, signer: &str, message: &Message, over_tcp: bool) -> Rcode {
        let mut octets = message.to_wire();
        let key = key(signer);
        let mac = TsigSigner::for_query(&key).sign(&mut octets, 0, now_s()).expect("it is short");
        let response = self.exchange(&octets, over_tcp);
        assert_eq!(TsigVerifier::new(&key, &mac).verify(&response, now_s()), Ok(()));
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

//----------- tests ----------------------------------------------------------------

/// RFC 2136 3.8: what was acknowledged is served.
#[test]
fn an_update_is_served_when_it_is_answered_and_its_response_is_signed() {
    let folder = TestFolder::new();
    let daemon = primary(&folder, "");
    let mut client = Client::new(daemon.address);
    for (serial, over_tcp) in [(2, false), (4, true)] {
        let id = 10 * serial as u16;
        assert_eq!(client.update("all.", &update(id, vec![add("new.a.example", 5)]), over_tcp), Rcode::NOERROR);
        assert!(daemon.ask("new.a.example").has("192.0.2.5"));
        assert_eq!(client.serial(over_tcp), serial);
        assert_eq!(client.update("all.", &update(id + 1, vec![delete("new.a.example")]), over_tcp), Rcode::NOERROR);
        assert_eq!((daemon.ask("new.a.example").rcode(), client.serial(over_tcp)), (NXDOMAIN, serial + 1));
    }
    let log = daemon.wait_for_log("zone updated");
    for field in
        ["zone=a.example.", "client=127.0.0.1", "key=all.", "records=1", "old_serial=1", "serial=2", "rcode=NOERROR"]
    {
        assert!(log.contains(field), "{field}: {log}");
    }
}

/// What a file would be warned of is not refused, but logged.
#[test]
fn warnings_about_an_updated_zone_are_logged() {
    let folder = TestFolder::new();
    let daemon = primary(&folder, "");
    let mut client = Client::new(daemon.address);
    // More than a message holds, in two updates.
    for id in 0..2 {
        let text = |number: u8| [&[255][..], &[number; 255]].concat().repeat(4);
        let records = (0..33).map(|number| record("big.a.example", Class::IN, Rtype::TXT, &text(100 * id + number)));
        assert_eq!(client.update("all.", &update(id.into(), records.collect()), true), Rcode::NOERROR);
    }
    let line = daemon.wait_for_log("after a change: ");
    assert!(line.contains("zone=a.example.") && line.contains("warning: ") && line.contains("big.a.example"), "{line}");
}

#[test]
fn names_types_keys_and_prerequisites_are_checked() {
    let folder = TestFolder::new();
    let daemon = primary(&folder, "");
    let mut client = Client::new(daemon.address);
    let challenge = |owner| record(owner, Class::IN, Rtype::TXT, b"\x05token");
    let owner = "_acme-challenge.www.a.example";
    let in_use = Message { answer: vec![delete("nobody.a.example")], ..update(1, vec![add("x.a.example", 1)]) };
    for (signer, message, rcode) in [
        ("acme.", update(1, vec![challenge(owner)]), Rcode::NOERROR),
        ("acme.", update(2, vec![challenge("_acme-challenge.a.example")]), Rcode::REFUSED),
        ("acme.", update(3, vec![add(owner, 1)]), Rcode::REFUSED),
        ("acme.", update(4, vec![challenge(owner), add("www.a.example", 9)]), Rcode::REFUSED),
        ("all.", update(5, vec![add("www.b.example", 9)]), Rcode::NOTZONE),
        ("all.", in_use, Rcode::NXDOMAIN),
    ] {
        for over_tcp in [false, true] {
            assert_eq!(client.update(signer, &message, over_tcp), rcode, "{message:?}");
        }
    }
    let unsigned = client.exchange(&update(9, vec![add("www.a.example", 9)]).to_wire(), false);
    assert_eq!(unsigned[3] & 15, Rcode::REFUSED.0 as u8);
    assert!(daemon.ask("www.a.example").has("192.0.2.1"));
    assert_eq!(client.serial(false), 2, "only the first has changed anything");
}

/// A client that got no response sends the same datagram again, perhaps after another update was made.
#[test]
fn a_repeated_datagram_is_answered_but_not_applied_again() {
    let folder = TestFolder::new();
    let daemon = primary(&folder, "");
    let mut client = Client::new(daemon.address);
    let mut first = update(1, vec![add("x.a.example", 1)]).to_wire();
    let mac = TsigSigner::for_query(&key("all.")).sign(&mut first, 0, now_s()).expect("it is short");
    for again in [false, true] {
        let response = client.exchange(&first, false);
        assert_eq!(response[3] & 15, 0);
        assert_eq!(TsigVerifier::new(&key("all."), &mac).verify(&response, now_s()), Ok(()));
        assert_eq!(daemon.ask("x.a.example").has("192.0.2.1"), !again);
        client.update("all.", &update(2, vec![delete("x.a.example")]), true);
    }
    assert_eq!(client.serial(true), 3);
}

/// RFC 8945 10: within the fudge, whoever has seen a signed message could send it again, from another port and with another ID.
#[test]
fn a_replayed_update_is_answered_but_not_applied_again() {
    let folder = TestFolder::new();
    let daemon = primary(&folder, "");
    let mut client = Client::new(daemon.address);
    let mut first = update(1, vec![add("x.a.example", 1)]).to_wire();
    let mac = TsigSigner::for_query(&key("all.")).sign(&mut first, 0, now_s()).expect("it is short");
    assert_eq!(client.exchange(&first, true)[3] & 15, 0);
    assert_eq!(client.update("all.", &update(2, vec![delete("x.a.example")]), true), Rcode::NOERROR);
    for over_tcp in [false, true] {
        let response = Client::new(daemon.address).exchange(&first, over_tcp);
        assert_eq!(response[3] & 15, 0);
        assert_eq!(TsigVerifier::new(&key("all."), &mac).verify(&response, now_s()), Ok(()));
        let other_id = [&[9, 9], &first[2..]].concat();
        assert_eq!(Client::new(daemon.address).exchange(&other_id, over_tcp)[3] & 15, 0);
    }
    assert_eq!((daemon.ask("x.a.example").rcode(), client.serial(true)), (NXDOMAIN, 3));
}

/// Otherwise a client that may update an unsigned zone could sign it, and lock the others out.
#[test]
fn records_that_sign_a_zone_need_a_key_that_names_their_type() {
    let folder = TestFolder::new();
    let daemon = primary(&folder, "");
    let mut client = Client::new(daemon.address);
    let dnskey = record("a.example", Class::IN, Rtype::DNSKEY, b"\x01\x01\x03\x0d0123456789abcdef0123456789abcdef");
    let ns = record("a.example", Class::IN, Rtype::NS, b"\x02ns\x00");
    assert_eq!(client.update("all.", &update(1, vec![dnskey]), false), Rcode::REFUSED);
    assert_eq!(client.update("all.", &update(2, vec![ns]), false), Rcode::REFUSED);
    assert_eq!(client.update("all.", &update(3, vec![add("x.a.example", 1)]), false), Rcode::NOERROR);
    let ns = record("a.example", Class::IN, Rtype::NS, b"\x02ns\x00");
    assert_eq!(client.update("owner.", &update(4, vec![ns]), false), Rcode::NOERROR);
}

#[test]
fn large_updates_and_those_behind_them_are_applied_in_order() {
    let folder = TestFolder::new();
    let daemon = primary(&folder, "");
    let mut client = Client::new(daemon.address);
    let many: Vec<Record> = (0..1500).map(|number| add(&format!("h{number}.a.example"), 1)).collect();
    let mut messages = vec![update(0, many)];
    // Each needs the one before it.
    for id in 1..50 {
        let prerequisite = if id == 1 { "h1499".into() } else { format!("n{}", id - 1) };
        let answer = vec![delete(&format!("{prerequisite}.a.example"))];
        messages.push(Message { answer, ..update(id, vec![add(&format!("n{id}.a.example"), 1)]) });
    }
    for message in &messages {
        let mut octets = message.to_wire();
        TsigSigner::for_query(&key("all.")).sign(&mut octets, 0, now_s()).expect("it is short");
        client.send_over_tcp(&octets);
    }
    let mut answered: Vec<(u8, u8)> =
        messages.iter().map(|_| client.receive_over_tcp()).map(|r| (r[1], r[3] & 15)).collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..50).map(|id| (id, 0)).collect::<Vec<_>>());
    assert!(daemon.ask("n49.a.example").has("192.0.2.1"));
}

#[test]
fn serial_policies_and_signed_zones() {
    let folder = TestFolder::new();
    let daemon = primary(&folder, "serial-policy = \"unix\"\n");
    let mut client = Client::new(daemon.address);
    assert_eq!(client.update("all.", &update(1, vec![add("x.a.example", 1)]), false), Rcode::NOERROR);
    let age_s = now_s() - u64::from(client.serial(false));
    assert!(age_s < 60, "{age_s}");
    // RFC 2136 3.4.2.2, 3.6: a later serial in the update is taken.
    let soa = |serial: u32| {
        let numbers = [serial, 1, 1, 1, 1].map(u32::to_be_bytes).concat();
        record("a.example", Class::IN, Rtype::SOA, &[b"\x02ns\0\x04host\0", &numbers[..]].concat())
    };
    let later = client.serial(false) + 1000;
    assert_eq!(client.update("owner.", &update(2, vec![soa(later)]), false), Rcode::NOERROR);
    assert_eq!(client.serial(false), later);
    let dnskey = record("a.example", Class::IN, Rtype::DNSKEY, &[1, 1, 3, 13, 1, 2, 3, 4]);
    assert_eq!(client.update("owner.", &update(3, vec![dnskey]), false), Rcode::NOERROR);
    assert_eq!(client.update("all.", &update(4, vec![add("y.a.example", 1)]), false), Rcode::REFUSED);
    let log = daemon.wait_for_log("signed");
    assert!(log.contains("reason"), "{log}");
}

/// The serial that a policy gives to the file is always later: the file would win although it is older than the update.
#[test]
fn an_older_file_does_not_undo_updates_whatever_the_serial_policy_is() {
    for policy in ["keep", "increment", "date", "unix"] {
        let folder = TestFolder::new();
        let daemon = primary(&folder, &format!("serial-policy = \"{policy}\"\n"));
        let mut client = Client::new(daemon.address);
        assert_eq!(client.update("all.", &update(1, vec![add("x.a.example", 1)]), false), Rcode::NOERROR);
        folder.write_zone("a.example", 1, "192.0.2.9");
        let reload = folder.reload();
        assert!(reload.status == 1 && reload.out.contains("serial 1 of the file is not later"), "{policy}: {reload:?}");
        assert!(daemon.ask("x.a.example").has("192.0.2.1") && daemon.ask("www.a.example").has("192.0.2.1"), "{policy}");
        // Included files are read again after a restart.
        folder.write("zones/rest", "www 60 A 192.0.2.1\n");
        let serial = client.serial(false) + 1;
        let text = crate::harness::zone_text(serial, "192.0.2.1") + "x A 192.0.2.1\n$INCLUDE rest\n";
        folder.write("zones/a.example.zone", &text);
        assert_eq!(folder.reload().status, 0, "{policy}");
        assert_eq!(client.update("all.", &update(2, vec![add("y.a.example", 2)]), false), Rcode::NOERROR);
        daemon.kill();
        let daemon = folder.serve_with_config();
        assert_eq!(folder.reload().status, 0, "{policy}");
        assert!(daemon.ask("y.a.example").has("192.0.2.2"), "{policy}: {}", daemon.log());
    }
}

/// RFC 2136 6: the secondary passes the message on with its signature; the change comes back by NOTIFY and IXFR.
#[test]
fn a_secondary_forwards_updates_and_relays_the_response() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    let primary = primary(&first, "");
    // `acme.` is known here, `all.` is not.
    let config = config(&format!(
        "primaries = [\"127.0.0.1:9\", \"{}\"]\nmin-refresh-s = 1\nmin-retry-s = 1\nmax-refresh-s = 1\nforward-updates = true\n",
        primary.address
    ));
    second.write("zonda.toml", &config.replace("\"all.\"", "\"other.\""));
    let secondary = second.serve_with_config();
    let mut client = Client::new(secondary.address);
    for (last, over_tcp) in [(1, false), (2, true)] {
        let message = update(7, vec![add(&format!("f{last}.a.example"), last)]);
        assert_eq!(client.update("all.", &message, over_tcp), Rcode::NOERROR);
        assert!(primary.ask(&format!("f{last}.a.example")).has(&format!("192.0.2.{last}")));
    }
    let refused = update(8, vec![add("www.a.example", 9)]);
    assert_eq!(client.update("acme.", &refused, false), Rcode::REFUSED, "the primary refuses it");
    secondary.wait_until("transferred", || secondary.ask("f2.a.example").has("192.0.2.2"));
    let log = secondary.wait_for_log("update forwarded");
    assert!(log.contains("client=127.0.0.1") && log.contains("rcode=NOERROR"), "{log}");
    drop(primary);
    assert_eq!(client.update("acme.", &update(9, vec![add("www.a.example", 9)]), true), Rcode::SERVFAIL);
}

/// A check command takes longer than the idle timeout: the client still gets its response.
#[test]
fn rfc_7766_3_a_connection_that_waits_for_its_response_is_not_idle() {
    let folder = TestFolder::new();
    let daemon = primary(&folder, "check-command = [\"sleep\", \"2\"]\n");
    // The zone file is checked, too.
    daemon.wait_for_log("ready");
    folder.write("zonda.toml", &folder.read("zonda.toml").replace("[server]", "[server]\ntcp-idle-timeout-ms = 200"));
    drop(daemon);
    let daemon = folder.serve_with_config();
    daemon.wait_for_log("ready");
    let mut client = Client::new(daemon.address);
    assert_eq!(client.update("all.", &update(7, vec![add("slow.a.example", 1)]), true), Rcode::NOERROR);
}

/// The primary is reached by TLS: updates are forwarded by it, too.
#[test]
fn a_secondary_forwards_updates_over_tls() {
    let (first, second, certificates) = (TestFolder::new(), TestFolder::new(), TestCertificates::new());
    let own = certificates.issue("primary", &["primary.example"]);
    let zone =
        "file = \"zones/a.example.zone\"\nallow-transfer = [{ tls = true }]\nallow-update = [{ key = \"all.\" }]\n";
    let (certificate, key) = (own.certificate.display(), own.key.display());
    let server = format!("[server]\nlisten-tls = [\"127.0.0.1:0\"]\ntls-cert = \"{certificate}\"\ntls-key = \"{key}\"");
    first.write_zone("a.example", 1, "192.0.2.1");
    first.write("zonda.toml", &config(zone).replace("[server]", &server));
    let primary = first.serve_with_config();
    let address = primary.wait_for_address("listening for TLS");
    let zone = format!(
        "primaries = [{{ address = \"{address}\", tls = \"primary.example\" }}]\nmin-refresh-s = 1\nmax-refresh-s = 1\n\
         forward-updates = true\n"
    );
    let authority = format!("[server]\ntls-ca = \"{}\"", certificates.authority().display());
    second.write("zonda.toml", &config(&zone).replace("[server]", &authority));
    let secondary = second.serve_with_config();
    secondary.wait_for_log("zone received");
    let mut client = Client::new(secondary.address);
    for (last, over_tcp) in [(1, false), (2, true)] {
        let message = update(7, vec![add(&format!("f{last}.a.example"), last)]);
        assert_eq!(client.update("all.", &message, over_tcp), Rcode::NOERROR, "{}", secondary.log());
        assert!(primary.ask(&format!("f{last}.a.example")).has(&format!("192.0.2.{last}")));
    }
}

/// A secondary whose primary forwards updates back to it, by mistake, would have one update go round for ever.
#[test]
fn an_update_that_is_forwarded_back_is_not_forwarded_again() {
    let primary = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = primary.local_addr().expect("bound");
    let folder = TestFolder::new();
    folder.write_zone("a.example", 1, "192.0.2.1");
    folder.write(
        "zonda.toml",
        &config(&format!("file = \"zones/a.example.zone\"\nprimaries = [\"{address}\"]\nforward-updates = true\n")),
    );
    let secondary = folder.serve_with_config();
    let server = secondary.address;
    // Sends updates back with another ID, and passes on the response; does not answer anything else.
    std::thread::spawn(move || {
        for stream in primary.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut octets = [0; 2];
                stream.read_exact(&mut octets)?;
                let mut message = vec![0; u16::from_be_bytes(octets).into()];
                stream.read_exact(&mut message)?;
                if message[2] >> 3 == 5 {
                    let id = [message[0], message[1]];
                    message[0] ^= 0xff;
                    let mut response = Client::new(server).exchange(&message, true);
                    response[..2].copy_from_slice(&id);
                    stream.write_all(&[&(response.len() as u16).to_be_bytes(), &response[..]].concat())?;
                }
                std::io::copy(&mut stream, &mut std::io::sink())
            });
        }
    });
    let mut client = Client::new(server);
    let message = update(1, vec![add("x.a.example", 1)]).to_wire();
    for _ in 0..2 {
        assert_eq!(client.exchange(&message, true)[3] & 15, Rcode::SERVFAIL.0 as u8);
    }
    secondary.wait_for_log("do the primaries forward updates to this server?");
}

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
        let mut octets = update(self.sent as u16, records).to_wire();
        TsigSigner::for_query(&key("all.")).sign(&mut octets, 0, now_s()).expect("it is short");
        octets
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
