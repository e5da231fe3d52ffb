//! Feeds libFuzzer's inputs to `messina_fuzz::value_decode`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| messina_fuzz::value_decode(data));
