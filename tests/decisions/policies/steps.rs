//! In which order sidecars are ended, and by what.

use serde_json::{Value, json};
use swaplet_core::cluster::headroom::Need;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::pod::annotations::{DELAY, ORDER, SIDECARS, WAIT_FOR_EXIT};
use swaplet_core::report::decision::{Action, Decision};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::explain::explain;
use swaplet_core::terminate::methods::AllowedMethods;

use super::{counted, done, new_life, policies, running};
use crate::builder::{PodBuilder, main_container};
use crate::expect::{EXIT, Life, moment};

const MAY_FINISH: AllowedMethods = AllowedMethods {
    prefer: None,
    finish: true,
    recreate: false,
    swap_under_never: false,
};

/// An uploader, and the proxy through which it uploads.
fn two(policy: &str) -> PodBuilder {
    done(policy, &[running("proxy"), running("uploader")])
        .annotation(SIDECARS, "uploader,proxy")
        .annotation(ORDER, "uploader=0,proxy=1")
}

fn swapped(decision: &Decision) -> Vec<&str> {
    decision
        .swaps()
        .iter()
        .map(|swap| &*swap.container)
        .collect()
}

fn ends(pod: &PodBuilder, name: &str) -> PodBuilder {
    pod.clone()
        .but(name, |container| container.restarted_as(EXIT, 1).ended(0))
}

fn on(node: NodeClass) -> Life {
    Life {
        node,
        allowed: MAY_FINISH,
        ..new_life()
    }
}

#[test]
fn a_step_begins_when_those_before_it_have_ended_in_this_life_and_the_next() {
    for policy in ["OnFailure", "Never"] {
        let pod = two(policy);
        let mut life = on(NodeClass::Kubelet);
        let decision = life.sees(&pod);
        assert_eq!(swapped(&decision), ["uploader"]);
        let first = life.swaps(&pod);
        life.assert_silent(&first, Reason::SwapPending);
        on(NodeClass::Kubelet).assert_silent(&first, Reason::SwapPending);
        let first = ends(&first, "uploader");
        assert_eq!(swapped(&on(NodeClass::Kubelet).sees(&first)), ["proxy"]);
        assert_eq!(swapped(&life.sees(&first)), ["proxy"]);
        let second = ends(&life.swaps(&first), "proxy");
        life.assert_silent(&second, Reason::SidecarsEnded);
    }
}

/// The proxy through which it uploads would be gone while it works.
#[test]
fn u146_what_the_phase_alone_ends_is_not_overtaken_by_the_next_step() {
    for policy in ["OnFailure", "Never"] {
        let pod = two(policy).but("uploader", |uploader| {
            uploader.spec("command", json!(["/bin/own"]))
        });
        let mut life = on(NodeClass::Kubelet);
        life.assert_silent(&pod, Reason::FinishWaits);
        let decision = life.later(10).sees(&pod);
        assert_eq!(decision.reason, Reason::PhaseWritten, "{decision:?}");
        // As the phase may not be written, what cannot be ended holds up nobody.
        assert_eq!(swapped(&new_life().sees(&pod)), ["proxy"]);
        // What has ended by an earlier step has not been overtaken.
        let delayed = pod.annotation(DELAY, "proxy=5m");
        on(NodeClass::Kubelet).assert_silent(&delayed, Reason::SidecarDelayed);
    }
}

/// What does not end holds the others up for no longer than its method takes.
#[test]
fn a_step_that_does_not_end_is_given_up() {
    let pod = two("OnFailure").grace(10);
    let mut life = new_life();
    let first = life.swaps(&pod);
    // Two sidecars with 10 s each, and 60 s until a node shows an effect.
    life.later(79).assert_silent(&first, Reason::SwapPending);
    assert_eq!(swapped(&life.later(1).sees(&first)), ["proxy"]);
}

