//! The limits of the store.

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
    /// The history of one zone: at most this, or as much as its image.
    pub history_per_zone: u64,
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
            history_per_zone: 1 << 20,
            history_total: 1 << 30,
        }
    }
}
