//! Owns what routing needs of the schema: the replication of keyspaces, the names and partitioners of tables.
//! Columns and types are not read here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fetch::SchemaRows;
use crate::routing::{
    Partitioner, Placement, PlacementIdx, Routing, Strategy, TableIdx, TableRouting,
};

/// Which part of the schema has to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Scope {
    #[default]
    Nothing,
    /// These keyspaces, no more than [`KEYSPACES_MAX`].
    Keyspaces(BTreeSet<String>),
    All,
}

impl Scope {
    /// Adds a keyspace; beyond a few of them everything is read, so that any number of events costs the same.
    pub(super) fn add(&mut self, keyspace: &str) {
        match self {
            Self::All => (),
            Self::Nothing if keyspace.len() <= KEYSPACE_LEN_MAX => {
                *self = Self::Keyspaces(BTreeSet::from([keyspace.into()]));
            }
            Self::Keyspaces(known) if known.contains(keyspace) => (),
            Self::Keyspaces(known)
                if known.len() < KEYSPACES_MAX && keyspace.len() <= KEYSPACE_LEN_MAX =>
            {
                known.insert(keyspace.into());
            }
            Self::Nothing | Self::Keyspaces(_) => *self = Self::All,
        }
    }

    /// Adds all of another scope.
    pub(super) fn merge(&mut self, other: Self) {
        match other {
            Self::Nothing => (),
            Self::All => *self = Self::All,
            Self::Keyspaces(names) => names.iter().for_each(|name| self.add(name)),
        }
    }

    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
}

/// Reading a few keyspaces one by one is cheaper than reading all; of more of them it is not.
const KEYSPACES_MAX: usize = 4;
/// Servers accept 48 bytes; a longer name in an event is garbage and not worth keeping.
const KEYSPACE_LEN_MAX: usize = 48;

/// The schema as far as routing needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct Schema {
    keyspaces: BTreeMap<Arc<str>, Strategy>,
    /// Every table of the session's life, by index.
    tables: Vec<TableRouting>,
    by_name: BTreeMap<(Arc<str>, Arc<str>), TableIdx>,
    /// By index: whether the table exists now.
    alive: Vec<bool>,
}

impl Schema {
    /// Takes over what was read of a scope; what is in the scope and was not read does not exist any more.
    pub(super) fn apply(&mut self, scope: &Scope, rows: SchemaRows, default: Partitioner) {
        let inside = |keyspace: &str| match scope {
            Scope::Nothing => false,
            Scope::Keyspaces(names) => names.contains(keyspace),
            Scope::All => true,
        };
        self.keyspaces.retain(|name, _| !inside(name));
        self.keyspaces
            .extend(rows.keyspaces.into_iter().filter(|(name, _)| inside(name)));
        for (table, alive) in self.tables.iter().zip(&mut self.alive) {
            *alive &= !inside(&table.keyspace);
        }
        let own: BTreeMap<(&str, &str), &str> = rows
            .partitioners
            .iter()
            .map(|(keyspace, name, class)| ((&**keyspace, &**name), &**class))
            .collect();
        for (keyspace, name) in &rows.tables {
            if inside(keyspace) {
                let class = own.get(&(&**keyspace, &**name));
                let partitioner =
                    class.map_or(default, |class| Partitioner::from_class_name(class));
                self.put(keyspace, name, partitioner);
            }
        }
        self.place();
    }

    fn put(&mut self, keyspace: &Arc<str>, name: &Arc<str>, partitioner: Partitioner) {
        let key = (Arc::clone(keyspace), Arc::clone(name));
        let known = self
            .by_name
            .get(&key)
            .and_then(|idx| usize::try_from(idx.0).ok());
        if let Some(at) = known {
            if let (Some(table), Some(alive)) = (self.tables.get_mut(at), self.alive.get_mut(at)) {
                table.partitioner = partitioner;
                *alive = true;
            }
            return;
        }
        let Ok(idx) = u32::try_from(self.tables.len()).map(TableIdx) else {
            return;
        };
        let table = TableRouting {
            keyspace: Arc::clone(keyspace),
            name: Arc::clone(name),
            partitioner,
            placement: None,
        };
        self.tables.push(table);
        self.alive.push(true);
        self.by_name.insert(key, idx);
    }

    /// Gives each table the place of its keyspace's strategy in [`strategies`](Self::strategies).
    fn place(&mut self) {
        let strategies = self.strategies();
        for (table, alive) in self.tables.iter_mut().zip(&self.alive) {
            let strategy = self.keyspaces.get(&table.keyspace).filter(|_| *alive);
            let at = strategy.and_then(|strategy| strategies.binary_search(strategy).ok());
            table.placement = at.and_then(|at| u16::try_from(at).ok()).map(PlacementIdx);
        }
    }

    /// Whether a snapshot says of the schema what this does.
    pub(super) fn is_shown_by<H>(&self, routing: &Routing<H>) -> bool {
        let shown = routing.ring.placements().iter().map(Placement::strategy);
        let distinct: BTreeSet<&Strategy> = self.keyspaces.values().collect();
        *self.tables == *routing.tables && distinct.into_iter().eq(shown)
    }

