//! The record layer of an established TLS 1.3 connection (RFC 8446 4.6.3, 5 and 6), after the handshake by `rustls`.
//!
//! A `rustls` connection that waits takes 8 KiB, this one 240 octets. It is driven by octets: [`RecordLayer::open`] is given whole
//! records, [`RecordLayer::seal`] appends records to a buffer. It knows three kinds of messages: data, alerts, and KeyUpdate. A
//! server gets no others once the handshake is done.

mod traffic_keys;

use rustls::{AlertDescription, ContentType};

pub use traffic_keys::{CipherSuite, TrafficKeys};
use traffic_keys::{RecordCipher, TAG_LEN};

/// RFC 8446 5.1: the header of a record, and the most content that one has.
pub(super) const HEADER_LEN: usize = 5;
const MAX_CONTENT: usize = 1 << 14;
/// RFC 8446 5.2: the longest encrypted record without its header.
pub(super) const MAX_PAYLOAD: usize = MAX_CONTENT + 256;
/// What sealing adds to the content of a record: header, type and tag.
const OVERHEAD: usize = HEADER_LEN + 1 + TAG_LEN;

/// RFC 8446 5.5: the keys of AES-GCM are good for 2^24.5 records. One call of [`RecordLayer::seal`] may exceed this by what it seals.
const RECORDS_PER_KEY: u64 = 1 << 24;
/// KeyUpdate messages, empty records and warnings without data between them. Each costs some microseconds; `rustls` and BoringSSL
/// have such limits.
const MAX_WITHOUT_DATA: u8 = 32;
/// KeyUpdate messages in one call of [`RecordLayer::open`], with data between them.
const MAX_KEY_UPDATES: u8 = 32;

/// RFC 8446 4.6.3: a KeyUpdate message: type, length and whether the peer is to update its keys, too.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
const REQUEST_AT: usize = KEY_UPDATE.len() - 1;

/// The two directions of an established connection.
pub struct RecordLayer {
    read: TrafficKeys,
    write: TrafficKeys,
    /// The start of a KeyUpdate message, the rest of which is in the next record.
    fragment: [u8; KEY_UPDATE.len()],
    fragment_len: u8,
    /// KeyUpdate messages, empty records and warnings received since the last data.
    without_data: u8,
    /// RFC 8446 4.6.3: a KeyUpdate is due before the next data is sent. Several requests get one.
    owes_key_update: bool,
    is_closed: bool,
    /// RFC 8446 6.1, 6.2: after close_notify or an error alert of this side, or an error alert of the peer, nothing is sent.
    has_ended: bool,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The peer broke a rule; it is sent this alert.
    #[error("TLS: the peer sent a bad record ({0:?})")]
    Refused(AlertDescription),
    /// The peer sent this alert.
    #[error("TLS: the peer sent the alert {0:?}")]
    Received(AlertDescription),
}

const UNEXPECTED: RecordError = RecordError::Refused(AlertDescription::UnexpectedMessage);

impl RecordLayer {
    /// Continues after a handshake. Both directions have keys of the same suite.
    pub fn new(read: TrafficKeys, write: TrafficKeys) -> RecordLayer {
        RecordLayer {
            read,
            write,
            fragment: [0; _],
            fragment_len: 0,
            without_data: 0,
            owes_key_update: false,
            is_closed: false,
            has_ended: false,
        }
    }

