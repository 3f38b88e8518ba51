//! Swaps that are denied.

use std::time::Duration;

use swaplet_core::report::decision::Method;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::denials::QUICK_DENIED_RETRIES;

use super::{FINISH, NEVER_FINISH, QUIET_SECONDS, finishes, ready, swapped_names, under};
use crate::expect::{EXIT, Life, moment};

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

/// Two pods of a namespace speak for the others, for ten minutes, and one that is allowed ends it.
#[test]
fn bug11_what_a_namespace_may_not_have_is_not_asked_for_by_each_of_its_pods() {
    let mut life = under(NEVER_FINISH);
    let other = |uid: &str| ready("Never").set("/metadata/uid", uid).read();
    life.image_troubles.denied(&other("a"), EXIT, life.now);
    life.image_troubles.denied(&other("a"), EXIT, life.now);
    assert_eq!(
        swapped_names(&life.sees(&ready("Never"))),
        ["log"],
        "one pod alone may be forbidden something of its own"
    );
    life.image_troubles.denied(&other("b"), EXIT, life.now);
    let decision = life.sees(&ready("Never"));
    assert_eq!(
        (decision.reason, &decision.action),
        (Reason::WriteDenied, &None),
        "{decision:?}"
    );
    assert_eq!(
        swapped_names(&life.sees(&ready("Never").set("/metadata/namespace", "other"))),
        ["log"]
    );
    life.image_troubles.allowed(&other("c"), EXIT);
    assert_eq!(swapped_names(&life.sees(&ready("Never"))), ["log"]);
    life.image_troubles.denied(&other("a"), EXIT, life.now);
    life.image_troubles.denied(&other("b"), EXIT, life.now);
    assert_eq!(
        swapped_names(&life.later(601).sees(&ready("Never"))),
        ["log"]
    );
}
