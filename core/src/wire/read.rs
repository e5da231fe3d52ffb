//! The checked cursor: the only place that turns bytes from a peer into numbers, lengths and texts. Every length
//! and count is compared with what is left before anything is taken or reserved.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use uuid::Uuid;

use crate::error::protocol::{ProtocolError, ProtocolErrorKind};
use crate::wire::consistency::{Consistency, SerialConsistency};

/// Reads the notation of the protocol from a body, front to back.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    total: usize,
    backing: Option<&'a Bytes>,
}

/// A bound value as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireValue<'a> {
    /// No value.
    Null,
    /// Leave the column as it is.
    Unset,
    /// The bytes of a value.
    Bytes(&'a [u8]),
}

impl<'a> Reader<'a> {
    /// Starts at the front of a slice. [`Self::shared_bytes`] will copy.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            total: bytes.len(),
            backing: None,
        }
    }

    /// Starts at the front of a shared buffer. [`Self::shared_bytes`] will not copy.
    #[inline]
    pub fn of_bytes(bytes: &'a Bytes) -> Self {
        Self {
            rest: bytes,
            total: bytes.len(),
            backing: Some(bytes),
        }
    }

    /// How many bytes were read.
    #[inline]
    pub fn offset(&self) -> usize {
        self.total - self.rest.len()
    }

    /// How many bytes are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What is left, without reading it.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// An error at the current place.
    pub fn error(&self, kind: ProtocolErrorKind) -> ProtocolError {
        ProtocolError::new(kind, self.offset())
    }

    /// Takes exactly `n` bytes.
    #[inline]
    pub fn bytes_exact(&mut self, n: usize) -> Result<&'a [u8], ProtocolError> {
        let Some((taken, rest)) = self.rest.split_at_checked(n) else {
            return Err(self.cut(n));
        };
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.cut(N));
        };
        self.rest = rest;
        Ok(*taken)
    }

    #[cold]
    fn cut(&self, needed: usize) -> ProtocolError {
        self.error(ProtocolErrorKind::Truncated {
            needed,
            left: self.rest.len(),
        })
    }

    /// Reads a `[byte]`.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, ProtocolError> {
        self.array().map(|[byte]| byte)
    }

    /// Reads a `[short]`.
    #[inline]
    pub fn short(&mut self) -> Result<u16, ProtocolError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads an `[int]`.
    #[inline]
    pub fn int(&mut self) -> Result<i32, ProtocolError> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads a `[long]`.
    #[inline]
    pub fn long(&mut self) -> Result<i64, ProtocolError> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads an `[int]` that counts items of at least `item_len_min` bytes each. The count is bounded by what is
    /// left, so room for that many items may be reserved; with items of no length it is bounded by
    /// [`EMPTY_ITEMS_MAX`].
    pub fn int_count(&mut self, item_len_min: usize) -> Result<usize, ProtocolError> {
        let at = self.offset();
        let count = self.int()?;
        let Ok(count) = usize::try_from(count) else {
            return Err(ProtocolError::new(
                ProtocolErrorKind::NegativeCount(count),
                at,
            ));
        };
        self.check_count(count, item_len_min, at)
    }

    /// Reads a `[short]` that counts items; as [`Self::int_count`].
    pub fn short_count(&mut self, item_len_min: usize) -> Result<usize, ProtocolError> {
        let at = self.offset();
        let count = usize::from(self.short()?);
        self.check_count(count, item_len_min, at)
    }

    fn check_count(&self, count: usize, item: usize, at: usize) -> Result<usize, ProtocolError> {
        let left = self.rest.len();
        let max = left.checked_div(item).unwrap_or(EMPTY_ITEMS_MAX);
        if count <= max {
            return Ok(count);
        }
        Err(ProtocolError::new(
            ProtocolErrorKind::CountTooLarge { count, left },
            at,
        ))
    }

    /// Reads a `[string]`.
    pub fn string(&mut self) -> Result<&'a str, ProtocolError> {
        let bytes = self.short_bytes()?;
        self.text(bytes)
    }

    /// Reads a `[string]` that need not be UTF-8: what is not is replaced.
    pub fn lossy_string(&mut self) -> Result<String, ProtocolError> {
        self.short_bytes()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Reads a `[long string]`.
    pub fn long_string(&mut self) -> Result<&'a str, ProtocolError> {
        let at = self.offset();
        let length = self.int()?;
        let Ok(length) = usize::try_from(length) else {
            return Err(ProtocolError::new(
                ProtocolErrorKind::NegativeLength(length),
                at,
            ));
        };
        let bytes = self.bytes_exact(length)?;
        self.text(bytes)
    }

    fn text(&self, bytes: &'a [u8]) -> Result<&'a str, ProtocolError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text),
            Err(error) => {
                let at = self.offset() - bytes.len() + error.valid_up_to();
                Err(ProtocolError::new(ProtocolErrorKind::NotUtf8, at))
            }
        }
    }

    /// Reads a `[string list]`.
    pub fn string_list(&mut self) -> Result<Vec<String>, ProtocolError> {
        self.list(STRING_LEN_MIN, |r| r.string().map(str::to_owned))
    }

    /// Reads a `[string map]` in its order.
    pub fn string_map(&mut self) -> Result<Vec<(String, String)>, ProtocolError> {
        self.list(2 * STRING_LEN_MIN, |r| {
            Ok((r.string()?.to_owned(), r.string()?.to_owned()))
        })
    }

    /// Reads a `[string multimap]` in its order.
    pub fn string_multimap(&mut self) -> Result<Vec<(String, Vec<String>)>, ProtocolError> {
        self.list(2 * STRING_LEN_MIN, |r| {
            Ok((r.string()?.to_owned(), r.string_list()?))
        })
    }

    /// Reads a `[bytes map]` in its order.
    pub fn bytes_map(&mut self) -> Result<Vec<(String, Option<Bytes>)>, ProtocolError> {
        self.list(STRING_LEN_MIN + 4, |r| {
            Ok((r.string()?.to_owned(), r.shared_bytes()?))
        })
    }

    /// Reads a `[short]` count and as many items of at least `item_len_min` bytes.
    pub fn list<T>(
        &mut self,
        item_len_min: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, ProtocolError>,
    ) -> Result<Vec<T>, ProtocolError> {
        let count = self.short_count(item_len_min)?;
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Reads `[bytes]`: none for any negative length.
    #[inline]
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>, ProtocolError> {
        let length = self.int()?;
        match usize::try_from(length) {
            Ok(length) => self.bytes_exact(length).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Reads `[bytes]` that outlive the reader: a window into the shared buffer where there is one.
    pub fn shared_bytes(&mut self) -> Result<Option<Bytes>, ProtocolError> {
        self.bytes()
            .map(|bytes| bytes.map(|bytes| self.share(bytes)))
    }

    /// Reads `[short bytes]`.
    pub fn short_bytes(&mut self) -> Result<&'a [u8], ProtocolError> {
        let length = usize::from(self.short()?);
        self.bytes_exact(length)
    }

    /// Reads `[short bytes]` that outlive the reader.
    pub fn shared_short_bytes(&mut self) -> Result<Bytes, ProtocolError> {
        self.short_bytes().map(|bytes| self.share(bytes))
    }

    /// Takes everything that is left, shared where possible.
    pub fn shared_rest(&mut self) -> Bytes {
        let rest = std::mem::take(&mut self.rest);
        self.share(rest)
    }

    fn share(&self, bytes: &[u8]) -> Bytes {
        match self.backing {
            Some(backing) => backing.slice_ref(bytes),
            None => Bytes::copy_from_slice(bytes),
        }
    }

    /// Reads a `[value]`.
    pub fn value(&mut self) -> Result<WireValue<'a>, ProtocolError> {
        let at = self.offset();
        match self.int()? {
            -1 => Ok(WireValue::Null),
            -2 => Ok(WireValue::Unset),
            length => match usize::try_from(length) {
                Ok(length) => self.bytes_exact(length).map(WireValue::Bytes),
                Err(_) => Err(ProtocolError::new(
                    ProtocolErrorKind::ValueLength(length),
                    at,
                )),
            },
        }
    }

    /// Reads a `[uuid]`.
    pub fn uuid(&mut self) -> Result<Uuid, ProtocolError> {
        self.array().map(Uuid::from_bytes)
    }

    /// Reads an `[inetaddr]`: an address without a port.
    pub fn inet_addr(&mut self) -> Result<IpAddr, ProtocolError> {
        let at = self.offset();
        match self.byte()? {
            4 => self.array::<4>().map(IpAddr::from),
            16 => self.array::<16>().map(IpAddr::from),
            length => Err(ProtocolError::new(
                ProtocolErrorKind::AddressLength(length),
                at,
            )),
        }
    }

    /// Reads an `[inet]`: an address with a port.
    pub fn inet(&mut self) -> Result<SocketAddr, ProtocolError> {
        let address = self.inet_addr()?;
        let at = self.offset();
        let port = self.int()?;
        match u16::try_from(port) {
            Ok(port) => Ok(SocketAddr::new(address, port)),
            Err(_) => Err(ProtocolError::new(ProtocolErrorKind::PortRange(port), at)),
        }
    }

    /// Reads a `[consistency]`.
    pub fn consistency(&mut self) -> Result<Consistency, ProtocolError> {
        let at = self.offset();
        let code = self.short()?;
        match Consistency::from_code(code) {
            Some(consistency) => Ok(consistency),
            None => Err(ProtocolError::new(
                ProtocolErrorKind::UnknownConsistency(code),
                at,
            )),
        }
    }

    /// Reads a `[consistency]` that must be a serial one.
    pub fn serial_consistency(&mut self) -> Result<SerialConsistency, ProtocolError> {
        let at = self.offset();
        let code = self.short()?;
        match SerialConsistency::from_code(code) {
            Some(consistency) => Ok(consistency),
            None => Err(ProtocolError::new(
                ProtocolErrorKind::UnknownConsistency(code),
                at,
            )),
        }
    }

    /// Reads an `[unsigned vint]`; also one that is longer than it need be.
    pub fn unsigned_vint(&mut self) -> Result<u64, ProtocolError> {
        let first = self.byte()?;
        let further = usize::try_from(first.leading_ones()).unwrap_or(8);
        let mask = 0xff_u8.checked_shr(first.leading_ones() + 1).unwrap_or(0);
        let high = u64::from(first & mask);
        let bytes = self.bytes_exact(further)?;
        Ok(bytes
            .iter()
            .fold(high, |value, &byte| value << 8 | u64::from(byte)))
    }

    /// Reads a `[vint]`.
    pub fn vint(&mut self) -> Result<i64, ProtocolError> {
        self.unsigned_vint()
            .map(|zigzag| (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }
}

/// The shortest `[string]`: its length.
const STRING_LEN_MIN: usize = 2;

/// How many items without bytes of their own a count may promise. No server sends any; the bound keeps a few bytes
/// from keeping us busy.
pub const EMPTY_ITEMS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_over_the_end_is_an_error_at_its_place() {
        let mut r = Reader::new(&[0, 1, 0, 5, b'a']);
        assert_eq!(r.short(), Ok(1));
        let error = r.string().unwrap_err();
        assert_eq!(
            error.kind,
            ProtocolErrorKind::Truncated { needed: 5, left: 1 }
        );
        assert_eq!(error.offset, 4);
    }

    #[test]
    fn a_count_is_checked_against_what_is_left_before_anything_is_reserved() {
        let list = [0xff, 0xff, 0, 0, 0, 0];
        assert_eq!(
            Reader::new(&list).string_list().map_err(|error| error.kind),
            Err(ProtocolErrorKind::CountTooLarge {
                count: 65_535,
                left: 4
            })
        );
        assert_eq!(
            Reader::new(&[0x7f, 0xff, 0xff, 0xff, 1])
                .int_count(4)
                .map_err(|error| error.kind),
            Err(ProtocolErrorKind::CountTooLarge {
                count: 0x7fff_ffff,
                left: 1
            })
        );
        assert_eq!(
            Reader::new(&[0xff, 0xff, 0xff, 0xff])
                .int_count(0)
                .map_err(|error| error.kind),
            Err(ProtocolErrorKind::NegativeCount(-1))
        );
        assert!(Reader::new(&[0, 1, 0, 1]).int_count(0).is_err());
        assert_eq!(Reader::new(&[0, 1, 0, 0]).int_count(0), Ok(65_536));
    }

    #[test]
    fn values_tell_null_unset_and_nonsense_apart() {
        let read = |bytes: &'static [u8]| Reader::new(bytes).value();
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff]), Ok(WireValue::Null));
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xfe]), Ok(WireValue::Unset));
        assert_eq!(read(&[0, 0, 0, 1, 7]), Ok(WireValue::Bytes(&[7])));
        let error = read(&[0xff, 0xff, 0xff, 0xfd]).unwrap_err();
        assert_eq!(error.kind, ProtocolErrorKind::ValueLength(-3));
    }

    #[test]
    fn shared_bytes_are_windows_into_the_buffer() {
        let body = Bytes::from_static(&[0, 0, 0, 2, 8, 9]);
        let shared = Reader::of_bytes(&body).shared_bytes().unwrap().unwrap();
        assert_eq!(&shared[..], &[8, 9]);
        assert_eq!(shared.as_ptr(), body[4..].as_ptr());
        let copied = Reader::new(&body).shared_bytes().unwrap().unwrap();
        assert_eq!(copied, shared);
        assert_ne!(copied.as_ptr(), body[4..].as_ptr());
    }

    #[test]
    fn a_port_above_the_range_is_refused_and_not_cut() {
        let error = Reader::new(&[4, 192, 0, 2, 1, 0, 1, 0x23, 0x42])
            .inet()
            .unwrap_err();
        assert_eq!(error.kind, ProtocolErrorKind::PortRange(74_562));
        assert_eq!(error.offset, 5);
    }

    #[test]
    fn text_that_is_not_utf_8_is_reported_at_the_bad_byte() {
        let error = Reader::new(&[0, 3, b'a', 0xff, b'b']).string().unwrap_err();
        assert_eq!((error.kind, error.offset), (ProtocolErrorKind::NotUtf8, 3));
        assert_eq!(
            Reader::new(&[0, 2, b'a', 0xff]).lossy_string().unwrap(),
            "a\u{fffd}"
        );
    }

    #[test]
    fn vints_are_read_up_to_their_full_width() {
        let vint = |bytes: &'static [u8]| Reader::new(bytes).vint().unwrap();
        assert_eq!(
            [vint(&[0]), vint(&[1]), vint(&[2]), vint(&[3])],
            [0, -1, 1, -2]
        );
        assert_eq!(vint(&[0x80, 0x80]), 64);
        assert_eq!(vint(&[0xff; 9]), i64::MIN);
        assert_eq!(
            vint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]),
            i64::MAX
        );
        assert!(Reader::new(&[0xc0, 1]).vint().is_err());
    }
}
