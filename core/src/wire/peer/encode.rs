//! Responses to bytes. Meant for simulated nodes: clear before fast.

use std::net::IpAddr;

use crate::error::protocol::{FrameEncodeError, FramePart};
use crate::types::column_type::ColumnType;
use crate::types::custom_type::class_name;
use crate::wire::consistency::Consistency;
use crate::wire::event::{SchemaChange, SchemaTarget, ServerEvent, UPDATE_NODES};
use crate::wire::header::{Direction, Flags, FrameHeader, Opcode, ProtocolVersion};
use crate::wire::response::{Envelope, Response};
use crate::wire::result::{
    ColumnSpec, GLOBAL_TABLE, KIND_PREPARED, KIND_ROWS, KIND_SCHEMA_CHANGE, KIND_SET_KEYSPACE,
    KIND_VOID, METADATA_CHANGED, MORE_PAGES, NO_METADATA, PreparedBody, ResultBody, ResultMetadata,
    RowsBody, TYPE_CUSTOM, TYPE_LIST, TYPE_MAP, TYPE_SET, TYPE_TUPLE, TYPE_UDT, simple_type_id,
};
use crate::wire::server_error::{
    OperationKind, ReplicaFailures, ServerError, ServerErrorDetail, WriteType,
};
use crate::wire::supported::ProtocolFeatures;

type Written = Result<(), FrameEncodeError>;

impl Envelope {
    /// Appends header and body. Nothing is appended when there is an error.
    ///
    /// Errors: a part that does not fit its length field.
    pub fn encode(
        &self,
        out: &mut Vec<u8>,
        features: &ProtocolFeatures,
        stream: i16,
    ) -> Result<(), FrameEncodeError> {
        let mut body = Writer {
            out: Vec::new(),
            features,
        };
        let mut flags = Flags::empty();
        if let Some(id) = self.tracing_id {
            flags = flags.union(Flags::TRACING);
            body.raw(id.as_bytes());
        }
        if !self.warnings.is_empty() {
            flags = flags.union(Flags::WARNING);
            body.string_list(&self.warnings)?;
        }
        if !self.custom_payload.is_empty() {
            flags = flags.union(Flags::CUSTOM_PAYLOAD);
            body.short_len(FramePart::CustomPayload, self.custom_payload.len())?;
            for (key, value) in &self.custom_payload {
                body.string(key)?;
                body.bytes(value.as_deref())?;
            }
        }
        body.response(&self.response)?;
        let header = FrameHeader {
            direction: Direction::Response,
            version: features.version.byte(),
            flags,
            stream,
            opcode: self.response.opcode(),
            length: length(FramePart::Body, body.out.len())?,
        };
        out.extend_from_slice(&header.to_bytes());
        out.append(&mut body.out);
        Ok(())
    }
}

impl From<Response> for Envelope {
    /// Wraps a message with nothing around it.
    fn from(response: Response) -> Self {
        Self {
            tracing_id: None,
            warnings: Vec::new(),
            custom_payload: Vec::new(),
            response,
        }
    }
}

impl Response {
    /// The opcode of the message.
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Error(_) => Opcode::Error,
            Self::Ready => Opcode::Ready,
            Self::Authenticate(_) => Opcode::Authenticate,
            Self::Supported(_) => Opcode::Supported,
            Self::Result(_) => Opcode::Result,
            Self::Event(_) => Opcode::Event,
            Self::AuthChallenge(_) => Opcode::AuthChallenge,
            Self::AuthSuccess(_) => Opcode::AuthSuccess,
        }
    }
}

/// Appends the notation of the protocol.
struct Writer<'a> {
    out: Vec<u8>,
    features: &'a ProtocolFeatures,
}

