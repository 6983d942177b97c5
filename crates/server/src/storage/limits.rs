//! The limits of the store and of the thread that writes to it.

use std::time::Duration;

/// Bounds of the store, in octets.
#[derive(Clone, Copy, Debug)]
pub struct StoreLimits {
    /// A segment that is longer is followed by a new one.
    pub segment_len: u32,
    /// A zone needs a new image once the changes after its image exceed this, and 1/`image_share` of the image.
    pub min_changes_len: u64,
    /// See `min_changes_len`.
    pub image_share: u64,
    /// A longer image gets a file of its own.
    pub inline_image_len: usize,
    /// The history of all zones.
    pub history_total: u64,
}

impl Default for StoreLimits {
    fn default() -> StoreLimits {
        StoreLimits {
            segment_len: 64 << 20,
            min_changes_len: 16 << 10,
            image_share: 2,
            inline_image_len: 1 << 20,
            history_total: 1 << 30,
        }
    }
}

/// Bounds of the queue of the storage thread, and of its steps.
#[derive(Clone, Copy, Debug)]
pub struct CommitLimits {
    /// Requests that wait.
    pub max_queued: usize,
    /// Their octets.
    pub max_queued_octets: usize,
    /// Requests in one batch.
    pub max_batch: usize,
    /// Octets in one batch, unless the last request is larger.
    pub max_batch_octets: usize,
    /// Due images that are being written.
    pub max_images: usize,
    /// Octets of the log that are compacted with one batch.
    pub compaction_step: u32,
    /// How long to wait after the disk has failed; twice as long each time.
    pub min_retry: Duration,
    /// The longest wait.
    pub max_retry: Duration,
    /// How long to wait for the next attempt to write an image, or to compact.
    pub image_retry: Duration,
}

impl Default for CommitLimits {
    fn default() -> CommitLimits {
        CommitLimits {
            max_queued: 64 << 10,
            max_queued_octets: 64 << 20,
            max_batch: 4096,
            max_batch_octets: 8 << 20,
            max_images: 4,
            compaction_step: 256 << 10,
            min_retry: Duration::from_millis(100),
            max_retry: Duration::from_secs(5),
            image_retry: Duration::from_secs(60),
        }
    }
}
