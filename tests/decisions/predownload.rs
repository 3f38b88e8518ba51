//! Pre-download: which jobs are made for a workload, and when they are deleted.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};
use swaplet_controller::warm::write::predownload_job;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::warm::predownload::workload::{IsWorkload, PREDOWNLOAD, Workload, WorkloadWire};
use swaplet_core::warm::predownload::{Action, JobSeen, PodSeen, decide, is_gate_off};

const OLD: &str = "r.example/app:1";
const NEW: &str = "r.example/app:2";
const PROXY: &str = "r.example/proxy:1";

fn read<K: IsWorkload>(object: Value) -> Workload {
    let wire: WorkloadWire<K> = serde_json::from_value(object).unwrap();
    wire.read().unwrap().0
}

fn deployment(image: &str, annotations: &Value) -> Workload {
    let deployment = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-1", "annotations": annotations},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {
            "imagePullSecrets": [{"name": "login"}],
            "containers": [{"name": "main", "image": image}, {"name": "proxy", "image": PROXY}],
        }}},
    });
    read::<Deployment>(deployment)
}

fn asking(image: &str) -> Workload {
    deployment(image, &json!({PREDOWNLOAD: "true"}))
}

fn pod(image: &str, revision: &str) -> PodSeen {
    let images = BTreeMap::from([
        ("main".into(), image.into()),
        ("proxy".into(), PROXY.into()),
    ]);
    PodSeen {
        images,
        revision: Some(revision.into()),
    }
}

/// The one action for a workload without jobs.
fn only(workload: &Workload, pods: &[PodSeen]) -> Action {
    let mut actions = decide(workload, pods, &[]).unwrap();
    assert_eq!(actions.len(), 1, "{actions:?}");
    actions.remove(0)
}

fn seen(action: &Action) -> JobSeen {
    let Action::Create { name, .. } = action else {
        panic!("{action:?}")
    };
    JobSeen {
        name: name.clone(),
        uid: "j-1".into(),
        deleting: false,
    }
}

#[test]
fn an_image_that_pods_lack_gets_one_job_and_the_others_get_none() {
    let pods = [pod(OLD, "a"), pod(OLD, "a")];
    let action = only(&asking(NEW), &pods);
    let Action::Create { name, image, .. } = &action else {
        panic!("{action:?}")
    };
    assert!(
        name.starts_with("web-main-") && &**image == NEW,
        "{action:?}"
    );
    assert_eq!(
        decide(&asking(NEW), &pods, &[seen(&action)]),
        Ok(vec![]),
        "and it is made once"
    );
    assert_eq!(
        decide(&asking(OLD), &pods, &[]),
        Ok(vec![]),
        "nothing has changed"
    );
    assert_eq!(
        decide(&asking(NEW), &[], &[]),
        Ok(vec![]),
        "there is no pod"
    );
}

#[test]
fn nothing_is_made_for_those_who_do_not_ask() {
    let pods = [pod(OLD, "a")];
    for annotations in [json!({}), json!({PREDOWNLOAD: "false"})] {
        assert_eq!(
            decide(&deployment(NEW, &annotations), &pods, &[]),
            Ok(vec![])
        );
    }
}

#[test]
fn a_wrong_annotation_is_named_and_nothing_is_written() {
    let wrong = deployment(
        NEW,
        &json!({PREDOWNLOAD: "true", "apps.kruise.io/image-predownload-parallelism": "many"}),
    );
    let job = JobSeen {
        name: "web-main-00000000".into(),
        uid: "j".into(),
        deleting: false,
    };
    let error = decide(&wrong, &[pod(OLD, "a")], &[job]).unwrap_err();
    assert!(
        error.contains("image-predownload-parallelism is \"many\": write a number of nodes"),
        "{error}"
    );
}

