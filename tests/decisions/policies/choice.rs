//! Which rule counts for a container.

use serde_json::{Value, json};
use swaplet_core::objects::pod::annotations::SIDECARS;
use swaplet_core::objects::pod::{Pod, roles};
use swaplet_core::objects::sidecar_policy::PolicyKind;
use swaplet_core::policies::set::Policies;
use swaplet_core::report::reason::Reason;

use super::{done, new_life, owned, policies, read, running};
use crate::builder::{main_container, pod, sidecar};
use crate::expect::EXIT;

fn sidecars(pod: &Pod) -> Vec<&str> {
    roles::sidecars(pod).map(|sidecar| &*sidecar.name).collect()
}

fn named(name: &str) -> Value {
    json!({"sidecars": [{"name": name}]})
}

fn source(pod: &Pod, nth: usize) -> String {
    let rule = pod.containers[nth].rule.as_ref().unwrap();
    rule.source.to_string()
}

#[test]
fn names_images_and_presets_are_matched() {
    let image = "registry.example/app/log:v1";
    for (rule, fits) in [
        (json!({"name": "log"}), true),
        (json!({"name": "l*"}), true),
        (json!({"name": "*"}), false),
        (json!({"name": "lo"}), false),
        (json!({"name": "logs"}), false),
        (json!({"image": image}), true),
        (json!({"image": "*/log:*"}), true),
        (json!({"image": "*/log:*", "name": "other"}), false),
        (json!({"image": "*/other:*", "name": "log"}), false),
        (json!({"preset": "istio"}), false),
    ] {
        let mut policies = policies(&[("p", json!({"sidecars": [rule]}))]);
        let pod = done("Never", &[running("log")]).read_under(&mut policies);
        assert_eq!(sidecars(&pod) == ["log"], fits, "{rule}");
    }
    // Also once the container was restarted.
    for pattern in [image, "*/log:v1", "*/log:*"] {
        let mut policies = policies(&[("p", json!({"sidecars": [{"image": pattern}]}))]);
        let log = running("log").image(&format!("{image}-restart-2@sha256:{}", "a".repeat(64)));
        let pod = done("Never", &[log]).read_under(&mut policies);
        assert_eq!(sidecars(&pod), ["log"], "{pattern}");
    }
    let mut policies = policies(&[("p", json!({"sidecars": [{"preset": "istio"}]}))]);
    let pod = done("Never", &[running("istio-proxy")]).read_under(&mut policies);
    assert_eq!(
        source(&pod, 1),
        "SidecarPolicy p, sidecars[0] (preset istio)"
    );
}

#[test]
fn owners_labels_and_namespaces_are_matched() {
    let log = || pod("Never").with(running("main")).with(running("log"));
    let job = || owned(log(), "batch/v1", "Job");
    let task = || owned(log(), "tekton.dev/v1", "TaskRun");
    for (spec, pod, fits) in [
        (json!({}), job(), true),
        (json!({}), task(), false),
        (json!({}), log(), false),
        (json!({"ownerKinds": ["TaskRun", "None"]}), task(), true),
        (json!({"ownerKinds": ["TaskRun", "None"]}), log(), true),
        (json!({"ownerKinds": ["TaskRun", "None"]}), job(), false),
        (json!({"ownerKinds": ["*"]}), task(), true),
        (
            json!({"podSelector": {"matchLabels": {"job-name": "job"}}}),
            job(),
            true,
        ),
        (
            json!({"podSelector": {"matchLabels": {"job-name": "other"}}}),
            job(),
            false,
        ),
        (
            json!({"podSelector": {"matchExpressions": [{"key": "job-name", "operator": "NotIn", "values": ["job"]}]}}),
            job(),
            false,
        ),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}),
            job(),
            true,
        ),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "b"}}}),
            job(),
            false,
        ),
    ] {
        let mut all = spec.clone();
        all["sidecars"] = json!([{"name": "log"}]);
        let mut policies = policies(&[("p", all)]);
        policies.namespace("batch", Some([("team".to_owned(), "a".to_owned())].into()));
        assert_eq!(
            sidecars(&pod.read_under(&mut policies)) == ["log"],
            fits,
            "{spec}"
        );
    }
}

#[test]
fn a_namespace_whose_labels_are_not_known_is_not_selected_and_kube_system_never() {
    let spec = json!({"namespaceSelector": {}, "sidecars": [{"name": "log"}]});
    let pod = done("Never", &[running("log")]);
    assert_eq!(
        sidecars(&pod.read_under(&mut policies(&[("p", spec.clone())]))),
        [""; 0]
    );
    let mut policies = policies(&[("p", named("log"))]);
    let closed = pod.set("/metadata/namespace", "kube-system");
    assert_eq!(sidecars(&closed.read_under(&mut policies)), [""; 0]);
}

