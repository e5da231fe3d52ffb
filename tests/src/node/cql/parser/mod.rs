//! Turns CQL text into the shapes of `ast`. The schema is not consulted.

mod ddl;
mod modify;
mod select;
mod terms;

use crate::node::CqlError;

use super::ast::{Batch, Describe, Modify, Parsed, Statement, TableName};
use super::lexer::{Token, TokenKind, syntax_error_at, tokenize};

/// Parses one statement; any number of semicolons may follow it.
pub(crate) fn parse(text: &str) -> Result<Parsed, CqlError> {
    let mut parser = Parser {
        text,
        tokens: tokenize(text)?,
        at: 0,
        depth: 0,
        markers: Vec::new(),
    };
    let statement = parser.statement()?;
    while parser.take_symbol(";") {}
    if parser.peek() != &TokenKind::End {
        return Err(parser.unexpected());
    }
    Ok(Parsed {
        statement,
        markers: parser.markers,
    })
}

/// Nesting deeper than this is refused, so that no text can exhaust the stack.
const DEPTH_MAX: usize = 64;

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    markers: Vec<Option<String>>,
}

impl Parser<'_> {
    fn statement(&mut self) -> Result<Statement, CqlError> {
        let TokenKind::Name(keyword) = self.peek() else {
            return Err(self.unexpected());
        };
        match keyword.as_str() {
            "select" => self.select().map(Statement::Select),
            "insert" | "update" | "delete" => self.modification().map(Statement::Modify),
            "begin" => self.batch().map(Statement::Batch),
            "use" => {
                self.advance();
                self.name().map(Statement::Use)
            }
            "create" | "alter" | "drop" => self.ddl().map(Statement::Ddl),
            "truncate" => {
                self.advance();
                self.take_keyword("table");
                let table = self.table_name()?;
                let mut timeout = None;
                if self.take_keyword("using") {
                    self.expect_keyword("timeout")?;
                    timeout = Some(self.term()?);
                }
                Ok(Statement::Truncate(table, timeout))
            }
            "describe" | "desc" => self.describe().map(Statement::Describe),
            _ => Err(self.unexpected()),
        }
    }

    fn batch(&mut self) -> Result<Batch, CqlError> {
        self.expect_keyword("begin")?;
        if !self.take_keyword("unlogged") && !self.take_keyword("counter") {
            self.take_keyword("logged");
        }
        self.expect_keyword("batch")?;
        let using = self.using()?;
        let mut statements: Vec<Modify> = Vec::new();
        while !self.take_keyword("apply") {
            statements.push(self.modification()?);
            while self.take_symbol(";") {}
        }
        self.expect_keyword("batch")?;
        Ok(Batch { using, statements })
    }

    fn describe(&mut self) -> Result<Describe, CqlError> {
        self.advance();
        self.take_keyword("full");
        let what = if self.take_keyword("cluster") {
            Describe::Cluster
        } else if self.take_keyword("keyspaces") {
            Describe::Keyspaces
        } else if self.take_keyword("tables") {
            Describe::Tables
        } else if self.take_keyword("types") {
            Describe::Types
        } else if self.take_keyword("schema") {
            Describe::Schema
        } else if self.take_keyword("keyspace") {
            let named = !matches!(self.peek(), TokenKind::End | TokenKind::Symbol(";"));
            Describe::Keyspace(if named && !self.at_keyword("with") {
                Some(self.name()?)
            } else {
                None
            })
        } else if self.take_keyword("table") || self.take_keyword("columnfamily") {
            Describe::Table(self.table_name()?)
        } else if self.take_keyword("type") {
            Describe::Type(self.table_name()?)
        } else {
            return Err(self.unexpected());
        };
        if self.take_keyword("with") {
            self.expect_keyword("internals")?;
            if self.take_keyword("and") {
                self.expect_keyword("passwords")?;
            }
        }
        Ok(what)
    }

    fn peek(&self) -> &TokenKind {
        self.peek_ahead(0)
    }

    fn peek_ahead(&self, by: usize) -> &TokenKind {
        self.tokens
            .get(self.at + by)
            .map_or(&TokenKind::End, |token| &token.kind)
    }

    fn advance(&mut self) {
        if self.at < self.tokens.len() {
            self.at += 1;
        }
    }

    fn unexpected(&self) -> CqlError {
        let offset = self
            .tokens
            .get(self.at)
            .map_or(self.text.len(), |token| token.offset);
        let shown = self.peek().shown();
        syntax_error_at(
            self.text,
            offset,
            &format!("no viable alternative at input '{shown}'"),
        )
    }

    /// Counts one level of nesting; the caller leaves it with [`Parser::leave`].
    fn enter(&mut self) -> Result<(), CqlError> {
        if self.depth == DEPTH_MAX {
            return Err(CqlError::syntax("the statement is nested too deeply"));
        }
        self.depth += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn at_keyword(&self, keyword: &str) -> bool {
        self.keyword_ahead(0, keyword)
    }

    fn keyword_ahead(&self, by: usize, keyword: &str) -> bool {
        matches!(self.peek_ahead(by), TokenKind::Name(name) if name == keyword)
    }

    fn take_keyword(&mut self, keyword: &str) -> bool {
        let found = self.at_keyword(keyword);
        if found {
            self.advance();
        }
        found
    }

    fn expect_keyword(&mut self, keyword: &str) -> Result<(), CqlError> {
        if self.take_keyword(keyword) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    fn at_symbol(&self, symbol: &str) -> bool {
        self.symbol_ahead(0, symbol)
    }

    fn symbol_ahead(&self, by: usize, symbol: &str) -> bool {
        matches!(self.peek_ahead(by), TokenKind::Symbol(found) if *found == symbol)
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = self.at_symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect_symbol(&mut self, symbol: &str) -> Result<(), CqlError> {
        if self.take_symbol(symbol) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    fn name(&mut self) -> Result<String, CqlError> {
        match self.peek() {
            TokenKind::Name(name) if is_reserved(name) => Err(self.unexpected()),
            TokenKind::Name(name) | TokenKind::QuotedName(name) => {
                let name = name.clone();
                self.advance();
                Ok(name)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// A name or a text in single quotes, as USE and some properties allow.
    fn at_name(&self) -> bool {
        match self.peek() {
            TokenKind::Name(name) => !is_reserved(name),
            TokenKind::QuotedName(_) => true,
            _ => false,
        }
    }

    fn table_name(&mut self) -> Result<TableName, CqlError> {
        let first = self.name()?;
        if self.take_symbol(".") {
            return Ok(TableName {
                keyspace: Some(first),
                name: self.name()?,
            });
        }
        Ok(TableName {
            keyspace: None,
            name: first,
        })
    }

    /// One or more items between commas.
    fn comma_separated<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, CqlError>,
    ) -> Result<Vec<T>, CqlError> {
        let mut items = vec![item(self)?];
        while self.take_symbol(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Items between commas up to a closing symbol, which is consumed; perhaps none.
    fn list_until<T>(
        &mut self,
        close: &str,
        item: impl FnMut(&mut Self) -> Result<T, CqlError>,
    ) -> Result<Vec<T>, CqlError> {
        if self.take_symbol(close) {
            return Ok(Vec::new());
        }
        let items = self.comma_separated(item)?;
        self.expect_symbol(close)?;
        Ok(items)
    }

    /// The index of a bind variable; equal names share one.
    fn marker(&mut self, name: Option<String>) -> usize {
        if name.is_some()
            && let Some(known) = self.markers.iter().position(|known| *known == name)
        {
            return known;
        }
        self.markers.push(name);
        self.markers.len() - 1
    }
}

/// Whether a word cannot be a name without quotes.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.binary_search(&word).is_ok()
}

/// The words that cannot be names without quotes, sorted.
pub(crate) const RESERVED: [&str; 56] = [
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "columnfamily",
    "create",
    "delete",
    "desc",
    "describe",
    "drop",
    "entries",
    "execute",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "keyspace",
    "limit",
    "materialized",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "revoke",
    "schema",
    "select",
    "set",
    "to",
    "token",
    "truncate",
    "unlogged",
    "update",
    "use",
    "using",
    "view",
    "where",
    "with",
];

#[cfg(test)]
mod tests;
