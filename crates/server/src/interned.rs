//! Values with numbers that many zones share, each kept while it is used: groups of primaries, intervals of SOA records, and the primaries
//! of last transfers.

use std::collections::HashMap;
use std::hash::Hash;

/// Values with numbers and use counts; numbers are reused.
pub(crate) struct SharedSlab<T> {
    entries: Vec<Option<(T, u32)>>,
    free: Vec<u32>,
}

impl<T> Default for SharedSlab<T> {
    fn default() -> SharedSlab<T> {
        SharedSlab { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> SharedSlab<T> {
    /// Inserts a value with use count 0.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let id = self.free.pop().unwrap_or(self.entries.len() as u32);
        if id as usize == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[id as usize] = Some((value, 0));
        id
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.entries.get(id as usize)?.as_ref().map(|(value, _)| value)
    }

    /// Begins a use.
    pub(crate) fn count(&mut self, id: u32) {
        if let Some(Some((_, uses))) = self.entries.get_mut(id as usize) {
            *uses += 1;
        }
    }

    /// Ends one use; the value, if it was the last.
    pub(crate) fn release(&mut self, id: u32) -> Option<T> {
        let (_, uses) = self.entries.get_mut(id as usize)?.as_mut()?;
        *uses = uses.saturating_sub(1);
        if *uses == 0 { self.remove(id) } else { None }
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let (value, _) = self.entries.get_mut(id as usize)?.take()?;
        self.free.push(id);
        Some(value)
    }
}

/// Values with numbers, of which no two are equal.
pub(crate) struct Interned<T> {
    values: SharedSlab<T>,
    numbers: HashMap<T, u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Interned<T> {
        Interned { values: SharedSlab::default(), numbers: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Interned<T> {
    /// The number of a value, for one more use; and whether it is the first one.
    pub(crate) fn acquire(&mut self, value: T) -> (u32, bool) {
        let known = self.numbers.get(&value).copied();
        let id = known.unwrap_or_else(|| self.values.insert(value.clone()));
        if known.is_none() {
            self.numbers.insert(value, id);
        }
        self.values.count(id);
        (id, known.is_none())
    }

    /// The value with this number, if it is used.
    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.values.get(id)
    }

    /// Ends one use; the value, if it was the last.
    pub(crate) fn release(&mut self, id: u32) -> Option<T> {
        let value = self.values.release(id)?;
        self.numbers.remove(&value);
        Some(value)
    }

    /// How many values are used.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_until_the_last_use_ends() {
        let mut values = Interned::default();
        assert_eq!((values.acquire("a"), values.acquire("b"), values.acquire("a")), ((0, true), (1, true), (0, false)));
        assert_eq!((values.release(0), values.get(0), values.len()), (None, Some(&"a"), 2));
        assert_eq!((values.release(0), values.get(0), values.len()), (Some("a"), None, 1));
        assert_eq!((values.acquire("c"), values.get(0)), ((0, true), Some(&"c")));
        assert_eq!((values.release(9), values.get(9)), (None, None));
    }
}
