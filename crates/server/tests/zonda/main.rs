//! The real `zonda` binary, driven as its users drive it: every command, and what goes wrong.

mod bench;
mod check;
mod config;
mod manual;
mod reload;
mod serve;
mod zone_list;
