//! Compares RDATA with that of the `domain` crate, for the types it supports.

use domain::base::rdata::ComposeRecordData;
use domain::zonefile::inplace::{Entry, Zonefile};

use super::good::RECORDS;
use super::{hex, rdata};

/// Differences of `domain` 0.12: it reads `@` in RDATA as a label, and the value of docpath as octets, not a list (RFC 9953).
const DIFFERENT: &[(&str, &str)] = &[("NS", "@"), ("SVCB", "1 . docpath=dns,q pvd")];

/// The RDATA by `domain`; `None` if it does not support the type or the notation.
fn rdata_by_domain(rtype: &str, text: &str) -> Option<Vec<u8>> {
    let zone = format!("$ORIGIN example.\na 0 IN {rtype} {text}\n");
    let Ok(Some(Entry::Record(record))) = Zonefile::from(zone.as_str()).next_entry() else { return None };
    let mut rdata = Vec::new();
    record.data().compose_rdata(&mut rdata).expect("a Vec takes all");
    Some(rdata)
}

#[test]
fn domain_agrees() {
    let mut known = 0;
    for (rtype, text, ..) in RECORDS.iter().filter(|(rtype, text, ..)| !DIFFERENT.contains(&(rtype, text))) {
        if let Some(theirs) = rdata_by_domain(rtype, text) {
            let ours = rdata(rtype, text).expect("right");
            assert_eq!(hex(&ours), hex(&theirs), "{rtype} {text}");
            known += 1;
        }
    }
    assert!(known >= 70, "domain supports only {known} of them");
}
