//! What stands between a statement and its running: too few replicas, no time, a partition that is used too often.

use messina_core::wire::consistency::Consistency;

use crate::cluster::{Cluster, ConnectionId};
use crate::node::cql::executor::{Plan, PlanKind};
use crate::node::cql::terms::Bound;
use crate::node::rate_limit::refusal;
use crate::node::schema::Table;
use crate::node::{CqlError, CqlErrorDetail, availability};

impl Cluster {
    /// Refuses statements that cannot run now; those of a batch come together.
    pub(super) fn check_limits(
        &mut self,
        id: ConnectionId,
        statements: &[(&Plan, &[Bound])],
        consistency: Consistency,
        now: i64,
    ) -> Result<(), CqlError> {
        for (plan, values) in statements {
            self.check_available(id, plan, values, consistency, now)?;
            if self.database.is_timed_out(plan, values, now)? {
                return Err(self.timed_out(id, plan, consistency));
            }
        }
        self.check_rates(id, statements, now)
    }

    fn check_available(
        &self,
        id: ConnectionId,
        plan: &Plan,
        values: &[Bound],
        consistency: Consistency,
        now: i64,
    ) -> Result<(), CqlError> {
        let Some(table) = plan.tables.first() else {
            return Ok(());
        };
        let Ok(keyspace) = self.database.schema.keyspace(&table.keyspace) else {
            return Ok(());
        };
        if keyspace.is_system {
            return Ok(());
        }
        let token = || self.database.first_token(plan, values, now);
        let coordinator = self.coordinator(id);
        availability::check(&self.nodes, coordinator, keyspace, token, consistency)
    }

    fn check_rates(
        &mut self,
        id: ConnectionId,
        statements: &[(&Plan, &[Bound])],
        now: i64,
    ) -> Result<(), CqlError> {
        let connection = self.connections.get(&id);
        let code = connection.and_then(|connection| connection.features.rate_limit_error);
        for (plan, values) in statements {
            for found in self.database.limited_uses(plan, values, now) {
                let token = found.place.token;
                let (table, operation) = (&found.table, found.operation);
                if self.rates.admit(table, operation, found.place, now) {
                    continue;
                }
                // A coordinator that is a replica counts itself; others hear it from the replicas.
                let is_replica =
                    self.database
                        .schema
                        .keyspace(&table.keyspace)
                        .is_ok_and(|keyspace| {
                            let coordinator = self.coordinator(id);
                            availability::is_replica(&self.nodes, coordinator, keyspace, token)
                        });
                return Err(refusal(table, operation, is_replica, code));
            }
        }
        Ok(())
    }

    fn coordinator(&self, id: ConnectionId) -> usize {
        self.connections
            .get(&id)
            .map_or(0, |connection| connection.node)
    }

    /// The error of a statement that gave itself no time.
    fn timed_out(&self, id: ConnectionId, plan: &Plan, consistency: Consistency) -> CqlError {
        if let PlanKind::Truncate(..) = plan.kind {
            return CqlError::new(CqlError::TRUNCATE, "Error during truncate: timeout");
        }
        let table = plan.tables.first();
        let required = table.map_or(1, |table| self.required(id, table, consistency));
        let write_type = match &plan.kind {
            PlanKind::Select(_) => None,
            PlanKind::Batch(..) => Some("BATCH"),
            _ if plan.conditional => Some("CAS"),
            _ if table.is_some_and(|table| table.is_counter()) => Some("COUNTER"),
            _ => Some("SIMPLE"),
        };
        let (code, detail) = match write_type {
            None => {
                let detail = CqlErrorDetail::ReadTimeout {
                    consistency: consistency.code(),
                    required,
                };
                (CqlError::READ_TIMEOUT, detail)
            }
            Some(write_type) => {
                let detail = CqlErrorDetail::WriteTimeout {
                    consistency: consistency.code(),
                    required,
                    write_type,
                };
                (CqlError::WRITE_TIMEOUT, detail)
            }
        };
        let name = table.map_or_else(String::new, |t| format!("{}.{}", t.keyspace, t.name));
        CqlError {
            code,
            message: format!(
                "Operation timed out for {name} - received only 0 responses from {required} CL={}.",
                consistency.name()
            ),
            detail,
        }
    }

    fn required(&self, id: ConnectionId, table: &Table, consistency: Consistency) -> i32 {
        let Ok(keyspace) = self.database.schema.keyspace(&table.keyspace) else {
            return 1;
        };
        let coordinator = self.nodes.get(self.coordinator(id));
        availability::required(coordinator, keyspace, consistency)
    }
}
