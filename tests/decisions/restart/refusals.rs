//! What is refused, with the reason, before anything is written to the pod.

use serde_json::{Value, json};
use swaplet_core::cluster::headroom::{Headroom, Shortage};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::node::KubeletVersion;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::request::StatePhase;

use super::world::{DIGEST, World, pod, request};

/// The pod is not touched, and the reason is told; answers the reason.
#[track_caller]
fn refused(mut world: World) -> String {
    let before = world.pod.clone();
    let (phase, message) = world.assert_over("app");
    assert_eq!(
        (phase, world.swaps, world.reasons()),
        (StatePhase::Failed, 0, vec![Reason::RestartFailed]),
        "{message}"
    );
    assert_eq!(world.pod, before);
    assert!(!world.request.state("app").killed);
    message
}

fn under(policy: &str, change: impl Fn(&mut Value)) -> World {
    let mut pod = pod(policy);
    change(&mut pod);
    World::new(&request(&["app"], &json!({})), &pod)
}

fn forced(policy: &str, change: impl Fn(&mut Value)) -> World {
    let mut pod = pod(policy);
    change(&mut pod);
    World::new(&request(&["app"], &json!({"forceRecreate": true})), &pod)
}

/// The digest of the image after an update.
const OTHER: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

type Change = fn(&mut Value);

/// Changes of a pod that make a restart of `app` a risk under `Never`, and a word of the reason.
fn risks() -> Vec<(Change, &'static str)> {
    vec![
        (
            |pod| pod["spec"]["containers"][0]["imagePullPolicy"] = json!("Always"),
            "imagePullPolicy Always",
        ),
        (
            |pod| {
                pod["spec"]["containers"][0]["image"] = json!(format!("r.example/app@{DIGEST}"));
                pod["status"]["containerStatuses"][0]["imageID"] = json!("");
            },
            "does not report",
        ),
        (
            |pod| {
                pod["status"]["containerStatuses"][1]["state"] =
                    json!({"terminated": {"exitCode": 0}})
            },
            "no other container",
        ),
    ]
}

#[test]
fn under_never_what_might_not_come_back_is_refused_unless_it_is_forced() {
    for (change, word) in risks() {
        let message = refused(under("Never", change));
        assert!(
            message.contains(word) && message.contains("forceRecreate"),
            "{message}"
        );
        let mut forced = forced("Never", change);
        forced.settle();
        assert_eq!(forced.swaps, 1, "{word}");
        let mut always = under("Always", change);
        always.settle();
        assert_eq!(always.swaps, 1, "{word}");
        // There an exit code of 0 is the end, and others are not.
        if word == "no other container" {
            let mut on_failure = under("OnFailure", change);
            on_failure.settle();
            assert_eq!(on_failure.swaps, 1, "{word}");
        } else {
            let message = refused(under("OnFailure", change));
            assert!(
                message.contains(word)
                    && message.contains("exit code 0")
                    && message.contains("forceRecreate"),
                "{message}"
            );
        }
    }
    for node in [NodeClass::VirtualUpdates, NodeClass::Unknown] {
        let mut world = World::of("Never");
        world.node = Some(node);
        assert!(refused(world).contains("virtual"));
    }
}

/// The answer for a pod with a pull secret, on a kubelet of this version.
fn with_pull_secrets(policy: &str, force: bool, kubelet: &str) -> World {
    let mut pod = pod(policy);
    pod["spec"]["imagePullSecrets"] = json!([{"name": "key"}]);
    let mut world = World::new(&request(&["app"], &json!({"forceRecreate": force})), &pod);
    world.kubelet = KubeletVersion::read(kubelet);
    world
}

#[test]
fn l2_where_pull_secrets_are_checked_again_what_may_be_lost_is_refused() {
    for policy in ["Never", "OnFailure"] {
        for kubelet in ["v1.35.0", "v1.37.2", ""] {
            let message = refused(with_pull_secrets(policy, false, kubelet));
            assert!(
                message.contains("imagePullSecrets") && message.contains("forceRecreate"),
                "{message}"
            );
            let mut forced = with_pull_secrets(policy, true, kubelet);
            forced.settle();
            assert_eq!(forced.swaps, 1);
        }
        let mut before = with_pull_secrets(policy, false, "v1.34.4");
        before.settle();
        assert_eq!(before.swaps, 1, "{policy}");
        let mut public = World::of(policy);
        public.kubelet = KubeletVersion::read("v1.37.2");
        public.settle();
        assert_eq!(public.swaps, 1, "{policy}");
    }
    let mut always = with_pull_secrets("Always", false, "v1.37.2");
    always.settle();
    assert_eq!(always.swaps, 1);
}

