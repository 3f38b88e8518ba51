//! What the events of a watch change in a copy of its objects: a list says nothing about an object
//! that it does not contain, so what is gone has to be found out by comparison.

use std::collections::BTreeSet;

use super::Event;

/// A change of the objects of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change<K, T> {
    /// An object is new, or may have changed.
    Put(T),
    /// A list is complete, or an object was deleted: these objects do not exist. After a list of
    /// all known objects there are none.
    Gone(Vec<K>),
}

/// The bookkeeping of the lists of one watch, whose objects have keys `K`. The objects themselves
/// are kept by the owner.
#[derive(Debug)]
pub(crate) struct Mirror<K> {
    /// The known objects that the list in progress has not contained so far.
    unlisted: BTreeSet<K>,
    is_complete: bool,
}

impl<K> Default for Mirror<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Mirror<K> {
    pub const fn new() -> Self {
        Self {
            unlisted: BTreeSet::new(),
            is_complete: false,
        }
    }

    /// Returns true once all objects have been listed.
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }
}

impl<K: Ord> Mirror<K> {
    /// Returns the change that an event makes, if any. `known` are the keys of the objects that the
    /// owner keeps; `read` returns an object with its key, or `None` for one that is left alone.
    pub fn change<W, T>(
        &mut self,
        event: Event<W>,
        known: impl IntoIterator<Item = K>,
        read: impl FnOnce(W) -> Option<(K, T)>,
    ) -> Option<Change<K, T>> {
        match event {
            Event::ListStart => {
                self.unlisted = known.into_iter().collect();
                None
            }
            Event::Listed(object) | Event::Applied(object) => {
                let (key, object) = read(object)?;
                self.unlisted.remove(&key);
                Some(Change::Put(object))
            }
            Event::ListEnd => {
                self.is_complete = true;
                let gone = std::mem::take(&mut self.unlisted);
                Some(Change::Gone(gone.into_iter().collect()))
            }
            Event::Deleted(object) => {
                let (key, _) = read(object)?;
                self.unlisted.remove(&key);
                Some(Change::Gone(vec![key]))
            }
            Event::Current(_)
            | Event::Relists(_)
            | Event::Trouble(_)
            | Event::Forbidden(_)
            | Event::Hidden(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies events to a list of numbers, of which zero cannot be read. Returns what is left.
    fn kept(mirror: &mut Mirror<u8>, events: Vec<Event<u8>>) -> BTreeSet<u8> {
        let mut kept = BTreeSet::from([1, 2, 3]);
        for event in events {
            let read = |number: u8| (number > 0).then_some((number, number));
            match mirror.change(event, kept.iter().copied(), read) {
                Some(Change::Put(number)) => drop(kept.insert(number)),
                Some(Change::Gone(numbers)) => kept.retain(|number| !numbers.contains(number)),
                None => {}
            }
        }
        kept
    }

    #[test]
    fn what_a_complete_list_does_not_contain_is_gone() {
        let mut mirror = Mirror::new();
        let list = vec![
            Event::ListStart,
            Event::Listed(2),
            Event::Listed(4),
            Event::Listed(0),
            Event::ListEnd,
        ];
        assert_eq!(kept(&mut mirror, list), BTreeSet::from([2, 4]));
        assert!(mirror.is_complete());
    }

    #[test]
    fn a_list_that_fails_takes_nothing_away() {
        let mut mirror = Mirror::new();
        let failed = vec![
            Event::ListStart,
            Event::Listed(2),
            Event::Trouble("timeout".to_owned()),
            Event::Hidden("forbidden".to_owned()),
        ];
        assert_eq!(kept(&mut mirror, failed), BTreeSet::from([1, 2, 3]));
        assert!(!mirror.is_complete());
        let again = vec![Event::ListStart, Event::Listed(3), Event::ListEnd];
        assert_eq!(kept(&mut mirror, again), BTreeSet::from([3]));
    }

    #[test]
    fn changes_between_lists_and_in_the_middle_of_one_count() {
        let mut mirror = Mirror::new();
        let events = vec![
            Event::Deleted(1),
            Event::Deleted(0),
            Event::ListStart,
            Event::Applied(3),
            Event::Deleted(2),
            Event::Applied(5),
            Event::ListEnd,
        ];
        assert_eq!(kept(&mut mirror, events), BTreeSet::from([3, 5]));
    }
}
