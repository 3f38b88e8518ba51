//! Jobs where swaps are forbidden.

use super::*;

/// A policy under which the image of no pod of the namespace can be changed; its name, once the API
/// server keeps to it.
async fn forbid_swaps(jobs: &Jobs) -> String {
    let (namespace, name) = (
        &jobs.world.namespace,
        format!("{}-no-swaps", jobs.world.namespace),
    );
    let stays = "object.spec.containers.all(c, oldObject.spec.containers.exists(old, old.name == c.name && old.image == c.image))";
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": stays, "message": "images of pods stay"}]},
    });
    let here =
        json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}});
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": here},
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.json");
    std::fs::write(
        &file,
        json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]}).to_string(),
    )
    .unwrap();
    kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
    let probe = pod(
        "probe",
        restricted(
            "Never",
            vec![json!({"name": "main", "image": jobs.world.images.park})],
        ),
    );
    jobs.world.create_pod(probe).await;
    let patch = Patch::Strategic(
        json!({"spec": {"containers": [{"name": "main", "image": jobs.world.images.work}]}}),
    );
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    eventually("changes of images to be denied", || async {
        let denied = jobs
            .world
            .api::<Pod>()
            .patch("probe", &params, &patch)
            .await
            .err()?;
        denied
            .to_string()
            .contains("images of pods stay")
            .then_some(())
    })
    .await;
    name
}

/// The containers of warmer pods with this name that their kubelet has made.
async fn made(jobs: &Jobs, container: &str) -> usize {
    let fields = format!("reason=Created,involvedObject.fieldPath=spec.containers{{{container}}}");
    jobs.world
        .api::<Event>()
        .list(&ListParams::default().fields(&fields))
        .await
        .unwrap()
        .items
        .len()
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_policy_forbids_swaps_each_image_of_a_list_gets_a_pod_of_its_own() {
    let jobs = Jobs::with_pods("pull-no-swaps").await;
    let policy = forbid_swaps(&jobs).await;
    let registry = variable("SWAPLET_E2E_REGISTRY");
    let images = ["a", "b", "c"]
        .map(|name| format!("{registry}/e2e/no-swaps-{name}:{}", std::process::id()));
    for image in &images {
        push(
            &registry,
            image,
            json!({"Entrypoint": ["/no/such/program"]}),
            64,
        )
        .await;
    }
    let _controller = jobs.controller().await;
    jobs.start(
        LIST,
        "all",
        json!({"images": images, "pullPolicy": {"backoffLimit": 0}}),
    )
    .await;
    let status = jobs.completed(LIST, "all").await;
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"]
        ],
        [3, 3, 3],
        "{status}"
    );
    jobs.has_pods(false).await;
    // Events come late.
    eventually("three containers", || async {
        (made(&jobs, "warmer").await == 3).then_some(())
    })
    .await;
    jobs.world
        .create_pod(pod(
            "user",
            restricted("Never", vec![json!({"name": "main", "image": images[2]})]),
        ))
        .await;
    jobs.pulls("user", &images[2], "already present").await;
    for kind in [
        "validatingadmissionpolicybinding",
        "validatingadmissionpolicy",
    ] {
        kubectl(&["delete", kind, &policy]).await;
    }
    jobs.done().await;
}
