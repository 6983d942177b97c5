//! The size of the journal: its limits, `zonda zone status` and `zonda metrics`.

use wire::message::{Message, Rcode, Record};
use wire::serial::of_soa;
use wire::{Class, Rtype};

use crate::harness::TestFolder;
use crate::update_client::{Client, name, record, update};
use crate::zone_status::{status, wait_for};

const UPDATES: u8 = 200;

/// Whether the transfer from this serial has changes, or the whole zone (RFC 1995 4).
fn is_incremental(client: &mut Client, serial: u32) -> bool {
    let mut soa = record("a.example", Class::IN, Rtype::SOA, &[]);
    soa.rdata = [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat();
    let query = Message { authority: vec![soa], ..Message::query(name("a.example"), Rtype::IXFR) };
    let response = Message::parse(&client.exchange(&query.to_wire(), true)).expect("well-formed");
    let serial_of = |record: &Record| of_soa(&record.rdata).filter(|_| record.rtype == Rtype::SOA);
    serial_of(&response.answer[1]) == Some(serial)
}

/// RFC 1995 5: "Information about older versions should be purged". The oldest changes are dropped, in memory and in the journal, and
/// no update is refused.
#[test]
fn the_history_of_a_zone_is_limited_in_memory_and_on_disk() {
    let folder = TestFolder::new();
    folder.write_zone("a.example", 1, "192.0.2.1");
    folder.write(
        "zonda.toml",
        "[server]\nstate-dir = \"state\"\n[[zone]]\nname = \"a.example\"\nfile = \"zones/a.example.zone\"\n\
         allow-transfer = [\"127.0.0.1\"]\nallow-update = [\"127.0.0.1\"]\nmax-journal-bytes = 2000\n",
    );
    let daemon = folder.serve_with_config();
    assert_eq!(status(&folder)["journal"], serde_json::Value::Null, "a small file is read again");
    let mut client = Client::new(daemon.address);
    for number in 0..UPDATES {
        let text = [&[200][..], &[number; 200]].concat();
        let add = record(&format!("n{number}.a.example"), Class::IN, Rtype::TXT, &text);
        let response = client.exchange(&update(number.into(), vec![add]).to_wire(), true);
        assert_eq!(Message::parse(&response).expect("well-formed").rcode, Rcode::NOERROR);
    }
    let newest = 1 + u32::from(UPDATES);
    assert!(is_incremental(&mut client, newest - 2) && !is_incremental(&mut client, newest - 20));
    // The first snapshot is due after 16 KiB of changes.
    let is_snapshot = |status: &serde_json::Value| status["journal"]["history-octets"].as_u64() > Some(0);
    let status = wait_for(&folder, "stored", is_snapshot);
    let octets = |key: &str| status["journal"][key].as_u64().unwrap_or_else(|| panic!("{key}: {status}"));
    assert!(octets("history-octets") <= 2000 && octets("image-octets") > 200, "{status}");
    assert_eq!(folder.metric("zonda_journal_history_octets"), octets("history-octets"));
    assert!(folder.metric("zonda_journal_dropped_changes_total") > 10);
    assert!(folder.metric("zonda_journal_dropped_octets_total") > 2000);
    assert!(folder.metric("zonda_journal_log_octets") >= folder.metric("zonda_journal_live_octets"));
    assert_eq!(folder.metric("zonda_updates_total{transport=\"tcp\"}"), u64::from(UPDATES));
    daemon.kill();
    let daemon = folder.serve_with_config();
    let mut client = Client::new(daemon.address);
    assert!(is_incremental(&mut client, newest - 2) && !is_incremental(&mut client, newest - 20));
}
