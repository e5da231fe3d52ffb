//! WHERE clauses: what they restrict, and whether a statement may restrict it so. How they are looked up is in
//! `lookup`.

use std::sync::Arc;

use messina_core::types::column_type::ColumnType;

use crate::node::CqlError;
use crate::node::schema::table::indexed_column;
use crate::node::schema::{Column, ColumnKind, Table};

use super::ast::{Operator, Relation, RelationValue, Target, Term};
use super::terms::Binder;

/// A WHERE clause that was checked against its table.
#[derive(Clone, Debug)]
pub(crate) struct Where {
    pub(crate) table: Arc<Table>,
    /// For each column of the partition key, its `=` or IN.
    pub(crate) partition: Vec<Option<Restriction>>,
    /// For each column of the clustering key, what restricts it.
    pub(crate) clustering: Vec<Vec<Restriction>>,
    pub(crate) tokens: Vec<(Operator, TokenValue)>,
    /// Everything that has to be looked at in each row.
    pub(crate) filters: Vec<Filter>,
}

/// An operator and its right side.
#[derive(Clone, Debug)]
pub(crate) struct Restriction {
    pub(crate) operator: Operator,
    pub(crate) value: RelationValue,
}

/// The right side of a restriction of `token(…)`.
#[derive(Clone, Debug)]
pub(crate) enum TokenValue {
    Term(Term),
    /// `token(…)` of these values.
    OfKey(Vec<Term>),
}

/// Something that rows are filtered by.
#[derive(Clone, Debug)]
pub(crate) enum Filter {
    Column {
        index: usize,
        restriction: Restriction,
    },
    Element {
        index: usize,
        key: Term,
        restriction: Restriction,
    },
    Tuple {
        indexes: Vec<usize>,
        restriction: Restriction,
    },
}

/// What the statement is; each allows other restrictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Select { allow_filtering: bool },
    Modify,
}

impl Where {
    /// A clause without restrictions.
    pub(crate) fn everything(table: &Arc<Table>) -> Self {
        let clustering = table.clustering_key().map(|_| Vec::new()).collect();
        let partition = table.partition_key().map(|_| None).collect();
        Self {
            table: table.clone(),
            partition,
            clustering,
            tokens: Vec::new(),
            filters: Vec::new(),
        }
    }

    /// Checks the relations of a statement and learns the types of their markers.
    pub(crate) fn new(
        table: &Arc<Table>,
        relations: &[Relation],
        purpose: Purpose,
        binder: &mut Binder<'_>,
    ) -> Result<Self, CqlError> {
        let mut clause = Self::everything(table);
        for relation in relations {
            clause.add(relation, binder)?;
        }
        match purpose {
            Purpose::Select { allow_filtering } => clause.check_select(allow_filtering)?,
            Purpose::Modify => clause.check_modify()?,
        }
        Ok(clause)
    }

    /// Adds what INSERT says about a column of the key.
    pub(crate) fn add_equal(
        &mut self,
        column: &str,
        value: &Term,
        binder: &mut Binder<'_>,
    ) -> Result<(), CqlError> {
        let relation = Relation {
            target: Target::Column(column.to_owned()),
            operator: Operator::Equal,
            value: RelationValue::One(value.clone()),
        };
        self.add(&relation, binder)
    }

    fn column(&self, name: &str) -> Result<usize, CqlError> {
        let found = self.table.column(name);
        found
            .map(|(index, _)| index)
            .ok_or_else(|| CqlError::invalid(format!("Unrecognized name {name}")))
    }

    fn add(&mut self, relation: &Relation, binder: &mut Binder<'_>) -> Result<(), CqlError> {
        let restriction = Restriction {
            operator: relation.operator,
            value: relation.value.clone(),
        };
        match &relation.target {
            Target::Column(name) => {
                let index = self.column(name)?;
                self.add_column(index, restriction, binder)
            }
            Target::Element(name, key) => {
                let index = self.column(name)?;
                let ColumnType::Map(types) = self.type_of(index) else {
                    return Err(CqlError::invalid(format!(
                        "Column {name} cannot be used as a map"
                    )));
                };
                binder.bind(key, &format!("key({name})"), &types.0)?;
                bind_right(&restriction, &format!("value({name})"), &types.1, binder)?;
                self.filters.push(Filter::Element {
                    index,
                    key: key.clone(),
                    restriction,
                });
                Ok(())
            }
            Target::Token(columns) => self.add_token(columns, &restriction, binder),
            Target::Tuple(columns) => self.add_tuple(columns, restriction, binder),
        }
    }

    fn type_of(&self, index: usize) -> ColumnType {
        self.table
            .columns
            .get(index)
            .map_or(ColumnType::Blob, |column| column.ty.clone())
    }

