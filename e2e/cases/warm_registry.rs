//! `swaplet warm` on a real kubelet while registries have their bad days.

use http::StatusCode;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use serde_json::json;

use crate::refusals::{BROKEN, FORBIDDEN, LIMITED, STOPPED, is_said};
use crate::registry_proxy::{Manner, RegistryProxy};
use crate::warm::{Ran, Warmer};
use crate::warm_images::push;
use crate::world::{World, eventually, kubectl, variable};

/// Pushes an image that no node has seen to the registry; its name behind a proxy.
pub async fn image_behind(proxy: &RegistryProxy, name: &str) -> String {
    let path = format!("e2e/warm-{name}:{}", std::process::id());
    push(
        &variable("SWAPLET_E2E_REGISTRY"),
        &format!("{}/{path}", variable("SWAPLET_E2E_REGISTRY")),
        json!({}),
        64,
    )
    .await;
    format!("{}/{path}", proxy.host())
}

/// Waits until a kubelet has told of a pull by a pod of this world that failed.
pub async fn fails_to_pull_from(world: &World, proxy: &RegistryProxy) {
    eventually(&format!("a pull from {} to fail", proxy.host()), || async {
        let events = world
            .api::<Event>()
            .list(&ListParams::default().fields("reason=Failed"))
            .await
            .unwrap();
        let messages = events.items.into_iter().filter_map(|event| event.message);
        messages
            .into_iter()
            .any(|message| message.contains(&proxy.host()))
            .then_some(())
    })
    .await;
}

/// Makes the Secret `login` for the user `reader`.
pub async fn create_login(world: &World, registry: &RegistryProxy, password: &str) {
    let server = format!("--docker-server={}", registry.host());
    let password = format!("--docker-password={password}");
    let login = [
        "--docker-username=reader",
        &server,
        &password,
        "--namespace",
        &world.namespace,
    ];
    kubectl(
        &[
            &["create", "secret", "docker-registry", "login"],
            &login[..],
        ]
        .concat(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn registries_that_refuse_or_are_stopped_are_named_and_waited_for() {
    let warmer = Warmer::new("warm-registry").await;
    let limited = RegistryProxy::start(Manner::Answer(StatusCode::TOO_MANY_REQUESTS)).await;
    let broken = RegistryProxy::start(Manner::Answer(StatusCode::INTERNAL_SERVER_ERROR)).await;
    let mut stopped = RegistryProxy::start(Manner::Serve).await;
    let images = [
        image_behind(&limited, "limited").await,
        image_behind(&broken, "broken").await,
        image_behind(&stopped, "stopped").await,
    ];
    let all: Vec<&str> = images.iter().map(String::as_str).collect();
    stopped.stop().await;

    let ran = Ran::of(warmer.start(&[&all[..], &["--backoff-limit", "0"]].concat())).await;
    for (image, refusal) in images.iter().zip([LIMITED, BROKEN, STOPPED]) {
        let row = &ran.results[image];
        assert!(
            row["result"] == "Failed" && is_said(refusal, row["why"].as_str().unwrap()),
            "{row}"
        );
    }
    assert_eq!(ran.code, 1, "{}", ran.told);
    warmer.pods_are_gone().await;

    let before = limited.asked();
    let child = warmer.start(&[&all[..], &["--backoff-limit", "9"]].concat());
    for proxy in [&limited, &broken, &stopped] {
        fails_to_pull_from(&warmer.world, proxy).await;
    }
    eventually("the limited registry to be asked again", || async {
        (limited.asked() > before).then_some(())
    })
    .await;
    limited.now(Manner::Serve);
    broken.now(Manner::Serve);
    stopped.start_again();
    let ran = Ran::of(child).await;
    images.iter().for_each(|image| ran.assert_warm(image));
    assert_eq!(ran.code, 0, "{}", ran.told);
    warmer.pods_are_gone().await;
    warmer.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_image_becomes_warm_with_its_secret_only() {
    let warmer = Warmer::new("warm-private").await;
    let private = RegistryProxy::start(Manner::Login("reader", "correct-horse")).await;
    let image = image_behind(&private, "private").await;
    create_login(&warmer.world, &private, "correct-horse").await;

    let ran = Ran::of(warmer.start(&[&image, "--backoff-limit", "0"])).await;
    let row = &ran.results[&image];
    assert!(
        row["result"] == "Failed" && is_said(FORBIDDEN, row["why"].as_str().unwrap()),
        "{row}"
    );
    warmer.pods_are_gone().await;

    let ran = Ran::of(warmer.start(&[&image, "--pull-secret", "login"])).await;
    ran.assert_warm(&image);
    assert_eq!(ran.code, 0, "{}", ran.told);
    warmer.pods_are_gone().await;
    warmer.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_run_that_was_killed_the_next_one_goes_its_own_way() {
    let warmer = Warmer::new("warm-killed").await;
    let mut slow = RegistryProxy::start(Manner::Hang).await;
    let image = image_behind(&slow, "killed").await;
    let mut killed = warmer.start(&[&image]);
    eventually("the pull to begin", || async {
        (slow.asked() > 0).then_some(())
    })
    .await;
    killed.kill().await.unwrap();
    let left = warmer.world.pods().await;
    assert!(
        left.len() == 1
            && left[0]
                .spec
                .as_ref()
                .unwrap()
                .active_deadline_seconds
                .is_some(),
        "{left:?}"
    );

    let next = warmer.start(&[&image]);
    eventually("the pod of the next run", || async {
        (warmer.world.pods().await.len() == 2).then_some(())
    })
    .await;
    // What was never answered is asked again when the connection is cut.
    slow.now(Manner::Serve);
    slow.stop().await;
    slow.start_again();
    let ran = Ran::of(next).await;
    ran.assert_warm(&image);
    assert_eq!(ran.code, 0, "{}", ran.told);
    eventually("only the pod of the killed run to be left", || async {
        let pods = warmer.world.pods().await;
        (pods.len() == 1 && pods[0].metadata.uid == left[0].metadata.uid).then_some(())
    })
    .await;
    // As the help says.
    kubectl(&[
        "delete",
        "pods",
        "-n",
        &warmer.world.namespace,
        "-l",
        "swaplet.io/warm",
    ])
    .await;
    warmer.pods_are_gone().await;
    warmer.done().await;
}
