//! Owns replication strategies: how they are read from a keyspace's options and which nodes they choose on a ring.
//! Tablets are not its matter; they list their replicas themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::snapshot::{Host, HostIdx};

/// The place of a strategy's replica lists in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlacementIdx(pub u16);

/// How a keyspace places its replicas.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// The next distinct nodes of the ring.
    Simple {
        /// How many replicas.
        factor: u32,
    },
    /// A number of replicas in each datacenter, spread over racks; in order of name.
    NetworkTopology {
        /// The datacenters with replicas.
        factors: Vec<(Arc<str>, u32)>,
    },
    /// Each node holds data of its own; nothing to route.
    Local,
    /// Every node holds all data.
    Everywhere,
    /// A strategy or options we do not know: only the owner on the ring is assumed to hold data.
    Other {
        /// The class as the server names it.
        class: Arc<str>,
    },
}

impl Strategy {
    /// Reads the `replication` options of a keyspace; whatever makes no sense becomes [`Strategy::Other`].
    pub fn from_options<'a>(options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut class = "";
        let mut rest = Vec::new();
        for (name, value) in options {
            match name {
                "class" => class = value,
                _ => rest.push((name, value)),
            }
        }
        let other = || Self::Other {
            class: class.into(),
        };
        match class
            .strip_prefix("org.apache.cassandra.locator.")
            .unwrap_or(class)
        {
            "SimpleStrategy" => {
                let factor = rest.iter().find(|(name, _)| *name == "replication_factor");
                factor
                    .and_then(|(_, text)| factor_of(text))
                    .map_or_else(other, |factor| Self::Simple { factor })
            }
            "NetworkTopologyStrategy" => network(&rest).unwrap_or_else(other),
            "LocalStrategy" => Self::Local,
            "EverywhereStrategy" => Self::Everywhere,
            _ => other(),
        }
    }
}

fn network(options: &[(&str, &str)]) -> Option<Strategy> {
    let mut factors = Vec::new();
    for (datacenter, text) in options {
        // The servers expand this option when a keyspace is made; left over, it says nothing about a datacenter.
        if *datacenter != "replication_factor" {
            factors.push((Arc::from(*datacenter), factor_of(text)?));
        }
    }
    if factors.is_empty() {
        return None;
    }
    factors.sort();
    factors.dedup_by(|later, first| later.0 == first.0);
    Some(Strategy::NetworkTopology { factors })
}

/// Reads `n`, or `n/m` where `m` of the `n` replicas are transient.
fn factor_of(text: &str) -> Option<u32> {
    match text.split_once('/') {
        None => text.parse().ok(),
        Some((all, transient)) => {
            let (all, transient): (u32, u32) = (all.parse().ok()?, transient.parse().ok()?);
            (transient <= all).then_some(all)
        }
    }
}

/// The replica lists of one strategy on one ring.
///
/// Equal lists are kept once. Cloning copies no list.
#[derive(Clone, Debug)]
pub struct Placement {
    strategy: Strategy,
    lists: Lists,
}

#[derive(Clone, Debug)]
enum Lists {
    /// Nobody can be named.
    None,
    /// The owner of the token alone; needs no list.
    Owner,
    /// The same nodes for each token.
    Same(Arc<[HostIdx]>),
    /// By ring position, the number of a list; by that number, where the list starts in `flat`.
    Each {
        numbers: Arc<[u32]>,
        starts: Arc<[u32]>,
        flat: Arc<[HostIdx]>,
    },
}

impl Placement {
    /// Computes the replicas of every position of the ring whose owners are given in ring order.
    #[must_use]
    pub fn new(strategy: Strategy, owners: &[HostIdx], hosts: &[Host]) -> Self {
        let lists = match &strategy {
            Strategy::Local | Strategy::Simple { factor: 0 } => Lists::None,
            Strategy::Other { .. } | Strategy::Simple { factor: 1 } => Lists::Owner,
            Strategy::Everywhere => Lists::Same(distinct(owners, hosts.len()).into()),
            Strategy::Simple { factor } => Walk::simple(*factor, owners, hosts).lists(),
            Strategy::NetworkTopology { factors } => Walk::network(factors, owners, hosts).lists(),
        };
        Self { strategy, lists }
    }

