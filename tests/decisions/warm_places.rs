//! Where warmer pods come to, and what they mount there.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use serde_json::{Value, json};
use swaplet_controller::warm::write::{self, Warmers};
use swaplet_core::warm::pod::Shape;
use swaplet_core::warm::pull_job::object::{JobKind, PodWishes, Targets};
use swaplet_core::warm::pull_job::{TargetNode, wants};

fn warmers() -> Warmers {
    Warmers {
        namespace: "w".into(),
        run: "r".into(),
        park_image: "r.example/park:1".into(),
        job: None,
        owner: None,
        wishes: PodWishes::default(),
        life_seconds: 600,
    }
}

fn in_place() -> Value {
    write::pod(
        &warmers(),
        "node",
        Shape::InPlace,
        &["r.example/a:1".into()],
        1,
    )
}

/// A folder can be covered by a volume of the image; a file at the root cannot.
#[test]
fn a3_the_container_of_an_image_runs_one_file_that_is_mounted_at_the_root() {
    let pod = in_place();
    let warmer = &pod["spec"]["containers"][0];
    let path = &warmer["command"][0];
    assert_eq!(warmer["command"], json!([path]));
    assert_eq!(
        warmer["volumeMounts"],
        json!([{"name": "park", "mountPath": path, "subPath": "park", "readOnly": true}])
    );
    let init = &pod["spec"]["initContainers"][0];
    assert_eq!(
        init["command"],
        json!(["/swaplet/park", "--copy-self", "/.swaplet-warm/park"])
    );
    assert_eq!(
        init["volumeMounts"],
        json!([{"name": "park", "mountPath": "/.swaplet-warm"}])
    );
}

/// A link of this name in an image could lead to where a volume of the image is mounted later.
#[test]
fn a3_no_image_can_know_the_name_of_the_file_that_is_mounted() {
    let path = || {
        let pod = in_place();
        let path = pod["spec"]["containers"][0]["command"][0].as_str();
        path.unwrap().to_owned()
    };
    let paths: BTreeSet<String> = (0..100).map(|_| path()).collect();
    assert_eq!(paths.len(), 100, "each pod has another one");
    for path in paths {
        let digits = path.strip_prefix("/.swaplet-warm-").unwrap();
        let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        assert!(
            digits.len() == 16 && digits.bytes().all(is_digit),
            "the admission policies know it by its form: {path}"
        );
    }
}

const ROLE: &str = "node-role.kubernetes.io/control-plane";

fn target(is_control_plane: bool) -> TargetNode {
    let labels = [(ROLE, ""), ("kubernetes.io/hostname", "n"), ("pool", "a")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    TargetNode {
        uid: "u".into(),
        labels: BTreeMap::from(labels),
        ready: true,
        shape: Ok(Shape::InPlace),
        has_image_caches: false,
        is_control_plane,
    }
}

#[test]
fn a3_a_job_comes_to_the_control_plane_only_where_its_selector_names_it() {
    let selected = |selector: Value| {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        Targets::Labels(Selector::try_from(selector).unwrap())
    };
    let wanted = |targets: &Targets, is_control_plane: bool| {
        wants(
            targets,
            "n",
            &target(is_control_plane),
            &BTreeSet::from(["n".into()]),
        )
    };
    for (selector, on_control_plane) in [
        (json!({}), false),
        (json!({"matchLabels": {"pool": "a"}}), false),
        (
            json!({"matchExpressions": [{"key": "pool", "operator": "Exists"}]}),
            false,
        ),
        (
            json!({"matchExpressions": [{"key": ROLE, "operator": "Exists"}]}),
            true,
        ),
        (json!({"matchLabels": {ROLE: ""}}), true),
        (
            json!({"matchLabels": {"kubernetes.io/hostname": "n"}}),
            true,
        ),
    ] {
        let targets = selected(selector.clone());
        assert_eq!(
            (wanted(&targets, true), wanted(&targets, false)),
            (on_control_plane, true),
            "{selector}"
        );
    }
    let absent = selected(
        json!({"matchExpressions": [{"key": "node-role.kubernetes.io/master", "operator": "DoesNotExist"}]}),
    );
    assert!(
        !wanted(&absent, true),
        "to leave a role out is not to name it"
    );
    assert!(
        wanted(&Targets::Names(BTreeSet::from(["n".into()])), true),
        "a name is a name"
    );
    assert!(
        wanted(&Targets::Pods(Selector::default()), true),
        "where the pods of the job's namespace are"
    );
}

/// A Service may select its labels, and so may a workload.
#[test]
fn i9_a_warmer_pod_is_never_ready_and_is_owned_by_its_job_where_that_is_in_its_namespace() {
    assert_eq!(
        in_place()["spec"]["readinessGates"],
        json!([{"conditionType": "swaplet.io/never-ready"}])
    );
    assert!(in_place()["metadata"]["ownerReferences"].is_null());
    let job = Some(("w".into(), "uid".into()));
    let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
    let wishes = PodWishes {
        labels,
        ..PodWishes::default()
    };
    let owned = Warmers {
        job,
        owner: Some((JobKind::ImageListPullJob, "l".into())),
        wishes,
        ..warmers()
    };
    let owner = json!([{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImageListPullJob", "name": "l", "uid": "uid", "controller": true}]);
    assert_eq!(made_by(&owned)["metadata"]["ownerReferences"], owner);
}

fn made_by(warmers: &Warmers) -> Value {
    write::pod(
        warmers,
        "node",
        Shape::InPlace,
        &["r.example/a:1".into()],
        1,
    )
}

/// The disruption controller asks what controls a pod for its scale, and a job has none.
#[test]
fn i9_a_job_does_not_control_a_pod_without_labels_of_a_user_for_disruption_budgets_would_fail_by_it()
 {
    let job = Some(("w".into(), "uid".into()));
    let annotations = BTreeMap::from([("note".to_owned(), "x".to_owned())]);
    let wishes = PodWishes {
        annotations,
        ..PodWishes::default()
    };
    let owned = Warmers {
        job,
        owner: Some((JobKind::ImagePullJob, "j".into())),
        wishes,
        ..warmers()
    };
    let owner = json!([{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "name": "j", "uid": "uid"}]);
    assert_eq!(
        made_by(&owned)["metadata"]["ownerReferences"],
        owner,
        "it goes with its job"
    );
}
