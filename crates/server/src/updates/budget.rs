//! How many updates may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::listen::IncomingUpdate;

/// Updates that are not answered yet: how many, and their octets.
pub struct UpdateBudget {
    count: AtomicUsize,
    octets: AtomicUsize,
    max_count: usize,
    max_octets: usize,
}

/// An update that counts in a budget until it is dropped.
pub struct QueuedUpdate {
    /// The update.
    pub incoming: Box<IncomingUpdate>,
    /// To be kept until the update is answered.
    pub permit: UpdatePermit,
}

/// A part of a budget.
pub struct UpdatePermit {
    budget: Arc<UpdateBudget>,
    octets: usize,
}

impl UpdateBudget {
    /// A budget of this many updates and octets.
    pub fn new(max_count: usize, max_octets: usize) -> Arc<UpdateBudget> {
        Arc::new(UpdateBudget { count: AtomicUsize::new(0), octets: AtomicUsize::new(0), max_count, max_octets })
    }

    /// The update with its part of the budget; the update alone if the budget is used up.
    pub fn admit(self: &Arc<UpdateBudget>, incoming: Box<IncomingUpdate>) -> Result<QueuedUpdate, Box<IncomingUpdate>> {
        let octets = incoming.update.message.len();
        let count_before = self.count.fetch_add(1, Ordering::Relaxed);
        let octets_before = self.octets.fetch_add(octets, Ordering::Relaxed);
        // Counted before the check, so that two threads cannot take the same part.
        let permit = UpdatePermit { budget: self.clone(), octets };
        if count_before >= self.max_count || octets_before + octets > self.max_octets {
            return Err(incoming);
        }
        Ok(QueuedUpdate { incoming, permit })
    }
}

impl Drop for UpdatePermit {
    fn drop(&mut self) {
        self.budget.count.fetch_sub(1, Ordering::Relaxed);
        self.budget.octets.fetch_sub(self.octets, Ordering::Relaxed);
    }
}
