//! Reads the frames of pcap and pcapng files, in either byte order.

use super::CaptureError;

/// Calls `on_frame` for every frame, with its time in nanoseconds since 1970, its link type and its octets.
pub fn for_each_frame(
    file: &[u8],
    on_frame: impl FnMut(u64, u32, &[u8]) -> Result<(), CaptureError>,
) -> Result<(), CaptureError> {
    match file.first_chunk() {
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => read_blocks(file, on_frame),
        Some([0xd4, 0xc3, 0xb2, 0xa1]) => read_records(file, u32::from_le_bytes, 1000, on_frame),
        Some([0x4d, 0x3c, 0xb2, 0xa1]) => read_records(file, u32::from_le_bytes, 1, on_frame),
        Some([0xa1, 0xb2, 0xc3, 0xd4]) => read_records(file, u32::from_be_bytes, 1000, on_frame),
        Some([0xa1, 0xb2, 0x3c, 0x4d]) => read_records(file, u32::from_be_bytes, 1, on_frame),
        _ => Err(CaptureError::Magic),
    }
}

type FromBytes = fn([u8; 4]) -> u32;

fn u32_at(octets: &[u8], at: usize, from_bytes: FromBytes) -> Option<u32> {
    octets.get(at..)?.first_chunk().copied().map(from_bytes)
}

/// Reads pcap: a header of 24 octets, then records of seconds, fraction, two lengths, and the frame.
fn read_records(
    file: &[u8],
    from_bytes: FromBytes,
    fraction_ns: u64,
    mut on_frame: impl FnMut(u64, u32, &[u8]) -> Result<(), CaptureError>,
) -> Result<(), CaptureError> {
    let field = |at| u32_at(file, at, from_bytes);
    // The upper bits of the link type describe frame check sequences.
    let Some(link_type) = field(20).map(|value| value & 0xffff) else { return Ok(()) };
    let mut at = 24;
    while let (Some(seconds), Some(fraction), Some(len)) = (field(at), field(at + 4), field(at + 8)) {
        let Some(frame) = file.get(at + 16..at + 16 + len as usize) else { break };
        on_frame(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * fraction_ns, link_type, frame)?;
        at += 16 + len as usize;
    }
    Ok(())
}

/// An interface of a pcapng section: its link type, and the unit of its timestamps in nanoseconds.
#[derive(Clone, Copy)]
struct Interface {
    link_type: u32,
    unit_ns: f64,
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// Reads pcapng: blocks of type, length, body, and the length again.
fn read_blocks(
    file: &[u8],
    mut on_frame: impl FnMut(u64, u32, &[u8]) -> Result<(), CaptureError>,
) -> Result<(), CaptureError> {
    let (mut at, mut from_bytes, mut interfaces) = (0, u32::from_le_bytes as FromBytes, Vec::new());
    while let Some(kind) = u32_at(file, at, from_bytes) {
        if kind == SECTION_HEADER {
            let is_little = u32_at(file, at + 8, u32::from_le_bytes) == Some(0x1a2b_3c4d);
            from_bytes = if is_little { u32::from_le_bytes } else { u32::from_be_bytes };
            interfaces.clear();
        }
        let Some(len) = u32_at(file, at + 4, from_bytes).map(|len| len as usize).filter(|&len| len >= 12) else {
            break;
        };
        let Some(body) = file.get(at + 8..at + len - 4) else { break };
        match kind {
            INTERFACE_DESCRIPTION => interfaces.extend(interface(body, from_bytes)),
            ENHANCED_PACKET => {
                if let Some((time_ns, link_type, frame)) = enhanced_packet(body, &interfaces, from_bytes) {
                    on_frame(time_ns, link_type, frame)?;
                }
            }
            _ => {}
        }
        at += len;
    }
    Ok(())
}

fn interface(body: &[u8], from_bytes: FromBytes) -> Option<Interface> {
    let link_type = u32::from(u16_at(body, 0, from_bytes)?);
    let mut at = 8;
    let mut unit_ns = 1000.0;
    while let (Some(code), Some(len)) = (u16_at(body, at, from_bytes), u16_at(body, at + 2, from_bytes)) {
        // if_tsresol: a power of ten, or of two if the top bit is set.
        if let (9, Some(&resolution)) = (code, body.get(at + 4)) {
            let base: f64 = if resolution & 0x80 == 0 { 10.0 } else { 2.0 };
            unit_ns = 1e9 * base.powi(-i32::from(resolution & 0x7f));
        }
        at += 4 + usize::from(len).next_multiple_of(4);
    }
    Some(Interface { link_type, unit_ns })
}

fn u16_at(octets: &[u8], at: usize, from_bytes: FromBytes) -> Option<u16> {
    let [first, second] = *octets.get(at..)?.first_chunk()?;
    // Pad to 32 bits at the more significant end.
    let widened = if from_bytes([1, 0, 0, 0]) == 1 { [first, second, 0, 0] } else { [0, 0, first, second] };
    Some(from_bytes(widened) as u16)
}

fn enhanced_packet<'b>(
    body: &'b [u8],
    interfaces: &[Interface],
    from_bytes: FromBytes,
) -> Option<(u64, u32, &'b [u8])> {
    let field = |at| u32_at(body, at, from_bytes);
    let interface = interfaces.get(field(0)? as usize)?;
    let units = u64::from(field(4)?) << 32 | u64::from(field(8)?);
    let frame = body.get(20..20 + field(12)? as usize)?;
    // Integers where possible, so that no precision is lost.
    let time_ns = if interface.unit_ns >= 1.0 && interface.unit_ns.fract() == 0.0 {
        units.wrapping_mul(interface.unit_ns as u64)
    } else {
        (units as f64 * interface.unit_ns) as u64
    };
    Some((time_ns, interface.link_type, frame))
}
