//! What a planned statement uses before it runs: the time it gives itself, and the partitions it names.

use std::sync::Arc;

use messina_core::types::Value;
use messina_core::types::column_type::ColumnType;

use crate::node::CqlError;
use crate::node::rate_limit::Operation;
use crate::node::schema::Table;
use crate::node::store::PartitionPlace;

use super::ast::Term;
use super::executor::{Database, Plan, PlanKind};
use super::lookup::Lookup;
use super::modify::ModifyPlan;
use super::relations::Where;
use super::terms::{Bound, evaluate};

/// One partition that a statement reads or writes.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub(crate) table: Arc<Table>,
    pub(crate) operation: Operation,
    pub(crate) place: PartitionPlace,
}

const NANOS_PER_MILLI: i64 = 1_000_000;

impl Plan {
    /// What its USING TIMEOUT says.
    fn timeout(&self) -> Option<&Term> {
        match &self.kind {
            PlanKind::Select(select) => select.timeout.as_ref(),
            PlanKind::Modify(modify) => modify.timeout.as_ref(),
            PlanKind::Batch(_, using) => using.timeout.as_ref(),
            PlanKind::Truncate(_, timeout) => timeout.as_ref(),
            _ => None,
        }
    }
}

impl Database {
    /// Whether a statement gives itself no time at all.
    ///
    /// Errors: a time that is null, negative, or not whole milliseconds.
    pub(crate) fn is_timed_out(
        &self,
        plan: &Plan,
        values: &[Bound],
        now: i64,
    ) -> Result<bool, CqlError> {
        let Some(term) = plan.timeout() else {
            return Ok(false);
        };
        let env = self.env(values, now);
        let null = || CqlError::invalid("Timeout value cannot be null");
        let Bound::Value(bytes) = evaluate(term, "[timeout]", &ColumnType::Duration, &env)? else {
            return Err(null());
        };
        let Ok(Value::Duration(time)) = Value::decode(&ColumnType::Duration, Some(&bytes)) else {
            return Err(null());
        };
        if time.months != 0 || time.days != 0 {
            return Err(CqlError::invalid(
                "Timeout values cannot be expressed in days/months",
            ));
        }
        if time.nanos % NANOS_PER_MILLI != 0 {
            return Err(CqlError::invalid(
                "Timeout values cannot have granularity finer than milliseconds",
            ));
        }
        if time.nanos < 0 {
            return Err(CqlError::invalid("Timeout values must be non-negative"));
        }
        Ok(time.nanos == 0)
    }

    /// The token of the first partition that a statement names, if it names any.
    pub(crate) fn first_token(&self, plan: &Plan, values: &[Bound], now: i64) -> Option<i64> {
        let clause = match &plan.kind {
            PlanKind::Select(select) => &select.clause,
            PlanKind::Modify(modify) => &modify.clause,
            PlanKind::Batch(plans, _) => &plans.first()?.clause,
            _ => return None,
        };
        let places = self.places(clause, values, now);
        places.first().map(|place| place.token)
    }

    /// The partitions that a statement names one by one, of tables that limit how often that may be.
    ///
    /// Conditional statements are not limited.
    pub(crate) fn limited_uses(&self, plan: &Plan, values: &[Bound], now: i64) -> Vec<Use> {
        let (operation, clauses): (_, Vec<&Where>) = match &plan.kind {
            PlanKind::Select(select) => (Operation::Read, vec![&select.clause]),
            PlanKind::Modify(modify) => (Operation::Write, unconditional([&**modify])),
            PlanKind::Batch(plans, _) => (Operation::Write, unconditional(plans)),
            _ => return Vec::new(),
        };
        let limited = clauses
            .into_iter()
            .filter(|clause| clause.table.options.per_partition_rate_limit != <_>::default());
        let uses = limited.flat_map(|clause| {
            let places = self.places(clause, values, now).into_iter();
            places.map(|place| Use {
                table: clause.table.clone(),
                operation,
                place,
            })
        });
        uses.collect()
    }

    fn places(&self, clause: &Where, values: &[Bound], now: i64) -> Vec<PartitionPlace> {
        // What is wrong with the clause is told when the statement runs.
        let lookup = Lookup::new(clause, &self.env(values, now)).ok();
        let partitions = lookup.and_then(|lookup| lookup.partitions);
        let places = partitions.into_iter().flatten().map(|(place, _)| place);
        places.collect()
    }
}

fn unconditional<'a>(plans: impl IntoIterator<Item = &'a ModifyPlan>) -> Vec<&'a Where> {
    let plans: Vec<&ModifyPlan> = plans.into_iter().collect();
    if plans.iter().any(|plan| plan.is_conditional()) {
        return Vec::new();
    }
    plans.into_iter().map(|plan| &plan.clause).collect()
}
