//! The status of zones, as `zonda zone status --json` prints it, and waiting for it.

use serde_json::Value;

use crate::harness::{TestFolder, eventually};

/// The status of a zone.
pub fn status_of(folder: &TestFolder, zone: &str) -> Value {
    let output = folder.zone(&["status", zone, "--json"]);
    serde_json::from_str(&output.out).unwrap_or_else(|_| panic!("{} {}", output.out, output.err))
}

/// The status of `a.example`.
pub fn status(folder: &TestFolder) -> Value {
    status_of(folder, "a.example")
}

/// Waits until the status of `a.example` is as wanted; returns it.
#[track_caller]
pub fn wait_for(folder: &TestFolder, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut current = Value::Null;
    let is_as_wanted = eventually(|| {
        current = status(folder);
        wanted(&current)
    });
    assert!(is_as_wanted, "not {what}: {current}");
    current
}

/// Whether a status says that this serial is served.
pub fn serves(serial: u32) -> impl Fn(&Value) -> bool {
    move |status| status["state"] == "serving" && status["serial"] == serial
}