#[test]
fn a_job_goes_when_no_old_pod_is_left_when_nobody_asks_any_more_and_when_the_image_changes_again() {
    let job = seen(&only(&asking(NEW), &[pod(OLD, "a")]));
    let delete = vec![Action::Delete(job.clone())];
    assert_eq!(
        decide(&asking(NEW), &[pod(NEW, "b")], std::slice::from_ref(&job)),
        Ok(delete.clone())
    );
    assert_eq!(
        decide(
            &deployment(NEW, &json!({})),
            &[pod(OLD, "a")],
            std::slice::from_ref(&job)
        ),
        Ok(delete)
    );
    let again = decide(
        &asking("r.example/app:3"),
        &[pod(OLD, "a")],
        std::slice::from_ref(&job),
    )
    .unwrap();
    let [Action::Delete(gone), Action::Create { image, name, .. }] = &again[..] else {
        panic!("{again:?}")
    };
    assert!(*gone == job && &**image == "r.example/app:3" && *name != job.name);
}

#[test]
fn nodes_of_new_pods_are_left_out() {
    let action = only(&asking(NEW), &[pod(OLD, "a"), pod(NEW, "b")]);
    let Action::Create { pods, .. } = action else {
        panic!("{action:?}")
    };
    let expected = json!({
        "matchLabels": {"app": "web"}, "matchExpressions": [{"key": "pod-template-hash", "operator": "NotIn", "values": ["b"]}],
    });
    assert_eq!(serde_json::to_value(pods).unwrap(), expected);
}

/// The selector is sent in a URL, and the values of a label are whatever users write on pods.
#[test]
fn of_many_revisions_so_many_are_left_out_as_a_url_has_room_for() {
    let new = (0..100).map(|number| pod(NEW, &format!("{number:063}")));
    let pods: Vec<_> = std::iter::once(pod(OLD, "a")).chain(new).collect();
    let Action::Create { pods, .. } = only(&asking(NEW), &pods) else {
        panic!("it is made")
    };
    let left_out = pods.match_expressions.unwrap().remove(0).values.unwrap();
    assert_eq!(left_out.len(), 16);
}

#[test]
fn i3_only_openkruises_own_gates_mean_that_nobody_would_do_a_job() {
    let words = |what: &str| {
        format!("admission webhook \"vimagepulljob.kb.io\" denied the request: {what}")
    };
    for gate in ["KruiseDaemon", "ImagePullJobGate"] {
        assert!(
            is_gate_off(&words(&format!("feature-gate {gate} is not enabled"))),
            "{gate}"
        );
    }
    let quoted = "x denied the request: feature-gate ImagePullJobGate is not enabled";
    for other in [
        quoted,
        "feature-gate ImagePullJobGate is not enabled for y",
        "image can not be empty",
        "feature-gate PodWebhook is not enabled",
        "imagepulljobs is forbidden",
        "",
    ] {
        assert!(!is_gate_off(&words(other)), "{other}");
    }
}

#[test]
fn a_job_is_as_openkruise_makes_it_but_for_labels_and_time_to_live() {
    let workload = deployment(
        NEW,
        &json!({PREDOWNLOAD: "true", "apps.kruise.io/image-predownload-parallelism": "20%"}),
    );
    let Action::Create {
        name,
        image,
        pods,
        wish,
    } = only(&workload, &[pod(OLD, "a")])
    else {
        panic!("no creation")
    };
    let made = predownload_job(&workload, &name, &image, &pods, &wish);
    assert_eq!(made["metadata"]["labels"], json!({PREDOWNLOAD: "u-1"}));
    assert_eq!(
        (
            &made["metadata"]["ownerReferences"][0]["kind"],
            &made["metadata"]["namespace"]
        ),
        (&json!("Deployment"), &json!("shop"))
    );
    let expected = json!({
        "image": NEW, "podSelector": {"matchLabels": {"app": "web"}}, "pullSecrets": ["login"], "parallelism": "20%",
        "pullPolicy": {"timeoutSeconds": 300, "backoffLimit": 1}, "completionPolicy": {"type": "Always"},
    });
    assert_eq!(made["spec"], expected);
}

