use super::*;
use crate::config::profile::PageSize;
use crate::exec::fixtures::*;
use crate::exec::prepared::PreparedStatement;
use crate::exec::targets::Planned;
use crate::policy::load_balancing::{ClusterView, LoadBalancingPolicy};
use crate::policy::speculative::SpeculativePolicy;
use crate::types::column_type::ColumnType;
use crate::types::encode::{EncodedValues, RowWriter};
use crate::types::row::ToRow;
use crate::types::value::Value;
use crate::wire::consistency::{Consistency, SerialConsistency};
use crate::wire::header::ProtocolVersion;
use crate::wire::request::ExecuteLayout;
use crate::wire::result::ColumnSpec;

fn features(version: ProtocolVersion, metadata_id: bool, tablets_v2: bool) -> ProtocolFeatures {
    ProtocolFeatures {
        version,
        metadata_id,
        tablets_v2,
        ..ProtocolFeatures::default()
    }
}

fn defaults(features: ProtocolFeatures) -> Defaults {
    Defaults {
        profile: Arc::new(ExecutionProfile::default()),
        features,
    }
}

fn values(statement: &PreparedStatement) -> EncodedValues {
    let mut values = EncodedValues::new();
    statement
        .encode(&(7, "some text"), &mut values)
        .expect("they fit");
    values
}

/// What the general way writes for this statement, with this timestamp.
fn general(
    statement: &PreparedStatement,
    features: &ProtocolFeatures,
    profile: &ExecutionProfile,
    values: &EncodedValues,
    timestamp: i64,
) -> Vec<u8> {
    let options = statement.options();
    let settings = options.settle(virtual_start(), profile, || timestamp);
    let params = settings.params(settings.consistency, values.values(), None);
    let shape = statement.shape();
    let request = statement.execute(&shape, params, features);
    let mut out = vec![0xee];
    request
        .encode(&mut out, features, 0, &settings.request_options(options))
        .expect("a plain request");
    out
}

#[test]
fn the_short_way_writes_what_the_general_way_writes() {
    let two = [("a", INT), ("b", INT)];
    let bare = || prepared(b"sixteen bytes id", &two, None);
    let known = || prepared(b"sixteen bytes id", &two, Some(b"0123456789abcdef"));
    let statements: [fn(PreparedStatement) -> PreparedStatement; 6] = [
        |statement| statement,
        |statement| statement.consistency(Consistency::One),
        |statement| statement.serial_consistency(None).page_size(None),
        |statement| statement.page_size(PageSize::new(7)).tracing(true),
        |statement| statement.timestamp(-5).idempotent(true),
        |statement| statement.serial_consistency(SerialConsistency::Serial),
    ];
    let layouts = [
        features(ProtocolVersion::V4, false, false),
        features(ProtocolVersion::V4, true, false),
        features(ProtocolVersion::V4, true, true),
        features(ProtocolVersion::V4, false, true),
        features(ProtocolVersion::V5, true, false),
    ];
    for layout in layouts {
        for (number, change) in statements.iter().enumerate() {
            for statement in [bare(), known()] {
                let defaults = defaults(layout);
                let profile = Arc::clone(&defaults.profile);
                let statement = change(statement.with_defaults(defaults));
                let ready = statement.ready().expect("a plain statement");
                let timestamp = 0x0102_0304_0506_0708;
                let mut out = vec![0xee];
                ready
                    .template()
                    .write(&mut out, values(&statement).block(), timestamp);
                let values = values(&statement);
                let expected = general(&statement, &layout, &profile, &values, timestamp);
                assert_eq!(out, expected, "statement {number}, {layout:?}");
            }
        }
    }
}

#[test]
fn without_timestamps_of_the_client_none_is_written() {
    let profile = Arc::new(ExecutionProfile {
        client_timestamps: false,
        ..ExecutionProfile::default()
    });
    let features = ProtocolFeatures::default();
    let statement = prepared(b"id", &[], None).with_defaults(Defaults {
        profile: Arc::clone(&profile),
        features,
    });
    let ready = statement.ready().expect("a plain statement");
    assert!(!ready.template().is_stamped());
    let mut out = vec![0xee];
    let values = values(&statement);
    ready.template().write(&mut out, values.block(), 99);
    assert_eq!(out, general(&statement, &features, &profile, &values, 99));
}

#[test]
fn a_request_that_is_not_plain_is_put_together_one_by_one() {
    let plain = || prepared(b"id", &[], None).with_defaults(defaults(ProtocolFeatures::default()));
    assert!(plain().ready().is_some());
    assert!(plain().timestamp(5).ready().is_none());
    let payload = vec![("key".to_owned(), None)];
    assert!(plain().custom_payload(payload).ready().is_none());
    assert!(plain().target(place(1)).ready().is_none());
    let hasty = Arc::new(ExecutionProfile {
        speculative: SpeculativePolicy::Constant {
            copies_max: 1,
            delay: Duration::from_millis(1),
        },
        ..ExecutionProfile::default()
    });
    assert!(plain().profile(hasty).ready().is_none());
    let mut changed = plain();
    changed.options_mut().tracing = true;
    assert!(changed.ready().is_none(), "its options may be anything now");
    assert!(changed.tracing(true).ready().is_some());
    let long_id = prepared(&[7; 60], &[], None);
    let long_id = long_id.with_defaults(defaults(ProtocolFeatures::default()));
    assert!(long_id.ready().is_none());
}