    fn add_column(
        &mut self,
        index: usize,
        restriction: Restriction,
        binder: &mut Binder<'_>,
    ) -> Result<(), CqlError> {
        let table = self.table.clone();
        let Some(column) = table.columns.get(index) else {
            return Err(CqlError::invalid("no such column"));
        };
        let name = &column.name;
        bind_column(column, &restriction, binder)?;
        let keyed = matches!(
            restriction.operator,
            Operator::Equal
                | Operator::In
                | Operator::Less
                | Operator::LessOrEqual
                | Operator::Greater
                | Operator::GreaterOrEqual
        );
        let is_point = matches!(restriction.operator, Operator::Equal | Operator::In);
        match column.kind {
            ColumnKind::PartitionKey if is_point => {
                let slot = self.partition.get_mut(index);
                if slot.as_ref().is_some_and(|slot| slot.is_some()) {
                    return Err(CqlError::invalid(format!(
                        "{name} cannot be restricted by more than one relation if it includes an Equal"
                    )));
                }
                if let Some(slot) = slot {
                    *slot = Some(restriction);
                }
            }
            ColumnKind::Clustering(_) if keyed => {
                let at = index - self.partition.len();
                if let Some(slot) = self.clustering.get_mut(at) {
                    if slot.iter().any(|old| {
                        is_point || matches!(old.operator, Operator::Equal | Operator::In)
                    }) {
                        return Err(CqlError::invalid(format!(
                            "{name} cannot be restricted by more than one relation if it includes an Equal"
                        )));
                    }
                    slot.push(restriction);
                }
            }
            ColumnKind::PartitionKey if keyed => {
                return Err(CqlError::invalid(
                    "Only EQ and IN relation are supported on the partition key (unless you use the token() function or allow filtering)",
                ));
            }
            _ => self.filters.push(Filter::Column { index, restriction }),
        }
        Ok(())
    }

    fn add_token(
        &mut self,
        columns: &[String],
        restriction: &Restriction,
        binder: &mut Binder<'_>,
    ) -> Result<(), CqlError> {
        let table = self.table.clone();
        if !table
            .partition_key()
            .map(|column| &*column.name)
            .eq(columns.iter().map(String::as_str))
        {
            let key: Vec<&str> = table.partition_key().map(|column| &*column.name).collect();
            return Err(CqlError::invalid(format!(
                "The token() function must contains only partition key components in order: {}",
                key.join(", ")
            )));
        }
        let RelationValue::One(term) = &restriction.value else {
            return Err(CqlError::invalid(
                "IN cannot be used with the token() function",
            ));
        };
        let value = match term {
            Term::Call { name, arguments } if name == "token" => {
                if arguments.len() != columns.len() {
                    return Err(CqlError::invalid(
                        "Invalid number of arguments in call to function token",
                    ));
                }
                for (argument, column) in arguments.iter().zip(table.partition_key()) {
                    binder.bind(argument, &column.name, &column.ty)?;
                }
                TokenValue::OfKey(arguments.clone())
            }
            _ => {
                binder.bind(term, "partition key token", &ColumnType::BigInt)?;
                TokenValue::Term(term.clone())
            }
        };
        self.tokens.push((restriction.operator, value));
        Ok(())
    }

    fn add_tuple(
        &mut self,
        columns: &[String],
        restriction: Restriction,
        binder: &mut Binder<'_>,
    ) -> Result<(), CqlError> {
        let mut indexes = Vec::new();
        for column in columns {
            let index = self.column(column)?;
            let clustering = self
                .table
                .columns
                .get(index)
                .is_some_and(|column| column.kind.is_clustering());
            if !clustering {
                return Err(CqlError::invalid(format!(
                    "Multi-column relations can only be applied to clustering columns but was applied to: {column}"
                )));
            }
            indexes.push(index);
        }
        if let (Operator::Equal, RelationValue::One(Term::Tuple(items))) =
            (restriction.operator, &restriction.value)
        {
            if items.len() != indexes.len() {
                return Err(CqlError::invalid(format!(
                    "Expected {} elements in value tuple",
                    indexes.len()
                )));
            }
            for (index, item) in indexes.iter().zip(items) {
                let value = RelationValue::One(item.clone());
                let restriction = Restriction {
                    operator: Operator::Equal,
                    value,
                };
                self.add_column(*index, restriction, binder)?;
            }
            return Ok(());
        }
        let types: Vec<ColumnType> = indexes.iter().map(|index| self.type_of(*index)).collect();
        let tuple = ColumnType::Tuple(types.into());
        bind_right(
            &restriction,
            &format!("({})", columns.join(", ")),
            &tuple,
            binder,
        )?;
        self.filters.push(Filter::Tuple {
            indexes,
            restriction,
        });
        Ok(())
    }

