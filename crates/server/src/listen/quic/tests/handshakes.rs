//! The limits of handshakes and of attempts to connect.

use super::*;

#[test]
fn rfc_9000_8_1_2_addresses_are_verified_while_there_are_many_handshakes() {
    let mut world = World::new(|_| {});
    for number in 0..60 {
        let tls = world.tls(&RemoteTls::default());
        world.start(number, tls);
    }
    // Their first datagrams only.
    world.deliver_to_server();
    assert_eq!(world.totals().retries, 10);
    world.run();
    assert!(world.clients.iter().all(|client| client.is_connected));
    let retries = world.totals().retries;
    world.connect(1000);
    assert_eq!(world.totals().retries, retries, "the load is over");
}

/// RFC 9000 6.1: the answer to another version is a Version Negotiation packet.
#[test]
fn rfc_9000_6_1_drafts_are_other_versions() {
    let mut world = World::new(|_| {});
    for (version, answers) in [(1, 0), (0xff00_001d, 1), (0xff00_0022, 1), (2, 1)] {
        let mut octets = vec![0; 1200];
        octets[0] = 0xc0;
        octets[1..5].copy_from_slice(&u32::to_be_bytes(version));
        octets[5] = 8;
        let peer = SocketAddr::from(([10, 9, 9, 9], 9));
        world.server.receive(arrival(peer, &octets), world.now, &mut world.network);
        assert_eq!(world.deliver_to_clients(), answers, "{version:x}");
    }
}

#[test]
fn a_flood_of_handshakes_gets_its_share_of_the_processor() {
    let mut world = World::new(|options| options.handshake_percent = 1);
    let open = world.connect(1000);
    for number in 0..800 {
        let tls = world.tls(&RemoteTls::default());
        world.start(number, tls);
    }
    // 20 ms that need not wait, and 10 ms for a second: 300 handshakes if one takes 0.1 ms.
    for number in 0..100 {
        world.deliver_to_server();
        world.deliver_to_clients();
        world.now += Duration::from_millis(5);
        world.exchange(open, &message(QUERY, 0, number));
    }
    let connected = world.clients.iter().filter(|client| client.is_connected).count();
    assert!((2..700).contains(&connected), "{connected}");
    let next = world.server.next_round(world.now).expect("handshakes wait");
    assert!(next > world.now, "no spinning");
}

/// Keys are derived for each, which nobody may use for half a core and more.
#[test]
fn first_packets_that_lead_to_nothing_get_their_share_of_the_processor() {
    const FLOOD: usize = 20_000;
    let mut world = World::new(|options| (options.handshake_percent, options.connections) = (1, 1));
    let open = world.connect(1 << 8);
    // The table is full, so that each is answered by a Retry.
    let tls = world.tls(&RemoteTls::default());
    let forged = world.start(9 << 8, tls);
    let (address, first) = (world.clients[forged].address, world.clients[forged].transmits(world.now).remove(0));
    world.clients.truncate(forged);
    (0..FLOOD).for_each(|_| world.server.receive(arrival(address, &first), world.now, &mut world.network));
    // 20 ms that need not wait.
    let retries = world.totals().retries;
    assert!((10..FLOOD as u64 / 2).contains(&retries), "{retries}");
    let waiting = world.server.waiting_initials();
    assert!((1..=256).contains(&waiting), "{waiting}");
    assert_eq!(world.totals().initials_dropped, FLOOD as u64 - retries - waiting as u64);
    assert!(world.server.next_round(world.now).is_some_and(|next| next > world.now), "no spinning");
    // Packets of the open connection do not wait, and other networks have their turns.
    world.exchange(open, &message(QUERY, 0, 1));
    let others: Vec<usize> = (20..24)
        .map(|network| {
            let tls = world.tls(&RemoteTls::default());
            world.start(network << 8, tls)
        })
        .collect();
    for _ in 0..300 {
        world.deliver_to_server();
        world.deliver_to_clients();
        world.now += Duration::from_millis(5);
    }
    let retries_later = world.totals().retries;
    assert!(retries_later > retries && retries_later < retries + 1000, "{retries} {retries_later}");
    // Rarely one has the lane of the flood.
    let connected = others.iter().filter(|client| world.clients[**client].is_connected).count();
    assert!(connected >= 2, "{connected} of 4");
    world.server.stop(world.now);
    assert_eq!(world.server.waiting_initials(), 0);
}

