//! Feeds libFuzzer's inputs to `messina_fuzz::segment_stream`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| messina_fuzz::segment_stream(data));