    /// The strategy the lists follow.
    #[must_use]
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// The replicas of a ring position.
    #[inline]
    #[must_use]
    pub fn replicas<'a>(&'a self, position: usize, owners: &'a [HostIdx]) -> &'a [HostIdx] {
        let found = match &self.lists {
            Lists::None => None,
            Lists::Owner => owners.get(position..=position),
            Lists::Same(all) => Some(&all[..]),
            Lists::Each {
                numbers,
                starts,
                flat,
            } => numbers.get(position).and_then(|number| {
                let number = usize::try_from(*number).ok()?;
                let from = usize::try_from(*starts.get(number)?).ok()?;
                let to = usize::try_from(*starts.get(number + 1)?).ok()?;
                flat.get(from..to)
            }),
        };
        found.unwrap_or(&[])
    }

    /// How many bytes the lists occupy.
    #[must_use]
    pub fn size(&self) -> usize {
        match &self.lists {
            Lists::None | Lists::Owner => 0,
            Lists::Same(all) => size_of_val::<[_]>(all),
            Lists::Each {
                numbers,
                starts,
                flat,
            } => {
                size_of_val::<[_]>(numbers) + size_of_val::<[_]>(starts) + size_of_val::<[_]>(flat)
            }
        }
    }
}

/// Each node once, in the order of its first token.
fn distinct(owners: &[HostIdx], hosts: usize) -> Vec<HostIdx> {
    let mut seen = vec![false; hosts];
    let first = |host: &&HostIdx| {
        seen.get_mut(host.at())
            .is_some_and(|seen| !std::mem::replace(seen, true))
    };
    owners.iter().filter(first).copied().collect()
}

/// A walk over the ring from its end to its start.
///
/// Each group of nodes is a chain ordered by the node's next token seen from the current position. Stepping back
/// one position moves one node to the head of its chain, so the distinct nodes in ring order are always at hand
/// and a position costs as many steps as nodes are looked at, however many tokens they have.
struct Walk<'a> {
    owners: &'a [HostIdx],
    groups: Vec<Group>,
    /// By host: its group, if it takes part.
    members: Vec<Option<usize>>,
    /// By host: a number for its rack, unique in its group.
    racks: Vec<u32>,
    /// By host: the neighbours in its chain.
    links: Vec<(Option<HostIdx>, Option<HostIdx>)>,
    /// By host: the position of its next token, counted over two rounds.
    next_at: Vec<usize>,
}

struct Group {
    head: Option<HostIdx>,
    /// How many replicas to take.
    take: u32,
    /// How many of them may be in a rack that was taken already; unbounded where racks do not matter.
    repeats: u32,
    racks: usize,
}

impl<'a> Walk<'a> {
    fn simple(factor: u32, owners: &'a [HostIdx], hosts: &[Host]) -> Self {
        let mut walk = Self::empty(owners, hosts.len());
        let nodes = distinct(owners, hosts.len());
        for host in &nodes {
            walk.join(*host, 0, 0);
        }
        walk.groups.push(Group {
            head: None,
            take: factor.min(count(nodes.len())),
            repeats: u32::MAX,
            racks: 1,
        });
        walk
    }

    fn network(factors: &[(Arc<str>, u32)], owners: &'a [HostIdx], hosts: &[Host]) -> Self {
        let mut walk = Self::empty(owners, hosts.len());
        let nodes = distinct(owners, hosts.len());
        for (number, (datacenter, factor)) in factors.iter().enumerate() {
            let mut racks: Vec<Option<&str>> = Vec::new();
            let mut members = 0;
            for idx in &nodes {
                let Some(host) = hosts.get(idx.at()) else {
                    continue;
                };
                if host.datacenter.as_deref() != Some(datacenter) {
                    continue;
                }
                let rack = host.rack.as_deref();
                let known = racks.iter().position(|known| *known == rack);
                let at = known.unwrap_or_else(|| {
                    racks.push(rack);
                    racks.len() - 1
                });
                walk.join(*idx, number, count(at));
                members += 1;
            }
            let repeats = factor.saturating_sub(count(racks.len()));
            walk.groups.push(Group {
                head: None,
                take: (*factor).min(members),
                repeats,
                racks: racks.len(),
            });
        }
        walk
    }