    /// Whether the peer has sent close_notify: nothing comes after it.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Decrypts whole records, which are overwritten; writes their data to `out` and returns its length. An error ends the
    /// connection: [`RecordLayer::seal_alert`] makes the alert for it.
    ///
    /// # Panics
    /// If `out` is shorter than `records`.
    pub fn open(&mut self, mut records: &mut [u8], out: &mut [u8]) -> Result<usize, RecordError> {
        let mut filled = 0;
        let mut key_updates = 0;
        let mut cipher = None;
        while !records.is_empty() && !self.is_closed {
            let [header, payload, rest] = split_record(records)?;
            records = rest;
            let cipher_now: &RecordCipher = cipher.get_or_insert_with(|| self.read.cipher());
            let inner = cipher_now.open(&mut self.read, header, payload);
            let (content_type, content) =
                split_content(inner.map_err(|_| RecordError::Refused(AlertDescription::BadRecordMac))?)?;
            // RFC 8446 5.1: no other record comes between the parts of a handshake message.
            if self.fragment_len > 0 && content_type != ContentType::Handshake {
                return Err(UNEXPECTED);
            }
            match content_type {
                ContentType::ApplicationData => {
                    out[filled..filled + content.len()].copy_from_slice(content);
                    filled += content.len();
                    if content.is_empty() {
                        self.count_without_data()?;
                    } else {
                        self.without_data = 0;
                    }
                }
                ContentType::Handshake => {
                    if self.receive_handshake(content)? {
                        cipher = None;
                        key_updates += 1;
                    }
                    if key_updates > MAX_KEY_UPDATES {
                        return Err(UNEXPECTED);
                    }
                }
                ContentType::Alert => self.receive_alert(content)?,
                _ => return Err(UNEXPECTED),
            }
        }
        Ok(filled)
    }

    /// RFC 8446 4.6.3: receives (a part of) a KeyUpdate message, the only one that a client sends after the handshake; returns
    /// whether the keys have changed.
    fn receive_handshake(&mut self, content: &[u8]) -> Result<bool, RecordError> {
        let start = usize::from(self.fragment_len);
        let end = start + content.len();
        // RFC 8446 5.1: no part is empty.
        if content.is_empty() {
            return Err(UNEXPECTED);
        }
        let filled = end.min(KEY_UPDATE.len());
        self.fragment[start..filled].copy_from_slice(&content[..filled - start]);
        self.fragment_len = filled as u8;
        let known = filled.min(REQUEST_AT);
        if self.fragment[0] != KEY_UPDATE[0] {
            return Err(UNEXPECTED);
        }
        // RFC 8446 6.2: a length that this message cannot have.
        if self.fragment[..known] != KEY_UPDATE[..known] {
            return Err(RecordError::Refused(AlertDescription::DecodeError));
        }
        // RFC 8446 5.1: nothing follows in the record in which the keys change.
        if end > KEY_UPDATE.len() {
            return Err(UNEXPECTED);
        }
        if end < KEY_UPDATE.len() {
            return Ok(false);
        }
        self.owes_key_update |= match self.fragment[REQUEST_AT] {
            0 => false,
            1 => true,
            _ => return Err(RecordError::Refused(AlertDescription::IllegalParameter)),
        };
        self.count_without_data()?;
        self.fragment_len = 0;
        self.read.update();
        Ok(true)
    }

    /// RFC 8446 6: close_notify ends what the peer sends; after user_canceled it follows. All others are errors, whatever their level.
    fn receive_alert(&mut self, content: &[u8]) -> Result<(), RecordError> {
        let &[_level, description] = content else {
            // RFC 8446 5.4: an alert without content has an alert of its own.
            let malformed = RecordError::Refused(AlertDescription::DecodeError);
            return Err(if content.is_empty() { UNEXPECTED } else { malformed });
        };
        match AlertDescription::from(description) {
            AlertDescription::CloseNotify => self.is_closed = true,
            AlertDescription::UserCanceled => self.count_without_data()?,
            error => return Err(RecordError::Received(error)),
        }
        Ok(())
    }

    /// Counts a record that costs work and brings no data.
    fn count_without_data(&mut self) -> Result<(), RecordError> {
        self.without_data += 1;
        if self.without_data > MAX_WITHOUT_DATA { Err(UNEXPECTED) } else { Ok(()) }
    }

    /// Encrypts data and appends its records to `out`.
    pub fn seal(&mut self, data: &[u8], out: &mut Vec<u8>) {
        if self.owes_key_update || self.write.records() >= RECORDS_PER_KEY {
            self.update_write_keys(out);
        }
        out.reserve_exact(data.len() + data.len().div_ceil(MAX_CONTENT) * OVERHEAD);
        let cipher = self.write.cipher();
        for content in data.chunks(MAX_CONTENT) {
            seal_record(&cipher, &mut self.write, ContentType::ApplicationData, content, out);
        }
    }

