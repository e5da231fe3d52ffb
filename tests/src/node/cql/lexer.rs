//! Cuts CQL text into tokens. What a sequence of tokens means is the parser's business.

use uuid::Uuid;

use crate::node::CqlError;

/// One token with the place where it began.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// The byte offset in the text.
    pub(crate) offset: usize,
}

/// The kinds of tokens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A name without quotes, in lower case; keywords are names too.
    Name(String),
    /// A name in double quotes, as written.
    QuotedName(String),
    /// A text literal.
    Text(String),
    /// An unsigned whole number.
    Integer(String),
    /// An unsigned number with a fraction or an exponent.
    Float(String),
    /// A UUID literal.
    Uuid(Uuid),
    /// A blob literal.
    Blob(Vec<u8>),
    /// A duration literal, not yet understood.
    Duration(String),
    /// A bind marker without a name.
    QuestionMark,
    /// Punctuation and operators.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

impl TokenKind {
    /// The text as error messages show it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Name(text)
            | Self::QuotedName(text)
            | Self::Text(text)
            | Self::Integer(text)
            | Self::Float(text)
            | Self::Duration(text) => text.clone(),
            Self::Uuid(uuid) => uuid.to_string(),
            Self::Blob(_) => "0x".to_owned(),
            Self::QuestionMark => "?".to_owned(),
            Self::Symbol(symbol) => (*symbol).to_owned(),
            Self::End => "<EOF>".to_owned(),
        }
    }
}

/// Cuts the whole text; the last token is always [`TokenKind::End`].
pub(crate) fn tokenize(text: &str) -> Result<Vec<Token>, CqlError> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks()?;
        let offset = lexer.at;
        let kind = lexer.next()?;
        let end = kind == TokenKind::End;
        tokens.push(Token { kind, offset });
        if end {
            return Ok(tokens);
        }
    }
}

/// The error for a place in the text, worded as the server's parser does.
pub(crate) fn syntax_error_at(text: &str, offset: usize, what: &str) -> CqlError {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .map_or(0, |last| last.chars().count());
    CqlError::syntax(format!("line {line}:{column} {what}"))
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn error(&self, what: &str) -> CqlError {
        syntax_error_at(self.text, self.at, what)
    }

    fn skip_blanks(&mut self) -> Result<(), CqlError> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("--") || trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                let Some(end) = trimmed.find("*/") else {
                    return Err(self.error("mismatched input '<EOF>' expecting '*/'"));
                };
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<TokenKind, CqlError> {
        let Some(first) = self.peek() else {
            return Ok(TokenKind::End);
        };
        match first {
            '\'' => self.quoted('\'').map(TokenKind::Text),
            '"' => self.quoted('"').map(TokenKind::QuotedName),
            '$' if self.rest().starts_with("$$") => self.dollar_text(),
            '?' => {
                self.at += 1;
                Ok(TokenKind::QuestionMark)
            }
            _ if first.is_ascii_hexdigit() && self.uuid().is_some() => {
                let uuid = self.uuid().unwrap_or_default();
                self.at += UUID_LEN;
                Ok(TokenKind::Uuid(uuid))
            }
            _ if first.is_ascii_digit() => self.number(),
            _ if first.is_ascii_alphabetic() => Ok(self.name()),
            _ => self.symbol(),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, CqlError> {
        let mut value = String::new();
        let mut rest = self.rest().get(1..).unwrap_or("");
        loop {
            let Some(end) = rest.find(quote) else {
                return Err(self.error("no viable alternative at input '<EOF>'"));
            };
            let (part, after) = rest.split_at(end);
            value.push_str(part);
            let after = after.get(1..).unwrap_or("");
            match after.strip_prefix(quote) {
                Some(more) => {
                    value.push(quote);
                    rest = more;
                }
                None => {
                    self.at = self.text.len() - after.len();
                    return Ok(value);
                }
            }
        }
    }

    fn dollar_text(&mut self) -> Result<TokenKind, CqlError> {
        let body = self.rest().get(2..).unwrap_or("");
        let Some(end) = body.find("$$") else {
            return Err(self.error("no viable alternative at input '<EOF>'"));
        };
        self.at += end + 4;
        Ok(TokenKind::Text(body.get(..end).unwrap_or("").to_owned()))
    }

    fn uuid(&self) -> Option<Uuid> {
        let rest = self.rest();
        let text = rest.get(..UUID_LEN)?;
        let shaped = text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
        let ends = !rest
            .as_bytes()
            .get(UUID_LEN)
            .is_some_and(|byte| is_name_byte(*byte));
        if shaped && ends {
            Uuid::try_parse(text).ok()
        } else {
            None
        }
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).unwrap_or("")
    }

    fn number(&mut self) -> Result<TokenKind, CqlError> {
        let rest = self.rest();
        if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            let len = hex
                .find(|c: char| !c.is_ascii_hexdigit())
                .unwrap_or(hex.len());
            let digits = hex.get(..len).unwrap_or("");
            let Some(bytes) = decode_hex(digits) else {
                return Err(self.error("no viable alternative at input '0x'"));
            };
            self.at += 2 + len;
            return Ok(TokenKind::Blob(bytes));
        }
        let start = self.at;
        self.take_while(|c| c.is_ascii_digit());
        let mut float = false;
        let mut after = self.rest().chars();
        if after.next() == Some('.') && after.next().is_some_and(|c| c.is_ascii_digit()) {
            float = true;
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        if self.exponent() {
            float = true;
        } else if !float
            && self
                .peek()
                .is_some_and(|c| c.is_ascii_alphabetic() || c == 'µ')
        {
            self.take_while(|c| c.is_ascii_alphanumeric() || c == 'µ');
            let text = self.text.get(start..self.at).unwrap_or("");
            return Ok(TokenKind::Duration(text.to_owned()));
        }
        let text = self.text.get(start..self.at).unwrap_or("").to_owned();
        Ok(if float {
            TokenKind::Float(text)
        } else {
            TokenKind::Integer(text)
        })
    }

    /// Consumes an exponent if a whole one stands here.
    fn exponent(&mut self) -> bool {
        let Some(rest) = self.rest().strip_prefix(['e', 'E']) else {
            return false;
        };
        let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return false;
        }
        self.at += 1 + (rest.len() - digits.len());
        self.take_while(|c| c.is_ascii_digit());
        true
    }

    fn name(&mut self) -> TokenKind {
        let word = self.take_while(|c| c.is_ascii() && is_name_byte(u8::try_from(c).unwrap_or(0)));
        if is_iso_duration(word) {
            return TokenKind::Duration(word.to_owned());
        }
        TokenKind::Name(word.to_ascii_lowercase())
    }

    fn symbol(&mut self) -> Result<TokenKind, CqlError> {
        let rest = self.rest();
        let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) else {
            let shown = self.peek().unwrap_or(' ');
            return Err(self.error(&format!("no viable alternative at input '{shown}'")));
        };
        self.at += symbol.len();
        Ok(TokenKind::Symbol(symbol))
    }
}

