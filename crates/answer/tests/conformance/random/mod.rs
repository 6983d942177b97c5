//! Random zones and questions (proptest strategies), small and full of coincidences.

pub mod names;
pub mod questions;
pub mod sign;
pub mod zones;
