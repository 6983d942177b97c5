//! The TSIG keys of the server, by name.

use std::sync::Arc;

use wire::NameRef;
use wire::tsig::{TsigKey, TsigSigner};

/// The signer of the responses to a verified query.
pub(crate) type ResponseSigner = TsigSigner<Arc<TsigKey>>;

/// Keys with different names.
#[derive(Clone, Default)]
pub struct KeyRing(Vec<Arc<TsigKey>>);

impl KeyRing {
    /// A ring of these keys; of two with the same name, one is kept.
    pub fn new(keys: impl IntoIterator<Item = Arc<TsigKey>>) -> KeyRing {
        let mut keys: Vec<Arc<TsigKey>> = keys.into_iter().collect();
        keys.sort_by(|a, b| a.name().wire().cmp(b.name().wire()));
        keys.dedup_by(|a, b| a.name() == b.name());
        KeyRing(keys)
    }

    /// The key with this name, in lower case.
    pub fn find(&self, name: NameRef<'_>) -> Option<&Arc<TsigKey>> {
        let index = self.0.binary_search_by(|key| key.name().wire().cmp(name.wire()));
        index.ok().map(|index| &self.0[index])
    }
}
