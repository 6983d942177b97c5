//! Decodes an image on several threads: leaves are checked independently of each other, and put in order at the end.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use super::{Fields, ImageDecoder, ImageError, NAMES, NSEC3, TreesDecoder};
use crate::tree::LeafLoader;
use crate::zone::Zone;

/// The chunks of leaves that no thread has taken yet.
struct ChunkQueue<N>(Mutex<RemainingChunks<N>>);

struct RemainingChunks<N> {
    /// The number of the next one.
    number: u32,
    /// Finds the next one; `None` after an error.
    next_chunk: Option<N>,
}

/// The leaves of a chunk.
struct CheckedLeaves {
    number: u32,
    /// The tree that they belong to: names or NSEC3 owners.
    tree: usize,
    leaves: LeafLoader,
}

/// Reads and checks an image on `threads` threads, this one included. `next_chunk` returns the place of the next chunk, or `None` after
/// the last; `read` replaces its argument by the chunk at a place.
///
/// Each thread reads what it checks, into one buffer: the octets are in the cache of its processor, and no memory is mapped for them.
pub fn decode<P, E: From<ImageError> + Send>(
    threads: usize,
    mut next_chunk: impl FnMut() -> Result<Option<P>, E> + Send,
    read: impl Fn(P, &mut Vec<u8>) -> Result<(), E> + Sync,
) -> Result<Zone, E> {
    let (mut decoder, mut chunk) = (ImageDecoder::new(), Vec::new());
    // The leaves need the tables.
    while threads < 2 || decoder.trees.is_none() {
        let Some(place) = next_chunk()? else { return Ok(decoder.finish()?) };
        read(place, &mut chunk)?;
        decoder.push(&chunk)?;
    }
    let trees = decoder.trees.take().ok_or(ImageError::Order)?;
    let queue = ChunkQueue(Mutex::new(RemainingChunks { number: decoder.number, next_chunk: Some(next_chunk) }));
    let check = || check_leaves(&trees, &queue, &read).inspect_err(|_| queue.end());
    let checked: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(check)).collect();
        let own = check();
        let joined = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        std::iter::once(own).chain(joined).collect()
    });
    decoder.trees = Some(in_order(trees, checked)?);
    Ok(decoder.finish()?)
}

impl<P, E, N: FnMut() -> Result<Option<P>, E>> ChunkQueue<N> {
    /// The number and the place of the next chunk; `None` after the last one or an error.
    fn take(&self) -> Result<Option<(u32, P)>, E> {
        let mut chunks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(next_chunk) = &mut chunks.next_chunk else { return Ok(None) };
        let Some(place) = next_chunk()? else { return Ok(None) };
        let number = chunks.number;
        chunks.number += 1;
        Ok(Some((number, place)))
    }
}

impl<N> ChunkQueue<N> {
    /// The other threads need not go on.
    fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_chunk = None;
    }
}

/// Reads and checks chunks of leaves until none is left.
fn check_leaves<P, E: From<ImageError>>(
    trees: &TreesDecoder,
    queue: &ChunkQueue<impl FnMut() -> Result<Option<P>, E>>,
    read: impl Fn(P, &mut Vec<u8>) -> Result<(), E>,
) -> Result<Vec<CheckedLeaves>, E> {
    let (mut checked, mut chunk) = (Vec::new(), Vec::new());
    let mut own = trees.without_leaves();
    while let Some((number, place)) = queue.take()? {
        read(place, &mut chunk)?;
        let mut fields = Fields(&chunk);
        let (kind, found) = (fields.u8()?, fields.u32()?);
        let tree = match kind {
            NAMES => 0,
            NSEC3 => 1,
            _ => return Err(ImageError::Order.into()),
        };
        if found != number {
            return Err(ImageError::Order.into());
        }
        own.push(tree, fields.0)?;
        checked.push(CheckedLeaves { number, tree, leaves: std::mem::take(&mut own.loaders[tree]) });
    }
    Ok(checked)
}

fn in_order<E: From<ImageError>>(
    mut trees: TreesDecoder,
    checked: Vec<Result<Vec<CheckedLeaves>, E>>,
) -> Result<TreesDecoder, E> {
    let mut parts = Vec::new();
    for checked in checked {
        parts.append(&mut checked?);
    }
    parts.sort_unstable_by_key(|part| part.number);
    if !parts.is_sorted_by_key(|part| part.tree) {
        return Err(ImageError::Order.into());
    }
    for CheckedLeaves { tree, leaves, .. } in parts {
        trees.loaders[tree].append_all(leaves).map_err(ImageError::from)?;
    }
    Ok(trees)
}