    fn empty(owners: &'a [HostIdx], hosts: usize) -> Self {
        Self {
            owners,
            groups: Vec::new(),
            members: vec![None; hosts],
            racks: vec![0; hosts],
            links: vec![(None, None); hosts],
            next_at: vec![usize::MAX; hosts],
        }
    }

    fn join(&mut self, host: HostIdx, group: usize, rack: u32) {
        self.members[host.at()] = Some(group);
        self.racks[host.at()] = rack;
    }

    fn lists(mut self) -> Lists {
        let positions = self.owners.len();
        // One round fills the chains, so that the nodes past the end of the ring are known at its last position.
        for position in (0..positions).rev() {
            self.step(position, positions + position);
        }
        let mut pool = Interner::default();
        let mut numbers = vec![0; positions];
        let mut taken = Vec::new();
        let mut seen = Vec::new();
        for position in (0..positions).rev() {
            self.step(position, position);
            taken.clear();
            for group in 0..self.groups.len() {
                self.take(group, &mut taken, &mut seen);
            }
            taken.sort_unstable_by_key(|host| self.next_at[host.at()]);
            numbers[position] = pool.number(&taken);
        }
        pool.lists(numbers)
    }

    /// Moves the owner of `position` to the head of its chain.
    fn step(&mut self, position: usize, at: usize) {
        let host = self.owners[position];
        let Some(group) = self.members.get(host.at()).copied().flatten() else {
            return;
        };
        self.next_at[host.at()] = at;
        let head = self.groups[group].head;
        if head == Some(host) {
            return;
        }
        let (before, after) = self.links[host.at()];
        if let Some(before) = before {
            self.links[before.at()].1 = after;
        }
        if let Some(after) = after {
            self.links[after.at()].0 = before;
        }
        if let Some(head) = head {
            self.links[head.at()].0 = Some(host);
        }
        self.links[host.at()] = (None, head);
        self.groups[group].head = Some(host);
    }

    /// Takes the replicas of one group in ring order: a new rack always, a known rack while repeats are left.
    fn take(&self, group: usize, taken: &mut Vec<HostIdx>, seen: &mut Vec<bool>) {
        let group = &self.groups[group];
        let (mut left, mut repeats) = (group.take, group.repeats);
        seen.clear();
        seen.resize(group.racks, false);
        let mut next = group.head;
        while let Some(host) = next
            && 0 < left
        {
            next = self.links[host.at()].1;
            let rack = usize::try_from(self.racks[host.at()]).unwrap_or(0);
            if seen[rack] {
                if repeats == 0 {
                    continue;
                }
                repeats -= 1;
            }
            seen[rack] = true;
            left -= 1;
            taken.push(host);
        }
    }
}

/// Keeps each distinct list once.
#[derive(Default)]
struct Interner {
    known: BTreeMap<Box<[HostIdx]>, u32>,
    starts: Vec<u32>,
    flat: Vec<HostIdx>,
}

impl Interner {
    fn number(&mut self, list: &[HostIdx]) -> u32 {
        if let Some(number) = self.known.get(list) {
            return *number;
        }
        let number = count(self.known.len());
        self.known.insert(list.into(), number);
        self.starts.push(count(self.flat.len()));
        self.flat.extend_from_slice(list);
        number
    }

    fn lists(mut self, numbers: Vec<u32>) -> Lists {
        self.starts.push(count(self.flat.len()));
        Lists::Each {
            numbers: numbers.into(),
            starts: self.starts.into(),
            flat: self.flat.into(),
        }
    }
}

/// Lists of a ring stay far below four billion entries; a longer one would be cut, never wrap.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
