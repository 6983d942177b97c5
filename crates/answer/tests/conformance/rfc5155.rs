//! RFC 5155: signed zones with NSEC3, on the zone of appendix A and the responses of appendix B.

use wire::message::Record;

use crate::server::{Server, query};
use crate::subject::TCP;

/// The zone of RFC 5155 appendix A; the bits of keys and signatures are not its own.
const EXAMPLE: &str = "
example. 3600 IN SOA ns1.example. bugs.x.w.example. 1 3600 300 3600000 3600
example. 3600 RRSIG SOA 7 1 3600 20150420235959 20051021000000 40430 example. AAAA
example. 3600 NS ns1.example.
example. 3600 NS ns2.example.
example. 3600 RRSIG NS 7 1 3600 20150420235959 20051021000000 40430 example. AAAA
example. 3600 MX 1 xx.example.
example. 3600 RRSIG MX 7 1 3600 20150420235959 20051021000000 40430 example. AAAA
example. 3600 DNSKEY 256 3 7 AwEAAaet
example. 3600 DNSKEY 257 3 7 AwEAAcUl
example. 3600 RRSIG DNSKEY 7 1 3600 20150420235959 20051021000000 12708 example. AAAA
example. 3600 NSEC3PARAM 1 0 12 aabbccdd
example. 3600 RRSIG NSEC3PARAM 7 1 3600 20150420235959 20051021000000 40430 example. AAAA
0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example. 3600 NSEC3 1 1 12 aabbccdd 2t7b4g4vsa5smi47k61mv5bv1a22bojr NS SOA MX RRSIG DNSKEY NSEC3PARAM
0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example. 3600 RRSIG NSEC3 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
2t7b4g4vsa5smi47k61mv5bv1a22bojr.example. 3600 A 192.0.2.127
2t7b4g4vsa5smi47k61mv5bv1a22bojr.example. 3600 RRSIG A 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
2t7b4g4vsa5smi47k61mv5bv1a22bojr.example. 3600 NSEC3 1 1 12 aabbccdd 2vptu5timamqttgl4luu9kg21e0aor3s A RRSIG
2t7b4g4vsa5smi47k61mv5bv1a22bojr.example. 3600 RRSIG NSEC3 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
2vptu5timamqttgl4luu9kg21e0aor3s.example. 3600 NSEC3 1 1 12 aabbccdd 35mthgpgcu1qg68fab165klnsnk3dpvl MX RRSIG
2vptu5timamqttgl4luu9kg21e0aor3s.example. 3600 RRSIG NSEC3 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
35mthgpgcu1qg68fab165klnsnk3dpvl.example. 3600 NSEC3 1 1 12 aabbccdd b4um86eghhds6nea196smvmlo4ors995 NS DS RRSIG
35mthgpgcu1qg68fab165klnsnk3dpvl.example. 3600 RRSIG NSEC3 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
b4um86eghhds6nea196smvmlo4ors995.example. 3600 NSEC3 1 1 12 aabbccdd gjeqe526plbf1g8mklp59enfd789njgi MX RRSIG
b4um86eghhds6nea196smvmlo4ors995.example. 3600 RRSIG NSEC3 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
gjeqe526plbf1g8mklp59enfd789njgi.example. 3600 NSEC3 1 1 12 aabbccdd ji6neoaepv8b5o6k4ev33abha8ht9fgc A HINFO AAAA RRSIG
gjeqe526plbf1g8mklp59enfd789njgi.example. 3600 RRSIG NSEC3 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
ji6neoaepv8b5o6k4ev33abha8ht9fgc.example. 3600 NSEC3 1 1 12 aabbccdd k8udemvp1j2f7eg6jebps17vp3n8i58h
ji6neoaepv8b5o6k4ev33abha8ht9fgc.example. 3600 RRSIG NSEC3 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
k8udemvp1j2f7eg6jebps17vp3n8i58h.example. 3600 NSEC3 1 1 12 aabbccdd kohar7mbb8dc2ce8a9qvl8hon4k53uhi
k8udemvp1j2f7eg6jebps17vp3n8i58h.example. 3600 RRSIG NSEC3 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
kohar7mbb8dc2ce8a9qvl8hon4k53uhi.example. 3600 NSEC3 1 1 12 aabbccdd q04jkcevqvmu85r014c7dkba38o0ji5r A RRSIG
kohar7mbb8dc2ce8a9qvl8hon4k53uhi.example. 3600 RRSIG NSEC3 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
q04jkcevqvmu85r014c7dkba38o0ji5r.example. 3600 NSEC3 1 1 12 aabbccdd r53bq7cc2uvmubfu5ocmm6pers9tk9en A RRSIG
q04jkcevqvmu85r014c7dkba38o0ji5r.example. 3600 RRSIG NSEC3 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
r53bq7cc2uvmubfu5ocmm6pers9tk9en.example. 3600 NSEC3 1 1 12 aabbccdd t644ebqk9bibcna874givr6joj62mlhv MX RRSIG
r53bq7cc2uvmubfu5ocmm6pers9tk9en.example. 3600 RRSIG NSEC3 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
t644ebqk9bibcna874givr6joj62mlhv.example. 3600 NSEC3 1 1 12 aabbccdd 0p9mhaveqvm6t7vbl5lop2u3t2rp3tom A HINFO AAAA RRSIG
t644ebqk9bibcna874givr6joj62mlhv.example. 3600 RRSIG NSEC3 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
a.example. 3600 NS ns1.a.example.
a.example. 3600 NS ns2.a.example.
a.example. 3600 DS 58470 5 1 3079F1593EBAD6DC121E202A8B766A6A4837206C
a.example. 3600 RRSIG DS 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
ns1.a.example. 3600 A 192.0.2.5
ns2.a.example. 3600 A 192.0.2.6
ai.example. 3600 A 192.0.2.9
ai.example. 3600 RRSIG A 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
ai.example. 3600 HINFO \"KLH-10\" \"ITS\"
ai.example. 3600 RRSIG HINFO 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
ai.example. 3600 AAAA 2001:db8::f00:baa9
ai.example. 3600 RRSIG AAAA 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
c.example. 3600 NS ns1.c.example.
c.example. 3600 NS ns2.c.example.
ns1.c.example. 3600 A 192.0.2.7
ns2.c.example. 3600 A 192.0.2.8
ns1.example. 3600 A 192.0.2.1
ns1.example. 3600 RRSIG A 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
ns2.example. 3600 A 192.0.2.2
ns2.example. 3600 RRSIG A 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
*.w.example. 3600 MX 1 ai.example.
*.w.example. 3600 RRSIG MX 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
x.w.example. 3600 MX 1 xx.example.
x.w.example. 3600 RRSIG MX 7 3 3600 20150420235959 20051021000000 40430 example. AAAA
x.y.w.example. 3600 MX 1 xx.example.
x.y.w.example. 3600 RRSIG MX 7 4 3600 20150420235959 20051021000000 40430 example. AAAA
xx.example. 3600 A 192.0.2.10
xx.example. 3600 RRSIG A 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
xx.example. 3600 HINFO \"KLH-10\" \"TOPS-20\"
xx.example. 3600 RRSIG HINFO 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
xx.example. 3600 AAAA 2001:db8::f00:baaa
xx.example. 3600 RRSIG AAAA 7 2 3600 20150420235959 20051021000000 40430 example. AAAA
";

