//! The machines suite.
