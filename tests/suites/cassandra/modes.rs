//! The ways in which a client can speak to Cassandra, and what the server sees of them.

use std::collections::HashMap;

use messina_tokio::{Compression, ProtocolVersion, Session, SessionBuilder};

use super::{OPEN, contact_point};

/// A version of the protocol, with or without compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Segments; what a client that sets nothing gets.
    Version5,
    /// Bare frames.
    Version4,
    /// Frames with compressed bodies.
    Version4Lz4,
    /// Compressed segments.
    Version5Lz4,
}

impl Mode {
    /// All ways in which the cases of this suite are run.
    pub(crate) const ALL: [Self; 3] = [Self::Version5, Self::Version4, Self::Version4Lz4];

    /// What tells the keyspaces of the modes apart.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Version5 => "",
            Self::Version4 => "_v4",
            Self::Version4Lz4 => "_v4_lz4",
            Self::Version5Lz4 => "_v5_lz4",
        }
    }

    pub(crate) fn choose(self, builder: SessionBuilder) -> SessionBuilder {
        match self {
            Self::Version5 => builder,
            Self::Version4 => builder.protocol_version(ProtocolVersion::V4),
            Self::Version4Lz4 => builder
                .protocol_version(ProtocolVersion::V4)
                .compression(Compression::Lz4),
            Self::Version5Lz4 => builder.compression(Compression::Lz4),
        }
    }

    /// Checks that all connections of the application with this name are of this mode, as the server sees it.
    pub(crate) async fn check(self, session: &Session, application: &str, encrypted: bool) {
        let (version, compression) = match self {
            Self::Version5 => (5, None),
            Self::Version4 => (4, None),
            Self::Version4Lz4 => (4, Some("lz4")),
            Self::Version5Lz4 => (5, Some("lz4")),
        };
        let text = "SELECT protocol_version, ssl_enabled, client_options FROM system_views.clients";
        let clients = session
            .execute(text, ())
            .await
            .expect("the server lists its clients");
        let mut count = 0;
        for client in clients.rows::<Client>().expect("three columns") {
            let (spoken, ssl, options) = client.expect("a client");
            if options.get("APPLICATION_NAME").map(String::as_str) != Some(application) {
                continue;
            }
            let packed = options.get("COMPRESSION").map(String::as_str);
            assert_eq!(
                (spoken, packed, ssl),
                (version, compression, encrypted),
                "{self:?}"
            );
            count += 1;
        }
        assert!(
            2 <= count,
            "{count} connections of {application}: one for control, one for data"
        );
    }
}

/// Protocol version, whether it is encrypted, and the options of STARTUP.
type Client = (i32, bool, HashMap<String, String>);

#[tokio::test]
async fn the_server_sees_the_version_and_the_compression_that_were_chosen() {
    for mode in [
        Mode::Version5,
        Mode::Version4,
        Mode::Version4Lz4,
        Mode::Version5Lz4,
    ] {
        let Some(address) = contact_point(&OPEN) else {
            return;
        };
        let application = format!("modes{}", mode.suffix());
        let builder = mode.choose(Session::builder());
        let session = builder
            .contact_point(&address)
            .application(&application, "1")
            .build()
            .await
            .expect("the node is up");
        mode.check(&session, &application, false).await;
    }
}

#[tokio::test]
async fn large_values_go_and_come_in_compressed_segments() {
    let Some(session) = super::session_in(Mode::Version5Lz4, "segments_lz4").await else {
        return;
    };
    let create = "CREATE TABLE large (id int PRIMARY KEY, v blob)";
    session.execute(create, ()).await.expect("the table is new");
    let insert = session
        .prepare("INSERT INTO large (id, v) VALUES (?, ?)")
        .await
        .unwrap();
    let select = session
        .prepare("SELECT v FROM large WHERE id = ?")
        .await
        .unwrap();
    // Around the size of a segment, with content that gets smaller and content that does not.
    for (id, len) in (0..).zip([100, 130_900, 131_071, 131_072, 400_000, 3_000_000]) {
        let plain = vec![7_u8; len];
        let mut state = 1_u32;
        let noise: Vec<u8> = plain
            .iter()
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_be_bytes()[0]
            })
            .collect();
        for value in [plain, noise] {
            session
                .execute(&insert, (id, &value[..]))
                .await
                .expect("inserted");
            let rows = session.execute(&select, (id,)).await.expect("selected");
            assert!(
                rows.one::<(Vec<u8>,)>().expect("a row").0 == value,
                "{len} bytes"
            );
        }
    }
}
