//! A secondary becomes a primary with a zone file: whether the file wins over updates is decided as for any other primary.

use crate::harness::{Daemon, NOERROR, TestFolder};
use crate::persistent_servers::{SLOW, add, primary, secondary, updater, zone};
use crate::zone_status::{serves, wait_for};

const OF_FILE: &str = "[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\nallow-update = [\"127.0.0.1\"]\n";

/// A secondary that has serial 5 from a primary, which is gone.
fn former_secondary(folder: &TestFolder) -> Daemon {
    let first = TestFolder::new();
    first.write("a.zone", &zone(5, SLOW, 3));
    let primary = primary(&first);
    let daemon = secondary(folder, &primary.address.to_string(), &["a.example"]);
    wait_for(folder, "transferred", serves(5));
    daemon
}

/// An edited zone file wins with a later serial, or if the zone was not updated since the file was last read. Here the file is missing when the
/// zone becomes a primary, by a reload or by a restart, and is written after an update.
#[test]
fn a_file_does_not_win_over_the_updates_of_a_former_secondary() {
    for is_restarted in [false, true] {
        let folder = TestFolder::new();
        let mut daemon = former_secondary(&folder);
        folder.write("zonda.toml", OF_FILE);
        if is_restarted {
            daemon.stop();
            daemon = folder.serve_with_config();
        } else {
            assert_eq!(folder.reload().status, 1, "its file is missing");
        }
        assert_eq!(add(&updater(daemon.address), 7), Some(NOERROR), "{}", daemon.log());
        daemon.stop();
        folder.write("a.zone", &zone(1, SLOW, 1));
        let daemon = folder.serve_with_config();
        daemon.wait_for_log("is not later than");
        assert!(daemon.ask("u7.a.example").has("192.0.2.1"), "restarted {is_restarted}: {}", daemon.log());
    }
}

/// What a primary has sent is no update.
#[test]
fn a_file_wins_over_what_a_former_primary_has_sent() {
    let folder = TestFolder::new();
    let daemon = former_secondary(&folder);
    folder.write("zonda.toml", OF_FILE);
    assert_eq!(folder.reload().status, 1, "its file is missing");
    daemon.stop();
    folder.write("a.zone", &(zone(1, SLOW, 1) + "new A 192.0.2.9\n"));
    let daemon = folder.serve_with_config();
    assert!(daemon.ask("new.a.example").has("192.0.2.9"), "{}", daemon.log());
}
