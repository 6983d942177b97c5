//! A second opinion: the `domain` crate, where it knows the type.

use domain::base::rdata::ComposeRecordData;
use domain::zonefile::inplace::{Entry, Zonefile};

use super::good::RECORDS;
use super::{hex, rdata};

/// What `domain` 0.12 has otherwise: it takes `@` in RDATA for a label, and the value of docpath for plain octets (RFC 9953: a list).
const OTHERWISE: &[(&str, &str)] = &[("NS", "@"), ("SVCB", "1 . docpath=dns,q pvd")];

/// The octets that `domain` makes of the text; `None` if it does not know the type or the notation.
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
    for (rtype, text, ..) in RECORDS.iter().filter(|(rtype, text, ..)| !OTHERWISE.contains(&(rtype, text))) {
        if let Some(theirs) = rdata_by_domain(rtype, text) {
            let ours = rdata(rtype, text).expect("right");
            assert_eq!(hex(&ours), hex(&theirs), "{rtype} {text}");
            known += 1;
        }
    }
    assert!(known >= 70, "domain knows only {known} of them");
}
