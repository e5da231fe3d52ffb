//! Benches and budgets of Messina: the floor, the free peer, instruction counts.
