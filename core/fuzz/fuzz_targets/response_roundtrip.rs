//! Feeds libFuzzer's inputs to `messina_fuzz::response_roundtrip`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| messina_fuzz::response_roundtrip(data));
