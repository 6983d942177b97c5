//! The data of a zone: parsing and printing zone text, building and checking, changes, the tree of RRsets,
//! outgoing AXFR.
//!
//! No sockets; files are opened by the caller; threads only as many as the caller allows.
#![deny(unsafe_code)] // except in `tree::prefetch`, where a benchmark justifies it

pub mod axfr;
mod build;
mod build_options;
mod build_runs;
mod canonical_form;
pub mod canonical_key;
pub mod catalog;
pub mod change;
mod change_condensation;
mod check;
pub mod check_list;
mod denial;
pub mod dnssec;
pub mod encoded_change;
mod encoded_run;
pub mod export;
pub mod finding;
pub mod image;
mod intern;
pub mod ixfr;
pub mod load;
mod merge;
mod node_decoder;
mod occlusion;
mod owner_case;
mod owner_records;
mod received_record;
mod record_sorter;
pub mod rrset;
mod rrset_head;
pub mod serial_policy;
mod stage;
pub mod suggest;
pub mod text;
mod transfer_error;
mod transfer_message;
pub mod transfer_receiver;
pub mod transfer_stream;
pub mod tree;
mod ttl_limit;
pub mod update;
mod version_diff;
pub mod version_edit;
mod zone;
pub mod zone_builder;
pub mod zonemd;

pub use build::Difference;
pub use denial::{Denial, Nsec3Chain, Nsec3Label};
pub use finding::{CheckMode, FilePosition, Finding, Findings, Severity};
pub use owner_case::OWNER_BUFFER_LEN;
pub use zone::{Counts, Zone, ZoneVersion};
