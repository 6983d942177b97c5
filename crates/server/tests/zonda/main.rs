//! The real `zonda` binary, driven as its users drive it: every command, and what goes wrong.

mod check;
mod config;
mod harness;
mod manual;
mod many_mistakes;
mod reload;
mod serve;
mod tsig;
mod zone_list;
