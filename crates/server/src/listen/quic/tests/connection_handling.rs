//! How connections are used (RFC 9250 5.5 to 5.7): transfers beside each other, other addresses.

use super::client::{StreamEnd, World};
use super::{QUERY, TRANSFER, TRANSFERRED, message, records};
use std::net::SocketAddr;

/// RFC 9250 5.6, 5.7: each response is sent as soon as possible, between those of other streams.
#[test]
fn rfc_9250_5_7_concurrent_transfers_are_complete_and_delay_no_response() {
    let mut world = World::new(|_| {});
    let client = world.connect(1);
    let transfers = [(); 3].map(|()| world.ask(client, &message(QUERY, TRANSFER, 0)));
    let query = world.ask(client, &message(QUERY, 0, 7));
    let is_over = |world: &World, id| {
        world.clients[client].received.get(&id).is_some_and(|(_, end): &(Vec<u8>, _)| *end == StreamEnd::Finished)
    };
    for _ in 0..1000 {
        if is_over(&world, query) {
            break;
        }
        world.step();
    }
    assert!(is_over(&world, query), "no response beside transfers");
    assert!(!transfers.iter().any(|id| is_over(&world, *id)), "it came first");
    world.run();
    for id in transfers {
        assert!(is_over(&world, id));
        assert_eq!(records(&world.clients[client].received[&id].0), TRANSFERRED + 3);
    }
}

/// RFC 9250 5.6: no transfer waits for the end of another.
#[test]
fn rfc_9250_5_6_concurrent_transfers_share_the_connection() {
    let mut world = World::new(|_| {});
    let client = world.connect(1);
    let transfers = [(); 3].map(|()| world.ask(client, &message(QUERY, TRANSFER, 0)));
    let mut received = [0; 3];
    for _ in 0..5000 {
        world.step();
        let streams = transfers.map(|id| world.clients[client].received.get(&id));
        received = streams.map(|stream| stream.map_or(0, |(octets, _)| octets.len()));
        if streams.iter().flatten().any(|(_, end)| *end == StreamEnd::Finished) {
            break;
        }
    }
    let (least, most) = (received.iter().min(), received.iter().max());
    assert!(most > Some(&(200 * TRANSFERRED)), "{received:?}");
    assert!(least.map(|least| 2 * least) > most.copied(), "{received:?}");
}

/// RFC 9250 5.5.4: a client with another address begins a new connection; this one stays with the address of its handshake.
#[test]
fn rfc_9250_5_5_4_connections_do_not_migrate() {
    let mut world = World::new(|_| {});
    let client = world.connect(1);
    world.exchange(client, &message(QUERY, 0, 1));
    world.clients[client].address = SocketAddr::from(([10, 9, 9, 9], 4000));
    let id = world.ask(client, &message(QUERY, 0, 2));
    world.run();
    assert!(!world.clients[client].received.contains_key(&id), "the other address gets no response");
    assert_eq!(world.totals().queries, 1);
}
