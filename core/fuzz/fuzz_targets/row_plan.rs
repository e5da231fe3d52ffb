//! Feeds libFuzzer's inputs to `messina_fuzz::row_plan`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| messina_fuzz::row_plan(data));
