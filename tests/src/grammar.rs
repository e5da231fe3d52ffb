#![doc = include_str!("grammar.md")]

#[cfg(test)]
mod tests;
