//! How policies and annotations are read: what cannot be used is told, with the field and the fix,
//! and costs nothing else.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_core::objects::pod::RuleMethod;
use swaplet_core::objects::pod::annotations::{DELAY, ORDER, SIDECARS, WAIT_FOR_EXIT};
use swaplet_core::objects::sidecar_policy::{PolicyKind, SidecarPolicy};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::report::reason::Reason;

use super::{done, new_life, policies, read, running};
use crate::builder::sidecar;
use crate::expect::{EXIT, swaps_in, warns};

fn cluster(spec: Value) -> SidecarPolicy {
    read(PolicyKind::Cluster, "p", spec)
}

#[test]
fn a_policy_is_read_with_its_defaults() {
    let policy = cluster(json!({"sidecars": [{"preset": "istio"}]}));
    assert_eq!(policy.problems, Vec::<String>::new());
    assert_eq!(
        (&*policy.owner_kinds[0], policy.owner_kinds.len()),
        ("Job", 1)
    );
    let rule = &policy.rules[0].ending;
    assert_eq!(
        (rule.method, rule.delay, rule.wait_for_exit, rule.order),
        (RuleMethod::Auto, Duration::ZERO, Duration::ZERO, 0)
    );
    assert!(!rule.main_must_succeed && policy.namespaces.is_none());
}

#[test]
fn a_bad_rule_is_told_with_its_field_and_the_others_count() {
    for (bad, words) in [
        (json!({}), "preset, name or image"),
        (json!({"preset": "istio", "name": "x"}), "one of them"),
        (json!({"name": ""}), "name is not a string"),
        (json!({"name": "a".repeat(64)}), "name is not a string"),
        (json!({"image": "*a".repeat(9)}), "write at most 8"),
        (
            json!({"name": "x", "method": "Kill"}),
            "Auto, Swap, Finish or Leave",
        ),
        (
            json!({"name": "x", "delaySeconds": -1}),
            "delaySeconds is not a number from 0",
        ),
        (json!({"name": "x", "delaySeconds": 86_401}), "delaySeconds"),
        (json!({"name": "x", "waitForExit": {}}), "deadlineSeconds"),
        (
            json!({"name": "x", "waitForExit": {"deadlineSeconds": 0}}),
            "deadlineSeconds",
        ),
        (json!({"name": "x", "order": 1001}), "order"),
        // Of the wrong types, which the CRD refuses.
        (json!({"name": "x", "order": 1.5}), "it is not a rule"),
        (
            json!({"name": "x", "mainMustSucceed": "yes"}),
            "it is not a rule",
        ),
        (json!(7), "it is not a rule"),
    ] {
        let policy = cluster(json!({"sidecars": [bad, {"name": "good"}]}));
        assert_eq!(policy.problems.len(), 1, "{:?}", policy.problems);
        let told = &policy.problems[0];
        assert!(
            told.starts_with("spec.sidecars[0]: ") && told.contains(words),
            "{told}"
        );
        assert_eq!((policy.rules.len(), policy.rules[0].nth), (1, 1));
    }
}

/// As with one that is not on the list, the container is ended by the default.
#[test]
fn u53_an_exit_image_that_is_none_costs_only_itself_and_a_long_one_is_read() {
    let long = format!("{}/exit:v1", vec!["a".repeat(49); 12].join("."));
    let spec = json!({"sidecars": [
        {"name": "log", "exitImage": "Not/An Image"},
        {"name": "proxy", "exitImage": long},
    ]});
    let policy = cluster(spec.clone());
    assert_eq!(policy.problems.len(), 1, "{:?}", policy.problems);
    let told = &policy.problems[0];
    assert!(
        told.starts_with("spec.sidecars[0].exitImage: it counts as absent"),
        "{told}"
    );
    let images: Vec<_> = policy
        .rules
        .iter()
        .map(|rule| rule.ending.exit_image.as_deref())
        .collect();
    assert_eq!(images, [None, Some(&*long)]);
    let pod = done("Never", &[running("log")]).read_under(&mut policies(&[("p", spec)]));
    assert_eq!(&*new_life().sees_pod(&pod).swaps()[0].to, EXIT);
}

