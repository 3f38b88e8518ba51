//! What nodes, users and other requests do to a restart.

use serde_json::{Value, json};
use swaplet::image::ImagePattern;
use swaplet_testbed::apiserver::{Effect, Verb};
use swaplet_testbed::virtual_node::{
    KubeletOptions, KubeletVersion, NodeOptions, OnUpdate, Profile, ProviderOptions,
};

use super::world::{APP, Restarts, app, pinned, pod};

fn state(world: &Restarts, request: &str) -> (String, String) {
    let request = world.get(request);
    let state = &request["status"]["containerRecreateStates"][0];
    assert_eq!(request["status"]["phase"], "Completed", "{request}");
    let text = |field: &str| state[field].as_str().unwrap_or_default().to_owned();
    (text("phase"), text("message"))
}

fn forced() -> Value {
    json!({"podName": "p", "containers": [{"name": "app"}], "strategy": {"forceRecreate": true}})
}

/// All images of the registry, by tag and by digest.
fn everything() -> Vec<ImagePattern> {
    ["registry.example/*", "registry.example/*@*"]
        .map(|pattern| pattern.parse().unwrap())
        .to_vec()
}

/// A pod whose container `app` always crashes.
fn crashing(policy: &str) -> Value {
    let mut pod = pod(policy);
    pod["spec"]["containers"][0]["args"] = json!(["run=1s", "exit=1"]);
    pod
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_is_left_within_three_seconds() {
    let world = Restarts::on(Profile::kubelet(), &crashing("Always")).await;
    world.wait(20).await;
    let status = |world: &Restarts| world.pod()["status"]["containerStatuses"][0].clone();
    assert!(
        status(&world)["state"]["running"].is_null(),
        "it waits for its third restart: {}",
        status(&world)
    );
    let before = world.restarts("app");
    let _life = world.start_controller();
    world.request("r", &forced()).await;
    world.wait(3).await;
    assert_eq!(world.restarts("app"), before + 1);
}

/// OpenKruise leaves the second one waiting for ever (its issues 1058, 1626, 2474).
#[tokio::test(start_paused = true)]
async fn c1_two_requests_at_once_both_end() {
    let world = Restarts::with_pod("Always").await;
    let _life = world.start_controller();
    world.request("a", &forced()).await;
    world.request("b", &forced()).await;
    world.wait(1).await;
    assert_eq!(world.get("b")["status"]["phase"], "Pending");
    world.wait(20).await;
    assert_eq!(
        (
            state(&world, "a").0,
            state(&world, "b").0,
            world.restarts("app")
        ),
        ("Succeeded".into(), "Succeeded".into(), 2)
    );
    assert_eq!(world.original("app"), pinned(APP));
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn r10_a_hundred_requests_for_one_pod_all_end() {
    let world = Restarts::with_pod("Always").await;
    let _life = world.start_controller();
    for nth in 0..100 {
        world.request(&format!("r{nth}"), &app()).await;
    }
    world.wait(300).await;
    assert!((0..100).all(|nth| state(&world, &format!("r{nth}")).0 == "Succeeded"));
    assert!(world.restarts("app") <= 100);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn an_imported_image_is_restarted_under_its_other_name() {
    // Kubelets from 1.35 on take the two names for two images.
    let kubelet = Profile::Kubelet(KubeletOptions::of(KubeletVersion::V1_34));
    let mut options = NodeOptions::new("virtual", kubelet);
    options.images.imported = vec!["localwork:1".parse().unwrap()];
    let mut pod = pod("Never");
    pod["spec"]["containers"][0]["image"] = json!("localwork:1");
    let world = Restarts::with(options, &pod).await;
    let _life = world.start_controller();
    world.request("r", &app()).await;
    world.wait(20).await;
    assert_eq!(
        (
            state(&world, "r").0,
            world.image("app"),
            world.restarts("app")
        ),
        (
            "Succeeded".into(),
            "docker.io/library/localwork:1".into(),
            1
        )
    );
}

#[tokio::test(start_paused = true)]
async fn row_23_a_native_sidecar_is_restarted_in_place_where_the_kubelet_does_it() {
    for (version, phase, restarts) in [
        (KubeletVersion::V1_30, "Failed", 0),
        (KubeletVersion::V1_32, "Succeeded", 1),
        (KubeletVersion::V1_34, "Succeeded", 1),
    ] {
        let mut pod = pod("Never");
        pod["spec"]["initContainers"] = json!([{"name": "mesh", "image": "registry.example/mesh:1", "args": ["run=forever"], "restartPolicy": "Always"}]);
        let world = Restarts::on(Profile::Kubelet(KubeletOptions::of(version)), &pod).await;
        let _life = world.start_controller();
        world
            .request(
                "r",
                &json!({"podName": "p", "containers": [{"name": "mesh"}]}),
            )
            .await;
        world.wait(30).await;
        let after = world.pod();
        let status = &after["status"]["initContainerStatuses"][0];
        assert_eq!(
            (state(&world, "r").0, status["restartCount"].as_i64()),
            (phase.to_owned(), Some(restarts)),
            "{version:?} {:?}",
            state(&world, "r")
        );
        assert_eq!((world.restarts("app"), world.restarts("log")), (0, 0));
        world.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_registry_is_down() {
    for (policy, restarts) in [("Always", 1), ("OnFailure", 1), ("Never", 1)] {
        let world = Restarts::with_pod(policy).await;
        world.node.set_missing_images(everything());
        let _life = world.start_controller();
        world.request("r", &app()).await;
        world.wait(20).await;
        assert_eq!(
            (state(&world, "r").0, world.restarts("app")),
            ("Succeeded".into(), restarts),
            "{policy}"
        );
    }
}

/// With pull policy Always the registry is asked: the alias fails, and the image before is put
/// back.
#[tokio::test(start_paused = true)]
async fn the_registry_is_down_and_asked_at_each_start() {
    let mut pod = pod("Always");
    pod["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
    let world = Restarts::on(Profile::kubelet(), &pod).await;
    world.node.set_missing_images(everything());
    let _life = world.start_controller();
    world.request("r", &app()).await;
    world.wait(60).await;
    let (phase, message) = state(&world, "r");
    assert!(
        phase == "Failed" && message.contains("reverted"),
        "{message}"
    );
    assert_eq!(
        (world.image("app"), world.image_changes("p")),
        (APP.to_owned(), 2)
    );
    world.node.set_missing_images(Vec::new());
    world.wait(400).await;
    assert!(world.restarts("app") >= 1, "it runs again: {}", world.pod());
}

/// The registry has another image by the tag, and the one before no more.
fn moved() -> Vec<ImagePattern> {
    vec!["registry.example/app:1-restart-*@*".parse().unwrap()]
}

/// A request that is deleted while its alias cannot be pulled, whoever lives to see it.
#[tokio::test(start_paused = true)]
async fn d1c_deleted_an_alias_that_cannot_be_pulled_is_taken_back_without_its_request() {
    for (killed, seconds) in [(false, 1), (false, 4), (false, 20), (true, 1), (true, 4)] {
        let what = format!("after {seconds} s, killed: {killed}");
        let mut pod = pod("Always");
        pod["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
        pod["spec"]["containers"][0]["args"] = json!(["run=forever", "term-after=3s"]);
        let world = Restarts::on(Profile::kubelet(), &pod).await;
        world.node.set_missing_images(moved());
        let mut life = world.start_controller();
        if seconds == 20 {
            // What would take it back is denied meanwhile.
            world.fault(Effect::reply(403), |rule| {
                rule.verb(Verb::Patch).resource("pods").after(1).times(4)
            });
        }
        world.request("r", &app()).await;
        world.wait(seconds).await;
        assert_eq!(world.original("app"), pinned(APP), "{what}");
        if killed {
            life.kill();
        }
        world.delete_request("r").await;
        world.wait(5).await;
        if killed {
            life = world.start_controller();
        }
        world.wait(400).await;
        assert!(world.find("r").is_none(), "{what}: {}", world.get("r"));
        assert_eq!(
            (world.image("app"), world.image_changes("p")),
            (APP.to_owned(), 2),
            "{what}"
        );
        let pod = world.pod();
        let running = &Restarts::status(&pod, "app")["state"]["running"];
        assert!(running.is_object(), "{what}: {pod}");
        world.assert_quiet().await;
        drop(life);
    }
}

/// One whose alias can be had after all goes as soon as that runs.
#[tokio::test(start_paused = true)]
async fn d1c_deleted_an_alias_that_runs_is_left_and_holds_no_request() {
    for args in [
        json!(["run=forever", "term-after=3s"]),
        json!(["run=1s", "exit=1"]),
    ] {
        let mut pod = pod("Always");
        pod["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
        pod["spec"]["containers"][0]["args"] = args.clone();
        let world = Restarts::on(Profile::kubelet(), &pod).await;
        let _life = world.start_controller();
        world.request("r", &forced()).await;
        world.wait(1).await;
        assert_eq!(world.original("app"), pinned(APP));
        world.delete_request("r").await;
        world.wait(30).await;
        assert!(world.find("r").is_none(), "{args}: {}", world.get("r"));
        assert_eq!(world.original("app"), pinned(APP));
        world.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_pod_is_deleted_halfway() {
    let mut pod = pod("Always");
    pod["spec"]["containers"][0]["args"] = json!(["run=forever", "term-after=5s"]);
    let world = Restarts::on(Profile::kubelet(), &pod).await;
    let _life = world.start_controller();
    world.request("r", &app()).await;
    world.wait(2).await;
    world.delete("p").await;
    world.wait(2).await;
    assert_eq!(state(&world, "r"), ("Failed".into(), "pod has gone".into()));
    world.wait(60).await;
    assert!(world.world.find("default", "p").is_none());
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_tells_little_is_enough() {
    for tells in [false, true] {
        let options = ProviderOptions {
            new_container_ids: tells,
            counts_restarts: tells,
            reports_image_id: true,
            ..ProviderOptions::default()
        };
        let world = Restarts::on(Profile::Virtual(options), &pod("Always")).await;
        let _life = world.start_controller();
        world.request("r", &app()).await;
        world.wait(30).await;
        assert_eq!(
            (state(&world, "r").0, world.image_changes("p")),
            ("Succeeded".into(), 1),
            "{tells} {}",
            world.pod()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_inert_node_ends_the_request_with_the_reason() {
    let options = ProviderOptions {
        on_update: OnUpdate::Nothing,
        reports_image_id: true,
        ..ProviderOptions::default()
    };
    let world = Restarts::on(Profile::Virtual(options), &pod("Always")).await;
    let _life = world.start_controller();
    world.request("r", &app()).await;
    world.wait(120).await;
    let (phase, message) = state(&world, "r");
    assert!(
        phase == "Failed" && message.contains("has not restarted it in 90 s"),
        "{message}"
    );
}

/// The first request finds out; after it the node is left alone.
#[tokio::test(start_paused = true)]
async fn a_node_that_fails_on_a_changed_image_is_learned_once() {
    let options = ProviderOptions {
        on_update: OnUpdate::Fails,
        reports_image_id: true,
        ..ProviderOptions::default()
    };
    let world = Restarts::on(Profile::Virtual(options), &pod("Always")).await;
    let _life = world.start_controller();
    world.request("a", &app()).await;
    world.wait(120).await;
    let (phase, message) = state(&world, "a");
    assert!(
        phase == "Failed" && message.contains("provider"),
        "{message}"
    );
    world.request("b", &app()).await;
    world.wait(10).await;
    assert!(
        state(&world, "b")
            .1
            .contains("the node fails on a changed image"),
        "{:?}",
        state(&world, "b")
    );
    assert_eq!(world.image_changes("p"), 1);
}

#[tokio::test(start_paused = true)]
async fn r5_a_request_that_is_deleted_halfway_leaves_nothing_to_be_done() {
    let mut pod = pod("Always");
    pod["spec"]["containers"][0]["args"] = json!(["run=forever", "term-after=5s"]);
    let world = Restarts::on(Profile::kubelet(), &pod).await;
    let _life = world.start_controller();
    world.request("r", &app()).await;
    world.wait(2).await;
    world.delete_request("r").await;
    world.wait(30).await;
    assert_eq!(
        (world.restarts("app"), world.original("app")),
        (1, pinned(APP))
    );
    world.assert_quiet().await;
}

/// A controller that was not asked to restart anything does not even look for requests.
#[tokio::test(start_paused = true)]
async fn without_the_flag_requests_are_not_looked_at() {
    let world = Restarts::with_pod("Always").await;
    let _life = world.world.start_controller();
    world.request("r", &app()).await;
    world.wait(60).await;
    assert_eq!(
        (world.get("r")["status"].is_null(), world.restarts("app")),
        (true, 0)
    );
    assert!(
        world
            .requests()
            .iter()
            .all(|request| request.resource != "containerrecreaterequests")
    );
}
