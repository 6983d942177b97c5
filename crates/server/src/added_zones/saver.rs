//! The thread that writes added and removed zones to disk: one sync for all that wait.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::thread;
use std::time::Duration;

use tracing::error;

use super::{AddedZonesFile, Edit, warn_not_rewritten};
use crate::storage::disk::Disk;
use crate::write_help::write_help;

/// Edits to write, in the order in which the writer made them.
pub struct SaveRequest {
    /// The edits.
    pub edits: Vec<Edit>,
    /// Receives an empty message once they are on disk, or why they are not.
    pub reply: Option<SyncSender<Result<(), String>>>,
}

/// Sends edits to the thread.
#[derive(Clone)]
pub struct Saver(Sender<SaveRequest>);

/// Time until another attempt after a failure, even if nobody asks for one.
pub const RETRY: Duration = Duration::from_secs(10);

impl Saver {
    /// The file's queue, and what sends to it.
    pub fn new<D: Disk>(file: AddedZonesFile<D>) -> (Saver, SaveQueue<D>) {
        let (sender, requests) = channel();
        (Saver(sender), SaveQueue { file, requests, unsaved: String::new() })
    }

    /// Writes edits soon.
    pub fn save(&self, request: SaveRequest) {
        // Fails only if the thread has panicked; the reply is dropped then, and the client gets an error.
        _ = self.0.send(request);
    }
}

/// What is to be written to the file.
pub struct SaveQueue<D: Disk> {
    file: AddedZonesFile<D>,
    requests: Receiver<SaveRequest>,
    /// Lines that could not be written yet.
    unsaved: String,
}

impl<D: Disk> SaveQueue<D> {
    /// Starts the thread.
    pub fn start(self) -> io::Result<()> {
        thread::Builder::new().name("added-zones".into()).spawn(move || self.run()).map(drop)
    }

    fn run(mut self) {
        loop {
            let first = match self.has_unsaved() {
                false => self.requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
                true => self.requests.recv_timeout(RETRY),
            };
            match first {
                Ok(request) => self.save(Some(request)),
                Err(RecvTimeoutError::Timeout) => self.save(None),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Saves what waits, or tries again what could not be saved. Returns whether there was anything.
    #[cfg(test)]
    pub fn step(&mut self, tries_again: bool) -> bool {
        let first = self.requests.try_recv().ok();
        let is_due = first.is_some() || tries_again && self.has_unsaved();
        if is_due {
            self.save(first);
        }
        is_due
    }

    /// Whether something must be tried again.
    pub fn has_unsaved(&self) -> bool {
        !self.unsaved.is_empty() || !self.file.is_synced
    }

    /// Saves this request, those that wait, and what could not be saved before.
    fn save(&mut self, first: Option<SaveRequest>) {
        let mut replies = Vec::new();
        first.into_iter().chain(self.requests.try_iter()).for_each(|request| {
            request.edits.iter().for_each(|edit| edit.append(&mut self.unsaved));
            replies.extend(request.reply);
        });
        let result = self.file.append(&self.unsaved);
        match &result {
            Ok(()) => self.unsaved.clear(),
            Err(error) => {
                let help = write_help(error, "the state-dir");
                error!(help, "added and removed zones cannot be saved, zonda tries again every 10 s: {error}");
                _ = self.file.reopen();
            }
        }
        let result = result.map_err(|error| error.to_string());
        // A client that has left gets no reply.
        replies.into_iter().for_each(|reply| _ = reply.send(result.clone()));
        if let Err(error) = self.file.rewrite_if_grown() {
            warn_not_rewritten(&error);
        }
    }
}
