//! The recorded protocol vectors: values, types, frames, hashes and placement, checked against the codec and routing.
#![forbid(unsafe_code)]

mod compression;
mod connections;
mod files;
mod foreign;
mod formats;
mod frames;
mod murmur3;
mod replicas;
mod responses;
mod segments;
mod sharding;
mod types;
mod values;
mod vints;