    /// The distinct strategies in order.
    pub(super) fn strategies(&self) -> Vec<Strategy> {
        let distinct: BTreeSet<&Strategy> = self.keyspaces.values().collect();
        distinct.into_iter().cloned().collect()
    }

    pub(super) fn tables(&self) -> Arc<[TableRouting]> {
        self.tables.clone().into()
    }

    /// The indexes of the tables by keyspace and name.
    pub(super) fn order(&self) -> Arc<[TableIdx]> {
        self.by_name.values().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simple(factor: u32) -> Strategy {
        Strategy::Simple { factor }
    }

    fn rows(keyspaces: &[(&str, u32)], tables: &[(&str, &str)]) -> SchemaRows {
        SchemaRows {
            keyspaces: keyspaces
                .iter()
                .map(|(name, factor)| (Arc::from(*name), simple(*factor)))
                .collect(),
            tables: tables
                .iter()
                .map(|(keyspace, name)| (Arc::from(*keyspace), Arc::from(*name)))
                .collect(),
            partitioners: Vec::new(),
        }
    }

    fn apply(schema: &mut Schema, scope: &Scope, rows: SchemaRows) {
        schema.apply(scope, rows, Partitioner::Murmur3);
    }

    fn factor(schema: &Schema, table: usize) -> Option<Strategy> {
        let placement = schema.tables[table].placement?;
        schema.strategies().get(usize::from(placement.0)).cloned()
    }

    fn only(keyspace: &str) -> Scope {
        let mut scope = Scope::Nothing;
        scope.add(keyspace);
        scope
    }

    #[test]
    fn a_table_keeps_its_index_when_it_is_dropped_and_made_again() {
        let mut schema = Schema::default();
        apply(
            &mut schema,
            &Scope::All,
            rows(&[("a", 1)], &[("a", "t"), ("a", "u")]),
        );
        apply(&mut schema, &Scope::All, rows(&[("a", 1)], &[("a", "u")]));
        assert_eq!(factor(&schema, 0), None);
        assert_eq!(factor(&schema, 1), Some(simple(1)));
        apply(
            &mut schema,
            &Scope::All,
            rows(&[("a", 2)], &[("a", "new"), ("a", "t"), ("a", "u")]),
        );
        assert_eq!(factor(&schema, 0), Some(simple(2)));
        assert_eq!(&*schema.tables[2].name, "new");
    }

    #[test]
    fn reading_one_keyspace_leaves_the_others_alone() {
        let mut schema = Schema::default();
        apply(
            &mut schema,
            &Scope::All,
            rows(&[("a", 1), ("b", 2)], &[("a", "t"), ("b", "t")]),
        );
        apply(
            &mut schema,
            &only("a"),
            rows(&[("a", 3)], &[("a", "t"), ("b", "stray")]),
        );
        assert_eq!(factor(&schema, 0), Some(simple(3)));
        assert_eq!(factor(&schema, 1), Some(simple(2)));
        assert_eq!(schema.tables.len(), 2);
        apply(&mut schema, &only("b"), rows(&[], &[]));
        assert_eq!(factor(&schema, 1), None);
        assert_eq!(factor(&schema, 0), Some(simple(3)));
    }

    #[test]
    fn names_are_matched_in_exact_case() {
        let mut schema = Schema::default();
        apply(
            &mut schema,
            &Scope::All,
            rows(&[("MyKs", 1), ("myks", 2)], &[("MyKs", "t"), ("myks", "t")]),
        );
        apply(&mut schema, &only("myks"), rows(&[], &[]));
        assert_eq!(factor(&schema, 0), Some(simple(1)));
        assert_eq!(factor(&schema, 1), None);
    }

    #[test]
    fn a_table_may_have_a_partitioner_of_its_own() {
        let mut schema = Schema::default();
        let mut rows = rows(&[("a", 1)], &[("a", "t"), ("a", "log")]);
        rows.partitioners.push((
            "a".into(),
            "log".into(),
            "com.scylladb.dht.CDCPartitioner".into(),
        ));
        apply(&mut schema, &Scope::All, rows);
        assert_eq!(schema.tables[0].partitioner, Partitioner::Murmur3);
        assert_eq!(schema.tables[1].partitioner, Partitioner::Cdc);
    }

    #[test]
    fn many_dirty_keyspaces_become_everything() {
        let mut scope = Scope::Nothing;
        for at in 0..4 {
            scope.add(&format!("k{at}"));
            scope.add(&format!("k{at}"));
        }
        assert!(matches!(&scope, Scope::Keyspaces(names) if names.len() == 4));
        scope.add("k4");
        assert_eq!(scope, Scope::All);
        scope.add("k5");
        assert_eq!(scope, Scope::All);
        assert_eq!(only(&"x".repeat(49)), Scope::All);
    }

    #[test]
    fn tables_are_ordered_by_keyspace_and_name() {
        let mut schema = Schema::default();
        apply(
            &mut schema,
            &Scope::All,
            rows(&[("b", 1)], &[("b", "z"), ("b", "a"), ("a", "z")]),
        );
        assert_eq!(schema.order()[..], [TableIdx(2), TableIdx(1), TableIdx(0)]);
    }
}
