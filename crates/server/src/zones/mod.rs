//! The zones of this daemon: which there are, from which files they are loaded, and what of them is published.
//!
//! [`ZoneRegistry`] belongs to the writer thread. It hands zones to a [`read_pool::ReadPool`], whose threads read zone
//! files, and publishes each finished zone.

pub mod acceptance;
pub mod answer_config;
mod change_detection;
pub mod check_command;
pub mod journal;
mod known_sizes;
pub mod load;
pub mod load_progress;
mod load_schedule;
pub mod publication;
pub mod read_pool;
mod registry;
pub mod template_set;
pub mod text_files;
pub mod work_pool;
mod zone_entry;
mod zone_file;
mod zone_loads;
pub mod zone_origin;
pub mod zone_pools;
mod zone_slab;

pub use registry::{
    ChangeDone, ChangeHooks, ChangeRefusal, ChangedZone, ControlRefused, FinishedWork, NoHooks, ProposedChange,
    PublishOrder, Rollback, ZoneChange, ZoneNotice, ZoneRegistry,
};
pub use zone_loads::FinishedRead;
