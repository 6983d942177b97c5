//! Queries that are signed when they leave (RFC 8945), and the signatures of their answers.

use std::collections::HashMap;
use std::sync::Arc;

use netio::clock;
use wire::tsig::{Fault, Key, Mac, Signer, Verifier};

/// Signs the queries of a worker. An unanswered query leaves its MAC behind until its source uses the id again.
pub struct Signing {
    key: Arc<Key>,
    /// By source and id.
    macs: HashMap<(u32, u16), Mac>,
    message: Vec<u8>,
}

impl Signing {
    /// With this key.
    pub fn new(key: Arc<Key>) -> Signing {
        Signing { key, macs: HashMap::new(), message: Vec::new() }
    }

    /// Signs a query that is sent from `source` with `id`.
    pub fn sign(&mut self, source: u32, id: u16, query: &[u8]) {
        self.message.clear();
        self.message.extend_from_slice(query);
        self.message[..2].copy_from_slice(&id.to_be_bytes());
        let now_s = clock::real().as_secs();
        let mac = Signer::of_query(&self.key).sign(&mut self.message, 0, now_s).expect("queries are short");
        self.macs.insert((source, id), mac);
    }

    /// The query that was signed last.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// What is wrong with the signature of an answer (RFC 8945 5.3).
    pub fn fault(&mut self, source: u32, id: u16, answer: &[u8]) -> Option<Fault> {
        let mac = self.macs.remove(&(source, id)).expect("every query in flight was signed");
        Verifier::new(&self.key, &mac).take(answer, clock::real().as_secs()).err()
    }
}
