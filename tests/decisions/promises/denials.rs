//! Swaps that are denied.

use std::time::Duration;

use serde_json::json;
use swaplet_core::report::decision::Method;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::QUICK_DENIED_RETRIES;

use super::{FINISH, NEVER_FINISH, QUIET_SECONDS, finishes, ready, swapped_names, under};
use crate::expect::{Life, moment};

// ---- bug 11: a denied swap

fn denied(life: &mut Life, times: u32) {
    for _ in 0..times {
        let words = "the API server forbids to change the image of log: no".into();
        life.memory
            .denied
            .remember(Method::Swap, words, life.now, Duration::from_secs(900));
    }
}

#[test]
fn bug11_a_swap_that_is_denied_again_leads_on_to_the_next_method() {
    let mut life = under(FINISH);
    denied(&mut life, QUICK_DENIED_RETRIES);
    assert_eq!(
        swapped_names(&life.sees(&ready("Never"))),
        ["log"],
        "they may be of the moment"
    );
    denied(&mut life, 1);
    life.assert_silent(&ready("Never"), Reason::FinishWaits);
    let decision = life.later(QUIET_SECONDS).sees(&ready("Never"));
    assert!(
        finishes(&decision).contains("WriteDenied: the API server forbids"),
        "{decision:?}"
    );
}

#[test]
fn bug11_where_nothing_else_is_allowed_it_is_told_and_tried_again_later() {
    let mut life = under(NEVER_FINISH);
    denied(&mut life, QUICK_DENIED_RETRIES + 1);
    let decision = life.sees(&ready("Never"));
    assert_eq!(
        (decision.reason, decision.again),
        (Reason::WriteDenied, Some(moment(60))),
        "{decision:?}"
    );
    assert_eq!(decision.reports.len(), 1);
    assert_eq!(
        swapped_names(&life.later(60).sees(&ready("Never"))),
        ["log"]
    );
}

/// A pod that only a policy opts in is denied for what it is.
#[test]
fn t5_a_denial_says_nothing_of_other_pods_of_the_namespace() {
    let mut life = under(NEVER_FINISH);
    for uid in ["a", "b", "c"] {
        let pod = ready("Never").set("/metadata/uid", uid);
        denied(&mut life, QUICK_DENIED_RETRIES + 1);
        assert_eq!(life.sees(&pod).reason, Reason::WriteDenied);
        life.memory = swaplet_core::terminate::memory::Memory::default();
    }
    assert_eq!(swapped_names(&life.sees(&ready("Never"))), ["log"]);
}

/// Where finish is denied too, the swap is not tried in doubt: the reason is told.
#[test]
fn a_doubtful_swap_is_not_tried_where_finish_is_denied() {
    let script = ready("Never")
        .but("log", |log| {
            log.spec("command", json!(["/scripts/run.sh"])).spec(
                "volumeMounts",
                json!([{"name": "s", "mountPath": "/scripts"}]),
            )
        })
        .set(
            "/spec/volumes",
            json!([{"name": "s", "configMap": {"name": "s"}}]),
        );
    let mut life = under(FINISH);
    for _ in 0..=QUICK_DENIED_RETRIES {
        let words = "the API server forbids to write the phase of the pod: no".into();
        life.memory
            .denied
            .remember(Method::Finish, words, life.now, Duration::from_secs(900));
    }
    life.memory.first_time(Reason::WriteDenied);
    let note = life.tells(&script, Reason::ExitImageDoubtful);
    assert!(note.contains("/scripts/run.sh"), "{note}");
    life.assert_silent(&script, Reason::ExitImageDoubtful);
}
