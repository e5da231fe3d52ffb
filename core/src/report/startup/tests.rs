use super::*;
use crate::config::session::{ApplicationInfo, DriverInfo, SessionConfig};
use crate::report::driver_config::{DRIVER_CONFIG_LEN_MAX, NotReported};
use crate::seed::Seed;

fn session() -> SessionConfig {
    SessionConfig::new(&mut Seed::from_u64(1).random())
}

fn plan(session: &SessionConfig, role: Role) -> ConnectionPlan {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 9042));
    let mut plan = ConnectionPlan::new(address, Arc::new(session.clone()), Seed::from_u64(2));
    plan.role = role;
    plan
}

fn made_for(session: &SessionConfig, role: Role) -> StartupOptions {
    let plan = plan(session, role);
    startup_options(&plan, &Supported::default(), &ProtocolFeatures::default())
}

fn made(session: &SessionConfig) -> StartupOptions {
    made_for(session, Role::Data)
}

fn value<'a>(made: &'a StartupOptions, key: &str) -> Option<&'a str> {
    let mut values = made.options.iter().filter(|(name, _)| name == key);
    let value = values.next();
    assert!(values.next().is_none(), "{key} is there twice");
    value.map(|(_, value)| value.as_str())
}

fn keys(made: &StartupOptions) -> Vec<&str> {
    made.options.iter().map(|(key, _)| key.as_str()).collect()
}

#[test]
fn a_plain_session_tells_driver_language_and_session_id() {
    let session = session();
    let made = made(&session);
    assert_eq!(value(&made, "CQL_VERSION"), Some("3.0.0"));
    assert_eq!(
        value(&made, "DRIVER_NAME"),
        Some(session.driver.name.as_str())
    );
    assert_eq!(
        value(&made, "DRIVER_VERSION"),
        Some(session.driver.version.as_str())
    );
    let id = value(&made, "SESSION_ID").unwrap();
    assert_eq!(id, session.session_id.to_string());
    assert_eq!((id.len(), id.to_lowercase().as_str()), (36, id));
    assert_eq!(session.session_id.get_version_num(), 4);
    assert_eq!(made.options.len(), 4);
    assert!(made.notes.is_empty());
}

#[test]
fn only_control_connections_show_the_configuration_and_the_switch_takes_nothing_else() {
    let mut session = session();
    let control = made_for(&session, Role::Control);
    let document = value(&control, "DRIVER_CONFIG").expect("a document");
    assert_eq!(control.driver_config.as_deref(), Some(document));
    let data = made(&session);
    assert_eq!(
        (value(&data, "DRIVER_CONFIG"), &data.driver_config),
        (None, &None)
    );
    session.driver_config_reporting = false;
    let mut silent = made_for(&session, Role::Control);
    assert_eq!(
        (value(&silent, "DRIVER_CONFIG"), &silent.driver_config),
        (None, &None)
    );
    silent
        .options
        .push(("DRIVER_CONFIG".into(), document.to_owned()));
    let sorted = |mut options: Vec<(String, String)>| {
        options.sort();
        options
    };
    assert_eq!(sorted(silent.options), sorted(control.options.clone()));
    assert!(control.notes.is_empty() && silent.notes.is_empty());
}

#[test]
fn two_sessions_of_one_configuration_have_different_ids() {
    let mut random = Seed::from_u64(1).random();
    let (one, other) = (
        SessionConfig::new(&mut random),
        SessionConfig::new(&mut random),
    );
    assert_ne!(
        value(&made(&one), "SESSION_ID"),
        value(&made(&other), "SESSION_ID")
    );
}

#[test]
fn empty_and_unset_application_values_make_no_key() {
    let own = ["APPLICATION_NAME", "APPLICATION_VERSION", "CLIENT_ID"];
    // Each of the three has a value in its turn, while the others have none or an empty one.
    for (at, empty) in [0, 1, 2]
        .into_iter()
        .flat_map(|at| [(at, false), (at, true)])
    {
        let text = |own: usize| match (own == at, empty) {
            (true, _) => Some("app".to_owned()),
            (false, true) => Some(String::new()),
            (false, false) => None,
        };
        let mut session = session();
        session.application = ApplicationInfo {
            name: text(0),
            version: text(1),
            client_id: text(2),
        };
        let made = made(&session);
        let mut expected = [None; 3];
        expected[at] = Some("app");
        assert_eq!(own.map(|key| value(&made, key)), expected);
    }
}

