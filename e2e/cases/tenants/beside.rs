//! Beside an installation, which has ended a sidecar, and may not end another one that a policy names:
//! the admission policies of the chart deny it, as nothing opens its name.

use serde_json::json;

use super::{ROLES, account, is_as_in, printed, records};
use crate::install::Installation;
use crate::pods::{
    EXITS_143, container, is_ready, job, main_has_ended, main_ok, pod, sidecar, spec,
};
use crate::sidecar_policies::{crds_are_there, labelled};
use crate::world::{World, eventually};

const COMMANDS: [&[&str]; 8] = [
    &["explain", "job/ended"],
    &["explain", "job/denied"],
    &["explain", "job/unmarked"],
    &["rescue", "--dry-run"],
    &["status"],
    &["restart", "app", "--dry-run"],
    // They may not ask for it, so nothing is restarted.
    &["restart", "app"],
    &["warm", "status"],
];

/// A Job whose sidecar was ended, two whose pods wait for what has no mark, of which a policy names
/// one in vain, and a pod that can be restarted.
async fn pods_are_there(world: &World) {
    let marked = vec![main_ok(world), sidecar(world, "log", EXITS_143)];
    world.create_job(job("ended", spec("Never", marked))).await;
    world.job_ends("ended", "Complete").await;
    world.events(1).await;
    world.policy("denied", json!([{"name": "my-agent"}])).await;
    for (name, unmarked) in [("denied", "my-agent"), ("unmarked", "fluent-bit")] {
        let containers = vec![main_ok(world), container(world, unmarked, EXITS_143)];
        let made = labelled(job(name, spec("Never", containers)), name);
        world.create_job(made).await;
    }
    let app = spec("Always", vec![container(world, "app", EXITS_143)]);
    world.create_pod(pod("app", app)).await;
    world.pod_is("app", "ready", is_ready).await;
    eventually("the main containers to end", || async {
        let pods = world.pods().await;
        let ended = pods.iter().filter(|pod| main_has_ended(pod));
        (ended.count() == 3).then_some(())
    })
    .await;
    // Of the image, and of the phase.
    eventually("both denials to be told", || async {
        let events = world.events(0).await;
        let denied = events.iter().filter(|(_, reason)| reason == "WriteDenied");
        (denied.count() >= 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn beside_an_installation_tenants_are_told_what_it_does_with_their_pods() {
    crds_are_there().await;
    // The installation brings its own.
    let world = World::without_leash("tenants-beside").await;
    let installation = Installation::new(&world).await;
    let policies = ["--set", "sidecarPolicies.enabled=true"];
    installation.helm("install", &policies).await;
    pods_are_there(&world).await;
    let mut all = Vec::new();
    for name in ROLES {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = account(&world, name, folder.path()).await;
        if name == "edit" {
            // The role may read policies once Kubernetes has added that to it.
            eventually("the denial to be explained", || async {
                let said = printed(&world, &kubeconfig, COMMANDS[1]).await;
                said.contains("Decision:\nWriteDenied: ").then_some(())
            })
            .await;
            // After two minutes; before, what is said depends on how long the machine takes.
            eventually("the pods to count as stuck", || async {
                let said = printed(&world, &kubeconfig, COMMANDS[4]).await;
                said.contains("unmarked sidecars").then_some(())
            })
            .await;
        }
        let mut record = String::new();
        records(&mut record, &world, (name, kubeconfig.as_path()), &COMMANDS).await;
        all.push((format!("{name}.txt"), record));
    }
    for (file, record) in &all {
        is_as_in(file, record);
    }
    installation.uninstall().await;
    installation.done().await;
    world.done().await;
}
