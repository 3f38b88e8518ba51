//! The exit images that have been derived so far, of which those to keep on nodes are taken.

use std::collections::BTreeMap;

/// The most images that are known of a namespace: its pods can request ever new ones.
const MOST_EACH: usize = 50;

/// The references of derived images, by the namespace whose pod requested each first.
#[derive(Clone, Debug, Default)]
pub struct Derived {
    namespaces: BTreeMap<Box<str>, Vec<Box<str>>>,
}

impl Derived {
    /// Adds an image. Returns true if it is new, and its namespace does not have too many.
    pub fn insert(&mut self, namespace: &str, reference: &str) -> bool {
        let mut known = self.namespaces.values().flatten();
        if known.any(|image| **image == *reference) {
            return false;
        }
        let images = self.namespaces.entry(namespace.into()).or_default();
        let has_room = images.len() < MOST_EACH;
        if has_room {
            images.push(reference.into());
        }
        has_room
    }

    /// Returns at most this many images: of each namespace the first that it requested, then of
    /// each the second, and so on. However many a namespace requests, others have their turn.
    pub(crate) fn in_turns(&self, most: usize) -> Vec<Box<str>> {
        (0..MOST_EACH)
            .flat_map(|turn| {
                let namespaces = self.namespaces.values();
                namespaces.filter_map(move |images| images.get(turn))
            })
            .take(most)
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a9_each_namespace_has_its_turn_before_the_next_image_of_one_that_wants_many() {
        let mut derived = Derived::default();
        let inserted = (0..60).filter(|number| derived.insert("greedy", &format!("a{number:02}")));
        assert_eq!(inserted.count(), MOST_EACH);
        assert!(derived.insert("modest", "z0") && derived.insert("modest", "z1"));
        assert!(!derived.insert("modest", "a00"), "it is there already");
        let kept = derived.in_turns(6);
        let kept: Vec<&str> = kept.iter().map(|image| &**image).collect();
        assert_eq!(kept, ["a00", "z0", "a01", "z1", "a02", "a03"]);
        assert_eq!(derived.in_turns(50).len(), 50);
    }
}
