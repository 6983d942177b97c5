//! Limits, timeouts, and what hostile clients send.

use super::*;

#[test]
fn a_client_has_a_limited_number_of_connections() {
    let mut world = World::new(|options| options.connections_per_client = 4);
    let mut connected = 0;
    for port in 0..6 {
        let tls = world.tls(&RemoteTls::default());
        let client = world.start(7, tls);
        world.clients[client].address.set_port(5000 + port);
        world.run();
        connected += usize::from(world.clients[client].is_connected);
    }
    assert_eq!((connected, world.totals().refused), (4, 2));
    assert!(world.totals().retries > 0, "a client with many connections proves its address");
    world.connect(8);
}

/// The kernel distributes the connections of a client over the threads by its ports.
#[test]
fn the_connections_of_a_client_are_counted_over_all_threads() {
    let shared = QuicShared::new(1000);
    let [mut first, mut second] =
        [(), ()].map(|()| World::of_thread(shared.clone(), |options| options.connections_per_client = 4));
    let connect = |world: &mut World, port: u16| {
        let tls = world.tls(&RemoteTls::default());
        let client = world.start(7, tls);
        world.clients[client].address.set_port(port);
        world.run();
        world.clients[client].is_connected
    };
    assert_eq!([1, 2, 3].map(|port| connect(&mut first, port)), [true; 3]);
    assert_eq!([4, 5].map(|port| connect(&mut second, port)), [true, false]);
    assert!(!connect(&mut first, 6));
    assert_eq!((first.totals().refused, second.totals().refused), (1, 1));
    // When they are gone, there is room again.
    first.wait(Duration::from_secs(60));
    assert!(connect(&mut second, 7));
}

#[test]
fn short_idle_timeouts_see_progress() {
    let mut world = World::new(|options| options.idle_timeout = Duration::from_millis(100));
    let client = world.connect(1);
    for number in 0..100 {
        world.exchange(client, &message(QUERY, 0, number));
        world.wait_in_steps(Duration::from_millis(10), Duration::from_millis(10));
    }
    assert_eq!(world.totals().expired, 0);
}

#[test]
fn a_reload_keeps_connections_and_retry_tokens() {
    let mut world = World::new(|options| options.connections_per_client = 2);
    let open = world.connect(1);
    let tls = world.tls(&RemoteTls::default());
    let second = world.start(1, tls);
    world.clients[second].address.set_port(5000);
    world.deliver_to_server();
    world.deliver_to_clients();
    assert_eq!(world.totals().retries, 1, "it has a token");
    world.reload();
    let held = world.clients.pop().expect("the second");
    let new = world.connect(2);
    world.clients.push(held);
    world.run();
    let second = world.clients.len() - 1;
    assert!(world.clients[second].is_connected, "{:?}", world.clients[second].closed);
    world.exchange(open, &message(QUERY, 0, 1));
    let [old, new, retried] = [open, new, second].map(|client| world.clients[client].server_certificate());
    assert!(old != new && new == retried);
}

#[test]
fn the_oldest_connection_makes_room() {
    let mut world = World::new(|options| options.connections = 3);
    let clients = [1, 2, 3].map(|number| {
        world.wait(Duration::from_millis(200));
        world.connect(number)
    });
    world.wait(Duration::from_millis(200));
    world.exchange(clients[0], &message(QUERY, 0, 1));
    world.connect(4);
    world.run();
    let closed = clients.map(|client| world.clients[client].closed.clone());
    assert_eq!(world.close_code(clients[1]), Some(code(DoqError::ExcessiveLoad)), "{closed:?}");
    assert_eq!((world.totals().evicted, world.server.connections()), (1, 3));
    world.exchange(clients[0], &message(QUERY, 0, 2));
}

/// RFC 7766 3, as over TCP: a connection is not idle before it has all its responses, and an update may be forwarded for seconds.
#[test]
fn connections_that_wait_for_updates_are_not_evicted_for_others() {
    let mut world = World::new(|options| options.connections = 2);
    let waiting = world.connect(1);
    let id = world.ask(waiting, &update());
    world.run();
    let reply = next_late_reply();
    for number in 2..5 {
        world.wait(Duration::from_millis(200));
        world.connect(number);
    }
    assert_eq!((world.totals().evicted, world.server.connections()), (2, 2));
    reply.send(Rcode::NOERROR);
    world.run();
    assert_eq!(world.clients[waiting].received[&id].1, StreamEnd::Finished);
}

