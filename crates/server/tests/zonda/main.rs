//! The real `zonda` binary, driven as its users drive it: every command, and what goes wrong.

mod acceptance;
mod added_zones;
mod catalog;
mod check;
mod check_command;
mod config;
mod damaged_journal;
mod harness;
mod journal_size;
mod manual;
mod many_mistakes;
mod memory;
mod packaging;
mod persistence;
mod persistent_servers;
mod reload;
mod role_changes;
mod secondary;
mod serve;
mod source_addresses;
#[allow(dead_code, reason = "the tests of the library use the rest")]
#[path = "../../src/tls/test_certificates.rs"]
mod test_certificates;
mod tls;
mod tls_clients;
mod tsig;
mod tune;
mod update;
mod update_client;
mod update_consistency;
mod update_forwarding;
mod zone;
mod zone_control;
mod zone_list;
mod zone_status;
