//! The shapes that CQL statements are parsed into. Nothing here knows the schema.

use uuid::Uuid;

/// A parsed text with its bind markers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) statement: Statement,
    /// One entry for each bind variable, with its name if it has one.
    pub(crate) markers: Vec<Option<String>>,
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Statement {
    Select(Select),
    Modify(Modify),
    Batch(Batch),
    Use(String),
    Ddl(Ddl),
    /// With the time it gives itself.
    Truncate(TableName, Option<Term>),
    Describe(Describe),
}

/// A table's name, perhaps with its keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) keyspace: Option<String>,
    pub(crate) name: String,
}

/// SELECT.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Select {
    /// Absent in `SELECT now()`.
    pub(crate) table: Option<TableName>,
    pub(crate) distinct: bool,
    /// `None` is `*`.
    pub(crate) selectors: Option<Vec<Selector>>,
    pub(crate) relations: Vec<Relation>,
    pub(crate) order_by: Vec<(String, Direction)>,
    pub(crate) per_partition_limit: Option<Term>,
    pub(crate) limit: Option<Term>,
    pub(crate) allow_filtering: bool,
    pub(crate) timeout: Option<Term>,
}

/// One item of a SELECT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Selector {
    pub(crate) expression: Expression,
    pub(crate) alias: Option<String>,
}

/// What a SELECT item computes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    Column(String),
    CountAll,
    Call { name: String, arguments: Vec<Self> },
    Writetime(String),
    Ttl(String),
    Field(Box<Self>, String),
    Element(Box<Self>, Box<Term>),
    Cast(Box<Self>, RawType),
    Term(Term),
}

/// The order of a clustering column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    Ascending,
    Descending,
}

/// One comparison of a WHERE clause.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Relation {
    pub(crate) target: Target,
    pub(crate) operator: Operator,
    pub(crate) value: RelationValue,
}

/// The left side of a relation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    Column(String),
    Token(Vec<String>),
    Tuple(Vec<String>),
    Element(String, Term),
}

/// The operator of a relation or condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Contains,
    ContainsKey,
    IsNotNull,
}

/// The right side of a relation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RelationValue {
    One(Term),
    /// The items of `IN (…)`.
    Many(Vec<Term>),
}

/// A value in the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Term {
    /// A bind variable by its index.
    Marker(usize),
    Literal(Literal),
    List(Vec<Self>),
    /// Also the empty map.
    Set(Vec<Self>),
    Map(Vec<(Self, Self)>),
    Fields(Vec<(String, Self)>),
    Tuple(Vec<Self>),
    Call {
        name: String,
        arguments: Vec<Self>,
    },
    Cast(RawType, Box<Self>),
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Integer(String),
    Float(String),
    Text(String),
    Boolean(bool),
    Uuid(Uuid),
    Blob(Vec<u8>),
    Duration {
        months: i32,
        days: i32,
        nanoseconds: i64,
    },
}

/// INSERT, UPDATE and DELETE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Modify {
    pub(crate) table: TableName,
    pub(crate) using: Using,
    pub(crate) change: Change,
    /// Empty for INSERT, whose key is among its values.
    pub(crate) relations: Vec<Relation>,
    pub(crate) condition: Condition,
}

/// What a modification does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Insert {
        columns: Vec<String>,
        values: Vec<Term>,
    },
    Update(Vec<Assignment>),
    /// Without targets the row, range or partition goes.
    Delete(Vec<Place>),
}

/// A column, or a part of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) column: String,
    pub(crate) part: Part,
}

/// Which part of a column is meant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Whole,
    Element(Term),
    Field(String),
}

/// One item of SET.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assignment {
    pub(crate) place: Place,
    pub(crate) kind: AssignmentKind,
    pub(crate) value: Term,
}

/// How an assignment combines old and new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AssignmentKind {
    Set,
    Add,
    Prepend,
    Subtract,
}

/// The USING clause.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Using {
    pub(crate) timestamp: Option<Term>,
    pub(crate) ttl: Option<Term>,
    pub(crate) timeout: Option<Term>,
}

/// The IF clause.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    None,
    NotExists,
    Exists,
    Columns(Vec<ColumnCondition>),
}

/// One comparison of an IF clause.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnCondition {
    pub(crate) place: Place,
    pub(crate) operator: Operator,
    pub(crate) value: RelationValue,
}

/// BEGIN BATCH … APPLY BATCH.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Batch {
    pub(crate) using: Using,
    pub(crate) statements: Vec<Modify>,
}

/// DESCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Describe {
    Cluster,
    Keyspaces,
    Tables,
    Types,
    Schema,
    /// `None` is the keyspace in use.
    Keyspace(Option<String>),
    Table(TableName),
    Type(TableName),
}

/// A statement that changes the schema.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ddl {
    CreateKeyspace {
        name: String,
        if_not_exists: bool,
        properties: Properties,
    },
    AlterKeyspace {
        name: String,
        if_exists: bool,
        properties: Properties,
    },
    DropKeyspace {
        name: String,
        if_exists: bool,
    },
    CreateTable(CreateTable),
    AlterTable {
        table: TableName,
        if_exists: bool,
        change: TableChange,
    },
    DropTable {
        table: TableName,
        if_exists: bool,
    },
    CreateType {
        name: TableName,
        if_not_exists: bool,
        fields: Vec<(String, RawType)>,
    },
    AlterType {
        name: TableName,
        change: TypeChange,
    },
    DropType {
        name: TableName,
        if_exists: bool,
    },
    CreateIndex {
        name: Option<String>,
        if_not_exists: bool,
        table: TableName,
        target: String,
    },
    DropIndex {
        name: TableName,
        if_exists: bool,
    },
}

/// CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateTable {
    pub(crate) table: TableName,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<ColumnDefinition>,
    pub(crate) partition_key: Vec<String>,
    pub(crate) clustering_key: Vec<String>,
    pub(crate) clustering_order: Vec<(String, Direction)>,
    pub(crate) properties: Properties,
}

/// A column as CREATE TABLE and ALTER TABLE write it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnDefinition {
    pub(crate) name: String,
    pub(crate) ty: RawType,
    pub(crate) is_static: bool,
}

/// What ALTER TABLE does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TableChange {
    Add(Vec<ColumnDefinition>),
    Drop(Vec<String>),
    Rename(Vec<(String, String)>),
    Properties(Properties),
}

/// What ALTER TYPE does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TypeChange {
    Add(Vec<(String, RawType)>),
    Rename(Vec<(String, String)>),
}

/// The WITH clause in its order.
pub(crate) type Properties = Vec<(String, Property)>;

/// The value of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Property {
    Simple(String),
    Map(Vec<(String, String)>),
}

/// A type as written, before names of user types are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RawType {
    Named {
        keyspace: Option<String>,
        name: String,
    },
    List(Box<Self>),
    Set(Box<Self>),
    Map(Box<Self>, Box<Self>),
    Tuple(Vec<Self>),
    Vector(Box<Self>, u32),
    Frozen(Box<Self>),
    Custom(String),
}
