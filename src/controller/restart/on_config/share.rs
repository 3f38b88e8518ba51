//! Selects which of the objects that pods name are watched: an equal number per namespace, where
//! not all can be.

use std::collections::{BTreeMap, BTreeSet};

use super::state::Object;

/// Returns at most `most` of these objects, in turns by namespace; within a namespace first those
/// that are watched already, then by name.
pub(crate) fn shared(
    named: BTreeSet<Object>,
    most: usize,
    is_watched: impl Fn(&Object) -> bool,
) -> BTreeSet<Object> {
    if named.len() <= most {
        return named;
    }
    let mut lines: BTreeMap<Box<str>, Vec<Object>> = BTreeMap::new();
    for object in named {
        lines.entry(object.0.clone()).or_default().push(object);
    }
    // Sorted in reverse, because the last one is taken first.
    lines.values_mut().for_each(|line| {
        line.sort_by(|a, b| is_watched(a).cmp(&is_watched(b)).then_with(|| b.cmp(a)))
    });
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
    use swaplet_core::restart::on_config::annotation::{Reference, ReferenceKind};

    use super::*;

    fn object(namespace: &str, number: usize) -> Object {
        (
            namespace.into(),
            Reference {
                kind: ReferenceKind::ConfigMap,
                name: format!("c{number:04}").into(),
            },
        )
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
}
