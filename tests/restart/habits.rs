//! What is not there, and how things are named, at an API server that answers.

use serde_json::json;
use swaplet_testbed::apiserver::{Effect, Rule};

use crate::restart::world::World;

#[tokio::test]
async fn a15_what_is_not_there_is_exit_code_2() {
    let world = World::new().await;
    let park = ["--park-image", "r.example/park:v1"];
    let probe = ["probe", "none", "--exit-image", "r.example/exit:v1"];
    for words in [
        vec!["explain", "none"],
        vec!["explain", "pod", "none"],
        vec!["restart", "none"],
        vec!["restart", "deployment", "none"],
        vec!["nodes", "none"],
        [&["warm", "r.example/app:v1", "--node", "none"][..], &park].concat(),
        [&probe[..], &park].concat(),
    ] {
        let ran = world.run(&words).await;
        assert_eq!(ran.code, Some(2), "{words:?}: {ran:?}");
        assert!(ran.err.contains("none"), "{words:?}: {ran:?}");
    }
}

#[tokio::test]
async fn a12_nothing_is_said_as_kubectl_says_it() {
    let world = World::new().await;
    for (words, expected) in [
        (
            &["parked"][..],
            "No container is parked in namespace default.\n",
        ),
        (
            &["-n", "x", "parked"],
            "No container is parked in namespace x.\n",
        ),
        (&["-A", "parked"], "No container is parked.\n"),
    ] {
        let ran = world.run(words).await;
        assert_eq!((ran.code, &*ran.err), (Some(0), expected), "{words:?}");
        assert!(ran.out.is_empty(), "{words:?}");
    }
}

#[tokio::test]
async fn things_are_named_as_for_kubectl() {
    let world = World::new().await;
    world.pod("web-0").await;
    world.deployment(1, &["web-1-a"]).await;
    for words in [
        &[
            "restart",
            "pod",
            "web-0",
            "-c",
            "app",
            "--dry-run",
            "-o",
            "name",
        ][..],
        &[
            "restart",
            "pod/web-0",
            "-c",
            "app",
            "--dry-run",
            "-o",
            "name",
        ],
        &["-o", "name", "restart", "web-0", "-c", "app", "--dry-run"],
    ] {
        let ran = world.run(words).await;
        assert_eq!((ran.code, &*ran.out), (Some(0), "pod/web-0\n"), "{ran:?}");
    }
    let ran = world
        .run(&[
            "restart",
            "deployment",
            "web",
            "-c",
            "app",
            "--dry-run",
            "-o",
            "name",
        ])
        .await;
    assert_eq!((ran.code, &*ran.out), (Some(0), "pod/web-1-a\n"), "{ran:?}");
    let ran = world.run(&["explain", "pod", "web-0"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// As for the roles `view` and `edit` of Kubernetes, in whose namespaces jobs with secrets pull.
#[tokio::test]
async fn u177_what_warmer_pods_show_is_told_to_who_may_not_list_nodes() {
    let world = World::new().await;
    let meta = json!({"name": "swaplet-warm-1", "labels": {"swaplet.io/warm": "run"},
        "annotations": {"swaplet.io/warm-node": "node-1", "swaplet.io/warm-image": "r.example/app:v1"}});
    let containers = json!([{"name": "warmer", "image": "r.example/app:v1"}]);
    let spec = json!({"nodeName": "node-1", "containers": containers});
    world
        .create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}))
        .await;
    let forbidden = Rule::new(Effect::reply(403).message("you may not"));
    world.server.faults().add(forbidden.resource("nodes"));

    let ran = world.run(&["warm", "status"]).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.out.contains("node-1") && ran.out.contains("r.example/app:v1"),
        "{ran:?}"
    );
    let so = "only what warmer pods show is printed: you may not";
    assert!(ran.err.contains(so), "{ran:?}");
    // Of others nothing is known, and not even that the nodes do not list them.
    let ran = world.run(&["warm", "status", "r.example/other:v1"]).await;
    assert_eq!((ran.code, &*ran.out), (Some(2), ""), "{ran:?}");
    // Which nodes are selected is not known.
    let ran = world.run(&["warm", "status", "-l", "pool=a"]).await;
    assert_eq!((ran.code, &*ran.out), (Some(2), ""), "{ran:?}");
    assert!(
        ran.err.contains("cannot list nodes: you may not"),
        "{ran:?}"
    );

    let forbidden = Rule::new(Effect::reply(403).message("you may not"));
    world.server.faults().add(forbidden.resource("pods"));
    let ran = world.run(&["warm", "status"]).await;
    assert_eq!((ran.code, &*ran.out), (Some(2), ""), "{ran:?}");
    assert!(
        ran.err.contains("and so nothing is known: you may not")
            && ran.err.contains("warmer pods are not shown")
            && !ran.err.contains("only what"),
        "{ran:?}"
    );
}
