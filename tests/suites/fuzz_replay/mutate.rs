//! Owns the mutations: what is done to a valid input, knowing where lengths and counts are likely to be.

use messina_fuzz::samples::Sample;

/// Draws numbers; the same seed draws the same ones.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).unwrap_or(u64::MAX);
        usize::try_from((self.roll() >> 16) % limit).unwrap_or(0)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.roll().to_be_bytes()[0]
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn choose<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }
}

/// Where a number lies that may be a length or a count.
#[derive(Clone, Copy, Debug)]
struct Field {
    at: usize,
    width: usize,
}

/// A valid input, and where its lengths are.
pub(crate) struct Seed {
    pub(crate) bytes: Vec<u8>,
    fields: Vec<Field>,
}

impl Seed {
    /// Looks for fields: numbers that, taken as a length, stay inside of the input.
    pub(crate) fn new(sample: &Sample, from: usize) -> Self {
        let bytes = sample.bytes.clone();
        let mut fields = Vec::new();
        for at in from..bytes.len() {
            for width in [2, 4] {
                let Some(number) = number_at(&bytes, at, width) else {
                    continue;
                };
                if 0 < number && number <= bytes.len() - at - width {
                    fields.push(Field { at, width });
                }
            }
        }
        Self { bytes, fields }
    }
}

fn number_at(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let field = bytes.get(at..at + width)?;
    Some(
        field
            .iter()
            .fold(0, |number, byte| number << 8 | usize::from(*byte)),
    )
}

/// Mutates the input of one seed behind `from`, once to three times; another seed is at hand to be spliced in.
pub(crate) fn mutate(seed: &Seed, other: &Seed, from: usize, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = seed.bytes.clone();
    for _ in 0..*dice.choose(&[1, 1, 1, 2, 3]) {
        once(&mut bytes, seed, other, from, dice);
    }
    if bytes.len() < from {
        bytes.resize(from, 0);
    }
    bytes
}

fn once(bytes: &mut Vec<u8>, seed: &Seed, other: &Seed, from: usize, dice: &mut Dice) {
    let len = bytes.len();
    if len <= from {
        bytes.extend((0..dice.below(8)).map(|_| dice.byte()));
        return;
    }
    let at = from + dice.below(len - from);
    match dice.below(16) {
        0..=2 => bytes[at] ^= 1 << dice.below(8),
        3 => bytes[at] = dice.byte(),
        4..=7 => set_field(bytes, seed, dice),
        8 => bytes.truncate(at),
        9 => {
            // The front of this one and the back of the other.
            let cut = from + dice.below(other.bytes.len().saturating_sub(from));
            bytes.truncate(at);
            bytes.extend_from_slice(other.bytes.get(cut..).unwrap_or_default());
        }
        10 => {
            let end = (at + 1 + dice.below(24)).min(len);
            let segment = bytes[at..end].repeat(1 + dice.below(3));
            bytes.splice(at..at, segment);
        }
        11 => {
            let nested = nested_types(dice);
            bytes.splice(at..at, nested);
        }
        12 => {
            let end = (at + 1 + dice.below(6)).min(len);
            bytes.drain(at..end);
        }
        13 => bytes.insert(at, dice.byte()),
        14 => {
            // Two stretches change their places.
            let half = (len - at) / 2;
            bytes[at..].rotate_left(half.max(1).min(len - at));
        }
        _ => {
            for byte in bytes.iter_mut().skip(at).take(1 + dice.below(4)) {
                *byte = *dice.choose(&[0, 0x7f, 0x80, 0xff]);
            }
        }
    }
}

/// Makes a length or count extreme, or a little wrong.
fn set_field(bytes: &mut [u8], seed: &Seed, dice: &mut Dice) {
    if seed.fields.is_empty() {
        return;
    }
    let Field { at, width } = *dice.choose(&seed.fields);
    let Some(number) = number_at(bytes, at, width).and_then(|number| u32::try_from(number).ok())
    else {
        return;
    };
    let left = u32::try_from(bytes.len() - at - width).unwrap_or(u32::MAX);
    let number = match dice.below(12) {
        0 => 0,
        1 => u32::MAX,
        2 => u32::MAX - 1,
        3 => 0x7fff_ffff,
        4 => 0x8000_0000,
        5 => 0x7fff_7fff,
        6 => left,
        7 => left.wrapping_add(1),
        8 => number.wrapping_mul(2),
        9 => number.wrapping_add(1),
        10 => number.wrapping_sub(1),
        _ => number.wrapping_add(0x0001_0000),
    };
    bytes[at..at + width].copy_from_slice(&number.to_be_bytes()[4 - width..]);
}

/// Type options in type options, or class names in class names.
fn nested_types(dice: &mut Dice) -> Vec<u8> {
    let most = if dice.one_in(8) { 300 } else { 4 };
    let depth = 1 + dice.below(most);
    let mut bytes = Vec::new();
    match dice.below(6) {
        0 => (0..depth).for_each(|_| bytes.extend([0, 0x20])),
        1 => (0..depth).for_each(|_| bytes.extend([0, 0x21, 0, 9])),
        2 => (0..depth).for_each(|_| bytes.extend([0, 0x31, 0, 1])),
        3 => (0..depth).for_each(|_| bytes.extend([0, 0x30, 0, 0, 0, 0, 0, 1, 0, 0])),
        4 => bytes.extend([0, 0x31, 0xff, 0xff]),
        _ => {
            let class = [
                "ListType(",
                "TupleType(",
                "VectorType(",
                "UserType(a,61,62:",
                "FrozenType(",
            ];
            let name = format!(
                "{}Int32Type{}",
                dice.choose(&class).repeat(depth),
                ")".repeat(depth)
            );
            bytes.extend([0, 0]);
            bytes.extend(u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes());
            bytes.extend(name.bytes());
        }
    }
    bytes
}