/// The SOA of all denials.
const SOA: &str = "
    example. 3600 SOA ns1.example. bugs.x.w.example. 1 3600 300 3600000 3600
    example. 3600 RRSIG SOA";

fn server() -> Server {
    Server::new(&[("example.", EXAMPLE)])
}

/// The NSEC3 records of these hashes and their signatures, as zone text.
fn nsec3(hashes: &[&str]) -> String {
    let is_wanted = |line: &&str| hashes.iter().any(|hash| line.starts_with(hash)) && line.contains("NSEC3");
    let lines: Vec<&str> = EXAMPLE.lines().filter(is_wanted).collect();
    assert_eq!(lines.len(), 2 * hashes.len());
    lines.join("\n")
}

#[test]
fn rfc_5155_b_1_name_error() {
    server().example(&format!(
        "a.c.x.w.example. A +do\n NXDOMAIN AA\n authority\n {SOA}\n {}",
        // The next closer name c.x.w is covered, the closest encloser x.w matched, its wildcard covered.
        nsec3(&["0p9m", "b4um", "35mt"])
    ));
}

#[test]
fn rfc_5155_b_2_no_data_error() {
    server().example(&format!("ns1.example. MX +do\n NOERROR AA\n authority\n {SOA}\n {}", nsec3(&["2t7b"])));
}

#[test]
fn rfc_5155_b_2_1_no_data_error_at_an_empty_non_terminal() {
    server().example(&format!("y.w.example. A +do\n NOERROR AA\n authority\n {SOA}\n {}", nsec3(&["ji6n"])));
}

#[test]
fn rfc_5155_b_3_referral_to_an_opt_out_unsigned_zone() {
    server().example(&format!(
        "mc.c.example. MX +do
         NOERROR
         authority
         c.example. 3600 NS ns1.c.example.
         c.example. 3600 NS ns2.c.example.
         {}
         additional
         ns1.c.example. 3600 A 192.0.2.7
         ns2.c.example. 3600 A 192.0.2.8",
        // c is covered, the closest provable encloser example matched.
        nsec3(&["35mt", "0p9m"])
    ));
}

#[test]
fn rfc_5155_b_4_wildcard_expansion() {
    server().example(&format!(
        "a.z.w.example. MX +do
         NOERROR AA
         answer
         a.z.w.example. 3600 MX 1 ai.example.
         a.z.w.example. 3600 RRSIG MX
         authority
         {}",
        // The next closer name z.w is covered.
        nsec3(&["q04j"])
    ));
}

