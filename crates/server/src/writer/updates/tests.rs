//! Repetitions of an update that is not answered yet.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use answer::{
    Request, Response, Served, ServedZone, Transport, UpdateAcl, UpdateClient, WorkerState, ZoneAcls, ZoneExtras,
    ZoneHistory, ZoneState,
};
use wire::Name;
use wire::tsig::{TsigKey, TsigSigner};
use zone::load::load_text;

use super::*;
use crate::config::reader::ConfigReader;
use crate::config::{RemoteServer, ZonePolicy};
use crate::listen::LateReply;
use crate::updates::UpdateBudget;
use crate::writer::forwarded_update::Forwarding;
use crate::writer::update_forwarder::ExchangeThreads;

struct NoExchanges;

impl UpdateExchanges for NoExchanges {
    fn start(&mut self, _: Forwarding) {}
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// Repetitions of one signed update, each over a connection of its own.
struct Client {
    updates: Updates,
    budget: Arc<UpdateBudget>,
    signed: Vec<u8>,
}

impl Client {
    fn new() -> Client {
        let exchanges = Box::new(NoExchanges);
        let updates = Updates::new(TlsPeers::default(), exchanges);
        let mut signed = update();
        let key = TsigKey::new("hmac-sha256", name("k.").as_ref(), &[1; 32]).expect("a known algorithm");
        TsigSigner::for_query(&key).sign(&mut signed, 0, clock::real().as_secs()).expect("it is short");
        Client { updates, budget: UpdateBudget::new(100, 100_000), signed }
    }

    /// Sends the update; also returns what becomes of it if it is no repetition.
    fn send(&self) -> (Receiver<Vec<u8>>, Option<PendingAnswer>) {
        let (sender, receiver) = channel();
        let mut pending = pending_update();
        pending.update.message = self.signed.as_slice().into();
        pending.update.client = UpdateClient { address: [192, 0, 2, 1].into(), key: Some(name("k.")), tls: None };
        pending.update.is_forwarded = false;
        let reply = LateReply::new(pending.response, None, move |octets| _ = sender.send(octets));
        let incoming = Box::new(IncomingUpdate { update: pending.update, reply });
        let queued = self.budget.admit(incoming).unwrap_or_else(|_| panic!("the budget is used up"));
        let first = self.updates.recognize(queued).map(|(queued, unanswered)| {
            let log = UpdateLog::new(name("example."), "192.0.2.1".into(), None);
            PendingAnswer { reply: queued.incoming.reply, unanswered, log }
        });
        (receiver, first)
    }

    /// Sends it first.
    fn begin(&self) -> (Receiver<Vec<u8>>, PendingAnswer) {
        let (response, first) = self.send();
        (response, first.expect("it is no repetition"))
    }