#[test]
fn a_late_response_arrives_after_more_than_the_idle_timeout() {
    let mut world = World::new(|options| options.idle_timeout = Duration::from_secs(5));
    let client = world.connect(1);
    let id = world.ask(client, &update());
    world.run();
    let reply = next_late_reply();
    world.wait(Duration::from_secs(12));
    reply.send(Rcode::NOERROR);
    world.run();
    let end = world.clients[client].received.get(&id).map(|(_, end)| end);
    assert_eq!(end, Some(&StreamEnd::Finished), "{:?}", world.clients[client].closed);
}

/// RFC 7766 6.2.3, as over TCP. The timeouts with ten, nine, ... of ten connections are 1, 2, 4, 6, 8 and 10 seconds.
#[test]
fn the_idle_timeout_is_shortened_as_the_table_fills() {
    let mut world = World::new(|options| (options.connections, options.idle_timeout) = (10, Duration::from_secs(10)));
    let clients: Vec<usize> = (0..10).map(|number| world.connect(number)).collect();
    world.exchange(clients[0], &message(QUERY, 0, 1));
    for (closed, wait_s) in [(0, 0.5), (1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 2.0)] {
        world.wait(Duration::from_secs_f64(wait_s));
        assert_eq!(world.totals().expired, closed);
    }
    let idle = clients.iter().filter(|client| world.close_code(**client) == Some(code(DoqError::NoError)));
    assert_eq!((idle.count(), world.totals().evicted), (5, 0));
    world.connect(20);
    assert_eq!(world.totals().evicted, 0, "there is room again");
}

#[test]
fn connections_without_progress_are_closed() {
    let mut world = World::new(|options| options.idle_timeout = Duration::from_secs(10));
    let [idle, stuck, busy] = [1, 2, 3].map(|number| world.connect(number));
    let tls = world.tls(&RemoteTls::default());
    let silent = world.start(4, tls);
    let first = world.clients[silent].transmits(world.now);
    world.server.receive(arrival(world.clients[silent].address, &first[0]), world.now, &mut world.network);
    world.clients.truncate(silent);
    world.send(stuck, &[0, 14, 0], false);
    for second in 0..12 {
        world.wait(Duration::from_secs(1));
        world.clients[stuck].connection.ping();
        world.clients[idle].connection.ping();
        world.exchange(busy, &message(QUERY, 0, second));
    }
    assert_eq!(world.close_code(idle), Some(code(DoqError::NoError)));
    assert_eq!(world.close_code(stuck), Some(code(DoqError::ExcessiveLoad)));
    assert_eq!((world.totals().expired, world.clients[busy].closed.is_none()), (3, true));
    world.wait(Duration::from_secs(5));
    assert_eq!(world.server.connections(), 1, "closed connections are forgotten");
}

#[test]
fn clients_that_do_not_read_are_closed_when_memory_is_short() {
    let mut world = World::new(|options| options.memory_limit = 1 << 20);
    world.client_window = Some(1000);
    let clients: Vec<usize> = (0..8).map(|number| world.connect(number)).collect();
    for client in &clients {
        world.clients[*client].reads = false;
        (0..5).for_each(|_| _ = world.ask(*client, &message(QUERY, LONGEST, 0)));
        world.run();
        assert!(world.server.memory() <= 1 << 20, "{} octets", world.server.memory());
    }
    assert!(world.totals().evicted >= 4, "{:?}", world.totals());
    world.client_window = None;
    let good = world.connect(20);
    world.exchange(good, &message(QUERY, LONGEST, 0));
}

#[test]
fn idle_connections_that_had_many_queries_at_once_are_kept() {
    let mut world = World::new(|options| options.memory_limit = 1 << 20);
    for number in 0..40 {
        let client = world.connect(number);
        (0..8).for_each(|last| _ = world.ask(client, &message(QUERY, 0, last)));
        world.run();
    }
    assert_eq!((world.totals().evicted, world.server.connections()), (0, 40));
}