/// RFC 9000 8.1.2: a connection must not be closed for a client that may have forged its address.
#[test]
fn forged_addresses_close_no_connection_of_a_full_table() {
    let mut world = World::new(|options| options.connections = 3);
    let clients = [1, 2, 3].map(|number| world.connect(number));
    for number in 100..110 {
        let tls = world.tls(&RemoteTls::default());
        let forged = world.start(number, tls);
        world.deliver_to_server();
        // The Retry goes to somebody else.
        world.clients.truncate(forged);
        world.run();
    }
    assert_eq!((world.totals().evicted, world.totals().retries, world.server.connections()), (0, 10, 3));
    for client in clients {
        world.exchange(client, &message(QUERY, 0, 1));
    }
    // Whoever has the address is connected, in the place of the oldest.
    world.connect(4);
    assert_eq!((world.totals().evicted, world.server.connections()), (1, 3));
}

#[test]
fn attempts_that_wait_count_as_connections_of_their_client() {
    let mut world = World::new(|options| options.connections_per_client = 4);
    for port in 0..20 {
        let tls = world.tls(&RemoteTls::default());
        let client = world.start(7, tls);
        world.clients[client].address.set_port(5000 + port);
    }
    // All arrive before the first handshake begins.
    world.run();
    assert_eq!((world.server.connections(), world.totals().refused), (4, 16));
    assert_eq!(world.clients.iter().filter(|client| client.is_connected).count(), 4);
}

#[test]
fn a_client_has_a_limited_number_of_attempts_that_wait() {
    let mut world = World::new(|_| {});
    for port in 0..100 {
        let tls = world.tls(&RemoteTls::default());
        let client = world.start(7, tls);
        world.clients[client].address.set_port(5000 + port);
    }
    // Each proves its address, as there are many handshakes, and sends its second datagram before any handshake begins.
    world.deliver_to_server();
    world.deliver_to_clients();
    let connected = world.server.connections();
    (0..world.clients.len()).for_each(|client| _ = world.deliver_from(client));
    assert_eq!((connected, world.server.waiting()), (1, 64));
    world.connect(8);
}

/// Those of the flood prove their addresses, too.
#[test]
fn a_flood_of_attempts_from_one_network_delays_others_little() {
    let mut world = World::new(|_| {});
    let start = |world: &mut World, number: u16| {
        let tls = world.tls(&RemoteTls::default());
        world.start(number, tls)
    };
    // Two attempts of each of 250 addresses in a /24. All are there again with their proofs before the second handshake begins.
    for number in 0..500 {
        let client = start(&mut world, number % 250);
        world.clients[client].address.set_port(4000 + number);
    }
    world.deliver_to_server();
    world.deliver_to_clients();
    (0..500).for_each(|client| _ = world.deliver_from(client));
    // The queue is full, unless this machine begins handshakes as fast as they come.
    let attempts = world.server.waiting();
    assert!(attempts == 256 || attempts < 256 && world.server.waiting_initials() > 0, "{attempts}");
    let others: Vec<usize> = (1..=10).map(|network| start(&mut world, network << 8)).collect();
    for _ in 0..30 {
        world.deliver_to_server();
        world.deliver_to_clients();
        world.now += Duration::from_millis(1);
    }
    // Rarely one has the lane of the flood.
    let connected = others.iter().filter(|client| world.clients[**client].is_connected).count();
    assert!(connected >= 7, "{connected} of 10");
}

/// As those of clients that offer post-quantum key exchange. Hostile ones keep the rest back, and send it for all connections at once.
#[test]
fn a_client_hello_in_several_datagrams_waits_for_its_turn_with_each() {
    let mut world = World::new(|_| {});
    let mut tls = world.tls(&RemoteTls::default());
    tls.alpn_protocols.extend((0..6).map(|octet| vec![octet; 250]));
    let mut rest = Vec::new();
    for number in 0..40 {
        let client = world.start(number, tls.clone());
        let (address, mut datagrams) = (world.clients[client].address, world.clients[client].transmits(world.now));
        world.server.receive(arrival(address, &datagrams.remove(0)), world.now, &mut world.network);
        // Begins its handshake.
        world.server.finish_round(world.now, &mut world.network);
        rest.extend(datagrams.into_iter().map(|octets| (address, octets)));
    }
    assert_eq!((world.server.connections(), world.server.waiting()), (40, 0));
    for (address, octets) in &rest {
        world.server.receive(arrival(*address, octets), world.now, &mut world.network);
    }
    assert!(rest.len() >= 40 && world.server.waiting() == rest.len(), "{} of {}", world.server.waiting(), rest.len());
    world.server.finish_round(world.now, &mut world.network);
    assert_eq!(world.server.waiting(), rest.len() - 1);
    world.run();
    assert!(world.clients.iter().all(|client| client.is_connected));
}