#[test]
fn l2_the_short_and_the_long_name_of_docker_hub_are_two_to_these_kubelets() {
    let on = |kubelet: &str| {
        let mut world = under("Never", |pod| {
            pod["spec"]["containers"][0]["image"] = json!("app:1");
            let status = &mut pod["status"]["containerStatuses"][0];
            status["image"] = json!("docker.io/library/app:1");
            status["imageID"] = json!(format!("mirror.example/app@{DIGEST}"));
        });
        world.kubelet = KubeletVersion::read(kubelet);
        world
    };
    assert!(refused(on("v1.37.2")).contains("two images"));
    let mut before = on("v1.34.4");
    before.settle();
    assert_eq!(before.swaps, 1);
}

/// `kubectl set image` while the old container stops, and a restart: the old bytes would run by the
/// new name, for good.
#[test]
fn g2_what_the_node_reports_of_the_image_before_is_not_written() {
    let updated = |policy: &str, force: bool| {
        let mut pod = pod(policy);
        pod["metadata"]["generation"] = json!(2);
        pod["status"]["observedGeneration"] = json!(2);
        pod["spec"]["containers"][0]["image"] = json!("r.example/app:3");
        World::new(&request(&["app"], &json!({"forceRecreate": force})), &pod)
    };
    let policies = ["Always", "OnFailure", "Never"].into_iter();
    let worlds = policies.flat_map(|policy| [updated(policy, false), updated(policy, true)]);
    for mut world in worlds {
        let decision = world.settle();
        assert_eq!(
            (decision.reason, world.swaps, decision.again.is_some()),
            (Reason::RequestWaits, 0, true)
        );
        let mut never_told = world.clone();
        let (phase, message) = never_told.later(600).assert_over("app");
        assert!(
            phase == StatePhase::Failed
                && message.contains("not reported that it has started r.example/app:3, only")
                && message.contains("--park-image"),
            "{message}"
        );
        let mut late = world.clone();
        late.request.active_deadline_seconds = Some(300);
        let (phase, message) = late.later(300).assert_over("app");
        assert!(
            phase == StatePhase::Failed
                && message.contains("activeDeadlineSeconds; node")
                && message.contains("only r.example/app:1, which"),
            "{message}"
        );
        world.node_says("app", |pod, index| {
            pod.details[index].image_id = format!("r.example/app@{OTHER}").into();
            let status = pod.pod.containers[index].status.as_mut().unwrap();
            status.image = "r.example/app:3".into();
        });
        world.settle();
        let written = format!("r.example/app:3-restart-3@{OTHER}");
        assert_eq!((world.image("app"), world.swaps), (&*written, 1));
    }
}

