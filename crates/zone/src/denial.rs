//! How a zone denies existence: NSEC, or NSEC3 with the parameters of its chain.

use data_encoding::BASE32_DNSSEC;
use sha1::{Digest, Sha1};
use wire::NameRef;

/// How a zone proves that a name or type does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Denial {
    /// Not at all: the zone is unsigned.
    #[default]
    None,
    /// By NSEC records (RFC 4034 4).
    Nsec,
    /// By NSEC3 records (RFC 5155).
    Nsec3(Nsec3Chain),
}

/// The NSEC3 chain in use: the parameters of its NSEC3PARAM record (RFC 5155 4), and the hashes that most denials need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nsec3Chain {
    iterations: u16,
    salt: Box<[u8]>,
    apex: Nsec3Label,
    wildcard: Nsec3Label,
}

/// The key of an NSEC3 owner: a hash in base32hex (RFC 4648 7), in lower case, and the end of the label.
pub type Nsec3Label = [u8; 33];

impl Nsec3Chain {
    /// The chain of a zone, with SHA-1 as its hash algorithm.
    pub fn new(iterations: u16, salt: &[u8], apex: NameRef<'_>) -> Nsec3Chain {
        let mut chain = Nsec3Chain { iterations, salt: salt.into(), apex: [0; _], wildcard: [0; _] };
        let apex = apex.to_owned().to_lowercase();
        chain.apex = chain.hash(&[apex.wire()]);
        chain.wildcard = chain.hash(&[b"\x01*", apex.wire()]);
        chain
    }

    /// The additional iterations.
    pub fn iterations(&self) -> u16 {
        self.iterations
    }

    /// The salt.
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// The hash of the apex, the closest encloser of most names that do not exist.
    pub fn apex_hash(&self) -> Nsec3Label {
        self.apex
    }

    /// The hash of the wildcard directly below the apex.
    pub fn wildcard_hash(&self) -> Nsec3Label {
        self.wildcard
    }

    /// The hash of a lower-case name in wire form, given in parts (RFC 5155 5). Costs 1 + iterations SHA-1 digests.
    pub fn hash(&self, name: &[&[u8]]) -> Nsec3Label {
        let mut hasher = Sha1::new();
        name.iter().for_each(|part| hasher.update(part));
        hasher.update(&self.salt);
        let mut digest = hasher.finalize();
        for _ in 0..self.iterations {
            digest = Sha1::new().chain_update(digest).chain_update(&self.salt).finalize();
        }
        base32hex(&digest.into())
    }
}

fn base32hex(digest: &[u8; 20]) -> Nsec3Label {
    let mut label = [0; _];
    // RFC 4648 7, in lower case and without padding.
    BASE32_DNSSEC.encode_mut(digest, &mut label[..32]);
    label
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Name;

    /// RFC 4648 7: base32hex preserves the order of the octets.
    #[test]
    fn base32hex_preserves_order() {
        let digest: [u8; 20] = std::array::from_fn(|at| (at * 13) as u8);
        let label = base32hex(&digest);
        assert_eq!(&label[..8], b"006hk9pk");
        let mut greater = digest;
        greater[19] += 1;
        assert!(base32hex(&greater) > label);
        assert_eq!(label[32], 0);
    }

    /// RFC 5155 appendix A: the hashes of the apex and of its wildcard are kept.
    #[test]
    fn rfc_5155_a_hashes() {
        let apex: Name = "Example.".parse().expect("a name");
        let chain = Nsec3Chain::new(12, &[0xaa, 0xbb, 0xcc, 0xdd], apex.as_ref());
        assert_eq!(&chain.apex_hash(), b"0p9mhaveqvm6t7vbl5lop2u3t2rp3tom\0");
        assert_eq!(chain.hash(&[b"\x01a", b"\x07example\0"]), *b"35mthgpgcu1qg68fab165klnsnk3dpvl\0");
        assert_eq!(chain.wildcard_hash(), chain.hash(&[b"\x01*\x07example\0"]));
    }
}
