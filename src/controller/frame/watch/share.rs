//! Selects which of the wanted objects are watched: an equal number per namespace, where not all can
//! be.

use std::collections::{BTreeMap, BTreeSet};

/// Returns at most `most` of these objects, and at most `each` of a namespace, in turns by
/// namespace; within a namespace first those that are watched already, then in their order.
pub(crate) fn shared<T: Ord>(
    wanted: BTreeSet<T>,
    (most, each): (usize, usize),
    namespace: impl Fn(&T) -> &str,
    is_watched: impl Fn(&T) -> bool,
) -> BTreeSet<T> {
    if wanted.len() <= most.min(each) {
        return wanted;
    }
    let mut lines: BTreeMap<Box<str>, Vec<T>> = BTreeMap::new();
    for object in wanted {
        lines
            .entry(namespace(&object).into())
            .or_default()
            .push(object);
    }
    // Sorted in reverse, because the last one is taken first.
    for line in lines.values_mut() {
        line.sort_by(|a, b| is_watched(a).cmp(&is_watched(b)).then_with(|| b.cmp(a)));
        line.drain(..line.len().saturating_sub(each));
    }
    let mut taken = BTreeSet::new();
    while taken.len() < most && !lines.is_empty() {
        let turns = most - taken.len();
        taken.extend(lines.values_mut().take(turns).filter_map(Vec::pop));
        lines.retain(|_, line| !line.is_empty());
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    type Object = (Box<str>, usize);

    fn object(namespace: &str, number: usize) -> Object {
        (namespace.into(), number)
    }

    fn shared(
        wanted: BTreeSet<Object>,
        most: usize,
        is_watched: impl Fn(&Object) -> bool,
    ) -> BTreeSet<Object> {
        super::shared(wanted, (most, most), |object| &object.0, is_watched)
    }

    fn count(objects: &BTreeSet<Object>, namespace: &str) -> usize {
        objects
            .iter()
            .filter(|object| *object.0 == *namespace)
            .count()
    }

    #[test]
    fn a9_each_namespace_has_its_share_of_the_watches_and_what_nobody_needs() {
        let named: BTreeSet<_> = (0..1000)
            .map(|number| object("greedy", number))
            .chain((0..3).map(|number| object("modest", number)))
            .collect();
        let watched = shared(named.clone(), 256, |_| false);
        assert_eq!(
            (count(&watched, "greedy"), count(&watched, "modest")),
            (253, 3)
        );
        let more = named
            .iter()
            .cloned()
            .chain((0..500).map(|number| object("zealous", number)))
            .collect::<BTreeSet<_>>();
        let watched = shared(more.clone(), 256, |object| watched.contains(object));
        assert_eq!(
            [
                count(&watched, "greedy"),
                count(&watched, "modest"),
                count(&watched, "zealous")
            ],
            [127, 3, 126]
        );
        let again = shared(more, 256, |object| watched.contains(object));
        assert_eq!(again, watched, "nothing changes by itself");
        let late = (990..1000)
            .map(|number| object("greedy", number))
            .collect::<BTreeSet<_>>();
        assert!(
            shared(named, 10, |object| late.contains(object))
                .iter()
                .filter(|object| &*object.0 == "greedy")
                .all(|object| late.contains(object))
        );
    }

    #[test]
    fn a_namespace_has_no_more_than_its_most_and_keeps_what_it_watches() {
        let wanted: BTreeSet<_> = (0..9)
            .map(|number| object("greedy", number))
            .chain((0..2).map(|number| object("modest", number)))
            .collect();
        let watched = super::shared(wanted, (100, 3), |object| &object.0, |object| object.1 == 8);
        let numbers: Vec<_> = watched
            .iter()
            .filter(|object| &*object.0 == "greedy")
            .map(|object| object.1)
            .collect();
        assert_eq!((numbers, count(&watched, "modest")), (vec![0, 1, 8], 2));
    }
}