#[test]
fn an_application_can_set_its_own_three_keys_and_no_other() {
    let mut session = session();
    let before = made_for(&session, Role::Control);
    let hostile = "x\0SESSION_ID\0DRIVER_CONFIG\u{202e}\u{1f980}";
    session.application = ApplicationInfo {
        name: Some(hostile.into()),
        version: Some(hostile.into()),
        client_id: Some(hostile.into()),
    };
    let made = made_for(&session, Role::Control);
    let own = ["APPLICATION_NAME", "APPLICATION_VERSION", "CLIENT_ID"];
    for key in keys(&before) {
        assert_eq!(value(&made, key), value(&before, key), "{key}");
    }
    for key in own {
        assert_eq!(value(&made, key), Some(hostile), "sent as it is");
    }
    assert_eq!(made.options.len(), before.options.len() + own.len());
}

#[test]
fn a_binding_can_put_its_own_name_in_place_of_the_drivers() {
    let mut session = session();
    session.driver = DriverInfo {
        name: "Messina for X".into(),
        version: "9".into(),
    };
    let made = made(&session);
    assert_eq!(value(&made, "DRIVER_NAME"), Some("Messina for X"));
    assert_eq!(value(&made, "DRIVER_VERSION"), Some("9"));
}

#[test]
fn a_value_that_the_wire_cannot_hold_is_left_out_with_a_note() {
    let mut session = session();
    session.application.name = Some("n".repeat(65_536));
    session.application.version = Some("v".repeat(65_535));
    let made = made(&session);
    assert_eq!(value(&made, "APPLICATION_NAME"), None);
    assert_eq!(
        value(&made, "APPLICATION_VERSION").map(str::len),
        Some(65_535)
    );
    assert!(matches!(
        made.notes[..],
        [Note::StartupOptionLeftOut {
            key: "APPLICATION_NAME",
            len: 65_536,
            len_max: 65_535,
        }]
    ));
}

#[test]
fn a_document_that_is_too_long_is_left_out_with_one_note_and_takes_nothing_with_it() {
    let mut session = session();
    session.local_datacenter = Some("\u{20ac}".repeat(12_000).into());
    let made = made_for(&session, Role::Control);
    let [Note::DriverConfigLeftOut(NotReported::TooLong { len })] = made.notes[..] else {
        panic!("{:?}", made.notes);
    };
    assert!(DRIVER_CONFIG_LEN_MAX.max(36_000) < len);
    let told = made.notes[0].to_string();
    assert!(
        told.contains(&len.to_string()) && told.contains("32768"),
        "{told}"
    );
    assert_eq!(
        keys(&made),
        ["SESSION_ID", "DRIVER_NAME", "DRIVER_VERSION", "CQL_VERSION"]
    );
}

#[test]
fn each_attempt_describes_its_own_node_at_its_own_time() {
    let mut session = session();
    let plan_one = plan(&session, Role::Control);
    let scylla = ProtocolFeatures {
        rate_limit_error: Some(0xf000),
        ..ProtocolFeatures::default()
    };
    let elsewhere = ProtocolFeatures::default();
    let on = |plan: &ConnectionPlan, features: &ProtocolFeatures| {
        let made = startup_options(plan, &Supported::default(), features);
        let id = value(&made, "SESSION_ID").map(str::to_owned);
        (made.driver_config.expect("a document"), id)
    };
    let (first, id) = on(&plan_one, &scylla);
    let (second, _) = on(&plan_one, &elsewhere);
    assert!(first.contains("server-side-ms") && !second.contains("server-side-ms"));
    session.profile.consistency = crate::wire::Consistency::One;
    let mut plan_two = plan(&session, Role::Control);
    plan_two.datacenter = Some("dc7".into());
    let (later, same_id) = on(&plan_two, &scylla);
    assert!(later.contains(r#""consistency":"ONE""#) && !first.contains(r#""ONE""#));
    assert!(later.contains(r#""local-dc":"dc7""#) && !first.contains("dc7"));
    assert_eq!(id, same_id);
}

#[test]
fn a_server_that_wants_to_hear_little_hears_what_the_protocol_needs() {
    let features = ProtocolFeatures {
        compression: Some(crate::wire::Compression::Lz4),
        ..ProtocolFeatures::default()
    };
    let made = bare_startup_options(&Supported::default(), &features);
    assert_eq!(keys(&made), ["CQL_VERSION", "COMPRESSION"]);
}