    /// Appends the alert that ends the connection because of `error`; none if the peer has sent one.
    pub fn seal_alert(&mut self, error: RecordError, out: &mut Vec<u8>) {
        const FATAL: u8 = 2;
        self.has_ended = true;
        if let RecordError::Refused(description) = error {
            seal_record(&self.write.cipher(), &mut self.write, ContentType::Alert, &[FATAL, description.into()], out);
        }
    }

    /// RFC 8446 6.1: appends close_notify, after which this side sends nothing; none after an error alert of either side (6.2).
    pub fn seal_close_notify(&mut self, out: &mut Vec<u8>) {
        const WARNING: u8 = 1;
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let alert = [WARNING, AlertDescription::CloseNotify.into()];
        seal_record(&self.write.cipher(), &mut self.write, ContentType::Alert, &alert, out);
    }

    /// Makes the peer use new keys, and this side with the next data that it sends.
    pub fn request_key_update(&mut self, out: &mut Vec<u8>) {
        self.seal_key_update(1, out);
    }

    /// Appends a record of any type and content, as a peer that breaks the rules may send it: for tests and fuzzers.
    pub fn seal_any(&mut self, content_type: u8, content: &[u8], out: &mut Vec<u8>) {
        seal_record(&self.write.cipher(), &mut self.write, content_type.into(), content, out);
    }

    fn update_write_keys(&mut self, out: &mut Vec<u8>) {
        self.owes_key_update = false;
        self.seal_key_update(0, out);
    }

    /// RFC 8446 4.6.3: the message is protected by the old keys, and all that follows by the new ones.
    fn seal_key_update(&mut self, request: u8, out: &mut Vec<u8>) {
        let mut message = KEY_UPDATE;
        message[REQUEST_AT] = request;
        seal_record(&self.write.cipher(), &mut self.write, ContentType::Handshake, &message, out);
        self.write.update();
    }
}

/// The length of a record without its header, by its header.
pub(super) fn payload_len(header: &[u8; HEADER_LEN]) -> usize {
    usize::from(u16::from_be_bytes([header[3], header[4]]))
}

/// The header and payload of the first record, and the records after it. Errors by RFC 8446 5, 5.1 and 5.2.
fn split_record(records: &mut [u8]) -> Result<[&mut [u8]; 3], RecordError> {
    let Some((header, rest)) = records.split_first_chunk_mut() else {
        return Err(RecordError::Refused(AlertDescription::DecodeError));
    };
    // Everything is encrypted: a bare alert or change_cipher_spec is unexpected after the handshake.
    if ContentType::from(header[0]) != ContentType::ApplicationData {
        return Err(UNEXPECTED);
    }
    let len = payload_len(header);
    if len > MAX_PAYLOAD {
        return Err(RecordError::Refused(AlertDescription::RecordOverflow));
    }
    let split = rest.split_at_mut_checked(len);
    let (payload, rest) = split.ok_or(RecordError::Refused(AlertDescription::DecodeError))?;
    Ok([header, payload, rest])
}

/// RFC 8446 5.4: the type is the last octet that is not 0; the zeros after it are padding.
fn split_content(inner: &[u8]) -> Result<(ContentType, &[u8]), RecordError> {
    if inner.len() > MAX_CONTENT + 1 {
        return Err(RecordError::Refused(AlertDescription::RecordOverflow));
    }
    let end = inner.iter().rposition(|octet| *octet != 0).ok_or(UNEXPECTED)?;
    Ok((ContentType::from(inner[end]), &inner[..end]))
}

fn seal_record(
    cipher: &RecordCipher,
    keys: &mut TrafficKeys,
    content_type: ContentType,
    content: &[u8],
    out: &mut Vec<u8>,
) {
    let len = ((content.len() + 1 + TAG_LEN) as u16).to_be_bytes();
    let header = [ContentType::ApplicationData.into(), 3, 3, len[0], len[1]];
    out.extend_from_slice(&header);
    let start = out.len();
    out.extend_from_slice(content);
    out.push(content_type.into());
    let tag = cipher.seal(keys, &header, &mut out[start..]);
    out.extend_from_slice(&tag);
}

#[cfg(test)]
mod tests;
