//! Compressed bodies of protocol version 4, in both directions.

use bytes::Bytes;
use messina_core::wire::supported::Compression;

use super::CqlError;

/// A body that would grow over this is refused before anything is allocated.
const BODY_MAX: usize = 256 * 1024 * 1024;

/// Unpacks the body of a request.
pub(crate) fn unpack(compression: Compression, body: &[u8]) -> Result<Bytes, CqlError> {
    let fail = |text: String| CqlError::new(CqlError::SERVER, text);
    match compression {
        Compression::Lz4 => {
            let Some((head, block)) = body.split_first_chunk::<4>() else {
                return Err(fail(format!(
                    "CQL frame truncated: expected to have at least 4 bytes, got {}",
                    body.len()
                )));
            };
            let len = i32::from_be_bytes(*head);
            let Ok(len) = usize::try_from(len) else {
                return Err(fail(format!(
                    "CQL frame uncompressed length is negative: {len}"
                )));
            };
            if BODY_MAX < len {
                return Err(fail("CQL frame LZ4 uncompression failure".to_owned()));
            }
            let out = lz4_flex::block::decompress(block, len)
                .map_err(|_| fail("CQL frame LZ4 uncompression failure".to_owned()))?;
            if out.len() != len {
                return Err(fail(
                    "Malformed CQL frame - provided uncompressed size different than real uncompressed size"
                        .to_owned(),
                ));
            }
            Ok(out.into())
        }
        Compression::Snappy => {
            let len = snap::raw::decompress_len(body)
                .map_err(|_| fail("CQL frame Snappy uncompressed size is unknown".to_owned()))?;
            if BODY_MAX < len {
                return Err(fail("CQL frame Snappy uncompression failure".to_owned()));
            }
            let out = snap::raw::Decoder::new()
                .decompress_vec(body)
                .map_err(|_| fail("CQL frame Snappy uncompression failure".to_owned()))?;
            Ok(out.into())
        }
        _ => Err(CqlError::protocol("Unknown compression algorithm")),
    }
}

/// Packs the body of a response; `None` when the algorithm cannot.
pub(crate) fn pack(compression: Compression, body: &[u8]) -> Option<Vec<u8>> {
    match compression {
        Compression::Lz4 => {
            let len = u32::try_from(body.len()).ok()?;
            let mut out = len.to_be_bytes().to_vec();
            out.extend(lz4_flex::block::compress(body));
            Some(out)
        }
        Compression::Snappy => snap::raw::Encoder::new().compress_vec(body).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_bodies_are_packed_as_the_server_packs_them() {
        assert_eq!(pack(Compression::Lz4, &[]).unwrap(), [0; 5]);
        assert_eq!(pack(Compression::Snappy, &[]).unwrap(), [0]);
    }

    #[test]
    fn what_was_packed_comes_out_again_and_lies_about_the_length_are_found() {
        let body = b"abcabcabcabcabcabcabcabc".repeat(20);
        for compression in [Compression::Lz4, Compression::Snappy] {
            let packed = pack(compression, &body).unwrap();
            assert!(packed.len() < body.len());
            assert_eq!(unpack(compression, &packed).unwrap(), body);
            assert!(unpack(compression, &packed[..packed.len() / 2]).is_err());
        }
        let mut huge = pack(Compression::Lz4, &body).unwrap();
        huge[..4].copy_from_slice(&i32::MAX.to_be_bytes());
        assert!(unpack(Compression::Lz4, &huge).is_err());
        huge[..4].copy_from_slice(&(-1_i32).to_be_bytes());
        assert!(unpack(Compression::Lz4, &huge).is_err());
        assert!(unpack(Compression::Lz4, &[1]).is_err());
    }
}
