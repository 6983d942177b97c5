//! Signatures of a zone: whether validators accept them (RFC 4035 5.3). For checks before a version is published.

use aws_lc_rs::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use wire::{Name, NameRef, Rtype};

use crate::canonical_form::canonical_rdata;
use crate::check::key_tag;
use crate::node_decoder::NodeDecoder;
use crate::rrset::ZoneNode;
use crate::tree::TreeEntry;
use crate::zone::Zone;

/// What signatures are checked for.
#[derive(Clone, Copy, Debug)]
pub struct SignatureRules {
    /// The time in seconds since 1970.
    pub now_s: u64,
    /// How long signatures must still be valid, in seconds.
    pub min_validity_s: u32,
    /// Which RRsets are checked.
    pub scope: SignatureScope,
}

/// Which RRsets are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureScope {
    /// SOA, NS and DNSKEY of the apex: a few signatures.
    Apex,
    /// Every RRset that must be signed (RFC 4035 2.2).
    Zone,
}

/// The result of a check without faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureStatus {
    /// The zone has no DNSKEY records.
    Unsigned,
    /// RFC 6840 5.2: no key has a known algorithm, so that validators treat the zone as unsigned.
    UnknownAlgorithm,
    /// Every RRset of the scope has a valid signature.
    Valid,
}

/// The first RRset without a valid signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {rtype} records of {owner} {fault}")]
pub struct SignatureError {
    /// Its owner.
    pub owner: Name,
    /// Its type.
    pub rtype: Rtype,
    /// What is wrong with its best signature.
    pub fault: SignatureFault,
}

/// What is wrong with a signature. The later ones are closer to a valid signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum SignatureFault {
    /// There is none.
    #[error("have no signature by a key of the zone")]
    Missing,
    /// It does not fit the records.
    #[error("have a signature that does not fit them")]
    Mismatch,
    /// It will be valid from this time on, in seconds since 1970 modulo 2^32.
    #[error("have a signature that is not valid before {}", time(*.0))]
    Early(u32),
    /// It was valid until this time.
    #[error("have a signature that expired at {}", time(*.0))]
    Expired(u32),
    /// It is valid until this time only.
    #[error("have a signature that expires soon, at {}", time(*.0))]
    ExpiresSoon(u32),
}

/// Checks the signatures of a zone.
pub fn verify(zone: &Zone, rules: SignatureRules) -> Result<SignatureStatus, SignatureError> {
    let apex = zone.apex();
    let Some(dnskey) = zone.apex_node().rrset(Rtype::DNSKEY) else { return Ok(SignatureStatus::Unsigned) };
    let keys: Vec<ZoneKey<'_>> = dnskey.stored().filter_map(|stored| ZoneKey::of(stored.bytes)).collect();
    if !keys.is_empty() && keys.iter().all(|key| key.algorithm.is_none()) {
        return Ok(SignatureStatus::UnknownAlgorithm);
    }
    let mut checker = SignatureChecker { apex, keys, rules, decoder: NodeDecoder::default(), message: Vec::new() };
    match rules.scope {
        SignatureScope::Apex => {
            let is_checked = |rtype| matches!(rtype, Rtype::SOA | Rtype::NS | Rtype::DNSKEY);
            checker.check_node(zone, &zone.apex_entry(), zone.apex_node(), is_checked)?;
        }
        SignatureScope::Zone => {
            for (entry, node) in zone.nodes().filter(|(_, node)| !node.is_occluded()) {
                // RFC 4035 2.2: at a zone cut, only what is the parent's is signed.
                let is_cut = node.is_cut();
                let is_signed = |rtype| !is_cut || matches!(rtype, Rtype::DS | Rtype::NSEC);
                checker.check_node(zone, &entry, node, is_signed)?;
            }
        }
    }
    Ok(SignatureStatus::Valid)
}

/// A DNSKEY record that may sign (RFC 4034 2.1).
struct ZoneKey<'z> {
    tag: u16,
    number: u8,
    /// `None` if it is not known here.
    algorithm: Option<Algorithm>,
    public_key: &'z [u8],
}

