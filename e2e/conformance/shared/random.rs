//! Random choices that are the same for the same seed, on every machine.

/// The seed of every day. Another one in `SWAPLET_SEED` tries other sequences.
const SEED: u64 = 1;

/// The seed of this run.
pub fn seed() -> u64 {
    std::env::var("SWAPLET_SEED")
        .map_or(SEED, |text| text.parse().expect("SWAPLET_SEED is a number"))
}

/// How many sequences of each pair run where `SWAPLET_SEQUENCES` does not say so. Their seed is
/// always the same, so what they show can only change with the testbed and the programs that it
/// stands for; `./test long` runs all 200 with a seed of its own.
const SEQUENCES: usize = 20;

/// The only sequence to run, if one is asked for.
pub fn only() -> Option<usize> {
    number("SWAPLET_SEQUENCE")
}

/// The numbers of the sequences to run: those below `SWAPLET_SEQUENCES`, or the only one.
pub fn numbers() -> Vec<usize> {
    only().map_or_else(
        || (0..number("SWAPLET_SEQUENCES").unwrap_or(SEQUENCES)).collect(),
        |one| vec![one],
    )
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is not a number"))
    })
}

/// splitmix64: well mixed from any seed, and eight lines long.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The choices of one sequence of a run.
    pub fn of_sequence(seed: u64, sequence: usize) -> Self {
        let mut mixed = Self(seed);
        Self(mixed.next() ^ (sequence as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// One of these, each as likely as its weight says.
    pub fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let mut left = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            if left < *weight {
                return *choice;
            }
            left -= weight;
        }
        unreachable!("the weights add up")
    }
}
