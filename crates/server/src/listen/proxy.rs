//! The PROXY protocol, version 2, as its receiver: a proxy says before a message or a connection whose it is.
//!
//! Source: [The PROXY protocol](https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt), 2.2. Version 1 is text and only for
//! TCP; no DNS proxy needs it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use wire::AddressPrefix;

/// The first octets of a header. In a datagram they would be an inverse query, which is obsolete. On a connection they would announce a message of 3338
/// octets: a query with RCODE 13 and 2641 questions. So no client sends such a message, and from others than proxies it is refused as a header.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The signature, version and command, address family, length of the rest.
const FIXED_LEN: usize = 16;
/// The longest accepted header in octets. Addresses take up to 216; the rest are TLVs, of which dnsdist sends a few short ones.
const MAX_LEN: usize = 2048;

/// The proxies whose headers are believed. Clones share the list.
#[derive(Clone, Debug, Default)]
pub struct Proxies(Option<Arc<[AddressPrefix]>>);

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Its length in octets.
    pub len: usize,
    /// Who sent what follows; `None` for the proxy itself.
    pub client: Option<IpAddr>,
}

/// Why a message or connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// There is no header where one must be, or it is none that the specification allows.
    #[error("no valid PROXY header of version 2 from a proxy in `proxy-from`")]
    Invalid,
    /// A header of an address that is no proxy.
    #[error("a PROXY header from an address that is not in `proxy-from`")]
    Unexpected,
}

impl From<ProxyError> for io::Error {
    fn from(error: ProxyError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

impl From<Vec<AddressPrefix>> for Proxies {
    fn from(prefixes: Vec<AddressPrefix>) -> Proxies {
        Proxies(Some(prefixes).filter(|prefixes| !prefixes.is_empty()).map(Arc::from))
    }
}

impl Proxies {
    /// Whether `peer` must send headers.
    #[inline]
    pub(super) fn contains(&self, peer: IpAddr) -> bool {
        self.0.as_ref().is_some_and(|prefixes| prefixes.iter().any(|prefix| prefix.contains(peer)))
    }

    /// The message in a datagram, and who sent it.
    #[inline]
    pub(super) fn message_in<'d>(&self, datagram: &'d [u8], peer: IpAddr) -> Result<(&'d [u8], IpAddr), ProxyError> {
        if self.0.is_none() {
            return Ok((datagram, peer));
        }
        if !self.contains(peer) {
            return if is_header(datagram) { Err(ProxyError::Unexpected) } else { Ok((datagram, peer)) };
        }
        let header = parse(datagram)?;
        Ok((&datagram[header.len..], header.client.unwrap_or(peer)))
    }
}

/// Whether `octets` begin with a header. Fewer than 12 octets of one can still become a message.
pub(super) fn is_header(octets: &[u8]) -> bool {
    octets.starts_with(&SIGNATURE)
}

/// Overwrites the header that a buffer may begin with.
pub(super) fn erase_header(buffer: &mut [u8]) {
    buffer[..SIGNATURE.len()].fill(0);
}

/// How many octets a header lacks of which `received` have arrived, as far as these say; 0 for a complete one.
pub fn missing(received: &[u8]) -> Result<usize, ProxyError> {
    let known = received.len().min(SIGNATURE.len());
    if received[..known] != SIGNATURE[..known] {
        return Err(ProxyError::Invalid);
    }
    match received.first_chunk() {
        None => Ok(FIXED_LEN - received.len()),
        Some(fixed) => Ok(header_len(fixed)?.saturating_sub(received.len())),
    }
}

/// Parses the header at the start of `octets` (2.2).
pub fn parse(octets: &[u8]) -> Result<ProxyHeader, ProxyError> {
    let fixed = octets.first_chunk().filter(|_| is_header(octets)).ok_or(ProxyError::Invalid)?;
    let len = header_len(fixed)?;
    let rest = octets.get(FIXED_LEN..len).ok_or(ProxyError::Invalid)?;
    let [.., version_and_command, family_and_protocol, _, _] = *fixed;
    let client = match version_and_command {
        // LOCAL: a health check of the proxy.
        0x20 => None,
        0x21 => client(family_and_protocol, rest)?,
        _ => return Err(ProxyError::Invalid),
    };
    Ok(ProxyHeader { len, client })
}

/// The source address in a header of the command PROXY; `None` for families without IP addresses.
fn client(family_and_protocol: u8, rest: &[u8]) -> Result<Option<IpAddr>, ProxyError> {
    // Source, destination, both ports, and TLVs after them.
    let source: IpAddr = match (family_and_protocol >> 4, family_and_protocol & 15) {
        (4.., _) | (_, 3..) => return Err(ProxyError::Invalid),
        (1, _) => {
            let [a, b, c, d, ..] = *rest.first_chunk::<12>().ok_or(ProxyError::Invalid)?;
            Ipv4Addr::new(a, b, c, d).into()
        }
        (2, _) => {
            let addresses = rest.first_chunk::<36>().ok_or(ProxyError::Invalid)?;
            Ipv6Addr::from(*addresses.first_chunk::<16>().expect("the first of 36")).to_canonical()
        }
        _ => return Ok(None),
    };
    Ok(Some(source))
}

/// The length of a header, with its fixed part.
fn header_len(fixed: &[u8; FIXED_LEN]) -> Result<usize, ProxyError> {
    let len = FIXED_LEN + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if len > MAX_LEN { Err(ProxyError::Invalid) } else { Ok(len) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).expect("short").to_be_bytes();
        [&SIGNATURE[..], &[0x20 | command, family], &length, rest].concat()
    }

