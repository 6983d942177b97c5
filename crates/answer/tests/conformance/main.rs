//! What `respond` answers, held against the RFCs: by an oracle on random zones and by the RFCs' own examples.

mod compare;
mod oracle;
mod properties;
mod random;
mod rfc1034;
mod rfc2308;
mod rfc4035;
mod rfc4592;
mod rfc5155;
mod rfc6672;
mod server;
mod subject;
mod text;