/// It has crashed and runs again, so what it works through may not be ended before it.
#[test]
fn a_step_waits_for_an_earlier_sidecar_that_its_node_starts_again() {
    let crashed = |policy| two(policy).but("uploader", |uploader| uploader.ended(1));
    let pod = crashed("OnFailure");
    let mut life = on(NodeClass::Kubelet);
    let waits = life.assert_silent(&pod, Reason::SidecarDelayed);
    assert_eq!(waits.again, Some(moment(30)));
    let in_back_off = pod.but("uploader", |uploader| {
        uploader.waiting("CrashLoopBackOff", "back-off 10s")
    });
    assert_eq!(swapped(&life.later(20).sees(&in_back_off)), ["uploader"]);
    let first = life.swaps(&in_back_off);
    life.assert_silent(&first, Reason::SwapPending);
    let again = first.clone().but("uploader", |uploader| {
        uploader.restarted_as(EXIT, 1).ended(128)
    });
    life.later(1).assert_silent(&again, Reason::SidecarDelayed);
    let first = ends(&first, "uploader");
    assert_eq!(swapped(&life.sees(&first)), ["proxy"]);
    // Under `Never` it has ended.
    assert_eq!(swapped(&new_life().sees(&crashed("Never"))), ["proxy"]);
    let ended = two("OnFailure").but("uploader", |uploader| uploader.ended(0));
    assert_eq!(swapped(&new_life().sees(&ended)), ["proxy"]);
}

/// While it may still end by itself, an end with an error is none.
#[test]
fn a_crash_does_not_use_up_the_time_in_which_a_sidecar_may_end_by_itself() {
    let pod = two("OnFailure").annotation(WAIT_FOR_EXIT, "uploader=10m");
    let mut life = on(NodeClass::Kubelet);
    life.assert_silent(&pod, Reason::SidecarDelayed);
    for _ in 0..10 {
        let crashed = pod.clone().but("uploader", |uploader| uploader.ended(1));
        life.later(10)
            .assert_silent(&crashed, Reason::SidecarDelayed);
        life.later(25).assert_silent(&pod, Reason::SidecarDelayed);
    }
}

/// Some nodes do not do what the restart policy says.
#[test]
fn a_step_does_not_wait_for_ever_for_one_that_is_not_started_again() {
    for node in [NodeClass::Kubelet, NodeClass::VirtualUpdates] {
        let pod = two("OnFailure").but("uploader", |uploader| uploader.ended(1));
        let mut life = on(node);
        life.assert_silent(&pod, Reason::SidecarDelayed);
        life.later(29).assert_silent(&pod, Reason::SidecarDelayed);
        assert_eq!(swapped(&life.later(1).sees(&pod)), ["proxy"], "{node}");
    }
}

/// As a probe that fails now and then.
#[test]
fn what_changes_elsewhere_in_the_pod_does_not_prolong_that_wait() {
    let pod = two("OnFailure");
    let crashed = |proxy_restarts: u32| {
        pod.clone()
            .but("uploader", |uploader| uploader.ended(1))
            .but("proxy", |proxy| {
                proxy.status("restartCount", proxy_restarts)
            })
    };
    let mut life = on(NodeClass::VirtualUpdates);
    life.assert_silent(&crashed(0), Reason::SidecarDelayed);
    let waits = life
        .later(20)
        .assert_silent(&crashed(1), Reason::SidecarDelayed);
    assert_eq!(waits.again, Some(moment(30)));
    assert_eq!(swapped(&life.later(10).sees(&crashed(2))), ["proxy"]);

    // Once it has run again, the next crash is another one.
    let up = pod.annotation(WAIT_FOR_EXIT, "uploader=10m");
    let down = up.clone().but("uploader", |uploader| uploader.ended(1));
    let mut life = on(NodeClass::VirtualUpdates);
    life.assert_silent(&down, Reason::SidecarDelayed);
    life.later(20).assert_silent(&up, Reason::SidecarDelayed);
    let waits = life.later(10).assert_silent(&down, Reason::SidecarDelayed);
    assert_eq!(waits.again, Some(moment(60)));
}

