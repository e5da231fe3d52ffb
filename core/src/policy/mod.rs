//! Policies: pure functions that choose, order and judge. They keep no state and do nothing themselves; machines
//! carry out what they answer.
//!
//! A policy of the application's own is known to servers by a name alone, which is that of its type unless it says
//! otherwise; see [`driver_config`](crate::report::driver_config).

pub mod address;
pub mod auth;
pub mod explain;
pub mod host_filter;
pub mod latency;
pub mod load_balancing;
pub mod reconnect;
pub mod retry;
pub mod speculative;
pub mod timestamp;

/// Cuts the modules and the type's own parameters off the path of a type; leaves other names as they are.
pub(crate) fn short_type_name(path: &str) -> &str {
    if !path.contains("::") {
        return path;
    }
    let path = path.split_once('<').map_or(path, |(path, _)| path);
    path.rsplit_once("::").map_or(path, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::short_type_name;

    #[test]
    fn a_type_is_named_without_its_modules_and_parameters() {
        for (path, name) in [
            ("a::b::Policy<c::D>", "Policy"),
            ("a::Policy<c::D<e::F>, g::H>", "Policy"),
            ("Policy<c::D>", "Policy"),
            ("Policy", "Policy"),
            ("by load: near < far", "by load: near < far"),
            ("", ""),
            ("a::", ""),
        ] {
            assert_eq!(short_type_name(path), name, "{path}");
        }
    }
}
