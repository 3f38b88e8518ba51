//! Writes of which a webhook stores a part, and exit images that are started again: what other pods
//! of the Job may do meanwhile.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_controller::terminate::index::{Index, Write};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Pod;
use swaplet_core::report::decision::{Action, Method};

use super::starts::{LISTED, NOW, index_with, next, seen_asking, seen_of};
use crate::node::{running, terminated};

const OTHER: &str = "registry.example/other/another-exit:v2";

const fn at(second: u64) -> Moment {
    Moment::after_start(Duration::from_secs(second))
}

/// A pod of the Job with two sidecars, the first of which has this image.
fn of_two(name: &str, first: &str) -> Pod {
    seen_of(name, &[(first, running(), 0), ("side:1", running(), 0)])
}

/// The pod and the number of images of the next write.
fn next_swap(index: &mut Index, now: Moment) -> Option<(Write, usize)> {
    let (write, _) = next(index, now)?;
    let Action::Swap(swaps) = &write.action else {
        return None;
    };
    let swaps = swaps.len();
    Some((write, swaps))
}

/// Two restarts fit. One of two swaps is stored, and the other one is written before the watch has
/// shown that.
#[test]
fn what_is_stored_of_a_write_counts_before_the_watch_shows_it() {
    for shows_an_older_state in [false, true] {
        let mut index = index_with(vec![of_two("a", "side:1")], 3, false);
        let (write, swaps) = next_swap(&mut index, NOW).unwrap();
        assert_eq!((&*write.target.name, swaps), ("a", 2));
        index.written(write, &Ok(vec![LISTED.into(), "side:1".into()]), at(2));
        index.apply(seen_of("b", &[("side:1", running(), 0)]), at(2));
        let (second, swaps) = next_swap(&mut index, at(2)).unwrap();
        assert_eq!((&*second.target.name, swaps), ("a", 1));
        if shows_an_older_state {
            let mut older = of_two("a", "side:1");
            older.version = "1.5".into();
            index.apply(older, at(2));
        }
        let other = next(&mut index, at(2));
        assert!(
            other.is_none(),
            "{:?}",
            other.map(|(write, _)| write.target)
        );
        index.written(second, &Ok(vec![LISTED.into()]), at(3));
        let other = next(&mut index, at(3));
        assert!(
            other.is_none(),
            "{:?}",
            other.map(|(write, _)| write.target)
        );
    }
}

/// The pod has room for its second swap as soon as that comes.
#[test]
fn a_pod_half_of_whose_swaps_were_stored_holds_no_more_than_it_needs() {
    let mut index = index_with(vec![of_two("a", "side:1")], 4, false);
    let (write, _) = next_swap(&mut index, NOW).unwrap();
    index.written(write, &Ok(vec![LISTED.into(), "side:1".into()]), at(2));
    index.apply(of_two("a", LISTED), at(3));
    index.apply(seen_of("b", &[("side:1", running(), 0)]), at(3));
    let (second, swaps) = next_swap(&mut index, at(3)).unwrap();
    assert_eq!((&*second.target.name, swaps), ("a", 1));
    let (third, method) = next(&mut index, at(3)).unwrap();
    assert_eq!((&*third.target.name, method), ("b", Method::Swap));
}

/// It has ended badly, and its node starts it once more: at once, or after its back-off. The other
/// pod asks for another image, of which nothing bad is known.
#[test]
fn the_next_start_of_an_exit_image_that_has_failed_counts_before_it_comes() {
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}});
    for (state, is_free) in [
        (terminated(137, 0), false),
        (waiting, false),
        (terminated(0, 0), true),
    ] {
        let side = |image, state, restarts| [(image, state, restarts)];
        let mut index = index_with(vec![seen_of("a", &side("side:1", running(), 0))], 3, false);
        let (write, _) = next(&mut index, NOW).unwrap();
        index.written(write, &Ok(vec![LISTED.into()]), at(2));
        index.apply(seen_of("a", &side(LISTED, again(state.clone()), 1)), at(3));
        let other = seen_asking(OTHER, "b", &side("side:1", running(), 0));
        index.apply(other, at(3));
        let other = next(&mut index, at(3));
        assert_eq!(other.is_some(), is_free, "{state}");
    }
}

/// As the state of another container than the first.
fn again(mut state: Value) -> Value {
    if let Some(end) = state.get_mut("terminated") {
        end["containerID"] = json!("containerd://again");
    }
    state
}
