//! Pods of one of several namespaces that is listed again.

use swaplet_controller::terminate::index::Index;

use super::starts::{NOW, index_of_job, seen};
use crate::node::running;

/// One pod is ready to be swapped when the list begins, in which these others come.
fn listed_again(others: &[&str]) -> Index {
    let mut index = index_of_job(&["a"]);
    index.part_list_starts();
    assert_eq!(index.next_write(NOW), None, "restarts may be missing");
    for name in others {
        index.apply(seen(name, "side:1", running(), 5), NOW);
    }
    assert_eq!(index.next_write(NOW), None);
    index.part_list_ends(NOW);
    index
}

#[test]
fn no_swap_is_granted_while_pods_of_one_of_several_namespaces_are_listed_again() {
    assert!(listed_again(&[]).next_write(NOW).is_some());
    assert_eq!(
        listed_again(&["b"]).next_write(NOW),
        None,
        "the Job has no restart left"
    );
}
