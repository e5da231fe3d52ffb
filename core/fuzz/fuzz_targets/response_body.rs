//! Feeds libFuzzer's inputs to `messina_fuzz::response_body`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| messina_fuzz::response_body(data));
