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
    use crate::listen::responder::{EventSinks, ZoneResponder};
    use crate::listen::tcp_responder::{ROUND_TRANSFER_OCTETS, TURN_OCTETS};
    use answer::{Acl, AclEntry, Publisher, Served, ServedZone, ZoneAcls, ZoneExtras, ZoneHistory, ZoneState};
    use std::io::{Read, Write};
    use wire::framing::frame;
    use wire::{AddressPrefix, Message, Name, Rtype};
    use zone::load::{LoadOptions, load};
    use zone::text::{ParseOptions, Source};

    const CLIENTS: usize = 40;
    const ZONE_OCTETS: usize = 1_000_000;

    fn apex() -> Name {
        "example.".parse().expect("a name")
    }

    /// A zone whose transfer has more than [`ZONE_OCTETS`].
    fn served() -> Served {
        let (line, text) = ("@ 60 SOA ns.invalid. host.invalid. 1 1 1 1 1\n@ 60 NS ns.invalid.\n", "x".repeat(200));
        let zone: String = (0..5000).fold(line.into(), |zone, number| zone + &format!("t{number} 60 TXT {text}\n"));
        let apex = apex();
        let source = Source { name: "example.zone".into(), bytes: zone.as_bytes() };
        let outcome = load(source, &LoadOptions::new(ParseOptions::new(apex.as_ref())));
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

    /// Reads what has arrived; returns how many octets.
    fn read(mut client: &TcpStream, buffer: &mut [u8]) -> usize {
        client.read(buffer).unwrap_or(0)
    }

    #[test]
    fn many_transfers_share_the_octets_of_a_round() {
        let publisher = Publisher::new(served());
        let (mut worker, address) = worker(&publisher);
        let query = frame(&Message::query(apex(), Rtype::AXFR).to_wire());
        let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| TcpStream::connect(address).expect("loopback")).collect();
        for mut client in &clients {
            client.write_all(&query).expect("loopback");
            client.set_nonblocking(true).expect("an option");
        }
        let (mut received, mut buffer, mut longest) = (0, vec![0; TURN_OCTETS], 0);
        while received < CLIENTS * ZONE_OCTETS {
            let before = worker.counters.transfer_octets.value();
            worker.run_round(100);
            longest = longest.max(worker.counters.transfer_octets.value() - before);
            received += clients.iter().map(|client| read(client, &mut buffer)).sum::<usize>();
        }
        assert!(longest <= (ROUND_TRANSFER_OCTETS + TURN_OCTETS) as u64, "{longest} octets in a round");
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