#[test]
fn connections_that_wait_for_updates_are_not_evicted_for_memory() {
    let mut world = World::new(|options| options.memory_limit = 1 << 20);
    world.client_window = Some(1000);
    let connect = |world: &mut World, number| {
        let client = world.connect(number);
        let id = world.ask(client, &update());
        world.run();
        (client, id, next_late_reply())
    };
    let waiting: Vec<_> = (0..8).map(|number| connect(&mut world, number)).collect();
    world.wait(Duration::from_millis(200));
    for number in 8..16 {
        let client = world.connect(number);
        world.clients[client].reads = false;
        (0..5).for_each(|_| _ = world.ask(client, &message(QUERY, LONGEST, 0)));
        world.run();
    }
    assert!((4..8).contains(&world.totals().evicted), "{:?}", world.totals());
    for (client, id, reply) in waiting {
        reply.send(Rcode::NOERROR);
        world.run();
        assert_eq!(world.clients[client].received[&id].1, StreamEnd::Finished);
    }
}

/// As over TCP: the queries of a connection arrive at once, and may cost a hundred milliseconds together.
#[test]
fn costly_queries_of_a_connection_wait_for_the_turns_of_others() {
    let mut world = World::new(|_| {});
    let [hostile, other] = [1, 2].map(|number| world.connect(number));
    let asked: Vec<_> = (0..15).map(|number| world.ask(hostile, &message(QUERY, EXPENSIVE, number))).collect();
    let id = world.ask(other, &message(QUERY, 0, 7));
    world.deliver_to_server();
    world.deliver_to_clients();
    assert_eq!(world.totals().queries, 2, "one of each connection");
    assert_eq!(world.clients[other].received[&id].1, StreamEnd::Finished);
    world.run();
    for (number, id) in (0..).zip(asked) {
        let (octets, end) = &world.clients[hostile].received[&id];
        assert_eq!((octets[15], end), (number, &StreamEnd::Finished));
    }
}

#[test]
fn what_a_client_has_received_of_a_response_is_kept_no_longer() {
    let mut world = World::new(|_| {});
    world.client_window = Some(1000);
    let client = world.connect(1);
    let id = world.ask(client, &message(QUERY, LONGEST, 0));
    while world.clients[client].received.get(&id).is_none_or(|(octets, _)| octets.len() < 60_000) {
        world.wait_in_steps(Duration::from_millis(1), Duration::from_millis(1));
    }
    // What was sent counts until the stream ends, as nothing says when it is acknowledged.
    assert!(world.server.memory() < 60_000 + 20_000, "{} octets", world.server.memory());
    world.run();
    assert_eq!(world.clients[client].received[&id].0.len(), 2 + 65_535);
}

/// `quinn-proto` keeps an entry for each piece, and walks over them for each packet.
#[test]
fn a_client_that_grants_few_octets_at_a_time_gets_no_large_response() {
    for (window, expected) in [(8, StreamEnd::Reset(code(DoqError::ExcessiveLoad))), (100, StreamEnd::Finished)] {
        let mut world = World::new(|_| {});
        world.client_window = Some(window);
        let client = world.connect(1);
        let id = world.ask(client, &message(QUERY, LONGEST, 0));
        world.run();
        assert_eq!(world.clients[client].received[&id].1, expected, "{window} octets at a time");
        world.exchange(client, &message(QUERY, 0, 1));
    }
}

/// Sends octets of a query one by one, of which every second is lost, and a whole query with each of the others, if it `asks`.
fn send_with_gaps(world: &mut World, client: usize, count: usize, asks: bool) {
    let id = world.send(client, &[0], false);
    for number in 0..count {
        if asks && number % 2 == 1 {
            world.ask(client, &message(QUERY, 0, 1));
        }
        let Client { connection, address, .. } = &mut world.clients[client];
        connection.send_stream(id).write(&[200]).expect("a window");
        let address = *address;
        for octets in world.clients[client].transmits(world.now) {
            if number % 2 == 1 {
                world.server.receive(arrival(address, &octets), world.now, &mut world.network);
            }
        }
        // What the server acknowledges would be repeated.
        world.server.finish_round(world.now, &mut world.network);
        world.network = Network::default();
    }
}

