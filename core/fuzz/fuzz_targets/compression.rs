//! Feeds libFuzzer's inputs to `messina_fuzz::compression`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| messina_fuzz::compression(data));
