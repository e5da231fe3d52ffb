//! The paging state: where a page ended. Clients take it as opaque, and damaged ones are found.

use bytes::Bytes;
use uuid::Uuid;

use crate::node::CqlError;
use crate::node::store::PartitionPlace;

/// What the next page needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageState {
    pub(crate) position: Position,
    /// Rows that LIMIT still allows.
    pub(crate) left: u64,
}

/// The last row of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) place: PartitionPlace,
    /// The ordered clustering key; `None` is the row of static columns alone.
    pub(crate) row: Option<Vec<u8>>,
    /// Rows of this partition that were given already.
    pub(crate) taken: u64,
}

impl PageState {
    pub(crate) fn encode(&self, table: Uuid) -> Bytes {
        let mut out = vec![VERSION];
        out.extend_from_slice(table.as_bytes());
        out.extend_from_slice(&self.left.to_be_bytes());
        out.extend_from_slice(&self.position.taken.to_be_bytes());
        out.extend_from_slice(&self.position.place.token.to_be_bytes());
        put_part(Some(&self.position.place.key), &mut out);
        put_part(self.position.row.as_deref(), &mut out);
        let sum = checksum(&out);
        out.extend_from_slice(&sum.to_be_bytes());
        out.into()
    }

    pub(crate) fn decode(bytes: &[u8], table: Uuid) -> Result<Self, CqlError> {
        Self::read(bytes, table)
            .ok_or_else(|| CqlError::protocol("Invalid value for the paging state"))
    }

    fn read(bytes: &[u8], table: Uuid) -> Option<Self> {
        let (content, sum) = bytes.split_last_chunk::<8>()?;
        if checksum(content) != u64::from_be_bytes(*sum) {
            return None;
        }
        let (&version, rest) = content.split_first()?;
        let (id, mut rest) = rest.split_first_chunk::<16>()?;
        if version != VERSION || id != table.as_bytes() {
            return None;
        }
        let left = u64::from_be_bytes(take(&mut rest)?);
        let taken = u64::from_be_bytes(take(&mut rest)?);
        let token = i64::from_be_bytes(take(&mut rest)?);
        let key = take_part(&mut rest)??;
        let row = take_part(&mut rest)?;
        let place = PartitionPlace { token, key };
        rest.is_empty().then_some(Self {
            position: Position { place, row, taken },
            left,
        })
    }
}

const VERSION: u8 = 1;

fn take(rest: &mut &[u8]) -> Option<[u8; 8]> {
    let (head, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(*head)
}

fn put_part(part: Option<&[u8]>, out: &mut Vec<u8>) {
    // No key is so long that its length is taken for "none".
    let len = part.map_or(u32::MAX, |part| {
        u32::try_from(part.len()).unwrap_or(u32::MAX)
    });
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(part.unwrap_or(&[]));
}

fn take_part(rest: &mut &[u8]) -> Option<Option<Vec<u8>>> {
    let (len, after) = rest.split_first_chunk::<4>()?;
    let len = u32::from_be_bytes(*len);
    if len == u32::MAX {
        *rest = after;
        return Some(None);
    }
    let (part, after) = after.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = after;
    Some(Some(part.to_vec()))
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_as_it_was_and_damage_is_found() {
        let table = Uuid::from_u128(7);
        for row in [None, Some(vec![]), Some(vec![1, 2, 3])] {
            let place = PartitionPlace {
                token: -5,
                key: vec![9, 9],
            };
            let state = PageState {
                position: Position {
                    place,
                    row,
                    taken: 3,
                },
                left: 40,
            };
            let bytes = state.encode(table);
            assert_eq!(PageState::decode(&bytes, table), Ok(state));
            assert!(PageState::decode(&bytes, Uuid::nil()).is_err());
            for at in 0..bytes.len() {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= 1;
                let error = PageState::decode(&damaged, table).unwrap_err();
                assert_eq!(error.message, "Invalid value for the paging state");
                assert!(PageState::decode(&bytes[..at], table).is_err());
            }
        }
    }
}
