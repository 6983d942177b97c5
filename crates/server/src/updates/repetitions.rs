//! The response to a message, and the repetitions of the message that wait for it.

use std::sync::{Arc, Mutex, PoisonError};

use wire::message::Rcode;

use super::budget::QueuedUpdate;
use crate::listen::LateReply;

/// The response that a message got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateAnswer {
    /// This RCODE.
    Rcode(Rcode),
    /// The response of a primary.
    Relayed(Arc<[u8]>),
}

impl UpdateAnswer {
    /// Sends it.
    pub fn send(&self, reply: LateReply) {
        match self {
            UpdateAnswer::Rcode(rcode) => reply.send(*rcode),
            UpdateAnswer::Relayed(response) => reply.relay(response.to_vec()),
        }
    }
}

/// How many repetitions of a message wait for its response: a client and a few servers that forward it have one each.
const MAX_WAITING: usize = 8;

/// The repetitions that wait for the response to the first message. They count in the budget of updates, and get SERVFAIL if this is dropped.
#[derive(Default)]
pub(super) struct Repetitions(Mutex<Vec<QueuedUpdate>>);

impl Repetitions {
    /// Adds one; returns it if too many wait.
    pub(super) fn add(&self, repetition: QueuedUpdate) -> Result<(), QueuedUpdate> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAX_WAITING {
            return Err(repetition);
        }
        waiting.push(repetition);
        Ok(())
    }

    /// Sends this response to all that wait.
    pub(super) fn answer(&self, answer: &UpdateAnswer) {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.into_iter().for_each(|QueuedUpdate { incoming, .. }| answer.send(incoming.reply));
    }
}

impl Drop for Repetitions {
    fn drop(&mut self) {
        self.answer(&UpdateAnswer::Rcode(Rcode::SERVFAIL));
    }
}
