//! Feeds libFuzzer's inputs to `messina_fuzz::custom_type`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| messina_fuzz::custom_type(data));