#[test]
fn a_containers_own_policy_outranks_the_pods() {
    let change = |pod: &mut Value| {
        pod["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
        pod["spec"]["containers"][0]["restartPolicy"] = json!("Never");
    };
    assert!(refused(under("Always", change)).contains("imagePullPolicy Always"));
}

#[test]
fn without_another_spelling_nothing_is_changed_also_not_by_force() {
    let change = |pod: &mut Value| pod["status"]["containerStatuses"][0]["imageID"] = json!("");
    assert!(refused(under("Always", change)).contains("r.example/app:1 has no other spelling"));
    assert!(refused(forced("Always", change)).contains("no other spelling"));
}

#[test]
fn nodes_that_cannot_are_not_asked_also_not_by_force() {
    for (node, word) in [
        (NodeClass::VirtualInert, "ignores"),
        (NodeClass::VirtualRejects, "fails on"),
    ] {
        let mut world = forced("Always", |_| {});
        world.node = Some(node);
        assert!(refused(world).contains(word));
    }
}

/// A pod whose native sidecar `mesh` runs.
fn with_native_sidecar() -> Value {
    let mut pod = pod("Always");
    let mut mesh = pod["status"]["containerStatuses"][0].clone();
    (mesh["name"], mesh["imageID"]) = (json!("mesh"), json!(format!("r.example/mesh@{DIGEST}")));
    pod["spec"]["initContainers"] = json!([{"name": "setup", "image": "r.example/setup:1"},
        {"name": "mesh", "image": "r.example/mesh:1", "restartPolicy": "Always"}]);
    pod["status"]["initContainerStatuses"] = json!([mesh]);
    pod
}

#[test]
fn a_native_sidecar_is_restarted_by_kubelets_that_do_not_ignore_it() {
    let asks = |node, kubelet: &str| {
        let mut world = World::new(
            &request(&["mesh"], &json!({"forceRecreate": true})),
            &with_native_sidecar(),
        );
        (world.node, world.kubelet) = (Some(node), KubeletVersion::read(kubelet));
        world.settle();
        let found = world.pod.as_ref().unwrap().find("mesh").unwrap();
        (
            world.swaps,
            found.1.image.to_string(),
            world.state("mesh").1,
        )
    };
    for kubelet in ["v1.32.0", "v1.34.4"] {
        let (swaps, image, _) = asks(NodeClass::Kubelet, kubelet);
        assert_eq!(
            (swaps, image),
            (1, format!("r.example/mesh:1-restart-2@{DIGEST}")),
            "{kubelet}"
        );
    }
    for (node, kubelet, word) in [
        (NodeClass::Kubelet, "v1.30.14", "kubelet 1.30"),
        (NodeClass::Kubelet, "", "does not report"),
        (NodeClass::VirtualUpdates, "v1.34.4", "ordinary nodes only"),
        (NodeClass::Unknown, "v1.34.4", "ordinary nodes only"),
    ] {
        let (swaps, _, message) = asks(node, kubelet);
        assert!(swaps == 0 && message.contains(word), "{message}");
    }
}

/// Rules with this action after one exit code.
fn rules(action: &str, code: i64) -> Value {
    json!([{"action": action, "exitCodes": {"operator": "In", "values": [code]}}])
}

/// Also not by force: the main containers of the pod would repeat their work.
#[test]
fn a_container_whose_end_may_restart_all_containers_is_not_stopped() {
    let acting = |action: &'static str| {
        move |pod: &mut Value| {
            pod["spec"]["containers"][0]["restartPolicyRules"] = rules(action, 42);
        }
    };
    for policy in ["Always", "OnFailure", "Never"] {
        for action in ["RestartAllContainers", "WhateverComesLater"] {
            let message = refused(forced(policy, acting(action)));
            assert!(message.contains("may restart all containers"), "{message}");
        }
        let mut alone = forced(policy, acting("Restart"));
        alone.settle();
        assert_eq!(alone.swaps, 1, "{policy}");
    }
    let mut pod = with_native_sidecar();
    pod["spec"]["initContainers"][1]["restartPolicyRules"] = rules("RestartAllContainers", 42);
    let mut world = World::new(&request(&["mesh"], &json!({"forceRecreate": true})), &pod);
    world.settle();
    let (phase, message) = world.state("mesh");
    assert_eq!((phase, world.swaps), (StatePhase::Failed, 0), "{message}");
    assert!(message.contains("may restart all containers"), "{message}");
}

/// Under `Never` a container whose rules bring it back has not ended for good.
#[test]
fn the_restart_rules_of_a_container_outrank_its_policy() {
    let ended = |code: i64| {
        move |pod: &mut Value| {
            pod["spec"]["containers"][0]["restartPolicyRules"] = rules("Restart", 42);
            pod["status"]["containerStatuses"][0]["state"] =
                json!({"terminated": {"exitCode": code}});
        }
    };
    assert!(refused(forced("Never", ended(1))).contains("does not start it again"));
    let mut world = forced("Never", ended(42));
    world.settle();
    assert_eq!(world.swaps, 1);
}

#[test]
fn containers_that_are_over_are_not_restarted() {
    let ended = |code: i64| {
        move |pod: &mut Value| {
            pod["status"]["containerStatuses"][0]["state"] =
                json!({"terminated": {"exitCode": code}})
        }
    };
    assert!(refused(forced("Never", ended(1))).contains("does not start it again"));
    assert!(refused(forced("OnFailure", ended(0))).contains("does not start it again"));
    assert!(
        refused(forced(
            "Never",
            |pod| pod["spec"]["containers"][0]["image"] = json!(crate::expect::EXIT)
        ))
        .contains("exit image")
    );
    let trouble = |pod: &mut Value| {
        pod["status"]["containerStatuses"][0]["state"] =
            json!({"waiting": {"reason": "ImagePullBackOff"}})
    };
    assert!(refused(under("Always", trouble)).contains("ImagePullBackOff"));
}

