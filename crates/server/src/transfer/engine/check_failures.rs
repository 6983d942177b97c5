//! Why primaries gave no serial, for the log and for `zonda zone status`: which primary, and what it answered.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

use super::super::Now;
use super::super::primary::PrimaryId;
use super::super::refresh::ProbeResult;
use super::super::session::TransferSink;
use super::TransferEngine;
use crate::zone_id::ZoneId;

/// The reasons of the checks in progress, by the index of the zone.
#[derive(Default)]
pub(super) struct CheckFailures(HashMap<u32, Vec<(SocketAddr, Box<str>)>>);

impl CheckFailures {
    fn add(&mut self, zone: ZoneId, primary: SocketAddr, reason: String) {
        let of_zone = self.0.entry(zone.index).or_default();
        of_zone.retain(|(known, _)| *known != primary);
        of_zone.push((primary, reason.into()));
    }

    /// The check has ended, or begins anew.
    pub(super) fn forget(&mut self, zone: ZoneId) {
        self.0.remove(&zone.index);
    }

    /// The check has ended without a serial: which primary has answered what.
    pub(super) fn take(&mut self, zone: ZoneId) -> Option<String> {
        let of_zone = self.0.remove(&zone.index)?;
        Some(list(of_zone.iter().map(|(primary, reason)| (*primary, Some(&**reason)))))
    }
}

impl<T: TransferSink> TransferEngine<T> {
    /// A primary gave no serial of a zone, for this reason.
    pub(super) fn probe_failed(
        &mut self,
        zone: ZoneId,
        primary: PrimaryId,
        result: ProbeResult,
        reason: String,
        now: Now,
    ) {
        let address = self.scheduler.primary(primary).map(|config| config.address);
        if let Some(address) = address.filter(|_| self.scheduler.contains(zone)) {
            self.check_failures.add(zone, address, reason);
        }
        self.probe_result(zone, primary, result, now);
    }

    /// Why a zone waits, if none of its primaries can be reached: they are tried again by one message at a time.
    pub(super) fn unreachable_primaries(&self, zone: ZoneId) -> Option<String> {
        let reason = |primary: &PrimaryId| {
            let link = self.links.get(primary);
            let address = self.scheduler.primary(*primary)?.address;
            Some((address, link.and_then(|link| link.failure.as_deref())))
        };
        let silent = self.scheduler.silent_primaries(zone);
        (!silent.is_empty()).then(|| format!("no primary can be reached: {}", list(silent.iter().filter_map(reason))))
    }
}

fn list<'r>(primaries: impl Iterator<Item = (SocketAddr, Option<&'r str>)>) -> String {
    let mut list = String::new();
    for (primary, reason) in primaries {
        let (separator, colon) = (if list.is_empty() { "" } else { "; " }, if reason.is_some() { ": " } else { "" });
        // Writing to a string never fails.
        _ = write!(list, "{separator}{primary}{colon}{}", reason.unwrap_or_default());
    }
    list
}
