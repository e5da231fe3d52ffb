//! A histogram of how long answers took, and the pause before a copy that is taken from it.
//!
//! Many tasks write into it at once, each with a few atomic additions. It leaves out the clock: its users measure.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Counts durations in buckets that are at most a sixteenth wider than the durations in them.
///
/// Old samples fade: whenever [`FADE_AFTER`] samples have come together, all counts are halved. Concurrent writers may
/// lose a sample to that now and then, which no percentile shows.
#[derive(Debug)]
pub struct LatencyHistogram {
    counts: Box<[AtomicU32]>,
    total: AtomicU32,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// Makes an empty histogram: about two kilobytes.
    pub fn new() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU32::new(0)).collect(),
            total: AtomicU32::new(0),
        }
    }

    /// Adds a sample; what is longer than about nineteen hours counts as that.
    pub fn record(&self, sample: Duration) {
        let micros = u64::try_from(sample.as_micros()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get(bucket_of(micros)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let total = self.total.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if total == FADE_AFTER {
            self.fade();
        }
    }

    /// Returns how many samples there are, faded ones left out.
    pub fn samples(&self) -> u32 {
        self.total.load(Ordering::Relaxed)
    }

    /// Returns the duration that `percent` of the samples do not exceed; none without samples.
    ///
    /// It is never shorter than the true one, and at most a sixteenth longer. Zero and less ask for the shortest
    /// sample, a hundred and more for the longest.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        let counts = || {
            self.counts
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
        };
        let total: u64 = counts().map(u64::from).sum();
        let last = total.checked_sub(1)?;
        let rank = rank_of(percent, total).min(last);
        let mut seen = 0;
        let found = counts().position(|count| {
            seen += u64::from(count);
            rank < seen
        });
        found.map(|bucket| Duration::from_micros(last_of(bucket)))
    }

    fn fade(&self) {
        let mut left = 0_u32;
        for count in &self.counts {
            let halved = count.load(Ordering::Relaxed) / 2;
            count.store(halved, Ordering::Relaxed);
            left = left.saturating_add(halved);
        }
        self.total.store(left, Ordering::Relaxed);
    }
}

/// Finds how many samples lie before the one that is asked for.
fn rank_of(percent: f64, total: u64) -> u64 {
    // Parts of a million are exact enough for `99.9999`, and integers have no odd values.
    let parts = (percent.clamp(0.0, 100.0) * 10_000.0).round();
    // A number that is none is taken for zero; no other one is out of range here.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0..=1,000,000 above"
    )]
    let parts = parts as u64;
    let behind = u128::from(total) * u128::from(parts);
    u64::try_from(behind.div_ceil(1_000_000))
        .unwrap_or(u64::MAX)
        .saturating_sub(1)
}

