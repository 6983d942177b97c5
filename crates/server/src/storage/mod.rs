//! Persistence: what survives a restart of every zone, in few files.
//!
//! [`Store`] is the state machine, without threads; [`disk`] the files below it; `commit` the thread above it.

mod compaction;
pub mod disk;
mod history;
mod image_file;
mod record;
mod recovery;
mod segment;
mod store;
mod timers;
mod zone_index;

pub use history::{ChangeReader, StoredChange};
pub use image_file::{ImageReadError, ImageReader, ImageWriter, StoredImage};
pub use recovery::{RecoveredZone, Recovery};
pub use store::{ImageBase, Store, StoreError, StoreLimits, StoredZone};
pub use timers::Timers;
