//! What is counted. Callgrind knows these functions by the path of this module, and counts from the
//! beginning of one to its end: so there is no closure in them, and none calls another.

use std::hint::black_box;
use std::time::Duration;

use swaplet_controller::terminate::index::{Index, Write};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Pod;

use crate::one_pod;

/// When all of it happens.
pub const NOW: Moment = Moment::after_start(Duration::from_secs(1));

/// Decodes the event of each pod.
#[inline(never)]
pub fn decode(events: &[String]) -> Vec<Pod> {
    let mut pods = Vec::with_capacity(events.len());
    for event in events {
        pods.push(one_pod::decode(event).read().expect("a pod"));
    }
    pods
}

/// Decides about pods whose main containers run.
#[inline(never)]
pub fn decide_that_mains_run(index: &mut Index, pods: Vec<Pod>) -> Option<Write> {
    for pod in pods {
        index.apply(pod, NOW);
        black_box(index.take_effects());
    }
    index.next_write(NOW)
}

/// Decides about pods whose sidecars are to be ended: when they are seen, and when it is their turn.
#[inline(never)]
pub fn decide_to_swap(index: &mut Index, pods: Vec<Pod>) -> Vec<Write> {
    let mut writes = Vec::with_capacity(pods.len());
    for pod in pods {
        index.apply(pod, NOW);
        black_box(index.take_effects());
        let write = index.next_write(NOW);
        writes.extend(write);
    }
    writes
}
