//! RDATA in messages, with its names decompressed.

use std::ops::Range;

use super::{MessageError, append_name};
use crate::Rtype;
use crate::rdata::{self, Form};

/// Appends the RDATA at `range` of the message to `out`, with its names decompressed (RFC 3597 4). For types whose names
/// [may be compressed](rdata::may_be_compressed).
pub fn append_rdata(message: &[u8], range: Range<usize>, rtype: Rtype, out: &mut Vec<u8>) -> Result<(), MessageError> {
    let Range { start, end } = range;
    let plain = message.get(start..end).ok_or(MessageError::Short)?;
    let mut at = start;
    for field in rdata::fields_of(rtype) {
        at = match field.form {
            Form::CompressibleName | Form::Name => {
                // The name itself ends within the RDATA.
                append_name(&message[..end], at, out).map_err(|error| match error {
                    MessageError::Short => MessageError::Rdata(rtype),
                    other => other,
                })?
            }
            _ => {
                let next = field.end(plain, at - start).map_err(|_| MessageError::Rdata(rtype))?;
                out.extend_from_slice(&plain[at - start..next]);
                start + next
            }
        };
    }
    if at == end { Ok(()) } else { Err(MessageError::Rdata(rtype)) }
}
