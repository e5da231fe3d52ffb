//! Holds the page to the parser: its examples run, and sentences made from its rules parse.

use std::collections::{BTreeMap, BTreeSet};

use crate::node::CqlError;
use crate::node::cql::functions::mix;
use crate::node::cql::parser::{RESERVED, parse};
use crate::node::testing::World;

const PAGE: &str = include_str!("../grammar.md");

/// Sentences made from the grammar, enough to use every part of it many times.
const SENTENCES: u64 = 6_000;
/// Where sentences are this deep, the first choice is taken and nothing optional.
const DEPTH_MAX: usize = 14;

/// What one rule says.
#[derive(Debug)]
enum Part {
    Terminal(String),
    Rule(String),
    Choice(Vec<Self>),
    Sequence(Vec<Self>),
    Optional(Box<Self>),
    Repeated(Box<Self>),
}

/// The blocks of the page with this tag.
fn blocks(tag: &str) -> Vec<&'static str> {
    let fence = format!("```{tag}\n");
    let begins = PAGE.match_indices(&fence).map(|(at, _)| at + fence.len());
    begins
        .map(|begin| PAGE[begin..].split_once("\n```").expect("a closed block").0)
        .collect()
}

/// The statements of the blocks with this tag; each ends with a semicolon at the end of a line that no deeper one
/// follows.
fn statements(tag: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in blocks(tag).iter().flat_map(|block| block.lines()) {
        match found.last_mut() {
            Some(last) if line.starts_with(' ') || line.starts_with("APPLY") => {
                last.push('\n');
                last.push_str(line);
            }
            _ => found.push(line.to_owned()),
        }
    }
    found
}

#[test]
fn every_example_runs() {
    let mut world = World::with_nodes(1);
    let mut link = world.open(0);
    let examples = statements("cql");
    assert!(40 < examples.len(), "{}", examples.len());
    for text in &examples {
        assert!(text.ends_with(';'), "{text}");
        world.run(&mut link, text);
    }
}

#[test]
fn what_is_not_simulated_is_refused_as_such() {
    let mut world = World::with_nodes(1);
    let mut link = world.open(0);
    let texts = statements("cql refused");
    assert!(10 < texts.len());
    for text in texts {
        let (code, message) = world.refusal(&mut link, &text);
        assert_eq!(code, CqlError::INVALID, "{text}: {message}");
        assert!(message.ends_with("is not simulated"), "{text}: {message}");
    }
}

#[test]
fn the_reserved_words_are_those_of_the_parser() {
    let words: Vec<&str> = blocks("text reserved")[0].split_whitespace().collect();
    assert_eq!(words, RESERVED);
}

#[test]
fn sentences_made_from_the_grammar_parse() {
    let rules = rules();
    let mut maker = Maker {
        rules: &rules,
        state: 1,
        used: BTreeSet::new(),
        out: Vec::new(),
    };
    let mut parsed = 0;
    for _ in 0..SENTENCES {
        maker.out.clear();
        maker.make(&Part::Rule("statement".to_owned()), 0);
        let text = maker.out.join(" ");
        match parse(&text) {
            Ok(_) => parsed += 1,
            // What the parser understands and refuses is not a matter of grammar.
            Err(error) => assert_ne!(error.code, CqlError::SYNTAX, "{text}\n{error}"),
        }
    }
    assert!(SENTENCES / 2 < parsed, "{parsed} of {SENTENCES}");
    for rule in rules.keys() {
        assert!(maker.used.contains(rule), "{rule} was never used");
    }
}

/// All rules of the page by their names.
fn rules() -> BTreeMap<String, Part> {
    let text = blocks("text grammar").join("\n");
    let mut tokens = tokens(&text).into_iter().peekable();
    let mut rules = BTreeMap::new();
    while let Some(name) = tokens.next() {
        assert_eq!(tokens.next().as_deref(), Some("="), "after {name}");
        let part = choice(&mut tokens);
        assert_eq!(tokens.next().as_deref(), Some(";"), "the end of {name}");
        assert!(rules.insert(name.clone(), part).is_none(), "{name} twice");
    }
    rules
}

fn tokens(text: &str) -> Vec<String> {
    let words = text.split_whitespace();
    words.map(str::to_owned).collect()
}

type Tokens = std::iter::Peekable<std::vec::IntoIter<String>>;

fn choice(tokens: &mut Tokens) -> Part {
    let mut choices = vec![sequence(tokens)];
    while tokens.next_if(|token| token == "|").is_some() {
        choices.push(sequence(tokens));
    }
    Part::Choice(choices)
}

fn sequence(tokens: &mut Tokens) -> Part {
    let mut parts = Vec::new();
    let ends = ["|", ")", "]", "}", ";"];
    while let Some(token) = tokens.next_if(|token| !ends.contains(&token.as_str())) {
        let mut inside = |close: &str| {
            let part = Box::new(choice(tokens));
            assert_eq!(tokens.next().as_deref(), Some(close));
            part
        };
        parts.push(match token.as_str() {
            "(" => *inside(")"),
            "[" => Part::Optional(inside("]")),
            "{" => Part::Repeated(inside("}")),
            _ => match token.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
                Some(terminal) => Part::Terminal(terminal.to_owned()),
                None => Part::Rule(token),
            },
        });
    }
    Part::Sequence(parts)
}

/// Makes random sentences.
struct Maker<'a> {
    rules: &'a BTreeMap<String, Part>,
    state: u64,
    used: BTreeSet<String>,
    out: Vec<String>,
}

impl Maker<'_> {
    fn below(&mut self, end: usize) -> usize {
        self.state = mix(self.state);
        usize::try_from(self.state % u64::try_from(end).unwrap()).unwrap()
    }

    fn make(&mut self, part: &Part, depth: usize) {
        let deep = DEPTH_MAX < depth;
        match part {
            Part::Terminal(text) => self.out.push(text.clone()),
            Part::Sequence(parts) => parts.iter().for_each(|part| self.make(part, depth)),
            Part::Choice(choices) => {
                let at = if deep { 0 } else { self.below(choices.len()) };
                self.make(&choices[at], depth);
            }
            Part::Optional(part) => {
                if !deep && self.below(2) == 0 {
                    self.make(part, depth);
                }
            }
            Part::Repeated(part) => {
                while !deep && self.below(3) == 0 {
                    self.make(part, depth);
                }
            }
            Part::Rule(name) => self.rule(name, depth),
        }
    }

    fn rule(&mut self, name: &str, depth: usize) {
        if let Some(part) = self.rules.get(name) {
            self.used.insert(name.to_owned());
            self.make(part, depth + 1);
            return;
        }
        let samples: &[&str] = match name {
            "identifier" => &["a", "B1", "ks", "value_$2"],
            "quoted" => &["\"Mixed\"\"Case\"", "\"select\""],
            "word" => &["a", "\"Q\"", "select", "key"],
            "text" => &["'it''s'", "''", "$$x'y$$"],
            "integer" => &["7", "15"],
            "float" => &["1.5", "1e-20", "2.5E+3"],
            "uuid" => &["11111111-2222-4333-8444-555555555555"],
            "blob" => &["0xcafe", "0x"],
            "duration" => &["1h30m", "P1Y2M3DT4H5M6S", "P4W", "3mo"],
            "column" => &["c"],
            _ => panic!("there is no rule {name}"),
        };
        let sample = self.below(samples.len());
        self.out.push(samples[sample].to_owned());
    }
}
