//! What may befall a world, as its seed says.

use crate::random::Random;

/// Numbers that follow from a seed, in the forms that worlds need.
pub struct Dice(Random);

impl Dice {
    pub const fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// From one number on, and less than the other; the first where there is none between them.
    pub fn between(&mut self, from: u64, end: u64) -> u64 {
        if end <= from {
            from
        } else {
            from + self.0.next() % (end - from)
        }
    }

    /// So many times in a thousand.
    pub fn chance(&mut self, in_a_thousand: u64) -> bool {
        self.0.next() % 1000 < in_a_thousand
    }

    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        self.0.one_of(all)
    }

    /// A place in a list that is not empty.
    pub fn place(&mut self, length: usize) -> usize {
        self.0.below(length)
    }
}

/// What may befall a world.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    /// Containers fail by themselves.
    pub crashes: bool,
    /// Answers to writes are lost, and some of the writes.
    pub losses: bool,
    /// Writes are denied in some namespaces.
    pub denials: bool,
    /// The controller is killed.
    pub deaths: bool,
    /// All pods are listed again, or those of a namespace.
    pub relists: bool,
    /// The phase of pods may be written.
    pub finish: bool,
    /// Exit images are derived.
    pub derives: bool,
    /// Some pods cannot pull an exit image.
    pub pulls_fail: bool,
    /// Pods are deleted.
    pub deletions: bool,
    /// Webhooks and proxies stand before the API server.
    pub webhooks: bool,
    /// Some Jobs run on the virtual nodes of one provider.
    pub virtual_nodes: bool,
    /// Some pods do not start the exit image, and nothing says so before.
    pub broken_exits: bool,
    /// The longest time for which a node backs off, in milliseconds.
    pub longest_back_off: u64,
}

impl Options {
    /// What the seed says.
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0xABCD);
        let mut flag = |in_a_thousand| dice.chance(in_a_thousand);
        Self {
            seed,
            crashes: flag(300),
            losses: flag(400),
            denials: flag(250),
            deaths: flag(400),
            relists: flag(400),
            finish: flag(750),
            derives: flag(500),
            pulls_fail: flag(250),
            deletions: flag(250),
            webhooks: flag(250),
            virtual_nodes: flag(250),
            broken_exits: flag(150),
            longest_back_off: *dice.one_of(&[300_000, 300_000, 300_000, 10_000, 5000, 1000]),
        }
    }

    /// A world in which nothing goes wrong.
    pub const fn calm(seed: u64, finish: bool) -> Self {
        Self {
            seed,
            crashes: false,
            losses: false,
            denials: false,
            deaths: false,
            relists: false,
            finish,
            derives: false,
            pulls_fail: false,
            deletions: false,
            webhooks: false,
            virtual_nodes: false,
            broken_exits: false,
            longest_back_off: 300_000,
        }
    }
}