    /// Whether the whole partition key is given.
    pub(crate) fn has_whole_partition_key(&self) -> bool {
        self.partition.iter().all(Option::is_some)
    }

    fn check_select(&self, allow_filtering: bool) -> Result<(), CqlError> {
        if allow_filtering || !self.needs_filtering() {
            return Ok(());
        }
        Err(CqlError::invalid(
            "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING",
        ))
    }

    fn needs_filtering(&self) -> bool {
        let whole = self.has_whole_partition_key();
        let indexed = self.filters.iter().any(|filter| self.is_indexed(filter));
        if self.partition.iter().any(Option::is_some) && !whole && !indexed {
            return true;
        }
        let restricted = self.clustering.iter().any(|column| !column.is_empty());
        if restricted && !whole && !indexed {
            return true;
        }
        if !self.clustering_is_prefix() {
            return true;
        }
        let rest = self.filters.iter().filter(|filter| match filter {
            Filter::Tuple { .. } => !whole,
            Filter::Column { .. } | Filter::Element { .. } => true,
        });
        // One indexed restriction answers the query, any other one filters.
        rest.count() > usize::from(indexed)
    }

    fn is_indexed(&self, filter: &Filter) -> bool {
        let Filter::Column { index, restriction } = filter else {
            return false;
        };
        let column = self.table.columns.get(*index).map(|column| &*column.name);
        let mut targets = self
            .table
            .indexes
            .values()
            .map(|target| indexed_column(target));
        let point = matches!(
            restriction.operator,
            Operator::Equal | Operator::Contains | Operator::ContainsKey
        );
        point && targets.any(|target| Some(target) == column)
    }

    /// Whether no clustering column is restricted after one with a range or none.
    fn clustering_is_prefix(&self) -> bool {
        let mut open = false;
        self.clustering.iter().all(|column| {
            let fine = column.is_empty() || !open;
            let is_point = column
                .iter()
                .any(|r| matches!(r.operator, Operator::Equal | Operator::In));
            open = open || !is_point;
            fine
        })
    }

    fn check_modify(&self) -> Result<(), CqlError> {
        let missing = self
            .table
            .partition_key()
            .zip(&self.partition)
            .find(|(_, r)| r.is_none());
        if let Some((column, _)) = missing {
            return Err(CqlError::invalid(format!(
                "Missing mandatory PRIMARY KEY part {}",
                column.name
            )));
        }
        if !self.filters.is_empty() || !self.tokens.is_empty() {
            return Err(CqlError::invalid(
                "Invalid where clause contains non PRIMARY KEY columns",
            ));
        }
        if !self.clustering_is_prefix() {
            return Err(CqlError::invalid(
                "Missing mandatory PRIMARY KEY part before a restricted one",
            ));
        }
        Ok(())
    }
}

/// Binds the right side of a restriction on a column.
fn bind_column(
    column: &Column,
    restriction: &Restriction,
    binder: &mut Binder<'_>,
) -> Result<(), CqlError> {
    let name = &column.name;
    match (restriction.operator, &column.ty) {
        (Operator::Contains, ColumnType::List(element) | ColumnType::Set(element)) => {
            bind_right(restriction, &format!("value({name})"), element, binder)
        }
        (Operator::Contains, ColumnType::Map(types)) => {
            bind_right(restriction, &format!("value({name})"), &types.1, binder)
        }
        (Operator::ContainsKey, ColumnType::Map(types)) => {
            bind_right(restriction, &format!("key({name})"), &types.0, binder)
        }
        (Operator::Contains | Operator::ContainsKey, ty) => Err(CqlError::invalid(format!(
            "Cannot use CONTAINS on non-collection column {name} of type {ty}"
        ))),
        (_, ty) => bind_right(restriction, name, ty, binder),
    }
}

/// Binds the right side of a restriction on something of this name and type.
pub(crate) fn bind_right(
    restriction: &Restriction,
    name: &str,
    ty: &ColumnType,
    binder: &mut Binder<'_>,
) -> Result<(), CqlError> {
    match (&restriction.value, restriction.operator) {
        (RelationValue::Many(items), _) => {
            for item in items {
                binder.bind(item, name, ty)?;
            }
            Ok(())
        }
        (RelationValue::One(term), Operator::In) => {
            let list = ColumnType::List(Arc::new(ty.clone()));
            binder.bind(term, &format!("IN({name})"), &list)
        }
        (RelationValue::One(_), Operator::IsNotNull) => Ok(()),
        (RelationValue::One(term), _) => binder.bind(term, name, ty),
    }
}