#[derive(Clone, Copy)]
enum Algorithm {
    Rsa(&'static RsaParameters),
    Ecdsa(&'static signature::EcdsaVerificationAlgorithm),
    Ed25519,
}

impl<'z> ZoneKey<'z> {
    fn of(rdata: &'z [u8]) -> Option<ZoneKey<'z>> {
        const ZONE_KEY: u16 = 0x0100;
        /// RFC 5011 2.1: a revoked key vouches for nothing.
        const REVOKED: u16 = 0x0080;
        let (&[high, low, 3, number], public_key) = rdata.split_first_chunk::<4>()? else { return None };
        let flags = u16::from_be_bytes([high, low]);
        let algorithm = match number {
            // RFC 5702 3. Keys of fewer than 1,024 bits, which it permits for 8, verify nothing: they can be factored.
            8 => Some(Algorithm::Rsa(&signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY)),
            10 => Some(Algorithm::Rsa(&signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY)),
            13 => Some(Algorithm::Ecdsa(&ECDSA_P256_SHA256_FIXED)),
            14 => Some(Algorithm::Ecdsa(&ECDSA_P384_SHA384_FIXED)),
            15 => Some(Algorithm::Ed25519),
            _ => None,
        };
        (flags & (ZONE_KEY | REVOKED) == ZONE_KEY).then(|| ZoneKey {
            tag: key_tag(rdata),
            number,
            algorithm,
            public_key,
        })
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = self.public_key;
        match self.algorithm {
            None => false,
            // RFC 6605 4: the key is a point without the octet that says so.
            Some(Algorithm::Ecdsa(algorithm)) => {
                UnparsedPublicKey::new(algorithm, [&[4], key].concat()).verify(message, signature).is_ok()
            }
            // RFC 8080 3.
            Some(Algorithm::Ed25519) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok(),
            Some(Algorithm::Rsa(parameters)) => {
                rsa_key(key).is_some_and(|key| key.verify(parameters, message, signature).is_ok())
            }
        }
    }
}

/// RFC 3110 2: the length of the exponent in one or three octets, the exponent, the modulus.
fn rsa_key(key: &[u8]) -> Option<RsaPublicKeyComponents<&[u8]>> {
    let (len, rest) = match key {
        [0, high, low, rest @ ..] => (u16::from_be_bytes([*high, *low]).into(), rest),
        [len, rest @ ..] => (usize::from(*len), rest),
        [] => return None,
    };
    let (e, n) = rest.split_at_checked(len)?;
    let trim = |number: &'_ [u8]| number.iter().position(|&octet| octet != 0).unwrap_or(number.len());
    Some(RsaPublicKeyComponents { n: &n[trim(n)..], e: &e[trim(e)..] })
}

struct SignatureChecker<'z> {
    apex: NameRef<'z>,
    keys: Vec<ZoneKey<'z>>,
    rules: SignatureRules,
    decoder: NodeDecoder,
    message: Vec<u8>,
}

impl SignatureChecker<'_> {
    /// Checks the RRsets of a node whose types are to be checked.
    fn check_node(
        &mut self,
        zone: &Zone,
        entry: &TreeEntry<'_>,
        node: ZoneNode<'_>,
        is_checked: impl Fn(Rtype) -> bool,
    ) -> Result<(), SignatureError> {
        let owner = zone.owner(entry);
        let canonical_owner = owner.to_lowercase();
        let records = self.decoder.decode(node, owner.as_ref(), zone.owner(&zone.apex_entry()).as_ref());
        let records: Vec<(Rtype, Box<[u8]>)> =
            records.iter().map(|record| (record.rtype, canonical_rdata(record.rtype, record.rdata))).collect();
        for rrset in node.rrsets().filter(|rrset| is_checked(rrset.rtype) && rrset.count > 0) {
            let mut set: Vec<&[u8]> =
                records.iter().filter(|(rtype, _)| *rtype == rrset.rtype).map(|(_, rdata)| &**rdata).collect();
            // RFC 4034 6.3.
            set.sort_unstable();
            let mut fault = SignatureFault::Missing;
            let mut is_valid = false;
            for rdata in rrset.signatures().rdatas() {
                let signature = rdata.parts.concat();
                match self.check_signature(canonical_owner.as_ref(), rrset.rtype, &set, &signature) {
                    Ok(()) => is_valid = true,
                    Err(found) => fault = fault.max(found),
                }
            }
            if !is_valid {
                return Err(SignatureError { owner: canonical_owner, rtype: rrset.rtype, fault });
            }
        }
        Ok(())
    }

    /// RFC 4035 5.3: checks the fields of one signature, then the signature itself.
    fn check_signature(
        &mut self,
        owner: NameRef<'_>,
        rtype: Rtype,
        set: &[&[u8]],
        rrsig: &[u8],
    ) -> Result<(), SignatureFault> {
        let (fixed, rest) = rrsig.split_first_chunk::<18>().ok_or(SignatureFault::Missing)?;
        let [_, _, algorithm, labels, ttl @ ..] = fixed;
        let signer = NameRef::from_wire(rest).map_err(|_| SignatureFault::Missing)?;
        let signature = &rest[signer.wire().len()..];
        let tag = u16::from_be_bytes([fixed[16], fixed[17]]);
        // RFC 4034 3.1.3: neither the root nor a wildcard label counts.
        let is_whole = usize::from(*labels) == label_count(owner);
        if !signer.wire().eq_ignore_ascii_case(self.apex.wire()) || !is_whole {
            return Err(SignatureFault::Missing);
        }
        let mut keys = self.keys.iter().filter(|key| key.tag == tag && key.number == *algorithm).peekable();
        if keys.peek().is_none() {
            return Err(SignatureFault::Missing);
        }
        let signed = &mut self.message;
        signed.clear();
        // RFC 4034 3.1.8.1.
        signed.extend_from_slice(fixed);
        signed.extend(signer.wire().iter().map(u8::to_ascii_lowercase));
        for rdata in set {
            signed.extend_from_slice(owner.wire());
            signed.extend_from_slice(&rtype.0.to_be_bytes());
            signed.extend_from_slice(&[0, 1]);
            signed.extend_from_slice(&ttl[..4]);
            signed.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
            signed.extend_from_slice(rdata);
        }
        // A zone may have several keys with one tag; more than a few are an attack on validators (CVE-2023-50387).
        if !keys.take(MAX_KEYS_PER_TAG).any(|key| key.verifies(signed, signature)) {
            return Err(SignatureFault::Mismatch);
        }
        self.check_time(fixed)
    }

    /// RFC 4034 3.1.5: both times are compared with serial number arithmetic.
    fn check_time(&self, fixed: &[u8; 18]) -> Result<(), SignatureFault> {
        let [expiration, inception] =
            [8, 12].map(|at| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]));
        let now = self.rules.now_s as u32;
        let left = expiration.wrapping_sub(now).cast_signed();
        match (left, now.wrapping_sub(inception).cast_signed()) {
            (..0, _) => Err(SignatureFault::Expired(expiration)),
            (_, ..0) => Err(SignatureFault::Early(inception)),
            _ if i64::from(left) < i64::from(self.rules.min_validity_s) => Err(SignatureFault::ExpiresSoon(expiration)),
            _ => Ok(()),
        }
    }
}

/// Keys with the same tag and algorithm that are tried.
const MAX_KEYS_PER_TAG: usize = 4;

/// The labels of an owner that a signature counts.
fn label_count(owner: NameRef<'_>) -> usize {
    owner.label_count() - usize::from(owner.wire().starts_with(b"\x01*"))
}

/// A time of a signature, for people.
fn time(at_s: u32) -> String {
    jiff::Timestamp::from_second(at_s.into()).map_or_else(|_| at_s.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests;
