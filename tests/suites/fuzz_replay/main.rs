//! Hostile bytes: the seed corpus and more than a million seeded mutations of valid frames through the fuzz entry
//! points, with a bound on what each input may make this process hold, and conversations cut at every byte.

mod alloc;
mod corpus;
mod cuts;
mod machines;
mod mutate;
mod mutations;
mod runner;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;
