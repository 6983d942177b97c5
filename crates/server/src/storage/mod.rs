//! Persistence: what survives a restart of every zone, in few files.
//!
//! [`Store`] is the state machine, without threads; [`disk`] the files below it. Above it [`Committer`] decides when to sync, and
//! [`StorageThread`] runs it; the rest of the server has a [`StorageHandle`].

mod commit_queue;
mod committer;
pub mod disk;
mod history;
mod image_file;
mod limits;
mod record;
mod recovery;
mod segment;
mod storage_handle;
mod storage_thread;
mod store;
mod timers;
mod usage;
mod zone_index;

pub use commit_queue::{Append, AppendError, AppendRecord};
pub use committer::{Committer, NextStep};
pub use history::{ChangeReader, StoredChange};
pub use image_file::{ImageFrame, ImageReadError, ImageReader, ImageWriter, StoredImage};
pub use limits::{CommitLimits, StoreLimits};
pub use recovery::{RecoveredZone, Recovery};
pub use storage_handle::{DueImage, StorageEvent, StorageHandle};
pub use storage_thread::StorageThread;
pub use store::{ChangeRefused, ImageBase, Store, StoreError, StoredZone};
pub use timers::Timers;
pub use usage::{StoreUsage, ZoneUsage};
