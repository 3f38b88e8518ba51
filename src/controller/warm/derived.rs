//! The exit images that have been derived so far, and are kept on nodes.

/// The most images in all.
const MOST: usize = 50;
/// The most images of a namespace: its pods can request ever new ones.
const MOST_EACH: usize = 10;

/// The derived images, each with the namespace whose pod requested it first.
#[derive(Clone, Debug, Default)]
pub struct Derived(Vec<(Box<str>, Box<str>)>);

impl Derived {
    /// Adds an image. Returns true if it is new, and there is room for it.
    pub fn insert(&mut self, namespace: &str, reference: &str) -> bool {
        let of_namespace = self.0.iter().filter(|(of, _)| **of == *namespace);
        let has_room = self.0.len() < MOST && of_namespace.count() < MOST_EACH;
        let is_new = has_room && self.images().all(|image| **image != *reference);
        if is_new {
            self.0.push((namespace.into(), reference.into()));
        }
        is_new
    }

    pub(crate) fn images(&self) -> impl Iterator<Item = &Box<str>> {
        self.0.iter().map(|(_, image)| image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a9_a_namespace_that_wants_many_leaves_room_to_others() {
        let mut derived = Derived::default();
        let inserted = (0..60).filter(|number| derived.insert("greedy", &format!("a{number:02}")));
        assert_eq!(inserted.count(), MOST_EACH);
        assert!(derived.insert("modest", "z0") && derived.insert("modest", "z1"));
        assert!(!derived.insert("modest", "a00"), "it is there already");
        for number in 0..60 {
            derived.insert(&format!("n{number}"), &format!("b{number}"));
        }
        assert_eq!(derived.images().count(), MOST);
    }
}
