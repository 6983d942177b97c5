//! Decodes an image on several threads: leaves are checked independently of each other, and put in order at the end.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Fields, ImageDecoder, ImageError, NAMES, NSEC3, TreesDecoder};
use crate::tree::LeafLoader;
use crate::zone::Zone;

/// A chunk of leaves.
struct LeafChunk {
    number: u32,
    /// The tree that they belong to: names or NSEC3 owners.
    tree: usize,
    bytes: Vec<u8>,
}

/// The leaves of a chunk.
struct CheckedLeaves {
    number: u32,
    tree: usize,
    leaves: LeafLoader,
}

/// Reads an image on this thread and checks it on `threads` others, if these are several. `next_chunk` replaces its argument by the
/// next chunk and returns false after the last.
pub fn decode<E: From<ImageError>>(
    threads: usize,
    mut next_chunk: impl FnMut(&mut Vec<u8>) -> Result<bool, E>,
) -> Result<Zone, E> {
    let (mut decoder, mut chunk) = (ImageDecoder::new(), Vec::new());
    // The leaves need the tables.
    while threads < 2 || decoder.trees.is_none() {
        if !next_chunk(&mut chunk)? {
            return Ok(decoder.finish()?);
        }
        decoder.push(&chunk)?;
    }
    let (number, trees) = (decoder.number, decoder.trees.take().ok_or(ImageError::Order)?);
    let (sender, receiver) = sync_channel(2 * threads);
    let receiver = Arc::new(Mutex::new(receiver));
    let (read, checked) = std::thread::scope(|scope| {
        let trees = &trees;
        let spawn = |receiver: Arc<Mutex<Receiver<LeafChunk>>>| scope.spawn(move || check_leaves(trees, &receiver));
        // The threads alone hold the receiver: when all have failed, nothing can be sent to them.
        let workers: Vec<_> = std::iter::repeat_n(receiver, threads).map(spawn).collect();
        let read = read_leaves(number, &mut next_chunk, sender);
        let checked: Vec<_> =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect();
        (read, checked)
    });
    read?;
    decoder.trees = Some(in_order(trees, checked)?);
    Ok(decoder.finish()?)
}

/// Passes chunks on to the threads that check them; `number` is that of the next one.
fn read_leaves<E: From<ImageError>>(
    mut number: u32,
    next_chunk: &mut impl FnMut(&mut Vec<u8>) -> Result<bool, E>,
    sender: SyncSender<LeafChunk>,
) -> Result<(), E> {
    let mut last_tree = 0;
    loop {
        let mut bytes = Vec::new();
        if !next_chunk(&mut bytes)? {
            return Ok(());
        }
        let mut fields = Fields(&bytes);
        let (kind, found) = (fields.u8()?, fields.u32()?);
        let tree = match kind {
            NAMES => 0,
            NSEC3 => 1,
            _ => return Err(ImageError::Order.into()),
        };
        if found != number || tree < last_tree {
            return Err(ImageError::Order.into());
        }
        last_tree = tree;
        if sender.send(LeafChunk { number, tree, bytes }).is_err() {
            // All threads have failed, and say why.
            return Ok(());
        }
        number += 1;
    }
}

fn check_leaves(trees: &TreesDecoder, chunks: &Mutex<Receiver<LeafChunk>>) -> Result<Vec<CheckedLeaves>, ImageError> {
    let mut checked = Vec::new();
    let mut own = trees.without_leaves();
    loop {
        // Whoever has the lock waits for the next chunk.
        let chunk = chunks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(LeafChunk { number, tree, bytes }) = chunk else { return Ok(checked) };
        let mut fields = Fields(&bytes);
        fields.u8()?;
        fields.u32()?;
        own.push(tree, fields.0)?;
        checked.push(CheckedLeaves { number, tree, leaves: std::mem::take(&mut own.loaders[tree]) });
    }
}

fn in_order(
    mut trees: TreesDecoder,
    checked: Vec<Result<Vec<CheckedLeaves>, ImageError>>,
) -> Result<TreesDecoder, ImageError> {
    let mut parts = Vec::new();
    for checked in checked {
        parts.append(&mut checked?);
    }
    parts.sort_unstable_by_key(|part| part.number);
    for CheckedLeaves { tree, leaves, .. } in parts {
        trees.loaders[tree].append_all(leaves)?;
    }
    Ok(trees)
}