/// One that crashes for ever and cannot be ended holds up the others only while its end is shown.
#[test]
fn a_crash_loop_that_nothing_ends_does_not_hold_up_the_others() {
    let pod = two("OnFailure").but("uploader", |uploader| {
        uploader.spec("command", json!(["/opt/own"]))
    });
    let mut life = new_life();
    let crashed = pod.clone().but("uploader", |uploader| uploader.ended(1));
    life.assert_silent(&crashed, Reason::SidecarDelayed);
    let in_back_off = pod.but("uploader", |uploader| {
        uploader.waiting("CrashLoopBackOff", "back-off 10s")
    });
    assert_eq!(swapped(&life.later(10).sees(&in_back_off)), ["proxy"]);
}

#[test]
fn an_explanation_names_the_one_that_is_waited_for() {
    let pod = two("OnFailure").but("uploader", |uploader| uploader.ended(1));
    let mut life = on(NodeClass::Kubelet);
    life.sees(&pod);
    let explained = explain(&pod.read(), &life.memory, &life.around(), "");
    assert_eq!(explained.decision.reason, Reason::SidecarDelayed);
    let left = explained
        .findings
        .iter()
        .find(|finding| finding.subject == "time that is left")
        .unwrap();
    assert_eq!(
        left.seen,
        "uploader is started again by the node; the next wait for that for 30 s at most"
    );
}

/// All steps together have to fit, which is why the first is not swapped.
#[test]
fn an_explanation_counts_the_restarts_of_later_steps() {
    let pod = two("OnFailure");
    let mut life = Life {
        headroom: counted(2),
        ..new_life()
    };
    assert_eq!(life.sees(&pod).reason, Reason::NoHeadroom);
    let findings = explain(&pod.read(), &life.memory, &life.around(), "").findings;
    let restarts = findings
        .iter()
        .find(|finding| finding.subject == "restarts of the Job")
        .unwrap();
    assert!(
        restarts.seen.contains("2 more would be added"),
        "{restarts:?}"
    );
}

#[test]
fn what_cannot_be_swapped_does_not_hold_up_the_others() {
    let pod = two("OnFailure").but("uploader", |uploader| {
        uploader.spec("command", json!(["/opt/own"]))
    });
    let mut life = new_life();
    assert_eq!(swapped(&life.sees(&pod)), ["proxy"]);
}

/// T8: `a` and `c` (which may end by itself) come before `b`, and the exit image of `a` cannot be
/// pulled.
#[test]
fn a_sidecar_that_cannot_be_ended_does_not_let_the_next_step_overtake_its_neighbours() {
    let pod = done("OnFailure", &[running("a"), running("b"), running("c")])
        .annotation(SIDECARS, "a,b,c")
        .annotation(ORDER, "b=1")
        .annotation(WAIT_FOR_EXIT, "c=60s")
        .grace(30);
    let cannot = |pod: &PodBuilder| {
        pod.clone().but("a", |a| {
            a.waiting(
                "ImagePullBackOff",
                &format!("Back-off pulling image \"{EXIT}\""),
            )
        })
    };
    for allowed in [MAY_FINISH, AllowedMethods::default()] {
        let life = || Life {
            allowed,
            ..new_life()
        };
        let mut first = life();
        let decision = first.sees(&pod);
        assert_eq!(swapped(&decision), ["a"]);
        let tried = cannot(&first.swaps(&pod));
        first.later(3).sees(&tried);
        let decision = first.later(58).sees(&tried);
        assert_eq!(swapped(&decision), ["c"], "{allowed:?}");
        let stops = cannot(&first.swaps(&tried));
        // `c` has its grace period, in this life and for a leader that comes now.
        let mut next = life();
        next.now = first.now;
        for life in [&mut first, &mut next] {
            for _ in 0..29 {
                let decision = life.later(1).sees(&stops);
                assert_eq!(decision.action, None, "{allowed:?}: {decision:?}");
            }
        }
        let ended = ends(&stops, "c");
        assert_eq!(swapped(&first.later(1).sees(&ended)), ["b"]);
        next.later(1).sees(&ended);
        assert_eq!(swapped(&next.later(30).sees(&ended)), ["b"]);
        let stops = first.swaps(&ended);
        let decision = first.later(20).sees(&stops);
        assert_eq!(decision.action, None, "{allowed:?}: {decision:?}");
    }
}

