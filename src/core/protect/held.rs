//! What is in a protected object: the objects of one list and watch, by their uids.

use std::collections::BTreeSet;

/// So many are known one by one, and of others that there are more.
pub const MOST: usize = 100_000;

/// The objects that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    members: BTreeSet<Box<str>>,
    /// Those that were known when a list began and were not in it so far.
    unlisted: BTreeSet<Box<str>>,
    /// Whether there are more than [`MOST`]; and in the list that is being read.
    more: bool,
    more_listed: bool,
    listed: bool,
    in_sight: bool,
}

impl Held {
    /// A list begins.
    pub fn list_begins(&mut self) {
        self.unlisted = self.members.clone();
        self.more_listed = false;
    }

    /// An object is there, and counts or not.
    pub fn is_there(&mut self, uid: Box<str>, counts: bool) {
        self.unlisted.remove(&uid);
        if !counts {
            self.members.remove(&uid);
        } else if self.members.len() < MOST {
            self.members.insert(uid);
        } else if !self.members.contains(&uid) {
            self.more = true;
            self.more_listed = true;
        }
    }

    /// An object is gone.
    pub fn is_gone(&mut self, uid: &str) {
        self.members.remove(uid);
    }

    /// The list is complete.
    pub fn list_ends(&mut self) {
        for uid in std::mem::take(&mut self.unlisted) {
            self.members.remove(&uid);
        }
        self.more = self.more_listed;
        self.listed = true;
    }

    /// What happens from now on is told.
    pub fn comes_in_sight(&mut self) {
        self.in_sight = true;
    }

    /// What happens is not told any more.
    pub fn goes_out_of_sight(&mut self) {
        self.in_sight = false;
    }

    /// How many there are, or at least; nothing where that is not known.
    #[must_use]
    pub fn count(&self) -> Option<usize> {
        let seen = self.members.len() + usize::from(self.more);
        (self.listed && self.in_sight).then_some(seen)
    }

    /// Whether only a new list can say how many are left.
    #[must_use]
    pub fn needs_list(&self) -> bool {
        self.more && self.members.is_empty()
    }
}
