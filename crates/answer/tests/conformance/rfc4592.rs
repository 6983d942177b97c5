//! RFC 4592: wildcards.

use crate::server::Server;

/// The zone of RFC 4592 2.2.1.
const EXAMPLE: &str = "
$ORIGIN example.
@ 3600 IN SOA ns.example.com. admin.example. 1 7200 900 604800 3600
@ 3600 NS ns.example.com.
@ 3600 NS ns.example.net.
*.example. 3600 TXT \"this is a wildcard\"
*.example. 3600 MX 10 host1.example.
sub.*.example. 3600 TXT \"this is not a wildcard\"
host1.example. 3600 A 192.0.2.1
_ssh._tcp.host1.example. 3600 SRV 0 0 22 host1.example.
_ssh._tcp.host2.example. 3600 SRV 0 0 22 host2.example.
subdel.example. 3600 NS ns.example.com.
subdel.example. 3600 NS ns.example.net.
";

fn example(example: &str) {
    Server::new(&[("example.", EXAMPLE)]).example(example);
}

#[test]
fn rfc_4592_2_2_1_mx_of_a_name_that_does_not_exist() {
    example(
        "host3.example. MX
         NOERROR AA
         answer
         host3.example. 3600 MX 10 host1.example.",
    );
}
