//! The turns of outgoing transfers: after those of queries, and no more per round than queries can wait for.

use super::TcpWorker;
use crate::listen::Responder;
use std::collections::{HashSet, VecDeque};

/// Connections that can send more of a transfer, in the order of their turns.
#[derive(Default)]
pub(super) struct TransferTurns {
    /// Those that are not in `waiting` any more are skipped.
    order: VecDeque<u32>,
    waiting: HashSet<u32>,
}

impl TransferTurns {
    /// Adds a connection, unless it waits already.
    pub(super) fn push(&mut self, index: u32) {
        if self.waiting.insert(index) {
            self.order.push_back(index);
        }
    }

    /// A connection is closed.
    pub(super) fn forget(&mut self, index: u32) {
        self.waiting.remove(&index);
    }

    fn pop(&mut self) -> Option<u32> {
        while let Some(index) = self.order.pop_front() {
            if self.waiting.remove(&index) {
                return Some(index);
            }
        }
        None
    }
}

impl<R: Responder> TcpWorker<R> {
    /// Gives turns to transfers until the octets of the round are written. The others have theirs in the next round, for which there is no
    /// wait, as epoll reports them again.
    pub(super) fn transfer_turns(&mut self) {
        self.responder.share_among_transfers(self.transfers.waiting.len());
        while self.responder.may_transfer()
            && let Some(index) = self.transfers.pop()
        {
            self.turn(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use crate::clock::simulated;
    use crate::listen::limits::REPLACED_TRANSFER_MAX;
    use crate::listen::responder::{EventSinks, ZoneResponder};
    use crate::listen::stream_responder::{ROUND_TRANSFER_OCTETS, TURN_OCTETS};
    use answer::{Acl, AclEntry, Publisher, Served, ServedZone, ZoneAcls, ZoneExtras, ZoneHistory, ZoneState};
    use std::io::{Read, Write};
    use std::time::Instant;
    use wire::framing::frame;
    use wire::{AddressPrefix, Message, Name, Rtype};
    use zone::load::load_text;

    const CLIENTS: usize = 40;
    /// A zone with as many TXT records of 200 octets has a megabyte.
    const MEGABYTE: usize = 5000;

    fn apex() -> Name {
        "example.".parse().expect("a name")
    }

    fn served(records: usize) -> Served {
        let (line, text) = ("@ 60 SOA ns.invalid. host.invalid. 1 1 1 1 1\n@ 60 NS ns.invalid.\n", "x".repeat(200));
        let zone: String = (0..records).fold(line.into(), |zone, number| zone + &format!("t{number} 60 TXT {text}\n"));
        let apex = apex();
        let outcome = load_text(apex.as_ref(), zone.as_bytes());
        let state = ZoneState::Loaded(outcome.zone.expect("a zone without errors"));
        let loopback = Acl(vec![AclEntry::of_addresses(AddressPrefix::single([127, 0, 0, 1].into()))]);
        let acls = ZoneAcls { transfer: loopback, ..ZoneAcls::default() };
        let mut served = Served::default();
        served.zones.insert(Arc::new(ServedZone::new(state, ZoneExtras::new(acls, ZoneHistory::new()))));
        served
    }

    fn worker(publisher: &Publisher<Served>) -> (TcpWorker<ZoneResponder>, SocketAddr) {
        let listener =
            Listener::bind("127.0.0.1:0".parse().expect("a literal"), &Default::default()).expect("loopback");
        let address = listener.local_addr().expect("bound");
        let sinks = EventSinks { notify: Arc::new(|_| true), update: Arc::new(Err) };
        let responder = ZoneResponder::new(publisher.subscribe(), sinks);
        let setup =
            WorkerSetup { responder, counters: Arc::default(), waker: Arc::new(Waker::new().expect("eventfd")) };
        let shared = SharedCounts::new(2 * CLIENTS, 1);
        let config = ListenConfig::default();
        (TcpWorker::new(setup, vec![listener], Route::Own, shared, &config).expect("epoll"), address)
    }

    /// A client that has asked for the zone.
    fn connect(address: SocketAddr) -> TcpStream {
        let mut client = TcpStream::connect(address).expect("loopback");
        client.write_all(&frame(&Message::query(apex(), Rtype::AXFR).to_wire())).expect("loopback");
        client.set_nonblocking(true).expect("an option");
        client
    }

    /// Reads what has arrived; returns how many octets.
    fn read(mut client: &TcpStream, buffer: &mut [u8]) -> usize {
        client.read(buffer).unwrap_or(0)
    }

    /// Has the server write as much as a client without the time to read allows, after what that has read.
    fn stream_on(worker: &mut TcpWorker<ZoneResponder>, client: &TcpStream) -> u64 {
        let octets = |worker: &TcpWorker<ZoneResponder>| worker.counters.transfer_octets.value();
        let (before, mut last) = (octets(worker), u64::MAX);
        let mut buffer = vec![0; 1 << 20];
        (0..8).for_each(|_| _ = read(client, &mut buffer));
        while std::mem::replace(&mut last, octets(worker)) != octets(worker) {
            (0..5).for_each(|_| worker.run_round(10));
        }
        octets(worker) - before
    }

    #[test]
    fn many_transfers_share_the_octets_of_a_round() {
        let publisher = Publisher::new(served(MEGABYTE));
        let (mut worker, address) = worker(&publisher);
        let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(address)).collect();
        let (mut received, mut buffer, mut longest) = (0, vec![0; TURN_OCTETS], 0);
        while received < CLIENTS * 1_000_000 {
            let before = worker.counters.transfer_octets.value();
            worker.run_round(100);
            longest = longest.max(worker.counters.transfer_octets.value() - before);
            received += clients.iter().map(|client| read(client, &mut buffer)).sum::<usize>();
        }
        assert!(longest <= (ROUND_TRANSFER_OCTETS + TURN_OCTETS) as u64, "{longest} octets in a round");
    }

    #[test]
    fn a_transfer_of_a_replaced_version_ends_after_two_hours() {
        let begin = Instant::now();
        let after = |time: Duration| simulated::set(Some((begin + time, Duration::ZERO)));
        after(Duration::ZERO);
        // More than the buffers of the kernel take.
        let mut publisher = Publisher::new(served(25 * MEGABYTE));
        let (mut worker, address) = worker(&publisher);
        let old = connect(address);
        assert!(stream_on(&mut worker, &old) > 0);
        publisher.publish(served(25 * MEGABYTE));
        let current = connect(address);
        assert!(stream_on(&mut worker, &current) > 0);
        after(REPLACED_TRANSFER_MAX - Duration::from_millis(1));
        assert!(stream_on(&mut worker, &old) > 0);
        after(REPLACED_TRANSFER_MAX);
        assert_eq!(stream_on(&mut worker, &old), 0);
        assert!(stream_on(&mut worker, &current) > 0);
        assert_eq!((worker.counters.transfers_overdue.value(), worker.pool.len()), (1, 1));
        simulated::set(None);
    }

    #[test]
    fn transfers_have_their_turns_in_the_order_in_which_they_were_ready() {
        let mut turns = TransferTurns::default();
        [1, 2, 3, 1].into_iter().for_each(|index| turns.push(index));
        assert_eq!(turns.pop(), Some(1));
        turns.forget(2);
        [1, 3, 2].into_iter().for_each(|index| turns.push(index));
        assert_eq!(std::iter::from_fn(|| turns.pop()).collect::<Vec<u32>>(), [2, 3, 1]);
    }
}
