//! What `respond` answers, held against the RFCs: by an oracle on random zones and by the RFCs' own examples.

mod compare;
mod edns_options;
mod large;
mod mutations;
mod oracle;
mod properties;
mod random;
mod referrals;
mod rfc1034;
mod rfc2181;
mod rfc2308;
mod rfc2782;
mod rfc4035;
mod rfc4592;
mod rfc4892;
mod rfc5155;
mod rfc5936;
mod rfc6672;
mod rfc6891;
mod rfc8482;
mod rfc8906;
mod rfc8945;
mod rfc9471;
mod server;
mod subject;
mod text;
