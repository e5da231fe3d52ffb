//! Class names of types, in both directions. Type options with ids are read in [`crate::wire::result`].

use std::fmt::Write as _;
use std::sync::Arc;

use crate::error::protocol::{ProtocolError, ProtocolErrorKind};
use crate::types::column_type::{ColumnType, TYPE_DEPTH_MAX, UdtType};

/// Reads a class name such as `org.apache.cassandra.db.marshal.ListType(…Int32Type)`. A class that CQL does not know
/// becomes [`ColumnType::Custom`] with its whole text.
///
/// Errors: brackets that do not match, parameters that a known class cannot have, or nesting beyond
/// [`TYPE_DEPTH_MAX`].
pub fn parse_class_name(name: &str) -> Result<ColumnType, ProtocolError> {
    parse_nested(name, TYPE_DEPTH_MAX)
}

/// As [`parse_class_name`], with what is left of the depth of an enclosing type.
pub(crate) fn parse_nested(name: &str, depth: usize) -> Result<ColumnType, ProtocolError> {
    let mut parser = Parser { text: name, at: 0 };
    let ty = parser.class(depth)?;
    parser.spaces();
    if parser.rest().is_empty() {
        Ok(ty)
    } else {
        Err(parser.error())
    }
}

/// Writes the class name of a type, as a server would.
pub fn class_name(ty: &ColumnType) -> String {
    let mut out = String::new();
    write_class(ty, &mut out);
    out
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn error(&self) -> ProtocolError {
        ProtocolError::new(ProtocolErrorKind::ClassName, self.at)
    }

    fn spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches(' ').len();
    }

    /// Takes a character if it comes next, after spaces.
    fn take(&mut self, expected: char) -> bool {
        self.spaces();
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len_utf8();
        }
        found
    }

    fn expect(&mut self, expected: char) -> Result<(), ProtocolError> {
        if self.take(expected) {
            Ok(())
        } else {
            Err(self.error())
        }
    }

    /// Takes everything up to the next character with a meaning.
    fn word(&mut self) -> &'a str {
        self.spaces();
        let rest = self.rest();
        let end = rest.find(['(', ')', ',', ':']).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default().trim_end_matches(' ')
    }

    fn class(&mut self, depth: usize) -> Result<ColumnType, ProtocolError> {
        self.spaces();
        let start = self.at;
        let Some(depth) = depth.checked_sub(1) else {
            return Err(ProtocolError::new(ProtocolErrorKind::TypeTooDeep, start));
        };
        let word = self.word();
        if word.is_empty() {
            return Err(self.error());
        }
        let class = word.strip_prefix(PREFIX).unwrap_or(word);
        if let Some(ty) = native(class) {
            return Ok(ty);
        }
        match class {
            "FrozenType" | "ReversedType" => self.one(depth),
            "ListType" => self
                .one(depth)
                .map(|element| ColumnType::List(Arc::new(element))),
            "SetType" => self
                .one(depth)
                .map(|element| ColumnType::Set(Arc::new(element))),
            "MapType" => {
                self.expect('(')?;
                let key = self.class(depth)?;
                self.expect(',')?;
                let value = self.class(depth)?;
                self.expect(')')?;
                Ok(ColumnType::Map(Arc::new((key, value))))
            }
            "TupleType" => self.tuple(depth),
            "VectorType" => self.vector(depth),
            "UserType" => self.user_type(depth),
            _ => {
                self.skip_parameters()?;
                let text = self.text.get(start..self.at).unwrap_or_default();
                Ok(ColumnType::Custom(Arc::from(text.trim_end_matches(' '))))
            }
        }
    }

    fn one(&mut self, depth: usize) -> Result<ColumnType, ProtocolError> {
        self.expect('(')?;
        let ty = self.class(depth)?;
        self.expect(')')?;
        Ok(ty)
    }

    fn tuple(&mut self, depth: usize) -> Result<ColumnType, ProtocolError> {
        self.expect('(')?;
        let mut components = Vec::new();
        if self.take(')') {
            return Ok(ColumnType::Tuple(Arc::from(components)));
        }
        loop {
            components.push(self.class(depth)?);
            if self.take(')') {
                return Ok(ColumnType::Tuple(Arc::from(components)));
            }
            self.expect(',')?;
        }
    }

    fn vector(&mut self, depth: usize) -> Result<ColumnType, ProtocolError> {
        self.expect('(')?;
        let element = Arc::new(self.class(depth)?);
        self.expect(',')?;
        let dimension = self.word().parse().map_err(|_| self.error())?;
        self.expect(')')?;
        Ok(ColumnType::Vector { element, dimension })
    }

    fn user_type(&mut self, depth: usize) -> Result<ColumnType, ProtocolError> {
        self.expect('(')?;
        let keyspace = Arc::from(self.word());
        self.expect(',')?;
        let name = self.hex_name()?;
        let mut fields = Vec::new();
        while !self.take(')') {
            self.expect(',')?;
            let field = self.hex_name()?;
            self.expect(':')?;
            fields.push((field, self.class(depth)?));
        }
        Ok(ColumnType::Udt(Arc::new(UdtType {
            keyspace,
            name,
            fields,
        })))
    }

    /// Takes a name that is written as the hex of its UTF-8.
    fn hex_name(&mut self) -> Result<Arc<str>, ProtocolError> {
        let word = self.word();
        let mut bytes = Vec::with_capacity(word.len() / 2);
        let (pairs, odd) = word.as_bytes().as_chunks::<2>();
        for &[high, low] in pairs {
            match (hex_digit(high), hex_digit(low)) {
                (Some(high), Some(low)) => bytes.push(high << 4 | low),
                _ => return Err(self.error()),
            }
        }
        match String::from_utf8(bytes) {
            Ok(name) if odd.is_empty() => Ok(Arc::from(name)),
            _ => Err(self.error()),
        }
    }

    /// Passes over the parameters of an unknown class, whatever they are; only the brackets must match.
    fn skip_parameters(&mut self) -> Result<(), ProtocolError> {
        if !self.rest().trim_start_matches(' ').starts_with('(') {
            return Ok(());
        }
        let mut open = 0_usize;
        for (i, character) in self.rest().char_indices() {
            match character {
                '(' => open += 1,
                ')' if open == 1 => {
                    self.at += i + 1;
                    return Ok(());
                }
                ')' => open -= 1,
                _ => {}
            }
        }
        Err(self.error())
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

fn native(class: &str) -> Option<ColumnType> {
    Some(match class {
        "AsciiType" => ColumnType::Ascii,
        "BooleanType" => ColumnType::Boolean,
        "ByteType" => ColumnType::TinyInt,
        "BytesType" => ColumnType::Blob,
        "CounterColumnType" => ColumnType::Counter,
        "DateType" | "TimestampType" => ColumnType::Timestamp,
        "DecimalType" => ColumnType::Decimal,
        "DoubleType" => ColumnType::Double,
        "DurationType" => ColumnType::Duration,
        "FloatType" => ColumnType::Float,
        "InetAddressType" => ColumnType::Inet,
        "Int32Type" => ColumnType::Int,
        "IntegerType" => ColumnType::Varint,
        "LongType" => ColumnType::BigInt,
        "ShortType" => ColumnType::SmallInt,
        "SimpleDateType" => ColumnType::Date,
        "TimeType" => ColumnType::Time,
        "TimeUUIDType" => ColumnType::Timeuuid,
        "UTF8Type" => ColumnType::Text,
        "UUIDType" => ColumnType::Uuid,
        _ => return None,
    })
}

fn write_class(ty: &ColumnType, out: &mut String) {
    if let ColumnType::Custom(class) = ty {
        out.push_str(class);
        return;
    }
    out.push_str(PREFIX);
    let class = match ty {
        ColumnType::Ascii => "AsciiType",
        ColumnType::BigInt => "LongType",
        ColumnType::Blob => "BytesType",
        ColumnType::Boolean => "BooleanType",
        ColumnType::Counter => "CounterColumnType",
        ColumnType::Decimal => "DecimalType",
        ColumnType::Double => "DoubleType",
        ColumnType::Float => "FloatType",
        ColumnType::Int => "Int32Type",
        ColumnType::Timestamp => "TimestampType",
        ColumnType::Uuid => "UUIDType",
        ColumnType::Text => "UTF8Type",
        ColumnType::Varint => "IntegerType",
        ColumnType::Timeuuid => "TimeUUIDType",
        ColumnType::Inet => "InetAddressType",
        ColumnType::Date => "SimpleDateType",
        ColumnType::Time => "TimeType",
        ColumnType::SmallInt => "ShortType",
        ColumnType::TinyInt => "ByteType",
        ColumnType::Duration => "DurationType",
        ColumnType::List(element) => return write_list("ListType", [&**element], out),
        ColumnType::Set(element) => return write_list("SetType", [&**element], out),
        ColumnType::Map(types) => return write_list("MapType", [&types.0, &types.1], out),
        ColumnType::Tuple(components) => return write_list("TupleType", &**components, out),
        ColumnType::Vector { element, dimension } => {
            out.push_str("VectorType(");
            write_class(element, out);
            let _ = write!(out, ", {dimension})");
            return;
        }
        ColumnType::Udt(udt) => return write_user_type(udt, out),
        ColumnType::Custom(class) => class,
    };
    out.push_str(class);
}

fn write_list<'a>(
    class: &str,
    parameters: impl IntoIterator<Item = &'a ColumnType>,
    out: &mut String,
) {
    out.push_str(class);
    out.push('(');
    for (i, parameter) in parameters.into_iter().enumerate() {
        if i != 0 {
            out.push(',');
        }
        write_class(parameter, out);
    }
    out.push(')');
}

