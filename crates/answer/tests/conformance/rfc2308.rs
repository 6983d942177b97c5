//! RFC 2308, RFC 8020, RFC 6604: negative answers, their TTL and response code.

use crate::server::Server;

fn zone(soa_ttl: u32, minimum: u32) -> String {
    format!(
        "example. {soa_ttl} IN SOA ns. host. 1 2 3 4 {minimum}
         example. 60 NS ns.
         a.b.example. 60 A 192.0.2.1
         alias.example. 60 CNAME gone.example.
         half.example. 60 CNAME a.b.example.
         away.example. 60 CNAME gone.other.
        "
    )
}

#[test]
fn rfc_2308_5_the_ttl_is_the_lesser_of_the_soa_s_and_its_minimum() {
    for (soa_ttl, minimum, negative) in [(3600, 300, 300), (300, 3600, 300), (7, 7, 7), (3600, 0, 0)] {
        let server = Server::new(&[("example.", &zone(soa_ttl, minimum))]);
        let soa = format!("authority\n example. {negative} SOA ns. host. 1 2 3 4 {minimum}");
        server.example(&format!("example. A\n NOERROR AA\n {soa}"));
        server.example(&format!("gone.example. A\n NXDOMAIN AA\n {soa}"));
        let positive = format!("answer\n example. {soa_ttl} SOA ns. host. 1 2 3 4 {minimum}");
        server.example(&format!("example. SOA\n NOERROR AA\n {positive}"));
    }
}

#[test]
fn rfc_8020_2_a_name_with_names_below_it_exists() {
    let server = Server::new(&[("example.", &zone(60, 60))]);
    let soa = "authority\n example. 60 SOA ns. host. 1 2 3 4 60";
    server.example(&format!("b.example. A\n NOERROR AA\n {soa}"));
    server.example(&format!("c.b.example. A\n NXDOMAIN AA\n {soa}"));
    server.example(&format!("c.a.b.example. A\n NXDOMAIN AA\n {soa}"));
}

#[test]
fn rfc_6604_3_the_code_of_a_chain_is_that_of_its_end() {
    let server = Server::new(&[("example.", &zone(60, 60))]);
    let soa = "authority\n example. 60 SOA ns. host. 1 2 3 4 60";
    server.example(&format!("alias.example. A\n NXDOMAIN AA\n answer\n alias.example. 60 CNAME gone.example.\n {soa}"));
    server.example(&format!("half.example. MX\n NOERROR AA\n answer\n half.example. 60 CNAME a.b.example.\n {soa}"));
}

#[test]
fn rfc_2308_2_1_a_chain_into_another_zone_has_the_denial_of_that() {
    let other = "
        other. 30 IN SOA ns. host. 9 8 7 6 20
        other. 60 NS ns.
        ";
    Server::new(&[("example.", &zone(60, 60)), ("other.", other)]).example(
        "away.example. A
         NXDOMAIN AA
         answer
         away.example. 60 CNAME gone.other.
         authority
         other. 20 SOA ns. host. 9 8 7 6 20",
    );
}
