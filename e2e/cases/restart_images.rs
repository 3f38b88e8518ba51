//! A container ends with its own image, or is never touched: images that the node has under other
//! names than the pod, or the registry under none any more, on a real kubelet and with the leash.
//! Before, each of these requests broke its container for good.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::images::{push_work, push_work_as};
use crate::imported::{ctr, kind_load_work};
use crate::pods::{EXITS_143, container, job, pod, spec, status_of};
use crate::restart::{Restarts, restarts, started, succeeded};
use crate::restart_parking::image;
use crate::version::minor;
use crate::world::{eventually, lets_go_on, variable};

/// Works until it is let go, and says whether it has; SIGTERM ends it before.
const WORKS: &str = "trap 'exit 0' TERM; until test -e /shared/go; do sleep 1; done; \
    echo worked > /dev/termination-log";

pub fn image_id(pod: &Pod) -> String {
    let statuses = pod
        .status
        .as_ref()
        .unwrap()
        .container_statuses
        .as_ref()
        .unwrap();
    statuses
        .iter()
        .find(|status| status.name == "app")
        .unwrap()
        .image_id
        .clone()
}

fn app(restart: &Restarts, image: &str, script: &str) -> Value {
    let mut app = container(&restart.world, "app", script);
    app["image"] = json!(image);
    app
}

fn asked(force: bool) -> Value {
    json!({"podName": "p", "containers": [{"name": "app"}], "strategy": {"forceRecreate": force}})
}

async fn now(restart: &Restarts) -> Pod {
    restart.world.pod_is("p", "there", |_| true).await
}

/// A name of Docker Hub that is nobody's, as images of `kind load` have.
async fn kind_loaded(case: &str) -> String {
    let name = format!("{case}-{}:dev", std::process::id());
    kind_load_work(&format!("docker.io/library/{name}")).await;
    name
}

#[tokio::test]
async fn d1a_an_image_of_kind_load_is_restarted() {
    let restart = Restarts::new("d1a").await;
    let name = kind_loaded("d1a").await;
    let _controller = restart.controller().await;
    let before = restart
        .run_pod_with("Always", app(&restart, &name, EXITS_143))
        .await;
    assert!(
        image_id(&before).starts_with("docker.io/library/import-"),
        "{}",
        image_id(&before)
    );
    restart.request("r", &asked(false)).await;
    assert_eq!(restart.completed("r").await, succeeded());
    let after = now(&restart).await;
    assert_eq!(
        (image(&after), restarts(&after, "app")),
        (&*format!("docker.io/library/{name}"), 1)
    );
    assert_eq!(image_id(&after), image_id(&before));
    restart.world.done().await;
}

/// An image that the kubelet has pulled has got a second tag by hand. Up to 1.34 kubelets started it by
/// that one too; from 1.35 on they let no pod use it that has not shown that it may pull it.
#[tokio::test]
async fn d1b_an_image_with_a_second_tag_is_not_touched() {
    let restart = Restarts::new("d1b").await;
    let registry = variable("SWAPLET_E2E_REGISTRY");
    let pulled = format!("{registry}/e2e/d1b:{}", std::process::id());
    push_work(&registry, &pulled).await;
    let puller = spec("Always", vec![app(&restart, &pulled, EXITS_143)]);
    restart.world.create_pod(pod("puller", puller)).await;
    restart
        .world
        .pod_is("puller", "running", |pod| started(pod, "app").is_some())
        .await;
    let second = format!("local.test/d1b:{}", std::process::id());
    ctr(&["images", "tag", &pulled, &second]).await;
    let mut app = app(&restart, &second, EXITS_143);
    app["imagePullPolicy"] = json!("Never");
    let _controller = restart.controller().await;
    restart
        .world
        .create_pod(pod("p", spec("Always", vec![app])))
        .await;
    let starts = minor(&restart.world).await < 35;
    let is_as_ever = |pod: &Pod| {
        if starts {
            return started(pod, "app").is_some();
        }
        let state = status_of(pod, "app").and_then(|status| status.state.as_ref());
        let waiting = state.and_then(|state| state.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("ErrImageNeverPull"))
    };
    let before = restart.world.pod_is("p", "as ever", is_as_ever).await;
    for force in [false, true] {
        let request = format!("force-{force}");
        let mut asked = asked(force);
        asked["activeDeadlineSeconds"] = json!(10);
        restart.request(&request, &asked).await;
        let state = restart.completed(&request).await[0].clone();
        assert_eq!(state["phase"], "Failed", "{state}");
        let told = state["message"].to_string();
        assert_eq!(
            told.contains("the node reports its image as") && told.contains(&second),
            starts,
            "{state}"
        );
    }
    let after = now(&restart).await;
    assert_eq!(
        (
            image(&after),
            after.metadata.generation,
            started(&after, "app")
        ),
        (
            second.as_str(),
            before.metadata.generation,
            started(&before, "app")
        )
    );
    restart.world.done().await;
}

