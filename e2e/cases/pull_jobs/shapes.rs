//! Jobs that pull without swaps.

use super::*;

/// What the kubelet has said with this reason of warmer pods.
async fn said_of_warmers(jobs: &Jobs, reason: &str) -> Vec<String> {
    let params = ListParams::default().fields(&format!(
        "reason={reason},involvedObject.kind=Pod,involvedObject.name!=user"
    ));
    let events = jobs.world.api::<Event>().list(&params).await.unwrap().items;
    events
        .into_iter()
        .filter_map(|event| event.message)
        .collect()
}

/// A list job in this shape is over, on the leash, in a namespace under pod security `restricted`;
/// and a pod has found an image there.
async fn private_images(shape: &str) -> Jobs {
    let jobs = Jobs::with_pods(&format!("pull-{shape}")).await;
    let private = RegistryProxy::start(Manner::Login("reader", "correct-horse")).await;
    create_login(&jobs.world, &private, "correct-horse").await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(|name| format!("{shape}-{name}"));
    let mut images = Vec::new();
    for name in &names {
        images.push(image_behind(&private, name).await);
    }
    let missing = format!("{}/e2e/missing:{}", private.host(), std::process::id());
    images.insert(3, missing.clone());
    let arguments = [
        "--warm",
        "--park-image",
        &jobs.world.images.park,
        "--warm-shape",
        shape,
    ];
    let _controller = Controller::start_with(&jobs.world, &arguments).await;
    let spec = json!({"images": images, "pullSecrets": ["login"], "pullPolicy": {"backoffLimit": 0}, "imagePullPolicy": "Always"});
    jobs.start(LIST, "all", spec).await;
    let status = jobs.completed(LIST, "all").await;
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"]
        ],
        [10, 10, 9],
        "{status}"
    );
    assert_eq!(status["failedImageStatuses"][0]["name"], missing);
    jobs.has_pods(false).await;
    let mut user = restricted("Never", vec![json!({"name": "main", "image": images[0]})]);
    user["imagePullSecrets"] = json!([{"name": "login"}]);
    jobs.world.create_pod(pod("user", user)).await;
    jobs.pulls("user", &images[0], "already present").await;
    jobs
}

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
async fn where_a_policy_forbids_swaps_a_list_job_goes_on_in_another_shape() {
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
    for (container, count) in [("warmer", 1), ("image-0", 1), ("image-1", 1)] {
        let what = format!("{count} container {container}");
        eventually(&what, || async {
            (made(&jobs, container).await == count).then_some(())
        })
        .await;
    }
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

mod long {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn and_so_it_does_with_image_volumes_and_no_container_fails_to_start() {
        let jobs = private_images("image-volumes").await;
        let failed = said_of_warmers(&jobs, "Failed").await;
        let is_of_a_pull = |words: &String| {
            ["Failed to pull image", "ErrImagePull", "ImagePullBackOff"]
                .iter()
                .any(|pull| words.contains(pull))
        };
        assert!(
            !failed.is_empty() && failed.iter().all(is_of_a_pull),
            "{failed:?}"
        );
        jobs.done().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_list_job_without_swaps_pulls_private_images_too_and_starts_nothing() {
        let jobs = private_images("impossible-command").await;
        let started = said_of_warmers(&jobs, "Started").await;
        assert!(started.is_empty(), "nothing was started: {started:?}");
        jobs.done().await;
    }
}
