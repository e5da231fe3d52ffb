//! Feeds libFuzzer's inputs to `messina_fuzz::handshake`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| messina_fuzz::handshake(data));