/// The tag names other bytes now, and the manifest before is deleted.
#[tokio::test]
async fn d1c_a_tag_that_has_moved_is_started_as_it_is_now() {
    let restart = Restarts::new("d1c").await;
    let registry = variable("SWAPLET_E2E_REGISTRY");
    let repository = format!("e2e/d1c-{}", std::process::id());
    let tag = format!("{registry}/{repository}:1");
    push_work_as(&registry, &tag, "one").await;
    let mut app = app(&restart, &tag, EXITS_143);
    app["imagePullPolicy"] = json!("Always");
    let _controller = restart.controller().await;
    let before = restart.run_pod_with("Always", app).await;
    push_work_as(&registry, &tag, "two").await;
    let digest = image_id(&before).split_once('@').unwrap().1.to_owned();
    let manifest = format!("http://{registry}/v2/{repository}/manifests/{digest}");
    reqwest::Client::new()
        .delete(manifest)
        .send()
        .await
        .unwrap()
        .error_for_status()
        .unwrap();
    restart.request("r", &asked(false)).await;
    let failed = restart.completed("r").await[0]["message"].to_string();
    assert!(failed.contains("reverted"), "{failed}");
    let is_back = |pod: &Pod| {
        image(pod) == tag && started(pod, "app").is_some() && !image_id(pod).ends_with(&digest)
    };
    restart
        .world
        .pod_is("p", "running what the tag names now", is_back)
        .await;
    restart.world.done().await;
}

#[tokio::test]
async fn d1d_the_main_of_a_job_does_its_work_to_the_end() {
    let restart = Restarts::new("d1d").await;
    let name = kind_loaded("d1d").await;
    let _controller = restart.controller().await;
    // It takes SIGTERM for the end of its work.
    let mut works = app(&restart, &name, WORKS);
    works["volumeMounts"] = json!([{"name": "shared", "mountPath": "/shared"}]);
    let mut spec = spec("OnFailure", vec![works]);
    spec["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
    restart.world.create_job(job("nightly", spec)).await;
    let running = eventually("the pod of the Job to run", || async {
        restart
            .world
            .pods()
            .await
            .into_iter()
            .find(|pod| started(pod, "app").is_some())
    })
    .await;
    let mut asked = asked(false);
    asked["podName"] = json!(running.name_any());
    restart.request("r", &asked).await;
    let refused = restart.completed("r").await[0]["message"].to_string();
    assert!(
        refused.contains("main container of Job nightly") && refused.contains("end of its work"),
        "{refused}"
    );
    let pod = running.name_any();
    lets_go_on(&restart.world, &pod, "app").await;
    restart.world.job_ends("nightly", "Complete").await;
    let ended = restart.world.pods().await.remove(0);
    let status = &ended
        .status
        .as_ref()
        .unwrap()
        .container_statuses
        .as_ref()
        .unwrap()[0];
    let end = status.state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!(
        (end.message.as_deref().map(str::trim), status.restart_count),
        (Some("worked"), 0)
    );
    restart.world.done().await;
}
