//! Feeds libFuzzer's inputs to `messina_fuzz::request_roundtrip`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| messina_fuzz::request_roundtrip(data));