#[test]
fn rfc_5155_b_5_wildcard_no_data_error() {
    server().example(&format!(
        "a.z.w.example. AAAA +do\n NOERROR AA\n authority\n {SOA}\n {}",
        // The closest encloser w is matched, z.w covered, *.w matched.
        nsec3(&["k8ud", "q04j", "r53b"])
    ));
}

/// Opt-out leaves out a wildcard and its ancestors that exist only for an unsigned delegation (erratum 3441): the hashes of
/// the wildcard and of names longer than the next closer name prove nothing.
#[test]
fn rfc_5155_7_2_5_a_wildcard_that_opt_out_leaves_out_has_no_data() {
    let zone = format!("{EXAMPLE}\nd.*.hidden.example. 3600 NS ns1.example.\n");
    Server::new(&[("example.", &zone)]).example(&format!(
        "a.hidden.example. A +do\n NOERROR AA\n authority\n {SOA}\n {}",
        // The closest provable encloser example is matched, hidden covered.
        nsec3(&["0p9m", "b4um"])
    ));
}

#[test]
fn rfc_5155_b_6_ds_of_the_apex_where_the_parent_is_not_served() {
    server().example(&format!("example. DS +do\n NOERROR AA\n authority\n {SOA}\n {}", nsec3(&["0p9m"])));
}

#[test]
fn rfc_5155_7_2_4_no_ds_at_an_opt_out_delegation() {
    server().example(&format!("c.example. DS +do\n NOERROR AA\n authority\n {SOA}\n {}", nsec3(&["35mt", "0p9m"])));
}

#[test]
fn rfc_5155_7_2_7_referral_to_a_signed_zone() {
    server().example(
        "mc.a.example. MX +do
         NOERROR
         authority
         a.example. 3600 NS ns1.a.example.
         a.example. 3600 NS ns2.a.example.
         a.example. 3600 DS 58470 5 1 3079F1593EBAD6DC121E202A8B766A6A4837206C
         a.example. 3600 RRSIG DS
         additional
         ns1.a.example. 3600 A 192.0.2.5
         ns2.a.example. 3600 A 192.0.2.6",
    );
}

#[test]
fn rfc_5155_7_2_8_owners_of_nsec3_do_not_exist() {
    // The name hashes to qasd..., *.example to jhsv...
    let denial = format!("NXDOMAIN AA\n authority\n {SOA}\n {}", nsec3(&["0p9m", "q04j", "gjeq"]));
    for qtype in ["NSEC3", "RRSIG", "A"] {
        server().example(&format!("0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example. {qtype} +do\n {denial}"));
    }
    server().example(
        "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example. NSEC3
         NXDOMAIN AA
         authority
         example. 3600 SOA ns1.example. bugs.x.w.example. 1 3600 300 3600000 3600",
    );
}

#[test]
fn rfc_5155_7_2_8_owners_of_nsec3_that_have_other_records_exist_for_these() {
    server().example(
        "2t7b4g4vsa5smi47k61mv5bv1a22bojr.example. A +do
         NOERROR AA
         answer
         2t7b4g4vsa5smi47k61mv5bv1a22bojr.example. 3600 A 192.0.2.127
         2t7b4g4vsa5smi47k61mv5bv1a22bojr.example. 3600 RRSIG A",
    );
    server().example(&format!(
        "2t7b4g4vsa5smi47k61mv5bv1a22bojr.example. NSEC3 +do\n NOERROR AA\n authority\n {SOA}\n {}",
        nsec3(&["kohar"])
    ));
}

#[test]
fn rfc_5155_3_without_do_no_nsec3() {
    server().example(
        "a.c.x.w.example. A
         NXDOMAIN AA
         authority
         example. 3600 SOA ns1.example. bugs.x.w.example. 1 3600 300 3600000 3600",
    );
}

/// The zone during a change of parameters: a record of another chain, with these, follows most records of its chain.
fn with_another_chain(parameters: &str) -> String {
    let owners = EXAMPLE.lines().filter(|line| line.contains(" NSEC3 ")).filter_map(|line| line.split('.').next());
    let others = owners.filter(|owner| !owner.ends_with('v')).map(|owner| {
        let other = format!("{}v", &owner[..31]);
        format!("{other}.example. 3600 NSEC3 {parameters} {other} A\n")
    });
    EXAMPLE.to_owned() + &others.collect::<String>()
}

#[test]
fn rfc_5155_8_2_records_with_other_parameters_are_passed_by() {
    // Other iterations and another salt; another algorithm.
    for parameters in ["1 1 0 -", "2 1 12 aabbccdd"] {
        let changing = with_another_chain(parameters);
        assert!(changing.len() > EXAMPLE.len() + 500);
        for question in [
            "a.c.x.w.example. A",
            "ns1.example. MX",
            "y.w.example. A",
            "mc.c.example. MX",
            "a.z.w.example. MX",
            "a.z.w.example. AAAA",
        ] {
            let proof = |zone: &str| -> Vec<Record> {
                Server::new(&[("example.", zone)]).ask(&query(&format!("{question} +do")), TCP).authority
            };
            assert_eq!(proof(&changing), proof(EXAMPLE), "{parameters}: {question}");
        }
    }
}
