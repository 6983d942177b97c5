//! Dynamic updates that a secondary forwards to its primary (RFC 2136 6).

use std::io::{Read, Write};

use wire::message::Rcode;

use crate::harness::TestFolder;
use crate::test_certificates::TestCertificates;
use crate::update_client::{Client, add, config, primary, update};

/// RFC 2136 6: the secondary passes the message on with its signature; the change comes back by NOTIFY and IXFR.
#[test]
fn a_secondary_forwards_updates_and_relays_the_response() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    let primary = primary(&first, "");
    // `acme.` is known here, `all.` is not.
    let config = config(&format!(
        "primaries = [\"127.0.0.1:9\", \"{}\"]\nmin-refresh-s = 1\nmin-retry-s = 1\nmax-refresh-s = 1\nforward-updates = true\n",
        primary.address
    ));
    second.write("zonda.toml", &config.replace("\"all.\"", "\"other.\""));
    let secondary = second.serve_with_config();
    let mut client = Client::new(secondary.address);
    for (last, over_tcp) in [(1, false), (2, true)] {
        let message = update(7, vec![add(&format!("f{last}.a.example"), last)]);
        assert_eq!(client.update("all.", &message, over_tcp), Rcode::NOERROR);
        assert!(primary.ask(&format!("f{last}.a.example")).has(&format!("192.0.2.{last}")));
    }
    let refused = update(8, vec![add("www.a.example", 9)]);
    assert_eq!(client.update("acme.", &refused, false), Rcode::REFUSED, "the primary refuses it");
    secondary.wait_until("transferred", || secondary.ask("f2.a.example").has("192.0.2.2"));
    let log = secondary.wait_for_log("update forwarded");
    assert!(log.contains("client=127.0.0.1") && log.contains("rcode=NOERROR"), "{log}");
    drop(primary);
    assert_eq!(client.update("acme.", &update(9, vec![add("www.a.example", 9)]), true), Rcode::SERVFAIL);
}

/// The primary is reached by TLS: updates are forwarded by it, too.
#[test]
fn a_secondary_forwards_updates_over_tls() {
    let (first, second, certificates) = (TestFolder::new(), TestFolder::new(), TestCertificates::new());
    let own = certificates.issue("primary", &["primary.example"]);
    let zone =
        "file = \"zones/a.example.zone\"\nallow-transfer = [{ tls = true }]\nallow-update = [{ key = \"all.\" }]\n";
    let (certificate, key) = (own.certificate.display(), own.key.display());
    let server = format!("[server]\nlisten-tls = [\"127.0.0.1:0\"]\ntls-cert = \"{certificate}\"\ntls-key = \"{key}\"");
    first.write_zone("a.example", 1, "192.0.2.1");
    first.write("zonda.toml", &config(zone).replace("[server]", &server));
    let primary = first.serve_with_config();
    let address = primary.wait_for_address("listening for TLS");
    let zone = format!(
        "primaries = [{{ address = \"{address}\", tls = \"primary.example\" }}]\nmin-refresh-s = 1\nmax-refresh-s = 1\n\
         forward-updates = true\n"
    );
    let authority = format!("[server]\ntls-ca = \"{}\"", certificates.authority().display());
    second.write("zonda.toml", &config(&zone).replace("[server]", &authority));
    let secondary = second.serve_with_config();
    secondary.wait_for_log("zone received");
    let mut client = Client::new(secondary.address);
    for (last, over_tcp) in [(1, false), (2, true)] {
        let message = update(7, vec![add(&format!("f{last}.a.example"), last)]);
        assert_eq!(client.update("all.", &message, over_tcp), Rcode::NOERROR, "{}", secondary.log());
        assert!(primary.ask(&format!("f{last}.a.example")).has(&format!("192.0.2.{last}")));
    }
}

/// A secondary whose primary forwards updates back to it, by mistake, would have one update go round for ever.
#[test]
fn an_update_that_is_forwarded_back_is_not_forwarded_again() {
    let primary = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = primary.local_addr().expect("bound");
    let folder = TestFolder::new();
    folder.write_zone("a.example", 1, "192.0.2.1");
    folder.write(
        "zonda.toml",
        &config(&format!("file = \"zones/a.example.zone\"\nprimaries = [\"{address}\"]\nforward-updates = true\n")),
    );
    let secondary = folder.serve_with_config();
    let server = secondary.address;
    // Sends updates back with another ID, and passes on the response; does not answer anything else.
    std::thread::spawn(move || {
        for stream in primary.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut octets = [0; 2];
                stream.read_exact(&mut octets)?;
                let mut message = vec![0; u16::from_be_bytes(octets).into()];
                stream.read_exact(&mut message)?;
                if message[2] >> 3 == 5 {
                    let id = [message[0], message[1]];
                    message[0] ^= 0xff;
                    let mut response = Client::new(server).exchange(&message, true);
                    response[..2].copy_from_slice(&id);
                    stream.write_all(&[&(response.len() as u16).to_be_bytes(), &response[..]].concat())?;
                }
                std::io::copy(&mut stream, &mut std::io::sink())
            });
        }
    });
    let mut client = Client::new(server);
    let message = update(1, vec![add("x.a.example", 1)]).to_wire();
    for _ in 0..2 {
        assert_eq!(client.exchange(&message, true)[3] & 15, Rcode::SERVFAIL.0 as u8);
    }
    secondary.wait_for_log("do the primaries forward updates to this server?");
}