/// Finds the bucket of a number of microseconds: one for each below sixteen, then sixteen for each power of two.
fn bucket_of(micros: u64) -> usize {
    let Some(exponent) = micros.checked_ilog2().filter(|exponent| 4 <= *exponent) else {
        return usize::try_from(micros).unwrap_or(0);
    };
    let step = (micros >> (exponent - 4)) & 15;
    let bucket = u64::from(exponent - 3) * 16 + step;
    usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// Returns the largest number of microseconds of a bucket.
fn last_of(bucket: usize) -> u64 {
    let bucket = u64::try_from(bucket).unwrap_or(0);
    let (octave, step) = (bucket / 16, bucket % 16);
    match octave.checked_sub(1) {
        None => bucket,
        Some(shift) => ((17 + step) << shift) - 1,
    }
}

/// Sixteen buckets for each power of two up to about nineteen hours in microseconds.
const BUCKETS: usize = 16 * 33;

/// How many samples come together before old ones fade: a few seconds of a busy session.
pub const FADE_AFTER: u32 = 20_000;

/// Takes the pause before a copy from how long requests of the same profile took.
///
/// Put it into one profile, or into several whose requests are alike.
#[derive(Debug)]
pub struct LatencyPause {
    percent: f64,
    copies_max: u8,
    histogram: LatencyHistogram,
    /// The current pause in microseconds; zero while there is none.
    pause: AtomicU64,
}

impl LatencyPause {
    /// Sends a copy when a request takes longer than `percent` of those before it, up to `copies_max` copies.
    ///
    /// 99 sends about one copy for a hundred requests. No copy is sent before a hundred requests were seen.
    pub fn new(percent: f64, copies_max: u8) -> Self {
        Self {
            percent,
            copies_max,
            histogram: LatencyHistogram::new(),
            pause: AtomicU64::new(0),
        }
    }

    /// Returns the percentile that was asked for.
    pub const fn percent(&self) -> f64 {
        self.percent
    }

    /// Returns how many copies there are at most.
    pub const fn copies_max(&self) -> u8 {
        self.copies_max
    }

    /// Returns the samples.
    pub const fn histogram(&self) -> &LatencyHistogram {
        &self.histogram
    }

    /// Takes note of how long a request took.
    pub fn record(&self, sample: Duration) {
        self.histogram.record(sample);
        let samples = self.histogram.samples();
        // A walk over the buckets is too long for each request and short beside that many.
        if samples == SAMPLES_MIN
            || samples.is_multiple_of(SAMPLES_BETWEEN) && SAMPLES_MIN < samples
        {
            let pause = self.histogram.percentile(self.percent).unwrap_or_default();
            let micros = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
            self.pause.store(micros.max(1), Ordering::Relaxed);
        }
    }

    /// Returns the pause before a copy; none until enough was seen.
    pub fn pause(&self) -> Option<Duration> {
        let micros = self.pause.load(Ordering::Relaxed);
        (0 < micros).then(|| Duration::from_micros(micros))
    }
}

/// How many samples a percentile needs to mean anything.
const SAMPLES_MIN: u32 = 100;
/// After how many samples the pause is taken anew.
const SAMPLES_BETWEEN: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(duration: Option<Duration>) -> f64 {
        duration.expect("samples").as_secs_f64() * 1_000.0
    }

    fn of_millis(samples: impl IntoIterator<Item = u64>) -> LatencyHistogram {
        let histogram = LatencyHistogram::new();
        let samples = samples.into_iter().map(Duration::from_millis);
        samples.for_each(|sample| histogram.record(sample));
        histogram
    }

    #[test]
    fn percentiles_are_durations_close_to_the_true_ones() {
        let histogram = of_millis(1..=100);
        for (percent, expected) in [
            (50.0, 50.0),
            (99.0, 99.0),
            (100.0, 100.0),
            (1.0, 1.0),
            (0.0, 1.0),
        ] {
            let found = millis(histogram.percentile(percent));
            assert!(
                expected <= found && found < expected * 1.07,
                "{percent}: {found}"
            );
        }
    }

    #[test]
    fn percentiles_out_of_range_are_the_nearest_ones_and_nothing_has_none() {
        let histogram = of_millis(1..=100);
        for (odd, sane) in [
            (150.0, 100.0),
            (-3.0, 0.0),
            (f64::NAN, 0.0),
            (f64::INFINITY, 100.0),
        ] {
            assert_eq!(
                histogram.percentile(odd),
                histogram.percentile(sane),
                "{odd}"
            );
        }
        assert_eq!(LatencyHistogram::new().percentile(50.0), None);
    }

    #[test]
    fn every_duration_lies_in_a_bucket_that_is_hardly_wider() {
        let powers = (0..37_u32).map(|exponent| 1_u64 << exponent);
        for micros in powers.flat_map(|power| [power - 1, power, power + power / 3]) {
            let last = last_of(bucket_of(micros));
            let known = micros < 1 << 36;
            assert!(
                !known || micros <= last && last <= micros + micros / 16,
                "{micros} {last}"
            );
        }
        LatencyHistogram::new().record(Duration::MAX);
    }

    #[test]
    fn samples_of_no_length_in_the_same_instant_do_no_harm() {
        let pause = LatencyPause::new(99.0, 1);
        (0..SAMPLES_MIN).for_each(|_| pause.record(Duration::ZERO));
        assert_eq!(pause.histogram().percentile(50.0), Some(Duration::ZERO));
        assert_eq!(
            pause.pause(),
            Some(Duration::from_micros(1)),
            "a pause of nothing would copy everything at once"
        );
    }

    #[test]
    fn old_samples_fade() {
        let histogram = LatencyHistogram::new();
        (0..FADE_AFTER).for_each(|_| histogram.record(Duration::from_millis(100)));
        assert_eq!(histogram.samples(), FADE_AFTER / 2);
        (0..FADE_AFTER * 3 / 2).for_each(|_| histogram.record(Duration::from_millis(1)));
        assert!(millis(histogram.percentile(75.0)) < 2.0, "{histogram:?}");
    }

    #[test]
    fn a_pause_follows_the_samples_once_there_are_enough() {
        let pause = LatencyPause::new(90.0, 1);
        (1..SAMPLES_MIN).for_each(|_| pause.record(Duration::from_millis(10)));
        assert_eq!(pause.pause(), None, "a few samples say nothing");
        pause.record(Duration::from_millis(10));
        assert!((10.0..11.0).contains(&millis(pause.pause())));
        (0..2_000).for_each(|_| pause.record(Duration::from_millis(40)));
        assert!((40.0..43.0).contains(&millis(pause.pause())));
    }
}
