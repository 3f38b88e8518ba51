//! The contents of a protected object: the objects of one list and watch, by their uids.

use std::collections::BTreeSet;

/// The most objects that are kept by uid; of more only their existence is known.
pub const MOST: usize = 100_000;

/// The objects that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    members: BTreeSet<Box<str>>,
    /// The objects that were known when a list began and were not in it so far.
    unlisted: BTreeSet<Box<str>>,
    /// Set if there are more than [`MOST`] objects; `more_listed` is for the list being read.
    more: bool,
    more_listed: bool,
    list: List,
    in_sight: bool,
}

/// The state of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum List {
    /// None was complete.
    #[default]
    Never,
    /// One is complete.
    Complete,
    /// One was complete, and another is in progress: changes may have been missed.
    Again,
}

impl Held {
    /// Records that a list begins.
    pub fn list_begins(&mut self) {
        self.unlisted = self.members.clone();
        self.more_listed = false;
        if self.list == List::Complete {
            self.list = List::Again;
        }
    }

    /// Records that an object exists, and whether it counts.
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

    /// Records that an object is gone.
    pub fn is_gone(&mut self, uid: &str) {
        self.members.remove(uid);
    }

    /// Records that the list is complete: objects that it did not contain are gone.
    pub fn list_ends(&mut self) {
        for uid in std::mem::take(&mut self.unlisted) {
            self.members.remove(&uid);
        }
        self.more = self.more_listed;
        self.list = List::Complete;
    }

    /// Records that changes are observed from now on.
    pub fn comes_in_sight(&mut self) {
        self.in_sight = true;
    }

    /// Records that changes are not observed any more.
    pub fn goes_out_of_sight(&mut self) {
        self.in_sight = false;
    }

    /// Returns the number of objects, at least; `None` while it is unknown. That there are none is
    /// unknown during each list.
    pub fn count(&self) -> Option<usize> {
        let seen = self.members.len() + usize::from(self.more);
        let is_known = match self.list {
            List::Never => false,
            List::Complete => true,
            List::Again => seen > 0,
        };
        (is_known && self.in_sight).then_some(seen)
    }

    /// Returns true if only a new list can show how many are left.
    pub fn needs_list(&self) -> bool {
        self.more && self.members.is_empty()
    }
}