#[test]
fn labels_of_a_namespace_count_as_they_are_now() {
    let spec =
        json!({"namespaceSelector": {"matchLabels": {"a": "b"}}, "sidecars": [{"name": "log"}]});
    let mut policies = policies(&[("p", spec)]);
    let pod = done("Never", &[running("log")]);
    let labels = |value: &str| Some([("a".to_owned(), value.to_owned())].into());
    assert!(policies.namespace("batch", labels("b")));
    assert!(
        !policies.namespace("batch", labels("b")),
        "nothing has changed"
    );
    assert_eq!(sidecars(&pod.read_under(&mut policies)), ["log"]);
    assert!(policies.namespace("batch", labels("c")));
    assert_eq!(sidecars(&pod.read_under(&mut policies)), [""; 0]);
}

/// Each change means that all pods are listed again.
#[test]
fn u114_a_namespace_that_no_policy_selects_or_that_is_gone_changes_no_rules() {
    let spec =
        json!({"namespaceSelector": {"matchLabels": {"a": "b"}}, "sidecars": [{"name": "log"}]});
    let mut policies = policies(&[("p", spec)]);
    let labels = |value: &str| Some([("a".to_owned(), value.to_owned())].into());
    assert!(!policies.namespace("ci-1", labels("c")));
    assert!(!policies.namespace("ci-1", labels("d")));
    assert!(policies.namespace("ci-1", labels("b")));
    assert!(!policies.namespace("ci-1", None));
}

/// The environment, then annotations, then the policies of the namespace, then those of the
/// cluster; of one kind by name, of one policy by place.
#[test]
fn the_highest_source_says_all() {
    let mut policies = policies(&[
        (
            "b",
            json!({"sidecars": [{"name": "other", "order": 1}, {"name": "lo*", "order": 2}, {"name": "log", "order": 3}]}),
        ),
        ("c", json!({"sidecars": [{"name": "log", "order": 4}]})),
    ]);
    let pod = done("Never", &[running("log")]);
    let order = |pod: &Pod| pod.containers[1].rule.as_ref().unwrap().order;
    assert_eq!(order(&pod.read_under(&mut policies)), 2);
    policies.apply(&read(
        PolicyKind::Cluster,
        "a",
        json!({"sidecars": [{"name": "log", "order": 5}]}),
    ));
    assert_eq!(order(&pod.read_under(&mut policies)), 5);
    policies.apply(&read(
        PolicyKind::Namespaced,
        "z",
        json!({"sidecars": [{"name": "log", "order": 6}]}),
    ));
    assert_eq!(order(&pod.read_under(&mut policies)), 6);
    let annotated = pod
        .clone()
        .annotation(SIDECARS, "log")
        .read_under(&mut policies);
    assert_eq!(
        (order(&annotated), source(&annotated, 1)),
        (0, "annotations of the pod".to_owned())
    );
    let elsewhere = pod
        .clone()
        .set("/metadata/namespace", "other")
        .read_under(&mut policies);
    assert_eq!(order(&elsewhere), 5);
    let marked = done("Never", &[sidecar("log").running()]).read_under(&mut policies);
    assert_eq!(
        order(&marked),
        6,
        "a mark says no more than that it is a sidecar"
    );
    policies.remove(&(PolicyKind::Namespaced, "batch".into(), "z".into()));
    assert_eq!(order(&pod.read_under(&mut policies)), 5);
}

/// Those that count for no container of the pod, each once.
#[test]
fn a_pod_remembers_which_policies_others_outrank() {
    let names = |pod: &Pod| {
        let rules = pod.outranked_policies.iter();
        rules
            .map(|rule| rule.policy().unwrap().name.to_string())
            .collect::<Vec<_>>()
    };
    let mut policies = policies(&[
        ("a", named("log")),
        ("b", named("*o*")),
        ("c", json!({"sidecars": [{"name": "log"}, {"name": "lo*"}]})),
        ("d", named("unrelated")),
        (
            "e",
            json!({"podSelector": {"matchLabels": {"other": "pod"}}, "sidecars": [{"name": "log"}]}),
        ),
    ]);
    let one = done("Never", &[running("log")]);
    assert_eq!(names(&one.read_under(&mut policies)), ["b", "c"]);
    let two = done("Never", &[running("log"), running("proxy")]);
    assert_eq!(names(&two.read_under(&mut policies)), ["c"], "b has proxy");
    let said = two.annotation(SIDECARS, "log,proxy");
    assert_eq!(names(&said.read_under(&mut policies)), ["a", "b", "c"]);
    policies.remove(&(PolicyKind::Cluster, Box::default(), "c".into()));
    assert_eq!(names(&one.read_under(&mut policies)), ["b"]);
}

