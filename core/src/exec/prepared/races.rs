//! Every order in which requests, a repeated PREPARE and changes of a table can meet on one prepared statement.
//!
//! A small server knows which version of the table it has; each version has one column more and an id of its own.

use std::sync::Arc;

use super::*;
use crate::exec::fixtures::*;
use crate::exec::prepared::tests::{relearn, with_cell};
use crate::exec::result::QueryResult;
use crate::wire::response::ResponseFrame;

const NAMES: [(&str, u16); 4] = [("a", INT), ("b", INT), ("c", INT), ("d", INT)];

/// Who does something next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    /// An execution, by its number: it is built, then answered by the server, then read.
    Execution(usize),
    /// A PREPARE of the same text: answered by the server, then learned from.
    Prepare,
    /// A change of the table.
    Alter,
}

/// An execution on its way.
#[derive(Clone, Debug, Default)]
struct Flight {
    shape: Option<Arc<ResultShape>>,
    answer: Option<(ResponseFrame, usize)>,
}

struct World {
    statement: PreparedStatement,
    /// The version of the table, which is the number of its columns.
    version: usize,
    flights: [Flight; 2],
    prepared: Option<usize>,
    /// Whether the server that prepares again knows ids.
    with_ids: bool,
}

fn id_of(version: usize) -> Vec<u8> {
    format!("h{version}").into_bytes()
}

impl World {
    fn new(with_ids: bool) -> Self {
        Self {
            statement: with_cell(&NAMES[..1], Some(&id_of(1))),
            version: 1,
            flights: [Flight::default(), Flight::default()],
            prepared: None,
            with_ids,
        }
    }

    fn act(&mut self, actor: Actor) {
        match actor {
            Actor::Alter => self.version += 1,
            Actor::Prepare => match self.prepared.take() {
                None => self.prepared = Some(self.version),
                Some(version) => self.learn_prepared(version),
            },
            Actor::Execution(at) => {
                let flight = std::mem::take(&mut self.flights[at]);
                self.flights[at] = match flight {
                    Flight { shape: None, .. } => Flight {
                        shape: Some(self.statement.shape()),
                        answer: None,
                    },
                    Flight {
                        shape: Some(shape),
                        answer: None,
                    } => {
                        let answer = self.serve(&shape);
                        Flight {
                            shape: Some(shape),
                            answer: Some((answer, self.version)),
                        }
                    }
                    Flight {
                        shape: Some(shape),
                        answer: Some((frame, version)),
                    } => {
                        self.read(&shape, &frame, version);
                        Flight::default()
                    }
                };
            }
        }
        self.check_pair();
    }

    /// Answers as a server with metadata ids does.
    fn serve(&self, shape: &ResultShape) -> ResponseFrame {
        let features = ProtocolFeatures {
            metadata_id: true,
            ..ProtocolFeatures::default()
        };
        let announced = shape.announce(&features);
        let columns = &NAMES[..self.version];
        let count = i32::try_from(columns.len()).expect("few");
        let row: Vec<i32> = (1..=count).collect();
        let own = id_of(self.version);
        let body = match announced.id {
            Some(id) if id == own && announced.skip_metadata => {
                Body::default().int(2).int(4).int(count)
            }
            Some(id) if id == own => Body::default().int(2).int(1).int(count).columns(columns),
            _ => Body::default()
                .int(2)
                .int(9)
                .int(count)
                .short_bytes(&own)
                .columns(columns),
        };
        cells(body, &[&row])
    }

    fn read(&self, shape: &Arc<ResultShape>, frame: &ResponseFrame, version: usize) {
        let features = ProtocolFeatures {
            metadata_id: true,
            ..ProtocolFeatures::default()
        };
        let announced = Some((&**self.statement.preparation(), shape));
        let result = QueryResult::parse(frame, &features, announced, None).expect("rows");
        let names: Vec<&str> = result
            .columns()
            .iter()
            .map(|column| &*column.name)
            .collect();
        let own: Vec<&str> = NAMES[..version].iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names, own,
            "rows are read by the columns of the version they were made by"
        );
    }

    fn learn_prepared(&self, version: usize) {
        let id = id_of(version);
        let id = self.with_ids.then_some(&id[..]);
        relearn(&self.statement, &NAMES[..version], id);
    }

    /// Columns and id always belong together.
    fn check_pair(&self) {
        let shape = self.statement.shape();
        let columns = shape.columns().map_or(0, |columns| columns.len());
        if let Some(id) = shape.metadata_id() {
            assert_eq!(
                **id,
                *id_of(columns),
                "an id beside columns of another version"
            );
        }
        assert!((1..=self.version).contains(&columns));
    }

    /// Two more executions on a quiet server end with columns that need not be sent any more.
    fn settle(&mut self) {
        for _ in 0..6 {
            self.act(Actor::Execution(0));
        }
        let shape = self.statement.shape();
        assert_eq!(
            shape.metadata_id().map(|id| id.to_vec()),
            Some(id_of(self.version))
        );
        assert_eq!(
            shape.columns().map(|columns| columns.len()),
            Some(self.version)
        );
    }
}

/// Runs `check` with every order of steps in which each actor's own steps keep theirs.
fn each_order(
    left: &mut Vec<(Actor, usize)>,
    so_far: &mut Vec<Actor>,
    check: &mut impl FnMut(&[Actor]),
) {
    let mut ended = true;
    for at in 0..left.len() {
        let (actor, steps) = left[at];
        if steps == 0 {
            continue;
        }
        ended = false;
        left[at].1 -= 1;
        so_far.push(actor);
        each_order(left, so_far, check);
        so_far.pop();
        left[at].1 += 1;
    }
    if ended {
        check(so_far);
    }
}

fn run(with_ids: bool, actors: &[(Actor, usize)]) -> usize {
    let mut orders = 0;
    each_order(&mut actors.to_vec(), &mut Vec::new(), &mut |order| {
        let mut world = World::new(with_ids);
        order.iter().for_each(|actor| world.act(*actor));
        world.settle();
        orders += 1;
    });
    orders
}

#[test]
fn two_executions_around_a_change_are_each_read_by_their_own_columns_in_every_order() {
    let actors = [
        (Actor::Execution(0), 3),
        (Actor::Execution(1), 3),
        (Actor::Alter, 2),
    ];
    assert_eq!(run(true, &actors), 560);
}

#[test]
fn a_repeated_prepare_beside_executions_leaves_one_whole_pair_in_every_order() {
    for with_ids in [true, false] {
        let actors = [
            (Actor::Execution(0), 3),
            (Actor::Execution(1), 3),
            (Actor::Prepare, 2),
            (Actor::Alter, 2),
        ];
        assert_eq!(run(with_ids, &actors), 25_200);
    }
}

#[test]
fn an_execution_that_waits_keeps_the_pair_it_was_built_with() {
    let mut world = World::new(true);
    // Built, then overtaken by a change, an execution that learns of it, and a repeated PREPARE; then encoded twice.
    world.act(Actor::Execution(0));
    world.act(Actor::Alter);
    (0..3).for_each(|_| world.act(Actor::Execution(1)));
    (0..2).for_each(|_| world.act(Actor::Prepare));
    let built = world.flights[0].shape.clone().expect("it was built");
    let features = ProtocolFeatures {
        metadata_id: true,
        ..ProtocolFeatures::default()
    };
    for _attempt in 0..2 {
        let announced = built.announce(&features);
        assert_eq!(
            (announced.id, announced.skip_metadata),
            (Some(&b"h1"[..]), true)
        );
        let answer = world.serve(&built);
        world.read(&built, &answer, 2);
        world.check_pair();
    }
}
