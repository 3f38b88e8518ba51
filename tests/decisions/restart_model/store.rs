//! Where things are kept, once each, and what is known of results.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::state::{FIRST, Id};

/// Things, each with its number.
pub struct Store<T>(HashMap<T, Id>, Vec<T>);

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self(HashMap::new(), Vec::new())
    }
}

impl<T: Hash + Eq + Clone> Store<T> {
    /// The number of a thing, and whether it is new.
    pub fn add(&mut self, thing: T) -> (Id, bool) {
        let next = Id::try_from(self.1.len())
            .unwrap()
            .checked_add(FIRST)
            .unwrap();
        let id = *self.0.entry(thing.clone()).or_insert(next);
        if id == next {
            self.1.push(thing);
        }
        (id, id == next)
    }

    pub fn id(&mut self, thing: T) -> Id {
        self.add(thing).0
    }

    pub fn get(&self, id: Id) -> &T {
        &self.1[usize::from(id - FIRST)]
    }
}

/// Results by numbers.
pub type Known<T> = HashMap<u64, T, BuildHasherDefault<Mix>>;

/// One number for up to four.
pub fn key(numbers: [Id; 4]) -> u64 {
    let [a, b, c, d] = numbers.map(u64::from);
    a << 48 | b << 32 | c << 16 | d
}

/// A hash of few instructions, as these tests are not optimized.
#[derive(Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}
