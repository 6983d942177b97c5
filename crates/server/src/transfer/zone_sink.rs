//! The receiver of whole zones and changes as the sink of a session.

use zone::transfer_receiver::{ReceiveStatus, TransferError, TransferReceiver};

use super::session::{SinkError, TransferSink};

/// Whoever gets the sink calls [`TransferReceiver::finish`], outside the transfer thread: a big zone may take long to build.
impl TransferSink for TransferReceiver {
    fn receive(&mut self, message: &[u8]) -> Result<bool, SinkError> {
        match TransferReceiver::receive(self, message) {
            Ok(status) => Ok(status == ReceiveStatus::Complete),
            Err(TransferError::EarlierSerial { theirs, ours }) => Err(SinkError::EarlierSerial { theirs, ours }),
            Err(error) => Err(SinkError::Contents(error.to_string())),
        }
    }

    /// RFC 1995 2: the SOA record alone.
    fn current_serial(&self) -> Option<u32> {
        self.serial().filter(|_| TransferReceiver::records(self) == 1)
    }

    fn records(&self) -> u64 {
        TransferReceiver::records(self)
    }
}
