//! Dynamic update (RFC 2136): prerequisites, rights, the update section and the serial.

use wire::message::{Rcode, Record};
use wire::{Class, Message, Name, NameRef, Rtype};
use zone::change::ChangeRules;
use zone::load::load_text;
use zone::serial_policy::SerialPolicy;
use zone::update::{UpdateRefusal, UpdateRules, prepare};
use zone::{CheckMode, Zone};

const ZONE: &str = "
z. 300 SOA ns.z. host.z. 5 60 60 600 60
z. 300 NS ns.z.
z. 300 NS ns2.z.
ns.z. 300 A 192.0.2.1
ns2.z. 300 A 192.0.2.2
two.z. 300 A 192.0.2.3
two.z. 300 A 192.0.2.4
two.z. 300 TXT one
alias.z. 300 CNAME two.z.
below.empty.z. 300 A 192.0.2.5
";

fn zone_of(text: &str) -> Zone {
    let apex = name("z.");
    load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone")
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// A record of the prerequisite or update section: `CLASS OWNER TTL TYPE [DATA]`.
fn record(line: &str) -> Record {
    let mut words = line.split_whitespace();
    let mut word = || words.next().expect("a word");
    let class = word().parse().expect("a class");
    let (owner, ttl) = (name(word()), word().parse().expect("a TTL"));
    let rtype: Rtype = word().parse().expect("a type");
    let data: Vec<&str> = words.collect();
    Record { owner, rtype, class, ttl, rdata: if data.is_empty() { Vec::new() } else { rdata(rtype, &data) } }
}

fn rdata(rtype: Rtype, data: &[&str]) -> Vec<u8> {
    match rtype {
        Rtype::A => data[0].parse::<std::net::Ipv4Addr>().expect("an address").octets().to_vec(),
        Rtype::NS | Rtype::CNAME | Rtype::DNAME => name(data[0]).wire().to_vec(),
        Rtype::SOA => {
            let numbers = data[2..].iter().flat_map(|number| number.parse::<u32>().expect("a number").to_be_bytes());
            [name(data[0]).wire(), name(data[1]).wire()].concat().into_iter().chain(numbers).collect()
        }
        _ => [&[data[0].len() as u8], data[0].as_bytes()].concat(),
    }
}

const ALL: &dyn Fn(NameRef<'_>, Rtype) -> bool = &|_, _| true;

fn rules(allows: &dyn Fn(NameRef<'_>, Rtype) -> bool) -> UpdateRules<'_> {
    UpdateRules { allows, allows_signed: false, serial_policy: SerialPolicy::Keep, now_s: 0 }
}

fn run(zone: &Zone, rules: &UpdateRules<'_>, prerequisites: &[&str], updates: &[&str]) -> Result<Zone, UpdateRefusal> {
    let answer = prerequisites.iter().map(|line| record(line)).collect();
    let authority = updates.iter().map(|line| record(line)).collect();
    // Through the wire, as updates arrive.
    run_message(zone, rules, &Message { answer, authority, ..Message::default() }.to_wire())
}

fn run_message(zone: &Zone, rules: &UpdateRules<'_>, message: &[u8]) -> Result<Zone, UpdateRefusal> {
    let message = Message::parse(message).expect("a well-formed message");
    let change = prepare(&message, zone, rules)?;
    if change.is_empty() {
        return Ok(zone.clone());
    }
    let rules = ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: 150 };
    Ok(zone.apply(change, rules).expect("a valid change").zone)
}

fn update(updates: &[&str]) -> Zone {
    run(&zone_of(ZONE), &rules(ALL), &[], updates).expect("an allowed update")
}

/// The RCODE of an update with these prerequisites.
fn rcode(prerequisites: &[&str], updates: &[&str]) -> Rcode {
    let result = run(&zone_of(ZONE), &rules(ALL), prerequisites, updates);
    result.map_or_else(|refusal| refusal.rcode, |_| Rcode::NOERROR)
}

/// `OWNER TYPE COUNT TTL` of every RRset but the SOA record, and the serial.
fn content(zone: &Zone) -> (Vec<String>, u32) {
    let sets = zone.nodes().flat_map(|(entry, node)| {
        let owner = zone.owner(&entry);
        node.rrsets().map(move |set| format!("{owner} {} {} {}", set.rtype, set.count, set.ttl)).collect::<Vec<_>>()
    });
    (sets.filter(|set| !set.contains("SOA")).collect(), zone.serial())
}

/// Checks that an update removes and adds exactly these RRsets, and increments the serial if there are any.
#[track_caller]
fn check(updates: &[&str], removed: &[&str], added: &[&str]) {
    let (before, after) = (content(&zone_of(ZONE)), content(&update(updates)));
    let only = |these: &[String], others: &[String]| -> Vec<String> {
        these.iter().filter(|set| !others.contains(set)).cloned().collect()
    };
    assert_eq!((only(&before.0, &after.0), only(&after.0, &before.0)), (strings(removed), strings(added)));
    let is_changed = !removed.is_empty() || !added.is_empty();
    assert_eq!(after.1, before.1 + u32::from(is_changed), "RFC 2136 3.6: a change increments the serial");
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| text.to_string()).collect()
}

//----------- prerequisites ----------------------------------------------------

#[test]
fn rfc_2136_3_2_prerequisites() {
    for (prerequisite, expected) in [
        ("ANY two.z. 0 ANY", Rcode::NOERROR),
        ("ANY TWO.Z. 0 ANY", Rcode::NOERROR),
        ("ANY none.z. 0 ANY", Rcode::NXDOMAIN),
        ("ANY empty.z. 0 ANY", Rcode::NXDOMAIN),
        ("ANY two.z. 0 A", Rcode::NOERROR),
        ("ANY two.z. 0 AAAA", Rcode::NXRRSET),
        ("NONE none.z. 0 ANY", Rcode::NOERROR),
        ("NONE two.z. 0 ANY", Rcode::YXDOMAIN),
        ("NONE two.z. 0 AAAA", Rcode::NOERROR),
        ("NONE two.z. 0 A", Rcode::YXRRSET),
        ("IN two.z. 0 A 192.0.2.3", Rcode::NXRRSET),
        ("IN alias.z. 0 CNAME TWO.z.", Rcode::NOERROR),
        ("ANY two.z. 1 ANY", Rcode::FORMERR),
        ("ANY two.z. 0 A 192.0.2.3", Rcode::FORMERR),
        ("NONE two.z. 0 A 192.0.2.3", Rcode::FORMERR),
        ("CH two.z. 0 A 192.0.2.3", Rcode::FORMERR),
        ("ANY two.other. 0 ANY", Rcode::NOTZONE),
    ] {
        assert_eq!(rcode(&[prerequisite], &[]), expected, "{prerequisite}");
    }
}

#[test]
fn rfc_2136_3_2_3_an_rrset_must_be_equal_in_any_order() {
    assert_eq!(rcode(&["IN two.z. 0 A 192.0.2.4", "IN two.z. 0 A 192.0.2.3"], &[]), Rcode::NOERROR);
    let more = ["IN two.z. 0 A 192.0.2.4", "IN two.z. 0 A 192.0.2.3", "IN two.z. 0 A 192.0.2.9"];
    assert_eq!(rcode(&more, &[]), Rcode::NXRRSET);
}

#[test]
fn rfc_2136_3_2_a_failed_prerequisite_leaves_the_zone_unchanged() {
    assert_eq!(rcode(&["ANY none.z. 0 ANY"], &["IN a.z. 300 A 192.0.2.9"]), Rcode::NXDOMAIN);
}

//----------- the update section -----------------------------------------------

#[test]
fn rfc_2136_3_4_1_malformed_updates_are_refused() {
    for (line, expected) in [
        ("IN a.z. 300 ANY x", Rcode::FORMERR),
        ("IN a.z. 300 AXFR x", Rcode::FORMERR),
        ("ANY a.z. 300 A", Rcode::FORMERR),
        ("ANY a.z. 0 A 192.0.2.1", Rcode::FORMERR),
        ("ANY a.z. 0 AXFR", Rcode::FORMERR),
        ("NONE a.z. 300 A 192.0.2.1", Rcode::FORMERR),
        ("NONE a.z. 0 ANY x", Rcode::FORMERR),
        ("NONE a.z. 0 A", Rcode::FORMERR),
        ("CH a.z. 0 A 192.0.2.1", Rcode::FORMERR),
        ("IN a.other. 300 A 192.0.2.1", Rcode::NOTZONE),
    ] {
        assert_eq!(rcode(&[], &["IN b.z. 300 A 192.0.2.1", line]), expected, "{line}");
    }
}

#[test]
fn rfc_2136_3_4_2_2_additions() {
    check(&["IN a.z. 60 A 192.0.2.9"], &[], &["a.z. A 1 60"]);
    check(&["IN two.z. 300 A 192.0.2.3"], &[], &[]);
    check(&["IN two.z. 60 A 192.0.2.3"], &["two.z. A 2 300"], &["two.z. A 2 60"]);
    check(&["IN two.z. 300 A 192.0.2.9"], &["two.z. A 2 300"], &["two.z. A 3 300"]);
    check(&["IN two.z. 300 CNAME ns.z."], &[], &[]);
    check(&["IN alias.z. 300 A 192.0.2.9"], &[], &[]);
    check(&["IN alias.z. 60 CNAME ns.z."], &["alias.z. CNAME 1 300"], &["alias.z. CNAME 1 60"]);
    check(&["IN two.z. 300 SOA ns.z. host.z. 9 1 1 1 1"], &[], &[]);
}

#[test]
fn rfc_2181_8_a_large_ttl_is_treated_as_0() {
    check(&["IN a.z. 2147483647 A 192.0.2.9"], &[], &["a.z. A 1 2147483647"]);
    for ttl in [1 << 31, u32::MAX] {
        check(&[&format!("IN two.z. {ttl} A 192.0.2.3")], &["two.z. A 2 300"], &["two.z. A 2 0"]);
        let zone = zone_of(&format!("{ZONE}a.z. 0 A 192.0.2.9\n"));
        let same = run(&zone, &rules(ALL), &[], &[&format!("IN a.z. {ttl} A 192.0.2.9")]).expect("an allowed update");
        assert_eq!(same.serial(), zone.serial(), "nothing has changed");
    }
}

#[test]
fn rfc_2136_3_4_2_3_and_4_deletions() {
    check(&["ANY two.z. 0 A"], &["two.z. A 2 300"], &[]);
    check(&["ANY two.z. 0 ANY"], &["two.z. A 2 300", "two.z. TXT 1 300"], &[]);
    check(&["NONE two.z. 0 A 192.0.2.4"], &["two.z. A 2 300"], &["two.z. A 1 300"]);
    check(&["NONE two.z. 0 A 192.0.2.99"], &[], &[]);
    check(&["ANY none.z. 0 ANY"], &[], &[]);
    check(&["NONE alias.z. 0 CNAME TWO.Z."], &["alias.z. CNAME 1 300"], &[]);
}

/// Some clients compress the target of SRV records.
#[test]
fn rfc_3597_4_compressed_names_in_older_types_are_the_same_records() {
    // `_x._tcp.z. SRV 0 0 1 z.`, with pointers to the name of the zone section.
    let message = |[prerequisites, updates]: [u8; 2], class: Class, ttl: u8| {
        let [class_high, class_low] = class.0.to_be_bytes();
        let header = [0, 0, 0x28, 0, 0, 1, 0, prerequisites, 0, updates, 0, 0];
        let head = [0, 33, class_high, class_low, 0, 0, 0, ttl, 0, 8];
        [&header[..], b"\x01z\0\0\x06\0\x01", b"\x02_x\x04_tcp\xc0\x0c", &head, b"\0\0\0\0\0\x01\xc0\x0c"].concat()
    };
    let run = |zone: &Zone, message: &[u8]| run_message(zone, &rules(ALL), message).expect("an allowed update");
    let added = run(&zone_of(ZONE), &message([0, 1], Class::IN, 60));
    assert_eq!(added.rdatas(name("_x._tcp.z.").as_ref(), Rtype::SRV), [b"\0\0\0\0\0\x01\x01z\0"]);
    run(&added, &message([1, 0], Class::IN, 0));
    let deleted = run(&added, &message([0, 1], Class::NONE, 0));
    assert_eq!(content(&deleted).0, content(&zone_of(ZONE)).0);
}

#[test]
fn rfc_2136_3_4_2_the_soa_record_and_the_last_ns_record_stay() {
    check(&["ANY z. 0 ANY"], &[], &[]);
    check(&["ANY z. 0 NS"], &[], &[]);
    check(&["ANY z. 0 SOA"], &[], &[]);
    check(&["NONE z. 0 SOA ns.z. host.z. 5 60 60 600 60"], &[], &[]);
    check(&["NONE z. 0 NS ns.z.", "NONE z. 0 NS ns2.z."], &["z. NS 2 300"], &["z. NS 1 300"]);
}

#[test]
fn rfc_2136_3_4_2_records_are_applied_in_order() {
    let lines = ["ANY two.z. 0 ANY", "IN two.z. 300 CNAME ns.z."];
    check(&lines, &["two.z. A 2 300", "two.z. TXT 1 300"], &["two.z. CNAME 1 300"]);
    check(&["IN a.z. 60 A 192.0.2.9", "ANY a.z. 0 A"], &[], &[]);
}

//----------- the serial -------------------------------------------------------

#[test]
fn rfc_2136_3_6_the_serial_increases() {
    let serial = |lines: &[&str]| update(lines).serial();
    assert_eq!(serial(&["IN z. 300 SOA ns.z. host.z. 9 60 60 600 60", "IN a.z. 300 A 192.0.2.9"]), 9);
    assert_eq!(serial(&["IN z. 300 SOA ns.z. host.z. 4 60 60 600 60", "IN a.z. 300 A 192.0.2.9"]), 6);
    assert_eq!(serial(&["IN z. 300 SOA ns.z. host.z. 9 60 60 600 60"]), 9);
    let by_time = UpdateRules { serial_policy: SerialPolicy::Unix, now_s: 1_000, ..rules(ALL) };
    let zone = run(&zone_of(ZONE), &by_time, &[], &["IN a.z. 300 A 192.0.2.9"]).expect("an allowed update");
    assert_eq!(zone.serial(), 1_000);
}

//----------- rights -----------------------------------------------------------

#[test]
fn rfc_2136_3_3_rights_are_checked_for_every_record() {
    let txt_at_two = &|owner: NameRef<'_>, rtype| rtype == Rtype::TXT && *owner.wire() == *name("two.z.").wire();
    let rcode = |lines: &[&str]| run(&zone_of(ZONE), &rules(txt_at_two), &[], lines).map_err(|refusal| refusal.rcode);
    assert!(rcode(&["IN two.z. 300 TXT two"]).is_ok());
    for lines in [
        &["IN two.z. 300 A 192.0.2.9"][..],
        &["IN a.z. 300 TXT two"],
        &["ANY two.z. 0 ANY"],
        &["IN two.z. 300 TXT two", "NONE two.z. 0 A 192.0.2.3"],
    ] {
        assert_eq!(rcode(lines).err(), Some(Rcode::REFUSED), "{lines:?}");
    }
}

#[test]
fn updates_of_signed_zones_need_a_right_and_bring_their_soa_record() {
    let signed = zone_of(&format!("{ZONE}\nz. 300 DNSKEY 257 3 13 AAAA\n"));
    let result = |allows_signed, lines: &[&str]| {
        run(&signed, &UpdateRules { allows_signed, ..rules(ALL) }, &[], lines).map(|zone| zone.serial())
    };
    let add = "IN a.z. 300 A 192.0.2.9";
    assert_eq!(result(false, &[add]).map_err(|refusal| refusal.rcode), Err(Rcode::REFUSED));
    assert_eq!(result(true, &[add]).map_err(|refusal| refusal.rcode), Err(Rcode::REFUSED));
    assert_eq!(result(true, &[add, "IN z. 300 SOA ns.z. host.z. 9 60 60 600 60"]), Ok(9));
    assert_eq!(result(false, &[]), Ok(5), "prerequisites alone may be asked");
}

//----------- cost -------------------------------------------------------------

/// A message of 64 KiB can name an owner with many records thousands of times, in prerequisites as well as in updates.
#[test]
fn the_cost_is_that_of_the_records_not_of_their_product() {
    const RECORDS: usize = 40_000;
    const UPDATES: usize = 3000;
    let mut text = ZONE.to_owned();
    (0..RECORDS).for_each(|number| text += &format!("many.z. 300 TYPE65280 \\# 4 {number:08x}\n"));
    let zone = zone_of(&text);
    let number = |number: usize| (number as u32).to_be_bytes().to_vec();
    let many = |class, rdata: Vec<u8>, rtype| Record { owner: name("many.z."), rtype, class, ttl: 0, rdata };
    let rtype = Rtype(65280);
    let prerequisites = [many(Class::ANY, Vec::new(), Rtype::ANY), many(Class::IN, number(1), rtype)];
    let updates: [Vec<Record>; 3] = [
        (0..UPDATES).map(|at| Record { ttl: 300, ..many(Class::IN, number(RECORDS + at), rtype) }).collect(),
        (0..UPDATES).map(|at| many(Class::NONE, number(at), rtype)).collect(),
        (0..UPDATES).map(|_| many(Class::ANY, Vec::new(), Rtype::ANY)).collect(),
    ];
    let began = std::time::Instant::now();
    let exists = Message { answer: vec![prerequisites[0].clone(); UPDATES], ..Message::default() };
    assert!(prepare(&exists, &zone, &rules(ALL)).is_ok_and(|change| change.is_empty()));
    let equals = Message { answer: vec![prerequisites[1].clone(); UPDATES], ..Message::default() };
    assert_eq!(prepare(&equals, &zone, &rules(ALL)).err().map(|refusal| refusal.rcode), Some(Rcode::NXRRSET));
    for (authority, changed) in updates.into_iter().zip([UPDATES, UPDATES, RECORDS]) {
        let message = Message { authority, ..Message::default() };
        let change = prepare(&message, &zone, &rules(ALL)).expect("an allowed update");
        assert_eq!(change.len(), changed + 2, "and the SOA record");
    }
    // A quarter of a second. With a search for each record it takes a hundred times as long.
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
}
