//! Messina, a ScyllaDB and Cassandra driver, on async-std.
