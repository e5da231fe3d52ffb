//! A client for tests: speaks to a cluster in memory, with the driver's own reader of responses.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use messina_core::types::Rows;
use messina_core::types::row::FromRow;
use messina_core::wire::consistency::Consistency;
use messina_core::wire::event::{EventKind, ServerEvent};
use messina_core::wire::header::FrameHeader;
use messina_core::wire::request::{ParamsRef, RequestOptionsRef, RequestRef, ValuesRef};
use messina_core::wire::response::{Envelope, Response, ResponseFrame};
use messina_core::wire::result::{PreparedBody, ResultBody, RowsBody};
use messina_core::wire::server_error::ServerError;
use messina_core::wire::supported::ProtocolFeatures;

use crate::cluster::{Cluster, ClusterConfig, ClusterOutput, ConnectionId};
use crate::node::PortKind;

/// A cluster in virtual time.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) now: Instant,
    next_port: u16,
}

/// One connection with what came over it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) id: ConnectionId,
    pub(crate) features: ProtocolFeatures,
    pub(crate) received: BytesMut,
    pub(crate) closed: bool,
    next_stream: i16,
}

/// Microseconds since 1970 when a world begins.
pub(crate) const BEGIN: i64 = 1_700_000_000_000_000;

impl World {
    pub(crate) fn new(config: ClusterConfig) -> Self {
        let now = Instant::now();
        let cluster = Cluster::new(now, BEGIN, config);
        Self {
            cluster,
            now,
            next_port: 40_000,
        }
    }

    pub(crate) fn with_nodes(nodes: usize) -> Self {
        let datacenters = vec![("dc1".to_owned(), nodes)];
        Self::new(ClusterConfig {
            datacenters,
            ..ClusterConfig::default()
        })
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.cluster.handle_timeout(self.now);
    }

    pub(crate) fn connect(&mut self, node: usize) -> Link {
        self.next_port += 1;
        let peer = SocketAddr::from(([127, 0, 0, 1], self.next_port));
        let id = self
            .cluster
            .accept(self.now, node, PortKind::Normal, peer)
            .expect("the node runs");
        Link {
            id,
            features: ProtocolFeatures::default(),
            received: BytesMut::new(),
            closed: false,
            next_stream: 0,
        }
    }

    /// A connection that is past its handshake, without any extension.
    pub(crate) fn open(&mut self, node: usize) -> Link {
        let mut link = self.connect(node);
        let options = [("CQL_VERSION".to_owned(), "3.0.0".to_owned())];
        let ready = self.ask(&mut link, RequestRef::Startup(&options));
        assert_eq!(ready.response, Response::Ready);
        link
    }

    /// Takes what the cluster has for a connection.
    pub(crate) fn collect(&mut self, link: &mut Link) {
        while let Some(output) = self.cluster.poll_output() {
            if output == ClusterOutput::Close(link.id) {
                link.closed = true;
            }
        }
        while let Some(bytes) = self.cluster.poll_transmit(link.id) {
            link.received.extend_from_slice(&bytes);
        }
    }

    pub(crate) fn send_bytes(&mut self, link: &mut Link, bytes: &[u8]) {
        self.cluster.handle_received(self.now, link.id, bytes);
        self.collect(link);
    }

    pub(crate) fn send(&mut self, link: &mut Link, request: RequestRef<'_>) -> i16 {
        link.next_stream += 1;
        let mut out = Vec::new();
        request
            .encode(
                &mut out,
                &link.features,
                link.next_stream,
                &RequestOptionsRef::default(),
            )
            .expect("fits a frame");
        self.send_bytes(link, &out);
        link.next_stream
    }

    /// Sends a request and takes its answer, which must be the next frame.
    pub(crate) fn ask(&mut self, link: &mut Link, request: RequestRef<'_>) -> Envelope {
        let stream = self.send(link, request);
        let frame = link.next_frame().expect("an answer");
        assert_eq!(frame.header.stream, stream);
        frame.parse(&link.features).expect("a well-formed answer")
    }