#[test]
fn another_session_and_another_layout_are_told_apart() {
    let own = defaults(features(ProtocolVersion::V4, true, false));
    let profile = Arc::clone(&own.profile);
    let statement = prepared(b"id", &[], None).with_defaults(own);
    let ready = statement.ready().expect("a plain statement");
    assert!(ready.suits(&profile));
    assert!(!ready.suits(&Arc::new(ExecutionProfile::default())));
    let values = values(&statement);
    let fits = |features| ready.template().fits(ExecuteLayout::of(&features), &values);
    assert!(fits(features(ProtocolVersion::V4, true, false)));
    assert!(!fits(features(ProtocolVersion::V4, false, false)));
    assert!(!fits(features(ProtocolVersion::V4, true, true)));
    assert!(!fits(features(ProtocolVersion::V5, true, false)));
}

#[test]
fn values_that_lie_elsewhere_go_the_general_way() {
    let own = defaults(ProtocolFeatures::default());
    let layout = ExecuteLayout::of(&own.features);
    let statement = prepared(b"id", &[], None).with_defaults(own);
    let ready = statement.ready().expect("a plain statement");
    let columns = [ColumnType::Int, ColumnType::Blob].map(|ty| ColumnSpec {
        keyspace: "ks".into(),
        table: "t".into(),
        name: "b".into(),
        ty,
    });
    for (len, fits) in [(1024, true), (1025, false)] {
        let mut values = EncodedValues::new();
        let row = (7, bytes::Bytes::from(vec![1; len]));
        row.to_row(&columns, &mut RowWriter::new(&mut values))
            .expect("a blob");
        assert_eq!(ready.template().fits(layout, &values), fits, "{len} bytes");
    }
}

/// Values of a user's own, of which there can be fewer than the statement has markers.
struct First(usize);

impl ToRow for First {
    fn to_row(
        &self,
        columns: &[ColumnSpec],
        out: &mut RowWriter<'_>,
    ) -> Result<(), crate::error::value::EncodeError> {
        let some = columns.iter().take(self.0);
        some.zip([Value::Int(7), Value::Text("text".to_owned())])
            .try_for_each(|(column, value)| out.write(&column.ty, &value))
    }
}

#[test]
fn fewer_values_than_the_statement_has_markers_go_the_general_way() {
    let own = defaults(ProtocolFeatures::default());
    let (features, profile) = (own.features, Arc::clone(&own.profile));
    let statement = prepared(b"id", &[], None).with_defaults(own);
    let ready = statement.ready().expect("a plain statement");
    for count in 0..=2 {
        let mut values = EncodedValues::new();
        let written =
            First(count).to_row(statement.bind_columns(), &mut RowWriter::new(&mut values));
        written.expect("values of the right types");
        let general = general(&statement, &features, &profile, &values, 5);
        let mut short = vec![0xee];
        ready.template().write(&mut short, values.block(), 5);
        let fits = ready.template().fits(ExecuteLayout::of(&features), &values);
        assert_eq!(fits, count == 2, "{count} values");
        assert_eq!(fits, short == general, "{count} values");
    }
}

/// A policy of a user's own that claims to be the default one.
#[derive(Debug)]
struct Pretends(DefaultLoadBalancing);

impl LoadBalancingPolicy for Pretends {
    fn first(&self, _: &PlanRequest, _: &dyn ClusterView) -> Option<Planned> {
        Some(place(2))
    }

    fn rest(&self, _: &PlanRequest, _: &dyn ClusterView, _: &mut crate::exec::targets::Targets) {}

    fn name(&self) -> &str {
        self.0.name()
    }
}

#[test]
fn a_policy_of_ones_own_is_asked_whatever_it_calls_itself() {
    let profile = Arc::new(ExecutionProfile {
        load_balancing: Arc::new(Pretends(DefaultLoadBalancing::default())),
        ..ExecutionProfile::default()
    });
    let statement = prepared(b"id", &[], None).with_defaults(Defaults {
        profile,
        features: ProtocolFeatures::default(),
    });
    let ready = statement.ready().expect("a plain statement");
    let routing = routing(3, &[]);
    let request = PlanRequest {
        table: None,
        token: None,
        stable: false,
        seed: 1,
    };
    let target = ready.first_target(&request, &routing, &NoLoads);
    assert_eq!(target.expect("a target").host, place(2).host);
}

struct NoLoads;

impl crate::routing::Loads<u32> for NoLoads {
    fn in_flight(&self, _: &u32) -> u32 {
        0
    }
}

impl Connections<u32> for NoLoads {
    fn features(&self, _: &u32) -> ProtocolFeatures {
        ProtocolFeatures::default()
    }
}

#[test]
fn a_request_has_failed_when_the_time_of_its_statement_is_over() {
    let plain = prepared(b"id", &[], None).with_defaults(defaults(ProtocolFeatures::default()));
    let deadline = |statement: &PreparedStatement| {
        let ready = statement.ready().expect("a plain statement");
        let now = virtual_start();
        ready.deadline(now).map(|at| at - now)
    };
    assert_eq!(deadline(&plain), Some(Duration::from_secs(30)));
    let quick = plain.clone().timeout(Duration::from_millis(5));
    assert_eq!(deadline(&quick), Some(Duration::from_millis(5)));
    assert_eq!(deadline(&plain.timeout(None)), None);
}
