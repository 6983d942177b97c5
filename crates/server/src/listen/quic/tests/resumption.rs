//! Sessions that are resumed, and early data (0-RTT).

use rustls::client::Resumption;

use super::*;

#[test]
fn rfc_8446_2_2_later_connections_resume_sessions_and_are_counted() {
    let mut world = World::new(|_| {});
    let tls = world.tls(&RemoteTls::default());
    for number in 1..5 {
        if number == 3 {
            world.reload();
        }
        let client = world.start(number, tls.clone());
        world.run();
        world.exchange(client, &message(QUERY, 0, 1));
        assert_eq!(world.totals().resumed, u64::from(number) - 1);
    }
    world.connect(5);
    assert_eq!(world.totals().resumed, 3, "another client has no session");
}

#[test]
fn rfc_9250_4_5_early_data_has_queries_and_all_else_waits_for_the_handshake() {
    let mut world = World::new(|_| {});
    let tls = world.tls(&RemoteTls::default());
    let first = world.start(1, tls.clone());
    world.run();
    world.exchange(first, &message(QUERY, 0, 1));
    let second = world.start(2, tls);
    assert!(world.clients[second].connection.has_0rtt(), "the client has a ticket");
    let others = [NOTIFY, UPDATE, DSO].map(|opcode| world.ask(second, &message(opcode, 0, 5)));
    let transfers = [Rtype::AXFR, Rtype::IXFR].map(|rtype| world.ask(second, &question(rtype)));
    let queries = [Rtype::SOA, Rtype::A].map(|rtype| world.ask(second, &question(rtype)));
    world.deliver_to_server();
    assert_eq!(world.totals().queries, 1 + 2, "only queries are answered before the handshake is complete");
    world.run();
    assert!(world.clients[second].connection.accepted_0rtt());
    let mut ids = [&others[..], &transfers, &queries].concat().into_iter();
    assert!(ids.all(|id| world.clients[second].received[&id].1 == StreamEnd::Finished));
    assert_eq!((world.totals().queries, world.totals().resumed), (1 + 7, 1));
}

#[test]
fn early_queries_of_clients_with_a_certificate_wait_for_their_names() {
    let mut world = World::new(|_| {});
    let own = world.certificates.issue("client", &["secondary.example.net"]);
    let remote = RemoteTls { client: Some((own.certificate, own.key)), ..RemoteTls::default() };
    let mut tls = world.tls(&remote);
    // Zonda itself does without, other clients do not.
    tls.resumption = Resumption::in_memory_sessions(2);
    let first = world.start(1, tls.clone());
    world.run();
    assert_eq!(world.exchange(first, &message(QUERY, CLIENT_NAMES, 9))[13], 1);
    let second = world.start(2, tls);
    assert!(world.clients[second].connection.has_0rtt(), "the client has a ticket");
    let id = world.ask(second, &message(QUERY, CLIENT_NAMES, 9));
    world.run();
    assert!(world.clients[second].connection.accepted_0rtt());
    assert_eq!(world.clients[second].received[&id].0[15], 1, "after the prefix of two octets");
    assert_eq!(world.totals().resumed, 1);
}

/// Datagrams that arrive from an address.
fn deliver(world: &mut World, address: SocketAddr, datagrams: &[Vec<u8>]) {
    world.server.begin_round(Duration::ZERO);
    for octets in datagrams {
        world.server.receive(arrival(address, octets), world.now, &mut world.network);
    }
    world.server.finish_round(world.now, &mut world.network);
}

/// The ticket of the client was given out once, and so nobody can have its query answered again.
#[test]
fn rfc_8446_8_1_a_replayed_first_flight_is_not_answered() {
    let mut world = World::new(|_| {});
    let tls = world.tls(&RemoteTls::default());
    world.start(1, tls.clone());
    world.run();
    let second = world.start(2, tls);
    world.ask(second, &message(QUERY, 0, 5));
    let (address, flight) = (world.clients[second].address, world.clients[second].transmits(world.now));
    deliver(&mut world, address, &flight);
    assert_eq!(world.totals().queries, 1, "in early data");
    world.clients.clear();
    world.wait(Duration::from_secs(30));
    assert_eq!(world.server.connections(), 0, "the packets do not belong to the connection any more");
    deliver(&mut world, SocketAddr::from(([10, 0, 0, 9], 4000)), &flight);
    assert_eq!((world.server.connections(), world.totals().queries), (1, 1));
}

/// A client with a ticket may have forged its address, and never completes a handshake.
#[test]
fn early_data_does_not_keep_a_handshake_open() {
    let mut world = World::new(|options| options.idle_timeout = Duration::from_secs(60));
    let tls = world.tls(&RemoteTls::default());
    world.start(1, tls.clone());
    world.run();
    let forging = world.start(2, tls);
    for second in 0..7 {
        world.ask(forging, &message(QUERY, 0, 5));
        let (address, flight) = (world.clients[forging].address, world.clients[forging].transmits(world.now));
        deliver(&mut world, address, &flight);
        // What the server sends goes to somebody else.
        world.network = Network::default();
        assert_eq!(world.totals().expired, u64::from(second >= 5), "after {second} seconds");
        world.now += Duration::from_secs(1);
    }
    assert!(world.totals().queries >= 5, "early data is answered meanwhile: {}", world.totals().queries);
}
