//! INSERT, UPDATE and DELETE.

use crate::node::CqlError;

use super::super::ast::{
    Assignment, AssignmentKind, Change, ColumnCondition, Condition, Modify, Part, Place, Term,
    Using,
};
use super::super::lexer::TokenKind;
use super::Parser;

impl Parser<'_> {
    pub(super) fn modification(&mut self) -> Result<Modify, CqlError> {
        if self.take_keyword("insert") {
            return self.insert();
        }
        if self.take_keyword("update") {
            return self.update();
        }
        self.expect_keyword("delete")?;
        self.delete()
    }

    fn insert(&mut self) -> Result<Modify, CqlError> {
        self.expect_keyword("into")?;
        let table = self.table_name()?;
        if self.at_keyword("json") {
            return Err(CqlError::invalid("INSERT JSON is not simulated"));
        }
        self.expect_symbol("(")?;
        let columns = self.list_until(")", Self::name)?;
        self.expect_keyword("values")?;
        self.expect_symbol("(")?;
        let values = self.list_until(")", Self::term)?;
        if columns.len() != values.len() {
            return Err(CqlError::invalid("Unmatched column names/values"));
        }
        let mut condition = Condition::None;
        if self.take_keyword("if") {
            self.expect_keyword("not")?;
            self.expect_keyword("exists")?;
            condition = Condition::NotExists;
        }
        let using = self.using()?;
        let change = Change::Insert { columns, values };
        Ok(Modify {
            table,
            using,
            change,
            relations: Vec::new(),
            condition,
        })
    }

    fn update(&mut self) -> Result<Modify, CqlError> {
        let table = self.table_name()?;
        let using = self.using()?;
        self.expect_keyword("set")?;
        let assignments = self.comma_separated(Self::assignment)?;
        self.expect_keyword("where")?;
        let relations = self.relations()?;
        let condition = self.condition()?;
        Ok(Modify {
            table,
            using,
            change: Change::Update(assignments),
            relations,
            condition,
        })
    }

    fn delete(&mut self) -> Result<Modify, CqlError> {
        let mut places = Vec::new();
        if !self.at_keyword("from") {
            places = self.comma_separated(Self::place)?;
        }
        self.expect_keyword("from")?;
        let table = self.table_name()?;
        let using = self.using()?;
        self.expect_keyword("where")?;
        let relations = self.relations()?;
        let condition = self.condition()?;
        Ok(Modify {
            table,
            using,
            change: Change::Delete(places),
            relations,
            condition,
        })
    }

    fn place(&mut self) -> Result<Place, CqlError> {
        let column = self.name()?;
        let part = if self.take_symbol("[") {
            let key = self.term()?;
            self.expect_symbol("]")?;
            Part::Element(key)
        } else if self.take_symbol(".") {
            Part::Field(self.any_word()?)
        } else {
            Part::Whole
        };
        Ok(Place { column, part })
    }

    fn assignment(&mut self) -> Result<Assignment, CqlError> {
        let place = self.place()?;
        for (symbol, kind) in [("+", AssignmentKind::Add), ("-", AssignmentKind::Subtract)] {
            if self.at_symbol(symbol) && self.symbol_ahead(1, "=") {
                self.advance();
                self.advance();
                return Ok(Assignment {
                    place,
                    kind,
                    value: self.term()?,
                });
            }
        }
        self.expect_symbol("=")?;
        if self.at_own_column(&place) {
            self.advance();
            let kind = if self.take_symbol("+") {
                AssignmentKind::Add
            } else if self.take_symbol("-") {
                AssignmentKind::Subtract
            } else {
                return Err(self.unexpected());
            };
            return Ok(Assignment {
                place,
                kind,
                value: self.term()?,
            });
        }
        let value = self.term()?;
        if self.take_symbol("+") {
            if self.name()? != place.column {
                return Err(CqlError::invalid(
                    "Only expressions of the form X = <value> + X are supported.",
                ));
            }
            return Ok(Assignment {
                place,
                kind: AssignmentKind::Prepend,
                value,
            });
        }
        Ok(Assignment {
            place,
            kind: AssignmentKind::Set,
            value,
        })
    }

    /// Whether the right side begins with the column itself, as in `c = c + 1`.
    fn at_own_column(&self, place: &Place) -> bool {
        let same = match self.peek() {
            TokenKind::Name(name) | TokenKind::QuotedName(name) => *name == place.column,
            _ => false,
        };
        same && (self.symbol_ahead(1, "+") || self.symbol_ahead(1, "-"))
    }

    pub(super) fn using(&mut self) -> Result<Using, CqlError> {
        let mut using = Using::default();
        if !self.take_keyword("using") {
            return Ok(using);
        }
        loop {
            let slot: &mut Option<Term> = if self.take_keyword("timestamp") {
                &mut using.timestamp
            } else if self.take_keyword("ttl") {
                &mut using.ttl
            } else if self.take_keyword("timeout") {
                &mut using.timeout
            } else {
                return Err(self.unexpected());
            };
            *slot = Some(self.term()?);
            if !self.take_keyword("and") {
                return Ok(using);
            }
        }
    }

    fn condition(&mut self) -> Result<Condition, CqlError> {
        if !self.take_keyword("if") {
            return Ok(Condition::None);
        }
        if self.take_keyword("exists") {
            return Ok(Condition::Exists);
        }
        let mut conditions = vec![self.column_condition()?];
        while self.take_keyword("and") {
            conditions.push(self.column_condition()?);
        }
        Ok(Condition::Columns(conditions))
    }

    fn column_condition(&mut self) -> Result<ColumnCondition, CqlError> {
        let place = self.place()?;
        let operator = self.operator()?;
        let value = self.relation_value(operator)?;
        Ok(ColumnCondition {
            place,
            operator,
            value,
        })
    }
}