#[test]
fn the_memory_of_frames_after_a_gap_is_counted() {
    let mut world = World::new(|options| options.memory_limit = 256 << 10);
    let client = world.connect(1);
    world.exchange(client, &message(QUERY, 0, 0));
    world.wait(Duration::from_secs(1));
    assert_eq!(world.server.memory(), 0);
    send_with_gaps(&mut world, client, 40, false);
    assert!(world.server.memory() > 10 * (56 + 40), "{} octets", world.server.memory());
    assert_eq!(world.totals().evicted, 0);
    // It has 40 KiB at most in the datagrams of a stream, and the limit is 256 KiB.
    for number in 2..12 {
        let client = world.connect(number);
        send_with_gaps(&mut world, client, 100, false);
        assert!(world.server.memory() <= 256 << 10, "{} octets", world.server.memory());
    }
    assert!(world.totals().evicted >= 4, "{}", world.totals().evicted);
}

#[test]
fn frames_after_a_gap_are_counted_beside_whole_queries() {
    let mut world = World::new(|_| {});
    let client = world.connect(1);
    send_with_gaps(&mut world, client, 12, true);
    assert!(world.server.memory() > 6 * 1500, "{} octets", world.server.memory());
}

/// The end of a stream in a frame of its own has no entry.
#[test]
fn queries_whose_streams_end_later_take_no_memory() {
    let mut world = World::new(|_| {});
    let client = world.connect(1);
    let query = [&[0, 14][..], &message(QUERY, 0, 1)].concat();
    for _ in 0..1000 {
        let id = world.send(client, &query, false);
        world.deliver_to_server();
        world.clients[client].connection.send_stream(id).finish().expect("open");
        world.run();
    }
    assert_eq!((world.totals().answers, world.server.memory()), (1000, 0));
}

#[test]
fn a_query_that_is_never_complete_is_ended_though_others_are_answered() {
    let mut world = World::new(|options| options.idle_timeout = Duration::from_secs(10));
    let client = world.connect(1);
    let slow = world.send(client, &[0, 14, 0], false);
    for second in 0..9 {
        world.exchange(client, &message(QUERY, 0, second));
        world.wait(Duration::from_secs(1));
    }
    assert!(!world.clients[client].received.contains_key(&slow));
    for second in 0..3 {
        world.wait(Duration::from_secs(1));
        world.exchange(client, &message(QUERY, 0, second));
    }
    assert_eq!(world.clients[client].received[&slow].1, StreamEnd::Reset(code(DoqError::ExcessiveLoad)));
}

/// `quinn-proto` makes another connection ID for each, and keeps all of them for a client that acknowledges nothing.
#[test]
fn a_client_that_retires_many_connection_ids_is_closed() {
    let mut world = World::new(|_| {});
    let [hostile, careful] = [1, 2].map(|number| world.connect(number));
    for number in 0..100 {
        world.clients[careful].connection.local_address_changed();
        world.exchange(careful, &message(QUERY, 0, number));
    }
    for _ in 0..100 {
        world.clients[hostile].connection.local_address_changed();
        world.run();
    }
    assert_eq!(world.close_code(hostile), Some(code(DoqError::ExcessiveLoad)));
    world.exchange(careful, &message(QUERY, 0, 0));
}

#[test]
fn a_stop_ends_attempts_that_wait() {
    let mut world = World::new(|_| {});
    for number in 0..3 {
        let tls = world.tls(&RemoteTls::default());
        let client = world.start(number, tls);
        world.deliver_from(client);
    }
    assert_eq!(world.server.waiting(), 3);
    assert!(world.server.stop(world.now));
    world.run();
    assert_eq!((world.server.connections(), world.server.waiting()), (0, 0));
}

#[test]
fn a_stop_does_not_wait_for_handshakes() {
    let mut world = World::new(|_| {});
    let tls = world.tls(&RemoteTls::default());
    let client = world.start(1, tls);
    world.deliver_to_server();
    assert_eq!((world.server.connections(), world.server.waiting()), (1, 0));
    assert!(!world.server.stop(world.now), "the client must be sent the end");
    world.server.finish_round(world.now, &mut world.network);
    assert!(world.server.stop(world.now));
    world.run();
    // RFC 9000 10.2.3: without the code of the application.
    assert!(matches!(world.clients[client].closed, Some(ConnectionError::ConnectionClosed(_))));
}

