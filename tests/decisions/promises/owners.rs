//! Owners that count restarts.

use serde_json::json;
use swaplet_core::report::decision::Method;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::methods::AllowedMethods;

use super::{FINISH, NEVER_FINISH, QUIET_SECONDS, finishes, ready, swapped_names, under};
use crate::builder::PodBuilder;

// ---- D2: owners that count restarts

fn owned(policy: &str, api_version: &str, kind: &str) -> PodBuilder {
    ready(policy)
        .set("/metadata/ownerReferences", json!([{"apiVersion": api_version, "kind": kind, "name": "o", "uid": "o", "controller": true}]))
}

#[test]
fn d2_pods_of_an_owner_that_counts_restarts_are_finished_first() {
    let counting = [
        ("apps.kruise.io/v1alpha1", "BroadcastJob"),
        ("kubeflow.org/v1", "PyTorchJob"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("example.com/v1", "Whatever"),
    ];
    for (version, kind) in counting {
        let mut life = under(FINISH);
        life.assert_silent(&owned("OnFailure", version, kind), Reason::FinishWaits);
        finishes(
            &life
                .later(QUIET_SECONDS)
                .sees(&owned("OnFailure", version, kind)),
        );
        // Nobody counts restarts under Never.
        assert_eq!(
            swapped_names(&under(FINISH).sees(&owned("Never", version, kind))),
            ["log"]
        );
        let mut prefers = under(AllowedMethods {
            prefer: Some(Method::Swap),
            ..FINISH
        });
        let decision = prefers.sees(&owned("OnFailure", version, kind));
        assert_eq!(
            decision.reason == Reason::SidecarSwapped,
            version.contains("volcano") || version.contains("example"),
            "{decision:?}"
        );
    }
    assert_eq!(
        swapped_names(&under(FINISH).sees(&ready("OnFailure"))),
        ["log"],
        "nobody owns it"
    );
}

#[test]
fn d2_without_finish_an_owner_that_counts_is_told_and_an_unknown_one_swapped_with_a_word() {
    let note = under(NEVER_FINISH).tells(
        &owned("OnFailure", "apps.kruise.io/v1alpha1", "BroadcastJob"),
        Reason::NoHeadroom,
    );
    assert!(
        note.contains("BroadcastJob, counts restarts") && note.contains("--finish=never"),
        "{note}"
    );
    let decision = under(NEVER_FINISH).sees(&owned("OnFailure", "example.com/v1", "Whatever"));
    assert_eq!(swapped_names(&decision), ["log"]);
    let note = decision.done.unwrap().note;
    assert!(
        note.contains("a Whatever of example.com, which swaplet does not know"),
        "{note}"
    );
}
