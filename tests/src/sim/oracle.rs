//! What the workload asked for and what it was told, and whether the data of the nodes agrees.
//! It knows no connection and no node: a few maps and the rules between them.

use std::collections::BTreeMap;

/// What a client was told about a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It is done.
    Done,
    /// It never left the client.
    NotSent,
    /// It failed, or the client did not wait for the answer: it may be done or not.
    Unknown,
}

/// Everything that was asked and told.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// Rows that are written again and again, each by one writer.
    registers: BTreeMap<i32, Register>,
    /// Rows that are written once.
    marks: BTreeMap<i32, Option<Told>>,
    /// Counters that are raised once.
    tallies: BTreeMap<i32, Option<Told>>,
    /// Rows that go to the first who asks.
    locks: BTreeMap<i32, Lock>,
    next_key: i32,
}

#[derive(Debug, Default)]
struct Register {
    told: BTreeMap<u64, Option<Told>>,
}

#[derive(Debug, Default)]
struct Lock {
    askers: Vec<u64>,
    owner: Option<u64>,
}

impl Oracle {
    /// A key that nobody has had before.
    pub(super) fn fresh_key(&mut self) -> i32 {
        self.next_key += 1;
        self.next_key
    }

    pub(super) fn begin_register(&mut self, key: i32) -> u64 {
        let told = &mut self.registers.entry(key).or_default().told;
        let number = told.last_key_value().map_or(1, |(last, _)| last + 1);
        told.insert(number, None);
        number
    }

    pub(super) fn end_register(&mut self, key: i32, number: u64, told: Told) {
        if let Some(register) = self.registers.get_mut(&key) {
            register.told.insert(number, Some(told));
        }
    }

    /// The last write of a row that is known to be done; a read that starts now must see it or a later one.
    pub(super) fn done(&self, key: i32) -> u64 {
        let told = self.registers.get(&key).into_iter();
        told.flat_map(|register| register.told.iter())
            .filter(|(_, told)| **told == Some(Told::Done))
            .map(|(number, _)| *number)
            .next_back()
            .unwrap_or(0)
    }