    fn of_ipv4(tlvs: &[u8]) -> Vec<u8> {
        header(1, 0x12, &[&[198, 51, 100, 7, 192, 0, 2, 53, 0x30, 0x39, 0, 53], tlvs].concat())
    }

    fn proxies() -> Proxies {
        Proxies::from(vec![AddressPrefix::single(PEER)])
    }

    #[test]
    fn the_source_address_is_the_client() {
        let client = |octets: &[u8]| parse(octets).map(|header| (header.len, header.client));
        let v4 = IpAddr::from([198, 51, 100, 7]);
        assert_eq!(client(&of_ipv4(&[])), Ok((28, Some(v4))));
        // A TLV (PP2_TYPE_NOOP) and the message are not addresses.
        assert_eq!(client(&[of_ipv4(&[4, 0, 1, 0]), vec![9; 12]].concat()), Ok((32, Some(v4))));
        let source: Ipv6Addr = "2001:db8::7".parse().expect("a literal");
        let addresses = [source.octets(), [1; 16]].concat();
        assert_eq!(client(&header(1, 0x21, &[&addresses[..], &[0; 4]].concat())), Ok((52, Some(source.into()))));
        let mapped = [Ipv4Addr::new(198, 51, 100, 7).to_ipv6_mapped().octets(), [1; 16]].concat();
        assert_eq!(client(&header(1, 0x22, &[&mapped[..], &[0; 4]].concat())), Ok((52, Some(v4))));
    }

    #[test]
    fn health_checks_and_other_families_are_the_proxys_own() {
        for octets in [header(0, 0x12, &[1; 12]), header(0, 0, &[]), header(1, 0, &[]), header(1, 0x31, &[0; 216])] {
            assert_eq!(parse(&octets), Ok(ProxyHeader { len: octets.len(), client: None }), "{octets:?}");
        }
    }

    #[test]
    fn what_the_specification_does_not_allow_is_refused() {
        let version = [&SIGNATURE[..], &[0x11, 0x11, 0, 12], &[0; 12]].concat();
        let long = header(0, 0, &vec![0; MAX_LEN]);
        let mut other = of_ipv4(&[]);
        other[11] = 0;
        for octets in
            [version, header(2, 0x11, &[0; 12]), header(1, 0x41, &[0; 216]), header(1, 0x13, &[0; 12]), long, other]
        {
            assert_eq!(parse(&octets), Err(ProxyError::Invalid), "{octets:?}");
        }
        for short in [header(1, 0x11, &[0; 11]), header(1, 0x21, &[0; 35])] {
            assert_eq!(parse(&short), Err(ProxyError::Invalid), "{short:?}");
        }
        (0..28).for_each(|len| assert_eq!(parse(&of_ipv4(&[])[..len]), Err(ProxyError::Invalid)));
    }

    #[test]
    fn a_header_that_arrives_octet_by_octet_says_what_it_lacks() {
        let octets = [of_ipv4(&[4, 0, 1, 0]), vec![9; 12]].concat();
        let mut received = 0;
        while missing(&octets[..received]) != Ok(0) {
            let lacks = missing(&octets[..received]).expect("a header");
            assert_eq!(lacks, if received < 16 { 16 } else { 32 } - received);
            received += 1;
        }
        assert_eq!(received, 32, "nothing of the message is read");
        assert_eq!(missing(b"\r\n\r\n\0\r\nQUIS"), Err(ProxyError::Invalid), "before all has arrived");
        assert_eq!(missing(b"\0"), Err(ProxyError::Invalid));
        assert_eq!(missing(&header(0, 0, &vec![0; MAX_LEN])[..16]), Err(ProxyError::Invalid));
    }

    #[test]
    fn headers_are_believed_only_from_proxies_and_required_of_them() {
        let (other, client) = (IpAddr::from([203, 0, 113, 1]), IpAddr::from([198, 51, 100, 7]));
        let (message, proxied) = (vec![9; 12], [of_ipv4(&[]), vec![9; 12]].concat());
        assert_eq!(proxies().message_in(&proxied, PEER), Ok((&message[..], client)));
        assert_eq!(proxies().message_in(&message, PEER), Err(ProxyError::Invalid));
        assert_eq!(proxies().message_in(&message, other), Ok((&message[..], other)));
        assert_eq!(proxies().message_in(&proxied, other), Err(ProxyError::Unexpected));
        assert_eq!(Proxies::from(Vec::new()).message_in(&proxied, PEER), Ok((&proxied[..], PEER)));
        assert_eq!(proxies().message_in(&header(0, 0, &[]), PEER), Ok((&[][..], PEER)));
    }

    proptest! {
        /// What the fuzz target `proxy_header` does, with headers that are nearly right.
        #[test]
        fn an_accepted_header_is_within_the_octets(
            version_and_command in 0x1e_u8..0x24,
            family in 0_u8..0x45,
            len in 0_u16..60,
            rest in prop::collection::vec(any::<u8>(), 0..80),
            cut in 0_usize..100,
        ) {
            let fixed = [version_and_command, family, 0, len as u8];
            let mut octets = [&SIGNATURE[..], &fixed, &rest].concat();
            octets.truncate(cut);
            match parse(&octets) {
                Ok(header) => {
                    prop_assert_eq!(header.len, FIXED_LEN + usize::from(len));
                    prop_assert!(header.len <= octets.len());
                    prop_assert_eq!(missing(&octets), Ok(0));
                }
                Err(error) => prop_assert_eq!(error, ProxyError::Invalid),
            }
        }
    }
}
