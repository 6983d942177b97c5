//! DNS cookies (RFC 7873): server cookies in the interoperable form of RFC 9018.

use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher24;

/// The server secrets: the first makes cookies, all of them validate cookies, for rollover (RFC 9018 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieSecrets(pub Vec<[u8; 16]>);

/// A client cookie.
pub type ClientCookie = [u8; 8];
/// A server cookie.
pub type ServerCookie = [u8; 16];

/// RFC 9018 4.3: cookies are valid for an hour, and up to five minutes before their time.
const MAX_AGE_S: u32 = 3600;
const MAX_AHEAD_S: u32 = 300;

impl CookieSecrets {
    /// The server cookie for a client at this time, in seconds since 1970 (RFC 9018 4.1 to 4.4).
    pub fn server_cookie(&self, client: &ClientCookie, peer: IpAddr, now_s: u32) -> ServerCookie {
        let mut cookie = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        cookie[4..8].copy_from_slice(&now_s.to_be_bytes());
        if let Some(secret) = self.0.first() {
            let hash = hash(secret, client, &cookie[..8], peer);
            cookie[8..].copy_from_slice(&hash);
        }
        cookie
    }

    /// Whether a server with one of these secrets made the cookie for this client, and it has not expired.
    pub fn is_valid(&self, client: &ClientCookie, server: &[u8], peer: IpAddr, now_s: u32) -> bool {
        let Ok(server) = ServerCookie::try_from(server) else { return false };
        let time = u32::from_be_bytes([server[4], server[5], server[6], server[7]]);
        // Serial number arithmetic (RFC 1982), which survives the year 2106.
        let age_s = now_s.wrapping_sub(time) as i32;
        let is_fresh = age_s <= MAX_AGE_S as i32 && age_s >= -(MAX_AHEAD_S as i32);
        server[0] == 1
            && is_fresh
            && self.0.iter().any(|secret| hash(secret, client, &server[..8], peer) == server[8..])
    }
}

fn hash(secret: &[u8; 16], client: &ClientCookie, head: &[u8], peer: IpAddr) -> [u8; 8] {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(client);
    hasher.write(head);
    match peer.to_canonical() {
        IpAddr::V4(address) => hasher.write(&address.octets()),
        IpAddr::V6(address) => hasher.write(&address.octets()),
    }
    hasher.finish().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex<const N: usize>(text: &str) -> [u8; N] {
        std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hexadecimal"))
    }

    /// RFC 9018 appendix A.1 and the renewed cookie of A.4.
    #[test]
    fn rfc_9018_appendix_a_test_vectors() {
        for (secret, client, peer, time, cookie) in [
            (
                "e5e973e5a6b2a43f48e7dc849e37bfcf",
                "2464c4abcf10c957",
                "198.51.100.100",
                1_559_731_985,
                "010000005cf79f111f8130c3eee29480",
            ),
            (
                "445536bcd2513298075a5d379663c962",
                "22681ab97d52c298",
                "2001:db8:220:1:59de:d0f4:8769:82b8",
                1_559_741_961,
                "010000005cf7c609a6bb79d16625507a",
            ),
        ] {
            let secrets = CookieSecrets(vec![hex(secret)]);
            let peer = peer.parse().expect("an address");
            assert_eq!(secrets.server_cookie(&hex(client), peer, time), hex::<16>(cookie));
            assert!(secrets.is_valid(&hex(client), &hex::<16>(cookie), peer, time));
        }
    }

    #[test]
    fn expired_foreign_and_forged_cookies_are_invalid() {
        let (old, new) = (CookieSecrets(vec![[1; 16]]), CookieSecrets(vec![[2; 16], [1; 16]]));
        let peer = "192.0.2.1".parse().expect("an address");
        let cookie = old.server_cookie(&[7; 8], peer, 10_000);
        assert!(new.is_valid(&[7; 8], &cookie, peer, 10_000 + MAX_AGE_S), "the previous secret still validates");
        assert!(!new.is_valid(&[7; 8], &cookie, peer, 10_001 + MAX_AGE_S));
        assert!(new.is_valid(&[7; 8], &cookie, peer, 10_000 - MAX_AHEAD_S));
        assert!(!new.is_valid(&[7; 8], &cookie, peer, 9_999 - MAX_AHEAD_S));
        assert!(!new.is_valid(&[8; 8], &cookie, peer, 10_000));
        assert!(!new.is_valid(&[7; 8], &cookie, "192.0.2.2".parse().expect("an address"), 10_000));
        assert!(!CookieSecrets(vec![[2; 16]]).is_valid(&[7; 8], &cookie, peer, 10_000));
        assert!(!new.is_valid(&[7; 8], &cookie[..15], peer, 10_000));
    }
}
