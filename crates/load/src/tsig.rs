//! TSIG (RFC 8945) for queries: signed when they are sent, their responses verified.

use std::collections::HashMap;
use std::sync::Arc;

use netio::clock;
use wire::tsig::{Mac, TsigError, TsigKey, TsigSigner, TsigVerifier};

/// Signs the queries of a worker and verifies their responses.
///
/// The MAC of an unanswered query is kept until its source reuses the id.
pub struct TsigContext {
    key: Arc<TsigKey>,
    /// The MACs of queries, by source and message id.
    macs: HashMap<(u32, u16), Mac>,
    message: Vec<u8>,
}

impl TsigContext {
    pub fn new(key: Arc<TsigKey>) -> TsigContext {
        TsigContext { key, macs: HashMap::new(), message: Vec::new() }
    }

    /// Signs a query that `source` sends with `id`; [`TsigContext::message`] is the result.
    pub fn sign(&mut self, source: u32, id: u16, query: &[u8]) {
        self.message.clear();
        self.message.extend_from_slice(query);
        self.message[..2].copy_from_slice(&id.to_be_bytes());
        let now_s = clock::real().as_secs();
        let mac = TsigSigner::for_query(&*self.key).sign(&mut self.message, 0, now_s).expect("queries are short");
        self.macs.insert((source, id), mac);
    }

    /// The query that was signed last.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Verifies the signature of the response to an outstanding query (RFC 8945 5.3).
    pub fn verify(&mut self, source: u32, id: u16, response: &[u8]) -> Result<(), TsigError> {
        let mac = self.macs.remove(&(source, id)).expect("every outstanding query was signed");
        TsigVerifier::new(&*self.key, &mac).verify(response, clock::real().as_secs())
    }
}
