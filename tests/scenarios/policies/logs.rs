//! The last lines of a sidecar in the Event about its end.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, LogKey, Verb};

use crate::harness::{CONCURRENCY, Life, SWAPLET, World};
use crate::node::{Kubelet, terminated};
use crate::objects::pod;

/// Shows the stop for a second, and then the exit image.
const SHOWS_STOP: Kubelet = Kubelet {
    stop_code: 0,
    pulls: true,
    shows_stop: true,
    clock_ahead: 0,
};

fn start(world: &World, bytes: u16) -> Life {
    world.start(SWAPLET, CONCURRENCY, |settings| {
        settings.sidecar_log_bytes = bytes;
    })
}

fn logs(world: &World, previous: bool, written: &[u8]) {
    let of = LogKey {
        namespace: "default".to_owned(),
        pod: "p".to_owned(),
        container: "side".to_owned(),
        previous,
    };
    world.server.set_log(of, written);
}

async fn ended(world: &World, kubelet: Kubelet) {
    world.start_kubelet(kubelet);
    world.run_pod(&pod("p", "Never")).await;
    world.wait(1).await;
    world.ends("p", "main", 0).await;
}

/// The node shows the end of the exit image, and this of the container before it.
async fn shows_exit_image(world: &World, before: Value) {
    let status = |name: &str, image: &str, restarts: i64| {
        let id = format!("containerd://{name}-{restarts}");
        json!({"name": name, "image": image, "imageID": "", "containerID": id, "ready": false,
            "restartCount": restarts, "state": terminated(0, 0)})
    };
    let mut side = status("side", &world.image("p"), 1);
    side["lastState"] = before;
    let statuses = [status("main", "main:1", 0), side];
    let status = json!({"phase": "Succeeded", "containerStatuses": statuses});
    world.set_status("p", status).await;
}

fn told(world: &World) -> String {
    let mut notes = world.notes("p");
    let (reason, note) = notes.pop().unwrap();
    assert_eq!(reason, "SidecarEnded", "{notes:?}");
    note
}

fn reads(world: &World) -> usize {
    let all = world.requests().into_iter();
    all.filter(|request| request.subresource == "log").count()
}

/// Before and after the exit image has taken its place; whatever a tenant writes, it is one line.
#[tokio::test(start_paused = true)]
async fn the_last_lines_stand_in_the_one_event_about_the_end() {
    let written = b"old\n\x1b[31mflushing \"all\"\x1b[0m\ndone\n";
    for (kubelet, previous) in [(Kubelet::default(), true), (SHOWS_STOP, false)] {
        let world = World::new();
        let _life = start(&world, 30);
        logs(&world, !previous, b"");
        logs(&world, previous, written);
        ended(&world, kubelet).await;
        world.wait(10).await;
        assert!(
            told(&world).ends_with("; last of the log of side: \"old | flushing 'all' | done\""),
            "{}",
            told(&world)
        );
        assert_eq!(world.events("p"), ["SidecarEnded"]);
        assert_eq!(reads(&world), 1);
        world.assert_quiet().await;
    }
}

/// The exit image, which logs nothing, comes between the status and the answer.
#[tokio::test(start_paused = true)]
async fn the_log_of_the_exit_image_is_not_taken_for_that_of_the_sidecar() {
    let world = World::new();
    let _life = start(&world, 100);
    logs(&world, false, b"");
    logs(&world, true, b"flushed\n");
    world.fault(Effect::Delay(Duration::from_millis(1500)), |rule| {
        rule.verb(Verb::Get).resource("pods").subresource("log")
    });
    world.run_pod(&pod("p", "OnFailure")).await;
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    world.ends("p", "side", 143).await;
    world.wait(1).await;
    shows_exit_image(&world, json!({"terminated": {"exitCode": 143}})).await;
    world.wait(10).await;
    assert!(
        told(&world).ends_with("log of side: \"flushed\""),
        "{}",
        told(&world)
    );
    assert_eq!(reads(&world), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_unless_it_is_asked_for() {
    let world = World::new();
    let _life = start(&world, 0);
    logs(&world, true, b"secret\n");
    ended(&world, Kubelet::default()).await;
    world.wait(10).await;
    assert!(!told(&world).contains("log of"), "{}", told(&world));
    assert_eq!(reads(&world), 0);
}

/// A node that does not answer keeps back the Event for a moment, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_answer_delays_no_end_and_the_event_by_five_seconds() {
    let world = World::new();
    let life = start(&world, 100);
    world.fault(Effect::Hang, |rule| {
        rule.verb(Verb::Get).resource("pods").subresource("log")
    });
    ended(&world, Kubelet::default()).await;
    world.wait(3).await;
    assert_eq!(world.phase("p"), "Succeeded");
    assert_eq!(world.events("p"), [""; 0]);
    assert_eq!(life.pods_kept(), 0);
    world.wait(5).await;
    assert!(
        told(&world).ends_with("the log of side was not read: no answer in 5 s"),
        "{}",
        told(&world)
    );
}

#[tokio::test(start_paused = true)]
async fn without_the_right_the_end_is_told_all_the_same_and_readyz_says_what_is_missing() {
    let world = World::new();
    let life = start(&world, 100);
    let words = "pods \"p\" is forbidden: User \"swaplet\" cannot get resource \"pods/log\"";
    let fault = world.fault(Effect::reply(403).message(words), |rule| {
        rule.verb(Verb::Get).resource("pods").subresource("log")
    });
    ended(&world, Kubelet::default()).await;
    world.wait(10).await;
    let note = told(&world);
    assert!(
        note.ends_with("not read: the right is missing (deploy/sidecar-logs.yaml)"),
        "{note}"
    );
    let ready = life.health.ready().unwrap();
    assert!(ready.contains("last log lines of sidecars"), "{ready}");
    world.end_fault(fault);
}

/// As kubelets before 1.36 show it a second later.
#[tokio::test(start_paused = true)]
async fn one_that_the_node_has_dropped_is_said_to_be_gone() {
    let world = World::new();
    let _life = start(&world, 100);
    world.run_pod(&pod("p", "Never")).await;
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    shows_exit_image(&world, json!({})).await;
    world.wait(10).await;
    assert!(
        told(&world).ends_with("the log of side was not read: its node has dropped it"),
        "{}",
        told(&world)
    );
    assert_eq!(reads(&world), 0);
}

/// A node may send what it likes.
#[tokio::test(start_paused = true)]
async fn what_is_written_is_bounded() {
    let world = World::new();
    let _life = start(&world, 1024);
    logs(&world, true, &b"x\x1b[2J".repeat(1 << 20));
    ended(&world, Kubelet::default()).await;
    world.wait(10).await;
    let note = told(&world);
    assert!(note.len() <= 1024 && note.contains("xxx"), "{note}");
    assert!(!note.contains('\u{1b}'));
}
