//! Feeds libFuzzer's inputs to `messina_fuzz::control_plane`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| messina_fuzz::control_plane(data));
