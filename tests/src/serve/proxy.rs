//! Reads the header that a proxy puts in front of a connection: version 2 of the PROXY protocol. What the address in
//! it decides is the node's business.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// What the bytes so far are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyHeader {
    /// The beginning of a header.
    Incomplete,
    /// A header of this many bytes, with the address of the client; without one the proxy speaks for itself.
    Whole {
        len: usize,
        client: Option<SocketAddr>,
    },
    /// No header.
    Nonsense,
}

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The bytes up to the addresses.
const FIXED_LEN: usize = 16;
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const UNSPECIFIED: u8 = 0x00;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

impl ProxyHeader {
    /// Reads a header that may not have come whole yet.
    pub(super) fn read(bytes: &[u8]) -> Self {
        if !bytes.iter().zip(&SIGNATURE).all(|(a, b)| a == b) {
            return Self::Nonsense;
        }
        let Some(&[command, family, high, low]) = bytes.get(SIGNATURE.len()..FIXED_LEN) else {
            return Self::Incomplete;
        };
        let len = FIXED_LEN + usize::from(u16::from_be_bytes([high, low]));
        let Some(rest) = bytes.get(FIXED_LEN..len) else {
            return Self::Incomplete;
        };
        let client = match (command, family) {
            (LOCAL, UNSPECIFIED | TCP_OVER_IPV4 | TCP_OVER_IPV6) => None,
            (PROXY, TCP_OVER_IPV4) => ipv4(rest),
            (PROXY, TCP_OVER_IPV6) => ipv6(rest),
            _ => return Self::Nonsense,
        };
        if command == PROXY && client.is_none() {
            return Self::Nonsense;
        }
        Self::Whole { len, client }
    }
}

/// Source and destination address, then source and destination port; what follows is skipped.
fn ipv4(rest: &[u8]) -> Option<SocketAddr> {
    let (address, rest) = rest.split_first_chunk::<4>()?;
    let (_, rest) = rest.split_first_chunk::<4>()?;
    let (port, _) = rest.first_chunk::<4>()?.split_first_chunk::<2>()?;
    let address = Ipv4Addr::from(*address);
    Some((address, u16::from_be_bytes(*port)).into())
}

fn ipv6(rest: &[u8]) -> Option<SocketAddr> {
    let (address, rest) = rest.split_first_chunk::<16>()?;
    let (_, rest) = rest.split_first_chunk::<16>()?;
    let (port, _) = rest.first_chunk::<4>()?.split_first_chunk::<2>()?;
    let address = Ipv6Addr::from(*address);
    Some((address, u16::from_be_bytes(*port)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend([command, family]);
        bytes.extend(u16::try_from(rest.len()).unwrap().to_be_bytes());
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn a_header_tells_the_client_once_it_is_whole_whatever_follows() {
        let v4 = [
            192, 0, 2, 1, 127, 0, 0, 1, 0x9c, 0x41, 0x23, 0x52, 4, 0, 1, 9,
        ];
        let mut v6 = vec![0; 36];
        (v6[0], v6[1], v6[15], v6[33]) = (0x20, 0x01, 7, 5);
        for (bytes, client) in [
            (header(PROXY, TCP_OVER_IPV4, &v4), Some("192.0.2.1:40001")),
            (header(PROXY, TCP_OVER_IPV6, &v6), Some("[2001::7]:5")),
            (header(LOCAL, UNSPECIFIED, &[]), None),
            (header(LOCAL, TCP_OVER_IPV4, &v4), None),
        ] {
            for cut in 0..bytes.len() {
                assert_eq!(ProxyHeader::read(&bytes[..cut]), ProxyHeader::Incomplete);
            }
            let client = client.map(|client| client.parse().unwrap());
            let whole = ProxyHeader::Whole {
                len: bytes.len(),
                client,
            };
            assert_eq!(ProxyHeader::read(&bytes), whole);
            let more = [bytes, vec![4, 0, 0, 1, 5]].concat();
            assert_eq!(ProxyHeader::read(&more), whole);
        }
    }

    #[test]
    fn what_is_no_header_is_found_at_its_first_wrong_byte() {
        for bytes in [
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n".to_vec(),
            vec![4, 0, 0, 0, 5, 0, 0, 0, 0],
            b"\r\n\r\n\0\r\nQUIX".to_vec(),
            header(0x31, TCP_OVER_IPV4, &[0; 12]),
            header(0x22, TCP_OVER_IPV4, &[0; 12]),
            header(PROXY, UNSPECIFIED, &[0; 12]),
            header(PROXY, 0x12, &[0; 12]),
            header(PROXY, TCP_OVER_IPV4, &[0; 11]),
            header(PROXY, TCP_OVER_IPV6, &[0; 35]),
        ] {
            assert_eq!(
                ProxyHeader::read(&bytes),
                ProxyHeader::Nonsense,
                "{bytes:?}"
            );
        }
    }
}
