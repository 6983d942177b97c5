//! What the store keeps of a zone besides its data: absolute times of a secondary, or which files it was read from.

/// The timers of a zone; times are seconds since 1970, 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// When these times were stored.
    pub stored_at_s: u32,
    /// When the next refresh is due. If nothing but the owner of a zone is stored ([`Timers::owner`]): the fingerprint of the catalog.
    pub next_refresh_s: u32,
    /// When the zone expires.
    pub expires_at_s: u32,
    /// The serial that the primary had, or that was served when the file was last read.
    pub source_serial: u32,
    /// The fingerprint of the files that the zone was read from; of a secondary, those of its catalog and its label there. 0 for none.
    pub fingerprint: u64,
}

/// The octets of timers as stored.
pub(super) const TIMERS_LEN: usize = 24;

impl Timers {
    /// What to keep of a zone that was read from files with this fingerprint (0: they are to be read again), and then had this serial.
    pub fn of_file(fingerprint: u64, serial: u32) -> Timers {
        Timers { source_serial: serial, fingerprint, ..Timers::default() }
    }

    /// What to keep of a zone of which only the catalog with this fingerprint is stored.
    pub fn of_owner(catalog: u32) -> Timers {
        Timers { next_refresh_s: catalog, ..Timers::default() }
    }

    /// The catalog of [`Timers::of_owner`]. Files have no such time.
    pub fn owner(&self) -> Option<u32> {
        (!self.is_of_secondary() && self.next_refresh_s != 0).then_some(self.next_refresh_s)
    }

    /// Whether the zone was transferred from a primary.
    pub fn is_of_secondary(&self) -> bool {
        self.expires_at_s > 0
    }

    pub(super) fn to_bytes(self) -> [u8; TIMERS_LEN] {
        let mut bytes = [0; TIMERS_LEN];
        let numbers = [self.stored_at_s, self.next_refresh_s, self.expires_at_s, self.source_serial];
        for (index, number) in numbers.into_iter().enumerate() {
            bytes[4 * index..][..4].copy_from_slice(&number.to_le_bytes());
        }
        bytes[16..].copy_from_slice(&self.fingerprint.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Timers> {
        let (numbers, fingerprint) = bytes.split_first_chunk::<16>()?;
        let number = |index: usize| {
            let start = 4 * index;
            u32::from_le_bytes([numbers[start], numbers[start + 1], numbers[start + 2], numbers[start + 3]])
        };
        Some(Timers {
            stored_at_s: number(0),
            next_refresh_s: number(1),
            expires_at_s: number(2),
            source_serial: number(3),
            fingerprint: u64::from_le_bytes(fingerprint.try_into().ok()?),
        })
    }
}
