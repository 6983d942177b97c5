//! What received zones wait for.

/// What a received zone waits for: the writer, which takes it soon, or an external command, which may take long. Zones with different
/// commands do not wait for each other; most servers have none or one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery(u8);

impl Delivery {
    pub(super) const TO_WRITER: Delivery = Delivery(0);
    pub(super) const ALL: [Delivery; 8] = {
        let mut all = [Delivery::TO_WRITER; 8];
        let mut number = 1;
        while number < all.len() {
            all[number] = Delivery(number as u8);
            number += 1;
        }
        all
    };

    pub(super) fn index(self) -> usize {
        self.0.into()
    }
}

/// The commands that are configured or were.
#[derive(Default)]
pub(super) struct KnownCommands(Vec<u64>);

impl KnownCommands {
    /// Notes a command; the first ones do not share their [`Delivery`].
    pub(super) fn add(&mut self, command: u64) {
        if !self.0.contains(&command) && self.0.len() + 1 < Delivery::ALL.len() {
            self.0.push(command);
        }
    }

    pub(super) fn delivery(&self, command: u64) -> Delivery {
        let position = self.0.iter().position(|known| *known == command);
        Delivery::ALL[1 + position.unwrap_or(command as usize % (Delivery::ALL.len() - 1))]
    }
}
