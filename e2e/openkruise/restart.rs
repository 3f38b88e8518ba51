//! `swaplet restart` makes requests that OpenKruise's own daemon carries out.

use k8s_openapi::api::core::v1::Pod;
use tokio::process::Command;

use crate::install::{OpenKruise, SidecarTerminator};
use crate::pods::{EXITS_0, container, is_ready, pod, spec};
use crate::world::World;

fn restarts(pod: &Pod) -> Vec<(String, i32)> {
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    statuses
        .map(|status| (status.name.clone(), status.restart_count))
        .collect()
}

#[tokio::test]
async fn containers_are_restarted_by_the_daemon() {
    let world = World::new("restart").await;
    let openkruise = OpenKruise::install(&[&world], SidecarTerminator::Off).await;
    let containers = ["app", "log"]
        .map(|name| container(&world, name, EXITS_0))
        .to_vec();
    world
        .create_pod(pod("web", spec("Always", containers)))
        .await;
    let before = world.pod_is("web", "ready", is_ready).await;
    let images = |pod: &Pod| {
        pod.spec.as_ref().map(|spec| {
            spec.containers
                .iter()
                .map(|one| one.image.clone())
                .collect::<Vec<_>>()
        })
    };
    for restarted in 1..=2 {
        let arguments = [
            "restart",
            "web",
            "-c",
            "app",
            "-n",
            &world.namespace,
            "--grace-period",
            "2",
            "--min-started-seconds",
            "1",
        ];
        let output = Command::new(env!("CARGO_BIN_EXE_swaplet"))
            .args(arguments)
            .output()
            .await
            .unwrap();
        println!(
            "{}{}",
            String::from_utf8_lossy(&output.stderr),
            String::from_utf8_lossy(&output.stdout)
        );
        assert_eq!(output.status.code(), Some(0));
        let after = world.api::<Pod>().get("web").await.unwrap();
        assert_eq!(
            restarts(&after),
            [("app".to_owned(), restarted), ("log".to_owned(), 0)]
        );
        assert_eq!(
            images(&after),
            images(&before),
            "the daemon stops the container; nobody changes its image"
        );
    }
    drop(openkruise);
    world.done().await;
}
