//! Bound values on their way into a frame: mostly one block that is copied as it lies, seldom with names in between
//! or with payloads that lie elsewhere.

use bytes::Bytes;

use super::ValuesRef;
use super::encode::{INT, put_string, string_len};
use crate::error::protocol::{FrameEncodeError, FramePart};
use crate::wire::write::FrameSink;

/// The length of the values without their count.
#[inline]
pub(super) fn values_len(values: &ValuesRef<'_>) -> Result<usize, FrameEncodeError> {
    if values.is_one_block() {
        Ok(values.bytes.len())
    } else {
        mixed_values_len(values)
    }
}

/// The same for values with names or with payloads that lie elsewhere.
#[inline(never)]
fn mixed_values_len(values: &ValuesRef<'_>) -> Result<usize, FrameEncodeError> {
    let mut len = values.bytes.len();
    let mut from = 0;
    for large in values.large {
        if large.at < from || values.bytes.len() < large.at {
            return Err(FrameEncodeError::LargeValuePlace);
        }
        from = large.at;
        len = len.saturating_add(large.bytes.len());
    }
    if let Some(names) = values.names {
        if names.len() != usize::from(values.count) {
            return Err(FrameEncodeError::NamesMismatch);
        }
        let mut walk = ValueWalk::new(values);
        for name in names {
            len = len.saturating_add(string_len(FramePart::Name, name)?);
            walk.next().ok_or(FrameEncodeError::NamesMismatch)?;
        }
        if !walk.rest.is_empty() {
            return Err(FrameEncodeError::NamesMismatch);
        }
    }
    Ok(len)
}

/// Writes the count and the values.
#[inline]
pub(super) fn put_values(out: &mut impl FrameSink, values: &ValuesRef<'_>) {
    out.put(&values.count.to_be_bytes());
    if values.is_one_block() {
        out.put(values.bytes);
    } else {
        put_mixed_values(out, values);
    }
}

/// Writes values with names or with payloads that lie elsewhere.
#[inline(never)]
fn put_mixed_values(out: &mut impl FrameSink, values: &ValuesRef<'_>) {
    match values.names {
        Some(names) => {
            let mut walk = ValueWalk::new(values);
            for (name, (head, large)) in names.iter().zip(&mut walk) {
                put_string(out, name);
                out.put(head);
                if let Some(large) = large {
                    out.chain(large);
                }
            }
        }
        None => {
            let mut rest = values.bytes;
            let mut from = 0;
            for large in values.large {
                let (head, tail) = rest
                    .split_at_checked(large.at - from)
                    .unwrap_or((rest, &[]));
                out.put(head);
                out.chain(&large.bytes);
                rest = tail;
                from = large.at;
            }
            out.put(rest);
        }
    }
}

impl ValuesRef<'_> {
    /// Whether the values can be copied as they lie.
    const fn is_one_block(&self) -> bool {
        self.names.is_none() && self.large.is_empty()
    }
}

/// Walks values one by one: the bytes of each with its length, and its large payload if that lies elsewhere.
struct ValueWalk<'a> {
    rest: &'a [u8],
    at: usize,
    values: &'a ValuesRef<'a>,
    large: usize,
}

impl<'a> ValueWalk<'a> {
    fn new(values: &'a ValuesRef<'a>) -> Self {
        Self {
            rest: values.bytes,
            at: 0,
            values,
            large: 0,
        }
    }
}

impl<'a> Iterator for ValueWalk<'a> {
    type Item = (&'a [u8], Option<&'a Bytes>);

    fn next(&mut self) -> Option<Self::Item> {
        let length = i32::from_be_bytes(*self.rest.first_chunk::<4>()?);
        let large = self
            .values
            .large
            .get(self.large)
            .filter(|large| large.at == self.at + INT);
        let inline = match large {
            Some(_) => 0,
            None => usize::try_from(length).unwrap_or(0),
        };
        let (head, rest) = self.rest.split_at_checked(INT.checked_add(inline)?)?;
        self.large += usize::from(large.is_some());
        self.at += head.len();
        self.rest = rest;
        Some((head, large.map(|large| &large.bytes)))
    }
}
