//! The cassandra suite.