    fn repeat(&self) -> Receiver<Vec<u8>> {
        let (response, first) = self.send();
        assert!(first.is_none(), "it must not be applied twice");
        response
    }
}

/// An UPDATE message without changes.
fn update() -> Vec<u8> {
    let header = [0, 1, 5 << 3, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&header[..], name("example.").as_ref().wire(), &[0, 6, 0, 1]].concat()
}

/// What a server that forwards all updates makes of the message.
fn pending_update() -> answer::PendingUpdate {
    let acls =
        ZoneAcls { update: UpdateAcl { role: UpdateRole::Forward, ..UpdateAcl::default() }, ..ZoneAcls::default() };
    let text = b"@ 60 SOA ns.invalid. host.invalid. 1 1 1 1 1\n@ 60 NS ns.invalid.\n";
    let apex = name("example.");
    let outcome = load_text(apex.as_ref(), text);
    let state = ZoneState::Loaded(outcome.zone.expect("a zone without errors"));
    let mut served = Served::default();
    served.zones.insert(Arc::new(ServedZone::new(state, ZoneExtras::new(acls, ZoneHistory::new()))));
    let transport = Transport::Tcp { idle_ds: 100 };
    let request = Request { message: &update(), peer: [192, 0, 2, 1].into(), transport, now_s: clock::real_s() };
    match answer::respond(&Arc::new(served), &mut WorkerState::new(), request, &mut [0; 4096]) {
        Response::Update(pending) => *pending,
        _ => panic!("it is passed on"),
    }
}

/// The RCODE of a response, if it was sent.
fn rcode(response: &Receiver<Vec<u8>>) -> Option<Rcode> {
    response.try_recv().ok().map(|octets| wire::message::header_rcode(&octets))
}

/// A server that forwards an update may send the same over another connection while the first is being applied.
#[test]
fn a_repetition_of_a_pending_update_gets_its_response() {
    for expected in [Rcode::NOERROR, Rcode::YXDOMAIN, Rcode::SERVFAIL] {
        let client = Client::new();
        let (first, pending) = client.begin();
        let repetitions = [client.repeat(), client.repeat()];
        assert_eq!(repetitions.each_ref().map(rcode), [None, None]);
        pending.refuse(expected, "as the test commands");
        assert_eq!(rcode(&first), Some(expected));
        assert_eq!(repetitions.each_ref().map(rcode), [Some(expected); 2]);
    }
}

#[test]
fn a_repetition_of_a_pending_update_gets_the_response_of_the_primary() {
    for len in [12, 2000] {
        let client = Client::new();
        let (first, pending) = client.begin();
        let repetition = client.repeat();
        let mut response = vec![0; len];
        response[2..4].copy_from_slice(&[0x80 | 5 << 3, Rcode::NXRRSET.0 as u8]);
        pending.relay(response, "192.0.2.2");
        assert_eq!([&first, &repetition].map(rcode), [Some(Rcode::NXRRSET); 2], "{len}");
    }
}

#[test]
fn few_repetitions_of_a_pending_update_wait_and_none_for_ever() {
    let client = Client::new();
    let (_, pending) = client.begin();
    let repetitions: Vec<_> = (0..10).map(|_| client.repeat()).collect();
    let rcodes: Vec<_> = repetitions.iter().map(rcode).collect();
    assert_eq!(rcodes, [[None; 8].as_slice(), &[Some(Rcode::SERVFAIL); 2]].concat());
    // As if what applies it had panicked.
    drop(pending);
    assert!(repetitions[..8].iter().all(|response| rcode(response) == Some(Rcode::SERVFAIL)));
    assert_eq!(rcode(&client.repeat()), Some(Rcode::SERVFAIL), "nothing is left to wait for");
    // Their parts of the budget are free again.
    (0..200).for_each(|_| _ = client.repeat());
}

/// An update to be forwarded, unlike those with other numbers, and its response.
fn forwarded(budget: &Arc<UpdateBudget>, number: u8) -> (ForwardedUpdate, Receiver<Vec<u8>>) {
    let (sender, receiver) = channel();
    let pending = pending_update();
    let reply = LateReply::new(pending.response, None, move |octets| _ = sender.send(octets));
    let incoming = Box::new(IncomingUpdate { update: pending.update, reply });
    let queued = budget.admit(incoming).unwrap_or_else(|_| panic!("the budget is used up"));
    let log = UpdateLog::new(name("example."), "192.0.2.1".into(), None);
    let answer = PendingAnswer { reply: queued.incoming.reply, unanswered: None, log };
    let message = [update(), vec![number]].concat().into();
    (ForwardedUpdate { message, answer, permit: queued.permit }, receiver)
}

fn policy_with_primary(primary: &TcpListener) -> Arc<ZonePolicy> {
    let mut reader = ConfigReader::default();
    reader.add_argument(name("example."), Path::new("file"));
    let policy = reader.finish().expect("no mistakes").zones.remove(0).source.policy;
    let address = primary.local_addr().expect("bound");
    let primaries = vec![RemoteServer { address, key: None, tls: None, source: None }];
    Arc::new(ZonePolicy { primaries, ..ZonePolicy::clone(&policy) })
}

/// A primary that accepts connections and never answers, with four zones, each of which has as many updates as may be forwarded at once.
#[test]
fn the_zones_of_a_primary_that_never_answers_do_not_delay_the_updates_of_others() {
    let [dead, live] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("loopback"));
    let [of_dead, of_live] = [&dead, &live].map(policy_with_primary);
    let exchanges = Box::new(ExchangeThreads::new(TlsPeers::default()));
    let mut forwarder = UpdateForwarder::new(TlsPeers::default(), exchanges);
    let budget = UpdateBudget::new(100, 100_000);
    let mut send_to_dead = |number: u8| {
        let (update, response) = forwarded(&budget, number);
        forwarder.forward(&name(&format!("z{}.", number % 4)), update, &of_dead);
        response
    };
    let waiting: Vec<Receiver<Vec<u8>>> = (0..40).map(&mut send_to_dead).collect();
    let primary = std::thread::spawn(move || {
        let (mut stream, _) = live.accept().expect("the update is forwarded");
        let mut message = [0; 2 + 64];
        let len = stream.read(&mut message).expect("the update");
        message[4] |= 0x80;
        stream.write_all(&message[..len]).expect("the response");
    });
    let (update, response) = forwarded(&budget, 0);
    forwarder.forward(&name("live."), update, &of_live);
    let octets = response.recv_timeout(Duration::from_secs(3)).expect("the dead primary takes 5 s for each update");
    assert_eq!(wire::message::header_rcode(&octets), Rcode::NOERROR);
    primary.join().expect("no panic");
    assert!(waiting.iter().all(|response| rcode(response).is_none()), "none has failed yet");
}
