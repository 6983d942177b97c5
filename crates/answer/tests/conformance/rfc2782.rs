//! RFC 1035 3.3, RFC 2782, RFC 9460 4.2: addresses in the additional section.

use crate::server::Server;

const ZONE: &str = "
    example. 3600 SOA ns.example. host.example. 1 2 3 4 60
    example. 3600 NS ns.example.
    example. 3600 HTTPS 1 . alpn=h2
    example. 3600 A 192.0.2.1
    ns.example. 3600 A 192.0.2.2
    _sip._tcp.example. 3600 SRV 1 2 5060 sip.example.
    sip.example. 3600 AAAA 2001:db8::3
    _dns.example. 3600 SVCB 1 dns.example. alpn=dot
    dns.example. 3600 A 192.0.2.4
    alias.example. 3600 HTTPS 0 .
    alias.example. 3600 A 192.0.2.5
    ";

fn example(text: &str) {
    Server::new(&[("example.", ZONE)]).example(text);
}

#[test]
fn rfc_1035_3_3_11_ns_brings_the_addresses_of_the_servers() {
    example("example. NS\nNOERROR AA\nanswer\nexample. 3600 NS ns.example.\nadditional\nns.example. 3600 A 192.0.2.2");
}

#[test]
fn rfc_2782_srv_brings_the_addresses_of_its_target() {
    example(
        "_sip._tcp.example. SRV
         NOERROR AA
         answer
         _sip._tcp.example. 3600 SRV 1 2 5060 sip.example.
         additional
         sip.example. 3600 AAAA 2001:db8::3",
    );
}

#[test]
fn rfc_9460_4_2_svcb_brings_the_addresses_of_its_target() {
    example(
        "_dns.example. SVCB
         NOERROR AA
         answer
         _dns.example. 3600 SVCB 1 dns.example. alpn=dot
         additional
         dns.example. 3600 A 192.0.2.4",
    );
}

#[test]
fn rfc_9460_2_5_2_the_target_of_a_service_may_be_its_owner() {
    example(
        "example. HTTPS\nNOERROR AA\nanswer\nexample. 3600 HTTPS 1 . alpn=h2\nadditional\nexample. 3600 A 192.0.2.1",
    );
}

#[test]
fn rfc_9460_2_5_1_alias_mode_to_the_root_has_no_addresses() {
    example("alias.example. HTTPS\nNOERROR AA\nanswer\nalias.example. 3600 HTTPS 0 .\nadditional");
}