/// Only upper case counts, so that a column may be called `p1d`.
fn is_iso_duration(word: &str) -> bool {
    let Some(rest) = word.strip_prefix('P') else {
        return false;
    };
    rest.starts_with(|c: char| c.is_ascii_digit() || c == 'T')
        && rest.chars().any(|c| c.is_ascii_digit())
        && rest.ends_with(['Y', 'M', 'W', 'D', 'H', 'S'])
        && rest
            .chars()
            .all(|c| c.is_ascii_digit() || "YMWDTHS".contains(c))
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

/// Decodes hexadecimal digits; `None` when they are odd in number or no digits.
pub(crate) fn decode_hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| {
            let text = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(text, 16).ok()
        })
        .collect()
}

const UUID_LEN: usize = 36;

/// Longer symbols stand before their prefixes.
const SYMBOLS: [&str; 20] = [
    "<=", ">=", "!=", "(", ")", "{", "}", "[", "]", ",", ";", ".", ":", "=", "<", ">", "+", "-",
    "*", "/",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        tokenize(text)
            .unwrap()
            .into_iter()
            .map(|token| token.kind)
            .collect()
    }

    #[test]
    fn names_are_lower_cased_unless_quoted() {
        let expected = [
            TokenKind::Name("select".into()),
            TokenKind::QuotedName("Mixed\"Case".into()),
            TokenKind::End,
        ];
        assert_eq!(kinds("SeLeCt \"Mixed\"\"Case\""), expected);
    }

    #[test]
    fn numbers_durations_uuids_and_blobs_are_told_apart() {
        let expected = [
            TokenKind::Integer("12".into()),
            TokenKind::Float("1.5".into()),
            TokenKind::Float("1e-20".into()),
            TokenKind::Duration("14mo3d5000000001ns".into()),
            TokenKind::Duration("P1Y2M".into()),
            TokenKind::Uuid(Uuid::from_u128(0x1111_1111_2222_3333_4444_5555_5555_5555)),
            TokenKind::Blob(vec![0xca, 0xfe]),
            TokenKind::End,
        ];
        let text =
            "12 1.5 1e-20 14mo3d5000000001ns P1Y2M 11111111-2222-3333-4444-555555555555 0xCAFE";
        assert_eq!(kinds(text), expected);
    }

    #[test]
    fn comments_are_skipped() {
        assert_eq!(kinds("-- a\n // b\n /* c */ x").len(), 2);
    }

    #[test]
    fn an_open_quote_is_a_syntax_error_with_its_place() {
        let error = tokenize("a\n 'open").unwrap_err();
        assert_eq!(error.code, CqlError::SYNTAX);
        assert!(error.message.starts_with("line 2:1 "), "{}", error.message);
    }

    #[test]
    fn characters_outside_of_ascii_do_not_upset_the_cutting() {
        assert_eq!(kinds("'ä€😀' x").len(), 3);
        assert!(tokenize("sélect 'x'").is_err());
        assert!(tokenize("0x1").is_err());
        assert!(tokenize("1µ€").is_err());
    }
}