#[test]
fn terminate_outranks_restart() {
    let change = |pod: &mut Value| {
        pod["spec"]["containers"][0]["env"] =
            json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]);
        pod["status"]["containerStatuses"][1]["state"] = json!({"terminated": {"exitCode": 0}});
    };
    assert!(refused(forced("OnFailure", change)).contains("main containers of the pod are done"));
}

#[test]
fn a_restart_that_would_fail_the_job_is_refused_and_one_that_has_to_wait_waits() {
    let mut world = World::of("OnFailure");
    world.room = Headroom::NeverFits(Shortage {
        limit: 1,
        restarts: 0,
        under_way: 0,
        swaps: 1,
        spared: 0,
    });
    assert!(refused(world).contains("backoffLimit 1"));
    let mut world = World::of("OnFailure");
    world.room = Headroom::JobUnknown { trouble: None };
    assert!(refused(world).contains("Job"));

    let mut world = World::of("OnFailure");
    world.room = Headroom::Wait(Shortage {
        limit: 6,
        restarts: 5,
        under_way: 2,
        swaps: 1,
        spared: 0,
    });
    let decision = world.settle();
    assert_eq!(
        (decision.reason, world.swaps, decision.again.is_some()),
        (Reason::RequestWaits, 0, true)
    );
    world.room = Headroom::Fits;
    world.settle();
    assert_eq!(world.swaps, 1);
}

/// What OpenKruise's webhook refuses when a request is created is refused when it is taken up, in
/// its words.
#[test]
fn the_words_of_openkruises_webhook() {
    let with = |request: Value, change: fn(&mut Value)| {
        let mut pod = pod("Always");
        change(&mut pod);
        let mut world = World::new(&request, &pod);
        world.settle();
        assert_eq!(world.swaps, 0);
        assert!(world.request.pod_uid.is_none() && world.request.is_completed());
        world.request.message.to_string()
    };
    let plain = || request(&["app"], &json!({}));
    assert_eq!(
        with(request(&[], &json!({})), |_| {}),
        "containers list can not be null"
    );
    assert_eq!(
        with(request(&["app", "app"], &json!({})), |_| {}),
        "can not recreate app multi times"
    );
    assert_eq!(
        with(request(&["nobody"], &json!({})), |_| {}),
        "container nobody not found in Pod"
    );
    assert_eq!(
        with(plain(), |pod| pod["status"]["phase"] = json!("Failed")),
        "not allowed to recreate containers in an inactive Pod"
    );
    assert_eq!(
        with(plain(), |pod| pod["spec"]["nodeName"] = json!("")),
        "not allowed to recreate containers in a pending Pod"
    );
    assert_eq!(
        with(plain(), |pod| pod["status"]["containerStatuses"] =
            json!([])),
        "not found app containerStatus in Pod Status"
    );
    let native = with(request(&["setup"], &json!({})), |pod| {
        pod["spec"]["initContainers"] = json!([{"name": "setup"}])
    });
    assert!(native.contains("init container"), "{native}");
    let mut absent = World::of("Always");
    absent.pod = None;
    absent.settle();
    assert_eq!(&*absent.request.message, "no found Pod named p");
}

/// Its first start would count as the restart.
#[test]
fn d6_a_container_that_was_never_started_is_refused_on_ordinary_nodes() {
    let of = |node| {
        let mut world = World::of("Always");
        world.node = Some(node);
        world.node_says("app", |pod, index| {
            let status = pod.pod.containers[index].status.as_mut().unwrap();
            status.container_id = "".into();
        });
        world
    };
    let words = refused(of(NodeClass::Kubelet));
    assert_eq!(
        words,
        "no containerID in app containerStatus, maybe the container has not been initialized"
    );
    // No container has an ID on some virtual nodes.
    let mut started = of(NodeClass::VirtualUpdates);
    started.settle();
    assert_eq!(started.swaps, 1);
}
