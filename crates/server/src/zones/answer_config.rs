//! Converts `[server]` settings to the configuration of the answering code.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use answer::AnswerConfig;
use answer::CookieSecrets;
use answer::KeyRing;
use answer::RateLimitConfig;

use crate::config::{ConfiguredKey, Server};

/// The server cookie secret where none is configured: random, made once for the process.
pub struct GeneratedSecret([u8; 16]);

impl GeneratedSecret {
    /// A new secret from the kernel's random source.
    pub fn random() -> io::Result<GeneratedSecret> {
        let mut secret = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut secret)?;
        Ok(GeneratedSecret(secret))
    }
}

/// The keys that verify queries and sign responses.
pub fn key_ring(keys: &[ConfiguredKey]) -> KeyRing {
    KeyRing::new(keys.iter().map(|configured| configured.key.clone()))
}

/// The configuration for these settings.
pub fn answer_config(server: &Server, keys: KeyRing, secret: &GeneratedSecret) -> Arc<AnswerConfig> {
    let unless_empty = |text: &str| (!text.is_empty()).then(|| text.as_bytes().into());
    let configured: Vec<[u8; 16]> = server.cookie_secrets.iter().map(|secret| secret.0).collect();
    let secrets = if configured.is_empty() { vec![secret.0] } else { configured };
    Arc::new(AnswerConfig {
        udp_payload: server.udp_payload.0 as u16,
        nsid: server.nsid.0.as_bytes().into(),
        version: unless_empty(&server.version.0),
        identity: unless_empty(&server.identity.0),
        keys,
        cookies: server.cookies.then_some(CookieSecrets(secrets)),
        rate_limit: (server.rrl_rate.0 > 0).then_some(RateLimitConfig {
            responses_per_second: server.rrl_rate.0,
            slip: server.rrl_slip.0,
            ipv4_prefix_len: server.rrl_ipv4_prefix.0 as u8,
            ipv6_prefix_len: server.rrl_ipv6_prefix.0 as u8,
        }),
    })
}