#[test]
fn a_stop_lets_responses_be_read() {
    let mut world = World::new(|_| {});
    let [reading, idle] = [1, 2].map(|number| world.connect(number));
    let id = world.ask(reading, &message(QUERY, LONGEST, 0));
    world.deliver_to_server();
    assert!(!world.server.stop(world.now));
    world.run();
    assert_eq!(world.close_code(idle), Some(code(DoqError::NoError)));
    assert_eq!(world.clients[reading].received[&id].0.len(), 65_537);
    world.server.stop(world.now);
    world.run();
    assert!(world.server.stop(world.now));
    let tls = world.tls(&RemoteTls::default());
    let late = world.start(3, tls);
    world.run();
    assert!(!world.clients[late].is_connected);
}

#[test]
fn connections_that_are_left_at_the_end_of_the_grace_are_closed() {
    let mut world = World::new(|_| {});
    let client = world.connect(1);
    world.ask(client, &update());
    world.run();
    let _reply = next_late_reply();
    world.server.stop(world.now);
    world.run();
    assert!(!world.server.stop(world.now) && world.clients[client].closed.is_none());
    world.server.close_all(world.now, |_| true);
    world.run();
    assert_eq!(world.close_code(client), Some(code(DoqError::NoError)));
}

//----------- hostile input ----------------------------------------------------

#[test]
fn random_and_damaged_datagrams_cost_no_other_connection() {
    let mut world = World::new(|_| {});
    let good = world.connect(1);
    let mut runner = TestRunner::new(Config { rng_seed: RngSeed::Fixed(9250), ..Config::default() });
    let strategy = (proptest::collection::vec(any::<u8>(), 0..1500), 0usize..1500, 1u8..255);
    let attacker: SocketAddr = "10.9.9.9:9".parse().expect("a literal");
    for round in 0..300u16 {
        let (octets, at, change) = strategy.new_tree(&mut runner).expect("no filter").current();
        world.server.receive(arrival(attacker, &octets), world.now, &mut world.network);
        // A first packet and a packet of the open connection, each damaged in one octet.
        let tls = world.tls(&RemoteTls::default());
        let client = world.start(1000 + round, tls);
        if round % 4 == 0 {
            world.ask(good, &message(QUERY, 0, 1));
        }
        let first = world.clients[client].transmits(world.now);
        let open = world.clients[good].transmits(world.now);
        for (index, datagrams) in [(client, first), (good, open)] {
            for mut octets in datagrams {
                let len = octets.len();
                octets[at % len] ^= change;
                let address = world.clients[index].address;
                world.server.receive(arrival(address, &octets), world.now, &mut world.network);
            }
        }
        world.clients.truncate(1);
        world.wait(Duration::from_millis(500));
    }
    world.wait(Duration::from_secs(5));
    assert!(world.clients[good].closed.is_none());
    world.exchange(good, &message(QUERY, 0, 7));
    world.wait(Duration::from_secs(8));
    assert_eq!(world.totals().panics, 0);
    assert!(world.server.connections() <= 1, "{}", world.server.connections());
}

//----------- memory -----------------------------------------------------------

/// The resident memory of this process in octets.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number") * 4096
}

#[test]
#[ignore = "measures the memory of the process, in which nothing else may run"]
fn an_idle_connection_takes_less_than_is_reserved_for_it() {
    const COUNT: u16 = 300;
    let mut world = World::new(|options| options.idle_timeout = Duration::from_secs(3600));
    let mut connect = |number: u16| {
        let client = world.connect(number);
        // As many as it may have in progress, which are half of the first ones at first, and more, so that streams are used again.
        for count in [8, 90, 90] {
            (0..count).for_each(|last| _ = world.ask(client, &message(QUERY, 0, last)));
            world.run();
        }
        world.run();
        // Its memory is for the next one.
        world.clients.clear();
    };
    (0..100).for_each(&mut connect);
    let before = resident();
    (100..100 + COUNT).for_each(&mut connect);
    let each = (resident() - before) / usize::from(COUNT);
    println!("{each} octets for an idle connection");
    assert_eq!(world.server.connections(), 100 + usize::from(COUNT));
    assert!(each < CONNECTION_MEMORY, "{each}");
}
