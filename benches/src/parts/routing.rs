//! The way of one request from its token to a connection, and beside it a bare search in the same array of tokens.

use std::hint::black_box;
use std::sync::Arc;

use messina_core::policy::load_balancing::{
    DefaultLoadBalancing, LoadBalancingPolicy, PlanRequest, RoutingView,
};
use messina_core::routing::{Loads, Routing, TableIdx, Token, TokenHasher};

use super::plane::{Answers, World};

/// A snapshot of a pretended cluster, and a policy to route by.
#[derive(Debug)]
pub struct Map {
    routing: Arc<Routing<u32>>,
    policy: Arc<dyn LoadBalancingPolicy>,
    table: TableIdx,
    turn: i64,
}

/// Nobody waits for anything.
#[derive(Debug)]
struct Quiet;

impl Loads<u32> for Quiet {
    fn in_flight(&self, _: &u32) -> u32 {
        0
    }
}

impl Map {
    /// Connects a control plane to so many hosts, with so many tokens and shards each.
    pub fn new(hosts: u16, tokens: u16, shards: u16) -> Self {
        let world = World::new(Answers::new(hosts, tokens), shards);
        let routing = Arc::clone(world.routing());
        let table = routing.table_idx("bench", "kv").unwrap_or(TableIdx(0));
        Self {
            routing,
            policy: Arc::new(DefaultLoadBalancing::default()),
            table,
            turn: 0,
        }
    }

    /// How many tokens the ring has.
    pub fn tokens(&self) -> usize {
        self.routing.ring.tokens().len()
    }

    fn next_token(&mut self) -> Token {
        self.turn = self.turn.wrapping_add(0x9e37_79b9_7f4a_7c15_u64 as i64);
        Token(self.turn)
    }

    /// Hashes a key of eight bytes.
    pub fn hash(&mut self) -> Option<Token> {
        let key = self.next_token().0.to_be_bytes();
        let partitioner = self.routing.table(self.table)?.partitioner;
        let mut hasher = TokenHasher::new(partitioner, 1);
        hasher.part(&key).ok()?;
        hasher.finish()
    }

    /// Finds the connection for a token: replica, shard, connection.
    pub fn connection(&mut self, token: Token) -> Option<u32> {
        let request = PlanRequest {
            table: Some(self.table),
            token: Some(token),
            stable: false,
            seed: token.0 as u64,
        };
        let view = RoutingView::new(&self.routing, &Quiet);
        let planned = self.policy.first(&request, &view)?;
        let pool = self.routing.pool(planned.host)?;
        let connections = match planned.shard {
            Some(shard) => pool.on_shard(shard),
            None => pool.connections(),
        };
        connections.first().copied()
    }

    /// The whole way of one request: key, token, replica, shard, connection.
    pub fn route(&mut self) {
        let token = self.hash().unwrap_or(Token(0));
        black_box(self.connection(token));
    }

    /// The same from a token on.
    pub fn route_token(&mut self) {
        let token = self.next_token();
        black_box(self.connection(token));
    }

    /// Only looks for a token's replicas.
    pub fn replicas(&mut self) {
        let token = self.next_token();
        black_box(self.routing.replicas(self.table, token));
    }

    /// What no routing can avoid: a binary search in the array of tokens.
    pub fn search(&mut self) {
        let token = self.next_token();
        let tokens = self.routing.ring.tokens();
        black_box(tokens.partition_point(|own| *own < token));
    }
}
