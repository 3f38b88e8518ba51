//! What is suggested for pods that wait for containers which nobody makes sidecars.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use swaplet_core::objects::pod::Pod;
use swaplet_core::policies::suggest::{Stuck, Subject, stuck, suggest};

use super::{done, policies, running};
use crate::builder::{ContainerBuilder, main_container, pod, sidecar};

const MINUTES: SignedDuration = SignedDuration::from_mins(5);

/// Long after all that the builder says.
fn now() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

fn seen(pod: &Pod) -> Option<Stuck> {
    stuck(pod, now(), MINUTES)
}

fn waits_for(beside: &[ContainerBuilder]) -> Option<Vec<String>> {
    let stuck = seen(&done("Never", beside).read())?;
    let names = stuck.waits_for.iter();
    Some(names.map(|each| each.name.to_string()).collect())
}

#[test]
fn a_pod_is_stuck_where_some_have_ended_for_good_and_all_others_run() {
    let one = [running("istio-proxy")];
    assert_eq!(waits_for(&one), Some(vec!["istio-proxy".to_owned()]));
    let not_pulled = main_container("fluent-bit").waiting("ImagePullBackOff", "");
    assert_eq!(
        waits_for(&[not_pulled]),
        Some(vec!["fluent-bit".to_owned()])
    );
    let two = [running("istio-proxy"), running("log")];
    assert_eq!(waits_for(&two).unwrap().len(), 2);
    let stuck = seen(&done("OnFailure", &one).read()).unwrap();
    assert_eq!((&*stuck.owner_kind, &*stuck.ended[0]), ("Job", "main"));
}

/// Each of these may be work that goes on, or is ended already.
#[test]
fn what_may_be_work_is_no_sign_of_a_sidecar() {
    assert_eq!(waits_for(&[]), None, "nothing runs");
    assert_eq!(waits_for(&[sidecar("log").running()]), None, "marked");
    let starting = main_container("log").waiting("CrashLoopBackOff", "");
    assert_eq!(waits_for(&[running("istio-proxy"), starting]), None);
    let all_run = pod("Never").with(running("main")).with(running("log"));
    assert_eq!(seen(&all_run.read()), None);
    let comes_back = pod("OnFailure")
        .with(main_container("main").ended(1))
        .with(running("log"));
    assert_eq!(seen(&comes_back.read()), None, "it is started again");
    let helper = pod("Never")
        .with(main_container("vault-agent").ended(0))
        .with(running("main"));
    assert_eq!(seen(&helper.read()), None, "only a known sidecar has ended");
    let deleted = done("Never", &[running("log")]).deleting();
    assert_eq!(seen(&deleted.read()), None);
    let over = done("Never", &[running("log")]).phase("Succeeded");
    assert_eq!(seen(&over.read()), None);
}

#[test]
fn one_that_has_waited_for_less_or_is_named_by_a_policy_is_not_stuck() {
    let pod = done("Never", &[running("log")]);
    let ended = seen(&pod.read()).unwrap().since;
    let just_now = ended.checked_add(SignedDuration::from_secs(299)).unwrap();
    assert_eq!(stuck(&pod.read(), just_now, MINUTES), None);
    let mut named = policies(&[("p", json!({"sidecars": [{"name": "log"}]}))]);
    assert_eq!(seen(&pod.read_under(&mut named)), None);
}

#[test]
fn there_is_one_policy_for_each_distinct_sidecar_by_preset_where_there_is_one() {
    let pods: Vec<_> = (0..100)
        .map(|number| {
            let beside = match number % 2 {
                0 => vec![running("istio-proxy")],
                _ => vec![running("istio-proxy"), running("log")],
            };
            let pod = done("Never", &beside).set("/metadata/name", format!("p-{number}"));
            seen(&pod.read()).unwrap()
        })
        .collect();
    let (found, more) = suggest(&pods);
    assert_eq!((found.len(), more), (2, 0));
    assert_eq!(found[0].subject, Subject::Preset("istio"));
    assert_eq!((found[0].pods, found[0].examples.len()), (100, 5));
    assert!(found[0].comes_last && found[0].what == Some("Istio's proxy"));
    assert_eq!(found[1].subject, Subject::Name("log".into()));
    assert_eq!((found[1].pods, found[1].what), (50, None));
    assert!(!found[1].comes_last);
}

#[test]
fn suggestions_are_bounded_whatever_is_stuck() {
    let pods: Vec<_> = (0..200)
        .map(|number| {
            let pod = done("Never", &[running(&format!("c-{number}"))]);
            let pod = pod.set("/metadata/namespace", format!("team-{number}"));
            seen(&pod.read()).unwrap()
        })
        .collect();
    let (found, more) = suggest(&pods);
    assert_eq!((found.len(), more), (64, 136));
    let same: Vec<_> = pods
        .iter()
        .map(|pod| Stuck {
            waits_for: pods[0].waits_for.clone(),
            ..pod.clone()
        })
        .collect();
    let (found, _) = suggest(&same);
    assert_eq!(
        (found[0].namespaces.len(), found[0].more_namespaces),
        (64, true)
    );
}