#[test]
fn a_policy_never_takes_the_last_main_container() {
    let mut policies = policies(&[("p", named("*"))]);
    let pod = done("OnFailure", &[running("log")]);
    let read = pod.read_under(&mut policies);
    assert_eq!(sidecars(&read), [""; 0]);
    assert!(read.refused_policy.is_some());
    let decision = new_life().sees_pod(&read);
    assert_eq!(
        (decision.reason, decision.action, decision.reports),
        (Reason::PolicyRefused, None, vec![])
    );
    let beside_a_mark = pod
        .with(sidecar("marked").running())
        .read_under(&mut policies);
    assert_eq!(sidecars(&beside_a_mark), ["marked"]);
    let alone = owned(
        crate::builder::pod("Never").with(main_container("log").ended(0)),
        "batch/v1",
        "Job",
    );
    assert_eq!(sidecars(&alone.read_under(&mut policies)), [""; 0]);
}

#[test]
fn one_that_is_left_is_neither_ended_nor_waited_for() {
    let rule = |method: &str| json!({"sidecars": [{"name": "log", "method": method}]});
    let pod = done("OnFailure", &[running("log")]);
    let left = pod.read_under(&mut policies(&[("p", rule("Leave"))]));
    let decision = new_life().sees_pod(&left);
    assert_eq!(
        (decision.reason, decision.action),
        (Reason::NoSidecar, None)
    );
    let beside = done("OnFailure", &[running("log"), sidecar("marked").running()]);
    let decision = new_life().sees_pod(&beside.read_under(&mut policies(&[("p", rule("Leave"))])));
    let swapped: Vec<_> = decision
        .swaps()
        .iter()
        .map(|swap| &*swap.container)
        .collect();
    assert_eq!(swapped, ["marked"]);
    let all = json!({"sidecars": [{"name": "log", "method": "Leave"}, {"name": "main"}]});
    assert!(
        pod.read_under(&mut policies(&[("p", all)]))
            .refused_policy
            .is_some()
    );
}

/// Its image does not say any more what it was; another life has to know that it is a sidecar.
#[test]
fn one_that_was_swapped_is_known_by_its_name() {
    let spec = json!({"sidecars": [{"name": "log", "image": "*/log:*"}]});
    let mut policies: Policies = policies(&[("p", spec)]);
    let pod = done("Never", &[running("log").image(EXIT)]);
    assert_eq!(sidecars(&pod.read_under(&mut policies)), ["log"]);
    let other = done("Never", &[running("log").image("other:1")]);
    assert_eq!(sidecars(&other.read_under(&mut policies)), [""; 0]);
}

/// Else its rule would change with its own swap, and the steps of `order` with it.
#[test]
fn u104_one_that_was_swapped_keeps_the_entry_with_its_name() {
    let order = |name: &str, specs: &[(&str, serde_json::Value)]| {
        ["log:1", EXIT].map(|image| {
            let pod = done("Never", &[running(name).image(image)]);
            let pod = pod.read_under(&mut policies(specs));
            let found = pod.containers.iter().find(|one| &*one.name == name);
            found.unwrap().rule.as_ref().unwrap().order
        })
    };
    let by_image = json!({"image": "*/proxyv2*", "order": 1});
    let named = |name: &str, order: u32| json!({"name": name, "order": order});
    for (name, other) in [
        ("log", named("log", 2)),
        ("istio-proxy", json!({"preset": "istio", "order": 2})),
    ] {
        let spec = json!({"sidecars": [by_image, other]});
        assert_eq!(order(name, &[("p", spec)]), [2, 2], "{name}");
    }
    // An entry that never depended on the image stays the first.
    let spec = json!({"sidecars": [named("log-*", 3), named("log-agent", 5)]});
    assert_eq!(order("log-agent", &[("p", spec)]), [3, 3]);
    let spec =
        json!({"sidecars": [{"name": "log", "image": "log:*", "order": 6}, named("log", 7)]});
    assert_eq!(order("log", &[("p", spec)]), [6, 6]);
    // So does a policy that names it.
    let specs = [
        ("a", json!({"sidecars": [by_image]})),
        ("b", json!({"sidecars": [named("log", 4)]})),
    ];
    assert_eq!(order("log", &specs), [4, 4]);
}

#[test]
fn an_exit_image_of_a_policy_is_one_of_the_list_or_the_default() {
    for (asked, given) in [
        (crate::expect::LISTED, crate::expect::LISTED),
        (crate::expect::UNLISTED, EXIT),
    ] {
        let spec = json!({"sidecars": [{"name": "log", "exitImage": asked}]});
        let pod = done("Never", &[running("log")]).read_under(&mut policies(&[("p", spec)]));
        let decision = new_life().sees_pod(&pod);
        assert_eq!(&*decision.swaps()[0].to, given);
    }
}
