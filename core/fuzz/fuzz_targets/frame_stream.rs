//! Feeds libFuzzer's inputs to `messina_fuzz::frame_stream`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| messina_fuzz::frame_stream(data));