/// No schema restricts the template of a CloneSet.
#[test]
fn u124_a_template_that_cannot_be_read_is_told_to_who_asks() {
    let of = |annotations: Value| {
        read::<BoundedObject>(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u-1", "annotations": annotations},
            "spec": {"template": {"spec": {"containers": [{"name": "main", "image": 5}]}}},
        }))
    };
    let error = of(json!({PREDOWNLOAD: "true"})).wish.unwrap_err();
    assert!(error.starts_with("spec.template: "), "{error}");
    assert_eq!(of(json!({})).wish, Ok(None));
}

/// A restart of a container writes another name of its image.
#[test]
fn r12_pods_that_were_restarted_by_an_alias_lack_nothing() {
    let alias = format!("{OLD}@sha256:{}", "a".repeat(64));
    let pods = [pod(&alias, "a"), pod(OLD, "a")];
    assert_eq!(decide(&asking(OLD), &pods, &[]), Ok(vec![]));
    let Action::Create { image, pods, .. } = only(&asking(NEW), &pods) else {
        panic!("no creation")
    };
    assert_eq!((&*image, pods.match_expressions), (NEW, None));
}

/// A webhook may have given the images of all pods other names.
#[test]
fn r12_where_all_pods_are_of_the_present_template_nothing_is_pulled_and_jobs_go() {
    let status = |status: Value| {
        let deployment = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u-1", "generation": 4, "annotations": {PREDOWNLOAD: "true"}},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": [{"name": "main", "image": NEW}]}}},
            "status": status,
        });
        let clone_set = read::<BoundedObject>(deployment.clone());
        let workload = read::<Deployment>(deployment);
        assert_eq!(workload.is_updated, clone_set.is_updated);
        workload
    };
    let mirrored = [pod("mirror.example/app:2", "b")];
    let updated = status(json!({"observedGeneration": 4, "replicas": 3, "updatedReplicas": 3}));
    assert_eq!(decide(&updated, &mirrored, &[]), Ok(vec![]));
    let job = JobSeen {
        name: "web-main-1".into(),
        uid: "j".into(),
        deleting: false,
    };
    assert_eq!(
        decide(&updated, &mirrored, std::slice::from_ref(&job)),
        Ok(vec![Action::Delete(job.clone())])
    );
    // A finalizer may hold one that is being deleted.
    let leaving = JobSeen {
        deleting: true,
        ..job
    };
    assert_eq!(decide(&updated, &mirrored, &[leaving]), Ok(vec![]));
    for not_updated in [
        json!({"observedGeneration": 3, "replicas": 3, "updatedReplicas": 3}),
        json!({"observedGeneration": 4, "replicas": 3, "updatedReplicas": 1}),
        json!({"observedGeneration": 4, "replicas": 3}),
        json!(null),
    ] {
        assert_eq!(
            decide(&status(not_updated), &mirrored, &[]).unwrap().len(),
            1
        );
    }
}

/// As where a webhook names the images of pods by their digests alone: of which tag they are is not
/// known.
#[test]
fn u29_a_pod_whose_image_is_a_digest_alone_lacks_every_tag_and_no_digest_of_its_own() {
    let digest = |letter: &str| format!("r.example/app@sha256:{}", letter.repeat(64));
    let (old, new) = (digest("a"), digest("b"));
    let alias = old.replace("app@", "app:restart-3@");
    for has in [&old, &alias] {
        let pods = [pod(has, "a"), pod(&new, "b")];
        let Action::Create { image, pods, .. } = only(&asking(NEW), &pods) else {
            panic!("{has}")
        };
        assert_eq!((&*image, pods.match_expressions), (NEW, None), "{has}");
        assert_eq!(decide(&asking(&old), &[pod(has, "a")], &[]), Ok(vec![]));
        only(&asking(&new), &[pod(has, "a")]);
    }
}
