//! The status of a zone, as `zonda zone status` prints it and as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

use wire::NameRef;

use crate::printable::Printable;
use crate::storage::ZoneUsage;

/// Whether a zone is current, and why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneStatus {
    /// The zone, with its final dot.
    pub name: String,
    /// Whether it is served.
    pub state: ZoneServingState,
    /// The serial served; absent if it is not served.
    pub serial: Option<u32>,
    /// The highest serial that a primary reported; absent for a zone without primaries, or before the first answer.
    pub primary_serial: Option<u32>,
    /// When the zone expires without contact to a primary (RFC 3339); absent for a zone without primaries.
    pub expires_at: Option<String>,
    /// When a primary is asked next (RFC 3339); absent while one is being asked.
    pub refresh_at: Option<String>,
    /// The last transfer into this server.
    pub last_transfer: Option<LastTransfer>,
    /// Whether an operator has frozen it: neither its file nor transfers nor updates change it.
    #[serde(rename = "frozen", default)]
    pub is_frozen: bool,
    /// The serials of the earlier versions that are kept for a rollback, the latest first.
    #[serde(default)]
    pub kept_versions: Vec<u32>,
    /// What the journal in the state-dir has of the zone; absent if it has nothing, or the disk does not answer.
    #[serde(default)]
    pub journal: Option<ZoneUsage>,
    /// The template of a zone that was added or that a catalog lists; absent if the zone is configured itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub template: Option<String>,
    /// The catalogs that list the zone.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub catalogs: Vec<CatalogListing>,
    /// Why the zone is not served or not current, or why its last version was refused; absent if all is well.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
}

/// A catalog that lists a zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CatalogListing {
    /// The catalog.
    pub catalog: String,
    /// The groups of the zone in it; of a member that is served, the one that chose the template.
    pub groups: Vec<String>,
    /// Why the zone is not served as a member of this catalog; absent if it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
}

/// Whether a zone is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneServingState {
    /// Queries are answered.
    Serving,
    /// It was not read or transferred yet; queries get SERVFAIL.
    Loading,
    /// No primary has confirmed or replaced its version for too long; queries get SERVFAIL.
    Expired,
    /// It could not be read or transferred; queries get SERVFAIL.
    Failed,
    /// A catalog lists it, but it cannot be served; queries are refused.
    NotServed,
}

/// The latest transfer of a zone into this server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LastTransfer {
    /// `axfr` or `ixfr`; what was asked for if it failed.
    pub kind: String,
    /// The primary.
    pub primary: String,
    /// When it ended (RFC 3339).
    pub ended_at: String,
    /// The serial received; absent after a failure.
    pub serial: Option<u32>,
    /// Messages received.
    pub messages: u64,
    /// Octets received.
    pub octets: u64,
    /// Records received.
    pub records: u64,
    /// How long it took.
    pub seconds: f64,
    /// Why it failed; absent if it succeeded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
}

/// A time in seconds since 1970 as RFC 3339 in UTC.
pub fn rfc3339(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
}

impl ZoneStatus {
    /// Of a zone that is only listed by these catalogs.
    pub fn not_served(name: NameRef<'_>, catalogs: Vec<CatalogListing>) -> ZoneStatus {
        ZoneStatus { catalogs, ..ZoneStatus::new(name, ZoneServingState::NotServed) }
    }

    /// Of a zone of which nothing else is known.
    pub fn new(name: NameRef<'_>, state: ZoneServingState) -> ZoneStatus {
        ZoneStatus {
            name: name.to_string(),
            state,
            serial: None,
            primary_serial: None,
            expires_at: None,
            refresh_at: None,
            last_transfer: None,
            is_frozen: false,
            kept_versions: Vec::new(),
            journal: None,
            template: None,
            catalogs: Vec::new(),
            problem: None,
        }
    }
}

impl fmt::Display for ZoneServingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ZoneServingState::Serving => "serving",
            ZoneServingState::Loading => "loading",
            ZoneServingState::Expired => "expired",
            ZoneServingState::Failed => "failed",
            ZoneServingState::NotServed => "not served",
        })
    }
}

