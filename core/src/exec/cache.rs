//! A bounded store of prepared statements by keyspace and text.
//!
//! It only saves a client the trouble of preparing again: what it forgets stays good in the hands of whoever holds it,
//! and what a server forgets is none of its business.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::exec::prepared::PreparedStatement;

/// Remembers the statements used last, up to a number.
///
/// Finding and keeping cost a few comparisons of texts, which is nothing beside a PREPARE.
#[derive(Debug)]
pub struct StatementCache {
    statements: BTreeMap<Key, Entry>,
    /// The keys by the mark of their last use, the oldest first.
    by_use: BTreeMap<u64, Key>,
    /// Grows with each use.
    uses: u64,
    statements_max: usize,
}

/// One text has another meaning in another keyspace.
type Key = (Option<Arc<str>>, Arc<str>);

#[derive(Debug)]
struct Entry {
    statement: PreparedStatement,
    used: u64,
}

impl StatementCache {
    /// Makes an empty store of at most so many statements; zero keeps none.
    pub fn new(statements_max: usize) -> Self {
        Self {
            statements: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            statements_max,
        }
    }

    /// Finds a statement that was prepared in this keyspace.
    ///
    /// One that a server was seen to read differently is forgotten instead: it is of no use to anybody.
    pub fn find(
        &mut self,
        keyspace: Option<&Arc<str>>,
        text: &Arc<str>,
    ) -> Option<PreparedStatement> {
        let key = (keyspace.cloned(), Arc::clone(text));
        let entry = self.statements.get_mut(&key)?;
        self.by_use.remove(&entry.used);
        if entry.statement.preparation().check_markers().is_err() {
            self.statements.remove(&key);
            return None;
        }
        self.uses += 1;
        entry.used = self.uses;
        self.by_use.insert(self.uses, key);
        Some(entry.statement.clone())
    }

    /// Keeps a statement, in place of the one used least recently where there is no room.
    pub fn keep(&mut self, statement: &PreparedStatement) {
        if self.statements_max == 0 {
            return;
        }
        let key = (statement.keyspace().cloned(), Arc::clone(statement.text()));
        self.uses += 1;
        let entry = Entry {
            statement: statement.clone(),
            used: self.uses,
        };
        if let Some(old) = self.statements.insert(key.clone(), entry) {
            self.by_use.remove(&old.used);
        }
        self.by_use.insert(self.uses, key);
        if self.statements_max < self.statements.len()
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.statements.remove(&oldest);
        }
    }

    /// Returns how many statements are kept.
    pub fn len(&self) -> usize {
        self.statements.len()
    }

    /// Says whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::fixtures::*;

    fn texts(cache: &mut StatementCache, texts: &[&str]) -> Vec<bool> {
        let keyspace = Arc::from("ks");
        texts
            .iter()
            .map(|text| cache.find(Some(&keyspace), &Arc::from(*text)).is_some())
            .collect()
    }

    #[test]
    fn of_more_statements_than_fit_the_least_recently_used_is_forgotten_and_stays_good() {
        let mut cache = StatementCache::new(2);
        let [a, b, c] = ["a", "b", "c"].map(|text| prepared_text(text, "ks"));
        for statement in [&a, &b, &c] {
            cache.keep(statement);
        }
        assert_eq!(texts(&mut cache, &["a", "b", "c"]), [false, true, true]);
        a.bind((1, "x"))
            .expect("whoever holds a forgotten statement can use it");
        // b is used again, so that c is the oldest when a comes back.
        texts(&mut cache, &["b"]);
        cache.keep(&a);
        assert_eq!(texts(&mut cache, &["a", "b", "c"]), [true, true, false]);
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn a_store_of_none_keeps_nothing_and_one_of_one_forgets_one_for_each_that_is_missing() {
        let mut none = StatementCache::new(0);
        none.keep(&prepared_text("a", "ks"));
        assert!(none.is_empty());
        let mut one = StatementCache::new(1);
        for text in ["a", "b", "a", "b"] {
            assert_eq!(texts(&mut one, &[text]), [false]);
            one.keep(&prepared_text(text, "ks"));
            assert_eq!((texts(&mut one, &[text]), one.len()), (vec![true], 1));
        }
    }

    #[test]
    fn one_text_is_another_statement_in_another_keyspace() {
        let mut cache = StatementCache::new(10);
        cache.keep(&prepared_text("a", "ks"));
        let text = Arc::from("a");
        assert!(cache.find(Some(&Arc::from("other")), &text).is_none());
        assert!(cache.find(None, &text).is_none());
    }

    #[test]
    fn a_statement_of_no_use_any_more_is_not_found() {
        let mut cache = StatementCache::new(10);
        let statement = prepared_text("a", "ks");
        cache.keep(&statement);
        let other = prepared_body(b"id", &[("k", TEXT), ("v", INT)]);
        statement
            .preparation()
            .learn_prepared(&other)
            .expect_err("the markers changed");
        assert_eq!(texts(&mut cache, &["a"]), [false]);
        assert!(cache.is_empty());
    }
}
