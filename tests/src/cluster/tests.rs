//! Conversations with a cluster at the level of frames.
