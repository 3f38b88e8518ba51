//! OpenKruise's manager, and who of both ends the sidecars of a pod.

use serde_json::json;
use swaplet_testbed::apiserver::{Effect, Rule, Verb};

use super::daemon::OBEDIENT;
use super::{JSON, REQUESTS, both};
use crate::harness::World;
use crate::node::Kubelet;
use crate::objects::pod;
use crate::predownload::install_clone_sets;

#[tokio::test(start_paused = true)]
async fn a_pod_that_openkruise_acts_on_is_left_to_it() {
    let world = World::with_openkruise("OnFailure").await;
    world.start_manager("SidecarTerminator=true").await;
    let _life = world.start_beside(both());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    let uid = world.get("p")["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    let theirs = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
        "metadata": {"name": format!("sidecar-termination-{uid}")}, "spec": {"podName": "p", "containers": [{"name": "side"}]},
    });
    world
        .request(
            http::Method::POST,
            &format!("/apis/apps.kruise.io/v1alpha1/namespaces/default/{REQUESTS}"),
            JSON,
            &theirs,
        )
        .await;
    world.start_daemon(OBEDIENT);
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 0, 0)
    );
    assert_eq!(world.events("p"), ["LeftToOpenKruise"]);
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn switching_openkruise_off_is_noticed() {
    let world = World::with_openkruise("OnFailure").await;
    world.start_manager("SidecarTerminator=true").await;
    let _life = world.start_beside(both());
    world.start_kubelet(Kubelet::default());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(100).await;
    assert_eq!(
        (world.patches("p"), world.events("p")),
        (0, vec!["LeftToOpenKruise".to_owned()])
    );
    world.set_feature_gates("SidecarTerminator=false").await;
    world.wait(65).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 1, 0)
    );
    assert_eq!(world.events("p"), ["LeftToOpenKruise", "SidecarEnded"]);
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn rights_that_are_missing_are_told() {
    let world = World::with_openkruise("OnFailure").await;
    world.start_manager("SidecarTerminator=true").await;
    world.fault(Effect::reply(403), |rule| {
        rule.verb(Verb::List).resource("deployments")
    });
    let _life = world.start_beside(both());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.patches("p"), world.events("p")),
        (0, vec!["OpenKruiseUnclear".to_owned()])
    );
    world.assert_quiet_beside_openkruise().await;
}

/// Somebody has applied swaplet's CRD of requests, and given it no rights to look for OpenKruise,
/// for there is none.
#[tokio::test(start_paused = true)]
async fn swaplets_crd_alone_is_no_openkruise() {
    let world = World::new();
    world.run_pod(&pod("p", "OnFailure")).await;
    world.start_kubelet(Kubelet::default());
    for resource in [
        "deployments",
        "leases",
        "mutatingwebhookconfigurations",
        REQUESTS,
    ] {
        world.fault(Effect::reply(403), |rule| rule.resource(resource));
    }
    let _life = world.start_beside(both());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(10).await;
    world.assert_ended_by_one_patch("p");
}

/// A manager that cannot be asked for is no manager that is gone.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_changes_nothing() {
    let world = World::with_openkruise("OnFailure").await;
    world.start_manager("SidecarTerminator=true").await;
    let _life = world.start_beside(both());
    world.wait(1).await;
    world.fault(Effect::reply(500), |rule| {
        rule.verb(Verb::List).resource("deployments")
    });
    world.wait(100).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.patches("p"), world.events("p")),
        (0, vec!["LeftToOpenKruise".to_owned()])
    );
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn a_manager_without_the_sidecar_terminator_is_no_rival() {
    let world = World::with_openkruise("OnFailure").await;
    world.start_manager("ImagePullJobGate=true").await;
    let _life = world.start_beside(both());
    world.start_kubelet(Kubelet::default());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 1, 0)
    );
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet_beside_openkruise().await;
}

/// The main container of `p` ends while this fault is there; its pod is left to OpenKruise.
async fn is_left_under(effect: Effect, narrow: impl Fn(Rule) -> Rule) {
    let world = World::with_openkruise("OnFailure").await;
    world.start_manager("SidecarTerminator=true").await;
    // Swaplet's own CRDs alone are no OpenKruise.
    install_clone_sets(&world).await;
    world.start_kubelet(Kubelet::default());
    world.fault(effect, narrow);
    let _life = world.start_beside(both());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(400).await;
    assert_eq!(
        (world.patches("p"), world.events("p")),
        (0, vec!["LeftToOpenKruise".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn u33_where_nobody_may_ask_for_its_kinds_openkruise_is_not_taken_for_absent() {
    is_left_under(Effect::reply(403).into(), |rule| {
        rule.outside("/apis/apps.kruise.io")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn u35_while_the_pods_of_the_daemon_cannot_be_seen_none_is_taken_from_it() {
    let of_daemon = |rule: Rule| {
        rule.verb(Verb::List)
            .resource("pods")
            .namespace("kruise-system")
    };
    is_left_under(Effect::reply(503).into(), |rule| of_daemon(rule).times(3)).await;
    is_left_under(Effect::reply(503).into(), of_daemon).await;
    is_left_under(Effect::reply(403).into(), of_daemon).await;
}

#[tokio::test(start_paused = true)]
async fn u98_where_its_terminator_is_off_daemons_that_cannot_be_listed_keep_nobody() {
    let world = World::with_openkruise("OnFailure").await;
    world.start_manager("ImagePullJobGate=true").await;
    world.start_kubelet(Kubelet::default());
    world.fault(Effect::reply(503), |rule| {
        rule.verb(Verb::List)
            .resource("pods")
            .namespace("kruise-system")
    });
    let _life = world.start_beside(both());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(90).await;
    assert_eq!(world.phase("p"), "Succeeded", "{:?}", world.notes("p"));
}

/// Whether its terminator is on cannot be known, which is told, like all that nobody does.
#[tokio::test(start_paused = true)]
async fn u118_where_its_manager_cannot_be_read_a_pod_is_not_kept_without_a_word() {
    let world = World::with_openkruise("OnFailure").await;
    world.start_manager("ImagePullJobGate=true").await;
    world.start_kubelet(Kubelet::default());
    world.fault(Effect::reply(503), |rule| rule.resource("deployments"));
    let _life = world.start_beside(both());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(90).await;
    let told = world.events("p");
    assert_eq!(told, ["OpenKruiseUnclear"], "{:?}", world.notes("p"));
}