#[test]
fn a_policy_whose_pods_are_not_known_is_about_none() {
    for (field, bad) in [
        (
            "podSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "Likes", "values": ["b"]}]}),
        ),
        ("podSelector", json!("app=x")),
        ("namespaceSelector", json!([1])),
        ("ownerKinds", json!([])),
        ("ownerKinds", json!("Job")),
        ("sidecars", json!([])),
        ("sidecars", json!(vec![json!({"name": "x"}); 33])),
    ] {
        let mut spec = json!({"sidecars": [{"name": "x"}]});
        spec[field] = bad;
        let policy = cluster(spec);
        assert_eq!(policy.rules, [], "{field}");
        assert!(
            policy.problems[0].starts_with(&format!("spec.{field}: ")),
            "{:?}",
            policy.problems
        );
    }
}

#[test]
fn problems_are_few_and_short() {
    let bad = json!({"name": "x".repeat(5000)});
    let policy = cluster(json!({"sidecars": vec![bad; 32]}));
    assert_eq!(policy.problems.len(), 8);
    assert!(policy.problems.iter().all(|told| told.len() <= 300));
}

#[test]
fn an_unknown_preset_is_told_with_those_that_there_are() {
    let policies = policies(&[("p", json!({"sidecars": [{"preset": "isto"}]}))]);
    let problems = policies.preset_problems(&(PolicyKind::Cluster, "".into(), "p".into()));
    assert!(
        problems[0].contains("\"isto\"") && problems[0].contains("linkerd"),
        "{problems:?}"
    );
}

#[test]
fn an_annotation_names_sidecars() {
    let pod = done("OnFailure", &[running("log"), running("istio-proxy")]);
    let pod = pod.annotation(SIDECARS, " log , istio-proxy,");
    swaps_in(new_life, &pod, &[("log", EXIT), ("istio-proxy", EXIT)]);
}

#[test]
fn a_bad_annotation_is_told_once_and_the_rest_counts() {
    for (annotation, value, words) in [
        (DELAY, json!("soon"), "\"soon\""),
        (DELAY, json!("25h"), "at most 24h"),
        (DELAY, json!("-5s"), "\"-5s\""),
        (DELAY, json!("other=5s"), "\"other\" is not a sidecar"),
        (ORDER, json!("log=first"), "log=0,istio-proxy=1"),
        (ORDER, json!("log=1001"), "\"log=1001\""),
        (WAIT_FOR_EXIT, json!("log="), "\"log=\""),
        (WAIT_FOR_EXIT, json!("x".repeat(5000)), "4096"),
        (SIDECARS, json!("log,nobody"), "no container \"nobody\""),
        (SIDECARS, json!(vec!["log"; 33].join(",")), "more than 32"),
        (SIDECARS, json!("main,log"), "no main container"),
    ] {
        let pod = done("OnFailure", &[sidecar("log").running()]).annotation(annotation, value);
        let decision = new_life().sees(&pod);
        assert_eq!(decision.reason, Reason::SidecarSwapped, "{annotation}");
        let [told] = &decision.reports[..] else {
            panic!("{:?}", decision.reports)
        };
        assert_eq!(told.reason, Reason::AnnotationInvalid);
        assert!(
            told.note.contains(annotation) && told.note.contains(words),
            "{}",
            told.note
        );
    }
}

#[test]
fn a_pod_without_sidecars_is_told_that_its_annotation_is_wrong() {
    let pod = done("OnFailure", &[running("log")]).annotation(SIDECARS, "lgo");
    assert!(warns(&pod, Reason::AnnotationInvalid).contains("\"lgo\""));
}

#[test]
fn u66_a_policy_in_a_closed_namespace_is_told_that_it_counts_for_nothing() {
    let problems = |namespace: &str| {
        let metadata = json!({"name": "p", "namespace": namespace, "uid": "p"});
        let spec = json!({"sidecars": [{"name": "log"}]});
        let object = BoundedObject::from(json!({"metadata": metadata, "spec": spec}));
        SidecarPolicy::read(PolicyKind::Namespaced, object)
            .unwrap()
            .problems
    };
    assert!(problems("kube-system")[0].contains("no policy counts in kube-system"));
    assert_eq!(problems("batch"), Vec::<String>::new());
}
