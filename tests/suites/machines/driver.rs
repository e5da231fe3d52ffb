//! The driver for loops of one's own against the simulated cluster: every kind of request, and what can happen to one.

mod requests;
mod trouble;
mod world;
