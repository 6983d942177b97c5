//! How the transfers of several connections share a round, and how many a client may have.

use super::*;
use crate::listen::stream_responder::ROUND_TRANSFER_OCTETS;
use quinn_proto::StreamId;

/// A client has received the whole response to a [`SMALL_TRANSFER`].
fn assert_is_complete(world: &World, client: usize, id: StreamId) {
    let (octets, end) = &world.clients[client].received[&id];
    assert!(octets.len() > 3 * 65_537 && *end == StreamEnd::Finished, "{} octets, {end:?}", octets.len());
}

/// The first octets of a transfer are as many as fit into three messages.
#[test]
fn one_transfer_of_a_connection_fills_its_buffer_in_a_turn() {
    let mut world = World::new(|_| {});
    let client = world.connect(1);
    let asked = [(); 6].map(|()| world.ask(client, &message(QUERY, SMALL_TRANSFER, 0)));
    (0..2).for_each(|_| _ = world.deliver_to_server());
    let memory = world.server.memory();
    assert!((65_537..2 * 3 * 65_537).contains(&memory), "{memory} octets");
    world.run();
    for id in asked {
        assert_is_complete(&world, client, id);
    }
}

/// Otherwise queries wait for all of them in each round.
#[test]
fn the_transfers_of_a_round_share_their_octets() {
    let mut world = World::new(|_| {});
    let clients: Vec<usize> = (1..=20).map(|number| world.connect(number)).collect();
    let ask = |client: &usize| world.ask(*client, &message(QUERY, SMALL_TRANSFER, 0));
    let asked: Vec<StreamId> = clients.iter().map(ask).collect();
    let mut written = 0;
    for _ in 0..10 {
        world.step();
        let before = std::mem::replace(&mut written, world.totals().transfer_octets);
        assert!(written - before < (ROUND_TRANSFER_OCTETS + 65_537) as u64, "{} octets", written - before);
    }
    assert!(written > 2 * ROUND_TRANSFER_OCTETS as u64, "{written} octets");
    world.wait_in_steps(Duration::from_secs(1), Duration::from_millis(5));
    for (client, id) in clients.into_iter().zip(asked) {
        assert_is_complete(&world, client, id);
    }
}

/// Each round has octets for about 16 of them.
#[test]
fn no_transfer_waits_for_the_end_of_those_of_other_connections() {
    let mut world = World::new(|_| {});
    let clients: Vec<usize> = (1..=20).map(|number| world.connect(number)).collect();
    let ask = |client: &usize| world.ask(*client, &message(QUERY, TRANSFER, 0));
    let asked: Vec<StreamId> = clients.iter().map(ask).collect();
    let received = |world: &World| -> Vec<usize> {
        clients.iter().zip(&asked).map(|(client, id)| world.received(*client, *id)).collect()
    };
    for _ in 0..1000 {
        world.step();
        let octets = received(&world);
        if octets.iter().max() > Some(&(50 * TRANSFERRED)) {
            return assert!(octets.iter().min() > Some(&(25 * TRANSFERRED)), "{octets:?}");
        }
    }
    panic!("{:?}", received(&world));
}

/// Clients that ask for a zone again and again, and stop the response.
#[test]
fn a_transfer_in_progress_does_not_wait_for_those_that_begin() {
    let mut world = World::new(|_| {});
    let client = world.connect(1);
    let others: Vec<usize> = (2..=13).map(|number| world.connect(number)).collect();
    let id = world.ask(client, &message(QUERY, TRANSFER, 0));
    for _ in 0..30 {
        let ask = |other: &usize| world.ask(*other, &message(QUERY, SMALLER_TRANSFER, 0));
        let asked: Vec<StreamId> = others.iter().map(ask).collect();
        world.step();
        for (other, id) in others.iter().zip(asked) {
            // It fails if the response has ended.
            _ = world.clients[*other].connection.recv_stream(id).stop(DoqError::RequestCancelled.into());
        }
    }
    let received = world.received(client, id);
    assert!(received > 1_000_000, "{received} octets");
}

#[test]
fn all_transfers_above_the_limit_of_a_client_are_refused_at_once() {
    let mut world = World::new(|_| {});
    world.client_window = Some(1000);
    let clients = [5000, 5001].map(|port| {
        let tls = world.tls(&RemoteTls::default());
        let client = world.start(7, tls);
        world.clients[client].address.set_port(port);
        world.run();
        world.clients[client].reads = false;
        (0..8).for_each(|_| _ = world.ask(client, &message(QUERY, SMALL_TRANSFER, 0)));
        world.run();
        client
    });
    (0..52).for_each(|_| _ = world.ask(clients[0], &message(QUERY, SMALL_TRANSFER, 0)));
    world.run();
    assert_eq!(world.totals().refused, 0);
    (0..52).for_each(|_| _ = world.ask(clients[1], &message(QUERY, SMALL_TRANSFER, 0)));
    world.deliver_to_server();
    assert_eq!((world.totals().transfers, world.totals().refused), (120, 20));
}
