//! The startup taint of nodes: how its removal is repeated, and what is told of it.

use swaplet_core::objects::moment::Moment;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::startup_taint::StartupTaints;

use super::node_classes::node;
use super::warm::seconds;

#[test]
fn r11_a_removal_that_is_not_taken_becomes_rarer_and_is_told_once() {
    let mut taints = StartupTaints::new(seconds(300));
    let mut tainted = node("n", &[], &["swaplet.io/warming=x"], &[]);
    tainted.ready = true;
    taints.observe(&tainted, Moment::START);
    let (mut tried, mut told) = (Vec::new(), Vec::new());
    for second in 0..200 {
        let now = Moment::START + seconds(second);
        for untaint in taints.step(now, |_| None) {
            tried.push(second);
            let failed = Err(WriteError::Failed {
                error: "no answer".to_owned(),
                retry_after: None,
            });
            told.extend(taints.written(&untaint, &failed, false, now));
        }
    }
    assert_eq!(tried, [0, 5, 15, 35, 75, 135, 195]);
    assert_eq!(told, ["no answer"]);
}