    pub(crate) fn query(&mut self, link: &mut Link, text: &str) -> Result<ResultBody, ServerError> {
        self.query_with(
            link,
            text,
            ParamsRef {
                consistency: Consistency::One,
                ..ParamsRef::default()
            },
        )
    }

    pub(crate) fn query_with(
        &mut self,
        link: &mut Link,
        text: &str,
        params: ParamsRef<'_>,
    ) -> Result<ResultBody, ServerError> {
        outcome(self.ask(link, RequestRef::Query { text, params }))
    }

    /// Runs a statement that must work.
    pub(crate) fn run(&mut self, link: &mut Link, text: &str) {
        if let Err(error) = self.query(link, text) {
            panic!("{text}: {error:?}");
        }
    }

    /// The rows of a query that must work.
    pub(crate) fn rows<T: for<'r> FromRow<'r>>(&mut self, link: &mut Link, text: &str) -> Vec<T> {
        match self.query(link, text) {
            Ok(ResultBody::Rows(body)) => decode(&body),
            other => panic!("{text}: {other:?}"),
        }
    }

    /// The text of the error that a query must give.
    pub(crate) fn refusal(&mut self, link: &mut Link, text: &str) -> (i32, String) {
        match self.query(link, text) {
            Err(error) => (error.code, error.message),
            Ok(result) => panic!("{text}: {result:?}"),
        }
    }

    pub(crate) fn prepare(&mut self, link: &mut Link, text: &str) -> PreparedBody {
        match outcome(self.ask(
            link,
            RequestRef::Prepare {
                text,
                keyspace: None,
            },
        )) {
            Ok(ResultBody::Prepared(prepared)) => prepared,
            other => panic!("{text}: {other:?}"),
        }
    }

    pub(crate) fn execute(
        &mut self,
        link: &mut Link,
        id: &Bytes,
        values: &[Option<&[u8]>],
        params: ParamsRef<'_>,
    ) -> Result<ResultBody, ServerError> {
        let bytes = encode_values(values);
        let mut params: ParamsRef<'_> = ParamsRef { ..params };
        params.values = ValuesRef {
            count: u16::try_from(values.len()).expect("few values"),
            bytes: &bytes,
            ..ValuesRef::default()
        };
        let request = RequestRef::Execute {
            id,
            result_metadata_id: None,
            tablet_block: 0,
            params,
        };
        outcome(self.ask(link, request))
    }

    pub(crate) fn register(&mut self, link: &mut Link, kinds: &[EventKind]) {
        assert_eq!(
            self.ask(link, RequestRef::Register(kinds)).response,
            Response::Ready
        );
    }

    /// The events that came over a connection and were not looked at yet.
    pub(crate) fn events(&mut self, link: &mut Link) -> Vec<ServerEvent> {
        self.collect(link);
        let mut events = Vec::new();
        while let Some(frame) = link.next_frame() {
            assert_eq!(frame.header.stream, -1);
            match frame
                .parse(&link.features)
                .expect("a well-formed event")
                .response
            {
                Response::Event(event) => events.push(event),
                other => panic!("{other:?}"),
            }
        }
        events
    }
}

impl Link {
    pub(crate) fn next_frame(&mut self) -> Option<ResponseFrame> {
        let header = FrameHeader::parse(self.received.first_chunk::<9>()?).expect("a header");
        let len = usize::try_from(header.length).expect("a length");
        if self.received.len() < FrameHeader::LEN + len {
            return None;
        }
        self.received.advance(FrameHeader::LEN);
        Some(ResponseFrame {
            header,
            body: self.received.split_to(len).freeze(),
        })
    }
}

pub(crate) fn encode_values(values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        crate::node::values::put_cell(*value, &mut out);
    }
    out
}

pub(crate) fn outcome(envelope: Envelope) -> Result<ResultBody, ServerError> {
    match envelope.response {
        Response::Result(result) => Ok(result),
        Response::Error(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn decode<T: for<'r> FromRow<'r>>(body: &RowsBody) -> Vec<T> {
    let columns = body.metadata.columns.as_ref().expect("columns");
    let rows = Rows::<T>::new(columns, body.row_count, &body.cells).expect("fitting columns");
    rows.map(|row| row.expect("a well-formed row")).collect()
}
