//! Dynamic update of a running daemon (RFC 2136): what is changed, answered and refused.

use wire::message::{Message, Rcode, Record};
use wire::{Class, Rtype};

use crate::harness::{NXDOMAIN, TestFolder, zone_text};
use crate::update_client::{Client, add, assert_signed, delete, now_s, primary, record, signed, update};

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
    let (first, mac) = signed(&update(1, vec![add("x.a.example", 1)]), "all.");
    for again in [false, true] {
        let response = client.exchange(&first, false);
        assert_eq!(response[3] & 15, 0);
        assert_signed(&response, "all.", &mac);
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
    let (first, mac) = signed(&update(1, vec![add("x.a.example", 1)]), "all.");
    assert_eq!(client.exchange(&first, true)[3] & 15, 0);
    assert_eq!(client.update("all.", &update(2, vec![delete("x.a.example")]), true), Rcode::NOERROR);
    for over_tcp in [false, true] {
        let response = Client::new(daemon.address).exchange(&first, over_tcp);
        assert_eq!(response[3] & 15, 0);
        assert_signed(&response, "all.", &mac);
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
        client.send_over_tcp(&signed(message, "all.").0);
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
        let text = zone_text(serial, "192.0.2.1") + "x A 192.0.2.1\n$INCLUDE rest\n";
        folder.write("zones/a.example.zone", &text);
        assert_eq!(folder.reload().status, 0, "{policy}");
        assert_eq!(client.update("all.", &update(2, vec![add("y.a.example", 2)]), false), Rcode::NOERROR);
        daemon.kill();
        let daemon = folder.serve_with_config();
        assert_eq!(folder.reload().status, 0, "{policy}");
        assert!(daemon.ask("y.a.example").has("192.0.2.2"), "{policy}: {}", daemon.log());
    }
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
