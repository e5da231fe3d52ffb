//! SELECT and the WHERE clauses of all statements.

use crate::node::CqlError;

use super::super::ast::{
    Direction, Expression, Operator, Relation, RelationValue, Select, Selector, Target, Term,
};
use super::super::lexer::TokenKind;
use super::Parser;

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Result<Select, CqlError> {
        self.expect_keyword("select")?;
        let mut select = Select::default();
        if self.at_keyword("json") && !self.symbol_ahead(1, ",") && !self.keyword_ahead(1, "from") {
            return Err(CqlError::invalid("SELECT JSON is not simulated"));
        }
        let is_column = self.symbol_ahead(1, ",") || self.keyword_ahead(1, "from");
        select.distinct = !is_column && self.take_keyword("distinct");
        if !self.take_symbol("*") {
            select.selectors = Some(self.comma_separated(Self::selector)?);
        }
        if !self.take_keyword("from") {
            self.select_using(&mut select)?;
            return Ok(select);
        }
        select.table = Some(self.table_name()?);
        if self.take_keyword("where") {
            select.relations = self.relations()?;
        }
        if self.at_keyword("group") {
            return Err(CqlError::invalid("GROUP BY is not simulated"));
        }
        if self.take_keyword("order") {
            self.expect_keyword("by")?;
            select.order_by = self.comma_separated(Self::ordering)?;
        }
        if self.take_keyword("per") {
            self.expect_keyword("partition")?;
            self.expect_keyword("limit")?;
            select.per_partition_limit = Some(self.term()?);
        }
        if self.take_keyword("limit") {
            select.limit = Some(self.term()?);
        }
        if self.take_keyword("allow") {
            self.expect_keyword("filtering")?;
            select.allow_filtering = true;
        }
        if self.take_keyword("bypass") {
            self.expect_keyword("cache")?;
        }
        self.select_using(&mut select)?;
        Ok(select)
    }

    fn select_using(&mut self, select: &mut Select) -> Result<(), CqlError> {
        if !self.take_keyword("using") {
            return Ok(());
        }
        loop {
            if self.take_keyword("timeout") {
                select.timeout = Some(self.term()?);
            } else if self.take_keyword("service") {
                self.expect_keyword("level")?;
                self.name()?;
            } else {
                return Err(self.unexpected());
            }
            if !self.take_keyword("and") {
                return Ok(());
            }
        }
    }

    pub(super) fn ordering(&mut self) -> Result<(String, Direction), CqlError> {
        let column = self.name()?;
        let direction = if self.take_keyword("desc") {
            Direction::Descending
        } else {
            self.take_keyword("asc");
            Direction::Ascending
        };
        Ok((column, direction))
    }

    fn selector(&mut self) -> Result<Selector, CqlError> {
        let expression = self.expression()?;
        let alias = if self.take_keyword("as") {
            Some(self.name()?)
        } else {
            None
        };
        Ok(Selector { expression, alias })
    }

    fn expression(&mut self) -> Result<Expression, CqlError> {
        self.enter()?;
        let expression = self.expression_inside();
        self.leave();
        expression
    }

    fn expression_inside(&mut self) -> Result<Expression, CqlError> {
        let mut expression = self.simple_expression()?;
        loop {
            if self.take_symbol(".") {
                let field = self.any_word()?;
                expression = Expression::Field(Box::new(expression), field);
            } else if self.take_symbol("[") {
                let key = self.term()?;
                self.expect_symbol("]")?;
                expression = Expression::Element(Box::new(expression), Box::new(key));
            } else {
                return Ok(expression);
            }
        }
    }

    fn simple_expression(&mut self) -> Result<Expression, CqlError> {
        let TokenKind::Name(word) = self.peek().clone() else {
            if self.at_name() {
                return self.name().map(Expression::Column);
            }
            return self.term().map(Expression::Term);
        };
        if !self.symbol_ahead(1, "(") {
            // `system.now()`: functions may name their keyspace.
            if self.symbol_ahead(1, ".") && self.symbol_ahead(3, "(") {
                self.advance();
                self.advance();
                return self.simple_expression();
            }
            if matches!(
                word.as_str(),
                "null" | "true" | "false" | "nan" | "infinity"
            ) {
                return self.term().map(Expression::Term);
            }
            return self.name().map(Expression::Column);
        }
        self.advance();
        self.expect_symbol("(")?;
        let expression = match word.as_str() {
            "count" if self.take_symbol("*") => Expression::CountAll,
            "count" if matches!(self.peek(), TokenKind::Integer(one) if one == "1") => {
                self.advance();
                Expression::CountAll
            }
            "writetime" => Expression::Writetime(self.name()?),
            "ttl" => Expression::Ttl(self.name()?),
            "cast" => {
                let inner = self.expression()?;
                self.expect_keyword("as")?;
                Expression::Cast(Box::new(inner), self.raw_type()?)
            }
            _ => {
                let arguments = self.list_until(")", Self::expression)?;
                return Ok(Expression::Call {
                    name: word,
                    arguments,
                });
            }
        };
        self.expect_symbol(")")?;
        Ok(expression)
    }

    pub(super) fn relations(&mut self) -> Result<Vec<Relation>, CqlError> {
        let mut relations = vec![self.relation()?];
        while self.take_keyword("and") {
            relations.push(self.relation()?);
        }
        Ok(relations)
    }

    fn relation(&mut self) -> Result<Relation, CqlError> {
        self.enter()?;
        let relation = self.relation_inside();
        self.leave();
        relation
    }

    fn relation_inside(&mut self) -> Result<Relation, CqlError> {
        if self.at_keyword("token") && self.symbol_ahead(1, "(") {
            self.advance();
            self.expect_symbol("(")?;
            let columns = self.list_until(")", Self::name)?;
            let operator = self.operator()?;
            let value = RelationValue::One(self.term()?);
            return Ok(Relation {
                target: Target::Token(columns),
                operator,
                value,
            });
        }
        if self.take_symbol("(") {
            if self.at_symbol("(") || (self.at_keyword("token") && self.symbol_ahead(1, "(")) {
                let relation = self.relation()?;
                self.expect_symbol(")")?;
                return Ok(relation);
            }
            let columns = self.list_until(")", Self::name)?;
            let operator = self.operator()?;
            let value = self.relation_value(operator)?;
            return Ok(Relation {
                target: Target::Tuple(columns),
                operator,
                value,
            });
        }
        let column = self.name()?;
        let target = if self.take_symbol("[") {
            let key = self.term()?;
            self.expect_symbol("]")?;
            Target::Element(column, key)
        } else {
            Target::Column(column)
        };
        let operator = self.operator()?;
        let value = self.relation_value(operator)?;
        Ok(Relation {
            target,
            operator,
            value,
        })
    }

    pub(super) fn operator(&mut self) -> Result<Operator, CqlError> {
        let operator = match self.peek() {
            TokenKind::Symbol("=") => Operator::Equal,
            TokenKind::Symbol("!=") => Operator::NotEqual,
            TokenKind::Symbol("<") => Operator::Less,
            TokenKind::Symbol("<=") => Operator::LessOrEqual,
            TokenKind::Symbol(">") => Operator::Greater,
            TokenKind::Symbol(">=") => Operator::GreaterOrEqual,
            TokenKind::Name(word) => match word.as_str() {
                "in" => Operator::In,
                "contains" if self.keyword_ahead(1, "key") => {
                    self.advance();
                    Operator::ContainsKey
                }
                "contains" => Operator::Contains,
                "is" => {
                    self.advance();
                    if !self.take_keyword("not") || !self.at_keyword("null") {
                        return Err(self.unexpected());
                    }
                    Operator::IsNotNull
                }
                _ => return Err(self.unexpected()),
            },
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(operator)
    }

    /// The right side; `IN (…)` is a list, any other right side one value.
    pub(super) fn relation_value(&mut self, operator: Operator) -> Result<RelationValue, CqlError> {
        match operator {
            Operator::In if self.take_symbol("(") => {
                self.list_until(")", Self::term).map(RelationValue::Many)
            }
            Operator::IsNotNull => Ok(RelationValue::One(Term::Literal(
                super::super::ast::Literal::Null,
            ))),
            _ => self.term().map(RelationValue::One),
        }
    }
}
