//! No Job waits for ever or fails by us: what a pod does when its way is closed, one test for each
//! finding.

mod denials;
mod one_of_two;
mod owners;
mod pulls;
mod room;
mod starts;

use swaplet_core::objects::pod::Phase;
use swaplet_core::report::decision::{Action, Decision, Swap};
use swaplet_core::terminate::memory::finish_record::QUIET;
use swaplet_core::terminate::methods::AllowedMethods;

use crate::builder::{PodBuilder, main_container, pod, sidecar};
use crate::expect::{EXIT, Life};

const FINISH: AllowedMethods = AllowedMethods {
    prefer: None,
    finish: true,
    recreate: false,
    swap_under_never: false,
};
const NEVER_FINISH: AllowedMethods = AllowedMethods {
    finish: false,
    ..FINISH
};
const QUIET_SECONDS: u64 = QUIET.as_secs();

fn under(allowed: AllowedMethods) -> Life {
    Life {
        allowed,
        ..Life::new()
    }
}

#[track_caller]
fn finishes(decision: &Decision) -> &str {
    assert!(
        matches!(&decision.action, Some(Action::Finish(finish)) if finish.phase == Phase::Succeeded),
        "{decision:?}"
    );
    &decision.done.as_ref().unwrap().note
}

fn swapped_names(decision: &Decision) -> Vec<&str> {
    decision
        .swaps()
        .iter()
        .map(|swap| &*swap.container)
        .collect()
}

fn ready(policy: &str) -> PodBuilder {
    pod(policy)
        .with(main_container("main").ended(0))
        .with(sidecar("log").running())
}

fn named(policy: &str, uid: &str, node: &str) -> PodBuilder {
    ready(policy)
        .set("/metadata/uid", uid)
        .set("/spec/nodeName", node)
}

/// A pod that was swapped, on a node that cannot pull the exit image.
fn cannot_pull(life: &mut Life, uid: &str, node: &str) {
    let (pod, stuck) = stuck(life, uid, node);
    life.image_troubles.observe(&stuck.read(), &pod, life.now);
}

fn stuck(
    life: &Life,
    uid: &str,
    node: &str,
) -> (swaplet_core::terminate::memory::Memory, PodBuilder) {
    let pod = named("OnFailure", uid, node);
    let mut memory = swaplet_core::terminate::memory::Memory::default();
    let swap = Swap {
        index: 1,
        is_native_sidecar: false,
        container: "log".into(),
        from: pod.image_of("log").into(),
        to: EXIT.into(),
    };
    memory.swapped(&pod.read().containers[1], &swap, EXIT, life.now);
    let what = format!("Back-off pulling image \"{EXIT}\"");
    (
        memory,
        pod.but("log", |log| {
            log.image(EXIT).waiting("ImagePullBackOff", &what)
        }),
    )
}