/// Each step is decided for itself, so their number has a bound: the last has what is beyond it.
#[test]
fn sidecars_of_more_orders_than_steps_are_ended_with_the_last_one() {
    let names: Vec<_> = (0..40).map(|nth| format!("s{nth:02}")).collect();
    let rule = |nth: usize| json!({"name": names[nth], "order": nth});
    let rules = |orders: std::ops::Range<usize>| {
        let rules: Vec<_> = orders.map(rule).collect();
        json!({"sidecars": rules})
    };
    let mut policies = policies(&[("a", rules(0..20)), ("b", rules(20..40))]);
    let sidecars: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(nth, name)| match nth {
            0..31 => running(name).spec("command", json!(["/opt/own"])),
            _ => running(name),
        })
        .collect();
    let pod = done("OnFailure", &sidecars).read_under(&mut policies);
    let decision = new_life().sees_pod(&pod);
    assert_eq!(swapped(&decision), names[31..]);
}

/// A phase ends all sidecars, so it is written when the last of them is due.
#[test]
fn a_phase_is_written_in_the_last_step_only() {
    let pod = two("OnFailure").annotation(DELAY, "proxy=30s");
    let mut life = on(NodeClass::VirtualInert);
    life.assert_silent(&pod, Reason::SidecarDelayed);
    life.later(29).assert_silent(&pod, Reason::SidecarDelayed);
    let decision = life.later(1).sees(&pod);
    assert!(
        matches!(decision.action, Some(Action::Finish(_))),
        "{decision:?}"
    );
}

#[test]
fn a_rule_says_by_which_method() {
    let spec = |method: &str| json!({"sidecars": [{"name": "log", "method": method}]});
    let pod = done("OnFailure", &[running("log")]);
    let look = |node, spec: &Value| {
        on(node).sees_pod(&pod.read_under(&mut policies(&[("p", spec.clone())])))
    };
    let decision = look(NodeClass::VirtualUpdates, &spec("Swap"));
    assert_eq!(swapped(&decision), ["log"]);
    let decision = look(NodeClass::VirtualInert, &spec("Swap"));
    assert_eq!((decision.reason, decision.action), (Reason::NoRung, None));
    let decision = look(NodeClass::VirtualUpdates, &spec("Finish"));
    assert!(
        matches!(decision.action, Some(Action::Finish(_))),
        "{decision:?}"
    );
}

/// The others are ended by their own method first, as for those whose exit code does not count.
#[test]
fn what_is_finished_comes_after_the_others() {
    let spec = json!({"sidecars": [{"name": "a", "method": "Finish"}, {"name": "b"}]});
    let pod = done("OnFailure", &[running("a"), running("b")]);
    let mut policies = policies(&[("p", spec)]);
    let mut life = on(NodeClass::VirtualUpdates);
    assert_eq!(
        swapped(&life.sees_pod(&pod.read_under(&mut policies))),
        ["b"]
    );
    let after = pod.but("b", |_| main_container("b").ended(0));
    let decision = life.sees_pod(&after.read_under(&mut policies));
    assert!(
        matches!(decision.action, Some(Action::Finish(_))),
        "{decision:?}"
    );
}

/// Nothing is begun that could not be brought to its end.
#[test]
fn all_steps_have_to_fit_into_what_the_job_allows() {
    let pod = two("OnFailure");
    let on_job = |limit| Life {
        headroom: counted(limit),
        ..on(NodeClass::Kubelet)
    };
    let mut life = on_job(2);
    let decision = life.sees(&pod);
    assert_ne!(decision.reason, Reason::SidecarSwapped, "{decision:?}");
    let mut life = on_job(3);
    let decision = life.sees(&pod);
    assert_eq!(
        (swapped(&decision), decision.swaps_wanted),
        (vec!["uploader"], 2)
    );
    life.headroom.need(&pod.read(), Need::Begun(2));
    let first = life.swaps(&pod);
    assert_eq!(life.sees(&first).reason, Reason::SwapPending);
    let read = first.read();
    let counted = life.counts(&read);
    life.headroom.observe(&read, counted, 0);
    life.headroom.need(&read, Need::Nothing);
    assert_eq!(swapped(&life.sees(&ends(&first, "uploader"))), ["proxy"]);
}
