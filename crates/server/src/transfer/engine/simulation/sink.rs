//! The receiver of simulated transfers.

use wire::serial::{is_later, of_soa};
use wire::{Message, Name, Rtype};

use crate::transfer::engine::RequestedTransfer;
use crate::transfer::session::{SinkError, TransferSink};

/// Receives simulated transfers: SOA, one record, SOA.
pub struct Sink {
    apex: Name,
    from_serial: Option<u32>,
    pub not_before: Option<u32>,
    pub serial: Option<u32>,
    records: u64,
}

impl Sink {
    pub fn new(transfer: RequestedTransfer<'_>) -> Sink {
        let RequestedTransfer { apex, from_serial, not_before, .. } = transfer;
        Sink { apex: apex.to_owned(), from_serial, not_before, serial: None, records: 0 }
    }
}

impl TransferSink for Sink {
    fn receive(&mut self, message: &[u8]) -> Result<bool, SinkError> {
        let contents = |what: &str| Err(SinkError::Contents(what.into()));
        let Ok(message) = Message::parse(message) else { return contents("garbage") };
        for record in &message.answer {
            self.records += 1;
            if record.owner != self.apex {
                return contents("another zone");
            }
            let serial = of_soa(&record.rdata).filter(|_| record.rtype == Rtype::SOA);
            match (self.serial, serial) {
                (None, None) => return contents("no SOA"),
                (Some(first), Some(last)) if first != last => return contents("another serial"),
                (Some(_), Some(_)) => return Ok(true),
                (None, Some(theirs)) => match self.not_before {
                    Some(ours) if is_later(ours, theirs) => return Err(SinkError::EarlierSerial { theirs, ours }),
                    _ => self.serial = Some(theirs),
                },
                (Some(_), None) => (),
            }
        }
        if self.current_serial().is_some() {
            return Ok(true);
        }
        match self.serial {
            None => contents("an empty message"),
            Some(_) => Ok(false),
        }
    }

    fn current_serial(&self) -> Option<u32> {
        let serial = self.serial.filter(|_| self.records == 1)?;
        self.from_serial.filter(|from| !is_later(serial, *from)).map(|_| serial)
    }

    fn records(&self) -> u64 {
        self.records
    }
}