impl fmt::Display for ZoneStatus {
    /// `NAME: STATE, serial N (primary M), ...`, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Printable(&self.name), self.state)?;
        if self.is_frozen {
            f.write_str(", frozen")?;
        }
        if let Some(serial) = self.serial {
            write!(f, ", serial {serial}")?;
        }
        if let Some(serial) = self.primary_serial {
            write!(f, ", primary's serial {serial}")?;
        }
        if let Some(time) = &self.expires_at {
            write!(f, ", expires {}", Printable(time))?;
        }
        if let Some(time) = &self.refresh_at {
            write!(f, ", refresh {}", Printable(time))?;
        }
        if !self.kept_versions.is_empty() {
            let serials: Vec<String> = self.kept_versions.iter().map(u32::to_string).collect();
            write!(f, ", keeps {}", serials.join(" "))?;
        }
        if let Some(transfer) = &self.last_transfer {
            write!(f, "; last transfer: {transfer}")?;
        }
        if let Some(template) = &self.template {
            write!(f, "; template {}", Printable(template))?;
        }
        for listing in &self.catalogs {
            write!(f, "; {listing}")?;
        }
        let has_failed = self.last_transfer.as_ref().is_some_and(|transfer| transfer.failure.is_some());
        match self.problem.as_ref().filter(|_| !has_failed) {
            Some(problem) => write!(f, "; {}", Printable(problem)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for CatalogListing {
    /// `member of CATALOG, group GROUP`, or why not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.problem.is_some() { "listed in" } else { "member of" };
        write!(f, "{verb} {}", Printable(&self.catalog))?;
        for group in &self.groups {
            write!(f, ", group {}", Printable(group))?;
        }
        match &self.problem {
            Some(problem) => write!(f, ", not served as its member: {}", Printable(problem)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for LastTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LastTransfer { kind, primary, ended_at, .. } = self;
        write!(f, "{} from {} at {}", Printable(kind), Printable(primary), Printable(ended_at))?;
        match &self.failure {
            Some(failure) => write!(f, " failed: {}", Printable(failure)),
            None => write!(f, ", {} records, {} octets in {:.3} s", self.records, self.octets, self.seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn status() -> ZoneStatus {
        let name: wire::Name = "example.com.".parse().expect("a name");
        ZoneStatus {
            serial: Some(7),
            primary_serial: Some(8),
            expires_at: Some(rfc3339(1_795_348_800)),
            ..ZoneStatus::new(name.as_ref(), ZoneServingState::Serving)
        }
    }

    #[test]
    fn a_status_has_the_documented_keys() {
        let json = serde_json::to_value(status()).expect("JSON");
        let keys: Vec<&str> = json.as_object().expect("an object").keys().map(String::as_str).collect();
        let expected = [
            "expires-at",
            "frozen",
            "journal",
            "kept-versions",
            "last-transfer",
            "name",
            "primary-serial",
            "refresh-at",
            "serial",
            "state",
        ];
        assert!(expected.iter().all(|key| keys.contains(key)) && keys.len() == expected.len(), "{keys:?}");
        assert_eq!(json["state"], "serving");
        assert_eq!(json["expires-at"], "2026-11-22T12:00:00Z");
    }

    #[test]
    fn the_manual_explains_every_key_of_a_status() {
        let report = LastTransfer { failure: Some("reset".into()), ..transfer() };
        let problem = Some("reset".to_owned());
        let listing = CatalogListing { catalog: "c.".into(), groups: Vec::new(), problem: problem.clone() };
        let journal = Some(ZoneUsage { image_octets: 1, change_octets: 2, history_octets: 3 });
        let template = Some("t".into());
        let full =
            ZoneStatus { last_transfer: Some(report), template, journal, catalogs: vec![listing], problem, ..status() };
        let json = serde_json::to_value(full).expect("JSON");
        let (rows, keys) = (table_of_keys(), json.as_object().expect("an object"));
        let documented: BTreeSet<&str> = rows.iter().flat_map(|(keys, _)| quoted(keys)).collect();
        assert_eq!(documented, keys.keys().map(String::as_str).collect());
        let row =
            |key: &str| rows.iter().find(|(keys, _)| quoted(keys).any(|it| it == key)).expect("it is documented").1;
        for (key, value) in keys {
            let missing: Vec<String> =
                keys_of(value).into_iter().filter(|inner| !quoted(row(key)).any(|it| it == inner)).collect();
            assert!(missing.is_empty(), "{missing:?} of `{key}`");
        }
        use ZoneServingState::{Expired, Failed, Loading, NotServed, Serving};
        for state in [Serving, Loading, Expired, Failed, NotServed] {
            let state = serde_json::to_value(state).expect("JSON");
            assert!(quoted(row("state")).any(|it| state == it), "{state}");
        }
    }

    /// The rows of the manual's table of keys: their keys, and what it says about these.
    fn table_of_keys() -> Vec<(&'static str, &'static str)> {
        let manual = include_str!("../../../docs/manual/zonda.md");
        let (_, table) = manual.split_once("\n| key | value |\n| --- | --- |\n").expect("the table of keys");
        let cells = |line: &'static str| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ");
        table.lines().map_while(cells).collect()
    }

    /// What is between backticks.
    fn quoted(text: &str) -> impl Iterator<Item = &str> {
        text.split('`').skip(1).step_by(2)
    }

    fn keys_of(value: &serde_json::Value) -> Vec<String> {
        match value {
            serde_json::Value::Object(entries) => {
                entries.iter().flat_map(|(key, value)| [vec![key.clone()], keys_of(value)].concat()).collect()
            }
            serde_json::Value::Array(entries) => entries.iter().flat_map(keys_of).collect(),
            _ => Vec::new(),
        }
    }

    fn transfer() -> LastTransfer {
        LastTransfer {
            kind: "ixfr".into(),
            primary: "192.0.2.1:53".into(),
            ended_at: rfc3339(0),
            serial: None,
            messages: 1,
            octets: 12,
            records: 0,
            seconds: 0.5,
            failure: None,
        }
    }

    #[test]
    fn a_status_is_one_line() {
        let report = LastTransfer { failure: Some("the primary says REFUSED\n".into()), ..transfer() };
        let status = ZoneStatus { last_transfer: Some(report), ..status() };
        assert_eq!(
            status.to_string(),
            "example.com.: serving, serial 7, primary's serial 8, expires 2026-11-22T12:00:00Z; last transfer: \
             ixfr from 192.0.2.1:53 at 1970-01-01T00:00:00Z failed: the primary says REFUSED\\u{a}"
        );
    }
}