fn write_user_type(udt: &UdtType, out: &mut String) {
    out.push_str("UserType(");
    out.push_str(&udt.keyspace);
    out.push(',');
    write_hex(&udt.name, out);
    for (name, ty) in &udt.fields {
        out.push(',');
        write_hex(name, out);
        out.push(':');
        write_class(ty, out);
    }
    out.push(')');
}

fn write_hex(name: &str, out: &mut String) {
    for byte in name.bytes() {
        let _ = write!(out, "{byte:02x}");
    }
}

/// The package of the servers' own type classes.
const PREFIX: &str = "org.apache.cassandra.db.marshal.";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str) -> ColumnType {
        parse_class_name(name).unwrap()
    }

    fn refused(name: &str) -> ProtocolErrorKind {
        parse_class_name(name).unwrap_err().kind
    }

    #[test]
    fn classes_are_read_with_and_without_their_package_and_with_spaces() {
        assert_eq!(
            parse("org.apache.cassandra.db.marshal.Int32Type"),
            ColumnType::Int
        );
        assert_eq!(parse("DateType"), ColumnType::Timestamp);
        assert_eq!(
            parse(" MapType( UTF8Type , org.apache.cassandra.db.marshal.LongType )").to_string(),
            "map<text, bigint>"
        );
        for space in ["", " "] {
            let name = format!("VectorType(FloatType{space},{space}3)");
            assert_eq!(parse(&name).to_string(), "vector<float, 3>");
        }
    }

    #[test]
    fn wrappers_without_a_meaning_for_clients_are_taken_off() {
        assert_eq!(
            parse("ReversedType(FrozenType(ListType(Int32Type)))"),
            ColumnType::List(Arc::new(ColumnType::Int))
        );
    }

    #[test]
    fn user_types_have_their_names_in_hex_even_when_it_is_all_digits() {
        let ty = parse("UserType(ks,61646472,3132:Int32Type,d0b7:FrozenType(SetType(UTF8Type)))");
        let ColumnType::Udt(udt) = ty else {
            panic!("not a user type: {ty}")
        };
        assert_eq!((&*udt.keyspace, &*udt.name), ("ks", "addr"));
        let fields: Vec<String> = udt
            .fields
            .iter()
            .map(|(name, ty)| format!("{name} {ty}"))
            .collect();
        assert_eq!(fields, ["12 int", "з set<text>"]);
    }

    #[test]
    fn an_unknown_class_keeps_its_text_and_does_not_disturb_its_neighbours() {
        assert_eq!(
            parse("com.example.Odd"),
            ColumnType::Custom("com.example.Odd".into())
        );
        let ty = parse("TupleType(CompositeType(Int32Type,a=>b(x)), Int32Type)");
        let ColumnType::Tuple(components) = ty else {
            panic!("not a tuple: {ty}")
        };
        assert_eq!(
            *components,
            [
                ColumnType::Custom("CompositeType(Int32Type,a=>b(x))".into()),
                ColumnType::Int
            ]
        );
    }

    #[test]
    fn a_name_with_a_prefix_that_is_no_hex_is_refused_where_it_stands() {
        for name in [
            "UserType(ks,61,g1:LongType)",
            "UserType(ks,61,6:LongType)",
            "UserType(ks,61,c328:LongType)",
            "UserType(ks,g1)",
        ] {
            let error = parse_class_name(name).expect_err(name);
            assert!(error.offset <= name.len(), "{error:?}");
        }
        assert!(parse_class_name("UserType(ks,61,61:LongType)").is_ok());
    }

    #[test]
    fn broken_names_are_refused() {
        for name in [
            "",
            " ",
            "ListType",
            "ListType(",
            "ListType()",
            "ListType(Int32Type",
            "ListType(Int32Type,Int32Type)",
            "MapType(Int32Type)",
            "TupleType(Int32Type,)",
            "VectorType(FloatType)",
            "VectorType(FloatType,-1)",
            "VectorType(FloatType,4294967296)",
            "UserType(ks)",
            "UserType(ks,6)",
            "UserType(ks,zz)",
            "UserType(ks,ff)",
            "UserType(ks,61,62)",
            "com.example.Odd(",
            "com.example.Odd(()",
            "Int32Type)",
            "Int32Type Int32Type)",
        ] {
            assert_eq!(refused(name), ProtocolErrorKind::ClassName, "{name}");
        }
    }

    #[test]
    fn nesting_ends_before_the_stack_does() {
        let nested = |depth: usize| {
            format!(
                "{}Int32Type{}",
                "ListType(".repeat(depth),
                ")".repeat(depth)
            )
        };
        assert!(parse_class_name(&nested(TYPE_DEPTH_MAX - 1)).is_ok());
        assert_eq!(
            refused(&nested(TYPE_DEPTH_MAX)),
            ProtocolErrorKind::TypeTooDeep
        );
        assert_eq!(
            refused(&"ListType(".repeat(100_000)),
            ProtocolErrorKind::TypeTooDeep
        );
        assert_eq!(
            refused(&format!("Odd{}", "(".repeat(100_000))),
            ProtocolErrorKind::ClassName
        );
    }

    #[test]
    fn class_names_read_back_as_the_type_they_were_made_from() {
        for name in [
            "TupleType()",
            "TupleType(Int32Type,MapType(UTF8Type,SetType(UUIDType)))",
            "VectorType(VectorType(DoubleType,2),0)",
            "UserType(ks,61,62:DurationType,d0b7:InetAddressType)",
            "com.example.Odd(a,b)",
        ] {
            let ty = parse(name);
            assert_eq!(parse(&class_name(&ty)), ty, "{name}");
        }
        assert_eq!(
            class_name(&ColumnType::Int),
            "org.apache.cassandra.db.marshal.Int32Type"
        );
        assert_eq!(
            class_name(&ColumnType::Custom("com.example.Odd".into())),
            "com.example.Odd"
        );
    }

    #[test]
    fn a_custom_class_that_is_named_like_a_wrapper_is_written_whole() {
        for class in ["com.example.MyTupleType", "com.example.TupleType()"] {
            let tuple = ColumnType::Tuple(Arc::from([ColumnType::Custom(class.into())]));
            assert_eq!(parse(&class_name(&tuple)), tuple);
        }
    }
}
