//! A TSIG key of the configuration.

use std::path::PathBuf;
use std::sync::Arc;

use wire::NameRef;
use wire::tsig::TsigKey;

/// A configured key.
#[derive(Clone, Debug)]
pub struct ConfiguredKey {
    /// The key; its secret is never printed.
    pub key: Arc<TsigKey>,
    /// The name of its algorithm.
    pub algorithm: &'static str,
    /// The file that its secret was read from.
    pub secret_file: Option<PathBuf>,
}

impl ConfiguredKey {
    /// The name of the key.
    pub fn name(&self) -> NameRef<'_> {
        self.key.name()
    }
}
