//! CREATE, ALTER and DROP.

use crate::node::CqlError;

use super::super::ast::{
    ColumnDefinition, CreateTable, Ddl, Properties, Property, RawType, TableChange, TypeChange,
};
use super::super::lexer::TokenKind;
use super::Parser;

impl Parser<'_> {
    pub(super) fn ddl(&mut self) -> Result<Ddl, CqlError> {
        if self.take_keyword("create") {
            return self.create();
        }
        if self.take_keyword("alter") {
            return self.alter();
        }
        self.expect_keyword("drop")?;
        self.drop()
    }

    fn create(&mut self) -> Result<Ddl, CqlError> {
        if self.take_keyword("keyspace") {
            let if_not_exists = self.if_not_exists()?;
            let name = self.name()?;
            let properties = self.with_properties()?;
            return Ok(Ddl::CreateKeyspace {
                name,
                if_not_exists,
                properties,
            });
        }
        if self.take_keyword("table") || self.take_keyword("columnfamily") {
            return self.create_table().map(Ddl::CreateTable);
        }
        if self.take_keyword("type") {
            let if_not_exists = self.if_not_exists()?;
            let name = self.table_name()?;
            self.expect_symbol("(")?;
            let fields = self.list_until(")", Self::field)?;
            return Ok(Ddl::CreateType {
                name,
                if_not_exists,
                fields,
            });
        }
        if self.take_keyword("index") {
            return self.create_index();
        }
        self.not_simulated("CREATE")
    }

    fn not_simulated<T>(&self, verb: &str) -> Result<T, CqlError> {
        match self.peek() {
            TokenKind::Name(what)
                if matches!(
                    what.as_str(),
                    "materialized"
                        | "function"
                        | "aggregate"
                        | "role"
                        | "user"
                        | "custom"
                        | "trigger"
                        | "service"
                        | "or"
                ) =>
            {
                Err(CqlError::invalid(format!(
                    "{verb} {} is not simulated",
                    what.to_ascii_uppercase()
                )))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn field(&mut self) -> Result<(String, RawType), CqlError> {
        Ok((self.any_word()?, self.raw_type()?))
    }

    fn if_not_exists(&mut self) -> Result<bool, CqlError> {
        if !self.take_keyword("if") {
            return Ok(false);
        }
        self.expect_keyword("not")?;
        self.expect_keyword("exists")?;
        Ok(true)
    }

    fn if_exists(&mut self) -> Result<bool, CqlError> {
        if !self.take_keyword("if") {
            return Ok(false);
        }
        self.expect_keyword("exists")?;
        Ok(true)
    }

    fn create_table(&mut self) -> Result<CreateTable, CqlError> {
        let if_not_exists = self.if_not_exists()?;
        let table = self.table_name()?;
        let mut create = CreateTable {
            table,
            if_not_exists,
            columns: Vec::new(),
            partition_key: Vec::new(),
            clustering_key: Vec::new(),
            clustering_order: Vec::new(),
            properties: Vec::new(),
        };
        self.expect_symbol("(")?;
        loop {
            if self.at_keyword("primary") {
                self.primary_key(&mut create)?;
            } else {
                let (column, is_key) = self.column_definition()?;
                if is_key {
                    if !create.partition_key.is_empty() {
                        return Err(CqlError::invalid(
                            "Multiple PRIMARY KEYs specifed (exactly one required)",
                        ));
                    }
                    create.partition_key.push(column.name.clone());
                }
                create.columns.push(column);
            }
            if !self.take_symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        if self.take_keyword("with") {
            loop {
                self.table_option(&mut create)?;
                if !self.take_keyword("and") {
                    break;
                }
            }
        }
        Ok(create)
    }

    fn column_definition(&mut self) -> Result<(ColumnDefinition, bool), CqlError> {
        let name = self.name()?;
        let ty = self.raw_type()?;
        let is_static = self.take_keyword("static");
        let is_key = self.take_keyword("primary");
        if is_key {
            self.expect_word("key")?;
        }
        Ok((
            ColumnDefinition {
                name,
                ty,
                is_static,
            },
            is_key,
        ))
    }

    fn expect_word(&mut self, word: &str) -> Result<(), CqlError> {
        self.expect_keyword(word)
    }

    fn primary_key(&mut self, create: &mut CreateTable) -> Result<(), CqlError> {
        self.expect_keyword("primary")?;
        self.expect_word("key")?;
        if !create.partition_key.is_empty() {
            return Err(CqlError::invalid(
                "Multiple PRIMARY KEYs specifed (exactly one required)",
            ));
        }
        self.expect_symbol("(")?;
        create.partition_key = if self.take_symbol("(") {
            self.list_until(")", Self::name)?
        } else {
            vec![self.name()?]
        };
        if self.take_symbol(",") {
            create.clustering_key = self.comma_separated(Self::name)?;
        }
        self.expect_symbol(")")
    }

    fn table_option(&mut self, create: &mut CreateTable) -> Result<(), CqlError> {
        if self.take_keyword("clustering") {
            self.expect_keyword("order")?;
            self.expect_keyword("by")?;
            self.expect_symbol("(")?;
            create.clustering_order = self.list_until(")", Self::ordering)?;
            return Ok(());
        }
        if self.take_keyword("compact") {
            return Err(CqlError::invalid("COMPACT STORAGE is not simulated"));
        }
        let property = self.property()?;
        create.properties.push(property);
        Ok(())
    }

    fn with_properties(&mut self) -> Result<Properties, CqlError> {
        let mut properties = Vec::new();
        if !self.take_keyword("with") {
            return Ok(properties);
        }
        loop {
            properties.push(self.property()?);
            if !self.take_keyword("and") {
                return Ok(properties);
            }
        }
    }

    fn property(&mut self) -> Result<(String, Property), CqlError> {
        let name = self.any_word()?;
        self.expect_symbol("=")?;
        if !self.take_symbol("{") {
            return Ok((name, Property::Simple(self.simple_property()?)));
        }
        let entries = self.list_until("}", |parser| {
            let key = parser.simple_property()?;
            parser.expect_symbol(":")?;
            Ok((key, parser.simple_property()?))
        })?;
        Ok((name, Property::Map(entries)))
    }

    fn simple_property(&mut self) -> Result<String, CqlError> {
        let sign = if self.take_symbol("-") { "-" } else { "" };
        let text = match self.peek() {
            TokenKind::Text(text)
            | TokenKind::Integer(text)
            | TokenKind::Float(text)
            | TokenKind::Name(text) => format!("{sign}{text}"),
            TokenKind::Uuid(uuid) => uuid.to_string(),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(text)
    }

    fn create_index(&mut self) -> Result<Ddl, CqlError> {
        let if_not_exists = self.if_not_exists()?;
        let name = if self.at_keyword("on") {
            None
        } else {
            Some(self.name()?)
        };
        self.expect_keyword("on")?;
        let table = self.table_name()?;
        self.expect_symbol("(")?;
        // `keys(m)`, `values(m)`, `entries(m)`, `full(m)` index parts of a collection.
        let target = if self.symbol_ahead(1, "(") {
            let part = self.any_word()?;
            self.expect_symbol("(")?;
            let column = self.name()?;
            self.expect_symbol(")")?;
            format!("{part}({column})")
        } else {
            self.name()?
        };
        self.expect_symbol(")")?;
        self.with_properties()?;
        Ok(Ddl::CreateIndex {
            name,
            if_not_exists,
            table,
            target,
        })
    }

    fn alter(&mut self) -> Result<Ddl, CqlError> {
        if self.take_keyword("keyspace") {
            let if_exists = self.if_exists()?;
            let name = self.name()?;
            let properties = self.with_properties()?;
            return Ok(Ddl::AlterKeyspace {
                name,
                if_exists,
                properties,
            });
        }
        if self.take_keyword("table") || self.take_keyword("columnfamily") {
            let if_exists = self.if_exists()?;
            let table = self.table_name()?;
            let change = self.table_change()?;
            return Ok(Ddl::AlterTable {
                table,
                if_exists,
                change,
            });
        }
        if self.take_keyword("type") {
            let name = self.table_name()?;
            let change = if self.take_keyword("add") {
                TypeChange::Add(self.comma_separated(Self::field)?)
            } else {
                self.expect_keyword("rename")?;
                TypeChange::Rename(self.renames()?)
            };
            return Ok(Ddl::AlterType { name, change });
        }
        self.not_simulated("ALTER")
    }

    fn table_change(&mut self) -> Result<TableChange, CqlError> {
        if self.take_keyword("add") {
            let parenthesised = self.take_symbol("(");
            let columns = self.comma_separated(|parser| {
                let name = parser.name()?;
                let ty = parser.raw_type()?;
                Ok(ColumnDefinition {
                    name,
                    ty,
                    is_static: parser.take_keyword("static"),
                })
            })?;
            if parenthesised {
                self.expect_symbol(")")?;
            }
            return Ok(TableChange::Add(columns));
        }
        if self.take_keyword("drop") {
            let parenthesised = self.take_symbol("(");
            let columns = self.comma_separated(Self::name)?;
            if parenthesised {
                self.expect_symbol(")")?;
            }
            return Ok(TableChange::Drop(columns));
        }
        if self.take_keyword("rename") {
            return self.renames().map(TableChange::Rename);
        }
        if self.at_keyword("with") {
            return self.with_properties().map(TableChange::Properties);
        }
        if self.at_keyword("alter") {
            return Err(CqlError::invalid("Altering of types is not allowed"));
        }
        Err(self.unexpected())
    }

    fn renames(&mut self) -> Result<Vec<(String, String)>, CqlError> {
        let mut renames = Vec::new();
        loop {
            let from = self.name()?;
            self.expect_keyword("to")?;
            renames.push((from, self.name()?));
            if !self.take_keyword("and") {
                return Ok(renames);
            }
        }
    }

    fn drop(&mut self) -> Result<Ddl, CqlError> {
        if self.take_keyword("keyspace") {
            let if_exists = self.if_exists()?;
            return Ok(Ddl::DropKeyspace {
                if_exists,
                name: self.name()?,
            });
        }
        if self.take_keyword("table") || self.take_keyword("columnfamily") {
            let if_exists = self.if_exists()?;
            return Ok(Ddl::DropTable {
                if_exists,
                table: self.table_name()?,
            });
        }
        if self.take_keyword("type") {
            let if_exists = self.if_exists()?;
            return Ok(Ddl::DropType {
                if_exists,
                name: self.table_name()?,
            });
        }
        if self.take_keyword("index") {
            let if_exists = self.if_exists()?;
            return Ok(Ddl::DropIndex {
                if_exists,
                name: self.table_name()?,
            });
        }
        self.not_simulated("DROP")
    }
}
