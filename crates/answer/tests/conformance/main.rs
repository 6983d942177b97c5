//! What `respond` answers, held against the RFCs: by an oracle on random zones and by the RFCs' own examples.

mod compare;
mod oracle;
mod properties;
mod random;
mod rfc4592;
mod server;
mod subject;
mod text;
