//! The registry of zones.

mod progress;
mod spread;
mod stamp;
