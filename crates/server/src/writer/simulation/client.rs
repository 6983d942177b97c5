//! A simulated client: replaces a record again and again, and repeats each update until it is acknowledged. Some clients send their updates to
//! secondaries, which forward them.

use wire::message::{Edns, Flags, Message, Opcode, Question, Rcode, Record};
use wire::tsig::{Mac, TsigError, TsigKey, TsigSigner, TsigVerifier};
use wire::{Class, Name, Rtype};

use super::PRIMARY;
use super::network::{Network, Sender};
use crate::clock;
use crate::simulated_disk::Random;

/// How long it waits for an answer.
const TIMEOUT_MS: u64 = 1000;
/// How long a message is repeated as it is: with another signature it is another update, and not recognized.
const SIGNATURE_LIFETIME_S: u32 = 100;
/// The longest pause between two updates.
const MAX_PAUSE_MS: u64 = 1500;

pub struct Client {
    number: usize,
    zone: &'static str,
    /// The machine that its updates are sent to.
    pub server: usize,
    /// The last value that was acknowledged; values count up.
    pub acknowledged: u32,
    waiting: Option<Sent>,
    next_ms: u64,
    /// Signs its updates.
    key: Option<TsigKey>,
    /// The RDATA that each update requires. A secondary may still forward a message when another copy of it was acknowledged over
    /// another way, and later ones too: without this, the late copy would undo those.
    requires: Option<Rdata>,
}

/// The RDATA before an update; `None` if there is no record.
type Rdata = Option<Vec<u8>>;

/// An update that is not acknowledged.
struct Sent {
    message: Vec<u8>,
    rdata: Vec<u8>,
    /// The message with its signature, the MAC, and when it was made.
    signed: Vec<u8>,
    mac: Option<Mac>,
    signed_at_s: u32,
}

impl Sent {
    fn new(message: Vec<u8>, rdata: Vec<u8>, key: Option<&TsigKey>) -> Sent {
        let (mut signed, signed_at_s) = (message.clone(), clock::real_s());
        let sign = |key| TsigSigner::for_query(key).sign(&mut signed, 0, signed_at_s.into()).expect("it is short");
        let mac = key.map(sign);
        Sent { message, rdata, signed, mac, signed_at_s }
    }
}

pub fn query(name: &str, rtype: Rtype) -> Vec<u8> {
    let question = Question { name: name.parse().expect("a name"), qtype: rtype, qclass: Class::IN };
    Message { id: 7, questions: vec![question], edns: Some(Edns::default()), ..Message::default() }.to_wire()
}

/// The value in a TXT record.
pub fn value_of(rdata: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(rdata.get(1..).unwrap_or_default());
    text.trim_end_matches('.').parse().expect("a number")
}

impl Client {
    pub fn new(number: usize, zone: &'static str, server: usize) -> Client {
        let is_forwarded = server != PRIMARY;
        let secret: Vec<u8> = (1..=32).collect();
        let name: Name = "update.".parse().expect("a name");
        let key = TsigKey::new("hmac-sha256", name.as_ref(), &secret).expect("a known algorithm");
        let key = (number < 2 || is_forwarded).then_some(key);
        let requires = is_forwarded.then_some(None);
        Client { number, zone, server, acknowledged: 0, waiting: None, next_ms: 0, key, requires }
    }

    pub fn owner(&self) -> String {
        format!("client{}.{}", self.number, self.zone)
    }

    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// When it sends something; it begins no update unless `begins`.
    pub fn next_ms(&self, begins: bool) -> Option<u64> {
        (begins || self.is_waiting()).then_some(self.next_ms)
    }

    /// Sends the next update, or the same message again.
    pub fn send(&mut self, network: &mut Network) {
        let value = self.acknowledged + 1;
        let sent = match self.waiting.take() {
            Some(sent) if clock::real_s() - sent.signed_at_s < SIGNATURE_LIFETIME_S => sent,
            Some(sent) => Sent::new(sent.message, sent.rdata, self.key.as_ref()),
            None => {
                let (message, rdata) = self.update(value, &mut network.random);
                Sent::new(message, rdata, self.key.as_ref())
            }
        };
        network.send_query(self.server, Sender::Client(self.number), sent.signed.clone());
        self.waiting = Some(sent);
        self.next_ms = network.now_ms + TIMEOUT_MS;
    }

    /// An answer has arrived; returns whether it acknowledges an update. BADTIME counts as no answer if clocks `may_be_wrong`.
    pub fn answered(
        &mut self,
        octets: &[u8],
        now_ms: u64,
        random: &mut Random,
        may_be_wrong: bool,
    ) -> Result<bool, String> {
        let answer = Message::parse(octets).map_err(|error| error.to_string())?;
        let Some(sent) = self.waiting.as_ref().filter(|sent| sent.message[..2] == octets[..2]) else {
            return Ok(false);
        };
        if let (Some(key), Some(mac)) = (&self.key, &sent.mac) {
            let verified = TsigVerifier::new(key, mac).verify(octets, clock::real_s().into());
            if may_be_wrong && [Err(TsigError::FromPeer(Rcode::BADTIME.0)), Err(TsigError::BadTime)].contains(&verified)
            {
                return Ok(false);
            }
            verified.map_err(|error| format!("an answer to {}: {error}", self.owner()))?;
        }
        // What it requires is gone if a former copy of the message was applied and its response was lost.
        let was_applied = self.requires.is_some() && [Rcode::NXRRSET, Rcode::YXRRSET].contains(&answer.rcode);
        match answer.rcode {
            Rcode::SERVFAIL => Ok(false),
            rcode if rcode == Rcode::NOERROR || was_applied => {
                self.acknowledged += 1;
                let rdata = self.waiting.take().map(|sent| sent.rdata);
                self.requires = self.requires.take().map(|_| rdata);
                self.next_ms = now_ms + random.below(MAX_PAUSE_MS);
                Ok(true)
            }
            rcode => Err(format!("an update of {} is answered with {rcode}", self.owner())),
        }
    }

    /// Replaces the record (RFC 2136 2.5.2, 2.5.1); also returns the new RDATA.
    fn update(&self, value: u32, random: &mut Random) -> (Vec<u8>, Vec<u8>) {
        let owner: Name = self.owner().parse().expect("a name");
        // Of different lengths, so that segments and images are of all sizes.
        let text = format!("{value}{}", ".".repeat(random.below(200) as usize));
        let rdata = [&[text.len() as u8], text.as_bytes()].concat();
        // RFC 2136 2.4.2, 2.4.3.
        let required = self.requires.as_ref().map(|before| match before {
            Some(rdata) => (Class::IN, rdata.clone()),
            None => (Class::NONE, Vec::new()),
        });
        let required =
            required.map(|(class, rdata)| Record { owner: owner.clone(), rtype: Rtype::TXT, class, ttl: 0, rdata });
        let remove = Record { owner: owner.clone(), rtype: Rtype::TXT, class: Class::ANY, ttl: 0, rdata: Vec::new() };
        let add = Record { owner, rtype: Rtype::TXT, class: Class::IN, ttl: 60, rdata: rdata.clone() };
        let question = Question { name: self.zone.parse().expect("a name"), qtype: Rtype::SOA, qclass: Class::IN };
        // The ID shows which update an answer belongs to.
        let id = (value << 4) as u16 | self.number as u16;
        let flags = Flags::default();
        let message = Message {
            id,
            opcode: Opcode::UPDATE,
            flags,
            questions: vec![question],
            answer: required.into_iter().collect(),
            authority: vec![remove, add],
            ..Message::default()
        };
        (message.to_wire(), rdata)
    }
}