    /// Checks what a read gave that started when `done` was the last write known to be done.
    pub(super) fn check_register(
        &self,
        key: i32,
        done: u64,
        read: Option<(i32, &str)>,
    ) -> Result<(), String> {
        let Some((row_key, value)) = read else {
            return match done {
                0 => Ok(()),
                _ => Err(format!(
                    "row {key} is missing, write {done} was acknowledged"
                )),
            };
        };
        let wrong = || format!("the answer to a read of row {key} is row {row_key} with {value:?}");
        let (value_key, number) = parse_value(value).ok_or_else(wrong)?;
        if row_key != key || value_key != key {
            return Err(wrong());
        }
        let told = self
            .registers
            .get(&key)
            .and_then(|register| register.told.get(&number));
        match told {
            None => Err(format!(
                "row {key} has write {number}, which was never asked for"
            )),
            Some(Some(Told::NotSent)) => Err(format!(
                "row {key} has write {number}, which was reported as not sent"
            )),
            Some(_) if number < done => Err(format!(
                "row {key} has write {number}, but the later write {done} was acknowledged"
            )),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn begin_mark(&mut self) -> i32 {
        let key = self.fresh_key();
        self.marks.insert(key, None);
        key
    }

    pub(super) fn end_mark(&mut self, key: i32, told: Told) {
        self.marks.insert(key, Some(told));
    }

    pub(super) fn begin_tally(&mut self) -> i32 {
        let key = self.fresh_key();
        self.tallies.insert(key, None);
        key
    }

    pub(super) fn end_tally(&mut self, key: i32, told: Told) {
        self.tallies.insert(key, Some(told));
    }

    pub(super) fn ask_lock(&mut self, key: i32) -> u64 {
        let lock = self.locks.entry(key).or_default();
        let asker = u64::try_from(lock.askers.len()).unwrap_or(u64::MAX) + 1;
        lock.askers.push(asker);
        asker
    }

    /// Takes note of who was told to have a row.
    pub(super) fn own_lock(&mut self, key: i32, asker: u64) -> Result<(), String> {
        let lock = self.locks.entry(key).or_default();
        match lock.owner.replace(asker) {
            Some(other) if other != asker => {
                Err(format!("lock {key} was given to {other} and to {asker}"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn register_keys(&self) -> Vec<i32> {
        self.registers.keys().copied().collect()
    }

    /// Compares with the rows of the nodes once nothing is on its way any more.
    pub(super) fn check_stored(&self, stored: &Stored) -> Vec<String> {
        let mut broken = Vec::new();
        for key in self.registers.keys() {
            let row = stored
                .registers
                .get(key)
                .map(|value| (*key, value.as_str()));
            if let Err(what) = self.check_register(*key, self.done(*key), row) {
                broken.push(format!("in the nodes, {what}"));
            }
        }
        for (key, told) in &self.marks {
            let there = stored.marks.get(key);
            match (told, there) {
                (Some(Told::Done), None) => {
                    broken.push(format!("the acknowledged write {key} is lost"));
                }
                (Some(Told::NotSent), Some(_)) => {
                    broken.push(format!("write {key} is done but was reported as not sent"));
                }
                (_, Some(value)) if parse_value(value) != Some((*key, 1)) => {
                    broken.push(format!("write {key} left {value:?}"));
                }
                _ => {}
            }
        }
        for (key, told) in &self.tallies {
            let times = stored.tallies.get(key).copied().unwrap_or(0);
            match (told, times) {
                (_, 2..) => broken.push(format!(
                    "the write {key} that must not be repeated was done {times} times"
                )),
                (Some(Told::Done), 0) => {
                    broken.push(format!("the acknowledged addition {key} is lost"));
                }
                (Some(Told::NotSent), 1) => {
                    broken.push(format!(
                        "addition {key} is done but was reported as not sent"
                    ));
                }
                _ => {}
            }
        }
        for (key, lock) in &self.locks {
            let owner = stored.locks.get(key);
            let owner = owner
                .and_then(|value| parse_value(value))
                .map(|(_, asker)| asker);
            if lock.owner.is_some() && lock.owner != owner {
                broken.push(format!(
                    "lock {key} was given to {:?}, but the nodes say {owner:?}",
                    lock.owner
                ));
            }
        }
        broken
    }
}

/// What the nodes have.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) registers: BTreeMap<i32, String>,
    pub(super) marks: BTreeMap<i32, String>,
    pub(super) tallies: BTreeMap<i32, i64>,
    pub(super) locks: BTreeMap<i32, String>,
}

/// The value of a write: it says of which row it is, and which of its writes.
pub(super) fn value_of(key: i32, number: u64) -> String {
    format!("{key}:{number}")
}

fn parse_value(value: &str) -> Option<(i32, u64)> {
    let (key, number) = value.split_once(':')?;
    Some((key.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(told: &[Told]) -> Oracle {
        let mut oracle = Oracle::default();
        for told in told {
            let number = oracle.begin_register(7);
            oracle.end_register(7, number, *told);
        }
        oracle
    }

    #[test]
    fn a_read_gives_the_last_acknowledged_write_or_a_later_one() {
        let oracle = written(&[Told::Done, Told::Done, Told::Unknown]);
        assert_eq!(oracle.done(7), 2);
        let read = |value: &str| oracle.check_register(7, 2, Some((7, value)));
        assert_eq!(read("7:2"), Ok(()));
        assert_eq!(read("7:3"), Ok(()));
        assert!(read("7:1").is_err(), "an acknowledged write is lost");
        assert!(read("7:4").is_err(), "nobody wrote this");
        assert!(read("8:2").is_err(), "this is another row's");
        assert!(oracle.check_register(7, 2, Some((8, "7:2"))).is_err());
        assert!(oracle.check_register(7, 2, None).is_err());
        assert!(oracle.check_register(9, 0, None).is_ok());
    }

    #[test]
    fn a_write_that_was_not_sent_is_never_read() {
        let oracle = written(&[Told::Done, Told::NotSent]);
        assert!(oracle.check_register(7, 1, Some((7, "7:2"))).is_err());
        assert_eq!(oracle.check_register(7, 1, Some((7, "7:1"))), Ok(()));
    }

    #[test]
    fn what_the_nodes_have_is_compared_with_what_clients_were_told() {
        let mut oracle = Oracle::default();
        let keys: Vec<i32> = [Told::Done, Told::NotSent, Told::Unknown]
            .into_iter()
            .map(|told| {
                let key = oracle.begin_mark();
                oracle.end_mark(key, told);
                key
            })
            .collect();
        let mut stored = Stored::default();
        stored.marks.insert(keys[0], value_of(keys[0], 1));
        assert_eq!(oracle.check_stored(&stored), Vec::<String>::new());
        stored.marks.insert(keys[2], value_of(keys[2], 1));
        assert_eq!(oracle.check_stored(&stored), Vec::<String>::new());
        stored.marks.insert(keys[1], value_of(keys[1], 1));
        assert_eq!(oracle.check_stored(&stored).len(), 1, "not sent, but there");
        stored.marks.clear();
        assert_eq!(oracle.check_stored(&stored).len(), 1, "done, but not there");
    }

    #[test]
    fn an_addition_is_done_once_at_most() {
        let mut oracle = Oracle::default();
        let (done, unknown) = (oracle.begin_tally(), oracle.begin_tally());
        oracle.end_tally(done, Told::Done);
        oracle.end_tally(unknown, Told::Unknown);
        let mut stored = Stored::default();
        stored.tallies.insert(done, 1);
        assert_eq!(oracle.check_stored(&stored), Vec::<String>::new());
        stored.tallies.insert(unknown, 2);
        assert_eq!(oracle.check_stored(&stored).len(), 1);
        stored.tallies.clear();
        assert_eq!(oracle.check_stored(&stored).len(), 1);
    }

    #[test]
    fn a_lock_has_one_owner() {
        let mut oracle = Oracle::default();
        let (first, second) = (oracle.ask_lock(-1), oracle.ask_lock(-1));
        assert_eq!(oracle.own_lock(-1, first), Ok(()));
        let mut stored = Stored::default();
        stored.locks.insert(-1, value_of(-1, first));
        assert_eq!(oracle.check_stored(&stored), Vec::<String>::new());
        stored.locks.insert(-1, value_of(-1, second));
        assert_eq!(oracle.check_stored(&stored).len(), 1);
        assert!(oracle.own_lock(-1, second).is_err());
    }
}
