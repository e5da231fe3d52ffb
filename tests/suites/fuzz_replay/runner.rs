//! Owns a run of a target: each input is measured, and told when it makes the target panic.

use crate::alloc::peak_of;

/// Bounds what an input may make the process hold: so many bytes, and so many more for each byte of the input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cap {
    pub(crate) base: usize,
    pub(crate) per_byte: usize,
}

/// Runs inputs of one target.
pub(crate) struct Runner {
    target: &'static str,
    cap: Cap,
    inputs: usize,
    /// The most that an input made the process hold, and its length.
    most: (usize, usize),
}

impl Runner {
    pub(crate) const fn new(target: &'static str, cap: Cap) -> Self {
        Self {
            target,
            cap,
            inputs: 0,
            most: (0, 0),
        }
    }

    /// Runs the target on an input.
    pub(crate) fn run<R>(&mut self, input: &[u8], target: impl FnOnce(&[u8]) -> R) -> R {
        let teller = Teller {
            target: self.target,
            input,
        };
        let (result, peak) = peak_of(|| target(input));
        let max = self.cap.base + self.cap.per_byte * input.len();
        assert!(peak <= max, "{peak} bytes were held, {max} may be");
        drop(teller);
        self.inputs += 1;
        self.most = self.most.max((peak, input.len()));
        result
    }

    pub(crate) const fn inputs(&self) -> usize {
        self.inputs
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let (peak, len) = self.most;
        println!(
            "{}: {} inputs, at most {peak} bytes held (for an input of {len})",
            self.target, self.inputs
        );
    }
}

/// Shows the input when the target panics.
struct Teller<'a> {
    target: &'static str,
    input: &'a [u8],
}

impl Drop for Teller<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self
                .input
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            println!("{} fails on this input: {hex}", self.target);
        }
    }
}
