//! Values and types in CQL text.

use crate::node::CqlError;

use super::super::ast::{Literal, RawType, Term};
use super::super::lexer::TokenKind;
use super::Parser;

impl Parser<'_> {
    pub(super) fn term(&mut self) -> Result<Term, CqlError> {
        self.enter()?;
        let term = self.term_inside();
        self.leave();
        term
    }

    fn term_inside(&mut self) -> Result<Term, CqlError> {
        let token = self.peek().clone();
        match token {
            TokenKind::QuestionMark => {
                self.advance();
                Ok(Term::Marker(self.marker(None)))
            }
            TokenKind::Symbol(":") => {
                self.advance();
                let name = self.any_word()?;
                Ok(Term::Marker(self.marker(Some(name))))
            }
            TokenKind::Symbol("[") => {
                self.advance();
                self.list_until("]", Self::term).map(Term::List)
            }
            TokenKind::Symbol("{") => self.braces(),
            TokenKind::Symbol("(") => self.parentheses(),
            TokenKind::Name(_) if self.symbol_ahead(1, "(") => self.call(),
            TokenKind::Name(_) if self.symbol_ahead(1, ".") && self.symbol_ahead(3, "(") => {
                self.advance();
                self.advance();
                self.call()
            }
            _ => self.literal().map(Term::Literal),
        }
    }

    fn call(&mut self) -> Result<Term, CqlError> {
        let name = self.any_word()?;
        self.expect_symbol("(")?;
        let arguments = self.list_until(")", Self::term)?;
        Ok(Term::Call { name, arguments })
    }

    /// Any word, reserved or not.
    pub(super) fn any_word(&mut self) -> Result<String, CqlError> {
        match self.peek() {
            TokenKind::Name(name) | TokenKind::QuotedName(name) => {
                let name = name.clone();
                self.advance();
                Ok(name)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// A tuple, a value in parentheses, or a type that is cast to.
    fn parentheses(&mut self) -> Result<Term, CqlError> {
        self.expect_symbol("(")?;
        if self.at_cast() {
            let ty = self.raw_type()?;
            self.expect_symbol(")")?;
            return Ok(Term::Cast(ty, Box::new(self.term()?)));
        }
        let mut items = self.comma_separated(Self::term)?;
        self.expect_symbol(")")?;
        if items.len() == 1 && matches!(items.first(), Some(Term::Tuple(_))) {
            return Ok(items.remove(0));
        }
        Ok(Term::Tuple(items))
    }

    /// Whether a type stands here, as in `(int) 5`, and not a value.
    fn at_cast(&self) -> bool {
        let TokenKind::Name(name) = self.peek() else {
            return false;
        };
        if is_constant(name) {
            return false;
        }
        self.symbol_ahead(1, ")") || self.symbol_ahead(1, "<")
    }

    /// A set, a map or the fields of a user type.
    fn braces(&mut self) -> Result<Term, CqlError> {
        self.expect_symbol("{")?;
        if self.take_symbol("}") {
            return Ok(Term::Set(Vec::new()));
        }
        if self.at_field() {
            let fields = self.list_until("}", |parser| {
                let name = parser.any_word()?;
                parser.expect_symbol(":")?;
                Ok((name, parser.term()?))
            })?;
            return Ok(Term::Fields(fields));
        }
        let first = self.term()?;
        if !self.take_symbol(":") {
            let mut items = vec![first];
            while self.take_symbol(",") {
                items.push(self.term()?);
            }
            self.expect_symbol("}")?;
            return Ok(Term::Set(items));
        }
        let mut entries = vec![(first, self.term()?)];
        while self.take_symbol(",") {
            let key = self.term()?;
            self.expect_symbol(":")?;
            entries.push((key, self.term()?));
        }
        self.expect_symbol("}")?;
        Ok(Term::Map(entries))
    }

    fn at_field(&self) -> bool {
        let named = match self.peek() {
            TokenKind::Name(name) => !is_constant(name),
            TokenKind::QuotedName(_) => true,
            _ => false,
        };
        named && self.symbol_ahead(1, ":")
    }

    fn literal(&mut self) -> Result<Literal, CqlError> {
        let negative = self.take_symbol("-");
        let sign = if negative { "-" } else { "" };
        let literal = match self.peek() {
            TokenKind::Integer(digits) => Literal::Integer(format!("{sign}{digits}")),
            TokenKind::Float(digits) => Literal::Float(format!("{sign}{digits}")),
            TokenKind::Name(word) if word == "nan" || word == "infinity" => {
                Literal::Float(format!("{sign}{word}"))
            }
            TokenKind::Duration(text) => match parse_duration(text, negative) {
                Some(literal) => literal,
                None => {
                    return Err(CqlError::invalid(format!(
                        "Unable to convert '{sign}{text}' to a duration"
                    )));
                }
            },
            _ if negative => return Err(self.unexpected()),
            TokenKind::Text(text) => Literal::Text(text.clone()),
            TokenKind::Uuid(uuid) => Literal::Uuid(*uuid),
            TokenKind::Blob(bytes) => Literal::Blob(bytes.clone()),
            TokenKind::Name(word) => match word.as_str() {
                "null" => Literal::Null,
                "true" => Literal::Boolean(true),
                "false" => Literal::Boolean(false),
                _ => return Err(self.unexpected()),
            },
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(literal)
    }

    pub(super) fn raw_type(&mut self) -> Result<RawType, CqlError> {
        self.enter()?;
        let ty = self.raw_type_inside();
        self.leave();
        ty
    }

    fn raw_type_inside(&mut self) -> Result<RawType, CqlError> {
        if let TokenKind::Text(class) = self.peek() {
            let class = class.clone();
            self.advance();
            return Ok(RawType::Custom(class));
        }
        let quoted = matches!(self.peek(), TokenKind::QuotedName(_));
        let name = self.any_word()?;
        if self.take_symbol(".") {
            return Ok(RawType::Named {
                keyspace: Some(name),
                name: self.any_word()?,
            });
        }
        if quoted || !self.take_symbol("<") {
            return Ok(RawType::Named {
                keyspace: None,
                name,
            });
        }
        let ty = match name.as_str() {
            "frozen" => RawType::Frozen(Box::new(self.raw_type()?)),
            "list" => RawType::List(Box::new(self.raw_type()?)),
            "set" => RawType::Set(Box::new(self.raw_type()?)),
            "map" => {
                let key = self.raw_type()?;
                self.expect_symbol(",")?;
                RawType::Map(Box::new(key), Box::new(self.raw_type()?))
            }
            "tuple" => RawType::Tuple(self.comma_separated(Self::raw_type)?),
            "vector" => {
                let element = self.raw_type()?;
                self.expect_symbol(",")?;
                let dimension = match self.peek() {
                    TokenKind::Integer(digits) => digits.parse::<u32>().ok(),
                    _ => None,
                };
                let Some(dimension) = dimension.filter(|d| 0 < *d && *d <= DIMENSION_MAX) else {
                    return Err(self.unexpected());
                };
                self.advance();
                RawType::Vector(Box::new(element), dimension)
            }
            _ => return Err(self.unexpected()),
        };
        self.expect_symbol(">")?;
        Ok(ty)
    }
}

/// The server's own bound on vectors.
const DIMENSION_MAX: u32 = 16_000;

fn is_constant(word: &str) -> bool {
    matches!(word, "null" | "true" | "false" | "nan" | "infinity")
}

/// Understands `1y2mo3w4d5h6m7s8ms9us10ns` and `P1Y2M3DT4H5M6S`, `P4W`.
fn parse_duration(text: &str, negative: bool) -> Option<Literal> {
    let iso = text.starts_with('P');
    let mut rest = if iso { text.get(1..)? } else { text };
    let mut in_time = false;
    let (mut months, mut days, mut nanoseconds) = (0_i64, 0_i64, 0_i64);
    while !rest.is_empty() {
        if iso && !in_time && rest.starts_with('T') {
            in_time = true;
            rest = rest.get(1..)?;
            continue;
        }
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let amount: i64 = rest.get(..digits)?.parse().ok()?;
        let after = rest.get(digits..)?;
        let len = after
            .find(|c: char| c.is_ascii_digit() || (iso && c == 'T'))
            .unwrap_or(after.len());
        let unit = after.get(..len)?;
        let unit = if iso {
            iso_unit(unit, in_time)?
        } else {
            unit.to_ascii_lowercase()
        };
        let (target, factor) = match unit.as_str() {
            "y" => (&mut months, 12),
            "mo" => (&mut months, 1),
            "w" => (&mut days, 7),
            "d" => (&mut days, 1),
            "h" => (&mut nanoseconds, 3_600_000_000_000),
            "m" => (&mut nanoseconds, 60_000_000_000),
            "s" => (&mut nanoseconds, 1_000_000_000),
            "ms" => (&mut nanoseconds, 1_000_000),
            "us" | "µs" => (&mut nanoseconds, 1_000),
            "ns" => (&mut nanoseconds, 1),
            _ => return None,
        };
        *target = target.checked_add(amount.checked_mul(factor)?)?;
        rest = after.get(len..)?;
    }
    let sign = if negative { -1 } else { 1 };
    Some(Literal::Duration {
        months: i32::try_from(months * sign).ok()?,
        days: i32::try_from(days * sign).ok()?,
        nanoseconds: nanoseconds * sign,
    })
}

fn iso_unit(unit: &str, in_time: bool) -> Option<String> {
    let plain = match (unit, in_time) {
        ("Y", false) => "y",
        ("M", false) => "mo",
        ("W", false) => "w",
        ("D", false) => "d",
        ("H", true) => "h",
        ("M", true) => "m",
        ("S", true) => "s",
        _ => return None,
    };
    Some(plain.to_owned())
}