impl Writer<'_> {
    fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn short(&mut self, n: u16) {
        self.raw(&n.to_be_bytes());
    }

    fn int(&mut self, n: i32) {
        self.raw(&n.to_be_bytes());
    }

    fn short_len(&mut self, part: FramePart, len: usize) -> Written {
        let max = usize::from(u16::MAX);
        let short = u16::try_from(len).map_err(|_| FrameEncodeError::TooLong { part, len, max })?;
        self.short(short);
        Ok(())
    }

    fn int_len(&mut self, part: FramePart, len: usize) -> Written {
        self.raw(&length(part, len)?.to_be_bytes());
        Ok(())
    }

    fn short_bytes(&mut self, part: FramePart, bytes: &[u8]) -> Written {
        self.short_len(part, bytes.len())?;
        self.raw(bytes);
        Ok(())
    }

    fn string(&mut self, text: &str) -> Written {
        self.short_bytes(FramePart::Text, text.as_bytes())
    }

    fn string_list(&mut self, texts: &[String]) -> Written {
        self.short_len(FramePart::List, texts.len())?;
        texts.iter().try_for_each(|text| self.string(text))
    }

    fn bytes(&mut self, bytes: Option<&[u8]>) -> Written {
        match bytes {
            Some(bytes) => {
                self.int_len(FramePart::Values, bytes.len())?;
                self.raw(bytes);
            }
            None => self.int(-1),
        }
        Ok(())
    }

    fn response(&mut self, response: &Response) -> Written {
        match response {
            Response::Error(error) => self.error(error),
            Response::Ready => Ok(()),
            Response::Authenticate(class) => self.string(class),
            Response::Supported(supported) => {
                self.short_len(FramePart::List, supported.options.len())?;
                for (key, values) in &supported.options {
                    self.string(key)?;
                    self.string_list(values)?;
                }
                Ok(())
            }
            Response::Result(result) => self.result(result),
            Response::Event(event) => self.event(event),
            Response::AuthChallenge(token) | Response::AuthSuccess(token) => {
                self.bytes(token.as_deref())
            }
        }
    }

    fn error(&mut self, error: &ServerError) -> Written {
        use ServerErrorDetail as Detail;
        self.int(error.code);
        self.string(&error.message)?;
        match &error.detail {
            Detail::FunctionFailure {
                keyspace,
                function,
                arg_types,
            } => {
                self.string(keyspace)?;
                self.string(function)?;
                self.string_list(arg_types)
            }
            Detail::AlreadyExists { keyspace, table } => {
                self.string(keyspace)?;
                self.string(table)
            }
            Detail::Unprepared { id } => self.short_bytes(FramePart::StatementId, id),
            // Without the agreement the same condition is told by another code, without fields.
            Detail::RateLimit {
                operation,
                rejected_by_coordinator,
            } if self.features.rate_limit_error == Some(error.code) => {
                let operation = match operation {
                    OperationKind::Read => 0,
                    OperationKind::Write => 1,
                    OperationKind::Other(other) => *other,
                };
                self.raw(&[operation, u8::from(*rejected_by_coordinator)]);
                Ok(())
            }
            detail => self.replica_error(detail),
        }
    }

    /// Writes the fields of errors about replicas that are not there, not fast enough or not well.
    fn replica_error(&mut self, detail: &ServerErrorDetail) -> Written {
        use ServerErrorDetail as Detail;
        match detail {
            Detail::Unavailable {
                consistency,
                required,
                alive,
            } => {
                self.counts(*consistency, *required, *alive);
            }
            Detail::CasWriteUnknown {
                consistency,
                received,
                block_for,
            } => {
                self.counts(*consistency, *received, *block_for);
            }
            Detail::WriteTimeout {
                consistency,
                received,
                block_for,
                write_type,
                contentions,
            } => {
                self.counts(*consistency, *received, *block_for);
                self.string(write_type.name())?;
                let counted = self.features.version == ProtocolVersion::V5;
                if counted && *write_type == WriteType::Cas {
                    contentions.iter().for_each(|count| self.short(*count));
                }
            }
            Detail::ReadTimeout {
                consistency,
                received,
                block_for,
                data_present,
            } => {
                self.counts(*consistency, *received, *block_for);
                self.raw(&[u8::from(*data_present)]);
            }
            Detail::ReadFailure {
                consistency,
                received,
                block_for,
                failures,
                data_present,
            } => {
                self.counts(*consistency, *received, *block_for);
                self.failures(failures)?;
                self.raw(&[u8::from(*data_present)]);
            }
            Detail::WriteFailure {
                consistency,
                received,
                block_for,
                failures,
                write_type,
            } => {
                self.counts(*consistency, *received, *block_for);
                self.failures(failures)?;
                self.string(write_type.name())?;
            }
            _ => {}
        }
        Ok(())
    }

    fn counts(&mut self, consistency: Consistency, first: i32, second: i32) {
        self.short(consistency.code());
        self.int(first);
        self.int(second);
    }

    fn failures(&mut self, failures: &ReplicaFailures) -> Written {
        if self.features.version == ProtocolVersion::V4 {
            self.int(failures.count);
            return Ok(());
        }
        self.int_len(FramePart::List, failures.reasons.len())?;
        for (address, reason) in &failures.reasons {
            self.address(*address);
            self.short(reason.0);
        }
        Ok(())
    }

    fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => {
                self.raw(&[4]);
                self.raw(&address.octets());
            }
            IpAddr::V6(address) => {
                self.raw(&[16]);
                self.raw(&address.octets());
            }
        }
    }

    fn event(&mut self, event: &ServerEvent) -> Written {
        self.string(event.kind_name())?;
        match event {
            ServerEvent::Topology { change, address } => {
                self.string(change.name())?;
                self.address(address.ip());
                self.int(address.port().into());
            }
            ServerEvent::Status { up, address } => {
                self.string(if *up { "UP" } else { "DOWN" })?;
                self.address(address.ip());
                self.int(address.port().into());
            }
            ServerEvent::Schema(change) => self.schema_change(change)?,
            ServerEvent::ClientRoutes {
                connection_ids,
                host_ids,
            } => {
                self.string(UPDATE_NODES)?;
                self.string_list(connection_ids)?;
                self.string_list(host_ids)?;
            }
            ServerEvent::Unknown { .. } => {}
        }
        Ok(())
    }

    fn schema_change(&mut self, change: &SchemaChange) -> Written {
        self.string(change.change.name())?;
        self.string(change.target.kind_name())?;
        self.string(&change.keyspace)?;
        match &change.target {
            SchemaTarget::Keyspace => Ok(()),
            SchemaTarget::Table { name } | SchemaTarget::Type { name } => self.string(name),
            SchemaTarget::Function { name, args } | SchemaTarget::Aggregate { name, args } => {
                self.string(name)?;
                self.string_list(args)
            }
        }
    }

    fn result(&mut self, result: &ResultBody) -> Written {
        match result {
            ResultBody::Void => self.int(KIND_VOID),
            ResultBody::Rows(rows) => {
                self.int(KIND_ROWS);
                self.rows(rows)?;
            }
            ResultBody::SetKeyspace(keyspace) => {
                self.int(KIND_SET_KEYSPACE);
                self.string(keyspace)?;
            }
            ResultBody::Prepared(prepared) => {
                self.int(KIND_PREPARED);
                self.prepared(prepared)?;
            }
            ResultBody::SchemaChange(change) => {
                self.int(KIND_SCHEMA_CHANGE);
                self.schema_change(change)?;
            }
        }
        Ok(())
    }

    fn rows(&mut self, rows: &RowsBody) -> Written {
        self.metadata(&rows.metadata)?;
        self.int_len(FramePart::List, rows.row_count)?;
        self.raw(&rows.cells);
        Ok(())
    }

    fn prepared(&mut self, prepared: &PreparedBody) -> Written {
        self.short_bytes(FramePart::StatementId, &prepared.id)?;
        if self.features.has_metadata_id() {
            let id = prepared.result_metadata_id.as_deref().unwrap_or_default();
            self.short_bytes(FramePart::StatementId, id)?;
        }
        let global = is_of_one_table(&prepared.bind_columns);
        let mut flags = if global { GLOBAL_TABLE } else { 0 };
        if prepared.conditional {
            flags |= self.features.lwt_mark_mask.unwrap_or_default();
        }
        self.raw(&flags.to_be_bytes());
        self.int_len(FramePart::List, prepared.bind_columns.len())?;
        self.int_len(FramePart::List, prepared.pk_indexes.len())?;
        prepared
            .pk_indexes
            .iter()
            .for_each(|index| self.short(*index));
        self.columns(&prepared.bind_columns, global)?;
        self.metadata(&prepared.result)
    }

    fn metadata(&mut self, metadata: &ResultMetadata) -> Written {
        let columns = metadata.columns.as_deref();
        let global = columns.is_some_and(is_of_one_table);
        let changed = metadata.new_metadata_id.as_ref();
        let mut flags = 0;
        for (set, flag) in [
            (global, GLOBAL_TABLE),
            (metadata.more_pages, MORE_PAGES),
            (columns.is_none(), NO_METADATA),
            (changed.is_some(), METADATA_CHANGED),
        ] {
            flags |= if set { flag } else { 0 };
        }
        self.raw(&flags.to_be_bytes());
        let count = columns.map_or(metadata.column_count, <[ColumnSpec]>::len);
        self.int_len(FramePart::List, count)?;
        if metadata.more_pages {
            self.bytes(metadata.paging_state.as_deref())?;
        }
        if let Some(id) = changed {
            self.short_bytes(FramePart::StatementId, id)?;
        }
        self.columns(columns.unwrap_or_default(), global)
    }

    fn columns(&mut self, columns: &[ColumnSpec], global: bool) -> Written {
        if let (true, Some(first)) = (global, columns.first()) {
            self.string(&first.keyspace)?;
            self.string(&first.table)?;
        }
        for column in columns {
            if !global {
                self.string(&column.keyspace)?;
                self.string(&column.table)?;
            }
            self.string(&column.name)?;
            self.column_type(&column.ty)?;
        }
        Ok(())
    }

    fn column_type(&mut self, ty: &ColumnType) -> Written {
        if let Some(id) = simple_type_id(ty) {
            self.short(id);
            return Ok(());
        }
        match ty {
            ColumnType::List(element) => self.nested(TYPE_LIST, &[element]),
            ColumnType::Map(types) => self.nested(TYPE_MAP, &[&types.0, &types.1]),
            ColumnType::Set(element) => self.nested(TYPE_SET, &[element]),
            ColumnType::Udt(udt) => {
                self.short(TYPE_UDT);
                self.string(&udt.keyspace)?;
                self.string(&udt.name)?;
                self.short_len(FramePart::List, udt.fields.len())?;
                for (name, ty) in &udt.fields {
                    self.string(name)?;
                    self.column_type(ty)?;
                }
                Ok(())
            }
            ColumnType::Tuple(components) => {
                self.short(TYPE_TUPLE);
                self.short_len(FramePart::List, components.len())?;
                components.iter().try_for_each(|ty| self.column_type(ty))
            }
            _ => {
                self.short(TYPE_CUSTOM);
                self.short_bytes(FramePart::ClassName, class_name(ty).as_bytes())
            }
        }
    }

    fn nested(&mut self, id: u16, parameters: &[&ColumnType]) -> Written {
        self.short(id);
        parameters.iter().try_for_each(|ty| self.column_type(ty))
    }
}

fn is_of_one_table(columns: &[ColumnSpec]) -> bool {
    columns.first().is_some_and(|first| {
        columns
            .iter()
            .all(|one| one.keyspace == first.keyspace && one.table == first.table)
    })
}

fn length(part: FramePart, len: usize) -> Result<u32, FrameEncodeError> {
    match i32::try_from(len) {
        Ok(length) => Ok(length.cast_unsigned()),
        Err(_) => Err(FrameEncodeError::TooLong {
            part,
            len,
            max: INT_MAX,
        }),
    }
}

/// What an `[int]` can count.
const INT_MAX: usize = 0x7fff_ffff;
