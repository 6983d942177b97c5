//! Journals that are damaged, have another format, or cannot be opened.

use std::fs;

use crate::harness::{NOERROR, NXDOMAIN, TestFolder};
use crate::persistent_servers::{LARGE, SLOW, add, journal_files, primary, secondary, updater, wait_for_journal, zone};
use crate::zone_status::{serves, wait_for};

#[test]
fn a_damaged_image_is_reported_and_the_zone_transferred_anew() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    first.write("a.zone", &zone(1, SLOW, 3));
    let primary = primary(&first);
    let address = primary.address.to_string();
    let daemon = secondary(&second, &address, &["a.example"]);
    wait_for_journal(&second, b"example");
    // A later batch, without which the image may be one that a crash has cut.
    first.write("a.zone", &zone(2, SLOW, 3));
    assert_eq!(first.reload().status, 0);
    assert_eq!(second.zone(&["refresh", "a.example"]).status, 0);
    wait_for(&second, "transferred", serves(2));
    daemon.stop();
    for path in journal_files(&second, "journal-") {
        let mut octets = fs::read(&path).expect("it is readable");
        let place = octets.windows(7).position(|part| part == b"example");
        // Somewhere in the image, after the name of the record.
        if let Some(octet) = place.and_then(|place| octets.get_mut(place + 60)) {
            *octet ^= 4;
            fs::write(&path, octets).expect("it is writable");
        }
    }
    let daemon = secondary(&second, &address, &["a.example"]);
    daemon.wait_for_log("damaged");
    wait_for(&second, "transferred again", serves(2));
}

/// The image of a large zone has a file of its own.
#[test]
fn the_log_says_what_is_removed_with_a_damaged_image() {
    let folder = TestFolder::new();
    let text = "x".repeat(60);
    let zone = (0..30_000).fold(zone(1, SLOW, 0), |zone, host| zone + &format!("h{host} TXT {host}{text}\n"));
    folder.write("a.zone", &zone);
    let config = "[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\nallow-update = [\"127.0.0.1\"]\n";
    folder.write("zonda.toml", config);
    let daemon = folder.serve_with_config();
    assert_eq!(add(&updater(daemon.address), 7), Some(NOERROR));
    daemon.stop();
    let path = journal_files(&folder, "image-").pop().expect("an image");
    let mut octets = fs::read(&path).expect("it is readable");
    let middle = octets.len() / 2;
    octets[middle] ^= 4;
    fs::write(&path, &octets).expect("it is writable");
    let daemon = folder.serve_with_config();
    let line = daemon.wait_for_log("the stored version of the zone cannot be used, and is removed");
    let file = path.file_name().expect("a file").to_string_lossy().into_owned();
    let (image, kept_as) = (format!("image=\"{file}\""), format!("kept_as=\"{file}.damaged\""));
    for part in ["zone=a.example.", "serial=", &image, &kept_as, "changes=1", "is damaged at offset"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert_eq!(daemon.ask("u7.a.example").rcode(), NXDOMAIN);
    assert_eq!(add(&updater(daemon.address), 8), Some(NOERROR), "the zone is stored anew");
    daemon.stop();
    assert!(fs::read(path.with_extension("damaged")).expect("it is kept") == octets);
}

#[test]
fn a_journal_of_another_format_or_that_cannot_be_opened_prevents_the_start() {
    let folder = TestFolder::new();
    folder.write("a.zone", &zone(1, SLOW, LARGE));
    folder.write("zonda.toml", "[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\n");
    folder.serve_with_config().stop();
    let path = journal_files(&folder, "journal-").pop().expect("a segment");
    let good = fs::read(&path).expect("it is readable");
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--config", "zonda.toml"];
    fs::write(&path, future_format(&good)).expect("it is writable");
    let output = folder.run(&arguments);
    assert!(output.status != 0 && output.err.contains("format version 2 is not supported"), "{}", output.err);
    assert!(output.err.contains("move the folder away"), "{}", output.err);
    fs::remove_dir_all(path.parent().expect("it is in a folder")).expect("it is ours");
    fs::write(path.parent().expect("it is in a folder"), "not a folder").expect("a file");
    let output = folder.run(&arguments);
    assert!(output.status != 0 && output.err.contains("journal"), "{}", output.err);
}

/// The segment with the format version that a later version of the program may write, in both copies of the header.
fn future_format(segment: &[u8]) -> Vec<u8> {
    let mut octets = segment.to_vec();
    for copy in octets.chunks_exact_mut(40).take(2) {
        copy[8] += 1;
        let checksum = crc32c::crc32c(&copy[..36]);
        copy[36..].copy_from_slice(&checksum.to_le_bytes());
    }
    octets
}
