//! The thread that writes added and removed zones to disk: one sync for all that wait.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::thread;
use std::time::Duration;

use tracing::error;

use super::{AddedZonesFile, Edit, warn_not_rewritten};
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
const RETRY: Duration = Duration::from_secs(10);

impl Saver {
    /// Starts the thread.
    pub fn start(file: AddedZonesFile) -> io::Result<Saver> {
        let (sender, requests) = channel();
        thread::Builder::new().name("added-zones".into()).spawn(move || save_all(file, &requests))?;
        Ok(Saver(sender))
    }

    /// Writes edits soon.
    pub fn save(&self, request: SaveRequest) {
        // Fails only if the thread has panicked; the reply is dropped then, and the client gets an error.
        _ = self.0.send(request);
    }
}

fn save_all(mut file: AddedZonesFile, requests: &Receiver<SaveRequest>) {
    let mut unsaved = String::new();
    loop {
        let first = match unsaved.is_empty() {
            true => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => requests.recv_timeout(RETRY),
        };
        let mut replies = Vec::new();
        match first {
            Ok(request) => std::iter::once(request).chain(requests.try_iter()).for_each(|request| {
                request.edits.iter().for_each(|edit| edit.append(&mut unsaved));
                replies.extend(request.reply);
            }),
            Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let result = file.append(&unsaved);
        match &result {
            Ok(()) => unsaved.clear(),
            Err(error) => {
                let help = write_help(error, "the state-dir");
                error!(help, "added and removed zones cannot be saved, zonda tries again every 10 s: {error}");
                _ = file.reopen();
            }
        }
        let result = result.map_err(|error| error.to_string());
        // A client that has left gets no reply.
        replies.into_iter().for_each(|reply| _ = reply.send(result.clone()));
        if let Err(error) = file.rewrite_if_grown() {
            warn_not_rewritten(&error);
        }
    }
}
