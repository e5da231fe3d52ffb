//! Messina, a ScyllaDB and Cassandra driver, on smol.
