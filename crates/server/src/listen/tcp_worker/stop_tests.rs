//! A thread that stops.

use super::echo_worker::{waker, worker};
use super::*;
use std::io::{Read, Write};

/// The kernel would reset those that are left in the accept queue, though their queries have arrived.
#[test]
fn all_who_have_connected_before_a_stop_are_answered() {
    const CLIENTS: usize = 200;
    const { assert!(CLIENTS > 2 * ACCEPTS) };
    let config = ListenConfig { connections: CLIENTS, connections_per_client: CLIENTS, ..ListenConfig::default() };
    let listener = Listener::bind("127.0.0.1:0".parse().expect("a literal"), &config.tcp).expect("loopback");
    let address = listener.local_addr().expect("bound");
    let mut worker = worker(vec![listener], Route::Own, waker(), &SharedCounts::new(CLIENTS, 1), &config);
    let query = [&[0, 12][..], b"twelve bytes"].concat();
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| TcpStream::connect(address).expect("loopback")).collect();
    clients.iter_mut().for_each(|client| client.write_all(&query).expect("loopback"));
    worker.finish();
    let answered = clients.iter_mut().filter_map(|client| {
        let mut response = Vec::new();
        client.read_to_end(&mut response).ok()?;
        (response == query).then_some(())
    });
    assert_eq!(answered.count(), CLIENTS);
}
