//! The way of somebody who has a cluster of kind, no registry, and the page about it: its own
//! commands, in its order, and then what needs more than a page.

use kube::ResourceExt as _;
use serde_json::json;

use crate::imported::archive_work;
use crate::install::pull;
use crate::newcomer::{Newcomer, block};
use crate::pods::job;
use crate::virtual_kubelet::VirtualNode;
use crate::world::{World, eventually};

const PAGE: &str = include_str!("../../docs/install/kind.md");

/// Waits until an Event about the pod of a Job says this.
async fn is_told(newcomer: &Newcomer<'_>, job: &str, words: &str) {
    eventually(&format!("{words} of {job}"), || async {
        let events = newcomer
            .run("kubectl get events -o 'custom-columns=OF:.involvedObject.name,NOTE:.message'")
            .await;
        let is_it = |line: &str| line.starts_with(&format!("{job}-")) && line.contains(words);
        events.lines().any(is_it).then_some(())
    })
    .await;
}

#[ignore = "needs a cluster of kind, with nothing else in it: e2e/kind up"]
#[tokio::test]
async fn the_way_of_the_page_ends_sidecars_restarts_a_container_and_pulls_an_image() {
    let world = World::without_leash("kind").await;
    let mut newcomer = Newcomer::new(&world);
    newcomer.system = "swaplet".to_owned();
    newcomer.takes_its_namespace().await;
    // Of Docker Hub, which this machine need not reach.
    archive_work(
        "docker.io/library/busybox:1",
        &newcomer.folder.path().join("busybox.tar"),
    );
    newcomer.run("kind load image-archive busybox.tar").await;
    newcomer.run(block(PAGE, "swaplet image export")).await;

    newcomer
        .run(block(PAGE, "kubectl apply -f - <<'JOB'"))
        .await;
    is_told(&newcomer, "report", "method swap").await;

    newcomer
        .run(block(PAGE, "kubectl -n kube-system patch"))
        .await;
    let node = VirtualNode::start(&world, &["--profile", "inert"]).await;
    node.label(&world, "VirtualInert").await;
    let sidecar = json!({"name": "sidecar", "image": "busybox:1", "env": [{"name": crate::pods::MARK, "value": "true"}]});
    let main = json!({"name": "main", "image": "busybox:1", "args": ["run=2s"]});
    let spec = json!({"restartPolicy": "Never", "containers": [main, sidecar]});
    world.create_job(job("virtual", node.place(spec))).await;
    world.job_ends("virtual", "Complete").await;
    is_told(&newcomer, "virtual", "method finish").await;

    newcomer.run(block(PAGE, "kubectl create deployment")).await;
    let pods = world.pods().await;
    let web = pods.iter().find(|pod| pod.name_any().starts_with("web-"));
    let status = &web.unwrap().status.as_ref().unwrap().container_statuses;
    assert_eq!(status.as_ref().unwrap()[0].restart_count, 1);

    pull(&world).await;

    newcomer.uninstalls().await;
    node.done(world).await;
}
