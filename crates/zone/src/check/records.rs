//! Checks of single records, by `zonda check` only: service bindings, NSEC3 owners, CDS and CDNSKEY.

use wire::rdata::svcb::{ALPN, DOHPATH, identifiers, params};
use wire::{NameRef, Rtype};

use crate::build_options::BuildOptions;
use crate::check_list::{self, Check};
use crate::finding::Findings;
use crate::rrset::ZoneNode;
use crate::stage::StagedRecord;
use crate::zone::Zone;

/// Checks each record of an owner.
pub(crate) fn check_records(
    options: &BuildOptions<'_>,
    owner: NameRef<'_>,
    records: &[StagedRecord<'_>],
    found: &mut Findings,
) {
    for raw in records {
        let rule = match raw.rtype {
            Rtype::SVCB => check_service(owner, raw.rdata),
            Rtype::HTTPS => check_alias_mode(raw.rdata),
            Rtype::NSEC3 => check_hashed_owner(options, owner, raw.rdata),
            _ => None,
        };
        if let Some(rule) = rule {
            options.report(found, rule, (raw.file, raw.line), owner);
        }
    }
}

//----------- services ---------------------------------------------------------

fn check_service(owner: NameRef<'_>, rdata: &[u8]) -> Option<&'static Check> {
    check_alias_mode(rdata).or_else(|| check_dns_service(owner, rdata))
}

/// RFC 9460 2.4.2: recipients ignore parameters in AliasMode.
fn check_alias_mode(rdata: &[u8]) -> Option<&'static Check> {
    let has_params = !parameters(rdata)?.is_empty();
    (rdata.starts_with(&[0, 0]) && has_params).then_some(&check_list::ALIAS_MODE_WITH_PARAMETERS)
}

/// RFC 9461 4.1, 5: a DNS server has no default protocol, and DNS over HTTP needs a path.
fn check_dns_service(owner: NameRef<'_>, rdata: &[u8]) -> Option<&'static Check> {
    let mut labels = owner.labels();
    let is_dns = labels.next()?.eq_ignore_ascii_case(b"_dns")
        || owner.wire().get(1) == Some(&b'_') && labels.next()?.eq_ignore_ascii_case(b"_dns");
    if !is_dns || rdata.starts_with(&[0, 0]) {
        return None;
    }
    let parameters = parameters(rdata)?;
    let value = |wanted| params(parameters).find(|(key, _)| *key == wanted).map(|(_, value)| value);
    let Some(alpn) = value(ALPN) else {
        return Some(&check_list::DNS_WITHOUT_ALPN);
    };
    let is_over_http = identifiers(alpn).any(|protocol| matches!(protocol, b"h2" | b"h3" | b"http/1.1"));
    match value(DOHPATH) {
        None if is_over_http => Some(&check_list::DNS_WITHOUT_DOHPATH),
        Some(path) if !is_template(path) => Some(&check_list::BAD_DOHPATH),
        _ => None,
    }
}

/// RFC 9461 5: a relative template that contains the variable `dns`. RFC 6570 2: each expression ends in `}`.
fn is_template(path: &[u8]) -> bool {
    let mut expressions = path.split(|&byte| byte == b'{').skip(1);
    let is_whole = expressions.clone().all(|expression| expression.contains(&b'}'));
    let has_dns = |expression: &[u8]| {
        let names = expression.split(|&byte| byte == b'}').next().unwrap_or_default();
        names.split(|&byte| b"?&,/;.+#".contains(&byte)).any(|name| name == b"dns")
    };
    path.starts_with(b"/") && is_whole && expressions.any(has_dns)
}

/// The SvcParams: what follows priority and target.
fn parameters(rdata: &[u8]) -> Option<&[u8]> {
    let target = NameRef::from_wire(rdata.get(2..)?).ok()?;
    rdata.get(2 + target.wire().len()..)
}

//----------- DNSSEC -----------------------------------------------------------

/// RFC 5155 3: the owner is the hash in base32hex, one label below the apex: of SHA-1 32 characters.
fn check_hashed_owner(options: &BuildOptions<'_>, owner: NameRef<'_>, rdata: &[u8]) -> Option<&'static Check> {
    let label = owner.labels().next().unwrap_or_default();
    let is_hash = label.iter().all(|byte| matches!(byte.to_ascii_lowercase(), b'0'..=b'9' | b'a'..=b'v'));
    let is_right = owner.label_count() == options.apex.label_count() + 1
        && is_hash
        && (rdata.first() != Some(&1) || label.len() == 32);
    (!is_right).then_some(&check_list::BAD_NSEC3_OWNER)
}

/// RFC 7344 4.1, 5: CDS and CDNSKEY match a DNSKEY; RFC 8078 4: algorithm 0 requests deletion.
pub(crate) fn check_child_keys(zone: &Zone, options: &BuildOptions<'_>, found: &mut Findings) {
    let node = zone.apex_node();
    let keys: Vec<&[u8]> = rdata_of(node, Rtype::DNSKEY).collect();
    for rtype in [Rtype::CDS, Rtype::CDNSKEY] {
        let matches = |rdata: &[u8]| match (rtype, rdata) {
            (Rtype::CDS, [_, _, 0, ..]) | (Rtype::CDNSKEY, [_, _, _, 0, ..]) => true,
            (Rtype::CDS, [high, low, algorithm, ..]) => {
                let tag = u16::from_be_bytes([*high, *low]);
                keys.iter().any(|key| key.get(3) == Some(algorithm) && key_tag(key) == tag)
            }
            _ => keys.contains(&rdata),
        };
        if rdata_of(node, rtype).any(|rdata| !matches(rdata)) {
            options.report(found, &check_list::CHILD_KEY_WITHOUT_DNSKEY, (0, 0), rtype);
        }
    }
}

fn rdata_of(node: ZoneNode<'_>, rtype: Rtype) -> impl Iterator<Item = &[u8]> {
    node.rrset(rtype).into_iter().flat_map(|rrset| rrset.stored()).map(|stored| stored.bytes)
}

/// RFC 4034 B.
pub(crate) fn key_tag(dnskey: &[u8]) -> u16 {
    let sum: u32 = dnskey.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    (sum + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_of_rfc_9461_5() {
        for (path, is_right) in [
            ("/dns-query{?dns}", true),
            ("/q{?x,dns}", true),
            ("/{+dns}", true),
            ("/dns-query", false),
            ("dns-query{?dns}", false),
            ("/q{?dnssec}", false),
            ("/q{?dns", false),
            ("/q{?dns}{x", false),
            ("", false),
        ] {
            assert_eq!(is_template(path.as_bytes()), is_right, "{path}");
        }
    }

    /// RFC 4034 5.4: the key of the example has the tag 60485.
    #[test]
    fn key_tag_of_rfc_4034_5_4() {
        let key = "256 3 5 ( AQOeiiR0GOMYkDshWoSKz9Xz fwJr1AYtsmx3TGkJaNXVbfi/ 2pHm822aJ5iI9BMzNXxeYCmZ \
                   DRD99WYwYqUSdjMmmAphXdvxegXd/ M5+X7OrzKBaMbCVdFLUUh6DhweJBjEVv5f2wwjM9Xzc \
                   nOf+EPbtG9DMBmADjFDc2w/rljwvFw== )";
        let fields: Vec<_> = key
            .split_ascii_whitespace()
            .filter(|word| !"()".contains(word))
            .map(|word| crate::text::Field { text: word.as_bytes(), quoted: false, line: 1, column: 1 })
            .collect();
        let mut rdata = Vec::new();
        crate::text::rdata::parse(Rtype::DNSKEY, &fields, NameRef::ROOT, &mut rdata).expect("a key");
        assert_eq!(key_tag(&rdata), 60485);
    }
}
