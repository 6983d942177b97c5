//! EDNS (RFC 6891): the OPT record of a query, and the codes of options and extended errors.

use crate::cookie::ClientCookie;

pub(crate) const NSID: u16 = 3;
pub(crate) const EXPIRE: u16 = 9;
pub(crate) const COOKIE: u16 = 10;
pub(crate) const KEEPALIVE: u16 = 11;
pub(crate) const PADDING: u16 = 12;
pub(crate) const EXTENDED_ERROR: u16 = 15;
pub(crate) const ZONE_VERSION: u16 = 19;

/// The OPT record of a query.
#[derive(Clone, Copy, Default)]
pub(crate) struct QueryEdns<'m> {
    pub(crate) payload: u16,
    pub(crate) version: u8,
    pub(crate) dnssec_ok: bool,
    /// Any of the options below is there, or wanted: one test for the many queries without.
    pub(crate) has_options: bool,
    pub(crate) wants_nsid: bool,
    pub(crate) wants_zone_version: bool,
    pub(crate) wants_keepalive: bool,
    pub(crate) wants_expire: bool,
    pub(crate) wants_padding: bool,
    /// The client cookie, and the server cookie or nothing (RFC 7873 4).
    pub(crate) cookie: Option<(ClientCookie, &'m [u8])>,
}

impl<'m> QueryEdns<'m> {
    /// Reads the class and the TTL of an OPT record.
    pub(crate) fn new(class: u16, ttl: u32) -> QueryEdns<'m> {
        QueryEdns { payload: class, version: (ttl >> 16) as u8, dnssec_ok: ttl & 0x8000 != 0, ..QueryEdns::default() }
    }

    /// Reads the options in its RDATA; `None` where one is malformed.
    pub(crate) fn read_options(&mut self, rdata: &'m [u8]) -> Option<()> {
        // RFC 6891 6.1.3: another version gets BADVERS, whatever its options look like.
        let mut rest = if self.version == 0 { rdata } else { &[] };
        while !rest.is_empty() {
            let (head, more) = rest.split_first_chunk::<4>()?;
            let code = u16::from_be_bytes([head[0], head[1]]);
            let (data, more) = more.split_at_checked(usize::from(u16::from_be_bytes([head[2], head[3]])))?;
            self.read_option(code, data)?;
            rest = more;
        }
        Some(())
    }

    fn read_option(&mut self, code: u16, data: &'m [u8]) -> Option<()> {
        self.has_options = true;
        match code {
            NSID => self.wants_nsid = true,
            // RFC 7314 2: empty in a query; any data is ignored.
            EXPIRE => self.wants_expire = true,
            // RFC 7873 5.2: the first cookie counts. 5.2.2: 8 octets, then a server cookie of 8 to 32 octets or none.
            COOKIE if self.cookie.is_none() => {
                let (client, server) = data.split_first_chunk::<8>()?;
                if !(server.is_empty() || (8..=32).contains(&server.len())) {
                    return None;
                }
                self.cookie = Some((*client, server));
            }
            KEEPALIVE => self.wants_keepalive = true,
            // RFC 7830 3: the octets may have any value.
            PADDING => self.wants_padding = true,
            // RFC 9660 3.1: empty in a query.
            ZONE_VERSION if data.is_empty() => self.wants_zone_version = true,
            ZONE_VERSION => return None,
            // RFC 6891 6.1.2: unknown options are ignored.
            _ => {}
        }
        Some(())
    }
}

/// The info-code of an extended DNS error (EDE, RFC 8914).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtendedError {
    /// RFC 8914 4.15: the zone is not loaded.
    NotReady = 14,
    /// RFC 8914 4.21: no zone here contains the name.
    NotAuthoritative = 20,
    /// RFC 8914 4.25: the zone has expired, or has no answer that fits into a message.
    InvalidData = 24,
    /// RFC 9276 6: the proof needs too many NSEC3 iterations.
    UnsupportedNsec3Iterations = 27,
}
