//! Deadlines against a plain list that cannot be wrong, and waits against their bounds.

use messina_testkit::virtual_start;

use super::*;
use crate::seed::Seed;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn drain(wheel: &mut DeadlineWheel, now: Instant) -> Vec<u32> {
    let mut due: Vec<u32> = std::iter::from_fn(|| wheel.pop_due(now)).collect();
    due.sort_unstable();
    due
}

#[test]
fn a_deadline_fires_at_its_time_and_once() {
    let t0 = virtual_start();
    let mut wheel = DeadlineWheel::new(t0);
    wheel.set(3, t0 + ms(30_000));
    assert_eq!(drain(&mut wheel, t0 + ms(29_999)), [0_u32; 0]);
    assert_eq!(drain(&mut wheel, t0 + ms(30_000)), [3]);
    assert_eq!(drain(&mut wheel, t0 + ms(90_000)), [0_u32; 0]);
    assert!(wheel.is_empty());
    assert_eq!(wheel.next_due(), None);
}

#[test]
fn a_deadline_between_two_milliseconds_does_not_fire_early() {
    let t0 = virtual_start();
    let mut wheel = DeadlineWheel::new(t0);
    wheel.set(0, t0 + Duration::from_micros(1_500));
    assert_eq!(
        drain(&mut wheel, t0 + Duration::from_micros(1_999)),
        [0_u32; 0]
    );
    assert_eq!(wheel.next_due(), Some(t0 + ms(2)));
    assert_eq!(drain(&mut wheel, t0 + ms(2)), [0]);
}

#[test]
fn a_deadline_in_the_past_fires_at_the_next_chance() {
    let t0 = virtual_start();
    let mut wheel = DeadlineWheel::new(t0);
    wheel.set(9, t0 + ms(5_000));
    assert_eq!(drain(&mut wheel, t0 + ms(4_000)), [0_u32; 0]);
    wheel.set(1, t0 + ms(10));
    assert!(wheel.next_due().unwrap() <= t0 + ms(4_000));
    assert_eq!(drain(&mut wheel, t0 + ms(4_000)), [1]);
}

#[test]
fn a_cleared_deadline_does_not_fire_and_asks_for_no_wake() {
    let t0 = virtual_start();
    let mut wheel = DeadlineWheel::new(t0);
    wheel.set(0, t0 + ms(100));
    wheel.clear(0);
    wheel.clear(0);
    wheel.clear(77);
    assert_eq!(wheel.len(), 0);
    assert_eq!(wheel.next_due(), None);
    assert_eq!(drain(&mut wheel, t0 + ms(1_000)), [0_u32; 0]);
}

#[test]
fn a_key_reused_with_later_deadlines_keeps_one_entry() {
    let t0 = virtual_start();
    let mut wheel = DeadlineWheel::new(t0);
    for step in 0..100_000 {
        wheel.set(0, t0 + ms(step) + ms(30_000));
        assert_eq!(wheel.pop_due(t0 + ms(step)), None);
        wheel.clear(0);
    }
    assert_eq!(wheel.nodes.len(), 1);
    wheel.set(0, t0 + ms(200_000));
    assert_eq!(drain(&mut wheel, t0 + ms(199_999)), [0_u32; 0]);
    assert_eq!(drain(&mut wheel, t0 + ms(200_000)), [0]);
}

#[test]
fn a_deadline_moved_earlier_fires_at_the_earlier_time() {
    let t0 = virtual_start();
    let mut wheel = DeadlineWheel::new(t0);
    wheel.set(0, t0 + ms(50_000));
    wheel.set(1, t0 + ms(50_000));
    wheel.set(0, t0 + ms(7));
    assert_eq!(drain(&mut wheel, t0 + ms(7)), [0]);
    assert_eq!(drain(&mut wheel, t0 + ms(50_000)), [1]);
}

#[test]
fn a_deadline_centuries_away_is_kept_without_firing() {
    let t0 = virtual_start();
    let mut wheel = DeadlineWheel::new(t0);
    let century = Duration::from_secs(100 * 365 * 24 * 3600);
    wheel.set(0, t0 + century);
    let mut now = t0;
    for _ in 0..200 {
        now += Duration::from_secs(180 * 24 * 3600);
        let fired = wheel.pop_due(now).is_some();
        assert_eq!(fired, t0 + century <= now, "after {:?}", now - t0);
        if fired {
            return;
        }
    }
}

#[test]
fn random_deadlines_fire_as_a_plain_list_says() {
    let t0 = virtual_start();
    let mut random = Seed::from_u64(11).random();
    let mut wheel = DeadlineWheel::new(t0);
    let mut list: Vec<Option<u64>> = vec![None; 64];
    let mut now = 0_u64;
    for _ in 0..200_000 {
        let key = random.index(64);
        match random.below(8) {
            0..=3 => {
                let magnitude = random.below(22);
                let at = now + random.below(1 << magnitude);
                wheel.set(u32::try_from(key).unwrap(), t0 + ms(at));
                list[key] = Some(at);
            }
            4 => {
                wheel.clear(u32::try_from(key).unwrap());
                list[key] = None;
            }
            _ => {
                let magnitude = random.below(14);
                now += random.below(1 << magnitude);
                let mut due = Vec::new();
                for (key, at) in list.iter_mut().enumerate() {
                    if at.is_some_and(|at| at <= now) {
                        *at = None;
                        due.push(u32::try_from(key).unwrap());
                    }
                }
                assert_eq!(drain(&mut wheel, t0 + ms(now)), due);
            }
        }
        let earliest = list.iter().flatten().min();
        assert_eq!(wheel.len(), list.iter().flatten().count());
        match (wheel.next_due(), earliest) {
            (Some(next), Some(earliest)) => assert!(next <= t0 + ms((*earliest).max(now))),
            (next, earliest) => assert!(next.is_none() && earliest.is_none()),
        }
    }
}

#[test]
fn a_timer_that_follows_the_wheel_wakes_rarely() {
    let t0 = virtual_start();
    let mut wheel = DeadlineWheel::new(t0);
    wheel.set(0, t0 + ms(30_000));
    let mut wakes = 0;
    while let Some(next) = wheel.next_due() {
        wakes += 1;
        wheel.pop_due(next);
    }
    assert!(wakes <= 4, "{wakes}");
}

#[test]
fn a_wheel_without_deadlines_gives_its_memory_back() {
    let t0 = virtual_start();
    let mut wheel = DeadlineWheel::new(t0);
    wheel.set(5, t0 + ms(10));
    wheel.shrink();
    assert_eq!(wheel.len(), 1);
    wheel.clear(5);
    wheel.shrink();
    assert_eq!(wheel.nodes.capacity() + wheel.levels.capacity(), 0);
    wheel.set(2, t0 + ms(20));
    assert_eq!(drain(&mut wheel, t0 + ms(20)), [2]);
}

#[test]
fn waits_double_up_to_their_limit_and_start_anew() {
    let mut random = Seed::from_u64(1).random();
    let mut backoff = Backoff::new(ms(1_000), ms(60_000));
    let waits: Vec<u128> = (0..100)
        .map(|_| backoff.next(&mut random).as_millis())
        .collect();
    assert!((850..=1_150).contains(&waits[0]));
    assert!((1_700..=2_300).contains(&waits[1]));
    assert!((6_800..=9_200).contains(&waits[3]));
    assert!(
        waits[10..]
            .iter()
            .all(|wait| (51_000..=60_000).contains(wait))
    );
    assert_eq!(backoff.failures(), 100);
    backoff.reset();
    assert!(backoff.next(&mut random) <= ms(1_150));
}
