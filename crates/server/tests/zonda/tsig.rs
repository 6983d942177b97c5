//! Signed queries and transfers, asked by the tools of other servers.

use std::process::{Command, Output};

use crate::harness::{Daemon, TestFolder, outcome, report_skipped};

const SECRET: &str = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=";
const OTHER: &str = "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";

fn config(keys: &[(&str, &str)], allowed: &str) -> String {
    let key =
        |(name, secret)| format!("[[key]]\nname = \"{name}\"\nalgorithm = \"hmac-sha256\"\nsecret = \"{secret}\"\n");
    let keys: String = keys.iter().copied().map(key).collect();
    format!(
        "{keys}[[zone]]\nname = \"example.com\"\nfile = \"zones/example.com.zone\"\nallow-transfer = [{{ key = \"{allowed}\" }}]\n"
    )
}

/// Asks with `dig` or `kdig`; `None` without that program.
fn ask(program: &str, daemon: &Daemon, arguments: &[&str]) -> Option<String> {
    let port = daemon.address.port().to_string();
    let output: Output = Command::new(program).args(["@127.0.0.1", "-p", &port]).args(arguments).output().ok()?;
    Some(outcome(output).out)
}

#[test]
fn dig_and_kdig_transfer_with_keys_and_a_reload_changes_them() {
    let folder = TestFolder::new();
    folder.write_zone("example.com", 1, "192.0.2.1");
    folder.write("zonda.toml", &config(&[("old.", SECRET)], "old."));
    let daemon = folder.serve_with_config();
    let mut is_transferred = false;
    let (old, new) = (format!("hmac-sha256:old.:{SECRET}"), format!("hmac-sha256:new.:{OTHER}"));
    for program in ["dig", "kdig"] {
        let ask = |arguments: &[&str]| ask(program, &daemon, arguments);
        let Some(transferred) = ask(&["example.com", "AXFR", "-y", &old]) else {
            report_skipped(&format!("{program} is not installed"));
            continue;
        };
        assert!(transferred.contains("192.0.2.1") && transferred.contains("TSIG"), "{program}: {transferred}");
        is_transferred = true;
        let answer = ask(&["www.example.com", "A", "-y", &old]).expect("it is installed");
        assert!(answer.contains("192.0.2.1") && answer.to_lowercase().contains("tsig"), "{program}: {answer}");
        let unsigned = ask(&["example.com", "AXFR"]).expect("it is installed");
        assert!(!unsigned.contains("192.0.2.1"), "{program}: {unsigned}");
        let unknown = ask(&["www.example.com", "A", "-y", &new]).expect("it is installed");
        assert!(unknown.contains("NOTAUTH") || unknown.contains("BADKEY"), "{program}: {unknown}");
    }
    folder.write("zonda.toml", &config(&[("old.", SECRET), ("new.", OTHER)], "new."));
    let reload = folder.run(&["reload"]);
    assert_eq!(reload.status, 0, "{}", reload.err);
    if let Some(transferred) = ask("dig", &daemon, &["example.com", "AXFR", "-y", &new]) {
        assert!(transferred.contains("192.0.2.1"), "{transferred}");
        let answer = ask("dig", &daemon, &["www.example.com", "A", "-y", &old]).expect("it is installed");
        assert!(answer.contains("192.0.2.1"), "both keys are valid: {answer}");
    }
    check_truncation(&folder, &daemon);
    if is_transferred {
        assert!(daemon.wait_for_log("zone transferred").contains("old."));
    }
    let log = daemon.log();
    assert!(!log.contains(SECRET) && !log.contains(OTHER), "{log}");
}

/// RFC 8945 5.2.2.1: a key of BIND for `hmac-sha256-128` signs with 16 of 32 octets.
fn check_truncation(folder: &TestFolder, daemon: &Daemon) {
    let truncated = format!("hmac-sha256-128:new.:{OTHER}");
    let keys = config(&[("new.", OTHER)], "new.");
    for (least, is_accepted) in [(0, false), (20, false), (16, true)] {
        let key = keys.replace("algorithm", &format!("min-mac-octets = {least}\nalgorithm"));
        folder.write("zonda.toml", &key);
        let reload = folder.run(&["reload"]);
        assert_eq!(reload.status, 0, "{}", reload.err);
        let Some(answer) = ask("dig", daemon, &["www.example.com", "A", "-y", &truncated]) else { return };
        assert_eq!(answer.contains("192.0.2.1\n"), is_accepted, "{least}: {answer}");
        assert_eq!(answer.contains("BADTRUNC"), !is_accepted, "{least}: {answer}");
    }
}
