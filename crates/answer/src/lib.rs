//! Query bytes to answer bytes over the published zones.
#![forbid(unsafe_code)]
