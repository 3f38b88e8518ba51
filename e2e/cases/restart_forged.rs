//! Requests, and what pods say of parked containers, written by somebody else than swaplet, on a
//! real API server and kubelet: with the leash, and without it.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use swaplet_core::restart::parked::{PARKED, Parked};

use crate::controller::{Controller, Why};
use crate::pods::container;
use crate::restart::{COUNTS, Restarts, succeeded};
use crate::restart_parking::{image, park_and_die, without_a_name};
use crate::witness::Witness;
use crate::world::{World, eventually, kubectl};

const EVIL: &str = "evil.example/backdoor:1";

/// Somebody with a name of this world, and these rights in it.
pub async fn tenant(world: &World, name: &str, rules: Value) -> Client {
    let user = format!("{name}-{}", world.namespace);
    let metadata = json!({"name": name, "namespace": world.namespace});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let file = world.kubeconfig.with_file_name(format!("{name}.json"));
    std::fs::write(
        &file,
        json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]}).to_string(),
    )
    .unwrap();
    kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
    let mut kubeconfig = Kubeconfig::read().unwrap();
    for known in &mut kubeconfig.auth_infos {
        known.auth_info.as_mut().unwrap().impersonate = Some(user.clone());
    }
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

/// Who may change statuses of pods, and no pods.
struct StatusWriter(Api<Pod>);

impl StatusWriter {
    async fn of(world: &World) -> Self {
        let status =
            json!({"apiGroups": [""], "resources": ["pods/status"], "verbs": ["get", "patch"]});
        let pods = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        Self(Api::namespaced(
            tenant(world, "status-only", json!([status, pods])).await,
            &world.namespace,
        ))
    }

    /// RBAC is told to each part of the API server in its own time, so what it denies is tried
    /// again.
    async fn patch(&self, metadata: &Value) -> Result<(), String> {
        eventually("the rights of the status writer", || async {
            let patched = self
                .0
                .patch_status(
                    "p",
                    &PatchParams::default(),
                    &Patch::Merge(json!({"metadata": metadata})),
                )
                .await;
            let answer = patched.map(drop).map_err(|error| error.to_string());
            (!answer
                .as_ref()
                .is_err_and(|words| words.contains(" cannot patch ")))
            .then_some(answer)
        })
        .await
    }

    async fn may_not_change_images(&self) {
        let patch = json!({"spec": {"containers": [{"name": "app", "image": EVIL}]}});
        let refused = self
            .0
            .patch("p", &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("cannot patch resource \"pods\""),
            "{refused}"
        );
    }
}

fn note(pod: &Pod, request: &str, park: &str) -> Value {
    let images = [("app".into(), EVIL.into())].into();
    let note = Parked {
        pod: pod.uid().unwrap().into(),
        name: "r".into(),
        request: request.into(),
        park: park.into(),
        images,
    };
    json!({"labels": {PARKED: "true"}, "annotations": {PARKED: note.as_text()}})
}

fn swaplets_alone(answer: Result<(), String>) {
    let words = answer.expect_err("it is denied");
    assert!(
        words.contains("swaplet's to write, and nobody else's"),
        "{words}"
    );
}

/// The Warning of the pod that says this.
async fn warned(restart: &Restarts, words: &str) -> String {
    let events: Api<k8s_openapi::api::events::v1::Event> = restart.world.api();
    eventually(&format!("a Warning about {words}"), || async {
        let all = events.list(&Default::default()).await.unwrap();
        let notes = all
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some("RestartFailed"))
            .filter_map(|event| event.note);
        notes.into_iter().find(|note| note.contains(words))
    })
    .await
}

/// journal3.py: each is taken up as if it had no journal.
#[tokio::test]
async fn a2_requests_with_forged_journals_write_no_other_image() {
    let restart = Restarts::new("forged-journal").await;
    let before = restart
        .run_pod_with("Always", container(&restart.world, "app", COUNTS))
        .await;
    let work = image(&before);
    let _controller = Controller::start_with(
        &restart.world,
        &["--restart", "--park-image", &restart.world.images.park],
    )
    .await;
    let digest = format!("{work}@sha256:{}", "b".repeat(64));
    let forms = [
        json!({"from": EVIL, "to": work, "parking": "back"}),
        json!({"from": EVIL, "to": restart.world.images.park, "parking": "out"}),
        json!({"from": digest, "to": work, "back": "cannot be pulled"}),
    ];
    for (nth, intent) in forms.iter().enumerate() {
        let name = format!("r{nth}");
        let journal =
            json!({"app": {"containerID": "x", "restartCount": 0, "intent": intent}}).to_string();
        let labels = json!({"crr.apps.kruise.io/pod-uid": before.uid(), "crr.apps.kruise.io/active": "true"});
        let metadata = json!({"name": name, "labels": labels, "annotations": {"swaplet.io/restart-journal": journal}});
        let spec = json!({"podName": "p", "containers": [{"name": "app"}]});
        let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": metadata, "spec": spec});
        restart
            .requests
            .create(
                &PostParams::default(),
                &serde_json::from_value(object).unwrap(),
            )
            .await
            .unwrap();
        assert_eq!(restart.completed(&name).await, succeeded(), "{intent}");
        let after = restart.world.pod_is("p", "there", |_| true).await;
        let (repository, _) = work.rsplit_once(':').unwrap();
        assert!(
            image(&after).starts_with(repository) && !image(&after).contains("bbbbbbbb"),
            "{intent}: {}",
            image(&after)
        );
    }
    restart.world.done().await;
}

