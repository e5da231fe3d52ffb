//! A simulated ScyllaDB cluster for tests: in memory or on loopback sockets.
