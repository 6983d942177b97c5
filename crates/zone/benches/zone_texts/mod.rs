//! The text of zones that benchmarks build.

use data_encoding::{BASE32_DNSSEC, BASE64, HEXLOWER};

/// The records of the apex and its name server.
pub const HEAD: &str = "@ 3600 SOA ns1 host 1 3600 900 604800 300\n@ 3600 NS ns1\nns1 3600 A 192.0.2.1\n";

/// A TLD: two NS records per name, a tenth of the names with glue.
pub fn delegations(count: u32) -> String {
    (0..count).fold(HEAD.to_owned(), |text, n| {
        let provider = scramble(n) % 2000;
        let names = if n % 10 == 0 { format!("domain{n}") } else { format!("provider{provider}.example.") };
        let text = text + &format!("domain{n} 3600 NS ns1.{names}\ndomain{n} 3600 NS ns2.{names}\n");
        if n % 10 > 0 {
            text
        } else {
            text + &format!("ns1.domain{n} 3600 A 10.1.0.1\nns2.domain{n} 3600 A 10.2.0.1\n")
        }
    })
}

/// A TLD signed with NSEC3 and opt-out: the delegations above, of which 40 % are signed. `octet` makes the pseudo-random octets of
/// signatures, digests and hashes.
pub fn signed_delegations(count: u32, octet: fn(u32) -> u8) -> String {
    let octets = |seed: u32, len: u32| -> Vec<u8> {
        (0..len).map(|at| octet(seed.wrapping_mul(977).wrapping_add(at))).collect()
    };
    let signature = |seed, covered| {
        let octets = BASE64.encode(&octets(seed, 64));
        format!("3600 RRSIG {covered} 13 2 3600 20890101000000 20260101000000 12345 tld. {octets}\n")
    };
    let mut text = delegations(count) + "@ 0 NSEC3PARAM 1 0 0 -\n";
    let mut hashes = Vec::new();
    for n in (0..count).filter(|n| n % 10 < 4) {
        let digest = HEXLOWER.encode(&octets(n + count, 32));
        text += &format!("domain{n} 3600 DS {} 13 2 {digest}\ndomain{n} {}", n % 65536, signature(n, "DS"));
        hashes.push(BASE32_DNSSEC.encode(&octets(n + 2 * count, 20)));
    }
    hashes.sort();
    for (n, (hash, next)) in (0..).zip(hashes.iter().zip(hashes.iter().cycle().skip(1))) {
        text += &format!("{hash} 300 NSEC3 1 1 0 - {next} NS DS RRSIG\n{hash} {}", signature(n + 3 * count, "NSEC3"));
    }
    text
}

/// A fixed pseudo-random sequence.
pub fn scramble(n: u32) -> u32 {
    (u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}