/// esc.py and parkedlie.py: the API server keeps the note for swaplet.
#[tokio::test]
async fn v1_a13_nobody_else_writes_notes_where_the_leash_is() {
    let restart = Restarts::new("forged-note").await;
    let before = restart
        .run_pod_with("Always", container(&restart.world, "app", COUNTS))
        .await;
    let writer = StatusWriter::of(&restart.world).await;
    writer.may_not_change_images().await;
    let forged = note(&before, "none", image(&before));
    swaplets_alone(writer.patch(&forged).await);
    swaplets_alone(writer.patch(&json!({"labels": {PARKED: "true"}})).await);
    let pods: Api<Pod> = restart.world.api();
    let patched = pods
        .patch(
            "p",
            &PatchParams::default(),
            &Patch::Merge(json!({"metadata": forged})),
        )
        .await;
    swaplets_alone(patched.map(drop).map_err(|error| error.to_string()));
    restart.world.done().await;
}

/// esc_leash.py: while it is parked for an honest request.
#[tokio::test]
async fn v1_a_note_is_not_changed_by_others_while_the_container_is_parked() {
    let mut restart = Restarts::new("forged-parked").await;
    let witness = Witness::of(&mut restart.world).await;
    let app = without_a_name(&restart, "forged-parked").await;
    let before = restart.run_pod_with("Always", app).await;
    park_and_die(&restart, &witness, "r", &before).await;
    let writer = StatusWriter::of(&restart.world).await;
    let request = restart.requests.get("r").await.unwrap().uid().unwrap();
    swaplets_alone(
        writer
            .patch(&note(&before, &request, &restart.world.images.park))
            .await,
    );
    let words = writer
        .patch(&json!({"labels": {PARKED: null}, "annotations": {PARKED: null}}))
        .await
        .expect_err("it is parked");
    assert!(words.contains("which has the park image"), "{words}");
    witness.all_writes();
    let _next = Controller::start_with(
        &restart.world,
        &["--restart", "--park-image", &restart.world.images.park],
    )
    .await;
    assert_eq!(restart.completed("r").await, succeeded());
    let after = restart
        .world
        .pod_is("p", "unmarked", |pod| {
            !pod.annotations().contains_key(PARKED)
        })
        .await;
    assert_eq!(image(&after), image(&before));
    restart.world.done().await;
}

/// The same without the leash: it is seen that the note came through the status, nothing is
/// written, and a human puts it right.
#[tokio::test]
async fn v1_v6_without_the_leash_a_note_through_the_status_is_told_and_not_followed() {
    let mut restart = Restarts::unleashed("forged-free").await;
    let witness = Witness::of(&mut restart.world).await;
    let app = without_a_name(&restart, "forged-free").await;
    let before = restart.run_pod_with("Always", app).await;
    let flags = [
        "--restart",
        "--restart-without-leash",
        "--park-image",
        &restart.world.images.park,
    ];
    restart
        .request("r", &crate::restart_parking::forced())
        .await;
    while restart.life_of_one_write(&witness, &flags).await != "pods/p" {}
    let writer = StatusWriter::of(&restart.world).await;
    let request = restart.requests.get("r").await.unwrap().uid().unwrap();
    writer
        .patch(&note(&before, &request, &restart.world.images.park))
        .await
        .unwrap();
    witness.all_writes();
    let _next = Controller::process(&restart.world, &flags, Why::NotByTheChart).await;
    let words = warned(&restart, "pods/status").await;
    assert!(words.contains("kubectl set image"), "{words}");
    let message = restart.completed("r").await[0]["message"].to_string();
    assert!(message.contains("stays in the park image"), "{message}");
    assert_eq!(
        image(&restart.world.pod_is("p", "there", |_| true).await),
        restart.world.images.park
    );

    let back = format!("app={}", image(&before));
    kubectl(&[
        "set",
        "image",
        "-n",
        &restart.world.namespace,
        "pod/p",
        &back,
    ])
    .await;
    restart
        .world
        .pod_is("p", "unmarked", |pod| {
            !pod.labels().contains_key(PARKED) && image(pod) == image(&before)
        })
        .await;
    restart.world.done().await;
}

/// A controller that does not see the leash restarts nothing, and a request waits.
#[tokio::test]
async fn a2_without_the_leash_nothing_is_restarted_unless_that_is_asked_for() {
    let restart = Restarts::unleashed("forged-refused").await;
    restart
        .run_pod_with("Always", container(&restart.world, "app", COUNTS))
        .await;
    let refusing = Controller::process(
        &restart.world,
        &["--restart", "--leash", "no-such-leash"],
        Why::NotByTheChart,
    )
    .await;
    restart
        .request(
            "r",
            &json!({"podName": "p", "containers": [{"name": "app"}]}),
        )
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert_eq!(
        restart.requests.get("r").await.unwrap().data["status"]["phase"],
        Value::Null
    );
    drop(refusing);
    let _controller = Controller::process(
        &restart.world,
        &["--restart", "--restart-without-leash"],
        Why::NotByTheChart,
    )
    .await;
    assert_eq!(restart.completed("r").await, succeeded());
    restart.world.done().await;
}
