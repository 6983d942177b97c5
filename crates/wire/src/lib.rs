//! DNS bytes: names, types, messages, EDNS. No I/O, no clock.
#![forbid(unsafe_code)]
