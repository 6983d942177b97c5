//! Mnemonics of numbers in RDATA, the registered one of a number first, and lengths of digests.

/// DNSSEC algorithms (IANA "Domain Name System Security (DNSSEC) Algorithm Numbers"), and the names without hyphens
/// of BIND and others.
pub const ALGORITHMS: &[(u8, &str)] = &[
    (0, "DELETE"),
    (1, "RSAMD5"),
    (2, "DH"),
    (3, "DSA"),
    (5, "RSASHA1"),
    (6, "DSA-NSEC3-SHA1"),
    (6, "NSEC3DSA"),
    (7, "RSASHA1-NSEC3-SHA1"),
    (7, "NSEC3RSASHA1"),
    (8, "RSASHA256"),
    (10, "RSASHA512"),
    (12, "ECC-GOST"),
    (12, "ECCGOST"),
    (13, "ECDSAP256SHA256"),
    (14, "ECDSAP384SHA384"),
    (15, "ED25519"),
    (16, "ED448"),
    (17, "SM2SM3"),
    (23, "ECC-GOST12"),
    (252, "INDIRECT"),
    (253, "PRIVATEDNS"),
    (254, "PRIVATEOID"),
];

/// Certificate types (RFC 4398 2.1).
pub const CERT_TYPES: &[(u16, &str)] = &[
    (1, "PKIX"),
    (2, "SPKI"),
    (3, "PGP"),
    (4, "IPKIX"),
    (5, "ISPKI"),
    (6, "IPGP"),
    (7, "ACPKIX"),
    (8, "IACPKIX"),
    (253, "URI"),
    (254, "OID"),
];

/// Schemes of DSYNC (RFC 9859).
pub const DSYNC_SCHEMES: &[(u8, &str)] = &[(1, "NOTIFY")];

/// Protocols of WKS (RFC 1035 3.4.2, RFC 1010).
pub const PROTOCOLS: &[(u8, &str)] = &[
    (1, "ICMP"),
    (2, "IGMP"),
    (3, "GGP"),
    (6, "TCP"),
    (8, "EGP"),
    (12, "PUP"),
    (17, "UDP"),
    (20, "HMP"),
    (22, "XNS-IDP"),
    (27, "RDP"),
];

/// The lengths of DS digests in octets, by digest type (RFC 4034 A.2, RFC 4509, RFC 5933, RFC 6605).
pub const DS_DIGESTS: &[(u8, usize)] = &[(1, 20), (2, 32), (3, 32), (4, 48)];

/// The lengths of SSHFP fingerprints in octets, by fingerprint type (RFC 4255 3.1.2, RFC 6594).
pub const SSHFP_DIGESTS: &[(u8, usize)] = &[(1, 20), (2, 32)];

/// The lengths of ZONEMD digests in octets, by hash algorithm (RFC 8976 5.3).
pub const ZONEMD_DIGESTS: &[(u8, usize)] = &[(1, 48), (2, 64)];

/// The length of digests of this type, if known.
pub fn digest_len(lens: &[(u8, usize)], digest_type: u8) -> Option<usize> {
    lens.iter().find(|(known, _)| *known == digest_type).map(|&(_, len)| len)
}
